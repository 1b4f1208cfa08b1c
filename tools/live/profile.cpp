/* SPDX-License-Identifier: MIT */
#include "live/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>
#include <utility>

#include "live/heap.h"
#include "live/printable.h"

namespace live
{

/* The line that tells a growth; readers of this format leave it out, as all that begin so. */
static const char *const growth_mark = "# growth since an earlier profile\n";
static const char *const no_growth_of_growth =
	"it is itself the growth since an earlier profile; take a dump without --growth";

static const char *const maps_mark = "MAPPED_LIBRARIES:";
static const char *const not_whole = "it is no whole heap profile: its end is missing";

double allocations_for_sample(double bytes, uint64_t interval)
{
	return -1 / std::expm1(-bytes / static_cast<double>(interval));
}

/* Adds samples of one site. Their mean size tells with which probability each was taken. */
static void add(heap_profile &p, const heap_sites::site &s)
{
	if (!s.allocs || !s.alloc_bytes)
		return;

	const double each = allocations_for_sample(
		static_cast<double>(s.alloc_bytes) / static_cast<double>(s.allocs), p.interval);
	profile_counts &c = p.stacks[s.stack];

	c.allocs += static_cast<double>(s.allocs) * each;
	c.alloc_bytes += static_cast<double>(s.alloc_bytes) * each;
	c.live += static_cast<double>(s.live) * each;
	c.live_bytes += static_cast<double>(s.live_bytes) * each;
}

heap_sites read_sites(process_memory &memory, const layout &l)
{
	constexpr uint64_t most_sites = 1 << 20;
	heap_sites read;
	record control(l, "slab_profile");
	const uint64_t nr = l.constant("PROFILE_SITES"),
		       depth = l.constant("PROFILE_STACK_DEPTH");
	const address variable = l.symbol("profile_sites"), at = l.symbol("slab_profile");
	address sites = 0;

	if (variable)
		expect(memory.get(variable, sites));
	if (!at || !sites)
		return read;
	expect(control.read(memory, at) && nr && nr <= most_sites);
	read.on = control.get("on");
	read.interval = control.get("interval");
	read.level = static_cast<unsigned int>(std::min<uint64_t>(control.get("level"), 63));
	if (!read.interval)
		return read; /* it is about to start */

	table all(l, "profile_site", nr);
	std::vector<piece> pieces;
	const layout::field &ready = l.field_of("profile_site.ready");
	const layout::field &pcs = l.field_of("profile_site.pc");
	const layout::field &used = l.field_of("profile_site.depth");
	const uint64_t most = std::min<uint64_t>(depth, pcs.count);
	/* Frees lie behind allocations and are read after them, so they may be too many. */
	const layout::field &allocs = l.field_of("profile_site.allocs");
	const layout::field &alloc_bytes = l.field_of("profile_site.alloc_bytes");
	const layout::field &frees = l.field_of("profile_site.frees");
	const layout::field &free_bytes = l.field_of("profile_site.free_bytes");

	for (size_t i = 0; i < nr; i++)
		pieces.push_back(all.piece(i, sites + i * l.size_of("profile_site")));
	expect(memory.read(pieces));
	room_for(nr, most * sizeof(address));
	read.all.resize(nr);
	for (size_t i = 0; i < nr; i++) {
		heap_sites::site &s = read.all[i];

		if (!all.get(i, ready))
			continue;
		for (uint64_t k = 0; k < std::min(all.get(i, used), most); k++)
			s.stack.push_back(all.get(i, pcs, k));
		s.allocs = all.get(i, allocs);
		s.alloc_bytes = all.get(i, alloc_bytes);
		s.live = s.allocs - std::min(s.allocs, all.get(i, frees));
		s.live_bytes = s.alloc_bytes - std::min(s.alloc_bytes, all.get(i, free_bytes));
	}
	return read;
}

std::string doubt(const heap_profile &p)
{
	constexpr double few = 25; /* then a fifth is one standard deviation */
	const double times = std::ldexp(1, static_cast<int>(p.level));
	double live_bytes = 0;

	for (const auto &[stack, c] : p.stacks)
		live_bytes += c.live_bytes;
	if (!p.level || live_bytes >= few * times * static_cast<double>(p.interval))
		return "";
	return "samples are " + std::to_string(1ull << p.level) +
	       " times as rare now as asked for, so that they take little CPU time: what is in "
	       "use is a rough guess; UKMEM_CONF=profile_cpu:0 takes them all";
}

heap_profile read_profile(process_memory &memory, const layout &l)
{
	const heap_sites sites = read_sites(memory, l);
	heap_profile p;

	if (sites.all.empty())
		throw error(reason::not_ready,
			    "it was never profiled: let it begin with 'ukmem profile start "
			    "PID', which needs live:1 in its\nUKMEM_CONF, or start it with "
			    "profile:1 there (a hardened process has no heap profile)");
	p.on = sites.on;
	p.interval = sites.interval;
	p.level = sites.level;
	p.depth = l.constant("PROFILE_STACK_DEPTH");
	for (const heap_sites::site &s : sites.all)
		add(p, s);
	p.maps = memory.mappings();
	return p;
}

heap_profile parse_profile(std::istream &in)
{
	heap_profile p;
	std::string line;
	long long n[4];
	int at = 0;

	std::getline(in, line);
	const size_t form = line.find("@ heap_v2/");
	if (line.compare(0, 13, "heap profile:") || form == std::string::npos)
		throw std::runtime_error("it is no heap profile (heap_v2)");
	p.interval = std::strtoull(line.c_str() + form + 10, nullptr, 10);
	if (!p.interval)
		throw std::runtime_error("it is no heap profile: its interval is 0");
	while (std::getline(in, line) && line != maps_mark) {
		if (line + "\n" == growth_mark)
			throw std::runtime_error(no_growth_of_growth);
		if (line.empty() || line[0] == '#')
			continue;
		at = 0;
		std::sscanf(line.c_str(), "%lld: %lld [%lld: %lld] @%n", &n[0], &n[1], &n[2],
			    &n[3], &at);
		if (!at)
			throw std::runtime_error("it is no heap profile: its line '" +
						 printable(line) + "' is no sample");
		if (*std::min_element(n, n + 4) < 0)
			throw std::runtime_error(no_growth_of_growth);

		std::vector<address> stack;
		std::istringstream words(line.substr(static_cast<size_t>(at)));

		for (std::string word; words >> word;)
			stack.push_back(std::strtoull(word.c_str(), nullptr, 16));
		add(p, { stack, static_cast<uint64_t>(n[0]), static_cast<uint64_t>(n[1]),
			 static_cast<uint64_t>(n[2]), static_cast<uint64_t>(n[3]) });
	}
	if (line != maps_mark)
		throw std::runtime_error(not_whole);
	for (mapping m; std::getline(in, line);) {
		if (in.eof() || !parse_mapping(line, m))
			throw std::runtime_error(not_whole);
		p.maps.push_back(m);
	}
	return p;
}

/* The file that has the code at @pc, and where it has it. */
static std::optional<std::pair<std::string, uint64_t>> place_of(const heap_profile &p,
								address pc)
{
	const std::string deleted = " (deleted)"; /* the file was replaced since */

	for (const mapping &m : p.maps) {
		if (pc < m.start || pc >= m.end || m.file.empty())
			continue;

		std::string file = m.file.substr(m.file.rfind('/') + 1);

		if (file.size() > deleted.size() &&
		    !file.compare(file.size() - deleted.size(), deleted.size(), deleted))
			file.resize(file.size() - deleted.size());
		return std::make_pair(file, pc - m.start + m.offset);
	}
	return std::nullopt;
}

/* Whether stacks of one mean the same code in the other. A library may have been unloaded
 * between the two. */
static bool same_code(const heap_profile &now, const heap_profile &before)
{
	bool some = false, lost = false;

	for (const auto &[stack, c] : before.stacks)
		for (const address pc : stack) {
			const auto was = place_of(before, pc - 1), is = place_of(now, pc - 1);

			if (was && is && *was != *is)
				return false;
			some = some || (was && is);
			lost = lost || (was && !is);
		}
	return some || !lost;
}

heap_profile growth(const heap_profile &now, const heap_profile &before)
{
	heap_profile p = now;

	if (!same_code(now, before))
		throw std::runtime_error("it is of another process, or of another run of the "
					 "program: its code lies at other addresses");
	p.is_growth = true;
	for (const auto &[stack, c] : before.stacks) {
		profile_counts &d = p.stacks[stack];

		d.allocs -= c.allocs;
		d.alloc_bytes -= c.alloc_bytes;
		d.live -= c.live;
		d.live_bytes -= c.live_bytes;
	}
	return p;
}

heap_profile without_losses(heap_profile p)
{
	for (auto &[stack, c] : p.stacks)
		for (double *n : { &c.allocs, &c.alloc_bytes, &c.live, &c.live_bytes })
			*n = std::max(*n, 0.0);
	return p;
}

std::string profile_text(const heap_profile &p)
{
	std::ostringstream sites, out;
	long long sum[4] = {};

	for (const auto &[stack, c] : p.stacks) {
		/* Of growth: what was only freed has a size, too. */
		const double size = c.allocs > 0 ? c.alloc_bytes / c.allocs
				    : c.live < 0 ? c.live_bytes / c.live
						 : 0;

		if (size <= 0)
			continue;

		const double probability = 1 / allocations_for_sample(size, p.interval);
		const long long n[4] = { std::llround(c.live * probability),
					 std::llround(c.live_bytes * probability),
					 std::llround(c.allocs * probability),
					 std::llround(c.alloc_bytes * probability) };

		for (int i = 0; i < 4; i++)
			sum[i] += n[i];
		sites << n[0] << ": " << n[1] << " [" << n[2] << ": " << n[3] << "] @"
		      << std::hex;
		for (const address pc : stack)
			sites << " 0x" << pc;
		sites << std::dec << "\n";
	}
	out << "heap profile: " << sum[0] << ": " << sum[1] << " [" << sum[2] << ": " << sum[3]
	    << "] @ heap_v2/" << p.interval << "\n"
	    << (p.is_growth ? growth_mark : "") << sites.str() << "\n"
	    << maps_mark << "\n";
	for (const mapping &m : p.maps) {
		char line[128];

		std::snprintf(line, sizeof(line), "%llx-%llx %c%c%cp %08llx 00:00 0 ",
			      static_cast<unsigned long long>(m.start),
			      static_cast<unsigned long long>(m.end), m.readable ? 'r' : '-',
			      m.writable ? 'w' : '-', m.executable ? 'x' : '-',
			      static_cast<unsigned long long>(m.offset));
		out << line << m.file << "\n";
	}
	return out.str();
}

} // namespace live
