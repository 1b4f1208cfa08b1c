// SPDX-License-Identifier: MIT
//! A bounded FIFO queue between any number of threads, with bulk operations.
//!
//! A thread that is preempted, anywhere, keeps no other thread waiting.
//!
//! ```
//! use ukmem::alf::Queue;
//!
//! let queue: Queue<Box<String>> = Queue::new(1024)?;
//! queue.push(Box::new("one".into())).unwrap();
//! let mut more: Vec<_> = (2..5).map(|i| Box::new(i.to_string())).collect();
//! assert_eq!(queue.push_burst(&mut more), 3);
//! assert_eq!(*queue.pop().unwrap(), "one");
//! let mut rest = Vec::new();
//! assert_eq!(queue.pop_burst(&mut rest, 16), 3);
//! # Ok::<(), ukmem::alf::CreateError>(())
//! ```
//!
//! Where one thread alone produces and one alone consumes, [`Queue::split`] gives each a half
//! whose functions are plain loads and stores.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::raw;

/// Pointers moved by one call of the library.
const BURST: usize = 32;

/// What a queue can carry: one pointer that owns, or may share, what it points to.
///
/// # Safety
///
/// `from_raw(into_raw(p))` gives `p` back, in another thread, too, if `Self: Send`; and
/// `into_raw` leaves nothing behind that would be dropped.
pub unsafe trait Pointer: Sized {
    /// The pointer as a number of 64 bits, which may be anything.
    fn into_raw(self) -> *mut c_void;
    /// Gives it back.
    ///
    /// # Safety
    ///
    /// `p` comes from `into_raw`, and is given back once.
    unsafe fn from_raw(p: *mut c_void) -> Self;
}

// SAFETY: Box::from_raw takes what Box::into_raw gave.
unsafe impl<T> Pointer for Box<T> {
    fn into_raw(self) -> *mut c_void {
        Box::into_raw(self).cast()
    }
    unsafe fn from_raw(p: *mut c_void) -> Box<T> {
        // SAFETY: the caller's.
        unsafe { Box::from_raw(p.cast()) }
    }
}

// SAFETY: Arc::from_raw takes what Arc::into_raw gave.
unsafe impl<T> Pointer for Arc<T> {
    fn into_raw(self) -> *mut c_void {
        Arc::into_raw(self) as *mut c_void
    }
    unsafe fn from_raw(p: *mut c_void) -> Arc<T> {
        // SAFETY: the caller's.
        unsafe { Arc::from_raw(p as *const T) }
    }
}

// SAFETY: a reference is its address.
unsafe impl<'a, T> Pointer for &'a T {
    fn into_raw(self) -> *mut c_void {
        self as *const T as *mut c_void
    }
    unsafe fn from_raw(p: *mut c_void) -> &'a T {
        // SAFETY: the caller's; the queue is not used beyond 'a.
        unsafe { &*(p as *const T) }
    }
}

// SAFETY: as above.
unsafe impl<'a, T> Pointer for &'a mut T {
    fn into_raw(self) -> *mut c_void {
        (self as *mut T).cast()
    }
    unsafe fn from_raw(p: *mut c_void) -> &'a mut T {
        // SAFETY: the caller's; it is given back once.
        unsafe { &mut *p.cast() }
    }
}

/// Why there is no new queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The size is no power of two, or above 65536.
    Size,
    /// There is no memory.
    Memory,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CreateError::Size => "a queue's size is a power of two up to 65536",
            CreateError::Memory => "out of memory",
        })
    }
}

impl std::error::Error for CreateError {}

type Enqueue = unsafe fn(*mut raw::alf_queue, *const *mut c_void, u32) -> raw::c_uint;
type Dequeue = unsafe fn(*mut raw::alf_queue, *mut *mut c_void, u32) -> raw::c_uint;

unsafe fn mp(q: *mut raw::alf_queue, p: *const *mut c_void, n: u32) -> raw::c_uint {
    // SAFETY: the caller's.
    unsafe { raw::alf_mp_enqueue_burst(q, p, n) }
}

unsafe fn mc(q: *mut raw::alf_queue, p: *mut *mut c_void, n: u32) -> raw::c_uint {
    // SAFETY: the caller's.
    unsafe { raw::alf_mc_dequeue_burst(q, p, n) }
}

unsafe fn sp(q: *mut raw::alf_queue, p: *const *mut c_void, n: u32) -> raw::c_uint {
    // SAFETY: the caller's.
    unsafe { raw::alf_sp_enqueue_burst(q, p, n) }
}

unsafe fn sc(q: *mut raw::alf_queue, p: *mut *mut c_void, n: u32) -> raw::c_uint {
    // SAFETY: the caller's.
    unsafe { raw::alf_sc_dequeue_burst(q, p, n) }
}

/// A bounded queue of pointers `P`: `Box<T>`, `Arc<T>` or references.
///
/// Its functions may be called by any number of threads. The queue owns what is in it, and drops
/// that when it is dropped.
///
/// A pointer that may not go to another thread cannot:
///
/// ```compile_fail
/// use ukmem::alf::Queue;
/// let queue: Queue<Box<std::rc::Rc<u64>>> = Queue::new(4).unwrap();
/// std::thread::scope(|s| { s.spawn(|| queue.pop()); });
/// ```
///
/// Nor does it pass for a queue of references that live shorter, since others take them out:
///
/// ```compile_fail
/// use ukmem::alf::Queue;
/// fn lend<'a>(queue: &Queue<&'a String>, s: &'a String) {
///     queue.push(s).unwrap();
/// }
/// let queue: Queue<&'static String> = Queue::new(4).unwrap();
/// lend(&queue, &String::from("short"));
/// ```
pub struct Queue<P: Pointer> {
    queue: NonNull<raw::alf_queue>,
    _owns: PhantomData<Cell<P>>, // invariant: a shared queue is written to
}

// SAFETY: what it carries may go to other threads.
unsafe impl<P: Pointer + Send> Send for Queue<P> {}
// SAFETY: any thread may push and pop, so sharing the queue is sending what it carries.
unsafe impl<P: Pointer + Send> Sync for Queue<P> {}

impl<P: Pointer> Queue<P> {
    /// Makes an empty queue for up to `size` pointers, a power of two up to 65536.
    pub fn new(size: u32) -> Result<Queue<P>, CreateError> {
        if !size.is_power_of_two() || size > 65536 {
            return Err(CreateError::Size);
        }
        // SAFETY: the size is one that the library takes.
        let queue = unsafe { raw::alf_queue_alloc(size, raw::GFP_KERNEL) };
        if queue as usize > usize::MAX - 4095 {
            return Err(CreateError::Memory); // an error number
        }
        Ok(Queue {
            queue: NonNull::new(queue).ok_or(CreateError::Memory)?,
            _owns: PhantomData,
        })
    }

    /// # Safety
    ///
    /// The caller may use the producers' side by `enqueue` now.
    unsafe fn push_by(&self, p: P, enqueue: Enqueue) -> Result<(), P> {
        let p = p.into_raw();
        // SAFETY: the caller's. A pointer that was not taken is given back.
        unsafe {
            match enqueue(self.queue.as_ptr(), &p, 1) {
                1 => Ok(()),
                _ => Err(P::from_raw(p)),
            }
        }
    }

    /// # Safety
    ///
    /// As `push_by`.
    unsafe fn push_burst_by(&self, items: &mut Vec<P>, enqueue: Enqueue) -> usize {
        let (first, len) = (items.as_mut_ptr(), items.len());
        let mut done = 0;

        // SAFETY: here the items are nobody's: a panic would leak them, not drop them twice.
        unsafe { items.set_len(0) };
        while done < len {
            let n = BURST.min(len - done);
            let mut burst = [std::ptr::null_mut(); BURST];
            for (i, place) in burst[..n].iter_mut().enumerate() {
                // SAFETY: the item is there, and becomes the queue's or is written back.
                *place = unsafe { first.add(done + i).read() }.into_raw();
            }
            // SAFETY: the caller's.
            let taken = unsafe { enqueue(self.queue.as_ptr(), burst.as_ptr(), n as u32) };
            let taken = taken as usize;
            for (i, &p) in burst.iter().enumerate().take(n).skip(taken) {
                // SAFETY: those that were not taken go back to where they were.
                unsafe { first.add(done + i).write(P::from_raw(p)) };
            }
            done += taken;
            if taken < n {
                break;
            }
        }
        // SAFETY: the first `done` are the queue's now; the others move to the front.
        unsafe {
            std::ptr::copy(first.add(done), first, len - done);
            items.set_len(len - done);
        }
        done
    }

    /// # Safety
    ///
    /// The caller may use the consumers' side by `dequeue` now.
    unsafe fn pop_by(&self, dequeue: Dequeue) -> Option<P> {
        let mut p = std::ptr::null_mut();
        // SAFETY: the caller's. What the queue gives came from into_raw, and is given once.
        unsafe {
            match dequeue(self.queue.as_ptr(), &mut p, 1) {
                0 => None,
                _ => Some(P::from_raw(p)),
            }
        }
    }

    /// # Safety
    ///
    /// As `pop_by`.
    unsafe fn pop_burst_by(&self, out: &mut Vec<P>, most: usize, dequeue: Dequeue) -> usize {
        let mut done = 0;

        while done < most {
            let n = BURST.min(most - done);
            let mut burst = [std::ptr::null_mut(); BURST];
            out.reserve(n); // before anything is taken: it may panic
                            // SAFETY: the caller's.
            let got = unsafe { dequeue(self.queue.as_ptr(), burst.as_mut_ptr(), n as u32) };
            // SAFETY: what the queue gives came from into_raw, and is given once.
            out.extend(
                burst[..got as usize]
                    .iter()
                    .map(|&p| unsafe { P::from_raw(p) }),
            );
            done += got as usize;
            if (got as usize) < n {
                break;
            }
        }
        done
    }

    /// Appends a pointer; gives it back if the queue is full.
    ///
    /// Like `alf_mp_enqueue`, it may do so although the queue is not full, rarely: where a thread
    /// without restartable sequences is preempted in the middle, or where the system refuses
    /// membarrier. In the same way [`Queue::pop`] may find a queue empty that is not.
    /// [`Queue::split`] makes halves that are exact.
    pub fn push(&self, p: P) -> Result<(), P> {
        // SAFETY: halves do not share their queue with anyone who could call this.
        unsafe { self.push_by(p, mp) }
    }

    /// Appends the first of `items`, as many as there is room for, and removes them from there.
    /// Returns how many.
    pub fn push_burst(&self, items: &mut Vec<P>) -> usize {
        // SAFETY: as push().
        unsafe { self.push_burst_by(items, mp) }
    }

    /// Takes the first pointer; `None` if the queue is empty.
    pub fn pop(&self) -> Option<P> {
        // SAFETY: as push().
        unsafe { self.pop_by(mc) }
    }

    /// Takes up to `most` pointers and appends them to `out`. Returns how many.
    pub fn pop_burst(&self, out: &mut Vec<P>, most: usize) -> usize {
        // SAFETY: as push().
        unsafe { self.pop_burst_by(out, most, mc) }
    }

    /// Makes two halves of the queue, for one thread each.
    ///
    /// ```
    /// let queue: ukmem::alf::Queue<Box<u64>> = ukmem::alf::Queue::new(64)?;
    /// let (mut producer, mut consumer) = queue.split();
    /// let thread = std::thread::spawn(move || producer.push(Box::new(7)));
    /// thread.join().unwrap().unwrap();
    /// assert_eq!(consumer.pop(), Some(Box::new(7)));
    /// # Ok::<(), ukmem::alf::CreateError>(())
    /// ```
    pub fn split(self) -> (Producer<P>, Consumer<P>) {
        // SAFETY: nobody else has the queue.
        unsafe { raw::alf_queue_hand_over(self.queue.as_ptr()) };
        let queue = Arc::new(self);
        (
            Producer {
                queue: queue.clone(),
            },
            Consumer { queue },
        )
    }

    /// How many pointers the queue can hold.
    pub fn capacity(&self) -> usize {
        // SAFETY: the queue lives.
        unsafe { raw::alf_queue_size(self.queue.as_ptr()) as usize }
    }

    /// How many there are; about right while other threads use the queue.
    pub fn len(&self) -> usize {
        // SAFETY: the queue lives.
        unsafe { raw::alf_queue_count(self.queue.as_ptr()) as usize }
    }

    /// Whether there is none; as exact as [`Queue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Frees the queue, also if dropping what is in it panics.
struct Freed(NonNull<raw::alf_queue>);

impl Drop for Freed {
    fn drop(&mut self) {
        // SAFETY: its owner is being dropped.
        unsafe { raw::alf_queue_free(self.0.as_ptr()) };
    }
}

/// Drops what is in the queue, also if dropping one of them panics: the rest then.
struct Rest<'a, P: Pointer>(&'a Queue<P>);

impl<P: Pointer> Rest<'_, P> {
    fn drop_all(&self) {
        // SAFETY: nobody else has the queue, and it was handed over. So this thread is the one
        // consumer; pop() may find its side in another CPU's hands, and then says that the
        // queue is empty.
        while let Some(p) = unsafe { self.0.pop_by(sc) } {
            drop(p);
        }
    }
}

impl<P: Pointer> Drop for Rest<'_, P> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

impl<P: Pointer> Drop for Queue<P> {
    fn drop(&mut self) {
        let _freed = Freed(self.queue);
        // SAFETY: nobody else has the queue, whichever way it was used.
        unsafe { raw::alf_queue_hand_over(self.queue.as_ptr()) };
        let rest = Rest(self);
        rest.drop_all();
    }
}

impl<P: Pointer> Queue<P> {
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

impl<P: Pointer> fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("Queue", f)
    }
}

/// The producers' side of a queue, for one thread at a time: plain stores.
pub struct Producer<P: Pointer> {
    queue: Arc<Queue<P>>,
}

impl<P: Pointer> fmt::Debug for Producer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt_as("Producer", f)
    }
}

impl<P: Pointer> Producer<P> {
    /// Appends a pointer; gives it back if the queue is full.
    pub fn push(&mut self, p: P) -> Result<(), P> {
        // SAFETY: there is one producer, and it is borrowed alone.
        unsafe { self.queue.push_by(p, sp) }
    }

    /// Appends the first of `items`, as many as there is room for, and removes them from there.
    pub fn push_burst(&mut self, items: &mut Vec<P>) -> usize {
        // SAFETY: as push().
        unsafe { self.queue.push_burst_by(items, sp) }
    }

    /// How many pointers are in the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// The consumers' side of a queue, for one thread at a time: plain loads and a store.
pub struct Consumer<P: Pointer> {
    queue: Arc<Queue<P>>,
}

impl<P: Pointer> fmt::Debug for Consumer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt_as("Consumer", f)
    }
}

impl<P: Pointer> Consumer<P> {
    /// Takes the first pointer; `None` if the queue is empty.
    pub fn pop(&mut self) -> Option<P> {
        // SAFETY: there is one consumer, and it is borrowed alone.
        unsafe { self.queue.pop_by(sc) }
    }

    /// Takes up to `most` pointers and appends them to `out`. Returns how many.
    pub fn pop_burst(&mut self, out: &mut Vec<P>, most: usize) -> usize {
        // SAFETY: as pop().
        unsafe { self.queue.pop_burst_by(out, most, sc) }
    }

    /// How many pointers are in the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn order_and_bounds() {
        let q = Queue::new(8).unwrap();
        let mut items: Vec<Box<u32>> = (0..12).map(Box::new).collect();

        assert_eq!(q.push_burst(&mut items), 8);
        assert_eq!(
            items.iter().map(|i| **i).collect::<Vec<_>>(),
            [8, 9, 10, 11]
        );
        assert_eq!(q.push(Box::new(99)).unwrap_err(), Box::new(99));
        assert_eq!((q.len(), q.capacity(), q.is_empty()), (8, 8, false));
        assert_eq!(q.pop(), Some(Box::new(0)));
        let mut out = vec![Box::new(100)];
        assert_eq!(q.pop_burst(&mut out, 100), 7);
        assert_eq!(
            out.iter().map(|i| **i).collect::<Vec<_>>(),
            [100, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!((q.pop(), q.pop_burst(&mut out, 3)), (None, 0));
        assert_eq!(q.push_burst(&mut Vec::new()), 0);
        assert_eq!(format!("{:?}", q), "Queue { len: 0, capacity: 8 }");
    }

    #[test]
    fn bursts_longer_than_the_array() {
        let q = Queue::new(256).unwrap();
        let mut items: Vec<Arc<usize>> = (0..100).map(Arc::new).collect();
        let mut out = Vec::new();

        assert_eq!(q.push_burst(&mut items), 100);
        assert!(items.is_empty());
        assert_eq!(q.pop_burst(&mut out, 70), 70);
        assert_eq!(q.pop_burst(&mut out, 70), 30);
        assert!(out.iter().enumerate().all(|(i, v)| i == **v));
    }

    #[test]
    fn the_rest_is_dropped_if_a_drop_panics() {
        struct Counted(Arc<()>);
        impl Drop for Counted {
            fn drop(&mut self) {
                assert_ne!(Arc::strong_count(&self.0), 6, "the first one's drop panics");
            }
        }
        let shared = Arc::new(());
        let q = Queue::new(8).unwrap();

        for _ in 0..5 {
            assert!(q.push(Box::new(Counted(shared.clone()))).is_ok());
        }
        assert_eq!(Arc::strong_count(&shared), 6);
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(q)));
        assert!(dropped.is_err());
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn what_is_left_is_dropped() {
        let shared = Arc::new(0);
        let q = Queue::new(4).unwrap();

        for _ in 0..3 {
            q.push(shared.clone()).unwrap();
        }
        drop(q.pop());
        assert_eq!(Arc::strong_count(&shared), 3);
        drop(q);
        assert_eq!(Arc::strong_count(&shared), 1);
        let (mut producer, consumer) = Queue::new(4).unwrap().split();
        producer.push(shared.clone()).unwrap();
        drop(producer);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(consumer);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn references_and_nothing() {
        let (a, mut b) = (1, 2);
        let shared = Queue::new(2).unwrap();
        shared.push(&a).unwrap();
        assert_eq!(shared.pop(), Some(&1));
        let unique = Queue::new(2).unwrap();
        unique.push(&mut b).unwrap();
        *unique.pop().unwrap() += 1;
        drop(unique);
        assert_eq!(b, 3);
        let nothing = Queue::new(1).unwrap();
        nothing.push(Box::new(())).unwrap();
        assert_eq!(nothing.pop(), Some(Box::new(())));
        assert!(nothing.pop().is_none());
    }

    #[test]
    fn halves_show_themselves_as_queues_do() {
        struct Plain; // not Debug
        let (mut producer, consumer) = Queue::new(2).unwrap().split();
        assert!(producer.push(Box::new(Plain)).is_ok());
        assert_eq!(
            format!("{:?} {:?}", producer, consumer),
            "Producer { len: 1, capacity: 2 } Consumer { len: 1, capacity: 2 }"
        );
    }

    #[test]
    fn impossible_sizes() {
        for size in [0, 3, 65537, 1 << 17] {
            assert_eq!(Queue::<Box<u8>>::new(size).unwrap_err(), CreateError::Size);
        }
        assert!(Queue::<Box<u8>>::new(65536).is_ok());
    }

    #[test]
    fn many_threads() {
        let (q, n) = (
            Queue::new(64).unwrap(),
            if cfg!(miri) { 20u64 } else { 3000 },
        );
        let (sum, got) = (AtomicU64::new(0), AtomicU64::new(0));

        std::thread::scope(|s| {
            for t in 0..2 {
                let q = &q;
                s.spawn(move || {
                    for i in 0..n {
                        let mut p = Box::new(i * 2 + t);
                        while let Err(back) = q.push(p) {
                            p = back;
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..2 {
                s.spawn(|| {
                    while got.load(Ordering::Relaxed) < 2 * n {
                        match q.pop() {
                            Some(p) => {
                                sum.fetch_add(*p, Ordering::Relaxed);
                                got.fetch_add(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), n * (2 * n - 1));
    }

    #[test]
    fn halves() {
        let (mut producer, mut consumer) = Queue::new(16).unwrap().split();
        let n = if cfg!(miri) { 40u64 } else { 5000 };

        std::thread::scope(|s| {
            s.spawn(move || {
                let mut next = 0;
                let mut items = Vec::new();
                while next < n || !items.is_empty() {
                    while items.len() < 5 && next < n {
                        items.push(Box::new(next));
                        next += 1;
                    }
                    if producer.push_burst(&mut items) == 0 {
                        std::thread::yield_now();
                    }
                }
                assert!(producer.len() <= 16 || producer.is_empty());
            });
            let mut out = Vec::new();
            let mut expected = 0;
            while expected < n {
                if consumer.pop_burst(&mut out, 7) == 0 {
                    std::thread::yield_now();
                }
                for p in out.drain(..) {
                    assert_eq!(*p, expected);
                    expected += 1;
                }
            }
            assert!(consumer.pop().is_none());
        });
    }
}
