// SPDX-License-Identifier: MIT
//! The functions of ukmem as C has them. What each does, returns and may be called from is said
//! in the C headers (`include/ukmem/`); the crate `ukmem` makes safe Rust of them.
//!
//! A function has the name of its C header; where the symbol begins with `ukmem_rs_`, the header
//! has it inline, and this crate's `shim.c` gives it an address.

#![no_std]
#![deny(missing_docs)]
#![allow(non_camel_case_types)]

use core::ffi::c_void;

/// C's `char`, for strings that the library only reads or returns.
pub type c_char = i8_or_u8::c_char;
/// C's `int`.
pub type c_int = i32;
/// C's `unsigned int`.
pub type c_uint = u32;
/// C's `unsigned long`.
pub type c_ulong = u64;

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
mod i8_or_u8 {
    pub type c_char = i8;
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
mod i8_or_u8 {
    pub type c_char = u8;
}

/// What an allocation may do to succeed: `<ukmem/gfp.h>`.
pub type gfp_t = c_uint;
/// May block and reclaim.
pub const GFP_KERNEL: gfp_t = 0xcc0;
/// Must not block: NULL at once if there is no memory at hand.
pub const GFP_NOWAIT: gfp_t = 0x800;
/// As [`GFP_NOWAIT`], and may use the reserves.
pub const GFP_ATOMIC: gfp_t = 0x820;
/// The memory reads as zeros.
pub const __GFP_ZERO: gfp_t = 0x100;
/// A failure is not logged.
pub const __GFP_NOWARN: gfp_t = 0x2000;

/// Flags of caches: `<ukmem/slab.h>`.
pub type slab_flags_t = c_uint;
/// Align objects to a cache line.
pub const SLAB_HWCACHE_ALIGN: slab_flags_t = 0x2000;
/// All four debugging flags.
pub const SLAB_DEBUG_FLAGS: slab_flags_t = 0x10d00;

/// Largest order of a run of pages.
pub const MAX_PAGE_ORDER: c_uint = 30;
/// `ukmem_stats_print` as text.
pub const UKMEM_STATS_TEXT: c_uint = 0;
/// `ukmem_stats_print` as JSON.
pub const UKMEM_STATS_JSON: c_uint = 1;
/// Most pointers that a queue can hold.
pub const ALF_QUEUE_MAX_SIZE: u32 = 65536;

/// A cache of objects: `<ukmem/slab.h>`.
#[repr(C)]
pub struct kmem_cache {
    _private: [u8; 0],
}

/// A queue of pointers: `<ukmem/alf_queue.h>`.
#[repr(C)]
pub struct alf_queue {
    _private: [u8; 0],
}

/// The six gauges, in bytes: `<ukmem/stats.h>`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ukmem_gauges {
    /// In use by the program, by usable size.
    pub allocated: usize,
    /// Pages that these lie in.
    pub active: usize,
    /// Physical memory behind the library's pages and metadata.
    pub resident: usize,
    /// Pages taken from the system that are free now and were not given back.
    pub retained: usize,
    /// Memory taken from the system for pages.
    pub mapped: usize,
    /// Physical memory behind page entries and per-CPU areas.
    pub metadata: usize,
}

macro_rules! functions {
    ($($(#[doc = $doc:literal])+ $symbol:literal fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        extern "C" {
            $(
                $(#[doc = $doc])+
                #[link_name = $symbol]
                pub fn $name($($arg: $type),*) $(-> $result)?;
            )*
        }
    };
}

functions! {
    /// Allocates `size` bytes, aligned to the largest power of two that divides `size`.
    "ukmem_kmalloc" fn kmalloc(size: usize, flags: gfp_t) -> *mut c_void;
    /// Resizes a block.
    "ukmem_krealloc" fn krealloc(p: *const c_void, size: usize, flags: gfp_t) -> *mut c_void;
    /// Frees a block of `kmalloc` and its relatives.
    "ukmem_kfree" fn kfree(p: *const c_void);
    /// Usable bytes at `p`.
    "ukmem_ksize" fn ksize(p: *const c_void) -> usize;
    /// The `ksize` that a block of `size` bytes would have.
    "ukmem_kmalloc_size_roundup" fn kmalloc_size_roundup(size: usize) -> usize;

    /// Bytes in a page.
    "ukmem_page_size" fn ukmem_page_size() -> usize;
    /// Allocates 2^`order` pages, aligned to their size; 0: no memory.
    "ukmem___get_free_pages" fn __get_free_pages(flags: gfp_t, order: c_uint) -> c_ulong;
    /// Frees pages of `__get_free_pages`.
    "ukmem_free_pages" fn free_pages(addr: c_ulong, order: c_uint);

    /// Makes a cache.
    "ukmem_kmem_cache_create" fn kmem_cache_create(name: *const c_char, size: c_uint, align: c_uint, flags: slab_flags_t, ctor: Option<unsafe extern "C" fn(*mut c_void)>) -> *mut kmem_cache;
    /// Gives back everything that a cache holds; objects in use stay valid.
    "ukmem_kmem_cache_destroy" fn kmem_cache_destroy(s: *mut kmem_cache);
    /// Allocates an object.
    "ukmem_kmem_cache_alloc" fn kmem_cache_alloc(s: *mut kmem_cache, flags: gfp_t) -> *mut c_void;
    /// Frees an object.
    "ukmem_kmem_cache_free" fn kmem_cache_free(s: *mut kmem_cache, obj: *mut c_void);
    /// Returns free objects and slabs to the page allocator.
    "ukmem_kmem_cache_shrink" fn kmem_cache_shrink(s: *mut kmem_cache) -> c_int;
    /// Objects in use.
    "ukmem_kmem_cache_nr_allocated" fn kmem_cache_nr_allocated(s: *mut kmem_cache) -> c_ulong;
    /// Lets allocations fail.
    "ukmem_kmem_cache_fail" fn kmem_cache_fail(s: *mut kmem_cache, after: i64, times: c_ulong);

    /// Allocates bytes for each CPU, zeroed.
    "ukmem___alloc_percpu" fn __alloc_percpu(size: usize, align: usize) -> *mut c_void;
    /// Frees a handle of `__alloc_percpu`.
    "ukmem_free_percpu" fn free_percpu(handle: *mut c_void);
    /// `"rseq"` or `"fallback"`.
    "ukmem_rs_mode" fn percpu_mode_name() -> *const c_char;
    /// Adds to this CPU's copy.
    "ukmem_rs_this_cpu_add_8" fn this_cpu_add_8(handle: *mut u8, v: u8);
    /// Adds to this CPU's copy.
    "ukmem_rs_this_cpu_add_16" fn this_cpu_add_16(handle: *mut u16, v: u16);
    /// Adds to this CPU's copy.
    "ukmem_rs_this_cpu_add_32" fn this_cpu_add_32(handle: *mut u32, v: u32);
    /// Adds to this CPU's copy.
    "ukmem_rs_this_cpu_add_64" fn this_cpu_add_64(handle: *mut u64, v: u64);
    /// Adds to this CPU's copy and returns the new value.
    "ukmem_rs_this_cpu_add_return_8" fn this_cpu_add_return_8(handle: *mut u8, v: u8) -> u8;
    /// Adds to this CPU's copy and returns the new value.
    "ukmem_rs_this_cpu_add_return_16" fn this_cpu_add_return_16(handle: *mut u16, v: u16) -> u16;
    /// Adds to this CPU's copy and returns the new value.
    "ukmem_rs_this_cpu_add_return_32" fn this_cpu_add_return_32(handle: *mut u32, v: u32) -> u32;
    /// Adds to this CPU's copy and returns the new value.
    "ukmem_rs_this_cpu_add_return_64" fn this_cpu_add_return_64(handle: *mut u64, v: u64) -> u64;
    /// The sum of all copies.
    "ukmem_rs_per_cpu_sum_8" fn per_cpu_sum_8(handle: *mut u8) -> u8;
    /// The sum of all copies.
    "ukmem_rs_per_cpu_sum_16" fn per_cpu_sum_16(handle: *mut u16) -> u16;
    /// The sum of all copies.
    "ukmem_rs_per_cpu_sum_32" fn per_cpu_sum_32(handle: *mut u32) -> u32;
    /// The sum of all copies.
    "ukmem_rs_per_cpu_sum_64" fn per_cpu_sum_64(handle: *mut u64) -> u64;

    /// Makes an empty queue; an error number as a pointer if it fails.
    "ukmem_alf_queue_alloc" fn alf_queue_alloc(size: u32, gfp: gfp_t) -> *mut alf_queue;
    /// Frees a queue, not what its pointers point to.
    "ukmem_alf_queue_free" fn alf_queue_free(q: *mut alf_queue);
    /// From now on each side may be used in the other way.
    "ukmem_alf_queue_hand_over" fn alf_queue_hand_over(q: *mut alf_queue);
    /// Appends as many of `n` pointers as there is room for; any number of threads.
    "ukmem_alf_mp_enqueue_burst" fn alf_mp_enqueue_burst(q: *mut alf_queue, p: *const *mut c_void, n: u32) -> c_uint;
    /// Takes up to `n` pointers; any number of threads.
    "ukmem_alf_mc_dequeue" fn alf_mc_dequeue_burst(q: *mut alf_queue, p: *mut *mut c_void, n: u32) -> c_uint;
    /// Appends as many of `n` pointers as there is room for; one thread.
    "ukmem_rs_alf_sp_enqueue_burst" fn alf_sp_enqueue_burst(q: *mut alf_queue, p: *const *mut c_void, n: u32) -> c_uint;
    /// Takes up to `n` pointers; one thread.
    "ukmem_rs_alf_sc_dequeue_burst" fn alf_sc_dequeue_burst(q: *mut alf_queue, p: *mut *mut c_void, n: u32) -> c_uint;
    /// The number of pointers that the queue can hold.
    "ukmem_rs_alf_queue_size" fn alf_queue_size(q: *const alf_queue) -> u32;
    /// How many pointers are in the queue.
    "ukmem_rs_alf_queue_count" fn alf_queue_count(q: *const alf_queue) -> u32;

    /// Reads the six gauges.
    "ukmem_gauges_read" fn ukmem_gauges_read(g: *mut ukmem_gauges);
    /// Prints statistics to a file descriptor; 0 or a negative error number.
    "ukmem_stats_print" fn ukmem_stats_print(fd: c_int, format: c_uint) -> c_int;
    /// Gives free memory back to the system, but for what CPUs have at hand if that keeps little; bytes given back.
    "ukmem_trim" fn ukmem_trim() -> usize;
    /// Verifies the library's own structures; the number of findings. `out` may be NULL.
    "ukmem_verify" fn ukmem_verify(out: *mut c_void) -> c_int;
    /// `"major.minor.patch"`.
    "ukmem_version" fn ukmem_version() -> *const c_char;
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::ffi::CStr;

    #[test]
    fn library_is_of_this_version() {
        // SAFETY: the library's string is static.
        let version = unsafe { CStr::from_ptr(super::ukmem_version().cast()) };
        if cfg!(feature = "system") {
            assert!(!version.to_bytes().is_empty());
        } else {
            assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
        }
    }
}
