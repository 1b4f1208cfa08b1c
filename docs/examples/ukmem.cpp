/* SPDX-License-Identifier: MIT */
/* All headers at once: packets out of a cache, counted, and passed on. */
#include <cassert>
#include <ukmem/ukmem.hpp>

struct packet {
	explicit packet(int length) : length(length)
	{
	}

	int length;
};

int main()
{
	ukmem::cache<packet> packets("packet");
	ukmem::per_cpu<unsigned long> sent;
	ukmem::alf_queue<packet> queue(64);

	for (int i = 0; i < 10; i++) {
		packet *p = packets.create(i);

		if (queue.mp_enqueue(p))
			sent.inc();
		else
			packets.destroy(p);
	}
	while (packet *p = queue.mc_dequeue())
		packets.destroy(p);
	assert(sent.sum() == 10 && packets.size() == 0);
	return 0;
}
