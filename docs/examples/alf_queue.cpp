/* SPDX-License-Identifier: MIT */
/* A queue of pointers between threads. */
#include <cassert>
#include <thread>
#include <ukmem/alf_queue.hpp>

struct packet {
	int length;
};

int main()
{
	ukmem::alf_queue<packet> queue(1024);
	packet packets[100];
	std::thread producer([&] {
		for (packet &p : packets) {
			p.length = 64;
			while (!queue.mp_enqueue(&p)) /* full */
				std::this_thread::yield();
		}
	});
	int bytes = 0;

	for (int taken = 0; taken < 100;) {
		packet *burst[16];
		const unsigned int n = queue.mc_dequeue_burst(burst, 16);

		for (unsigned int i = 0; i < n; i++)
			bytes += burst[i]->length;
		taken += static_cast<int>(n);
		if (n == 0)
			std::this_thread::yield();
	}
	producer.join();
	assert(bytes == 6400 && queue.empty() && queue.capacity() >= 1024);
	return 0;
}
