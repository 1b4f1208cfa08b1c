/* SPDX-License-Identifier: MIT */
/*
 * Queues in a process that loses membarrier on its way, as by a seccomp filter: what sections
 * of other CPUs had to themselves is still to be had.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "queue_shim.h"
#include "queue_util.h"
#include "seccomp.h"

namespace
{

std::atomic<int> refusal; /* what membarrier returns; 0: it works */
std::atomic<int> nr_asked;

int fake_membarrier(int cmd, unsigned flags, int cpu)
{
	nr_asked++;
	return refusal ? refusal.load() : os_calls_linux.membarrier(cmd, flags, cpu);
}

bool may_move;

long fake_set_affinity(const unsigned long *mask, size_t size)
{
	return may_move ? os_calls_linux.set_affinity(mask, size) : -EPERM;
}

class QueueRefusedTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		os_calls.membarrier = fake_membarrier;
		os_calls.set_affinity = fake_set_affinity;
		may_move = true;
		cpus_ = allowed_cpus();
		if (cpus_.size() < 2 || rseq_is_off())
			GTEST_SKIP() << "one CPU, or no sections";
		q_ = alf_queue_alloc(kSize, GFP_KERNEL);
		ASSERT_FALSE(IS_ERR(q_));
		/* Both sides are the first CPU's from now on, without being asked. */
		on_cpu(cpus_[0], [this] {
			void *p = number(0);

			for (int i = 0; i < 3; i++) {
				ASSERT_EQ(alf_mp_enqueue(q_, &p, 1), 1u);
				ASSERT_EQ(alf_mc_dequeue(q_, &p, 1), 1u);
			}
			for (int i = 0; i < 4; i++) {
				p = number(i);
				ASSERT_EQ(alf_mp_enqueue(q_, &p, 1), 1u);
			}
		});
	}
	void TearDown() override
	{
		alf_queue_free(q_);
	}

	/* In a child: what is refused once a process remembers for ever. */
	template <typename Body> void refused(int error, Body body)
	{
		EXPECT_EQ(in_child([&] {
				  refusal = error;
				  body();
				  return HasFailure();
			  }),
			  0);
	}

	void expect_four()
	{
		void *p[kSize];

		ASSERT_EQ(alf_mc_dequeue(q_, p, kSize), 4u);
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(p[i], number(i));
	}

	OsCallsGuard guard_;
	std::vector<int> cpus_;
	struct alf_queue *q_ = nullptr;
};

TEST_F(QueueRefusedTest, AnotherCpusSideIsToBeHad)
{
	for (int error : { -EPERM, -ENOSYS, -EACCES })
		refused(error, [this] {
			on_cpu(cpus_[1], [this] {
				void *p = number(9);

				expect_four();
				EXPECT_EQ(alf_mp_enqueue(q_, &p, 1), 1u);
				EXPECT_EQ(alf_mc_dequeue(q_, &p, 1), 1u);
				EXPECT_EQ(allowed_cpus(), std::vector<int>{ cpus_[1] });
			});
		});
}

/* Nobody asks again, and the first CPU goes on too. */
TEST_F(QueueRefusedTest, ForEver)
{
	refused(-EPERM, [this] {
		on_cpu(cpus_[1], [this] { expect_four(); });
		EXPECT_GT(nr_asked, 0);
		nr_asked = 0;
		for (int i = 0; i < 100; i++)
			on_cpu(cpus_[i % 2], [this] {
				void *p[3] = { number(1), number(2), number(3) };

				ASSERT_EQ(alf_mp_enqueue(q_, p, 3), 3u);
				ASSERT_EQ(alf_mc_dequeue(q_, p, 3), 3u);
				ASSERT_EQ(p[2], number(3));
			});
		EXPECT_EQ(nr_asked, 0);
	});
}

/* If no thread may go to that CPU, a thread that comes from there helps, by using any queue. */
TEST_F(QueueRefusedTest, WhoComesFromThereHelps)
{
	refused(-EPERM, [this] {
		may_move = false;
		on_cpu(cpus_[1], [this] {
			void *p;

			EXPECT_EQ(alf_mc_dequeue(q_, &p, 1), 0u);
		});
		on_cpu(cpus_[0], [] {
			struct alf_queue *other = alf_queue_alloc(kSize, GFP_KERNEL);
			void *p = number(0);

			EXPECT_EQ(alf_mp_enqueue(other, &p, 1), 1u);
			alf_queue_free(other);
		});
		on_cpu(cpus_[1], [this] { expect_four(); });
	});
}

/* A thread that had asked for no CPU follows its cpuset afterwards, as before. */
TEST_F(QueueRefusedTest, WhoGoesThereComesBack)
{
	refused(-EPERM, [this] {
		std::vector<int> before = allowed_cpus();

		expect_four();
		EXPECT_EQ(allowed_cpus(), before);
	});
}

/* A thread that cannot run sections ends those of the other CPU once, and tries none itself. */
TEST_F(QueueRefusedTest, WithoutSectionsItIsAskedOnce)
{
	refused(0, [this] {
		on_cpu(cpus_[1], [this] {
			ASSERT_TRUE(shim_queue_without_sections());
			nr_asked = 0;
			expect_four();
			EXPECT_LE(nr_asked, 3) << "registering for it, too";
		});
	});
}

/* Too little memory for it now is no refusal. */
TEST_F(QueueRefusedTest, OnceIsNotForEver)
{
	refused(-ENOMEM, [this] {
		may_move = false;
		on_cpu(cpus_[1], [this] {
			void *p;

			EXPECT_EQ(alf_mc_dequeue(q_, &p, 1), 0u);
			EXPECT_GT(nr_asked, 0);
			refusal = 0;
			expect_four();
		});
	});
}

/* The system itself, from some moment on. */
TEST_F(QueueRefusedTest, ByAFilter)
{
	refused(0, [this] {
		struct sock_filter filter[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			GTEST_SKIP() << "no seccomp here";
		on_cpu(cpus_[1], [this] { expect_four(); });
		EXPECT_GT(nr_asked, 0);
	});
}

/* All at once, while it is refused in the middle: each element comes once. */
TEST_F(QueueRefusedTest, Storm)
{
	constexpr unsigned kThreads = 4, kEach = 20000 / kSlow;

	refused(0, [this] {
		std::vector<std::atomic<unsigned>> seen(kThreads * kEach + 4);
		std::atomic<unsigned> left{ kThreads * kEach + 4 };
		std::vector<std::thread> threads;

		for (unsigned t = 0; t < kThreads; t++)
			threads.emplace_back([&, t] {
				unsigned made = 0;

				run_on(cpus_[t % cpus_.size()]);
				while (left) {
					void *p[2] = { number(4 + t * kEach + made), nullptr };

					made += made < kEach ? alf_mp_enqueue(q_, p, 1) : 0;
					for (unsigned n = alf_mc_dequeue(q_, p, 2); n;
					     n--, left--)
						seen[reinterpret_cast<uintptr_t>(p[n - 1]) -
						     1]++;
					if (t == 0 && made == kEach / 2)
						refusal = -EPERM;
				}
			});
		for (auto &thread : threads)
			thread.join();
		for (unsigned i = 0; i < seen.size(); i++)
			ASSERT_EQ(seen[i], 1u) << i;
		EXPECT_TRUE(alf_queue_empty(q_));
	});
}

} // namespace
