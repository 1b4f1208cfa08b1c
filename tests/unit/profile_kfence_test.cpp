// SPDX-License-Identifier: MIT
// The heap profile beside KFENCE, which takes objects that are no samples.
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>

#include "kfence_shim.h"
#include "profile_sites.h"
#include "profile_util.h"
#include "test_util.h"

extern "C" {
#include "base/config.h"
}

namespace
{
class ProfileKfence : public Profile
{
};

// Whether KFENCE has a pool here: under sanitizers it has none.
bool kfence_serves()
{
	for (int i = 0; i < 1000; i++) {
		shim_kfence_open();
		void *p = kmalloc(256, GFP_KERNEL);
		bool served = shim_kfence_has(p);

		kfree(p);
		if (served)
			return true;
	}
	return false;
}

// So that the array for objects of a size is not empty when KFENCE begins to look.
void fill_array(struct kmem_cache *s)
{
	void *p[16];

	shim_kfence_close();
	for (void *&q : p)
		q = kmem_cache_alloc(s, GFP_KERNEL);
	for (void *q : p)
		kmem_cache_free(s, q);
}

bool kfence_never_rests;

// KFENCE has taken an object when it calls this; countdowns are wound later.
void wake_kfence(void *)
{
	if (kfence_never_rests)
		shim_kfence_open();
}

// Where KFENCE wants one object after the other, it serves many that are no samples.
TEST_F(ProfileKfence, AllTheTime)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	OneCpu stay; // the arrays of other CPUs are empty
	const int n = 1500000;
	int served = 0;

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	struct kmem_cache *s = kmem_cache_create("guarded", 1024, 0, 0, wake_kfence);
	config.kfence_stack = KFENCE_STACK_TABLES; // quicker
	fill_array(s);
	before = estimate(sites(), any);
	kfence_never_rests = true;
	for (int i = 0; i < n; i++) {
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		served += shim_kfence_has(p);
		kmem_cache_free(s, p);
	}
	kfence_never_rests = false;
	shim_kfence_close();
	counts is = grown();
	EXPECT_GT(served, n / 100);
	EXPECT_LT(served, n / 10) << "its array is always empty";
	expect_near(is.alloc_bytes, 1024.0 * n, is.variance);
	EXPECT_LT(std::abs(is.live_bytes), 1);
	kmem_cache_destroy(s);
}

// KFENCE waits for one site alone, and takes none of that site's samples.
TEST_F(ProfileKfence, AtOneSite)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	at_site rare = { (uintptr_t)seldom, (uintptr_t)seldom + site_bytes };
	at_site many = { (uintptr_t)often, (uintptr_t)often + site_bytes };
	const int rounds = 200000;

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	counts rare_before = estimate(sites(), rare), many_before = estimate(sites(), many);
	for (int i = 0; i < rounds; i++) {
		shim_kfence_open();
		kfree(seldom());
		shim_kfence_close();
		for (int k = 0; k < 3; k++)
			kfree(often());
	}
	counts a = difference(estimate(sites(), rare), rare_before);
	counts b = difference(estimate(sites(), many), many_before);
	expect_near(a.alloc_bytes, 256.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 3 * 256.0 * rounds, b.variance);
	EXPECT_GT(a.allocs, 0);
	EXPECT_GT(b.allocs, 0);
}

// Every countdown could end with a sample, and KFENCE would wait for ever.
TEST_F(ProfileKfence, GetsItsTurn)
{
	OneCpu stay; // the arrays of other CPUs are empty

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	struct kmem_cache *s = kmem_cache_create("turns", 2048, 0, 0, nullptr);
	fill_array(s);
	for (int turn = 0; turn < 10; turn++) {
		bool served = false;

		shim_kfence_open();
		for (int i = 0; i < 20000 && !served; i++) {
			void *p = kmem_cache_alloc(s, GFP_KERNEL);

			served = shim_kfence_has(p);
			kmem_cache_free(s, p);
		}
		EXPECT_TRUE(served) << "turn " << turn;
	}
	shim_kfence_close();
	kmem_cache_destroy(s);
}
} // namespace
