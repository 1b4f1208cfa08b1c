/* SPDX-License-Identifier: MIT */
/*
 * Patterns in which most objects are freed by another thread than allocated them.
 */
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "stay_on_cpu.h"
#include "workload.h"

namespace
{

/*
 * A bounded queue of batches between one producer and one consumer. The slots
 * are filled and emptied in place, outside the lock, so that a transfer costs
 * one short critical section per batch and allocates nothing. Who has to wait
 * sleeps until the queue is half full or half empty: otherwise the two would
 * wake each other for every batch and the kernel's scheduler be measured.
 *
 *	[emptied_, filled_)		slots the consumer may read
 *	[filled_, emptied_ + kSlots)	slots the producer may fill
 */
class BatchQueue
{
      public:
	static constexpr size_t kSlots = 32;
	static constexpr size_t kBatch = 128;
	using Batch = std::array<Object, kBatch>;

	Batch &wait_for_room()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		if (used() == kSlots)
			room_.wait(lock, [this] { return used() <= kSlots / 2; });
		return slots_[filled_ % kSlots];
	}

	void publish()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		filled_++;
		if (used() >= kSlots / 2)
			items_.notify_one();
	}

	/* No batch follows those published. */
	void close()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		closed_ = true;
		items_.notify_one();
	}

	/* The oldest batch, or NULL when the queue is closed and empty. */
	Batch *wait_for_batch()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		if (used() == 0)
			items_.wait(lock, [this] { return used() >= kSlots / 2 || closed_; });
		return used() > 0 ? &slots_[emptied_ % kSlots] : nullptr;
	}

	void release()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		emptied_++;
		if (used() <= kSlots / 2)
			room_.notify_one();
	}

      private:
	size_t used() const
	{
		return filled_ - emptied_;
	}

	std::mutex mutex_;
	std::condition_variable room_, items_;
	size_t filled_ = 0, emptied_ = 0;
	bool closed_ = false;
	std::array<Batch, kSlots> slots_;
};

} // namespace

/*
 * One half of the threads only allocates, the other half only frees; in pairs.
 * The two of a pair stay on neighbouring CPUs: left to the scheduler they share
 * one CPU in some runs and not in others, which is a factor of four in time.
 */
void producer_consumer(unsigned threads, double scale)
{
	constexpr double kObjects = 5e6;
	const unsigned pairs = threads / 2;
	const auto batches =
		static_cast<size_t>(kObjects * scale / pairs / BatchQueue::kBatch) + 1;
	const std::unique_ptr<BatchQueue[]> queues(new BatchQueue[pairs]);

	const auto produce = [&](unsigned pair) {
		Random random(pair);

		for (size_t i = 0; i < batches; i++) {
			for (Object &object : queues[pair].wait_for_room())
				object = make_object(random.between(16, 512));
			queues[pair].publish();
		}
		queues[pair].close();
	};
	const auto consume = [&](unsigned pair) {
		while (BatchQueue::Batch *batch = queues[pair].wait_for_batch()) {
			for (Object object : *batch)
				drop_object(object);
			queues[pair].release();
		}
	};
	run_threads(2 * pairs, [&](unsigned i) {
		stay_on_cpu(i);
		if (i % 2 == 0)
			produce(i / 2);
		else
			consume(i / 2);
	});
}

namespace
{

/*
 * Batches that any producer fills and any consumer empties. The number of those that
 * wait is bounded, as in BatchQueue, but there are spare ones, so that nobody waits
 * for a certain other thread.
 */
class BatchPool
{
      public:
	static constexpr size_t kBatch = 512;
	using Batch = std::array<Object, kBatch>;

	explicit BatchPool(size_t batches) : storage_(batches)
	{
		for (Batch &batch : storage_)
			empty_.push_back(&batch);
	}

	Batch *wait_for_empty()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		room_.wait(lock, [this] { return !empty_.empty(); });
		return take(empty_);
	}

	void publish(Batch *batch)
	{
		give(full_, items_, batch);
	}

	/* The oldest batch, or NULL when the pool is closed and has none. */
	Batch *wait_for_full()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		items_.wait(lock, [this] { return !full_.empty() || closed_; });
		return full_.empty() ? nullptr : take(full_);
	}

	void release(Batch *batch)
	{
		give(empty_, room_, batch);
	}

	void close()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		closed_ = true;
		items_.notify_all();
	}

      private:
	static Batch *take(std::deque<Batch *> &from)
	{
		Batch *batch = from.front();

		from.pop_front();
		return batch;
	}

	void give(std::deque<Batch *> &to, std::condition_variable &waiting, Batch *batch)
	{
		std::lock_guard<std::mutex> lock(mutex_);

		to.push_back(batch);
		waiting.notify_one();
	}

	std::vector<Batch> storage_;
	std::mutex mutex_;
	std::condition_variable room_, items_;
	std::deque<Batch *> empty_, full_;
	bool closed_ = false;
};

} // namespace

/*
 * After Lever and Boreham's test: half of the threads allocate batches of objects of
 * some sizes, the other half takes whichever batch is next, and frees it.
 */
void xmalloc(unsigned threads, double scale)
{
	constexpr double kObjects = 4e6;
	constexpr unsigned kWaiting = 64;
	constexpr std::array<uint32_t, 16> kSizes = {
		8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536
	};
	const unsigned pairs = threads / 2;
	const size_t batches = share(kObjects, scale, BatchPool::kBatch);
	BatchPool pool(kWaiting + 2 * pairs);
	std::atomic<size_t> started{ 0 };
	std::atomic<unsigned> producing{ pairs };

	const auto produce = [&](unsigned pair) {
		Random random(pair);

		while (started.fetch_add(1) < batches) {
			BatchPool::Batch *batch = pool.wait_for_empty();

			for (Object &object : *batch)
				object = make_object(kSizes[random.between(0, 15)]);
			pool.publish(batch);
		}
		if (producing.fetch_sub(1) == 1)
			pool.close();
	};
	const auto consume = [&] {
		while (BatchPool::Batch *batch = pool.wait_for_full()) {
			for (Object object : *batch)
				drop_object(object);
			pool.release(batch);
		}
	};
	run_threads(2 * pairs, [&](unsigned i) {
		if (i % 2 == 0)
			produce(i / 2);
		else
			consume();
	});
}

/*
 * After Larson and Krishnan's server simulation: every thread owns an array of
 * objects and replaces random ones; each generation of threads then ends and
 * leaves its arrays to the next, so that memory is freed by threads that did not
 * allocate it, long after the ones that did are gone.
 */
static void larson_of(uint32_t objects, unsigned threads, double scale)
{
	constexpr double kReplacements = 15e6;
	constexpr unsigned kGenerations = 8;
	const auto replacements =
		static_cast<size_t>(kReplacements * scale / kGenerations / threads) + 1;
	std::vector<std::vector<Object>> arrays(threads, std::vector<Object>(objects));

	run_threads(threads, [&](unsigned i) {
		Random random(i);

		for (Object &object : arrays[i])
			object = make_object(random.between(8, 1024));
	});
	for (unsigned generation = 1; generation <= kGenerations; generation++) {
		run_threads(threads, [&](unsigned i) {
			std::vector<Object> &array = arrays[(i + generation) % threads];
			Random random(generation * threads + i);

			for (size_t n = 0; n < replacements; n++) {
				Object &object = array[random.between(0, objects - 1)];

				drop_object(object);
				object = make_object(random.between(8, 1024));
			}
		});
	}
	for (const auto &array : arrays) {
		for (Object object : array)
			drop_object(object);
	}
}

void larson(unsigned threads, double scale)
{
	larson_of(1000, threads, scale);
}

void larson_many(unsigned threads, double scale)
{
	larson_of(5000, threads, scale);
}

/*
 * Many short-lived threads: each frees what a thread before it left behind,
 * allocates, frees most of it and leaves every fourth object to its heir.
 */
void thread_churn(unsigned threads, double scale)
{
	constexpr double kLives = 5e3;
	constexpr uint32_t kObjects = 512;
	const auto generations = static_cast<unsigned>(kLives * scale / threads) + 1;
	std::vector<std::vector<Object>> left(threads, std::vector<Object>(kObjects / 4));
	auto taken = left;

	for (unsigned generation = 0; generation <= generations; generation++) {
		std::swap(left, taken);
		run_threads(threads, [&](unsigned i) {
			Random random(generation * threads + i);
			Object own[kObjects];

			if (generation > 0) {
				for (Object object : taken[(i + 1) % threads])
					drop_object(object);
			}
			for (Object &object : own)
				object = make_object(random.between(16, 2048));
			for (uint32_t n = 0; n < kObjects; n++) {
				if (n % 4 == 0)
					left[i][n / 4] = own[n];
				else
					drop_object(own[n]);
			}
		});
	}
	for (const auto &objects : left) {
		for (Object object : objects)
			drop_object(object);
	}
}
