/* SPDX-License-Identifier: MIT */
/*
 * Conservation: what threads and signal handlers do to per-CPU data at the same
 * time adds up exactly, whatever interrupts them. Built several times over
 * (CMakeLists.txt): as it is, with delays inside the critical sections, and with
 * broken sections, where a test passes when the loss was noticed.
 *
 * Everything happens to one variable or array of all threads and of a handler
 * that a 50 us timer runs.
 */
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>

#include "percpu_shim.h"
#include "test_util.h"
#include "ukmem/percpu.h"

#ifdef INJECT
extern "C" {
volatile unsigned inject_delay[4];
}
constexpr bool kInjects = true;
#else
constexpr bool kInjects = false;
#endif

#if defined(MUTANT_NO_RESTART) || defined(MUTANT_EARLY_COMMIT)
constexpr bool kMutant = true;
#else
constexpr bool kMutant = false;
#endif

namespace
{

constexpr unsigned kThreads = 6;

/* Changes the delays all the time: one place long, or all short, or none. */
class Delays
{
      public:
	Delays()
	{
#ifdef INJECT
		thread_ = std::thread([this] {
			std::mt19937 random(7);

			while (!stop_) {
				for (auto &delay : inject_delay)
					delay = random() % 3 ? 0 : random() % 200;
				inject_delay[random() % 4] = random() % 20000;
				std::this_thread::sleep_for(std::chrono::milliseconds(3));
			}
			for (auto &delay : inject_delay)
				delay = 0;
		});
#endif
	}
	~Delays()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
	}

      private:
	std::atomic<bool> stop_{ false };
	std::thread thread_;
};

/* One kind of conserved thing. */
struct Conserved {
	virtual ~Conserved() = default;
	virtual void step(unsigned thread) = 0; /* by a thread, again and again */
	virtual void signal() = 0;		/* by the handler */
	/* All threads are gone: whether everything is there; why not. */
	virtual std::string lost() = 0;
};

Conserved *current;

void handler(int)
{
	current->signal();
}

/* Everything at once for @ms: threads, signals, migration, delays. Result: lost(). */
std::string storm(Conserved &c, double seconds)
{
	std::atomic<bool> stop{ false };

	current = &c;
	{
		Threads threads(kThreads, [&](unsigned i) {
			while (!stop.load(std::memory_order_relaxed))
				c.step(i);
		});
		SignalStorm signals(handler, 50);
		MigrationStorm migration(threads);
		Delays delays;

		std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
		stop = true;
	}
	return c.lost();
}

/* Passes if nothing is lost; with a mutant, if something is lost before long. */
template <typename C> void expect_conserved()
{
	if (!kMutant) {
		C c;

		EXPECT_EQ(storm(c, search_seconds(1.2)), "");
		return;
	}
	if (rseq_is_off())
		GTEST_SKIP() << "no sections to break";
	for (int round = 0; round < 40; round++) {
		C c;
		std::string lost = storm(c, 0.3);

		if (!lost.empty()) {
			printf("noticed: %s\n", lost.c_str());
			return;
		}
	}
	FAIL() << "the broken sections were not noticed";
}

std::string differ(const char *what, uint64_t is, uint64_t should)
{
	return is == should ? ""
			    : std::string(what) + ": " + std::to_string(is) + " instead of " +
				      std::to_string(should);
}

/* Threads and handlers count what they add, each thread for itself. */
struct Tally {
	alignas(64) uint64_t threads[kThreads] = {};
	std::atomic<uint64_t> handler{ 0 };

	uint64_t sum() const
	{
		uint64_t sum = handler;

		for (uint64_t n : threads)
			sum += n;
		return sum;
	}
};

template <typename T> struct Additions : Conserved {
	Tally tally;
	T *v = alloc_percpu(T);

	~Additions() override
	{
		free_percpu(v);
	}
	void step(unsigned i) override
	{
		for (T n = 1; n < 100; n++) {
			this_cpu_add(*v, n);
			tally.threads[i] += n;
			this_cpu_dec(*v);
			tally.threads[i]--;
		}
	}
	void signal() override
	{
		this_cpu_add(*v, 3);
		tally.handler += 3;
	}
	std::string lost() override
	{
		return differ("sum", static_cast<T>(per_cpu_sum(*v)),
			      static_cast<T>(tally.sum()));
	}
};

TEST(Conservation, Add1)
{
	expect_conserved<Additions<uint8_t>>();
}
TEST(Conservation, Add2)
{
	expect_conserved<Additions<uint16_t>>();
}
TEST(Conservation, Add4)
{
	expect_conserved<Additions<uint32_t>>();
}
TEST(Conservation, Add8)
{
	expect_conserved<Additions<uint64_t>>();
}

struct AddReturns : Conserved {
	Tally tally;
	uint64_t *v = alloc_percpu(uint64_t);

	~AddReturns() override
	{
		free_percpu(v);
	}
	void step(unsigned i) override
	{
		this_cpu_inc_return(*v);
		tally.threads[i]++;
	}
	void signal() override
	{
		this_cpu_add_return(*v, 2);
		tally.handler += 2;
	}
	std::string lost() override
	{
		return differ("sum", per_cpu_sum(*v), tally.sum());
	}
};

TEST(Conservation, AddReturn)
{
	expect_conserved<AddReturns>();
}

/* Toggled bits: an xor that is lost or done twice leaves its bit. */
struct Bits : Conserved {
	uint64_t *v = alloc_percpu(uint64_t);
	uint64_t mine[kThreads] = {};
	std::atomic<uint64_t> handlers{ 0 };

	~Bits() override
	{
		free_percpu(v);
	}
	void step(unsigned i) override
	{
		this_cpu_xor(*v, uint64_t(1) << i);
		mine[i] ^= uint64_t(1) << i;
		/* These change nothing, but store. */
		this_cpu_or(*v, 0);
		this_cpu_and(*v, ~uint64_t(0));
	}
	void signal() override
	{
		this_cpu_xor(*v, uint64_t(1) << 40);
		handlers ^= uint64_t(1) << 40;
	}
	std::string lost() override
	{
		uint64_t is = 0, should = handlers;
		unsigned cpu;

		for_each_possible_cpu(cpu) is ^= per_cpu(*v, cpu);
		for (uint64_t bits : mine)
			should ^= bits;
		return differ("bits", is, should);
	}
};

TEST(Conservation, Bits)
{
	expect_conserved<Bits>();
}

/* A token is taken and put by exchange: the sum of all tokens stays. */
struct Exchanges : Conserved {
	uint32_t *v = alloc_percpu(uint32_t);
	uint64_t held[kThreads] = {};
	std::atomic<uint64_t> handler_held{ 0 }, made{ 0 };

	~Exchanges() override
	{
		free_percpu(v);
	}
	void step(unsigned i) override
	{
		if (!held[i]) {
			held[i] = i + 1;
			made += i + 1;
		}
		held[i] = this_cpu_xchg(*v, static_cast<uint32_t>(held[i]));
	}
	void signal() override
	{
		uint64_t mine = handler_held.exchange(0);

		handler_held += this_cpu_xchg(*v, static_cast<uint32_t>(mine));
	}
	std::string lost() override
	{
		uint64_t is = handler_held + per_cpu_sum(*v);

		for (uint64_t n : held)
			is += n;
		return differ("tokens", is, made);
	}
};

TEST(Conservation, Xchg)
{
	expect_conserved<Exchanges>();
}

struct CompareExchanges : Conserved {
	Tally tally;
	uint16_t *v = alloc_percpu(uint16_t);

	~CompareExchanges() override
	{
		free_percpu(v);
	}
	static unsigned add(uint16_t *v, uint16_t n)
	{
		uint16_t old = this_cpu_read(*v);

		return this_cpu_try_cmpxchg(*v, &old, static_cast<uint16_t>(old + n)) ? n : 0;
	}
	void step(unsigned i) override
	{
		tally.threads[i] += add(v, 1);
	}
	void signal() override
	{
		tally.handler += add(v, 5);
	}
	std::string lost() override
	{
		return differ("sum", per_cpu_sum(*v), static_cast<uint16_t>(tally.sum()));
	}
};

TEST(Conservation, Cmpxchg)
{
	expect_conserved<CompareExchanges>();
}

/* Two words that always belong together: each the complement of the other. */
struct Pairs : Conserved {
	struct alignas(16) Pair {
		uint64_t a, b;
	};
	Tally tally;
	Pair *v = alloc_percpu(Pair);

	Pairs()
	{
		unsigned cpu;

		for_each_possible_cpu(cpu) per_cpu(v->b, cpu) = ~uint64_t(0);
	}
	~Pairs() override
	{
		free_percpu(v);
	}
	unsigned add(unsigned n)
	{
		uint64_t a = this_cpu_read(v->a);

		return this_cpu_cmpxchg_double(v->a, v->b, a, ~a, a + n, ~(a + n)) ? n : 0;
	}
	void step(unsigned i) override
	{
		tally.threads[i] += add(1);
	}
	void signal() override
	{
		tally.handler += add(7);
	}
	std::string lost() override
	{
		unsigned cpu;

		for_each_possible_cpu(
			cpu) if (per_cpu(v->a, cpu) !=
				 ~per_cpu(v->b, cpu)) return "the words of a pair parted";
		return differ("sum", per_cpu_sum(v->a), tally.sum());
	}
};

TEST(Conservation, CmpxchgDouble)
{
	expect_conserved<Pairs>();
}

/* Objects 1 .. n in arrays: each in one hand or one slot at any time. */
struct Objects : Conserved {
	static constexpr unsigned kObjects = 24, kSlots = 16, kBulk = 5;
	void *array = shim_percpu_alloc(shim_array_size(kSlots));
	std::vector<void *> hands[kThreads + 1];
	bool bulk;

	explicit Objects(bool in_bulk = false) : bulk(in_bulk)
	{
		shim_array_open(array, kSlots);
		for (auto &hand : hands)
			hand.reserve(4096);
		for (uintptr_t i = 1; i <= kObjects; i++)
			hands[i % kThreads].push_back(reinterpret_cast<void *>(i));
	}
	~Objects() override
	{
		shim_percpu_free(array);
	}
	void move(std::vector<void *> &hand)
	{
		void *objects[kBulk];
		unsigned n;

		if (!bulk) {
			if (!hand.empty() && shim_array_push(array, hand.back()))
				hand.pop_back();
			void *object = shim_array_pop(array);
			if (object && hand.size() < 4000)
				hand.push_back(object);
			return;
		}
		n = std::min<unsigned>(kBulk, static_cast<unsigned>(hand.size()));
		std::copy(hand.end() - n, hand.end(), objects);
		/* The first of them are taken. */
		unsigned taken = n ? shim_array_push_bulk(array, objects, n) : 0;
		hand.resize(hand.size() - n);
		hand.insert(hand.end(), objects + taken, objects + n);
		n = shim_array_pop_bulk(array, objects, kBulk, true);
		if (hand.size() < 4000)
			hand.insert(hand.end(), objects, objects + n);
	}
	void step(unsigned i) override
	{
		move(hands[i]);
	}
	/* One handler at a time holds the last hand; others leave it. */
	std::atomic_flag busy = ATOMIC_FLAG_INIT;
	void signal() override
	{
		if (busy.test_and_set())
			return;
		move(hands[kThreads]);
		busy.clear();
	}
	std::string lost() override
	{
		std::vector<unsigned> seen(kObjects + 1);
		unsigned n = 0;
		auto see = [&](void *object) {
			auto i = reinterpret_cast<uintptr_t>(object);

			if (i >= 1 && i <= kObjects)
				seen[i]++;
			else
				seen[0]++;
			n++;
		};

		for (unsigned cpu = 0; cpu < percpu_nr_ids() - 1; cpu++)
			for (unsigned i = 0;
			     i < shim_array_count(shim_array_header(array, cpu)); i++)
				see(shim_array_slot(array, cpu, i));
		for (auto &hand : hands)
			for (void *object : hand)
				see(object);
		if (seen[0])
			return "something that is no object";
		for (unsigned i = 1; i <= kObjects; i++)
			if (seen[i] != 1)
				return "object " + std::to_string(i) + " " +
				       std::to_string(seen[i]) + " times";
		return differ("objects", n, kObjects);
	}
};

struct BulkObjects : Objects {
	BulkObjects() : Objects(true)
	{
	}
};

TEST(Conservation, ArrayOneByOne)
{
	expect_conserved<Objects>();
}

TEST(Conservation, ArrayInBulk)
{
	expect_conserved<BulkObjects>();
}

/*
 * A debugger that single-steps aborts every section at every instruction: the
 * operations come through all the same, and nothing is lost.
 */
TEST(SingleStep, EveryOperationComesThrough)
{
	if (kMutant)
		GTEST_SKIP() << "one thread loses nothing";
	if (TEST_TSAN)
		GTEST_SKIP() << "the sanitizer's own code takes too many steps";
	uint64_t *v = alloc_percpu(uint64_t);
	void *array = shim_percpu_alloc(shim_array_size(8));
	unsigned long steps = 0;
	int status;

	shim_array_open(array, 8);
	this_cpu_add(*v, 1);
	pid_t pid = fork();
	if (!pid) {
		unsigned done = 0, rounds = 0;
		TimeBox box;

		run_on(allowed_cpus().front());
		ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
		raise(SIGSTOP);
		for (; rounds < 50 && !box.is_over(); rounds++) {
			this_cpu_add(*v, 2);
			this_cpu_inc_return(*v);
			done += shim_array_push(array, v);
			done += shim_array_pop(array) == v;
		}
		/* Pushes and pops may fail, but go on; in fallback mode they do not even fail.
		 */
		_exit(per_cpu_sum(*v) == 1 + 3 * rounds &&
				      (shim_use_rseq() || done == 2 * rounds)
			      ? 0
			      : 1);
	}
	waitpid(pid, &status, 0);
	while (WIFSTOPPED(status)) {
		ASSERT_LT(++steps, 20000000u) << "no progress";
		/* Signals of its own are passed on. */
		long signal = WSTOPSIG(status);
		if (signal == SIGTRAP || signal == SIGSTOP)
			signal = 0;
		ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, pid, nullptr, signal), 0);
		waitpid(pid, &status, 0);
	}
	EXPECT_EQ(status, 0);
	EXPECT_GT(steps, 1000u);
	EXPECT_EQ(per_cpu_sum(*v), 1u);
	shim_percpu_free(array);
	free_percpu(v);
}

} // namespace
