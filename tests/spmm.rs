//! Products with dense matrices, on every device, against a reference in f64.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_within,
    dense::{Dense, check, check_exact, old, product, reference},
    extremes::{self, Additions},
    integers,
    matrices::{self, uneven},
    on_emulator_and_gpu, on_every_device, on_gpu, other, properties,
};
use kernels_gpu::spmm_csr;
use proptest::prelude::*;
use warpsparse::{
    CooMatrix, CscMatrix, CsrMatrix, DenseLayout, Device, DeviceDense, DeviceMatrix, Error, ErrorKind, Factor,
    FormatChoice, Result, Scalar, SpmmOptions, SpmmPlan, SpmvOptions, strategies,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_matrix_f32", every_matrix::<f32>));
    trials.extend(on_every_device("every_matrix_f64", every_matrix::<f64>));
    trials.extend(on_every_device("sums_of_integers_are_exact_f32", sums_of_integers::<f32>));
    trials.extend(on_every_device("sums_of_integers_are_exact_f64", sums_of_integers::<f64>));
    trials.extend(on_every_device("every_width_f32", every_width::<f32>));
    trials.extend(on_every_device("every_width_f64", every_width::<f64>));
    trials.extend(on_emulator_and_gpu("every_tile_f32", every_tile::<f32>));
    trials.extend(on_emulator_and_gpu("every_tile_f64", every_tile::<f64>));
    trials.extend(on_every_device("gaps_stay_untouched", gaps_stay_untouched));
    trials.extend(on_every_device("beta_zero_does_not_read_c", beta_zero_does_not_read_c));
    trials.extend(on_every_device("factors_in_device_memory", factors_in_device_memory));
    trials.extend(on_every_device("products_with_the_transpose", products_with_the_transpose));
    trials.extend(on_every_device("wide_offsets", wide_offsets));
    trials.extend(on_every_device("one_column_is_spmv", one_column_is_spmv));
    trials.extend(on_every_device("same_input_same_bits", same_input_same_bits));
    trials.extend(on_every_device("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_every_device("bytes_are_those_of_the_arrays", bytes_are_those_of_the_arrays));
    trials.extend(on_every_device("plans_choose_as_told", plans_choose_as_told));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.extend(on_every_device("random_products_f32", random_products::<f32>));
    trials.extend(on_every_device("random_products_f64", random_products::<f64>));
    trials.extend(on_every_device("extreme_numbers_f32", extreme_numbers::<f32>));
    trials.extend(on_every_device("extreme_numbers_f64", extreme_numbers::<f64>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

const FACTORS: [(f64, f64); 4] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75), (0.0, 2.0)];

fn every_matrix<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        // The emulator is slow.
        let emulated = device.to_string() == "emulated";
        if emulated && matrix.nnz() > 30_000 {
            continue;
        }
        let uploaded = device.upload(&matrix).unwrap();
        for ncols in if emulated { vec![5, 8] } else { vec![1, 5, 8, 70] } {
            let b = Dense::random(3, matrix.ncols(), ncols, 0, 0);
            for (alpha, beta) in FACTORS {
                let c = old(matrix.nrows(), ncols, 0, 0, beta);
                check(
                    &format!("{name}, {ncols} columns, alpha {alpha}, beta {beta}"),
                    &matrix,
                    &uploaded,
                    (alpha, beta),
                    &b,
                    &c,
                );
            }
        }
    }
}

/// Not one entry is lost, or taken twice, of huge rows either: see [`integers`].
fn sums_of_integers<T: Scalar>(device: &Device) {
    let emulated = device.to_string() == "emulated";
    for (name, matrix) in matrices::all::<T>() {
        // The emulator is slow: one of the largest stands for the others.
        let is_large = emulated && matrix.nnz() > 30_000;
        if is_large && name != "a huge last row" {
            continue;
        }
        let matrix = integers::matrix(&matrix);
        let uploaded = device.upload(&matrix).unwrap();
        for ncols in if is_large { vec![6] } else { vec![1, 6] } {
            let (b, c) =
                (Dense::integers(3, matrix.ncols(), ncols, 0, 0), Dense::integers(4, matrix.nrows(), ncols, 0, 0));
            check_exact(&format!("{name}, {ncols} columns"), &matrix, &uploaded, (-1.0, 3.0), &b, &c);
        }
    }
}

fn every_width<T: Scalar>(device: &Device) {
    let matrix = uneven::<T>();
    let uploaded = device.upload(&matrix).unwrap();
    let widths: &[usize] = match device.to_string() == "emulated" {
        true => &[1, 2, 3, 7, 31, 32, 33, 127],
        false => &[1, 2, 3, 4, 6, 7, 12, 16, 31, 32, 33, 64, 65, 127, 128, 160, 256, 260, 1000],
    };
    for &ncols in widths {
        // Without gaps, with gaps that keep vectors aligned, with such that do not, and begun at an odd element.
        for (gap, offset) in [(0, 0), (4, 8), (1, 0), (2, 2), (0, 3)] {
            let b = Dense::random(4, 60, ncols, gap, offset);
            for (alpha, beta) in [(1.0, 0.0), (-2.5, 0.75)] {
                let c = old(45, ncols, gap, offset, beta);
                check(
                    &format!("{ncols} columns, gap {gap}, offset {offset}, beta {beta}"),
                    &matrix,
                    &uploaded,
                    (alpha, beta),
                    &b,
                    &c,
                );
            }
        }
    }
}

/// Options for each tile, and as many columns as one tile has, as more than one, and as leave lanes without any; rows cut and whole.
fn tiles_and_widths() -> Vec<(SpmmOptions, usize)> {
    const TILES: [(u32, u32); 10] =
        [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (16, 1), (16, 2), (32, 1), (32, 2), (32, 4)];
    let mut all = vec![];
    for vector in [1, 2, 4] {
        for (lanes, coarsening) in TILES {
            let tile = vector * (lanes * coarsening) as usize;
            for split_threshold in [1, 2, 3, 16, 1000] {
                for ncols in [tile, tile + vector, 2 * tile + vector] {
                    // As many columns again as keep the vector from being wider.
                    let ncols = if vector < 4 && ncols.is_multiple_of(2 * vector) { ncols + vector } else { ncols };
                    all.push((SpmmOptions::default().tile(lanes, coarsening).split_threshold(split_threshold), ncols));
                }
            }
        }
    }
    all
}

/// The plan that the options lead to, unless there is no kernel of that tile.
fn plan<'a, T: Scalar>(on: &'a DeviceMatrix<T>, ncols: usize, options: &SpmmOptions) -> Option<SpmmPlan<'a, T>> {
    match on.spmm_plan(ncols, options) {
        Ok(plan) => Some(plan),
        Err(Error::InvalidOption(problem)) if problem.starts_with("a tile of") => None,
        Err(error) => panic!("{error}"),
    }
}

/// Each kernel, by name. Not one entry is lost, or taken twice: see [`integers`].
fn every_tile<T: Scalar>(device: &Device) {
    let matrix = integers::matrix(&uneven::<T>());
    let uploaded = device.upload(&matrix).unwrap();
    let mut kernels = std::collections::BTreeSet::new();
    for (options, ncols) in tiles_and_widths() {
        let Some(plan) = plan(&uploaded, ncols, &options) else { continue };
        let choice = plan.describe().clone();
        let (b, c) = (Dense::integers(5, 60, ncols, 0, 0), Dense::integers(6, 45, ncols, 0, 0));
        check_exact(&format!("{choice}, {ncols} columns"), &matrix, &plan, (-1.0, 3.0), &b, &c);
        kernels.insert(choice.kernel);
    }
    let expected = spmm_csr::KEYS.iter().filter(|key| key.dtype == T::DTYPE);
    assert_eq!(kernels, expected.map(|key| key.entry().name.to_owned()).collect());
}

fn gaps_stay_untouched(device: &Device) {
    // Checked in every product above; here C is larger than the product.
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let b = Dense::random(4, 60, 20, 0, 0);
    let mut c = device.upload_vec(&vec![3.0f32; 100 * 24]).unwrap();
    let x = device.upload_vec(&b.elements).unwrap();
    let layout = DenseLayout::row_major(45, 20).leading_dimension(24).offset(48);
    uploaded.spmm(1.0, x.matrix((60, 20)).unwrap(), 0.0, c.matrix_mut(layout).unwrap()).unwrap();
    let found = c.to_vec().unwrap();
    let outside = |at: usize| !(48..48 + 45 * 24).contains(&at) || (at - 48) % 24 >= 20;
    assert!((0..found.len()).filter(|&at| outside(at)).all(|at| found[at] == 3.0));
    assert!((0..found.len()).filter(|&at| !outside(at)).all(|at| found[at] != 3.0));
}

fn beta_zero_does_not_read_c(device: &Device) {
    let matrix = matrices::from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![], vec![(1, -4.0)]]);
    let uploaded = device.upload(&matrix).unwrap();
    let b = device.upload_vec(&[3.0, 30.0, 5.0, 50.0]).unwrap();
    let mut c = device.upload_vec(&[f64::NAN, f64::INFINITY, f64::NAN, f64::NAN, f64::NEG_INFINITY, f64::NAN]).unwrap();
    uploaded.spmm(2.0, b.matrix((2, 2)).unwrap(), 0.0, c.matrix_mut((3, 2)).unwrap()).unwrap();
    assert_eq!(c.to_vec().unwrap(), [26.0, 260.0, 0.0, 0.0, -40.0, -400.0]);
    uploaded.spmm(1.0, b.matrix((2, 2)).unwrap(), 10.0, c.matrix_mut((3, 2)).unwrap()).unwrap();
    assert_eq!(c.to_vec().unwrap(), [273.0, 2730.0, 0.0, 0.0, -420.0, -4200.0]);
}

/// The same bits as with host scalars, also of a plan, of a column-major C, of one with gaps, which stay, and of a row in pieces.
fn factors_in_device_memory(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let csc = device.upload(&CscMatrix::try_from(&matrix.transpose().unwrap()).unwrap()).unwrap();
    let [three, eight, zero] = [3.0f32, 8.0, 0.0].map(|value| device.scalar(value).unwrap());
    let plan = uploaded.spmm_plan(12, &SpmmOptions::default().split_threshold(4)).unwrap();
    let (b, c) = (Dense::random(4, 60, 12, 0, 0), old(45, 12, 0, 0, 0.5));
    let b = device.upload_dense((60, 12), &b.elements).unwrap();
    let with_gaps = DenseLayout::row_major(45, 12).leading_dimension(15).offset(2);
    let layouts = [DenseLayout::row_major(45, 12), DenseLayout::column_major(45, 12), with_gaps];
    for (layout, beta) in layouts.into_iter().flat_map(|layout| [8.0f32, 0.0].map(|beta| (layout, beta))) {
        // Without gaps, C may be no number where it must not be read.
        let elements = match layout.elements().unwrap() {
            540 if beta == 0.0 => vec![f32::NAN; 540],
            count => c.elements.iter().cycle().take(count).copied().collect(),
        };
        let of_device = if beta == 0.0 { &zero } else { &eight };
        let result = |multiply: &dyn Fn(&mut DeviceDense<f32>) -> Result<()>| {
            let mut c = device.upload_dense(layout, &elements).unwrap();
            multiply(&mut c).unwrap();
            c.into_vec().to_vec().unwrap()
        };
        let expected = result(&|c| uploaded.spmm(3.0, &b, beta, c));
        assert!(result(&|c| uploaded.spmm(&three, &b, of_device, c)) == expected, "{layout:?}, beta {beta}");
        let expected = result(&|c| csc.spmm_transposed(3.0, &b, beta, c));
        assert!(result(&|c| csc.spmm_transposed(&three, &b, of_device, c)) == expected, "{layout:?}, beta {beta}");
        let expected = result(&|c| plan.multiply(0.375, &b, beta, c));
        assert!(result(&|c| plan.multiply(&three / &eight, &b, of_device, c)) == expected, "{layout:?}, beta {beta}");
    }
    // What is not finite stays so if it is multiplied by 0, and each product is rounded; a vector too.
    let one = device.scalar(1.0f32).unwrap();
    let infinite = device.upload_dense((60, 12), &[vec![f32::INFINITY; 12], Random(3).vector(708)].concat()).unwrap();
    for (alpha, of_alpha) in [(0.0, &zero), (0.3, &device.scalar(0.3).unwrap())] {
        let spmm = |alpha: Factor<'_, f32>, beta: Factor<'_, f32>| {
            let mut c = device.upload_dense((45, 12), &c.elements).unwrap();
            uploaded.spmm(alpha, &infinite, beta, &mut c).unwrap();
            let mut y = device.filled(45, 0.7).unwrap();
            let x = device.upload_vec(&infinite.to_vec().unwrap()[..60]).unwrap();
            uploaded.spmv(alpha, &x, beta, &mut y).unwrap();
            format!("{:?}", (c.to_vec().unwrap(), y.to_vec().unwrap()))
        };
        let expected = spmm(Factor::of(alpha), Factor::of(1.0));
        let found = [spmm(1.0 * of_alpha, 1.0 * &one), spmm(Factor::of(alpha), 1.0 * &one)];
        assert!(found.iter().all(|found| *found == expected), "{alpha}: {found:?} {expected}");
    }
    let elsewhere = other(device).scalar(1.0).unwrap();
    let mut c = device.zeros_dense((45, 12)).unwrap();
    let error = uploaded.spmm(&elsewhere, &b, 0.0, &mut c).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "alpha", .. }), "{error}");
}

fn products_with_the_transpose(device: &Device) {
    let matrix = uneven::<f64>();
    let uploaded = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    let transpose = matrix.transpose().unwrap();
    let b = Dense::random(4, 45, 6, 2, 0);
    let c = old(60, 6, 0, 0, 0.0);
    let (x, mut y) = (device.upload_vec(&b.elements).unwrap(), device.upload_vec(&c.elements).unwrap());
    uploaded.spmm_transposed(2.0, x.matrix(b.layout()).unwrap(), 0.0, y.matrix_mut(c.layout()).unwrap()).unwrap();
    assert_within("the transpose", &y.to_vec().unwrap(), &reference(&transpose, 2.0, &b, 0.0, &c));
}

fn wide_offsets(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&CsrMatrix::<f32, u64>::from(&matrix)).unwrap();
    let b = Dense::random(4, 60, 12, 0, 0);
    check("64-bit offsets", &matrix, &uploaded, (1.0, 0.0), &b, &old(45, 12, 0, 0, 0.0));
}

fn one_column_is_spmv(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let b = Dense::<f32>::random(4, 60, 1, 0, 0);
    let found = product(&uploaded, 1.0, &b, 0.0, &old(45, 1, 0, 0, 0.0));
    let mut y = device.zeros(45).unwrap();
    uploaded.spmv(1.0, &device.upload_vec(&b.elements).unwrap(), 0.0, &mut y).unwrap();
    assert_eq!(found, y.to_vec().unwrap());
    // One that does not fill its vector has a kernel of its own.
    let b = Dense::random(4, 60, 1, 2, 1);
    check("one column of three", &matrix, &uploaded, (1.0, 0.5), &b, &old(45, 1, 4, 3, 0.5));
}

fn same_input_same_bits(device: &Device) {
    let runs = if device.is_cuda() { 100 } else { 3 };
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    for ncols in [3, 20, 64] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.5));
        let bits = || product(&uploaded, 1.25, &b, 0.5, &c).into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let first = bits();
        for _ in 1..runs {
            assert!(bits() == first, "{ncols} columns");
        }
    }
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    // One row of 100 entries, cut into pieces.
    let rows = (0..50).map(|i| (0..if i == 7 { 100 } else { i % 3 }).map(|k| ((i + k) % 50, 1.0)).collect()).collect();
    let matrix = matrices::from_rows::<f64>(50, rows);
    let uploaded = device.upload(&matrix).unwrap();
    let b = device.upload_vec(&[2.0; 50 * 4]).unwrap();
    let mut c = device.upload_vec(&[100.0; 50 * 4]).unwrap();
    let product = || uploaded.spmm(3.0, b.matrix((50, 4))?, 1.0, c.matrix_mut((50, 4))?);
    device.record(product).unwrap().launch(4).unwrap();
    let length = |i: usize| if i == 7 { 100 } else { i % 3 };
    let expected: Vec<_> = (0..50 * 4).map(|at| 100.0 + 4.0 * 6.0 * length(at / 4) as f64).collect();
    assert_eq!(c.to_vec().unwrap(), expected);
}

/// 45 rows, 60 columns: the matrix and its offsets once, B and C once.
fn bytes_are_those_of_the_arrays(device: &Device) {
    let matrix = uneven::<f32>();
    let arrays = matrix.nnz() * 8 + 46 * 4;
    let uploaded = device.upload(&matrix).unwrap();
    for ncols in [0, 1, 7] {
        assert_eq!(uploaded.spmm_bytes(ncols), arrays + (45 + 60) * ncols * 4);
    }
    let wide = device.upload(&CsrMatrix::<f32, u64>::from(&matrix)).unwrap();
    assert_eq!(wide.spmm_bytes(7), arrays + 46 * 4 + (45 + 60) * 7 * 4);
}

fn plans_choose_as_told(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let plan = uploaded.spmm_plan(32, &SpmmOptions::default()).unwrap();
    let chosen = plan.describe();
    let b = Dense::random(4, 60, 32, 0, 0);
    if device.to_string() == "cpu" {
        assert_eq!(chosen.kernel, "cpu_spmm_csr");
    } else {
        assert_eq!(chosen.kernel, "spmm_csr_f32_v4_t8_c1");
        assert!(chosen.reason.contains("15 rows of more than 16 entries, up to 150, in "), "{chosen}");
        let plan = uploaded.spmm_plan(32, &SpmmOptions::default().tile(4, 1).split_threshold(200)).unwrap();
        let forced = plan.describe();
        assert_eq!(forced.kernel, "spmm_csr_f32_v4_t4_c1");
        assert!(forced.reason.ends_with("no row of more than 200 entries"), "{forced}");
        check("forced", &matrix, &plan, (1.0, 0.0), &b, &old(45, 32, 0, 0, 0.0));
    }
    let plan = uploaded.spmm_plan(32, &SpmmOptions::default().autotune()).unwrap();
    let tuned = plan.describe();
    assert!(device.to_string() == "cpu" || tuned.reason.starts_with("the fastest of "), "{tuned}");
    check("autotuned", &matrix, &plan, (1.0, 0.0), &b, &old(45, 32, 0, 0, 0.0));
    // Where there is nothing to choose from, or to time.
    uploaded.spmm_plan(2049, &SpmmOptions::default().autotune()).unwrap();
    let none = device.upload(&matrices::from_rows::<f32>(5, vec![])).unwrap();
    none.spmm_plan(8, &SpmmOptions::default().autotune()).unwrap();
    if device.to_string() != "cpu" {
        let error = uploaded.spmm_plan(32, &SpmmOptions::default().tile(3, 1).autotune()).unwrap_err();
        assert!(error.to_string().starts_with("invalid option: a tile of 3 lanes"), "{error}");
    }
    // Long rows and order hold for other alignments too.
    let options = SpmmOptions::default().split_threshold(7).row_order((0..45).rev().collect());
    let plan = uploaded.spmm_plan(12, &options).unwrap();
    let gaps = Dense::random(4, 60, 12, 1, 3);
    check("misaligned", &matrix, &plan, (1.0, 0.0), &gaps, &old(45, 12, 1, 3, 0.0));
}

fn what_does_not_fit(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let b = device.zeros::<f32>(60 * 8).unwrap();
    let mut c = device.zeros::<f32>(45 * 8).unwrap();
    let mut error = |on: &DeviceMatrix<f32>, b: Result<_>, c_layout: DenseLayout| {
        b.and_then(|b| on.spmm(1.0, b, 0.0, c.matrix_mut(c_layout)?)).unwrap_err().to_string()
    };
    let c_layout = DenseLayout::from((45, 8));
    let cases = [
        (error(&uploaded, b.matrix((59, 8)), c_layout), "the column of B has 59 elements where the operation needs 60"),
        (
            error(&uploaded, b.matrix((60, 8)), (44, 8).into()),
            "the column of C has 44 elements where the operation needs 45",
        ),
        (error(&uploaded, b.matrix((60, 7)), c_layout), "the row of C has 8 elements where the operation needs 7"),
        (
            error(&uploaded, b.matrix((61, 8)), c_layout),
            "the vector of a dense matrix has 480 elements where the operation needs 488",
        ),
        (
            error(&uploaded, b.matrix(DenseLayout::row_major(60, 8).leading_dimension(7)), c_layout),
            "invalid option: leading dimension 7 is less than the 8 columns of a row",
        ),
        (
            error(&uploaded, b.matrix(DenseLayout::row_major(1 << 60, 1 << 10)), c_layout),
            "the vector of a dense matrix has 480 elements where the operation needs 18446744073709551615",
        ),
        (
            error(&device.upload(&CooMatrix::from(&matrix)).unwrap(), b.matrix((60, 8)), c_layout),
            "not supported: products of dense matrices with a matrix that is not in CSR or BSR on the device",
        ),
        (
            error(
                &device
                    .upload_with(&CscMatrix::try_from(&matrix).unwrap(), &SpmvOptions::default().nondeterministic())
                    .unwrap(),
                b.matrix((60, 8)),
                c_layout,
            ),
            "not supported: products of dense matrices with a CSC matrix: it has those of the transpose; upload CsrMatrix::try_from(&matrix)",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    // What is not supported does not depend on the number of columns.
    let coo = device.upload_with(&matrix, &SpmvOptions::default().format(FormatChoice::Coo)).unwrap();
    let nondeterministic = device.upload_with(&matrix, &SpmvOptions::default().nondeterministic()).unwrap();
    for cols in [1, 2] {
        for (uploaded, is_transposed) in [(&coo, false), (&coo, true), (&uploaded, true), (&nondeterministic, true)] {
            let (b_rows, c_rows) = if is_transposed { (45, 60) } else { (60, 45) };
            let (b, mut c) = (device.zeros(b_rows * cols).unwrap(), device.zeros(c_rows * cols).unwrap());
            let (from, c) = (b.matrix((b_rows, cols)).unwrap(), c.matrix_mut((c_rows, cols)).unwrap());
            let refused = match is_transposed {
                true => uploaded.spmm_transposed(1.0, from, 0.0, c).unwrap_err(),
                false => uploaded.spmm(1.0, from, 0.0, c).unwrap_err(),
            };
            assert!(matches!(refused, Error::Unsupported(_)), "{cols} columns, transposed {is_transposed}: {refused}");
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        }
    }
    let error = uploaded.spmm_plan(8, &SpmmOptions::default().split_threshold(0)).unwrap_err();
    assert_eq!(error.to_string(), "invalid option: long rows of more than 0 entries: it is 1 to 2^30");
    // Nothing to compute is not an error.
    let (none, mut c) = (device.zeros::<f32>(0).unwrap(), device.zeros::<f32>(0).unwrap());
    uploaded.spmm(1.0, none.matrix((60, 0)).unwrap(), 0.0, c.matrix_mut((45, 0)).unwrap()).unwrap();
}

/// Matrices, widths, gaps, offsets, factors and lengths of pieces at random.
fn random_products<T: Scalar>(device: &Device) {
    let factors = (strategies::factor::<f64>(), strategies::factor::<f64>());
    let shape = (1usize..70, 0usize..5, 0usize..5, prop_oneof![Just(None), (1u32..40).prop_map(Some)]);
    let cases = (strategies::csr_matrix::<T>(), shape, factors);
    let count = if device.to_string() == "emulated" { 32 } else { 256 };
    properties::check(&format!("spmm_{:?}", T::DTYPE), count, cases, |(matrix, shape, factors)| {
        let (ncols, gap, offset, split_threshold) = shape;
        let uploaded = device.upload(&matrix).unwrap();
        let options = split_threshold
            .map_or_else(SpmmOptions::default, |entries| SpmmOptions::default().split_threshold(entries));
        let plan = uploaded.spmm_plan(ncols, &options).unwrap();
        let b = Dense::random(21, matrix.ncols(), ncols, gap, offset);
        check("random", &matrix, &plan, factors, &b, &old(matrix.nrows(), ncols, gap, offset, factors.1));
        Ok(())
    });
}

/// Numbers that are infinite, NaN, huge, tiny or denormal, each column as a vector.
fn extreme_numbers<T: Scalar>(device: &Device) {
    let cases = (strategies::csr_matrix_with_extremes::<T>(), 1usize..9).prop_flat_map(|(matrix, ncols)| {
        let b = strategies::vector_with_extremes::<T>(matrix.ncols() * ncols);
        let c = strategies::vector_with_extremes::<T>(matrix.nrows() * ncols);
        (Just(matrix), Just(ncols), b, c, strategies::factor(), strategies::factor())
    });
    let count = if device.to_string() == "emulated" { 16 } else { 256 };
    properties::check(&format!("spmm_extremes_{:?}", T::DTYPE), count, cases, |(matrix, ncols, b, c, alpha, beta)| {
        let (x, mut y) = (device.upload_vec(&b).unwrap(), device.upload_vec(&c).unwrap());
        let layouts = ((matrix.ncols(), ncols), (matrix.nrows(), ncols));
        let (x, of_y) = (x.matrix(layouts.0).unwrap(), y.matrix_mut(layouts.1).unwrap());
        device.upload(&matrix).unwrap().spmm(alpha, x, beta, of_y).unwrap();
        let found = y.to_vec().unwrap();
        for j in 0..ncols {
            let column = |of: &[T]| of.iter().skip(j).step_by(ncols).copied().collect::<Vec<_>>();
            let (x, y) = (column(&b), column(&c));
            extremes::check(
                "random",
                Additions::InRegisters,
                matrix.triplets(),
                (alpha, &x),
                (beta, &y),
                &column(&found),
            );
        }
        Ok(())
    });
}

/// Of every tile.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let matrix = uneven::<T>();
    let emulated = Device::emulated(1).upload(&matrix).unwrap();
    let real = gpu.upload(&matrix).unwrap();
    for (options, ncols) in tiles_and_widths() {
        let choices = [&emulated, &real].map(|on| plan(on, ncols, &options).map(|plan| plan.describe().kernel.clone()));
        assert_eq!(choices[0], choices[1]);
        if choices[0].is_none() {
            continue;
        }
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.5));
        let bits = |on| {
            product::<T>(on, 1.25, &b, 0.5, &c).into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>()
        };
        assert!(bits(&emulated) == bits(&real), "{options:?}, {ncols} columns");
    }
}
