/* SPDX-License-Identifier: MIT */
#include "leaks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/leaks.h"
#include "live/process.h"
#include "live/profile.h"
#include "live/snapshot.h"
#include "on_process.h"
#include "symbols.h"
#include "words.h"

using json = nlohmann::ordered_json;

namespace
{

/* Leaked objects of one cache and size. */
struct group {
	std::string cache;
	uint64_t size = 0;
	uint64_t direct = 0, indirect = 0; /* objects */
	std::vector<live::address> some;   /* direct ones first */
	std::string first;		   /* the first bytes of some[0], in hexadecimal */

	uint64_t bytes() const
	{
		return (direct + indirect) * size;
	}
};

/* Leaked objects whose stack is known, of one stack. */
template <typename number> struct stack_group {
	std::vector<live::address> stack; /* the innermost first; empty: not known */
	uint64_t found = 0;		  /* objects with this stack */
	number objects = 0, bytes = 0;	  /* that they stand for */
	std::vector<live::address> some;

	void add(const live::leaked_object &l, number n, number size, unsigned int limit)
	{
		found++;
		objects += n;
		bytes += n * size;
		if (some.size() < limit)
			some.push_back(l.at);
	}
};

/* Sampled by the heap profile: estimates, with those that were not sampled. */
using sampled_group = stack_group<double>;
/* In KFENCE's pool: exact, with the bytes that the program asked for. */
using guarded_group = stack_group<uint64_t>;

struct report {
	uint64_t objects = 0, bytes = 0; /* in use */
	uint64_t direct = 0, direct_bytes = 0, indirect = 0, indirect_bytes = 0;
	double stopped = 0;	   /* seconds */
	std::vector<group> groups; /* the one with the most bytes first */

	bool profiled = false;
	std::vector<sampled_group> stacks;  /* in the same order */
	std::vector<guarded_group> guarded; /* in the same order */
	std::vector<live::mapping> maps;    /* where there are stacks */
};

class searcher
{
      public:
	explicit searcher(const leaks_options &options)
	    : o(options), process(o.pid), reader(process)
	{
	}

	report search()
	{
		constexpr int most_passes = 8;
		const double age = o.min_age >= 0 ? o.min_age : o.stop ? 0 : 1;
		const auto next = std::chrono::steady_clock::now() +
				  std::chrono::microseconds(std::llround(age * 1e6));
		live::leak_search before = pass(), now;

		if (o.stop && age <= 0)
			return done;
		std::this_thread::sleep_until(next);
		/* While the process runs, objects move and are freed during a pass. */
		for (int i = 1; i < most_passes; i++) {
			now = pass(&before);
			if (o.stop || now.leaked.size() == before.leaked.size())
				break;
			before = std::move(now);
		}
		return done;
	}

	json about() const
	{
		return about_json(process, reader.layout().version);
	}

      private:
	live::leak_search pass(const live::leak_search *before = nullptr)
	{
		using clock = std::chrono::steady_clock;
		const auto start = clock::now();
		std::optional<live::stopped_threads> stopped;

		if (o.stop)
			stopped.emplace(o.pid);

		live::leak_search now = live::search_leaks(
			reader, stopped ? stopped->all : live::look_at_threads(o.pid));

		if (before)
			live::keep_those_of(*before, now);
		/* Contents are of the same moment. */
		make_report(now);
		stopped.reset();
		if (o.stop)
			done.stopped =
				std::chrono::duration<double>(clock::now() - start).count();
		return now;
	}

	void make_report(const live::leak_search &now)
	{
		std::map<std::pair<std::string, uint64_t>, group> groups;

		done = {};
		done.objects = now.objects;
		done.bytes = now.bytes;
		for (const bool indirect : { false, true })
			for (const live::leaked_object &l : now.leaked) {
				if (l.indirect != indirect)
					continue;

				const std::string &cache = now.kinds[l.kind].name;
				group &g = groups[{ cache, l.counted }];

				g.cache = cache;
				g.size = l.counted;
				(indirect ? g.indirect : g.direct)++;
				(indirect ? done.indirect : done.direct)++;
				(indirect ? done.indirect_bytes : done.direct_bytes) +=
					l.counted;
				if (g.some.size() < o.limit)
					g.some.push_back(l.at);
				if (g.first.empty())
					g.first = contents(l);
			}
		for (const auto &[key, g] : groups)
			done.groups.push_back(g);
		std::stable_sort(
			done.groups.begin(), done.groups.end(),
			[](const group &a, const group &b) { return a.bytes() > b.bytes(); });
		add_stacks(now);
		add_guarded(now);
		if (!done.stacks.empty() || !done.guarded.empty())
			done.maps = process.mappings();
	}

	/* The groups of each stack, those with the most bytes first. */
	template <typename stack_groups>
	static std::vector<stack_groups>
	by_bytes(std::map<std::vector<live::address>, stack_groups> &groups)
	{
		std::vector<stack_groups> sorted;

		for (auto &[stack, g] : groups) {
			g.stack = stack;
			sorted.push_back(std::move(g));
		}
		std::stable_sort(sorted.begin(), sorted.end(),
				 [](const stack_groups &a, const stack_groups &b) {
					 return a.bytes > b.bytes;
				 });
		return sorted;
	}

	void add_stacks(const live::leak_search &now)
	{
		const live::heap_sites sites = live::read_sites(process, reader.layout());
		std::map<std::vector<live::address>, sampled_group> groups;

		done.profiled = !sites.all.empty();
		for (const live::leaked_object &l : now.leaked) {
			if (!l.sampled || l.site >= sites.all.size())
				continue;

			const auto bytes = static_cast<double>(l.sampled);
			const double each = static_cast<double>(l.weight) *
					    live::allocations_for_sample(bytes, sites.interval);

			groups[sites.all[l.site].stack].add(l, each, bytes, o.limit);
		}
		done.stacks = by_bytes(groups);
	}

	void add_guarded(const live::leak_search &now)
	{
		std::map<std::vector<live::address>, guarded_group> groups;

		for (const live::leaked_object &l : now.leaked)
			if (l.guarded)
				groups[l.stack].add(l, 1, l.size, o.limit);
		done.guarded = by_bytes(groups);
	}

	std::string contents(const live::leaked_object &l)
	{
		unsigned char bytes[16] = {};
		const size_t n = std::min<uint64_t>(sizeof(bytes), l.size);
		std::string text;

		if (!process.read(l.at, bytes, n))
			return "";
		for (size_t i = 0; i < n; i++) {
			char two[3];

			snprintf(two, sizeof(two), "%02x", bytes[i]);
			text += two;
		}
		return text;
	}

	const leaks_options &o;
	live::process process;
	live::reader reader;
	report done;
};

std::string hexadecimal(live::address at)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(at));
	return text;
}

/* As a person reads bytes: hexadecimal, and those that are letters. */
std::string dump(const std::string &digits)
{
	std::string bytes, letters;

	for (size_t i = 0; i + 1 < digits.size(); i += 2) {
		const int c = std::stoi(digits.substr(i, 2), nullptr, 16);

		bytes += (i ? " " : "") + digits.substr(i, 2);
		letters += c >= ' ' && c < 0x7f ? static_cast<char>(c) : '.';
	}
	return bytes + "  |" + letters + "|";
}

/* "parse (reader.c:42)": the call before the return address @pc. */
std::string frame_text(symbols &names, live::address pc)
{
	const module_lines::place at = names.line(pc - 1);
	std::string text = names.name(pc - 1);

	if (!at.file.empty())
		text += " (" + std::filesystem::path(at.file).filename().string() + ":" +
			std::to_string(at.line) + ")";
	return text;
}

void print_frames(symbols &names, const std::vector<live::address> &stack)
{
	for (live::address pc : stack)
		printf("  %s\n", frame_text(names, pc).c_str());
	if (stack.empty())
		printf("  (stack unknown)\n");
}

/* The sum of all groups. */
template <typename number>
stack_group<number> total_of(const std::vector<stack_group<number>> &all)
{
	stack_group<number> sum;

	for (const auto &g : all) {
		sum.found += g.found;
		sum.objects += g.objects;
		sum.bytes += g.bytes;
	}
	return sum;
}

/* @words: what a group is, for its first line. */
template <typename groups>
void print_groups(symbols &names, const groups &all,
		  std::string (*words)(const typename groups::value_type &g))
{
	for (const auto &g : all) {
		printf("\n%s:", words(g).c_str());
		for (live::address at : g.some)
			printf(" %s", hexadecimal(at).c_str());
		printf("\n");
		print_frames(names, g.stack);
	}
}

std::string whole(double n)
{
	return std::to_string(std::llround(n));
}

std::string sampled_words(const sampled_group &g)
{
	return std::to_string(g.found) + (g.found == 1 ? " sample" : " samples") + ", about " +
	       whole(g.objects) + " objects, " + human(std::llround(g.bytes));
}

std::string guarded_words(const guarded_group &g)
{
	return std::to_string(g.objects) + " guarded " +
	       (g.objects == 1 ? "object" : "objects") + ", " + human(g.bytes);
}

void print_guarded(symbols &names, const report &r)
{
	const guarded_group sum = total_of(r.guarded);

	printf("\nguarded of them, in KFENCE's pool: %llu, %s, each with its stack\n",
	       static_cast<unsigned long long>(sum.objects), human(sum.bytes).c_str());
	print_groups(names, r.guarded, guarded_words);
}

void print_sampled(symbols &names, const report &r)
{
	const sampled_group sum = total_of(r.stacks);

	printf("\nsampled of them: %llu, for about %s objects, %s, of those allocated while "
	       "the heap profile was on\n",
	       static_cast<unsigned long long>(sum.found), whole(sum.objects).c_str(),
	       human(std::llround(sum.bytes)).c_str());
	print_groups(names, r.stacks, sampled_words);
}

json addresses_json(const std::vector<live::address> &some)
{
	json all = json::array();

	for (live::address at : some)
		all.push_back(hexadecimal(at));
	return all;
}

json frames_json(symbols &names, const std::vector<live::address> &stack)
{
	json frames = json::array();

	for (live::address pc : stack) {
		const module_lines::place at = names.line(pc - 1);
		json frame = { { "address", hexadecimal(pc) },
			       { "function", names.name(pc - 1) } };

		if (!at.file.empty()) {
			frame["file"] = at.file;
			frame["line"] = at.line;
		}
		frames.push_back(frame);
	}
	return frames;
}

template <typename number>
json groups_json(symbols &names, const std::vector<stack_group<number>> &groups)
{
	json all = json::array();

	for (const auto &g : groups) {
		json one = json::object();

		/* Of guarded objects it is the number of objects. */
		if constexpr (std::is_same_v<number, double>)
			one["samples"] = g.found;
		one["objects"] = g.objects;
		one["bytes"] = g.bytes;
		one["addresses"] = addresses_json(g.some);
		one["frames"] = frames_json(names, g.stack);
		all.push_back(std::move(one));
	}
	return all;
}

void print_leaks(const leaks_options &o, const report &r)
{
	using ull = unsigned long long;

	printf("process %s: %llu objects in use, %s\n", name_of(o.pid).c_str(),
	       static_cast<ull>(r.objects), human(r.bytes).c_str());
	printf("leaked: %llu, %s; only reachable from these: %llu, %s\n",
	       static_cast<ull>(r.direct), human(r.direct_bytes).c_str(),
	       static_cast<ull>(r.indirect), human(r.indirect_bytes).c_str());
	if (o.stop)
		printf("stopped for: %.3f s\n", r.stopped);
	if (!r.groups.empty())
		printf("\n%-24s %10s %10s %10s %8s\n", "CACHE", "SIZE", "LEAKED", "INDIRECT",
		       "BYTES");
	for (const group &g : r.groups) {
		printf("%-24s %10llu %10llu %10llu %8s\n", g.cache.c_str(),
		       static_cast<ull>(g.size), static_cast<ull>(g.direct),
		       static_cast<ull>(g.indirect), human(g.bytes()).c_str());
		for (size_t i = 0; i < g.some.size(); i++)
			printf("  %s%s\n", hexadecimal(g.some[i]).c_str(),
			       i ? "" : ("  " + dump(g.first)).c_str());
	}

	symbols names(r.maps, o.pid);

	if (r.profiled)
		print_sampled(names, r);
	if (!r.guarded.empty())
		print_guarded(names, r);
}

void print_leaks_json(const leaks_options &o, const report &r, const json &about)
{
	symbols names(r.maps, o.pid);
	json groups = json::array();

	for (const group &g : r.groups)
		groups.push_back({ { "cache", g.cache },
				   { "size", g.size },
				   { "direct", g.direct },
				   { "indirect", g.indirect },
				   { "bytes", g.bytes() },
				   { "addresses", addresses_json(g.some) },
				   { "first_bytes", g.first } });

	json all = { { "ukmem", about },
		     { "objects", r.objects },
		     { "bytes", r.bytes },
		     { "direct", r.direct },
		     { "direct_bytes", r.direct_bytes },
		     { "indirect", r.indirect },
		     { "indirect_bytes", r.indirect_bytes },
		     { "groups", groups },
		     { "guarded", groups_json(names, r.guarded) } };

	if (o.stop)
		all["stopped_seconds"] = r.stopped;
	if (r.profiled)
		all["stacks"] = groups_json(names, r.stacks);
	print_json(all);
}

} // namespace

CLI::App *add_leaks(CLI::App &app, leaks_options &options)
{
	CLI::App *sub = add_command(app, "leaks", " PID",
				    "Show the objects of a process that no pointer leads to");

	add_pid(sub, options.pid)->required();
	sub->add_flag("--stop", options.stop,
		      "Stop the process for the search, which is exact then");
	sub->add_option("--min-age", options.min_age,
			"Search again after so many seconds; show what was leaked both times "
			"and did\nnot change meanwhile (1; with --stop 0: search once)")
		->type_name("SECONDS")
		->check(check_seconds(0));
	sub->add_option("--limit", options.limit,
			"Addresses for each cache and size, and each stack (3)")
		->type_name("N")
		->check(CLI::Range(1u, 1000000000u));
	sub->add_option("--error-exitcode", options.found_code,
			"Exit with this code, not 0, if an object was leaked")
		->type_name("N")
		->check(CLI::Range(1, 255));
	sub->add_flag("--json", options.json, "As one JSON object in a line");
	sub->footer(
		"Any eight aligned bytes that hold the address of a byte of an object count "
		"as a pointer,\nso a leaked object may go unnoticed. LEAKED objects are "
		"those that nothing leads to;\nINDIRECT ones are reachable from leaked "
		"objects alone. Without --stop an object whose\nonly pointer is in a "
		"register may be shown, too.\n\nWhile the heap profile is on (ukmem profile "
		"start PID), one allocation of many is a sample.\nLeaked samples, of the cache "
		"\"sampled\" here, are shown by stack, with estimates for all. Objects in "
		"KFENCE's pool\nhave their stacks at any time.\n");
	return sub;
}

int leaks(const leaks_options &options)
{
	return on_process(options.pid, [&] {
		searcher s(options);
		const report r = s.search();

		if (options.json)
			print_leaks_json(options, r, s.about());
		else
			print_leaks(options, r);
		return end_output(r.direct + r.indirect ? options.found_code : EXIT_SUCCESS);
	});
}
