/* SPDX-License-Identifier: MIT */
#include "top/plain.h"

#include <algorithm>
#include <cmath>

#include "live/forms.h"
#include "top/text.h"

namespace top
{

using json = nlohmann::ordered_json;

/* Wide enough for every number in full. */
static constexpr unsigned int unbounded = 24;

static std::string padded(const std::string &text, size_t width)
{
	return std::string(width - std::min(width, text.size()), ' ') + text;
}

static std::string percent(const value &v)
{
	return v.known ? share_text(v.number) + "%" : "-";
}

static std::string head_of(const model &m)
{
	const live::gauges &g = m.now->gauges;
	const totals t = totals_of(m);
	std::string text = "ukmem top " + std::to_string(m.pid) + " " + m.program + "  " +
			   m.version + ", " + m.mode + "\n";

	text += "allocated " + bytes_text(g.allocated) + ", active " + bytes_text(g.active) +
		", resident " + bytes_text(g.resident) + ", retained " +
		bytes_text(g.retained) + ", mapped " + bytes_text(g.mapped) + ", metadata " +
		bytes_text(g.metadata) + "\n";
	text += std::to_string(t.caches) + " caches: " + std::to_string(t.inuse) + " of " +
		std::to_string(t.objects) + " objects in use (" + percent(t.use) + "), " +
		std::to_string(t.slabs) + " slabs, " + bytes_text(t.memory) + ", waste " +
		bytes_text(t.waste) + " (" + percent(t.wasted) + ")\n";
	text += cell_text(t.rate, kind::RATE, unbounded) + " allocations/s, hits " +
		percent(t.hits) + "\n";
	return text + std::to_string(t.large_blocks) + " large blocks, " +
	       bytes_text(t.large_bytes) + ", " +
	       cell_text(t.large_rate, kind::RATE, unbounded) + " allocations/s\n\n";
}

std::string plain(const model &m)
{
	const table t = m.table();
	std::vector<size_t> widths;
	std::string text = head_of(m);

	for (size_t i = 0; i < t.columns.size(); i++) {
		const column &c = t.columns[i];
		size_t width = std::string(c.title).size();

		for (const row &r : t.rows)
			width = std::max(width,
					 cell_text(r.values[i], c.kind, unbounded).size());
		widths.push_back(width);
	}
	for (size_t i = 0; i < t.columns.size(); i++)
		text += i + 1 < t.columns.size() ? padded(t.columns[i].title, widths[i]) + " "
						 : std::string(t.columns[i].title) + "\n";
	for (const row &r : t.rows)
		for (size_t i = 0; i < t.columns.size(); i++)
			text += i + 1 < t.columns.size()
					? padded(cell_text(r.values[i], t.columns[i].kind,
							   unbounded),
						 widths[i]) +
						  " "
					: r.values[i].text + "\n";
	return text;
}

static json value_json(const value &v, kind k)
{
	if (!v.known)
		return nullptr;
	switch (k) {
	case kind::TEXT:
		return v.text;
	case kind::SHARE:
		return std::floor(v.number * 1e6) / 1e4; /* percent */
	case kind::RATE:
		return v.number;
	default:
		return static_cast<uint64_t>(v.number);
	}
}

static json table_json(const table &t)
{
	json rows = json::array();

	for (const row &r : t.rows) {
		json one = json::object();

		for (size_t i = 0; i < t.columns.size(); i++)
			one[t.columns[i].name] = value_json(r.values[i], t.columns[i].kind);
		rows.push_back(one);
	}
	return rows;
}

json as_json(const model &m)
{
	const totals t = totals_of(m);
	model other = m;
	json all = {
		{ "ukmem",
		  { { "version", m.version }, { "program", m.program }, { "pid", m.pid } } },
		{ "gauges", live::gauges_json(*m.now).at("gauges") },
		{ "totals",
		  { { "caches", t.caches },
		    { "inuse", t.inuse },
		    { "objects", t.objects },
		    { "use", value_json(t.use, kind::SHARE) },
		    { "slabs", t.slabs },
		    { "memory", t.memory },
		    { "waste", t.waste },
		    { "allocs_per_second", value_json(t.rate, kind::RATE) },
		    { "hit", value_json(t.hits, kind::SHARE) },
		    { "large_blocks", t.large_blocks },
		    { "large_bytes", t.large_bytes },
		    { "large_allocs_per_second", value_json(t.large_rate, kind::RATE) } } }
	};

	for (const auto &[key, of] : { std::pair<const char *, by>("caches", by::CACHE),
				       { "cpus", by::CPU },
				       { "nodes", by::NODE } }) {
		other.by = of;
		all[key] = table_json(other.table());
	}
	return all;
}

} // namespace top
