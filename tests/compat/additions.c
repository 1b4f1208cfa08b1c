/* SPDX-License-Identifier: MIT */
/*
 * Headers that the kernel's own tests (tests/kernel) asked for, beside models of them: sets of
 * bits, counters of many threads, lists, shifts. And locks: who waits for whom.
 *
 * Mutants that were caught: find_last_bit looks at bits beyond the set; bitmap_clear stops at a
 * word; percpu_counter_sync without its lock, or adding twice; list_swap of neighbours as of
 * others; check_shl_overflow without the last comparison; locks that prefer readers;
 * spin_is_locked that takes the lock; a refcount that stays 0.
 */
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/percpu_counter.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"
#include "nodes.h"

#define NR_BITS 200
#define NR_THREADS 4
#define NR_ADDITIONS 50000

int checks_failed;

/* Every function against an array of bool; the last word's other bits are garbage. */
static void check_set(const unsigned long *set, const bool *model, unsigned int nbits)
{
	unsigned long bit, last = nbits, clear = nbits, weight = 0, first = nbits;

	for (unsigned int i = 0; i < nbits; i++) {
		CHECK(test_bit(i, set) == model[i]);
		weight += model[i];
		if (model[i] && first == nbits)
			first = i;
		if (!model[i] && clear == nbits)
			clear = i;
		if (model[i])
			last = i;
	}
	CHECK(bitmap_weight(set, nbits) == weight);
	CHECK(find_first_bit(set, nbits) == first);
	CHECK(find_last_bit(set, nbits) == last);
	CHECK(find_first_zero_bit(set, nbits) == clear);
	CHECK(bitmap_empty(set, nbits) == (weight == 0));
	CHECK(bitmap_full(set, nbits) == (weight == nbits));
	for_each_set_bit (bit, set, nbits)
		weight -= model[bit];
	CHECK(weight == 0);
}

static void check_bitmaps(void)
{
	u64 seed = 12345;

	for (int round = 0; round < 3000; round++) {
		unsigned int nbits = (unsigned int)(1 + next_random(&seed) % NR_BITS);
		unsigned long *a = bitmap_alloc(nbits, GFP_KERNEL);
		unsigned long *b = bitmap_zalloc(nbits, GFP_KERNEL);
		DECLARE_BITMAP(both, NR_BITS);
		bool model[NR_BITS] = { false }, any = false, within = true,
		     in_b[NR_BITS] = { false };

		CHECK(a && b && bitmap_empty(b, nbits));
		memset(a, 0xee, bitmap_size(nbits));
		bitmap_clear(a, 0, nbits);
		for (int i = 0; i < 6; i++) {
			unsigned int start = (unsigned int)(next_random(&seed) % nbits);
			unsigned int n =
				(unsigned int)(next_random(&seed) % (nbits - start + 1));

			if (i % 3)
				bitmap_set(a, start, n);
			else
				bitmap_clear(a, start, n);
			for (unsigned int j = start; j < start + n; j++)
				model[j] = i % 3 != 0;
			__set_bit((long)start, b);
			in_b[start] = true;
		}
		check_set(a, model, nbits);
		for (unsigned int i = 0; i < nbits; i++) {
			any |= model[i] && in_b[i];
			within &= !in_b[i] || model[i];
		}
		CHECK(bitmap_and(both, a, b, nbits) == any);
		CHECK(bitmap_intersects(a, b, nbits) == any);
		CHECK(bitmap_subset(b, a, nbits) == within);
		CHECK(bitmap_andnot(both, b, a, nbits) == !within);
		bitmap_copy(both, a, nbits);
		CHECK(bitmap_equal(both, a, nbits));
		change_bit((long)(nbits - 1), both);
		CHECK(!bitmap_equal(both, a, nbits));
		bitmap_fill(both, nbits);
		CHECK(bitmap_full(both, nbits));
		bitmap_free(a);
		bitmap_free(b);
	}
}

/* As many bits as a set can have: its words and their bytes are more than a few. */
static void check_largest_bitmap(void)
{
	const unsigned int nbits = UINT_MAX;
	unsigned long *set = bitmap_alloc(nbits, GFP_KERNEL);

	CHECK(BITS_TO_LONGS(nbits) == 1ul << 26 && bitmap_size(nbits) == 1ul << 29);
	CHECK(BITS_TO_LONGS(nbits - 63) == (1ul << 26) - 1 && BITS_TO_LONGS(0u) == 0);
	CHECK(ukmem_bitmap_mask((1ul << 26) - 1, nbits) == ~0ul >> 1);
	CHECK(ukmem_bitmap_mask((1ul << 26) - 2, nbits) == ~0ul);
	CHECK(!set || ksize(set) >= 1ul << 29); /* NULL: no memory */
	bitmap_free(set);
}

static struct percpu_counter counter;
static unsigned long wrong_sums;
static pthread_barrier_t start;

static void *add(void *arg)
{
	s64 sign = (unsigned long)arg % 2 ? 1 : -1;

	pthread_barrier_wait(&start);
	for (int i = 0; i < NR_ADDITIONS; i++) {
		percpu_counter_add(&counter, 3);
		if (i % 2)
			percpu_counter_sub(&counter, 3);
		percpu_counter_add_local(&counter, sign);
		percpu_counter_add_batch(&counter, sign, 1);
		if (i % 1000 == 0 && percpu_counter_sum(&counter) < -2 * NR_ADDITIONS)
			__atomic_fetch_add(&wrong_sums, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int adding;

static void *add_one(void *unused)
{
	(void)unused;
	__atomic_store_n(&adding, 1, __ATOMIC_RELEASE);
	percpu_counter_add_batch(&counter, 1, 1);
	return NULL;
}

/* A part moves to the common count only under the lock. */
static void check_lock(void)
{
	s64 before = percpu_counter_read(&counter), sum = percpu_counter_sum(&counter);
	pthread_t thread;

	raw_spin_lock(&counter.lock);
	CHECK(pthread_create(&thread, NULL, add_one, NULL) == 0);
	while (!__atomic_load_n(&adding, __ATOMIC_ACQUIRE))
		sched_yield();
	usleep(50000);
	CHECK(percpu_counter_read(&counter) == before);
	raw_spin_unlock(&counter.lock);
	pthread_join(thread, NULL);
	/* What moved is its CPU's whole part, or another CPU's if the thread came there. */
	CHECK(percpu_counter_sum(&counter) == sum + 1);
	percpu_counter_sub(&counter, 1);
}

static void check_counters(void)
{
	s64 wanted = 1000 + 3ll * NR_ADDITIONS / 2 * NR_THREADS;
	pthread_t threads[NR_THREADS];
	s64 off;

	pthread_barrier_init(&start, NULL, NR_THREADS);
	CHECK(!percpu_counter_initialized(&counter));
	percpu_counter_destroy(&counter);
	CHECK(percpu_counter_init(&counter, 1000, GFP_KERNEL) == 0);
	CHECK(percpu_counter_sum(&counter) == 1000 && percpu_counter_read(&counter) == 1000);
	check_lock();
	for (unsigned long i = 0; i < NR_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, add, (void *)i) == 0);
	for (unsigned long i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(wrong_sums == 0);
	CHECK(percpu_counter_sum(&counter) == wanted);
	off = percpu_counter_read(&counter) - wanted;
	CHECK(off < 2 * NR_ADDITIONS * NR_THREADS && -off < 2 * NR_ADDITIONS * NR_THREADS);
	CHECK(percpu_counter_compare(&counter, wanted) == 0);
	CHECK(percpu_counter_compare(&counter, wanted - 1) == 1);
	CHECK(percpu_counter_compare(&counter, wanted + 1) == -1);
	CHECK(percpu_counter_compare(&counter, wanted + (1ll << 40)) == -1);
	percpu_counter_set(&counter, -5);
	CHECK(percpu_counter_sum(&counter) == -5 && percpu_counter_sum_positive(&counter) == 0);
	for (int i = 0; i < 5; i++)
		percpu_counter_inc(&counter);
	percpu_counter_sync(&counter);
	CHECK(percpu_counter_sum(&counter) == 0);
	percpu_counter_destroy(&counter);
}

static void check_lists(void)
{
	struct node n[6];
	LIST_HEAD(a);
	LIST_HEAD(b);

	for (int i = 1; i <= 5; i++) {
		n[i].value = i;
		list_add_tail(&n[i].list, &a);
	}
	list_swap(&n[1].list, &n[5].list);
	CHECK(digits(&a) == 52341);
	list_swap(&n[5].list, &n[2].list);
	CHECK(digits(&a) == 25341);
	list_swap(&n[4].list, &n[3].list);
	CHECK(digits(&a) == 25431);
	list_rotate_to_front(&n[4].list, &a);
	CHECK(digits(&a) == 43125);
	list_bulk_move_tail(&a, &n[3].list, &n[1].list);
	CHECK(digits(&a) == 42531);
	list_cut_before(&b, &a, &n[5].list);
	CHECK(digits(&b) == 42 && digits(&a) == 531);
	list_cut_before(&b, &a, &n[5].list);
	CHECK(list_empty(&b) && digits(&a) == 531);
	list_del_init_careful(&n[3].list);
	CHECK(list_empty_careful(&n[3].list) && digits(&a) == 51);
}

static void check_shifts(void)
{
	u8 byte;
	int number;
	u64 wide;

	CHECK(!check_shl_overflow(1, 7, &byte) && byte == 128);
	CHECK(check_shl_overflow(1, 8, &byte));
	CHECK(check_shl_overflow(3, 7, &byte));
	CHECK(check_shl_overflow(1, -1, &number));
	CHECK(check_shl_overflow(-1, 0, &number));
	CHECK(check_shl_overflow(1, 31, &number));
	CHECK(!check_shl_overflow(1, 30, &number) && number == 1 << 30);
	CHECK(!check_shl_overflow(1, 63, &wide) && wide == 1ull << 63);
	CHECK(check_shl_overflow(3, 63, &wide));
	CHECK(type_max(u8) == 255 && type_min(s8) == -128 && type_max(s64) == S64_MAX);
}

#ifdef __GLIBC__ /* others' locks prefer readers */
static DECLARE_RWSEM(static_sem);
static DEFINE_RWLOCK(static_lock);
static struct rw_semaphore made_sem;
static rwlock_t made_lock;

static void *write_sem(void *sem)
{
	down_write(sem);
	up_write(sem);
	return NULL;
}

static void *write_rwlock(void *lock)
{
	write_lock((rwlock_t *)lock);
	write_unlock((rwlock_t *)lock);
	return NULL;
}

static bool try_sem(void *sem)
{
	if (!down_read_trylock(sem))
		return false;
	up_read(sem);
	return true;
}

static bool try_rwlock(void *lock)
{
	if (!read_trylock((rwlock_t *)lock))
		return false;
	read_unlock((rwlock_t *)lock);
	return true;
}

/* The caller is a reader. As soon as a writer waits, nobody else becomes a reader. */
static void check_writer(void *lock, void *(*writer)(void *), bool (*try_read)(void *),
			 pthread_t *thread)
{
	int ms = 0;

	CHECK(try_read(lock));
	CHECK(pthread_create(thread, NULL, writer, lock) == 0);
	while (ms < 10000 && try_read(lock)) {
		usleep(1000);
		ms++;
	}
	CHECK(ms < 10000);
}

static void check_writers(void)
{
	pthread_t thread;

	init_rwsem(&made_sem);
	rwlock_init(&made_lock);
	for (int i = 0; i < 2; i++) {
		struct rw_semaphore *sem = i ? &made_sem : &static_sem;
		rwlock_t *lock = i ? &made_lock : &static_lock;

		down_read(sem);
		check_writer(sem, write_sem, try_sem, &thread);
		up_read(sem);
		CHECK(pthread_join(thread, NULL) == 0 && try_sem(sem));
		read_lock(lock);
		check_writer(lock, write_rwlock, try_rwlock, &thread);
		read_unlock(lock);
		CHECK(pthread_join(thread, NULL) == 0 && try_rwlock(lock));
	}
}
#else
static void check_writers(void)
{
}
#endif

static DEFINE_SPINLOCK(asked_spin);
static DEFINE_MUTEX(asked_mutex);
static bool asking, asked_enough;

static void *ask(void *unused)
{
	while (!READ_ONCE(asked_enough)) {
		spin_is_locked(&asked_spin);
		mutex_is_locked(&asked_mutex);
		WRITE_ONCE(asking, true);
	}
	return unused;
}

/* A thread that asks whether a lock is held does not hold it. */
static void check_asking(void)
{
	long refused = 0;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
	while (!READ_ONCE(asking))
		sched_yield();
	for (int i = 0; i < 1000000; i++) {
		if (spin_trylock(&asked_spin))
			spin_unlock(&asked_spin);
		else
			refused++;
		if (mutex_trylock(&asked_mutex))
			mutex_unlock(&asked_mutex);
		else
			refused++;
	}
	WRITE_ONCE(asked_enough, true);
	CHECK(pthread_join(thread, NULL) == 0 && refused == 0);

	spin_lock(&asked_spin);
	mutex_lock(&asked_mutex);
	CHECK(spin_is_locked(&asked_spin) && mutex_is_locked(&asked_mutex));
	CHECK(!spin_trylock(&asked_spin) && !mutex_trylock(&asked_mutex));
	CHECK(spin_is_locked(&asked_spin) && mutex_is_locked(&asked_mutex));
	spin_unlock(&asked_spin);
	mutex_unlock(&asked_mutex);
	CHECK(!spin_is_locked(&asked_spin) && !mutex_is_locked(&asked_mutex));
	CHECK(spin_trylock(&asked_spin) && mutex_trylock(&asked_mutex));
	CHECK(spin_is_locked(&asked_spin) && mutex_is_locked(&asked_mutex));
	spin_unlock(&asked_spin);
	mutex_unlock(&asked_mutex);
}

/* The two functions below misuse a count, and stderr leads elsewhere while the header reports
 * that: a message would fail the test. A count that was misused frees nothing afterwards. */
static int say_aside(void)
{
	int shown = dup(STDERR_FILENO), none = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK(shown >= 0 && none >= 0 && dup2(none, STDERR_FILENO) >= 0);
	close(none);
	return shown;
}

static bool is_saturated(const refcount_t *r, int shown)
{
	CHECK(dup2(shown, STDERR_FILENO) >= 0);
	close(shown);
	return refcount_read(r) == (unsigned int)REFCOUNT_SATURATED;
}

static bool refcount_inc_saturates(refcount_t *r)
{
	int shown = say_aside();

	refcount_set(r, 0);
	refcount_inc(r);
	return is_saturated(r, shown);
}

static bool refcount_dec_saturates(refcount_t *r)
{
	int shown = say_aside();

	refcount_set(r, 1);
	refcount_dec(r);
	return is_saturated(r, shown);
}

/* Everyday names that are a line each. */
static void check_names(void)
{
	struct item {
		struct list_head link;
		int value;
	} items[4], *pos = NULL, *n;
	unsigned long set[2] = { 0x9ul, 0x2ul }, bit = 1, found = 0;
	volatile size_t many = SIZE_MAX / 2;
	atomic_t v = ATOMIC_INIT(6);
	refcount_t r = REFCOUNT_INIT(2);
	LIST_HEAD(list);
	struct list_head *head = &list;
	u32 words[3];
	u16 halves[3];
	char *bytes;
	s32 rest;
	u64 rest64;
	int sum = 0;

	CHECK(GENMASK_ULL(39, 36) == 0xf000000000ull && BIT_ULL_MASK(65) == 2);
	CHECK(fls_long(0) == 0 && fls_long(1ul << 40) == 41 && __ffs64(1ull << 40) == 40);
	for_each_set_bit_from (bit, set, 128)
		found += bit;
	CHECK(found == 3 + 65);

	CHECK(atomic_fetch_inc(&v) == 6 && atomic_fetch_dec(&v) == 7);
	CHECK(atomic_inc_return_relaxed(&v) == 7 && atomic_dec_return_relaxed(&v) == 6);
	CHECK(!atomic_add_negative(-6, &v) && atomic_add_negative(-1, &v));
	atomic_set(&v, 7);
	atomic_andnot(2, &v);
	CHECK(atomic_fetch_andnot(4, &v) == 5 && atomic_read(&v) == 1);
	smp_store_mb(sum, 0);
	CHECK(!refcount_dec_if_one(&r) && refcount_read(&r) == 2);
	CHECK(!refcount_dec_and_test(&r) && refcount_dec_if_one(&r));
	CHECK(refcount_inc_saturates(&r) && refcount_dec_saturates(&r));

	CHECK(div_s64_rem(-7, 2, &rest) == -3 && rest == -1);
	CHECK(div64_u64_rem(~0ull, 1ull << 40, &rest64) == 0xffffff &&
	      rest64 == (1ull << 40) - 1);
	CHECK(str_has_prefix("slab_nomerge", "slab_") == 5 && !str_has_prefix("s", "slab"));
	memset16(halves, 0x1234, 3);
	memset32(words, 0x12345678, 3);
	CHECK(halves[2] == 0x1234 && words[2] == 0x12345678);
	bytes = vcalloc(3, 1000);
	CHECK(bytes && !memchr_inv(bytes, 0, 3000));
	vfree(bytes);
	CHECK(!vmalloc_array(many, 4) && !vcalloc(many, 4));

	OPTIMIZER_HIDE_VAR(head); /* gcc sees no items around the head */
	for (int i = 0; i < 4; i++) {
		items[i].value = 1 << i;
		list_add_tail(&items[i].link, head);
	}
	pos = list_prepare_entry(pos, head, link);
	list_for_each_entry_continue (pos, head, link)
		sum += pos->value;
	CHECK(sum == 15);
	pos = &items[0];
	list_for_each_entry_safe_continue (pos, n, head, link) {
		sum -= pos->value;
		list_del(&pos->link);
		if (pos == &items[1]) {
			list_del(&items[2].link);
			pos->link.next = &items[3].link;
			list_safe_reset_next(pos, n, link);
		}
	}
	CHECK(sum == 15 - 2 - 8 && list_is_singular(head));
	pos = &items[0];
	list_for_each_entry_safe_from (pos, n, head, link)
		list_del(&pos->link);
	CHECK(list_empty(head));
}

static unsigned int calls;
static LIST_HEAD(none);

static struct list_head *count_calls(void)
{
	calls++;
	return &none;
}

/* Forms in which the kernel's code uses these names. Headers: only those that it includes. */
static void check_forms(void)
{
	volatile unsigned long word = 1;
	struct line {
		int member;
	} ____cacheline_aligned_in_smp;
	struct linked {
		struct list_head link;
	} *first = list_first_entry_or_null(count_calls(), struct linked, link);
	char *p = kmalloc(PAGE_SIZE, GFP_KERNEL);
	u8 n = 5;

	BUILD_BUG_ON(!is_power_of_2(64));
	if (n)
		BUILD_BUG_ON(sizeof(struct line) != L1_CACHE_BYTES);
	else
		n++;
	CHECK(!first && calls == 1);
	CHECK(cmpxchg(&word, 1ul, 2ul) == 1 && word == 2);
	CHECK(round_up(n, 256) == 256 && round_down(n, 256) == 0);
	CHECK(get_order(PAGE_SIZE + 1) == 1 && is_power_of_2(word + n + 1));
	p = kvrealloc(p, PAGE_SIZE, 2 * PAGE_SIZE, GFP_KERNEL);
	p = kvrealloc(p, 3 * PAGE_SIZE, GFP_KERNEL);
	CHECK(p && ksize(p) >= 3 * PAGE_SIZE);
	kfree(p);
#if defined(__BIG_ENDIAN) == defined(__LITTLE_ENDIAN)
	CHECK(!"one of them");
#endif
	CHECK(percpu_counter_batch >= 32 && percpu_counter_batch == percpu_counter_batch);
}

int main(void)
{
	check_bitmaps();
	check_largest_bitmap();
	check_counters();
	check_lists();
	check_shifts();
	check_names();
	check_forms();
	check_writers();
	check_asking();
	printf("additions: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
