// SPDX-License-Identifier: MIT
//! Statistics of the library's memory, and functions that give it back.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::io::{AsFd, AsRawFd, FromRawFd};
use std::thread;

use crate::raw;

/// The six gauges, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Objects and large blocks in use by the program, by usable size.
    pub allocated: usize,
    /// Pages that these lie in: all slabs and all large blocks.
    pub active: usize,
    /// Physical memory behind the library's pages and metadata, as the kernel reports it.
    pub resident: usize,
    /// Pages taken from the system that are free now and were not given back.
    pub retained: usize,
    /// Memory taken from the system for pages: active and retained.
    pub mapped: usize,
    /// Physical memory behind page entries and per-CPU areas.
    pub metadata: usize,
}

/// Reads the gauges. Never stops other threads.
///
/// ```
/// let g = ukmem::gauges();
/// assert!(g.allocated <= g.active && g.active <= g.mapped);
/// ```
pub fn gauges() -> Gauges {
    let mut g = raw::ukmem_gauges::default();
    // SAFETY: the library fills the structure.
    unsafe { raw::ukmem_gauges_read(&mut g) };
    Gauges {
        allocated: g.allocated,
        active: g.active,
        resident: g.resident,
        retained: g.retained,
        mapped: g.mapped,
        metadata: g.metadata,
    }
}

/// The form of printed statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Mode, gauges and a row for each cache.
    Text,
    /// These and the other tables.
    Json,
}

/// Prints mode, gauges and a row for each cache to an open file.
///
/// ```
/// ukmem::print_stats(&std::io::stderr(), ukmem::Format::Text)?;
/// ukmem::print_stats(&std::fs::File::create("/dev/null")?, ukmem::Format::Json)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The number of a descriptor is none:
///
/// ```compile_fail,E0277
/// let _ = ukmem::print_stats(&2, ukmem::Format::Text);
/// ```
pub fn print_stats(file: &impl AsFd, format: Format) -> io::Result<()> {
    let format = match format {
        Format::Text => raw::UKMEM_STATS_TEXT,
        Format::Json => raw::UKMEM_STATS_JSON,
    };
    // SAFETY: the library writes to the file, which is open.
    match unsafe { raw::ukmem_stats_print(file.as_fd().as_raw_fd(), format) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

extern "C" {
    fn pipe2(ends: *mut raw::c_int, flags: raw::c_int) -> raw::c_int;
}

/// The statistics as text in JSON: `"gauges"`, `"caches"`, `"pools"` and others.
///
/// ```
/// let text = ukmem::stats_json()?;
/// assert!(text.starts_with('{') && text.contains("\"gauges\""));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stats_json() -> io::Result<String> {
    const O_CLOEXEC: raw::c_int = 0o2000000; // of x86-64 and aarch64
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { pipe2(ends.as_mut_ptr(), O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptors are new, and nobody else's.
    let [mut read_end, write_end] = ends.map(|fd| unsafe { File::from_raw_fd(fd) });
    // A pipe has no size that RLIMIT_FSIZE limits. It holds less than the text may be.
    let reader = thread::Builder::new().spawn(move || {
        let mut text = String::new();
        read_end.read_to_string(&mut text).map(|_| text)
    })?;
    let printed = print_stats(&write_end, Format::Json);
    drop(write_end);
    let text = reader.join().expect("reading does not panic");
    printed.and(text)
}

/// Gives free memory back to the system, but for what CPUs have at hand if that keeps little.
/// Returns how many bytes that were.
pub fn trim() -> usize {
    // SAFETY: any thread may call it.
    unsafe { raw::ukmem_trim() }
}

/// Verifies the library's own structures; returns the number of findings, 0 if they are sound.
///
/// It walks over all free memory under locks: for tests, and for the search after code that
/// writes where it should not.
pub fn verify() -> usize {
    // SAFETY: without a file nothing is written.
    unsafe { raw::ukmem_verify(std::ptr::null_mut()) as usize }
}

fn static_text(p: *const raw::c_char) -> &'static str {
    // SAFETY: the library's strings are static and ASCII.
    unsafe { CStr::from_ptr(p.cast()) }.to_str().unwrap_or("")
}

/// How per-CPU data is reached here: `"rseq"` or `"fallback"`.
pub fn mode() -> &'static str {
    // SAFETY: the result is a static string.
    static_text(unsafe { raw::percpu_mode_name() })
}

/// The version of the C library.
pub fn version() -> &'static str {
    // SAFETY: the result is a static string.
    static_text(unsafe { raw::ukmem_version() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_follow_allocations() {
        use std::alloc::{GlobalAlloc, Layout};
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let before = gauges().allocated;
        // SAFETY: the block is freed with its layout.
        unsafe {
            let p = crate::Ukmem.alloc(layout);
            assert!(gauges().allocated >= before.saturating_sub(1 << 18) + (1 << 20));
            crate::Ukmem.dealloc(p, layout);
        }
    }

    #[cfg(not(any(miri, ukmem_mock)))]
    #[test]
    fn texts() {
        assert!(["rseq", "fallback"].contains(&mode()));
        assert_eq!(version().split('.').count(), 3);
        let json = stats_json().unwrap();
        assert!(
            json.contains("\"allocated\"") && json.contains("kmalloc-64"),
            "{}",
            json
        );
        let closed = {
            let file = File::open("/dev/null").unwrap();
            print_stats(&file, Format::Text).unwrap_err() // not open for writing
        };
        assert_eq!(closed.raw_os_error(), Some(9));
        trim();
        assert_eq!(verify(), 0);
    }
}
