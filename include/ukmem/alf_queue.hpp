/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/alf_queue.hpp> - the queue of pointers with a type, for C++17 and later.
 *
 *	ukmem::alf_queue<packet> queue(1024);
 *
 *	if (!queue.mp_enqueue(p))	// full
 *		drop(p);
 *	packet *next = queue.mc_dequeue();		// nullptr: empty
 *	n = queue.mc_dequeue_burst(burst, 16);		// up to 16
 *
 * The functions are those of <ukmem/alf_queue.h>, by the same names; that header says what each
 * means, what costs a locked instruction, and what may be called where. In short: mp and mc are
 * for any number of threads and their signal handlers; sp and sc for one thread at a time.
 *
 * The queue does not own what the pointers point to.
 */
#ifndef UKMEM_ALF_QUEUE_HPP
#define UKMEM_ALF_QUEUE_HPP

#include <cstdint>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <ukmem/alf_queue.h>
#include <ukmem/allocator.hpp>

namespace ukmem
{

/** class alf_queue - a bounded FIFO queue of pointers to T */
template <typename T> class alf_queue
{
	static_assert(std::is_object_v<T> || std::is_void_v<T>, "pointers to objects");

      public:
	/**
	 * alf_queue - make an empty queue
	 * @size:  pointers that it can hold: a power of two up to ALF_QUEUE_MAX_SIZE
	 * @flags: ALF_QUEUE_* or 0
	 *
	 * Throws invalid_argument: another size or flag; bad_alloc: no memory.
	 */
	explicit alf_queue(std::uint32_t size, unsigned int flags = 0)
	    : queue_(alf_queue_alloc_flags(size, GFP_KERNEL, flags))
	{
		if (!IS_ERR(queue_))
			return;
		if (PTR_ERR(queue_) == -EINVAL)
			detail::fail<std::invalid_argument>("ukmem::alf_queue");
		detail::fail<std::bad_alloc>();
	}

	alf_queue(alf_queue &&other) noexcept : queue_(std::exchange(other.queue_, nullptr))
	{
	}

	alf_queue &operator=(alf_queue &&other) noexcept
	{
		if (this != &other) {
			alf_queue_free(queue_);
			queue_ = std::exchange(other.queue_, nullptr);
		}
		return *this;
	}

	alf_queue(const alf_queue &) = delete;
	alf_queue &operator=(const alf_queue &) = delete;

	~alf_queue()
	{
		alf_queue_free(queue_);
	}

	/** mp_enqueue, sp_enqueue - append one pointer. Result: false: the queue is full. */
	bool mp_enqueue(T *p) noexcept
	{
		return alf_mp_enqueue(queue_, in(&p), 1) == 1;
	}
	bool sp_enqueue(T *p) noexcept
	{
		return alf_sp_enqueue(queue_, in(&p), 1) == 1;
	}

	/**
	 * mc_dequeue, sc_dequeue - take the first pointer; nullptr: the queue is empty
	 *
	 * A queue into which somebody puts nullptr looks empty when that is the first pointer.
	 * The forms for @n pointers tell the two apart.
	 */
	[[nodiscard]] T *mc_dequeue() noexcept
	{
		void *p;

		return alf_mc_dequeue(queue_, &p, 1) ? static_cast<T *>(p) : nullptr;
	}
	[[nodiscard]] T *sc_dequeue() noexcept
	{
		void *p;

		return alf_sc_dequeue(queue_, &p, 1) ? static_cast<T *>(p) : nullptr;
	}

	/** Forms of enqueue for @n pointers: all or none, or as many as there is room for. */
	unsigned int mp_enqueue_bulk(T *const p[], std::uint32_t n) noexcept
	{
		return alf_mp_enqueue(queue_, in(p), n);
	}
	unsigned int mp_enqueue_burst(T *const p[], std::uint32_t n) noexcept
	{
		return alf_mp_enqueue_burst(queue_, in(p), n);
	}
	unsigned int sp_enqueue_bulk(T *const p[], std::uint32_t n) noexcept
	{
		return alf_sp_enqueue(queue_, in(p), n);
	}
	unsigned int sp_enqueue_burst(T *const p[], std::uint32_t n) noexcept
	{
		return alf_sp_enqueue_burst(queue_, in(p), n);
	}

	/** Forms of dequeue for @n pointers: all or none, or as many as there are. */
	unsigned int mc_dequeue_bulk(T *p[], std::uint32_t n) noexcept
	{
		return alf_mc_dequeue_bulk(queue_, out(p), n);
	}
	unsigned int mc_dequeue_burst(T *p[], std::uint32_t n) noexcept
	{
		return alf_mc_dequeue(queue_, out(p), n);
	}
	unsigned int sc_dequeue_bulk(T *p[], std::uint32_t n) noexcept
	{
		return alf_sc_dequeue_bulk(queue_, out(p), n);
	}
	unsigned int sc_dequeue_burst(T *p[], std::uint32_t n) noexcept
	{
		return alf_sc_dequeue(queue_, out(p), n);
	}

	/** hand_over - from now on each side may be used in the other way
	 * (alf_queue_hand_over). */
	void hand_over() noexcept
	{
		alf_queue_hand_over(queue_);
	}

	/** capacity - the number of pointers that the queue can hold. */
	[[nodiscard]] std::uint32_t capacity() const noexcept
	{
		return alf_queue_size(queue_);
	}

	/** size - how many there are; about right while other threads use the queue. */
	[[nodiscard]] std::uint32_t size() const noexcept
	{
		return alf_queue_count(queue_);
	}

	/** empty - whether there is none; as exact as size(). */
	[[nodiscard]] bool empty() const noexcept
	{
		return alf_queue_empty(queue_);
	}

	/** get - the queue, for the functions of <ukmem/alf_queue.h>. */
	[[nodiscard]] struct ::alf_queue *get() const noexcept
	{
		return queue_;
	}

      private:
	/* The library copies pointers as void *, whose type compilers let alias any pointer's.
	 */
	static void *const *in(T *const p[]) noexcept
	{
		return reinterpret_cast<void *const *>(
			const_cast<std::remove_cv_t<T> *const *>(p));
	}
	static void **out(T *p[]) noexcept
	{
		return reinterpret_cast<void **>(const_cast<std::remove_cv_t<T> **>(p));
	}

	struct ::alf_queue *queue_;
};

} // namespace ukmem

#endif
