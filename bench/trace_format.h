/* SPDX-License-Identifier: MIT */
/*
 * The format of the traces that bench/trace records and replays.
 *
 * A trace is TRACE_MAGIC, then events, each a head byte and numbers. A number has seven bits
 * to a byte, the lowest first, and the high bit in each byte but the last. Allocations are
 * numbered in the order of the trace, from 0 on; an object is named by its distance from the
 * newest one, which is small for objects of short lives.
 *
 *   TRACE_THREAD   number                   the events that follow are of this thread
 *   TRACE_MALLOC   size                     numbered
 *   TRACE_CALLOC   size of all elements     numbered
 *   TRACE_ALIGNED  size, log2 of alignment  numbered
 *   TRACE_REALLOC  size, distance           numbered; the old object is freed
 *   TRACE_FREE     distance
 *   TRACE_LOST     nothing                  the end, and the program went on: what it asked for
 * since is not there; TRACE_PADDING bytes of it, as no other event has
 *
 * The head has the event in its low three bits, and the first number in the five bits above
 * if it is less than TRACE_SHORT; otherwise these are TRACE_SHORT, and the number follows.
 *
 * The trace of a program that was killed may be cut within an event; at least TRACE_PADDING
 * zeros follow then.
 */
#ifndef UKMEM_BENCH_TRACE_FORMAT_H
#define UKMEM_BENCH_TRACE_FORMAT_H

#define TRACE_MAGIC "ukmtrc01"

enum trace_event {
	TRACE_THREAD,
	TRACE_MALLOC,
	TRACE_CALLOC,
	TRACE_ALIGNED,
	TRACE_REALLOC,
	TRACE_FREE,
	TRACE_LOST,
};

enum { TRACE_MAGIC_BYTES = 8, TRACE_EVENT_BITS = 3, TRACE_SHORT = 31, TRACE_PADDING = 8 };

#endif
