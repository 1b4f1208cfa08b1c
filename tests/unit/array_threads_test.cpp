/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU arrays under fire. A fixed set of objects goes round between arrays and
 * threads; each carries a flag "in somebody's hands". Taken while set: handed out
 * twice. Missing at the end: lost.
 */
#include <cstring>

#include "percpu_shim.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"
}

namespace
{

constexpr unsigned kObjects = 1024;
constexpr unsigned kSlots = 160;
constexpr unsigned kBulk = 128;

struct Object {
	std::atomic<int> held;
	std::atomic<int> orphan; /* a handler could not put it back */
};

Object objects[kObjects];
void *array;
std::atomic<unsigned> doubled;
std::atomic<unsigned> wild;
std::atomic<uint64_t> handler_pops;

bool is_object(void *p)
{
	auto *o = static_cast<Object *>(p);

	return o >= objects && o < objects + kObjects;
}

Object *took(void *p)
{
	if (!is_object(p)) {
		wild++;
		return nullptr;
	}
	auto *o = static_cast<Object *>(p);
	if (o->held.exchange(1))
		doubled++;
	return o;
}

/* Give back; false: it stays with the caller. */
bool give(Object *o)
{
	o->held.store(0);
	if (shim_array_push(array, o))
		return true;
	o->held.store(1);
	return false;
}

/* Where the countdown has run out: winds it, or leaves that to another thread. */
std::atomic<uint64_t> windings;

void wind(unsigned chance)
{
	uint64_t due = shim_array_due(array);

	if (due && chance % 2 && shim_array_wind(array, due, chance % 100, chance % 3 == 0))
		windings++;
}

void handler(int)
{
	void *p = shim_array_pop(array);

	if (!p) {
		wind(static_cast<unsigned>(handler_pops));
		return;
	}
	handler_pops++;
	Object *o = took(p);
	if (o && !give(o))
		o->orphan.store(1);
}

/* Lengths of the arrays of pointers that go in and out vary up to the whole array. */
void worker(unsigned id, const std::atomic<bool> &stop, std::vector<Object *> *kept,
	    uint64_t *pops)
{
	std::mt19937 random(id + 1);
	std::vector<Object *> hand;
	void *bulk[kBulk];

	while (!stop) {
		unsigned what = random() % 8, n = 1 + random() % kBulk;

		if (what < 3) {
			if (void *p = shim_array_pop(array)) {
				++*pops;
				if (Object *o = took(p))
					hand.push_back(o);
			} else {
				wind(random());
			}
		} else if (what < 6) {
			if (!hand.empty() && give(hand.back()))
				hand.pop_back();
		} else if (what == 6) {
			n = shim_array_pop_bulk(array, bulk, n, true);
			*pops += n;
			for (unsigned i = 0; i < n; i++)
				if (Object *o = took(bulk[i]))
					hand.push_back(o);
		} else {
			n = std::min<size_t>(n, hand.size());
			for (unsigned i = 0; i < n; i++) {
				bulk[i] = hand[hand.size() - n + i];
				hand[hand.size() - n + i]->held.store(0);
			}
			unsigned done = n ? shim_array_push_bulk(array, bulk, n) : 0;
			/* The first `done` are gone. */
			for (unsigned i = done; i < n; i++)
				static_cast<Object *>(bulk[i])->held.store(1);
			hand.resize(hand.size() - n);
			for (unsigned i = done; i < n; i++)
				hand.push_back(static_cast<Object *>(bulk[i]));
		}
		/* Also while another CPU uses the array, and long before its time. */
		if (random() % 64 == 0) {
			unsigned cpu = random() % pcpu.nr_ids;

			windings +=
				shim_array_wind_cpu(array, cpu, shim_array_header(array, cpu),
						    random() % 300, random() % 2);
		}
		if (random() % 1024 == 0)
			for (auto &o : objects)
				if (o.orphan.load() && o.orphan.exchange(0))
					hand.push_back(&o);
	}
	*kept = hand;
}

class ArrayThreads : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(pcpu_init());
		array = pcpu_alloc(shim_array_size(kSlots), 64);
		ASSERT_NE(array, nullptr);
		shim_array_open(array, kSlots);
		doubled = 0;
		wild = 0;
		handler_pops = 0;
		windings = 0;
		for (auto &o : objects) {
			o.held = 1;
			o.orphan = 1; /* whoever comes takes them */
		}
	}
	void TearDown() override
	{
		pcpu_free(array);
	}

	/* Everything exactly once, in an array or in a hand. */
	void check(const std::vector<std::vector<Object *>> &kept)
	{
		std::vector<unsigned> seen(kObjects);
		unsigned wrong = 0;

		EXPECT_EQ(wild, 0u) << "an array gave out what never went in";
		EXPECT_EQ(doubled, 0u) << "an object was handed out twice";
		for (auto &hand : kept)
			for (Object *o : hand)
				seen[o - objects]++;
		for (auto &o : objects)
			seen[&o - objects] += o.orphan.load();
		for (unsigned cpu = 0; cpu < pcpu.nr_ids; cpu++) {
			uint64_t h = shim_array_header(array, cpu);

			ASSERT_FALSE(shim_array_stopped(h));
			ASSERT_LE(shim_array_count(h), kSlots);
			for (unsigned i = 0; i < shim_array_count(h); i++) {
				void *p = shim_array_slot(array, cpu, i);

				ASSERT_TRUE(is_object(p));
				seen[static_cast<Object *>(p) - objects]++;
			}
		}
		for (unsigned n : seen)
			wrong += n != 1;
		EXPECT_EQ(wrong, 0u) << "objects lost or doubled";
	}

	/* @during runs while the threads do; then all is checked. */
	void run(unsigned threads, const std::function<void(Threads &)> &during,
		 uint64_t at_least = 1000)
	{
		std::vector<std::vector<Object *>> kept(threads);
		std::vector<uint64_t> pops(threads);
		std::atomic<bool> stop{ false };
		uint64_t counted = 0, done = 0;
		{
			Threads t(threads,
				  [&](unsigned i) { worker(i, stop, &kept[i], &pops[i]); });

			during(t);
			stop = true;
		}
		check(kept);
		for (uint64_t n : pops)
			done += n;
		for (unsigned cpu = 0; cpu < pcpu.nr_ids; cpu++)
			counted += shim_array_pops(array, cpu);
		EXPECT_EQ(counted, done + handler_pops)
			<< "the header's count of pops is not exact";
		EXPECT_GE(done, at_least) << "nothing happened";
		EXPECT_GE(windings, at_least / 100) << "no countdown was wound";
	}

	static void sleep_ms(int ms)
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(ms));
	}
};

TEST_F(ArrayThreads, ConserveObjects)
{
	run(4, [](Threads &) { sleep_ms(400); });
}

TEST_F(ArrayThreads, ConserveObjectsWhileMigrating)
{
	run(4, [](Threads &t) {
		MigrationStorm storm(t);

		sleep_ms(700);
	});
}

TEST_F(ArrayThreads, ConserveObjectsUnderSignals)
{
	run(3, [](Threads &) {
		SignalStorm storm(handler);

		sleep_ms(1000);
	});
	EXPECT_GT(handler_pops, 0u);
}

TEST_F(ArrayThreads, ConserveObjectsUnderSignalsAndMigration)
{
	run(3, [](Threads &t) {
		SignalStorm signals(handler);
		MigrationStorm migration(t);

		sleep_ms(1000);
	});
}

/* Stop, look, take, go on; what was taken goes back through this thread's pushes. */
void stop_take_start(int ms, unsigned *moved, unsigned *stops)
{
	auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
	std::vector<uint64_t> headers(pcpu.nr_ids);
	std::vector<Object *> hand;
	void *out[kBulk];

	while (std::chrono::steady_clock::now() < end) {
		ASSERT_TRUE(shim_arrays_stop(&array, 1));
		++*stops;
		for (unsigned cpu = 0; cpu < pcpu.nr_ids; cpu++)
			headers[cpu] = shim_array_header(array, cpu);
		for (volatile int i = 0; i < 2000; i = i + 1)
			;
		for (unsigned cpu = 0; cpu < pcpu.nr_ids; cpu++)
			*moved += shim_array_header(array, cpu) != headers[cpu];
		for (unsigned cpu = 0; cpu < pcpu.nr_ids; cpu++) {
			unsigned n = shim_array_take(array, cpu, out, 1 + *stops % kBulk);

			for (unsigned i = 0; i < n; i++)
				if (Object *o = took(out[i]))
					hand.push_back(o);
		}
		shim_arrays_start(&array, 1);
		while (!hand.empty()) {
			if (!give(hand.back()))
				hand.back()->orphan.store(1);
			hand.pop_back();
		}
		/* Mostly running, so that the stop meets sections in flight. */
		for (volatile int i = 0; i < 500; i = i + 1)
			;
	}
}

TEST_F(ArrayThreads, StopTakeStart)
{
	unsigned moved = 0, stops = 0;

	run(3, [&](Threads &) { stop_take_start(1500, &moved, &stops); });
	EXPECT_EQ(moved, 0u) << "a header changed while its array was stopped";
	EXPECT_GT(stops, 20u);
}

TEST_F(ArrayThreads, StopTakeStartWithSignalsAndMigration)
{
	unsigned moved = 0, stops = 0;

	run(3, [&](Threads &t) {
		SignalStorm signals(handler);
		MigrationStorm migration(t);

		stop_take_start(1000, &moved, &stops);
	});
	EXPECT_EQ(moved, 0u) << "a header changed while its array was stopped";
}

/* Two stoppers take turns. */
TEST_F(ArrayThreads, StopsExcludeEachOther)
{
	std::atomic<int> inside{ 0 };
	std::atomic<unsigned> overlaps{ 0 };

	run(
		2,
		[&](Threads &) {
			Threads stoppers(2, [&](unsigned) {
				for (unsigned i = 0; i < 300 / kSlow; i++) {
					ASSERT_TRUE(shim_arrays_stop(&array, 1));
					overlaps += inside++ != 0;
					std::this_thread::yield();
					inside--;
					shim_arrays_start(&array, 1);
				}
			});
		},
		0);
	EXPECT_EQ(overlaps, 0u);
}

/* Else a thread of a real-time priority would keep the holder, which lost its CPU, from
 * running. */
TEST_F(ArrayThreads, WhoWaitsForASlotSleeps)
{
	std::atomic_bool held{ false };
	timespec cpu{};
	std::thread holder([&] {
		shim_slot_lock(0);
		held = true;
		usleep(400 * 1000);
		shim_slot_unlock(0);
	});

	while (!held)
		usleep(1000);
	shim_slot_lock(0);
	shim_slot_unlock(0);
	holder.join();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	EXPECT_EQ(cpu.tv_sec, 0);
	EXPECT_LT(cpu.tv_nsec, 100 * 1000 * 1000);
}

} // namespace
