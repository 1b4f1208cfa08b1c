/* SPDX-License-Identifier: MIT */
/*
 * The heap profile: records samples, and writes them.
 *
 * slab/slab_profile.c chooses the samples among objects; each becomes a block of whole pages
 * here. Large blocks are chosen here, when they are made and when they grow. The entry of the
 * block's first page keeps the index of its site and the bytes counted there, so no table of
 * addresses is needed: the record is found with the block.
 */
#include "ukmem/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/decimal.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/sys.h"
#include "base/sys_call.h"
#include "base/text.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/lookup.h"
#include "percpu/register.h"
#include "percpu/sections.h"
#include "profile/cost.h"
#include "profile/sites.h"
#include "slab/slab_cache.h"
#include "slab/slab_hard.h"
#include "slab/slab_list.h"
#include "slab/slab_profile.h"

enum { INTERVAL_MIN = 1024, INTERVAL_MAX = 1 << 30 };

static void count(struct page *page, const uintptr_t *pc, unsigned int depth, uint64_t bytes)
{
	page->sample.site = site_find(pc, depth, bytes);
	page->sample.weight = (uint16_t)slab_profile_weight(bytes, page->sample.level);
	page->sample.bytes = bytes;
	site_count(page->sample.site, page->sample.weight, bytes);
}

static void record(struct page *page, uint64_t bytes, unsigned int level, const void *caller)
{
	uintptr_t pc[PROFILE_STACK_DEPTH];
	unsigned int depth = stack_read(pc, PROFILE_STACK_DEPTH, caller, true);

	page->sample.level = (uint16_t)level;
	count(page, pc, depth, bytes);
	page->sampled = 1;
}

static void forget(struct page *page)
{
	site_uncount(page->sample.site, page->sample.weight, page->sample.bytes);
}

static void *sample_object(size_t size, unsigned int level, gfp_t flags, const void *caller)
{
	uint64_t started = os_calls.now_us();
	/* Objects whose size is a power of two may be promised alignment to it. */
	unsigned int order =
		is_pow2(size) && size > page_size() ? ilog2(size) - page_window.page_shift : 0;
	void *p = large_alloc_unsampled(size, order, flags, caller);

	if (p)
		record(page_of(p), size, level, caller);
	cost_add(started);
	return p;
}

static bool free_object(size_t size, void *obj, bool zero)
{
	struct page *page = page_lookup(obj);

	if (!page || page_type(page) != PAGE_LARGE || !page->sampled ||
	    page_to_virt(page) != obj || page->sample.bytes != size)
		return false;
	if (zero)
		memset(obj, 0, size);
	large_free(page, NULL);
	return true;
}

/* A sample that grows or shrinks keeps its stack, and its count follows the size. A block that
 * is none may become one by the bytes that it grows. */
static void sample_block(struct page *page, size_t more, const void *caller)
{
	unsigned int level = slab_profile_level();

	if (page->sampled) {
		/* A site's stack never changes. */
		const struct profile_site *s = &profile_table()[page->sample.site];

		forget(page);
		count(page, s->pc, s->depth, large_size(page));
	} else if (more && slab_profile_gap(level) < more) {
		uint64_t started = os_calls.now_us();

		record(page, large_size(page), level, caller);
		cost_add(started);
	}
}

static const struct large_profile large_hooks = { sample_block, forget };

/* Whether a thread starts or stops. In the child of a fork none does. A PID would not tell: in
 * another PID namespace the child may have its parent's, and that of vfork() has the memory of
 * its parent. */
static atomic_bool busy;

static bool enter(void)
{
	return !atomic_exchange(&busy, true);
}

static void leave(void)
{
	atomic_store(&busy, false);
}

const struct layer profile_layer = { .fork_child = leave };

static void arm(struct kmem_cache *s, void *unused)
{
	(void)unused;
	if (slab_profile_has(s))
		slab_profile_arm_all(s);
}

/* Twice, because a section under way may undo the first time (slab/slab_profile.c). */
static void arm_all(void)
{
	slab_for_each_cache(arm, NULL);
	if (pcpu_use_rseq())
		pcpu_restart_sections(PCPU_ALL_CPUS);
	slab_for_each_cache(arm, NULL);
}

static int start(uint64_t interval)
{
	uint64_t before = atomic_load_explicit(&slab_profile.interval, memory_order_relaxed);

	if (!kmalloc_init_all())
		return -ENOMEM;
	/* Its kmalloc's caches have no arrays to count down. */
	if (slab_hardened)
		return -EOPNOTSUPP;
	if (!interval)
		interval = before ? before : config.profile_interval;
	if (interval < INTERVAL_MIN || interval > INTERVAL_MAX ||
	    (before && interval != before))
		return -EINVAL;
	if (!sites_init())
		return -ENOMEM;
	atomic_store_explicit(&slab_profile.interval, interval, memory_order_relaxed);
	if (config.passthrough || atomic_load_explicit(&slab_profile.on, memory_order_relaxed))
		return 0;
	stack_load();
	slab_profile_seed(os_random());
	cost_begin();
	atomic_store_explicit(&slab_profile.sample, sample_object, memory_order_relaxed);
	atomic_store_explicit(&slab_profile.free, free_object, memory_order_relaxed);
	atomic_store_explicit(&large_profile, &large_hooks, memory_order_release); /* I3 */
	atomic_store_explicit(&slab_profile.on, true, memory_order_release);	   /* I1 */
	arm_all();
	return 0;
}

int ukmem_profile_start(size_t interval)
{
	int err;

	if (!enter())
		return -EBUSY;
	err = start(interval);
	leave();
	return err;
}

int ukmem_profile_stop(void)
{
	if (!enter())
		return -EBUSY;
	atomic_store_explicit(&slab_profile.on, false, memory_order_relaxed);
	leave();
	return 0;
}

struct writer {
	int fd, err;
	unsigned int len;
	char buf[2048];
};

static void flush(struct writer *w)
{
	if (!w->err)
		w->err = sys_write_all(w->fd, w->buf, w->len);
	w->len = 0;
}

static void write_text(struct writer *w, const char *text)
{
	size_t n = strlen(text);

	memcpy(w->buf + w->len, text, n);
	w->len += (unsigned int)n;
}

/* A profile has tens of thousands of numbers, for each of which printf() takes a tenth of a
 * microsecond; and a signal handler may not call it. */
static void write_number(struct writer *w, uint64_t n)
{
	w->len += (unsigned int)format_decimal(w->buf + w->len, n);
}

static void write_address(struct writer *w, uintptr_t at)
{
	unsigned int shift = (ilog2(at | 1) / 4 + 1) * 4;

	write_text(w, " 0x");
	do {
		shift -= 4;
		w->buf[w->len++] = "0123456789abcdef"[at >> shift & 15];
	} while (shift);
}

/* A line has at most 128 bytes and 20 for each address. */
static void write_site(struct writer *w, const struct profile_counts *c,
		       const struct profile_site *s, const char *head)
{
	if (w->len > sizeof(w->buf) - 1280)
		flush(w);
	write_text(w, head);
	write_number(w, c->live);
	write_text(w, ": ");
	write_number(w, c->live_bytes);
	write_text(w, " [");
	write_number(w, c->allocs);
	write_text(w, ": ");
	write_number(w, c->alloc_bytes);
	write_text(w, "] @");
	for (unsigned int i = 0; s && i < s->depth; i++)
		write_address(w, s->pc[i]);
}

static void write_maps(struct writer *w)
{
	int fd = sys_open("/proc/self/maps");
	ssize_t n;

	write_text(w, "\nMAPPED_LIBRARIES:\n");
	flush(w);
	while (fd >= 0 && !w->err && (n = sys_read(fd, w->buf, sizeof(w->buf))) > 0) {
		w->len = (unsigned int)n;
		flush(w);
	}
	if (fd >= 0)
		sys_close(fd);
}

static void write_profile(struct writer *w)
{
	struct profile_counts c, sum = { 0 };

	for (unsigned int i = 0; i < PROFILE_SITES; i++)
		if (site_read(i, &c)) {
			sum.live += c.live;
			sum.live_bytes += c.live_bytes;
			sum.allocs += c.allocs;
			sum.alloc_bytes += c.alloc_bytes;
		}
	write_site(w, &sum, NULL, "heap profile: ");
	write_text(w, " heap_v2/");
	write_number(w, atomic_load_explicit(&slab_profile.interval, memory_order_relaxed));
	write_text(w, "\n");
	for (unsigned int i = 0; i < PROFILE_SITES && !w->err; i++)
		if (site_read(i, &c)) {
			write_site(w, &c, &profile_table()[i], "");
			write_text(w, "\n");
		}
	write_maps(w);
}

int ukmem_profile_dump(int fd)
{
	struct writer w = { .fd = fd };

	if (!profile_table())
		return -ENOENT;
	write_profile(&w);
	return w.err;
}

/* With the tunable profile: samples from the program's start to its end. */
static int main_pid;

__attribute__((constructor(102))) static void begin(void)
{
	int saved = errno, err;

	config_init();
	if (config.profile) {
		err = ukmem_profile_start(0);
		if (err)
			log_warn("profile: cannot start: %s",
				 err == -EOPNOTSUPP ? "the process is hardened"
						    : strerror(-err));
		else
			main_pid = sys_getpid();
	}
	errno = saved;
}

/* A PID has at most seven digits and takes the place of two characters. */
enum { FILE_NAME_SIZE = 4 * CONFIG_STRING_SIZE };

/* The file's name, with the PID for each %p. */
static void name_file(char name[FILE_NAME_SIZE])
{
	const char *pattern = *config.profile_file ? config.profile_file : "ukmem.%p.heap", *at;
	size_t n = 0;

	for (; (at = text_find_word(pattern, "%p")); pattern = at + 2)
		n += (size_t)snprintf(name + n, FILE_NAME_SIZE - n, "%.*s%d",
				      (int)(at - pattern), pattern, sys_getpid());
	text_copy(name + n, pattern, FILE_NAME_SIZE - n);
}

/* Neither of the two waits for a reader, if the file is a pipe. Result: a descriptor, or a
 * negative errno. */
static int open_named(const char *name, int flags)
{
	flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK;
	return (int)sys_call(SYS_openat, AT_FDCWD, name, flags, 0600);
}

/* Whether it is a file of this user's, without another name: another user could have made a
 * second name for it. */
static bool is_own(const struct stat *made, bool may_be_pipe)
{
	return (S_ISREG(made->st_mode) ? made->st_nlink == 1 : may_be_pipe) &&
	       made->st_uid == (uid_t)sys_call(SYS_geteuid);
}

/* Opens what no other user has made. */
static int open_own(const char *name, bool may_be_pipe)
{
	int fd = open_named(name, O_NOFOLLOW), err;
	struct stat made;

	if (fd < 0)
		return fd;
	err = (int)sys_call(SYS_fstat, fd, &made);
	if (!err && !is_own(&made, may_be_pipe))
		err = -EPERM;
	if (!err && S_ISREG(made.st_mode))
		err = (int)sys_call(SYS_ftruncate, fd, 0);
	if (!err)
		return fd;
	sys_close(fd);
	return err;
}

/* Whether the name lies in a folder where other users may make links and files, like /tmp. */
static bool is_in_folder_for_all(const char *name, struct stat *folder)
{
	const char *end = name;
	char path[CONFIG_STRING_SIZE + 16];

	for (const char *at = name; *at; at++)
		if (*at == '/')
			end = at + 1;
	snprintf(path, sizeof(path), "%.*s", (int)(end - name), name);
	return !sys_call(SYS_newfstatat, AT_FDCWD, *path ? path : ".", folder, 0) &&
	       (folder->st_mode & S_ISVTX) && (folder->st_mode & S_IWOTH);
}

/* The name is the user's choice. Yet in a folder for all another user may have made a link or
 * a file of it before, and not every system refuses to follow that (fs.protected_symlinks).
 * No other user can put something in the place of a link that is trusted there. */
static int open_chosen(const char *name)
{
	struct stat folder, link;
	bool others = is_in_folder_for_all(name, &folder), is_link;
	int fd;

	is_link = others &&
		  !sys_call(SYS_newfstatat, AT_FDCWD, name, &link, AT_SYMLINK_NOFOLLOW) &&
		  S_ISLNK(link.st_mode);
	if (is_link && link.st_uid != folder.st_uid &&
	    link.st_uid != (uid_t)sys_call(SYS_geteuid))
		return -EPERM;
	fd = others && !is_link ? open_own(name, true) : open_named(name, O_TRUNC);
	if (fd >= 0)
		sys_call(SYS_fcntl, fd, F_SETFL, O_WRONLY);
	return fd;
}

/* A child of a fork writes a file only if its name is its own. A process that may have a filter
 * of system calls opens none. */
__attribute__((destructor(102))) static void end(void)
{
	char name[FILE_NAME_SIZE];
	int fd, err;

	if (main_pid && os_is_confined()) {
		log_warn("profile: not written: the process may have a filter of system calls");
		return;
	}
	if (!main_pid || (main_pid != sys_getpid() && *config.profile_file &&
			  !text_find_word(config.profile_file, "%p")))
		return;
	name_file(name);
	/* Of the library's own name the user has made no link and no pipe, in any folder. */
	fd = *config.profile_file ? open_chosen(name) : open_own(name, false);
	err = fd < 0 ? fd : ukmem_profile_dump(fd);
	if (err)
		log_warn("profile: cannot write %s: %s", name, strerror(-err));
	if (fd >= 0)
		sys_close(fd);
}
