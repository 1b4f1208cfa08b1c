/* SPDX-License-Identifier: MIT */
/*
 * Loading at run time.
 *
 *	late_dlopen_test PLUGIN           load and unload a library that allocates,
 *	                                  300 times; to be run with the preload
 *	late_dlopen_test PLUGIN LIBRARY   without preload: load the malloc library
 *	                                  itself into a running program and use it
 *
 * The second form first loads the plugin, which leaves little of the static TLS
 * block, and many threads run already: a library with thread-local variables of
 * the initial-exec kind fails to load here.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "preload_test.h"

enum { ROUNDS = 300, THREADS = 8, BLOCKS = 2000 };

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	size_t (*usable)(void *);
} late;
static atomic_bool loaded;

static void *symbol(void *handle, const char *name)
{
	void *address = dlsym(handle, name);
	CHECK(address, "%s", dlerror());
	return address;
}

static void load_and_unload(const char *path)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		CHECK(plugin, "%s", dlerror());
		__typeof__(plugin_exchange) *exchange;
		__typeof__(plugin_end_thread) *end_thread;
		*(void **)&exchange = symbol(plugin, "plugin_exchange");
		*(void **)&end_thread = symbol(plugin, "plugin_end_thread");

		char *text = NULL;
		for (int j = 0; j < 10; j++) {
			text = exchange(text);
			CHECK(text && !strcmp(text, "loaded late"), "plugin returned %s", text);
		}
		free(text);
		end_thread();
		dlclose(plugin);
	}
	printf("loaded %d times\n", ROUNDS);
}

/* Allocates from glibc before, and from the late library once it is there. */
static void *use_both(void *unused)
{
	(void)unused;
	void *own[BLOCKS];
	for (size_t i = 0; i < BLOCKS; i++)
		own[i] = malloc(i);
	while (!atomic_load(&loaded))
		usleep(1000);

	unsigned char *p[BLOCKS];
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = i * 37 + 1;
		p[i] = i % 2 ? late.malloc(size) : late.calloc(1, size);
		CHECK(p[i] && late.usable(p[i]) >= size, "%zu bytes", size);
		memset(p[i], (int)i, size);
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		p[i] = late.realloc(p[i], i * 50 + 1);
		CHECK(p[i] && p[i][0] == (unsigned char)i && p[i][i * 37] == (unsigned char)i,
		      "block %zu changed", i);
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		late.free(p[i]);
		free(own[i]);
	}
	return NULL;
}

static void load_library(const char *path)
{
	pthread_t threads[THREADS];
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, use_both, NULL), "no thread");

	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library, "%s", dlerror());
	*(void **)&late.malloc = symbol(library, "malloc");
	*(void **)&late.calloc = symbol(library, "calloc");
	*(void **)&late.realloc = symbol(library, "realloc");
	*(void **)&late.free = symbol(library, "free");
	*(void **)&late.usable = symbol(library, "malloc_usable_size");
	CHECK(*(void **)&late.malloc != dlsym(RTLD_DEFAULT, "malloc"), "not another malloc");
	late.free(NULL);
	atomic_store(&loaded, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	dlclose(library);
	printf("the library was loaded late and used by %d threads\n", THREADS);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 || argc == 3, "usage: %s PLUGIN [LIBRARY]", argv[0]);
	alarm(120);
	if (argc == 2) {
		load_and_unload(argv[1]);
	} else {
		CHECK(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
		load_library(argv[2]);
	}
	return 0;
}
