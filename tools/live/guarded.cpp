/* SPDX-License-Identifier: MIT */
/* Reads what lies in KFENCE's pool, and in no slab. */
#include <algorithm>

#include "live/heap.h"

namespace live
{

namespace
{

constexpr uint64_t most_objects = 1 << 16;

/* The pool's variables and the records of its objects. */
class pool_reader
{
      public:
	explicit pool_reader(const heap &heap_of)
	    : pool(heap_of.l, "kfence_pool"), nr(number_of(heap_of, pool)),
	      objects(heap_of.l, "kfence_object", nr), l(heap_of.l),
	      state(l.field_of("kfence_object.state")),
	      cache(l.field_of("kfence_object.cache")), unused(l.constant("KFENCE_UNUSED")),
	      used(l.constant("KFENCE_IN_USE"))
	{
		const uint64_t size = l.size_of("kfence_object");
		std::vector<piece> pieces;

		for (uint64_t i = 0; i < nr; i++)
			pieces.push_back(objects.piece(i, pool.get("objects") + i * size));
		expect(pieces.empty() || heap_of.memory.read(pieces));
	}

	bool touched(uint64_t i) const
	{
		return objects.get(i, state) != unused;
	}
	bool in_use(uint64_t i) const
	{
		return objects.get(i, state) == used;
	}
	address cache_of(uint64_t i) const
	{
		return objects.get(i, cache);
	}
	guarded_object object(uint64_t i) const;

	record pool;
	const uint64_t nr; /* 0: there is no pool */

      private:
	static uint64_t number_of(const heap &h, record &pool)
	{
		const address at = h.l.symbol("kfence_pool");

		if (!at)
			return 0;
		expect(pool.read(h.memory, at));

		const uint64_t n = pool.get("len") ? pool.get("nr_objects") : 0;

		expect(n <= most_objects);
		return n;
	}

	table objects;
	const layout &l;
	const layout::field state, cache;
	const uint64_t unused, used;
};

guarded_object pool_reader::object(uint64_t i) const
{
	const layout::field &pc = l.field_of("kfence_object.alloc.pc");
	const uint64_t depth = std::min<uint64_t>(
		objects.get(i, l.field_of("kfence_object.alloc.depth")), pc.count);
	guarded_object o = { i,
			     objects.get(i, l.field_of("kfence_object.addr")),
			     objects.get(i, l.field_of("kfence_object.size")),
			     cache_of(i),
			     {} };

	for (uint64_t k = 0; k < depth; k++)
		o.stack.push_back(objects.get(i, pc, k));
	return o;
}

} // namespace

guarded read_guarded(const heap &h)
{
	const pool_reader pool(h);
	guarded g;

	if (!pool.nr)
		return g;
	g.at = pool.pool.get("objects");
	g.bytes = pool.pool.get("objects_bytes");
	for (uint64_t i = 0; i < pool.nr; i++) {
		g.touched += pool.touched(i);
		if (!pool.in_use(i))
			continue;
		g.in_use++;
		g.by_cache[pool.cache_of(i)]++;
	}
	return g;
}

guarded_pool read_guarded_pool(const heap &h)
{
	const pool_reader pool(h);
	guarded_pool p;

	if (!pool.nr)
		return p;
	p.base = pool.pool.get("base");
	p.bytes = pool.pool.get("len");
	p.page_size = pool.pool.get("page_size");
	p.nr = pool.nr;
	p.records = pool.pool.get("objects");
	p.records_bytes = pool.pool.get("objects_bytes");
	expect(p.page_size && p.bytes == (2 * p.nr + 1) * p.page_size);
	for (uint64_t i = 0; i < p.nr; i++) {
		if (!pool.in_use(i))
			continue;

		const guarded_object o = pool.object(i);
		const uint64_t offset = o.at - p.base - (2 * i + 1) * p.page_size;

		/* Else it was freed and taken again while it was read. */
		if (o.size && offset < p.page_size && o.size <= p.page_size - offset)
			p.in_use.push_back(o);
	}
	return p;
}

} // namespace live
