/* SPDX-License-Identifier: MIT */
/* Uses the installed library from C++. */
#include <cstdio>
#include <map>
#include <string>

#include <ukmem/ukmem.h>

int main()
{
	struct kmem_cache_args args = {};
	kmem_cache *names = kmem_cache_create("names", sizeof(std::string), &args, 0);
	std::map<int, std::string *> all;

	for (int i = 0; i < 1000; i++)
		all[i] = new (kmem_cache_alloc(names, GFP_KERNEL))
			std::string(std::to_string(i));
	for (const auto &entry : all) {
		if (*entry.second != std::to_string(entry.first))
			return 1;
		entry.second->~basic_string();
		kmem_cache_free(names, entry.second);
	}
	kmem_cache_destroy(names);
	std::printf("%zu names, version %s\n", all.size(), ukmem_version());
	return 0;
}
