/* SPDX-License-Identifier: MIT */
/* Threads that are kept on CPUs. */
#ifndef BENCH_STAY_ON_CPU_H
#define BENCH_STAY_ON_CPU_H

#include <sched.h>

/* Keeps the calling thread on the @nth CPU the process may use, counted in a circle. */
inline void stay_on_cpu(unsigned int nth)
{
	static const cpu_set_t allowed = [] {
		cpu_set_t all;

		sched_getaffinity(0, sizeof(all), &all);
		return all;
	}();
	cpu_set_t chosen;

	nth %= static_cast<unsigned int>(CPU_COUNT(&allowed));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && nth-- == 0) {
			CPU_ZERO(&chosen);
			CPU_SET(cpu, &chosen);
			sched_setaffinity(0, sizeof(chosen), &chosen);
			return;
		}
	}
}

#endif
