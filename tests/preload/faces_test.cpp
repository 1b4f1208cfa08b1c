// SPDX-License-Identifier: MIT
//
// Every face of malloc ends in the same way: memory that is not needed goes back to the system,
// the background thread is started, and errno is as it was before the call.
//
//	faces_test thread	UKMEM_CONF=dirty_decay_ms:3600000,background_thread:always
//	faces_test memory	UKMEM_CONF=dirty_max:0,dirty_decay_ms:40,background_thread:never
//
// Each face is tried in a child, where no thread has been started yet and some memory has been
// free for a while. The child calls nothing but that face, and asks the kernel which of that
// memory is still there, and how many threads there are. This program has a pthread_attr_init
// in the place of libc's, which writes errno. The library calls it when it starts a thread.
//
// Programs free NULL as often as blocks. That is no request: it does none of this.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "preload_test.h"

namespace
{

constexpr int untouched = 12345, calls = 8;
constexpr std::size_t large = 200 << 10, small = 100, mib = 1 << 20;
constexpr std::align_val_t wide{ 256 };

bool starts_threads;
std::atomic<unsigned int> starts;
char *dirty[32]; // blocks of a MiB that were freed

void *blocks[calls + 1], *objects[calls]; // the last block is NULL
void *volatile result;			  // so that no call is left out

// Functions that no header declares, or that libc lacks. NULL without the library.
template <typename F> F *named(const char *name)
{
	return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name));
}

using free_function = void(void *);
using free_sized_function = void(void *, std::size_t);
using free_aligned_sized_function = void(void *, std::size_t, std::size_t);

free_function *cfree_function;
free_sized_function *free_sized;
free_aligned_sized_function *free_aligned_sized;

struct face {
	const char *name;
	void (*call)(int i);
};

// All past the fast paths: blocks that are large.
const face faces[] = {
	{ "malloc", [](int) { result = std::malloc(large); } },
	{ "calloc", [](int) { result = std::calloc(large / 8, 8); } },
	{ "realloc of NULL", [](int) { result = std::realloc(nullptr, large); } },
	{ "realloc to a larger one", [](int i) { result = std::realloc(objects[i], large); } },
	{ "realloc to nothing", [](int i) { result = std::realloc(blocks[i], 0); } },
	{ "realloc to fewer pages",
	  [](int i) { result = std::realloc(blocks[i], large / 2); } },
	{ "reallocarray", [](int i) { result = reallocarray(objects[i], large / 16, 15); } },
	{ "posix_memalign",
	  [](int) {
		  void *p;
		  CHECK(!posix_memalign(&p, 64, large), "no memory");
		  result = p;
	  } },
	{ "memalign", [](int) { result = memalign(64, large); } },
	{ "aligned_alloc", [](int) { result = std::aligned_alloc(64, large); } },
	{ "valloc", [](int) { result = valloc(large); } },
	{ "pvalloc", [](int) { result = pvalloc(large); } },
	{ "free", [](int i) { std::free(blocks[i]); } },
	{ "cfree", [](int i) { cfree_function(blocks[i]); } },
	{ "free_sized", [](int i) { free_sized(blocks[i], large); } },
	{ "free_aligned_sized", [](int i) { free_aligned_sized(blocks[i], 16, large); } },
	{ "new", [](int) { result = ::operator new(large); } },
	{ "new[]", [](int) { result = ::operator new[](large); } },
	{ "nothrow new", [](int) { result = ::operator new(large, std::nothrow); } },
	{ "nothrow new[]", [](int) { result = ::operator new[](large, std::nothrow); } },
	{ "aligned new", [](int) { result = ::operator new(large, wide); } },
	{ "aligned new[]", [](int) { result = ::operator new[](large, wide); } },
	{ "aligned nothrow new",
	  [](int) { result = ::operator new(large, wide, std::nothrow); } },
	{ "aligned nothrow new[]",
	  [](int) { result = ::operator new[](large, wide, std::nothrow); } },
	{ "delete", [](int i) { ::operator delete(blocks[i]); } },
	{ "delete[]", [](int i) { ::operator delete[](blocks[i]); } },
	{ "sized delete", [](int i) { ::operator delete(blocks[i], large); } },
	{ "sized delete[]", [](int i) { ::operator delete[](blocks[i], large); } },
	{ "nothrow delete", [](int i) { ::operator delete(blocks[i], std::nothrow); } },
	{ "nothrow delete[]", [](int i) { ::operator delete[](blocks[i], std::nothrow); } },
	{ "aligned delete", [](int i) { ::operator delete(blocks[i], wide); } },
	{ "aligned delete[]", [](int i) { ::operator delete[](blocks[i], wide); } },
	{ "sized aligned delete", [](int i) { ::operator delete(blocks[i], large, wide); } },
	{ "sized aligned delete[]",
	  [](int i) { ::operator delete[](blocks[i], large, wide); } },
	{ "aligned nothrow delete",
	  [](int i) { ::operator delete(blocks[i], wide, std::nothrow); } },
	{ "aligned nothrow delete[]",
	  [](int i) { ::operator delete[](blocks[i], wide, std::nothrow); } },
};

const face frees_of_null[] = {
	{ "free", [](int) { std::free(nullptr); } },
	{ "cfree", [](int) { cfree_function(nullptr); } },
	{ "free_sized", [](int) { free_sized(nullptr, large); } },
	{ "free_aligned_sized", [](int) { free_aligned_sized(nullptr, 16, large); } },
	{ "delete", [](int) { ::operator delete(blocks[calls]); } },
	{ "sized delete", [](int) { ::operator delete(blocks[calls], large); } },
	{ "aligned delete", [](int) { ::operator delete(blocks[calls], wide); } },
	{ "sized aligned delete", [](int) { ::operator delete(blocks[calls], large, wide); } },
};

void *filled(std::size_t size)
{
	void *p = std::malloc(size);
	CHECK(p, "no memory");
	return std::memset(p, 1, size);
}

void prepare()
{
	for (int i = 0; i < calls; i++) {
		blocks[i] = filled(large);
		objects[i] = filled(small);
	}
	for (char *&p : dirty)
		p = static_cast<char *>(filled(mib));
	for (char *p : dirty)
		std::free(p);
	cfree_function = named<free_function>("cfree");
	free_sized = named<free_sized_function>("free_sized");
	free_aligned_sized = named<free_aligned_sized_function>("free_aligned_sized");
}

// The pages of the freed blocks that are in memory.
long kept()
{
	static unsigned char state[mib / 4096 + 1];
	const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
	long n = 0;

	for (char *p : dirty) {
		char *first = p + (-reinterpret_cast<std::uintptr_t>(p) & (page - 1));

		if (mincore(first, mib - page, state))
			continue; // given back with its addresses
		for (std::size_t i = 0; i < mib / page - 1; i++)
			n += state[i] & 1;
	}
	return n;
}

// A directory has a link for itself, for its name, and for each directory in it.
unsigned long other_threads()
{
	struct stat tasks = {};

	CHECK(!stat("/proc/self/task", &tasks), "/proc/self/task");
	return tasks.st_nlink - 3;
}

[[noreturn]] void try_face(const face &f)
{
	const long before = kept();
	starts = 0;
	for (int i = 0; i < calls; i++) {
		if (!starts_threads)
			usleep(25000);
		errno = untouched;
		f.call(i);
		CHECK(errno == untouched, "%s: errno is %d", f.name, errno);
	}
	if (starts_threads) {
		CHECK(other_threads() == 1, "%s: %lu threads were started", f.name,
		      other_threads());
		CHECK(starts, "%s: nobody wrote errno meanwhile", f.name);
	} else {
		CHECK(kept() < before, "%s: no memory was given back", f.name);
	}
	_exit(0);
}

[[noreturn]] void try_null(const face &f)
{
	const long before = kept();
	starts = 0;
	for (int i = 0; i < 100; i++) {
		if (!starts_threads)
			usleep(2500);
		errno = untouched;
		f.call(i);
		CHECK(errno == untouched, "%s of NULL: errno is %d", f.name, errno);
	}
	CHECK(!starts && kept() == before && !other_threads(),
	      "%s of NULL: %u threads to start, %ld pages given back, %lu threads", f.name,
	      starts.load(), before - kept(), other_threads());
	_exit(0);
}

pid_t in_a_child(const face &f, void (*attempt)(const face &))
{
	const pid_t child = fork();

	CHECK(child >= 0, "%s: no child", f.name);
	if (!child)
		attempt(f);
	return child;
}

} // namespace

extern "C" int pthread_attr_init(pthread_attr_t *attr) noexcept
{
	using function = int(pthread_attr_t *);
	void *libcs = dlsym(RTLD_NEXT, "pthread_attr_init");
	function *next = nullptr;

	std::memcpy(&next, &libcs, sizeof(next));
	starts++;
	const int error = next(attr);
	errno = EDOM;
	return error;
}

int main(int argc, char **argv)
{
	// Without the library this is libc's own malloc, of which the test knows nothing.
	const bool preloaded = std::getenv("LD_PRELOAD") != nullptr;
	std::vector<pid_t> children;

	CHECK(argc == 2, "faces_test thread|memory");
	starts_threads = !std::strcmp(argv[1], "thread");
	prepare();
	if (preloaded) {
		children.reserve(100); // no request between the children
		for (const face &f : faces)
			children.push_back(in_a_child(f, try_face));
		for (const face &f : frees_of_null)
			children.push_back(in_a_child(f, try_null));
	}
	for (const pid_t child : children) {
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child && !status, "status %#x", status);
	}
	std::printf("%zu faces\n", sizeof(faces) / sizeof(faces[0]));
	return 0;
}
