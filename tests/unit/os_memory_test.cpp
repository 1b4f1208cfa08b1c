/* SPDX-License-Identifier: MIT */
/* Address space and memory: alignment, occupied addresses, residency, refusals, errno. */
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "fake_os.h"
#include "seccomp.h"

namespace
{

class OsMemoryTest : public ::testing::Test
{
      protected:
	size_t page_ = os_page_size();
	OsCallsGuard guard_;
};

std::map<uintptr_t, size_t> mapped;

int recording_mmap(void **addr, size_t len, int prot, int flags)
{
	int err = os_calls_linux.mmap(addr, len, prot, flags);

	if (!err)
		mapped[reinterpret_cast<uintptr_t>(*addr)] = len;
	return err;
}

size_t unmapped;

int recording_munmap(void *addr, size_t len)
{
	EXPECT_NE(len, 0u);
	unmapped += len;
	return os_calls_linux.munmap(addr, len);
}

TEST_F(OsMemoryTest, ReservationsAreAlignedAndTrimmed)
{
	os_calls.mmap = recording_mmap;
	os_calls.munmap = recording_munmap;
	for (size_t align = 1; align <= (1u << 30); align *= 4) {
		for (size_t len : { page_, 3 * page_, static_cast<size_t>(1) << 30 }) {
			void *p = nullptr;

			mapped.clear();
			unmapped = 0;
			ASSERT_EQ(os_reserve(len, align, &p), 0);
			EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % std::max(align, page_), 0u);
			ASSERT_EQ(mapped.size(), 1u);
			EXPECT_EQ(mapped.begin()->second - unmapped, len)
				<< "what is over goes back";
			/* It is address space only, until it is committed. */
			EXPECT_EQ(os_resident(p, len), 0u);
			ASSERT_EQ(os_commit(p, page_), 0);
			memset(p, 1, page_);
			EXPECT_EQ(os_release(p, len), 0);
		}
	}
	void *p = nullptr;
	EXPECT_EQ(os_reserve(SIZE_MAX - page_ + 1, 1u << 30, &p), -ENOMEM);
	EXPECT_EQ(os_reserve(static_cast<size_t>(1) << 60, page_, &p), -ENOMEM);
}

TEST_F(OsMemoryTest, MapAtRefusesWhatIsOccupied)
{
	void *p = nullptr;

	ASSERT_EQ(os_map_metadata(4 * page_, &p), 0);
	memset(p, 0x42, 4 * page_);
	EXPECT_EQ(os_map_at(p, 4 * page_), -EEXIST);
	EXPECT_EQ(os_map_at(static_cast<char *>(p) + 3 * page_, 2 * page_), -EEXIST);
	EXPECT_EQ(static_cast<char *>(p)[0], 0x42);
	ASSERT_EQ(os_release(p, 4 * page_), 0);
	ASSERT_EQ(os_map_at(p, 4 * page_), 0);
	EXPECT_EQ(static_cast<char *>(p)[0], 0);
	memset(p, 1, 4 * page_);
	os_release(p, 4 * page_);
}

/* Kernels before 4.17 do not know MAP_FIXED_NOREPLACE and map elsewhere. */
int hint_mmap(void **addr, size_t len, int prot, int flags)
{
	return os_calls_linux.mmap(addr, len, prot, flags & ~MAP_FIXED_NOREPLACE);
}

TEST_F(OsMemoryTest, MapAtOnOldKernels)
{
	void *p = nullptr;

	ASSERT_EQ(os_map_metadata(page_, &p), 0);
	os_calls.mmap = hint_mmap;
	os_calls.munmap = recording_munmap;
	unmapped = 0;
	EXPECT_EQ(os_map_at(p, page_), -EEXIST);
	EXPECT_EQ(unmapped, page_) << "what came elsewhere is given back";
	os_release(p, page_);
}

TEST_F(OsMemoryTest, ResidentCountsTouchedPages)
{
	size_t pages = 20000;
	char *p = nullptr;

	ASSERT_EQ(os_map_metadata(pages * page_, reinterpret_cast<void **>(&p)), 0);
	EXPECT_EQ(os_resident(p, pages * page_), 0u);
	std::set<size_t> touched = { 0, 1, 7, 4095, 4096, 4097, 8191, 8192, 19999 };
	for (size_t i : touched)
		p[i * page_] = 1;
	EXPECT_EQ(os_resident(p, pages * page_), touched.size() * page_);
	EXPECT_EQ(os_resident(p + page_, page_), page_);
	EXPECT_EQ(os_resident(p + 2 * page_, page_), 0u);
	EXPECT_EQ(os_resident(p, 0), 0u);
	ASSERT_EQ(os_purge(p, pages * page_), 0);
	EXPECT_EQ(os_resident(p, pages * page_), 0u);
	EXPECT_EQ(p[0], 0) << "reads as zeros after a purge";
	os_release(p, pages * page_);
	EXPECT_EQ(os_resident(p, page_), 0u) << "not mapped at all";
}

TEST_F(OsMemoryTest, ReadableReadsAsZeros)
{
	char *p = nullptr;

	ASSERT_EQ(os_map_readable(2 * page_, reinterpret_cast<void **>(&p)), 0);
	EXPECT_EQ(p[0], 0);
	ASSERT_EQ(os_commit(p, page_), 0);
	p[0] = 1;
	EXPECT_EQ(p[page_], 0);
	os_release(p, 2 * page_);
}

TEST_F(OsMemoryTest, RefusedPreferenceIsCounted)
{
	unsigned long before = os_prefer_node_refused();
	void *p = nullptr;

	ASSERT_EQ(os_map_metadata(page_, &p), 0);
	os_calls.mbind = fake_mbind;
	fake_mbind_error = -EPERM;
	os_prefer_node(p, page_, 0);
	os_prefer_node(p, page_, 1023);
	EXPECT_EQ(os_prefer_node_refused(), before + 2);
	fake_mbind_error = 0;
	os_prefer_node(p, page_, 5);
	EXPECT_EQ(os_prefer_node_refused(), before + 2);
	os_release(p, page_);
}

ssize_t random_error;

ssize_t failing_getrandom(void *, size_t, unsigned int)
{
	return random_error;
}

TEST_F(OsMemoryTest, RandomNeverFails)
{
	std::set<uint64_t> seen;

	for (int i = 0; i < 100; i++)
		seen.insert(os_random());
	EXPECT_EQ(seen.size(), 100u);
	os_calls.getrandom = failing_getrandom;
	for (ssize_t error : { -ENOSYS, -EAGAIN, 3 }) {
		seen.clear();
		random_error = error;
		for (int i = 0; i < 100; i++)
			seen.insert(os_random());
		EXPECT_GT(seen.size(), 90u);
		EXPECT_EQ(seen.count(0), 0u);
	}
}

TEST_F(OsMemoryTest, ErrnoIsKept)
{
	char buf[16];
	void *p = nullptr;
	size_t limit;
	unsigned int cpu;

	errno = ERANGE;
	EXPECT_EQ(os_calls.read_file("/no/such/file", buf, sizeof(buf)), -ENOENT);
	EXPECT_EQ(os_calls.read_file("/", buf, sizeof(buf)), -EISDIR);
	EXPECT_LT(os_reserve(static_cast<size_t>(1) << 60, page_, &p), 0);
	EXPECT_LT(os_commit(nullptr, page_), 0);
	EXPECT_LT(os_purge(reinterpret_cast<void *>(page_), page_), 0);
	EXPECT_LT(os_release(reinterpret_cast<void *>(1), page_), 0);
	EXPECT_LT(os_calls.membarrier(1 << 30, 0, 0), 0);
	EXPECT_EQ(os_resident(reinterpret_cast<void *>(page_), page_), 0u);
	EXPECT_EQ(os_calls.getcpu(&cpu), 0);
	EXPECT_EQ(os_calls.address_space_limit(&limit), 0);
	os_prefer_node(reinterpret_cast<void *>(1), page_, 0);
	os_random();
	EXPECT_EQ(errno, ERANGE);
}

bool asked_for_start;

unsigned long noting_auxval(unsigned long type)
{
	asked_for_start = asked_for_start || type == AT_RANDOM;
	return os_calls_linux.auxval(type);
}

/* Pairs of numbers, drawn one after the other, that differ in few of the upper bits. */
int alike(uint64_t factor)
{
	int n = 0;

	for (int i = 0; i < 1000; i++)
		n += !((os_random() * factor ^ os_random() * factor) >> 48);
	return n;
}

/* A filter of system calls may refuse random numbers. Time alone would be guessed. */
TEST_F(OsMemoryTest, RandomNumbersThatTheSystemRefuses)
{
	const uint64_t odd = 0x9e3779b97f4a7c15; /* a multiple of the time would show */
	uint64_t inverse = 1;
	std::set<uint64_t> all;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - odd * inverse;
	os_calls.getrandom = [](void *, size_t, unsigned int) -> ssize_t { return -ENOSYS; };
	os_calls.auxval = noting_auxval;
	EXPECT_LT(alike(1), 10);
	EXPECT_LT(alike(inverse), 10);
	for (int i = 0; i < 50000; i++)
		all.insert(os_random());
	EXPECT_EQ(all.size(), 50000u);
	EXPECT_TRUE(asked_for_start) << "what the kernel gave tells processes apart";
}

/* From the vDSO: a sandbox need not allow uname. */
TEST_F(OsMemoryTest, TheKernelsReleaseWithoutASystemCall)
{
	static std::string release;
	struct utsname name;

	if (!getauxval(AT_SYSINFO_EHDR))
		GTEST_SKIP() << "no vDSO";
	ASSERT_EQ(uname(&name), 0);
	release = name.release;
	expect_no_system_calls([] {},
			       [] {
				       char buf[65] = "";

				       if (os_calls.release(buf, sizeof(buf)))
					       return false;
				       size_t n = strlen(buf);

				       return n > 2 && !release.compare(0, n, buf) &&
					      !isdigit(release[n]);
			       });
}

/* System calls for which a filter may kill the process fail without being made. */
TEST_F(OsMemoryTest, ConfinedItAsksForWhatItNeeds)
{
	expect_no_system_calls(os_confine, [] {
		unsigned long mask[16];
		unsigned char vec[1];
		char buf[65];
		void *p = mask;
		int mode;

		errno = ERANGE;
		return os_calls.membarrier(0, 0, 0) == -EPERM &&
		       os_calls.mincore(p, 1, vec) == -EPERM &&
		       os_calls.mbind(p, 1, 0, mask, 1) == -EPERM &&
		       os_calls.get_mems_allowed(mask, 1) == -EPERM &&
		       os_calls.get_mempolicy(&mode, mask, 1) == -EPERM &&
		       os_calls.affinity(mask, sizeof(mask)) == -EPERM &&
		       os_calls.set_affinity(mask, sizeof(mask)) == -EPERM &&
		       os_calls.read_file("/proc/self/status", buf, sizeof(buf)) == -EPERM &&
		       os_touched(p) && os_resident(p, os_page_size()) == 0 && errno == ERANGE;
	});
}

TEST_F(OsMemoryTest, ReadFileCutsAtTheSize)
{
	char small[5] = { 'x', 'x', 'x', 'x', 'x' }, large[8192];

	EXPECT_EQ(os_calls.read_file("/proc/self/status", small, 4), 4);
	EXPECT_EQ(small[4], 'x');
	EXPECT_EQ(std::string(small, 4), "Name");
	EXPECT_GT(os_calls.read_file("/proc/self/status", large, sizeof(large)), 100);
}

} // namespace
