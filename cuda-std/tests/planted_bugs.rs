//! Every planted bug is found, as what it is and at its line.
#![expect(clippy::undocumented_unsafe_blocks, reason = "each calls a kernel, whose accesses the emulator checks")]

use cuda_std::emulator::{Finding, FindingKind, GlobalBuffer, Launch};
use test_kernels::{cases, planted_bugs};

const SOURCE: &str = include_str!("../../tests/kernels/src/planted_bugs.rs");

/// The line that ends in the bug's marker.
fn marked_line(name: &str) -> u32 {
    let marker = format!("// BUG: {name}");
    let line = SOURCE.lines().position(|line| line.ends_with(&marker));
    line.unwrap_or_else(|| panic!("no line is marked {marker}")) as u32 + 1
}

/// Runs a kernel on blocks of 64 threads, in many orders, and checks that every order shows the bug.
fn assert_found(name: &str, blocks: u32, kind: FindingKind, kernel: impl Fn()) -> Box<Finding> {
    for seed in (0..20).rev() {
        let found = Launch::new(blocks, 64).name(name).seed(seed).run(&kernel).expect_err(name);
        assert_eq!(found.kind, kind, "{found}");
        assert_eq!(found.seed, seed);
        let places = [Some(found.place), found.other];
        let at_mark = |line: Option<u32>| line == Some(marked_line(name));
        assert!(places.iter().flatten().any(|place| at_mark(place.location.map(|at| at.line()))), "{found}");
        if seed == 0 {
            // Of two racing accesses either can be the one that comes second.
            assert!(at_mark(found.line()) || kind == FindingKind::DataRace, "{found}");
            let text = found.to_string();
            assert!(text.contains(name) && text.contains("planted_bugs.rs"), "{text}");
            return found;
        }
    }
    unreachable!()
}

#[test]
fn off_by_one_read() {
    let (x, mut y) = (GlobalBuffer::from_slice(&[1.0f32; 64]).labelled("the input"), GlobalBuffer::zeroed(64));
    let (x, y) = (x.as_ptr(), y.as_mut_ptr());
    // The buffers are still alive: only their pointers are shadowed.
    let found = assert_found("off_by_one", 1, FindingKind::OutOfBounds, || unsafe { planted_bugs::off_by_one(x, y) });
    let memory = found.memory.clone().expect("a place in memory");
    assert_eq!((memory.element(), memory.length, memory.access_bytes), (64, 64, 4));
    assert_eq!(memory.allocation.as_deref(), Some("the input"));
    assert_eq!(found.place.thread, [63, 0, 0]);
}

#[test]
fn off_by_one_in_a_borrowed_slice() {
    let (x, mut y) = (vec![1.0f32; 64], vec![0.0; 64]);
    let mut launch = Launch::new(1, 64);
    let (x, y) = (launch.borrow("x", &x), launch.borrow_mut("y", &mut y));
    let found = launch.run(|| unsafe { planted_bugs::off_by_one(x, y) }).expect_err("a bug");
    assert_eq!((found.kind, found.line()), (FindingKind::OutOfBounds, Some(marked_line("off_by_one"))));
}

#[test]
fn unaligned_vector_load() {
    let (x, mut y) = (GlobalBuffer::from_slice(&[1.0f32; 64]), GlobalBuffer::zeroed(64));
    let (x, y) = (x.as_ptr(), y.as_mut_ptr());
    let kernel = || unsafe { planted_bugs::unaligned_vector(x, y) };
    assert_found("unaligned_vector", 1, FindingKind::Misaligned, kernel);
}

#[test]
fn missing_barrier() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::missing_barrier(y) };
    let found = assert_found("missing_barrier", 1, FindingKind::DataRace, kernel);
    assert!(found.other.is_some(), "{found}");
    assert_eq!(found.memory.expect("a place in memory").space, "shared");
}

#[test]
fn uninitialised_shared_read() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::uninitialised_shared(y) };
    let found = assert_found("uninitialised_shared", 1, FindingKind::Uninitialised, kernel);
    assert_eq!((found.place.thread, found.memory.expect("a place in memory").element()), ([63, 0, 0], 63));
}

#[test]
fn divergent_barriers() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::divergent_barrier(y) };
    assert_found("divergent_barrier", 1, FindingKind::BarrierDivergence, kernel);
    let kernel = || unsafe { planted_bugs::barrier_against_warp(y) };
    assert_found("barrier_against_warp", 1, FindingKind::BarrierDivergence, kernel);
}

#[test]
fn warp_operations_out_of_step() {
    let (mut y, mut words) = (GlobalBuffer::zeroed(64), GlobalBuffer::zeroed(64));
    let (y, words) = (y.as_mut_ptr(), words.as_mut_ptr());
    let kernel = || unsafe { planted_bugs::wrong_mask(y) };
    assert_found("wrong_mask", 1, FindingKind::ShuffleFromInactiveLane, kernel);
    let kernel = || unsafe { planted_bugs::caller_not_in_mask() };
    assert_found("caller_not_in_mask", 1, FindingKind::CallerNotInMask, kernel);
    let kernel = || unsafe { planted_bugs::divergent_vote(words) };
    assert_found("divergent_vote", 1, FindingKind::WarpDivergence, kernel);
    let kernel = || unsafe { planted_bugs::exited_lane(words) };
    assert_found("exited_lane", 1, FindingKind::LaneExited, kernel);
}

#[test]
fn pointer_to_freed_memory() {
    let mut freed = GlobalBuffer::zeroed(64).labelled("freed");
    let y = freed.as_mut_ptr();
    drop(freed);
    let reuse: Vec<GlobalBuffer<f32>> = (0..10).map(|_| GlobalBuffer::zeroed(64)).collect();
    let kernel = || unsafe { planted_bugs::stale_pointer(y) };
    let found = assert_found("stale_pointer", 1, FindingKind::UseAfterFree, kernel);
    assert_eq!(found.memory.expect("a place in memory").allocation.as_deref(), Some("freed"));
    drop(reuse);
}

#[test]
fn write_to_a_slice_for_reading() {
    let x = [0.0f32; 64];
    let mut launch = Launch::new(1, 64);
    let y = launch.borrow("x", &x).cast_mut();
    let found = launch.run(|| unsafe { planted_bugs::stale_pointer(y) }).expect_err("a bug");
    assert_eq!((found.kind, found.line()), (FindingKind::WriteToReadOnly, Some(marked_line("stale_pointer"))));
}

#[test]
fn race_between_blocks() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::cross_block_race(y) };
    let found = assert_found("cross_block_race", 2, FindingKind::DataRace, kernel);
    let other = found.other.expect("the other thread");
    assert_eq!((found.place.block, other.block, other.thread), ([1, 0, 0], [0, 0, 0], [5, 0, 0]));
    assert!(Launch::new(1, 64).run(kernel).is_ok(), "one block does not race with itself");
}

#[cfg(feature = "rayon")]
#[test]
fn race_between_blocks_in_parallel() {
    let mut y = GlobalBuffer::<u32>::zeroed(64);
    let y = y.as_mut_ptr() as usize;
    for _ in 0..50 {
        let kernel = || unsafe { planted_bugs::cross_block_race(y as *mut u32) };
        // SAFETY: the kernel is called with plain data.
        let found = unsafe { Launch::new(100, 64).parallel() }.run(kernel).expect_err("a bug");
        assert_eq!((found.kind, found.line()), (FindingKind::DataRace, Some(marked_line("cross_block_race"))));
    }
}

#[test]
fn read_only_load_of_written_memory() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::readonly_load_of_written(y) };
    assert_found("readonly_load_of_written", 1, FindingKind::ReadOnlyLoadOfWritten, kernel);
}

#[test]
fn plain_read_of_what_atomics_change() {
    let (mut total, mut y) = (GlobalBuffer::zeroed(1), GlobalBuffer::zeroed(1));
    let (total, y) = (total.as_mut_ptr(), y.as_mut_ptr());
    let kernel = || unsafe { planted_bugs::plain_read_of_atomic(total, y) };
    let at_least_two = (0..20).map(|seed| Launch::new(1, 64).seed(seed).run(kernel).expect_err("a bug"));
    for found in at_least_two {
        assert_eq!(found.kind, FindingKind::DataRace, "{found}");
    }
}

#[test]
fn ticket_without_a_fence() {
    let (mut partial, mut ticket, mut sum) =
        (GlobalBuffer::zeroed(4), GlobalBuffer::<u32>::zeroed(80), GlobalBuffer::zeroed(1));
    let (partial, tickets, sum) = (partial.as_mut_ptr(), ticket.as_mut_ptr(), sum.as_mut_ptr());
    for seed in 0..20 {
        let kernel = || unsafe { planted_bugs::missing_fence(partial, tickets.add(seed), sum) };
        let found = Launch::new(4, 64).seed(seed as u64).run(kernel).expect_err("a bug");
        assert_eq!((found.kind, found.line()), (FindingKind::DataRace, Some(marked_line("missing_fence"))), "{found}");
    }
}

#[test]
fn values_that_only_weak_memory_gives() {
    for name in ["unordered_message", "unordered_ticket"] {
        let case = cases::planted_bugs().into_iter().find(|case| case.name == name).expect(name);
        assert!(case.emulate(0, 1).is_ok(), "{name}: the natural order gives the newest values");
        let findings: Vec<_> = (1..20).filter_map(|seed| case.emulate(seed, 1).err()).collect();
        assert!(findings.len() >= 5, "{name}: {} findings", findings.len());
        for found in findings {
            assert_eq!((found.kind, found.line()), (FindingKind::Panic, Some(marked_line(name))), "{found}");
            assert!(found.message.contains("older value of an atomic"), "{found}");
        }
    }
}

#[test]
fn one_shared_array_for_two_calls() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::repeated_array(y) };
    let found = assert_found("repeated_array", 1, FindingKind::RepeatedSharedArray, kernel);
    assert!(found.message.contains("come by this `shared_array!` before"), "{found}");
}

#[test]
fn endless_wait() {
    let mut flag = GlobalBuffer::zeroed(1);
    let flag = flag.as_mut_ptr();
    let found = Launch::new(1, 64).run(|| unsafe { planted_bugs::endless_wait(flag) }).expect_err("a bug");
    assert_eq!((found.kind, found.line()), (FindingKind::Deadlock, Some(marked_line("endless_wait"))), "{found}");
}

#[test]
fn panic_in_a_kernel() {
    let mut y = GlobalBuffer::zeroed(64);
    let y = y.as_mut_ptr();
    let kernel = || unsafe { planted_bugs::local_index(y) };
    let found = assert_found("local_index", 1, FindingKind::Panic, kernel);
    assert_eq!(found.place.thread, [4, 0, 0]);
    assert!(found.message.contains("index out of bounds"), "{found}");
}

type CopyingKernel = unsafe fn(*const f32, *mut f32);

/// A kernel that copies from 64 elements to shared memory and stores to as many.
fn assert_found_in_copies(name: &str, kind: FindingKind, kernel: CopyingKernel) -> Box<Finding> {
    let (x, mut y) = (GlobalBuffer::from_slice(&[1.0f32; 64]).labelled("the input"), GlobalBuffer::zeroed(64));
    let (x, y) = (x.as_ptr(), y.as_mut_ptr());
    assert_found(name, 1, kind, || unsafe { kernel(x, y) })
}

#[test]
fn load_from_a_copy_under_way() {
    let found = assert_found_in_copies("missing_wait", FindingKind::CopyUnderWay, planted_bugs::missing_wait);
    assert!(found.message.contains("no `wait_copies` of the other thread"), "{found}");
    let other = found.other.expect("the thread that copies");
    // The last thread to reach a barrier is the first to leave it.
    assert_eq!((found.place.thread, other.thread), ([63, 0, 0], [0, 0, 0]));
    assert!(other.location.is_some_and(|copy| copy.line() < marked_line("missing_wait")), "the line of the copy");
    assert_eq!(found.memory.expect("a place in memory").element(), 0);
}

#[test]
fn wait_for_too_few_groups() {
    let found = assert_found_in_copies("short_wait", FindingKind::CopyUnderWay, planted_bugs::short_wait);
    assert_eq!(found.memory.expect("a place in memory").element(), 63);
}

#[test]
fn copies_without_barriers() {
    let kernel = planted_bugs::wait_without_barrier;
    let found = assert_found_in_copies("wait_without_barrier", FindingKind::DataRace, kernel);
    assert!(found.other.is_some(), "{found}");
    let found = assert_found_in_copies("early_copy", FindingKind::DataRace, planted_bugs::early_copy);
    assert_eq!((found.place.thread, found.line()), ([31, 0, 0], Some(marked_line("early_copy"))));
}

#[test]
fn copies_out_of_bounds() {
    let kernel = planted_bugs::copy_from_outside;
    let found = assert_found_in_copies("copy_from_outside", FindingKind::OutOfBounds, kernel);
    let memory = found.memory.expect("a place in memory");
    assert_eq!((memory.space, memory.element(), memory.allocation.as_deref()), ("global", 64, Some("the input")));
    let kernel = planted_bugs::copy_to_outside;
    let found = assert_found_in_copies("copy_to_outside", FindingKind::OutOfBounds, kernel);
    let memory = found.memory.expect("a place in memory");
    assert_eq!((memory.space, memory.element(), memory.access_bytes), ("shared", 64, 4));
    let found = assert_found_in_copies("unaligned_copy", FindingKind::Misaligned, planted_bugs::unaligned_copy);
    let memory = found.memory.expect("a place in memory");
    assert_eq!((memory.space, memory.element(), memory.access_bytes), ("shared", 2, 16));
}
