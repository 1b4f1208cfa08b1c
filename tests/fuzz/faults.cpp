/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include <errno.h>
#include <sys/mman.h>

extern "C" {
#include "os/os.h"
}
#include "shadow.h"

namespace fuzz
{

Faults faults;
std::atomic<uint64_t> now_ms{ 5000 };
thread_local unsigned cpu_number;
thread_local bool no_system_calls;
thread_local unsigned failures;
thread_local uint64_t failures_random = 1;

namespace
{

thread_local unsigned calls[NR_CALLS];

void note(const char *name)
{
	if (no_system_calls)
		fail("%s() in a request or free that may not enter the kernel", name);
}

bool fails(Call call, const char *name)
{
	bool hit;

	note(name);
	calls[call]++;
	failures_random ^= failures_random << 13;
	failures_random ^= failures_random >> 7;
	failures_random ^= failures_random << 17;
	hit = failures_random % 1000 < faults.per_mille[call] ||
	      (faults.every[call] && calls[call] % faults.every[call] == 0);
	failures += hit;
	return hit;
}

int fake_mmap(void **addr, size_t len, int prot, int flags)
{
	/* Where an address is asked for, somebody else may have it. */
	if (fails(MMAP, "mmap"))
		return *addr && failures_random & 1024 ? -EEXIST : -ENOMEM;
	return os_calls_linux.mmap(addr, len, prot, flags);
}

int fake_munmap(void *addr, size_t len)
{
	note("munmap");
	return os_calls_linux.munmap(addr, len);
}

int fake_mprotect(void *addr, size_t len, int prot)
{
	if (fails(MPROTECT, "mprotect"))
		return -ENOMEM;
	return os_calls_linux.mprotect(addr, len, prot);
}

int fake_madvise(void *addr, size_t len, int advice)
{
	bool pages = advice == MADV_DONTNEED && shadow.is_pages(addr);

	if (fails(MADVISE, "madvise"))
		return -ENOMEM;
	if (pages && shadow.pinned_any(addr, len))
		return -EINVAL;
	/* Before the call: afterwards somebody else may have them. */
	if (pages)
		shadow.purged(addr, len);
	return os_calls_linux.madvise(addr, len, advice);
}

int fake_mbind(void *, size_t, int, const unsigned long *, unsigned long)
{
	return fails(MBIND, "mbind") ? -EPERM : 0;
}

int fake_mlock(void *addr, size_t len)
{
	bool hit = fails(MLOCK, "mlock");

	if (!hit && shadow.pinned() * ukmem_page_size() + len > faults.pin_limit) {
		failures++;
		hit = true;
	}
	/* Pages that can be neither given back nor pinned again are zeroed, and are
	 * taken for given back: two failures at once may cost some memory. */
	if (hit)
		shadow.forget_resident(addr, len);
	else
		shadow.pin(addr, len, true);
	return hit ? -EAGAIN : 0;
}

int fake_munlock(void *addr, size_t len)
{
	note("munlock");
	shadow.pin(addr, len, false);
	return 0;
}

int fake_membarrier(int cmd, unsigned flags, int cpu)
{
	note("membarrier");
	return os_calls_linux.membarrier(cmd, flags, cpu);
}

int fake_getcpu(unsigned *cpu)
{
	*cpu = cpu_number;
	return 0;
}

uint64_t fake_now()
{
	note("clock_gettime");
	return now_ms.load(std::memory_order_relaxed);
}

} // namespace

void install_faults()
{
	os_calls.mmap = fake_mmap;
	os_calls.munmap = fake_munmap;
	os_calls.mprotect = fake_mprotect;
	os_calls.madvise = fake_madvise;
	os_calls.mbind = fake_mbind;
	os_calls.mlock = fake_mlock;
	os_calls.munlock = fake_munlock;
	os_calls.membarrier = fake_membarrier;
	os_calls.getcpu = fake_getcpu;
	os_calls.now_ms = fake_now;
}

} // namespace fuzz
