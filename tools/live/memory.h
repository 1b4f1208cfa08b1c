/* SPDX-License-Identifier: MIT */
/*
 * The memory of another process, as a reader sees it. The process goes on meanwhile, so what is
 * read may be anything: every other file here checks it.
 *
 *   snapshot.h   one moment of a process: caches, zones, counters, gauges
 *   layout.h     where its library keeps what, by the library's own description
 *   library.h    finds the library in a process
 *   process.h    a real process
 *   memory.h     the interface; tests have a fake
 */
#ifndef TOOLS_LIVE_MEMORY_H
#define TOOLS_LIVE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace live
{

/** An address in the other process. */
using address = uint64_t;

/** Why a process cannot be read. */
enum class reason {
	forbidden,  /**< by the system */
	gone,	    /**< there is no such process, or it has ended meanwhile */
	replaced,   /**< it runs another program now */
	no_library, /**< it does not run on ukmem */
	not_ready,  /**< its library is not initialised */
	unknown,    /**< its library's description lacks something */
	changing,   /**< it changed too fast: no two readings agreed */
	no_socket,  /**< it serves none, or none that can be reached */
	refused,    /**< it was asked by its socket, and did not do it */
	no_such,    /**< it has no cache or attribute of that name */
	too_long,   /**< the look took longer than a look may */
	stopped,    /**< the look, by a signal */
};

/** what() is a sentence for the user, without the PID. */
class error : public std::runtime_error
{
      public:
	error(live::reason r, const std::string &text) : std::runtime_error(text), why(r)
	{
	}

	const live::reason why;
};

/** @size bytes at @from, and where they are copied to. */
struct piece {
	address from;
	void *to;
	size_t size;
};

/** A line of /proc/PID/maps. */
struct mapping {
	address start, end;
	bool readable, writable, executable;
	uint64_t offset;
	std::string file;   /**< empty: anonymous */
	bool stack = false; /**< the first thread's */
};

/** Parses such a line. False: it is none. A file is what has a path, unlike "[heap]". */
bool parse_mapping(const std::string &line, mapping &m);

/** Bits of a page's state. */
enum page_in_memory : uint8_t {
	IN_MEMORY = 1,
	IN_HUGE_PAGE = 2,
	HUGE_UNKNOWN = 4, /**< the system does not tell of huge pages */
};

class process_memory
{
      public:
	virtual ~process_memory() = default;

	/** A look begins. The process may be made so that a look has no end: from now on it may
	 * take @times as long as a look usually may, then all calls here throw error: too_long.
	 */
	virtual void begin_look(unsigned int times = 1)
	{
		(void)times;
	}
	/**
	 * Copies all pieces, in their order. False: something of them is not mapped; then
	 * anything may have been copied. Throws error: forbidden, gone.
	 */
	virtual bool read(const std::vector<piece> &pieces) = 0;
	/** Its mappings, by address. Throws error: forbidden, gone. */
	virtual std::vector<mapping> mappings() = 0;
	/** Bytes of memory behind [@from, @from + @size). Where the system does not tell
	 * (before Linux 6.7), pages count that were only read, whose memory is the system's
	 * page of zeros. Throws error: forbidden, gone. */
	virtual uint64_t resident(address from, uint64_t size) = 0;
	/** The entries of @n pages from page number @first on, as in /proc/PID/pagemap. False:
	 * it cannot be known. Throws error: forbidden, gone. */
	virtual bool page_entries(uint64_t first, uint64_t *entries, size_t n)
	{
		(void)first, (void)entries, (void)n;
		return false;
	}
	/** The first address from @from on whose page may be in memory or swapped out; @to:
	 * there is none below it. @from where the system does not tell (before Linux 6.7).
	 * Throws error: forbidden, gone. */
	virtual address next_in_memory(address from, address to)
	{
		(void)to;
		return from;
	}
	/**
	 * What is in memory of the pages of [@from, @from + @npages pages): enum page_in_memory
	 * for each. False: the system does not tell. Throws error: forbidden, gone.
	 */
	virtual bool pages_in_memory(address from, uint64_t npages, std::vector<uint8_t> &pages)
	{
		(void)from;
		pages.assign(npages, 0);
		return false;
	}
	/** Throws error: gone, if the process is not the one of the first call. */
	virtual void check_alive() = 0;

	bool read(address from, void *to, size_t size)
	{
		return read({ { from, to, size } });
	}

	/** False: it is not mapped. */
	template <typename T> bool get(address from, T &value)
	{
		static_assert(std::is_trivially_copyable_v<T>);
		return read(from, &value, sizeof(value));
	}

	/** A string of at most @max bytes; empty if it is not mapped, or has no end. */
	std::string text(address from, size_t max = 256);
};

} // namespace live

#endif
