/* SPDX-License-Identifier: MIT */
/* Looks at a process again and again, and what ends that. */
#ifndef TOOLS_LIVE_REPEAT_H
#define TOOLS_LIVE_REPEAT_H

#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>

#include "live/memory.h"

namespace live
{

/** A second between two looks is usual, of several for which nothing else was said. */
constexpr double usual_interval(double interval, size_t count)
{
	return count > 1 && interval <= 0 ? 1 : interval;
}

/** When to look after the look of @last. Looks that were missed, as while this command was
 * stopped, are not made up for. */
std::chrono::steady_clock::time_point next_tick(std::chrono::steady_clock::time_point last,
						std::chrono::steady_clock::duration interval);

struct repetition {
	double interval = 0;	/**< seconds between two looks; 0: one look */
	unsigned int count = 0; /**< looks; 0: one without interval, else until the end */
	/** Is told of a look that was left out, since the process changed too fast. */
	std::function<void(const error &)> skipped = nullptr;
	/** Another value than 0 ends the looks, also during the wait for the next. */
	const volatile std::sig_atomic_t *stop = nullptr;
};

enum class ending {
	counted,  /**< all looks were made, or a look said that it was the last */
	stopped,  /**< by repetition::stop */
	gone,	  /**< the process has ended */
	replaced, /**< it runs another program now */
};

/**
 * @look looks at the process; false: that was the last look. A look at a process that changes
 * too fast is left out, unless it is the only one; the others go on.
 *
 * Throws what @look throws, unless another look has succeeded before and the error only says
 * that the process is no longer there, or that the look was stopped. If no look of all
 * succeeded, throws why the last one was left out.
 */
ending repeat(const repetition &how, const std::function<bool()> &look);

} // namespace live

#endif
