/* SPDX-License-Identifier: MIT */
/*
 * slab bounded - what a CPU keeps after one object of each of many full slabs was freed,
 * and then all the others.
 *
 * The first free of a full slab puts it on the CPU's list of partly used slabs. How long
 * the list may grow is given in objects, cpu_partial, and counted in one of two ways:
 *   slabs    ceil(2 * cpu_partial / objects per slab), as the library does
 *   objects  the sum of the free objects each slab had when it was added, as was done
 *            before: here each had one, so cpu_partial slabs were let in, and all of
 *            them may be empty in the end
 * The second is had from the library by writing the cpu_partial that makes as many slabs.
 *
 * CPU slabs: those on all CPUs' lists, where only one CPU is used; the most seen on the
 * way, looking after each kLookEvery frees, and those at the end. The slabs left over
 * altogether are more: those the node keeps, and those of the objects in the CPU's array.
 */
#include <algorithm>
#include <vector>

#include "slab_bench.h"

namespace
{

constexpr size_t kSizes[] = { 64, 256, 1024, 4096 };
constexpr size_t kLookEvery = 61;

struct outcome {
	size_t size;
	const char *counted;
	unsigned long per_slab, cpu_partial, limit;
	size_t slab_kib;
	unsigned long most, cpu_slabs, slabs;
};

/* objects(slabs) C0=objects(slabs) ...: the slabs of all CPUs. */
unsigned long cpu_slabs(kmem_cache *s)
{
	const std::string text = attribute_text(s, "slabs_cpu_partial");
	const size_t open = text.find('(');

	if (open == std::string::npos)
		die("slabs_cpu_partial is '" + text + "'");
	return strtoul(text.c_str() + open + 1, nullptr, 10);
}

/*
 * At least @slabs full slabs: all of their objects, sorted by address, so that each
 * per_slab of them are a slab. To that end what the array and the last slab have left
 * is taken, too.
 */
std::vector<void *> fill_slabs(kmem_cache *s, unsigned long per_slab, unsigned long slabs)
{
	std::vector<void *> objects;
	size_t want = slabs * per_slab;

	for (int tries = 0; want > objects.size(); tries++) {
		if (tries == 100)
			die("slabs do not become full");
		while (objects.size() < want) {
			void *batch[256];
			const size_t n = std::min(want - objects.size(), std::size(batch));

			if (!kmem_cache_alloc_bulk(s, GFP_KERNEL, n, batch))
				die("no objects");
			objects.insert(objects.end(), batch, batch + n);
		}
		want = attribute(s, "slabs") * per_slab;
	}
	std::sort(objects.begin(), objects.end());
	return objects;
}

outcome measure(size_t size, unsigned long slabs, bool count_objects)
{
	cache objects(size);
	kmem_cache *s = objects.s;
	outcome found = {};

	found.size = size;
	found.counted = count_objects ? "objects" : "slabs";
	found.per_slab = attribute(s, "objs_per_slab");
	found.slab_kib = slab_bytes(s) / 1024;
	if (count_objects)
		set_attribute(s, "cpu_partial",
			      attribute(s, "cpu_partial") * found.per_slab / 2);
	found.cpu_partial = attribute(s, "cpu_partial");
	found.limit = (2 * found.cpu_partial + found.per_slab - 1) / found.per_slab;

	const std::vector<void *> all = fill_slabs(s, found.per_slab, slabs);

	for (bool first : { true, false }) {
		for (size_t i = 0, frees = 0; i < all.size(); i++) {
			if ((i % found.per_slab == 0) != first)
				continue;
			kmem_cache_free(s, all[i]);
			if (++frees % kLookEvery == 0)
				found.most = std::max(found.most, cpu_slabs(s));
		}
	}
	found.cpu_slabs = cpu_slabs(s);
	found.most = std::max(found.most, found.cpu_slabs);
	found.slabs = attribute(s, "slabs");
	return found;
}

void print_table(const std::vector<outcome> &outcomes, unsigned long slabs)
{
	printf("%lu full slabs: one object of each freed, then the others\n", slabs);
	printf("%5s  %8s  %-8s  %11s  %5s  %5s  %9s  %7s  %9s  %9s\n", "size", "per slab",
	       "counted", "cpu_partial", "limit", "most", "CPU slabs", "KiB", "all slabs",
	       "all KiB");
	for (const outcome &o : outcomes)
		printf("%5zu  %8lu  %-8s  %11lu  %5lu  %5lu  %9lu  %7zu  %9lu  %9zu%s\n",
		       o.size, o.per_slab, o.counted, o.cpu_partial, o.limit, o.most,
		       o.cpu_slabs, o.cpu_slabs * o.slab_kib, o.slabs, o.slabs * o.slab_kib,
		       o.most > o.limit ? "  ABOVE THE LIMIT" : "");
}

void print_json(const std::vector<outcome> &outcomes)
{
	const char *separator = "[";

	for (const outcome &o : outcomes) {
		printf("%s{\"size\": %zu, \"counted\": \"%s\", \"per_slab\": %lu, ", separator,
		       o.size, o.counted, o.per_slab);
		printf("\"slab_kib\": %zu, \"cpu_partial\": %lu, \"limit\": %lu, ", o.slab_kib,
		       o.cpu_partial, o.limit);
		printf("\"most\": %lu, \"cpu_slabs\": %lu, \"slabs\": %lu}", o.most,
		       o.cpu_slabs, o.slabs);
		separator = ",\n ";
	}
	puts("]");
}

} // namespace

void add_bounded(CLI::App &app)
{
	static unsigned long slabs = 10000;
	static bool json = false;
	auto *bounded =
		app.add_subcommand("bounded", "slabs kept after an awkward order of frees");

	bounded->add_option("--slabs", slabs, "full slabs to begin with")
		->check(CLI::PositiveNumber)
		->capture_default_str();
	bounded->add_flag("--json", json, "print JSON");
	bounded->callback([] {
		std::vector<outcome> outcomes;

		stay_on_cpu(0);
		for (size_t size : kSizes) {
			for (bool count_objects : { false, true })
				outcomes.push_back(measure(size, slabs, count_objects));
		}
		json ? print_json(outcomes) : print_table(outcomes, slabs);
	});
}
