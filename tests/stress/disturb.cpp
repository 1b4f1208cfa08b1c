/* SPDX-License-Identifier: MIT */
/* What goes on beside the workers. */
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "stress/harness.h"

namespace stress
{

thread_local Inbox *volatile inbox_of_this_thread;

namespace
{

Harness *harness; /* for the handler */

void handler(int)
{
	Inbox *inbox = inbox_of_this_thread;
	int saved = errno;

	if (inbox)
		harness->on_signal(*inbox);
	errno = saved;
}

void nap(unsigned microseconds)
{
	std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

/* In a process of its own: allocates all, then checks and frees all; exits if it cannot. */
template <size_t N> void use_blocks(Block (&blocks)[N], Random &random, size_t largest)
{
	for (Block &b : blocks) {
		b.size = skewed_size(random, largest);
		b.key = random.next();
		b.p = (unsigned char *)kmalloc(b.size, GFP_KERNEL);
		if (!b.p)
			_exit(2);
		fill(b);
	}
	for (Block &b : blocks) {
		if (damage(b, b.size) >= 0)
			_exit(3);
		kfree(b.p);
	}
}

[[noreturn]] void child(uint64_t seed)
{
	constexpr unsigned N = 400;
	static Block blocks[N];
	Random random(seed);

	for (unsigned round = 0; round < 3; round++)
		use_blocks(blocks, random, 65536);
	_exit(0);
}

/* The exit status of @pid, or -1 if it hangs. */
int wait_for(pid_t pid)
{
	for (unsigned i = 0; i < 30000; i++) {
		int status;

		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		nap(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, nullptr, 0);
	return -1;
}

} // namespace

unsigned Harness::any_cache(Random &random) const
{
	return plan_.one_cache < 0 ? random.below(NR_CACHES) : (unsigned)plan_.one_cache;
}

void Harness::trim()
{
	Random random(plan_.seed + 1);

	while (!stop_) {
		if (random.below(plan_.one_cache < 0 ? 8 : 4096))
			kmem_cache_shrink(caches_[any_cache(random)]);
		else
			ukmem_trim();
		if (plan_.trim_pause)
			nap(random.below(plan_.trim_pause));
	}
}

void Harness::observe()
{
	Snapshot now;

	while (!stop_) {
		now.take();
		/* Read while all moves: exact is only what does not depend on the moment. */
		EXPECT_EQ(now.gauges.mapped, now.gauges.active + now.gauges.retained);
		EXPECT_LT(now.gauges.active, 1ull << 40);
		EXPECT_LT(now.gauges.resident, 1ull << 40);
		nap(1000);
	}
}

void Harness::migrate()
{
	Random random(plan_.seed + 2);
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	while (!stop_) {
		unsigned cpu;

		do
			cpu = random.below(CPU_SETSIZE);
		while (!CPU_ISSET(cpu, &all));
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		{
			std::lock_guard<std::mutex> guard(handles_mutex_);
			unsigned id = random.below(plan_.threads);

			if (present_.count(id))
				pthread_setaffinity_np(handles_[id], sizeof(one),
						       random.below(4) ? &one : &all);
		}
		nap(20);
	}
}

/* A block of the handler's goes to the thread that was interrupted. */
void Inbox::put(Block b)
{
	unsigned at = head.load(std::memory_order_relaxed);

	b.key = random.next();
	fill(b);
	got++;
	blocks[at % SIZE] = b;
	head.store(at + 1, std::memory_order_release);
}

/* In the handler: by kmalloc, of a cache, or a bulk of a cache, all without blocking. */
void Harness::on_signal(Inbox &inbox)
{
	unsigned used = inbox.head.load(std::memory_order_relaxed) -
			inbox.tail.load(std::memory_order_relaxed);
	unsigned what = inbox.random.below(4), n = 1 + inbox.random.below(INBOX_BULK);
	void *p[INBOX_BULK];
	Block b;

	inbox.signals++;
	if (used + INBOX_BULK > Inbox::SIZE)
		return;
	if (what < 2) {
		b.kind = Kind::kmalloc;
		b.size = skewed_size(inbox.random, what ? 4096 : 100000);
		b.p = (unsigned char *)kmalloc(b.size, GFP_ATOMIC);
		if (b.p)
			inbox.put(b);
		return;
	}
	b.kind = Kind::cache;
	b.which = (uint8_t)inbox.random.below(3); /* those without a constructor */
	b.size = kmem_cache_size(caches_[b.which]);
	if (what == 2) {
		p[0] = kmem_cache_alloc(caches_[b.which], GFP_ATOMIC);
		n = p[0] ? 1 : 0;
	} else {
		unsigned wanted = n;

		n = (unsigned)kmem_cache_alloc_bulk(caches_[b.which], GFP_ATOMIC, n, p);
		if (!n)
			inbox.cache_refused[b.which] += wanted;
	}
	inbox.cache_allocs[b.which] += n;
	for (unsigned i = 0; i < n; i++) {
		b.p = (unsigned char *)p[i];
		inbox.put(b);
	}
}

void Harness::empty_inbox(Worker &w)
{
	Inbox &inbox = inboxes_[w.id];
	unsigned tail = inbox.tail.load(std::memory_order_relaxed);

	while (tail != inbox.head.load(std::memory_order_acquire)) {
		Block b = inbox.blocks[tail % Inbox::SIZE];

		inbox.tail.store(++tail, std::memory_order_release);
		release(w, b);
	}
}

void Harness::send_signals()
{
	struct sigaction action = {};
	unsigned next = 0;

	harness = this;
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	while (!stop_) {
		{
			std::lock_guard<std::mutex> guard(handles_mutex_);

			for (unsigned i = 0; i < 4; i++) {
				unsigned id = next++ % plan_.threads;

				if (present_.count(id))
					pthread_kill(handles_[id], SIGUSR1);
			}
		}
		nap(100);
	}
}

void Harness::fork_children()
{
	unsigned children = 0;

	while (!stop_) {
		pid_t pid = fork();

		if (!pid)
			child(plan_.seed + children);
		ASSERT_GT(pid, 0);
		int status = wait_for(pid);

		EXPECT_NE(status, -1) << "child " << children << " hangs";
		EXPECT_EQ(status, 0) << "child " << children;
		if (status)
			return;
		children++;
		nap(500);
	}
	EXPECT_GT(children, 0u);
}

void Harness::make_caches()
{
	Random random(plan_.seed + 3);

	while (!stop_) {
		unsigned size = 1 + random.below(2000), n = random.below(600);
		kmem_cache *s = kmem_cache_create("stress-passing", size, 0, 0, nullptr);
		std::vector<Block> blocks(n);

		ASSERT_NE(s, nullptr);
		for (Block &b : blocks) {
			b.size = size;
			b.key = random.next();
			b.p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);
			ASSERT_NE(b.p, nullptr);
			fill(b);
		}
		for (Block &b : blocks) {
			ASSERT_EQ(damage(b, b.size), -1);
			kmem_cache_free(s, b.p);
		}
		kmem_cache_destroy(s);
	}
}

void Harness::start_disturbers(std::vector<std::thread> &threads)
{
	if (plan_.trim)
		threads.emplace_back([this] { trim(); });
	if (plan_.observe)
		threads.emplace_back([this] { observe(); });
	if (plan_.migrate)
		threads.emplace_back([this] { migrate(); });
	if (plan_.signals)
		threads.emplace_back([this] { send_signals(); });
	if (plan_.fork)
		threads.emplace_back([this] { fork_children(); });
	for (unsigned i = 0; plan_.caches && i < 3; i++)
		threads.emplace_back([this] { make_caches(); });
}

int first_use(uint64_t seed, unsigned nr_threads)
{
	pid_t pid = fork();

	if (pid)
		return wait_for(pid);

	std::atomic<unsigned> waiting{ nr_threads };
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < nr_threads; i++)
		threads.emplace_back([&, i] {
			Random random(seed + i);
			Block blocks[40];

			waiting--;
			while (waiting)
				sched_yield();
			use_blocks(blocks, random, 100000);
		});
	for (std::thread &t : threads)
		t.join();

	Snapshot end;

	/* Initialised twice, a cache would be there twice or have lost objects. */
	end.take();
	for (const auto &[name, c] : end.caches)
		if (name.compare(0, 8, "kmalloc-") == 0 && c.inuse)
			_exit(4);
	if (ukmem_verify(stderr))
		_exit(6);
	_exit(end.duplicates || end.gauges.allocated > (64u << 10) ? 5 : 0);
}

} // namespace stress
