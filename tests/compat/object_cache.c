/* SPDX-License-Identifier: MIT */
/*
 * Entries come from a cache of their own, names and blobs from kmalloc. All of it is allocated
 * before the lock is taken; under it only nodes of the tree are, and these without waiting.
 * What leaves the tree is freed when the lock is given back, in bulk.
 */
#define pr_fmt(fmt) "object_cache: " fmt

#include "object_cache.h"

#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>

#define OC_BATCH 32

struct oc_blob {
	size_t len;
	u32 sum;
	u8 data[];
};

struct oc_entry {
	struct list_head lru;
	u64 key;
	struct oc_blob *blob;
};

static struct kmem_cache *entry_cache;

static u32 checksum(const u8 *data, size_t len)
{
	u32 sum = 1;

	while (len--)
		sum = sum * 31 + *data++;
	return sum;
}

static struct oc_blob *blob_new(const void *data, size_t len)
{
	struct oc_blob *blob = kmalloc_flex(*blob, data, len);

	if (!blob)
		return NULL;
	blob->len = len;
	blob->sum = checksum(data, len);
	memcpy(blob->data, data, len);
	return blob;
}

static struct oc_entry *entry_new(u64 key, const void *data, size_t len)
{
	struct oc_entry *entry = kmem_cache_zalloc(entry_cache, GFP_KERNEL);

	if (!entry)
		return NULL;
	BUG_ON(entry->key || entry->blob || entry->lru.next);
	entry->key = key;
	INIT_LIST_HEAD(&entry->lru);
	entry->blob = blob_new(data, len);
	if (entry->blob)
		return entry;
	kmem_cache_free(entry_cache, entry);
	return NULL;
}

/* All that is on @list, which nobody else knows. */
static void free_entries(struct object_cache *oc, struct list_head *list)
{
	void *entries[OC_BATCH], *blobs[OC_BATCH];
	struct oc_entry *entry, *next;
	size_t n = 0;

	list_for_each_entry_safe (entry, next, list, lru) {
		list_del(&entry->lru);
		BUG_ON(checksum(entry->blob->data, entry->blob->len) != entry->blob->sum);
		entries[n] = entry;
		blobs[n++] = entry->blob;
		if (n == OC_BATCH || list_empty(list)) {
			this_cpu_add(oc->stats->freed, n);
			kfree_bulk(n, blobs);
			kmem_cache_free_bulk(entry_cache, n, entries);
			n = 0;
		}
	}
}

/* Out of the tree and onto @gone. */
static void __remove(struct object_cache *oc, struct oc_entry *entry, struct list_head *gone)
{
	BUG_ON(radix_delete(&oc->tree, entry->key) != entry);
	list_move(&entry->lru, gone);
	oc->nr--;
}

static unsigned long __evict(struct object_cache *oc, unsigned long n, struct list_head *gone)
{
	unsigned long done = 0;

	while (done < n && !list_empty(&oc->lru)) {
		__remove(oc, list_last_entry(&oc->lru, struct oc_entry, lru), gone);
		done++;
	}
	this_cpu_add(oc->stats->evicted, done);
	return done;
}

static int __insert(struct object_cache *oc, struct oc_entry *entry, struct list_head *gone)
{
	struct oc_entry *old = radix_lookup(&oc->tree, entry->key);
	int error;

	if (old) {
		__remove(oc, old, gone);
		this_cpu_inc(oc->stats->replaced);
	}
	/* An object that is dropped may leave a node of the tree behind. */
	while ((error = radix_insert(&oc->tree, entry->key, entry)) == -ENOMEM &&
	       __evict(oc, 1, gone))
		;
	if (error)
		return error;
	list_add(&entry->lru, &oc->lru);
	oc->nr++;
	this_cpu_inc(oc->stats->inserted);
	return 0;
}

int oc_put(struct object_cache *oc, u64 key, const void *data, size_t len)
{
	struct oc_entry *entry = entry_new(key, data, len);
	LIST_HEAD(gone);
	int error;

	if (!entry)
		return -ENOMEM;
	spin_lock(&oc->lock);
	error = __insert(oc, entry, &gone);
	if (error)
		list_add(&entry->lru, &gone);
	if (oc->nr > oc->max_nr)
		__evict(oc, oc->nr - oc->max_nr, &gone);
	spin_unlock(&oc->lock);
	free_entries(oc, &gone);
	return error;
}

int oc_put_range(struct object_cache *oc, u64 first, unsigned int n, const void *data,
		 size_t len)
{
	struct oc_entry **entries __free(kfree) = kcalloc(n, sizeof(*entries), GFP_KERNEL);
	unsigned int made = 0;
	int error = 0;
	LIST_HEAD(gone);

	if (!entries || !kmem_cache_alloc_bulk(entry_cache, GFP_KERNEL, n, (void **)entries))
		return -ENOMEM;
	while (made < n) {
		*entries[made] = (struct oc_entry){ .key = first + made };
		INIT_LIST_HEAD(&entries[made]->lru);
		entries[made]->blob = blob_new(data, len);
		if (!entries[made]->blob)
			break;
		made++;
	}
	if (made < n) {
		while (made--)
			kfree(entries[made]->blob);
		kmem_cache_free_bulk(entry_cache, n, (void **)entries);
		return -ENOMEM;
	}
	spin_lock(&oc->lock);
	for (unsigned int i = 0; i < n; i++) {
		int one = error ? error : __insert(oc, entries[i], &gone);

		if (one)
			list_add(&entries[i]->lru, &gone);
		error = one;
	}
	if (oc->nr > oc->max_nr)
		__evict(oc, oc->nr - oc->max_nr, &gone);
	spin_unlock(&oc->lock);
	free_entries(oc, &gone);
	return error;
}

ssize_t oc_get(struct object_cache *oc, u64 key, void *buf, size_t size)
{
	ssize_t result = -ENOENT;
	struct oc_entry *entry;

	spin_lock(&oc->lock);
	entry = radix_lookup(&oc->tree, key);
	if (entry) {
		list_move(&entry->lru, &oc->lru);
		memcpy(buf, entry->blob->data, min(size, entry->blob->len));
		result = (ssize_t)entry->blob->len;
	}
	spin_unlock(&oc->lock);
	if (entry)
		this_cpu_inc(oc->stats->hits);
	else
		this_cpu_inc(oc->stats->misses);
	return result;
}

int oc_delete(struct object_cache *oc, u64 key)
{
	struct oc_entry *entry;
	LIST_HEAD(gone);

	spin_lock(&oc->lock);
	entry = radix_lookup(&oc->tree, key);
	if (entry)
		__remove(oc, entry, &gone);
	spin_unlock(&oc->lock);
	if (!entry)
		return -ENOENT;
	this_cpu_inc(oc->stats->deleted);
	free_entries(oc, &gone);
	return 0;
}

unsigned long oc_evict(struct object_cache *oc, unsigned long n)
{
	unsigned long done;
	LIST_HEAD(gone);

	spin_lock(&oc->lock);
	done = __evict(oc, n, &gone);
	spin_unlock(&oc->lock);
	free_entries(oc, &gone);
	return done;
}

static unsigned long oc_count_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct object_cache *oc = shrinker->private_data;
	unsigned long nr = READ_ONCE(oc->nr);

	(void)sc;
	return nr ? nr : SHRINK_EMPTY;
}

/* Called by whoever is short of memory, which may be a holder of other caches' locks. */
static unsigned long oc_scan_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct object_cache *oc = shrinker->private_data;
	unsigned long done;
	LIST_HEAD(gone);

	if (!spin_trylock(&oc->lock))
		return SHRINK_STOP;
	done = __evict(oc, sc->nr_to_scan, &gone);
	spin_unlock(&oc->lock);
	free_entries(oc, &gone);
	return done;
}

void oc_sum(struct object_cache *oc, struct oc_stats *sum)
{
	int cpu;

	*sum = (struct oc_stats){ 0 };
	for_each_possible_cpu(cpu)
	{
		struct oc_stats *s = per_cpu_ptr(oc->stats, cpu);

		sum->hits += READ_ONCE(s->hits);
		sum->misses += READ_ONCE(s->misses);
		sum->inserted += READ_ONCE(s->inserted);
		sum->replaced += READ_ONCE(s->replaced);
		sum->evicted += READ_ONCE(s->evicted);
		sum->deleted += READ_ONCE(s->deleted);
		sum->freed += READ_ONCE(s->freed);
	}
}

static const char *__check(struct object_cache *oc)
{
	const char *wrong = radix_check(&oc->tree);
	struct oc_entry *entry;
	unsigned long nr = 0;
	u64 key = 0;

	if (wrong)
		return wrong;
	for (; (entry = radix_next(&oc->tree, &key)); key++) {
		nr++;
		if (entry->key != key)
			return "an entry is at another's place";
		if (checksum(entry->blob->data, entry->blob->len) != entry->blob->sum)
			return "a blob is overwritten";
	}
	if (nr != oc->nr || list_count_nodes(&oc->lru) != nr)
		return "the numbers of entries differ";
	return nr > oc->max_nr ? "more than allowed" : NULL;
}

const char *oc_check(struct object_cache *oc)
{
	const char *wrong;

	spin_lock(&oc->lock);
	wrong = __check(oc);
	spin_unlock(&oc->lock);
	return wrong;
}

struct object_cache *oc_create(const char *name, unsigned long max_nr)
{
	struct object_cache *oc = kzalloc_obj(*oc);
	int error = -ENOMEM;

	if (!oc)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&oc->lock);
	INIT_LIST_HEAD(&oc->lru);
	oc->max_nr = max_nr;
	oc->name = kstrdup(name, GFP_KERNEL);
	oc->stats = alloc_percpu(struct oc_stats);
	if (!oc->name || !oc->stats)
		goto no_stats;
	error = radix_init(&oc->tree, 16);
	if (error)
		goto no_stats;
	oc->shrinker = shrinker_alloc(0, "%s-objects", name);
	if (!oc->shrinker) {
		error = -ENOMEM;
		goto no_shrinker;
	}
	oc->shrinker->count_objects = oc_count_objects;
	oc->shrinker->scan_objects = oc_scan_objects;
	oc->shrinker->private_data = oc;
	shrinker_register(oc->shrinker);
	return oc;

no_shrinker:
	radix_exit(&oc->tree);
no_stats:
	free_percpu(oc->stats);
	kfree(oc->name);
	kfree(oc);
	return ERR_PTR(error);
}

void oc_destroy(struct object_cache *oc)
{
	if (IS_ERR_OR_NULL(oc))
		return;
	shrinker_free(oc->shrinker);
	while (oc_evict(oc, 1000))
		;
	WARN_ON(oc->nr || oc->tree.root);
	radix_exit(&oc->tree);
	free_percpu(oc->stats);
	kfree(oc->name);
	kfree_sensitive(oc);
}

int __init oc_module_init(void)
{
	int error = radix_module_init();

	if (error)
		return error;
	entry_cache = KMEM_CACHE(oc_entry, SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT);
	if (entry_cache)
		return 0;
	radix_module_exit();
	return -ENOMEM;
}

void __exit oc_module_exit(void)
{
	kmem_cache_destroy(entry_cache);
	radix_module_exit();
}

module_init(oc_module_init);
module_exit(oc_module_exit);

EXPORT_SYMBOL_GPL(oc_create);
EXPORT_SYMBOL_GPL(oc_destroy);
MODULE_LICENSE("MIT");
MODULE_DESCRIPTION("a cache of blobs");
