/* SPDX-License-Identifier: MIT */
/*
 * The stress of queues (tests/stress/queue_stress.cpp) with delays inside the sections: threads
 * are preempted, signalled and robbed of a side in the middle of them all the time. With a
 * broken section (MUTANT_...) one of the variants has to notice: by a failure, an abort or
 * because it never ends.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

extern "C" {
volatile unsigned inject_delay[4];
}

namespace
{

/* Changes the delays all the time: one place long, or all short, or none. */
class Delays : public ::testing::Environment
{
      public:
	void SetUp() override
	{
		thread_ = std::thread([this] {
			std::mt19937 random(1);

			while (!stop_) {
				for (auto &delay : inject_delay)
					delay = random() % 3 ? 0 : random() % 200;
				inject_delay[random() % 4] = random() % 20000;
				std::this_thread::sleep_for(std::chrono::milliseconds(3));
			}
		});
	}
	void TearDown() override
	{
		stop_ = true;
		thread_.join();
	}

      private:
	std::atomic<bool> stop_{ false };
	std::thread thread_;
};

const auto *delays = ::testing::AddGlobalTestEnvironment(new Delays);

} // namespace
