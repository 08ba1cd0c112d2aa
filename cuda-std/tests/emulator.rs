//! The emulator computes what plain Rust computes, in every schedule.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each calls a kernel, whose accesses the emulator checks"
)]

use std::sync::atomic::Ordering;

use cuda_std::{
    GpuFloat, atomic,
    emulator::{FindingKind, GlobalBuffer, Launch, Stats, emulate},
    mem,
    shared::Shared,
    shared_array, thread,
};
use test_kernels::selftest;

/// Enough schedules to see threads come in many orders.
const SCHEDULES: u32 = 25;

fn run(launch: &Launch<'_>, kernel: impl Fn()) -> Stats {
    launch.run(kernel).unwrap_or_else(|finding| panic!("{finding}"))
}

#[test]
fn warp_operations_follow_the_ptx_manual() {
    let words = selftest::WARP_RESULTS as usize;
    let mut out = GlobalBuffer::<u32>::uninitialised(64 * words).labelled("out");
    let pointer = out.as_mut_ptr();
    let launch = Launch::new(1, 64).schedules(SCHEDULES);
    run(&launch, || unsafe { selftest::warp_operations(pointer) });
    let out = out.to_vec().expect("every word is written");
    for (i, results) in (0u32..).zip(out.chunks(words)) {
        let (lane, warp) = (i % 32, i / 32 * 32);
        let half: Vec<u32> = (0..32).filter(|other| other / 16 == lane / 16).collect();
        let wide = (f64::from(i ^ 1) * 0.1).to_bits();
        let xor = lane ^ 9;
        let xor_inside = xor <= lane / 8 * 8 + 7;
        let expected = [
            warp + lane / 8 * 8 + (lane + 3) % 8,
            1,
            if lane % 16 >= 3 { i - 3 } else { i },
            u32::from(lane % 16 >= 3),
            if lane + 5 < 32 { i + 5 } else { i },
            u32::from(lane + 5 < 32),
            if xor_inside { warp + xor } else { i },
            u32::from(xor_inside),
            wide as u32 ^ (wide >> 32) as u32,
            half.iter()
                .filter(|&&other| other % 3 == 0)
                .map(|other| 1 << other)
                .sum(),
            if lane < 16 { 2 } else { 1 },
            (0..32)
                .filter(|other| (warp + other) % 5 == i % 5)
                .map(|other| 1 << other)
                .sum(),
            u32::MAX ^ 1,
            0,
            (warp..warp + 32).sum(),
            (warp + half[0]).wrapping_sub(20),
        ];
        assert_eq!(results, expected, "thread {i}");
    }
}

#[test]
fn shared_memory_static_and_dynamic() {
    let input: Vec<f32> = (0..192).map(|i| i as f32 * 0.5).collect();
    let mut out = vec![0.0; 192];
    let mut launch = Launch::new(3, 64).schedules(SCHEDULES);
    let (from, to) = (launch.borrow("input", &input), launch.borrow_mut("out", &mut out));
    let stats = run(&launch, || unsafe { selftest::reverse_static(from, to) });
    for (block, values) in out.chunks(64).enumerate() {
        assert!(values.iter().rev().eq(&input[64 * block..64 * block + 64]));
    }
    let per_schedule = 192 * u64::from(SCHEDULES);
    assert_eq!(
        (stats.threads, stats.barriers, stats.steps()),
        (per_schedule, per_schedule, 5 * per_schedule)
    );

    let input: Vec<f64> = (0..64).map(f64::from).collect();
    let (input, mut out) = (GlobalBuffer::from_slice(&input), GlobalBuffer::zeroed(64));
    let (from, to) = (input.as_ptr(), out.as_mut_ptr());
    let launch = Launch::new(1, 64).dynamic_shared_bytes(768).schedules(SCHEDULES);
    run(&launch, || unsafe { selftest::reverse_dynamic(from, to) });
    assert!(
        out.to_vec()
            .expect("zeroed")
            .iter()
            .rev()
            .eq(&input.to_vec().expect("given"))
    );
    let small = emulate(1, 64, 760, || unsafe { selftest::reverse_dynamic(from, to) });
    assert_eq!(small.expect_err("too little memory").kind, FindingKind::OutOfBounds);
}

#[test]
fn atomics_on_global_and_shared_memory() {
    let mut integers = GlobalBuffer::from_slice(&[0u32, u32::MAX, i32::MIN as u32, 0, u32::MAX, 0, 0, 0, 5, 0]);
    let (mut small, mut large) = (GlobalBuffer::<f32>::zeroed(1), GlobalBuffer::<f64>::zeroed(1));
    let (i, s, l) = (integers.as_mut_ptr(), small.as_mut_ptr(), large.as_mut_ptr());
    let launch = Launch::new(4, 64).schedules(SCHEDULES);
    run(&launch, || unsafe { selftest::atomics(i, s, l) });
    let xor = (0..256).fold(0, |xor, i| xor ^ i);
    let expected = [
        255 * 128,
        7,
        (255i32 - 1000) as u32,
        u32::MAX,
        !0x7f,
        xor,
        77,
        78,
        6,
        4 * (128 + 63),
    ];
    assert_eq!(integers.to_vec().expect("given"), expected);
    assert_eq!((small.to_vec(), large.to_vec()), (Some(vec![128.0]), Some(vec![64.0])));
}

#[test]
fn fused_multiply_add_rounds_once() {
    let a: Vec<f32> = (0..64).map(|i| 1.0 + i as f32 * f32::EPSILON).collect();
    let c: Vec<f32> = a.iter().map(|a| -(a * a)).collect();
    let mut out = vec![0.0f32; 64];
    let mut launch = Launch::new(2, 32);
    let (a_ptr, c_ptr, to) = (
        launch.borrow("a", &a),
        launch.borrow("c", &c),
        launch.borrow_mut("out", &mut out),
    );
    run(&launch, || unsafe { selftest::fused(a_ptr, a_ptr, c_ptr, to) });
    for (i, &fused) in out.iter().enumerate() {
        // The product of two floats is exact in f64, and so is its difference to its own rounding.
        assert_eq!(f64::from(fused), f64::from(a[i]) * f64::from(a[i]) + f64::from(c[i]));
    }
    assert!(out.iter().any(|&fused| fused != 0.0));
}

#[test]
fn named_barriers_order_the_warps_that_meet() {
    let mut out = vec![0; 64];
    let mut launch = Launch::new(1, 128).schedules(SCHEDULES);
    let to = launch.borrow_mut("out", &mut out);
    run(&launch, || unsafe { selftest::hand_over(to) });
    assert!(out.iter().copied().eq((0..64).map(|i| 3 * i)));
}

#[test]
fn grid_barriers_order_blocks() {
    let (mut state, mut out) = (GlobalBuffer::zeroed(1), GlobalBuffer::uninitialised(10));
    let (counter, to) = (state.as_mut_ptr(), out.as_mut_ptr());
    let kernel = || unsafe { selftest::grid_sum(counter, to) };
    run(&Launch::new(5, 64).cooperative().schedules(SCHEDULES), kernel);
    assert_eq!(out.to_vec(), Some(vec![1, 2, 3, 4, 5, 15, 15, 15, 15, 15]));
    let alone = Launch::new(5, 64).run(kernel).expect_err("not cooperative");
    assert_eq!(alone.kind, FindingKind::NotCooperative);
}

#[test]
fn releases_and_acquires_order_threads() {
    let (mut partial, mut sum) = (GlobalBuffer::uninitialised(7), GlobalBuffer::uninitialised(1));
    let mut ticket = GlobalBuffer::zeroed(1);
    let (p, t, s) = (partial.as_mut_ptr(), ticket.as_mut_ptr(), sum.as_mut_ptr());
    run(&Launch::new(7, 64).schedules(SCHEDULES), || unsafe {
        selftest::last_block(p, t, s)
    });
    assert_eq!(sum.to_vec(), Some(vec![28]));

    let (mut flag, mut out) = (GlobalBuffer::zeroed(1), GlobalBuffer::uninitialised(2));
    let (f, o) = (flag.as_mut_ptr(), out.as_mut_ptr());
    run(&Launch::new(1, 64).schedules(SCHEDULES), || unsafe {
        selftest::wait_for_flag(f, o, o.add(1))
    });
    assert_eq!(out.to_vec(), Some(vec![42, 42]));
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
    let threads: Vec<_> = (1..5)
        .map(|factor| std::thread::spawn(move || check(20 * factor)))
        .collect();
    let results: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
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
    assert!(
        out.chunks(64)
            .zip(input.chunks(64))
            .all(|(out, input)| out.iter().rev().eq(input))
    );
}
