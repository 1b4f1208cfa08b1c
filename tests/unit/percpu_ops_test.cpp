/* SPDX-License-Identifier: MIT */
/*
 * The per-CPU operations of <ukmem/percpu.h>: results and effects of every
 * operation, size and family against plain C++, on the copy of this CPU and no
 * other. That they are whole under preemption, migration and signals is
 * percpu_conservation_test's matter.
 */
#include <sys/syscall.h>
#include <sys/wait.h>

#include <limits>
#include <type_traits>

#include "percpu_util.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h" /* not initialised before main(), for the fresh processes */
}

namespace
{

/* Random values, mostly near the edges of the type. */
template <typename T> T any(std::mt19937_64 &random)
{
	static const T edges[] = { T(0), T(1), std::numeric_limits<T>::max(),
				   std::numeric_limits<T>::min(), T(-1) };

	return random() % 2 ? edges[random() % 5] : static_cast<T>(random());
}

template <typename T> using U = std::make_unsigned_t<T>;
template <typename T> T wrap_add(T a, T b)
{
	return static_cast<T>(static_cast<U<T>>(static_cast<U<T>>(a) + static_cast<U<T>>(b)));
}

template <typename T> struct Around {
	T before, x, after;
};

/*
 * Every operation of a family on *v beside the model m, @step after step. The
 * neighbours of the variable are checked by the caller.
 */
#define RUN_FAMILY(family, T, v, steps)                                                        \
	do {                                                                                   \
		std::mt19937_64 random(test_seed());                                           \
		T m = 0;                                                                       \
                                                                                               \
		family##_write(v, T(0));                                                       \
		for (unsigned i = 0; i < (steps); i++) {                                       \
			T a = any<T>(random), b = any<T>(random), old = m;                     \
                                                                                               \
			switch (random() % 18) {                                               \
			case 0:                                                                \
				family##_write(v, a);                                          \
				m = a;                                                         \
				break;                                                         \
			case 1:                                                                \
				family##_add(v, a);                                            \
				m = wrap_add(m, a);                                            \
				break;                                                         \
			case 2:                                                                \
				family##_sub(v, a);                                            \
				m = wrap_add(m, T(U<T>(0) - U<T>(a)));                         \
				break;                                                         \
			case 3:                                                                \
				family##_inc(v);                                               \
				m = wrap_add(m, T(1));                                         \
				break;                                                         \
			case 4:                                                                \
				family##_dec(v);                                               \
				m = wrap_add(m, T(-1));                                        \
				break;                                                         \
			case 5:                                                                \
				family##_and(v, a);                                            \
				m = T(m & a);                                                  \
				break;                                                         \
			case 6:                                                                \
				family##_or(v, a);                                             \
				m = T(m | a);                                                  \
				break;                                                         \
			case 7:                                                                \
				family##_xor(v, a);                                            \
				m = T(m ^ a);                                                  \
				break;                                                         \
			case 8:                                                                \
				m = wrap_add(m, a);                                            \
				ASSERT_EQ(family##_add_return(v, a), m);                       \
				break;                                                         \
			case 9:                                                                \
				m = wrap_add(m, T(U<T>(0) - U<T>(a)));                         \
				ASSERT_EQ(family##_sub_return(v, a), m);                       \
				break;                                                         \
			case 10:                                                               \
				m = wrap_add(m, T(1));                                         \
				ASSERT_EQ(family##_inc_return(v), m);                          \
				break;                                                         \
			case 11:                                                               \
				m = wrap_add(m, T(-1));                                        \
				ASSERT_EQ(family##_dec_return(v), m);                          \
				break;                                                         \
			case 12:                                                               \
				ASSERT_EQ(family##_xchg(v, a), m);                             \
				m = a;                                                         \
				break;                                                         \
			case 13:                                                               \
				ASSERT_EQ(family##_cmpxchg(v, m, a), old);                     \
				m = a;                                                         \
				break;                                                         \
			case 14:                                                               \
				ASSERT_EQ(family##_cmpxchg(v, a, b), old);                     \
				m = a == old ? b : old;                                        \
				break;                                                         \
			case 15:                                                               \
				ASSERT_TRUE(family##_try_cmpxchg(v, &old, a));                 \
				ASSERT_EQ(old, m);                                             \
				m = a;                                                         \
				break;                                                         \
			case 16: {                                                             \
				T expected = a;                                                \
				bool same = family##_try_cmpxchg(v, &expected, b);             \
                                                                                               \
				ASSERT_EQ(same, a == m);                                       \
				ASSERT_EQ(expected, m);                                        \
				m = same ? b : m;                                              \
				break;                                                         \
			}                                                                      \
			default:                                                               \
				break;                                                         \
			}                                                                      \
			ASSERT_EQ(family##_read(v), m) << "step " << i;                        \
		}                                                                              \
	} while (0)

template <typename T> class PercpuOpsTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		area_ = alloc_percpu(Around<T>);
		ASSERT_NE(area_, nullptr);
		unsigned cpu;

		for_each_possible_cpu(cpu)
		{
			per_cpu_ptr(area_, cpu)->before = T(0x55);
			per_cpu_ptr(area_, cpu)->after = T(0xaa);
		}
	}
	/* Neighbours untouched, and no copy but this CPU's. */
	void TearDown() override
	{
		unsigned cpu, used = 0;

		for_each_possible_cpu(cpu)
		{
			EXPECT_EQ(per_cpu(area_->before, cpu), T(0x55));
			EXPECT_EQ(per_cpu(area_->after, cpu), T(0xaa));
			used += per_cpu(area_->x, cpu) != T(0);
		}
		EXPECT_LE(used, 1u);
		free_percpu(area_);
	}
	OneCpu pinned_;
	Around<T> *area_;
};

using Integers = ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
				  int64_t, uint64_t, long, unsigned long long>;
TYPED_TEST_SUITE(PercpuOpsTest, Integers);

constexpr unsigned kSteps = 20000 / kSlow;

TYPED_TEST(PercpuOpsTest, ThisCpu)
{
	RUN_FAMILY(this_cpu, TypeParam, this->area_->x, kSteps);
}

TYPED_TEST(PercpuOpsTest, RawCpu)
{
	RUN_FAMILY(raw_cpu, TypeParam, this->area_->x, kSteps);
}

/* The owner's operations need the index to be the CPU: a process configured so. */
TEST(PercpuOwnerTest, AllOperations)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		OneCpu pinned;
		auto *small = alloc_percpu(Around<int32_t>);
		auto *large = alloc_percpu(Around<uint64_t>);

		ASSERT_EQ(percpu_owner_enter(), 0);
		RUN_FAMILY(__this_cpu, int32_t, small->x, kSteps);
		RUN_FAMILY(__this_cpu, uint64_t, large->x, kSteps);
		*get_cpu_ptr(&small->before) = 5;
		put_cpu_ptr(&small->before);
		EXPECT_EQ(per_cpu_sum(small->before), 5);
		percpu_owner_exit();
	});
}

template <typename W> void check_double()
{
	struct alignas(2 * sizeof(W)) Pair {
		W a, b;
	};
	OneCpu pinned;
	Pair *p = alloc_percpu(Pair);
	const W big = static_cast<W>(~W(0) - 5);

	EXPECT_FALSE(this_cpu_cmpxchg_double(p->a, p->b, 1, 0, 7, 8));
	EXPECT_FALSE(this_cpu_cmpxchg_double(p->a, p->b, 0, 1, 7, 8));
	EXPECT_EQ(this_cpu_read(p->a), W(0));
	EXPECT_TRUE(this_cpu_cmpxchg_double(p->a, p->b, 0, 0, 7, big));
	EXPECT_EQ(this_cpu_read(p->a), W(7));
	EXPECT_EQ(this_cpu_read(p->b), big);
	EXPECT_FALSE(raw_cpu_cmpxchg_double(p->a, p->b, 7, 7, 1, 1));
	EXPECT_TRUE(raw_cpu_cmpxchg_double(p->a, p->b, 7, big, 1, 2));
	EXPECT_EQ(this_cpu_read(p->a), W(1));
	EXPECT_EQ(this_cpu_read(p->b), W(2));
	free_percpu(p);
}

TEST(PercpuDoubleTest, Words4)
{
	check_double<uint32_t>();
}

TEST(PercpuDoubleTest, Words8)
{
	check_double<uint64_t>();
}

enum Colour { RED, GREEN = 40000 };

TEST(PercpuKindsTest, PointersBoolsEnumsVolatiles)
{
	struct Kinds {
		void *p;
		bool flag;
		Colour colour;
		volatile long v;
		const char *array[3];
	};
	OneCpu pinned;
	auto *k = alloc_percpu(Kinds);
	void *expected = nullptr;
	int here;

	this_cpu_write(k->p, &here);
	EXPECT_EQ(this_cpu_read(k->p), &here);
	EXPECT_EQ(this_cpu_xchg(k->p, nullptr), &here);
	EXPECT_TRUE(this_cpu_try_cmpxchg(k->p, &expected, &here));
	EXPECT_EQ(this_cpu_cmpxchg(k->p, nullptr, nullptr), &here);
	this_cpu_write(k->flag, 7);
	EXPECT_EQ(this_cpu_read(k->flag), true);
	EXPECT_EQ(this_cpu_xchg(k->flag, false), true);
	this_cpu_write(k->colour, GREEN);
	EXPECT_EQ(this_cpu_cmpxchg(k->colour, GREEN, RED), GREEN);
	EXPECT_EQ(this_cpu_read(k->colour), RED);
	this_cpu_add(k->v, -3);
	EXPECT_EQ(this_cpu_inc_return(k->v), -2);
	EXPECT_EQ(per_cpu_sum(k->v), -2);
	this_cpu_write(k->array[2], "x");
	EXPECT_STREQ(this_cpu_read(k->array[2]), "x");
	EXPECT_EQ(this_cpu_read(k->array[1]), nullptr);
	free_percpu(k);
}

/* An operand is evaluated once, and converted as in an assignment. */
TEST(PercpuKindsTest, OperandsOnce)
{
	OneCpu pinned;
	auto *v = alloc_percpu(int8_t);
	int8_t *handles[2] = { v, v };
	int n = 0, i = 0;

	this_cpu_add(*handles[i++], ++n);
	EXPECT_EQ(i, 1);
	EXPECT_EQ(n, 1);
	EXPECT_EQ(this_cpu_add_return(*handles[i--], n += 200), static_cast<int8_t>(202));
	EXPECT_EQ(i, 0);
	EXPECT_EQ(n, 201);
	int8_t old[2] = { -54, 9 }, *oldp = old;

	EXPECT_TRUE(this_cpu_try_cmpxchg(*v, oldp++, 5));
	EXPECT_EQ(oldp, old + 1);
	EXPECT_FALSE(this_cpu_try_cmpxchg(*v, oldp--, 202));
	EXPECT_EQ(oldp, old);
	EXPECT_EQ(old[1], 5);
	EXPECT_EQ(old[0], -54);
	this_cpu_write(*v, 202);
	EXPECT_EQ(this_cpu_cmpxchg(*v, 202, 3), static_cast<int8_t>(202)) << "202 is -54 here";
	EXPECT_EQ(this_cpu_read(*v), 3);
	free_percpu(v);
}

TEST(PercpuCopiesTest, AddressesAreApartAndCountsAgree)
{
	auto *v = alloc_percpu(uint64_t);
	const struct ukmem_percpu_info info = percpu_info();
	unsigned cpu, n = 0;

	for_each_possible_cpu(cpu)
	{
		per_cpu(*v, cpu) = cpu + 1;
		n++;
	}
	EXPECT_EQ(n, num_possible_cpus());
	EXPECT_LE(n, info.nr_cpu_ids + 1) << "the spill copy is one more";
	EXPECT_EQ(percpu_nr_ids(), info.nr_cpu_ids + 1);
	EXPECT_GE(per_cpu_sum(*v), uint64_t(n) * (n + 1) / 2);
	EXPECT_LT(raw_smp_processor_id(), percpu_nr_ids());
	auto *first = reinterpret_cast<char *>(per_cpu_ptr(v, 0));
	auto *second = reinterpret_cast<char *>(per_cpu_ptr(v, 1));
	EXPECT_EQ(second - first, static_cast<ptrdiff_t>(info.unit_size));
	free_percpu(v);
}

/* Threads without a CPU. */

extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

/* Undoes libc's registration of this thread. */
bool unregister_this_thread()
{
#if defined(__x86_64__)
	const unsigned signature = 0x53053053;
	char *tp;

	asm("mov %%fs:0, %0" : "=r"(tp));
#else
	const unsigned signature = 0xd428bc00;
	char *tp = static_cast<char *>(__builtin_thread_pointer());
#endif
	char *area = tp + __rseq_offset;

	for (unsigned size : { 32u, __rseq_size })
		if (!syscall(SYS_rseq, area, size, 1 /* RSEQ_FLAG_UNREGISTER */, signature))
			return true;
	return false;
}

TEST(PercpuSpillTest, UnregisteredThreadsUseTheSpillCopy)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no rseq";
	auto *v = alloc_percpu(uint64_t);
	struct alignas(16) Pair {
		uint64_t a, b;
	};
	auto *pair = alloc_percpu(Pair);

	Threads(4, [&](unsigned) {
		ASSERT_TRUE(unregister_this_thread());
		EXPECT_EQ(raw_smp_processor_id(), percpu_nr_ids() - 1);
		for (unsigned i = 0; i < 20000; i++) {
			this_cpu_inc(*v);
			for (;;) {
				uint64_t a = this_cpu_read(pair->a);

				if (this_cpu_cmpxchg_double(pair->a, pair->b, a, ~a, a + 1,
							    ~(a + 1)) ||
				    (a == 0 && this_cpu_cmpxchg_double(pair->a, pair->b, 0, 0,
								       1, ~uint64_t(1))))
					break;
			}
		}
	});
	EXPECT_EQ(per_cpu(*v, percpu_nr_ids() - 1), 80000u);
	EXPECT_EQ(per_cpu_sum(*v), 80000u);
	EXPECT_EQ(per_cpu(pair->a, percpu_nr_ids() - 1), 80000u);
	EXPECT_EQ(per_cpu(pair->b, percpu_nr_ids() - 1), ~uint64_t(80000));
	free_percpu(pair);
	free_percpu(v);
}

TEST(PercpuForkTest, ChildOfForkGoesOn)
{
	auto *v = alloc_percpu(long);
	int status = -1;

	this_cpu_add(*v, 5);
	pid_t pid = fork();
	if (!pid) {
		for (int i = 0; i < 100; i++)
			this_cpu_inc(*v);
		_exit(per_cpu_sum(*v) == 105 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(per_cpu_sum(*v), 5) << "the parent's copies are its own";
	free_percpu(v);
}

/* Owner contexts. */

TEST(PercpuOwnerTest, RefusalsAndNesting)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		if (allowed_cpus().size() > 1) {
			EXPECT_EQ(percpu_owner_enter(), -EINVAL) << "not pinned";
		}
		OneCpu pinned;
		ASSERT_EQ(percpu_owner_enter(), 0);
		EXPECT_EQ(percpu_owner_enter(), 0) << "again, counted";
		std::thread([] { EXPECT_EQ(percpu_owner_enter(), -EBUSY); }).join();
		percpu_owner_exit();
		std::thread([] { EXPECT_EQ(percpu_owner_enter(), -EBUSY); }).join();
		percpu_owner_exit();
		/* A thread that ends without leaving keeps nobody out. */
		std::thread([] { EXPECT_EQ(percpu_owner_enter(), 0); }).join();
		EXPECT_EQ(percpu_owner_enter(), 0);
		pid_t pid = fork();
		int status = -1;
		if (!pid) {
			percpu_owner_exit();
			_exit(percpu_owner_enter());
		}
		waitpid(pid, &status, 0);
		EXPECT_EQ(status, 0) << "the child of fork is owner of its copy";
		/* But not the child of a thread that only ran on an owner's CPU. */
		std::thread([] {
			pid_t child = fork();
			int result = -1;

			if (!child)
				_exit(percpu_owner_enter() ? 2 : (percpu_owner_exit(), 0));
			waitpid(child, &result, 0);
			EXPECT_EQ(result, 0) << "the CPU is free in the child";
		}).join();
		percpu_owner_exit();
	});
}

TEST(PercpuOwnerTest, NotWithCompactIndices)
{
	const struct ukmem_percpu_info info = percpu_info();
	OneCpu pinned;

	if (std::string(info.index_kind) != "mm_cid")
		GTEST_SKIP() << "the index is " << info.index_kind;
	EXPECT_EQ(percpu_owner_enter(), -EOPNOTSUPP);
}

TEST(PercpuOwnerDeathTest, ExitWithoutEnter)
{
	auto *v = alloc_percpu(int);

	EXPECT_DEATH(percpu_owner_exit(), "^ukmem: percpu_owner_exit\\(\\): thread [0-9]+ does "
					  "not own the CPU it is on\n");
	free_percpu(v);
}

/* Misuse that debug builds of the program find. Other builds do not look for it. */
TEST(PercpuOwnerDeathTest, OwnersOperationOutsideAnOwnerContext)
{
	auto *v = alloc_percpu(int);

#if UKMEM_DEBUG
	EXPECT_DEATH(__this_cpu_inc(*v),
		     "^ukmem: __this_cpu_inc\\(\\) at .*percpu_ops_test.cpp:[0-9]+: "
		     "thread [0-9]+ does not own the CPU it is on "
		     "\\(percpu_owner_enter\\)\n");
	EXPECT_DEATH((void)__this_cpu_cmpxchg(*v, 1, 2), "__this_cpu_cmpxchg\\(\\) at ");
	EXPECT_DEATH((void)__this_cpu_read(*v), "__this_cpu_read\\(\\) at ");
	EXPECT_DEATH((void)get_cpu_ptr(v), "get_cpu_ptr\\(\\) at ");
#else
	__this_cpu_inc(*v);
	EXPECT_EQ(per_cpu_sum(*v), 1);
#endif
	free_percpu(v);
}

TEST(PercpuHandleDeathTest, IsNoAddress)
{
	auto *v = alloc_percpu(int);

	EXPECT_EXIT(
		{
			*reinterpret_cast<volatile int *>(v) = 1;
			exit(0);
		},
		[](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
	EXPECT_EXIT(
		exit(*reinterpret_cast<volatile int *>(v)),
		[](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
	free_percpu(v);
}

TEST(PercpuHandleDeathTest, FreeOfSomethingElse)
{
	auto *v = alloc_percpu(uint64_t[8]);
	static int wild;

	EXPECT_DEATH(free_percpu(&wild),
		     "^ukmem: free_percpu\\(\\): invalid pointer 0x[0-9a-f]+: "
		     "not a handle of alloc_percpu\n" FOUND_AT);
	EXPECT_DEATH(free_percpu(reinterpret_cast<char *>(v) + 16),
		     "not a handle of alloc_percpu");
	EXPECT_DEATH(free_percpu(per_cpu_ptr(v, 0)), "not a handle of alloc_percpu");
	EXPECT_DEATH(
		{
			free_percpu(v);
			free_percpu(v);
		},
		"not a handle of alloc_percpu");
	free_percpu(v);
	free_percpu(nullptr);
}

} // namespace
