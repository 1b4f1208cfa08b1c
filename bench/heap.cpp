/* SPDX-License-Identifier: MIT */
/*
 * heap - what a large heap costs a program of one thread.
 *
 * usage: heap SCENARIO [SCALE]
 *        heap --list
 *
 * Scenarios:
 *   chase        6 million nodes of 56 bytes, allocated one after the other, linked and then
 *                followed in random order, freed in that order, allocated again.
 *   refill       objects of one size, freed in random order and allocated again, several times.
 *   mixed ages   a table of objects of mixed sizes, most of them replaced soon and some late;
 *                then a walk over what is left in the order of addresses in the table.
 *   large blocks a table of large blocks of mixed sizes, replaced in random order, and written
 *                from end to end.
 *
 * SCALE (1) multiplies numbers of objects. Prints one line of JSON: for each cell what was
 * measured, in nanoseconds of CPU time per object, the peak of resident memory, and the file
 * that malloc came from. bench/run --heap preloads one allocator after the other.
 */
#include <time.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "malloc_origin.h"
#include "workload.h"

namespace
{

struct Cell {
	std::string row;
	const char *column;
	double nanoseconds;
};

using Cells = std::vector<Cell>;

double cpu_nanoseconds()
{
	timespec now{};

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/* CPU time of one of @n steps of @work. */
template <typename Work> double time_of(size_t n, Work work)
{
	const double start = cpu_nanoseconds();

	work();
	return (cpu_nanoseconds() - start) / static_cast<double>(n);
}

template <typename Value> void shuffle(std::vector<Value> &values, Random &random)
{
	for (size_t i = values.size(); i > 1; i--)
		std::swap(values[i - 1],
			  values[random.between(0, static_cast<uint32_t>(i - 1))]);
}

struct Node {
	Node *next;
	unsigned char rest[48];
};

Node *make_node()
{
	auto *node = static_cast<Node *>(malloc(sizeof(Node)));

	if (node == nullptr) {
		perror("malloc");
		abort();
	}
	node->next = nullptr;
	return node;
}

void chase(double scale, Cells &cells)
{
	const auto n = static_cast<size_t>(6e6 * scale);
	const std::string row = "chase, " + std::to_string(n) + " nodes of 56 bytes";
	std::vector<Node *> nodes(n, nullptr);
	Random random(1);
	size_t steps = 0;
	const auto build = [&] { std::generate(nodes.begin(), nodes.end(), make_node); };

	cells.push_back({ row, "build", time_of(n, build) });
	shuffle(nodes, random);
	for (size_t i = 1; i < n; i++)
		nodes[i - 1]->next = nodes[i];
	cells.push_back({ row, "step", time_of(n, [&] {
				  for (Node *node = nodes[0]; node != nullptr;
				       node = node->next)
					  steps++;
			  }) });
	if (steps != n) {
		fprintf(stderr, "heap: %zu nodes were linked, %zu found\n", n, steps);
		abort();
	}
	cells.push_back({ row, "free", time_of(n, [&] {
				  for (Node *node : nodes)
					  free(node);
			  }) });
	cells.push_back({ row, "again", time_of(n, build) });
	for (Node *node : nodes)
		free(node);
}

void refill_one(uint32_t size, size_t n, Cells &cells)
{
	const size_t rounds = std::clamp<size_t>((64 << 20) / (size * n), 5, 64);
	const std::string row =
		std::to_string(size) + " bytes, " + std::to_string(size * n >> 10) + " KiB";
	std::vector<Object> objects(n, nullptr);
	double freeing = 0, again = 0;
	Random random(size);
	const auto make = [&] {
		for (Object &object : objects)
			object = make_object(size);
	};

	make();
	for (size_t round = 0; round < rounds; round++) {
		shuffle(objects, random);
		freeing += time_of(n, [&] {
			for (Object object : objects)
				free(object);
		});
		again += time_of(n, make);
	}
	drop_all(objects);
	cells.push_back({ row, "free", freeing / static_cast<double>(rounds) });
	cells.push_back({ row, "again", again / static_cast<double>(rounds) });
}

void refill(double scale, Cells &cells)
{
	for (const uint32_t size : { 16u, 64u, 256u, 1024u })
		for (const unsigned mebi : { 1u, 8u, 64u })
			refill_one(size,
				   std::max<size_t>(1, static_cast<size_t>(scale * mebi *
									   (1 << 20) / size)),
				   cells);
}

void mixed_ages(double scale, Cells &cells)
{
	const auto slots = static_cast<size_t>(4e5 * scale) + 1, steps = 8 * slots;
	const std::string row = "mixed ages, " + std::to_string(slots) + " objects";
	std::vector<Object> objects(slots, nullptr);
	Random random(7);
	uint64_t sum = 0;

	for (Object &object : objects)
		object = make_object(random.mostly_small(16, 7));
	cells.push_back({ row, "replace", time_of(steps, [&] {
				  for (size_t i = 0; i < steps; i++) {
					  /* A sixteenth of the slots sees half of the traffic.
					   */
					  const auto range = static_cast<uint32_t>(
						  random.bits() & 1 ? slots / 16 : slots - 1);
					  Object &object = objects[random.between(0, range)];

					  drop_object(object);
					  object = make_object(random.mostly_small(16, 7));
				  }
			  }) });
	cells.push_back({ row, "step", time_of(slots, [&] {
				  for (Object object : objects)
					  sum += check_object(object);
			  }) });
	if (sum == 0)
		abort();
	drop_all(objects);
}

/* @count blocks at once, of [low, low << doublings) bytes. */
void large_one(uint32_t low, unsigned doublings, size_t count, size_t steps, Cells &cells)
{
	const std::string row = std::to_string(count) + " blocks of " +
				std::to_string(low >> 10) + " to " +
				std::to_string(low >> 10 << doublings) + " KiB";
	std::vector<Object> blocks(count, nullptr);
	Random random(low);

	cells.push_back({ row, "replace", time_of(steps, [&] {
				  for (size_t i = 0; i < steps; i++) {
					  Object &block = blocks[random.between(
						  0, static_cast<uint32_t>(count - 1))];
					  const uint32_t base =
						  low << random.between(0, doublings - 1);
					  const uint32_t size =
						  random.between(base, 2 * base - 1);

					  drop_if_any(block);
					  block = make_object(size);
					  memset(block, 1, size);
					  mark_object(block, size);
				  }
			  }) });
	drop_all(blocks);
}

void large_blocks(double scale, Cells &cells)
{
	const auto steps = [&](double most) { return static_cast<size_t>(most * scale) + 1; };

	large_one(16 << 10, 3, 1000, steps(300000), cells);
	large_one(64 << 10, 4, 200, steps(40000), cells);
	large_one(256 << 10, 3, 20, steps(20000), cells);
	large_one(64 << 10, 7, 100, steps(6000), cells);
}

struct Scenario {
	const char *name;
	void (*run)(double scale, Cells &cells);
};

constexpr Scenario kScenarios[] = {
	{ "chase", chase },
	{ "refill", refill },
	{ "mixed ages", mixed_ages },
	{ "large blocks", large_blocks },
};

int measure(const Scenario &scenario, double scale)
{
	const char *separator = "";
	Cells cells;

	scenario.run(scale, cells);
	printf("{\"cells\": [");
	for (const Cell &cell : cells) {
		printf("%s{\"row\": \"%s\", \"column\": \"%s\", \"ns\": %.3f}", separator,
		       cell.row.c_str(), cell.column, cell.nanoseconds);
		separator = ", ";
	}
	printf("], \"peak_rss_kib\": %ld, \"malloc_origin\": \"%s\"}\n", status_kib("VmHWM"),
	       malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list_scenarios(kScenarios);
		return 0;
	}
	if (argc == 2 || argc == 3) {
		const double scale = argc == 3 ? atof(argv[2]) : 1;

		const Scenario *scenario = find_scenario(kScenarios, argv[1]);

		if (scenario != nullptr && scale > 0)
			return measure(*scenario, scale);
	}
	fprintf(stderr, "usage: %s SCENARIO [SCALE]\n       %s --list\n", argv[0], argv[0]);
	return 2;
}
