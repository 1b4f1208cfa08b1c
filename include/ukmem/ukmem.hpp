/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/ukmem.hpp> - all headers of C++.
 */
#ifndef UKMEM_UKMEM_HPP
#define UKMEM_UKMEM_HPP

#include <ukmem/alf_queue.hpp>
#include <ukmem/allocator.hpp>
#include <ukmem/cache.hpp>
#include <ukmem/per_cpu.hpp>
#include <ukmem/pmr.hpp>

#endif
