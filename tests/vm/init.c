/* SPDX-License-Identifier: MIT */
/*
 * The first process of the virtual machine: sets it up, runs what /list names, one after
 * another, and turns the machine off.
 *
 * A line of /list is "SECONDS NAME PROGRAM ARGUMENT...", separated by single spaces; what
 * takes longer than SECONDS is killed. On the second serial port, for run_vm.py:
 *
 *	@begin NAME
 *	 a line of the program's output
 *	@end NAME exit 0 1234		or "signal 11", "timeout 0"; milliseconds
 *	@done
 *
 * With 0 seconds the program has the port as its terminal instead.
 *
 * After each program whatever it left is cleared away: processes, control groups, CPUs
 * that are offline.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CGROUPS "/sys/fs/cgroup"
#define CPUS "/sys/devices/system/cpu"
#define PORT "/dev/ttyS1"
#define MAX_ARGUMENTS 32

static FILE *port;

static void die(const char *what)
{
	printf("init: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void mount_at(const char *type, const char *where)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, NULL) && errno != EBUSY)
		die(where);
}

/* False: it did not take the text. */
static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static void set_up(void)
{
	struct termios raw;
	int fd;

	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("devtmpfs", "/dev");
	mount_at("tmpfs", "/tmp");
	mount_at("cgroup2", CGROUPS);
	if (!write_file(CGROUPS "/cgroup.subtree_control", "+cpuset +memory"))
		die("cgroup.subtree_control");
	fd = open(PORT, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || tcgetattr(fd, &raw))
		die(PORT);
	cfmakeraw(&raw);
	tcsetattr(fd, TCSANOW, &raw);
	port = fdopen(fd, "w");
	if (!port)
		die(PORT);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Calls @what with the path of each entry of @folder that begins with @prefix. */
static void for_each_entry(const char *folder, const char *prefix, void (*what)(const char *))
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[1024];

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		what(path);
	}
	if (dir)
		closedir(dir);
}

static void remove_cgroup(const char *path)
{
	struct stat s;

	if (stat(path, &s) || !S_ISDIR(s.st_mode))
		return;
	for_each_entry(path, "", remove_cgroup);
	/* What was killed in it may take a moment to be gone. */
	for (int i = 0; i < 100 && rmdir(path) && errno == EBUSY; i++)
		usleep(20000);
}

static void set_online(const char *path)
{
	char file[1100];

	snprintf(file, sizeof(file), "%s/online", path);
	write_file(file, "1");
}

static void clear_away(void)
{
	kill(-1, SIGKILL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	for_each_entry(CGROUPS, "", remove_cgroup);
	for_each_entry(CPUS, "cpu", set_online);
}

static void run_program(char **argv, int in, int out)
{
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	execv(argv[0], argv);
	printf("init: %s: %s\n", argv[0], strerror(errno));
	fflush(stdout);
	_exit(127);
}

static pid_t start_on_pipe(char **argv, int *output)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (!pid)
		run_program(argv, open("/dev/null", O_RDONLY), fds[1]);
	if (pid < 0)
		die("fork");
	close(fds[1]);
	*output = fds[0];
	return pid;
}

static void copy_output(const char *text, ssize_t len, bool *line_begins)
{
	for (ssize_t i = 0; i < len; i++) {
		if (*line_begins)
			fputc(' ', port);
		fputc(text[i], port);
		*line_begins = text[i] == '\n';
	}
}

/* Until the program has ended; whether it did by itself. */
static bool wait_for_program(pid_t pid, int output, long deadline, int *status)
{
	bool line_begins = true, ended = false, late = false;
	char text[4096];
	ssize_t len;

	while (!ended && !late) {
		struct pollfd p = { .fd = output, .events = POLLIN };

		poll(&p, 1, 20);
		/* What it wrote before it ended is in the pipe when waitpid() says so. */
		ended = waitpid(pid, status, WNOHANG) == pid;
		late = now_ms() > deadline;
		fcntl(output, F_SETFL, O_NONBLOCK);
		while ((len = read(output, text, sizeof(text))) > 0)
			copy_output(text, len, &line_begins);
	}
	if (!line_begins)
		fputc('\n', port);
	return ended;
}

static void run_reporting(const char *name, int seconds, char **argv)
{
	int output, status;
	long start = now_ms();
	pid_t pid;

	fprintf(port, "@begin %s\n", name);
	fflush(port);
	pid = start_on_pipe(argv, &output);
	if (!wait_for_program(pid, output, start + seconds * 1000l, &status))
		fprintf(port, "@end %s timeout 0 %ld\n", name, now_ms() - start);
	else if (WIFSIGNALED(status))
		fprintf(port, "@end %s signal %d %ld\n", name, WTERMSIG(status),
			now_ms() - start);
	else
		fprintf(port, "@end %s exit %d %ld\n", name, WEXITSTATUS(status),
			now_ms() - start);
	fflush(port);
	close(output);
	clear_away();
}

static void run_on_terminal(char **argv)
{
	struct termios t;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		setsid();
		fd = open(PORT, O_RDWR);
		ioctl(fd, TIOCSCTTY, 0);
		tcgetattr(fd, &t);
		t.c_iflag |= ICRNL;
		t.c_oflag |= OPOST | ONLCR;
		t.c_lflag |= ICANON | ECHO | ECHOE | ECHOK | ISIG;
		tcsetattr(fd, TCSANOW, &t);
		run_program(argv, fd, fd);
	}
	while (waitpid(pid, NULL, 0) != pid)
		;
	clear_away();
}

static void run_line(char *line)
{
	char *argv[MAX_ARGUMENTS + 1] = { NULL };
	const char *seconds = strtok(line, " \n");
	const char *name = strtok(NULL, " \n");

	for (int i = 0; i < MAX_ARGUMENTS; i++) {
		argv[i] = strtok(NULL, " \n");
		if (!argv[i])
			break;
	}
	if (!argv[0])
		return;
	if (atoi(seconds))
		run_reporting(name, atoi(seconds), argv);
	else
		run_on_terminal(argv);
}

int main(void)
{
	char line[4096];
	FILE *list;

	set_up();
	list = fopen("/list", "re");
	if (!list)
		die("/list");
	while (fgets(line, sizeof(line), list))
		run_line(line);
	fprintf(port, "@done\n");
	fflush(port);
	tcdrain(fileno(port));
	reboot(RB_POWER_OFF);
	die("power off");
}
