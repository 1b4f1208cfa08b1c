/* SPDX-License-Identifier: MIT */
/*
 * Network interfaces, seen as what a data plane has: a ring of received frames (AF_PACKET,
 * TPACKET_V3) and a socket frames are sent to (sendmmsg, past the queueing discipline).
 *
 * An interface is named "INTERFACE", or "NETNS:INTERFACE" as `ip netns` names namespaces.
 * Functions that return int return a negative errno on failure and have said why on stderr.
 */
#ifndef FORWARD_PORT_H
#define FORWARD_PORT_H

#include <stdint.h>
#include <sys/socket.h>

#define TX_BATCH_MAX 64u

struct tpacket3_hdr;

struct ring {
	int fd;
	unsigned char *blocks;
	unsigned int block; /* the one to be read, or being read */
	unsigned int left;  /* frames of it still to be read */
	struct tpacket3_hdr *next;
};

int ring_open(struct ring *ring, const char *where);
void ring_close(struct ring *ring);

/* The next received frame and its length, or NULL. Valid until the next call. */
const void *ring_next(struct ring *ring, uint32_t *len);

/* Waits for frames. 1: there are some, or a signal came; 0: none in so many milliseconds. */
int ring_wait(struct ring *ring, int timeout_ms);

/* Frames the ring had no room for since the last call. */
unsigned int ring_drops(struct ring *ring);

/* A socket for frames to be sent, or a negative errno. */
int tx_open(const char *where);

/* Sends up to TX_BATCH_MAX frames. Result: how many were sent, the interface dropped the
 * others; or a negative errno.
 */
int tx_send(int fd, struct iovec *frames, unsigned int n);

#endif
