/* SPDX-License-Identifier: MIT */
/*
 * The C++ allocation operators, by their mangled names, in C, because the library depends on
 * libc only. The C++ runtime (libstdc++, libc++) throws bad_alloc for them; it is in every
 * process that can catch one. In a process without it, a failure ends in abort().
 *
 * A program may have operators of its own. C++ defines each form by another:
 *
 *	new[]				-> new
 *	nothrow new, new[]		-> new, new[]
 *	delete[]			-> delete
 *	sized or nothrow delete		-> delete
 *	sized or nothrow delete[]	-> delete[]
 *
 * and those with an alignment in the same way. So a form on the left calls the program's
 * operator if the form on the right is the program's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/text.h"
#include "malloc/malloc_internal.h"
#include "ukmem/compiler.h"

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak, noreturn));

/* ---- a runtime that was loaded later */

static int find_runtime(struct dl_phdr_info *info, size_t size, void *path)
{
	static const char *const names[] = { "libstdc++.so", "libc++.so" };
	const char *name = text_last_part(info->dlpi_name);

	(void)size;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (text_same(name, names[i], strlen(names[i])))
			*(const char **)path = info->dlpi_name;
	return 0;
}

/*
 * The C++ runtime that came with a library which a C program has opened, or NULL. The weak
 * references are NULL then for ever, and the runtime need not be in the scope in which names
 * are searched. Synchronization: relaxed; each thread finds the same.
 */
static void *late_runtime(void)
{
	static _Atomic(void *) kept;
	void *handle = atomic_load_explicit(&kept, memory_order_relaxed);
	const char *path = NULL;

	if (handle)
		return handle;
	dl_iterate_phdr(find_runtime, &path);
	if (!path)
		return NULL;
	handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	atomic_store_explicit(&kept, handle, memory_order_relaxed);
	return handle;
}

/*
 * The runtime's function of this name; NULL: there is none. A program that was linked with the
 * runtime's archive may export a part of it, and have no more in the scope in which names are
 * searched; the rest may be in the runtime that a plugin has brought.
 */
static void *runtime_function(const char *name)
{
	void *fn = _ZSt15get_new_handlerv ? dlsym(RTLD_NEXT, name) : NULL;
	void *runtime = fn ? NULL : late_runtime();

	return runtime ? dlsym(runtime, name) : fn;
}

/* ---- new */

/* NULL: the program has set none. */
static new_handler get_new_handler(void)
{
	new_handler (*get)(void) = _ZSt15get_new_handlerv;

	if (!get)
		get = (new_handler(*)(void))runtime_function("_ZSt15get_new_handlerv");
	return get ? get() : NULL;
}

/* Runs the new-handler; false: there is none. */
static bool call_new_handler(void)
{
	new_handler h = get_new_handler();

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
	void (*throw)(void) = _ZSt17__throw_bad_allocv;

	if (!throw)
		throw = (void (*)(void))runtime_function("_ZSt17__throw_bad_allocv");
	if (throw)
		throw();
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
 * A nothrow form. The new-handler and the program's operator may throw, and the nothrow form
 * must catch that and return NULL. C cannot catch, but the runtime's own nothrow form does just
 * that around the throwing one.
 */
struct nothrow_form {
	const char *name;
	/* The runtime's form; &no_form: it was searched for in vain.
	 * Synchronization: relaxed; each thread finds the same. */
	_Atomic(void *) kept;
};

static const char no_form;

/*
 * NULL: there is no runtime's form. It is searched for once, since dlsym() takes the dynamic
 * linker's lock: in a callback of dl_iterate_phdr(), which holds another one, that may be a
 * deadlock with a thread in dlopen().
 */
static void *runtime_form(struct nothrow_form *f)
{
	void *fn = atomic_load_explicit(&f->kept, memory_order_relaxed);

	if (unlikely(!fn)) {
		fn = runtime_function(f->name);
		if (!fn)
			fn = (void *)&no_form;
		atomic_store_explicit(&f->kept, fn, memory_order_relaxed);
	}
	return fn == &no_form ? NULL : fn;
}

/*
 * Without a runtime's form this calls @throwing, the program's operator, if there is one. Its
 * exception leaves the nothrow form, but its memory is what the program's delete expects.
 */
static void *caught(struct nothrow_form *f, size_t size, const void *tag,
		    void *(*throwing)(size_t))
{
	void *(*form)(size_t, const void *) = (void *(*)(size_t, const void *))runtime_form(f);

	if (unlikely(!form))
		return throwing ? throwing(size) : NULL;
	return form(size, tag);
}

static void *caught_aligned(struct nothrow_form *f, size_t size, size_t align, const void *tag,
			    void *(*throwing)(size_t, size_t))
{
	void *(*form)(size_t, size_t, const void *) =
		(void *(*)(size_t, size_t, const void *))runtime_form(f);

	if (unlikely(!form))
		return throwing ? throwing(size, align) : NULL;
	return form(size, align, tag);
}

static noinline void *new_nothrow(struct nothrow_form *f, size_t size, const void *tag,
				  const void *caller)
{
	void *p = malloc_for(size, caller);

	return p || !get_new_handler() ? p : caught(f, size, tag, NULL);
}

static noinline void *new_aligned_nothrow(struct nothrow_form *f, size_t size, size_t align,
					  const void *tag, const void *caller)
{
	void *p;

	if (unlikely(!is_pow2(align)))
		return NULL;
	p = malloc_aligned(align, size, caller);
	return p || !get_new_handler() ? p : caught_aligned(f, size, align, tag, NULL);
}

static struct nothrow_form new_form = { .name = "_ZnwmRKSt9nothrow_t" };
static struct nothrow_form new_array_form = { .name = "_ZnamRKSt9nothrow_t" };
static struct nothrow_form new_aligned_form = { .name = "_ZnwmSt11align_val_tRKSt9nothrow_t" };
static struct nothrow_form new_array_aligned_form = {
	.name = "_ZnamSt11align_val_tRKSt9nothrow_t"
};

/*
 * An operator by which C++ defines others, with a second name, which always means the function
 * here. The dynamic linker binds the first name to the program's function if it has one. (It
 * may also bind it to an entry that leads here, in a program at a fixed address which takes the
 * operator's address. Then a call by that name costs a few instructions.)
 */
#define BASE(result, name, ...)                                                                \
	UKMEM_EXPORT result name(__VA_ARGS__);                                                 \
	result here##name(__VA_ARGS__) __attribute__((alias(#name), visibility("hidden")));    \
	UKMEM_EXPORT result name(__VA_ARGS__)
#define FORM(result, name, ...)                                                                \
	UKMEM_EXPORT result name(__VA_ARGS__);                                                 \
	UKMEM_EXPORT result name(__VA_ARGS__)
#define IS_REPLACED(name)                                                                      \
	unlikely(leads_elsewhere((const void *)name, (const void *)here##name))

BASE(void *, _Znwm, size_t size)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : new_slow(size, 0, CALLER_ADDRESS);
}

BASE(void *, _Znam, size_t size)
{
	void *p;

	if (IS_REPLACED(_Znwm))
		return _Znwm(size);
	return likely(kmalloc_pop(size, &p)) ? p : new_slow(size, 0, CALLER_ADDRESS);
}

FORM(void *, _ZnwmRKSt9nothrow_t, size_t size, const void *tag)
{
	if (IS_REPLACED(_Znwm))
		return caught(&new_form, size, tag, _Znwm);
	return new_nothrow(&new_form, size, tag, CALLER_ADDRESS);
}

FORM(void *, _ZnamRKSt9nothrow_t, size_t size, const void *tag)
{
	if (IS_REPLACED(_Znam) || IS_REPLACED(_Znwm))
		return caught(&new_array_form, size, tag, _Znam);
	return new_nothrow(&new_array_form, size, tag, CALLER_ADDRESS);
}

BASE(void *, _ZnwmSt11align_val_t, size_t size, size_t align)
{
	return new_aligned(size, align, CALLER_ADDRESS);
}

BASE(void *, _ZnamSt11align_val_t, size_t size, size_t align)
{
	if (IS_REPLACED(_ZnwmSt11align_val_t))
		return _ZnwmSt11align_val_t(size, align);
	return new_aligned(size, align, CALLER_ADDRESS);
}

FORM(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t align, const void *tag)
{
	if (IS_REPLACED(_ZnwmSt11align_val_t))
		return caught_aligned(&new_aligned_form, size, align, tag,
				      _ZnwmSt11align_val_t);
	return new_aligned_nothrow(&new_aligned_form, size, align, tag, CALLER_ADDRESS);
}

FORM(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t align, const void *tag)
{
	struct nothrow_form *f = &new_array_aligned_form;

	if (IS_REPLACED(_ZnamSt11align_val_t) || IS_REPLACED(_ZnwmSt11align_val_t))
		return caught_aligned(f, size, align, tag, _ZnamSt11align_val_t);
	return new_aligned_nothrow(f, size, align, tag, CALLER_ADDRESS);
}

/*
 * In a program with operators of its own this finds the runtime's forms before anything can
 * hold the dynamic linker's locks. Where there is none yet, the first call searches again.
 */
__attribute__((constructor)) static void find_forms(void)
{
	static struct nothrow_form *const forms[] = { &new_form, &new_array_form,
						      &new_aligned_form,
						      &new_array_aligned_form };

	if (!IS_REPLACED(_Znwm) && !IS_REPLACED(_Znam) && !IS_REPLACED(_ZnwmSt11align_val_t) &&
	    !IS_REPLACED(_ZnamSt11align_val_t))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		atomic_store_explicit(&forms[i]->kept, runtime_function(forms[i]->name),
				      memory_order_relaxed);
}

/* ---- delete */

/*
 * Every form of delete is free(): the address leads to the array as fast as the size would
 * (D5.6). Forms that name the size pass it to the slow path, where a hardened process looks at
 * it.
 */
BASE(void, _ZdlPv, void *p)
{
	free_for(p, "operator delete", CALLER_ADDRESS);
}

BASE(void, _ZdaPv, void *p)
{
	if (IS_REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

BASE(void, _ZdlPvSt11align_val_t, void *p, size_t align)
{
	(void)align;
	free_for(p, "operator delete", CALLER_ADDRESS);
}

BASE(void, _ZdaPvSt11align_val_t, void *p, size_t align)
{
	if (IS_REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdlPvRKSt9nothrow_t, void *p, const void *tag)
{
	(void)tag;
	if (IS_REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdaPvRKSt9nothrow_t, void *p, const void *tag)
{
	(void)tag;
	if (IS_REPLACED(_ZdaPv) || IS_REPLACED(_ZdlPv))
		_ZdaPv(p);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align, const void *tag)
{
	(void)tag;
	if (IS_REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align, const void *tag)
{
	(void)tag;
	if (IS_REPLACED(_ZdaPvSt11align_val_t) || IS_REPLACED(_ZdlPvSt11align_val_t))
		_ZdaPvSt11align_val_t(p, align);
	else
		free_for(p, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdlPvm, void *p, size_t size)
{
	if (IS_REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		free_sized_for(p, size, 0, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdaPvm, void *p, size_t size)
{
	if (IS_REPLACED(_ZdaPv) || IS_REPLACED(_ZdlPv))
		_ZdaPv(p);
	else
		free_sized_for(p, size, 0, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdlPvmSt11align_val_t, void *p, size_t size, size_t align)
{
	if (IS_REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		free_sized_for(p, size, align, "operator delete", CALLER_ADDRESS);
}

FORM(void, _ZdaPvmSt11align_val_t, void *p, size_t size, size_t align)
{
	if (IS_REPLACED(_ZdaPvSt11align_val_t) || IS_REPLACED(_ZdlPvSt11align_val_t))
		_ZdaPvSt11align_val_t(p, align);
	else
		free_sized_for(p, size, align, "operator delete", CALLER_ADDRESS);
}
