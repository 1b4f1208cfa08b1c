/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/pmr.hpp> - memory resources over kmalloc and over a cache, for C++17 and later.
 *
 *	std::pmr::vector<int> v(ukmem::kmalloc_resource());
 *	std::pmr::set_default_resource(ukmem::kmalloc_resource());
 *
 *	ukmem::cache_resource nodes("list node", 32);
 *	std::pmr::list<int> list(&nodes);
 *
 * Thread safety: every function may be called from any thread at any time, except the
 * destructor of a resource over a cache.
 * Signal safety: none, since they allocate with GFP_KERNEL; deallocate() as kfree.
 */
#ifndef UKMEM_PMR_HPP
#define UKMEM_PMR_HPP

#include <memory_resource>

#include <ukmem/allocator.hpp>
#include <ukmem/cache.hpp>

namespace ukmem
{

namespace detail
{

class kmalloc_memory_resource final : public std::pmr::memory_resource
{
	void *do_allocate(std::size_t size, std::size_t align) override
	{
		void *p = ukmem::allocate(size, align);

		if (!p)
			fail<std::bad_alloc>();
		return p;
	}

	void do_deallocate(void *p, std::size_t size, std::size_t align) override
	{
		ukmem::deallocate(p, size, align);
	}

	/* A dynamic_cast would read the type of @other, which has none if its code was compiled
	 * with -fno-rtti. */
	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}
};

} // namespace detail

/**
 * kmalloc_resource - the memory resource over kmalloc
 *
 * Result: always the same one, in shared libraries too, also if they hide their symbols. It is
 * never destroyed, so that objects with static storage may use it.
 *
 * A library that dlopen() loads finds the program's resource if the program is linked with
 * -rdynamic and calls this function. Otherwise it may have a resource of its own: memory of
 * either may be freed by the other, but they are not equal, so containers copy elements instead
 * of moving storage.
 */
__attribute__((__visibility__("default"))) inline std::pmr::memory_resource *
kmalloc_resource() noexcept
{
	alignas(detail::kmalloc_memory_resource) static unsigned char
		room[sizeof(detail::kmalloc_memory_resource)];
	static auto *const resource = ::new (room) detail::kmalloc_memory_resource;

	return resource;
}

/**
 * class cache_resource - a memory resource over a cache of its own
 *
 * Requests of up to the objects' size and alignment get an object each; it passes larger ones
 * to @upstream. So it is for containers with nodes, whose size is the same or nearly so.
 */
class cache_resource final : public std::pmr::memory_resource
{
      public:
	/**
	 * cache_resource - make a resource and its cache
	 * @name:     of the cache; copied, at most 31 bytes are kept
	 * @size:     of an object, up to 16384 bytes
	 * @align:    of an object, up to 4096 bytes; 0: the default
	 * @flags:    SLAB_* (<ukmem/slab.h>) or 0
	 * @upstream: for requests that no object is large enough for; must live as long
	 *
	 * Throws bad_alloc: no memory, or an invalid size or alignment.
	 */
	explicit cache_resource(const char *name, std::size_t size,
				std::size_t align = alignof(std::max_align_t),
				slab_flags_t flags = 0,
				std::pmr::memory_resource *upstream = kmalloc_resource())
	    : size_(size), align_(align ? align : alignof(std::max_align_t)),
	      upstream_(upstream), cache_(name, size, align_, flags)
	{
	}

	cache_resource(const cache_resource &) = delete;
	cache_resource &operator=(const cache_resource &) = delete;

	/** get - the cache, for the functions of <ukmem/slab.h>. */
	[[nodiscard]] struct kmem_cache *get() const noexcept
	{
		return cache_.get();
	}

	[[nodiscard]] std::pmr::memory_resource *upstream_resource() const noexcept
	{
		return upstream_;
	}

      private:
	bool fits(std::size_t size, std::size_t align) const noexcept
	{
		return size <= size_ && align <= align_;
	}

	void *do_allocate(std::size_t size, std::size_t align) override
	{
		void *p;

		if (!fits(size, align))
			return upstream_->allocate(size, align);
		p = (kmem_cache_alloc)(cache_.get(), GFP_KERNEL);
		if (!p)
			detail::fail<std::bad_alloc>();
		return p;
	}

	void do_deallocate(void *p, std::size_t size, std::size_t align) override
	{
		if (fits(size, align))
			(kmem_cache_free)(cache_.get(), p);
		else
			upstream_->deallocate(p, size, align);
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

	std::size_t size_, align_; /* before cache_, which is made of them */
	std::pmr::memory_resource *upstream_;
	detail::owned_cache cache_;
};

} // namespace ukmem

#endif
