/* SPDX-License-Identifier: MIT */
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	BLOCK_SIZE = 64 << 10,
	NR_BLOCKS = 128,
	FRAME_SIZE = 2048,   /* TPACKET_V3 packs frames; this only has to divide a block */
	BLOCK_TIMEOUT_MS = 1 /* a block that is not full is handed over after that long */
};

static int failed(const char *what, const char *where)
{
	int err = errno;

	fprintf(stderr, "forward: %s: %s: %s\n", where, what, strerror(err));
	return err ? -err : -EIO;
}

static int open_netns(const char *name, size_t len)
{
	char path[128];

	snprintf(path, sizeof(path), "/run/netns/%.*s", (int)len, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A packet socket and the index of the interface, both of the namespace this thread is in. */
static int socket_here(const char *interface, struct sockaddr_ll *address)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	address->sll_family = AF_PACKET;
	address->sll_ifindex = (int)if_nametoindex(interface);
	if (address->sll_ifindex)
		return fd;
	close(fd);
	errno = ENODEV;
	return -1;
}

/* Goes into the namespace for as long as opening a socket takes: a socket stays in its own. */
static int socket_there(const char *where, struct sockaddr_ll *address)
{
	const char *colon = strchr(where, ':');
	int home, there, err, fd = -1;

	if (!colon)
		return socket_here(where, address);
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	there = open_netns(where, (size_t)(colon - where));
	if (home >= 0 && there >= 0 && !setns(there, CLONE_NEWNET)) {
		fd = socket_here(colon + 1, address);
		err = errno;
		if (setns(home, CLONE_NEWNET)) {
			perror("forward: back to the own namespace");
			_exit(1);
		}
		errno = err;
	}
	err = errno;
	if (home >= 0)
		close(home);
	if (there >= 0)
		close(there);
	errno = err;
	return fd;
}

static int ring_setup(struct ring *ring)
{
	const struct tpacket_req3 req = {
		.tp_block_size = BLOCK_SIZE,
		.tp_block_nr = NR_BLOCKS,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = NR_BLOCKS * (BLOCK_SIZE / FRAME_SIZE),
		.tp_retire_blk_tov = BLOCK_TIMEOUT_MS,
	};
	const int version = TPACKET_V3, yes = 1;
	void *blocks;

	if (setsockopt(ring->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(ring->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes)) ||
	    setsockopt(ring->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		return -1;
	blocks = mmap(NULL, (size_t)BLOCK_SIZE * NR_BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED,
		      ring->fd, 0);
	if (blocks == MAP_FAILED)
		return -1;
	ring->blocks = blocks;
	return 0;
}

int ring_open(struct ring *ring, const char *where)
{
	struct sockaddr_ll address = { .sll_protocol = htons(ETH_P_ALL) };
	int err;

	memset(ring, 0, sizeof(*ring));
	ring->fd = socket_there(where, &address);
	if (ring->fd < 0)
		return failed("no packet socket", where);
	/* Frames arrive from bind on, when the ring is there. */
	if (!ring_setup(ring) &&
	    !bind(ring->fd, (const struct sockaddr *)&address, sizeof(address)))
		return 0;
	err = failed("no receive ring", where);
	ring_close(ring);
	return err;
}

void ring_close(struct ring *ring)
{
	if (ring->blocks)
		munmap(ring->blocks, (size_t)BLOCK_SIZE * NR_BLOCKS);
	close(ring->fd);
}

static struct tpacket_block_desc *ring_block(const struct ring *ring)
{
	return (struct tpacket_block_desc *)(ring->blocks + (size_t)ring->block * BLOCK_SIZE);
}

/* Pairs with the kernel's barriers: the status is written after the frames it hands over. */
static bool block_ready(const struct ring *ring)
{
	return __atomic_load_n(&ring_block(ring)->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
	       TP_STATUS_USER;
}

static void block_begin(struct ring *ring)
{
	struct tpacket_block_desc *block = ring_block(ring);

	ring->left = block->hdr.bh1.num_pkts;
	ring->next = (struct tpacket3_hdr *)((unsigned char *)block +
					     block->hdr.bh1.offset_to_first_pkt);
}

/* Back to the kernel, after all reads of it. */
static void block_end(struct ring *ring)
{
	__atomic_store_n(&ring_block(ring)->hdr.bh1.block_status, TP_STATUS_KERNEL,
			 __ATOMIC_RELEASE);
	ring->block = (ring->block + 1) % NR_BLOCKS;
	ring->next = NULL;
}

const void *ring_next(struct ring *ring, uint32_t *len)
{
	struct tpacket3_hdr *frame;

	while (!ring->left) {
		if (ring->next)
			block_end(ring);
		if (!block_ready(ring))
			return NULL;
		block_begin(ring);
	}
	frame = ring->next;
	ring->next = (struct tpacket3_hdr *)((unsigned char *)frame + frame->tp_next_offset);
	ring->left--;
	*len = frame->tp_snaplen;
	return (const unsigned char *)frame + frame->tp_mac;
}

int ring_wait(struct ring *ring, int timeout_ms)
{
	struct pollfd fd = { .fd = ring->fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) ? 1 : 0;
}

unsigned int ring_drops(struct ring *ring)
{
	struct tpacket_stats_v3 stats = { 0 };
	socklen_t len = sizeof(stats);

	if (getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		failed("no statistics", "ring");
	return stats.tp_drops;
}

int tx_open(const char *where)
{
	struct sockaddr_ll address = { 0 }; /* no protocol: nothing is received */
	const int yes = 1;
	int fd = socket_there(where, &address), err;

	if (fd < 0)
		return failed("no packet socket", where);
	if (!setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof(yes)) &&
	    !bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = failed("no socket to send to", where);
	close(fd);
	return err;
}

int tx_send(int fd, struct iovec *frames, unsigned int n)
{
	struct mmsghdr messages[TX_BATCH_MAX];
	unsigned int done = 0;
	int sent = 0;

	memset(messages, 0, n * sizeof(messages[0]));
	for (unsigned int i = 0; i < n; i++) {
		messages[i].msg_hdr.msg_iov = &frames[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	while (done < n) {
		int now = sendmmsg(fd, &messages[done], n - done, 0);

		if (now > 0) {
			sent += now;
			done += (unsigned int)now;
		} else if (errno == ENOBUFS || errno == EMSGSIZE || errno == ENETDOWN) {
			done++; /* this one is dropped */
		} else if (errno != EINTR) {
			return failed("sending", "socket");
		}
	}
	return sent;
}
