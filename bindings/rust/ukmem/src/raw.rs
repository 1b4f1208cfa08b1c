// SPDX-License-Identifier: MIT
//! The functions that the other modules call: the library's, or a mock in plain Rust that Miri can
//! run (`cargo miri test`, or `RUSTFLAGS="--cfg ukmem_mock" cargo test`).

#[cfg(not(any(miri, ukmem_mock)))]
pub(crate) use ukmem_sys::*;

#[cfg(any(miri, ukmem_mock))]
pub(crate) use mock::*;

/// What the other modules use, over `std::alloc` and a locked list. Each object is a block of its
/// own, so Miri sees its bounds, its end, and a wrong one that is freed.
#[cfg(any(miri, ukmem_mock))]
mod mock {
    use std::alloc::{alloc, alloc_zeroed, dealloc, Layout};
    use std::collections::{HashMap, VecDeque};
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
    use std::sync::Mutex;

    pub use ukmem_sys::{
        c_char, c_int, c_uint, c_ulong, gfp_t, slab_flags_t, ukmem_gauges, __GFP_NOWARN,
        __GFP_ZERO, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT, MAX_PAGE_ORDER, SLAB_DEBUG_FLAGS,
        SLAB_HWCACHE_ALIGN, UKMEM_STATS_JSON, UKMEM_STATS_TEXT,
    };

    static BLOCKS: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

    unsafe fn get(size: usize, align: usize, flags: gfp_t) -> *mut c_void {
        let layout = match Layout::from_size_align(size.max(1), align) {
            Ok(layout) => layout,
            Err(_) => return std::ptr::null_mut(),
        };
        let p = unsafe {
            if flags & __GFP_ZERO != 0 {
                alloc_zeroed(layout)
            } else {
                alloc(layout)
            }
        };
        let mut blocks = BLOCKS.lock().unwrap();
        blocks
            .get_or_insert_with(HashMap::new)
            .insert(p as usize, layout);
        p.cast()
    }

    unsafe fn put(p: *mut c_void) {
        if p.is_null() {
            return;
        }
        let layout = BLOCKS
            .lock()
            .unwrap()
            .as_mut()
            .and_then(|b| b.remove(&(p as usize)));
        unsafe { dealloc(p.cast(), layout.expect("not a block")) };
    }

    pub unsafe fn kmalloc(size: usize, flags: gfp_t) -> *mut c_void {
        let natural = 1 << size.trailing_zeros().min(12);
        unsafe { get(size, natural.max(if size < 16 { 8 } else { 16 }), flags) }
    }

    pub unsafe fn krealloc(p: *const c_void, size: usize, flags: gfp_t) -> *mut c_void {
        let old = BLOCKS.lock().unwrap().as_ref().unwrap()[&(p as usize)].size();
        unsafe {
            let q = kmalloc(size, flags);
            std::ptr::copy_nonoverlapping(p.cast::<u8>(), q.cast::<u8>(), old.min(size));
            put(p as *mut c_void);
            q
        }
    }

    pub unsafe fn kfree(p: *const c_void) {
        unsafe { put(p as *mut c_void) }
    }

    pub unsafe fn ukmem_page_size() -> usize {
        4096
    }

    pub unsafe fn __get_free_pages(flags: gfp_t, order: c_uint) -> c_ulong {
        let size = 4096usize << order;
        let p = unsafe { get(size, size, flags) };
        p as usize as c_ulong // the mock's pages are found by their address
    }

    pub unsafe fn free_pages(addr: c_ulong, _order: c_uint) {
        unsafe { put(addr as usize as *mut c_void) }
    }

    pub struct kmem_cache {
        size: usize,
        align: usize,
        live: AtomicU64,
        fail_after: AtomicI64,
        fail_times: AtomicU64,
    }

    pub unsafe fn kmem_cache_create(
        _name: *const c_char,
        size: c_uint,
        align: c_uint,
        _flags: slab_flags_t,
        _ctor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> *mut kmem_cache {
        assert!(size > 0 && size <= 16384 && align.is_power_of_two() && align <= 4096);
        Box::into_raw(Box::new(kmem_cache {
            size: size as usize,
            align: align as usize,
            live: AtomicU64::new(0),
            fail_after: AtomicI64::new(-1),
            fail_times: AtomicU64::new(0),
        }))
    }

    pub unsafe fn kmem_cache_destroy(s: *mut kmem_cache) {
        if unsafe { &*s }.live.load(Ordering::Relaxed) == 0 {
            drop(unsafe { Box::from_raw(s) });
        }
    }

    pub unsafe fn kmem_cache_alloc(s: *mut kmem_cache, flags: gfp_t) -> *mut c_void {
        let cache = unsafe { &*s };
        if cache.fail_after.load(Ordering::Relaxed) >= 0
            && cache.fail_after.fetch_sub(1, Ordering::Relaxed) <= 0
        {
            if cache.fail_times.fetch_sub(1, Ordering::Relaxed) > 1 {
                cache.fail_after.store(0, Ordering::Relaxed);
            }
            return std::ptr::null_mut();
        }
        cache.live.fetch_add(1, Ordering::Relaxed);
        unsafe { get(cache.size, cache.align, flags) }
    }

    pub unsafe fn kmem_cache_free(s: *mut kmem_cache, obj: *mut c_void) {
        unsafe { &*s }.live.fetch_sub(1, Ordering::Relaxed);
        unsafe { put(obj) }
    }

    pub unsafe fn kmem_cache_shrink(_s: *mut kmem_cache) -> c_int {
        0
    }

    pub unsafe fn kmem_cache_nr_allocated(s: *mut kmem_cache) -> c_ulong {
        unsafe { &*s }.live.load(Ordering::Relaxed)
    }

    pub unsafe fn kmem_cache_fail(s: *mut kmem_cache, after: i64, times: c_ulong) {
        let cache = unsafe { &*s };
        cache.fail_times.store(times, Ordering::Relaxed);
        cache.fail_after.store(after, Ordering::Relaxed);
    }

    pub unsafe fn __alloc_percpu(size: usize, align: usize) -> *mut c_void {
        unsafe { get(size, align, __GFP_ZERO) }
    }

    pub unsafe fn free_percpu(handle: *mut c_void) {
        unsafe { put(handle) }
    }

    pub unsafe fn percpu_mode_name() -> *const c_char {
        b"mock\0".as_ptr().cast()
    }

    macro_rules! word {
        ($word:ty, $atomic:ident, $add:ident, $add_return:ident, $sum:ident) => {
            pub unsafe fn $add(handle: *mut $word, v: $word) {
                unsafe { $add_return(handle, v) };
            }
            pub unsafe fn $add_return(handle: *mut $word, v: $word) -> $word {
                let cell = unsafe { &*handle.cast::<std::sync::atomic::$atomic>() };
                cell.fetch_add(v, Ordering::Relaxed).wrapping_add(v)
            }
            pub unsafe fn $sum(handle: *mut $word) -> $word {
                unsafe { $add_return(handle, 0) }
            }
        };
    }
    word!(
        u8,
        AtomicU8,
        this_cpu_add_8,
        this_cpu_add_return_8,
        per_cpu_sum_8
    );
    word!(
        u16,
        AtomicU16,
        this_cpu_add_16,
        this_cpu_add_return_16,
        per_cpu_sum_16
    );
    word!(
        u32,
        AtomicU32,
        this_cpu_add_32,
        this_cpu_add_return_32,
        per_cpu_sum_32
    );
    word!(
        u64,
        AtomicU64,
        this_cpu_add_64,
        this_cpu_add_return_64,
        per_cpu_sum_64
    );

    pub struct alf_queue {
        size: u32,
        pointers: Mutex<VecDeque<*mut c_void>>,
    }

    pub unsafe fn alf_queue_alloc(size: u32, _gfp: gfp_t) -> *mut alf_queue {
        if !size.is_power_of_two() || size > 65536 {
            return -22isize as usize as *mut alf_queue;
        }
        Box::into_raw(Box::new(alf_queue {
            size,
            pointers: Mutex::default(),
        }))
    }

    pub unsafe fn alf_queue_free(q: *mut alf_queue) {
        drop(unsafe { Box::from_raw(q) });
    }

    pub unsafe fn alf_queue_hand_over(_q: *mut alf_queue) {}

    pub unsafe fn alf_mp_enqueue_burst(
        q: *mut alf_queue,
        p: *const *mut c_void,
        n: u32,
    ) -> c_uint {
        let q = unsafe { &*q };
        let mut pointers = q.pointers.lock().unwrap();
        let n = n.min(q.size - pointers.len() as u32);
        pointers.extend(unsafe { std::slice::from_raw_parts(p, n as usize) });
        n
    }

    pub unsafe fn alf_mc_dequeue_burst(
        q: *mut alf_queue,
        p: *mut *mut c_void,
        n: u32,
    ) -> c_uint {
        let mut pointers = unsafe { &*q }.pointers.lock().unwrap();
        let n = n.min(pointers.len() as u32);
        for (i, pointer) in pointers.drain(..n as usize).enumerate() {
            unsafe { p.add(i).write(pointer) };
        }
        n
    }

    pub use alf_mc_dequeue_burst as alf_sc_dequeue_burst;
    pub use alf_mp_enqueue_burst as alf_sp_enqueue_burst;

    pub unsafe fn alf_queue_size(q: *const alf_queue) -> u32 {
        unsafe { &*q }.size
    }

    pub unsafe fn alf_queue_count(q: *const alf_queue) -> u32 {
        unsafe { &*q }.pointers.lock().unwrap().len() as u32
    }

    pub unsafe fn ukmem_gauges_read(g: *mut ukmem_gauges) {
        let blocks = BLOCKS.lock().unwrap();
        let allocated = blocks
            .iter()
            .flatten()
            .map(|(_, layout)| layout.size())
            .sum();
        let gauges = ukmem_gauges {
            allocated,
            active: allocated,
            mapped: allocated,
            ..Default::default()
        };
        unsafe { g.write(gauges) }
    }

    pub unsafe fn ukmem_stats_print(_fd: c_int, _format: c_uint) -> c_int {
        -38
    }

    pub unsafe fn ukmem_trim() -> usize {
        0
    }

    pub unsafe fn ukmem_verify(_out: *mut c_void) -> c_int {
        0
    }

    pub unsafe fn ukmem_version() -> *const c_char {
        b"0.0.0\0".as_ptr().cast()
    }
}
