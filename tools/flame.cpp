/* SPDX-License-Identifier: MIT */
#include "flame.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "flame_page.h"
#include "live/printable.h"
#include "page.h"

using json = nlohmann::ordered_json;

namespace
{

/* Bytes in use, objects in use, bytes allocated, objects allocated. */
using values = std::array<double, 4>;

void add(values &sum, const values &v)
{
	for (size_t i = 0; i < v.size(); i++)
		sum[i] += v[i];
}

/* Calls of one function by the same callers. */
struct frame {
	values sum = {};
	std::map<std::string, values> lines; /* of calls, "file.c:12" */
	std::map<size_t, frame> callees;     /* by number of the function */
};

class flame
{
      public:
	flame(const live::heap_profile &p, symbols &s) : names(s), depth(p.depth)
	{
		for (const auto &[stack, c] : p.stacks)
			add_stack(stack, { c.live_bytes, c.live, c.alloc_bytes, c.allocs });
	}

	json functions = json::array(); /* each its name and its file */
	json tree() const
	{
		return frame_json(0, root);
	}

      private:
	/* What is known of the call in front of an address. */
	struct call {
		size_t function;
		std::string line;
	};

	size_t number(const std::string &name, const std::string &file)
	{
		const auto [at, is_new] =
			numbers.emplace(std::make_pair(name, file), functions.size());

		if (is_new)
			functions.push_back({ name, file });
		return at->second;
	}

	const call &call_at(live::address pc)
	{
		const auto known = calls.find(pc);

		if (known != calls.end())
			return known->second;

		const live::mapping *m = names.find(pc - 1);
		const module_lines::place at = names.line(pc - 1);
		const std::string file =
			m ? live::printable(std::filesystem::path(m->file).filename().string())
			  : "";
		const std::string line =
			at.file.empty() ? ""
					: std::filesystem::path(at.file).filename().string() +
						  ":" + std::to_string(at.line);

		return calls.emplace(pc, call{ number(names.name(pc - 1), file), line })
			.first->second;
	}

	void add_stack(const std::vector<live::address> &stack, const values &v)
	{
		frame *f = &root;

		add(f->sum, v);
		if (stack.empty() || stack.size() == depth) {
			const char *name =
				stack.empty() ? "[unknown]" : "[outer callers cut off]";

			f = &f->callees[number(name, "")];
			add(f->sum, v);
		}
		for (auto pc = stack.rbegin(); pc != stack.rend(); ++pc) {
			const call &c = call_at(*pc);

			f = &f->callees[c.function];
			add(f->sum, v);
			add(f->lines[c.line], v);
		}
	}

	static json values_json(const values &v)
	{
		json all = json::array();

		for (double n : v)
			all.push_back(std::llround(n));
		return all;
	}

	static json frame_json(size_t function, const frame &f)
	{
		json lines = json::array(), callees = json::array();

		for (const auto &[line, v] : f.lines)
			if (!line.empty())
				lines.push_back({ line, values_json(v) });
		for (const auto &[number, callee] : f.callees)
			callees.push_back(frame_json(number, callee));
		return { function, values_json(f.sum), lines, callees };
	}

	symbols &names;
	const uint64_t depth;
	frame root;
	std::map<std::pair<std::string, std::string>, size_t> numbers;
	std::unordered_map<live::address, call> calls;
};

} // namespace

std::string flame_page(const live::heap_profile &p, symbols &names, const json &about)
{
	static const page_parts page(flame_html);
	const flame f(p, names);

	return page.before +
	       script_text({ { "ukmem", about },
			     { "functions", f.functions },
			     { "tree", f.tree() } }) +
	       page.behind;
}
