// SPDX-License-Identifier: MIT
//! kmalloc as global allocator.

use std::alloc::{GlobalAlloc, Layout};
use std::fmt;
use std::ptr;

use crate::raw;

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl std::error::Error for AllocError {}

/// kmalloc, as global allocator and (with the feature `allocator-api2`) as `Allocator`.
///
/// It has no state: every value is the same allocator. Blocks are as large as their size class;
/// blocks above 64 KiB are whole pages.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: ukmem::Ukmem = ukmem::Ukmem;
///
/// let before = ukmem::gauges().allocated;
/// let v = vec![0u8; 1 << 20];
/// assert!(ukmem::gauges().allocated >= before + v.len());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ukmem;

/// kmalloc aligns a block to the largest power of two that divides its size, up to here.
const KMALLOC_ALIGN_MAX: usize = 4096;

/// krealloc keeps this alignment; of a larger one it knows nothing.
const KREALLOC_ALIGN_MAX: usize = 16;

/// The size to ask kmalloc for. A `Layout`'s size is at most `isize::MAX` when rounded up to its
/// alignment, so nothing wraps.
fn kmalloc_size(size: usize, align: usize) -> usize {
    debug_assert!(align.is_power_of_two() && size <= isize::MAX as usize - (align - 1));
    (size.max(1) + (align - 1)) & !(align - 1)
}

/// The order of a run of pages for a block whose alignment is above that of kmalloc.
fn pages_order(layout: Layout, page_size: usize) -> u32 {
    let pages = (layout.size().max(layout.align()) + (page_size - 1)) / page_size;

    pages.next_power_of_two().trailing_zeros()
}

fn order_of(layout: Layout) -> u32 {
    // SAFETY: a constant of the system.
    pages_order(layout, unsafe { raw::ukmem_page_size() })
}

fn allocate(layout: Layout, flags: raw::gfp_t) -> *mut u8 {
    if layout.align() <= KMALLOC_ALIGN_MAX {
        // SAFETY: any size and these flags are allowed.
        return unsafe { raw::kmalloc(kmalloc_size(layout.size(), layout.align()), flags) }
            .cast();
    }
    let order = order_of(layout);
    if order > raw::MAX_PAGE_ORDER {
        return ptr::null_mut();
    }
    // SAFETY: the order is in range.
    unsafe { raw::__get_free_pages(flags, order) as usize as *mut u8 }
}

// SAFETY: blocks are disjoint, as large and as aligned as asked for, and live until they are
// freed, by whichever thread. The library does not unwind, and allocates nothing from Rust.
unsafe impl GlobalAlloc for Ukmem {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout, raw::GFP_KERNEL)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate(layout, raw::GFP_KERNEL | raw::__GFP_ZERO)
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller has `p` from `alloc` with the same layout.
        unsafe {
            if layout.align() <= KMALLOC_ALIGN_MAX {
                raw::kfree(p.cast());
            } else {
                raw::free_pages(p as usize as raw::c_ulong, order_of(layout));
            }
        }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= KREALLOC_ALIGN_MAX {
            let size = kmalloc_size(new_size, layout.align());
            // SAFETY: `p` is a block of kmalloc; `size` is not 0.
            return unsafe { raw::krealloc(p.cast(), size, raw::GFP_KERNEL) }.cast();
        }
        // SAFETY: the caller promises that `new_size` makes a layout; both blocks have as many
        // bytes as are copied, and are disjoint.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(p, new, layout.size().min(new_size));
                self.dealloc(p, layout);
            }
            new
        }
    }
}

#[cfg(feature = "allocator-api2")]
mod allocator {
    use super::*;
    use allocator_api2::alloc::{AllocError, Allocator};
    use std::ptr::NonNull;

    fn slice(p: NonNull<u8>, size: usize) -> NonNull<[u8]> {
        // SAFETY: it is not NULL.
        unsafe { NonNull::new_unchecked(ptr::slice_from_raw_parts_mut(p.as_ptr(), size)) }
    }

    /// A block as the trait wants it. Of no bytes: an address that is aligned, and not NULL.
    fn block(layout: Layout, flags: raw::gfp_t) -> Result<NonNull<[u8]>, AllocError> {
        let p = if layout.size() == 0 {
            // SAFETY: an alignment is not 0.
            unsafe {
                NonNull::new_unchecked(ptr::null_mut::<u8>().wrapping_add(layout.align()))
            }
        } else {
            NonNull::new(allocate(layout, flags)).ok_or(AllocError)?
        };
        Ok(slice(p, layout.size()))
    }

    /// A block of another size: in place where the library can, else a new one with what both hold.
    ///
    /// # Safety
    /// `p` is a block of this allocator, with the layout `old`.
    unsafe fn resized(
        p: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let kept = old.size().min(new.size());

        // SAFETY: the caller's promise; a new block is disjoint from `p`, and both have `kept` bytes.
        unsafe {
            if kept == 0 || old.align() != new.align() {
                let q = Ukmem.allocate(new)?;
                ptr::copy_nonoverlapping(p.as_ptr(), q.as_ptr().cast::<u8>(), kept);
                Ukmem.deallocate(p, old);
                return Ok(q);
            }
            let q = Ukmem.realloc(p.as_ptr(), old, new.size());
            Ok(slice(NonNull::new(q).ok_or(AllocError)?, new.size()))
        }
    }

    // SAFETY: as of GlobalAlloc; every value is the same allocator.
    unsafe impl Allocator for Ukmem {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            block(layout, raw::GFP_KERNEL)
        }

        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            block(layout, raw::GFP_KERNEL | raw::__GFP_ZERO)
        }

        unsafe fn deallocate(&self, p: NonNull<u8>, layout: Layout) {
            if layout.size() != 0 {
                // SAFETY: the caller has `p` from here, with this layout.
                unsafe { self.dealloc(p.as_ptr(), layout) }
            }
        }

        unsafe fn grow(
            &self,
            p: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the caller has `p` from here, with the layout `old`.
            unsafe { resized(p, old, new) }
        }

        unsafe fn shrink(
            &self,
            p: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the caller has `p` from here, with the layout `old`.
            unsafe { resized(p, old, new) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn sizes_are_multiples_of_alignments() {
        assert_eq!(kmalloc_size(1, 1), 1);
        assert_eq!(kmalloc_size(0, 1), 1);
        assert_eq!(kmalloc_size(0, 64), 64);
        assert_eq!(kmalloc_size(65, 64), 128);
        assert_eq!(kmalloc_size(192, 64), 192);
        let most = isize::MAX as usize & !4095;
        assert_eq!(kmalloc_size(most, 4096), most);
    }

    #[test]
    fn runs_of_pages_are_large_enough() {
        assert_eq!(pages_order(layout(1, 8192), 4096), 1);
        assert_eq!(pages_order(layout(8193, 8192), 4096), 2);
        assert_eq!(pages_order(layout(1, 8192), 65536), 0);
        assert_eq!(pages_order(layout(1, 1 << 62), 4096), 50);
    }

    /// Every byte is written, kept over a move, and every address is aligned.
    #[test]
    fn blocks_of_every_alignment() {
        let sizes: &[usize] = if cfg!(miri) {
            &[1, 24, 100] // Miri takes its time for each byte
        } else {
            &[1, 8, 24, 100, 4000, 70000]
        };
        for shift in [0, 3, 4, 5, 6, 8, 12, 13, 14] {
            for &size in sizes {
                let (align, new_size) = (1usize << shift, size * 2 + 1);
                let old = layout(size, align);
                // SAFETY: blocks are used within their layouts and freed with them.
                unsafe {
                    let mut held = Vec::new();
                    for _ in 0..3 {
                        let p = Ukmem.alloc(old);
                        assert!(!p.is_null());
                        assert_eq!(p as usize % align, 0, "size {} align {}", size, align);
                        p.write_bytes(0x5a, size);
                        held.push(p);
                    }
                    for p in held {
                        let q = Ukmem.realloc(p, old, new_size);
                        assert_eq!(q as usize % align, 0, "size {} align {}", new_size, align);
                        assert!((0..size).all(|i| q.add(i).read() == 0x5a));
                        q.write_bytes(1, new_size);
                        let r = Ukmem.realloc(q, layout(new_size, align), 1);
                        assert_eq!((r as usize % align, r.read()), (0, 1));
                        Ukmem.dealloc(r, layout(1, align));
                    }
                }
            }
        }
    }

    #[test]
    fn zeroed_blocks_are_zero_when_reused() {
        let large = if cfg!(miri) { 1 } else { 1000 };
        for &(size, align) in &[
            (100, 4),
            (30 * large, 8),
            (100 * large, 64),
            (20 * large, 8192),
        ] {
            let layout = layout(size, align);
            for _ in 0..3 {
                // SAFETY: the block is used within its layout and freed with it.
                unsafe {
                    let p = Ukmem.alloc_zeroed(layout);
                    assert!((0..size).all(|i| p.add(i).read() == 0));
                    p.write_bytes(0xff, size);
                    Ukmem.dealloc(p, layout);
                }
            }
        }
    }

    #[cfg(not(any(miri, ukmem_mock)))]
    #[test]
    fn too_much_is_null() {
        let most = isize::MAX as usize;
        // SAFETY: nothing is allocated.
        unsafe {
            assert!(Ukmem.alloc(layout(most & !4095, 4096)).is_null());
            assert!(Ukmem.alloc(layout(most & !8191, 8192)).is_null());
            assert!(Ukmem.alloc(layout(8, 1 << 62)).is_null());
        }
    }

    #[cfg(feature = "allocator-api2")]
    #[test]
    fn allocator_serves_collections() {
        use allocator_api2::alloc::Allocator;
        use allocator_api2::{boxed::Box, vec::Vec};

        #[derive(Clone, PartialEq, Debug)]
        #[repr(align(64))]
        struct Wide(u8);

        let mut v = Vec::new_in(Ukmem);
        for i in 0..1000u32 {
            v.push(i);
        }
        v.truncate(10);
        v.shrink_to_fit();
        assert_eq!(v.iter().sum::<u32>(), 45);
        v.clear();
        v.shrink_to_fit();
        let mut wide = Vec::new_in(Ukmem);
        for i in 0..100 {
            wide.push(Wide(i));
            assert_eq!(wide.as_ptr() as usize % 64, 0);
        }
        assert_eq!(*Box::new_in(Wide(7), Ukmem), Wide(7));
        let nothing = Box::new_in((), Ukmem);
        drop(nothing);
        // SAFETY: blocks are used as the trait says; the last has another alignment.
        unsafe {
            let p = Ukmem.allocate(layout(0, 32)).unwrap();
            assert_eq!((p.as_ptr() as *mut u8 as usize % 32, p.len()), (0, 0));
            let p = Ukmem
                .grow(p.cast(), layout(0, 32), layout(40, 256))
                .unwrap();
            assert_eq!(p.as_ptr() as *mut u8 as usize % 256, 0);
            let p = Ukmem
                .shrink(p.cast(), layout(40, 256), layout(0, 1))
                .unwrap();
            Ukmem.deallocate(p.cast(), layout(0, 1));
        }
    }
}
