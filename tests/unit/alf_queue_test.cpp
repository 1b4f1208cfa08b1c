/* SPDX-License-Identifier: MIT */
/* The ALF queue, by one thread at a time: its promises at every offset. */
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "ukmem/ukmem.h"

namespace
{

using Enqueue = unsigned int (*)(struct alf_queue *, void *const[], uint32_t);
using Dequeue = unsigned int (*)(struct alf_queue *, void *[], uint32_t);

struct Way {
	const char *name;
	unsigned flags;
	Enqueue bulk, burst;
	Dequeue take, take_bulk;
};

const Way ways[] = {
	{ "MultiMulti", 0, alf_mp_enqueue, alf_mp_enqueue_burst, alf_mc_dequeue,
	  alf_mc_dequeue_bulk },
	{ "SingleSingle", 0, alf_sp_enqueue, alf_sp_enqueue_burst, alf_sc_dequeue,
	  alf_sc_dequeue_bulk },
	{ "SingleMulti", 0, alf_sp_enqueue, alf_sp_enqueue_burst, alf_mc_dequeue,
	  alf_mc_dequeue_bulk },
	{ "MultiSingle", 0, alf_mp_enqueue, alf_mp_enqueue_burst, alf_sc_dequeue,
	  alf_sc_dequeue_bulk },
	{ "Ticket", ALF_QUEUE_TICKET, alf_mp_enqueue, alf_mp_enqueue_burst, alf_mc_dequeue,
	  alf_mc_dequeue_bulk },
	{ "Checked", ALF_QUEUE_CHECK, alf_mp_enqueue, alf_mp_enqueue_burst, alf_mc_dequeue,
	  alf_mc_dequeue_bulk },
	{ "CheckedSingle", ALF_QUEUE_CHECK, alf_sp_enqueue, alf_sp_enqueue_burst,
	  alf_mc_dequeue, alf_mc_dequeue_bulk },
	{ "TicketSingle", ALF_QUEUE_TICKET, alf_sp_enqueue, alf_sp_enqueue_burst,
	  alf_mc_dequeue, alf_mc_dequeue_bulk },
};

/* A queue whose indices begin at @start, and what ought to be in it. */
class Queue
{
      public:
	Queue(const Way &way, uint32_t size, uint32_t start = 0)
	    : way_(way), size_(size), q_(alf_queue_alloc_flags(size, GFP_KERNEL, way.flags))
	{
		EXPECT_FALSE(IS_ERR(q_));
		q_->producer.word += static_cast<uint64_t>(start) << 32;
		q_->consumer.word += static_cast<uint64_t>(start) << 32;
		q_->producer.limit += start;
		q_->consumer.limit += start;
		alf_queue_hand_over(q_); /* as if single functions had come that far */
	}
	~Queue()
	{
		alf_queue_free(q_);
	}

	void put(Enqueue enqueue, uint32_t n, uint32_t expected)
	{
		std::vector<void *> p = fresh(n);

		ASSERT_EQ(enqueue(q_, p.data(), n), expected);
		inside_.insert(inside_.end(), p.begin(), p.begin() + expected);
		next_ += expected;
		expect_counts();
	}

	void get(Dequeue dequeue, uint32_t n, uint32_t expected)
	{
		std::vector<void *> p(n + 1, this);

		ASSERT_EQ(dequeue(q_, p.data(), n), expected);
		for (uint32_t i = 0; i < expected; i++) {
			ASSERT_EQ(p[i], inside_.front());
			inside_.pop_front();
		}
		for (uint32_t i = expected; i <= n; i++)
			ASSERT_EQ(p[i], this) << "written beyond what was taken";
		expect_counts();
	}

	void hand_over()
	{
		alf_queue_hand_over(q_);
	}
	void put_bulk(uint32_t n)
	{
		put(way_.bulk, n, n <= room() ? n : 0);
	}
	void put_burst(uint32_t n)
	{
		put(way_.burst, n, std::min(n, room()));
	}
	void get_some(uint32_t n)
	{
		get(way_.take, n, std::min(n, count()));
	}
	void get_bulk(uint32_t n)
	{
		get(way_.take_bulk, n, n <= count() ? n : 0);
	}

	uint32_t count() const
	{
		return static_cast<uint32_t>(inside_.size());
	}
	uint32_t room() const
	{
		return size_ - count();
	}

      private:
	std::vector<void *> fresh(uint32_t n) const
	{
		std::vector<void *> p(n);

		for (uint32_t i = 0; i < n; i++)
			p[i] = reinterpret_cast<void *>(next_ + i);
		return p;
	}

	void expect_counts() const
	{
		ASSERT_EQ(alf_queue_count(q_), count());
		ASSERT_EQ(alf_queue_avail_space(q_), room());
		ASSERT_EQ(alf_queue_empty(q_), inside_.empty());
		ASSERT_EQ(alf_queue_size(q_), size_);
	}

	const Way &way_;
	uint32_t size_;
	struct alf_queue *q_;
	uintptr_t next_ = 1;
	std::deque<void *> inside_;
};

class AlfQueueTest : public ::testing::TestWithParam<Way>
{
};

/* n in {0, 1, size - 1, size, size + 1} at every offset, also around 2^32. */
TEST_P(AlfQueueTest, EveryNumberAtEveryOffset)
{
	for (uint32_t size : { 1u, 2u, 8u, 64u }) {
		for (uint32_t start : { 0u, 0u - 2 * size, 0x7fffffffu }) {
			Queue q(GetParam(), size, start);

			for (uint32_t offset = 0; offset < 4 * size; offset++) {
				for (uint32_t n : { 0u, 1u, size - 1, size, size + 1 }) {
					q.put_bulk(n);
					q.get_bulk(n);
					q.get_some(size);
					ASSERT_EQ(q.count(), 0u);
				}
				q.put_bulk(1); /* the next offset */
				q.get_bulk(1);
			}
		}
	}
}

TEST_P(AlfQueueTest, BesideAModel)
{
	std::mt19937 random(7);

	for (uint32_t size : { 1u, 4u, 32u, 1024u }) {
		Queue q(GetParam(), size, 0u - 50 * size);

		for (int i = 0; i < 20000; i++) {
			uint32_t n = random() % (random() % 4 ? 5 : size + 3);

			switch (random() % 4) {
			case 0:
				q.put_bulk(n);
				break;
			case 1:
				q.put_burst(n);
				break;
			case 2:
				q.get_some(n);
				break;
			default:
				q.get_bulk(n);
			}
			if (HasFatalFailure())
				return;
		}
	}
}

INSTANTIATE_TEST_SUITE_P(Ways, AlfQueueTest, ::testing::ValuesIn(ways),
			 [](const auto &info) { return std::string(info.param.name); });

/* The ways may take turns on one queue. */
TEST(AlfQueue, WaysTakeTurns)
{
	for (unsigned flags :
	     { 0u, ALF_QUEUE_TICKET, ALF_QUEUE_CHECK, ALF_QUEUE_CHECK | ALF_QUEUE_TICKET }) {
		Way way = ways[0];
		way.flags = flags;
		Queue q(way, 16, 0u - 100);
		std::mt19937 random(3);

		for (int i = 0; i < 5000; i++) {
			bool one = random() % 2;
			uint32_t n = random() % 5;

			q.hand_over();
			if (n <= q.room())
				q.put(one ? alf_sp_enqueue : alf_mp_enqueue, n, n);
			n = random() % 5;
			q.get(one ? alf_mc_dequeue : alf_sc_dequeue, n, std::min(n, q.count()));
			if (HasFatalFailure())
				return;
		}
	}
}

TEST(AlfQueue, SizesAreChecked)
{
	for (uint32_t size :
	     { 0u, 3u, 6u, 100u, 65535u, 65537u, 131072u, 0x80000000u, 0xffffffffu })
		EXPECT_EQ(PTR_ERR(alf_queue_alloc(size, GFP_KERNEL)), -EINVAL) << size;
	EXPECT_EQ(PTR_ERR(alf_queue_alloc_flags(8, GFP_KERNEL, 4)), -EINVAL);
	for (uint32_t size = 1; size <= ALF_QUEUE_MAX_SIZE; size *= 2) {
		struct alf_queue *q = alf_queue_alloc(size, GFP_KERNEL);

		ASSERT_FALSE(IS_ERR(q)) << size;
		EXPECT_EQ(alf_queue_size(q), size);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(q) % 64, 0u);
		alf_queue_free(q);
	}
	alf_queue_free(nullptr);
	alf_queue_free(static_cast<struct alf_queue *>(ERR_PTR(-EINVAL)));
}

TEST(AlfQueue, NoMemory)
{
	testing::FLAGS_gtest_death_test_style = "threadsafe"; /* a fresh process */
	setenv("UKMEM_CONF", "limit:8m", 1);
	EXPECT_EXIT(
		{
			struct alf_queue *q = alf_queue_alloc(65536, GFP_KERNEL);
			struct alf_queue *small = alf_queue_alloc(16, GFP_KERNEL);

			for (int i = 0; i < 20 && !IS_ERR(q); i++)
				q = alf_queue_alloc(65536, GFP_KERNEL);
			_exit(PTR_ERR(q) == -ENOMEM && !IS_ERR(small) ? 0 : 1);
		},
		::testing::ExitedWithCode(0), "");
}

/* Single functions are the program's own code: multi functions find what they left. */
TEST(AlfQueueDeathTest, SingleBesideMultiWhereItIsChecked)
{
	/* A fresh process: in a child of fork nothing is known of what came before. */
	testing::FLAGS_gtest_death_test_style = "threadsafe";
	for (unsigned flags : { ALF_QUEUE_CHECK, ALF_QUEUE_CHECK | ALF_QUEUE_TICKET }) {
		struct alf_queue *q = alf_queue_alloc_flags(8, GFP_KERNEL, flags);
		void *p[2] = { q, q };

		EXPECT_EQ(alf_mp_enqueue(q, p, 2), 2u);
		EXPECT_EQ(alf_sc_dequeue(q, p, 1), 1u);
		EXPECT_DEATH(alf_mc_dequeue(q, p, 1),
			     "alf_mc_dequeue.*a multi function.*single functions have used");
		EXPECT_DEATH(
			{
				alf_sp_enqueue(q, p, 1);
				alf_mp_enqueue(q, p, 1);
			},
			"alf_(s|m)p_enqueue.*on a side that .* functions have used");
		alf_queue_hand_over(q);
		EXPECT_EQ(alf_mc_dequeue(q, p, 1), 1u);
		alf_queue_free(q);
	}
}

#if UKMEM_DEBUG

TEST(AlfQueueDeathTest, SingleBesideMultiInDebugBuilds)
{
	struct alf_queue *q = alf_queue_alloc(8, GFP_KERNEL);
	void *p[2] = { q, q };

	EXPECT_EQ(alf_mp_enqueue(q, p, 1), 1u);
	EXPECT_DEATH(alf_sp_enqueue(q, p, 1),
		     "alf_sp_enqueue.*a single function by thread [0-9]+ on a side that multi "
		     "functions have used");
	alf_queue_hand_over(q);
	EXPECT_EQ(alf_sp_enqueue(q, p, 1), 1u);
	EXPECT_DEATH(alf_mp_enqueue(q, p, 1), "alf_mp_enqueue.*a multi function by thread");
	EXPECT_EQ(alf_mc_dequeue(q, p, 2), 2u) << "the other side's way is its own";
	alf_queue_free(q);
}

TEST(AlfQueueDeathTest, TwoAtOnceOnASideForOne)
{
	EXPECT_DEATH(
		{
			struct alf_queue *q = alf_queue_alloc(8, GFP_KERNEL);
			void *p[1] = { q };

			alf_queue_single_begin(q, &q->producer, "outer");
			q->producer.user ^= 0x1000; /* another thread is inside */
			alf_sp_enqueue(q, p, 1);
		},
		"alf_sp_enqueue.*two threads at once on a side for a single user");
	EXPECT_DEATH(
		{
			struct alf_queue *q = alf_queue_alloc(8, GFP_KERNEL);
			void *p[1];

			alf_queue_single_begin(q, &q->consumer, "outer");
			alf_sc_dequeue(q, p, 1); /* as a handler would */
		},
		"alf_sc_dequeue.*signal handler interrupted a single user");
}

TEST(AlfQueue, BothSidesAtOnceAreRight)
{
	struct alf_queue *q = alf_queue_alloc(8, GFP_KERNEL);
	void *p[1] = { q };

	alf_queue_single_begin(q, &q->consumer, "consumer");
	EXPECT_EQ(alf_sp_enqueue(q, p, 1), 1u);
	EXPECT_EQ(alf_sp_enqueue_burst(q, p, 1), 1u);
	alf_queue_single_end(&q->consumer);
	EXPECT_EQ(alf_sc_dequeue_bulk(q, p, 1), 1u);
	EXPECT_EQ(alf_sc_dequeue(q, p, 1), 1u);
	alf_queue_free(q);
}

#endif

} // namespace
