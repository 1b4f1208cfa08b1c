/* SPDX-License-Identifier: MIT */
/* Packets: a generator that sends as fast as it can, and a check of what arrives. */
#include "forward.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

enum {
	ETHERTYPE = 0x88b5, /* for local experiments (IEEE 802) */
	WINDOW = 512,	    /* packets on their way at once: fewer than a CPU's backlog takes */
	PACKETS = 10000,
	PATIENCE_S = 10 /* what has not arrived after that is lost */
};

struct packet {
	struct ethhdr eth;
	uint32_t number;
	unsigned char content[];
} __attribute__((packed));

static void packet_fill(struct packet *p, uint32_t number, size_t len)
{
	static const unsigned char from[] = { 2, 0, 0, 0, 0, 1 }, to[] = { 2, 0, 0, 0, 0, 2 };

	memcpy(p->eth.h_source, from, sizeof(from));
	memcpy(p->eth.h_dest, to, sizeof(to));
	p->eth.h_proto = htons(ETHERTYPE);
	p->number = htonl(number);
	for (size_t i = 0; i < len - sizeof(*p); i++)
		p->content[i] = (unsigned char)(number * 31 + (number >> 8) + i * 7);
}

/* All lengths, the shortest and the longest among them. */
static size_t packet_len(uint32_t number)
{
	return FRAME_MIN + number * 7 % (FRAME_MAX - FRAME_MIN + 1);
}

int cmd_send(const struct options *o)
{
	static _Alignas(16) unsigned char frames[TX_BATCH_MAX][FRAME_MIN];
	struct iovec batch[TX_BATCH_MAX];
	int tx = tx_open(o->places[0]);
	uint64_t end = UINT64_MAX, sent = 0;

	if (tx < 0)
		return 1;
	if (o->seconds > 0)
		end = now_ns() + (uint64_t)(o->seconds * 1e9);
	for (uint32_t i = 0; i < TX_BATCH_MAX; i++) {
		packet_fill((struct packet *)frames[i], i, FRAME_MIN);
		batch[i].iov_base = frames[i];
		batch[i].iov_len = FRAME_MIN;
	}
	while (!stopped && now_ns() < end) {
		int n = tx_send(tx, batch, TX_BATCH_MAX);

		if (n < 0)
			return 1;
		sent += (unsigned int)n;
	}
	printf("sent=%" PRIu64 "\n", sent);
	return 0;
}

struct check {
	struct ring rx;
	int tx;
	unsigned int packets, spoiled_one;
	int patience_ms;
	unsigned int sent, arrived, changed, repeated;
	unsigned char *seen;
};

static void check_frame(struct check *c, const void *frame, uint32_t len)
{
	static _Alignas(16) unsigned char expected[FRAME_MAX];
	const struct packet *p = frame;
	uint32_t number;

	if (len < FRAME_MIN || p->eth.h_proto != htons(ETHERTYPE))
		return; /* none of ours */
	c->arrived++;
	number = ntohl(p->number);
	packet_fill((struct packet *)expected, number, packet_len(number));
	if (number >= c->packets || len != packet_len(number) ||
	    memcmp(p, expected, len) != 0) {
		c->changed++;
		return;
	}
	c->repeated += c->seen[number];
	c->seen[number] = 1;
}

/* Takes what has arrived, and waits until no more than @in_flight are on their way. */
static bool check_arrivals(struct check *c, unsigned int in_flight)
{
	const void *frame;
	uint32_t len;

	for (;;) {
		while ((frame = ring_next(&c->rx, &len)))
			check_frame(c, frame, len);
		if (c->sent <= c->arrived + in_flight)
			return true;
		if (stopped || !ring_wait(&c->rx, c->patience_ms))
			return false;
	}
}

static int check_send(struct check *c)
{
	static _Alignas(16) unsigned char frame[FRAME_MAX];
	struct iovec one = { .iov_base = frame, .iov_len = packet_len(c->sent) };
	int n;

	packet_fill((struct packet *)frame, c->sent, one.iov_len);
	if (c->sent == c->spoiled_one)
		frame[one.iov_len - 1] ^= 1;
	n = tx_send(c->tx, &one, 1);
	if (n == 1)
		c->sent++;
	return n == 1 ? 0 : -1;
}

static int check(struct check *c)
{
	unsigned int lost;

	while (c->sent < c->packets)
		if (!check_arrivals(c, WINDOW - 1) || check_send(c))
			break;
	if (c->sent == c->packets)
		check_arrivals(c, 0);
	lost = c->sent > c->arrived ? c->sent - c->arrived : 0;
	printf("sent=%u of=%u arrived=%u lost=%u changed=%u repeated=%u\n", c->sent, c->packets,
	       c->arrived, lost, c->changed, c->repeated);
	return c->sent != c->packets || c->arrived != c->packets || c->changed || c->repeated;
}

int cmd_check(const struct options *o)
{
	struct check c = { .packets = o->packets ? o->packets : PACKETS,
			   .spoiled_one = UINT32_MAX };
	int status;

	c.patience_ms = (int)((o->seconds > 0 ? o->seconds : PATIENCE_S) * 1000);
	if (o->spoil)
		c.spoiled_one = c.packets / 2;
	c.tx = tx_open(o->places[0]);
	if (c.tx < 0 || ring_open(&c.rx, o->places[1]))
		return 1;
	c.seen = calloc(c.packets, 1);
	if (!c.seen)
		return 1;
	status = check(&c);
	ring_close(&c.rx);
	free(c.seen);
	return status;
}
