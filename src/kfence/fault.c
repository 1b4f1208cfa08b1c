/* SPDX-License-Identifier: MIT */
/*
 * The handler of SIGSEGV. Linux reports an access to a closed page by this signal alone.
 *
 * A fault in the pool is a bug of the program: the handler reports it and opens the page, so
 * that the program goes on as it would have without KFENCE, or leaves the page closed and
 * passes the signal on, as the tunable says. So does a hook with faults in other closed pages
 * of the library: guards of blocks, and blocks in quarantine. All other faults are passed on.
 * So are jumps to the pool, whose pages cannot be executed when they are open either; and
 * faults at an object in use, whose page the program itself has protected (garbage collectors
 * do that, to see writes).
 *
 * The handler that was there before is called as the kernel would call it: the handler of this
 * file is installed with the flags and the mask of its predecessor, so it runs on the same
 * stack, with the same signals blocked, and system calls are restarted or not. Where the
 * default was in force, it is restored, and the fault comes once more. Where the signal was
 * ignored, the handler is not installed.
 *
 * A program that installs a handler later has all faults. kfence_fault_is_ready() notices, and
 * no more objects are handed out as long as that handler is there.
 */
#include "kfence/fault.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/stack.h"
#include "base/stack_word.h"
#include "base/sys.h"
#include "base/sys_call.h"
#include "kfence/kfence.h"
#include "kfence/report.h"
#include "os/os.h"

enum { PREVIOUS_MAX = 4 };

/* The handlers that were there before. Synchronization: install() writes an element that no
 * thread reads yet, then `previous`, with release. */
static struct sigaction previous_found[PREVIOUS_MAX];
static _Atomic(const struct sigaction *) previous;

enum {
	TELLING_MS = 1000,   /* how long a thread waits for another one's report */
	TOLD_MS = 10000,     /* a closed page is reported again when so much time has passed */
	REPORT_BYTES = 4096, /* of stack that a report takes, beside the signal's frame */
};

/* The registers of code that a signal interrupted. */
struct registers {
	uintptr_t pc, frame, stack;
	enum kfence_access access;
};

#if defined(__x86_64__)
static void read_registers(const ucontext_t *context, struct registers *r)
{
	enum { WRITE = 2, FETCH = 16 }; /* of the page fault's error code */
	const greg_t *g = context->uc_mcontext.gregs;

	*r = (struct registers){
		.pc = (uintptr_t)g[REG_RIP],
		.frame = (uintptr_t)g[REG_RBP],
		.stack = (uintptr_t)g[REG_RSP],
		.access = g[REG_ERR] & FETCH   ? KFENCE_FETCH
			  : g[REG_ERR] & WRITE ? KFENCE_WRITE
					       : KFENCE_READ,
	};
}
#elif defined(__aarch64__)
/* Of a syndrome: six bits are the class of the exception, and bit 6 of data aborts says that
 * the access was a write. */
static enum kfence_access access_by(uint64_t syndrome)
{
	enum { CLASS_SHIFT = 26, CLASS_MASK = 0x3f, INSTRUCTION_ABORT = 0x20 };

	if ((syndrome >> CLASS_SHIFT & CLASS_MASK) == INSTRUCTION_ABORT)
		return KFENCE_FETCH;
	return syndrome & 1 << 6 ? KFENCE_WRITE : KFENCE_READ;
}

/* The kernel adds records to the context; one has the syndrome. */
static enum kfence_access access_of(const ucontext_t *context)
{
	const char *at = (const char *)context->uc_mcontext.__reserved;
	const char *end = at + sizeof(context->uc_mcontext.__reserved);

	while (end - at >= (ptrdiff_t)sizeof(struct esr_context)) {
		const struct esr_context *r = (const void *)at;

		if (r->head.magic == ESR_MAGIC)
			return access_by(r->esr);
		if (!r->head.magic || r->head.size < sizeof(r->head))
			break;
		at += r->head.size;
	}
	return KFENCE_SOME_ACCESS;
}

static void read_registers(const ucontext_t *context, struct registers *r)
{
	*r = (struct registers){
		.pc = context->uc_mcontext.pc,
		.frame = context->uc_mcontext.regs[29],
		.stack = context->uc_mcontext.sp,
		.access = access_of(context),
	};
}
#else
static void read_registers(const ucontext_t *context, struct registers *r)
{
	(void)context;
	*r = (struct registers){ .access = KFENCE_SOME_ACCESS };
}
#endif

/* Whether the word at @word can be written. The kernel adds 0 to it, and wakes nobody: a word
 * is hardly ever below -2048. */
static bool is_writable(uintptr_t word)
{
	static uint32_t unused;

	return sys_call(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, 0, NULL, word,
			FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0x800)) >= 0;
}

bool kfence_fault_is_over(uintptr_t addr, enum kfence_access access)
{
	uintptr_t word = addr & ~(sizeof(word) - 1);

	switch (access) {
	case KFENCE_FETCH:
		return false;
	case KFENCE_READ:
		return is_readable(word) && tells_readable();
	default:
		return is_writable(word);
	}
}

static struct kfence_object *neighbour(char *guard, bool right)
{
	char *page = right ? guard + kfence_pool.page_size : guard - kfence_pool.page_size;

	return kfence_has(page) ? kfence_object_at(page) : NULL;
}

/* Bytes from an object in use to @addr in the guard on its left or right. */
static size_t distance(const struct kfence_object *o, const char *addr)
{
	if (!o || kfence_state(o) != KFENCE_IN_USE)
		return SIZE_MAX;
	return addr < o->addr ? (size_t)(o->addr - addr) : (size_t)(addr - o->addr) - o->size;
}

/* A fault in the pool: its kind, the page, and the object that it has to do with. */
struct fault {
	enum kfence_bug bug;
	char *page;
	struct kfence_object *object; /* in whose mask it is noted that the page is opened */
	enum kfence_opened opened;
};

static void look_at_guard(struct fault *f, const char *addr)
{
	struct kfence_object *left = neighbour(f->page, false),
			     *right = neighbour(f->page, true);
	size_t to_left = distance(left, addr), to_right = distance(right, addr);
	bool is_left = left && (to_left <= to_right || !right);

	f->bug = to_left == SIZE_MAX && to_right == SIZE_MAX ? KFENCE_INVALID_ACCESS
							     : KFENCE_OUT_OF_BOUNDS;
	f->object = is_left ? left : right;
	f->opened = is_left ? KFENCE_RIGHT : KFENCE_LEFT;
}

/* In a large slot, beside the object's pages. */
static void look_beside(struct fault *f, const char *addr)
{
	f->bug = distance(f->object, addr) == SIZE_MAX ? KFENCE_INVALID_ACCESS
						       : KFENCE_OUT_OF_BOUNDS;
	f->opened = addr < kfence_run(f->object).start ? KFENCE_LEFT : KFENCE_RIGHT;
}

/* False: the object is in use. No thread of the program has the address of an object that is
 * being taken, so it is an old one. */
static bool look(struct fault *f, char *addr)
{
	size_t page = (size_t)(addr - kfence_pool.base) / kfence_pool.page_size;

	f->page = kfence_pool.base + page * kfence_pool.page_size;
	f->object = kfence_object_at(addr);
	f->opened = KFENCE_PAGE;
	if (!f->object) {
		look_at_guard(f, addr);
		return true;
	}
	if (!kfence_is_in(kfence_run(f->object), addr)) {
		look_beside(f, addr);
		return true;
	}
	switch (kfence_state(f->object)) {
	case KFENCE_IN_USE:
		return false;
	case KFENCE_UNUSED:
	case KFENCE_TAKEN:
		f->bug = KFENCE_INVALID_ACCESS;
		return true;
	default:
		f->bug = KFENCE_USE_AFTER_FREE;
		return true;
	}
}

/* Waits for the thread that reports the same page. */
static void wait_for_report(const struct fault *f)
{
	for (unsigned int ms = 0; ms < TELLING_MS; ms += 10) {
		if (atomic_load_explicit(&f->object->opened, memory_order_relaxed) &
		    (unsigned int)f->opened << KFENCE_TOLD_SHIFT)
			return;
		sys_pause_ms(10);
	}
}

/* Synchronization: the thread that changes `page` from 0 (acquire) reports, and sets it back
 * (release). The others are relaxed: a thread that has waited in vain reports, too. */
static struct {
	_Atomic uintptr_t page;	  /* of which a thread reports a fault; 0: none does */
	_Atomic uintptr_t closed; /* the last one that was left closed, and when */
	_Atomic uint64_t closed_ms;
} telling;

enum kfence_turn kfence_fault_begin(uintptr_t page, enum kfence_access access)
{
	enum kfence_turn turn = KFENCE_TURN_TELL;
	uintptr_t nobody = 0;

	for (unsigned int ms = 0; ms < TELLING_MS; ms++, nobody = 0) {
		if (atomic_compare_exchange_strong_explicit(&telling.page, &nobody, page,
							    memory_order_acquire,
							    memory_order_relaxed))
			break;
		sys_pause_ms(1);
	}
	if (kfence_fault_is_over(page, access))
		turn = KFENCE_TURN_OPEN;
	else if (atomic_load_explicit(&telling.closed, memory_order_relaxed) == page &&
		 os_calls.now_ms() - atomic_load_explicit(&telling.closed_ms,
							  memory_order_relaxed) <
			 TOLD_MS)
		turn = KFENCE_TURN_CLOSED;
	if (turn != KFENCE_TURN_TELL)
		atomic_store_explicit(&telling.page, 0, memory_order_release);
	return turn;
}

void kfence_fault_end(uintptr_t page, bool opened)
{
	atomic_store_explicit(&telling.closed, opened ? 0 : page, memory_order_relaxed);
	atomic_store_explicit(&telling.closed_ms, os_calls.now_ms(), memory_order_relaxed);
	atomic_store_explicit(&telling.page, 0, memory_order_release);
}

void kfence_fault_fork_child(void)
{
	atomic_store_explicit(&telling.page, 0, memory_order_relaxed);
}

enum kfence_access kfence_fault_access(const void *context)
{
	struct registers r;

	read_registers(context, &r);
	return r.access;
}

void kfence_fault_read(const void *context, struct kfence_track *now)
{
	struct registers r;

	read_registers(context, &r);
	now->depth = stack_read_at(now->pc, KFENCE_STACK_DEPTH, r.pc, r.frame, r.stack);
	/* As return addresses, which the others are: `ukmem decode` looks one byte before. */
	if (r.pc && r.access != KFENCE_FETCH)
		now->pc[0]++;
	now->thread = os_thread_to_tell();
}

/*
 * Whether a fault at an object in use comes to something else when the access is made again. If
 * it faulted before the object was taken, it does, or the object has left that state since, and
 * may be in use anew, perhaps in another run: then it has been freed once more. Otherwise the
 * program has protected the page.
 */
static bool may_retry(const struct kfence_object *o, const char *addr,
		      enum kfence_access access)
{
	/* Acquire: what follows is read after it. */
	uint64_t freed = atomic_load_explicit(&o->freed, memory_order_acquire);

	return kfence_state(o) != KFENCE_IN_USE || !kfence_is_in(kfence_run(o), addr) ||
	       kfence_fault_is_over((uintptr_t)addr, access) ||
	       kfence_state(o) != KFENCE_IN_USE ||
	       atomic_load_explicit(&o->freed, memory_order_relaxed) != freed;
}

/* The outcome of a fault. */
enum outcome {
	OPENED,	    /* the page is open: the program can go on */
	OVERTAKEN,  /* it is closed: the access is to be made again, and looked at anew */
	NOT_OPENED, /* the system refused */
};

/* Opens the page for the program. The bit in the object's mask is set. */
static enum outcome open_page(const struct fault *f)
{
	if (!kfence_open_page(f->page))
		return NOT_OPENED;
	if (likely(kfence_is_opened(f->object, f->opened)))
		return OPENED;
	/* Another thread has taken or freed the object since, and closed the page before this
	 * one opened it. */
	return kfence_close_late(f->object, f->opened) ? OVERTAKEN : OPENED;
}

/* No function of libc, since that takes stack, too. */
bool kfence_fault_is_cramped(const void *context)
{
	static const char text[] =
		"ukmem: BUG: a fault at a guarded object; the alternate signal "
		"stack has no room for the report\n";
	const stack_t *s = &((const ucontext_t *)context)->uc_stack;
	uintptr_t room = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)s->ss_sp;

	if (room >= s->ss_size || room >= REPORT_BYTES)
		return false;
	sys_call(SYS_write, STDERR_FILENO, text, sizeof(text) - 1);
	return true;
}

static noinline void tell(const struct fault *f, enum kfence_access access, char *addr,
			  const void *context)
{
	struct kfence_track now;

	kfence_fault_read(context, &now);
	kfence_report_fault(f->bug, access, addr,
			    f->bug == KFENCE_INVALID_ACCESS ? NULL : f->object, &now);
}

/* Handles a fault in the pool. False: the signal is to be passed on. */
static bool handle(char *addr, const void *context)
{
	enum kfence_access access = kfence_fault_access(context);
	bool aborts = config.kfence_on_fault == KFENCE_ON_FAULT_ABORT || access == KFENCE_FETCH;
	enum outcome outcome = NOT_OPENED;
	struct fault f;

	if (!look(&f, addr))
		return may_retry(f.object, addr, access);
	if (atomic_fetch_or_explicit(&f.object->opened, f.opened, memory_order_relaxed) &
	    f.opened) {
		if (aborts)
			wait_for_report(&f);
		return !aborts && open_page(&f) != NOT_OPENED;
	}
	/* Other threads may go on meanwhile. */
	if (!aborts)
		outcome = open_page(&f);
	if (outcome == OVERTAKEN)
		return true;
	if (!kfence_fault_is_cramped(context))
		tell(&f, access, addr, context);
	atomic_fetch_or_explicit(&f.object->opened, (unsigned int)f.opened << KFENCE_TOLD_SHIFT,
				 memory_order_relaxed);
	return outcome == OPENED;
}

/* Whether the thread has queued the signal to itself, with the information of a fault. A fault
 * that is taken for such a signal kills without being made once more. */
#if defined(__x86_64__)
static bool is_queued(const siginfo_t *info, const ucontext_t *context)
{
	enum { NO_TRAP, PAGE_FAULT = 14 };
	const greg_t *g = context->uc_mcontext.gregs; /* of the thread's last fault */

	return g[REG_TRAPNO] == NO_TRAP ||
	       (g[REG_TRAPNO] == PAGE_FAULT && info->si_code != SI_KERNEL &&
		(uintptr_t)g[REG_CR2] != (uintptr_t)info->si_addr);
}
#else
static bool is_queued(const siginfo_t *info, const ucontext_t *context)
{
	(void)info, (void)context;
	return false;
}
#endif

/*
 * Restores the default. A fault comes once more then; a signal that was sent is sent again.
 * Where a filter may forbid that, a fault comes once more with the signal blocked: then the
 * kernel restores the default itself.
 */
static void die(int signal, const siginfo_t *info, void *context)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };
	bool fault = info->si_code > 0 && !is_queued(info, context);
	int thread;

	if ((fault && os_is_confined()) || sigaction(signal, &by_default, NULL)) {
		if (fault) {
			sigaddset(&((ucontext_t *)context)->uc_sigmask, signal);
			return;
		}
		sys_call(SYS_exit_group, 128 + signal);
	}
	if (fault)
		return;
	thread = (int)sys_call(SYS_gettid);
	if (info->si_code <= 0)
		sys_call(SYS_tgkill, sys_getpid(), thread, signal);
	else if (!os_is_confined())
		sys_call(SYS_rt_tgsigqueueinfo, sys_getpid(), thread, signal, info);
}

static bool is_function(const struct sigaction *a)
{
	/* The kernel looks at the handler's value, with SA_SIGINFO, too. */
	return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
}

/* Whether the kernel would have restored the default when it called the handler before. */
static bool is_spent(const struct sigaction *a)
{
	/* Synchronization: relaxed; one exchange finds it false. */
	static atomic_bool called;

	return (a->sa_flags & SA_RESETHAND) &&
	       atomic_exchange_explicit(&called, true, memory_order_relaxed);
}

/* The signal that the predecessor handles in this thread, in one word (pass_word()): where its
 * information is, and how far below that the stack was at the call. A predecessor that leaves
 * by siglongjmp() leaves the word behind. */
static _Thread_local uint64_t passed __attribute__((tls_model("initial-exec")));

enum { PASSED_DEPTH_BITS = 24, PASSED_DEPTH_MAX = (1 << PASSED_DEPTH_BITS) - 1 };

/* The upper bits of the address are not needed: a thread's stacks are not so far apart. */
static uint64_t pass_word(const void *info, uintptr_t frame)
{
	return (uint64_t)(uintptr_t)info << PASSED_DEPTH_BITS |
	       min_size((uintptr_t)info - frame, PASSED_DEPTH_MAX);
}

/*
 * Whether the predecessor has passed the signal back. A program may install its handler anew on
 * top of this one, and take this one for its predecessor; then each of the two would call the
 * other without end. Such a call comes from deeper in the stack. A later signal's information
 * may be at the same place, but then the call is not deeper.
 */
static bool is_passed_back(uint64_t now)
{
	return now >> PASSED_DEPTH_BITS == passed >> PASSED_DEPTH_BITS && now > passed;
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *p = atomic_load_explicit(&previous, memory_order_acquire);
	uint64_t now = pass_word(info, (uintptr_t)__builtin_frame_address(0)), outer = passed;

	if (!is_function(p) || is_passed_back(now) || is_spent(p)) {
		die(signal, info, context);
		return;
	}
	passed = now;
	/* The kernel gives all handlers three arguments, also those without SA_SIGINFO. */
	p->sa_sigaction(signal, info, context);
	passed = outer;
}

/* Synchronization: written once, with release, before the first page is closed for it. */
static _Atomic(kfence_fault_hook) fault_hook;

/* A signal that was sent has no address. */
static bool is_handled(const siginfo_t *info, const void *context)
{
	kfence_fault_hook hook = atomic_load_explicit(&fault_hook, memory_order_acquire);

	if (info->si_code <= 0)
		return false;
	if (kfence_has(info->si_addr))
		return handle(info->si_addr, context);
	return hook && hook(info->si_addr, context);
}

static void handler(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	if (!is_handled(info, context)) {
		errno = saved;
		pass_on(signal, info, context);
		return;
	}
	errno = saved;
}

/* The C library leaves in a mask, behind the bits that the kernel knows, what lay on the stack:
 * perhaps addresses of objects, which a search for leaks would take for pointers to them. */
static void clear_unused(sigset_t *mask)
{
	const size_t known = (NSIG - 1) / 8;

	memset((char *)mask + known, 0, sizeof(*mask) - known);
}

static struct sigaction successor_of(const struct sigaction *old)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (is_function(old)) {
		/* This handler stays; is_spent() does what the flag asks for. */
		a.sa_flags = (old->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
		a.sa_mask = old->sa_mask;
	}
	return a;
}

static bool is_mine(const struct sigaction *a)
{
	return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == handler;
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_flags == b->sa_flags && a->sa_handler == b->sa_handler &&
	       !memcmp(&a->sa_mask, &b->sa_mask, sizeof(a->sa_mask));
}

/* Takes the place of the handler that is there: the one that was replaced has to be the one
 * that is known. The program may install another one meanwhile; then that one is taken over. A
 * signal that is ignored stays so: a handler would let it interrupt system calls, and programs
 * that are executed would not inherit that it is ignored. */
static bool install(void)
{
	struct sigaction *found = previous_found, mine, old;

	if (sigaction(SIGSEGV, NULL, found) || found->sa_handler == SIG_IGN)
		return false;
	for (;; *++found = old) {
		clear_unused(&found->sa_mask);
		atomic_store_explicit(&previous, found, memory_order_release);
		mine = successor_of(found);
		if (sigaction(SIGSEGV, &mine, &old))
			return false;
		clear_unused(&old.sa_mask);
		if (is_mine(&old) || is_same(&old, found))
			return true;
		if (found == &previous_found[PREVIOUS_MAX - 1] || old.sa_handler == SIG_IGN)
			break;
	}
	sigaction(SIGSEGV, &old, NULL);
	return false;
}

bool kfence_fault_init(void)
{
	static struct once installed = ONCE_INITIALIZER;
	int saved = errno;
	bool ok = once(&installed, install);

	errno = saved;
	return ok;
}

bool kfence_fault_tell(kfence_fault_hook hook)
{
	atomic_store_explicit(&fault_hook, hook, memory_order_release);
	return kfence_fault_init();
}

bool kfence_fault_is_ready(void)
{
	struct sigaction now;
	int saved = errno;
	bool ok = !sigaction(SIGSEGV, NULL, &now) && is_mine(&now);

	errno = saved;
	return ok;
}
