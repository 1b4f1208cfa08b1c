// SPDX-License-Identifier: MIT
//
// A program that was linked with libstdc++'s archive, exports what it has of it, and opens
// plugins, as servers and games do. So its operator new is every plugin's; the nothrow forms,
// which it does not use, are in the plugin's own runtime.
//
//	static_host_test PLUGIN
#include <cstdio>
#include <memory>
#include <string>

#include <dlfcn.h>

#include "preload_test.h"

int main(int argc, char **argv)
{
	auto name = std::make_unique<std::string>(argc > 1 ? argv[1] : "");
	void *plugin = dlopen(name->c_str(), RTLD_NOW | RTLD_LOCAL);

	CHECK(plugin, "dlopen: %s", dlerror());
	auto run = reinterpret_cast<void (*)()>(dlsym(plugin, "plugin_run"));
	CHECK(run, "dlsym: %s", dlerror());
	run();
	return 0;
}
