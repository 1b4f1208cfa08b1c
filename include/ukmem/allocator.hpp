/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/allocator.hpp> - kmalloc as a standard allocator, for C++17 and later.
 *
 *	std::vector<int, ukmem::allocator<int>> v;
 *	std::map<int, int, std::less<>, ukmem::allocator<std::pair<const int, int>>> m;
 *
 * ukmem::allocate() and ukmem::deallocate() are what the other headers of C++ allocate by:
 * memory of any size and any alignment that is a power of two. They need no header in front of
 * a block, because kmalloc aligns a block to the largest power of two that divides its size (up
 * to a page), so a size is rounded up to a multiple of the alignment. Alignments above a page
 * get pages of their own (<ukmem/page_alloc.h>).
 *
 * Thread safety: everything may be used from any thread at any time.
 * Signal safety: ukmem::allocate() with GFP_NOWAIT or GFP_ATOMIC, and ukmem::deallocate(), as
 * kmalloc and kfree; an allocator allocates with GFP_KERNEL.
 *
 * Code that calls these functions is not counted by call site (<ukmem/alloc_tag.h>).
 */
#ifndef UKMEM_ALLOCATOR_HPP
#define UKMEM_ALLOCATOR_HPP

#if __cplusplus < 201703L
#error "ukmem: the headers of C++ need C++17"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>

#include <ukmem/kmalloc.h>
#include <ukmem/page_alloc.h>

namespace ukmem
{

namespace detail
{

/* Every page has at least as many bytes; kmalloc aligns up to here. */
inline constexpr std::size_t kmalloc_align_max = 4096;

/*
 * Throws @Exception; in a program without exceptions, which could not catch it, aborts. The
 * linker keeps one of the definitions in all objects: they must be the same with and without
 * -fno-exceptions, as they are by libstdc++'s functions.
 */
template <typename Exception, typename... Args> [[noreturn]] void fail(Args &&...args)
{
#if defined(__GLIBCXX__) && _GLIBCXX_RELEASE >= 11
	if constexpr (std::is_same_v<Exception, std::bad_alloc>)
		std::__throw_bad_alloc();
	else if constexpr (std::is_same_v<Exception, std::bad_array_new_length>)
		std::__throw_bad_array_new_length();
	else
		std::__throw_invalid_argument(args...);
#elif defined(__cpp_exceptions)
	throw Exception(static_cast<Args &&>(args)...);
#else
	((void)args, ...);
	std::abort();
#endif
}

/* @size as a multiple of @align; 0: there is none. */
constexpr std::size_t round_up(std::size_t size, std::size_t align) noexcept
{
	return size > SIZE_MAX - (align - 1) ? 0 : (size + align - 1) & ~(align - 1);
}

/* The order of a run of pages of @size bytes that is aligned to @align. */
inline unsigned int pages_order(std::size_t size, std::size_t align) noexcept
{
	const std::size_t wanted = size > align ? size : align;
	unsigned int order = 0;

	while (order <= MAX_PAGE_ORDER && ukmem_page_size() << order < wanted)
		order++;
	return order;
}

} // namespace detail

/**
 * allocate - @size bytes, aligned to @align
 * @align: a power of two
 *
 * Result: the block; nullptr: no memory. A block of 0 bytes has an address of its own. Free
 * with deallocate().
 */
[[nodiscard]] inline void *allocate(std::size_t size, std::size_t align,
				    gfp_t flags = GFP_KERNEL) noexcept
{
	std::size_t bytes;

	if (align > detail::kmalloc_align_max)
		return reinterpret_cast<void *>(
			__get_free_pages(flags, detail::pages_order(size, align)));
	bytes = detail::round_up(size ? size : 1, align);
	return bytes ? (kmalloc)(bytes, flags) : nullptr;
}

/**
 * deallocate - free a block of allocate()
 *
 * @size and @align must be the same. nullptr is ignored.
 */
inline void deallocate(void *p, std::size_t size, std::size_t align) noexcept
{
	if (align > detail::kmalloc_align_max)
		free_pages(reinterpret_cast<unsigned long>(p),
			   detail::pages_order(size, align));
	else
		(kfree)(p);
}

/**
 * class allocator - a standard allocator over kmalloc
 *
 * It has no state; all allocators are equal. allocate() throws bad_array_new_length if @n
 * objects have more than PTRDIFF_MAX bytes, and bad_alloc if there is no memory. With C++23,
 * containers that ask get as many objects as fit into the size class.
 */
template <typename T> class allocator
{
      public:
	using value_type = T;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	using propagate_on_container_move_assignment = std::true_type;
	using is_always_equal = std::true_type;

	constexpr allocator() noexcept = default;
	template <typename U> constexpr allocator(const allocator<U> &) noexcept
	{
	}

	[[nodiscard]] T *allocate(std::size_t n)
	{
		void *p;

		if (n > PTRDIFF_MAX / sizeof(T))
			detail::fail<std::bad_array_new_length>();
		p = ukmem::allocate(n * sizeof(T), alignof(T));
		if (!p)
			detail::fail<std::bad_alloc>();
		return static_cast<T *>(p);
	}

#if defined(__cpp_lib_allocate_at_least)
	[[nodiscard]] std::allocation_result<T *> allocate_at_least(std::size_t n)
	{
		/* Asks for all of them: the compiler may know a block by the size asked for. */
		if (alignof(T) <= detail::kmalloc_align_max && n <= PTRDIFF_MAX / sizeof(T))
			n = kmalloc_size_roundup(n * sizeof(T)) / sizeof(T);
		return { allocate(n), n };
	}
#endif

	void deallocate(T *p, std::size_t n) noexcept
	{
		ukmem::deallocate(p, n * sizeof(T), alignof(T));
	}
};

template <typename T, typename U>
constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept
{
	return true;
}

template <typename T, typename U>
constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept
{
	return false;
}

} // namespace ukmem

#endif
