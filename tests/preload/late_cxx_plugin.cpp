// SPDX-License-Identifier: MIT
// A plugin in C++ for a program in C (late_cxx_test.c): with it comes the C++ runtime. Built
// with ARCHIVE it is linked with libstdc++'s archive; then it asks for no more than there is.
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <new>

#ifndef ARCHIVE
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
#endif

extern "C" void plugin_run()
{
	const std::align_val_t alignment{ 64 };
	void *p = ::operator new(100, std::nothrow), *q = ::operator new[](100, std::nothrow);
	void *r = ::operator new(100, alignment, std::nothrow);
	void *s = ::operator new[](100, alignment, std::nothrow);
	std::printf("nothrow: %d %d %d %d\n", p != nullptr, q != nullptr, r != nullptr,
		    s != nullptr);
	::operator delete(p);
	::operator delete[](q);
	::operator delete(r, alignment);
	::operator delete[](s, alignment);
#ifndef ARCHIVE
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
		p = ::operator new(huge, std::nothrow);
		std::printf("nothrow new: %d after %d calls\n", p != nullptr, handler_calls);
		::operator delete(p);
	}
#endif
}
