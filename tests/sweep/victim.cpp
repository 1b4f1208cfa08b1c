/* SPDX-License-Identifier: MIT */
/*
 * A program on the malloc drop-in that does not take success for granted: threads, C++, large
 * blocks, a child, trimming. What it got it finds as it left it.
 *
 * Exit status: 0, or 3: it went without some memory, which it was told of. Anything else is
 * wrong.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "preload/preload_test.h"

namespace
{

enum { SHORT_OF_MEMORY = 3, THREADS = 3, SLOTS = 200, KEPT_BYTES = 100000 };

std::atomic<unsigned> refused;

/* Whether there is a block at @p; without one, errno has to say why. */
bool got(const void *p, size_t size)
{
	CHECK(p || errno == ENOMEM, "errno %d without a block of %zu bytes", errno, size);
	refused += !p;
	return p;
}

struct Block {
	unsigned char *p;
	size_t size;
	unsigned char fill;
	enum Kind { C, CXX } kind;

	void check() const
	{
		for (size_t i = 0; p && i < size; i += i + 600 < size ? 500 : 1)
			CHECK(p[i] == fill, "byte %zu of %zu has changed", i, size);
	}
	void make(size_t n, unsigned char value, Kind how)
	{
		kind = how;
		size = n;
		fill = value;
		errno = 0;
		if (kind == C) {
			p = static_cast<unsigned char *>(value % 2 ? malloc(n) : calloc(1, n));
			for (size_t i = 0; p && value % 2 == 0 && i < n; i++)
				CHECK(!p[i], "calloc(%zu): byte %zu", n, i);
		} else {
			/* To throw takes memory, too, and libstdc++ ends who has none. */
			p = new (std::nothrow) unsigned char[n];
		}
		if (got(p, n))
			memset(p, fill, n);
	}
	void resize(size_t n)
	{
		if (!p || kind != C)
			return;
		errno = 0;
		auto *q = static_cast<unsigned char *>(realloc(p, n));
		if (!got(q, n)) {
			check();
			return;
		}
		p = q;
		size = size < n ? size : n;
		check();
		size = n;
		memset(p, fill, n);
	}
	void drop()
	{
		check();
		if (kind == C)
			free(p);
		else
			delete[] p;
		p = nullptr;
	}
};

void *work(void *arg)
{
	uint64_t rng = reinterpret_cast<uintptr_t>(arg) + 1;
	Block blocks[SLOTS] = {};

	for (unsigned i = 0; i < 3 * SLOTS; i++) {
		Block &b = blocks[i % SLOTS];

		if (b.p && i % 3 == 0)
			b.resize(rng_size(&rng, 1 << 18));
		b.drop();
		b.make(rng_size(&rng, 1 << 18), static_cast<unsigned char>(rng_next(&rng)),
		       i % 2 ? Block::C : Block::CXX);
	}
	for (Block &b : blocks)
		b.drop();
	return nullptr;
}

/* More than is kept for reuse, so that some of it goes back, and by a background thread. */
void work_large()
{
	Block blocks[12] = {};
	unsigned char n = 0;

	for (Block &b : blocks) {
		n++;
		b.make((static_cast<size_t>(1) << 20) + 4096u * n, n,
		       n % 2 ? Block::C : Block::CXX);
	}
	blocks[0].resize(6 << 20);
	blocks[2].resize(9 << 20);
	blocks[4].resize(5 << 20); /* in its way */
	blocks[2].resize(20 << 20);
	for (Block &b : blocks)
		b.drop();
	malloc_trim(0);
	/* Blocks of whole pages are figures of their own, as with libc. */
	struct mallinfo2 info = mallinfo2();
	CHECK(info.uordblks + info.hblkhd >= KEPT_BYTES || refused,
	      "%zu bytes are in use, though main() keeps a block", info.uordblks + info.hblkhd);
}

/* A child has all of it, too. */
void work_in_child(Block &kept)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return; /* the system does not want another process */
	if (!child) {
		refused = 0;
		kept.drop();
		work(nullptr);
		_exit(refused ? SHORT_OF_MEMORY : 0);
	}
	CHECK(waitpid(child, &status, 0) == child, "no child");
	CHECK(WIFEXITED(status), "the child was killed by signal %d", WTERMSIG(status));
	CHECK(!WEXITSTATUS(status) || WEXITSTATUS(status) == SHORT_OF_MEMORY,
	      "the child exits with %d", WEXITSTATUS(status));
	refused += WEXITSTATUS(status) != 0;
}

} // namespace

int main()
{
	pthread_t threads[THREADS];
	bool runs[THREADS];
	Block kept = {};

	kept.make(KEPT_BYTES, 7, Block::C);
	for (uintptr_t i = 0; i < THREADS; i++)
		runs[i] = !pthread_create(&threads[i], nullptr, work,
					  reinterpret_cast<void *>(i));
	work_large();
	work_in_child(kept);
	for (uintptr_t i = 0; i < THREADS; i++) {
		if (runs[i])
			CHECK(!pthread_join(threads[i], nullptr), "pthread_join");
		else
			work(reinterpret_cast<void *>(i));
	}
	work_large();
	kept.drop();
	return refused ? SHORT_OF_MEMORY : 0;
}
