/* SPDX-License-Identifier: MIT */
/*
 * Patterns in which every object is freed by the thread that allocated it.
 */
#include <algorithm>

#include "workload.h"

namespace
{

/* Replaces random ones of a number of objects. */
template <typename Size> void replace(Random random, size_t slots, size_t times, Size size)
{
	std::vector<Object> objects(slots);

	for (size_t n = 0; n < times; n++) {
		Object &object = objects[random.between(0, static_cast<uint32_t>(slots - 1))];

		drop_if_any(object);
		object = make_object(size(random));
	}
	drop_all(objects);
}

/* Allocates an object, writes to it many times, frees it; over and over. */
void write_repeatedly(size_t objects, unsigned seed)
{
	constexpr uint32_t kSize = 8, kMiddle = 5;
	constexpr unsigned kWrites = 1000;
	const auto start = static_cast<unsigned char>(seed);

	for (size_t n = 0; n < objects; n++) {
		Object object = make_object(kSize);
		volatile unsigned char *middle = object + kMiddle;

		*middle = start;
		for (unsigned k = 0; k < kWrites; k++)
			*middle = static_cast<unsigned char>(*middle + 1);
		if (*middle != static_cast<unsigned char>(start + kWrites)) {
			fprintf(stderr, "object %p is somebody else's, too\n",
				static_cast<void *>(object));
			abort();
		}
		drop_object(object);
	}
}

/* Passes of @count objects of one size, allocated, then freed in order. */
void fill_and_empty(uint32_t size, size_t count, size_t passes)
{
	std::vector<Object> objects(count);

	for (; passes > 0; passes--) {
		for (Object &object : objects)
			object = make_object(size);
		for (Object object : objects)
			drop_object(object);
	}
}

constexpr double kCacheObjects = 2e6;

} // namespace

/*
 * After SmartHeap's test of one thread: batches of one size after the other, a part
 * freed last in first out, a part in order, and a part only after many others.
 */
void sh6(unsigned threads, double scale)
{
	constexpr double kObjects = 25e6;
	constexpr size_t kBatch = 300, kKept = 40000;
	const size_t batches = share(kObjects, scale, threads * kBatch);

	run_threads(threads, [&](unsigned i) {
		Random random(i);
		std::vector<Object> kept(std::max<size_t>(kKept / threads, 1));
		size_t place = 0;
		Object batch[kBatch];

		for (size_t n = 0; n < batches; n++) {
			make_batch(batch, random.mostly_small(8, 8));
			for (size_t k = kBatch / 3; k < 2 * kBatch / 3; k++) {
				drop_if_any(kept[place]);
				kept[place] = batch[k];
				place = (place + 1) % kept.size();
			}
		}
		drop_all(kept);
	});
}

/* Many objects, most of them small and few large, in a random order. */
void alloc_test(unsigned threads, double scale)
{
	constexpr double kReplacements = 8e6;
	constexpr size_t kLive = 1 << 15;
	const size_t times = share(kReplacements, scale, threads);

	run_threads(threads, [&](unsigned i) {
		replace(Random(i), std::max<size_t>(kLive / threads, 1), times,
			[](Random &random) { return random.mostly_small(8, 12); });
	});
}

/* After glibc's own: some sizes, and some numbers of objects. */
void glibc_simple(unsigned threads, double scale)
{
	constexpr double kObjects = 1e6;

	run_threads(threads, [&](unsigned) {
		for (uint32_t size : { 16u, 128u, 512u, 1024u }) {
			for (unsigned count : { 25u, 100u, 400u, 1600u })
				fill_and_empty(size, count,
					       share(kObjects, scale, threads * count));
		}
	});
}

/* After glibc's own: each thread replaces random ones of its 1024, small ones mostly. */
void glibc_thread(unsigned threads, double scale)
{
	constexpr double kReplacements = 30e6;
	constexpr size_t kSlots = 1024;
	const size_t times = share(kReplacements, scale, threads);

	run_threads(threads, [&](unsigned i) {
		replace(Random(i), kSlots, times,
			[](Random &random) { return random.mostly_small(8, 13); });
	});
}

/*
 * Passive false sharing: the first objects come from one thread, so that several
 * may lie in one cache line; each of the others gets one, frees it and goes on.
 */
void cache_scratch(unsigned threads, double scale)
{
	const size_t objects = share(kCacheObjects, scale, threads);
	std::vector<Object> given(threads);

	for (Object &object : given)
		object = make_object(8);
	run_threads(threads, [&](unsigned i) {
		drop_object(given[i]);
		write_repeatedly(objects, i);
	});
}

/* Active false sharing: objects that are allocated at a time by several threads. */
void cache_thrash(unsigned threads, double scale)
{
	const size_t objects = share(kCacheObjects, scale, threads);

	run_threads(threads, [&](unsigned i) { write_repeatedly(objects, i); });
}

/* Blocks of 5 to 25 MB, a few of them at a time, each of whose pages is written to. */
void malloc_large(unsigned threads, double scale)
{
	constexpr double kBlocks = 60;
	constexpr unsigned kLive = 16;
	constexpr uint32_t kSmallest = 5000000, kLargest = 25000000;
	constexpr size_t kPage = 4096;
	const size_t times = share(kBlocks, scale, threads);

	run_threads(threads, [&](unsigned i) {
		Random random(i);
		std::vector<Object> blocks(std::max(kLive / threads, 1u));

		for (size_t n = 0; n < times; n++) {
			Object &block = blocks[random.between(
				0, static_cast<uint32_t>(blocks.size() - 1))];

			drop_if_any(block);
			const uint32_t size = random.between(kSmallest, kLargest);
			block = make_object(size);
			for (size_t at = kPage; at < size - 1; at += kPage)
				static_cast<volatile unsigned char *>(block)[at] = 1;
		}
		drop_all(blocks);
	});
}
