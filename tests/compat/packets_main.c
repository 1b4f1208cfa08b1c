/* SPDX-License-Identifier: MIT */
/*
 * Runs the path of packets (packets.c) by threads: some send and some receive, each in the four
 * contexts in turn. No packet may get lost, be handed out twice or change on its way.
 *
 * The program is compiled twice. As it stands no thread needs to own its CPU. With
 * UKMEM_SOFTIRQ_IS_OWNER=1 the functions for soft interrupts are for owners only; then one
 * thread that owns its CPU does all. Both are compiled with UKMEM_DEBUG=1, so that a function
 * for owners aborts in a thread that owns no CPU.
 *
 * Mutants that were caught: __qmempool_alloc is the function for owners, or the _softirq forms
 * are (abort); alf_queue_avail_space without a sign (counts); alf_mp_enqueue for a burst (a
 * part of the packets is sent).
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/percpu.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "packets.h"

int checks_failed;

#define NR_THREADS 3 /* that send, and as many that receive */
#define NR_PACKETS 60000u
#define BULK_MAX 16

static struct packet_path *path;
static u64 received[NR_THREADS][NR_THREADS]; /* by the receiver and the sender */
static void check_sums(u32 nr_senders)
{
	for (u32 s = 0; s < nr_senders; s++) {
		u64 sum = 0;

		for (u32 r = 0; r < NR_THREADS; r++)
			sum += received[r][s];
		CHECK(sum == (u64)NR_PACKETS * (NR_PACKETS - 1) / 2);
	}
}

/* Whether a process that owns no CPU survives the functions for soft interrupts. */
static bool softirq_in_any_thread(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		packet_path_softirq_once(path);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#if defined(UKMEM_SOFTIRQ_IS_OWNER) && UKMEM_SOFTIRQ_IS_OWNER
static void run(void)
{
	cpu_set_t one;
	int error;

	path = packet_path_create(64, true);
	if (IS_ERR(path)) {
		CHECK(!"a path");
		return;
	}
	CHECK(!softirq_in_any_thread());

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	error = percpu_owner_enter();
	if (error) { /* no rseq, for one */
		printf("SKIP: no owner of a CPU here: %d\n", error);
		exit(77);
	}
	for (u32 i = 0, taken = 0; i < NR_PACKETS || taken < i;) {
		int n = i < NR_PACKETS ? packet_path_send(path, PACKET_SOFTIRQ, 0, i, 1) : 0;

		i += (u32)n;
		if (!n || i % 7 == 0)
			taken += (u32)packet_path_receive(path, PACKET_SOFTIRQ_INLINE,
							  received[0], 1);
	}
	percpu_owner_exit();
	check_sums(1);
	packet_path_destroy(path);
}
#else
static u32 nr_received;

static void *send_packets(void *arg)
{
	u32 sender = (u32)(unsigned long)arg;

	for (u32 i = 0; i < NR_PACKETS;) {
		int n = 1 + (int)(i % BULK_MAX);

		n = min_t(int, n, (int)(NR_PACKETS - i));
		n = packet_path_send(path, (enum packet_context)(i % 4), sender, i, n);
		if (!n)
			sched_yield();
		i += (u32)n;
	}
	return NULL;
}

static void *receive_packets(void *arg)
{
	u64 *sums = received[(unsigned long)arg];

	for (u32 i = 0;
	     __atomic_load_n(&nr_received, __ATOMIC_RELAXED) < NR_THREADS * NR_PACKETS; i++) {
		int n = packet_path_receive(path, (enum packet_context)(i % 4), sums,
					    NR_THREADS);

		__atomic_fetch_add(&nr_received, (u32)n, __ATOMIC_RELAXED);
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void run(void)
{
	pthread_t senders[NR_THREADS], receivers[NR_THREADS];
	unsigned long i;

	path = packet_path_create(128, false);
	if (IS_ERR(path)) {
		CHECK(!"a path");
		return;
	}
	CHECK(softirq_in_any_thread());
	for (i = 0; i < NR_THREADS; i++) {
		CHECK(pthread_create(&senders[i], NULL, send_packets, (void *)i) == 0);
		CHECK(pthread_create(&receivers[i], NULL, receive_packets, (void *)i) == 0);
	}
	for (i = 0; i < NR_THREADS; i++) {
		pthread_join(senders[i], NULL);
		pthread_join(receivers[i], NULL);
	}
	check_sums(NR_THREADS);
	packet_path_destroy(path);
}
#endif

int main(void)
{
	packet_path_check_counts();
	packet_path_check_errors();
	run();
	printf("packets: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
