/* SPDX-License-Identifier: MIT */
/* Uses the installed library from C++. */
#include <cstdio>
#include <cstring>
#include <string>

#include <ukmem/ukmem.h>
#include <ukmem/ukmem.hpp>

int main()
{
	auto *words = static_cast<long *>(kcalloc(100, sizeof(long), GFP_KERNEL));
	struct ukmem_percpu_info info;

	if (!words || words[99] || ksize(words) < 100 * sizeof(long))
		return 1;
	kfree(words);
	percpu_mode(&info);
	if (!info.nr_cpu_ids || !std::strlen(info.mode_name))
		return 1;
	std::pmr::string text("in memory of kmalloc, as long as it takes",
			      ukmem::kmalloc_resource());
	if (ksize(text.data()) <= text.size())
		return 1;
	std::puts(ukmem_version());
	return 0;
}
