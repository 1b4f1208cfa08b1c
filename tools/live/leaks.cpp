/* SPDX-License-Identifier: MIT */
#include "live/leaks.h"

#include <algorithm>

#include "live/searcher.h"

namespace live
{

leak_search search_leaks(reader &r, const std::vector<thread> &threads)
{
	constexpr unsigned int usual_looks = 60; /* for the time that a search takes */
	const snapshot s = r.take(CACHES | ZONES);

	r.memory().begin_look(usual_looks);

	const heap h(r.memory(), r.layout());
	leak_search search;

	if (!h.ready)
		return search;

	const objects all(h, s);
	searcher find(h, all);

	find.reach_from_roots(threads);
	find.list_leaked(search);
	search.kinds = all.kinds;

	/* Those that were freed meanwhile are not leaked. */
	const snapshot later = r.take(CACHES | ZONES);

	r.memory().begin_look(usual_looks);

	const objects again(h, later);

	search.leaked.erase(
		std::remove_if(search.leaked.begin(), search.leaked.end(),
			       [&](const leaked_object &o) {
				       uint32_t i;

				       return again.find(o.at, i) == objects::none ||
					      again.size_of(again.runs[i]) != o.size;
			       }),
		search.leaked.end());
	if (!h.same())
		throw error(reason::replaced, "it runs another program now");
	h.memory.check_alive();
	return search;
}

void keep_those_of(const leak_search &before, leak_search &now)
{
	auto old = before.leaked.begin();
	std::vector<leaked_object> both;

	for (const leaked_object &o : now.leaked) {
		while (old != before.leaked.end() && old->at < o.at)
			old++;
		if (old != before.leaked.end() && old->at == o.at && old->size == o.size &&
		    old->hash == o.hash)
			both.push_back(o);
	}
	now.leaked = std::move(both);
}

} // namespace live
