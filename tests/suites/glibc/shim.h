/* SPDX-License-Identifier: MIT */
/*
 * The support headers <support/...> of glibc's tests, as far as programs.txt needs them:
 * the names and their meaning, written anew. suite.py makes headers of these names, each of
 * which includes this file.
 */
#ifndef SUITES_GLIBC_SHIM_H
#define SUITES_GLIBC_SHIM_H

/* Tests rely on some that these headers include. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* <libc-diag.h>, <array_length.h>, <malloc-size.h> */
#define DIAG_PUSH_NEEDS_COMMENT _Static_assert(1, "")
#define DIAG_POP_NEEDS_COMMENT _Static_assert(1, "")
#define DIAG_IGNORE_NEEDS_COMMENT(...) _Static_assert(1, "")
#define DIAG_IGNORE_Os_NEEDS_COMMENT(...) _Static_assert(1, "")
#define array_length(array) (sizeof(array) / sizeof((array)[0]))
#define array_end(array) (&(array)[array_length(array)])
#define MALLOC_ALIGNMENT 16
#define MALLOC_ALIGN_MASK (MALLOC_ALIGNMENT - 1)
#define SIZE_SZ 8
#define attribute_hidden __attribute__((visibility("hidden")))
#define libc_hidden_proto(...)
#ifndef __THROW
#define __THROW
#endif

/* <support/test-driver.h> */
enum { EXIT_UNSUPPORTED = 77, DEFAULT_TIMEOUT = 20 };
extern unsigned int test_verbose;
extern const char *test_dir;

/* <support/check.h>: failures are counted, and make main() return 1. */
#define SUITES_PRINTF(n) __attribute__((format(printf, n, n + 1)))
void support_record_failure(void);
void support_record_failure_reset(void);
int support_record_failure_is_failed(void);
int support_report_failure(int status);
SUITES_PRINTF(3) void support_fail(const char *file, int line, const char *format, ...);
__attribute__((noreturn, format(printf, 4, 5))) void
support_fail_exit(const char *file, int line, int status, const char *format, ...);
void support_compare(const char *file, int line, const char *texts, long long left,
		     long long right);
void support_compare_blobs(const char *file, int line, const char *texts, const void *left,
			   size_t left_size, const void *right, size_t right_size);
void support_compare_strings(const char *file, int line, const char *left, const char *right);
void support_compare_wide(const char *file, int line, const wchar_t *left,
			  const wchar_t *right);

#define FAIL(...) support_fail(__FILE__, __LINE__, __VA_ARGS__)
#define FAIL_RET(...) return (FAIL(__VA_ARGS__), 1)
#define FAIL_EXIT(status, ...) support_fail_exit(__FILE__, __LINE__, status, __VA_ARGS__)
#define FAIL_EXIT1(...) FAIL_EXIT(1, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...) FAIL_EXIT(EXIT_UNSUPPORTED, __VA_ARGS__)
#define TEST_VERIFY(what) ((what) ? (void)0 : FAIL("not true: %s", #what))
#define TEST_VERIFY_EXIT(what) ((what) ? (void)0 : FAIL_EXIT1("not true: %s", #what))
#define TEST_COMPARE(left, right)                                                              \
	support_compare(__FILE__, __LINE__, #left " and " #right, (long long)(left),           \
			(long long)(right))
#define TEST_COMPARE_BLOB(left, left_size, right, right_size)                                  \
	support_compare_blobs(__FILE__, __LINE__, #left " and " #right, left, left_size,       \
			      right, right_size)
#define TEST_COMPARE_STRING(left, right)                                                       \
	support_compare_strings(__FILE__, __LINE__, left, right)
#define TEST_COMPARE_STRING_WIDE(left, right)                                                  \
	support_compare_wide(__FILE__, __LINE__, left, right)

/* <support/support.h>, <support/xstdlib.h>, <support/xstdio.h>: a failure ends the test. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
void *xposix_memalign(size_t alignment, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t size);
SUITES_PRINTF(1) char *xasprintf(const char *format, ...);
char *xsetlocale(int category, const char *locale);
FILE *xfopen(const char *path, const char *mode);
void xfclose(FILE *f);
char *support_quote_blob(const void *blob, size_t size);
void support_write_file_string(const char *path, const char *contents);
void *support_shared_allocate(size_t size);
void support_shared_free(void *p);
void support_isolate_in_subprocess(void (*callback)(void *), void *closure);
void write_message(const char *message);
void ignore_stderr(void);

struct xmemstream {
	FILE *out;
	char *buffer;
	size_t length;
};
void xopen_memstream(struct xmemstream *stream);
void xfclose_memstream(struct xmemstream *stream);

struct support_capture_subprocess {
	struct xmemstream out, err;
	int status;
};
enum support_capture_allow { sc_allow_none = 1, sc_allow_stdout = 2, sc_allow_stderr = 4 };
struct support_capture_subprocess support_capture_subprocess(void (*callback)(void *),
							     void *closure);
void support_capture_subprocess_free(struct support_capture_subprocess *run);
void support_capture_subprocess_check(struct support_capture_subprocess *run,
				      const char *context, int status_or_signal, int allowed);

/* <support/temp_file.h> */
void add_temp_file(const char *path);
int create_temp_file(const char *base, char **path);
int create_temp_file_in_dir(const char *base, const char *dir, char **path);
char *support_create_temp_directory(const char *base);

/* <support/xunistd.h> */
pid_t xfork(void);
pid_t xwaitpid(pid_t pid, int *status, int flags);
void xpipe(int fds[2]);
void xdup2(int from, int to);
int xopen(const char *path, int flags, mode_t mode);
void xclose(int fd);
void xwrite(int fd, const void *p, size_t size);
void xread(int fd, void *p, size_t size);
off_t xlseek(int fd, off_t offset, int whence);
void xftruncate(int fd, off_t size);
void xstat(const char *path, struct stat *st);
void xlstat(const char *path, struct stat *st);
void xfstat(int fd, struct stat *st);
void xmkdir(const char *path, mode_t mode);
void xchdir(const char *path);
void xchmod(const char *path, mode_t mode);
void xfchmod(int fd, mode_t mode);
void xunlink(const char *path);
void xsymlink(const char *target, const char *path);
char *xreadlink(const char *path);
long xsysconf(int name);
void *xmmap(void *address, size_t size, int protection, int flags, int fd);
void xmunmap(void *address, size_t size);
void xmprotect(void *address, size_t size, int protection);

/* <support/xsignal.h>, <support/xdlfcn.h>, <support/xtime.h> */
void xraise(int signal);
void xsignal(int signal, void (*handler)(int));
void xsigaction(int signal, const struct sigaction *action, struct sigaction *old);
void *xdlopen(const char *path, int flags);
void *xdlsym(void *handle, const char *name);
void xdlclose(void *handle);
void xclock_gettime(clockid_t clock, struct timespec *time);

/* <support/xthread.h> */
pthread_t xpthread_create(pthread_attr_t *attr, void *(*function)(void *), void *closure);
void *xpthread_join(pthread_t thread);
void xpthread_detach(pthread_t thread);
void xpthread_cancel(pthread_t thread);
void xpthread_kill(pthread_t thread, int signal);
void xpthread_once(pthread_once_t *once, void (*function)(void));
void xpthread_sigmask(int how, const sigset_t *set, sigset_t *old);
void xpthread_barrier_init(pthread_barrier_t *barrier, pthread_barrierattr_t *attr,
			   unsigned int count);
int xpthread_barrier_wait(pthread_barrier_t *barrier);
void xpthread_barrier_destroy(pthread_barrier_t *barrier);
void xpthread_barrierattr_init(pthread_barrierattr_t *attr);
void xpthread_barrierattr_setpshared(pthread_barrierattr_t *attr, int shared);
void xpthread_barrierattr_destroy(pthread_barrierattr_t *attr);
void xpthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
void xpthread_mutex_lock(pthread_mutex_t *mutex);
void xpthread_mutex_unlock(pthread_mutex_t *mutex);
void xpthread_mutex_destroy(pthread_mutex_t *mutex);
void xpthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
void xpthread_attr_init(pthread_attr_t *attr);
void xpthread_attr_destroy(pthread_attr_t *attr);
void xpthread_attr_setdetachstate(pthread_attr_t *attr, int state);
void xpthread_attr_setstacksize(pthread_attr_t *attr, size_t size);
void xpthread_attr_setstack(pthread_attr_t *attr, void *stack, size_t size);
void xpthread_attr_setguardsize(pthread_attr_t *attr, size_t size);
void support_set_small_thread_stack_size(pthread_attr_t *attr);
size_t support_small_thread_stack_size(void);
pthread_attr_t *support_small_stack_thread_attribute(void);

#endif
