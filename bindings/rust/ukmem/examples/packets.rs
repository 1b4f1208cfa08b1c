// SPDX-License-Identifier: MIT
//! Packets go from a reader through a queue to workers, and back to their cache: the global
//! allocator, a typed cache, a per-CPU counter and a queue in one program.
//!
//!     cargo run --release --example packets [PACKETS]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use ukmem::{alf::Queue, Cache, CacheBox, CacheFlags, PerCpu};

#[global_allocator]
static GLOBAL: ukmem::Ukmem = ukmem::Ukmem;

struct Packet {
    number: u64,
    length: usize,
    bytes: [u8; 1500],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let total: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let cache: Cache<Packet> = Cache::with_flags("packet", CacheFlags::HWCACHE_ALIGN)?;
    let (packets, bytes) = (PerCpu::<u64>::new()?, PerCpu::<u64>::new()?);
    let round = 65536;

    for first in (0..total).step_by(round) {
        let burst: Vec<CacheBox<'_, Packet>> = (first..total.min(first + round as u64))
            .map(|number| {
                cache.alloc_with(|| Packet {
                    number,
                    length: 64,
                    bytes: [0; 1500],
                })
            })
            .collect::<Result<_, _>>()?;
        // A packet's box is two words, a queue carries one: the packets are lent to the workers.
        let queue: Queue<&Packet> = Queue::new(round as u32)?;
        // A queue may say that it is full, or empty, while another thread is in the middle of a step.
        for packet in &burst {
            while queue.push(packet).is_err() {
                thread::yield_now();
            }
        }
        let left = AtomicUsize::new(burst.len());
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut work = Vec::new();
                    while left.load(Relaxed) > 0 {
                        left.fetch_sub(queue.pop_burst(&mut work, 16), Relaxed);
                        for packet in work.drain(..) {
                            packets.inc();
                            bytes.add(packet.length as u64);
                            assert!(packet.number < total && packet.bytes[0] == 0);
                        }
                    }
                });
            }
        });
    }
    assert_eq!(packets.sum(), total);
    println!(
        "{} packets, {} bytes ({})",
        packets.sum(),
        bytes.sum(),
        ukmem::mode()
    );
    let g = ukmem::gauges();
    println!(
        "{} bytes in use, {} resident; {} given back",
        g.allocated,
        g.resident,
        ukmem::trim()
    );
    Ok(())
}
