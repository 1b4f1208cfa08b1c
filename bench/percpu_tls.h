/* SPDX-License-Identifier: MIT */
/*
 * Thread-local counters in a shared library, what programs use today in place of
 * per-CPU ones. The library is built as libraries are: position-independent, with
 * the compiler's default TLS model, global-dynamic.
 */
#ifndef BENCH_PERCPU_TLS_H
#define BENCH_PERCPU_TLS_H

#include <cstddef>
#include <cstdint>

/* The program's own accesses take the address from its GOT: initial-exec. */
extern "C" __thread uint64_t percpu_tls_words[8];

/** Add 1 to word @i: a call, and the library asks __tls_get_addr() for the address. */
extern "C" void percpu_tls_add(size_t i);

/**
 * Add 1 to each of eight thread-local variables: the library asks __tls_get_addr()
 * for each, with no function of its own in between.
 */
extern "C" void percpu_tls_add_each(void);

#endif
