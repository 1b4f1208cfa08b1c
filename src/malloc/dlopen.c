/* SPDX-License-Identifier: MIT */
/*
 * dlopen without RTLD_DEEPBIND (tunable deepbind).
 *
 * With that flag a library finds malloc and free in libc, which it needs, before it looks at
 * what was preloaded. Then it frees what the program allocated here, or the program frees here
 * what the library has from libc, and either ends in a report and abort().
 *
 * The real dlopen takes its return address for the caller's: the search begins with the RUNPATH
 * of the object that calls, $ORIGIN is where that lies, and its namespace gets the library. So
 * it is not called from here but jumped to, when dlopen_next() has said where it is and with
 * which flags: it returns to the program. This needs assembly; other architectures than those
 * below have no dlopen of ours.
 *
 * dlmopen stays as it is. A new namespace has a libc of its own, into which nothing is
 * preloaded; no memory of it is freed elsewhere, as it could not be before.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/config.h"
#include "base/log.h"

#if defined(__x86_64__) && defined(__LP64__)
/* The result of dlopen_next() is in rax and rdx; the arguments are in rdi and esi. */
__asm__(".text\n"
	".p2align 4\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call dlopen_next\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movl %edx, %esi\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
#elif defined(__aarch64__)
/* The result of dlopen_next() is in x0 and x1; the arguments are in x0 and w1. The hint is
 * "bti c"; a jump through x16 is one that such a landing expects. */
__asm__(".text\n"
	".p2align 4\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	hint #34\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset x29, -32\n"
	"	.cfi_offset x30, -24\n"
	"	mov x29, sp\n"
	"	str x0, [sp, #16]\n"
	"	bl dlopen_next\n"
	"	mov x16, x0\n"
	"	ldr x0, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
#endif

/* Two words, so that both come in registers. */
struct next_call {
	void *function;
	unsigned long flags;
};

struct next_call dlopen_next(const char *file, int flags);

/* Where libc has no dlopen for us to find. */
static void *dlopen_failed(const char *file, int flags)
{
	(void)flags;
	log_warn("dlopen(%s): there is no other one", file ? file : "NULL");
	return NULL;
}

static void *next_dlopen(void)
{
	static _Atomic(void *) next;
	void *fn = atomic_load_explicit(&next, memory_order_relaxed);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, "dlopen");
		fn = fn ? fn : (void *)dlopen_failed;
		atomic_store_explicit(&next, fn, memory_order_relaxed);
	}
	return fn;
}

/* With passthrough, libc's malloc is what all of the program uses. */
__attribute__((used)) struct next_call dlopen_next(const char *file, int flags)
{
	config_init();
	if (flags & RTLD_DEEPBIND && config.deepbind == DEEPBIND_DROP && !config.passthrough) {
		flags &= ~RTLD_DEEPBIND;
		if (config.verbose)
			log_warn("dlopen(%s): without RTLD_DEEPBIND", file ? file : "NULL");
	}
	return (struct next_call){ .function = next_dlopen(), .flags = (unsigned int)flags };
}
