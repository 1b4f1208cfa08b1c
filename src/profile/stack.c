/* SPDX-License-Identifier: MIT */
/*
 * Reads the stack of an allocation, which may be in a signal handler, on any stack, and in a
 * thread that holds any lock of libc or of the program.
 *
 * The compiler's unwinder (_Unwind_Backtrace) knows the stack of all code with unwind tables,
 * that is of nearly everything. To find a table, it asks libc: by dl_iterate_phdr(), which
 * takes a lock of the loader, or since glibc 2.35 by _dl_find_object(), which takes none. Its
 * first call may load a library and allocate. So stack_init() makes the first call, and the
 * unwinder is used only if libc has _dl_find_object().
 *
 * Else frame pointers are followed. The library's own frames have none, so the chain is found
 * as follows: above the word that is the program's return address @caller lies the program's
 * frame. The last one of the library's functions that saved the frame pointer has saved it
 * below that word. Every word is tested before it is read: by a system call that does nothing
 * but read it, and fails.
 */
#include "profile/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "base/compiler.h"

/* A static program is without them. */
#pragma weak dlopen
#pragma weak dlsym

typedef _Unwind_Reason_Code backtrace_function(_Unwind_Trace_Fn, void *);
typedef _Unwind_Ptr ip_function(struct _Unwind_Context *);

/* Synchronization: written by stack_init(), before any sample; NULL: frame pointers. */
static backtrace_function *unwind;
static ip_function *unwind_ip;

struct trace {
	uintptr_t *pc, caller;
	unsigned int n; /* addresses written */
};

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;
	uintptr_t pc = unwind_ip(context);

	if (!pc)
		return _URC_END_OF_STACK;
	/* The library's own frames end where the caller's begins. */
	if (t->caller && pc == t->caller)
		t->n = 0;
	if (t->n == STACK_DEPTH)
		return _URC_END_OF_STACK;
	t->pc[t->n++] = pc;
	return _URC_NO_REASON;
}

static unsigned int read_tables(uintptr_t *pc, const void *caller)
{
	struct trace t = { .pc = pc, .caller = (uintptr_t)caller };

	unwind(note, &t);
	return t.n;
}

/* Whether the word at @addr can be read. The kernel reads it, and then refuses the operation,
 * of which there is none with this number. */
static bool is_readable(uintptr_t addr)
{
	int saved = errno;
	bool ok = !(addr % sizeof(addr)) &&
		  syscall(SYS_rt_sigprocmask, -1, addr, NULL, 8) == -1 && errno == EINVAL;

	errno = saved;
	return ok;
}

enum {
	OWN_WORDS = 1024,      /* of the library's frames */
	FRAME_BYTES = 1 << 20, /* of a frame of the program */
};

static uintptr_t word_at(uintptr_t addr)
{
	return *(const volatile uintptr_t *)addr;
}

/* Whether @frame looks like a frame pointer of a function whose caller's is above it. */
static bool is_frame(uintptr_t frame, uintptr_t above)
{
	return frame > above && frame - above < FRAME_BYTES && is_readable(frame) &&
	       is_readable(frame + sizeof(frame)) && word_at(frame + sizeof(frame)) > 4096;
}

static noinline no_sanitize_thread unsigned int read_frames(uintptr_t *pc, const void *caller)
{
	uintptr_t low = (uintptr_t)__builtin_frame_address(0), high, frame = 0;
	unsigned int n = 0, words = 0;

	if (!caller)
		return 0;
	pc[n++] = (uintptr_t)caller;
	for (high = low; words < OWN_WORDS; words++, high += sizeof(high)) {
		if ((words == 0 || high % 4096 == 0) && !is_readable(high))
			return n;
		if (word_at(high) == (uintptr_t)caller)
			break;
	}
	for (uintptr_t at = high; words < OWN_WORDS && at >= low && !frame; at -= sizeof(at))
		if (is_frame(word_at(at), high))
			frame = word_at(at);
	while (frame && n < STACK_DEPTH) {
		uintptr_t next = word_at(frame);

		pc[n++] = word_at(frame + sizeof(frame));
		frame = is_frame(next, frame) ? next : 0;
	}
	return n;
}

unsigned int stack_read(uintptr_t *pc, const void *caller)
{
	return unwind ? read_tables(pc, caller) : read_frames(pc, caller);
}

/* libgcc_s stays loaded: a sample may be taken at any time. */
void stack_init(void)
{
	uintptr_t pc[STACK_DEPTH];
	backtrace_function *found;
	void *gcc;

	if (unwind || !dlopen || !dlsym || !dlsym(RTLD_DEFAULT, "_dl_find_object"))
		return;
	gcc = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!gcc)
		return;
	found = (backtrace_function *)dlsym(gcc, "_Unwind_Backtrace");
	unwind_ip = (ip_function *)dlsym(gcc, "_Unwind_GetIP");
	if (!found || !unwind_ip)
		return;
	found(note, &(struct trace){ .pc = pc });
	unwind = found;
}
