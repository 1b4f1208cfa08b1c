/* SPDX-License-Identifier: MIT */
/*
 * Memory and CPU limits, and the CPUs, of the cgroup this process is in. Version 2 has one
 * line "0::/path" in /proc/self/cgroup, version 1 a line per controller; both
 * may be mounted at once. The limit of an ancestor binds as well.
 */
#include "os/os.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/decimal.h"

enum { PATH_SIZE = 512, TEXT_SIZE = 4096 };

/* A file's text, terminated, not on the stack, which may be a small one; NULL: not to be had.
 * Mapped as zeros. */
static char *read_text(const char *path)
{
	size_t size = align_up(TEXT_SIZE, os_page_size());
	void *text;

	if (os_map_metadata(size, &text))
		return NULL;
	if (os_calls.read_file(path, text, TEXT_SIZE - 1) > 0)
		return text;
	os_release(text, size);
	return NULL;
}

static void free_text(char *text)
{
	os_release(text, align_up(TEXT_SIZE, os_page_size()));
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

/* The number behind @key in a file of lines; 0: there is none. */
static uint64_t read_line_of(const char *path, const char *key)
{
	char *text = read_text(path);
	const char *p = text ? strstr(text, key) : NULL;
	uint64_t v = 0;

	if (p) {
		p += strlen(key);
		if (!parse_decimal(&p, &v))
			v = 0;
	}
	if (text)
		free_text(text);
	return v;
}

/* What is left of @limit: the page cache that nobody has used lately makes room. */
static void count_free(uint64_t limit, uint64_t usage, uint64_t cache,
		       struct os_cgroup_limits *l)
{
	uint64_t used = usage - (cache < usage ? cache : usage);
	uint64_t left = used < limit ? limit - used : 0;

	if (limit != UINT64_MAX && usage != UINT64_MAX && left < l->memory_free)
		l->memory_free = left;
}

static void free_v1(const char *dir, void *out)
{
	struct os_cgroup_limits *l = out;
	char path[PATH_SIZE + 64];
	uint64_t limit, usage;

	snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", dir);
	limit = read_limit(path);
	if (limit == UINT64_MAX)
		return;
	snprintf(path, sizeof(path), "%s/memory.usage_in_bytes", dir);
	usage = read_limit(path);
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	count_free(limit, usage, read_line_of(path, "\ntotal_inactive_file "), l);
}

static void free_v2(const char *dir, void *out)
{
	struct os_cgroup_limits *l = out;
	char path[PATH_SIZE + 64];
	uint64_t limit, usage;

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	limit = read_limit(path);
	if (limit == UINT64_MAX)
		return;
	snprintf(path, sizeof(path), "%s/memory.current", dir);
	usage = read_limit(path);
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	count_free(limit, usage, read_line_of(path, "\ninactive_file "), l);
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
	bool known;
};

static void cpus_of(const char *dir, const char *file, struct cpuset *c)
{
	char path[PATH_SIZE + 64], *text;

	if (c->known)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	text = read_text(path);
	if (!text)
		return;
	/* One that was cut says less than there is. */
	c->known = strlen(text) < TEXT_SIZE - 1 && os_parse_list(text, c->cpus) &&
		   os_mask_count(c->cpus);
	free_text(text);
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

/* @controllers: the last one's name is NULL. */
static void read_groups(const struct controller *controllers, void *out)
{
	char *text = read_text("/proc/self/cgroup");
	const char *line = text;

	if (!text)
		return;
	while (*line) {
		size_t len = strcspn(line, "\n");

		read_line(line, len, controllers, out);
		line += len + (line[len] == '\n');
	}
	free_text(text);
}

void os_cgroup_limits(struct os_cgroup_limits *limits)
{
	static const struct controller limiting[] = { { "memory", memory_v1, limits_v2 },
						      { "cpu", cpu_v1, NULL },
						      { NULL, NULL, NULL } };

	limits->memory = UINT64_MAX;
	limits->cpu_milli = UINT64_MAX;
	read_groups(limiting, limits);
}

uint64_t os_cgroup_memory_free(void)
{
	static const struct controller memory[] = { { "memory", free_v1, free_v2 },
						    { NULL, NULL, NULL } };
	struct os_cgroup_limits limits = { .memory_free = UINT64_MAX };

	read_groups(memory, &limits);
	return limits.memory_free;
}

bool os_cgroup_cpus(struct os_mask *cpus)
{
	static const struct controller cpuset[] = { { "cpuset", cpuset_v1, cpuset_v2 },
						    { NULL, NULL, NULL } };
	struct cpuset c = { .cpus = cpus };

	read_groups(cpuset, &c);
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
	struct os_memory memory = { 0 };
	char *text = read_text(path);

	if (!text)
		return memory;
	memory.total = line_of(text, "MemTotal:");
	memory.swap = line_of(text, "SwapTotal:");
	memory.available = line_of(text, "MemAvailable:");
	if (memory.available)
		memory.available += line_of(text, "SwapFree:");
	free_text(text);
	return memory;
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

enum os_overcommit os_overcommit(void)
{
	uint64_t policy = read_limit("/proc/sys/vm/overcommit_memory");

	return policy <= OS_OVERCOMMIT_NEVER ? (enum os_overcommit)policy : OS_OVERCOMMIT_GUESS;
}
