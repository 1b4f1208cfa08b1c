/* SPDX-License-Identifier: MIT */
/*
 * Patterns in which threads free most objects themselves and pass on the others.
 */
#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "workload.h"

namespace
{

/* A place for each thread where another leaves a whole list of objects. */
class Handover
{
      public:
	Handover(unsigned threads, size_t capacity)
	    : lists_(2 * threads), waiting_(new std::atomic<std::vector<Object> *>[threads])
	{
		for (auto &list : lists_)
			list.reserve(capacity);
		for (unsigned i = 0; i < threads; i++)
			waiting_[i] = &lists_[threads + i];
	}

	/* The list that thread @i fills first. */
	std::vector<Object> *first(unsigned i)
	{
		return &lists_[i];
	}

	/* Leaves a list with thread @to; what lay there is the caller's. */
	std::vector<Object> *exchange(unsigned to, std::vector<Object> *list)
	{
		return waiting_[to].exchange(list);
	}

	/* When all threads are done. */
	void drop_everything()
	{
		for (auto &list : lists_)
			drop_all(list);
	}

      private:
	std::vector<std::vector<Object>> lists_;
	std::unique_ptr<std::atomic<std::vector<Object> *>[]> waiting_;
};

/* One of mstress's threads: objects that it keeps for a while, and swaps with others. */
void serve(Random random, size_t steps, std::vector<std::atomic<Object>> &shared)
{
	constexpr size_t kMost = 400;
	const auto last = static_cast<uint32_t>(shared.size() - 1);
	std::vector<Object> own;

	own.reserve(kMost);
	for (size_t n = 0; n < steps; n++) {
		if (own.empty() || (own.size() < kMost && random.between(0, 9) < 5))
			own.push_back(make_object(random.mostly_small(8, 10)));
		std::swap(own[random.between(0, static_cast<uint32_t>(own.size() - 1))],
			  own.back());
		if (random.between(0, 9) == 0) {
			Object theirs = shared[random.between(0, last)].exchange(own.back());

			own.pop_back();
			if (theirs != nullptr)
				own.push_back(theirs);
		} else if (random.between(0, 9) < 5) {
			drop_object(own.back());
			own.pop_back();
		}
	}
	drop_all(own);
}

} // namespace

/*
 * As in a server: threads come in generations; each allocates and frees objects, most
 * of them small, keeps some for a time, and exchanges some with others through places
 * that all know.
 */
void mstress(unsigned threads, double scale)
{
	constexpr double kSteps = 16e6;
	constexpr unsigned kGenerations = 6;
	constexpr size_t kShared = 4096;
	const size_t steps = share(kSteps, scale, kGenerations * threads);
	std::vector<std::atomic<Object>> shared(kShared);

	for (unsigned generation = 0; generation < kGenerations; generation++) {
		run_threads(threads, [&](unsigned i) {
			serve(Random(generation * threads + i), steps, shared);
		});
		/* Half of what is left lives on. */
		for (size_t n = generation % 2; n < kShared; n += 2)
			drop_if_any(shared[n].exchange(nullptr));
	}
	for (auto &object : shared)
		drop_if_any(object);
}

/*
 * After the random test of rpmalloc's benchmark: each thread has a ring of objects of
 * 16 to 8000 bytes, small ones more often, replaces a piece of it and leaves a part
 * of the old ones to the next thread.
 */
void rptest(unsigned threads, double scale)
{
	constexpr double kReplacements = 25e5;
	constexpr size_t kLive = 4096, kPiece = 32;
	const size_t slots = std::max(kLive / threads, 2 * kPiece);
	const size_t pieces = share(kReplacements, scale, threads * kPiece);
	Handover handover(threads, kPiece);

	run_threads(threads, [&](unsigned i) {
		Random random(i);
		std::vector<Object> ring(slots);
		std::vector<Object> *leaving = handover.first(i);

		for (size_t piece = 0; piece < pieces; piece++) {
			for (size_t n = 0; n < kPiece; n++) {
				Object &object = ring[(piece * kPiece + n) % slots];
				const uint32_t root = random.between(4, 89);

				if (object != nullptr && n % 4 == 0)
					leaving->push_back(object);
				else
					drop_if_any(object);
				object = make_object(root * root);
			}
			leaving = handover.exchange((i + 1) % threads, leaving);
			drop_all(*leaving);
		}
		drop_all(ring);
	});
	handover.drop_everything();
}

/*
 * After SmartHeap's test of several threads: batches of one size after the other, a
 * part freed last in first out, a part in order, and a part by another thread.
 */
void sh8(unsigned threads, double scale)
{
	constexpr double kObjects = 20e6;
	constexpr size_t kBatch = 120;
	const size_t batches = share(kObjects, scale, threads * kBatch);
	Handover handover(threads, kBatch);

	run_threads(threads, [&](unsigned i) {
		Random random(i);
		Object batch[kBatch];
		std::vector<Object> *leaving = handover.first(i);

		for (size_t n = 0; n < batches; n++) {
			make_batch(batch, random.mostly_small(8, 8));
			leaving->assign(batch + kBatch / 3, batch + 2 * kBatch / 3);
			leaving = handover.exchange((i + 1) % threads, leaving);
			drop_all(*leaving);
		}
	});
	handover.drop_everything();
}
