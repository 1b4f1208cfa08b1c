/* SPDX-License-Identifier: MIT */
/*
 * The ALF queue under threads: one harness, many variants. Each element says who made it and
 * when. No element is lost or comes twice; each consumer sees each producer's elements in
 * their order, and counts are never impossible.
 */
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ukmem/ukmem.h"

namespace
{

struct Variant {
	const char *name;
	unsigned producers = 2, consumers = 2;
	uint32_t size = 64, start = 0;
	uint32_t bulk = 8; /* at most, at random */
	unsigned flags = 0;
	bool single_producer = false, single_consumer = false;
	bool one_cpu = false;	   /* all threads on one */
	bool migrate = false;	   /* from CPU to CPU all the time */
	bool signals = false;	   /* handlers that enqueue and dequeue */
	bool fifo = false;	   /* half of the threads have a real-time priority */
	bool roles_change = false; /* producers consume, too */
	bool revoked = false;	   /* biases come and go all the time */
	bool nice = false;	   /* some threads hardly ever run: preempted anywhere */
	bool stalls = false;	   /* a thread stands still, anywhere, until others got on */
};

constexpr unsigned kMakers = 64;

/* An element has the number of the thread that made it, and its number among that thread's
 * elements; it is never NULL. */
void *element(unsigned maker, uint64_t number)
{
	return reinterpret_cast<void *>(number << 8 | maker << 1 | 1);
}
unsigned maker_of(void *p)
{
	return reinterpret_cast<uintptr_t>(p) >> 1 & (kMakers - 1);
}
uint64_t number_of(void *p)
{
	return reinterpret_cast<uintptr_t>(p) >> 8;
}

class Trial;

/* One that enqueues, dequeues or both: a thread, or the handler that interrupts it. */
struct Actor {
	Trial *run;
	unsigned id;
	std::mt19937 random;
	uint64_t made = 0, got = 0, sum_made = 0, sum_got = 0;
	std::vector<uint64_t> last = std::vector<uint64_t>(kMakers);

	bool produce();
	bool consume();
};

thread_local Actor *volatile handler_of_this_thread;

class Trial
{
      public:
	explicit Trial(const Variant &variant) : v(variant)
	{
		q = alf_queue_alloc_flags(v.size, GFP_KERNEL, v.flags);
		if (IS_ERR(q))
			abort();
		q->producer.word += static_cast<uint64_t>(v.start) << 32;
		q->consumer.word += static_cast<uint64_t>(v.start) << 32;
		q->producer.limit += v.start;
		q->consumer.limit += v.start;
	}

	void go(double time);

	const Variant &v;
	struct alf_queue *q;
	std::atomic<bool> stop{ false };
	std::atomic<unsigned> producing{ 0 };
	std::atomic<uint64_t> moved{ 0 }; /* elements out, with stalls */
	std::atomic<bool> got_some{ false }, handlers_moved_some{ false };

      private:
	void work(Actor &actor, bool produces, bool consumes);
	void stall_one(pthread_t thread);
	void check();
	bool has_shown_enough() const;

	std::vector<std::unique_ptr<Actor>> actors_, handlers_;
};

bool Actor::produce()
{
	uint32_t n = random() % (run->v.bulk + 1), done;
	void *p[64];

	for (uint32_t i = 0; i < n; i++)
		p[i] = element(id, made + 1 + i);
	if (run->v.single_producer)
		done = random() % 2 ? alf_sp_enqueue(run->q, p, n)
				    : alf_sp_enqueue_burst(run->q, p, n);
	else
		done = random() % 2 ? alf_mp_enqueue(run->q, p, n)
				    : alf_mp_enqueue_burst(run->q, p, n);
	for (uint32_t i = 0; i < done; i++)
		sum_made += ++made;
	return done;
}

bool Actor::consume()
{
	uint32_t n = random() % (run->v.bulk + 1), done;
	void *p[64];

	if (run->v.single_consumer)
		done = random() % 2 ? alf_sc_dequeue(run->q, p, n)
				    : alf_sc_dequeue_bulk(run->q, p, n);
	else
		done = random() % 2 ? alf_mc_dequeue(run->q, p, n)
				    : alf_mc_dequeue_bulk(run->q, p, n);
	for (uint32_t i = 0; i < done; i++) {
		uint64_t &before = last[maker_of(p[i])];

		if (!(reinterpret_cast<uintptr_t>(p[i]) & 1) || number_of(p[i]) <= before) {
			fprintf(stderr, "%s: actor %u: %p of maker %u: %lu after %lu\n",
				run->v.name, id, p[i], maker_of(p[i]),
				static_cast<unsigned long>(number_of(p[i])),
				static_cast<unsigned long>(before));
			abort();
		}
		before = number_of(p[i]);
		sum_got += before;
		got++;
	}
	if (alf_queue_count(run->q) > run->v.size)
		abort();
	if (run->v.stalls)
		run->moved += done;
	if (done && !run->got_some)
		run->got_some = true;
	return done;
}

void on_signal(int)
{
	Actor *actor = handler_of_this_thread;
	int saved = errno;

	if (actor) {
		bool moved = !actor->run->stop && actor->produce();

		if ((actor->consume() || moved) && !actor->run->handlers_moved_some)
			actor->run->handlers_moved_some = true;
	}
	errno = saved;
}

bool have_sections()
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	return info.mode == UKMEM_PERCPU_RSEQ;
}

std::atomic<unsigned> stalls, stalls_over; /* of threads at work; of all */

/*
 * As if this thread had been stopped where it is: the others have to get on without it. In
 * relaxed queues what they enqueue may stay unseen meanwhile.
 */
void on_stall(int)
{
	Actor *actor = handler_of_this_thread;
	int saved = errno;

	if (actor) {
		Trial *run = actor->run;
		uint64_t enough = run->moved + 1000;

		for (int ms = 0; have_sections() && !run->stop && run->moved < enough; ms++) {
			if (ms == 60000) {
				fprintf(stderr,
					"%s: others wait for a thread that is stopped\n",
					run->v.name);
				abort();
			}
			usleep(1000);
		}
		if (!have_sections())
			usleep(2000);
		stalls++;
	}
	stalls_over++;
	errno = saved;
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void Trial::work(Actor &actor, bool produces, bool consumes)
{
	if (v.one_cpu)
		pin(0);
	if (v.fifo && actor.id % 2) {
		struct sched_param param = {};

		param.sched_priority = 1;
		pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	}
	if (v.nice && actor.id % 2)
		setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
	if (v.signals || v.stalls)
		handler_of_this_thread = handlers_[actor.id].get();
	for (;;) {
		bool moved = false;

		if (produces && !stop)
			moved = actor.produce();
		else if (produces) {
			producing--;
			produces = false;
		}
		if (consumes && (!produces || actor.random() % 2))
			moved |= actor.consume();
		if (stop && !produces && (!consumes || (!producing && alf_queue_empty(q))))
			break;
		if (!moved && v.fifo)
			usleep(50); /* or nobody else would run */
		else if (!moved)
			sched_yield();
		if (v.migrate && actor.random() % 64 == 0)
			pin(static_cast<int>(actor.random() %
					     std::thread::hardware_concurrency()));
	}
	handler_of_this_thread = nullptr;
}

/* One at a time: a side needs somebody else. */
void Trial::stall_one(pthread_t thread)
{
	unsigned before = stalls_over;

	pthread_kill(thread, SIGUSR2);
	while (stalls_over == before)
		usleep(200);
}

void Trial::go(double time)
{
	unsigned n = v.producers + v.consumers;
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < n; i++) {
		actors_.emplace_back(new Actor{ this, i, std::mt19937(i) });
		handlers_.emplace_back(new Actor{ this, i + n, std::mt19937(i + n) });
	}
	producing = v.roles_change ? n : v.producers;
	for (unsigned i = 0; i < n; i++)
		threads.emplace_back([this, i] {
			work(*actors_[i], i < v.producers || v.roles_change,
			     i >= v.producers || v.roles_change);
		});
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::duration_cast<std::chrono::nanoseconds>(
			   std::chrono::duration<double>(time));
	/* On a busy machine threads may still be waiting for a CPU at the end of the time. */
	auto latest = end + std::chrono::seconds(60);

	for (auto now = end; (now = std::chrono::steady_clock::now()) < end ||
			     (now < latest && !has_shown_enough());) {
		for (unsigned i = 0; v.signals && i < n; i++)
			pthread_kill(threads[i].native_handle(), SIGUSR1);
		if (v.stalls)
			stall_one(threads[rand() % n].native_handle());
		for (auto *side : { &q->producer, &q->consumer })
			if (v.revoked) /* a bias pays after one call */
				__atomic_store_n(&side->threshold, 0, __ATOMIC_RELAXED);
		usleep(v.signals || v.revoked ? 100 : v.stalls ? 300 : 2000);
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	check();
}

bool Trial::has_shown_enough() const
{
	return got_some && (!v.signals || handlers_moved_some) && (!v.stalls || stalls);
}

void Trial::check()
{
	uint64_t made = 0, got = 0, sum_made = 0, sum_got = 0, by_handlers = 0;
	Actor rest{ this, 0, std::mt19937(0) };

	/* What the last handlers put in. Order was checked by those who ran. */
	while (!alf_queue_empty(q))
		rest.consume();
	for (auto *list : { &actors_, &handlers_ })
		for (auto &a : *list) {
			made += a->made;
			got += a->got;
			sum_made += a->sum_made;
			sum_got += a->sum_got;
			by_handlers += list == &handlers_ ? a->made + a->got : 0;
		}
	EXPECT_EQ(made, got + rest.got);
	EXPECT_EQ(sum_made, sum_got + rest.sum_got);
	EXPECT_GT(got, 0u);
	if (v.signals) {
		EXPECT_GT(by_handlers, 0u);
	}
	if (v.stalls) {
		EXPECT_GT(stalls, 0u);
	}
	printf("%lu elements, %lu calls of handlers moved some\n",
	       static_cast<unsigned long>(made), static_cast<unsigned long>(by_handlers));
	alf_queue_free(q);
}

std::vector<Variant> variants()
{
	std::vector<Variant> list;
	auto add = [&](const char *name, void (*change)(Variant &)) {
		Variant v{ name };

		change(v);
		list.push_back(v);
	};

	add("TwoAndTwo", [](Variant &) {});
	add("OneAndOne", [](Variant &v) { v.producers = v.consumers = 1; });
	add("Wrap", [](Variant &v) { v.start = 0u - 5000; });
	add("Smallest", [](Variant &v) {
		v.size = 1;
		v.bulk = 2;
	});
	add("SizeTwo", [](Variant &v) {
		v.size = 2;
		v.bulk = 3;
	});
	add("LargeBulks", [](Variant &v) {
		v.size = 128;
		v.bulk = 64;
	});
	add("EightAndEight", [](Variant &v) { v.producers = v.consumers = 8; });
	add("OneCpu", [](Variant &v) {
		v.producers = v.consumers = 4;
		v.one_cpu = true;
	});
	add("Migration", [](Variant &v) { v.migrate = true; });
	add("RolesChange", [](Variant &v) {
		v.roles_change = true;
		v.size = 16;
	});
	add("SingleProducer", [](Variant &v) {
		v.producers = 1;
		v.single_producer = true;
		v.consumers = 3;
	});
	add("SingleConsumer", [](Variant &v) {
		v.consumers = 1;
		v.single_consumer = true;
		v.producers = 3;
	});
	add("SingleBoth", [](Variant &v) {
		v.producers = v.consumers = 1;
		v.single_producer = v.single_consumer = true;
	});
	add("Signals", [](Variant &v) { v.signals = true; });
	add("SignalsAndMigration", [](Variant &v) {
		v.signals = v.migrate = true;
		v.producers = v.consumers = 3;
	});
	add("RealTime", [](Variant &v) {
		v.fifo = true;
		v.producers = v.consumers = 4;
	});
	add("Nice", [](Variant &v) {
		v.nice = true;
		v.producers = v.consumers = 4;
		v.size = 256;
	});
	add("Revoked", [](Variant &v) { v.revoked = true; });
	add("RevokedManyThreads", [](Variant &v) {
		v.revoked = true;
		v.producers = v.consumers = 4;
		v.bulk = 16;
	});
	add("Stalls", [](Variant &v) {
		v.stalls = true;
		v.producers = v.consumers = 3;
	});
	add("Ticket", [](Variant &v) { v.flags = ALF_QUEUE_TICKET; });
	add("TicketManyThreads", [](Variant &v) {
		v.flags = ALF_QUEUE_TICKET;
		v.producers = v.consumers = 6;
		v.start = 0u - 1000;
	});
	return list;
}

class QueueStress : public ::testing::TestWithParam<Variant>
{
};

TEST_P(QueueStress, NoneLostNoneTwice)
{
	struct sigaction action = {};

	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	action.sa_handler = on_stall;
	sigaction(SIGUSR2, &action, nullptr);
	const char *seconds = getenv("UKMEM_STRESS_SECONDS");

	Trial(GetParam()).go(seconds && atof(seconds) > 0 ? atof(seconds) : 1.0);
}

INSTANTIATE_TEST_SUITE_P(Variants, QueueStress, ::testing::ValuesIn(variants()),
			 [](const auto &info) { return std::string(info.param.name); });

} // namespace
