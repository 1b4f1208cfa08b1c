/* SPDX-License-Identifier: MIT */
/* The kernel's basics, a few of each: lists, bits, errors, counts, sizes, nodes, pages. */
/* first: its macros have names of the kernel's functions */
#include <stdatomic.h>

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/prefetch.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "check.h"
#include "nodes.h"

static void check_lists(void)
{
	struct node n[10], *pos, *next;
	LIST_HEAD(a);
	LIST_HEAD(b);
	LIST_HEAD(c);

	CHECK(list_empty(&a) && list_first_entry_or_null(&a, struct node, list) == NULL);
	for (int i = 0; i < 10; i++) {
		n[i].value = i;
		list_add_tail(&n[i].list, i < 5 ? &a : &b);
	}
	CHECK(digits(&a) == 1234 && digits(&b) == 56789 && list_count_nodes(&a) == 5);
	list_move(&n[3].list, &a);
	CHECK(digits(&a) == 30124);
	list_move_tail(&n[3].list, &b);
	CHECK(digits(&a) == 124 && digits(&b) == 567893);
	list_splice_init(&b, &a);
	CHECK(digits(&a) == 5678930124 && list_empty(&b));
	list_cut_position(&b, &a, &n[8].list);
	CHECK(digits(&b) == 5678 && digits(&a) == 930124);
	list_cut_position(&c, &a, &a);
	CHECK(list_empty(&c) && digits(&a) == 930124);
	list_splice_tail(&b, &a);
	CHECK(digits(&a) == 9301245678);
	list_rotate_left(&a);
	CHECK(digits(&a) == 3012456789);
	list_for_each_entry_safe (pos, next, &a, list)
		if (pos->value % 2)
			list_del_init(&pos->list);
	CHECK(digits(&a) == 2468 && list_empty(&n[3].list));
	list_for_each_entry_safe_reverse (pos, next, &a, list)
		if (pos->value > 4)
			list_del(&pos->list);
	CHECK(digits(&a) == 24 && n[6].list.next == LIST_POISON1);
	list_replace_init(&n[0].list, &n[1].list);
	CHECK(digits(&a) == 124 && list_is_first(&n[1].list, &a) &&
	      list_is_last(&n[4].list, &a));
	/* Heads, too: of a list, and of an empty one. */
	list_replace_init(&a, &c);
	CHECK(list_empty(&a) && digits(&c) == 124);
	list_replace_init(&a, &b);
	CHECK(list_empty(&a) && list_empty(&b) && list_empty_careful(&b));
	list_replace(&c, &a);
	pos = &n[1];
	list_for_each_entry_continue (pos, &a, list)
		CHECK(pos->value != 1);
	list_del(&n[1].list);
	list_del(&n[2].list);
	CHECK(list_is_singular(&a) && list_last_entry(&a, struct node, list) == &n[4]);
}

static void check_hlists(void)
{
	struct node n[6], *pos;
	struct hlist_node *next;
	HLIST_HEAD(head);
	HLIST_HEAD(other);
	long sum = 0;

	for (int i = 0; i < 4; i++) {
		n[i].value = i;
		hlist_add_head(&n[i].hash, &head);
	}
	n[4].value = 4;
	n[5].value = 5;
	hlist_add_before(&n[4].hash, &n[3].hash);
	hlist_add_behind(&n[5].hash, &n[0].hash);
	hlist_for_each_entry (pos, &head, hash)
		sum = sum * 10 + pos->value;
	CHECK(sum == 432105);
	hlist_for_each_entry_safe (pos, next, &head, hash)
		if (pos->value % 2)
			hlist_del_init(&pos->hash);
	CHECK(hlist_unhashed(&n[3].hash) && !hlist_unhashed(&n[2].hash));
	hlist_move_list(&head, &other);
	sum = 0;
	hlist_for_each_entry (pos, &other, hash)
		sum = sum * 10 + pos->value;
	CHECK(sum == 420 && hlist_empty(&head));
	hlist_del(&n[4].hash);
	CHECK(other.first == &n[2].hash && n[2].hash.pprev == &other.first);
}

struct counted {
	struct kref ref;
	bool *gone;
};

static void release(struct kref *ref)
{
	*container_of(ref, struct counted, ref)->gone = true;
}

static void check_counts(void)
{
	atomic_t a = ATOMIC_INIT(3);
	atomic64_t big = ATOMIC64_INIT(1ll << 40);
	bool gone = false;
	struct counted counted = { .gone = &gone };
	int old = 5, *p = &old;

	CHECK(atomic_add_return(2, &a) == 5 && atomic_fetch_sub(1, &a) == 5);
	CHECK(!atomic_dec_and_test(&a) && atomic_read(&a) == 3);
	CHECK(atomic_cmpxchg(&a, 4, 9) == 3 && atomic_cmpxchg(&a, 3, 9) == 3);
	CHECK(!atomic_try_cmpxchg(&a, &old, 1) && old == 9 && atomic_try_cmpxchg(&a, &old, 0));
	CHECK(!atomic_inc_not_zero(&a) && atomic_dec_if_positive(&a) == -1 && !atomic_read(&a));
	atomic_set(&a, INT_MAX);
	CHECK(!atomic_dec_unless_positive(&a) && atomic_read(&a) == INT_MAX);
	CHECK(atomic_fetch_add_unless(&a, 1, 0) == INT_MAX && atomic_read(&a) == INT_MIN);
	CHECK(!atomic_inc_unless_negative(&a) && atomic_read(&a) == INT_MIN);
	CHECK(atomic_dec_if_positive(&a) == INT_MAX && atomic_read(&a) == INT_MIN);
	CHECK(atomic64_inc_return(&big) == (1ll << 40) + 1);
	CHECK(xchg(p, 7) == 9 && cmpxchg(p, 7, 8) == 7 && *p == 8);
	kref_init(&counted.ref);
	kref_get(&counted.ref);
	CHECK(!kref_put(&counted.ref, release) && !gone && kref_read(&counted.ref) == 1);
	CHECK(kref_put(&counted.ref, release) && gone);
	CHECK(!kref_get_unless_zero(&counted.ref));
}

/* ordered.c has their orders. */
#define CHECK_IN_ORDER(order)                                                                  \
	do {                                                                                   \
		atomic64_t v = ATOMIC64_INIT(12);                                              \
		s64 old = 3;                                                                   \
		long word = 5, was = 4;                                                        \
                                                                                               \
		CHECK(atomic64_add_return_##order(3, &v) == 15);                               \
		CHECK(atomic64_sub_return_##order(1, &v) == 14);                               \
		CHECK(atomic64_inc_return_##order(&v) == 15);                                  \
		CHECK(atomic64_dec_return_##order(&v) == 14);                                  \
		CHECK(atomic64_fetch_add_##order(1, &v) == 14);                                \
		CHECK(atomic64_fetch_sub_##order(1, &v) == 15);                                \
		CHECK(atomic64_fetch_inc_##order(&v) == 14);                                   \
		CHECK(atomic64_fetch_dec_##order(&v) == 15);                                   \
		CHECK(atomic64_fetch_and_##order(12, &v) == 14);                               \
		CHECK(atomic64_fetch_or_##order(3, &v) == 12);                                 \
		CHECK(atomic64_fetch_xor_##order(1, &v) == 15);                                \
		CHECK(atomic64_fetch_andnot_##order(8, &v) == 14);                             \
		CHECK(atomic64_xchg_##order(&v, 20) == 6);                                     \
		CHECK(atomic64_cmpxchg_##order(&v, 19, 21) == 20);                             \
		CHECK(atomic64_cmpxchg_##order(&v, 20, 21) == 20);                             \
		CHECK(!atomic64_try_cmpxchg_##order(&v, &old, 22) && old == 21);               \
		CHECK(atomic64_try_cmpxchg_##order(&v, &old, 22));                             \
		CHECK(atomic64_read(&v) == 22);                                                \
		CHECK(xchg_##order(&word, 6) == 5 && cmpxchg_##order(&word, 5, 7) == 6);       \
		CHECK(cmpxchg_##order(&word, 6, 7) == 6);                                      \
		CHECK(!try_cmpxchg_##order(&word, &was, 8) && was == 7);                       \
		CHECK(try_cmpxchg_##order(&word, &was, 8) && word == 8);                       \
	} while (0)

static void check_orders(void)
{
	CHECK_IN_ORDER(relaxed);
	CHECK_IN_ORDER(acquire);
	CHECK_IN_ORDER(release);
}

#define CONFIG_BUILT_IN 1
#define CONFIG_A_MODULE_MODULE 1
#define CONFIG_NUMBER 2
#if !IS_ENABLED(CONFIG_BUILT_IN) || IS_ENABLED(CONFIG_MISSING) || !IS_ENABLED(CONFIG_A_MODULE)
#error "IS_ENABLED() in #if"
#endif

static void check_config(void)
{
	CHECK(IS_BUILTIN(CONFIG_BUILT_IN) && !IS_MODULE(CONFIG_BUILT_IN));
	CHECK(!IS_BUILTIN(CONFIG_A_MODULE) && IS_MODULE(CONFIG_A_MODULE));
	CHECK(IS_REACHABLE(CONFIG_BUILT_IN) && !IS_REACHABLE(CONFIG_A_MODULE));
	CHECK(!IS_ENABLED(CONFIG_NUMBER) && !IS_ENABLED(CONFIG_MISSING));
}

static void check_bits(void)
{
	unsigned long map[BITS_TO_LONGS(200)] = { 0 }, bit, sum = 0;

	set_bit(3, map);
	__set_bit(64, map);
	CHECK(!test_and_set_bit(199, map) && test_and_set_bit(199, map) && test_bit(64, map));
	for_each_set_bit (bit, map, 200)
		sum += bit;
	CHECK(sum == 3 + 64 + 199 && find_next_bit(map, 199, 65) == 199);
	CHECK(find_first_zero_bit(map, 200) == 0 && test_and_clear_bit(3, map));
	CHECK(fls(0) == 0 && fls(8) == 4 && fls64(1ull << 40) == 41 && __ffs(24) == 3);
	CHECK(GENMASK(7, 4) == 0xf0 && BIT(5) == 32 && hweight64(~0ull) == 64);
	CHECK(ilog2(4095) == 11 && order_base_2(4097) == 13 && roundup_pow_of_two(5) == 8);
	CHECK(ffz(0xffffffffu) == 32 && ffz(5) == 1);
	CHECK(is_power_of_2(64) && !is_power_of_2(0) && rounddown_pow_of_two(255) == 128);
	CHECK(hash_32(1, 8) < 256 && hash_long(12345, 10) != hash_long(12346, 10));
}

static int evaluated;

static int once(int value)
{
	evaluated++;
	return value;
}

#define CHECK_ONCE(condition)                                                                  \
	do {                                                                                   \
		evaluated = 0;                                                                 \
		CHECK(condition);                                                              \
		CHECK(evaluated == 1);                                                         \
	} while (0)

static void check_rounding(void)
{
	static const unsigned char constants[order_base_2(1024) + roundup_pow_of_two(3) +
					     round_up(3, 8) + DIV_ROUND_UP(9, 4)];
	unsigned long map[2] = { 0, ~0ul };
	volatile int minus_seven = -7;

	BUILD_BUG_ON(sizeof(constants) != 10 + 4 + 8 + 3);
	CHECK(DIV_ROUND_CLOSEST(7, 4) == 2 && DIV_ROUND_CLOSEST(minus_seven, 4) == -2);
	CHECK(DIV_ROUND_CLOSEST(7, -4) == -2 && DIV_ROUND_CLOSEST(minus_seven, -4) == 2);
	CHECK(DIV_ROUND_CLOSEST(5u, 4u) == 1 && DIV_ROUND_CLOSEST(-5, 4) == -1);
	CHECK(rounddown(13, 5) == 10 && rounddown(minus_seven, 4) == -4);
	CHECK(order_base_2(1) == 0 && order_base_2(0ul) == 0);
	CHECK(abs(minus_seven) == 7 && abs(-4294967301ll) == 4294967301ll &&
	      abs((long)minus_seven - 3000000000l) == 3000000007l);
	CHECK(abs_diff(3u, 5u) == 2 && abs_diff(minus_seven, 2) == 9);
	CHECK_ONCE(abs_diff(once(7), 4) == 3);
	CHECK(!(GFP_TRANSHUGE_LIGHT & __GFP_RECLAIM) &&
	      (GFP_TRANSHUGE & __GFP_RECLAIM) == __GFP_DIRECT_RECLAIM);
	CHECK_ONCE(DIV_ROUND_CLOSEST(once(7), 4) == 2);
	CHECK_ONCE(rounddown(once(7), 4) == 4);
	CHECK_ONCE(roundup(7, once(4)) == 8);
	CHECK_ONCE(order_base_2(once(5)) == 3);
	CHECK_ONCE(roundup_pow_of_two(once(5)) == 8);
	CHECK_ONCE(bitmap_empty(map, once(64)) && !bitmap_full(map, 64));
	CHECK_ONCE(bitmap_full(map + 1, once(64)) && !bitmap_empty(map, 65));
	CHECK_ONCE(strcmp(kbasename((once(1), "a/b")), "b") == 0);
	CHECK(strcmp(kbasename("name"), "name") == 0);
}

static void check_values(void)
{
	int calls = 0;
	void *error = ERR_PTR(-ENOMEM);
	char text[8];

	CHECK(IS_ERR(error) && PTR_ERR(error) == -ENOMEM && !IS_ERR(text) &&
	      IS_ERR_OR_NULL(NULL));
	CHECK(PTR_ERR_OR_ZERO(text) == 0 && PTR_ERR(ERR_CAST(error)) == -ENOMEM);
	CHECK(min(3, 4) == 3 && max_t(u8, 300, 40) == 44 && clamp(17, 0, 9) == 9);
	CHECK(min(calls++, 10) == 0 && calls == 1 && min_not_zero(0, 5) == 5);
	CHECK(DIV_ROUND_UP(10, 4) == 3 && round_up(13, 8) == 16 && roundup(13, 5) == 15);
	CHECK(ALIGN(4097, 4096) == 8192 && IS_ALIGNED(8192, 4096) && ARRAY_SIZE(text) == 8);
	CHECK(strscpy(text, "kernel", sizeof(text)) == 6);
	CHECK(strscpy(text, "too long a text", sizeof(text)) == -E2BIG && strlen(text) == 7);
	CHECK(strscpy(text, "short") == 5 && strcmp(text, "short") == 0);
	CHECK(strscpy(text, "as long as that") == -E2BIG && strcmp(text, "as long") == 0);
	CHECK(scnprintf(text, sizeof(text), "%d", 123456789) == 7 &&
	      scnprintf(text, 0, "x") == 0);
	CHECK(memchr_inv("aaab", 'a', 4) && !memchr_inv("aaaa", 'a', 4));
	CHECK(SZ_64K == 65536 && sizeof_field(struct node, value) == 4);
	CHECK(WARN_ON_ONCE(0) == 0 && !WARN_ON(calls != 1));
	BUILD_BUG_ON(sizeof(u64) != 8);
	static_assert(sizeof(u8) == 1);
}

static void check_locks(void)
{
	DEFINE_SPINLOCK(lock);
	DEFINE_MUTEX(mutex);
	DECLARE_RWSEM(sem);
	DEFINE_RWLOCK(rw);
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	CHECK(!spin_trylock(&lock) && spin_is_locked(&lock));
	spin_unlock_irqrestore(&lock, flags);
	CHECK(!spin_is_locked(&lock));
	CHECK(mutex_lock_interruptible(&mutex) == 0 && mutex_is_locked(&mutex));
	mutex_unlock(&mutex);
	down_read(&sem);
	CHECK(!down_write_trylock(&sem) && down_read_trylock(&sem));
	up_read(&sem);
	up_read(&sem);
	write_lock(&rw);
	write_unlock(&rw);
}

/* What goes out of scope is freed: a block, an error pointer, or nothing. */
static void check_free(void)
{
	char *block __free(kfree) = kmalloc(100, GFP_KERNEL);
	char *error __free(kfree) = ERR_PTR(-ENOMEM);
	char *wrong __free(kvfree) = ERR_PTR(-EINVAL);
	char *taken __free(kvfree) = kvmalloc(100, GFP_KERNEL), *given = no_free_ptr(taken);

	CHECK(block && given && !taken && IS_ERR(error) && IS_ERR(wrong));
	kvfree(given);
}

static DEFINE_PER_CPU(unsigned long, events);
static DEFINE_PER_CPU(int[2], pairs);

static void check_memory(void)
{
	struct mempolicy *policy = mpol_new(MPOL_LOCAL, NULL);
	struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, 2);
	nodemask_t nodes = NODE_MASK_NONE;
	int nid, online = 0;
	unsigned int cpu;
	void *p;

	CHECK(per_cpu_ptr(pairs, 0) + 1 == per_cpu_ptr(&pairs[1], 0));
	CHECK(page && !memchr_inv(page_address(page), 0, PAGE_SIZE << 2));
	CHECK(virt_to_head_page((char *)page_address(page) + PAGE_SIZE) == page);
	CHECK(page_size(page) == 4 * PAGE_SIZE && PAGE_SIZE == 1ul << PAGE_SHIFT);
	__free_pages(page, 2);
	CHECK(get_order(0) == 0 && get_order(1) == 0 && get_order(PAGE_SIZE) == 0);
	CHECK(get_order(PAGE_SIZE + 1) == 1 && get_order(5 * PAGE_SIZE) == 3);
	CHECK(PAGE_ALIGN(1) == PAGE_SIZE && offset_in_page(PAGE_SIZE + 5) == 5);
	for_each_online_node (nid) {
		online++;
		node_set(nid, nodes);
	}
	CHECK(online >= 1 && nodes_weight(nodes) == online && node_online(numa_node_id()));
	CHECK(first_node(nodes) < MAX_NUMNODES &&
	      node_distance(numa_node_id(), numa_mem_id()) == 10);
	p = kmalloc_node(100, GFP_KERNEL, numa_node_id());
	CHECK(p && ksize(p) >= 100);
	p = krealloc_array(p, 100, 10, GFP_KERNEL | __GFP_ZERO);
	kvfree(p);
	p = vmalloc(10 * PAGE_SIZE);
	CHECK(is_vmalloc_addr(p) && PAGE_ALIGNED(p));
	vfree(p);
	p = kmem_cache_create_usercopy("usercopy", 64, 0, SLAB_PANIC, 0, 64, NULL);
	kmem_cache_destroy(p);
	mpol_put(policy);
	this_cpu_add(events, 2);
	this_cpu_inc(events);
	CHECK(per_cpu_sum(events) == 3 && smp_processor_id() < nr_cpu_ids);
	for_each_possible_cpu(cpu) CHECK(cpu < nr_cpu_ids);
}

void check_basics(void)
{
	check_lists();
	check_hlists();
	check_counts();
	check_orders();
	check_config();
	check_bits();
	check_rounding();
	check_values();
	check_locks();
	check_free();
	check_memory();
}
