/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/cache.hpp> - a cache of C++ objects of one type, for C++17 and later.
 *
 *	ukmem::cache<session> sessions("session");
 *
 *	session *s = sessions.create(socket, address);
 *	sessions.destroy(s);
 *
 *	auto owned = sessions.make(socket, address);		// destroyed by itself
 *
 * The cache holds memory, not objects: create() runs the constructor and destroy() the
 * destructor each time. (Constructors of slabs, as kmem_cache_create() has them, need objects
 * that are freed in their constructed state; for these use the functions of <ukmem/slab.h>.)
 *
 * Thread safety: every function may be called from any thread at any time, except the
 * destructor and the functions that move the cache, during which nothing may use it.
 * Signal safety: try_create() with GFP_NOWAIT or GFP_ATOMIC, and destroy(), as far as
 * <ukmem/slab.h> says and the object's constructor and destructor are safe.
 */
#ifndef UKMEM_CACHE_HPP
#define UKMEM_CACHE_HPP

#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <ukmem/allocator.hpp>
#include <ukmem/slab.h>

namespace ukmem
{

namespace detail
{

/* A cache that is destroyed with its owner. */
class owned_cache
{
      public:
	owned_cache(const char *name, std::size_t size, std::size_t align, slab_flags_t flags)
	    : cache_(size > UINT32_MAX || align > UINT32_MAX
			     ? nullptr
			     : (kmem_cache_create)(name, static_cast<unsigned int>(size),
						   static_cast<unsigned int>(align), flags,
						   nullptr))
	{
		if (!cache_)
			fail<std::bad_alloc>();
	}

	owned_cache(owned_cache &&other) noexcept : cache_(std::exchange(other.cache_, nullptr))
	{
	}

	owned_cache &operator=(owned_cache &&other) noexcept
	{
		if (this != &other) {
			kmem_cache_destroy(cache_);
			cache_ = std::exchange(other.cache_, nullptr);
		}
		return *this;
	}

	owned_cache(const owned_cache &) = delete;
	owned_cache &operator=(const owned_cache &) = delete;

	~owned_cache()
	{
		kmem_cache_destroy(cache_);
	}

	struct kmem_cache *get() const noexcept
	{
		return cache_;
	}

      private:
	struct kmem_cache *cache_;
};

} // namespace detail

/** class cache_delete - the deleter of objects that a cache made. */
template <typename T> class cache_delete
{
      public:
	explicit cache_delete(struct kmem_cache *s = nullptr) noexcept : cache_(s)
	{
	}

	/** Of the same objects, which become const. A base class may lie at another address. */
	template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T> &&
							  !std::is_const_v<U>>>
	cache_delete(const cache_delete<U> &other) noexcept : cache_(other.cache_)
	{
	}

	void operator()(T *object) const noexcept
	{
		object->~T();
		(kmem_cache_free)(cache_, const_cast<std::remove_const_t<T> *>(object));
	}

      private:
	template <typename U> friend class cache_delete;

	struct kmem_cache *cache_;
};

/** cache_ptr - owns an object of a cache. The cache must live as long. */
template <typename T> using cache_ptr = std::unique_ptr<T, cache_delete<T>>;

/**
 * class cache - a cache of objects of type T
 *
 * T may have up to 16384 bytes and an alignment of up to 4096. Objects must be destroyed before
 * their cache is. If some are left, the library logs their number, and they stay valid, with
 * their memory; their destructors do not run. A sample of the heap profile that is left is not
 * counted, and must not be destroyed after its cache (kmem_cache_destroy in <ukmem/slab.h>).
 */
template <typename T> class cache
{
	static_assert(std::is_object_v<T> && !std::is_array_v<T> &&
			      std::is_same_v<T, std::remove_cv_t<T>>,
		      "a cache of objects, neither const nor volatile");
	static_assert(sizeof(T) <= 16384, "caches have objects of up to 16384 bytes");
	static_assert(alignof(T) <= 4096, "caches align objects to up to 4096 bytes");

      public:
	/**
	 * cache - make a cache
	 * @name:  shown in statistics and reports; copied, at most 31 bytes are kept
	 * @flags: SLAB_* (<ukmem/slab.h>) or 0
	 *
	 * Throws bad_alloc if there is no memory.
	 */
	explicit cache(const char *name, slab_flags_t flags = 0)
	    : cache_(name, sizeof(T), alignof(T), flags)
	{
	}

	/** create - make an object of @args. Throws bad_alloc, and what its constructor throws.
	 */
	template <typename... Args> [[nodiscard]] T *create(Args &&...args)
	{
		T *object = try_create(GFP_KERNEL, std::forward<Args>(args)...);

		if (!object)
			detail::fail<std::bad_alloc>();
		return object;
	}

	/** try_create - the same with @gfp; nullptr: no memory. */
	template <typename... Args> [[nodiscard]] T *try_create(gfp_t gfp, Args &&...args)
	{
		memory room(cache_.get(), gfp);

		if (!room.address)
			return nullptr;
		T *object = ::new (room.address) T(std::forward<Args>(args)...);
		room.address = nullptr;
		return object;
	}

	/** make - create() an object that is destroyed with the result. */
	template <typename... Args> [[nodiscard]] cache_ptr<T> make(Args &&...args)
	{
		return cache_ptr<T>(create(std::forward<Args>(args)...),
				    cache_delete<T>(cache_.get()));
	}

	/** destroy - end an object of this cache and free its memory. nullptr is ignored. */
	void destroy(T *object) noexcept
	{
		if (object)
			cache_delete<T>(cache_.get())(object);
	}

	/** size - objects in use, without samples of a profile; exact if no thread is busy. */
	[[nodiscard]] std::size_t size() const noexcept
	{
		return kmem_cache_nr_allocated(cache_.get());
	}

	/** shrink - give free objects and slabs back to the page allocator. May block. */
	void shrink() noexcept
	{
		kmem_cache_shrink(cache_.get());
	}

	/** get - the cache, for the functions of <ukmem/slab.h>; nullptr: it was moved away. */
	[[nodiscard]] struct kmem_cache *get() const noexcept
	{
		return cache_.get();
	}

      private:
	/* Memory for an object; freed if the constructor throws. */
	struct memory {
		memory(struct kmem_cache *s, gfp_t gfp)
		    : cache(s), address((kmem_cache_alloc)(s, gfp))
		{
		}

		~memory()
		{
			if (address)
				(kmem_cache_free)(cache, address);
		}

		memory(const memory &) = delete;
		memory &operator=(const memory &) = delete;

		struct kmem_cache *cache;
		void *address;
	};

	detail::owned_cache cache_;
};

} // namespace ukmem

#endif
