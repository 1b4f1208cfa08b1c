// SPDX-License-Identifier: MIT
//! Caches of objects of one type.

use std::borrow::{Borrow, BorrowMut};
use std::cmp;
use std::ffi::CString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::{align_of, size_of, ManuallyDrop};
use std::ops::{BitOr, BitOrAssign, Deref, DerefMut};
use std::pin::Pin;
use std::ptr::{self, NonNull};

use crate::global::AllocError;
use crate::raw;

/// Flags of a new cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFlags(raw::slab_flags_t);

impl CacheFlags {
    /// None.
    pub const NONE: CacheFlags = CacheFlags(0);
    /// Align objects to a cache line (64 bytes); small ones to a part of it.
    pub const HWCACHE_ALIGN: CacheFlags = CacheFlags(raw::SLAB_HWCACHE_ALIGN);
    /// Guards, patterns, checks and call stacks (`SLAB_DEBUG_FLAGS`); a finding ends the process.
    pub const DEBUG: CacheFlags = CacheFlags(raw::SLAB_DEBUG_FLAGS);
}

impl BitOr for CacheFlags {
    type Output = CacheFlags;

    fn bitor(self, other: CacheFlags) -> CacheFlags {
        CacheFlags(self.0 | other.0)
    }
}

impl BitOrAssign for CacheFlags {
    fn bitor_assign(&mut self, other: CacheFlags) {
        *self = *self | other;
    }
}

/// Why there is no new cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The name has a zero byte.
    Name,
    /// The type has more than 16384 bytes, or an alignment above 4096.
    Layout,
    /// There is no memory.
    Memory,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CreateError::Name => "the cache's name has a zero byte",
            CreateError::Layout => "objects of caches have up to 16384 bytes, aligned to 4096",
            CreateError::Memory => "out of memory",
        })
    }
}

impl std::error::Error for CreateError {}

/// A cache of objects of type `T`.
///
/// Each CPU keeps an array of free objects: allocating pops from it and freeing pushes onto it,
/// by one restartable sequence each. Objects are [`CacheBox`]es, which borrow the cache; for a
/// cache that lives as long as the program, put it into a `static`
/// (`OnceLock`, from Rust 1.70 on), or leak its box (`Box::leak`).
///
/// ```
/// use ukmem::{Cache, CacheFlags};
///
/// struct Session {
///     user: String,
/// }
///
/// let sessions: Cache<Session> = Cache::with_flags("session", CacheFlags::HWCACHE_ALIGN)?;
/// let mut s = sessions.alloc(Session { user: "ada".into() })?;
/// s.user.push('!');
/// assert_eq!(sessions.len(), 1);
/// drop(s);
/// assert!(sessions.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An object cannot outlive its cache:
///
/// ```compile_fail
/// let cache: ukmem::Cache<u64> = ukmem::Cache::new("u64").unwrap();
/// let object = cache.alloc(1).unwrap();
/// drop(cache);
/// println!("{}", object);
/// ```
///
/// and goes to another thread only if `T` may:
///
/// ```compile_fail
/// let cache: ukmem::Cache<std::rc::Rc<u64>> = ukmem::Cache::new("rc").unwrap();
/// let object = cache.alloc(std::rc::Rc::new(1)).unwrap();
/// std::thread::scope(|s| { s.spawn(move || drop(object)); });
/// ```
pub struct Cache<T> {
    cache: NonNull<raw::kmem_cache>,
    _objects: PhantomData<fn() -> T>,
}

// SAFETY: every function of a cache may be called from any thread; the cache itself holds no T.
unsafe impl<T> Send for Cache<T> {}
// SAFETY: as above. Its objects are CacheBox<T>, which are Send and Sync only as T is.
unsafe impl<T> Sync for Cache<T> {}

impl<T> Cache<T> {
    /// Makes a cache. `name` is shown in statistics; at most 31 bytes of it are kept.
    pub fn new(name: &str) -> Result<Cache<T>, CreateError> {
        Cache::with_flags(name, CacheFlags::NONE)
    }

    /// Makes a cache with flags.
    pub fn with_flags(name: &str, flags: CacheFlags) -> Result<Cache<T>, CreateError> {
        if size_of::<T>() > 16384 || align_of::<T>() > 4096 {
            return Err(CreateError::Layout);
        }
        let name = CString::new(name).map_err(|_| CreateError::Name)?;
        // SAFETY: the name is read during the call. Objects of zero-sized types have a byte.
        let cache = unsafe {
            raw::kmem_cache_create(
                name.as_ptr().cast(),
                size_of::<T>().max(1) as raw::c_uint,
                align_of::<T>() as raw::c_uint,
                flags.0,
                None,
            )
        };
        Ok(Cache {
            cache: NonNull::new(cache).ok_or(CreateError::Memory)?,
            _objects: PhantomData,
        })
    }

    fn memory(&self, gfp: raw::gfp_t) -> Option<Memory<'_, T>> {
        // SAFETY: the cache lives.
        let p = unsafe { raw::kmem_cache_alloc(self.cache.as_ptr(), gfp) };
        NonNull::new(p.cast()).map(|object| Memory {
            object,
            cache: self,
        })
    }

    /// Allocates an object and moves `value` into it.
    ///
    /// If there is no memory, `value` is dropped; [`Cache::try_alloc`] gives it back.
    pub fn alloc(&self, value: T) -> Result<CacheBox<'_, T>, AllocError> {
        self.try_alloc(value).map_err(|_| AllocError)
    }

    /// Allocates an object and moves `value` into it; gives `value` back if there is no memory.
    pub fn try_alloc(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        match self.memory(raw::GFP_KERNEL) {
            Some(memory) => Ok(memory.fill(value)),
            None => Err(value),
        }
    }

    /// As [`Cache::try_alloc`], without blocking and system calls (`GFP_NOWAIT`).
    pub fn try_alloc_nowait(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        match self.memory(raw::GFP_NOWAIT) {
            Some(memory) => Ok(memory.fill(value)),
            None => Err(value),
        }
    }

    /// Allocates an object and fills it with what `make` returns. If `make` panics, the memory
    /// is freed.
    pub fn alloc_with(&self, make: impl FnOnce() -> T) -> Result<CacheBox<'_, T>, AllocError> {
        let memory = self.memory(raw::GFP_KERNEL).ok_or(AllocError)?;
        Ok(memory.fill(make()))
    }

    /// Objects in use, those that were forgotten included; exact if no thread is busy. Samples
    /// of the heap profile (tunable `profile`) are not counted, and with the tunable
    /// `passthrough` none is.
    pub fn len(&self) -> usize {
        // SAFETY: the cache lives.
        unsafe { raw::kmem_cache_nr_allocated(self.cache.as_ptr()) as usize }
    }

    /// Whether no object is in use; as exact as [`Cache::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives free objects and slabs back to the page allocator.
    pub fn shrink(&self) {
        // SAFETY: the cache lives.
        unsafe { raw::kmem_cache_shrink(self.cache.as_ptr()) };
    }

    /// Lets allocations fail, to test how callers handle it: `after` ones still succeed, then
    /// `times` fail; with `times` 0 all fail.
    pub fn fail(&self, after: u32, times: u32) {
        // SAFETY: the cache lives.
        unsafe { raw::kmem_cache_fail(self.cache.as_ptr(), after.into(), times.into()) };
    }
}

impl<T> Drop for Cache<T> {
    /// Gives the memory back. If objects were forgotten, the library keeps them and logs their
    /// number, without those that [`Cache::len`] does not count.
    fn drop(&mut self) {
        // SAFETY: nobody borrows the cache, so only forgotten objects are left, whose slabs the
        // library keeps.
        unsafe { raw::kmem_cache_destroy(self.cache.as_ptr()) };
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("len", &self.len()).finish()
    }
}

/// Memory of an object that is not made yet; freed if that panics.
struct Memory<'a, T> {
    object: NonNull<T>,
    cache: &'a Cache<T>,
}

impl<'a, T> Memory<'a, T> {
    fn fill(self, value: T) -> CacheBox<'a, T> {
        let memory = ManuallyDrop::new(self);
        // SAFETY: the memory is large enough, aligned, and nobody else's.
        unsafe { memory.object.as_ptr().write(value) };
        CacheBox {
            object: memory.object,
            cache: memory.cache,
            _owns: PhantomData,
        }
    }
}

impl<T> Drop for Memory<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the memory came from this cache and holds no object.
        unsafe { raw::kmem_cache_free(self.cache.cache.as_ptr(), self.object.as_ptr().cast()) };
    }
}

/// Owns an object of a [`Cache`], as `Box` owns one of the heap.
pub struct CacheBox<'a, T> {
    object: NonNull<T>,
    cache: &'a Cache<T>,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its object alone, and any thread may free it.
unsafe impl<T: Send> Send for CacheBox<'_, T> {}
// SAFETY: a shared box gives shared access to the object only.
unsafe impl<T: Sync> Sync for CacheBox<'_, T> {}
/// Moving the box does not move its object.
impl<T> Unpin for CacheBox<'_, T> {}

impl<'a, T> CacheBox<'a, T> {
    fn into_memory(b: CacheBox<'a, T>) -> Memory<'a, T> {
        let b = ManuallyDrop::new(b);
        Memory {
            object: b.object,
            cache: b.cache,
        }
    }

    /// Moves the value out and frees the object.
    pub fn into_inner(b: CacheBox<'a, T>) -> T {
        let memory = CacheBox::into_memory(b);
        // SAFETY: the object is read once; `memory` frees without dropping it.
        unsafe { memory.object.as_ptr().read() }
    }

    /// Gives the object away for as long as the cache is borrowed. Its memory is never freed.
    pub fn leak(b: CacheBox<'a, T>) -> &'a mut T {
        let b = ManuallyDrop::new(b);
        // SAFETY: nobody else has the object, and the library keeps the slabs of leaked objects.
        unsafe { &mut *b.object.as_ptr() }
    }

    /// Pins the object, which never moves.
    pub fn into_pin(b: CacheBox<'a, T>) -> Pin<CacheBox<'a, T>> {
        // SAFETY: the object stays where it is until it is dropped, also if the box is forgotten.
        unsafe { Pin::new_unchecked(b) }
    }
}

impl<T> Deref for CacheBox<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object lives, and the box is borrowed.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for CacheBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the object lives, and the box is borrowed alone.
        unsafe { self.object.as_mut() }
    }
}

impl<T> Drop for CacheBox<'_, T> {
    fn drop(&mut self) {
        let _memory = Memory {
            object: self.object,
            cache: self.cache,
        };
        // SAFETY: the object lives and is dropped once. `_memory` is freed also if that panics.
        unsafe { ptr::drop_in_place(self.object.as_ptr()) };
    }
}

impl<T> AsRef<T> for CacheBox<'_, T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T> AsMut<T> for CacheBox<'_, T> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T> Borrow<T> for CacheBox<'_, T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T> BorrowMut<T> for CacheBox<'_, T> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<'a, T> From<CacheBox<'a, T>> for Pin<CacheBox<'a, T>> {
    fn from(b: CacheBox<'a, T>) -> Self {
        CacheBox::into_pin(b)
    }
}

// Boxes compare and hash as their objects do, whichever caches these are of.

impl<T: PartialEq> PartialEq<CacheBox<'_, T>> for CacheBox<'_, T> {
    fn eq(&self, other: &CacheBox<'_, T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for CacheBox<'_, T> {}

impl<T: PartialOrd> PartialOrd<CacheBox<'_, T>> for CacheBox<'_, T> {
    fn partial_cmp(&self, other: &CacheBox<'_, T>) -> Option<cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord> Ord for CacheBox<'_, T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash> Hash for CacheBox<'_, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for CacheBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for CacheBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;

    struct Counted(Arc<AtomicUsize>, bool);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if self.1 {
                panic!("in drop");
            }
        }
    }

    #[test]
    fn objects_are_dropped_once() {
        let cache = Cache::new("rs once").unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let mut boxes = Vec::new();

        for _ in 0..100 {
            boxes.push(cache.alloc(Counted(drops.clone(), false)).unwrap());
        }
        assert_eq!(cache.len(), 100);
        let inner = CacheBox::into_inner(boxes.pop().unwrap());
        assert_eq!((cache.len(), drops.load(Ordering::Relaxed)), (99, 0));
        drop(inner);
        drop(boxes);
        assert_eq!((cache.len(), drops.load(Ordering::Relaxed)), (0, 100));
        assert_eq!(Arc::strong_count(&drops), 1);
    }

    #[test]
    fn flags_add_up() {
        let mut flags = CacheFlags::NONE;

        flags |= CacheFlags::HWCACHE_ALIGN;
        assert_eq!(flags.0, CacheFlags::HWCACHE_ALIGN.0);
        flags |= CacheFlags::DEBUG;
        assert_eq!(flags.0, (CacheFlags::HWCACHE_ALIGN | CacheFlags::DEBUG).0);
        assert!(Cache::<u64>::with_flags("rs flags", flags).is_ok());
    }

    #[test]
    fn panics_leak_no_memory() {
        let cache = Cache::new("rs panics").unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let made = catch_unwind(AssertUnwindSafe(|| {
            let _ = cache.alloc_with(|| -> Counted { panic!("in make") });
        }));
        assert!(made.is_err());
        assert_eq!(cache.len(), 0);
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            drop(cache.alloc(Counted(drops.clone(), true)));
        }));
        assert!(dropped.is_err());
        assert_eq!((cache.len(), drops.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn values_come_back_when_there_is_no_memory() {
        let cache = Cache::new("rs fails").unwrap();

        cache.fail(0, 3);
        assert_eq!(cache.try_alloc(String::from("back")).unwrap_err(), "back");
        assert_eq!(cache.alloc(String::new()).unwrap_err(), AllocError);
        assert!(cache.alloc_with(|| unreachable!()).is_err());
        assert_eq!(*cache.alloc(String::from("again")).unwrap(), "again");
        assert!(cache.try_alloc_nowait(String::from("now")).is_ok());
    }

    #[test]
    fn zero_sized_and_aligned_types() {
        #[derive(Debug)]
        #[repr(align(1024))]
        struct Wide(u8);
        #[repr(align(64))]
        struct Empty;

        let empty = Cache::new("rs empty").unwrap();
        let (a, b) = (empty.alloc(Empty).unwrap(), empty.alloc(Empty).unwrap());
        assert_eq!(&*a as *const Empty as usize % 64, 0);
        assert_eq!(empty.len(), 2);
        drop((a, b));
        let wide = Cache::with_flags("rs wide", CacheFlags::HWCACHE_ALIGN).unwrap();
        let all: Vec<_> = (0..9).map(|i| wide.alloc(Wide(i)).unwrap()).collect();
        for (i, w) in all.iter().enumerate() {
            assert_eq!((&**w as *const Wide as usize % 1024, w.0), (0, i as u8));
        }
    }

    #[test]
    fn impossible_caches() {
        #[repr(align(8192))]
        struct TooAligned;

        assert_eq!(
            Cache::<[u8; 16385]>::new("large").unwrap_err(),
            CreateError::Layout
        );
        assert_eq!(
            Cache::<TooAligned>::new("aligned").unwrap_err(),
            CreateError::Layout
        );
        assert_eq!(Cache::<u8>::new("a\0b").unwrap_err(), CreateError::Name);
        assert!(Cache::<[u8; 16384]>::new("a name of more than thirty-one bytes").is_ok());
    }

    #[test]
    fn threads_free_what_others_allocated() {
        let cache = Cache::new("rs threads").unwrap();
        let rounds = if cfg!(miri) { 4 } else { 2000 };

        std::thread::scope(|s| {
            let (send, receive) = std::sync::mpsc::channel::<CacheBox<'_, u64>>();
            s.spawn(move || {
                for (i, b) in receive.into_iter().enumerate() {
                    assert_eq!(CacheBox::into_inner(b), i as u64);
                }
            });
            for i in 0..rounds {
                send.send(cache.alloc(i).unwrap()).unwrap();
            }
            drop(send);
        });
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn moves_though_its_object_is_pinned() {
        fn unpin<T: Unpin>() {}
        unpin::<CacheBox<'static, std::marker::PhantomPinned>>();
    }

    #[test]
    fn pinned_objects_stay() {
        let cache = Cache::new("rs pin").unwrap();
        let pinned = CacheBox::into_pin(cache.alloc([1u64; 4]).unwrap());
        let address = &*pinned as *const [u64; 4];
        let moved = pinned;

        assert_eq!(&*moved as *const [u64; 4], address);
        assert_eq!(
            format!("{:?} {:?}", moved, cache),
            "[1, 1, 1, 1] Cache { len: 1 }"
        );
    }

    #[test]
    fn boxes_are_keys_as_their_objects_are() {
        let (one, other) = (
            Cache::new("rs one").unwrap(),
            Cache::new("rs other").unwrap(),
        );
        fn name<'a>(cache: &'a Cache<String>, name: &str) -> CacheBox<'a, String> {
            cache.alloc(name.into()).unwrap()
        }
        assert_eq!(name(&one, "a"), name(&other, "a"));
        assert!(name(&one, "a") < name(&other, "b"));

        let set: HashSet<_> = ["a", "b", "a"].iter().map(|n| name(&one, n)).collect();
        assert_eq!(set.len(), 2);
        let found: &CacheBox<'_, String> = set.get(&String::from("b")).unwrap();
        let found: &String = found.as_ref();
        assert_eq!(found, "b");
        let mut map: BTreeMap<_, _> = ["b", "a"].iter().map(|n| (name(&one, n), *n)).collect();
        assert_eq!(map.remove(&String::from("a")), Some("a"));
        assert_eq!(one.len(), 3);

        let pinned: Pin<CacheBox<'_, String>> = name(&one, "pinned").into();
        assert_eq!(*pinned, "pinned");
    }

    #[cfg(not(any(miri, ukmem_mock)))]
    #[test]
    fn forgotten_objects_outlive_their_cache() {
        let cache = Cache::with_flags("rs forgotten", CacheFlags::DEBUG).unwrap();
        let object = CacheBox::leak(cache.alloc(5u64).unwrap()) as *mut u64;

        drop(cache); // logs one object
                     // SAFETY: the library keeps the slabs of objects in use.
        assert_eq!(unsafe { object.read() }, 5);
    }
}
