// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
//!
//! # What the library promises in Rust
//!
//! - Every type is `Send` and `Sync` as far as its contents are: the library has no thread that
//!   owns memory, so any thread may free what another one allocated.
//! - A [`Cache`] cannot be dropped while its objects live, because each borrows it. Objects that
//!   were forgotten (`mem::forget`) stay valid for ever: the library keeps their slabs.
//! - A constructor or a destructor that panics leaks nothing but, at worst, what it was to drop.
//! - Zero-sized types are allowed everywhere; so is every alignment in [`Ukmem`], and up to a
//!   page in [`Cache`].
//!
//! A library that is loaded with `dlopen` and has this crate in it must stay loaded (link it with
//! `-Wl,-z,nodelete`): threads keep pointers into its sections.

#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

// The program in the README of both crates is a test, too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct BothCrates;

pub mod alf;
mod cache;
mod global;
mod percpu;
mod raw;
mod stats;

pub use cache::{Cache, CacheBox, CacheFlags, CreateError};
pub use global::{AllocError, Ukmem};
pub use percpu::{Integer, PerCpu};
pub use stats::{gauges, mode, print_stats, stats_json, trim, verify, version, Format, Gauges};
