//! Dense products by every rung of the ladder, against a reference in f64.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{
    assert_within,
    dense::{Dense, GAP, gemm_reference, old},
    on_device, on_emulator_and_gpu,
};
use ladders::{GemmLadder, GemmRung};
use warpsparse::{DenseLayout, Device, ErrorKind};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_emulator_and_gpu("sizes_about_the_tile", sizes_about_the_tile));
    trials.extend(on_emulator_and_gpu("inner_sizes_about_the_step", inner_sizes_about_the_step));
    trials.extend(on_emulator_and_gpu("any_layout", any_layout));
    trials.extend(on_emulator_and_gpu("sums_are_added_up_in_order", sums_are_added_up_in_order));
    trials.extend(on_emulator_and_gpu("nothing_to_add_up", nothing_to_add_up));
    trials.extend(on_emulator_and_gpu("nothing_to_write", nothing_to_write));
    trials.extend(on_emulator_and_gpu("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_emulator_and_gpu("rungs_name_their_kernels", rungs_name_their_kernels));
    trials.extend(on_emulator_and_gpu("what_rungs_refuse", what_rungs_refuse));
    trials.push(on_device("the_cpu_runs_no_rung::cpu".into(), the_cpu_runs_no_rung, Device::cpu));
    common::run(trials)
}

/// Alpha and beta. With beta = 0, C holds no numbers.
const FACTORS: [(f64, f64); 4] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75), (0.0, 2.0)];

/// A or B, with gaps that spoil each sum that they get into.
fn operand(seed: u64, nrows: usize, ncols: usize, gap: usize, offset: usize) -> Dense<f32> {
    let mut dense = Dense::random(seed, nrows, ncols, gap, offset);
    for element in &mut dense.elements {
        *element = if f64::from(*element) == GAP { f32::NAN } else { *element };
    }
    dense
}

/// The elements of C after the product; its gaps must be what they were.
fn product(
    device: &Device,
    rung: GemmRung,
    (alpha, beta): (f64, f64),
    a: &Dense<f32>,
    b: &Dense<f32>,
    c: &Dense<f32>,
) -> Vec<f32> {
    let [on_a, on_b] = [a, b].map(|matrix| device.upload_vec(&matrix.elements).unwrap());
    let mut on_c = device.upload_vec(&c.elements).unwrap();
    let (of_a, of_b) = (on_a.matrix(a.layout()).unwrap(), on_b.matrix(b.layout()).unwrap());
    let ladder = GemmLadder::new(device, rung).unwrap();
    ladder.gemm(alpha as f32, of_a, of_b, beta as f32, on_c.matrix_mut(c.layout()).unwrap()).unwrap();
    c.elements_of(&format!("{rung:?}"), &on_c.to_vec().unwrap())
}

fn check(device: &Device, rung: GemmRung, (alpha, beta): (f64, f64), a: &Dense<f32>, b: &Dense<f32>, c: &Dense<f32>) {
    let sizes = (c.nrows, c.ncols, a.ncols);
    let distances = [a, b, c].map(|matrix| (matrix.leading_dimension, matrix.offset));
    let case =
        format!("{rung:?}, m, n, k {sizes:?}, leading dimensions, offsets {distances:?}, factors {alpha}, {beta}");
    assert_within(&case, &product(device, rung, (alpha, beta), a, b, c), &gemm_reference(alpha, a, b, beta, c));
}

/// A product of matrices without gaps.
fn check_sizes(device: &Device, rung: GemmRung, (m, n, k): (usize, usize, usize), factors: (f64, f64)) {
    let (a, b) = (operand(1, m, k, 0, 0), operand(2, k, n, 0, 0));
    check(device, rung, factors, &a, &b, &old(m, n, 0, 0, factors.1));
}

/// The emulator is slow: it gets fewer cases.
fn is_emulated(device: &Device) -> bool {
    device.to_string() == "emulated"
}

fn sizes_about_the_tile(device: &Device) {
    for &rung in GemmRung::ALL {
        let (rows, cols) = (rung.tile().0 as usize, rung.tile().1 as usize);
        let about = |size: usize| [1, 3, size - 1, size, size + 1, 2 * size + 1];
        let sizes = about(rows).into_iter().flat_map(|m| about(cols).map(|n| (m, n)));
        for (at, (m, n)) in sizes.enumerate() {
            check_sizes(device, rung, (m, n, 9), FACTORS[at % 4]);
        }
    }
}

fn inner_sizes_about_the_step(device: &Device) {
    for &rung in GemmRung::ALL {
        for k in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 41, 65] {
            check_sizes(device, rung, (5, 9, k), (-2.5, 0.75));
            if !is_emulated(device) {
                check_sizes(device, rung, (300, 260, 16 * k + k % 3), (1.0, 0.0));
            }
        }
    }
}

/// Leading dimensions and offsets of which some allow vectors and some do not, other ones in each matrix.
fn any_layout(device: &Device) {
    // 44 is a multiple of 4, 45 is not.
    for (m, n, k) in [(37, 44, 12), (38, 45, 13)] {
        let layouts = [(0, 0), (4, 4), (3, 0), (0, 1), (1, 3), (2, 6), (8, 2)];
        for (at, &rung) in GemmRung::ALL.iter().enumerate() {
            for turn in 0..layouts.len() {
                let [of_a, of_b, of_c] = [turn, 2 * turn + at, 3 * turn + 2 * at].map(|layout| layouts[layout % 7]);
                let factors = FACTORS[(turn + at) % 4];
                let (a, b) = (operand(1, m, k, of_a.0, of_a.1), operand(2, k, n, of_b.0, of_b.1));
                check(device, rung, factors, &a, &b, &old(m, n, of_c.0, of_c.1, factors.1));
            }
        }
    }
}

/// The product in f32 with one rounding a term, in the order of the inner index.
fn in_order(alpha: f32, a: &Dense<f32>, b: &Dense<f32>, beta: f32, c: &Dense<f32>) -> Vec<u32> {
    let element = |i: usize, j: usize| {
        let sum = a.row(i).iter().enumerate().fold(0.0f32, |sum, (p, value)| value.mul_add(b.row(p)[j], sum));
        beta.mul_add(c.row(i)[j], alpha * sum).to_bits()
    };
    (0..c.nrows).flat_map(|i| (0..c.ncols).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// By every rung, so that all of them give the same bits.
fn sums_are_added_up_in_order(device: &Device) {
    for (m, n, k) in if is_emulated(device) { [(33, 21, 43), (7, 68, 30)] } else { [(333, 221, 143), (129, 260, 1030)] }
    {
        let (a, b, c) = (operand(1, m, k, 0, 0), operand(2, k, n, 0, 0), old(m, n, 0, 0, 0.75));
        let expected = in_order(-2.5, &a, &b, 0.75, &c);
        for &rung in GemmRung::ALL {
            let found = product(device, rung, (-2.5, 0.75), &a, &b, &c);
            let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
            assert!(found == expected, "{rung:?}, m, n, k {:?}", (m, n, k));
        }
    }
}

/// With k = 0, C is only scaled.
fn nothing_to_add_up(device: &Device) {
    for &rung in GemmRung::ALL {
        for factors in FACTORS {
            check_sizes(device, rung, (9, 6, 0), factors);
        }
    }
}

/// Without rows or columns, C is all gaps.
fn nothing_to_write(device: &Device) {
    for &rung in GemmRung::ALL {
        for (m, n) in [(0, 5), (5, 0), (0, 0)] {
            let (a, b) = (operand(1, m, 3, 0, 0), operand(2, 3, n, 0, 0));
            assert!(product(device, rung, (1.0, 0.5), &a, &b, &old(m, n, 2, 7, 0.5)).is_empty());
        }
    }
}

/// The sums are of small integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    let a = device.upload_vec(&[1.0f32; 20 * 10]).unwrap();
    let b = device.upload_vec(&(0..10 * 12).map(|at| (at % 12) as f32).collect::<Vec<_>>()).unwrap();
    for &rung in GemmRung::ALL {
        let mut c = device.upload_vec(&[100.0f32; 20 * 12]).unwrap();
        let ladder = GemmLadder::new(device, rung).unwrap();
        let product = || ladder.gemm(3.0, a.matrix((20, 10))?, b.matrix((10, 12))?, 2.0, c.matrix_mut((20, 12))?);
        device.record(product).unwrap().launch(2).unwrap();
        let after_two = |at: usize| 400.0 + (2.0 + 1.0) * 30.0 * (at % 12) as f32;
        assert_eq!(c.to_vec().unwrap(), (0..20 * 12).map(after_two).collect::<Vec<_>>(), "{rung:?}");
    }
}

fn rungs_name_their_kernels(device: &Device) {
    let names = GemmRung::ALL.iter().map(|&rung| GemmLadder::new(device, rung).unwrap().name());
    let expected = [
        "naive",
        "shared_tile",
        "thread_tile_1d",
        "thread_tile_2d",
        "vectorised",
        "double_buffered",
        "warp_tile",
        "async_copies",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected.map(|name| format!("sgemm_ladder_{name}")));
}

fn what_rungs_refuse(device: &Device) {
    let rows = DenseLayout::row_major(4, 4);
    for &rung in GemmRung::ALL {
        let ladder = GemmLadder::new(device, rung).unwrap();
        let refused = |layouts: [DenseLayout; 3]| {
            let (x, mut y) = (device.zeros::<f32>(20).unwrap(), device.zeros::<f32>(20).unwrap());
            let (a, b) = (x.matrix(layouts[0]).unwrap(), x.matrix(layouts[1]).unwrap());
            ladder.gemm(1.0, a, b, 0.0, y.matrix_mut(layouts[2]).unwrap()).unwrap_err().to_string()
        };
        for at in 0..3 {
            let mut layouts = [rows; 3];
            layouts[at] = DenseLayout::column_major(4, 4);
            let (which, takes) = (["A", "B", "C"][at], "kernels of the ladder take row-major matrices");
            assert_eq!(refused(layouts), format!("not supported: a column-major {which}: {takes}"));
        }
        let short = DenseLayout::row_major(3, 4);
        let message = "the column of B has 3 elements where the operation needs 4";
        assert_eq!(refused([rows, short, rows]), message);
        let narrow = DenseLayout::row_major(4, 5);
        assert_eq!(refused([rows, rows, narrow]), "the row of C has 5 elements where the operation needs 4");
    }
}

fn the_cpu_runs_no_rung(cpu: &Device) {
    let (x, mut y) = (cpu.zeros::<f32>(16).unwrap(), cpu.zeros::<f32>(16).unwrap());
    let ladder = GemmLadder::new(cpu, GemmRung::Naive).unwrap();
    let a = x.matrix((4, 4)).unwrap();
    let error = ladder.gemm(1.0, a, a, 0.0, y.matrix_mut((4, 4)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
