/* SPDX-License-Identifier: MIT */
/* A path of packets from producers to consumers: packets.c. */
#ifndef COMPAT_PACKETS_H
#define COMPAT_PACKETS_H

#include <linux/types.h>

struct packet_path;

/* Who calls: a thread, the same with inlined functions, a soft interrupt, and that inlined. */
enum packet_context { PACKET_THREAD, PACKET_INLINE, PACKET_SOFTIRQ, PACKET_SOFTIRQ_INLINE };

/* An error pointer if there is no memory. With @single, one producer and one consumer. */
struct packet_path *packet_path_create(u32 queue_size, bool single);
void packet_path_destroy(struct packet_path *path);

/* Sends @n packets, at most 16, of @sender, numbered from @first. Result: @n, or 0: no room. */
int packet_path_send(struct packet_path *path, enum packet_context context, u32 sender,
		     u32 first, int n);
/* Takes at most 16 packets out and adds them to @received[sender]. Result: how many. */
int packet_path_receive(struct packet_path *path, enum packet_context context, u64 *received,
			u32 nr_senders);

/* What a queue says of itself, at every number of packets in it. */
void packet_path_check_counts(void);
/* A pool that cannot be, and one whose cache has nothing. */
void packet_path_check_errors(void);
/* One allocation as in a soft interrupt. */
void packet_path_softirq_once(struct packet_path *path);

#endif
