/* SPDX-License-Identifier: MIT */
/*
 * What both signal soaks share: two threads work, and are interrupted by a signal every 20 to
 * 1000 microseconds, whose handler does the same as they do. Both have slots of their own, in
 * which memory lies with a pattern. A watchdog tells which thread stands still.
 */
#ifndef PRELOAD_SIGNAL_SOAK_H
#define PRELOAD_SIGNAL_SOAK_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "preload_test.h"

namespace soak
{

enum { WORKERS = 2, SLOTS = 24, DEADLINE = 30, SHORT_SECONDS = 3, FULL_SECONDS = 60 };

struct Slot {
	unsigned char *p;
	size_t size;
	unsigned int kind;
	unsigned char fill;
};

/* One thread, at work or in its handler: each has its own. */
struct Place {
	Slot slots[SLOTS];
	uint64_t rng;
	bool in_handler;
	/* While the interrupted code was in the allocator; at other times. */
	unsigned long requests[2], refused[2];
};

struct Worker {
	Place work, handler;
	pthread_t thread;
	std::atomic<unsigned long> steps{ 0 }, signals{ 0 };
	std::atomic<bool> done{ false };
	/* Whether the thread's own code is within a call of the library. */
	volatile sig_atomic_t in_allocator;
};

inline Worker workers[WORKERS];
inline thread_local Worker *self;
inline std::atomic<bool> stop;

/* The program's: takes memory of some kind and size, NULL if there is none; gives it back. */
unsigned char *take(Place &place, size_t size, unsigned int *kind);
void give(Place &place, const Slot &slot);
/* Anything else to do at each step. */
void also(Place &place);
/* Whether its handler may come away with nothing although it interrupted nobody's request. */
extern const bool may_be_refused_anywhere;

inline size_t random_size(uint64_t *rng)
{
	/* 8 bytes .. 4 MiB, all orders of magnitude alike. */
	size_t limit = static_cast<size_t>(8) << rng_below(rng, 20);

	return limit / 2 + 1 + static_cast<size_t>(rng_below(rng, limit / 2));
}

inline void check(const Slot &s)
{
	if (!s.p)
		return;
	for (size_t i = 0; i < s.size && i < 64; i++)
		CHECK(s.p[i] == s.fill, "byte %zu of %zu has changed", i, s.size);
	CHECK(s.p[s.size / 2] == s.fill && s.p[s.size - 1] == s.fill,
	      "a block of %zu bytes has changed", s.size);
}

inline void step(Place &place)
{
	Slot &s = place.slots[rng_below(&place.rng, SLOTS)];
	bool interrupts = place.in_handler && self->in_allocator;

	check(s);
	if (!place.in_handler)
		self->in_allocator = 1;
	if (s.p)
		give(place, s);
	s.size = random_size(&place.rng);
	s.fill = static_cast<unsigned char>(rng_next(&place.rng));
	s.p = take(place, s.size, &s.kind);
	if (!place.in_handler)
		self->in_allocator = 0;
	place.requests[!interrupts]++;
	if (s.p) {
		memset(s.p, s.fill, s.size < 64 ? s.size : 64);
		s.p[s.size / 2] = s.p[s.size - 1] = s.fill;
	} else {
		CHECK(interrupts || (place.in_handler && may_be_refused_anywhere),
		      "no %zu bytes, though nobody was interrupted", s.size);
		place.refused[!interrupts]++;
	}
	also(place);
}

inline void on_signal(int)
{
	int saved = errno;

	if (!self)
		return;
	step(self->handler);
	self->signals++;
	errno = saved;
}

inline void give_all(Place &place)
{
	for (Slot &s : place.slots) {
		check(s);
		if (s.p)
			give(place, s);
		s.p = nullptr;
	}
}

inline void *work(void *arg)
{
	self = static_cast<Worker *>(arg);
	while (!stop) {
		step(self->work);
		self->steps++;
	}
	self->done = true;
	return nullptr;
}

/* Every 20 to 1000 us to each of them in turn. */
inline void *send_signals(void *)
{
	uint64_t rng = 1;

	while (!stop) {
		usleep(static_cast<useconds_t>((20 + rng_below(&rng, 981)) / WORKERS));
		pthread_kill(workers[rng_below(&rng, WORKERS)].thread, SIGUSR1);
	}
	return nullptr;
}

/* Watches the workers until all have ended. It does not allocate, and does not wait for a
 * worker. */
inline void watch(unsigned int seconds)
{
	time_t begin = time(nullptr), moved[WORKERS];
	unsigned long seen[WORKERS] = {};
	unsigned int working = WORKERS;

	for (auto &t : moved)
		t = begin;
	while (working) {
		usleep(50000);
		if (time(nullptr) - begin >= static_cast<time_t>(seconds))
			stop = true;
		working = 0;
		for (unsigned int i = 0; i < WORKERS; i++) {
			Worker &w = workers[i];

			working += !w.done;
			if (w.steps != seen[i] || w.done) {
				seen[i] = w.steps;
				moved[i] = time(nullptr);
			}
			CHECK(time(nullptr) - moved[i] < DEADLINE,
			      "thread %u stands still after %lu steps and %lu signals, %s", i,
			      w.steps.load(), w.signals.load(),
			      w.in_allocator ? "in the allocator" : "elsewhere");
		}
	}
}

inline unsigned int seconds_wanted(int argc, char **argv)
{
	const char *check = getenv("UKMEM_CHECK");

	if (argc > 1)
		return static_cast<unsigned int>(strtoul(argv[1], nullptr, 10));
	return check && !strcmp(check, "full") ? FULL_SECONDS : SHORT_SECONDS;
}

inline double percent(unsigned long part, unsigned long whole)
{
	return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

inline void report()
{
	unsigned long requests[2] = {}, refused[2] = {}, signals = 0, steps = 0;

	for (Worker &w : workers) {
		signals += w.signals;
		steps += w.steps;
		for (int i = 0; i < 2; i++) {
			requests[i] += w.handler.requests[i];
			refused[i] += w.handler.refused[i];
		}
	}
	CHECK(requests[0] && requests[1], "not everything was interrupted");
	printf("%lu steps, %lu signals; refused %lu of %lu requests that interrupted the "
	       "allocator, %.1f %%, and %lu of %lu others, %.1f %%\n",
	       steps, signals, refused[0], requests[0], percent(refused[0], requests[0]),
	       refused[1], requests[1], percent(refused[1], requests[1]));
}

inline void run(unsigned int seconds)
{
	struct sigaction action = {};
	pthread_t sender;

	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].work.rng = i + 1;
		workers[i].handler.rng = i + 1000;
		workers[i].handler.in_handler = true;
		CHECK(!pthread_create(&workers[i].thread, nullptr, work, &workers[i]),
		      "no thread");
	}
	CHECK(!pthread_create(&sender, nullptr, send_signals, nullptr), "no thread");
	watch(seconds);
	stop = true;
	pthread_join(sender, nullptr);
	for (Worker &w : workers) {
		pthread_join(w.thread, nullptr);
		give_all(w.work);
		give_all(w.handler);
	}
	report();
}

} // namespace soak

#endif
