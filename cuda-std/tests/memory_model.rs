//! Atomic loads give what the memory model permits: older values where nothing forbids them, and none where something does.
//!
//! Most kernels are litmus tests: the first thread of each block runs a part of its own, on words that all share, and returns
//! what it has read.
#![expect(clippy::undocumented_unsafe_blocks, reason = "each calls atomics, whose accesses the emulator checks")]

use std::{
    cell::RefCell,
    collections::BTreeSet,
    sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst},
};

use cuda_std::{
    atomic::{
        atomic_compare_and_swap_u32_device, atomic_fetch_add_u32_device, atomic_load_u32_block, atomic_load_u32_device,
        atomic_store_u32_block, atomic_store_u32_device, block_thread_fence, device_thread_fence,
    },
    emulator::{FindingKind, GlobalBuffer, Launch, Stats},
    grid, mem, thread, warp,
};

/// Enough for every outcome that is permitted to show.
const SEEDS: u64 = 300;

/// The words that the parts of a kernel share.
#[derive(Clone, Copy)]
struct Words(*mut u32);

impl Words {
    fn load(self, word: usize) -> u32 {
        self.load_with(word, Relaxed)
    }
    fn load_with(self, word: usize, ordering: Ordering) -> u32 {
        unsafe { atomic_load_u32_device(self.0.add(word), ordering) }
    }
    fn store(self, word: usize, value: u32) {
        self.store_with(word, Relaxed, value);
    }
    fn store_with(self, word: usize, ordering: Ordering, value: u32) {
        unsafe { atomic_store_u32_device(self.0.add(word), ordering, value) }
    }
    fn add(self, word: usize, ordering: Ordering) -> u32 {
        unsafe { atomic_fetch_add_u32_device(self.0.add(word), ordering, 1) }
    }
    /// Waits until the word is at least `value`.
    fn wait(self, word: usize, ordering: Ordering, value: u32) {
        while self.load_with(word, ordering) < value {}
    }
}

const X: usize = 0;
const Y: usize = 1;

/// What a part returns that has nothing to say.
const NOTHING: Vec<u32> = Vec::new();

/// What the first thread of a block does.
type Part<'a> = &'a dyn Fn(Words) -> Vec<u32>;

/// All that the parts return under many seeds, one after the other.
fn outcomes(parts: &[Part<'_>]) -> BTreeSet<Vec<u32>> {
    let run = |seed: u64| {
        let mut words = GlobalBuffer::zeroed(4);
        let words = Words(words.as_mut_ptr());
        let results = RefCell::new(vec![NOTHING; parts.len()]);
        let launch = Launch::new(parts.len() as u32, 32).cooperative().seed(seed);
        let kernel = || {
            if thread::thread_idx_x() == 0 {
                let part = thread::block_idx_x() as usize;
                let result = parts[part](words);
                results.borrow_mut()[part] = result;
            }
        };
        launch.run(kernel).unwrap_or_else(|finding| panic!("{finding}"));
        results.into_inner().concat()
    };
    (0..SEEDS).map(run).collect()
}

fn set<const N: usize>(outcomes: &[[u32; N]]) -> BTreeSet<Vec<u32>> {
    outcomes.iter().map(|outcome| outcome.to_vec()).collect()
}

fn send_with(store: impl Fn(Words)) -> impl Fn(Words) -> Vec<u32> {
    move |words| {
        words.store(X, 1);
        store(words);
        NOTHING
    }
}

fn receive_with(wait: impl Fn(Words)) -> impl Fn(Words) -> Vec<u32> {
    move |words| {
        wait(words);
        vec![words.load(X)]
    }
}

#[test]
fn a_message_arrives_with_a_release_that_is_acquired_and_not_without() {
    let releases: [Part<'_>; 3] = [
        &send_with(|words| words.store_with(Y, Release, 1)),
        &send_with(|words| _ = words.add(Y, Release)),
        &send_with(|words| {
            device_thread_fence(AcqRel);
            words.store(Y, 1);
        }),
    ];
    let acquires: [Part<'_>; 2] = [
        &receive_with(|words| words.wait(Y, Acquire, 1)),
        &receive_with(|words| {
            words.wait(Y, Relaxed, 1);
            device_thread_fence(Acquire);
        }),
    ];
    let relaxed_store = send_with(|words| words.store(Y, 1));
    let relaxed_load = receive_with(|words| words.wait(Y, Relaxed, 1));
    for release in releases {
        for acquire in acquires {
            assert_eq!(outcomes(&[release, acquire]), set(&[[1]]));
            assert_eq!(outcomes(&[&relaxed_store, acquire]), set(&[[0], [1]]));
        }
        assert_eq!(outcomes(&[release, &relaxed_load]), set(&[[0], [1]]));
    }
    assert_eq!(outcomes(&[&relaxed_store, &relaxed_load]), set(&[[0], [1]]));
}

#[test]
fn fences_of_a_block_order_within_it_only() {
    let send = send_with(|words| {
        block_thread_fence(AcqRel);
        words.store(Y, 1);
    });
    let receive = receive_with(|words| {
        words.wait(Y, Relaxed, 1);
        block_thread_fence(AcqRel);
    });
    assert_eq!(outcomes(&[&send, &receive]), set(&[[0], [1]]));
    let both = |words| match thread::thread_idx_x() {
        0 => _ = send(words),
        32 => assert_eq!(receive(words), [1]),
        _ => {}
    };
    in_threads(1, both);
}

#[test]
fn what_a_block_knows_of_others_goes_on_within_it() {
    in_threads(2, |words| match thread::index_1d() {
        64 => {
            words.store(X, 1);
            words.store_with(Y, Release, 1);
        }
        0 => {
            words.wait(Y, Acquire, 1);
            unsafe { atomic_store_u32_block(words.0.add(2), Release, 1) }
        }
        32 => {
            while unsafe { atomic_load_u32_block(words.0.add(2), Acquire) } == 0 {}
            assert_eq!(words.load(X), 1);
        }
        _ => {}
    });
}

#[test]
fn additions_hand_on_what_was_released_before_them() {
    let send = send_with(|words| words.store_with(Y, Release, 1));
    let add = |words: Words| {
        words.wait(Y, Relaxed, 1);
        words.add(Y, Relaxed);
        NOTHING
    };
    let store = |words: Words| {
        words.wait(Y, Relaxed, 1);
        words.store(Y, 2);
        NOTHING
    };
    let receive = receive_with(|words| words.wait(Y, Acquire, 2));
    assert_eq!(outcomes(&[&send, &add, &receive]), set(&[[1]]));
    assert_eq!(outcomes(&[&send, &store, &receive]), set(&[[0], [1]]));
}

#[test]
fn what_a_thread_has_read_is_in_what_it_releases() {
    let store = send_with(|_| {});
    let read = |words: Words| {
        words.wait(X, Relaxed, 1);
        words.store_with(Y, Release, 1);
        NOTHING
    };
    let receive = receive_with(|words| words.wait(Y, Acquire, 1));
    assert_eq!(outcomes(&[&store, &read, &receive]), set(&[[1]]));
}

#[test]
fn a_word_never_goes_back() {
    let count = |words: Words| {
        for value in 1..=12 {
            words.store(X, value);
            assert_eq!(words.load(X), value, "what the thread has stored itself");
        }
        NOTHING
    };
    let read = |words: Words| {
        let read: Vec<u32> = (0..20).map(|_| words.load(X)).collect();
        assert!(read.is_sorted(), "{read:?}");
        NOTHING
    };
    outcomes(&[&count, &read, &read]);
    // More readers than are kept.
    in_threads(2, |words| if thread::index_1d() == 0 { _ = count(words) } else { _ = read(words) });
}

/// Each part stores to a word of its own and reads that of the other.
fn store_buffering(fence: fn()) -> BTreeSet<Vec<u32>> {
    let part = |mine: usize, other: usize| {
        move |words: Words| {
            words.store(mine, 1);
            fence();
            vec![words.load(other)]
        }
    };
    outcomes(&[&part(X, Y), &part(Y, X)])
}

/// Two parts see the stores of two others: in what orders.
fn independent_reads(fence: fn()) -> BTreeSet<Vec<u32>> {
    let store = |word: usize| {
        move |words: Words| {
            words.store(word, 1);
            NOTHING
        }
    };
    let read = |first: usize, second: usize| {
        move |words: Words| {
            let first = words.load(first);
            fence();
            vec![first, words.load(second)]
        }
    };
    outcomes(&[&store(X), &store(Y), &read(X, Y), &read(Y, X)])
}

#[test]
fn sequential_fences_have_one_order_and_others_have_none() {
    let weak: [fn(); 3] = [|| {}, || device_thread_fence(AcqRel), || block_thread_fence(SeqCst)];
    for fence in weak {
        assert!(store_buffering(fence).contains([0, 0].as_slice()));
        assert!(independent_reads(fence).contains([1, 0, 1, 0].as_slice()));
    }
    let strong: fn() = || device_thread_fence(SeqCst);
    assert_eq!(store_buffering(strong), set(&[[0, 1], [1, 0]]));
    assert!(!independent_reads(strong).contains([1, 0, 1, 0].as_slice()));
}

#[test]
fn sequential_atomics_have_one_order() {
    let part = |mine: usize, other: usize| {
        move |words: Words| {
            words.store_with(mine, SeqCst, 1);
            vec![words.load_with(other, SeqCst)]
        }
    };
    assert_eq!(outcomes(&[&part(X, Y), &part(Y, X)]), set(&[[0, 1], [1, 0]]));
}

#[test]
fn read_modify_writes_take_the_newest_value() {
    let add = |words: Words| (0..5).map(|_| words.add(X, Relaxed)).collect();
    for outcome in outcomes(&[&add, &add, &add]) {
        let mut taken = outcome;
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..15));
    }
    let swap = |words: Words| {
        let found = unsafe { atomic_compare_and_swap_u32_device(words.0, Relaxed, 7, 8) };
        vec![u32::from(words.load(X) < found)]
    };
    assert_eq!(outcomes(&[&send_with(|_| {}), &swap]), set(&[[0]]), "what it has found is not forgotten");
}

/// Runs a kernel of 64 threads a block under many seeds.
fn in_threads(blocks: u32, kernel: impl Fn(Words)) -> Stats {
    let mut stats = Stats::default();
    for seed in 0..SEEDS {
        let mut words = GlobalBuffer::zeroed(4);
        let words = Words(words.as_mut_ptr());
        let launch = Launch::new(blocks, 64).cooperative().seed(seed);
        stats += launch.run(|| kernel(words)).unwrap_or_else(|finding| panic!("{finding}"));
    }
    stats
}

#[test]
fn barriers_order_what_atomics_do() {
    let of_the_block = |words: Words| {
        if thread::thread_idx_x() == 3 {
            words.store(X, 1);
        }
        thread::sync_threads();
        assert_eq!(words.load(X), 1);
    };
    let of_the_warp = |words: Words| {
        if thread::thread_idx_x() == 3 {
            words.store(X, 1);
        }
        unsafe { warp::sync_warp(u32::MAX) };
        if thread::thread_idx_x() < 32 {
            assert_eq!(words.load(X), 1);
        }
    };
    let of_the_grid = |words: Words| {
        if thread::index_1d() == 70 {
            words.store(X, 1);
        }
        unsafe { grid::sync(words.0.add(Y)) };
        assert_eq!(words.load(X), 1);
    };
    assert_eq!(in_threads(1, of_the_block).older_values, 0);
    assert_eq!(in_threads(1, of_the_warp).older_values, 0);
    assert_eq!(in_threads(2, of_the_grid).older_values, 0);
}

#[test]
fn plain_stores_leave_no_older_value() {
    let stats = in_threads(1, |words| {
        words.add(X, Relaxed);
        thread::sync_threads();
        if thread::thread_idx_x() == 40 {
            unsafe { mem::store(words.0, 1000) }
        }
        thread::sync_threads();
        assert!(words.load(X) >= 1000);
        words.add(X, Relaxed);
    });
    assert!(stats.older_values > 0, "additions can be missed");
}

#[test]
fn blocks_that_run_one_after_the_other_can_miss_each_other() {
    let run = |seed: u64| {
        let mut words = GlobalBuffer::<u32>::zeroed(4);
        let words = Words(words.as_mut_ptr());
        let kernel = || {
            if thread::thread_idx_x() == 0 {
                words.load(X);
                words.add(X, Relaxed);
            }
        };
        Launch::new(20, 32).seed(seed).run(kernel).expect("no finding").older_values
    };
    assert_eq!(run(0), 0, "the natural order gives the newest values");
    assert!((1..20).all(|seed| run(seed) > 0));
    assert_eq!((1..20).map(run).collect::<Vec<_>>(), (1..20).map(run).collect::<Vec<_>>(), "a seed says all");
}

#[test]
fn memory_that_held_nothing_has_no_value_before_the_first_store() {
    for seed in 0..SEEDS {
        let mut words = GlobalBuffer::<u32>::uninitialised(1);
        let words = Words(words.as_mut_ptr());
        let kernel = || match thread::index_1d() {
            0 => (5..=6).for_each(|value| words.store(X, value)),
            32 => assert!((5..=6).contains(&words.load(X))),
            _ => {}
        };
        if let Err(finding) = Launch::new(2, 32).seed(seed).run(kernel) {
            assert_eq!(finding.kind, FindingKind::Uninitialised, "if the second block is the first to run: {finding}");
        }
    }
}

#[cfg(feature = "rayon")]
#[test]
fn the_last_of_parallel_blocks_sees_what_the_others_released() {
    const BLOCKS: u32 = 100;
    for seed in 0..20 {
        let (mut words, mut parts) = (GlobalBuffer::<u32>::zeroed(4), GlobalBuffer::<u32>::zeroed(BLOCKS as usize));
        let (address, first) = (words.as_mut_ptr() as usize, parts.as_mut_ptr() as usize);
        let kernel = || {
            let (words, parts) = (Words(address as *mut u32), first as *mut u32);
            words.add(X, Relaxed);
            if thread::thread_idx_x() == 0 {
                unsafe { mem::store(parts.add(thread::block_idx_x() as usize), 1) }
                if words.add(Y, AcqRel) == BLOCKS - 1 {
                    let sum: u32 = (0..BLOCKS as usize).map(|part| unsafe { mem::load(parts.add(part)) }).sum();
                    assert_eq!(sum, BLOCKS);
                }
            }
        };
        // SAFETY: the kernel is called with plain data.
        let launch = unsafe { Launch::new(BLOCKS, 32).seed(seed).parallel() };
        launch.run(kernel).unwrap_or_else(|finding| panic!("{finding}"));
        assert_eq!(words.to_vec().expect("words")[..2], [32 * BLOCKS, BLOCKS]);
    }
}
