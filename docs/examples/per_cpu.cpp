/* SPDX-License-Identifier: MIT */
/* Counters and structures with a copy for each CPU. */
#include <cassert>
#include <thread>
#include <ukmem/per_cpu.hpp>

struct traffic {
	unsigned long packets, bytes;
};

int main()
{
	ukmem::per_cpu<unsigned long> packets;
	ukmem::per_cpu<traffic> seen;
	auto receive = [&] {
		for (int i = 0; i < 1000; i++) {
			packets.inc();
			this_cpu_add(seen.handle()->bytes, 64);
		}
	};
	std::thread other(receive);

	receive();
	other.join();
	assert(packets.sum() == 2000);

	unsigned long bytes = 0;

	seen.for_each([&](const traffic &t) { bytes += t.bytes; });
	assert(bytes == 2000 * 64);
	return 0;
}
