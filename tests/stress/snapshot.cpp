/* SPDX-License-Identifier: MIT */
/* Statistics read as a program outside would: the JSON text, parsed. */
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "stress/harness.h"

namespace stress
{

namespace
{

std::string json()
{
	int fd = memfd_create("stats", MFD_CLOEXEC);
	std::string text;

	if (fd < 0 || ukmem_stats_print(fd, UKMEM_STATS_JSON))
		abort();
	text.resize((size_t)lseek(fd, 0, SEEK_END));
	if (pread(fd, &text[0], text.size(), 0) != (ssize_t)text.size())
		abort();
	close(fd);
	return text;
}

/* The number called @name in @object; the text is the library's own, so it is there. */
uint64_t number(const std::string &object, const char *name)
{
	std::string key = std::string("\"") + name + "\": ";
	size_t at = object.find(key);

	if (at == std::string::npos)
		abort();
	return strtoull(object.c_str() + at + key.size(), nullptr, 10);
}

std::string object_at(const std::string &text, size_t at)
{
	return text.substr(at, text.find('}', at) - at);
}

/* The rows of the table called @name; other tables have rows of caches too. */
std::string table(const std::string &text, const char *name)
{
	size_t at = text.find(std::string("\"") + name + "\": [");

	if (at == std::string::npos)
		abort();
	return text.substr(at, text.find(']', at) - at);
}

} // namespace

void Snapshot::take()
{
	static const std::string row = "{\"cache\": \"";
	std::string text = json();
	size_t at = text.find("\"large\": {");

	caches.clear();
	duplicates = 0;
	large_allocs = large_frees = large_bytes = 0;
	if (at != std::string::npos) {
		std::string large = object_at(text, at);

		large_allocs = number(large, "allocs");
		large_frees = number(large, "frees");
		large_bytes = number(large, "bytes");
	}
	text = table(text, "caches");
	for (at = text.find(row); at != std::string::npos; at = text.find(row, at + 1)) {
		std::string object = object_at(text, at);
		std::string name =
			object.substr(row.size(), object.find('"', row.size()) - row.size());
		CacheCounts c = { number(object, "inuse"), number(object, "cached"),
				  number(object, "slabs"), number(object, "allocs"),
				  number(object, "frees") };

		duplicates += caches.count(name) != 0;
		caches[name] = c;
	}
	ukmem_gauges_read(&gauges);
}

} // namespace stress
