/* SPDX-License-Identifier: MIT */
/* Requests, each held against what it may answer, and the memory that came of them. */
#ifndef SWEEP_BLOCKS_H
#define SWEEP_BLOCKS_H

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sweep
{

/* The first thing that is wrong ends the process: this text, and the exit status below. */
enum { EXIT_WRONG = 3 };
[[noreturn]] void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Where wrong() writes to; what the library logs is read from file descriptor @log. */
void report_to(char *text, size_t size, int log);
/* Where the log ends now, and whether @text has been logged since. */
off_t log_end();
bool log_says(off_t since, const std::string &text);

/* May requests come back with nothing? */
enum class Nothing {
	NEVER,
	AFTER_FAILURE, /* if a call of the system failed, ever */
	WITH_FAILURE   /* if one failed during this very request */
};

void requests_may_fail(Nothing nothing);

/* One request: whether it may come away with nothing, and what it does to errno. */
class Request
{
      public:
	explicit Request(const char *what);
	/* @error: what errno says if nothing came of it; 0: it is as it was. Result: @ok. */
	bool done(bool ok, int error = 0) const;

      private:
	const char *what_;
	unsigned failures_;
};

/* What gives no answer: frees, emptying. */
template <typename Function> void quietly(const char *what, Function function)
{
	Request request(what);

	function();
	request.done(true);
}

/* A constructor's trace in the first bytes of an object. */
enum { CONSTRUCTED_BYTES = 8 };
void construct(void *object);

/* Memory in the program's hands. */
struct Block {
	const char *what;
	unsigned char *p;
	size_t size, skip; /* of which the first bytes are a constructor's */
	unsigned char seed;
	std::function<void(void *)> give;
};

/* They are looked at when they are given back, in the end all. */
class Blocks
{
      public:
	~Blocks()
	{
		free_some(1);
	}
	/* @take: a pointer or NULL, with errno as it was. Result: whether there is a block. */
	bool add(const char *what, size_t size, const std::function<void *()> &take,
		 const std::function<void(void *)> &give, bool zeroed = false, size_t skip = 0);
	void check_all() const;
	/* Of so many one. */
	void free_some(unsigned of);
	/* The last block, of kmalloc; where there is no room for it, it is as it was. */
	void resize_last(size_t size);
	void forget_last();

      private:
	std::vector<Block> blocks_;
	unsigned number_ = 0;
};

} // namespace sweep

#endif
