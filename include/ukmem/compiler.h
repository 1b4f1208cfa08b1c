/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/compiler.h> - how public names become symbols.
 *
 * Public functions carry the kernel's names in the source (kmalloc,
 * kmem_cache_alloc, ...) and ukmem_-prefixed names in the binary, so that the
 * library can live in a process that has its own kmem_cache_alloc. The rename
 * happens here, at the declaration, with an asm label.
 */
#ifndef UKMEM_COMPILER_H
#define UKMEM_COMPILER_H

/* The other headers include this one first, so that a 32-bit compiler says this first. */
#if __SIZEOF_POINTER__ < 8
#error "ukmem: this is a 32-bit build (-m32?); ukmem needs 64-bit pointers"
#endif

#ifdef __cplusplus
#define UKMEM_BEGIN_DECLS extern "C" {
#define UKMEM_END_DECLS }
/* Casts in public macros: C++ programs use these, too, and may want warnings of C's casts. */
#define UKMEM_CAST(type, v) static_cast<type>(v)
#define UKMEM_CAST_ADDRESS(type, v) reinterpret_cast<type>(v)
#else
#define UKMEM_BEGIN_DECLS
#define UKMEM_END_DECLS
#define UKMEM_CAST(type, v) ((type)(v))
#define UKMEM_CAST_ADDRESS(type, v) ((type)(v))
#endif

/** Exported function or object. */
#define UKMEM_EXPORT __attribute__((__visibility__("default")))

/** The symbol behind kernel name @name is ukmem_@name. */
#define UKMEM_SYMBOL(name) __asm__("ukmem_" #name)

#define UKMEM_MALLOC __attribute__((__malloc__, __warn_unused_result__))
/** A constructor may have left pointers to the object in it, which __malloc__ denies. */
#define UKMEM_OBJECT __attribute__((__warn_unused_result__))
#define UKMEM_ALLOC_SIZE(...) __attribute__((__alloc_size__(__VA_ARGS__)))
#define UKMEM_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define UKMEM_COLD __attribute__((__cold__))
#define UKMEM_INLINE inline __attribute__((__always_inline__, __unused__))

#endif
