/* SPDX-License-Identifier: MIT */
#include "live/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "live/descriptor.h"
#include "live/printable.h"

namespace fs = std::filesystem;

namespace live
{

static std::string proc(pid_t pid, const char *file)
{
	return "/proc/" + std::to_string(pid) + "/" + file;
}

std::string status_line(const std::string &file, const std::string &key)
{
	std::ifstream in(file);

	for (std::string line; std::getline(in, line);)
		if (!line.compare(0, key.size() + 1, key + ":"))
			return line.substr(std::min(line.size(), key.size() + 2));
	return "";
}

struct life {
	char state;
	uint64_t start_time; /* clock ticks after boot */

	bool over() const
	{
		return state == 'Z' || state == 'X';
	}
};

/* From /proc/PID/stat; nothing: there is no such process. Throws error where this cannot be
 * told, as without a file descriptor. */
static std::optional<life> read_life(pid_t pid)
{
	enum { FIELDS_BETWEEN = 18 }; /* after the state, before the start time */
	/* A variable: to free a temporary string may change errno. */
	const std::string name = proc(pid, "stat");
	std::ifstream in(name);
	std::string line, word;
	life l = {};

	if (!in && errno != ENOENT && errno != ESRCH)
		throw error(reason::forbidden,
			    "/proc/PID/stat: " + std::string(strerror(errno)));
	if (!std::getline(in, line, '\0') || line.rfind(')') == std::string::npos)
		return std::nullopt;
	/* The program's name, in parentheses, may have spaces, newlines and parentheses. */
	std::istringstream fields(line.substr(line.rfind(')') + 1));

	fields >> l.state;
	for (int i = 0; i < FIELDS_BETWEEN; i++)
		fields >> word;
	fields >> l.start_time;
	return fields ? std::optional(l) : std::nullopt;
}

static bool may_trace()
{
	constexpr uint64_t cap_sys_ptrace = 19;
	const std::string caps = status_line("/proc/self/status", "CapEff");

	return !caps.empty() && std::stoull(caps, nullptr, 16) >> cap_sys_ptrace & 1;
}

standing standing_of(pid_t pid, const std::string &yama)
{
	std::istringstream uids(status_line(proc(pid, "status"), "Uid"));
	std::ifstream scope(yama);
	struct stat st = {};
	standing s;

	uids >> s.user >> s.effective;
	s.own = geteuid();
	s.traces = may_trace();
	s.hidden = !stat(proc(pid, "status").c_str(), &st) && st.st_uid != s.user;
	if (!(scope >> s.yama))
		s.yama = 0;
	return s;
}

static std::string why_yama_forbids(int scope)
{
	const std::string is = "kernel.yama.ptrace_scope is " + std::to_string(scope) + ": ";

	switch (scope) {
	case 1:
		return is + "only parents may look into a process, and those whom it allows to "
			    "(prctl, PR_SET_PTRACER); run this as root, or as root: sysctl "
			    "kernel.yama.ptrace_scope=0. Commands that ask the process "
			    "(live:1), as trim and slabinfo -v do, work all the same";
	case 2:
		return is + "only root may look into a process; run this as root";
	default:
		return is + "nobody may look into another process until the next boot";
	}
}

std::string why_forbidden(const standing &s)
{
	if (!s.traces) {
		if (s.user != s.own || s.effective != s.own)
			return "it belongs to user " + std::to_string(s.user) +
			       "; run this as that user or as root" +
			       (s.own ? ""
				      : " with CAP_SYS_PTRACE, which this root lacks, as in a "
					"container");
		if (s.yama >= 3)
			return why_yama_forbids(s.yama);
		if (!s.own)
			return "root lacks CAP_SYS_PTRACE here, as in a container; start the "
			       "container with that capability";
		if (s.hidden)
			return "it has made itself unreadable (PR_SET_DUMPABLE, a setuid "
			       "program, capabilities); run this as root";
		if (s.yama > 0)
			return why_yama_forbids(s.yama);
	}
	return "the system forbids it: perhaps another user namespace, a security module, or a "
	       "filter of system calls around this command; run this where the process runs, "
	       "with CAP_SYS_PTRACE";
}

/* In another PID namespace than /proc is of, a PID means two processes: one for /proc, and
 * another one, or none, for system calls. */
static void check_namespace()
{
	std::error_code unused;

	if (!fs::exists("/proc/self", unused))
		throw error(reason::forbidden,
			    "/proc is not mounted here, or is that of another "
			    "PID namespace");
	if (fs::read_symlink("/proc/self", unused) != std::to_string(getpid()))
		throw error(reason::forbidden,
			    "this command's PIDs are not those of its /proc; run it where the "
			    "process is seen (nsenter --pid, unshare --mount-proc)");
}

static uint64_t start_time_of(pid_t pid)
{
	check_namespace();

	const std::optional<life> l = read_life(pid);

	if (!l)
		throw error(reason::gone,
			    "there is no such process here; 'ukmem ps' lists those "
			    "on ukmem (in a container a process has another PID "
			    "than outside of it)");
	return l->start_time;
}

/* A thread of the process that has not ended; 0: there is none. */
static pid_t living_thread(pid_t pid)
{
	std::error_code failed;

	for (fs::directory_iterator i(proc(pid, "task"), failed), end; !failed && i != end;
	     i.increment(failed)) {
		const pid_t id = std::stoi(i->path().filename());
		const std::optional<life> l = read_life(id);

		if (l && !l->over())
			return id;
	}
	return 0;
}

/* The process that a thread belongs to, as its first thread; @id if that is not known. */
static pid_t process_of(pid_t id)
{
	const std::string first = status_line(proc(id, "status"), "Tgid");

	return first.empty() ? id : std::stoi(first);
}

process::process(pid_t number)
    : pid(process_of(number)), start_time(start_time_of(pid)), reached(living_thread(pid))
{
	if (!reached)
		reached = pid;
	process::begin_look();
}

void process::begin_look(unsigned int times)
{
	end_of_look = std::chrono::steady_clock::now() + times * longest_look;
	counted.reset();
}

void process::check_look() const
{
	if (stop && *stop)
		throw error(reason::stopped, "a signal has ended the look at it");
	if (std::chrono::steady_clock::now() > end_of_look)
		throw error(reason::too_long, "a look at it takes too long: its heap is larger "
					      "than can be, or its description is damaged");
}

void process::check_alive()
{
	const std::optional<life> l = read_life(pid);

	if (l && l->start_time == start_time)
		if (const pid_t id = l->over() ? living_thread(pid) : pid) {
			reached = id;
			return;
		}
	throw error(reason::gone, "the process has ended");
}

/* The thread has ended, and another one leads to the memory. Throws error: gone. */
bool process::has_moved()
{
	const pid_t before = reached;

	check_alive();
	return reached != before;
}

bool process::is_stopped() const
{
	const std::optional<life> l = read_life(reached);

	return l && (l->state == 'T' || l->state == 't');
}

void process::fail(int error_number, const char *what) const
{
	switch (error_number) {
	case EPERM:
	case EACCES:
		throw error(reason::forbidden, why_forbidden(standing_of(pid)));
	case ESRCH:
	case ENOENT:
		throw error(reason::gone, "the process has ended");
	default:
		throw error(reason::forbidden,
			    std::string(what) + ": " + strerror(error_number));
	}
}

bool process::read(const std::vector<piece> &pieces)
{
	std::vector<iovec> local, remote;

	for (size_t done = 0; done < pieces.size(); done += local.size()) {
		check_look();

		const size_t n = std::min<size_t>(pieces.size() - done, IOV_MAX);
		ssize_t wanted = 0, got;

		local.clear();
		remote.clear();
		for (size_t i = done; i < done + n; i++) {
			local.push_back({ pieces[i].to, pieces[i].size });
			remote.push_back(
				{ reinterpret_cast<void *>(pieces[i].from), pieces[i].size });
			wanted += static_cast<ssize_t>(pieces[i].size);
		}
		do
			got = process_vm_readv(reached, local.data(), n, remote.data(), n, 0);
		while (got < 0 && errno == ESRCH && has_moved());
		if (got < 0 && errno != EFAULT)
			fail(errno, "process_vm_readv");
		if (got != wanted)
			return false;
	}
	return true;
}

bool parse_mapping(const std::string &line, mapping &m)
{
	char mode[5] = "", file[PATH_MAX] = "";
	unsigned long start = 0, end = 0, offset = 0;

	if (sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %4095[^\n]", &start, &end, mode,
		   &offset, file) < 4)
		return false;
	m = {};
	m.start = start;
	m.end = end;
	m.offset = offset;
	m.readable = mode[0] == 'r';
	m.writable = mode[1] == 'w';
	m.executable = mode[2] == 'x';
	m.file = file[0] == '/' ? file : "";
	m.stack = !strcmp(file, "[stack]");
	return true;
}

std::vector<mapping> process::mappings()
{
	std::vector<mapping> all;
	mapping m;

	check_look();
	do {
		std::ifstream in(proc(reached, "maps"));

		if (!in && errno != ENOENT && errno != ESRCH)
			fail(errno, "/proc/PID/maps");
		for (std::string line; std::getline(in, line);)
			if (parse_mapping(line, m))
				all.push_back(m);
	} while (all.empty() && has_moved());
	return all;
}

static descriptor open_pagemap(pid_t pid)
{
	return descriptor(open(proc(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
}

/* Counts the pages in memory from page number @next to @end, by the entries of @pagemap. False:
 * errno says why not. */
static bool count_present(int pagemap, uint64_t next, uint64_t end, uint64_t &pages)
{
	constexpr uint64_t present = 1ull << 63;
	std::array<uint64_t, 8192> entries;
	constexpr size_t size = sizeof(entries[0]);

	while (next < end) {
		const size_t n = std::min<uint64_t>(end - next, entries.size());
		const ssize_t got = pread(pagemap, entries.data(), n * size,
					  static_cast<off_t>(next * size));

		if (got <= 0)
			return !got;
		for (size_t i = 0; i < static_cast<size_t>(got) / size; i++)
			pages += (entries[i] & present) != 0;
		next += static_cast<size_t>(got) / size;
	}
	return true;
}

namespace
{

/* As in linux/fs.h since Linux 6.7; the headers may be older than the system. */
struct scanned_region {
	uint64_t start, end, categories;
};

struct scan_request {
	uint64_t size, flags, start, end, walk_end, regions, nr_regions, max_pages, inverted,
		mask, any_of, wanted;
};

enum : uint64_t {
	PAGE_PRESENT = 1 << 3,
	PAGE_SWAPPED = 1 << 4,
	PAGE_ZERO = 1 << 5,
	PAGE_HUGE = 1 << 6
};

/* A request for regions from @from to @to. */
scan_request request_of(address from, address to, scanned_region *regions, uint64_t n)
{
	scan_request r = {};

	r.size = sizeof(r);
	r.start = from;
	r.end = to;
	r.regions = reinterpret_cast<uint64_t>(regions);
	r.nr_regions = n;
	return r;
}

/* How many regions there are; below 0: the system does not tell. */
int answer(int pagemap, scan_request &r)
{
	constexpr unsigned long request = _IOWR('f', 16, scan_request);

	return ioctl(pagemap, request, &r);
}

/* Calls @found with each region from @from to @to whose pages are all of @wanted and not
 * @unwanted. False: the system does not tell. */
template <typename F>
bool scan(int pagemap, address from, address to, uint64_t wanted, uint64_t unwanted, F found)
{
	std::array<scanned_region, 512> regions = {};
	scan_request r = request_of(from, to, regions.data(), regions.size());

	r.inverted = unwanted;
	r.mask = wanted | unwanted;
	r.wanted = wanted;
	while (r.start < r.end) {
		const int n = answer(pagemap, r);

		if (n < 0)
			return false;
		for (size_t i = 0; i < static_cast<size_t>(n); i++)
			found(regions[i].start, regions[i].end);
		if (r.walk_end <= r.start)
			break;
		r.start = r.walk_end;
	}
	return true;
}

/* The same as count_present(), without pages that only read from the system's page of zeros.
 * False: the system does not tell. */
bool count_own(int pagemap, address from, address to, uint64_t page, uint64_t &pages)
{
	uint64_t bytes = 0;

	if (!scan(pagemap, from, to, PAGE_PRESENT, PAGE_ZERO,
		  [&](address start, address end) { bytes += end - start; }))
		return false;
	pages += bytes / page;
	return true;
}

/* Calls @change with the state of each page, of those from @from on, that is all of @wanted. */
template <typename F>
bool change_states(int pagemap, address from, uint64_t page, std::vector<uint8_t> &pages,
		   uint64_t wanted, F change)
{
	return scan(pagemap, from, from + pages.size() * page, wanted, 0,
		    [&](address start, address end) {
			    for (address at = start; at < end; at += page)
				    if ((at - from) / page < pages.size())
					    change(pages[(at - from) / page]);
		    });
}

} // namespace

uint64_t process::resident(address from, uint64_t size)
{
	constexpr uint64_t at_once = 1 << 24; /* pages: a fraction of a second */
	const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
	const address to = from + std::min(size, UINT64_MAX - from);
	uint64_t pages = 0;

	if (!counted)
		counted = mappings();

	const descriptor pagemap = open_pagemap(reached);

	if (pagemap.number < 0)
		fail(errno, "/proc/PID/pagemap");
	/* Only what is mapped: address space that is not can be large. */
	for (const mapping &m : *counted) {
		const address start = std::max(from, m.start), end = std::min(to, m.end);
		const uint64_t behind = (end + page - 1) / page;

		for (uint64_t first = start / page; start < end && first < behind;
		     first += at_once) {
			const uint64_t last = std::min(first + at_once, behind);

			check_look();
			if (!count_own(pagemap.number, first * page, last * page, page,
				       pages) &&
			    !count_present(pagemap.number, first, last, pages))
				fail(errno, "/proc/PID/pagemap");
		}
	}
	return pages * page;
}

/* Copies the entries of @n pages from page number @first on. False: not all are to be had. */
static bool read_entries(const descriptor &pagemap, uint64_t first, uint64_t *entries, size_t n)
{
	const size_t size = n * sizeof(*entries);
	size_t done = 0;

	if (pagemap.number < 0)
		return false;
	while (done < size) {
		const ssize_t got =
			pread(pagemap.number, reinterpret_cast<char *>(entries) + done,
			      size - done, static_cast<off_t>(first * sizeof(*entries) + done));

		if (!got) /* the memory is gone, as it is at the end of a process */
			errno = ESRCH;
		if (got <= 0)
			return false;
		done += static_cast<size_t>(got);
	}
	return true;
}

bool process::page_entries(uint64_t first, uint64_t *entries, size_t n)
{
	check_look();
	return read_entries(open_pagemap(reached), first, entries, n);
}

address process::next_in_memory(address from, address to)
{
	check_look();
	if (!scans)
		return from;

	const descriptor pagemap = open_pagemap(reached);
	scanned_region region = {};
	scan_request r = request_of(from, to, &region, 1);

	r.max_pages = 1;
	r.any_of = r.wanted = PAGE_PRESENT | PAGE_SWAPPED;
	switch (answer(pagemap.number, r)) {
	case 0:
		return to;
	case 1:
		return std::clamp(region.start, from, to);
	default:
		scans = false;
		return from;
	}
}

bool process::pages_in_memory(address from, uint64_t npages, std::vector<uint8_t> &pages)
{
	constexpr uint64_t present = 1ull << 63;
	const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
	std::vector<uint64_t> entries(npages);

	check_look();
	for (;;) {
		const descriptor pagemap = open_pagemap(reached);

		if (!read_entries(pagemap, from / page, entries.data(), npages)) {
			if (errno != ESRCH && errno != ENOENT)
				return false;
			if (!has_moved())
				fail(ESRCH, "/proc/PID/pagemap");
			continue;
		}
		pages.assign(npages, 0);
		for (size_t i = 0; i < npages; i++)
			pages[i] = entries[i] & present ? IN_MEMORY : 0;
		if (!change_states(pagemap.number, from, page, pages, PAGE_HUGE,
				   [](uint8_t &state) { state |= IN_HUGE_PAGE; }))
			for (uint8_t &state : pages)
				state |= HUGE_UNKNOWN;
		/* The system's page of zeros is nobody's memory. */
		change_states(pagemap.number, from, page, pages, PAGE_ZERO,
			      [](uint8_t &state) { state &= HUGE_UNKNOWN; });
		return true;
	}
}

std::string process::program() const
{
	std::ifstream in(proc(pid, "comm"));
	std::string name;

	/* A name may have a newline. */
	std::getline(in, name, '\0');
	if (!name.empty() && name.back() == '\n')
		name.pop_back();
	return printable(name);
}

std::string process_memory::text(address from, size_t max)
{
	std::array<char, 64> part;
	std::string s;

	/* By pieces that lie in one page each: what lies behind the string may not be mapped.
	 */
	while (s.size() < max) {
		const address at = from + s.size();
		const size_t n =
			std::min<size_t>(part.size() - at % part.size(), max - s.size());

		if (!read(at, part.data(), n))
			return "";

		const auto end = std::find(part.begin(), part.begin() + n, 0);

		s.append(part.begin(), end);
		if (end != part.begin() + n)
			return s;
	}
	return "";
}

std::vector<pid_t> all_processes()
{
	std::vector<pid_t> pids;

	check_namespace();
	for (const fs::directory_entry &entry : fs::directory_iterator("/proc")) {
		const std::string name = entry.path().filename();

		if (std::all_of(name.begin(), name.end(),
				[](unsigned char c) { return std::isdigit(c); }))
			pids.push_back(std::stoi(name));
	}
	std::sort(pids.begin(), pids.end());
	return pids;
}

} // namespace live
