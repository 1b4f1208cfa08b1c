/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/err.h> - error numbers as pointers into the last page of the address space.
 *
 * Functions whose comment says so return ERR_PTR(-errno) in place of a pointer. The kernel's
 * interface. Pure functions: any thread, any signal handler.
 */
#ifndef UKMEM_ERR_H
#define UKMEM_ERR_H

#ifdef __cplusplus
/* Warnings of C++ about the casts of C are not for the program that includes this. */
#pragma GCC system_header
#endif

#include <ukmem/compiler.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/** The largest errno that a pointer can hold. */
#define MAX_ERRNO 4095
/** Whether @x, an address as an integer, is an error. */
#define IS_ERR_VALUE(x) ((unsigned long)(x) >= (unsigned long)-MAX_ERRNO)

/** The error pointer for @error, a negative errno. */
static inline void *ERR_PTR(long error)
{
	return (void *)error;
}

/** The negative errno of an error pointer. */
static inline long PTR_ERR(const void *p)
{
	return (long)p;
}

/** Whether @p is an error pointer. NULL is none. */
static inline bool IS_ERR(const void *p)
{
	return IS_ERR_VALUE(p);
}

/** Whether @p is an error pointer or NULL. */
static inline bool IS_ERR_OR_NULL(const void *p)
{
	return !p || IS_ERR_VALUE(p);
}

/** An error pointer, for use as a pointer to another type. */
static inline void *ERR_CAST(const void *p)
{
	return (void *)(size_t)p;
}

/** The negative errno of @p if that is an error pointer, else 0. */
static inline int PTR_ERR_OR_ZERO(const void *p)
{
	return IS_ERR(p) ? (int)PTR_ERR(p) : 0;
}

#endif
