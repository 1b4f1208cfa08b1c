/* SPDX-License-Identifier: MIT */
/*
 * The process's socket, and the thread that serves it, if the tunable live says so.
 *
 * The thread has a table of open files of its own, in which there is the socket alone. So the
 * program neither sees the socket nor can it close it, children of fork and exec do not inherit
 * it, and a number that the program uses anew cannot be taken for it.
 *
 * The thread serves one client at a time, each for a few seconds at most. It blocks all signals
 * and allocates nothing itself. Serving a request, it takes the library's locks in their order,
 * as any thread of the program does.
 *
 * The child of a fork has no server. It starts one of its own when it is in a slow path, as its
 * parent did (page/background.c); the random part tells the two sockets' names apart.
 *
 * Where the program has confined itself since the start (os_confine), a filter may kill it for
 * a system call. Then the thread makes no call but futex.
 */
#include "live/server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/sys_call.h"
#include "base/text.h"
#include "live/request.h"
#include "os/os.h"
#include "page/background.h"

enum {
	STACK_BYTES = 128 << 10,
	WAITING_CLIENTS = 16,
	REQUEST_MS = 2000, /* a client's time for its request */
	REPLY_MS = 10000,  /* and for each kilobyte of the reply */
	CONFINED_MS = 100, /* between two looks whether a child of vfork is still confined */
	REFUSED_MS = 100,  /* after a call that the system refuses */
	LOOK_MS = 5000,	   /* between two looks whether the program's own threads have ended */
	OVERFLOW_UID = 65534, /* of all users that the user namespace does not have */
};

/* Synchronization: atomic, relaxed: whether this process has a thread, or cannot have one. */
static atomic_bool running, given_up;

static void give_up(const char *what, int err)
{
	atomic_store_explicit(&given_up, true, memory_order_relaxed);
	log_warn("live: %s (error %d): no socket for ukmem trim PID and the like", what, err);
}

/* As poll(). */
static long wait_for_events(struct pollfd *p, uint64_t ms)
{
#ifdef SYS_poll
	return sys_call(SYS_poll, p, 1, ms);
#else
	struct timespec wait = { .tv_sec = (time_t)(ms / 1000),
				 .tv_nsec = (long)(ms % 1000) * 1000000 };

	return sys_call(SYS_ppoll, p, 1, &wait, NULL, 0);
#endif
}

/* Waits until the file is ready for @events. False: not before @deadline, or not ever. */
static bool wait_until(int fd, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		uint64_t now = os_calls.now_ms();
		long n;

		if (now >= deadline)
			return false;
		n = wait_for_events(&p, deadline - now);
		if (n > 0)
			return p.revents & events;
		if (n < 0 && n != -EINTR)
			return false;
	}
}

/* Reads a line, without its newline, with a terminating zero. */
static bool receive_line(int client, char *line, size_t size)
{
	uint64_t deadline = os_calls.now_ms() + REQUEST_MS;
	size_t used = 0;

	while (used < size && wait_until(client, POLLIN, deadline)) {
		ssize_t n = sys_call(SYS_recvfrom, client, line + used, size - used,
				     MSG_DONTWAIT, NULL, NULL);
		const char *end;

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			return false;
		end = text_find_in(line + used, '\n', (size_t)n);
		used += (size_t)n;
		if (end) {
			line[end - line] = '\0';
			/* No zero is part of a request. */
			return strlen(line) == (size_t)(end - line);
		}
	}
	return false;
}

static bool send_bytes(struct live_reply *r, const char *bytes, size_t size)
{
	uint64_t deadline = os_calls.now_ms() + REPLY_MS;

	while (size) {
		ssize_t n;

		if (!wait_until(r->client, POLLOUT, deadline))
			return false;
		n = sys_call(SYS_sendto, r->client, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL,
			     NULL, 0);
		if (n < 0 && n != -EINTR && n != -EAGAIN)
			return false;
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		}
	}
	return true;
}

/* Whether the process's user namespace has all users, so that OVERFLOW_UID is one of them and
 * does not stand for those that it lacks. */
static bool has_all_users(void)
{
	char map[64];
	ssize_t n = os_calls.read_file("/proc/self/uid_map", map, sizeof(map) - 1);

	map[n > 0 ? n : 0] = '\0';
	return strstr(map, " 4294967295\n") != NULL;
}

/* Whether the client is root or the process's user. A process serves root alone if its real,
 * effective and saved users differ, or if other processes of its user may not look into it, as
 * the system decides for ptrace: it has changed its user, or has forbidden it. */
static bool may_ask(const struct ucred *peer)
{
	uid_t real, effective, saved;

	if (!peer->uid)
		return true;
	return !sys_call(SYS_getresuid, &real, &effective, &saved) && peer->uid == real &&
	       peer->uid == effective && peer->uid == saved &&
	       sys_call(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 &&
	       (peer->uid != OVERFLOW_UID || has_all_users());
}

static void refuse(struct live_reply *r, const struct ucred *peer)
{
	uid_t real, effective, saved;

	if (peer->uid == OVERFLOW_UID && !has_all_users())
		live_reply_error(r,
				 "only its user and root may ask it, and users of other user "
				 "namespaces, root too, are strangers there (a rootless "
				 "container); enter them: nsenter --user --net --target PID");
	else if (!sys_call(SYS_getresuid, &real, &effective, &saved) && peer->uid == real)
		live_reply_error(r, "it has made itself unreadable (PR_SET_DUMPABLE, a setuid "
				    "program, capabilities): root alone may ask it");
	else
		live_reply_error(r, "only its user and root may ask it");
}

static void serve_client(int client)
{
	struct live_reply r = { .send = send_bytes, .client = client };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);
	char line[LIVE_REQUEST_SIZE];

	if (sys_call(SYS_getsockopt, client, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
	    !may_ask(&peer))
		refuse(&r, &peer);
	else if (!receive_line(client, line, sizeof(line)))
		live_reply_error(&r, "this is no request");
	else
		live_request(line, &r);
}

/* Result: a socket that listens, or a negative errno. */
static int listen_to_clients(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
			      LIVE_SOCKET_NAME "%d/%016llx", sys_getpid(),
			      (unsigned long long)os_random());
	socklen_t size =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
	int fd = (int)sys_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0);
	int err;

	if (fd < 0)
		return fd;
	err = (int)sys_call(SYS_bind, fd, &at, size);
	if (!err)
		err = (int)sys_call(SYS_listen, fd, WAITING_CLIENTS);
	if (err)
		sys_close(fd);
	return err ? err : fd;
}

/*
 * Gives this thread a table of files of its own, with a socket alone. Result: that, or -1.
 * Messages come before stderr is closed: a copy of it would keep a pipe open whose reader waits
 * until the program has closed it.
 */
static int open_socket(void)
{
	/* The kernel's name: glibc has one of its own (SYS_) only from 2.33 on. */
	int fd, err = (int)sys_call(__NR_close_range, ~0u, ~0u, CLOSE_RANGE_UNSHARE);

	if (err) {
		give_up("a thread cannot have files of its own", -err);
		return -1;
	}
	/* The program may have as many files as it may; messages go to its standard error. */
	sys_call(__NR_close_range, 3, ~0u, 0);
	fd = listen_to_clients();
	if (fd < 0) {
		give_up("the socket cannot be made", -fd);
		return -1; /* the thread ends, and its table with it */
	}
	if (fd > 0)
		sys_call(__NR_close_range, 0, fd - 1, 0);
	sys_call(__NR_close_range, fd + 1, ~0u, 0);
	return fd;
}

/* Whether this thread is the last one. A process whose main() ended by pthread_exit() ends with
 * its last thread. */
static bool is_alone(void)
{
	struct os_threads threads;

	return os_threads(&threads) && threads.first_ended && threads.nr <= 2;
}

/* Waits for the end of a child of vfork that is confined, or, if the program is, for ever; by
 * calls of futex alone. */
static void wait_in_sandbox(void)
{
	while (os_is_confined())
		sys_pause_ms(os_is_confined_for_ever() ? 3600000 : CONFINED_MS);
}

static void serve(int fd)
{
	for (;;) {
		uint64_t deadline = os_calls.now_ms() + LOOK_MS;
		bool ready = wait_until(fd, POLLIN, deadline);
		int client;

		wait_in_sandbox();
		if (!ready && is_alone())
			return;
		client = ready ? (int)sys_call(SYS_accept4, fd, NULL, NULL,
					       SOCK_CLOEXEC | SOCK_NONBLOCK)
			       : -1;
		if (client >= 0) {
			serve_client(client);
			sys_close(client);
		} else if (ready ? client != -EAGAIN : os_calls.now_ms() < deadline) {
			/* The system has no memory, perhaps, or the program has set
			 * RLIMIT_NOFILE to 0, with which poll() fails at once. */
			sys_pause_ms(REFUSED_MS);
		}
	}
}

static void *server(void *unused)
{
	int fd;

	(void)unused;
	sys_call(SYS_prctl, PR_SET_NAME, "ukmem-live");
	fd = open_socket();
	if (fd >= 0) {
		serve(fd);
		sys_close(fd);
	}
	atomic_store_explicit(&running, false, memory_order_relaxed);
	return NULL;
}

static bool start_threads(void)
{
	int err;

	if (config.live == LIVE_NEVER || os_is_confined_for_ever() ||
	    atomic_load_explicit(&given_up, memory_order_relaxed))
		return true;
	if (os_is_confined() || (config.live == LIVE_THREADS && !page_program_has_threads()))
		return false;
	/* pthread_create() allocates, and comes here again. */
	if (atomic_exchange_explicit(&running, true, memory_order_relaxed))
		return true;
	err = os_thread_start(server, STACK_BYTES);
	if (!err)
		return true;
	atomic_store_explicit(&running, false, memory_order_relaxed);
	/* EAGAIN: the system has as many threads as it may, perhaps not for long. */
	if (err == -EBUSY || err == -EAGAIN)
		return false;
	give_up("no thread can be created", -err);
	return true;
}

static void fork_child(void)
{
	atomic_store_explicit(&running, false, memory_order_relaxed);
	atomic_store_explicit(&given_up, false, memory_order_relaxed);
}

/* The layer has nothing to initialise: only its functions that are always called are there. */
static struct once never = ONCE_INITIALIZER;

const struct layer live_layer = {
	.once = &never,
	.fork_child = fork_child,
	.start_threads = start_threads,
};
