/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/ukmem.hpp> - all headers of C++; pmr.hpp where the standard library has
 * <memory_resource>, which libc++ has from 16 on.
 */
#ifndef UKMEM_UKMEM_HPP
#define UKMEM_UKMEM_HPP

#include <ukmem/alf_queue.hpp>
#include <ukmem/allocator.hpp>
#include <ukmem/cache.hpp>
#include <ukmem/per_cpu.hpp>
#if __has_include(<memory_resource>)
#include <ukmem/pmr.hpp>
#endif

#endif
