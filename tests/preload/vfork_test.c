/* SPDX-License-Identifier: MIT */
/*
 * Children of vfork that allocate, while other threads of their parent do, too.
 *
 *	vfork_test CHILDREN [ERRNO|clone]
 *
 * Each child goes to another CPU than its parent was on, frees, moves and replaces blocks that
 * the parent allocated, and ends by exec or _exit. Every block is stamped at both ends, so that
 * one that is handed out twice, or changed by who does not own it, is noticed; at the end all
 * memory must be free again. With ERRNO a filter refuses the system call rseq with it, to the
 * first thread: libc does not create threads without. With "clone" children come by that
 * function, with the flags that vfork stands for.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "preload_test.h"
#include "seccomp_filter.h"

enum { STORMS = 4, PARENTS = 2, KEPT = 64, CHILD_STEPS = 500, LOST_MAX = 256 << 10 };

struct stamp {
	uint64_t owner;
	size_t size;
};

/* Blocks of one thread, or of the child it waits for. */
struct set {
	uint64_t rng, number;
	size_t children, left;
	int parent_cpu;
	unsigned char *kept[KEPT];
	char stack[256 << 10] __attribute__((aligned(16))); /* of children by clone() */
};

static struct set sets[STORMS + PARENTS];
static cpu_set_t allowed;
static atomic_bool stop;
static bool by_clone;

static uint64_t owner_of(const struct set *s, size_t slot)
{
	return s->number << 32 | slot;
}

static void stamp(const struct set *s, size_t slot, size_t size)
{
	unsigned char *p = s->kept[slot];

	CHECK(p, "no memory for %zu bytes", size);
	memcpy(p, &(struct stamp){ owner_of(s, slot), size }, sizeof(struct stamp));
	p[size - 1] = (unsigned char)(slot + s->number);
}

static void check(const struct set *s, size_t slot)
{
	const unsigned char *p = s->kept[slot];
	struct stamp was;

	if (!p)
		return;
	memcpy(&was, p, sizeof(was));
	CHECK(was.owner == owner_of(s, slot), "block %zu of set %lu belongs to %#lx", slot,
	      (unsigned long)s->number, (unsigned long)was.owner);
	CHECK(p[was.size - 1] == (unsigned char)(slot + s->number), "the end of %zu bytes",
	      was.size);
}

/* Something is done to one of the blocks. */
static void step(struct set *s)
{
	size_t slot = (size_t)rng_below(&s->rng, KEPT);
	size_t size = sizeof(struct stamp) + rng_size(&s->rng, 1 << 18);

	check(s, slot);
	switch (rng_below(&s->rng, 4)) {
	case 0:
		free(s->kept[slot]);
		s->kept[slot] = NULL;
		return;
	case 1:
		s->kept[slot] = realloc(s->kept[slot], size);
		break;
	default:
		free(s->kept[slot]);
		s->kept[slot] = malloc(size);
	}
	stamp(s, slot, size);
}

static void free_all(struct set *s)
{
	for (size_t slot = 0; slot < KEPT; slot++) {
		check(s, slot);
		free(s->kept[slot]);
		s->kept[slot] = NULL;
	}
}

static void *storm(void *set)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		step(set);
	free_all(set);
	return NULL;
}

/* To the next CPU, if there is one. */
static bool leave_cpu(int cpu)
{
	cpu_set_t one;
	int to = cpu;

	do
		to = (to + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(to, &allowed));
	CPU_ZERO(&one);
	CPU_SET(to, &one);
	return !sched_setaffinity(0, sizeof(one), &one);
}

__attribute__((noinline, noreturn)) static void run_child(struct set *s)
{
	static char name[] = "true";
	char *argv[] = { name, NULL };

	CHECK(leave_cpu(s->parent_cpu), "sched_setaffinity");
	for (size_t i = 0; i < CHILD_STEPS; i++)
		step(s);
	if (s->left % 4 == 0)
		execv("/bin/true", argv);
	_exit(0);
}

static int run_cloned_child(void *set)
{
	run_child(set);
}

static pid_t start_child(struct set *s)
{
	pid_t pid;

	if (by_clone)
		return clone(run_cloned_child, s->stack + sizeof(s->stack),
			     CLONE_VM | CLONE_VFORK | SIGCHLD, s);
	pid = vfork();

	if (!pid)
		run_child(s);
	return pid;
}

/* Whether libc's registration for rseq is in force. */
static bool is_registered(void)
{
#ifdef RSEQ_SIG
	const char *area = (const char *)__builtin_thread_pointer() + __rseq_offset;
	int cpu_id;

	memcpy(&cpu_id, area + offsetof(struct rseq, cpu_id), sizeof(cpu_id));
	return cpu_id >= 0;
#else
	return false;
#endif
}

static void *start_children(void *set)
{
	struct set *s = set;

	for (s->left = s->children; s->left; s->left--) {
		bool registered = is_registered();
		int status = 0;
		pid_t pid;

		for (size_t i = 0; i < KEPT; i++)
			step(s);
		s->parent_cpu = sched_getcpu();
		pid = start_child(s);
		CHECK(pid > 0, "vfork");
		CHECK(is_registered() == registered, "the parent's registration");
		CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
		CHECK(status == 0, "a child ended with %#x", (unsigned int)status);
	}
	free_all(s);
	return NULL;
}

static bool refuse(unsigned int call, unsigned int error)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,
		ANSWER_TO(call, ERROR(error)),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	return INSTALL(filter);
}

/* Where vfork is a system call of its own, it can be made to fail. */
static void check_failure(void)
{
#ifdef SYS_vfork
	bool registered = is_registered();

	if (!refuse(SYS_vfork, EAGAIN))
		return;
	errno = 0;
	CHECK(start_child(&sets[0]) == -1 && errno == EAGAIN, "errno %d", errno);
	CHECK(is_registered() == registered, "the parent's registration");
#endif
}

int main(int argc, char **argv)
{
	size_t children = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, in_use, lost;
	pthread_t threads[STORMS + PARENTS];

	CHECK(children, "usage: %s CHILDREN [ERRNO|clone]", argv[0]);
	by_clone = argc > 2 && !strcmp(argv[2], "clone");
	alarm(120);
	CHECK(!sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	in_use = mallinfo2().uordblks;
	for (size_t i = 0; i < STORMS + PARENTS; i++) {
		sets[i].number = sets[i].rng = i + 1;
		sets[i].children = children;
		if (i) /* this thread is one of them, too */
			CHECK(!pthread_create(&threads[i], NULL,
					      i < PARENTS ? start_children : storm, &sets[i]),
			      "no thread");
	}
	if (argc > 2 && !by_clone && !refuse(SYS_rseq, (unsigned int)atoi(argv[2]))) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	start_children(&sets[0]);
	for (size_t i = 1; i < STORMS + PARENTS; i++) {
		if (i == PARENTS)
			atomic_store(&stop, true);
		pthread_join(threads[i], NULL);
	}
	lost = mallinfo2().uordblks - in_use;
	CHECK((ptrdiff_t)lost < LOST_MAX, "%zd bytes are still in use", (ptrdiff_t)lost);
	if (argc == 2) /* with a refusal vfork is another system call */
		check_failure();
	printf("%zu children\n", PARENTS * children);
	return 0;
}
