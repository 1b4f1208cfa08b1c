/* SPDX-License-Identifier: MIT */
#include "live/tags.h"

#include <algorithm>

#include "live/heap.h"
#include "live/printable.h"

namespace live
{

namespace
{

constexpr uint64_t most_tags = 1 << 16, most_copies = most_cpus + 1; /* the spill unit */
constexpr size_t longest_text = 4096;

/* The sum of one counter's copies; an object may be counted and uncounted on two CPUs in the
 * middle of it, so it may be below zero for a moment. */
uint64_t not_negative(uint64_t sum)
{
	return static_cast<int64_t>(sum) < 0 ? 0 : sum;
}

/* False: the tag went away with its library. */
bool read_site(process_memory &memory, const layout &l, const record &all, address at,
	       call_site &site)
{
	record tag(l, "ukmem_alloc_tag");
	const uint64_t copies = all.get("copies");
	table counters(l, "ukmem_alloc_tag_counters", copies);
	std::vector<piece> pieces;

	if (!tag.read(memory, at))
		return false;
	for (uint64_t i = 0; i < copies; i++)
		pieces.push_back(counters.piece(i, tag.get("counters") + all.get("base") +
							   i * all.get("stride")));
	if (!memory.read(pieces))
		return false;
	site.file = printable(memory.text(tag.get("file"), longest_text));
	site.function = printable(memory.text(tag.get("function"), longest_text));
	site.line = tag.get("line");
	site.bytes = site.objects = 0;
	for (uint64_t i = 0; i < copies; i++) {
		site.bytes += counters.get(i, l.field_of("ukmem_alloc_tag_counters.bytes"));
		site.objects += counters.get(i, l.field_of("ukmem_alloc_tag_counters.objects"));
	}
	site.bytes = not_negative(site.bytes);
	site.objects = not_negative(site.objects);
	return !site.file.empty();
}

} // namespace

std::vector<call_site> read_call_sites(reader &r)
{
	const layout &l = r.layout();
	process_memory &memory = r.memory();
	const address at = l.symbol("ukmem_alloc_tag_table");
	record all(l, "ukmem_alloc_tag_table");
	std::vector<call_site> sites;

	if (!at)
		return sites;
	memory.begin_look();
	expect(all.read(memory, at));
	if (all.get("version") != l.constant("UKMEM_ALLOC_TAGS_VERSION"))
		throw error(reason::unknown, "its tags of call sites are of another version");

	const uint64_t n = all.get("nr");

	expect(n <= most_tags && all.get("copies") <= most_copies);
	if (!n)
		return sites;

	std::vector<address> tags(n);
	uint64_t bytes = 0; /* of texts */
	call_site site;

	/* The first one is not used. */
	expect(memory.read(all.get("tags") + sizeof(address), tags.data(),
			   n * sizeof(address)));
	for (address tag : tags)
		if (tag && read_site(memory, l, all, tag, site)) {
			bytes += site.file.size() + site.function.size();
			room_for(bytes, 1);
			sites.push_back(site);
		}
	memory.check_alive();
	return sites;
}

} // namespace live
