/* SPDX-License-Identifier: MIT */
#ifndef UNIT_TWO_CPUS_H
#define UNIT_TWO_CPUS_H

#include <sched.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "test_util.h"

/* A program of two threads, of which this one moves between two CPUs. */
class TwoCpus : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		if (rseq_is_off())
			GTEST_SKIP() << "slots of other CPUs serve requests, too";
		if (allowed_cpus().size() < 2)
			GTEST_SKIP() << "one CPU";
		sched_getaffinity(0, sizeof(saved_), &saved_);
		cpus_ = allowed_cpus();
		other_ = std::thread([this] {
			std::unique_lock<std::mutex> lock(mutex_);

			over_.wait(lock, [this] { return is_over_; });
		});
	}
	void TearDown() override
	{
		if (!other_.joinable())
			return;
		{
			std::lock_guard<std::mutex> lock(mutex_);
			is_over_ = true;
		}
		over_.notify_one();
		other_.join();
		sched_setaffinity(0, sizeof(saved_), &saved_);
	}

	void move_to(unsigned i)
	{
		run_on(cpus_[i]);
	}

	std::vector<int> cpus_;

      private:
	std::thread other_;
	std::mutex mutex_;
	std::condition_variable over_;
	bool is_over_ = false;
	cpu_set_t saved_;
};

#endif
