/* SPDX-License-Identifier: MIT */
/*
 * The C++ allocation operators, by their mangled names, in C, because the library
 * depends on libc only. libstdc++ throws bad_alloc for them; it is in every process
 * that can catch one. In a process without it, a failure ends in abort().
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/log.h"
#include "malloc/malloc_internal.h"
#include "ukmem/compiler.h"

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak, noreturn));

/* Runs the new-handler; false: there is none. */
static bool call_new_handler(void)
{
	new_handler h = _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv() : NULL;

	if (!h)
		return false;
	h();
	return true;
}

/* @align 0: the form without alignment. */
static void *allocate(size_t size, size_t align, const void *caller)
{
	return align ? malloc_aligned(align, size, caller) : malloc_for(size, caller);
}

static _Noreturn void throw_bad_alloc(size_t size, const char *reason)
{
	if (_ZSt17__throw_bad_allocv)
		_ZSt17__throw_bad_allocv();
	log_fatal("operator new(%zu): %s, and no libstdc++ to throw bad_alloc", size, reason);
}

static noinline void *new_slow(size_t size, size_t align, const void *caller)
{
	void *p;

	while (!(p = allocate(size, align, caller)))
		if (!call_new_handler())
			throw_bad_alloc(size, "out of memory");
	return p;
}

/* As libstdc++: with an impossible alignment, it does not call the new-handler. */
static void *new_aligned(size_t size, size_t align, const void *caller)
{
	if (unlikely(!is_pow2(align)))
		throw_bad_alloc(size, "alignment is no power of two");
	return new_slow(size, align, caller);
}

/*
 * The new-handler may throw, and this form must catch that and return NULL. C cannot catch, but
 * libstdc++'s own operator does just that around the throwing form, which is the one above.
 */
static noinline void *new_nothrow(size_t size, size_t align, const void *tag,
				  const void *caller)
{
	void *p = allocate(size, align, caller);

	if (p || !_ZSt15get_new_handlerv || !_ZSt15get_new_handlerv())
		return p;
	if (align) {
		void *(*next)(size_t, size_t, const void *) =
			(void *(*)(size_t, size_t, const void *))dlsym(
				RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");

		return next ? next(size, align, tag) : NULL;
	}
	void *(*next)(size_t, const void *) =
		(void *(*)(size_t, const void *))dlsym(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");

	return next ? next(size, tag) : NULL;
}

static void *new_aligned_nothrow(size_t size, size_t align, const void *tag, const void *caller)
{
	return likely(is_pow2(align)) ? new_nothrow(size, align, tag, caller) : NULL;
}

#define NEW(name, ...)                                                                         \
	UKMEM_EXPORT void *name(__VA_ARGS__);                                                  \
	UKMEM_EXPORT void *name(__VA_ARGS__)

NEW(_Znwm, size_t size)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : new_slow(size, 0, CALLER_ADDRESS);
}

NEW(_Znam, size_t size)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : new_slow(size, 0, CALLER_ADDRESS);
}

NEW(_ZnwmRKSt9nothrow_t, size_t size, const void *tag)
{
	return new_nothrow(size, 0, tag, CALLER_ADDRESS);
}

NEW(_ZnamRKSt9nothrow_t, size_t size, const void *tag)
{
	return new_nothrow(size, 0, tag, CALLER_ADDRESS);
}

NEW(_ZnwmSt11align_val_t, size_t size, size_t align)
{
	return new_aligned(size, align, CALLER_ADDRESS);
}

NEW(_ZnamSt11align_val_t, size_t size, size_t align)
{
	return new_aligned(size, align, CALLER_ADDRESS);
}

NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t align, const void *tag)
{
	return new_aligned_nothrow(size, align, tag, CALLER_ADDRESS);
}

NEW(_ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t align, const void *tag)
{
	return new_aligned_nothrow(size, align, tag, CALLER_ADDRESS);
}

/*
 * Every form of delete is free(): the address leads to the array as fast as the size would
 * (D5.6). Forms that name the size pass it to the slow path, where a hardened process looks at
 * it.
 */
#define ALIAS(name, of, ...)                                                                   \
	UKMEM_EXPORT void name(void *p, ##__VA_ARGS__) __attribute__((alias(of)))
#define DELETE(name, ...) ALIAS(name, "operator_delete", ##__VA_ARGS__)
#define DELETE_SIZED(name) ALIAS(name, "operator_delete_sized", size_t size)
#define DELETE_ALIGNED(name)                                                                   \
	ALIAS(name, "operator_delete_aligned_sized", size_t size, size_t align)

UKMEM_EXPORT void operator_delete(void *p);

UKMEM_EXPORT void operator_delete(void *p)
{
	free_for(p, "operator delete", CALLER_ADDRESS);
}

UKMEM_EXPORT void operator_delete_sized(void *p, size_t size);

UKMEM_EXPORT void operator_delete_sized(void *p, size_t size)
{
	free_sized_for(p, size, 0, "operator delete", CALLER_ADDRESS);
}

UKMEM_EXPORT void operator_delete_aligned_sized(void *p, size_t size, size_t align);

UKMEM_EXPORT void operator_delete_aligned_sized(void *p, size_t size, size_t align)
{
	free_sized_for(p, size, align, "operator delete", CALLER_ADDRESS);
}

DELETE(_ZdlPv);
DELETE(_ZdaPv);
DELETE_SIZED(_ZdlPvm);
DELETE_SIZED(_ZdaPvm);
DELETE(_ZdlPvRKSt9nothrow_t);
DELETE(_ZdaPvRKSt9nothrow_t);
DELETE(_ZdlPvSt11align_val_t);
DELETE(_ZdaPvSt11align_val_t);
DELETE_ALIGNED(_ZdlPvmSt11align_val_t);
DELETE_ALIGNED(_ZdaPvmSt11align_val_t);
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t);
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t);
