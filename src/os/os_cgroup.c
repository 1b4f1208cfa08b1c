/* SPDX-License-Identifier: MIT */
/*
 * Memory and CPU limits, and the CPUs, of the cgroup this process is in. Version 2 has one
 * line "0::/path" in /proc/self/cgroup, version 1 a line per controller; both
 * may be mounted at once. The limit of an ancestor binds as well.
 */
#include "os/os.h"

#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

enum { PATH_SIZE = 512, GROUPS_SIZE = 4096, CPUS_SIZE = 4096 };

static size_t texts_size(void)
{
	return (GROUPS_SIZE + CPUS_SIZE + os_page_size() - 1) & -os_page_size();
}

/* "max" and anything unreadable are no limit. */
static uint64_t read_limit(const char *path)
{
	char text[64];
	ssize_t n = os_calls.read_file(path, text, sizeof(text) - 1);
	const char *p = text;
	uint64_t v;

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	if (!parse_decimal(&p, &v))
		return UINT64_MAX;
	/* Version 1 says "no limit" as the largest multiple of a page. */
	return v >= (1ull << 62) ? UINT64_MAX : v;
}

static uint64_t milli(uint64_t quota, uint64_t period)
{
	return period ? quota * 1000 / period : UINT64_MAX;
}

static void memory_v1(const char *dir, void *out)
{
	struct os_cgroup_limits *l = out;
	char path[PATH_SIZE + 64];
	uint64_t v;

	snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", dir);
	v = read_limit(path);
	if (v < l->memory)
		l->memory = v;
}

static void cpu_v1(const char *dir, void *out)
{
	struct os_cgroup_limits *l = out;
	char path[PATH_SIZE + 64];
	uint64_t quota, period;

	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir); /* -1: none */
	quota = read_limit(path);
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
	period = read_limit(path);
	if (quota != UINT64_MAX && period != UINT64_MAX && milli(quota, period) < l->cpu_milli)
		l->cpu_milli = milli(quota, period);
}

static void limits_v2(const char *dir, void *out)
{
	struct os_cgroup_limits *l = out;
	char path[PATH_SIZE + 64], text[64];
	const char *p = text;
	uint64_t v, period;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	v = read_limit(path);
	if (v < l->memory)
		l->memory = v;
	snprintf(path, sizeof(path), "%s/cpu.max", dir);
	n = os_calls.read_file(path, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (parse_decimal(&p, &v) && *p++ == ' ' && parse_decimal(&p, &period) &&
	    milli(v, period) < l->cpu_milli)
		l->cpu_milli = milli(v, period);
}

/* Of the group itself, which comes first; ancestors' say less. */
struct cpuset {
	struct os_mask *cpus;
	char *text; /* of CPUS_SIZE */
	bool known;
};

static void cpus_of(const char *dir, const char *file, struct cpuset *c)
{
	char path[PATH_SIZE + 64];
	ssize_t n;

	if (c->known)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	n = os_calls.read_file(path, c->text, CPUS_SIZE - 1);
	if (n <= 0 || n == CPUS_SIZE - 1)
		return;
	c->text[n] = '\0';
	c->known = os_parse_list(c->text, c->cpus) && os_mask_count(c->cpus);
}

static void cpuset_v1(const char *dir, void *out)
{
	cpus_of(dir, "cpuset.effective_cpus", out);
}

static void cpuset_v2(const char *dir, void *out)
{
	cpus_of(dir, "cpuset.cpus.effective", out);
}

typedef void read_function(const char *dir, void *out);

/* Apply @read to @mount/@group and to every ancestor up to @mount. */
static void walk_up(const char *mount, const char *group, size_t len, read_function *read,
		    void *out)
{
	char dir[PATH_SIZE];
	size_t mount_len = strlen(mount);

	if (mount_len + len >= sizeof(dir))
		len = 0;
	memcpy(dir, mount, mount_len);
	memcpy(dir + mount_len, group, len);
	dir[mount_len + len] = '\0';
	for (;;) {
		char *slash = strrchr(dir + mount_len, '/');

		if (slash && !slash[1]) { /* "/" itself, or a trailing slash */
			*slash = '\0';
			continue;
		}
		read(dir, out);
		if (!slash)
			return;
		*slash = '\0';
	}
}

static bool has_controller(const char *list, size_t len, const char *name)
{
	size_t n = strlen(name);

	while (len) {
		const char *comma = memchr(list, ',', len);
		size_t item = comma ? (size_t)(comma - list) : len;

		if (item == n && !memcmp(list, name, n))
			return true;
		list += item + (comma != NULL);
		len -= item + (comma != NULL);
	}
	return false;
}

/*
 * Version 1: controllers are mounted by the name of all that are there together, to which
 * the name of one alone is a link, or not.
 */
static void walk_v1(const char *list, size_t list_len, const char *name, const char *group,
		    size_t len, read_function *read, void *out)
{
	char mount[64];

	snprintf(mount, sizeof(mount), "/sys/fs/cgroup/%s", name);
	walk_up(mount, group, len, read, out);
	if (list_len == strlen(name) || list_len >= sizeof(mount) - sizeof("/sys/fs/cgroup/"))
		return;
	snprintf(mount, sizeof(mount), "/sys/fs/cgroup/%.*s", (int)list_len, list);
	walk_up(mount, group, len, read, out);
}

/* What a controller's files are read by. Version 2 has one place for all. */
struct controller {
	const char *name;
	read_function *v1, *v2;
};

/* One line "id:controllers:path". */
static void read_line(const char *line, size_t len, const struct controller *c, void *out)
{
	const char *list = memchr(line, ':', len);
	const char *group;
	size_t list_len, group_len;

	if (!list++)
		return;
	group = memchr(list, ':', len - (size_t)(list - line));
	if (!group)
		return;
	list_len = (size_t)(group++ - list);
	group_len = len - (size_t)(group - line);
	for (; c->name; c++)
		if (!list_len && c->v2)
			walk_up("/sys/fs/cgroup", group, group_len, c->v2, out);
		else if (has_controller(list, list_len, c->name))
			walk_v1(list, list_len, c->name, group, group_len, c->v1, out);
}

/*
 * Texts are too long for stacks, which may be small: limits are looked at in the middle of
 * requests, too. NULL without memory.
 */
static char *map_texts(void)
{
	void *mem;

	return os_map_metadata(texts_size(), &mem) ? NULL : mem;
}

/* @text: a buffer of GROUPS_SIZE, zeroed; @controllers: the last one's name is NULL. */
static void read_groups(char *text, const struct controller *controllers, void *out)
{
	const char *line = text;

	if (os_calls.read_file("/proc/self/cgroup", text, GROUPS_SIZE - 1) <= 0)
		return;
	while (*line) {
		size_t len = strcspn(line, "\n");

		read_line(line, len, controllers, out);
		line += len + (line[len] == '\n');
	}
}

void os_cgroup_limits(struct os_cgroup_limits *limits)
{
	static const struct controller limiting[] = { { "memory", memory_v1, limits_v2 },
						      { "cpu", cpu_v1, NULL },
						      { NULL, NULL, NULL } };

	char *texts = map_texts();

	limits->memory = UINT64_MAX;
	limits->cpu_milli = UINT64_MAX;
	if (!texts)
		return;
	read_groups(texts, limiting, limits);
	os_release(texts, texts_size());
}

bool os_cgroup_cpus(struct os_mask *cpus)
{
	static const struct controller cpuset[] = { { "cpuset", cpuset_v1, cpuset_v2 },
						    { NULL, NULL, NULL } };
	char *texts = map_texts();
	struct cpuset c = { .cpus = cpus, .text = texts + GROUPS_SIZE };

	if (!texts)
		return false;
	read_groups(texts, cpuset, &c);
	os_release(texts, texts_size());
	return c.known;
}

/* The line of @text that holds @key, in KiB, as bytes; 0: there is none. */
static uint64_t line_of(const char *text, const char *key)
{
	const char *line = strstr(text, key);
	uint64_t kib;

	if (!line)
		return 0;
	line += strlen(key);
	line += strspn(line, " ");
	return parse_decimal(&line, &kib) ? kib * 1024 : 0;
}

static struct os_memory read_meminfo(const char *path)
{
	char text[4096];
	ssize_t n = os_calls.read_file(path, text, sizeof(text) - 1);

	if (n <= 0)
		return (struct os_memory){ 0, 0 };
	text[n] = '\0';
	return (struct os_memory){ line_of(text, "MemTotal:"), line_of(text, "SwapTotal:") };
}

struct os_memory os_memory(void)
{
	return read_meminfo("/proc/meminfo");
}

uint64_t os_node_memory(unsigned int id)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", id);
	return read_meminfo(path).total;
}
