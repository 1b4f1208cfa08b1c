/* SPDX-License-Identifier: MIT */
/* Reads what lies in KFENCE's pool, and in no slab. */
#include <algorithm>

#include "live/heap.h"

namespace live
{

namespace
{

constexpr uint64_t most_objects = (1 << 16) + 16; /* with small slots, and with large ones */

struct span {
	address at;
	uint64_t bytes; /* of whole pages */
};

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
	span run_of(uint64_t i, const guarded_pool &p) const;

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

/* None: the object was freed and taken again while it was read. */
span pool_reader::run_of(uint64_t i, const guarded_pool &p) const
{
	const address at = objects.get(i, l.field_of("kfence_object.addr"));
	const uint64_t size = objects.get(i, l.field_of("kfence_object.size"));
	const uint64_t offset = at - p.slot(i), mask = p.page_size - 1;

	if (!size || offset >= p.slot_bytes(i) || size > p.slot_bytes(i) - offset)
		return { 0, 0 };
	return { at & ~mask, ((at + size + mask) & ~mask) - (at & ~mask) };
}

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

/* The pool without its objects. */
guarded_pool read_geometry(const heap &h, const pool_reader &pool)
{
	guarded_pool p;

	if (!pool.nr)
		return p;
	p.base = pool.pool.get("base");
	p.bytes = pool.pool.get("len");
	p.page_size = pool.pool.get("page_size");
	p.nr = pool.nr;
	p.nr_small = pool.pool.get("nr_small");
	p.large_bytes = h.l.constant("KFENCE_LARGE_BYTES");
	p.records = pool.pool.get("objects");
	p.records_bytes = pool.pool.get("objects_bytes");
	expect(p.page_size && p.nr_small <= p.nr &&
	       p.base + p.bytes == p.slot(p.nr - 1) + p.slot_bytes(p.nr - 1) + p.page_size);
	return p;
}

} // namespace

guarded read_guarded(const heap &h, unsigned int what)
{
	const pool_reader pool(h);
	const guarded_pool p = read_geometry(h, pool);
	guarded g;

	g.at = p.records;
	g.bytes = p.records_bytes;
	for (uint64_t i = 0; i < p.nr; i++) {
		const bool is_small = i < p.nr_small;

		if (is_small && pool.touched(i)) {
			g.touched += p.page_size;
			g.resident += p.page_size;
		}
		if (!pool.in_use(i))
			continue;
		g.by_cache[pool.cache_of(i)]++;
		if (is_small) {
			g.in_use += p.page_size;
			continue;
		}

		const span run = pool.run_of(i, p);

		g.blocks += pool.cache_of(i) ? 0 : run.bytes;
		g.in_use += run.bytes;
		g.touched += run.bytes;
		if (what & RESIDENT && run.bytes)
			g.resident += h.memory.resident(run.at, run.bytes);
	}
	return g;
}

guarded_pool read_guarded_pool(const heap &h)
{
	const pool_reader pool(h);
	guarded_pool p = read_geometry(h, pool);

	room_for(p.nr, h.l.field_of("kfence_object.alloc.pc").count * sizeof(address));
	for (uint64_t i = 0; i < p.nr; i++)
		if (pool.in_use(i) && pool.run_of(i, p).bytes)
			p.in_use.push_back(pool.object(i));
	return p;
}

uint64_t guarded_pool::object_at(uint64_t offset) const
{
	if (offset < small_bytes()) {
		const uint64_t page = offset / page_size;

		if (page % 2)
			return page / 2;
		return page && offset % page_size == 0 ? page / 2 - 1 : nr;
	}
	offset -= small_bytes();

	const uint64_t stride = large_bytes + page_size;

	return offset % stride <= large_bytes ? nr_small + offset / stride : nr;
}

} // namespace live
