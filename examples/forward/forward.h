/* SPDX-License-Identifier: MIT */
#ifndef FORWARD_H
#define FORWARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"

enum {
	RX_BATCH = 64,	     /* frames taken from the receive ring at once */
	TX_COMPLETION = 256, /* buffers that have been sent are freed so many at once */
	FRAME_MIN = 60,
	FRAME_MAX = 1514
};

struct options {
	bool drop;	       /* free each packet as soon as it was received */
	bool spoil;	       /* change a byte of one packet on its way out */
	double seconds;	       /* 0: the command's own; the same for packets */
	unsigned int packets;  /* to be forwarded, or to be checked */
	const char *places[3]; /* arguments without a name */
	unsigned int nr_places;
};

/* Set by SIGINT and SIGTERM. */
extern volatile sig_atomic_t stopped;

uint64_t now_ns(void);

/* Times of equal pieces of work, of which the median is asked for: what another program that
 * got the CPU meanwhile took then does not count.
 */
struct samples {
	unsigned int n;
	float ns[1 << 16]; /* what comes later is left out */
};

void samples_add(struct samples *s, double ns);
double samples_median(struct samples *s);

/* The commands. They return the program's exit status. */
int cmd_run(const struct options *o);
int cmd_buffers(const struct options *o);
int cmd_send(const struct options *o);
int cmd_check(const struct options *o);

#endif
