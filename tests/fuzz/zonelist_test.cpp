/* SPDX-License-Identifier: MIT */
/*
 * The zonelist cache is a hint: it may send a request to a farther node for a second, and
 * nothing else. Random requests beside a model that knows which nodes have room.
 *
 * Without pagesets and with node limits a node's pages in use are those handed out, so that
 * the model can say which node a request gets its pages from.
 */
#include <algorithm>
#include <numeric>

#include "faults.h"
#include "fuzz_shim.h"
#include "settings.h"
#include "test_util.h"
#include "ukmem/mempolicy.h"

extern "C" {
#include "page_shim.h"
}

namespace
{

constexpr unsigned kReal = 4, kNone = ~0u;
constexpr unsigned kMin = 1, kLow = 2;
constexpr gfp_t kKernel = GFP_KERNEL | __GFP_NOWARN;
constexpr uint64_t kSecond = 1000;

using Nodes = std::vector<bool>;

struct Counters {
	uint64_t skip, zap, second;

	static Counters now()
	{
		return { fuzz_event_sum(FUZZ_ZLC_SKIP), fuzz_event_sum(FUZZ_ZLC_ZAP),
			 fuzz_event_sum(FUZZ_ZLC_SECOND_SCAN) };
	}
	bool operator==(const Counters &other) const
	{
		return skip == other.skip && zap == other.zap && second == other.second;
	}
};

/* A request, and from where. */
struct Asked {
	unsigned from; /* node whose list is walked */
	gfp_t flags;
	unsigned order;
	const Nodes *only; /* nullptr: any */
};

struct Held {
	struct page *page;
	unsigned order;
};

/* Four nodes, or each of them in parts. */
class Model
{
      public:
	Model(unsigned nodes, bool pagesets, uint64_t seed) : n_(nodes), random_(seed)
	{
		std::string conf = "background_thread:never,limit:16g,node_limit:1m,";

		conf += "zonelist_cache:1,numa_fake:" +
			std::to_string(nodes == kReal ? 0 : nodes);
		setenv("UKMEM_CONF", (conf + ",pagesets:" + (pagesets ? "1" : "0")).c_str(), 1);
		fuzz::install_faults();
		fuzz::pretend_machine(kReal);
		EXPECT_TRUE(shim_page_init());
		EXPECT_EQ(shim_nr_zones(), n_);
		fuzz_zone_read(0, &zone_);
		held_.resize(n_);
		handed_.resize(n_);
		order_.resize(n_);
		allowed_.assign(n_, true);
		short_.assign(n_, std::vector<uint64_t>(n_));
		for (unsigned i = 0; i < n_; i++)
			order_[i] = by_distance(i);
		warm_up();
	}

	unsigned real(unsigned node) const
	{
		return node / (n_ / kReal);
	}
	unsigned distance(unsigned a, unsigned b) const
	{
		if (a != b && real(a) == real(b))
			return 11;
		return static_cast<unsigned>(fuzz::pretend_distance(real(a), real(b)));
	}
	bool room(unsigned node, size_t npages, unsigned mark) const
	{
		return handed_[node] + npages + zone_.wmark[mark] <= zone_.managed;
	}
	bool usable(const Asked &a, unsigned node) const
	{
		return allowed_[node] && (!a.only || (*a.only)[node]);
	}
	/* The mark down to which the request goes, so that any node has room; kNone: none. */
	unsigned mark_of(const Asked &a) const
	{
		size_t npages = static_cast<size_t>(1) << a.order;
		const unsigned marks[] = { kLow, a.flags & __GFP_HIGH ? 0 : kMin };

		for (unsigned mark : marks)
			for (unsigned node = 0; node < n_; node++)
				if (usable(a, node) && room(node, npages, mark))
					return mark;
		return kNone;
	}

	void fill(unsigned node);
	void empty(unsigned node);
	void free_one();
	unsigned ask(const Asked &a);
	unsigned ask_local(gfp_t flags, unsigned order);
	unsigned ask_bound(gfp_t flags, unsigned order);
	void step();
	void pagesets_step();
	void note_short(const Asked &a);
	void judge(const Asked &a, unsigned got, const Counters &before);
	bool leaves(const Asked &a) const
	{
		return n_ > 1 && (a.flags & (__GFP_HIGH | __GFP_DIRECT_RECLAIM |
					     __GFP_THISNODE)) == __GFP_HIGH;
	}
	void judge_left(const Asked &a, unsigned got);
	void judge_order(const Asked &a, unsigned got, unsigned mark);
	void set_allowed(unsigned long mems);
	void check_used() const;

	unsigned any_node()
	{
		return static_cast<unsigned>(random_() % n_);
	}

	const unsigned n_;
	std::mt19937_64 random_;
	fuzz_zone zone_;
	std::vector<std::vector<Held>> held_; /* by node */
	std::vector<size_t> handed_;	      /* pages */
	std::vector<std::vector<unsigned>> order_;
	Nodes allowed_;
	std::vector<std::vector<uint64_t>> short_; /* [list][node]: when last found so */
	uint64_t farther_ = 0, exact_ = 0;

      private:
	std::vector<unsigned> by_distance(unsigned from) const
	{
		std::vector<unsigned> order(n_);

		for (unsigned i = 0; i < n_; i++)
			order[i] = (from + i) % n_;
		std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
			return distance(from, a) < distance(from, b);
		});
		return order;
	}
	/* Memory for requests that may not bring in any. */
	void warm_up()
	{
		for (unsigned i = 0; i < n_; i++) {
			gfp_t flags = kKernel | __GFP_THISNODE;
			struct page *page = alloc_pages_node(static_cast<int>(i), flags, 0);

			ASSERT_NE(page, nullptr);
			__free_pages(page, 0);
		}
		shim_trim(true);
	}
	unsigned take(struct page *page, unsigned order)
	{
		if (!page)
			return kNone;
		auto node = static_cast<unsigned>(page_to_nid(page));

		held_[node].push_back({ page, order });
		handed_[node] += static_cast<size_t>(1) << order;
		return node;
	}
};

void Model::fill(unsigned node)
{
	const gfp_t flags = kKernel | __GFP_THISNODE;
	Asked a = { node, flags, 5, nullptr };

	if (!allowed_[node])
		return;
	for (unsigned order : { 5u, 2u, 0u })
		while (room(node, static_cast<size_t>(1) << order, kMin)) {
			a.order = order;
			note_short(a);
			ASSERT_EQ(take(alloc_pages_node(static_cast<int>(node), flags, order),
				       order),
				  node);
		}
}

void Model::empty(unsigned node)
{
	for (const Held &h : held_[node])
		__free_pages(h.page, h.order);
	held_[node].clear();
	handed_[node] = 0;
}

void Model::free_one()
{
	unsigned node = any_node();
	auto &held = held_[node];

	if (held.empty())
		return;
	std::swap(held[random_() % held.size()], held.back());
	__free_pages(held.back().page, held.back().order);
	handed_[node] -= static_cast<size_t>(1) << held.back().order;
	held.pop_back();
}

/* Where a bit of the list may be set from now on, for a second. */
void Model::note_short(const Asked &a)
{
	for (unsigned node = 0; node < n_; node++)
		if (!room(node, static_cast<size_t>(1) << a.order, kLow))
			short_[a.from][node] = fuzz::now_ms;
}

/* Nearer nodes with room may be passed over only if they were short within a second. */
void Model::judge_order(const Asked &a, unsigned got, unsigned mark)
{
	size_t npages = static_cast<size_t>(1) << a.order;
	bool exact = true;

	for (unsigned node : order_[a.from]) {
		if (node == got)
			break;
		if (!usable(a, node) || !room(node, npages, mark))
			continue;
		exact = false;
		EXPECT_NE(node, a.from) << "the first node is always tried";
		if (a.flags & __GFP_DIRECT_RECLAIM) {
			EXPECT_LT(fuzz::now_ms - short_[a.from][node], kSecond)
				<< "node " << node << " was passed over for node " << got
				<< ", from " << a.from;
		}
	}
	(exact ? exact_ : farther_)++;
}

/* A request that may not wait is served from the reserve of any node of those that its caller
 * named, allowed or not, if the nodes that it prefers have nothing. */
void Model::judge_left(const Asked &a, unsigned got)
{
	size_t npages = static_cast<size_t>(1) << a.order;
	bool any = false;

	for (unsigned node = 0; node < n_; node++)
		any = any || ((!a.only || (*a.only)[node]) && room(node, npages, 0));
	ASSERT_EQ(got != kNone, any);
	if (any) {
		ASSERT_TRUE(!a.only || (*a.only)[got]) << "node " << got;
		ASSERT_TRUE(room(got, npages, 0)) << "node " << got;
	}
}

/* Before what was got counts as handed out. */
void Model::judge(const Asked &a, unsigned got, const Counters &before)
{
	size_t npages = static_cast<size_t>(1) << a.order;
	unsigned mark = mark_of(a);
	Counters after = Counters::now();

	if (mark == kNone && leaves(a)) {
		judge_left(a, got);
		return;
	}
	ASSERT_EQ(got == kNone, mark == kNone)
		<< "order " << a.order << " from node " << a.from << ", flags " << a.flags;
	if (usable(a, a.from) && room(a.from, npages, kLow)) {
		ASSERT_EQ(got, a.from);
		EXPECT_TRUE(after == before) << "the first zone's hit touched the cache";
	}
	if (got == kNone)
		return;
	ASSERT_TRUE(usable(a, got)) << "node " << got;
	ASSERT_TRUE(room(got, npages, mark)) << "node " << got << " is short, others are not";
	judge_order(a, got, mark);
}

unsigned Model::ask(const Asked &a)
{
	Counters before = Counters::now();
	struct nodemask mask;
	struct page *page;
	unsigned got;

	nodemask_clear(&mask);
	for (unsigned i = 0; i < n_; i++)
		if (!a.only || (*a.only)[i])
			nodemask_set(&mask, i);
	{
		fuzz::NoSystemCalls none(!(a.flags & __GFP_DIRECT_RECLAIM));

		page = __alloc_pages(a.flags, a.order, static_cast<int>(a.from),
				     a.only ? &mask : nullptr);
	}
	got = page ? static_cast<unsigned>(page_to_nid(page)) : kNone;
	/* A zap reads which nodes are allowed; what was in force before it is gone. */
	if (Counters::now().zap != before.zap && fuzz::mems_allowed != ~0ul) {
		for (unsigned i = 0; i < n_; i++)
			allowed_[i] = fuzz::mems_allowed >> real(i) & 1;
		EXPECT_TRUE(got == kNone || usable(a, got) || got == a.from);
	} else {
		judge(a, got, before);
	}
	note_short(a);
	return take(page, a.order);
}

unsigned Model::ask_local(gfp_t flags, unsigned order)
{
	Counters before = Counters::now();
	unsigned parts = n_ / kReal, cpu = static_cast<unsigned>(random_() % fuzz::kCpus);
	Asked a = { cpu % kReal * parts + cpu % parts, flags, order, nullptr };
	struct page *page;

	fuzz::cpu_number = cpu;
	EXPECT_EQ(numa_node_id(), static_cast<int>(a.from));
	page = alloc_pages(flags, order);
	judge(a, page ? static_cast<unsigned>(page_to_nid(page)) : kNone, before);
	note_short(a);
	return take(page, order);
}

/* A bind policy's list has no cache: always the nearest of its nodes that has room. */
unsigned Model::ask_bound(gfp_t flags, unsigned order)
{
	Counters before = Counters::now();
	unsigned parts = n_ / kReal, cpu = static_cast<unsigned>(random_() % fuzz::kCpus);
	unsigned local = cpu % kReal * parts + cpu % parts, got;
	size_t npages = static_cast<size_t>(1) << order;
	struct nodemask mask;
	Nodes only(n_);

	nodemask_clear(&mask);
	for (unsigned i = 0; i < 1 + n_ / 3; i++) {
		unsigned node = any_node();

		only[node] = true;
		nodemask_set(&mask, node);
	}
	struct mempolicy *pol = mpol_new(MPOL_BIND, &mask);
	Asked a = { local, flags, order, &only };
	bool any = false;

	for (unsigned i = 0; i < n_; i++)
		any = any || usable(a, i);
	a.only = any ? &only : nullptr;
	fuzz::cpu_number = cpu;
	struct page *page = alloc_pages_mpol(flags, order, pol);
	mpol_put(pol);
	got = page ? static_cast<unsigned>(page_to_nid(page)) : kNone;
	if (!any) { /* as if there were no policy */
		judge(a, got, before);
		note_short(a);
		return take(page, order);
	}
	EXPECT_TRUE(Counters::now() == before) << "a bind policy's request touched a cache";
	unsigned mark = mark_of(a);
	if (mark == kNone && leaves(a)) {
		judge_left(a, got);
		return take(page, order);
	}
	EXPECT_EQ(got == kNone, mark == kNone);
	for (unsigned i = 0; got != kNone && i < n_; i++) {
		bool had = usable(a, i) && room(i, npages, mark);

		EXPECT_TRUE(!had || distance(local, i) >= distance(local, got))
			<< "node " << i << " is nearer to " << local << " than " << got;
	}
	return take(page, order);
}

void Model::set_allowed(unsigned long mems)
{
	fuzz::mems_allowed = mems;
	shim_trim(true);
	for (unsigned i = 0; i < n_; i++)
		allowed_[i] = mems >> real(i) & 1;
}

void Model::check_used() const
{
	for (unsigned i = 0; i < n_; i++)
		ASSERT_EQ(fuzz_zone_used(i), handed_[i]) << "node " << i;
}

void Model::step()
{
	uint64_t what = random_() % 1000;
	unsigned order = random_() % 4 ? 0 : static_cast<unsigned>(random_() % 6);
	gfp_t flags = kKernel;

	if (random_() % 8 == 0) {
		flags = (random_() % 2 ? GFP_NOWAIT : GFP_ATOMIC) | __GFP_NOWARN;
		order = 0; /* what is mapped may be in pieces */
	}
	if (what < 15) {
		fill(any_node());
	} else if (what < 20) {
		empty(any_node());
	} else if (what < 40) {
		fuzz::now_ms += random_() % 1500;
	} else if (what < 42 && what % 2) {
		set_allowed(random_() % 15 + 1);
	} else if (what < 60) {
		ask_bound(kKernel, order);
	} else if (what < 150) {
		ask_local(flags, order);
	} else if (what < 250) {
		Nodes only(n_);

		for (unsigned i = 0; i < n_; i++)
			only[i] = random_() % 2;
		ask({ any_node(), flags, order, &only });
	} else if (what < 600) {
		ask({ any_node() / 3, flags, order, nullptr });
	} else {
		free_one();
	}
}

class ZonelistTest : public ::testing::TestWithParam<unsigned>
{
};

unsigned steps(unsigned nodes)
{
	return (nodes > 100 ? 100000 : 400000) / kSlow / (TEST_TSAN || TEST_ASAN ? 2 : 1);
}

/* Goes on for longer if the cache has not mattered yet: on many nodes it seldom does. If it
 * has, a short check ends it after a while. */
void random_requests(unsigned nodes, uint64_t seed)
{
	Model m(nodes, false, seed);
	const unsigned least = steps(nodes), most = 10 * least;
	const TimeBox box;
	const auto goes_on = [&](unsigned i) {
		return m.farther_ ? i < least && !box.is_over() : i < most;
	};

	for (unsigned i = 0; goes_on(i) && !::testing::Test::HasFailure(); i++) {
		m.step();
		if (i % 1000 == 0)
			m.check_used();
	}
	EXPECT_GT(m.farther_, 0u) << "the cache never mattered";
	EXPECT_GT(m.exact_, 0u);
	EXPECT_GT(Counters::now().second, 0u);
	for (unsigned i = 0; i < nodes; i++)
		m.empty(i);
	m.check_used();
}

TEST_P(ZonelistTest, ACacheOnlyDelays)
{
	uint64_t seed = test_seed();

	EXPECT_FRESH_PROCESS_PASSES([&] { random_requests(GetParam(), seed); });
}

/* With pagesets nodes look fuller than they are, until a reclaim. */
void with_pagesets(unsigned nodes, uint64_t seed)
{
	Model m(nodes, true, seed);
	TimeBox box;

	for (unsigned i = 0; i < steps(nodes) / 4 && !box.is_over(); i++) {
		size_t npages = 1;
		unsigned from = m.any_node();

		if (m.random_() % 64 == 0)
			fuzz::now_ms += m.random_() % 1500;
		if (m.random_() % 2) {
			m.free_one();
			continue;
		}
		/* A small world, so that it is full most of the time. */
		Nodes only(nodes);

		for (unsigned k = 0; k < 4; k++)
			only[k * 7 % nodes] = true;
		Asked a = { from, kKernel, 0, &only };
		bool room = false;

		for (unsigned k = 0; k < nodes; k++)
			room = room || (only[k] && m.room(k, npages, kMin));
		struct nodemask mask;
		nodemask_clear(&mask);
		for (unsigned k = 0; k < nodes; k++)
			if (only[k])
				nodemask_set(&mask, k);
		struct page *page = __alloc_pages(kKernel, 0, static_cast<int>(from), &mask);

		ASSERT_EQ(page != nullptr, room) << "step " << i;
		if (!page)
			continue;
		auto node = static_cast<unsigned>(page_to_nid(page));
		ASSERT_TRUE(m.usable(a, node));
		m.held_[node].push_back({ page, 0 });
		m.handed_[node]++;
	}
}

TEST_P(ZonelistTest, NoRequestFailsForPagesetsOrTheCache)
{
	uint64_t seed = test_seed();

	EXPECT_FRESH_PROCESS_PASSES([&] { with_pagesets(GetParam(), seed); });
}

void full_nodes_are_skipped(unsigned nodes)
{
	Model m(nodes, false, 1);
	unsigned last = m.order_[0].back();
	Asked a = { 0, kKernel, 0, nullptr };

	for (unsigned i = 0; i < nodes; i++)
		if (i != last)
			m.fill(i);
	fuzz::now_ms += kSecond;
	ASSERT_EQ(m.ask(a), last);
	uint64_t skipped = fuzz_event_sum(FUZZ_ZLC_SKIP);
	ASSERT_EQ(m.ask(a), last);
	EXPECT_EQ(fuzz_event_sum(FUZZ_ZLC_SKIP) - skipped, nodes - 2)
		<< "all but the first and the last";
	/* Room that the cache does not know of is found in the end, even so. */
	unsigned middle = m.order_[0][nodes / 2];
	uint64_t second = fuzz_event_sum(FUZZ_ZLC_SECOND_SCAN);

	m.fill(last);
	ASSERT_EQ(m.ask(a), kNone);
	m.empty(middle);
	EXPECT_EQ(m.ask(a), middle);
	EXPECT_GT(fuzz_event_sum(FUZZ_ZLC_SECOND_SCAN), second);
	/* After a second it is known. */
	m.empty(last);
	fuzz::now_ms += kSecond;
	second = fuzz_event_sum(FUZZ_ZLC_SECOND_SCAN);
	EXPECT_EQ(m.ask(a), middle);
	EXPECT_EQ(fuzz_event_sum(FUZZ_ZLC_SECOND_SCAN), second);
}

TEST_P(ZonelistTest, FullNodesAreSkippedForASecond)
{
	EXPECT_FRESH_PROCESS_PASSES([] { full_nodes_are_skipped(GetParam()); });
}

/* Changes of the allowed nodes are seen when a cache is cleared, and not before. */
void allowed_nodes_are_read(unsigned nodes)
{
	Model m(nodes, false, 1);
	unsigned parts = nodes / kReal;
	Asked a = { 0, kKernel, 0, nullptr };

	for (unsigned i = 0; i < parts; i++)
		m.fill(i);
	fuzz::now_ms += kSecond;
	ASSERT_EQ(m.real(m.ask(a)), 1u) << "the nearest socket's other node";
	fuzz::mems_allowed = 0x9; /* 0 and 3 */
	fuzz::now_ms += kSecond - 1;
	ASSERT_EQ(m.real(m.ask(a)), 1u) << "not looked at yet";
	fuzz::now_ms += 1;
	ASSERT_EQ(m.real(m.ask(a)), 3u);
	EXPECT_FALSE(node_state(static_cast<int>(parts), N_MEMORY));
	EXPECT_TRUE(node_state(static_cast<int>(3 * parts), N_MEMORY));
	ASSERT_EQ(alloc_pages_node(static_cast<int>(parts), kKernel | __GFP_THISNODE, 0),
		  nullptr);
	fuzz::mems_allowed = ~0ul;
	fuzz::now_ms += kSecond;
	m.allowed_.assign(nodes, true);
	EXPECT_EQ(m.real(m.ask(a)), 1u);
}

TEST_P(ZonelistTest, AllowedNodesAreReadWhenACacheIsCleared)
{
	EXPECT_FRESH_PROCESS_PASSES([] { allowed_nodes_are_read(GetParam()); });
}

void first_hits_cost_nothing(unsigned nodes)
{
	Model m(nodes, false, 1);
	Counters before = Counters::now();

	for (unsigned i = 0; i < nodes; i++) {
		fuzz::now_ms += kSecond;
		for (unsigned order = 0; order < 6; order++)
			ASSERT_EQ(m.ask({ i, kKernel, order, nullptr }), i);
	}
	EXPECT_TRUE(Counters::now() == before);
}

TEST_P(ZonelistTest, FirstHitsDoNotTouchTheCache)
{
	EXPECT_FRESH_PROCESS_PASSES([] { first_hits_cost_nothing(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Nodes, ZonelistTest, ::testing::Values(4u, 28u, 256u));

} // namespace
