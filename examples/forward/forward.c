/* SPDX-License-Identifier: MIT */
/*
 * The forwarder. Each frame of the receive ring is copied into a buffer of its own, as by a
 * data plane that keeps packets, and its place in the ring is free again. Buffers that were
 * sent are kept until there are TX_COMPLETION of them, as by a driver that learns of its
 * transmissions late, and freed together.
 *
 * What is measured is the time in which there were packets to work on, per packet.
 */
#include "forward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

enum {
	IDLE_MS = 10,
	EXIT_SKIP = 77 /* no CPU can be owned here */
};

struct forwarder {
	const struct buffers *buffers;
	struct ring rx;
	int tx;
	bool drop;

	struct iovec held[TX_COMPLETION + RX_BATCH]; /* received, or sent and not yet freed */
	unsigned int nr_held;

	uint64_t received, sent;
	uint64_t lost; /* longer than a buffer, without a buffer, or dropped by TO */
	uint64_t ring_drops;
	uint64_t bytes;

	uint64_t busy_ns; /* spent on the last busy_packets */
	unsigned int busy_packets;
	struct samples samples; /* busy time per packet, for each TX_COMPLETION of them */
};

/* A buffer with the frame in it, or NULL. */
static void *packet_take(struct forwarder *f, const void *frame, uint32_t len)
{
	void *buffer = len <= BUFFER_SIZE ? f->buffers->alloc() : NULL;

	if (buffer)
		memcpy(buffer, frame, len);
	else
		f->lost++;
	return buffer;
}

static void packet_receive(struct forwarder *f, const void *frame, uint32_t len)
{
	void *packet = packet_take(f, frame, len);

	if (!packet)
		return;
	f->bytes += len;
	if (f->drop) {
		f->buffers->free(packet);
		return;
	}
	f->held[f->nr_held].iov_base = packet;
	f->held[f->nr_held].iov_len = len;
	f->nr_held++;
}

static void complete(struct forwarder *f)
{
	for (unsigned int i = 0; i < f->nr_held; i++)
		f->buffers->free(f->held[i].iov_base);
	f->nr_held = 0;
}

/* Receives up to RX_BATCH packets, sends them. Result: how many, or a negative errno. */
static int forward_batch(struct forwarder *f)
{
	unsigned int first = f->nr_held, n = 0, queued;
	const void *frame;
	uint32_t len;
	int sent;

	while (n < RX_BATCH && (frame = ring_next(&f->rx, &len))) {
		packet_receive(f, frame, len);
		n++;
	}
	f->received += n;
	queued = f->nr_held - first;
	if (!queued)
		return (int)n;
	sent = tx_send(f->tx, &f->held[first], queued);
	if (sent < 0)
		return sent;
	f->sent += (unsigned int)sent;
	f->lost += queued - (unsigned int)sent;
	if (f->nr_held >= TX_COMPLETION)
		complete(f);
	return (int)n;
}

static void account(struct forwarder *f, unsigned int packets, uint64_t ns)
{
	f->busy_packets += packets;
	f->busy_ns += ns;
	if (f->busy_packets < TX_COMPLETION)
		return;
	samples_add(&f->samples, (double)f->busy_ns / f->busy_packets);
	f->busy_packets = 0;
	f->busy_ns = 0;
}

/* Forwards until @end, @packets or a signal. Result: 0 or a negative errno. */
static int forward(struct forwarder *f, uint64_t end, uint64_t packets)
{
	uint64_t before = now_ns(), after;

	while (!stopped && before < end && f->received < packets) {
		int n = forward_batch(f);

		if (n < 0)
			return n;
		after = now_ns();
		if (n > 0)
			account(f, (unsigned int)n, after - before);
		else if (!ring_wait(&f->rx, IDLE_MS))
			complete(f);
		before = n > 0 ? after : now_ns();
	}
	return 0;
}

static int open_ports(struct forwarder *f, const char *from, const char *to)
{
	f->tx = f->drop ? -1 : tx_open(to);
	if (!f->drop && f->tx < 0)
		return f->tx;
	return ring_open(&f->rx, from);
}

static void report(struct forwarder *f, double seconds)
{
	printf("buffers=%s mode=%s received=%" PRIu64 " sent=%" PRIu64 " lost=%" PRIu64
	       " ring_drops=%" PRIu64 " bytes=%" PRIu64 " pps=%.0f ns=%.1f\n",
	       f->buffers->name, f->drop ? "drop" : "forward", f->received, f->sent, f->lost,
	       f->ring_drops, f->bytes, (double)f->received / seconds,
	       samples_median(&f->samples));
}

/* The line "ready" says that from here on no packet is missed. */
static int run(struct forwarder *f, const struct options *o)
{
	uint64_t start = now_ns(), end = UINT64_MAX;
	int err;

	puts("ready");
	fflush(stdout);
	if (o->seconds > 0)
		end = start + (uint64_t)(o->seconds * 1e9);
	err = forward(f, end, o->packets ? o->packets : UINT64_MAX);
	complete(f);
	f->ring_drops = ring_drops(&f->rx);
	if (!err)
		report(f, (double)(now_ns() - start) / 1e9);
	ring_close(&f->rx);
	return err;
}

/* Result: the exit status, 0 if all is well. */
static int open_buffers(const char *name, const struct buffers **buffers)
{
	const struct buffers *b = buffers_find(name);
	int err;

	if (!b) {
		fprintf(stderr, "forward: no buffers are called %s\n", name);
		return 2;
	}
	err = b->open();
	if (err) {
		fprintf(stderr, "forward: no buffers from %s: %s\n", name, strerror(-err));
		return err == -EOPNOTSUPP ? EXIT_SKIP : 1;
	}
	*buffers = b;
	return 0;
}

int cmd_run(const struct options *o)
{
	static struct forwarder f;
	int status = open_buffers(o->places[0], &f.buffers);

	if (status)
		return status;
	f.drop = o->drop;
	if (open_ports(&f, o->places[1], o->places[2]))
		return 1;
	status = run(&f, o) ? 1 : 0;
	f.buffers->close();
	return status;
}

/* The same pattern without packets: bursts of RX_BATCH, and TX_COMPLETION freed at once. */
static void work(const struct buffers *b, bool drop, void **held)
{
	for (unsigned int i = 0; i < TX_COMPLETION; i++) {
		held[i] = b->alloc();
		if (!held[i])
			abort();
		*(unsigned int *)held[i] = i;
		if (drop)
			b->free(held[i]);
	}
	for (unsigned int i = 0; i < TX_COMPLETION && !drop; i++)
		b->free(held[i]);
}

/* A sample is of 16 times TX_COMPLETION: reading the clock then costs nothing to speak of. */
static void measure(const struct buffers *b, bool drop, struct samples *samples, uint64_t ns)
{
	static void *held[TX_COMPLETION];
	uint64_t before = now_ns(), after, end = before + ns;
	const unsigned int repeat = 16;

	while (before < end && !stopped) {
		for (unsigned int i = 0; i < repeat; i++)
			work(b, drop, held);
		after = now_ns();
		samples_add(samples, (double)(after - before) / (repeat * TX_COMPLETION));
		before = after;
	}
}

int cmd_buffers(const struct options *o)
{
	static struct samples samples[2]; /* forward, drop */
	const double seconds = o->seconds > 0 ? o->seconds : 1;
	const struct buffers *b;
	const int turns = 8;
	int status = open_buffers(o->places[0], &b);

	if (status)
		return status;
	for (int turn = 0; turn < turns; turn++)
		measure(b, turn % 2, &samples[turn % 2], (uint64_t)(seconds * 1e9 / turns));
	b->close();
	printf("buffers=%s drop=%.2f forward=%.2f\n", b->name, samples_median(&samples[1]),
	       samples_median(&samples[0]));
	return 0;
}
