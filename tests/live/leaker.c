/* SPDX-License-Identifier: MIT */
/*
 * A process that leaks objects which are known: tests/live/leaks_test.py.
 *
 *   leaker plant     leaks; prints the addresses of the objects that it leaked, and of some
 *                    that it did not, a line each; then "ready"; ends when stdin does
 *   leaker clean     the same objects, none of them leaked
 *   leaker guarded   leaks and keeps objects in KFENCE's pool, with others; needs
 *                    UKMEM_CONF=kfence_sample_interval:1; "none": there is no pool
 *   leaker sparse    keeps blocks that it never touched; "ready"
 *   leaker stacks    leaks many objects at two places, keeps as many of a third; "ready"
 *   leaker storm     threads move objects among themselves until stdin ends; none is leaked
 *
 * Addresses are printed in hexadecimal: "direct A", "indirect A", "kept A". The process keeps
 * them inverted, so that they are no pointers.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocate.h"

enum { MOST = 4096, THREADS = 3, PLACES = 20000 };

struct node {
	struct node *next;
	char rest[88];
};

struct known {
	const char *what;
	uintptr_t inverted;
};

static struct known known[MOST];
static unsigned int nr_known;
/* Of "clean", objects that "plant" leaks; of "sparse", its blocks. */
static void *volatile root[MOST];
static unsigned int nr_roots;
static char *volatile inside;	    /* points into an object */
static struct node *volatile chain; /* to objects that are kept */
static void *volatile wide_chain;
static _Thread_local void *volatile local;
static int leaks;

static void note(const char *what, void *object)
{
	if (nr_known == MOST)
		abort();
	known[nr_known].what = what;
	known[nr_known++].inverted = ~(uintptr_t)object;
}

static void *get(size_t size)
{
	void *p = allocate(size);

	if (!p)
		abort();
	memset(p, 0x11, size);
	return p;
}

/* An object that nothing leads to, unless nothing shall be leaked. */
static void leak(void *object)
{
	note(leaks ? "direct" : "kept", object);
	if (!leaks)
		root[nr_roots++] = object;
}

static void leak_by_another(void *object)
{
	note(leaks ? "indirect" : "kept", object);
}

static __attribute__((noinline)) void make_objects(void)
{
	static const size_t sizes[] = { 8, 24, 40, 100, 500, 3000, 9000, 300000, 3000000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int n = 0; n < 20; n++)
			leak(get(sizes[i]));

	/* A list of ten whose head is leaked, and a ring. */
	struct node *list = NULL, *first = NULL;

	for (int i = 0; i < 10; i++) {
		struct node *node = get(sizeof(*node));

		node->next = list;
		list = node;
		if (i < 9)
			leak_by_another(node);
	}
	leak(list);
	for (int i = 0; i < 5; i++) {
		struct node *node = get(sizeof(*node));

		node->next = first;
		if (!first)
			list = node;
		first = node;
	}
	list->next = first;
	/* Of a ring, one object stands for all. */
	for (struct node *node = first; node; node = node == list ? NULL : node->next)
		note(leaks ? "ring" : "kept", node);
	if (!leaks)
		root[nr_roots++] = first;

	/* Objects that are kept: by a list, by a pointer inside, by a thread's own variable. */
	for (int i = 0; i < 1000; i++) {
		struct node *node = get(sizeof(*node));

		node->next = chain;
		chain = node;
		note("kept", node);
	}
	inside = (char *)get(700) + 333;
	note("kept", inside - 333);
	local = get(2000);
	note("kept", local);

	/* Some by the last words of others, of classes that may be coloured. */
	for (size_t size = 4096; size <= 16384; size *= 2)
		for (int i = 0; i < 300; i++) {
			void **object = get(size);

			object[size / sizeof(*object) - 1] = wide_chain;
			wide_chain = object;
			note("kept", object);
		}

	/* Many that are freed again, into arrays and slabs. */
	static void *some[1000];

	for (int i = 0; i < 1000; i++)
		some[i] = get((size_t)i + 1);
	for (int i = 0; i < 1000; i++) {
		release(some[i]);
		some[i] = NULL;
	}
}

enum { GUARDED_SIZE = 100, GUARDED = 20 };

/* The function whose name the stacks of guarded objects show. */
static __attribute__((noinline, noipa)) void *planted_guarded(void)
{
	return allocate_guarded(GUARDED_SIZE);
}

/* One of the same cache that lies in a slab. */
static void *plain(void)
{
	void *p = get(GUARDED_SIZE);

	while (usable_size(p) == GUARDED_SIZE) {
		void *guarded = p;

		p = get(GUARDED_SIZE);
		release(guarded);
	}
	return p;
}

static struct node *link_to(void *object, struct node *next)
{
	struct node *node = object;

	node->next = next;
	return node;
}

static struct node *volatile guarded_chain;
static char *volatile in_guarded[GUARDED], *volatile behind_guarded[GUARDED];

/* False: there is no pool. */
static __attribute__((noinline)) int make_guarded(void)
{
	struct node *list;

	for (int i = 0; i < GUARDED; i++) {
		char *p = planted_guarded();

		if (!p)
			return 0;
		leak(p);
	}

	/* Leaked lists: from a guarded object to another, and back. */
	list = link_to(planted_guarded(), NULL);
	leak_by_another(list);
	list = link_to(plain(), list);
	leak_by_another(list);
	leak(link_to(planted_guarded(), list));

	list = link_to(planted_guarded(), NULL);
	leak_by_another(list);
	leak(link_to(plain(), list));

	/* Kept: by guarded objects and by others in turns, by a pointer inside, by one to the
	 * end. */
	for (int i = 0; i < GUARDED; i++) {
		struct node *of = i % 2 ? plain() : planted_guarded();

		guarded_chain = link_to(of, guarded_chain);
		note("kept", of);
	}
	for (int i = 0; i < GUARDED; i++) {
		char *p = planted_guarded();

		note("kept", p);
		in_guarded[i] = p + GUARDED_SIZE / 2;
		p = planted_guarded();
		note("kept", p);
		behind_guarded[i] = p + GUARDED_SIZE;
	}
	return 1;
}

/* For the heap profile: places that leak, and one that does not. */
enum { STACK_SIZE = 208, HOT = 40000, COLD = 8000 };

static void *volatile held[HOT];

static __attribute__((noinline, noipa)) void planted_hot(void)
{
	for (int i = 0; i < HOT; i++)
		get(STACK_SIZE);
}

static __attribute__((noinline, noipa)) void planted_cold(void)
{
	for (int i = 0; i < COLD; i++)
		get(STACK_SIZE);
}

static __attribute__((noinline, noipa)) void planted_held(void)
{
	for (int i = 0; i < HOT; i++)
		held[i] = get(STACK_SIZE);
}

/* Overwrites what functions have left on the stack. */
static __attribute__((noinline)) void wipe(void)
{
	volatile char space[65536];

	for (size_t i = 0; i < sizeof(space); i++)
		space[i] = 0;
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		abort();
}

static void *place[PLACES];
static volatile int stop;

static void *move(void *seed)
{
	uint32_t state = (uint32_t)(uintptr_t)seed;

	while (!stop) {
		state = state * 1664525 + 1013904223;

		void *mine = state >> 30 ? allocate((state >> 12) % 700 + 1) : NULL;

		if (mine)
			memset(mine, 1, 1);
		release(__atomic_exchange_n(&place[(state >> 8) % PLACES], mine,
					    __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void make_sparse(void)
{
	for (nr_roots = 0; nr_roots < 2000; nr_roots++) {
		root[nr_roots] = allocate(300000);
		if (!root[nr_roots])
			abort();
	}
}

int main(int argc, char **argv)
{
	char c;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "storm")) {
		pthread_t t[THREADS];

		for (uintptr_t i = 0; i < THREADS; i++)
			if (pthread_create(&t[i], NULL, move, (void *)(i + 1)))
				abort();
		say("ready\n");
		while (read(STDIN_FILENO, &c, 1) > 0)
			;
		stop = 1;
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
		return 0;
	}
	leaks = !strcmp(argv[1], "plant");
	if (!strcmp(argv[1], "stacks")) {
		planted_hot();
		planted_cold();
		planted_held();
	} else if (!strcmp(argv[1], "sparse")) {
		make_sparse();
	} else if (!strcmp(argv[1], "guarded")) {
		leaks = 1;
		if (!make_guarded()) {
			say("none\n");
			return 0;
		}
	} else {
		make_objects();
	}
	wipe();
	for (unsigned int i = 0; i < nr_known; i++) {
		char line[64];

		/* The number exists in two halves only, never as one word. */
		snprintf(line, sizeof(line), "%s %x%08x\n", known[i].what,
			 (unsigned int)(~known[i].inverted >> 32),
			 (unsigned int)~known[i].inverted);
		say(line);
	}
	wipe();
	say("ready\n");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
