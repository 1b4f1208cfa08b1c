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

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/leaks.h"
#include "live/process.h"
#include "live/profile.h"
#include "live/snapshot.h"
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

/* Leaked objects that the heap profile has sampled, of one stack. */
struct stack_group {
	std::vector<live::address> stack; /* the innermost first; empty: not known */
	uint64_t samples = 0;
	double objects = 0, bytes = 0; /* estimates, with those that were not sampled */
	std::vector<live::address> some;
};

/* Leaked objects in KFENCE's pool, of one stack. */
struct guarded_group {
	std::vector<live::address> stack; /* the innermost first */
	uint64_t objects = 0, bytes = 0;  /* bytes that the program asked for */
	std::vector<live::address> some;
};

struct report {
	uint64_t objects = 0, bytes = 0; /* in use */
	uint64_t direct = 0, direct_bytes = 0, indirect = 0, indirect_bytes = 0;
	double stopped = 0;	   /* seconds */
	std::vector<group> groups; /* the one with the most bytes first */

	bool profiled = false;
	std::vector<stack_group> stacks;    /* in the same order */
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

	std::string program() const
	{
		return process.program();
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
		std::map<std::vector<live::address>, stack_group> groups;

		done.profiled = !sites.all.empty();
		for (const live::leaked_object &l : now.leaked) {
			if (!l.sampled || l.site >= sites.all.size())
				continue;

			const auto bytes = static_cast<double>(l.sampled);
			const double each = static_cast<double>(l.weight) *
					    live::allocations_for_sample(bytes, sites.interval);
			stack_group &g = groups[sites.all[l.site].stack];

			g.samples++;
			g.objects += each;
			g.bytes += each * bytes;
			if (g.some.size() < o.limit)
				g.some.push_back(l.at);
		}
		done.stacks = by_bytes(groups);
	}

	void add_guarded(const live::leak_search &now)
	{
		std::map<std::vector<live::address>, guarded_group> groups;

		for (const live::leaked_object &l : now.leaked) {
			if (!l.guarded)
				continue;

			guarded_group &g = groups[l.stack];

			g.objects++;
			g.bytes += l.size;
			if (g.some.size() < o.limit)
				g.some.push_back(l.at);
		}
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

void print_guarded(symbols &names, const report &r)
{
	using ull = unsigned long long;
	uint64_t objects = 0, bytes = 0;

	for (const guarded_group &g : r.guarded) {
		objects += g.objects;
		bytes += g.bytes;
	}
	printf("\nguarded of them, in KFENCE's pool: %llu, %s, each with its stack\n",
	       static_cast<ull>(objects), human(bytes).c_str());
	for (const guarded_group &g : r.guarded) {
		printf("\n%llu guarded %s, %s:", static_cast<ull>(g.objects),
		       g.objects == 1 ? "object" : "objects", human(g.bytes).c_str());
		for (live::address at : g.some)
			printf(" %s", hexadecimal(at).c_str());
		printf("\n");
		print_frames(names, g.stack);
	}
}

void print_stacks(symbols &names, const report &r)
{
	using ull = unsigned long long;
	uint64_t samples = 0;
	double objects = 0, bytes = 0;

	for (const stack_group &g : r.stacks) {
		samples += g.samples;
		objects += g.objects;
		bytes += g.bytes;
	}
	printf("\nsampled of them: %llu, for about %.0f objects, %s, of those allocated while "
	       "the heap profile was on\n",
	       static_cast<ull>(samples), objects, human(std::llround(bytes)).c_str());
	for (const stack_group &g : r.stacks) {
		printf("\n%llu %s, about %.0f objects, %s:", static_cast<ull>(g.samples),
		       g.samples == 1 ? "sample" : "samples", g.objects,
		       human(std::llround(g.bytes)).c_str());
		for (live::address at : g.some)
			printf(" %s", hexadecimal(at).c_str());
		printf("\n");
		print_frames(names, g.stack);
	}
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

json stacks_json(symbols &names, const report &r)
{
	json all = json::array();

	for (const stack_group &g : r.stacks)
		all.push_back({ { "samples", g.samples },
				{ "objects", g.objects },
				{ "bytes", g.bytes },
				{ "addresses", addresses_json(g.some) },
				{ "frames", frames_json(names, g.stack) } });
	return all;
}

json guarded_json(symbols &names, const report &r)
{
	json all = json::array();

	for (const guarded_group &g : r.guarded)
		all.push_back({ { "objects", g.objects },
				{ "bytes", g.bytes },
				{ "addresses", addresses_json(g.some) },
				{ "frames", frames_json(names, g.stack) } });
	return all;
}

void print(const leaks_options &o, const report &r)
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
		print_stacks(names, r);
	if (!r.guarded.empty())
		print_guarded(names, r);
}

void print_json(const leaks_options &o, const report &r, const std::string &program)
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

	json all = { { "ukmem", { { "program", program }, { "pid", o.pid } } },
		     { "objects", r.objects },
		     { "bytes", r.bytes },
		     { "direct", r.direct },
		     { "direct_bytes", r.direct_bytes },
		     { "indirect", r.indirect },
		     { "indirect_bytes", r.indirect_bytes },
		     { "groups", groups },
		     { "guarded", guarded_json(names, r) } };

	if (o.stop)
		all["stopped_seconds"] = r.stopped;
	if (r.profiled)
		all["stacks"] = stacks_json(names, r);
	std::cout << all.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
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
		->check(CLI::Range(0.0, 86400.0));
	sub->add_option("--limit", options.limit,
			"Addresses for each cache and size, and each stack (3)")
		->type_name("N")
		->check(CLI::Range(1u, 1000000000u));
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
	try {
		searcher s(options);
		const report r = s.search();

		if (options.json)
			print_json(options, r, s.program());
		else
			print(options, r);
		return end_output();
	} catch (const live::error &e) {
		return fail(EXIT_FAILURE, "process " + name_of(options.pid) + ": " + e.what());
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}
