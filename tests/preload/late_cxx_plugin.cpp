// SPDX-License-Identifier: MIT
// A plugin in C++ for a program in C (late_cxx_test.c): with it comes the C++ runtime.
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <new>

namespace
{

int handler_calls;

void handler()
{
	if (++handler_calls == 3)
		std::set_new_handler(nullptr);
}

// More than there is; the compiler does not know it.
const volatile std::size_t huge = std::size_t{ 1 } << 60;

} // namespace

extern "C" void plugin_run()
{
	for (bool with_handler : { false, true }) {
		handler_calls = 0;
		std::set_new_handler(with_handler ? handler : nullptr);
		try {
			::operator delete(::operator new(huge));
			std::puts("new: there was memory");
		} catch (const std::bad_alloc &) {
			std::printf("new: bad_alloc after %d calls\n", handler_calls);
		}
		handler_calls = 0;
		std::set_new_handler(with_handler ? handler : nullptr);
		void *p = ::operator new(huge, std::nothrow);
		std::printf("nothrow new: %d after %d calls\n", p != nullptr, handler_calls);
		::operator delete(p);
	}
}
