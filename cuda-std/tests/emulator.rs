//! The emulator computes what plain Rust computes, in every schedule.
#![expect(clippy::undocumented_unsafe_blocks, reason = "each calls a kernel, whose accesses the emulator checks")]

use std::sync::atomic::Ordering;

use cuda_std::{
    GpuFloat, atomic,
    emulator::{Finding, FindingKind, GlobalBuffer, Launch, Stats},
    mem,
    shared::{Shared, commit_copies, wait_copies},
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
        let (short, long) = (shared_array![T; 32], shared_array![T; 64]);
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
fn a_shared_array_is_visited_once_by_a_thread_of_each_block() {
    fn stage<const STAGE: u32>() -> Shared<f32> {
        shared_array![f32; 32]
    }
    let run = |kernel: &dyn Fn()| Launch::new(2, 32).schedules(2).run(kernel);
    let once = || {
        if thread::thread_idx_x() < 16 {
            stage::<0>();
        }
    };
    run(&once).expect("blocks and schedules are counted anew");
    let in_a_loop = || (0..2).for_each(|_| _ = shared_array![f32; 32]);
    let in_two_calls = || _ = (stage::<0>(), stage::<0>());
    let in_two_instances = || _ = (stage::<0>(), stage::<1>());
    for kernel in [&in_a_loop as &dyn Fn(), &in_two_calls, &in_two_instances] {
        let finding = run(kernel).expect_err("a second visit");
        assert_eq!((finding.kind, finding.place.thread), (FindingKind::RepeatedSharedArray, [0, 0, 0]), "{finding}");
        assert!(finding.to_string().contains("tests/emulator.rs"), "{finding}");
    }
}

#[repr(align(16))]
struct Aligned([f32; 36]);

/// Slices of 32 numbers at every alignment that they can have.
fn slices(numbers: &Aligned) -> impl Iterator<Item = &[f32]> {
    (0..4).map(|start| &numbers.0[start..start + 32])
}

#[test]
fn a_slice_is_aligned_as_a_buffer_is_wherever_it_lies() {
    let numbers = Aligned(core::array::from_fn(|i| i as f32));
    for slice in slices(&numbers) {
        for offset in 0..4 {
            let mut launch = Launch::new(1, 1);
            let (pointer, mut loaded) = (launch.borrow("slice", slice), [0.0; 4]);
            let to = launch.borrow_mut("loaded", &mut loaded);
            let kernel = || unsafe {
                let four = mem::load_v4(pointer.add(offset));
                four.into_iter().enumerate().for_each(|(i, value)| mem::store(to.add(i), value));
            };
            match launch.run(kernel) {
                Ok(_) => assert_eq!((offset, &loaded[..]), (0, &slice[..4])),
                Err(finding) => assert!(offset > 0 && finding.kind == FindingKind::Misaligned, "{offset}: {finding}"),
            }
        }
    }
}

#[test]
fn narrow_integers_are_parts_of_words() {
    let words = [u32::from_ne_bytes([1, 2, 3, 254]), u32::from_ne_bytes([5, 6, 7, 8])];
    let mut out = [0; 12];
    let mut launch = Launch::new(1, 12);
    let (from, to) = (launch.borrow("words", &words), launch.borrow_mut("out", &mut out));
    let stats = run(&launch, || unsafe {
        let i = thread::thread_idx_x() as usize;
        let value = match i {
            0..8 => mem::load_readonly_narrow(from.cast::<u8>().add(i)),
            _ => mem::load_readonly_narrow(from.cast::<u16>().add(i - 8)),
        };
        mem::store(to.add(i), value);
    });
    let halves = [[1, 2], [3, 254], [5, 6], [7, 8]].map(|bytes| u32::from(u16::from_ne_bytes(bytes)));
    assert_eq!(stats.global_bytes_loaded, 8 + 8);
    assert_eq!((&out[..8], &out[8..]), (&[1, 2, 3, 254, 5, 6, 7, 8][..], &halves[..]));
    let mut launch = Launch::new(1, 1);
    let from = launch.borrow("words", &words);
    let load = |byte: usize| {
        let kernel = || _ = unsafe { mem::load_readonly_narrow(from.cast::<u8>().add(byte).cast::<u16>()) };
        launch.run(kernel).map_err(|finding| finding.kind).err()
    };
    assert_eq!([0, 6, 3, 8].map(load), [None, None, Some(FindingKind::Misaligned), Some(FindingKind::OutOfBounds)]);
}

#[test]
fn a_narrow_load_of_a_word_that_another_thread_writes_is_a_race() {
    let mut words = [0u32; 1];
    let mut launch = Launch::new(1, 2);
    let word = launch.borrow_mut("words", &mut words);
    let finding = launch.run(|| unsafe {
        match thread::thread_idx_x() {
            0 => mem::store(word, 1),
            _ => _ = mem::load_readonly_narrow(word.cast::<u8>().add(3)),
        }
    });
    assert_eq!(finding.expect_err("a race").kind, FindingKind::DataRace);
}

#[test]
fn a_slice_gets_what_the_kernel_wrote_wherever_it_lies() {
    for start in 0..4 {
        let mut numbers = Aligned([1.0; 36]);
        let mut launch = Launch::new(1, 32).schedules(3);
        let pointer = launch.borrow_mut("slice", &mut numbers.0[start..start + 32]);
        let i = || thread::thread_idx_x() as usize;
        let add = || unsafe { mem::store(pointer.add(i()), mem::load(pointer.add(i())) + 1.0) };
        run(&launch, add);
        run(&launch, add);
        let beyond = launch.run(|| unsafe {
            add();
            mem::store(pointer.add(32 + i()), 5.0);
        });
        assert_eq!(beyond.expect_err("beyond the slice").kind, FindingKind::OutOfBounds);
        let mut expected = [1.0; 36];
        expected[start..start + 32].fill(3.0);
        // The first thread got as far as its store beyond the slice.
        expected[start] = 4.0;
        assert_eq!(numbers.0, expected);
    }
}

/// What a launch of one block says of a kernel that works on 64 numbers and an array as long in shared memory.
fn copy_with(kernel: impl Fn(*const f32, Shared<f32>, u32)) -> Result<Stats, Box<Finding>> {
    let input = GlobalBuffer::from_slice(&[1.0f32; 64]);
    Launch::new(1, 64).run(|| kernel(input.as_ptr(), shared_array![f32; 64], thread::thread_idx_x()))
}

#[test]
fn copies_count_as_loads_and_stores() {
    let stats = copy_with(|input, buffer, i| unsafe {
        if i < 16 {
            buffer.copy_async_v4(4 * i, input.add(4 * i as usize), i < 12);
        }
        commit_copies();
        wait_copies::<0>();
    });
    let stats = stats.expect("no finding");
    assert_eq!((stats.global_loads, stats.global_bytes_loaded, stats.shared_stores, stats.steps()), (12, 192, 16, 28));
}

#[test]
fn who_copies_may_neither_load_nor_store_nor_copy_there_before_the_wait() {
    type Access = unsafe fn(Shared<f32>, u32, *const f32);
    let accesses: [Access; 4] = [
        |buffer, i, _| _ = unsafe { buffer.load(i) },
        |buffer, i, _| unsafe { buffer.store(i, 2.0) },
        |buffer, i, input| unsafe { buffer.copy_async(i, input, true) },
        |buffer, i, _| _ = unsafe { buffer.atomic_fetch_add(i, 1.0) },
    ];
    for access in accesses {
        let run = |waits: bool| {
            copy_with(|input, buffer, i| unsafe {
                buffer.copy_async(i, input, false);
                commit_copies();
                if waits {
                    wait_copies::<0>();
                }
                access(buffer, i, input);
            })
        };
        let finding = run(false).expect_err("no wait");
        assert_eq!(finding.kind, FindingKind::CopyUnderWay, "{finding}");
        assert!(finding.message.contains("no `wait_copies` of this thread"), "{finding}");
        run(true).expect("no finding after a wait");
    }
}

#[test]
fn a_wait_does_not_end_copies_that_are_in_no_group() {
    let finding = copy_with(|input, buffer, i| unsafe {
        buffer.copy_async(i, input, true);
        wait_copies::<0>();
        commit_copies();
        buffer.load(i);
    });
    assert_eq!(finding.expect_err("no group to wait for").kind, FindingKind::CopyUnderWay);
}

#[test]
fn a_copy_races_from_its_start_to_the_barrier_after_its_end() {
    // The last thread to reach a barrier is the first to leave it.
    let before_the_start = copy_with(|input, buffer, i| unsafe {
        buffer.store(i, 0.0);
        thread::sync_threads();
        if i < 32 {
            buffer.copy_async(i, input, true);
        } else {
            buffer.load(i - 32);
        }
        commit_copies();
        thread::sync_threads();
        wait_copies::<0>();
    });
    let after_the_end = copy_with(|input, buffer, i| unsafe {
        if i == 63 {
            buffer.copy_async(0, input, true);
        }
        commit_copies();
        thread::sync_threads();
        wait_copies::<0>();
        if i == 0 {
            buffer.load(0);
        }
    });
    for (finding, thread) in [(before_the_start, 31), (after_the_end, 0)] {
        let finding = finding.expect_err("a race");
        assert_eq!((finding.kind, finding.place.thread), (FindingKind::DataRace, [thread, 0, 0]), "{finding}");
    }
}

#[test]
fn copies_may_be_under_way_at_the_end_but_not_into_the_next_block() {
    let mut out = GlobalBuffer::<f32>::uninitialised(128);
    let to = out.as_mut_ptr();
    let input = GlobalBuffer::from_slice(&[-1.0f32]);
    let kernel = || unsafe {
        let (buffer, i, index) = (shared_array![f32; 64], thread::thread_idx_x(), thread::index_1d());
        buffer.store(i, index as f32);
        wait_copies::<0>();
        mem::store(to.add(index as usize), buffer.load(i));
        buffer.copy_async(i, input.as_ptr(), true);
        commit_copies();
    };
    run(&Launch::new(2, 64).schedules(3), kernel);
    let expected: Vec<f32> = (0..128).map(|index| index as f32).collect();
    assert_eq!(out.to_vec(), Some(expected));
}

/// As the PTX manual says of `atom.add`.
#[test]
fn additions_of_f32_flush_denormals_in_global_memory_alone() {
    const LEAST: f32 = f32::MIN_POSITIVE;
    let tiny = f32::from_bits(1);
    // What is there, what is added, and their sum in global memory and in shared memory.
    let cases = [
        (tiny, 0.0, 0.0, tiny),
        (-tiny, -0.0, -0.0, -tiny),
        (0.0, tiny, 0.0, tiny),
        (-0.0, -tiny, -0.0, -tiny),
        (LEAST, -tiny, LEAST, LEAST - tiny),
        (1.5 * LEAST, -LEAST, 0.0, 0.5 * LEAST),
        (-1.5 * LEAST, LEAST, -0.0, -0.5 * LEAST),
        (LEAST, LEAST, 2.0 * LEAST, 2.0 * LEAST),
    ];
    for (old, value, in_global, in_shared) in cases {
        let (mut global, mut shared, mut replaced) = ([old], [f32::NAN], [f32::NAN; 2]);
        let mut launch = Launch::new(1, 1);
        let (to, of_shared) = (launch.borrow_mut("global", &mut global), launch.borrow_mut("shared", &mut shared));
        let olds = launch.borrow_mut("replaced", &mut replaced);
        run(&launch, || unsafe {
            mem::store(olds, atomic::atomic_fetch_add_f32_device(to, Ordering::Relaxed, value));
            let array = shared_array![f32; 1];
            array.store(0, old);
            mem::store(olds.add(1), array.atomic_fetch_add(0, value));
            mem::store(of_shared, array.load(0));
        });
        let bits = |numbers: [f32; 4]| numbers.map(f32::to_bits);
        let expected = bits([in_global, in_shared, old, old]);
        assert_eq!(bits([global[0], shared[0], replaced[0], replaced[1]]), expected, "{old:e} and {value:e}");
    }
    // Numbers of f64 keep theirs.
    let mut wide = [f64::from_bits(1)];
    let mut launch = Launch::new(1, 1);
    let to = launch.borrow_mut("wide", &mut wide);
    run(&launch, || unsafe { _ = atomic::atomic_fetch_add_f64_device(to, Ordering::Relaxed, f64::from_bits(2)) });
    assert_eq!(wide[0].to_bits(), 3);
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
