//! The kernels of [`selftest`](crate::selftest), with results worked out in plain Rust.

use super::{Before, Case, case};
use crate::selftest::{FRAGMENTS, FRAGMENTS_TF32, PIPELINE_INPUT, WARP_RESULTS};

/// A row for each kernel.
#[must_use]
pub fn selftests() -> Vec<Case> {
    vec![
        case!(selftest::warp_operations(out: output((0..64).flat_map(warp_results).collect()))),
        reverse_static(),
        reverse_dynamic(),
        atomics(),
        fused(),
        Case { block: 128, ..case!(selftest::hand_over(out: output((0..64).map(|i| 3 * i).collect()))) },
        Case {
            grid: 5,
            cooperative: true,
            ..case!(selftest::grid_sum(
                // The barrier's word is back at zero after an even number of barriers.
                state: changed(vec![0], vec![0]),
                out: output(vec![1, 2, 3, 4, 5, 15, 15, 15, 15, 15])
            ))
        },
        Case {
            grid: 7,
            ..case!(selftest::last_block(
                partial: output((1..8).collect()),
                ticket: changed(vec![0], vec![7]),
                sum: output(vec![28])
            ))
        },
        case!(selftest::wait_for_flag(
            flag: changed(vec![0], vec![1]),
            data: output(vec![42]),
            out: output(vec![42])
        )),
        copy_pipeline(),
        copy_doubles(),
        products(),
        products_tf32(),
    ]
}

type Contents = (Before, Option<Vec<u32>>);

fn input(words: Vec<u32>) -> Contents {
    (Before::Words(words.clone()), Some(words))
}

fn output(words: Vec<u32>) -> Contents {
    (Before::Uninitialised(words.len()), Some(words))
}

fn changed(before: Vec<u32>, after: Vec<u32>) -> Contents {
    (Before::Words(before), Some(after))
}

fn words_f32(values: impl IntoIterator<Item = f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

fn words_f64(values: impl IntoIterator<Item = f64>) -> Vec<u32> {
    let halves = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
    values.into_iter().flat_map(halves).collect()
}

/// What thread `i` of `warp_operations` writes, by the PTX manual.
fn warp_results(i: u32) -> [u32; WARP_RESULTS as usize] {
    let (lane, warp) = (i % 32, i / 32 * 32);
    let half = lane / 16 * 16..lane / 16 * 16 + 16;
    let lanes =
        |wanted: &dyn Fn(u32) -> bool| -> u32 { (0..32).filter(|&lane| wanted(lane)).map(|lane| 1 << lane).sum() };
    let wide = (f64::from(i ^ 1) * 0.1).to_bits();
    let xor = lane ^ 9;
    let xor_inside = xor <= lane / 8 * 8 + 7;
    [
        warp + lane / 8 * 8 + (lane + 3) % 8,
        1,
        if lane % 16 >= 3 { i - 3 } else { i },
        u32::from(lane % 16 >= 3),
        if lane + 5 < 32 { i + 5 } else { i },
        u32::from(lane + 5 < 32),
        if xor_inside { warp + xor } else { i },
        u32::from(xor_inside),
        wide as u32 ^ (wide >> 32) as u32,
        lanes(&|other| half.contains(&other) && other % 3 == 0),
        if lane < 16 { 2 } else { 1 },
        lanes(&|other| (warp + other) % 5 == i % 5),
        u32::MAX ^ 1,
        0,
        (warp..warp + 32).sum(),
        (warp + half.start).wrapping_sub(20),
    ]
}

fn reverse_static() -> Case {
    let values: Vec<f32> = (0..192).map(|i| i as f32 * 0.5).collect();
    let reversed = values.chunks(64).flat_map(|block| block.iter().rev().copied());
    Case {
        grid: 3,
        ..case!(selftest::reverse_static(
            input: input(words_f32(values.iter().copied())),
            out: output(words_f32(reversed))
        ))
    }
}

fn reverse_dynamic() -> Case {
    let values = (0..64).map(|i| f64::from(i) / 7.0);
    Case {
        dynamic_shared_bytes: 768,
        ..case!(selftest::reverse_dynamic(
            input: input(words_f64(values.clone())),
            out: output(words_f64(values.rev()))
        ))
    }
}

fn atomics() -> Case {
    let (blocks, threads) = (4, 256u32);
    let before = vec![0, u32::MAX, i32::MIN as u32, 0, u32::MAX, 0, 0, 0, 5, 0];
    let after = vec![
        (0..threads).sum(),
        7,
        (threads as i32 - 1 - 1000) as u32,
        u32::MAX,
        !0x7f,
        (0..threads).fold(0, |xor, i| xor ^ i),
        77,
        78,
        6,
        // In each block every thread adds 2, and 63 is the largest index.
        blocks * (2 * 64 + 63),
    ];
    Case {
        grid: blocks,
        ..case!(selftest::atomics(
            integers: changed(before, after),
            small: changed(words_f32([0.0]), words_f32([0.5 * threads as f32])),
            large: changed(words_f64([0.0]), words_f64([0.25 * f64::from(threads)]))
        ))
    }
}

fn fused() -> Case {
    let a: Vec<f32> = (0..64).map(|i| 1.0 + i as f32 * f32::EPSILON).collect();
    let c: Vec<f32> = a.iter().map(|a| -(a * a)).collect();
    // The product of two floats is exact in f64, and what is left after taking its rounded self away fits an f32.
    let exact = a.iter().zip(&c).map(|(&a, &c)| f64::from(a) * f64::from(a) + f64::from(c));
    let rests: Vec<f32> = exact.map(|rest| rest as f32).collect();
    assert!(rests.iter().any(|&rest| rest != 0.0), "rounding twice would give zeros only");
    case!(selftest::fused(
        a: input(words_f32(a.iter().copied())),
        b: input(words_f32(a.iter().copied())),
        c: input(words_f32(c)),
        out: output(words_f32(rests))
    ))
}

fn copy_pipeline() -> Case {
    let values: Vec<f32> = (1..=PIPELINE_INPUT).map(|i| i as f32 * 0.5).collect();
    let tiles = [values.as_slice(), &[0.0; 32]].concat();
    let reversed = tiles.chunks(64).flat_map(|tile| tile.iter().rev().copied());
    case!(selftest::copy_pipeline(input: input(words_f32(values)), out: output(words_f32(reversed))))
}

fn copy_doubles() -> Case {
    let values: Vec<f64> = (1..=60).map(|i| f64::from(i) / 7.0).collect();
    let halves = [values.as_slice(), &[0.0; 4]].concat();
    let reversed = halves.chunks(32).flat_map(|half| half.iter().rev().copied());
    case!(selftest::copy_doubles(input: input(words_f64(values)), out: output(words_f64(reversed))))
}

/// Chains of fused multiply-adds, of numbers whose sums depend on the order.
fn products() -> Case {
    let (read, written) = (FRAGMENTS.0 as usize, FRAGMENTS.1 as usize);
    let number = |i: usize| (i as f64 * 0.618_033_988_749_895).fract() * [1.0, -37.0, 1e-3, 2048.5][i * 7 / 3 % 4];
    let input_numbers: Vec<f64> = (0..64 * read).map(number).collect();
    let (mut results, mut in_reverse) = (vec![0.0; 64 * written], vec![0.0; 64 * written]);
    for warp in 0..2 {
        let brought = |lane: usize, place: usize| input_numbers[(32 * warp + lane) * read + place];
        for (m, k, first) in [(8, 4, 0), (16, 4, 2), (16, 8, 6), (16, 16, 10)] {
            let a = |row: usize, p: usize| brought(4 * (row % 8) + p % 4, row / 8 + m / 8 * (p / 4));
            let b = |p: usize, col: usize| brought(4 * col + p % 4, 8 + p / 4);
            for row in 0..m {
                for col in 0..8 {
                    let (lane, place) = (4 * (row % 8) + col / 2, 2 * (row / 8) + col % 2);
                    let chain = |sum: f64, p| a(row, p).mul_add(b(p, col), sum);
                    let (at, start) = ((32 * warp + lane) * written + first + place, brought(lane, 12 + place));
                    results[at] = (0..k).fold(start, chain);
                    in_reverse[at] = (0..k).rev().fold(start, chain);
                }
            }
        }
    }
    assert_ne!(results, in_reverse, "the order would not show");
    case!(selftest::products(input: input(words_f64(input_numbers)), out: output(words_f64(results))))
}

/// Integers, whose sums are exact in any order. Those that are multiplied have bits in the places that TF32 ignores.
fn products_tf32() -> Case {
    let (read, written) = (FRAGMENTS_TF32.0 as usize, FRAGMENTS_TF32.1 as usize);
    let number = |i: usize| (i * 7 % 19) as f32 - 9.0;
    let with_ignored_bits = |i: usize| match i % read {
        0..6 => f32::from_bits(number(i).to_bits() | (i as u32).wrapping_mul(2_654_435_761) >> 19),
        _ => number(i),
    };
    let mut results = vec![0.0; 64 * written];
    for warp in 0..2 {
        let brought = |lane: usize, place: usize| number((32 * warp + lane) * read + place);
        for row in 0..16 {
            for col in 0..8 {
                let (lane, place) = (4 * (row % 8) + col / 2, 2 * (row / 8) + col % 2);
                let a = |p: usize| brought(4 * (row % 8) + p % 4, row / 8 + 2 * (p / 4));
                let b = |p: usize| brought(4 * col + p % 4, 4 + p / 4);
                let sum = brought(lane, 6 + place) + (0..8).map(|p| a(p) * b(p)).sum::<f32>();
                results[(32 * warp + lane) * written + place] = sum;
            }
        }
    }
    let numbers = words_f32((0..64 * read).map(with_ignored_bits));
    case!(selftest::products_tf32(input: input(numbers), out: output(words_f32(results))))
}
