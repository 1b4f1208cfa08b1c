/* SPDX-License-Identifier: MIT */
/* KFENCE: each report, by a real fault in this process; handlers of faults, forks, refusals. */
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_clock.h"
#include "kfence_util.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(KfenceTest, OutOfBoundsOnTheRight)
{
	char *p = guarded(64, true), *end = p + 64;
	std::string text = says([&] { end[2] = 1; });

	EXPECT_THAT(text, HasSubstr("ukmem: BUG: KFENCE: out-of-bounds write in "));
	EXPECT_THAT(text, HasSubstr("  out-of-bounds write at " + address(end + 2) +
				    " (3B right of " + number(p) + ") by thread " +
				    std::to_string(gettid()) + ":\n"));
	EXPECT_THAT(text, HasSubstr("  " + number(p) + ": " + address(p) + "-" +
				    address(end - 1) + ", size=64, cache=kmalloc-64\n"));
	EXPECT_THAT(text, HasSubstr("  allocated by thread " + std::to_string(gettid())));
	EXPECT_THAT(text, Not(HasSubstr("freed by")));
	EXPECT_EQ(end[2], 1) << "the program goes on, with the page open";
	EXPECT_EQ(says([&] { kfree(p); }), "");
}

TEST_F(KfenceTest, OutOfBoundsOnTheLeft)
{
	char *p = guarded(100, false);
	std::string text = says([&] { (void)*static_cast<volatile char *>(p - 1); });

	EXPECT_THAT(text, HasSubstr("ukmem: BUG: KFENCE: out-of-bounds read in "));
	EXPECT_THAT(text, HasSubstr("  out-of-bounds read at " + address(p - 1) +
				    " (1B left of " + number(p) + ")"));
	EXPECT_EQ(says([&] { (void)*static_cast<volatile char *>(p - 2); }), "") << "once";
	kfree(p);
}

/* A guard that was opened is closed again when its object is freed. */
TEST_F(KfenceTest, GuardsClose)
{
	char *p = guarded(64, true);

	EXPECT_THAT(says([&] { p[64] = 1; }), HasSubstr("out-of-bounds write"));
	kfree(p);
	EXPECT_THAT(says([&] { p[64] = 1; }), HasSubstr("BUG: KFENCE: invalid write in "));
}

TEST_F(KfenceTest, UseAfterFree)
{
	for (bool write : { false, true }) {
		char *p = guarded(48, true);

		strcpy(p, "still here");
		kfree(p);
		std::string text = says([&] {
			if (write)
				p[3] = 1;
			else
				(void)*static_cast<volatile char *>(p + 3);
		});
		std::string what = write ? "write" : "read";

		EXPECT_THAT(text,
			    HasSubstr("ukmem: BUG: KFENCE: use-after-free " + what + " in "));
		EXPECT_THAT(text, HasSubstr("  use-after-free " + what + " at " +
					    address(p + 3) + " (in " + number(p) + ")"));
		EXPECT_THAT(text, HasSubstr("allocated by thread"));
		EXPECT_THAT(text, HasSubstr("freed by thread " + std::to_string(gettid())));
		EXPECT_STREQ(p, write ? "sti\1l here" : "still here");
	}
}

TEST_F(KfenceTest, InvalidFrees)
{
	char *p = guarded(64, true);
	std::string text = says([&] { kfree(p + 8); });

	EXPECT_THAT(text, HasSubstr("ukmem: BUG: KFENCE: invalid free in "));
	EXPECT_THAT(text,
		    HasSubstr("  kfree() of " + address(p + 8) + " (in " + number(p) + ")"));
	EXPECT_THAT(text, ContainsRegex("by thread [0-9]+:\nukmem:     [^ ]")) << "who freed";
	EXPECT_THAT(says([&] { kfree(p + 64); }), HasSubstr("(in a guard page)"));
	EXPECT_THAT(says([&] { EXPECT_EQ(ksize(p + 8), 0u); }), HasSubstr("  ksize() of "));
	EXPECT_THAT(says([&] { EXPECT_EQ(krealloc(p + 8, 10, GFP_KERNEL), nullptr); }),
		    HasSubstr("  krealloc() of "));
	EXPECT_EQ(says([&] { kfree(p); }), "");
	text = says([&] { kfree(p); });
	EXPECT_THAT(text, HasSubstr("ukmem: BUG: KFENCE: invalid free in "));
	EXPECT_THAT(text, HasSubstr("freed by thread"));
	config.invalid_free = INVALID_FREE_IGNORE;
	EXPECT_EQ(says([&] { kfree(p); }), "");
}

TEST_F(KfenceTest, InvalidFreeAborts)
{
	char *p = guarded(64, true);

	config.invalid_free = INVALID_FREE_ABORT;
	EXPECT_EXIT(kfree(p + 1), ::testing::KilledBySignal(SIGABRT), "KFENCE: invalid free");
	kfree(p);
}

/* What a page does not see, the canary does, on either side and to the page's last byte. */
TEST_F(KfenceTest, Corruption)
{
	for (int where : { 72, 100, -1, -50 }) {
		char *p = guarded(72, where < 0);

		p[where] = 'x';
		std::string text = says([&] { kfree(p); });

		EXPECT_THAT(text, HasSubstr("ukmem: BUG: KFENCE: memory corruption in "));
		EXPECT_THAT(text, HasSubstr("  corrupted memory at " + address(p + where) +
					    " [ 0x78 "));
		EXPECT_THAT(text,
			    HasSubstr(where < 0 ? std::to_string(-where) + "B left of "
						: std::to_string(where - 71) + "B right of "));
		EXPECT_THAT(text, HasSubstr("freed by thread"));
	}
	char *p = guarded(73, true); /* ends 7 bytes before the page does */

	p[79] = 1;
	EXPECT_THAT(says([&] { kfree(p); }), HasSubstr("(7B right of "));
	p = guarded(73, true);
	memset(p, 0, 73);
	EXPECT_EQ(says([&] { kfree(p); }), "");
}

TEST_F(KfenceTest, AbortLeavesTheFaultToTheSystem)
{
	config.kfence_on_fault = KFENCE_ON_FAULT_ABORT;
	char *p = guarded(64, true);

	EXPECT_EXIT(p[64] = 1, ::testing::KilledBySignal(SIGSEGV),
		    "KFENCE: out-of-bounds write");
	p[-1] = 1;
	EXPECT_EXIT(kfree(p), ::testing::KilledBySignal(SIGABRT), "KFENCE: memory corruption");
	config.kfence_on_fault = KFENCE_ON_FAULT_CONTINUE;
	EXPECT_NE(says([&] { kfree(p); }), "");
}

TEST_F(KfenceTest, OtherFaultsKill)
{
	kfree(guarded(64, true));
	EXPECT_EXIT(*unknown(reinterpret_cast<void *>(64)) = 1,
		    ::testing::KilledBySignal(SIGSEGV), "^$");
	EXPECT_EXIT(raise(SIGSEGV), ::testing::KilledBySignal(SIGSEGV), "^$");
}

sigjmp_buf jump;

void escape(int /*signal*/)
{
	siglongjmp(jump, 1);
}

/* As long as the program's own handler is there, it could not tell what a fault of ours is. */
TEST_F(KfenceTest, NothingIsGuardedBehindALaterHandler)
{
	kfree(guarded(64, true));

	struct sigaction mine = {}, old;

	mine.sa_handler = escape;
	ASSERT_EQ(sigaction(SIGSEGV, &mine, &old), 0);
	shim_kfence_open();
	void *p = shim_kmalloc_slow(64, GFP_KERNEL);

	EXPECT_FALSE(shim_kfence_has(p));
	kfree(p);
	ASSERT_EQ(sigaction(SIGSEGV, &old, nullptr), 0);
	kfree(guarded(64, true));
}

volatile int faults; /* that came to the program's handler */

/* For a process that has no pool yet when it installs its handler. */
int with_earlier_handler()
{
	struct sigaction mine = {};

	mine.sa_handler = escape;
	mine.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &mine, nullptr);
	char *p = guarded(64, true);

	if (!sigsetjmp(jump, 0)) {
		*unknown(reinterpret_cast<void *>(64)) = 1;
		return 1;
	}
	faults = faults + 1;
	p[64] = 1; /* not the program's */
	config.kfence_on_fault = KFENCE_ON_FAULT_ABORT;
	if (!sigsetjmp(jump, 0)) {
		guarded(64, true)[64] = 1; /* reported, and the program's */
		return 2;
	}
	return faults == 1 ? 0 : 3;
}

TEST_F(KfenceTest, EarlierHandlersGetOtherFaults)
{
	if (shim_kfence_pool_bytes())
		GTEST_SKIP() << "another test has made the pool";
	in_child(with_earlier_handler);
}

/* For such a process, too: the program protects pages of its own, as garbage collectors do, to
 * see writes. */
int with_own_protection()
{
	struct sigaction mine = {};

	mine.sa_handler = escape;
	mine.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &mine, nullptr);
	char *p = guarded(PAGE, false);

	for (int access : { PROT_READ, PROT_NONE }) {
		mprotect(p, PAGE, access);
		if (!sigsetjmp(jump, 0)) {
			*p = 1;
			return 1;
		}
		faults = faults + 1;
	}
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	*p = 1;
	kfree(p);
	return faults == 2 ? 0 : 2;
}

TEST_F(KfenceTest, ProtectionOfTheProgramIsItsOwn)
{
	if (shim_kfence_pool_bytes())
		GTEST_SKIP() << "another test has made the pool";
	in_child(with_own_protection);
}

/* A page that was opened after a report cannot be executed, and the next try would fault again.
 */
TEST_F(KfenceTest, JumpsEndTheProgram)
{
	char *p = guarded(64, true);
	auto jump_there = [&] {
		alarm(20);
		reinterpret_cast<void (*)()>(unknown(p))();
	};

	EXPECT_EXIT(jump_there(), ::testing::KilledBySignal(SIGSEGV), "^$");
	kfree(p);
	EXPECT_EXIT(jump_there(), ::testing::KilledBySignal(SIGSEGV),
		    "KFENCE: use-after-free instruction fetch in ");
}

TEST_F(KfenceTest, GateOpensOnceInAnInterval)
{
	kfree(guarded(64, true)); /* and closes the gate */
	config.kfence_sample_interval = 1000;
	shim_kfence_look(UINT64_MAX - 5000);
	EXPECT_TRUE(shim_kfence_is_open());
	kfree(shim_kmalloc_slow(64, GFP_KERNEL));
	EXPECT_FALSE(shim_kfence_is_open());
	shim_kfence_look(UINT64_MAX - 4001);
	EXPECT_FALSE(shim_kfence_is_open());
	shim_kfence_look(UINT64_MAX - 4000);
	EXPECT_TRUE(shim_kfence_is_open());
	config.kfence_sample_interval = 0;
	kfree(shim_kmalloc_slow(64, GFP_KERNEL));
	shim_kfence_look(UINT64_MAX - 1);
	EXPECT_FALSE(shim_kfence_is_open());
}

bool opens_at(uint64_t ms)
{
	fake_now = 1000000 + ms;
	shim_kfence_look(fake_now);
	return shim_kfence_is_open();
}

bool gets_guarded()
{
	char *p = unknown(shim_kmalloc_slow(64, GFP_KERNEL));
	bool guarded = shim_kfence_has(p);

	kfree(p);
	return guarded;
}

void begin_interval()
{
	os_calls.now_ms = fake_now_ms;
	configure("kfence_sample_interval:1000");
	kfree(kmalloc(1, GFP_KERNEL));
	ASSERT_FALSE(opens_at(0));
	ASSERT_FALSE(opens_at(749));
	EXPECT_FALSE(gets_guarded());
}

/* One request makes the pool, and another one has the first object, when the interval ends. */
void pool_first()
{
	begin_interval();
	EXPECT_TRUE(opens_at(750));
	EXPECT_EQ(shim_kfence_pool_bytes(), 0u);
	EXPECT_FALSE(gets_guarded());
	EXPECT_GT(shim_kfence_pool_bytes(), 0u);
	EXPECT_FALSE(opens_at(999));
	EXPECT_TRUE(opens_at(1000));
	EXPECT_TRUE(gets_guarded());
	EXPECT_FALSE(opens_at(1999));
	EXPECT_TRUE(opens_at(2000));
	EXPECT_TRUE(gets_guarded());
}

/* Where none came to make it, the first request makes both. */
void both_at_once()
{
	begin_interval();
	EXPECT_TRUE(opens_at(800));
	EXPECT_TRUE(opens_at(1000));
	EXPECT_TRUE(gets_guarded());
}

void late()
{
	begin_interval();
	EXPECT_TRUE(opens_at(1100));
	EXPECT_TRUE(gets_guarded());
}

TEST(KfencePoolTest, ComesBeforeTheFirstObject)
{
	EXPECT_FRESH_PROCESS_PASSES(pool_first);
	EXPECT_FRESH_PROCESS_PASSES(both_at_once);
	EXPECT_FRESH_PROCESS_PASSES(late);
}

/* Objects from one place, by an exact walk, leave a quarter of the pool to others. */
TEST_F(KfenceTest, OnePlaceDoesNotFillThePool)
{
	std::vector<char *> all;

	config.kfence_stack = KFENCE_STACK_TABLES;
	for (int i = 0; i < 2 * OBJECTS; i++) {
		shim_kfence_open();
		char *p = unknown(shim_kmalloc_slow(64, GFP_KERNEL));

		if (shim_kfence_has(p))
			all.push_back(p);
		else
			kfree(p);
	}
	EXPECT_EQ(all.size(), (OBJECTS * 3 + 3) / 4u);
	all.push_back(guarded(64, true)); /* from another place */
	for (char *p : all)
		kfree(p);
}

TEST_F(KfenceTest, OldestIsTakenFirstAndThePoolDoesNotGrow)
{
	std::vector<char *> all;
	size_t bytes = 0;

	config.kfence_stack = KFENCE_STACK_FRAMES;
	for (int i = 0; i < 100; i++) {
		shim_kfence_open();
		char *p = unknown(shim_kmalloc_slow(64 + i, GFP_KERNEL));

		if (shim_kfence_has(p))
			all.push_back(p);
		else
			kfree(p);
		if (i == 0)
			bytes = shim_kfence_pool_bytes();
	}
	EXPECT_EQ(bytes, (2 * OBJECTS + 1) * PAGE + OBJECTS * (LARGE_SLOT + PAGE));
	EXPECT_EQ(shim_kfence_pool_bytes(), bytes);
	/* A quarter of the pool is left to others; less or nothing, where a walk along frame
	 * pointers has met a frame without one. */
	ASSERT_GE(all.size(), OBJECTS * 3 / 4u);
	ASSERT_LE(all.size(), static_cast<size_t>(OBJECTS));
	for (char *p : all)
		kfree(p);
	std::set<unsigned int> seen;

	for (int i = 0; i < OBJECTS; i++) {
		char *p = guarded(64, i % 2);

		EXPECT_TRUE(seen.insert(shim_kfence_index(p)).second || i > 0);
		kfree(p);
	}
	/* Freed last, it comes last. */
	char *first = guarded(64, true);
	unsigned int index = shim_kfence_index(first);

	kfree(first);
	for (int i = 1; i < OBJECTS; i++) {
		shim_kfence_open();
		void *p = shim_kmalloc_slow(64, GFP_KERNEL);

		ASSERT_TRUE(shim_kfence_has(p));
		EXPECT_NE(shim_kfence_index(p), index);
		kfree(p);
	}
	shim_kfence_open();
	void *p = shim_kmalloc_slow(64, GFP_KERNEL);

	EXPECT_EQ(shim_kfence_index(p), index);
	kfree(p);
}

/* The child finishes what threads had begun that it does not have; this thread's own goes on.
 */
TEST_F(KfenceTest, ForkFindsObjectsWhole)
{
	char *p = guarded(64, true), *q = guarded(64, true), *mine = guarded(64, true);
	char *kept = guarded(64, true);
	auto state = [](char *each) { return shim_kfence_state(shim_kfence_index(each)); };
	auto set = [](char *each, unsigned int to, enum shim_kfence_thread by) {
		shim_kfence_set_state(shim_kfence_index(each), to, by);
	};

	set(p, TAKEN, SHIM_ANOTHER);
	set(q, FREEING, SHIM_ANOTHER);
	set(mine, FREEING, SHIM_THIS);
	in_child([&] {
		if (state(p) != FREED || state(q) != FREED || state(mine) != FREEING ||
		    state(kept) != IN_USE)
			return 1;
		if (says([&] { *q = 1; }).find("use-after-free write") == std::string::npos)
			return 2;
		kfree(kept);
		return state(kept) == FREED ? 0 : 3;
	});
	EXPECT_EQ(state(p), TAKEN);
	for (char *each : { p, q, mine })
		set(each, IN_USE, SHIM_NOBODY);
	for (char *each : { p, q, mine, kept })
		kfree(each);
}

/* The process may have as many mappings as it is allowed: then nothing is guarded. */
TEST_F(KfenceTest, RefusedProtection)
{
	const struct os_calls saved = os_calls;
	char *p = guarded(64, true);

	os_calls.mprotect = refuse_mprotect;
	shim_kfence_open();
	void *q = shim_kmalloc_slow(64, GFP_KERNEL);

	EXPECT_NE(q, nullptr);
	EXPECT_FALSE(shim_kfence_has(q));
	kfree(q);
	EXPECT_EQ(says([&] { kfree(p); }), "");
	os_calls = saved;
	for (int i = 0; i < 2 * OBJECTS; i++)
		kfree(guarded(64, true));
}

/* Threads take, write and free; the gate is open all the time; children come and go. */
TEST_F(KfenceTest, Storm)
{
	std::atomic<bool> stop{ false };
	std::atomic<unsigned int> taken{ 0 }, wrong{ 0 };
	std::vector<std::thread> threads;

	::testing::internal::CaptureStderr();
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			char *mine[2] = {};

			for (unsigned int i = 0; !stop; i++) {
				char *&p = mine[i % 2];
				size_t size = 16 + (i * 7 + t) % 500;

				if (p) {
					wrong += p[0] != char(t) || p[15] != char(t);
					kfree(p);
				}
				shim_kfence_open();
				p = unknown(shim_kmalloc_slow(size, GFP_KERNEL));
				taken += shim_kfence_has(p);
				memset(p, t, size);
			}
			kfree(mine[0]);
			kfree(mine[1]);
		});
	for (int i = 0; i < 20; i++) {
		in_child([] {
			for (int k = 0; k < 2 * OBJECTS; k++) {
				shim_kfence_open();
				kfree(shim_kmalloc_slow(64, GFP_KERNEL));
			}
			return ukmem_verify(stderr);
		});
	}
	stop = true;
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	EXPECT_GT(taken, 100u);
	EXPECT_EQ(wrong, 0u);
}

} // namespace
