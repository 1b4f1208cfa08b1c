/* SPDX-License-Identifier: MIT */
/*
 * One bug, or one promise, each:
 *
 *	bugs NAME [SIZE]
 *
 * SIZE is that of the block that the bug is about. The program prints "lived" if it comes to
 * its end, and exits 1 if a promise was not kept; hardened_test.py says what must happen.
 */
#include "bugs.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

extern "C" {
void free_sized(void *p, size_t size) __attribute__((weak));
void free_aligned_sized(void *p, size_t align, size_t size) __attribute__((weak));
}

namespace
{

/* The quarantine is that of a CPU. */
void stay_on_this_cpu()
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
}

/* As many blocks of this size as bring everything into use again that waits on this CPU. */
void stir(size_t size)
{
	size_t n = std::max<size_t>(4000, (64u << 20) / (size + 64));

	for (size_t i = 0; i < std::min<size_t>(n, 100000); i++)
		release(get(size));
	/* Something may be in a slab by now, while others go round. */
	for (size_t i = 0; i < std::min<size_t>(n / 4, 20000); i++)
		get(size);
}

/* --- frees ----------------------------------------------------------------- */

void free_twice(size_t size)
{
	char *p = get(size);

	release(p);
	release(p);
}

void free_twice_later(size_t size)
{
	char *p = get(size), *q = get(size);

	release(p);
	release(q);
	release(p);
}

void free_twice_in_threads(size_t size)
{
	char *p = get(size);

	std::thread([p] { release(p); }).join();
	std::thread([p] { release(p); }).join();
}

/* Two threads free the same block at the same moment, again and again. */
void free_at_once(size_t size)
{
	using clock = std::chrono::steady_clock;
	constexpr int kRounds = 5000;
	static std::atomic<char *> block;
	static std::atomic<int> round;
	static clock::time_point moment;
	auto wait = [](int until) {
		for (int n = 0; round < until; n++)
			if (n > 1000)
				std::this_thread::yield();
	};
	auto release_then = [](char *p, int delay) {
		while (clock::now() < moment)
			;
		for (volatile int n = delay; n; n = n - 1)
			;
		release(p);
	};
	std::thread other([wait, release_then] {
		for (int i = 1; i <= kRounds; i++) {
			wait(2 * i - 1);
			release_then(block, i % 10);
			round++;
		}
	});

	for (int i = 1; i <= kRounds; i++) {
		char *p = get(size);

		block = p;
		moment = clock::now() + std::chrono::nanoseconds(500);
		round++;
		release_then(p, i / 10 % 10);
		wait(2 * i);
	}
	other.join();
}

void free_inside(size_t size)
{
	release(get(size) + 1);
}

void free_inside_aligned(size_t size)
{
	release(get(size) + 16);
}

void free_stack(size_t)
{
	char here[64];

	release(here + 16);
}

void free_integer(size_t)
{
	release(reinterpret_cast<void *>(uintptr_t{ 1 }));
}

void free_mapping(size_t)
{
	void *p = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	release(static_cast<char *>(p) + 32768);
}

void free_never_allocated(size_t)
{
	release(get(16) + 4 * 4096);
}

void free_far_away(size_t)
{
	release(get(16) + (size_t{ 1 } << 30));
}

void realloc_freed(size_t size)
{
	char *p = get(size);

	release(p);
	sink = static_cast<char *>(reallocate(p, 2 * size));
}

void realloc_integer(size_t)
{
	sink = static_cast<char *>(reallocate(reinterpret_cast<void *>(uintptr_t{ 1 }), 16));
}

void usable_freed(size_t size)
{
	char *p = get(size);

	release(p);
	promise(usable(p) == 0, "a freed block has usable bytes");
}

void usable_inside(size_t size)
{
	promise(usable(get(size) + 1) == 0, "an address inside a block has usable bytes");
}

void object_size_freed(size_t size)
{
	char *p = get(size);

	release(p);
	promise(malloc_object_size(p) == 0, "a freed block has a size");
}

/* --- sizes ----------------------------------------------------------------- */

void delete_smaller(size_t size)
{
	::operator delete(::operator new(size), size / 2);
}

void delete_larger(size_t size)
{
	::operator delete(::operator new(size), 2 * size);
}

size_t resident_bytes()
{
	size_t all = 0, resident = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	promise(statm && fscanf(statm, "%zu %zu", &all, &resident) == 2, "no statm");
	fclose(statm);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* A delete with the right size gives the memory of the block back. */
void delete_goes_back(size_t size)
{
	constexpr size_t kBytes = size_t{ 256 } << 20;
	size_t before = resident_bytes();

	for (size_t bytes = 0; bytes < kBytes; bytes += size)
		::operator delete(memset(::operator new(size), 1, size), size);
	promise(resident_bytes() - before < kBytes / 4, "deleted blocks stay");
}

void delete_right(size_t size)
{
	for (size_t n = 1; n < 70000; n = n * 9 / 8 + 1)
		::operator delete(::operator new(n), n);
	for (size_t align = 32; align <= 8192; align *= 2)
		for (size_t n = align; n < 40000; n += align)
			::operator delete(::operator new(n, std::align_val_t(align)), n,
					  std::align_val_t(align));
	::operator delete(::operator new(size), size);
}

void delete_aligned_wrong(size_t size)
{
	::operator delete(::operator new(size, std::align_val_t(64)), size + 64,
			  std::align_val_t(64));
}

void free_sized_wrong(size_t size)
{
	free_sized(get(size), 3 * size);
}

void free_aligned_sized_wrong(size_t size)
{
	free_aligned_sized(aligned_alloc(256, size), 256, size + 1024);
}

/* A block that realloc() left where it was has the new size. */
void free_sized_right(size_t size)
{
	for (size_t n = 1; n < 3 * size; n = n * 9 / 8 + 1) {
		free_sized(get(n), n);
		free_sized(reallocate(get(n), n + n / 3), n + n / 3);
		free_sized(reallocate(get(n), n - n / 3), n - n / 3);
	}
	free_sized(nullptr, size);
	free_aligned_sized(aligned_alloc(64, 128), 64, 128);
	/* As glibc, aligned_alloc() takes alignments that are no power of two. */
	for (size_t align = 24; align < 5000; align = align * 5 / 3)
		for (size_t n = 1; n < 70000; n = n * 9 / 8 + 1)
			free_aligned_sized(aligned_alloc(align, n), align, n);
}

/* --- overflows ------------------------------------------------------------- */

void write_behind(size_t size)
{
	char *p = get(size);

	p[usable(p)] = 1;
	release(p);
}

void write_further_behind(size_t size)
{
	char *p = get(size);

	p[usable(p) + 7] ^= 1;
	release(p);
}

void write_in_front(size_t size)
{
	get(size)[-1] = 1;
}

/* A string that fills the block ends behind it. */
void string_ends(size_t size)
{
	char *p = get(size);

	memset(p, 'a', usable(p));
	promise(strlen(p) == usable(p), "the string goes on");
	release(p);
}

void read_nothing(size_t)
{
	volatile char *p = static_cast<char *>(malloc(0));

	promise(p != nullptr, "malloc(0) is NULL");
	sink = reinterpret_cast<char *>(uintptr_t{ static_cast<unsigned char>(*p) });
}

/* No bug: an object of no bytes may grow. */
void grow_nothing(size_t size)
{
	char *p = static_cast<char *>(reallocate(malloc(0), size));

	promise(p != nullptr && usable(p) >= size, "it does not grow");
	memset(p, 'a', size);
	release(p);
	p = static_cast<char *>(reallocate(calloc(0, 7), size));
	promise(p != nullptr && usable(p) >= size, "it does not grow after calloc");
	release(p);
}

void write_nothing(size_t)
{
	*get(0) = 5;
}

/* An overflow that goes on comes to a closed page at most 256 KiB behind its slab, which has
 * 128 KiB at most. */
void overflow_far(size_t size)
{
	std::vector<char *> all;

	for (size_t n = 0; n < (8u << 20) / size; n++)
		all.push_back(get(size));
	std::sort(all.begin(), all.end());
	memset(all[all.size() / 4], 'x', 384 << 10);
}

/* --- after free ------------------------------------------------------------ */

void write_after_free_at(size_t size, size_t at)
{
	char *p = get(size);

	stay_on_this_cpu();
	release(p);
	p[at] = 'a';
	stir(size);
}

void write_after_free(size_t size)
{
	write_after_free_at(size, size / 2 + 1);
}

void write_after_free_near_the_start(size_t size)
{
	write_after_free_at(size, std::min<size_t>(size - 1, 127));
}

void write_after_free_near_the_end(size_t size)
{
	write_after_free_at(size, usable(get(size)) - 1);
}

/* Of large objects a line that nobody knows is looked at between the ends, in each object
 * another one: a bug that comes again and again is found. */
void write_after_free_often(size_t size)
{
	std::vector<char *> all;

	stay_on_this_cpu();
	for (int n = 0; n < 2000; n++)
		all.push_back(get(size));
	for (char *p : all) {
		release(p);
		p[size / 2 + 1] = 'a';
	}
	stir(size);
}

/* Each byte of a block, and of the canary behind it, in turn. In large blocks what is between
 * the ends is looked at in part. */
void write_after_free_everywhere(size_t size)
{
	std::vector<char *> others, all;

	stay_on_this_cpu();
	for (size_t i = 0; i < usable(get(size)) + 8; i++) {
		char *p = get(size), *q = nullptr;

		for (int n = 0; n < 300; n++)
			others.push_back(get(size));
		release(p);
		p[i] = 'a';
		for (char *other : others)
			release(other);
		for (others.clear(); q != p && all.size() < 100000; all.push_back(q))
			q = get(size);
		promise(q == p, "the block does not come back");
		for (char *one : all)
			release(one);
		all.clear();
	}
}

void write_after_free_used_again(size_t size)
{
	char *p = get(size);

	stay_on_this_cpu();
	release(p);
	sink = get(size);
	p[size / 2 + 1] = 'a';
	stir(size);
}

void read_after_free(size_t size)
{
	char *p = get(size);

	memset(p, 'a', size);
	release(p);
	promise(std::all_of(p, p + size, [](char c) { return !c; }),
		"a freed block keeps its bytes");
}

/* The ends of a block of any size. */
void read_after_free_ends(size_t size)
{
	char *p = get(size), *end = p + usable(p), *middle = p + std::min<size_t>(128, size);

	memset(p, 'a', size);
	release(p);
	promise(std::all_of(p, middle, [](char c) { return !c; }),
		"a freed block keeps its first bytes");
	promise(std::all_of(std::max(p, end - 56), end, [](char c) { return !c; }),
		"a freed block keeps its last bytes");
}

/* How many others are freed, at least, before a freed block is handed out again. */
size_t others(size_t size)
{
	size_t slot = usable(get(size)) + 8; /* with the canary */

	if (slot > (64u << 10))
		return std::min<size_t>(64, (64u << 20) / slot) - 1;
	if (slot <= 128)
		return 64;
	return slot <= 2048 ? 32 : std::max<size_t>((64u << 10) / slot, 4);
}

/* Again and again, since it depends on what waits already. */
void waits(size_t size)
{
	size_t n = others(size), rounds = size > (64u << 10) ? 10 : 300;

	stay_on_this_cpu();
	for (size_t round = 0; round < rounds; round++) {
		char *p = get(size);

		release(p);
		for (size_t i = 0; i <= n + round % 3; i++) {
			char *q = get(size);

			promise(q != p || i > n, "a block was used again too early");
			release(q);
		}
	}
}

/* clang-format off */
const Bugs bugs = {
	BUG(free_twice), BUG(free_twice_later), BUG(free_twice_in_threads), BUG(free_at_once),
	BUG(free_inside), BUG(free_inside_aligned), BUG(free_stack), BUG(free_integer),
	BUG(free_mapping), BUG(free_never_allocated), BUG(free_far_away), BUG(realloc_freed),
	BUG(realloc_integer), BUG(usable_freed), BUG(usable_inside), BUG(object_size_freed),
	BUG(delete_smaller), BUG(delete_larger), BUG(delete_right), BUG(delete_aligned_wrong),
	BUG(delete_goes_back), BUG(free_sized_wrong), BUG(free_aligned_sized_wrong), BUG(free_sized_right),
	BUG(write_behind), BUG(write_further_behind), BUG(write_in_front), BUG(string_ends),
	BUG(read_nothing), BUG(grow_nothing), BUG(write_nothing), BUG(overflow_far), BUG(write_after_free),
	BUG(write_after_free_near_the_start), BUG(write_after_free_near_the_end),
	BUG(write_after_free_often), BUG(write_after_free_everywhere),
	BUG(write_after_free_used_again), BUG(read_after_free), BUG(read_after_free_ends),
	BUG(waits),
};
/* clang-format on */

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	for (const Bugs *all : { &bugs, &promises }) {
		auto bug = all->find(argv[1]);

		if (bug == all->end())
			continue;
		bug->second(argc > 2 ? strtoul(argv[2], nullptr, 0) : 64);
		puts("lived");
		return 0;
	}
	return 2;
}
