/* SPDX-License-Identifier: MIT */
/* A small pool of KFENCE's for tests, objects in it, and what reports about them say. */
#ifndef UNIT_KFENCE_UTIL_H
#define UNIT_KFENCE_UTIL_H

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfence_shim.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

enum { UNUSED, TAKEN, IN_USE, FREEING, FREED };		 /* enum kfence_state */
enum { OBJECTS = 8, PAGE = 4096, LARGE_SLOT = 1 << 20 }; /* as many large slots as small ones */

/* Keeps the compiler from knowing what an address is. */
inline char *unknown(void *p)
{
	asm volatile("" : "+r"(p));
	return static_cast<char *>(p);
}

class KfenceTest : public ::testing::Test
{
	void SetUp() override
	{
		if (sysconf(_SC_PAGESIZE) != PAGE)
			GTEST_SKIP() << "pages are not 4 KiB";
		config_init();
		config.kfence_num_objects = OBJECTS;
		/* Tests open the gate; else the first objects might be taken before a test
		 * begins. */
		config.kfence_sample_interval = 3600 * 1000;
		config.kfence_on_fault = KFENCE_ON_FAULT_CONTINUE;
		config.invalid_free = INVALID_FREE_WARN;
		kfree(kmalloc(1, GFP_KERNEL)); /* initialises everything */
	}
};

/* A block of @size bytes in the pool, at the end of its page that is asked for. */
inline char *guarded(size_t size, bool right)
{
	for (int i = 0; i < 1000; i++) {
		shim_kfence_open();
		char *p = unknown(shim_kmalloc_slow(size, GFP_KERNEL));

		if (!p || !shim_kfence_has(p))
			break;
		if ((reinterpret_cast<uintptr_t>(p) % PAGE != 0) == right)
			return p;
		kfree(p);
	}
	ADD_FAILURE() << "no guarded block of " << size << " bytes";
	return nullptr;
}

/* The process has as many mappings as it may. */
inline int refuse_mprotect(void * /*addr*/, size_t /*len*/, int /*prot*/)
{
	return -ENOMEM;
}

/* Runs once, while a handler is about to open a page. */
inline std::function<void()> meanwhile;

inline int delayed_mprotect(void *addr, size_t len, int prot)
{
	if (meanwhile && prot != PROT_NONE) {
		std::function<void()> f = std::move(meanwhile);

		meanwhile = nullptr;
		f();
	}
	return mprotect(addr, len, prot) ? -errno : 0;
}

template <class F> std::string says(F bug)
{
	::testing::internal::CaptureStderr();
	bug();
	return ::testing::internal::GetCapturedStderr();
}

inline std::string address(const void *p)
{
	char text[32];

	snprintf(text, sizeof(text), "%p", p);
	return text;
}

inline std::string number(const void *p)
{
	return "kfence-#" + std::to_string(shim_kfence_index(p));
}

/*
 * Runs the function in a new process that has no pool yet, whatever other tests have done, and
 * expects that it returns 0. It executes the test from its start.
 */
#define EXPECT_FRESH_POOL_PASSES(...)                                                          \
	do {                                                                                   \
		std::string style_ = ::testing::FLAGS_gtest_death_test_style;                  \
                                                                                               \
		::testing::FLAGS_gtest_death_test_style = "threadsafe";                        \
		EXPECT_EXIT((alarm(20), _exit(__VA_ARGS__())), ::testing::ExitedWithCode(0),   \
			    "");                                                               \
		::testing::FLAGS_gtest_death_test_style = style_;                              \
	} while (0)

/* Runs @f in a child; it returns the child's status. */
template <class F> void in_child(F f)
{
	pid_t child = fork();

	if (!child) {
		alarm(20);
		_exit(f());
	}
	int status;

	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

#endif
