/* SPDX-License-Identifier: MIT */
/* Containers whose memory resource is kmalloc, or a cache of their nodes. */
#include <cassert>
#include <list>
#include <string>
#include <ukmem/pmr.hpp>
#include <vector>

int main()
{
	std::pmr::vector<std::pmr::string> names(ukmem::kmalloc_resource());

	names.emplace_back("a name that is too long for the string itself");
	assert(names[0].get_allocator().resource() == ukmem::kmalloc_resource());

	/* Each node of the list is an object of the cache. */
	ukmem::cache_resource nodes("list node", 32);
	std::pmr::list<int> numbers(&nodes);

	for (int i = 0; i < 100; i++)
		numbers.push_back(i);
	assert(kmem_cache_nr_allocated(nodes.get()) == 100);
	return 0;
}
