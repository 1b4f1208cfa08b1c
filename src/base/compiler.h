/* SPDX-License-Identifier: MIT */
/* Shorthands for compiler features, used by all of src/. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define always_inline inline __attribute__((__always_inline__))
#define noinline __attribute__((__noinline__))
#define cold __attribute__((__cold__, __noinline__))
enum { CACHE_LINE = 64 };
#define cacheline_aligned __attribute__((aligned(CACHE_LINE)))
/*
 * Variables that fast paths load lie in the second lines of pairs of cache lines. Objects of
 * 128 bytes and more begin, most of them, at a multiple of 128, and their beginnings are what
 * programs write to. A load of the fast path from there, of another page, would have to wait
 * for such a store, whose lower 12 bits of the address are the same; and the beginnings of
 * objects whose size is a power of two share few sets of the processor's first cache, and would
 * push the fast path's line out.
 */
#define line_pair_aligned __attribute__((aligned(2 * CACHE_LINE)))
/*
 * A large variable, of which most processes touch little: it lies behind all others, so that
 * those lie on few pages. It must be zero at the start.
 */
#define untouched __attribute__((section(".sbss.untouched")))
/*
 * A small variable that every process writes or reads at its start: it lies with those that
 * the dynamic linker writes.
 */
#define written_anyway __attribute__((section(".data.written_anyway")))
#define hidden __attribute__((__visibility__("hidden")))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ThreadSanitizer, by the macros of gcc and clang. */
#if defined(__SANITIZE_THREAD__)
#define UKMEM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UKMEM_TSAN 1
#endif
#endif
#ifndef UKMEM_TSAN
#define UKMEM_TSAN 0
#endif

/* For functions whose reads race with writers on purpose; their comments say why. */
#define no_sanitize_thread __attribute__((__no_sanitize__("thread")))

/* ThreadSanitizer ignores this thread's stores between the two calls. */
#if UKMEM_TSAN
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif

static inline void tsan_ignore_stores_begin(void)
{
#if UKMEM_TSAN
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

static inline void tsan_ignore_stores_end(void)
{
#if UKMEM_TSAN
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
}

#ifndef UKMEM_DEBUG
#define UKMEM_DEBUG 0
#endif

/* The return address of the current function; public functions pass it on for debug records. */
#define CALLER_ADDRESS __builtin_return_address(0)

/*
 * Whether @v is below *@limit, which other threads raise. If so, this thread sees what they did
 * before they raised it (acquire). On x86 every load acquires, also a comparison's operand; the
 * memory clobber keeps the compiler from loading ahead.
 */
static always_inline bool is_below(size_t v, const size_t *limit)
{
#if defined(__x86_64__) && !UKMEM_TSAN
	__asm__ goto volatile("cmpq %[limit], %[v]\n\t"
			      "jae %l[no]"
			      :
			      : [v] "r"(v), [limit] "m"(*limit)
			      : "cc", "memory"
			      : no);
	return true;
no:
	return false;
#else
	return v < __atomic_load_n(limit, __ATOMIC_ACQUIRE);
#endif
}

/* For loops that wait for another CPU's store. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

#endif
