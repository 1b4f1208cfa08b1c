/* SPDX-License-Identifier: MIT */
/*
 * The functions of shim.h. They follow one rule: what cannot be done ends the test with status
 * 1 and a line that says what.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <locale.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

unsigned int test_verbose;
const char *test_dir = "/tmp";

/* Shared with children, whose failures are the test's. */
static int *failures;

__attribute__((constructor)) static void support_start(void)
{
	const char *dir = getenv("TMPDIR");

	if (dir)
		test_dir = dir;
	failures = mmap(NULL, sizeof(*failures), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (failures == MAP_FAILED)
		_exit(1);
}

#define NEED(what)                                                                             \
	((what) ? (void)0 : FAIL_EXIT1("%s: %s: %s", __func__, #what, strerror(errno)))
/* For functions that return an error number. */
#define NEED_ZERO(call)                                                                        \
	do {                                                                                   \
		int error = (call);                                                            \
		if (error)                                                                     \
			FAIL_EXIT1("%s: %s", #call, strerror(error));                          \
	} while (0)

/* Failures */

void support_record_failure(void)
{
	__atomic_add_fetch(failures, 1, __ATOMIC_RELAXED);
}

void support_record_failure_reset(void)
{
	*failures = 0;
}

int support_record_failure_is_failed(void)
{
	return *failures != 0;
}

int support_report_failure(int status)
{
	return status == 0 && *failures ? 1 : status;
}

static void say(const char *file, int line, const char *format, va_list args)
{
	/* One write, and no memory from malloc, which may be what fails. */
	char text[2048];
	int used = snprintf(text, sizeof(text), "%s:%d: ", file, line);

	vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format, args);
	strcat(text, "\n");
	write_message(text);
}

void support_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(file, line, format, args);
	va_end(args);
	support_record_failure();
}

void support_fail_exit(const char *file, int line, int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(file, line, format, args);
	va_end(args);
	exit(status);
}

void support_compare(const char *file, int line, const char *texts, long long left,
		     long long right)
{
	if (left != right)
		support_fail(file, line, "%s: %lld and %lld (%#llx and %#llx)", texts, left,
			     right, (unsigned long long)left, (unsigned long long)right);
}

void support_compare_blobs(const char *file, int line, const char *texts, const void *left,
			   size_t left_size, const void *right, size_t right_size)
{
	if (left_size != right_size || (left_size && memcmp(left, right, left_size)))
		support_fail(file, line, "%s differ; %zu and %zu bytes", texts, left_size,
			     right_size);
}

void support_compare_strings(const char *file, int line, const char *left, const char *right)
{
	if ((left && right) ? strcmp(left, right) != 0 : left != right)
		support_fail(file, line, "\"%s\" and \"%s\"", left ? left : "(null)",
			     right ? right : "(null)");
}

void support_compare_wide(const char *file, int line, const wchar_t *left, const wchar_t *right)
{
	if ((left && right) ? wcscmp(left, right) != 0 : left != right)
		support_fail(file, line, "\"%ls\" and \"%ls\"", left ? left : L"(null)",
			     right ? right : L"(null)");
}

void write_message(const char *message)
{
	ssize_t written = write(STDERR_FILENO, message, strlen(message));

	(void)written;
}

void ignore_stderr(void)
{
	xdup2(xopen("/dev/null", O_WRONLY, 0), STDERR_FILENO);
}

/* Memory, strings, streams */

void *xmalloc(size_t size)
{
	void *p = malloc(size);

	NEED(p);
	return p;
}

void *xcalloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	NEED(p);
	return p;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size);
	NEED(p || size == 0);
	return p;
}

void *xposix_memalign(size_t alignment, size_t size)
{
	void *p;

	NEED_ZERO(posix_memalign(&p, alignment, size));
	return p;
}

char *xstrdup(const char *s)
{
	char *copy = strdup(s);

	NEED(copy);
	return copy;
}

char *xstrndup(const char *s, size_t size)
{
	char *copy = strndup(s, size);

	NEED(copy);
	return copy;
}

char *xasprintf(const char *format, ...)
{
	char *text;
	int length;
	va_list args;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	NEED(length >= 0);
	return text;
}

char *xsetlocale(int category, const char *locale)
{
	char *name = setlocale(category, locale);

	if (!name)
		FAIL_UNSUPPORTED("no locale %s", locale);
	return name;
}

FILE *xfopen(const char *path, const char *mode)
{
	FILE *f = fopen(path, mode);

	NEED(f);
	return f;
}

void xfclose(FILE *f)
{
	NEED(fclose(f) == 0);
}

void xopen_memstream(struct xmemstream *stream)
{
	stream->out = open_memstream(&stream->buffer, &stream->length);
	NEED(stream->out);
}

void xfclose_memstream(struct xmemstream *stream)
{
	xfclose(stream->out);
	stream->out = NULL;
}

char *support_quote_blob(const void *blob, size_t size)
{
	const unsigned char *bytes = blob;
	char *text = xmalloc(4 * size + 1), *end = text;

	for (size_t i = 0; i < size; i++)
		end += sprintf(end, "\\%03o", bytes[i]);
	*end = 0;
	return text;
}

void support_write_file_string(const char *path, const char *contents)
{
	FILE *f = xfopen(path, "w");

	NEED(fputs(contents, f) >= 0);
	xfclose(f);
}

/* The size lies in front of what is handed out. */
void *support_shared_allocate(size_t size)
{
	size_t *p = mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);

	NEED(p != MAP_FAILED);
	*p = size + 64;
	return (char *)p + 64;
}

void support_shared_free(void *p)
{
	char *start = (char *)p - 64;

	NEED(munmap(start, *(size_t *)start) == 0);
}

/* Processes */

void support_isolate_in_subprocess(void (*callback)(void *), void *closure)
{
	int status;
	pid_t pid = xfork();

	if (pid == 0) {
		callback(closure);
		_exit(0);
	}
	xwaitpid(pid, &status, 0);
	if (status)
		FAIL_EXIT1("a child ended with status %#x", (unsigned int)status);
}

/* Reads @fd to its end, or what is there, into @stream. */
static void drain(int fd, struct xmemstream *stream)
{
	char bytes[4096];
	ssize_t length;

	xopen_memstream(stream);
	NEED(lseek(fd, 0, SEEK_SET) == 0);
	while ((length = read(fd, bytes, sizeof(bytes))) > 0)
		fwrite(bytes, 1, (size_t)length, stream->out);
	xfclose_memstream(stream);
	xclose(fd);
}

static int unnamed_file(void)
{
	int fd = memfd_create("captured", MFD_CLOEXEC);

	NEED(fd >= 0);
	return fd;
}

/* The child writes to files, so that neither waits for the other. */
struct support_capture_subprocess support_capture_subprocess(void (*callback)(void *),
							     void *closure)
{
	struct support_capture_subprocess run;
	int out = unnamed_file(), err = unnamed_file();
	pid_t pid;

	fflush(NULL);
	pid = xfork();
	if (pid == 0) {
		xdup2(out, STDOUT_FILENO);
		xdup2(err, STDERR_FILENO);
		callback(closure);
		fflush(NULL);
		_exit(0);
	}
	xwaitpid(pid, &run.status, 0);
	drain(out, &run.out);
	drain(err, &run.err);
	return run;
}

void support_capture_subprocess_free(struct support_capture_subprocess *run)
{
	free(run->out.buffer);
	free(run->err.buffer);
}

/* @status_or_signal: an exit status, or a signal's number, negative. */
void support_capture_subprocess_check(struct support_capture_subprocess *run,
				      const char *context, int status_or_signal, int allowed)
{
	int status =
		WIFSIGNALED(run->status) ? -WTERMSIG(run->status) : WEXITSTATUS(run->status);

	if (status != status_or_signal)
		FAIL("%s: ended with %d, not %d: %s%s", context, status, status_or_signal,
		     run->out.buffer, run->err.buffer);
	if (!(allowed & sc_allow_stdout) && run->out.length)
		FAIL("%s: printed %s", context, run->out.buffer);
	if (!(allowed & sc_allow_stderr) && run->err.length)
		FAIL("%s: printed on stderr %s", context, run->err.buffer);
}

pid_t xfork(void)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	return pid;
}

pid_t xwaitpid(pid_t pid, int *status, int flags)
{
	pid_t found = waitpid(pid, status, flags);

	NEED(found >= 0);
	return found;
}

/* Files. Those of create_temp_file() and their like lie in a folder that suite.py removes. */

void add_temp_file(const char *path)
{
	(void)path;
}

int create_temp_file_in_dir(const char *base, const char *dir, char **path)
{
	char *name = xasprintf("%s/%sXXXXXX", dir, base);
	int fd = mkstemp(name);

	NEED(fd >= 0);
	if (path)
		*path = name;
	else
		free(name);
	return fd;
}

int create_temp_file(const char *base, char **path)
{
	return create_temp_file_in_dir(base, test_dir, path);
}

char *support_create_temp_directory(const char *base)
{
	char *name = xasprintf("%s/%sXXXXXX", test_dir, base);

	NEED(mkdtemp(name));
	return name;
}

int xopen(const char *path, int flags, mode_t mode)
{
	int fd = open(path, flags, mode);

	NEED(fd >= 0);
	return fd;
}

void xread(int fd, void *p, size_t size)
{
	for (ssize_t done; size; size -= (size_t)done, p = (char *)p + done) {
		done = read(fd, p, size);
		NEED(done > 0);
	}
}

void xwrite(int fd, const void *p, size_t size)
{
	for (ssize_t done; size; size -= (size_t)done, p = (const char *)p + done) {
		done = write(fd, p, size);
		NEED(done > 0);
	}
}

off_t xlseek(int fd, off_t offset, int whence)
{
	off_t at = lseek(fd, offset, whence);

	NEED(at >= 0);
	return at;
}

char *xreadlink(const char *path)
{
	char target[PATH_MAX];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	NEED(length >= 0);
	target[length] = 0;
	return xstrdup(target);
}

long xsysconf(int name)
{
	long value = sysconf(name);

	NEED(value >= 0);
	return value;
}

void *xmmap(void *address, size_t size, int protection, int flags, int fd)
{
	void *p = mmap(address, size, protection, flags, fd, 0);

	NEED(p != MAP_FAILED);
	return p;
}

/* CALL(x, NAME, (parameters), (arguments)): xNAME, which ends the test unless NAME returns 0.
 * RESULT: NAME returns something else when it succeeds. */
#define CALL(name, parameters, arguments)                                                      \
	void x##name parameters                                                                \
	{                                                                                      \
		NEED(name arguments >= 0);                                                     \
	}
CALL(pipe, (int fds[2]), (fds))
CALL(dup2, (int from, int to), (from, to))
CALL(close, (int fd), (fd))
CALL(ftruncate, (int fd, off_t size), (fd, size))
CALL(stat, (const char *path, struct stat *st), (path, st))
CALL(lstat, (const char *path, struct stat *st), (path, st))
CALL(fstat, (int fd, struct stat *st), (fd, st))
CALL(mkdir, (const char *path, mode_t mode), (path, mode))
CALL(chdir, (const char *path), (path))
CALL(chmod, (const char *path, mode_t mode), (path, mode))
CALL(fchmod, (int fd, mode_t mode), (fd, mode))
CALL(unlink, (const char *path), (path))
CALL(symlink, (const char *target, const char *path), (target, path))
CALL(munmap, (void *address, size_t size), (address, size))
CALL(mprotect, (void *address, size_t size, int protection), (address, size, protection))
CALL(raise, (int signal), (signal))
CALL(sigaction, (int signal, const struct sigaction *action, struct sigaction *old),
     (signal, action, old))
CALL(clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))

void xsignal(int number, void (*handler)(int))
{
	NEED(signal(number, handler) != SIG_ERR);
}

/* Libraries */

void *xdlopen(const char *path, int flags)
{
	void *handle = dlopen(path, flags);

	if (!handle)
		FAIL_EXIT1("%s", dlerror());
	return handle;
}

void *xdlsym(void *handle, const char *name)
{
	const char *error;
	void *p;

	dlerror();
	p = dlsym(handle, name);
	error = dlerror();
	if (error)
		FAIL_EXIT1("%s", error);
	return p;
}

void xdlclose(void *handle)
{
	if (dlclose(handle))
		FAIL_EXIT1("%s", dlerror());
}

/* Threads */

pthread_t xpthread_create(pthread_attr_t *attr, void *(*function)(void *), void *closure)
{
	pthread_t thread;

	NEED_ZERO(pthread_create(&thread, attr, function, closure));
	return thread;
}

void *xpthread_join(pthread_t thread)
{
	void *result;

	NEED_ZERO(pthread_join(thread, &result));
	return result;
}

int xpthread_barrier_wait(pthread_barrier_t *barrier)
{
	int result = pthread_barrier_wait(barrier);

	if (result && result != PTHREAD_BARRIER_SERIAL_THREAD)
		FAIL_EXIT1("pthread_barrier_wait: %s", strerror(result));
	return result == PTHREAD_BARRIER_SERIAL_THREAD;
}

#define THREAD_CALL(name, parameters, arguments)                                               \
	void x##name parameters                                                                \
	{                                                                                      \
		NEED_ZERO(name arguments);                                                     \
	}
THREAD_CALL(pthread_detach, (pthread_t thread), (thread))
THREAD_CALL(pthread_cancel, (pthread_t thread), (thread))
THREAD_CALL(pthread_kill, (pthread_t thread, int signal), (thread, signal))
THREAD_CALL(pthread_once, (pthread_once_t * once, void (*function)(void)), (once, function))
THREAD_CALL(pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
THREAD_CALL(pthread_barrier_init,
	    (pthread_barrier_t * barrier, pthread_barrierattr_t *attr, unsigned int count),
	    (barrier, attr, count))
THREAD_CALL(pthread_barrier_destroy, (pthread_barrier_t * barrier), (barrier))
THREAD_CALL(pthread_barrierattr_init, (pthread_barrierattr_t * attr), (attr))
THREAD_CALL(pthread_barrierattr_setpshared, (pthread_barrierattr_t * attr, int shared),
	    (attr, shared))
THREAD_CALL(pthread_barrierattr_destroy, (pthread_barrierattr_t * attr), (attr))
THREAD_CALL(pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *attr),
	    (mutex, attr))
THREAD_CALL(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
THREAD_CALL(pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
THREAD_CALL(pthread_mutex_destroy, (pthread_mutex_t * mutex), (mutex))
THREAD_CALL(pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), (cond, mutex))
THREAD_CALL(pthread_attr_init, (pthread_attr_t * attr), (attr))
THREAD_CALL(pthread_attr_destroy, (pthread_attr_t * attr), (attr))
THREAD_CALL(pthread_attr_setdetachstate, (pthread_attr_t * attr, int state), (attr, state))
THREAD_CALL(pthread_attr_setstacksize, (pthread_attr_t * attr, size_t size), (attr, size))
THREAD_CALL(pthread_attr_setstack, (pthread_attr_t * attr, void *stack, size_t size),
	    (attr, stack, size))
THREAD_CALL(pthread_attr_setguardsize, (pthread_attr_t * attr, size_t size), (attr, size))

size_t support_small_thread_stack_size(void)
{
	return (size_t)PTHREAD_STACK_MIN + 64 * 1024;
}

void support_set_small_thread_stack_size(pthread_attr_t *attr)
{
	xpthread_attr_setstacksize(attr, support_small_thread_stack_size());
}

pthread_attr_t *support_small_stack_thread_attribute(void)
{
	static pthread_attr_t attr;

	xpthread_attr_init(&attr);
	support_set_small_thread_stack_size(&attr);
	return &attr;
}
