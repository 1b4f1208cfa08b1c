/* SPDX-License-Identifier: MIT */
/*
 * Two threads fork all the time while eight others allocate in all sizes, by C and C++ and
 * from within stdio.
 *
 *	fork_soak [FORKS | SECONDSs]
 *
 * Without an argument for some seconds, with UKMEM_CHECK=full for a minute. The children
 * allocate, read and write, start threads, fork again, exec or exit; posix_spawn, system and
 * popen are among them. If a thread stands still for longer than the deadline, the program
 * names it and each thread's step, and the run has failed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "preload_test.h"

extern char **environ;

namespace
{

enum { STORMS = 8, FORKERS = 2, WORKERS = STORMS + FORKERS, DEADLINE = 30 };

/* The step that a worker is at, and how many it has begun. */
struct Worker {
	std::atomic<const char *> what{ "nothing yet" };
	std::atomic<unsigned long> begun{ 0 };
	std::atomic<bool> done{ false };
	uint64_t rng;

	void begin(const char *now)
	{
		what = now;
		begun++;
	}
};

Worker workers[WORKERS];
std::atomic<bool> stop;
std::atomic<long> forks, forks_wanted;
char lines_path[32];

/* Not dprintf, which waits for the list of streams, as those may do who stand still. */
__attribute__((format(printf, 1, 2))) void say(const char *fmt, ...)
{
	char text[200];
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (write(STDERR_FILENO, text, static_cast<size_t>(n)) < 0)
		_exit(2);
}

/* Kills the children, too, because they may stand still. */
[[noreturn]] void end_all()
{
	kill(0, SIGKILL);
	_exit(1);
}

/* Makes a file of lines of lower-case letters. They are so long that getline, which holds the
 * stream's lock, makes its buffer grow from a size class to whole pages. */
void make_lines()
{
	int fd = memfd_create("lines", MFD_CLOEXEC);
	std::string text;

	CHECK(fd >= 0, "memfd_create");
	snprintf(lines_path, sizeof(lines_path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < 26; i++)
		text += std::string(i * i * 300, static_cast<char>('a' + i)) + "\n";
	CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
	      "write");
}

void use_malloc(uint64_t *rng)
{
	struct {
		unsigned char *p;
		size_t size;
	} kept[16] = {};

	for (int i = 0; i < 200; i++) {
		auto &k = kept[rng_below(rng, 16)];
		size_t size = rng_size(rng, 1 << 22);

		if (k.p)
			CHECK(k.p[0] == static_cast<unsigned char>(k.size) &&
				      k.p[k.size - 1] == k.p[0],
			      "a block of %zu bytes has changed", k.size);
		if (rng_below(rng, 3)) {
			free(k.p);
			k.p = static_cast<unsigned char *>(rng_below(rng, 2) ? malloc(size)
									     : calloc(1, size));
		} else {
			k.p = static_cast<unsigned char *>(realloc(k.p, size));
		}
		CHECK(k.p, "no memory for %zu bytes", size);
		k.size = size;
		k.p[0] = k.p[size - 1] = static_cast<unsigned char>(size);
	}
	for (auto &k : kept)
		free(k.p);
}

void use_cxx(uint64_t *rng)
{
	std::map<size_t, std::string> map;
	std::vector<std::unique_ptr<char[]>> blocks;

	for (int i = 0; i < 100; i++) {
		size_t size = rng_size(rng, 1 << 16);

		map[size] = std::string(size % 500, 'x');
		blocks.emplace_back(new char[size]);
		blocks.back()[0] = 1;
	}
	for (auto &[size, text] : map)
		CHECK(text == std::string(size % 500, 'x'), "a string has changed");
}

/* A child that exits may move the place in a file that it shares, so lines may be torn. */
void use_getline()
{
	FILE *file = fopen(lines_path, "re");
	char *line = nullptr;
	size_t size = 0;

	CHECK(file, "fopen");
	for (ssize_t n; (n = getline(&line, &size, file)) > 0;)
		for (ssize_t i = 0; i < n; i += 1 + n / 100)
			CHECK(line[i] == '\n' || (line[i] >= 'a' && line[i] <= 'z'),
			      "a line has changed");
	free(line);
	fclose(file);
}

void use_stdio(uint64_t *rng)
{
	FILE *file = tmpfile();
	char *text = nullptr;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);

	CHECK(file && memory, "no stream");
	for (int i = 0; i < 50; i++) {
		fprintf(file, "%d %.*f\n", i, static_cast<int>(rng_below(rng, 300)), 1.0 / i);
		fprintf(memory, "%04d\n", i);
	}
	fclose(file);
	fclose(memory);
	CHECK(size == 250 && !memcmp(text + 245, "0049\n", 5), "%zu bytes in memory", size);
	free(text);
}

void use_all(uint64_t *rng)
{
	use_malloc(rng);
	use_cxx(rng);
	use_getline();
	use_stdio(rng);
	fflush(nullptr);
}

void *storm(void *arg)
{
	auto number = reinterpret_cast<uintptr_t>(arg);
	Worker &w = workers[number];

	while (!stop)
		switch (number) {
		case 0:
			w.begin("malloc");
			use_malloc(&w.rng);
			break;
		case 1:
			w.begin("operator new");
			use_cxx(&w.rng);
			break;
		case 2:
			w.begin("fflush(NULL)");
			fflush(nullptr);
			break;
		case 3:
			w.begin("tmpfile, fprintf");
			use_stdio(&w.rng);
			break;
		default:
			w.begin("getline");
			use_getline();
		}
	w.done = true;
	return nullptr;
}

void *thread_of_child(void *arg)
{
	uint64_t rng = reinterpret_cast<uintptr_t>(arg) + 1;

	use_all(&rng);
	return nullptr;
}

/* The process must end by itself, with 0, before the deadline. */
void wait_for(pid_t pid, const char *kind)
{
	time_t begin = time(nullptr);
	int status;
	pid_t is;

	CHECK(pid > 0, "%s: no process", kind);
	for (useconds_t pause = 50; !(is = waitpid(pid, &status, WNOHANG));
	     pause = pause < 5000 ? 2 * pause : pause) {
		if (time(nullptr) - begin > DEADLINE) {
			say("child %d (%s) stands still\n", pid, kind);
			end_all();
		}
		usleep(pause);
	}
	CHECK(is == pid, "%s: waitpid", kind);
	CHECK(!WIFSIGNALED(status), "%s: child %d was killed by signal %d", kind, pid,
	      WTERMSIG(status));
	CHECK(!WEXITSTATUS(status), "%s: child %d exits with %d", kind, pid,
	      WEXITSTATUS(status));
}

char true_path[] = "/bin/true";
char *const true_argv[] = { true_path, nullptr };

[[noreturn]] void allocate_and_end(uint64_t *rng)
{
	use_malloc(rng);
	use_cxx(rng);
	_exit(0);
}

/* Without the stdio of others: what they had not written is written once more. */
[[noreturn]] void exit_with_handlers(uint64_t *rng)
{
	use_all(rng);
	exit(0);
}

[[noreturn]] void start_threads(uint64_t *rng)
{
	pthread_t threads[3];

	for (auto &t : threads)
		CHECK(!pthread_create(&t, nullptr, thread_of_child,
				      reinterpret_cast<void *>(rng_next(rng))),
		      "no thread");
	use_all(rng);
	for (auto &t : threads)
		pthread_join(t, nullptr);
	_exit(0);
}

[[noreturn]] void fork_again(uint64_t *rng)
{
	use_malloc(rng);
	pid_t pid = fork();
	if (!pid)
		start_threads(rng);
	use_all(rng);
	wait_for(pid, "grandchild");
	_exit(0);
}

[[noreturn]] void execute(uint64_t *rng)
{
	use_malloc(rng);
	execv(true_path, true_argv);
	_exit(2);
}

const struct {
	const char *name;
	void (*run)(uint64_t *rng);
} children[] = {
	{ "fork, allocate", allocate_and_end },
	{ "fork, exit", exit_with_handlers },
	{ "fork, pthread_create", start_threads },
	{ "fork, fork", fork_again },
	{ "fork, exec", execute },
};

void fork_child(Worker &w, size_t kind)
{
	w.begin(children[kind].name);
	uint64_t rng = rng_next(&w.rng);
	pid_t pid = fork();
	if (!pid)
		children[kind].run(&rng);
	wait_for(pid, children[kind].name);
}

void spawn_others(Worker &w, size_t kind)
{
	pid_t pid;
	char text[8] = "";
	FILE *pipe;

	switch (kind) {
	case 0:
		w.begin("posix_spawn");
		CHECK(!posix_spawn(&pid, true_path, nullptr, nullptr, true_argv, environ),
		      "posix_spawn");
		wait_for(pid, "posix_spawn");
		break;
	case 1:
		w.begin("system");
		CHECK(system("exit 7") == 7 << 8, "system");
		break;
	default:
		w.begin("popen");
		pipe = popen("echo here", "re");
		CHECK(pipe && fgets(text, sizeof(text), pipe) && !strcmp(text, "here\n"),
		      "popen: '%s'", text);
		CHECK(!pclose(pipe), "pclose");
	}
}

void *forker(void *arg)
{
	Worker &w = workers[reinterpret_cast<uintptr_t>(arg)];

	while (!stop && forks < forks_wanted) {
		size_t kind = static_cast<size_t>(rng_below(&w.rng, 40));

		/* Programs that are executed take their time: fewer of them. */
		if (kind < 3)
			spawn_others(w, kind);
		else
			fork_child(w, kind == 3 ? 4 : kind % 4);
		forks++;
	}
	w.done = true;
	return nullptr;
}

/* Allocates nothing, and takes part in nothing. */
void *watch(void *)
{
	unsigned long seen[WORKERS] = {};
	time_t moved[WORKERS];

	for (auto &t : moved)
		t = time(nullptr);
	for (;;) {
		for (unsigned i = 0; i < WORKERS; i++) {
			if (workers[i].begun != seen[i] || workers[i].done) {
				seen[i] = workers[i].begun;
				moved[i] = time(nullptr);
			}
			if (time(nullptr) - moved[i] <= DEADLINE + 10)
				continue;
			for (auto &w : workers)
				say("%s %ld: %s%s\n",
				    &w - workers < STORMS ? "thread" : "forker",
				    static_cast<long>(&w - workers),
				    w.done ? "done" : w.what.load(),
				    &w == &workers[i] ? ", stands still" : "");
			say("after %ld forks\n", forks.load());
			end_all();
		}
		usleep(200000);
	}
	return nullptr;
}

void *end_after(void *seconds)
{
	sleep(static_cast<unsigned>(reinterpret_cast<uintptr_t>(seconds)));
	stop = true;
	return nullptr;
}

void start(void *(*function)(void *), uintptr_t arg, pthread_t *thread)
{
	CHECK(!pthread_create(thread, nullptr, function, reinterpret_cast<void *>(arg)),
	      "no thread");
}

} // namespace

int main(int argc, char **argv)
{
	pthread_t threads[STORMS + 1], aside;
	char *end;

	const char *full = getenv("UKMEM_CHECK");
	const char *how_long = full && !strcmp(full, "full") ? "60s" : "3s";

	if (argc > 1)
		how_long = argv[1];
	long number = strtol(how_long, &end, 10);
	CHECK(number > 0 && (!*end || !strcmp(end, "s")), "usage: %s [FORKS | SECONDSs]",
	      argv[0]);
	forks_wanted = *end ? INT64_MAX : number;
	setpgid(0, 0); /* end_all() */
	make_lines();
	for (uintptr_t i = 0; i < WORKERS; i++)
		workers[i].rng = i + 1;
	start(watch, 0, &aside);
	if (*end)
		start(end_after, static_cast<uintptr_t>(number), &aside);
	for (uintptr_t i = 0; i < STORMS; i++)
		start(storm, i, &threads[i]);
	start(forker, STORMS, &threads[STORMS]);
	forker(reinterpret_cast<void *>(STORMS + 1));
	pthread_join(threads[STORMS], nullptr);
	stop = true;
	for (size_t i = 0; i < STORMS; i++)
		pthread_join(threads[i], nullptr);
	verify_library();
	if (getenv("FORK_SOAK_COUNT"))
		printf("%ld forks\n", forks.load());
	puts("nobody stood still");
	return 0;
}
