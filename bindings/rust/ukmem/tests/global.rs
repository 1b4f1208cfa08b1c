// SPDX-License-Identifier: MIT
//! A program whose global allocator is ukmem: the test harness, threads and collections on it.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::sync::{mpsc, Mutex, MutexGuard, PoisonError};
use std::thread;

#[global_allocator]
static GLOBAL: ukmem::Ukmem = ukmem::Ukmem;

/// One test at a time: the gauges are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn memory_is_the_librarys() {
    let _alone = alone();
    let before = ukmem::gauges().allocated;
    let v = vec![1u8; 8 << 20];

    // The harness may free something meanwhile.
    assert!(ukmem::gauges().allocated >= before + v.len() / 2);
    drop(v);
    assert_eq!(ukmem::verify(), 0);
}

#[test]
fn statistics_are_json() {
    let text = ukmem::stats_json().unwrap();
    assert!(text.starts_with('{') && text.trim_end().ends_with('}'));
    assert!(text.contains("kmalloc-64"), "{}", text);
}

/// A process that may write no file has them, too.
#[test]
fn statistics_need_no_file() {
    let run = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$0\" --exact statistics_are_json"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{:?}",
        run
    );
}

#[test]
fn collections_keep_their_contents() {
    let _alone = alone();
    let mut map = HashMap::new();
    let mut tree = BTreeMap::new();

    for i in 0..50_000u64 {
        map.insert(i, i.to_string());
        tree.insert(
            i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            vec![i as u8; (i % 300) as usize],
        );
    }
    for i in (0..50_000).step_by(3) {
        assert_eq!(map.remove(&i).unwrap(), i.to_string());
    }
    for (key, value) in &tree {
        assert!(value.iter().all(|b| *b == value[0]), "{}", key);
    }
    assert_eq!(map.len(), 33_333);
}

#[test]
fn blocks_wander_between_threads() {
    let _alone = alone();
    let (send, receive) = mpsc::channel::<Vec<u64>>();
    let consumer = thread::spawn(move || receive.into_iter().map(|v| v.len()).sum::<usize>());
    let producers: Vec<_> = (0..4)
        .map(|t| {
            let send = send.clone();
            thread::spawn(move || {
                for i in 0..2000usize {
                    send.send(vec![t; i % 200]).unwrap();
                }
            })
        })
        .collect();

    drop(send);
    for p in producers {
        p.join().unwrap();
    }
    assert_eq!(consumer.join().unwrap(), 4 * 10 * 199 * 100);
}

#[test]
fn aligned_types() {
    let _alone = alone();
    #[repr(align(256))]
    struct Wide([u8; 300]);
    #[repr(align(16384))]
    struct Page(u8);

    for i in 0..20u8 {
        let (w, p) = (vec![Wide([i; 300]), Wide([i; 300])], Box::new(Page(i)));
        assert_eq!(w.as_ptr() as usize % 256, 0);
        assert_eq!(&*p as *const Page as usize % 16384, 0);
        assert_eq!((w[1].0[299], p.0), (i, i));
    }
}
