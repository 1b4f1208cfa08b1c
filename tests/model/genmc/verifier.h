/* SPDX-License-Identifier: MIT */
/*
 * What the programs for GenMC begin with: each includes a file of the library as it is, after
 * it has defined the guards of the headers that it stands in for.
 */
#ifndef VERIFIER_H
#define VERIFIER_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void __VERIFIER_assume(bool);

/* A thread that waits goes on only when the other thread has done its part; executions in which
 * it has not end here. */
void sys_yield(void)
{
	__VERIFIER_assume(false);
}

#define __builtin_ia32_pause() __VERIFIER_assume(false)

/* GenMC does not know it. */
#define __builtin_constant_p(x) 0

/* It orders a thread and its handlers, which run at once here. GenMC takes it for a fence. */
#undef atomic_signal_fence
#define atomic_signal_fence(order) ((void)0)

/* Names of symbols and empty ones, which keep compilers from moving code: GenMC takes none. */
#define __asm__(...)

/* For mutants: what an atomic instruction does, in two. */
#define load_and_store(p, value, order)                                                        \
	({                                                                                     \
		__typeof__(atomic_load(p)) old_ = atomic_load_explicit(p, order);              \
                                                                                               \
		atomic_store(p, value);                                                        \
		old_;                                                                          \
	})
#define compare_and_store(p, expected, value, order, fails)                                    \
	({                                                                                     \
		__typeof__(atomic_load(p)) old_ = atomic_load_explicit(p, order);              \
		bool same_ = old_ == *(expected);                                              \
                                                                                               \
		if (same_)                                                                     \
			atomic_store(p, value);                                                \
		*(expected) = old_;                                                            \
		same_;                                                                         \
	})

#ifndef END
#define END 0 /* an error at the end, to see that it is reached */
#endif

/* Runs @n threads of @f, which gets the thread's number, to their end. */
#define RUN_THREADS(n, f)                                                                      \
	do {                                                                                   \
		pthread_t thread[n];                                                           \
                                                                                               \
		for (unsigned int i = 0; i < (n); i++)                                         \
			pthread_create(&thread[i], NULL, f, (void *)(uintptr_t)i);             \
		for (unsigned int i = 0; i < (n); i++)                                         \
			pthread_join(thread[i], NULL);                                         \
	} while (0)

#endif
