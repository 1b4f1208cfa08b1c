/* SPDX-License-Identifier: MIT */
#include "info.h"

#include <iomanip>
#include <string>
#include <unistd.h>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>
#include <ukmem/percpu.h>
#include <ukmem/stats.h>

extern "C" {
#include "os/os_share.h"
}

using json = nlohmann::ordered_json;

/* One item: its name in JSON, its name in text, and its value. */
struct item {
	const char *key;
	const char *label;
	std::variant<std::string, size_t, std::nullptr_t> value; /* nullptr: none */
	const char *unit = "";
};

static std::vector<item> general_items()
{
	return {
		{ "version", "version", ukmem_version() },
		{ "page_size", "page size", static_cast<size_t>(sysconf(_SC_PAGESIZE)),
		  "bytes" },
	};
}

static decltype(item::value) memory_limit()
{
	if (os_share_memory() == UINT64_MAX)
		return nullptr;
	return static_cast<size_t>(os_share_memory());
}

static std::vector<item> percpu_items()
{
	ukmem_percpu_info info;

	percpu_mode(&info);
	return {
		{ "mode", "mode", info.mode_name },
		{ "reason", "reason", info.reason },
		{ "self_test", "self-test", info.self_test },
		{ "index", "index", info.index_kind },
		{ "nr_cpu_ids", "possible CPUs", info.nr_cpu_ids },
		{ "cpus_online", "in use", info.cpus_online },
		{ "unit_size", "unit size", info.unit_size, "bytes per CPU and chunk" },
		{ "chunks", "chunks", info.chunks },
		{ "allocated", "allocated", info.allocated, "bytes per CPU" },
		{ "static_size", "static", info.static_size, "bytes per CPU" },
		{ "resident", "resident", info.resident, "bytes, all CPUs together" },
		{ "cpus_allowed", "CPUs allowed", info.cpus_allowed },
		{ "cpu_milli", "CPU quota", info.cpu_milli, "thousandths of a CPU at once" },
		{ "memory_limit", "memory limit", memory_limit(), "bytes" },
		{ "cache_bytes", "free objects", info.cache_bytes, "bytes per CPU, at most" },
	};
}

static void print_items(std::ostream &out, const std::vector<item> &items)
{
	for (const item &i : items) {
		out << "  " << std::left << std::setw(14) << i.label << " ";
		if (std::holds_alternative<std::nullptr_t>(i.value)) {
			out << "none\n";
			continue;
		}
		std::visit([&](const auto &value) { out << value; }, i.value);
		out << (*i.unit ? " " : "") << i.unit << "\n";
	}
}

void print_info(std::ostream &out)
{
	out << "ukmem\n";
	print_items(out, general_items());
	out << "per-CPU data\n";
	print_items(out, percpu_items());
}

static json items_json(const std::vector<item> &items)
{
	json all = json::object();

	for (const item &i : items)
		std::visit([&](const auto &value) { all[i.key] = value; }, i.value);
	return all;
}

void print_info_json(std::ostream &out)
{
	json all = items_json(general_items());

	all["percpu"] = items_json(percpu_items());
	out << all.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
}
