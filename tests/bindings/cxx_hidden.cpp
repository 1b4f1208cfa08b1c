// SPDX-License-Identifier: MIT
/* A shared library whose symbols are hidden, without run-time type information. */
#include "cxx_hidden.h"

#include <ukmem/pmr.hpp>

std::pmr::memory_resource *hidden_kmalloc_resource()
{
	return ukmem::kmalloc_resource();
}

std::pmr::memory_resource *hidden_resource_of_its_own()
{
	class resource final : public std::pmr::memory_resource
	{
		void *do_allocate(std::size_t size, std::size_t align) override
		{
			return upstream()->allocate(size, align);
		}
		void do_deallocate(void *p, std::size_t size, std::size_t align) override
		{
			upstream()->deallocate(p, size, align);
		}
		bool do_is_equal(const memory_resource &other) const noexcept override
		{
			return this == &other;
		}
		static memory_resource *upstream()
		{
			return std::pmr::new_delete_resource();
		}
	};
	static resource own;

	return &own;
}
