// SPDX-License-Identifier: MIT
//
// libc frees memory while it holds locks that creating a thread takes, too: joining a thread
// with a large stack empties its cache of stacks under the cache's lock. Such a call must not
// be the one that starts the library's background thread. The program's own next call may
// start it, whichever call it is. A signal handler must not start it either, because it may
// have interrupted libc anywhere.
//
// UKMEM_CONF=dirty_decay_ms: more than the test takes.
//
//	background_test REQUEST [handler|blocked|locked]
//
// locked: the program makes the request under a lock for which another thread waits in a
// callback of dl_iterate_phdr, that is under a lock of the dynamic linker's.
//
// Built with TLS_BYTES, it has thread-local variables, for which libc takes room from the stack
// of each thread, also of the library's. Built with WRAPS, it has a pthread_create of its own,
// which takes that lock and counts the program's threads.
//
// REQUEST: free, malloc, calloc, realloc, posix_memalign, new, aligned_new, delete.
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "library_thread.h"

namespace
{

constexpr unsigned int nr_threads = 4;
constexpr std::size_t stack_size = 32 << 20, large = 64 << 20, size = 1 << 20;

pthread_barrier_t all_exist;

#ifdef TLS_BYTES
thread_local volatile char variables[TLS_BYTES];
#endif

void *work(void *)
{
	pthread_barrier_wait(&all_exist);
	return nullptr;
}

// Whether there are @n threads within a while.
bool wait_for_threads(unsigned int n)
{
	for (unsigned int i = 0; i < 2000; i++) {
		if (thread_count() == n)
			return true;
		usleep(5000);
	}
	return false;
}

// The program's next request.
const struct {
	const char *name;
	void *(*call)(void *block);
} requests[] = {
	{ "free",
	  [](void *block) -> void * {
		  std::free(block);
		  return nullptr;
	  } },
	{ "delete",
	  [](void *block) -> void * {
		  ::operator delete(block);
		  return nullptr;
	  } },
	{ "malloc", [](void *) { return std::malloc(size); } },
	{ "calloc", [](void *) { return std::calloc(1, size); } },
	{ "realloc", [](void *block) { return std::realloc(block, size / 2); } },
	{ "posix_memalign",
	  [](void *) {
		  void *p = nullptr;
		  CHECK(!posix_memalign(&p, 256, size), "no memory");
		  return p;
	  } },
	{ "new", [](void *) { return ::operator new(size); } },
	{ "aligned_new",
	  [](void *) { return ::operator new (size, std::align_val_t{ 256 }); } },
};

void call(const char *name, void *block)
{
	for (const auto &request : requests)
		if (!std::strcmp(name, request.name)) {
			request.call(block);
			return;
		}
	CHECK(false, "there is no request '%s'", name);
}

const char *in_handler;
char *handlers_block;

void on_signal(int)
{
	call(in_handler, handlers_block);
}

// The same request, by a handler, and then some of its thread's own.
void call_in_handler(const char *name, char *block)
{
	in_handler = name;
	handlers_block = block;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	if (std::getenv("LD_PRELOAD"))
		CHECK(thread_count() == 1, "a handler has created a thread");
	for (int i = 0; i < 100; i++) {
		std::free(std::malloc(size));
		usleep(1000);
	}
}

// By a thread that takes its signals elsewhere: it is no handler, as is seen after a while.
void call_blocked(const char *name, char *block)
{
	sigset_t set;

	signal(SIGUSR1, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, nullptr), "mask");
	call(name, block);
	if (!std::getenv("LD_PRELOAD"))
		return;
	CHECK(thread_count() == 1, "it could be a handler");
	for (int i = 0; i < 8000 && thread_count() == 1; i++) {
		std::free(std::malloc(size));
		usleep(1000);
	}
}

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> is_locked, is_inside;

int wait_inside(dl_phdr_info *, std::size_t, void *)
{
	is_inside = true;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return 1;
}

void *iterate(void *)
{
	while (!is_locked)
		usleep(100);
	dl_iterate_phdr(wait_inside, nullptr);
	return nullptr;
}

void call_locked(const char *name, char *block)
{
	pthread_t other;

	alarm(60);
	CHECK(!pthread_create(&other, nullptr, iterate, nullptr), "no thread");
	pthread_mutex_lock(&lock);
	is_locked = true;
	while (!is_inside)
		usleep(100);
	call(name, block);
	pthread_mutex_unlock(&lock);
	pthread_join(other, nullptr);
}

} // namespace

#ifdef WRAPS
namespace
{

unsigned int created;

} // namespace

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg) noexcept
{
	void *symbol = dlsym(RTLD_NEXT, "pthread_create");
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	std::memcpy(&next, &symbol, sizeof(next));
	pthread_mutex_lock(&lock);
	created++;
	int error = next(id, attr, run, arg);
	pthread_mutex_unlock(&lock);
	return error;
}
#endif

int main(int argc, char **argv)
{
	char *block = static_cast<char *>(std::malloc(large));
	pthread_t ids[nr_threads];
	pthread_attr_t attr;

	CHECK(argc >= 2 && block, "usage: %s REQUEST [handler|blocked|locked]", argv[0]);
#ifdef TLS_BYTES
	variables[1] = 1;
#endif
	std::memset(block, 1, large);
	// Given back in the background where there are threads, and not where there is one.
	block = static_cast<char *>(std::realloc(block, size));
	pthread_barrier_init(&all_exist, nullptr, nr_threads);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_size);
	for (pthread_t &id : ids)
		CHECK(!pthread_create(&id, &attr, work, nullptr), "no thread");
	CHECK(wait_for_threads(1), "they do not end");
	for (pthread_t id : ids)
		CHECK(!pthread_join(id, nullptr), "no join");
	std::printf("joined\n");
	if (argc > 2 && !std::strcmp(argv[2], "handler"))
		call_in_handler(argv[1], block);
	else if (argc > 2 && !std::strcmp(argv[2], "locked"))
		call_locked(argv[1], block);
	else if (argc > 2)
		call_blocked(argv[1], block);
	else
		call(argv[1], block);
	if (std::getenv("LD_PRELOAD"))
		CHECK(wait_for_threads(2), "no background thread");
#ifdef WRAPS
	std::printf("the program created %u threads\n", created);
#endif
	return 0;
}
