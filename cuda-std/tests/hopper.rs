//! Hopper's barriers, bulk copies and products: right kernels give the right results in every schedule, and each planted bug is found at its line.

use cuda_std::emulator::{Finding, FindingKind};
use test_kernels::cases::{Case, Product, hopper, hopper_bugs, products};

const BUGS: &str = include_str!("../../tests/kernels/src/hopper_bugs.rs");

fn marked_line(name: &str) -> u32 {
    let marker = format!("// BUG: {name}");
    let line = BUGS.lines().position(|line| line.ends_with(&marker));
    line.unwrap_or_else(|| panic!("no line is marked {marker}")) as u32 + 1
}

#[test]
fn every_kernel_gives_what_plain_rust_gives_in_every_schedule() {
    for case in hopper() {
        let found = case.emulate(0, 6).unwrap_or_else(|finding| panic!("{finding}"));
        case.check(&found);
    }
}

/// The elements of `D` that a case leaves.
fn result(case: &Case) -> Vec<f32> {
    let mut buffers = case.emulate(0, 1).unwrap_or_else(|finding| panic!("{finding}"));
    let words = buffers.pop().flatten().expect("D is written");
    words.into_iter().map(f32::from_bits).collect()
}

/// With numbers that have all the bits of an `f32`, products err by the rounding of sums and no more: a kernel that lost one place, or a low bit of an operand, would
/// err by more.
#[test]
fn products_are_as_exact_as_their_sums() {
    let number = |i: usize| {
        let fraction = (i as f32 * 0.618_034).fract() + 0.5;
        if i.is_multiple_of(3) { -fraction } else { fraction }
    };
    for Product { case, reference, magnitudes } in products(&number) {
        let result = result(&case);
        assert_eq!(result.len(), reference.len());
        // Every instruction rounds once. The split product leaves out the product of the rests, each less than 2^-10 of its number.
        let bound = if case.name == "multiply_split" { 24.0 } else { 4.0 } * f64::from(f32::EPSILON) / 2.0;
        let mut largest: f64 = 0.0;
        for (i, ((&sum, &exact), &magnitude)) in result.iter().zip(&reference).zip(&magnitudes).enumerate() {
            let error = (f64::from(sum) - exact).abs();
            assert!(error <= bound * magnitude, "{} [{i}]: {sum}, expected {exact}, {magnitude}", case.name);
            largest = largest.max(error / magnitude.max(1e-300));
        }
        // Sums of so few products of bf16 are exact.
        assert!(largest > 0.0 || case.name == "multiply_bf16", "{}: the numbers are too round to tell", case.name);
        assert!(reference.iter().any(|&exact| exact != 0.0));
    }
}

fn finding(case: &Case, seed: u64) -> Box<Finding> {
    case.emulate(seed, 1).expect_err(case.name)
}

#[test]
fn every_planted_bug_is_found_in_every_schedule() {
    for case in hopper_bugs() {
        for seed in 0..8 {
            let found = finding(&case, seed);
            let lines = [Some(found.place), found.other].map(|place| Some(place?.location?.line()));
            // Of two accesses that race either can be the one that comes second.
            assert!(lines.contains(&Some(marked_line(case.name))), "{found}");
        }
    }
}

fn of_bug(name: &str) -> Box<Finding> {
    let case = hopper_bugs().into_iter().find(|case| case.name == name).expect(name);
    finding(&case, 0)
}

#[test]
fn findings_name_the_other_side() {
    let found = of_bug("load_before_phase");
    assert_eq!(found.kind, FindingKind::CopyUnderWay);
    assert!(found.message.contains("does not know that its phase has ended"), "{found}");
    let other = found.other.expect("the copy");
    assert!(
        other.thread == [0; 3] && other.location.is_some_and(|copy| copy.line() < marked_line("load_before_phase"))
    );

    let found = of_bug("one_warp_waits");
    assert_eq!(found.kind, FindingKind::CopyUnderWay);
    assert!(found.place.thread[0] >= 32, "{found}");

    let found = of_bug("fence_of_three_warps");
    assert_eq!(found.kind, FindingKind::MissingProxyFence);
    assert!(found.other.is_some_and(|store| store.thread[0] >= 96), "{found}");

    let found = of_bug("wrong_swizzle");
    assert!(found.message.contains("Bytes128") && found.message.contains("Bytes64"), "{found}");

    let found = of_bug("descriptor_outside");
    let memory = found.memory.expect("a place in memory");
    assert_eq!((found.kind, memory.space, memory.byte_offset), (FindingKind::OutOfBounds, "shared", 192 * 128));
}
