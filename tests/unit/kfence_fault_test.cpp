/* SPDX-License-Identifier: MIT */
/*
 * KFENCE's handler of faults: the handler that was there before runs as the kernel would run
 * it, and no fault is tried for ever, whatever other threads do meanwhile.
 */
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kfence_util.h"
#include "test_util.h"

namespace
{

using SetAction = int (*)(int, const struct sigaction *, struct sigaction *);

SetAction real_sigaction()
{
	return reinterpret_cast<SetAction>(dlsym(RTLD_NEXT, "sigaction"));
}

/* Runs once, before the next action for SIGSEGV is set. */
void (*before_set)();

} // namespace

/* In place of libc's, also for the library. */
extern "C" int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	if (signal == SIGSEGV && action && before_set) {
		void (*f)() = before_set;

		before_set = nullptr;
		f();
	}
	return real_sigaction()(signal, action, old);
}

namespace
{

using ::testing::HasSubstr;
using ::testing::StartsWith;

class KfenceFaultTest : public KfenceTest
{
};

volatile int faults; /* that came to the program's handler */
sigjmp_buf jump;

void escape(int /*signal*/)
{
	faults = faults + 1;
	siglongjmp(jump, 1);
}

void say_that_it_is_called(int /*signal*/)
{
	if (write(STDERR_FILENO, "called\n", 7) != 7)
		_exit(1);
}

void handle_by(void (*handler)(int), int flags)
{
	struct sigaction mine = {};

	mine.sa_handler = handler;
	mine.sa_flags = flags;
	real_sigaction()(SIGSEGV, &mine, nullptr);
}

void write_to_nothing()
{
	*unknown(reinterpret_cast<void *>(64)) = 1;
}

/* --- the handler that was there before -----------------------------------------------------
 */

/* Installed while the library installs its own. */
int with_handler_in_between()
{
	static char *p; /* siglongjmp() leaves it alone */

	before_set = [] { handle_by(escape, SA_NODEFER); };
	p = guarded(64, true);

	if (!sigsetjmp(jump, 0)) {
		write_to_nothing();
		return 1;
	}
	p[64] = 1; /* not the program's */
	return faults == 1 ? 0 : 2;
}

TEST_F(KfenceFaultTest, HandlerThatComesInBetweenIsNotLost)
{
	EXPECT_FRESH_POOL_PASSES(with_handler_in_between);
}

/* The kernel restores the default before it calls such a handler. */
int with_resethand(int flags, void (*fault)())
{
	handle_by(say_that_it_is_called, static_cast<int>(SA_RESETHAND) | flags);
	guarded(64, true)[64] = 1; /* not the program's */
	fprintf(stderr, "then\n");
	fault();
	fault();
	return 1;
}

TEST_F(KfenceFaultTest, HandlerThatIsToBeCalledOnceIsCalledOnce)
{
	void (*faults[])() = { write_to_nothing, [] { raise(SIGSEGV); } };

	GTEST_FLAG_SET(death_test_style, "threadsafe");
	for (int flags : { 0, static_cast<int>(SA_NODEFER) })
		for (auto fault : faults)
			EXPECT_EXIT((alarm(20), _exit(with_resethand(flags, fault))),
				    ::testing::KilledBySignal(SIGSEGV), "\nthen\ncalled\n$");
}

/* A handler notes here how it was called. */
struct Call {
	sigset_t blocked;
	bool on_alternate_stack;
} call;

void note_call(int /*signal*/)
{
	stack_t stack;

	pthread_sigmask(SIG_BLOCK, nullptr, &call.blocked);
	sigaltstack(nullptr, &stack);
	call.on_alternate_stack = stack.ss_flags & SS_ONSTACK;
	siglongjmp(jump, 1);
}

Call called()
{
	if (!sigsetjmp(jump, 1))
		write_to_nothing();
	return call;
}

int with_flags(int flags)
{
	struct sigaction mine = {};
	Call before, behind;

	mine.sa_handler = note_call;
	mine.sa_flags = flags;
	sigaddset(&mine.sa_mask, SIGUSR1);
	real_sigaction()(SIGSEGV, &mine, nullptr);
	before = called();
	if (flags & static_cast<int>(SA_RESETHAND))
		real_sigaction()(SIGSEGV, &mine, nullptr);
	guarded(64, true);
	behind = called();
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&before.blocked, i) != sigismember(&behind.blocked, i))
			return 1;
	return before.on_alternate_stack == behind.on_alternate_stack &&
			       !before.on_alternate_stack == !(flags & SA_ONSTACK)
		       ? 0
		       : 2;
}

int with_each_of_the_flags()
{
	static char memory[64 << 10];
	stack_t stack = {};

	stack.ss_sp = memory;
	stack.ss_size = sizeof(memory);
	sigaltstack(&stack, nullptr);
	for (int flags = 0; flags < 8; flags++)
		in_child([=] {
			return with_flags((flags & 1 ? SA_ONSTACK : 0) |
					  (flags & 2 ? static_cast<int>(SA_NODEFER) : 0) |
					  (flags & 4 ? static_cast<int>(SA_RESETHAND) : 0));
		});
	return ::testing::Test::HasFailure();
}

TEST_F(KfenceFaultTest, MaskAndStackOfTheHandlerAreTheKernels)
{
	EXPECT_FRESH_POOL_PASSES(with_each_of_the_flags);
}

/* A signal that is ignored stays so, for system calls and for programs that are executed: there
 * is no handler, and so there are no guarded objects. */
int with_ignored_signal(int flags)
{
	struct sigaction now;

	handle_by(SIG_IGN, flags);
	shim_kfence_open();
	if (shim_kfence_has(shim_kmalloc_slow(64, GFP_KERNEL)))
		return 1;
	real_sigaction()(SIGSEGV, nullptr, &now);
	return now.sa_handler == SIG_IGN ? 0 : 2;
}

/* It has room for the signal's frame and for a small handler. */
int on_a_small_stack()
{
	static char memory[64 << 10];
	char *middle = memory + sizeof(memory) / 2;
	stack_t stack = {};

	memset(memory, 0x5a, sizeof(memory));
	stack.ss_sp = middle;
	stack.ss_size = static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + 1024;
	sigaltstack(&stack, nullptr);
	guarded(64, true)[64] = 1; /* not the program's */
	return std::all_of(memory, middle, [](char c) { return c == 0x5a; }) ? 0 : 1;
}

TEST_F(KfenceFaultTest, ReportDoesNotOverflowAnAlternateStack)
{
	EXPECT_FRESH_POOL_PASSES(on_a_small_stack);
}

TEST_F(KfenceFaultTest, IgnoredSignalsStayIgnored)
{
	EXPECT_FRESH_POOL_PASSES([] { return with_ignored_signal(0); });
	EXPECT_FRESH_POOL_PASSES([] { return with_ignored_signal(SA_SIGINFO); });
}

/* Ignored while the library installs its handler. */
int with_signal_ignored_in_between()
{
	before_set = [] { handle_by(SIG_IGN, 0); };
	return with_ignored_signal(0);
}

TEST_F(KfenceFaultTest, SignalThatIsIgnoredInBetweenStaysIgnored)
{
	EXPECT_FRESH_POOL_PASSES(with_signal_ignored_in_between);
}

/* Old code has three arguments without SA_SIGINFO: the kernel gives them to every handler. */
int with_three_arguments()
{
	struct sigaction mine = {};

	mine.sa_sigaction = [](int, siginfo_t *info, void *context) {
		_exit(context && info->si_addr == reinterpret_cast<void *>(64) ? 0 : 3);
	};
	real_sigaction()(SIGSEGV, &mine, nullptr);
	guarded(64, true);
	write_to_nothing();
	return 1;
}

TEST_F(KfenceFaultTest, EveryHandlerHasThreeArguments)
{
	EXPECT_FRESH_POOL_PASSES(with_three_arguments);
}

/* A crash reporter, which goes on with the handler that it has replaced. */
struct sigaction replaced;

void report_crash(int signal, siginfo_t *info, void *context)
{
	say_that_it_is_called(signal);
	replaced.sa_sigaction(signal, info, context);
}

/* Installed twice: the second time it replaces the library's handler, which calls it. */
int with_handler_installed_anew()
{
	struct sigaction mine = {};

	mine.sa_sigaction = report_crash;
	mine.sa_flags = SA_SIGINFO;
	real_sigaction()(SIGSEGV, &mine, nullptr);
	guarded(64, true);
	real_sigaction()(SIGSEGV, &mine, &replaced);
	fprintf(stderr, "then\n");
	write_to_nothing();
	return 1;
}

TEST_F(KfenceFaultTest, HandlerThatIsInstalledAnewEnds)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_EXIT((alarm(20), _exit(with_handler_installed_anew())),
		    ::testing::KilledBySignal(SIGSEGV), "^then\ncalled\ncalled\n$");
}

/* A signal with the information of a fault, which the thread queues to itself. */
int with_queued_fault()
{
	siginfo_t info = {};

	guarded(64, true);
	info.si_signo = SIGSEGV;
	info.si_code = SEGV_MAPERR;
	info.si_addr = reinterpret_cast<void *>(64);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
	return 1;
}

#ifdef __x86_64__
TEST_F(KfenceFaultTest, QueuedFaultKills)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_EXIT(_exit(with_queued_fault()), ::testing::KilledBySignal(SIGSEGV), "");
}
#endif

/* Another process may send a signal whose bytes look like the address of a guard. */
int with_sent_signal()
{
	siginfo_t info = {};
	char *p = guarded(64, true);

	info.si_signo = SIGSEGV;
	info.si_code = SI_USER;
	info.si_addr = p + 64;
	syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
	return 1;
}

TEST_F(KfenceFaultTest, SentSignalIsNoFault)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_EXIT(_exit(with_sent_signal()), ::testing::KilledBySignal(SIGSEGV), "^$");
}

/* --- no fault is tried for ever ------------------------------------------------------------
 */

/* The process has as many mappings as it may: no guard can be opened. */
int with_refused_opening()
{
	static char *p;

	handle_by(escape, SA_NODEFER);
	p = guarded(64, true);
	os_calls.mprotect = refuse_mprotect;
	for (int i = 0; i < 2; i++)
		if (!sigsetjmp(jump, 0)) {
			p[64] = 1;
			return 1;
		}
	return faults == 2 ? 0 : 2;
}

TEST_F(KfenceFaultTest, FaultThatCannotBeResolvedIsPassedOnEachTime)
{
	EXPECT_FRESH_POOL_PASSES(with_refused_opening);
}

/* The thread that takes an object may not run, or be the very one that faults, in a handler. */
TEST_F(KfenceFaultTest, FaultAtAnObjectThatIsBeingTaken)
{
	for (enum shim_kfence_thread by : { SHIM_THIS, SHIM_ANOTHER }) {
		char *p = guarded(64, true);
		unsigned int i = shim_kfence_index(p);

		kfree(p);
		in_child([=] {
			shim_kfence_set_state(i, TAKEN, by);
			std::string text = says([=] { p[3] = 1; });
			bool told = text.find("BUG: KFENCE: invalid write in ") !=
				    std::string::npos;

			if (!told || text.find("allocated by") != std::string::npos)
				return 1;
			return says([=] { p[4] = 1; }).empty() ? 0 : 2;
		});
	}
}

/* Its object comes out of the pool again and is freed, before the page is opened. */
TEST_F(KfenceFaultTest, PageThatIsOpenedTooLateIsClosed)
{
	OsCallsGuard guard;
	char *p = guarded(64, true);
	unsigned int index = shim_kfence_index(p);

	os_calls.mprotect = delayed_mprotect;
	kfree(p);
	meanwhile = [=] {
		for (bool again = false; !again;) {
			char *q = guarded(64, true);

			again = shim_kfence_index(q) == index;
			kfree(q);
		}
	};
	std::string text = says([=] { p[3] = 1; });

	EXPECT_THAT(text, StartsWith("ukmem: BUG: KFENCE: use-after-free write in "));
	EXPECT_EQ(text.find("BUG", 20), std::string::npos) << "once";
	EXPECT_TRUE(shim_kfence_is_opened(index)) << "it is known that the page is open";
	EXPECT_EQ(shim_kfence_state(index), FREED);
}

TEST_F(KfenceFaultTest, GuardThatIsOpenedTooLateIsClosed)
{
	OsCallsGuard guard;
	char *p = guarded(64, true);

	os_calls.mprotect = delayed_mprotect;
	meanwhile = [=] { kfree(p); };
	EXPECT_THAT(says([=] { p[64] = 1; }), StartsWith("ukmem: BUG: KFENCE: invalid write"));
	EXPECT_FALSE(meanwhile);
}

/* --- threads --------------------------------------------------------------------------------
 */

/* Takes objects, frees them, and reads them and their guards before and after. */
void take_and_read(unsigned int rounds, const std::atomic<bool> &stop)
{
	for (unsigned int i = 0; i < rounds && !stop; i++) {
		shim_kfence_open();
		char *p = unknown(shim_kmalloc_slow(64, GFP_KERNEL));

		if (i % 4 == 0 && shim_kfence_has(p))
			(void)*static_cast<volatile char *>(p + PAGE);
		kfree(p);
		if (shim_kfence_has(p))
			(void)*static_cast<volatile char *>(p);
	}
}

/* The objects that are freed, of which no report tells that they are open, are closed. */
void expect_closed()
{
	for (int i = 0; i < OBJECTS; i++) {
		char *p = guarded(64, true);
		unsigned int index = shim_kfence_index(p);

		kfree(p);
		EXPECT_EQ(shim_kfence_state(index), FREED);
		EXPECT_TRUE(shim_kfence_is_opened(index) || !shim_kfence_is_readable(p));
	}
}

/* Some threads use what they have freed while others take and free the same objects. */
TEST_F(KfenceFaultTest, StormOfFaults)
{
	std::atomic<bool> stop{ false };
	std::string line,
		text = says([&] {
			std::vector<std::thread> threads;

			for (int t = 0; t < 4; t++)
				threads.emplace_back([&] { take_and_read(200, stop); });
			for (int t = 0; t < 2; t++)
				threads.emplace_back([&] {
					while (!stop) {
						shim_kfence_open();
						kfree(shim_kmalloc_slow(64, GFP_KERNEL));
					}
				});
			for (int t = 0; t < 4; t++)
				threads[t].join();
			stop = true;
			threads[4].join();
			threads[5].join();
		});
	std::istringstream lines(text);
	unsigned int found = 0;

	while (std::getline(lines, line)) {
		if (line.find("BUG") == std::string::npos)
			continue;
		EXPECT_THAT(line, ::testing::MatchesRegex(
					  "ukmem: BUG: KFENCE: "
					  "(use-after-free|out-of-bounds|invalid) read in .*"));
		found++;
	}
	EXPECT_GT(found, 50u);
	expect_closed();
}

} // namespace
