// SPDX-License-Identifier: MIT
//! Per-CPU counters.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::global::AllocError;
use crate::raw;

mod sealed {
    pub trait Sealed {}
}

/// The integers that a [`PerCpu`] counts in: 8 to 64 bits, signed or not. Sealed.
pub trait Integer: sealed::Sealed + Copy + 'static {
    #[doc(hidden)]
    unsafe fn add(handle: *mut Self, v: Self);
    #[doc(hidden)]
    unsafe fn add_return(handle: *mut Self, v: Self) -> Self;
    #[doc(hidden)]
    unsafe fn sum(handle: *mut Self) -> Self;
    #[doc(hidden)]
    const ONE: Self;
    #[doc(hidden)]
    fn negated(self) -> Self;
}

macro_rules! integer {
    ($($type:ty as $word:ty: $add:ident, $add_return:ident, $sum:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Integer for $type {
            const ONE: $type = 1;
            unsafe fn add(handle: *mut $type, v: $type) {
                // SAFETY: the caller has the handle of a word of this width.
                unsafe { raw::$add(handle.cast(), v as $word) }
            }
            unsafe fn add_return(handle: *mut $type, v: $type) -> $type {
                // SAFETY: as above.
                unsafe { raw::$add_return(handle.cast(), v as $word) as $type }
            }
            unsafe fn sum(handle: *mut $type) -> $type {
                // SAFETY: as above.
                unsafe { raw::$sum(handle.cast()) as $type }
            }
            fn negated(self) -> $type {
                self.wrapping_neg()
            }
        }
    )*};
}

integer! {
    u8 as u8: this_cpu_add_8, this_cpu_add_return_8, per_cpu_sum_8;
    i8 as u8: this_cpu_add_8, this_cpu_add_return_8, per_cpu_sum_8;
    u16 as u16: this_cpu_add_16, this_cpu_add_return_16, per_cpu_sum_16;
    i16 as u16: this_cpu_add_16, this_cpu_add_return_16, per_cpu_sum_16;
    u32 as u32: this_cpu_add_32, this_cpu_add_return_32, per_cpu_sum_32;
    i32 as u32: this_cpu_add_32, this_cpu_add_return_32, per_cpu_sum_32;
    u64 as u64: this_cpu_add_64, this_cpu_add_return_64, per_cpu_sum_64;
    i64 as u64: this_cpu_add_64, this_cpu_add_return_64, per_cpu_sum_64;
    usize as u64: this_cpu_add_64, this_cpu_add_return_64, per_cpu_sum_64;
    isize as u64: this_cpu_add_64, this_cpu_add_return_64, per_cpu_sum_64;
}

/// A counter with a copy for each CPU, zero at first.
///
/// Counting is one restartable sequence on this CPU's copy: no lock and no locked instruction,
/// exact whatever threads, migrations and signal handlers do. Arithmetic wraps. The operations
/// order no other memory accesses.
///
/// ```
/// let packets: ukmem::PerCpu<u64> = ukmem::PerCpu::new()?;
///
/// std::thread::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| (0..1000).for_each(|_| packets.inc()));
///     }
/// });
/// assert_eq!(packets.sum(), 4000);
/// # Ok::<(), ukmem::AllocError>(())
/// ```
pub struct PerCpu<T: Integer> {
    handle: NonNull<T>,
    _copies: PhantomData<T>,
}

// SAFETY: the operations may be called from any thread; the copies are integers.
unsafe impl<T: Integer> Send for PerCpu<T> {}
// SAFETY: as above.
unsafe impl<T: Integer> Sync for PerCpu<T> {}

impl<T: Integer> PerCpu<T> {
    /// Makes a counter.
    pub fn new() -> Result<PerCpu<T>, AllocError> {
        // SAFETY: size and alignment of an integer are allowed.
        let p =
            unsafe { raw::__alloc_percpu(std::mem::size_of::<T>(), std::mem::align_of::<T>()) };
        Ok(PerCpu {
            handle: NonNull::new(p.cast()).ok_or(AllocError)?,
            _copies: PhantomData,
        })
    }

    /// Adds `v`.
    pub fn add(&self, v: T) {
        // SAFETY: the handle is that of a T, until self is dropped.
        unsafe { T::add(self.handle.as_ptr(), v) }
    }

    /// Subtracts `v`.
    pub fn sub(&self, v: T) {
        self.add(v.negated());
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(T::ONE);
    }

    /// Subtracts one.
    pub fn dec(&self) {
        self.sub(T::ONE);
    }

    /// Adds `v`, and returns the new value of this CPU's copy.
    pub fn add_return(&self, v: T) -> T {
        // SAFETY: as add().
        unsafe { T::add_return(self.handle.as_ptr(), v) }
    }

    /// The sum of all copies; never stops those who count.
    pub fn sum(&self) -> T {
        // SAFETY: as add().
        unsafe { T::sum(self.handle.as_ptr()) }
    }
}

impl<T: Integer> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle.
        unsafe { raw::free_percpu(self.handle.as_ptr().cast()) };
    }
}

impl<T: Integer + fmt::Debug> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerCpu").field(&self.sum()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<T: Integer + PartialEq + fmt::Debug>(small: T) {
        let n = PerCpu::<T>::new().unwrap();

        n.inc();
        n.add(small);
        n.dec();
        assert_eq!(n.sum(), small);
        n.sub(small);
        assert_eq!(n.sum(), PerCpu::new().unwrap().sum(), "a new one is zero");
    }

    #[test]
    fn every_integer_counts() {
        counts(100u8);
        counts(100i8);
        counts(1000u16);
        counts(-1000i16);
        counts(1u32 << 31);
        counts(i32::MIN);
        counts(u64::MAX);
        counts(-5i64);
        counts(7usize);
        counts(-7isize);
    }

    #[test]
    fn negative_numbers_come_back() {
        let n = PerCpu::<i16>::new().unwrap();

        n.sub(300);
        assert_eq!(n.sum(), -300);
        assert_eq!(format!("{:?}", n), "PerCpu(-300)");
        let u = PerCpu::<u8>::new().unwrap();
        u.dec();
        assert_eq!(u.sum(), 255);
        let one = PerCpu::<i64>::new().unwrap();
        assert_eq!(one.add_return(-3), -3);
    }

    #[test]
    fn threads_count_exactly() {
        let n = PerCpu::<u64>::new().unwrap();
        let rounds = if cfg!(miri) { 10 } else { 100_000 };

        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..rounds).for_each(|_| n.inc()));
            }
        });
        assert_eq!(n.sum(), 4 * rounds);
    }
}
