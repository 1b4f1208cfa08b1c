// SPDX-License-Identifier: MIT
//
// What a program frees goes back to the system while it stands still, whatever it freed it
// with. It had a second thread once, and asks for nothing afterwards.
//
//	idle_test free|delete|delete[]|sized|aligned|shrink|move
//
// shrink, move: realloc of one large block, to one that can stay where it is and to one that
// cannot. UKMEM_CONF=dirty_decay_ms: how long memory has to be unused.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "preload_test.h"

namespace
{

constexpr std::size_t block_size = 100 << 10, blocks = 640, all = block_size * blocks;
constexpr int untouched = 12345;

struct way {
	const char *name;
	void *(*get)(std::size_t size);
	void (*give)(void *p);
};

constexpr std::align_val_t wide{ 256 };

const way ways[] = {
	{ "free", [](std::size_t n) { return std::malloc(n); }, [](void *p) { std::free(p); } },
	{ "delete", [](std::size_t n) { return ::operator new(n); },
	  [](void *p) { ::operator delete(p); } },
	{ "delete[]", [](std::size_t n) { return ::operator new[](n); },
	  [](void *p) { ::operator delete[](p); } },
	{ "sized", [](std::size_t n) { return ::operator new(n); },
	  [](void *p) { ::operator delete(p, block_size); } },
	{ "aligned", [](std::size_t n) { return ::operator new(n, wide); },
	  [](void *p) { ::operator delete(p, wide); } },
};

// Resident KiB, without an allocation.
long resident()
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "/proc/self/statm");
	close(fd);
	return std::strtol(std::strchr(text, ' '), nullptr, 10) *
	       (sysconf(_SC_PAGESIZE) / 1024);
}

void *filled(void *p, std::size_t size)
{
	CHECK(p, "no memory");
	return std::memset(p, 1, size);
}

void allocate_and_free(const way &w)
{
	static void *p[blocks];
	for (void *&block : p)
		block = filled(w.get(block_size), block_size);
	errno = untouched;
	for (void *block : p)
		w.give(block);
	CHECK(errno == untouched, "%s: errno is %d", w.name, errno);
}

void allocate_and_resize(std::size_t size)
{
	void *p = filled(std::malloc(all), all);
	errno = untouched;
	static void *volatile kept;
	kept = std::realloc(p, size);
	CHECK(kept && errno == untouched, "realloc: %p, errno %d", kept, errno);
}

void run(const char *name)
{
	if (!std::strcmp(name, "shrink"))
		return allocate_and_resize(block_size);
	if (!std::strcmp(name, "move"))
		return allocate_and_resize(1000);
	for (const way &w : ways)
		if (!std::strcmp(name, w.name))
			return allocate_and_free(w);
	CHECK(false, "usage: idle_test WAY");
}

} // namespace

int main(int argc, char **argv)
{
	CHECK(argc == 2, "usage: %s WAY", argv[0]);
	std::thread([] {}).join();
	const long before = resident();
	run(argv[1]);
	std::printf("%s: freed\n", argv[1]);
	// glibc keeps what lies below a block in use.
	if (!std::getenv("LD_PRELOAD"))
		return 0;
	const long allowed = before + static_cast<long>(all / 1024 / 5);
	long now = resident();
	for (int i = 0; i < 2000 && now > allowed; i++, now = resident())
		usleep(10000);
	CHECK(now <= allowed, "%s: %ld KiB before, %ld after", argv[1], before, now);
	return 0;
}
