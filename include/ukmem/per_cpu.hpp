/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/per_cpu.hpp> - a per-CPU variable that its owner frees, for C++17 and later.
 *
 *	ukmem::per_cpu<unsigned long> packets;
 *
 *	packets.inc();	// one restartable sequence: no lock, no locked instruction
 *	total = packets.sum();
 *
 * The operations are the this_cpu_ operations of <ukmem/percpu.h>, by the same names: safe
 * against preemption, migration and signal handlers. For a structure of several variables,
 * handle() gives what the macros of that header take:
 *
 *	ukmem::per_cpu<struct traffic> traffic;
 *	this_cpu_add(traffic.handle()->bytes, length);
 *
 * Thread safety: everything but the destructor and the functions that move the variable.
 * Signal safety: the operations.
 */
#ifndef UKMEM_PER_CPU_HPP
#define UKMEM_PER_CPU_HPP

#include <new>
#include <type_traits>
#include <utility>

#include <ukmem/allocator.hpp>
#include <ukmem/percpu.h>

namespace ukmem
{

/**
 * class per_cpu_variable - a T for each CPU, and the spill copy; all are zero at first
 *
 * T is trivially copyable and destructible, since no constructor runs for the copies. The
 * operations are there for integers, enumerations, bool and pointers of 1, 2, 4 or 8 bytes,
 * those of arithmetic for integers. Arithmetic wraps.
 */
template <typename T> class per_cpu_variable
{
	static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
		      "copies are bytes: no constructor or destructor runs for them");
	static_assert(alignof(T) <= 4096, "copies are aligned to up to 4096 bytes");

	static constexpr bool is_word = (std::is_integral_v<T> || std::is_enum_v<T> ||
					 std::is_pointer_v<T>)&&sizeof(T) <= 8;
	static constexpr bool is_number =
		std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

	template <typename U>
	using if_number = std::enable_if_t<std::is_same_v<U, T> && is_number, U>;
	template <typename U>
	using if_word = std::enable_if_t<std::is_same_v<U, T> && is_word, U>;

      public:
	/** Makes the variable. Throws bad_alloc if there is no memory. */
	per_cpu_variable() : handle_(static_cast<T *>(__alloc_percpu(sizeof(T), alignof(T))))
	{
		if (!handle_)
			detail::fail<std::bad_alloc>();
	}

	per_cpu_variable(per_cpu_variable &&other) noexcept
	    : handle_(std::exchange(other.handle_, nullptr))
	{
	}

	per_cpu_variable &operator=(per_cpu_variable &&other) noexcept
	{
		if (this != &other) {
			free_percpu(handle_);
			handle_ = std::exchange(other.handle_, nullptr);
		}
		return *this;
	}

	per_cpu_variable(const per_cpu_variable &) = delete;
	per_cpu_variable &operator=(const per_cpu_variable &) = delete;

	~per_cpu_variable()
	{
		free_percpu(handle_);
	}

	/** read - this CPU's value, which may be another CPU's by the time it is used. */
	template <typename U = T> [[nodiscard]] if_word<U> read() const noexcept
	{
		return this_cpu_read(*handle_);
	}

	/** write - set this CPU's value. */
	template <typename U = T> void write(if_word<U> v) noexcept
	{
		this_cpu_write(*handle_, v);
	}

	/** add, sub, inc, dec - change this CPU's value. */
	template <typename U = T> void add(if_number<U> v) noexcept
	{
		this_cpu_add(*handle_, v);
	}
	template <typename U = T> void sub(if_number<U> v) noexcept
	{
		this_cpu_sub(*handle_, v);
	}
	template <typename U = T, typename = if_number<U>> void inc() noexcept
	{
		this_cpu_inc(*handle_);
	}
	template <typename U = T, typename = if_number<U>> void dec() noexcept
	{
		this_cpu_dec(*handle_);
	}

	/** add_return - add @v. Result: the new value. */
	template <typename U = T> if_number<U> add_return(if_number<U> v) noexcept
	{
		return this_cpu_add_return(*handle_, v);
	}

	/** xchg - set this CPU's value. Result: the old one. */
	template <typename U = T> if_word<U> xchg(if_word<U> v) noexcept
	{
		return this_cpu_xchg(*handle_, v);
	}

	/**
	 * try_cmpxchg - set this CPU's value to @v if it is @old
	 *
	 * Result: whether it was; if not, @old gets the value that was found. A loop must go on
	 * with that value, not read the variable again (<ukmem/percpu.h>).
	 */
	template <typename U = T> bool try_cmpxchg(U &old, if_word<U> v) noexcept
	{
		return this_cpu_try_cmpxchg(*handle_, &old, v);
	}

	/** sum - the sum of all copies; never stops writers. */
	template <typename U = T> [[nodiscard]] if_number<U> sum() const noexcept
	{
		return per_cpu_sum(*handle_);
	}

	/** copy - the copy of CPU @cpu, below percpu_nr_ids(). */
	[[nodiscard]] T *copy(unsigned int cpu) noexcept
	{
		return per_cpu_ptr(handle_, cpu);
	}
	[[nodiscard]] const T *copy(unsigned int cpu) const noexcept
	{
		return per_cpu_ptr(handle_, cpu);
	}

	/** for_each - call @f with each copy that is in use, the spill copy last. */
	template <typename F> void for_each(F &&f)
	{
		unsigned int cpu;

		for_each_possible_cpu(cpu) f(*copy(cpu));
	}
	template <typename F> void for_each(F &&f) const
	{
		unsigned int cpu;

		for_each_possible_cpu(cpu) f(*copy(cpu));
	}

	/** handle - for the macros of <ukmem/percpu.h>; not the address of any copy. */
	[[nodiscard]] T *handle() const noexcept
	{
		return handle_;
	}

      private:
	T *handle_;
};

/** per_cpu - its name; one of the class itself would be taken for the macro per_cpu(). */
template <typename T> using per_cpu = per_cpu_variable<T>;

} // namespace ukmem

#endif
