/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, resize, hand over and free, and verify every byte.
 *
 *	malloc_stress SECONDS [SEED]
 *
 * More threads than CPUs. Each keeps blocks of 1 byte to 4 MiB, most of them
 * small, from all functions of the malloc family; a part goes through queues to
 * other threads, which verify and free them. A block's contents follow from its
 * tag, so a block handed out twice, or moved wrongly, shows. All the while a timer
 * sends SIGALRM a thousand times a second, and one more thread moves the others
 * from CPU to CPU.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "preload_test.h"

enum { THREADS = 12, KEPT = 400, QUEUE = 256, MAX_SIZE = 4 << 20, WHOLLY_CHECKED = 16384 };

struct block {
	unsigned char *p;
	size_t size;
	uint64_t tag;
};

struct queue {
	pthread_mutex_t lock;
	struct block ring[QUEUE];
	size_t head, tail;
};

struct worker {
	pthread_t thread;
	uint64_t rng;
	_Atomic pid_t tid;
	uint64_t operations;
	struct queue inbox;
};

static struct worker workers[THREADS];
static atomic_bool stop;
static atomic_long alarms;

static unsigned char pattern(uint64_t tag, size_t i)
{
	return (unsigned char)((tag >> (8 * (i % 8))) + i / 8);
}

/* The step to the next byte looked at: all of small blocks, a sample of large ones. */
static size_t step(size_t i, size_t size)
{
	return size <= WHOLLY_CHECKED || i < 64 || i + 64 >= size ? 1 : 61;
}

static void block_fill(struct block *b, uint64_t tag)
{
	b->tag = tag;
	for (size_t i = 0; i < b->size; i += step(i, b->size))
		b->p[i] = pattern(tag, i);
}

/* block_verify - the first @size bytes of what was filled in at @b's full size */
static void block_verify(const struct block *b, const unsigned char *p, size_t size)
{
	for (size_t i = 0; i < size; i += step(i, b->size))
		CHECK(p[i] == pattern(b->tag, i),
		      "block %p of %zu bytes, tag %llx: byte %zu is %d", (const void *)p,
		      b->size, (unsigned long long)b->tag, i, p[i]);
}

static void block_free(struct block *b)
{
	block_verify(b, b->p, b->size);
	memset(b->p, 0xdd, b->size < 64 ? b->size : 64);
	free(b->p);
	b->p = NULL;
}

static void block_alloc(struct block *b, uint64_t *rng)
{
	size_t size = rng_size(rng, MAX_SIZE), alignment = 1;
	void *p = NULL;

	switch (rng_below(rng, 8)) {
	case 0:
		p = calloc(1, size);
		for (size_t i = 0; p && i < size; i += step(i, size))
			CHECK(!((char *)p)[i], "calloc(%zu): byte %zu is not 0", size, i);
		break;
	case 1:
		alignment = (size_t)8 << rng_below(rng, 14);
		CHECK(!posix_memalign(&p, alignment, size), "posix_memalign(%zu)", size);
		break;
	case 2:
		alignment = (size_t)16 << rng_below(rng, 8);
		p = aligned_alloc(alignment, size);
		break;
	case 3:
		p = realloc(NULL, size);
		break;
	default:
		p = malloc(size);
		break;
	}
	CHECK(p, "no memory for %zu bytes", size);
	CHECK((uintptr_t)p % alignment == 0, "%p of %zu bytes is not aligned to %zu", p, size,
	      alignment);
	CHECK(malloc_usable_size(p) >= size, "%zu bytes usable of %zu", malloc_usable_size(p),
	      size);
	b->p = p;
	b->size = size;
	block_fill(b, rng_next(rng));
}

static void block_resize(struct block *b, uint64_t *rng)
{
	size_t size = rng_size(rng, MAX_SIZE);
	block_verify(b, b->p, b->size);
	unsigned char *p = realloc(b->p, size);
	CHECK(p, "no memory for %zu bytes", size);
	block_verify(b, p, size < b->size ? size : b->size);
	b->p = p;
	b->size = size;
	block_fill(b, rng_next(rng));
}

/* queue_put - false, and @b stays the caller's, if the queue is full */
static bool queue_put(struct queue *q, const struct block *b)
{
	pthread_mutex_lock(&q->lock);
	bool room = q->tail - q->head < QUEUE;
	if (room)
		q->ring[q->tail++ % QUEUE] = *b;
	pthread_mutex_unlock(&q->lock);
	return room;
}

static bool queue_get(struct queue *q, struct block *b)
{
	pthread_mutex_lock(&q->lock);
	bool any = q->tail != q->head;
	if (any)
		*b = q->ring[q->head++ % QUEUE];
	pthread_mutex_unlock(&q->lock);
	return any;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct block *kept = calloc(KEPT, sizeof(*kept)), received;
	CHECK(kept, "no memory");
	atomic_store(&w->tid, gettid());

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct block *b = &kept[rng_below(&w->rng, KEPT)];
		uint64_t what = rng_below(&w->rng, 16);
		if (!b->p)
			block_alloc(b, &w->rng);
		else if (what < 3)
			block_resize(b, &w->rng);
		else if (what < 9 && queue_put(&workers[rng_below(&w->rng, THREADS)].inbox, b))
			b->p = NULL;
		else
			block_free(b);
		if (queue_get(&w->inbox, &received))
			block_free(&received);
		w->operations++;
	}
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].p)
			block_free(&kept[i]);
	free(kept);
	return NULL;
}

static void on_alarm(int unused)
{
	(void)unused;
	atomic_fetch_add_explicit(&alarms, 1, memory_order_relaxed);
}

static void *migrate(void *arg)
{
	const cpu_set_t *allowed = arg;
	uint64_t rng = 1;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct worker *w = &workers[rng_below(&rng, THREADS)];
		size_t cpu = rng_below(&rng, CPU_SETSIZE);
		pid_t tid = atomic_load(&w->tid);
		while (!CPU_ISSET(cpu, allowed))
			cpu = (cpu + 1) % CPU_SETSIZE;
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (tid)
			sched_setaffinity(tid, sizeof(one),
					  rng_below(&rng, 4) ? &one : allowed);
		usleep(500);
	}
	return NULL;
}

/* Delivered to the workers: main and the migrating thread block it. */
static void start_alarms(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };
	sigset_t set;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 || argc == 3, "usage: %s SECONDS [SEED]", argv[0]);
	unsigned int seconds = (unsigned int)strtoul(argv[1], NULL, 10);
	uint64_t seed = argc == 3 ? strtoull(argv[2], NULL, 0) : 20240229;
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);

	/* All of them first: the first thread may use the last one's inbox at once. */
	for (size_t i = 0; i < THREADS; i++) {
		workers[i].rng = (seed + 1) * 0x9e3779b97f4a7c15ull + i;
		pthread_mutex_init(&workers[i].inbox.lock, NULL);
	}
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]),
		      "no thread");
	start_alarms();
	cpu_set_t allowed;
	pthread_t migrator;
	sched_getaffinity(0, sizeof(allowed), &allowed);
	CHECK(!pthread_create(&migrator, NULL, migrate, &allowed), "no thread");

	struct timespec left = { .tv_sec = seconds };
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	atomic_store(&stop, true);
	pthread_join(migrator, NULL);
	uint64_t operations = 0;
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		operations += workers[i].operations;
	}
	struct block b;
	for (size_t i = 0; i < THREADS; i++)
		while (queue_get(&workers[i].inbox, &b))
			block_free(&b);
	verify_library();
	CHECK(atomic_load(&alarms) > 20 * (long)seconds, "only %ld alarms",
	      atomic_load(&alarms));
	CHECK(operations > 1000 * (uint64_t)seconds, "only %llu operations",
	      (unsigned long long)operations);
	printf("all contents verified\n");
	return 0;
}
