/* SPDX-License-Identifier: MIT */
/*
 * A library opened with RTLD_DEEPBIND and its program give each other memory to free; and it
 * opens another one, which only its own RUNPATH and $ORIGIN lead to.
 *
 *	deepbind_test PLUGIN drop|keep|passthrough dlopen|dlmopen
 *
 * dlmopen: the program opens it by that function, into its own namespace. keep: the library is
 *to take its memory from libc, so none is passed.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "deep_plugin.h"
#include "preload_test.h"

/* The library has one of the same name: the flag decides which one it finds. */
const char *deep_owner(void)
{
	return "program";
}

static void *symbol(void *handle, const char *name)
{
	void *address = dlsym(handle, name);

	CHECK(address, "%s", dlerror());
	return address;
}

static void pass_memory(void *plugin)
{
	__typeof__(deep_text) *text;
	__typeof__(deep_free) *give;
	void *p;

	*(void **)&text = symbol(plugin, "deep_text");
	*(void **)&give = symbol(plugin, "deep_free");
	for (size_t size = 1; size < 1 << 20; size *= 3) {
		give(malloc(size));
		p = text(size);
		CHECK(p && strlen(p) == size, "not %zu bytes of text", size);
		p = realloc(p, 2 * size);
		CHECK(p && ((char *)p)[size - 1] == 'x', "changed by realloc");
		free(p);
	}
}

/* By the plugin it is found, by its name and in its folder, and by the program it is not. */
static void open_inner(void *plugin, const char *name)
{
	__typeof__(deep_open) *by_plugin;
	void *inner = dlopen(name, RTLD_NOW | RTLD_DEEPBIND);

	CHECK(!inner && dlerror(), "the program found %s", name);
	*(void **)&by_plugin = symbol(plugin, "deep_open");
	inner = by_plugin(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	CHECK(inner, "%s", dlerror());
	symbol(inner, "inner");
	CHECK(!dlclose(inner), "%s", dlerror());
}

int main(int argc, char **argv)
{
	__typeof__(deep_found) *found;
	bool dropped;
	void *plugin;

	CHECK(argc == 4, "usage: %s PLUGIN drop|keep|passthrough dlopen|dlmopen", argv[0]);
#if !defined(__x86_64__) && !defined(__aarch64__)
	puts("SKIP: the drop-in has no dlopen on this architecture");
	return 77;
#endif
	CHECK(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND), "%s", dlerror());
	plugin = !strcmp(argv[3], "dlopen")
			 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)
			 : dlmopen(LM_ID_BASE, argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	CHECK(plugin, "%s", dlerror());
	*(void **)&found = symbol(plugin, "deep_found");
	dropped = getenv("LD_PRELOAD") && !strcmp(argv[2], "drop");
	CHECK(!strcmp(found(), dropped ? "program" : "library"), "it found that of the %s",
	      found());
	if (strcmp(argv[2], "keep") != 0)
		pass_memory(plugin);
	open_inner(plugin, "libdeep_inner.so");
	open_inner(plugin, "$ORIGIN/sub/libdeep_inner.so");
	printf("opened and used\n");
	return 0;
}
