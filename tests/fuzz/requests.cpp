/* SPDX-License-Identifier: MIT */
/* Requests of every kind, and what the model expects of each. */
#include <algorithm>

#include "faults.h"
#include "machine.h"

namespace fuzz
{

namespace
{

Nodes bit(unsigned node)
{
	return 1ul << node;
}

Nodes all_nodes()
{
	return bit(world.nodes) - 1;
}

} // namespace

gfp_t Machine::pick_flags()
{
	uint64_t what = random_() % 32;
	gfp_t flags = GFP_KERNEL;

	if (what < 4)
		flags = GFP_NOWAIT;
	else if (what < 8)
		flags = GFP_ATOMIC;
	else if (what < 10)
		flags |= __GFP_NORETRY;
	else if (what < 11)
		flags |= __GFP_RETRY_MAYFAIL;
	if (random_() % 4 == 0)
		flags |= __GFP_ZERO;
	if (random_() % 4 == 0)
		flags |= __GFP_COMP;
	if (random_() % 8 == 0)
		flags |= __GFP_THISNODE;
	if (random_() % 10 == 0)
		flags |= random_() % 3 ? __GFP_DMA32 : __GFP_DMA;
	return flags | __GFP_NOWARN;
}

unsigned Machine::pick_order()
{
	uint64_t what = random_() % 32;

	if (what < 20)
		return 0;
	if (what < 28)
		return static_cast<unsigned>(1 + random_() % 4);
	return static_cast<unsigned>(random_() % 4 ? 5 + random_() % 4 : 9 + random_() % 2);
}

void Machine::allocate()
{
	gfp_t flags = pick_flags();
	uint64_t what = random_() % 64;

	if (what < 30)
		request_pages(flags);
	else if (what < 38)
		request_node(flags);
	else if (what < 45)
		request_mask(flags);
	else if (what < 54)
		request_policy(flags);
	else if (what < 55)
		request_bulk(flags);
	else
		request_exact(flags);
}

unsigned Machine::local_node() const
{
	return cpu_number % world.nodes;
}

Request Machine::plain_request(gfp_t flags, unsigned order)
{
	Request r = {};

	r.flags = flags;
	r.order = order;
	r.npages = static_cast<size_t>(1) << order;
	r.preferred = local_node();
	r.nodes = flags & __GFP_THISNODE ? bit(r.preferred) : all_nodes();
	return r;
}

void Machine::request_pages(gfp_t flags)
{
	Request r = plain_request(flags, pick_order());
	struct page *page;

	begin(r);
	if (random_() % 4) {
		NoSystemCalls none(!r.may_block());

		page = alloc_pages(flags, r.order);
	} else {
		NoSystemCalls none(!r.may_block());
		unsigned long addr = __get_free_pages(flags, r.order);

		page = addr ? virt_to_page(reinterpret_cast<void *>(addr)) : nullptr;
	}
	end(r, page, PAGES);
}

void Machine::request_node(gfp_t flags)
{
	Request r = plain_request(flags, pick_order());
	int nid = static_cast<int>(random_() % (world.nodes + 1)) - 1;
	struct page *page;

	if (nid != NUMA_NO_NODE) {
		r.preferred = static_cast<unsigned>(nid);
		r.nodes = flags & __GFP_THISNODE ? bit(r.preferred) : all_nodes();
	}
	begin(r);
	{
		NoSystemCalls none(!r.may_block());

		page = alloc_pages_node(nid, flags, r.order);
	}
	end(r, page, PAGES);
}

void Machine::request_mask(gfp_t flags)
{
	Request r = plain_request(flags, pick_order());
	struct nodemask mask;
	struct page *page;
	Nodes nodes = random_();

	r.preferred = static_cast<unsigned>(random_() % world.nodes);
	r.nodes = nodes & (flags & __GFP_THISNODE ? bit(r.preferred) : all_nodes());
	nodemask_clear(&mask);
	mask.bits[0] = nodes;
	begin(r);
	{
		NoSystemCalls none(!r.may_block());

		page = __alloc_pages(flags, r.order, static_cast<int>(r.preferred), &mask);
	}
	end(r, page, PAGES);
}

/* From a policy to nodes, as <ukmem/mempolicy.h> says. */
void Machine::policy_nodes(Policy &p, Request &r)
{
	auto allowed = [](unsigned node) { return (mems_allowed >> node & 1) != 0; };
	/* Of two equally near nodes, the one that comes sooner after the local node. */
	auto nearer = [&](unsigned a, unsigned b) {
		int local = static_cast<int>(local_node());
		int da = node_distance(local, static_cast<int>(a));
		int db = node_distance(local, static_cast<int>(b));
		unsigned n = world.nodes;

		return da != db ? da < db
				: (a + n - local_node()) % n < (b + n - local_node()) % n;
	};
	std::vector<unsigned> rest;
	Nodes usable = 0;

	for (unsigned node : p.nodes)
		if (!world.settings.machine || allowed(node)) {
			usable |= bit(node);
			rest.push_back(node);
		}
	if (!usable)
		return;
	if (p.mode == MPOL_PREFERRED) {
		r.preferred = p.nodes[0];
	} else if (p.mode == MPOL_BIND) {
		r.preferred = *std::min_element(rest.begin(), rest.end(), nearer);
		r.nodes = usable;
	} else if (p.mode == MPOL_INTERLEAVE) {
		do
			r.preferred = p.nodes[p.next++ % p.nodes.size()];
		while (!(usable & bit(r.preferred)));
		r.interleaved = true;
	}
	if (r.flags & __GFP_THISNODE)
		r.nodes = bit(r.preferred);
}

void Machine::request_policy(gfp_t flags)
{
	Policy &p = policies_[random_() % policies_.size()];
	Request r = plain_request(flags, pick_order());
	struct page *page;

	if (!p.pol)
		return;
	policy_nodes(p, r);
	begin(r);
	{
		NoSystemCalls none(!r.may_block());

		page = alloc_pages_mpol(flags, r.order, p.pol);
	}
	end(r, page, PAGES);
}

void Machine::request_bulk(gfp_t flags)
{
	Request r = plain_request(flags, 0);
	struct page *pages[80] = {};
	unsigned long n = random_() % 80, got;

	begin(r);
	{
		NoSystemCalls none(!r.may_block());

		got = alloc_pages_bulk(flags, n, pages);
	}
	for (unsigned long i = 0; i < n; i++)
		if ((i < got) != (pages[i] != nullptr))
			fail("bulk: %lu of %lu filled, and entry %lu is %p", got, n, i,
			     static_cast<void *>(pages[i]));
	for (unsigned long i = 0; i < got; i++)
		end(r, pages[i], PAGES);
	if (got < n)
		end(r, nullptr, PAGES);
}

void Machine::request_exact(gfp_t flags)
{
	size_t pages = random_() % 16 ? 1 + random_() % 40 : 1 + random_() % 1500;
	/* Any size of so many pages. */
	size_t size = pages * ukmem_page_size() - random_() % ukmem_page_size();
	Request r = plain_request(flags, 0);
	void *p;

	r.npages = pages;
	begin(r);
	{
		NoSystemCalls none(!r.may_block());

		p = alloc_pages_exact(size, flags);
	}
	end(r, p ? virt_to_page(p) : nullptr, EXACT);
}

/* By one of the ways to free it; of an exact size any that has as many pages. */
void Machine::release(Run run)
{
	NoSystemCalls none;

	judge_compound(run);
	shadow.drop(run);
	pages_ -= run.npages;
	if (run.how == EXACT)
		free_pages_exact(run.addr, run.npages * ukmem_page_size() - run.id % 4096);
	else if (run.id % 2)
		__free_pages(run.page, run.order);
	else
		free_pages(reinterpret_cast<unsigned long>(run.addr), run.order);
}

void Machine::hold(const Run &run)
{
	std::lock_guard<std::mutex> guard(held_lock_);

	held_.push_back(run);
}

unsigned long Machine::count_held(shrinker *s, shrink_control *)
{
	Machine *machine = static_cast<Holder *>(s)->machine;
	std::lock_guard<std::mutex> guard(machine->held_lock_);

	return machine->held_.empty() ? SHRINK_EMPTY : machine->held_.size();
}

/* Called by whichever thread is short of memory. */
unsigned long Machine::scan_held(shrinker *s, shrink_control *sc)
{
	Machine *machine = static_cast<Holder *>(s)->machine;
	std::vector<Run> some;
	unsigned scan;

	{
		std::lock_guard<std::mutex> guard(machine->held_lock_);
		auto &held = machine->held_;

		scan = ++machine->scans_;
		for (unsigned long i = 0; i < sc->nr_to_scan && !held.empty(); i++) {
			some.push_back(held.back());
			held.pop_back();
		}
	}
	for (const Run &run : some)
		machine->release(run);
	if (world.alone && scan % 8 == 0) { /* shrinkers may allocate */
		machine->in_reclaim_ = true;
		machine->request_pages(scan % 16 ? GFP_KERNEL | __GFP_NOWARN : GFP_NOWAIT);
		machine->in_reclaim_ = false;
	}
	return some.empty() || scan % 11 == 0 ? SHRINK_STOP : some.size();
}

} // namespace fuzz
