//! Memory that launches on several CPU threads access at the same time.

use std::{
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use cuda_std::{
    atomic::{atomic_fetch_add_u64_system, atomic_load_u64_device, atomic_load_u64_system, atomic_store_u64_system},
    emulator::{FindingKind, Launch, SystemBuffer},
    mem,
};

#[test]
fn launches_pass_numbers_to_each_other() {
    let buffer = SystemBuffer::zeroed(2, "ball");
    let play = |own: usize| {
        let words = buffer.as_ptr();
        for seed in 0..3 {
            let kernel = || {
                for number in 100 * seed + 1..=100 * seed + 100 {
                    // SAFETY: two live words.
                    unsafe {
                        let (own, other) = (words.add(own), words.add(1 - own));
                        atomic_store_u64_system(own, Relaxed, number);
                        while atomic_load_u64_system(other, Relaxed) < number {}
                    }
                }
            };
            Launch::new(1, 1).seed(seed).run(kernel).unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(0));
        // A wait for a launch that has not begun is no deadlock.
        thread::sleep(Duration::from_millis(300));
        scope.spawn(|| play(1));
    });
    assert!(buffer.words().iter().all(|word| word.load(Relaxed) == 300));
}

#[test]
fn a_wait_takes_time_but_others_run() {
    let buffer = SystemBuffer::zeroed(1, "bell");
    let word = buffer.as_ptr();
    // The second block ends the wait of the first.
    let kernel = || {
        // SAFETY: a live word.
        unsafe {
            match cuda_std::thread::block_idx_x() {
                0 => while atomic_load_u64_system(word, Relaxed) == 0 {},
                _ => atomic_store_u64_system(word, Relaxed, 1),
            }
        }
    };
    Launch::new(2, 32).cooperative().run(kernel).unwrap();
    // Nobody rings, and the kernel counts its looks.
    buffer.words()[0].store(0, Relaxed);
    let start = Instant::now();
    let kernel = || {
        // SAFETY: a live word.
        (0..100).for_each(|_| assert_eq!(unsafe { atomic_load_u64_system(word, Relaxed) }, 0));
    };
    Launch::new(1, 32).run(kernel).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(8), "{:?}", start.elapsed());
}

#[test]
fn other_accesses_are_races() {
    let buffer = SystemBuffer::zeroed(4, "window");
    let words = buffer.as_ptr();
    let found = |kernel: &dyn Fn()| Launch::new(1, 1).run(kernel).unwrap_err();
    // SAFETY: live words, except for the last access, which the emulator finds.
    unsafe {
        for finding in [
            found(&|| _ = mem::load(words)),
            found(&|| mem::store(words, 1)),
            found(&|| _ = atomic_load_u64_device(words, Relaxed)),
        ] {
            assert_eq!(finding.kind, FindingKind::DataRace, "{finding}");
            assert!(finding.to_string().contains("other devices access this memory"), "{finding}");
        }
        let finding = found(&|| _ = atomic_load_u64_system(words.add(4), Relaxed));
        assert_eq!(finding.kind, FindingKind::OutOfBounds, "{finding}");
        Launch::new(1, 32).run(|| _ = atomic_fetch_add_u64_system(words, Relaxed, 1)).unwrap();
    }
    assert_eq!(buffer.words()[0].load(Relaxed), 32);
}
