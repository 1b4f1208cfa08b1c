/* SPDX-License-Identifier: MIT */
#include "live/searcher.h"

#include <algorithm>
#include <cstring>

namespace live
{

namespace
{

constexpr size_t most_at_once = 4 << 20; /* bytes of a read */
constexpr size_t most_pieces = 512;
constexpr size_t most_copied = 256 << 20; /* bytes of runs that stay here */
constexpr uint64_t word_size = sizeof(uint64_t);
constexpr uint64_t red_zone = 128; /* bytes that functions may use below the stack pointer */

} // namespace

void searcher::mark_number(uint64_t i, uint32_t r)
{
	if (!allowed->has(i) || seen.has(i))
		return;
	seen.add(i);
	if (!waits[r]) {
		waits[r] = true;
		waiting.push_back(r);
	}
}

void searcher::mark(uint64_t p)
{
	uint32_t r;

	if (!all.may_be_object(p))
		return;

	const uint64_t i = all.find(p, r);

	if (i != objects::none)
		mark_number(i, r);
}

void searcher::mark_words(const uint64_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		mark(words[i]);
}

/* Reads all parts and visits each; parts of which something is not mapped are left out, but for
 * those of their pages that are. */
void searcher::read_parts(std::vector<part> &parts, const visit &f)
{
	std::vector<piece> pieces;
	size_t at = 0;

	for (const part &p : parts)
		at += p.size / word_size;
	buffer.resize(std::max(buffer.size(), at));
	at = 0;
	for (part &p : parts) {
		p.data = &buffer[at];
		pieces.push_back({ p.from, &buffer[at], p.size });
		at += p.size / word_size;
	}

	const bool whole = h.memory.read(pieces);

	for (size_t i = 0; i < parts.size(); i++) {
		if (whole || h.memory.read({ pieces[i] })) {
			f(parts[i]);
			continue;
		}

		auto *to = static_cast<unsigned char *>(pieces[i].to);

		memset(to, 0, parts[i].size);
		for (uint64_t done = 0, n; done < parts[i].size; done += n) {
			n = std::min(h.page_size - (parts[i].from + done) % h.page_size,
				     parts[i].size - done);
			h.memory.read(parts[i].from + done, to + done, n);
		}
		f(parts[i]);
	}
	parts.clear();
}

void searcher::flush(std::vector<part> &parts, const visit &f)
{
	if (!parts.empty())
		read_parts(parts, f);
}

/* Adds [@from, @to), in pieces; reads when there are enough. */
void searcher::add_range(address from, address to, uint32_t r, std::vector<part> &parts,
			 const visit &f)
{
	uint64_t bytes = 0;

	for (const part &p : parts)
		bytes += p.size;
	for (uint64_t size; from < to; from += size) {
		size = std::min(to - from, largest_piece);
		if (parts.size() >= most_pieces || bytes + size > most_at_once) {
			flush(parts, f);
			bytes = 0;
		}
		parts.push_back({ from, size, r, nullptr });
		bytes += size;
	}
}

/* Visits what has memory behind it. Without @any: not pages that are as in their file. Most of
 * a range may never have been touched, for instance terabytes of AddressSanitizer's. So after a
 * chunk of entries without memory the function asks for the next page that has some. */
void searcher::read_range(address from, address to, bool any, const visit &f)
{
	constexpr uint64_t present = 1ull << 63, swapped = 1ull << 62, of_file = 1ull << 61;
	constexpr uint64_t guard_region = 1ull << 58; /* which counts as swapped */
	constexpr uint64_t entries_at_once = 1 << 14;
	std::vector<uint64_t> entries;
	std::vector<part> parts;

	for (address at = from; at < to;) {
		const uint64_t first = at / h.page_size;
		const uint64_t n =
			std::min((to - 1) / h.page_size - first + 1, entries_at_once);
		const address end = std::min(to, (first + n) * h.page_size);
		address run_start = at;
		bool empty = true;

		entries.assign(n, present);
		if (!h.memory.page_entries(first, entries.data(), n))
			entries.assign(n, present);
		for (uint64_t i = 0; i < n; i++) {
			const address page = (first + i) * h.page_size;
			const bool there = entries[i] & (present | swapped) &&
					   !(entries[i] & guard_region);

			empty = empty && !there;
			if (there && (any || !(entries[i] & of_file)))
				continue;
			if (run_start < page)
				add_range(run_start, page, 0, parts, f);
			run_start = page + h.page_size;
		}
		if (run_start < end)
			add_range(run_start, end, 0, parts, f);
		at = empty && end < to ? h.memory.next_in_memory(end, to) : end;
	}
	flush(parts, f);
}

/* Marks what the memory of a mapping from @from on leads to. */
void searcher::read_mapping(const mapping &m, address from)
{
	const visit f = [this](const part &p) { mark_words(p.data, p.size / word_size); };
	address at = from;

	for (const auto &[start, end] : all.excluded) {
		if (end <= at)
			continue;
		if (start >= m.end)
			break;
		if (start > at)
			read_range(at, start & ~(word_size - 1), m.writable, f);
		at = (end + word_size - 1) & ~(word_size - 1);
	}
	if (at < m.end)
		read_range(at, m.end, m.writable, f);
}

void searcher::reach_from_roots(const std::vector<thread> &threads)
{
	const std::vector<mapping> mappings = h.memory.mappings();
	address guard = 0; /* end of the last mapping, if it cannot be read */
	std::vector<part> parts;
	const visit f = [this](const part &p) { mark_words(p.data, p.size / word_size); };

	for (const thread &t : threads)
		mark_words(t.registers.data(), t.registers.size());
	for (const mapping &m : mappings) {
		address from = m.start;

		if (!m.readable) {
			guard = m.end;
			continue;
		}
		/* Functions that have returned left what lies below the stack pointer. */
		for (const thread &t : threads)
			if ((m.stack || (guard == m.start && m.file.empty())) &&
			    t.stack > m.start + red_zone && t.stack < m.end)
				from = std::max(from, (t.stack - red_zone) & ~(word_size - 1));
		read_mapping(m, from);
	}
	for (const run &r : all.runs)
		if (all.kinds[r.kind].use == use::pages)
			read_range(r.at, r.at + r.bytes, true, f);
	follow();
}

/* The first and last object of @r whose bit is set in @bits(word); false: there is none. */
template <typename F> bool extent(const run &r, uint64_t &first, uint64_t &last, F bits)
{
	first = objects::none;
	for (uint64_t w = r.first / 64; w < (r.first + r.objects + 63) / 64; w++) {
		const uint64_t b = bits(w);

		if (!b)
			continue;
		if (first == objects::none)
			first = w * 64 + static_cast<uint64_t>(__builtin_ctzll(b));
		last = w * 64 + 63 - static_cast<uint64_t>(__builtin_clzll(b));
	}
	return first != objects::none;
}

/* The first and last object of @r that was seen and not scanned. */
bool searcher::pending(const run &r, uint64_t &first, uint64_t &last) const
{
	return extent(r, first, last,
		      [this](uint64_t w) { return seen.words[w] & ~scanned.words[w]; });
}

/* The memory of objects @first to @last of a run. */
part searcher::part_of(uint32_t i, uint64_t first, uint64_t last) const
{
	const run &r = all.runs[i];
	const address from = all.address_of(r, first) & ~(word_size - 1);
	const address to = all.address_of(r, last) + all.size_of(r);

	return { from, (to - from + word_size - 1) & ~(word_size - 1), i, nullptr };
}

/* The part that follow() reads to scan objects @first to @last of a run: the memory of all
 * objects in use, as long as there is room for copies. */
part searcher::next_part(uint32_t i, uint64_t first, uint64_t last)
{
	uint64_t a, b;

	if (extent(all.runs[i], a, b, [this](uint64_t w) { return all.used.words[w]; })) {
		const part whole = part_of(i, a, b);

		if (copied + whole.size <= most_copied) {
			copied += whole.size;
			copies[i] = std::make_unique<copy>();
			return whole;
		}
	}
	return part_of(i, first, last);
}

/* Scans objects of @p that were seen, until there are no more in it. */
void searcher::scan(const part &p)
{
	const run &r = all.runs[p.run];
	const uint64_t size = all.size_of(r);
	uint64_t first, last;

	for (bool again = true; again;) {
		again = false;
		if (!pending(r, first, last))
			break;
		for (uint64_t i = first; i <= last; i++) {
			const address at = all.address_of(r, i);

			if (!seen.has(i) || scanned.has(i) || at < p.from ||
			    at + size > p.from + p.size)
				continue;
			scanned.add(i);
			again = true;
			/* Objects of odd sizes do not begin at words; pointers do. */
			for (address w = (at + word_size - 1) & ~(word_size - 1);
			     w + word_size <= at + size; w += word_size)
				mark(p.data[(w - p.from) / word_size]);
		}
	}
}

void searcher::follow_large(uint32_t i)
{
	const run &r = all.runs[i];

	scanned.add(r.first);
	read_range(r.at, r.at + r.bytes, true,
		   [this](const part &p) { mark_words(p.data, p.size / word_size); });
}

/* Scans what was just read, and keeps it if it is to stay. */
void searcher::scan_read(const part &p)
{
	if (copies[p.run]) {
		copies[p.run]->from = p.from;
		copies[p.run]->words.assign(p.data, p.data + p.size / word_size);
	}
	scan(p);
}

/* Scans what a run's copy has; false: there is none. */
bool searcher::scan_copy(uint32_t i)
{
	if (!copies[i] || copies[i]->words.empty())
		return false;

	const copy &c = *copies[i];

	scan({ c.from, c.words.size() * word_size, i, c.words.data() });
	return true;
}

/* Scans all that was seen, and all that is seen by that. */
void searcher::follow()
{
	const visit f = [this](const part &p) { scan_read(p); };
	std::vector<part> parts;
	std::vector<uint32_t> batch;

	while (!waiting.empty()) {
		uint64_t bytes = 0;

		batch.clear();
		while (!waiting.empty() && batch.size() < most_pieces && bytes < most_at_once) {
			const uint32_t i = waiting.back();
			const run &r = all.runs[i];
			uint64_t first, last;

			waiting.pop_back();
			if (!pending(r, first, last) || all.kinds[r.kind].use == use::queue) {
				waits[i] = false;
				continue;
			}
			if (may_be_sparse(r)) {
				waits[i] = false;
				follow_large(i);
				continue;
			}

			if (scan_copy(i)) {
				waits[i] = false;
				continue;
			}
			parts.push_back(next_part(i, first, last));
			batch.push_back(i);
			bytes += parts.back().size;
		}
		flush(parts, f);
		for (uint32_t i : batch) {
			uint64_t first, last;

			waits[i] = pending(all.runs[i], first, last);
			if (waits[i])
				waiting.push_back(i);
		}
	}
}

/* Visits the memory of all objects of @of: runs with some, or pieces of large ones. */
void searcher::each_part(const object_set &of, const visit &f)
{
	std::vector<part> parts;

	for (uint32_t i = 0; i < all.runs.size(); i++) {
		const run &r = all.runs[i];
		uint64_t first = objects::none, last = 0;

		for (uint64_t n = r.first; n < r.first + r.objects; n++)
			if (of.has(n)) {
				first = std::min(first, n);
				last = n;
			}
		if (first == objects::none)
			continue;
		if (may_be_sparse(r)) {
			flush(parts, f); /* in order */
			read_range(r.at, r.at + r.bytes, true, [&](const part &p) {
				f({ p.from, p.size, i, p.data });
			});
			continue;
		}

		const part p = part_of(i, first, last);

		add_range(p.from, p.from + p.size, i, parts, f);
	}
	flush(parts, f);
}

/* Calls @f for each word of each object of @of in @p. */
void searcher::each_word(const part &p, const object_set &of,
			 const std::function<void(uint64_t object, uint64_t word)> &f) const
{
	const run &r = all.runs[p.run];
	const uint64_t size = all.size_of(r);

	for (uint64_t i = r.first; i < r.first + r.objects; i++) {
		const address at = all.address_of(r, i);
		const address from = std::max(at, p.from);
		const address to = std::min(at + size, p.from + p.size);

		if (!of.has(i))
			continue;
		for (address w = (from + word_size - 1) & ~(word_size - 1); w + word_size <= to;
		     w += word_size)
			f(i, p.data[(w - p.from) / word_size]);
	}
}

/* The program's objects that nothing leads to. Counts all of its objects. */
object_set searcher::unseen_objects(leak_search &search) const
{
	object_set unseen(all.numbers);

	for (const run &r : all.runs) {
		if (!is_program(r))
			continue;
		for (uint64_t w = r.first / 64; w < (r.first + r.objects + 63) / 64; w++) {
			const uint64_t used = all.used.words[w];
			const auto n = static_cast<uint64_t>(__builtin_popcountll(used));

			unseen.words[w] = used & ~seen.words[w];
			search.objects += n;
			search.bytes += n * all.counted(r);
		}
	}
	return unseen;
}

/* Reads leaked objects. Adds those that another one leads to to @pointed_at. Result: a hash of
 * each one's contents, by number. */
std::vector<content_hash> searcher::read_leaked(const object_set &leaked,
						object_set &pointed_at)
{
	std::vector<content_hash> hashes;

	each_part(leaked, [&](const part &p) {
		each_word(p, leaked, [&](uint64_t i, uint64_t word) {
			uint32_t r;
			const uint64_t to =
				all.may_be_object(word) ? all.find(word, r) : objects::none;

			if (to != objects::none && to != i && leaked.has(to))
				pointed_at.add(to);
			if (hashes.empty() || hashes.back().object != i)
				hashes.push_back({ i, 0 });

			uint64_t &hash = hashes.back().hash;

			hash = (hash ^ word) * 0x9e3779b97f4a7c15;
			hash ^= hash >> 32;
		});
	});
	return hashes;
}

/* Of @leaked the objects that no other one leads to; then, of rings, the first. */
object_set searcher::first_leaked(const object_set &leaked, const object_set &pointed_at)
{
	object_set first(all.numbers);
	const auto each = [&](auto of) {
		for (uint32_t i = 0; i < all.runs.size(); i++) {
			const run &r = all.runs[i];

			for (uint64_t n = r.first; n < r.first + r.objects; n++)
				if (leaked.has(n) && !seen.has(n))
					of(n, i);
		}
	};
	const auto begin = [&](uint64_t n, uint32_t i) {
		first.add(n);
		mark_number(n, i);
	};

	seen = scanned = object_set(all.numbers);
	allowed = &leaked;
	each([&](uint64_t n, uint32_t i) {
		if (!pointed_at.has(n))
			begin(n, i);
	});
	follow();
	each([&](uint64_t n, uint32_t i) {
		begin(n, i);
		follow();
	});
	allowed = nullptr;
	return first;
}

void searcher::list_leaked(leak_search &search)
{
	const object_set leaked = unseen_objects(search);
	object_set pointed_at(all.numbers);
	const std::vector<content_hash> hashes = read_leaked(leaked, pointed_at);
	const object_set direct = first_leaked(leaked, pointed_at);
	auto hash = hashes.begin();

	for (const run &r : all.runs)
		for (uint64_t n = r.first; n < r.first + r.objects; n++) {
			if (!leaked.has(n))
				continue;
			while (hash != hashes.end() && hash->object < n)
				hash++;
			search.leaked.push_back(
				{ all.address_of(r, n), all.size_of(r), r.kind, !direct.has(n),
				  hash != hashes.end() && hash->object == n ? hash->hash : 0,
				  r.sampled, r.site, r.weight, all.counted(r), r.guarded != 0,
				  r.guarded ? all.pool.in_use[r.guarded - 1].stack
					    : std::vector<address>() });
		}
	std::sort(search.leaked.begin(), search.leaked.end(),
		  [](const leaked_object &a, const leaked_object &b) { return a.at < b.at; });
}

} // namespace live
