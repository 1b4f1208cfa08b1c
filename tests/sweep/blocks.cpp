/* SPDX-License-Identifier: MIT */
#include "blocks.h"

#include <errno.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "faults.h"
#include "ukmem/ukmem.h"

namespace sweep
{

namespace
{

enum { UNTOUCHED_ERRNO = EXDEV }; /* which nothing here means */

const char constructed[CONSTRUCTED_BYTES] = { 'c', 'o', 'n', 's', 't', 'r', 'u', 'c' };

char *wrong_text;
size_t wrong_size;
int log_fd;
Nothing nothing_allowed;

/* All bytes of small blocks, some of each page, of large ones not of each: time goes there. */
template <typename Function> void each_place(const Block &b, Function function)
{
	size_t step = b.size <= 512 ? 1 : b.size <= 65536 ? 509 : 30011;

	for (size_t i = b.skip; i < b.size; i += step)
		function(i, static_cast<unsigned char>(b.seed ^ i));
	if (b.size > b.skip)
		function(b.size - 1, static_cast<unsigned char>(b.seed ^ (b.size - 1)));
}

void fill(const Block &b)
{
	each_place(b, [&b](size_t i, unsigned char v) { b.p[i] = v; });
}

void check(const Block &b)
{
	each_place(b, [&b](size_t i, unsigned char v) {
		if (b.p[i] != v)
			wrong("%s: byte %zu of %zu has changed", b.what, i, b.size);
	});
}

void check_zeros(const Block &b)
{
	for (size_t i = 0; i < b.size; i += b.size <= 65536 ? 1 : 1021)
		if (b.p[i])
			wrong("%s: byte %zu of %zu is not zero", b.what, i, b.size);
}

} // namespace

void wrong(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!*wrong_text)
		vsnprintf(wrong_text, wrong_size, fmt, args);
	va_end(args);
	_exit(EXIT_WRONG);
}

void report_to(char *text, size_t size, int log)
{
	wrong_text = text;
	wrong_size = size;
	log_fd = log;
}

off_t log_end()
{
	return lseek(log_fd, 0, SEEK_END);
}

bool log_says(off_t since, const std::string &text)
{
	std::string said(static_cast<size_t>(log_end() - since), '\0');

	return pread(log_fd, said.data(), said.size(), since) ==
		       static_cast<ssize_t>(said.size()) &&
	       said.find(text) != std::string::npos;
}

void requests_may_fail(Nothing nothing)
{
	nothing_allowed = nothing;
}

Request::Request(const char *what) : what_(what), failures_(failures())
{
	errno = UNTOUCHED_ERRNO;
}

bool Request::done(bool ok, int error) const
{
	int is = errno, expected = ok || !error ? UNTOUCHED_ERRNO : error;

	if (!ok && nothing_allowed == Nothing::NEVER)
		wrong("%s: refused although the system agrees", what_);
	if (!ok && !failures())
		wrong("%s: refused although no call failed", what_);
	if (!ok && nothing_allowed == Nothing::WITH_FAILURE && failures() == failures_)
		wrong("%s: refused although no call failed this time", what_);
	if (is != expected)
		wrong("%s: errno is %d, not %d", what_, is, expected);
	return ok;
}

void construct(void *object)
{
	memcpy(object, constructed, sizeof(constructed));
}

bool Blocks::add(const char *what, size_t size, const std::function<void *()> &take,
		 const std::function<void(void *)> &give, bool zeroed, size_t skip)
{
	Request request(what);
	void *p = take();
	auto seed = static_cast<unsigned char>(++number_ * 37);

	if (!request.done(p))
		return false;
	Block b = { what, static_cast<unsigned char *>(p), size, skip, seed, give };
	if (zeroed)
		check_zeros(b);
	if (skip && memcmp(b.p, constructed, skip))
		wrong("%s: not constructed", what);
	fill(b);
	blocks_.push_back(b);
	return true;
}

void Blocks::check_all() const
{
	for (auto &b : blocks_)
		check(b);
}

void Blocks::free_some(unsigned of)
{
	std::vector<Block> rest;

	for (size_t i = 0; i < blocks_.size(); i++) {
		Block &b = blocks_[i];

		if (i % of) {
			rest.push_back(b);
			continue;
		}
		check(b);
		quietly(b.what, [&b] { b.give(b.p); });
	}
	blocks_ = rest;
}

void Blocks::resize_last(size_t size)
{
	Request request("krealloc");
	Block &b = blocks_.back();
	void *p = krealloc(b.p, size, GFP_KERNEL);

	if (request.done(p)) {
		b.p = static_cast<unsigned char *>(p);
		each_place(b, [&](size_t i, unsigned char v) {
			if (i < size && b.p[i] != v)
				wrong("krealloc: byte %zu was not kept", i);
		});
		b.size = size;
		fill(b);
	}
	check(b);
}

void Blocks::forget_last()
{
	blocks_.pop_back();
}

} // namespace sweep
