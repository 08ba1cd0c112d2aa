//! The emulator computes what plain Rust computes, in every schedule.
#![expect(clippy::undocumented_unsafe_blocks, reason = "each calls a kernel, whose accesses the emulator checks")]

use std::sync::atomic::Ordering;

use cuda_std::{
    GpuFloat, atomic,
    emulator::{FindingKind, GlobalBuffer, Launch, Stats},
    mem,
    shared::Shared,
    shared_array, thread,
};
use test_kernels::{
    cases::{Case, selftests},
    selftest,
};

/// Enough schedules to see threads come in many orders.
const SCHEDULES: u32 = 25;

fn run(launch: &Launch<'_>, kernel: impl Fn()) -> Stats {
    launch.run(kernel).unwrap_or_else(|finding| panic!("{finding}"))
}

fn selftest_case(name: &str) -> Case {
    let found = selftests().into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("no self-test is named {name}"))
}

#[test]
fn every_selftest_gives_what_plain_rust_gives_in_every_schedule() {
    for case in selftests() {
        for seed in (0..SCHEDULES).rev() {
            let found = case.emulate(seed.into(), 1).unwrap_or_else(|finding| panic!("{finding}"));
            case.check(&found);
        }
    }
}

#[test]
fn each_further_schedule_starts_from_the_same_memory() {
    for case in selftests() {
        let found = case.emulate(0, SCHEDULES).unwrap_or_else(|finding| panic!("{finding}"));
        case.check(&found);
    }
}

#[test]
fn the_steps_of_every_schedule_count() {
    let input: Vec<f32> = (0..192).map(|i| i as f32 * 0.5).collect();
    let mut out = vec![0.0; 192];
    let mut launch = Launch::new(3, 64).schedules(SCHEDULES);
    let (from, to) = (launch.borrow("input", &input), launch.borrow_mut("out", &mut out));
    let stats = run(&launch, || unsafe { selftest::reverse_static(from, to) });
    let per_schedule = 192 * u64::from(SCHEDULES);
    assert_eq!((stats.threads, stats.barriers, stats.steps()), (per_schedule, per_schedule, 5 * per_schedule));
}

#[test]
fn a_launch_that_gives_too_little_is_found_out() {
    let mut small = selftest_case("reverse_dynamic");
    small.dynamic_shared_bytes = 760;
    let finding = small.emulate(0, 1).expect_err("too little shared memory");
    assert_eq!(finding.kind, FindingKind::OutOfBounds);
    let mut alone = selftest_case("grid_sum");
    alone.cooperative = false;
    let finding = alone.emulate(0, 1).expect_err("not cooperative");
    assert_eq!(finding.kind, FindingKind::NotCooperative);
}

#[test]
fn cooperative_blocks_can_wait_for_each_other() {
    let (mut flag, mut out) = (GlobalBuffer::<u32>::zeroed(1), GlobalBuffer::<u32>::zeroed(4096));
    let (flag, out) = (flag.as_mut_ptr(), out.as_mut_ptr());
    let kernel = || unsafe {
        if thread::block_idx_x() == 1 {
            // Long enough for the other block to spin in vain many times.
            (0..4096).for_each(|round| {
                if thread::thread_idx_x() == 0 {
                    mem::store(out.add(round), 1);
                }
                thread::sync_threads();
            });
            atomic::atomic_exchange_u32_device(flag, Ordering::Release, 1);
        } else {
            while atomic::atomic_load_u32_device(flag, Ordering::Acquire) == 0 {}
        }
    };
    run(&Launch::new(2, 64).cooperative().schedules(2), kernel);
}

#[test]
fn arrays_differ_by_type_and_length() {
    fn two_arrays<T: GpuFloat>(i: u32) -> (T, T) {
        let (a, b) = (shared_array![f32; 32], shared_array![f64; 32]);
        let _ = (a, b);
        let (short, long) = (Shared::<T>::declare::<32>(), Shared::<T>::declare::<64>());
        unsafe {
            short.store(i, T::ZERO);
            long.store(i, T::ONE);
            (short.load(i), long.load(i))
        }
    }
    let stats = Launch::new(1, 32).run(|| {
        assert_eq!(two_arrays::<f32>(thread::thread_idx_x()), (0.0, 1.0));
        assert_eq!(two_arrays::<f64>(thread::thread_idx_x()), (0.0, 1.0));
    });
    assert_eq!(stats.expect("no finding").shared_stores, 128);
}

#[test]
fn emulations_run_side_by_side() {
    let check = |factor: u32| {
        let mut out = GlobalBuffer::<u32>::uninitialised(64 * selftest::WARP_RESULTS as usize);
        assert_eq!(out.to_vec(), None);
        let pointer = out.as_mut_ptr();
        for _ in 0..factor {
            run(&Launch::new(1, 64), || unsafe { selftest::warp_operations(pointer) });
        }
        out.to_vec()
    };
    let threads: Vec<_> = (1..5).map(|factor| std::thread::spawn(move || check(20 * factor))).collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert!(results.iter().all(|result| result.is_some() && *result == results[0]));
}

#[cfg(feature = "rayon")]
#[test]
fn parallel_blocks_give_the_same_result() {
    let input: Vec<f32> = (0..64 * 200).map(|i| i as f32).collect();
    let mut out = vec![0.0; input.len()];
    // SAFETY: the kernel is called with plain data.
    let mut launch = unsafe { Launch::new(200, 64).parallel() };
    let (from, to) = (launch.borrow("input", &input), launch.borrow_mut("out", &mut out));
    let stats = run(&launch, || unsafe { selftest::reverse_static(from, to) });
    assert_eq!(stats.blocks, 200);
    assert!(out.chunks(64).zip(input.chunks(64)).all(|(out, input)| out.iter().rev().eq(input)));
}
