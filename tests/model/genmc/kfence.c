/* SPDX-License-Identifier: MIT */
/*
 * kfence/kfence.c, for GenMC: threads take objects of the pool and free them, or free one
 * object twice. What is known about an object is plain, and so is a byte of the object: GenMC
 * reports a data race if it is handed out twice. The pool's pages (kfence/object.c) are left
 * out.
 */
#include "verifier.h"

#include <stdlib.h>
#include <string.h>

#ifndef THREADS
#define THREADS 2
#endif
#ifndef OBJECTS
#define OBJECTS 1
#endif
#ifndef CALLS
#define CALLS 1 /* of a thread: takes an object, and frees it */
#endif
#ifndef TWICE
#define TWICE 0 /* all threads free one object instead */
#endif
#ifndef LOOKER
#define LOOKER 0 /* one more thread, that looks for objects of the cache */
#endif

#undef strncpy
#define strncpy(to, from, n) ((void)((to)[0] = (from)[0]))

#define BASE_LOCK_H
static _Thread_local uintptr_t this_thread;

static uintptr_t lock_self(void)
{
	return this_thread;
}

struct once {
	int unused;
};
#define ONCE_INITIALIZER                                                                       \
	{                                                                                      \
		0                                                                              \
	}

static bool once(struct once *o, bool (*init)(void))
{
	(void)o, (void)init;
	return true;
}

static bool once_done(struct once *o)
{
	(void)o;
	return true;
}

#include "kfence/kfence.c"

struct config config = {
	.kfence_num_objects = OBJECTS,
	.invalid_free = INVALID_FREE_WARN,
	.kfence_on_fault = KFENCE_ON_FAULT_CONTINUE,
};
struct kfence_pool kfence_pool;
static struct kfence_object objects[OBJECTS];

bool kfence_pool_init(unsigned int nr_objects)
{
	(void)nr_objects;
	return true;
}

void kfence_fault_fork_child(void)
{
}

bool kfence_fault_init(void)
{
	return true;
}

bool kfence_fault_is_ready(void)
{
	return true;
}

bool os_is_confined(void)
{
	return true;
}

static uint64_t now_us(void)
{
	return 1;
}

struct os_calls os_calls = { .now_us = now_us };

unsigned int stack_read(uintptr_t *pc, unsigned int most, const void *caller, bool tables)
{
	(void)most, (void)caller, (void)tables;
	pc[0] = this_thread;
	return 1;
}

/*
 * The pages: an object's is a byte, plain, of which no rest is to be filled, and a guard is
 * none. Opening and closing write the byte, so GenMC sees a thread that touches a closed page.
 */
enum { OPEN, CLOSED = 0xff };
static unsigned char page[OBJECTS];

struct kfence_object *kfence_object_at(const void *p)
{
	return &objects[(const unsigned char *)p - page];
}

bool kfence_place(struct kfence_object *o, size_t size, size_t align, bool right)
{
	(void)align, (void)right;
	o->addr = (char *)&page[o - objects];
	o->size = size;
	return true;
}

bool kfence_open(const struct kfence_object *o)
{
	page[o - objects] = OPEN;
	return true;
}

void kfence_close(const struct kfence_object *o)
{
	page[o - objects] = CLOSED;
}

/* No thread faults, so nothing is open beside an object. */
void kfence_close_opened(struct kfence_object *o)
{
	(void)o;
}

void kfence_fill(const struct kfence_object *o)
{
	(void)o;
}

const uint8_t *kfence_damage(const struct kfence_object *o)
{
	(void)o;
	return NULL;
}

static atomic_uint misuses, freed;

void kfence_report_misuse(const void *p, const char *func, const struct kfence_track *now)
{
	(void)p, (void)func, (void)now;
	atomic_fetch_add_explicit(&misuses, 1, memory_order_relaxed);
}

static const char cache[] = "c";

static const struct kfence_request request = {
	.cache = cache, .name = cache, .size = 1, .align = 1
};

static unsigned char *take(void)
{
	/* Any thread may find that an interval is over. */
	atomic_store_explicit(&kfence_gate.open, true, memory_order_relaxed);
	return kfence_take(&request);
}

static void use(void)
{
	for (unsigned int i = 0; i < CALLS; i++) {
		unsigned char *p = take();

		if (!p)
			continue;
		assert(*p == OPEN);
		*p = 1;
		assert(kfence_cache_of(p) == cache && kfence_size(p) == 1);
		*p = OPEN;
		assert(kfence_free(p, "free", NULL, false));
	}
}

/* Of an object that is not the caller's, what is plain holds only until it is used again. */
static void look(void)
{
	const void *c = THREADS == 1 && CALLS == 1 ? kfence_cache_of(page) : NULL;

	assert(!c || c == cache);
	assert(kfence_count(cache) <= OBJECTS);
}

static unsigned char *shared; /* TWICE: what all threads free; written before they are */

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	this_thread = (thread + 1) * 8;
	if (thread == THREADS)
		look();
	else if (!TWICE)
		use();
	else if (kfence_free(shared, "free", NULL, false))
		atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
	return NULL;
}

int main(void)
{
	kfence_pool.base = (char *)page;
	kfence_pool.page_size = 1;
	kfence_pool.nr_objects = kfence_pool.nr_small = OBJECTS;
	kfence_pool.objects = objects;
	atomic_store_explicit(&kfence_pool.len, OBJECTS, memory_order_release);
	this_thread = (THREADS + 2) * 8;
	if (TWICE)
		shared = take();
	RUN_THREADS(THREADS + LOOKER, run);
	if (TWICE)
		assert(atomic_load(&freed) == 1 && atomic_load(&misuses) == THREADS - 1);
	assert(kfence_count(cache) == 0);
	assert(!END);
	return 0;
}
