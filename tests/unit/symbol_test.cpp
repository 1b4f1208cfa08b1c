/* SPDX-License-Identifier: MIT */
/* Names of code: as dladdr() has them, and also while the dynamic linker holds its lock. */
#include <dlfcn.h>
#include <link.h>
#include <ukmem/kmalloc.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "test_util.h"

extern "C" {
#include "base/symbol.h"
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
void library_is_loading();
}

namespace
{

bool was_found;

/* Addresses of code in every file of the process. */
std::vector<const char *> some_code()
{
	std::vector<const char *> found;
	const auto add = [](struct dl_phdr_info *info, size_t, void *arg) {
		auto *to = static_cast<std::vector<const char *> *>(arg);

		for (int i = 0; i < info->dlpi_phnum; i++) {
			const ElfW(Phdr) &part = info->dlpi_phdr[i];
			const auto *at =
				reinterpret_cast<const char *>(info->dlpi_addr + part.p_vaddr);

			if (part.p_type != PT_LOAD || !(part.p_flags & PF_X))
				continue;
			for (size_t n = 0; n < 50; n++)
				to->push_back(at + part.p_memsz / 50 * n);
		}
		return 0;
	};

	dl_iterate_phdr(add, &found);
	return found;
}

TEST(SymbolTest, AsTheDynamicLinkerHasThem)
{
	size_t functions = 0;

	for (const char *at : some_code()) {
		Dl_info info;
		struct symbol s;

		ASSERT_EQ(symbol_find(at, &s), dladdr(at, &info) != 0);
		const std::string path = info.dli_fname;
		EXPECT_EQ(s.module, path.substr(path.rfind('/') + 1));
		EXPECT_EQ(s.in_module,
			  static_cast<size_t>(at - static_cast<char *>(info.dli_fbase)));
		ASSERT_EQ(s.function != nullptr, info.dli_sname != nullptr) << path;
		if (!s.function)
			continue;
		functions++;
		EXPECT_EQ(s.in_function,
			  static_cast<size_t>(at - static_cast<char *>(info.dli_saddr)))
			<< s.function << " " << info.dli_sname;
	}
	EXPECT_GT(functions, 20u);
}

TEST(SymbolTest, Text)
{
	const auto *at = reinterpret_cast<const char *>(&getenv) + 1;
	char buf[SYMBOL_TEXT_SIZE];
	struct symbol s;

	ASSERT_TRUE(symbol_find(at, &s));
	EXPECT_STREQ(s.function, "getenv");
	EXPECT_EQ(std::string(symbol_text(at, buf)).substr(0, 15), "getenv+0x1 (lib");
	EXPECT_NE(std::string(symbol_text(at - 1, buf)).substr(0, 7), "getenv+")
		<< "what was called before it does not return";
	EXPECT_STREQ(symbol_text(reinterpret_cast<void *>(16), buf), "0x10");
	EXPECT_FALSE(symbol_find(buf, &s)) << "the stack is no code";
}

/* A server shows a title: it writes over the words that it was started with. */
TEST(SymbolTest, TheProgramHasItsNameAlsoUnderATitle)
{
	const std::string name = program_invocation_short_name;
	char *const word = program_invocation_short_name;
	struct symbol s;

	kfree(kmalloc(1, GFP_KERNEL)); /* the library begins */
	memset(word, '-', name.size());
	const bool found = symbol_find(reinterpret_cast<const void *>(&library_is_loading), &s);
	const std::string module = found ? s.module : "";

	memcpy(word, name.data(), name.size());
	ASSERT_TRUE(found);
	EXPECT_EQ(module, name);
}

/* A constructor waits for a thread that wants a name. */
TEST(SymbolTest, WhileTheDynamicLinkerHoldsItsLock)
{
	if (!_dl_find_object)
		GTEST_SKIP() << "this libc tells of files with its lock alone";
	ASSERT_NE(dlopen(SYMBOL_LIBRARY, RTLD_NOW), nullptr) << dlerror();
	EXPECT_TRUE(was_found);
}

} // namespace

void library_is_loading()
{
	static std::future<bool> asking = std::async(std::launch::async, [] {
		struct symbol s;

		return symbol_find(reinterpret_cast<const void *>(&getenv), &s);
	});

	was_found = asking.wait_for(std::chrono::seconds(10)) == std::future_status::ready &&
		    asking.get();
}
