/* SPDX-License-Identifier: MIT */
/*
 * Memory and CPU limits, and the CPUs, of the cgroup that this process is in. Version 2 has
 * one line "0::/path" in /proc/self/cgroup, version 1 a line per controller; both
 * may be mounted at once. The limits of ancestors bind as well.
 */
#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/decimal.h"
#include "base/text.h"

enum { PATH_SIZE = 512, TEXT_SIZE = 4096, LONG_SIZE = 65536 };

/* One text at a time lies here. Synchronization: the thread that has set the flag. */
static char one_text[TEXT_SIZE] untouched;
static atomic_flag one_text_taken = ATOMIC_FLAG_INIT;

/* A file's text, cut off at @size - 1 bytes, in @text. False: it cannot be read. */
static bool fill_text(const char *path, char *text, size_t size)
{
	ssize_t n = os_calls.read_file(path, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void free_text(char *text)
{
	if (text == one_text)
		/* Release: the next one to set the flag writes after this thread has read. */
		atomic_flag_clear_explicit(&one_text_taken, memory_order_release);
	else
		os_release(text, align_up(TEXT_SIZE, os_page_size()));
}

/*
 * A file's text; NULL: it cannot be read. A text is not on the stack, because that may be
 * small; a second one is mapped.
 */
static char *read_text(const char *path)
{
	size_t size = align_up(TEXT_SIZE, os_page_size());
	void *text = one_text;

	if (atomic_flag_test_and_set_explicit(&one_text_taken, memory_order_acquire) &&
	    os_map_metadata(size, &text))
		return NULL;
	if (fill_text(path, text, TEXT_SIZE))
		return text;
	free_text(text);
	return NULL;
}

/* The number behind @key; 0: there is none. */
static uint64_t number_behind(const char *text, const char *key)
{
	const char *p = text_find_word(text, key);
	uint64_t v;

	if (!p)
		return 0;
	p += strlen(key);
	while (*p == ' ')
		p++;
	return parse_decimal(&p, &v) ? v : 0;
}

/* The number in a file; UINT64_MAX (no limit) for "max" and for an unreadable file. */
static uint64_t parse_limit(const char **text)
{
	uint64_t v;

	/* Version 1 writes "no limit" as the largest multiple of a page. */
	return parse_decimal(text, &v) && v < (1ull << 62) ? v : UINT64_MAX;
}

/* Whether a file may be read another time: the process or the system has no descriptor or no
 * memory now, or a filter forbids the call. */
static bool is_passing(ssize_t err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EPERM ||
	       err == -EAGAIN;
}

/* Reads up to two limits from a file of one line. False: it could not be read now. */
static bool read_limits(const char *path, uint64_t *first, uint64_t *second)
{
	char text[64];
	const char *p = text;
	ssize_t n = os_calls.read_file(path, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	*first = parse_limit(&p);
	*second = *p++ == ' ' ? parse_limit(&p) : UINT64_MAX;
	return !is_passing(n);
}

static uint64_t read_limit(const char *path)
{
	uint64_t limit, none;

	read_limits(path, &limit, &none);
	return limit;
}

/* The names of a group's files, and the keys in memory.stat of page cache: what no process has
 * used lately, and the rest. Version 1 limits swap together with memory. */
struct version {
	const char *limit, *high, *usage, *swap_limit, *swap_usage, *idle_cache, *cache, *cpus;
};

static const struct version version_1 = {
	.limit = "memory.limit_in_bytes",
	.usage = "memory.usage_in_bytes",
	.swap_limit = "memory.memsw.limit_in_bytes",
	.swap_usage = "memory.memsw.usage_in_bytes",
	.idle_cache = "\ntotal_inactive_file ",
	.cache = "\ntotal_active_file ",
	.cpus = "cpuset.effective_cpus",
};
static const struct version version_2 = {
	.limit = "memory.max",
	.high = "memory.high",
	.usage = "memory.current",
	.swap_limit = "memory.swap.max",
	.swap_usage = "memory.swap.current",
	.idle_cache = "\ninactive_file ",
	.cache = "\nactive_file ",
	.cpus = "cpuset.cpus.effective",
};

/* A group's folder, and behind its name the name of the file that is read: a handler on a small
 * stack may come here, and needs one path. */
struct folder {
	char text[PATH_SIZE + 64];
	size_t len;
};

/* Reads something about the group whose files are in the folder @dir, into @out. */
typedef void read_function(struct folder *dir, const struct version *v, void *out);

/* Writes @a and @b, cut to @size. Not snprintf(): a process that does little need not touch its
 * code. */
static void join(char *out, size_t size, const char *a, const char *b)
{
	const char *parts[] = { a, b };

	for (unsigned int i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t n = min_size(strlen(parts[i]), size - 1);

		memcpy(out, parts[i], n);
		out += n;
		size -= n;
	}
	*out = '\0';
}

/* The path of a file in @dir, until the next call. */
static const char *path_of(struct folder *dir, const char *file)
{
	join(dir->text + dir->len, sizeof(dir->text) - dir->len, "/", file);
	return dir->text;
}

/* A number in a group's file; UINT64_MAX: none, or (then l->unknown) it cannot be read now. */
static uint64_t read_number(struct folder *dir, const char *file, struct os_cgroup_limits *l)
{
	uint64_t number, none;

	if (!read_limits(path_of(dir, file), &number, &none))
		l->unknown = true;
	return number;
}

static void read_memory(struct folder *dir, const struct version *v, void *out)
{
	struct os_cgroup_limits *l = out;

	l->memory = min_size(l->memory, read_number(dir, v->limit, l));
}

/* Bytes that the kernel may move to swap to make room in a group that has @left below its
 * limit. A kernel that does not count swap lets it have all of it. */
static uint64_t swap_room(struct folder *dir, const struct version *v, uint64_t left,
			  struct os_cgroup_limits *l)
{
	uint64_t limit, usage, room;

	if (!l->swap_free)
		return 0;
	limit = read_number(dir, v->swap_limit, l);
	if (limit == UINT64_MAX)
		return l->swap_free;
	usage = read_number(dir, v->swap_usage, l);
	room = limit - min_size(limit, usage);
	if (v == &version_1)
		room -= min_size(room, left);
	return min_size(room, l->swap_free);
}

/*
 * The kernel drops page cache, and what it keeps of files' names, to make room. Result: of
 * that, page cache that no process has used lately, and half of the rest, since programs that
 * lose all of what they use come to a stand. Version 1 does not tell of names.
 */
static uint64_t droppable(struct folder *dir, const struct version *v)
{
	char *text = read_text(path_of(dir, "memory.stat"));
	uint64_t cache = 0;

	if (text) {
		cache = number_behind(text, v->idle_cache) +
			(number_behind(text, v->cache) +
			 number_behind(text, "\nslab_reclaimable ")) /
				2;
		free_text(text);
	}
	return cache;
}

/* The limit, memory that is left of it, and memory above memory.high. */
static void read_all_of_memory(struct folder *dir, const struct version *v, void *out)
{
	struct os_cgroup_limits *l = out;
	uint64_t limit, high, usage, used, left;

	limit = read_number(dir, v->limit, l);
	high = v->high ? read_number(dir, v->high, l) : UINT64_MAX;
	l->memory = min_size(l->memory, limit);
	if (limit == UINT64_MAX && high == UINT64_MAX)
		return;
	usage = read_number(dir, v->usage, l);
	if (usage == UINT64_MAX)
		return;
	used = usage - min_size(droppable(dir, v), usage);
	if (limit != UINT64_MAX) {
		left = limit - min_size(used, limit);
		l->memory_free = min_size(l->memory_free, left);
		l->memory_left = min_size(l->memory_left, left + swap_room(dir, v, left, l));
	}
	l->memory_above = max_size(l->memory_above, used - min_size(used, high));
}

static void read_cpu(struct folder *dir, const struct version *v, void *out)
{
	struct os_cgroup_limits *l = out;
	uint64_t quota, period;

	if (v == &version_2) {
		read_limits(path_of(dir, "cpu.max"), &quota, &period);
	} else {
		quota = read_limit(path_of(dir, "cpu.cfs_quota_us")); /* -1: none */
		period = read_limit(path_of(dir, "cpu.cfs_period_us"));
	}
	if (quota != UINT64_MAX && period != UINT64_MAX && period)
		l->cpu_milli = min_size(l->cpu_milli, quota * 1000 / period);
}

/* walk_up() begins with the group itself. If its file can be read, the files of its ancestors
 * are not. */
struct cpuset {
	struct os_mask *cpus;
	bool known;
};

static void read_cpus(struct folder *dir, const struct version *v, void *out)
{
	struct cpuset *c = out;
	char *text;

	if (c->known)
		return;
	text = read_text(path_of(dir, v->cpus));
	if (!text)
		return;
	/* A text that was cut would lack CPUs. */
	c->known = strlen(text) < TEXT_SIZE - 1 && os_parse_list(text, c->cpus) &&
		   os_mask_count(c->cpus);
	free_text(text);
}

/* A controller's name in version 1, and the function that reads its files. */
struct controller {
	const char *name;
	read_function *read;
};

/* Read @mount/@group and every ancestor up to @mount. Of a path that is too long, the
 * ancestors. */
static void walk_up(const char *mount, const char *group, size_t len, const struct version *v,
		    read_function *read, void *out)
{
	size_t mount_len = strlen(mount);
	struct folder dir;

	if (mount_len + len >= PATH_SIZE) {
		len = PATH_SIZE - mount_len - 1;
		while (len && group[len] != '/')
			len--;
	}
	memcpy(dir.text, mount, mount_len);
	memcpy(dir.text + mount_len, group, len);
	dir.len = mount_len + len;
	for (;;) {
		while (dir.len > mount_len && dir.text[dir.len - 1] == '/')
			dir.len--;
		read(&dir, v, out);
		if (dir.len == mount_len)
			return;
		do
			dir.len--;
		while (dir.len > mount_len && dir.text[dir.len] != '/');
	}
}

static bool has_controller(const char *list, size_t len, const char *name)
{
	size_t n = strlen(name);

	while (len) {
		const char *comma = text_find_in(list, ',', len);
		size_t item = comma ? (size_t)(comma - list) : len;

		if (item == n && !memcmp(list, name, n))
			return true;
		list += item + (comma != NULL);
		len -= item + (comma != NULL);
	}
	return false;
}

/*
 * Version 1: a mount of several controllers is named after all of them ("cpu,cpuacct"). The
 * name of a single controller may be a link to that mount. So this function tries both names.
 */
static void walk_v1(const char *list, size_t list_len, const char *name, const char *group,
		    size_t len, read_function *read, void *out)
{
	static const char groups[] = "/sys/fs/cgroup/";
	char mount[64];

	join(mount, sizeof(mount), groups, name);
	walk_up(mount, group, len, &version_1, read, out);
	if (list_len == strlen(name) || list_len >= sizeof(mount) - sizeof(groups))
		return;
	memcpy(mount + sizeof(groups) - 1, list, list_len);
	mount[sizeof(groups) - 1 + list_len] = '\0';
	walk_up(mount, group, len, &version_1, read, out);
}

/* Reads the group that one line "id:controllers:path" names. */
static void read_line(const char *line, size_t len, const struct controller *c, void *out)
{
	const char *list = text_find_in(line, ':', len);
	const char *group;
	size_t list_len, group_len;

	if (!list)
		return;
	list++;
	group = text_find_in(list, ':', len - (size_t)(list - line));
	if (!group)
		return;
	list_len = (size_t)(group++ - list);
	group_len = len - (size_t)(group - line);
	for (; c->name; c++)
		if (!list_len) /* version 2 has one folder for all controllers */
			walk_up("/sys/fs/cgroup", group, group_len, &version_2, c->read, out);
		else if (has_controller(list, list_len, c->name))
			walk_v1(list, list_len, c->name, group, group_len, c->read, out);
}

/* Reads the groups of a text that is cut off at @size - 1 bytes. @controllers: the last one's
 * name is NULL. */
static void read_lines(const char *text, size_t size, const struct controller *controllers,
		       void *out)
{
	const char *line = text;

	while (*line) {
		size_t len = text_until(line, "\n");

		/* A line without an end was cut off, and names another group. */
		if (line[len] == '\n' || strlen(text) < size - 1)
			read_line(line, len, controllers, out);
		line += len + (line[len] == '\n');
	}
}

/* As read_lines(). False: the groups are not known. */
static bool read_groups(const struct controller *controllers, void *out)
{
	static const char path[] = "/proc/self/cgroup";
	size_t size = align_up(LONG_SIZE, os_page_size());
	char *text = read_text(path);
	bool is_long = false;
	void *all;

	if (!text)
		return false;
	/* Of version 1 there are a dozen lines, and groups in groups have long paths. */
	if (unlikely(strlen(text) == TEXT_SIZE - 1) && !os_map_metadata(size, &all)) {
		is_long = fill_text(path, all, LONG_SIZE);
		if (is_long)
			read_lines(all, LONG_SIZE, controllers, out);
		os_release(all, size);
	}
	if (!is_long)
		read_lines(text, TEXT_SIZE, controllers, out);
	free_text(text);
	return true;
}

void os_cgroup_limits(struct os_cgroup_limits *limits)
{
	static const struct controller limiting[] = { { "memory", read_memory },
						      { "cpu", read_cpu },
						      { NULL, NULL } };

	limits->memory = UINT64_MAX;
	limits->cpu_milli = UINT64_MAX;
	limits->unknown = false;
	if (!read_groups(limiting, limits))
		limits->unknown = true;
}

void os_cgroup_memory(struct os_cgroup_limits *limits, uint64_t swap)
{
	static const struct controller memory[] = { { "memory", read_all_of_memory },
						    { NULL, NULL } };

	limits->memory = UINT64_MAX;
	limits->memory_free = UINT64_MAX;
	limits->memory_left = UINT64_MAX;
	limits->memory_above = 0;
	limits->swap_free = swap;
	limits->unknown = false;
	if (!read_groups(memory, limits))
		limits->unknown = true;
}

bool os_cgroup_cpus(struct os_mask *cpus)
{
	static const struct controller cpuset[] = { { "cpuset", read_cpus }, { NULL, NULL } };
	struct cpuset c = { .cpus = cpus };

	read_groups(cpuset, &c);
	return c.known;
}

static struct os_memory read_meminfo(const char *path)
{
	struct os_memory memory = { 0 };
	char *text = read_text(path);

	if (!text)
		return memory;
	memory.total = 1024 * number_behind(text, "MemTotal:");
	memory.swap = 1024 * number_behind(text, "SwapTotal:");
	memory.swap_free = 1024 * number_behind(text, "SwapFree:");
	memory.available = 1024 * number_behind(text, "MemAvailable:");
	if (memory.available)
		memory.available += memory.swap_free;
	free_text(text);
	return memory;
}

struct os_memory os_memory(void)
{
	return read_meminfo("/proc/meminfo");
}

uint64_t os_anonymous(void)
{
	enum { SIZE, RESIDENT, SHARED, NR };
	uint64_t pages[NR];
	char text[80];
	const char *p = text;
	ssize_t n = os_calls.read_file("/proc/self/statm", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	for (unsigned int i = 0; i < NR; i++) {
		if (!parse_decimal(&p, &pages[i]))
			return 0;
		p += *p == ' ';
	}
	return pages[RESIDENT] > pages[SHARED]
		       ? (pages[RESIDENT] - pages[SHARED]) * os_page_size()
		       : 0;
}

uint64_t os_node_memory(unsigned int id)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", id);
	return read_meminfo(path).total;
}

enum os_overcommit os_overcommit(void)
{
	uint64_t policy = read_limit("/proc/sys/vm/overcommit_memory");

	return policy <= OS_OVERCOMMIT_NEVER ? (enum os_overcommit)policy : OS_OVERCOMMIT_GUESS;
}
