/* SPDX-License-Identifier: MIT */
#include "live/repeat.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

namespace live
{

using clock = std::chrono::steady_clock;

clock::time_point next_tick(clock::time_point last, clock::duration interval)
{
	const auto now = clock::now();

	return last + interval < now ? now + interval : last + interval;
}

namespace
{

/* Errors that only say that there are no more looks. */
const std::map<reason, ending> endings = {
	{ reason::gone, ending::gone },
	{ reason::replaced, ending::replaced },
	{ reason::stopped, ending::stopped },
};

class series
{
      public:
	series(const repetition &r, const std::function<bool()> &f) : how(r), look(f)
	{
	}

	ending run()
	{
		const auto interval =
			std::chrono::microseconds(std::llround(how.interval * 1e6));
		auto next = clock::now();

		for (unsigned int done = 1;; done++) {
			if (const std::optional<ending> over = one_look())
				return *over;
			if (how.interval <= 0 || done == how.count)
				return finished(ending::counted);
			next = next_tick(next, interval);
			if (!wait_until(next))
				return finished(ending::stopped);
		}
	}

      private:
	std::optional<ending> one_look()
	{
		try {
			const bool more = look();

			succeeded = true;
			left_out.reset();
			if (!more)
				return ending::counted;
		} catch (const error &e) {
			if (e.why == reason::changing && how.interval > 0) {
				left_out.emplace(e);
				if (how.skipped)
					how.skipped(e);
				return std::nullopt;
			}
			if (!succeeded || !endings.count(e.why))
				throw;
			return endings.at(e.why);
		}
		return std::nullopt;
	}

	ending finished(ending how_it_ended) const
	{
		if (!succeeded && left_out)
			throw error(*left_out);
		return how_it_ended;
	}

	/* False: it was stopped. A signal does not end a wait of the standard library, so this
	 * waits in steps. */
	bool wait_until(clock::time_point next) const
	{
		constexpr auto step = std::chrono::milliseconds(100);

		for (;;) {
			const auto now = clock::now();

			if (how.stop && *how.stop)
				return false;
			if (now >= next)
				return true;
			std::this_thread::sleep_until(how.stop ? std::min(next, now + step)
							       : next);
		}
	}

	const repetition &how;
	const std::function<bool()> &look;
	std::optional<error> left_out; /* why the last look was left out */
	bool succeeded = false;
};

} // namespace

ending repeat(const repetition &how, const std::function<bool()> &look)
{
	return series(how, look).run();
}

} // namespace live
