/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>

extern "C" {
#include "os/os.h"
}

namespace sweep
{

namespace
{

struct Kind {
	const char *name;
	int errors[5];
};

const Kind kinds[NR_CALLS] = {
	/* clang-format off */
	{ "Mmap",	 { ENOMEM, EEXIST, EPERM, EAGAIN } },
	{ "Munmap",	 { ENOMEM, EINVAL } },
	{ "Mprotect",	 { ENOMEM, EACCES } },
	{ "Madvise",	 { EINVAL, ENOMEM, EAGAIN } },
	{ "Mremap",	 { ENOMEM, EINVAL, EFAULT, EAGAIN } },
	{ "Mincore",	 { ENOSYS, ENOMEM, EAGAIN } },
	{ "Mbind",	 { EPERM, ENOSYS, EINVAL } },
	{ "MemsAllowed", { EPERM, ENOSYS, EINVAL } },
	{ "Mempolicy",	 { EPERM, ENOSYS, EINVAL } },
	{ "Mlock",	 { ENOMEM, EPERM, EAGAIN } },
	{ "Munlock",	 { ENOMEM, EPERM } },
	{ "Membarrier",	 { EPERM, ENOSYS, EINVAL } },
	{ "Getrandom",	 { EAGAIN, ENOSYS } },
	{ "ReadFile",	 { ENOENT, EACCES, EMFILE, EIO } },
	{ "Getcpu",	 { ENOSYS } },
	{ "Affinity",	 { EPERM, ENOSYS, EINVAL } },
	{ "SetAffinity", { EPERM, ENOSYS, EINVAL } },
	{ "Rseq",	 { EPERM, ENOSYS, EBUSY, EINVAL } },
	{ "Release",	 { EFAULT } },
	{ "Auxval",	 { ENOENT } },
	{ "AsLimit",	 { EPERM } },
	/* clang-format on */
};

/* Synchronization: set while there is one thread. */
Fault fault;
struct os_calls below; /* the system, as it is or as fake_os.h pretends it to be */
std::atomic<unsigned> made[NR_CALLS], failed;
std::atomic<size_t> mapped;
std::atomic<uint64_t> clock_ms{ 1000000 };
std::atomic<bool> cpus_gone;

bool fails(Call call)
{
	unsigned n = ++made[call];
	bool hit = call == fault.call && fault.nth &&
		   (n == fault.nth || (fault.ever && n > fault.nth));

	failed += hit;
	return hit;
}

int answer()
{
	return fault.untold ? 0 : -fault.error;
}

/* The entry @Member of the table with failures in front. */
template <Call kCall, auto Member> struct Entry;

template <Call kCall, typename Result, typename... Args, Result (*os_calls::*Member)(Args...)>
struct Entry<kCall, Member> {
	static Result call(Args... args)
	{
		return fails(kCall) ? static_cast<Result>(answer()) : (below.*Member)(args...);
	}
	static void install()
	{
		::os_calls.*Member = call;
	}
};

int counted_mmap(void **addr, size_t len, int prot, int flags)
{
	bool grows = flags & MAP_FIXED_NOREPLACE && prot != PROT_NONE;
	int err;

	if ((grows || !fault.untold) && fails(MMAP))
		return answer();
	err = below.mmap(addr, len, prot, flags);
	if (!err && !(flags & MAP_FIXED))
		mapped += len;
	return err;
}

int counted_munmap(void *addr, size_t len)
{
	int err;

	if (fails(MUNMAP))
		return answer();
	err = below.munmap(addr, len);
	if (!err)
		mapped -= len;
	return err;
}

/* Without MREMAP_FIXED the source stays; with it, what is at the destination goes. */
int counted_mremap(void *from, size_t len, int flags, void **to)
{
	int err;

	if (fails(MREMAP))
		return answer();
	err = below.mremap(from, len, flags, to);
	if (!err)
		mapped += flags & MREMAP_FIXED ? -len : len;
	return err;
}

/* 0 says that there is no such value, which is how it fails. */
unsigned long failing_auxval(unsigned long type)
{
	return fails(AUXVAL) ? 0 : below.auxval(type);
}

int scarce_limit(size_t *bytes)
{
	if (fails(AS_LIMIT))
		return answer();
	*bytes = static_cast<size_t>(4) << 30;
	return 0;
}

ssize_t read_file_of_machine(const char *path, char *buf, size_t size)
{
	static const char first_only[] = "0\n";

	if (fails(READ_FILE))
		return answer();
	if (!cpus_gone || strcmp(path, "/sys/devices/system/cpu/online"))
		return below.read_file(path, buf, size);
	memcpy(buf, first_only, sizeof(first_only) - 1);
	return sizeof(first_only) - 1;
}

/* So that what waits for its time to decay does not wait long. */
uint64_t fast_clock()
{
	return clock_ms += 100;
}

} // namespace

const char *call_name(Call call)
{
	return kinds[call].name;
}

const int *call_errors(Call call)
{
	return kinds[call].errors;
}

void install_faults(bool scarce)
{
	below = ::os_calls;
	::os_calls.mmap = counted_mmap;
	::os_calls.munmap = counted_munmap;
	::os_calls.mremap = counted_mremap;
	::os_calls.auxval = failing_auxval;
	::os_calls.read_file = read_file_of_machine;
	::os_calls.now_ms = fast_clock;
	Entry<MPROTECT, &os_calls::mprotect>::install();
	Entry<MADVISE, &os_calls::madvise>::install();
	Entry<MINCORE, &os_calls::mincore>::install();
	Entry<MBIND, &os_calls::mbind>::install();
	Entry<MEMS_ALLOWED, &os_calls::get_mems_allowed>::install();
	Entry<MEMPOLICY, &os_calls::get_mempolicy>::install();
	Entry<MLOCK, &os_calls::mlock>::install();
	Entry<MUNLOCK, &os_calls::munlock>::install();
	Entry<MEMBARRIER, &os_calls::membarrier>::install();
	Entry<GETRANDOM, &os_calls::getrandom>::install();
	Entry<GETCPU, &os_calls::getcpu>::install();
	Entry<AFFINITY, &os_calls::affinity>::install();
	Entry<SET_AFFINITY, &os_calls::set_affinity>::install();
	Entry<RSEQ, &os_calls::rseq>::install();
	Entry<RELEASE, &os_calls::release>::install();
	Entry<AS_LIMIT, &os_calls::address_space_limit>::install();
	if (scarce)
		::os_calls.address_space_limit = scarce_limit;
}

void arm(const Fault &f)
{
	fault = f;
	failed = 0;
	for (auto &n : made)
		n = 0;
}

void disarm()
{
	fault = {};
}

unsigned calls_made(Call call)
{
	return made[call];
}

unsigned failures()
{
	return failed;
}

size_t mapped_bytes()
{
	return mapped;
}

void set_offline(bool offline)
{
	cpus_gone = offline;
}

} // namespace sweep
