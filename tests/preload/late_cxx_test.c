/* SPDX-License-Identifier: MIT */
/*
 * A program in C that opens a plugin in C++, as interpreters do: the C++ runtime comes late,
 * and into no scope in which names are searched. Operators that fail must find it.
 *
 *	late_cxx_test PLUGIN
 */
#include <dlfcn.h>

#include "preload_test.h"

int main(int argc, char **argv)
{
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void (*run)(void);

	CHECK(plugin, "dlopen: %s", dlerror());
	*(void **)&run = dlsym(plugin, "plugin_run");
	CHECK(run, "dlsym: %s", dlerror());
	run();
	return 0;
}
