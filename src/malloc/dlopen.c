/* SPDX-License-Identifier: MIT */
/*
 * dlopen without RTLD_DEEPBIND (tunable deepbind).
 *
 * With that flag a library finds malloc and free in libc before it finds the preloaded ones.
 * Then the library frees, by libc, a block that the program allocated here, or the program
 * frees here a block that the library has from libc. Either ends in a report and abort().
 *
 * The real dlopen learns from its return address which object calls it: it begins the search
 * with that object's RUNPATH and $ORIGIN, and loads into its namespace. So this dlopen does not
 * call the real one but jumps to it, at the address and with the flags that dlopen_next()
 * tells; the real one returns to the program. That needs assembly; architectures other than
 * those below keep libc's dlopen.
 *
 * dlmopen into the namespace of the program does the same. A new namespace keeps the flag: it
 * has a libc of its own, into which nothing is preloaded, and its memory is never freed
 * outside.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/config.h"
#include "base/log.h"
#include "malloc/malloc_internal.h"

/*
 * Defines a function @name that asks @name_next(), which has the same arguments, where to go
 * on, and with which flags. The arguments in front of the flags keep their values. @flags is
 * the instruction that puts the flags into their register.
 */
#if defined(__x86_64__) && defined(__LP64__)
/* The result of @name_next() is in rax and rdx; the arguments are in rdi, rsi and rdx. */
#define JUMPS_ON(name, flags)                                                                  \
	__asm__(".text\n"                                                                      \
		".p2align 4\n"                                                                 \
		".globl " name "\n"                                                            \
		".type " name ", @function\n" name ":\n"                                       \
		"	.cfi_startproc\n"                                                            \
		"	endbr64\n"                                                                   \
		"	pushq %rdi\n"                                                                \
		"	.cfi_adjust_cfa_offset 8\n"                                                  \
		"	pushq %rsi\n"                                                                \
		"	.cfi_adjust_cfa_offset 8\n"                                                  \
		"	subq $8, %rsp\n"                                                             \
		"	.cfi_adjust_cfa_offset 8\n"                                                  \
		"	call " name "_next\n"                                                  \
		"	addq $8, %rsp\n"                                                             \
		"	.cfi_adjust_cfa_offset -8\n"                                                 \
		"	popq %rsi\n"                                                                 \
		"	.cfi_adjust_cfa_offset -8\n"                                                 \
		"	popq %rdi\n"                                                                 \
		"	.cfi_adjust_cfa_offset -8\n" flags "	jmp *%rax\n"                      \
		"	.cfi_endproc\n"                                                              \
		".size " name ", . - " name "\n")
JUMPS_ON("dlopen", "	movl %edx, %esi\n");
#ifdef LM_ID_BASE
JUMPS_ON("dlmopen", ""); /* they are there */
#endif
#elif defined(__aarch64__)
/* The result of @name_next() is in x0 and x1; the arguments are in x0, x1 and x2. The hint is
 * "bti c"; the real function may begin with one, which accepts a jump only through x16. */
#define JUMPS_ON(name, flags)                                                                  \
	__asm__(".text\n"                                                                      \
		".p2align 4\n"                                                                 \
		".globl " name "\n"                                                            \
		".type " name ", @function\n" name ":\n"                                       \
		"	.cfi_startproc\n"                                                            \
		"	hint #34\n"                                                                  \
		"	stp x29, x30, [sp, #-32]!\n"                                                 \
		"	.cfi_def_cfa_offset 32\n"                                                    \
		"	.cfi_offset x29, -32\n"                                                      \
		"	.cfi_offset x30, -24\n"                                                      \
		"	mov x29, sp\n"                                                               \
		"	stp x0, x1, [sp, #16]\n"                                                     \
		"	bl " name "_next\n"                                                    \
		"	mov x16, x0\n"                                                               \
		"	mov w2, w1\n"                                                                \
		"	ldp x0, x1, [sp, #16]\n"                                                     \
		"	ldp x29, x30, [sp], #32\n"                                                   \
		"	.cfi_restore x29\n"                                                          \
		"	.cfi_restore x30\n"                                                          \
		"	.cfi_def_cfa_offset 0\n" flags "	br x16\n"                             \
		"	.cfi_endproc\n"                                                              \
		".size " name ", . - " name "\n")
JUMPS_ON("dlopen", "	mov w1, w2\n");
#ifdef LM_ID_BASE
JUMPS_ON("dlmopen", ""); /* they are there */
#endif
#endif

/* Two words, so that both are returned in registers. */
struct next_call {
	void *function;
	unsigned long flags;
};

struct next_call dlopen_next(const char *file, int flags);

/* The dlopen for a process whose libc has none. */
static void *dlopen_failed(const char *file, int flags)
{
	(void)flags;
	log_warn("dlopen(%s): there is no other one", file ? file : "NULL");
	return NULL;
}

/* A libc that does not have the flag, as musl, has nothing to drop. */
#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

/* The flags that go on. With passthrough RTLD_DEEPBIND may stay, because then all of the
 * program uses libc's malloc. */
static unsigned int next_flags(const char *func, const char *file, int flags)
{
	config_init();
	if (flags & RTLD_DEEPBIND && config.deepbind == DEEPBIND_DROP && !config.passthrough) {
		flags &= ~RTLD_DEEPBIND;
		if (config.verbose)
			log_warn("%s(%s): without RTLD_DEEPBIND", func, file ? file : "NULL");
	}
	return (unsigned int)flags;
}

__attribute__((used)) struct next_call dlopen_next(const char *file, int flags)
{
	static _Atomic(void *) kept;
	void *fn = next_function("dlopen", &kept);

	return (struct next_call){ .function = fn ? fn : (void *)dlopen_failed,
				   .flags = next_flags("dlopen", file, flags) };
}

#ifdef LM_ID_BASE

struct next_call dlmopen_next(Lmid_t space, const char *file, int flags);

static void *dlmopen_failed(Lmid_t space, const char *file, int flags)
{
	(void)space;
	return dlopen_failed(file, flags);
}

__attribute__((used)) struct next_call dlmopen_next(Lmid_t space, const char *file, int flags)
{
	static _Atomic(void *) kept;
	void *fn = next_function("dlmopen", &kept);

	return (struct next_call){ .function = fn ? fn : (void *)dlmopen_failed,
				   .flags = space == LM_ID_BASE
						    ? next_flags("dlmopen", file, flags)
						    : (unsigned int)flags };
}

#endif
