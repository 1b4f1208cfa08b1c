/* SPDX-License-Identifier: MIT */
#include "scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "blocks.h"
#include "faults.h"
#include "ukmem/ukmem.h"
#include "unit/page_shim.h"

namespace sweep
{

namespace
{

struct Cache {
	std::string name;
	struct kmem_cache *s;
};

/* Kept because CPUs could not be stopped. */
std::vector<struct qmempool *> kept_pools;
std::vector<Cache> kept_caches;

void use_percpu()
{
	std::vector<long *> counters;

	/* Where address space is scarce, a unit has 256 KiB: the last one needs another chunk.
	 */
	for (size_t size : { 8, 3000, 100000, 180000 }) {
		Request request("alloc_percpu");
		auto *n = static_cast<long *>(__alloc_percpu(size, 64));

		if (!request.done(n))
			continue;
		if (per_cpu_sum(*n))
			wrong("alloc_percpu: not zero");
		for (int i = 1; i <= 100; i++)
			this_cpu_add(*n, i);
		counters.push_back(n);
	}
	for (auto *n : counters) {
		if (per_cpu_sum(*n) != 5050)
			wrong("this_cpu_add: the sum is %ld", per_cpu_sum(*n));
		quietly("free_percpu", [n] { free_percpu(n); });
	}
}

void add_pages(Blocks &blocks, gfp_t flags, unsigned order)
{
	size_t size = ukmem_page_size() << order;

	blocks.add(
		flags & __GFP_DMA     ? "pinned pages"
		: flags & __GFP_DMA32 ? "pages below 4 GiB"
				      : "pages",
		size,
		[=] {
			return reinterpret_cast<void *>(
				__get_free_pages(GFP_KERNEL | flags, order));
		},
		[=](void *p) { free_pages(reinterpret_cast<unsigned long>(p), order); },
		flags & __GFP_ZERO);
}

void use_pages(Blocks &blocks)
{
	struct page *bulk[24] = {};

	for (unsigned order : { 0u, 0u, 1u, 3u, 6u, 9u, 11u })
		add_pages(blocks, 0, order);
	for (unsigned order : { 0u, 4u })
		for (gfp_t flags : { __GFP_ZERO, __GFP_DMA32, __GFP_DMA | __GFP_ZERO })
			add_pages(blocks, flags, order);
	for (size_t size : { 20000, 5 << 20 })
		blocks.add(
			"alloc_pages_exact", size,
			[=] { return alloc_pages_exact(size, GFP_KERNEL); },
			[=](void *p) { free_pages_exact(p, size); });
	Request request("alloc_pages_bulk");
	unsigned long got = alloc_pages_bulk(GFP_KERNEL, 24, bulk);

	request.done(got == 24);
	for (unsigned long i = 0; i < 24; i++)
		if (!bulk[i] != (i >= got))
			wrong("alloc_pages_bulk: %lu, but entry %lu is not so", got, i);
	for (unsigned long i = 0; i < got; i++)
		__free_page(bulk[i]);
}

/* With a name that no other has; NULL is announced. */
Cache make_cache(const char *what, unsigned size, slab_flags_t flags,
		 void (*ctor)(void *) = nullptr)
{
	static unsigned number;
	std::string name = what + std::to_string(++number);
	Request request("kmem_cache_create");
	off_t before = log_end();
	struct kmem_cache *s = kmem_cache_create(name.c_str(), size, 0, flags, ctor);

	if (!request.done(s) &&
	    !log_says(before, "kmem_cache_create(" + name + "): out of memory"))
		wrong("kmem_cache_create(%s): refused without a word", name.c_str());
	return { name, s };
}

/* Nothing of it is in use. */
void destroy_cache(const Cache &cache)
{
	auto &[name, s] = cache;
	off_t before = log_end();

	if (!s)
		return;
	if (kmem_cache_nr_allocated(s))
		wrong("%s: %lu objects in use", name.c_str(), kmem_cache_nr_allocated(s));
	quietly("kmem_cache_destroy", [&] { kmem_cache_destroy(cache.s); });
	if (!kmem_cache_find(name.c_str()))
		return;
	if (!failures() || !log_says(before, "lists cannot be emptied, cache kept"))
		wrong("%s: cannot be destroyed", name.c_str());
	kept_caches.push_back(cache);
}

void add_objects(Blocks &blocks, struct kmem_cache *s, unsigned n, size_t skip)
{
	for (unsigned i = 0; i < n; i++)
		blocks.add(
			"kmem_cache_alloc", kmem_cache_size(s),
			[s] { return kmem_cache_alloc(s, GFP_KERNEL); },
			[s](void *p) { kmem_cache_free(s, p); }, false, skip);
}

void use_bulk_and_sheaf(struct kmem_cache *s)
{
	void *bulk[40];
	struct slab_sheaf *sheaf;
	int got;
	{
		Request request("kmem_cache_alloc_bulk");
		got = kmem_cache_alloc_bulk(s, GFP_KERNEL, 40, bulk);
		request.done(got == 40);
	}
	if (got != 40 && got)
		wrong("kmem_cache_alloc_bulk: %d", got);
	if (got)
		kmem_cache_free_bulk(s, 40, bulk);
	Request request("kmem_cache_prefill_sheaf");
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 20);
	if (!request.done(sheaf))
		return;
	for (int i = 0; i < 10; i++) {
		void *p = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);

		if (!p)
			wrong("kmem_cache_alloc_from_sheaf: nothing, though it was filled");
		kmem_cache_free(s, p);
	}
	Request refill("kmem_cache_refill_sheaf");
	int err = kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 50);

	refill.done(!err);
	if ((err && err != -ENOMEM) || kmem_cache_sheaf_size(sheaf) < (err ? 10u : 50u))
		wrong("kmem_cache_refill_sheaf: %d, %u objects", err,
		      kmem_cache_sheaf_size(sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

const struct {
	const char *name;
	unsigned size, n;
	slab_flags_t flags;
} cache_kinds[] = {
	{ "sweep-tiny", 8, 700, 0 },
	{ "sweep-small", 40, 300, 0 },
	{ "sweep-rcu", 1000, 40, SLAB_TYPESAFE_BY_RCU },
	{ "sweep-large", 16384, 30, 0 },
	{ "sweep-dma", 500, 20, SLAB_CACHE_DMA },
	{ "sweep-debug", 100, 60, SLAB_DEBUG_FLAGS },
};

/* Objects that were there before look as they did. */
void debug_for_a_while(Blocks &blocks, struct kmem_cache *s)
{
	Request request("kmem_cache_debug");
	int err = kmem_cache_debug(s, SLAB_RED_ZONE | SLAB_POISON);

	if (err && err != -ENOMEM)
		wrong("kmem_cache_debug: %d", err);
	request.done(!err);
	add_objects(blocks, s, 50, 0);
	use_bulk_and_sheaf(s);
	if (!err)
		quietly("kmem_cache_debug", [s] { kmem_cache_debug(s, 0); });
}

void use_cache(const Cache &cache, unsigned n, bool debug)
{
	struct kmem_cache *s = cache.s;
	Blocks blocks;

	if (!s)
		return;
	add_objects(blocks, s, n, 0);
	if (debug)
		debug_for_a_while(blocks, s);
	blocks.free_some(2);
	quietly("kmem_cache_shrink", [s] { kmem_cache_shrink(s); });
	add_objects(blocks, s, 30, 0);
	use_bulk_and_sheaf(s);
	blocks.check_all();
}

void use_caches()
{
	std::vector<Cache> made;

	for (auto &kind : cache_kinds)
		made.push_back(make_cache(kind.name, kind.size, kind.flags));
	for (size_t i = 0; i < made.size(); i++)
		use_cache(made[i], cache_kinds[i].n, i == 1);
	for (auto &cache : made)
		destroy_cache(cache);
	Cache ctor = make_cache("sweep-ctor", 200, SLAB_HWCACHE_ALIGN, construct);
	if (ctor.s) {
		Blocks blocks;

		add_objects(blocks, ctor.s, 100, CONSTRUCTED_BYTES);
	}
	destroy_cache(ctor);
}

bool add_kmalloc(Blocks &blocks, size_t size, gfp_t flags)
{
	return blocks.add(
		"kmalloc", size, [=] { return kmalloc(size, GFP_KERNEL | flags); },
		[](void *p) { kfree(p); }, flags & __GFP_ZERO);
}

void use_kmalloc(Blocks &blocks)
{
	for (size_t size = 8; size <= 200000; size += size / 2 + 8)
		for (gfp_t flags : { 0u, __GFP_ZERO, __GFP_DMA32 })
			add_kmalloc(blocks, size, flags);
	if (add_kmalloc(blocks, 100, 0))
		for (size_t size : { 1000, 70000, 300000, 5 << 20, 9 << 20, 30 << 20, 50 })
			blocks.resize_last(size);
	/* One that cannot grow where it is. */
	if (add_kmalloc(blocks, 6 << 20, 0)) {
		Blocks fence;

		add_kmalloc(fence, 5 << 20, 0);
		blocks.resize_last(12 << 20);
	}
	blocks.add(
		"vzalloc", 100000, [] { return vzalloc(100000); }, [](void *p) { vfree(p); },
		true);
	blocks.check_all();
}

void use_queue(uint32_t flags)
{
	Request request("alf_queue_alloc");
	struct alf_queue *q = alf_queue_alloc_flags(128, GFP_KERNEL, flags);
	void *in[100], *out[100];

	if (!q || (IS_ERR(q) && PTR_ERR(q) != -ENOMEM))
		wrong("alf_queue_alloc: %p", static_cast<void *>(q));
	if (!request.done(!IS_ERR(q)))
		return;
	for (uintptr_t i = 0; i < 100; i++)
		in[i] = reinterpret_cast<void *>(i + 1);
	for (int round = 0; round < 5; round++) {
		if (alf_mp_enqueue(q, in, 100) != 100)
			wrong("alf_mp_enqueue: no room in an empty queue");
		if (alf_mc_dequeue(q, out, 100) != 100 || memcmp(in, out, sizeof(in)))
			wrong("alf_mc_dequeue: not what was put in");
	}
	alf_queue_free(q);
}

void destroy_pool(struct qmempool *pool)
{
	off_t before = log_end();

	quietly("qmempool_destroy", [pool] { qmempool_destroy(pool); });
	if (!log_says(before, "pool kept"))
		return;
	if (!failures() || !log_says(before, "cannot be emptied, pool kept"))
		wrong("a qmempool cannot be destroyed");
	kept_pools.push_back(pool);
}

void use_qmempool()
{
	Cache cache = make_cache("sweep-pool", 256, 0);
	struct kmem_cache *s = cache.s;
	struct qmempool *pool;

	if (!s)
		return;
	{
		Request request("qmempool_create");
		pool = qmempool_create(64, 128, 64, s, GFP_KERNEL);
		request.done(pool, ENOMEM);
	}
	if (pool) {
		Blocks blocks;
		void *bulk[20];

		for (int i = 0; i < 300; i++)
			blocks.add(
				"qmempool_alloc", 256,
				[=] { return qmempool_alloc(pool, GFP_KERNEL); },
				[=](void *p) { qmempool_free(pool, p); });
		Request request("qmempool_alloc_bulk");
		if (request.done(qmempool_alloc_bulk(pool, GFP_KERNEL, 20, bulk)))
			qmempool_free_bulk(pool, 20, bulk);
		quietly("ukmem_trim", [] { ukmem_trim(); });
		blocks.check_all();
	}
	if (pool)
		destroy_pool(pool);
	/* Its cache with it, if it was not kept. */
	if (kept_pools.empty())
		destroy_cache(cache);
	else
		kept_caches.push_back(cache);
}

/* The reserve is there, whatever fails. */
void use_mempool(mempool_t *pool, size_t size)
{
	std::vector<void *> elements;

	for (int i = 0; i < pool->min_nr; i++) {
		auto *p = static_cast<char *>(mempool_alloc(pool, GFP_NOWAIT));

		if (!p)
			wrong("mempool_alloc: nothing, though %d are promised", pool->min_nr);
		if (size)
			memset(p, i, size);
		elements.push_back(p);
	}
	for (size_t i = 0; i < elements.size(); i++) {
		auto *p = static_cast<char *>(elements[i]);

		if (size && (p[0] != static_cast<char>(i) || p[size - 1] != p[0]))
			wrong("mempool: element %zu has changed", i);
		mempool_free(p, pool);
	}
}

void use_mempools()
{
	{
		Request request("mempool_create");
		mempool_t *pool = mempool_create_kmalloc_pool(20, 3000);

		if (request.done(pool)) {
			use_mempool(pool, 3000);
			Request resize("mempool_resize");
			int err = mempool_resize(pool, 40);

			if (err && err != -ENOMEM)
				wrong("mempool_resize: %d", err);
			resize.done(!err);
			mempool_destroy(pool);
		}
	}
	Request request("mempool_init");
	mempool_t pages = {};
	int err = mempool_init_page_pool(&pages, 8, 3);

	if (err && err != -ENOMEM)
		wrong("mempool_init: %d", err);
	if (request.done(!err))
		use_mempool(&pages, 0);
	mempool_exit(&pages);
}

/* All pages there are, taken away but for @spare of them, until it ends. */
class Hoard
{
      public:
	explicit Hoard(unsigned spare)
	{
		while (struct page *page = alloc_page(GFP_KERNEL | __GFP_NOWARN))
			pages_.push_back(page);
		for (; spare && !pages_.empty(); spare--) {
			__free_page(pages_.back());
			pages_.pop_back();
		}
	}
	~Hoard()
	{
		for (auto *page : pages_)
			__free_page(page);
	}

      private:
	std::vector<struct page *> pages_;
};

/* All of it must only not crash, and keep errno; what write(2) says is not the library's. */
void look_around()
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct ukmem_gauges gauges;

	quietly("statistics", [&] {
		ukmem_gauges_read(&gauges);
		for (auto format : { UKMEM_STATS_TEXT, UKMEM_STATS_JSON })
			ukmem_stats_print(fd, format);
		ukmem_zoneinfo_print(fd);
		ukmem_buddyinfo_print(fd);
		ukmem_vmstat_print(fd);
		ukmem_slabinfo_print(fd);
		ukmem_pools_print(fd);
		ukmem_layers_print(fd);
		ukmem_size_classes_print(fd);
		ukmem_slab_print(fd, nullptr);
		ukmem_config_print(fd);
	});
	close(fd);
}

void nobody(unsigned, void *)
{
}

/* A CPU goes and comes back, while things lie in its arrays. */
void use_notifier()
{
	struct percpu_notifier notifier = { nobody, nobody, nullptr, nullptr };

	percpu_notifier_register(&notifier);
	for (bool offline : { true, false }) {
		set_offline(offline);
		quietly("percpu_cpus_update", [] { percpu_cpus_update(); });
	}
	percpu_notifier_unregister(&notifier);
}

void use_policy()
{
	Request request("ukmem_set_mempolicy");
	int err = ukmem_set_mempolicy(MPOL_LOCAL, nullptr);

	if (err && err != -ENOMEM)
		wrong("ukmem_set_mempolicy: %d", err);
	request.done(!err);
	Blocks blocks;
	for (int i = 0; i < 10; i++)
		add_pages(blocks, 0, 2);
	if (!err)
		ukmem_set_mempolicy(MPOL_DEFAULT, nullptr);
}

/* A child has what its parent had, and goes on; a thread does, too. */
void use_fork_and_thread(Blocks &blocks)
{
	int status;
	pid_t child = fork();

	if (!child) {
		blocks.check_all();
		blocks.free_some(1);
		Blocks own;
		use_kmalloc(own);
		use_percpu();
		use_caches();
		ukmem_trim();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		wrong("fork: errno %d", errno);
	if (WIFSIGNALED(status))
		wrong("fork: the child was killed by signal %d", WTERMSIG(status));
	if (status)
		_exit(EXIT_WRONG);
	std::thread([] {
		Blocks own;
		for (size_t size = 8; size < 100000; size *= 2)
			add_kmalloc(own, size, 0);
	}).join();
}

} // namespace

void run_scenario(Nothing nothing, bool leak)
{
	Blocks blocks;

	requests_may_fail(nothing);
	use_percpu();
	use_pages(blocks);
	use_caches();
	use_kmalloc(blocks);
	use_queue(0);
	use_queue(ALF_QUEUE_TICKET);
	use_qmempool();
	use_mempools();
	use_notifier();
	use_policy();
	look_around();
	blocks.free_some(3);
	use_fork_and_thread(blocks);
	quietly("ukmem_trim", [] { ukmem_trim(); });
	use_kmalloc(blocks);
	if (leak)
		blocks.forget_last();
}

void run_starved(unsigned spare)
{
	static void (*const parts[])() = {
		use_percpu,
		[] {
			Blocks blocks;
			use_pages(blocks);
		},
		use_caches,
		[] {
			Blocks blocks;
			use_kmalloc(blocks);
		},
		[] {
			use_queue(0);
			use_queue(ALF_QUEUE_TICKET);
		},
		use_qmempool,
		use_mempools,
		use_policy,
		look_around,
		[] {
			Blocks blocks;
			use_fork_and_thread(blocks);
		},
	};

	requests_may_fail(Nothing::AFTER_FAILURE);
	for (auto part : parts) {
		Hoard hoard(spare);
		part();
	}
}

void destroy_leftovers()
{
	auto pools = std::move(kept_pools);
	auto caches = std::move(kept_caches);

	kept_pools.clear();
	kept_caches.clear();
	for (auto *pool : pools)
		destroy_pool(pool);
	for (auto &cache : caches)
		destroy_cache(cache);
	if (!kept_pools.empty() || !kept_caches.empty())
		wrong("what was kept cannot be destroyed although the system agrees");
}

/* Each zone that can be used has its pageset then. */
static void touch_zones()
{
	for (int nid = 0; nid < 8; nid++)
		for (gfp_t type : { 0u, __GFP_DMA32, __GFP_DMA })
			__free_page(alloc_pages_node(
				nid, GFP_KERNEL | __GFP_NOWARN | __GFP_THISNODE | type, 0));
}

Counts count_all()
{
	struct ukmem_percpu_info info;
	struct ukmem_gauges gauges;
	Counts counts = {};

	touch_zones();
	ukmem_trim();
	ukmem_gauges_read(&gauges);
	percpu_mode(&info);
	counts.allocated = gauges.allocated;
	counts.percpu = info.allocated;
	counts.mapped = mapped_bytes();
	for (auto *name : { "kmem_cache", "kmem_cache_node" })
		counts.caches += kmem_cache_nr_allocated(kmem_cache_find(name));
	for (unsigned i = 0; i < shim_all_zones(); i++) {
		struct shim_zone z;
		size_t used;

		if (const char *why = shim_zone_wrong(i))
			wrong("zone %u: %s", i, why);
		shim_zone_read(i, &z);
		used = z.present - z.nr_free - z.carve;
		if (used != shim_zone_held(i))
			wrong("zone %u: %zu pages in use, of which %zu are nobody's", i, used,
			      used - shim_zone_held(i));
		/* Growth, which differs, and is no loss. */
		counts.mapped -= shim_zone_mapped(i);
	}
	return counts;
}

} // namespace sweep
