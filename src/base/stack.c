/* SPDX-License-Identifier: MIT */
/*
 * Reads a stack from an allocation or a fault, which may be in a signal handler, on any stack,
 * and in a thread that holds any lock of libc or of the program. So it takes no lock, allocates
 * nothing, and cannot fault.
 *
 * It follows frame pointers. The library's own frames have none, so the chain is found as
 * follows: above the word that is the program's return address @caller lies the program's
 * frame. One of the library's functions has saved the frame pointer below that word. Every word
 * is tested before it is read: by a system call that does nothing but read it, and fails. A
 * program with a seccomp filter has to allow it.
 *
 * Code without frame pointers ends the chain. The compiler's unwinder (_Unwind_Backtrace) knows
 * all code with unwind tables. It trusts them, and asks libc where they are: since glibc 2.35
 * without a lock (_dl_find_object), which this file insists on. So it is for callers that want
 * it. Where a program has registered tables for code that it made at run time, the unwinder
 * waits for a lock, and sorts such tables at their first use: it allocates with the lock held.
 * So it is not asked for the stack of a request that comes from itself.
 *
 * Most stacks are read by unwind.c, which keeps what it learns from these tables. stack_load()
 * makes the unwinder's first call, which may allocate, and loads libgcc_s where the process has
 * none. Without that, such a process has no unwinder.
 *
 * unwind.c does not take its place, because it knows two kinds of frames, on x86-64. The
 * compiler's unwinder reads the other stacks: those with a signal handler, with a frame that
 * its function realigned (code for vectors, often main), or with code that was made at run time
 * and registered its tables; and all on aarch64. Without it such a stack would end at that
 * frame, and a profile would not tell which functions of the program are above it.
 */
#include "base/stack.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#include "base/code_file.h"
#include "base/compiler.h"
#include "base/stack_word.h"
#include "base/unwind.h"

/* A static program may be without them. */
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP
#pragma weak dlsym

typedef _Unwind_Reason_Code backtrace_function(_Unwind_Trace_Fn, void *);
typedef _Unwind_Ptr ip_function(struct _Unwind_Context *);

struct trace {
	uintptr_t *pc, caller;
	unsigned int n, most; /* addresses written; room */
	ip_function *ip;
};

/* An unwinder that was loaded. Synchronization: stack_load() writes both, `backtrace` last and
 * with release (I7); I8 is its load. */
static struct {
	_Atomic(backtrace_function *) backtrace;
	ip_function *ip;
} loaded;

/* The process's own unwinder, or the loaded one, with *@ip; NULL: there is none. */
static backtrace_function *unwinder(ip_function **ip)
{
	backtrace_function *found;

	if (!code_files_are_known())
		return NULL;
	if (_Unwind_Backtrace && _Unwind_GetIP) {
		*ip = _Unwind_GetIP;
		return _Unwind_Backtrace;
	}
	found = atomic_load_explicit(&loaded.backtrace, memory_order_acquire); /* I8 */
	*ip = found ? loaded.ip : NULL;
	return found;
}

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;
	uintptr_t pc = t->ip(context);

	if (!pc)
		return _URC_END_OF_STACK;
	/* The library's own frames end where the caller's begins. */
	if (pc == t->caller)
		t->n = 0;
	if (t->n == t->most)
		return _URC_END_OF_STACK;
	t->pc[t->n++] = pc;
	return _URC_NO_REASON;
}

/*
 * An emulator stays what it is, so one question is enough: the last word is the kernel's, so
 * what looks at it refuses it as such. That costs a fault in the kernel, five times as much as
 * a look at a word that is there. A filter may come at any time. It cannot look at words, and
 * tells itself by refusing the operation where there is no word, which the kernel does not
 * mind.
 */
bool tells_readable(void)
{
	static _Atomic(signed char) looks; /* relaxed: threads that ask get the same answer */
	signed char known = atomic_load_explicit(&looks, memory_order_relaxed);

	if (unlikely(!known)) {
		known = is_readable(-sizeof(uintptr_t)) ? -1 : 1;
		atomic_store_explicit(&looks, known, memory_order_relaxed);
	}
	return known > 0 && !sys_call(SYS_rt_sigprocmask, -1, NULL, NULL, 8);
}

enum {
	OWN_WORDS = 1024,      /* of the library's frames */
	FRAME_BYTES = 1 << 20, /* of a frame of the program */
	LEAST_ADDRESS = 4096,  /* of code */
	LEAST_PAGE = 4096,
};

/* Whether @pc lies in a part of the file that is executed. The file's first page has its parts'
 * headers; true, where it has them elsewhere, or of a static program, whose headers libc does
 * not tell. */
static bool is_executed(const struct code_file *f, uintptr_t pc)
{
	const ElfW(Ehdr) *e = f->start;
	const ElfW(Phdr) * part;

	if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->e_phoff + e->e_phnum * sizeof(*part) > LEAST_PAGE)
		return true;
	part = (const void *)((const char *)f->start + e->e_phoff);
	for (unsigned int i = 0; i < e->e_phnum; i++)
		if (part[i].p_type == PT_LOAD && part[i].p_flags & PF_X &&
		    pc - f->map->l_addr - part[i].p_vaddr < part[i].p_memsz)
			return true;
	return false;
}

/* Whether @pc may be code: it lies in the program or a library, as far as libc can tell without
 * a lock. */
static bool is_code(uintptr_t pc)
{
	struct code_file f;

	return pc > LEAST_ADDRESS &&
	       (!code_files_are_known() || (code_file_find(&f, pc) && is_executed(&f, pc)));
}

/* Whether @frame looks like a frame pointer of a function whose caller's is above it. */
static bool is_frame(uintptr_t frame, uintptr_t above)
{
	return frame > above && frame - above < FRAME_BYTES && is_readable(frame) &&
	       is_readable(frame + sizeof(frame)) &&
	       is_code(return_address_at(frame + sizeof(frame)));
}

/* Adds the return addresses of @frame, which is_frame() has found to be one, and of those
 * above it. Result: as stack_read(). */
static unsigned int follow(uintptr_t *pc, unsigned int n, unsigned int most, uintptr_t frame)
{
	while (frame && n < most) {
		uintptr_t next = word_at(frame);

		pc[n++] = return_address_at(frame + sizeof(frame));
		frame = is_frame(next, frame) ? next : 0;
	}
	return n;
}

/* The innermost frame above @high whose address is saved between @low and @high; or 0. */
static uintptr_t saved_frame(uintptr_t low, uintptr_t high)
{
	uintptr_t frame = 0;

	for (uintptr_t at = low; at < high; at += sizeof(at)) {
		uintptr_t saved = word_at(at);

		if (saved != frame && (!frame || saved < frame) && is_frame(saved, high))
			frame = saved;
	}
	return frame;
}

/* The frame pointer of the program's function that called the library; 0: it is not found. The
 * library's own frames may have copies of @caller, all below the return address. */
static noinline uintptr_t callers_frame(const void *caller)
{
	uintptr_t low = (uintptr_t)__builtin_frame_address(0), high = low, frame = 0;

	for (unsigned int words = 0; words < OWN_WORDS; words++, high += sizeof(high)) {
		if ((words == 0 || high % 4096 == 0) && !is_readable(high))
			break;
		if (return_address_at(high) == (uintptr_t)caller) {
			uintptr_t found = saved_frame(low, high);

			frame = found ? found : frame;
		}
	}
	return frame;
}

/* Whether a return address is of the unwinder's file. A program that is linked statically has
 * all its code in that file, so there this cannot be told. */
static bool has_unwinder(const uintptr_t *pc, unsigned int n, backtrace_function *backtrace)
{
	struct code_file own, unwinders, f;

	if (!code_file_find(&unwinders, (uintptr_t)backtrace) ||
	    !code_file_find(&own, (uintptr_t)has_unwinder) || own.map == unwinders.map)
		return false;
	for (unsigned int i = 0; i < n; i++)
		if (code_file_find(&f, pc[i] - 1) && f.map == unwinders.map)
			return true;
	return false;
}

unsigned int stack_read(uintptr_t *pc, unsigned int most, const void *caller, bool tables)
{
	struct trace t = { .pc = pc, .caller = (uintptr_t)caller, .most = most };
	backtrace_function *backtrace;

	if (!caller || !most)
		return 0;
	pc[0] = (uintptr_t)caller;
	if (!tells_readable())
		return 1;
	backtrace = tables ? unwinder(&t.ip) : NULL;
	if (backtrace) {
		enum unwind_end end;
		unsigned int n = unwind_stack(pc, most, t.caller, &end);

		if (end == UNWIND_WHOLE || (n && end == UNWIND_LOST) ||
		    (n && has_unwinder(pc, n, backtrace)))
			return n;
		if (end != UNWIND_LOST && !has_unwinder(&t.caller, 1, backtrace)) {
			backtrace(note, &t);
			return t.n;
		}
	}
	pc[0] = (uintptr_t)caller;
	return follow(pc, 1, most, callers_frame(caller));
}

unsigned int stack_read_at(uintptr_t *pc, unsigned int most, uintptr_t at, uintptr_t frame,
			   uintptr_t stack)
{
	if (!most)
		return 0;
	pc[0] = at;
	return tells_readable() && is_frame(frame, stack - 1) ? follow(pc, 1, most, frame) : 1;
}

/* libgcc_s stays loaded: a stack may be read at any time. */
void stack_load(void)
{
	uintptr_t pc[2];
	struct trace t = { .pc = pc, .most = ARRAY_SIZE(pc) };
	backtrace_function *backtrace = unwinder(&t.ip);
	void *(*open)(const char *, int) = NULL;

	/* Looked up by name, because a static link would warn of a reference. */
	if (dlsym)
		*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
	if (!backtrace && code_files_are_known() && open) {
		void *gcc = open("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

		backtrace = gcc ? (backtrace_function *)dlsym(gcc, "_Unwind_Backtrace") : NULL;
		loaded.ip = gcc ? (ip_function *)dlsym(gcc, "_Unwind_GetIP") : NULL;
		if (!backtrace || !loaded.ip)
			return;
		atomic_store_explicit(&loaded.backtrace, backtrace,
				      memory_order_release); /* I7 */
		t.ip = loaded.ip;
	}
	if (backtrace)
		backtrace(note, &t);
}
