/* SPDX-License-Identifier: MIT */
/** How many objects were popped off an array (src/percpu/array_wind.c). */
#ifndef TOOLS_LIVE_POPS_H
#define TOOLS_LIVE_POPS_H

#include "live/layout.h"

namespace live
{

class pops_reader
{
      public:
	explicit pops_reader(const layout &l)
	    : ticks_shift(l.shift("PCPU_ARRAY_TICKS_SHIFT")),
	      ticks(l.constant("PCPU_ARRAY_TICKS")),
	      base_shift(l.shift("PCPU_ARRAY_BASE_SHIFT")),
	      mask(l.constant("PCPU_ARRAY_POPS_MASK")), laps_shift(l.shift("PCPU_LAPS_SHIFT")),
	      lap_shift(l.shift("PCPU_LAP_SHIFT"))
	{
	}

	/** The header and the laps are of about the same moment: a copy takes less than a lap.
	 */
	uint64_t pops(uint64_t header, uint64_t laps) const
	{
		const uint64_t slack = (uint64_t{ 1 } << lap_shift) / 4;
		const uint64_t base = laps >> laps_shift << lap_shift;
		const uint64_t low = (header >> base_shift) +
				     (header >> ticks_shift & ticks); /* modulo mask + 1 */

		return base + ((low - base + slack) & mask) - slack;
	}

      private:
	unsigned int ticks_shift;
	uint64_t ticks;
	unsigned int base_shift;
	uint64_t mask;
	unsigned int laps_shift, lap_shift;
};

} // namespace live

#endif
