/* SPDX-License-Identifier: MIT */
/*
 * The drop-in's functions under names of their own, so that a program has them beside its
 * libc's or its sanitizer's malloc. Included before everything else, also where the library's
 * files of src/malloc are compiled.
 */
#ifndef GUIDED_MALLOC_NAMES_H
#define GUIDED_MALLOC_NAMES_H

#define malloc face_malloc
#define calloc face_calloc
#define realloc face_realloc
#define reallocarray face_reallocarray
#define free face_free
#define cfree face_cfree
#define free_sized face_free_sized
#define free_aligned_sized face_free_aligned_sized
#define posix_memalign face_posix_memalign
#define aligned_alloc face_aligned_alloc
#define memalign face_memalign
#define valloc face_valloc
#define pvalloc face_pvalloc
#define malloc_usable_size face_malloc_usable_size
#define malloc_object_size face_malloc_object_size

#endif
