/* SPDX-License-Identifier: MIT */
/* Counts the objects in KFENCE's pool, which lie in no slab. */
#include "live/heap.h"

namespace live
{

namespace
{

constexpr uint64_t most_objects = 1 << 16;

} // namespace

guarded read_guarded(const heap &h)
{
	const address at = h.l.symbol("kfence_pool");
	record pool(h.l, "kfence_pool");
	guarded g;

	if (!at)
		return g;
	expect(pool.read(h.memory, at));
	if (!pool.get("len") || !pool.get("nr_objects"))
		return g;

	const uint64_t n = pool.get("nr_objects"), size = h.l.size_of("kfence_object");
	const layout::field state = h.l.field_of("kfence_object.state");
	const layout::field cache_of = h.l.field_of("kfence_object.cache");
	const uint64_t in_use = h.l.constant("KFENCE_IN_USE");
	std::vector<live::piece> pieces;

	expect(n <= most_objects);
	table objects(h.l, "kfence_object", n);

	for (uint64_t i = 0; i < n; i++)
		pieces.push_back(objects.piece(i, pool.get("objects") + i * size));
	expect(h.memory.read(pieces));
	g.at = pool.get("objects");
	g.bytes = pool.get("objects_bytes");
	for (uint64_t i = 0; i < n; i++) {
		g.touched += objects.get(i, state) != h.l.constant("KFENCE_UNUSED");
		if (objects.get(i, state) != in_use)
			continue;
		g.in_use++;
		g.by_cache[objects.get(i, cache_of)]++;
	}
	return g;
}

} // namespace live
