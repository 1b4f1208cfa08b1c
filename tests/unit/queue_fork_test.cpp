/* SPDX-License-Identifier: MIT */
/*
 * A child of fork() and a queue that other threads of its parent were using: whatever those
 * were in the middle of, the child fills and empties its queue.
 */
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "queue_shim.h"
#include "queue_util.h"

namespace
{

/* Exit codes of a child. */
constexpr int FINE = 0, TOO_MANY = 1, NOT_EMPTY = 2, NOT_FULL = 3, NOT_WHAT_WAS_PUT = 4;

/* Empties the queue, which holds @most at most, fills it, and empties it again. */
int fill_and_empty(struct alf_queue *q, uint32_t most)
{
	void *p[kSize + 1];
	uint32_t n = 0, got;

	while ((got = alf_mc_dequeue(q, p, kSize + 1)))
		n += got;
	if (n > most)
		return TOO_MANY;
	if (!alf_queue_empty(q))
		return NOT_EMPTY;
	for (uint32_t i = 0; i < kSize; i++) {
		void *one = number(i);

		if (alf_mp_enqueue(q, &one, 1) != 1)
			return NOT_FULL;
	}
	if (alf_mc_dequeue_bulk(q, p, kSize) != kSize)
		return NOT_EMPTY;
	for (uint32_t i = 0; i < kSize; i++)
		if (p[i] != number(i))
			return NOT_WHAT_WAS_PUT;
	return FINE;
}

class QueueForkTest : public ::testing::TestWithParam<unsigned>
{
      protected:
	void SetUp() override
	{
		q_ = alf_queue_alloc_flags(kSize, GFP_KERNEL, GetParam());
		ASSERT_FALSE(IS_ERR(q_));
		put(4);
		get(1); /* 1, 2 and 3 are in it */
	}
	void TearDown() override
	{
		alf_queue_free(q_);
	}

	void put(uint32_t n)
	{
		for (uint32_t i = 0; i < n; i++) {
			void *p = number(next_++);

			ASSERT_EQ(alf_mp_enqueue(q_, &p, 1), 1u);
		}
	}
	void get(uint32_t n)
	{
		void *p[kSize];

		ASSERT_EQ(alf_mc_dequeue_bulk(q_, p, n), n);
	}
	/* Whether the multi functions reserve, as this test pretends that somebody did. */
	bool reserves() const
	{
		return q_->producer.reserved == q_->producer.word;
	}

	struct alf_queue *q_ = nullptr;
	uintptr_t next_ = 0;
};

TEST_P(QueueForkTest, AThreadThatWasEnqueuing)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	ASSERT_TRUE(shim_queue_reserve(q_, &q_->producer));
	EXPECT_EQ(in_child([this] { return fill_and_empty(q_, 3); }), FINE);
}

TEST_P(QueueForkTest, AThreadThatWasDequeuing)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	ASSERT_TRUE(shim_queue_reserve(q_, &q_->consumer));
	EXPECT_EQ(in_child([this] { return fill_and_empty(q_, 3); }), FINE);
}

/*
 * A thread dequeues an element while another thread is still dequeuing the element in front.
 * The first thread may have done anything with its element, so the child must not find it
 * again. In ticket order no thread can finish before the one in front of it, and a call that no
 * thread finished has not happened.
 */
TEST_P(QueueForkTest, WhatWasTakenIsNotThereAgain)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	ASSERT_TRUE(shim_queue_reserve(q_, &q_->consumer));
	EXPECT_EQ(in_child([this] {
			  void *p[kSize];
			  uint32_t n = alf_mc_dequeue(q_, p, kSize);
			  bool ticket = GetParam() & ALF_QUEUE_TICKET;

			  if (n != (ticket ? 3u : 2u))
				  return TOO_MANY;
			  return p[n - 1] == number(3) ? FINE : NOT_WHAT_WAS_PUT;
		  }),
		  FINE);
}

/*
 * A child that goes on with single functions. As above, elements that threads of the parent
 * were dequeuing, or had dequeued, are not there; and neither the single functions nor the
 * multi functions after them find an element twice.
 */
TEST_P(QueueForkTest, SingleFunctionsAfterAHandOver)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	ASSERT_TRUE(shim_queue_reserve(q_, &q_->consumer));
	if (!(GetParam() & ALF_QUEUE_TICKET))
		get(1); /* 2, past the thread that is at 1 */
	EXPECT_EQ(in_child([this] {
			  bool ticket = GetParam() & ALF_QUEUE_TICKET;
			  void *p[kSize] = {};
			  uint32_t n;

			  alf_queue_hand_over(q_);
			  n = alf_sc_dequeue(q_, p, kSize);
			  if (n != (ticket ? 3u : 1u))
				  return TOO_MANY;
			  if (p[n - 1] != number(3))
				  return NOT_WHAT_WAS_PUT;
			  if (alf_mp_enqueue(q_, p, 1) != 1 || alf_sc_dequeue(q_, p, 1) != 1)
				  return NOT_FULL;
			  alf_queue_hand_over(q_);
			  return fill_and_empty(q_, 0);
		  }),
		  FINE);
}

/* A thread that was in a single function, where such threads are checked. */
TEST_P(QueueForkTest, ASingleUser)
{
	alf_queue_hand_over(q_);
	alf_queue_single_begin(q_, &q_->producer, "parent");
	alf_queue_single_begin(q_, &q_->consumer, "parent");
	EXPECT_EQ(in_child([this] {
			  void *p = number(4);

			  alf_queue_single_begin(q_, &q_->producer, "child");
			  alf_queue_single_end(&q_->producer);
			  if (alf_sp_enqueue(q_, &p, 1) != 1)
				  return NOT_FULL;
			  alf_queue_single_begin(q_, &q_->consumer, "child");
			  alf_queue_single_end(&q_->consumer);
			  return alf_sc_dequeue(q_, &p, 1) == 1 ? FINE : NOT_EMPTY;
		  }),
		  FINE);
}

/* Children of children; each with a thread of its own that does not live on. */
TEST_P(QueueForkTest, Generations)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	ASSERT_TRUE(shim_queue_reserve(q_, &q_->producer));
	EXPECT_EQ(in_child([this] {
			  int result = fill_and_empty(q_, 3);

			  put(2);
			  shim_queue_reserve(q_, &q_->consumer);
			  shim_queue_reserve(q_, &q_->producer);
			  return result ? result
					: in_child([this] { return fill_and_empty(q_, 2); });
		  }),
		  FINE);
}

/*
 * A handler interrupts a thread in the middle of a call, forks, and returns in the child. There
 * the thread begins the call again, except for elements that it has dequeued. Another thread,
 * which the child does not have, was in the middle of a call before it.
 */
TEST_P(QueueForkTest, WhoForkedWasInTheMiddle)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	for (struct alf_queue_side *side : { &q_->producer, &q_->consumer }) {
		ASSERT_TRUE(shim_queue_reserve(q_, side));
		ASSERT_TRUE(shim_queue_reserve(q_, side));
	}
	EXPECT_EQ(in_child([this] {
			  shim_queue_reserve(q_, &q_->consumer);
			  return shim_queue_publish(&q_->consumer) ? FINE : NOT_EMPTY;
		  }),
		  FINE)
		<< "one after the fork";
	EXPECT_EQ(in_child([this] {
			  if (shim_queue_publish(&q_->producer))
				  return TOO_MANY;
			  return fill_and_empty(q_, 3);
		  }),
		  FINE);
	EXPECT_EQ(in_child([this] {
			  bool ticket = GetParam() & ALF_QUEUE_TICKET;

			  if (shim_queue_publish(&q_->consumer) == ticket)
				  return NOT_EMPTY;
			  return fill_and_empty(q_, ticket ? 3 : 1);
		  }),
		  FINE);
}

/* A thread, or a handler, comes while the child's first thread is settling what it inherited.
 * That is no single function, which ALF_QUEUE_CHECK would report. */
TEST_P(QueueForkTest, AThreadOfTheChildIsSettling)
{
	if (!reserves())
		GTEST_SKIP() << "sections";
	for (struct alf_queue_side *side : { &q_->producer, &q_->consumer })
		ASSERT_TRUE(shim_queue_reserve(q_, side));
	EXPECT_EQ(in_child([this] {
			  for (auto *side : { &q_->producer, &q_->consumer })
				  shim_queue_inherit_half(side);
			  return fill_and_empty(q_, 3);
		  }),
		  FINE);
}

/* A thread that could not run sections. */
TEST_P(QueueForkTest, AStranger)
{
	if (reserves())
		GTEST_SKIP() << "no sections";
	for (struct alf_queue_side *side : { &q_->producer, &q_->consumer })
		side->word = (side->word & ~UINT64_C(0xffff)) | 0xc000;
	EXPECT_EQ(in_child([this] { return fill_and_empty(q_, 3); }), FINE);
}

/*
 * A stranger, or a thread with a reservation, copies to or from this memory, which faults, so
 * that a handler interrupts the thread while it has the side. The handler forks, and uses the
 * side in the child.
 */
struct {
	struct alf_queue *q;
	bool enqueues;
	void **memory;
	unsigned used;
	int status;
} faulting;

unsigned use_side(void **p)
{
	return faulting.enqueues ? alf_mp_enqueue(faulting.q, p, 1)
				 : alf_mc_dequeue(faulting.q, p, 1);
}

void fork_and_use(int)
{
	void *p = number(8);
	pid_t child = fork();

	if (!child) {
		alarm(5);
		faulting.used = use_side(&p);
	} else {
		waitpid(child, &faulting.status, 0);
	}
	mprotect(faulting.memory, ukmem_page_size(), PROT_READ | PROT_WRITE);
	faulting.memory[0] = number(9);
}

/* The queue has 1, 2 and 3. In both processes the interrupted call goes on as if nothing was.
 */
int interrupted(struct alf_queue *q, bool enqueues)
{
	const uintptr_t first = enqueues ? 1 : 2, last = enqueues ? 4 : 3;
	void *p[kSize], *page = mmap(nullptr, ukmem_page_size(), PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	faulting = { q, enqueues, static_cast<void **>(page), 0, 0 };
	signal(SIGSEGV, fork_and_use);
	if (use_side(faulting.memory) != 1)
		return NOT_FULL;
	if (faulting.used || alf_mc_dequeue(q, p, kSize) != last - first + 1)
		return TOO_MANY;
	if (faulting.memory[0] != number(enqueues ? 9 : 1))
		return NOT_WHAT_WAS_PUT;
	for (uintptr_t i = first; i <= last; i++)
		if (p[i - first] != number(i == 4 ? 9 : i))
			return NOT_WHAT_WAS_PUT;
	return faulting.status ? NOT_EMPTY : FINE;
}

TEST_P(QueueForkTest, WhoForkedInAHandlerHasTheSide)
{
	for (bool enqueues : { true, false })
		EXPECT_EQ(in_child([this, enqueues] {
				  if (!reserves() && !shim_queue_without_sections())
					  return NOT_FULL;
				  return interrupted(q_, enqueues);
			  }),
			  FINE)
			<< enqueues;
}

/* Sides that the sections of other threads had to themselves, on whatever CPU. */
TEST_P(QueueForkTest, SectionsOfOtherThreads)
{
	for (int cpu : allowed_cpus()) {
		on_cpu(cpu, [this] {
			put(2);
			get(2);
		});
		for (int mine : allowed_cpus())
			EXPECT_EQ(in_child([this, mine] {
					  run_on(mine);
					  return fill_and_empty(q_, 3);
				  }),
				  FINE)
				<< "of CPU " << cpu << " on CPU " << mine;
	}
}

TEST_P(QueueForkTest, Storm)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([this, &stop] {
			void *p[3] = { number(1), number(2), number(3) };

			while (!stop) {
				alf_mp_enqueue_burst(q_, p, 3);
				alf_mc_dequeue(q_, p, 2);
			}
		});
	for (int i = 0; i < (TEST_TSAN ? 5 : 60) && !HasFailure(); i++)
		EXPECT_EQ(in_child([this] { return fill_and_empty(q_, kSize); }), FINE)
			<< "fork " << i;
	stop = true;
	for (auto &thread : threads)
		thread.join();
}

std::string way_of(unsigned flags)
{
	if (flags & ALF_QUEUE_TICKET)
		return "Ticket";
	return flags & ALF_QUEUE_CHECK ? "Checked" : "Any";
}

INSTANTIATE_TEST_SUITE_P(Ways, QueueForkTest,
			 ::testing::Values(0u, ALF_QUEUE_TICKET, ALF_QUEUE_CHECK),
			 [](const auto &info) { return way_of(info.param); });

} // namespace
