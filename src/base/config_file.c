/* SPDX-License-Identifier: MIT */
/* Reads files of tunables, a line at a time: the first request of a process comes from here, so
 * nothing is allocated, and the stack may be small. */
#include "base/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/program.h"
#include "base/sys.h"
#include "base/sys_call.h"
#include "base/text.h"

static const char files_key[] = "config_files";
static const char spaces[] = " \t\r\v\f";

const char *config_etc_path = "/etc/ukmem.conf";

const char *config_path(const struct config_reading *r, enum config_from from)
{
	return from == CONFIG_ETC ? config_etc_path : r->user_path;
}

bool config_glob(const char *pattern, size_t len, const char *name)
{
	const char *end = pattern + len;
	const char *star = NULL, *behind = NULL; /* the last star, and what follows its match */

	while (*name) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			behind = name;
		} else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++behind;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

static bool is_space(char c)
{
	return c && text_find(spaces, c);
}

/* Cuts a comment and the spaces at both ends. Result: the bytes that are left, from *@s on. */
static size_t strip(const char **s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((*s)[i] == '#' && (!i || is_space((*s)[i - 1])))
			len = i;
	while (len && is_space(**s)) {
		(*s)++;
		len--;
	}
	while (len && is_space((*s)[len - 1]))
		len--;
	return len;
}

/* Whether the section of these names, without the brackets, is for the program. */
static bool section_is_for(const char *s, size_t len, const char *program)
{
	const char *end = s + len;

	while (s < end) {
		const char *name = s;

		while (s < end && !is_space(*s))
			s++;
		if (s > name && config_glob(name, (size_t)(s - name), program))
			return true;
		s++;
	}
	return false;
}

struct config_file {
	struct config_reading *reading;
	const char *path, *program;
	bool skip; /* the section is for other programs */
};

#define file_warn(f, ...)                                                                      \
	do {                                                                                   \
		if (!(f)->reading->quiet)                                                      \
			log_warn(__VA_ARGS__);                                                 \
	} while (0)

static void begin_section(struct config_file *f, const char *s, size_t len)
{
	struct config_reading *r = f->reading;

	f->skip = s[len - 1] != ']' || !section_is_for(s + 1, len - 2, f->program);
	if (s[len - 1] != ']')
		file_warn(f, "%s:%u: section '%.*s' does not end with ]", f->path, r->at.line,
			  (int)len, s);
	else
		r->quiet = r->mute || (r->warned && section_is_for(s + 1, len - 2, r->warned));
}

static void read_line(struct config_file *f, const char *s, size_t len)
{
	const unsigned int line = f->reading->at.line;
	size_t key;

	len = strip(&s, len);
	if (!len)
		return;
	if (*s == '[') {
		begin_section(f, s, len);
		return;
	}
	if (f->skip)
		return;
	for (key = 0; key < len && s[key] != ':' && s[key] != '='; key++)
		;
	if (key == len) {
		file_warn(f, "%s:%u: '%.*s' is not key: value", f->path, line, (int)len, s);
	} else {
		const char *value = s + key + 1;
		size_t value_len = strip(&value, len - key - 1);

		key = strip(&s, key);
		if (config_is_key(files_key, s, key))
			file_warn(f, "%s:%u: %s counts in UKMEM_CONF alone", f->path, line,
				  files_key);
		else
			config_set(f->reading, s, key, value, value_len);
	}
}

static ssize_t read_some(int fd, char *buf, size_t size)
{
	ssize_t n;

	do
		n = sys_read(fd, buf, size);
	while (n == -EINTR);
	return n;
}

/* A window on the file: what is read and not yet used. */
struct window {
	char text[CONFIG_LINE_SIZE + 1]; /* the last byte is for a line's end alone */
	size_t used;
	bool passing; /* over the rest of a line that is too long */
};

/* Uses the lines in the window, at the end of the file a last one without its newline, too. */
static void read_lines(struct config_file *f, struct window *w, bool end)
{
	uint16_t *line = &f->reading->at.line;
	char *s = w->text;
	size_t left = w->used;

	for (const char *newline; (newline = text_find_in(s, '\n', left)) || (end && left);) {
		size_t len = newline ? (size_t)(newline - s) : left;

		/* What lies behind the text is older: digits there are not this line's. */
		s[len] = '\0';
		if (*line < UINT16_MAX)
			(*line)++;
		if (!w->passing)
			read_line(f, s, len);
		w->passing = false;
		left -= newline ? len + 1 : len;
		s += newline ? len + 1 : len;
	}
	if (left == CONFIG_LINE_SIZE) {
		if (!w->passing)
			file_warn(f, "%s:%u: the line has more than %u bytes", f->path,
				  *line + 1u, CONFIG_LINE_SIZE);
		w->passing = true;
		left = 0;
	}
	memmove(w->text, s, left);
	w->used = left;
}

static void read_text(struct config_file *f, int fd)
{
	/* On the stack, since two threads may print tables of tunables at a time. */
	struct window w = { .used = 0 };
	size_t sum = 0;
	ssize_t n;

	do {
		n = read_some(fd, w.text + w.used, CONFIG_LINE_SIZE - w.used);
		if (n > 0) {
			w.used += (size_t)n;
			sum += (size_t)n;
		}
		read_lines(f, &w, n <= 0);
	} while (n > 0 && sum < CONFIG_FILE_SIZE);
	if (n < 0)
		file_warn(f, "%s: cannot be read (errno %d)", f->path, (int)-n);
	else if (n > 0)
		file_warn(f, "%s:%u: what follows is not read: the file has more than %u KiB",
			  f->path, f->reading->at.line, CONFIG_FILE_SIZE / 1024);
}

/* Whether the owner of a file or directory may set tunables of this process: its effective
 * user, or root. A user whose HOME a process of root has (sudo -E) is neither. */
static bool is_trusted(int fd)
{
	struct stat file = { 0 };

	return !sys_call(SYS_fstat, fd, &file) &&
	       (!file.st_uid || file.st_uid == (uid_t)sys_call(SYS_geteuid));
}

/* Opens the user's file, in a directory that is trusted, too: in another user's a link can lead
 * to any file of root's. *@trusted: whether both are. */
static int open_users(struct config_reading *r, bool *trusted)
{
	char *name = r->user_path + strlen(r->user_path) - strlen("/ukmem.conf");
	int dir, fd;

	*name = '\0';
	dir = sys_open_at(AT_FDCWD, r->user_path, O_PATH | O_DIRECTORY);
	*name = '/';
	if (dir < 0)
		return dir;
	fd = sys_open_at(dir, name + 1, 0);
	*trusted = fd >= 0 && is_trusted(dir) && is_trusted(fd);
	sys_close(dir);
	return fd;
}

static void read_file(struct config_reading *r, enum config_from from, const char *program)
{
	struct config_file f = { .reading = r,
				 .path = config_path(r, from),
				 .program = program };
	bool everywhere = r->quiet; /* of lines for every program */
	bool trusted = true;
	int fd = from == CONFIG_USER ? open_users(r, &trusted) : sys_open(f.path);

	if (fd < 0) {
		r->opened[from] = fd;
		/* The first three say that there is no file for this user. */
		if (fd != -ENOENT && fd != -ENOTDIR && fd != -EACCES && fd != -EPERM)
			file_warn(&f, "%s: cannot be opened (errno %d)", f.path, -fd);
		return;
	}
	if (!trusted) {
		r->opened[from] = -EPERM;
		file_warn(&f,
			  "%s: not read: its owner, or its directory's, is neither this user "
			  "nor root",
			  f.path);
	} else {
		r->at = (struct config_origin){ (uint8_t)from, 0 };
		read_text(&f, fd);
		r->quiet = everywhere;
	}
	sys_close(fd);
}

/* Builds the path of the user's file. A relative directory does not count, as the XDG
 * specification wants. False: there is none. */
static bool user_path(struct config_reading *r)
{
	const char *dir = program_environment("XDG_CONFIG_HOME"), *file = "/ukmem.conf";
	size_t len, file_len;

	if (!dir || *dir != '/') {
		dir = program_environment("HOME");
		file = "/.config/ukmem.conf";
	}
	if (!dir || *dir != '/')
		return false;
	len = strlen(dir);
	file_len = strlen(file);
	if (len + file_len >= sizeof(r->user_path))
		return false;
	/* Without snprintf(), whose code a process that does little need not touch. */
	memcpy(r->user_path, dir, len);
	memcpy(r->user_path + len, file, file_len + 1);
	return true;
}

void config_files_read(struct config_reading *r, const char *program)
{
	r->secure = getauxval(AT_SECURE);
	if (r->secure || sys_is_confined())
		return;
	read_file(r, CONFIG_ETC, program);
	if (user_path(r))
		read_file(r, CONFIG_USER, program);
}
