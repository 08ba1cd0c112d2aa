//! Products with dense matrices by every kernel that can be forced, against a reference in f64.

mod common;

use std::{collections::BTreeSet, process::ExitCode};

use common::{
    dense::{Dense, Multiplies, check, check_exact, old, product, reference},
    integers,
    matrices::{self, uneven},
    on_emulator_and_gpu, on_every_device, on_gpu,
};
use kernels_gpu::{
    spmm_atomic::{self, Task},
    spmm_ladder,
};
use warpsparse::{CscMatrix, CsrMatrix, Device, DeviceMatrix, Scalar, SpmmKernel, SpmmOptions, SpmmPlan};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_emulator_and_gpu("every_kernel_and_width_f32", every_kernel_and_width::<f32>));
    trials.extend(on_emulator_and_gpu("every_kernel_and_width_f64", every_kernel_and_width::<f64>));
    trials.extend(on_emulator_and_gpu("every_matrix_f32", every_matrix::<f32>));
    trials.extend(on_emulator_and_gpu("every_matrix_f64", every_matrix::<f64>));
    trials.extend(on_emulator_and_gpu("wide_offsets_f32", wide_offsets::<f32>));
    trials.extend(on_emulator_and_gpu("wide_offsets_f64", wide_offsets::<f64>));
    trials.extend(on_emulator_and_gpu("only_what_has_entries_is_read", only_what_has_entries_is_read));
    trials.extend(on_emulator_and_gpu("rows_are_added_up_in_order", rows_are_added_up_in_order));
    trials.extend(on_emulator_and_gpu("plans_leave_other_products_alone", plans_leave_other_products_alone));
    trials.extend(on_every_device("products_with_the_transpose", products_with_the_transpose));
    trials.extend(on_every_device("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_every_device("what_options_refuse", what_options_refuse));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

/// Those whose sums have a fixed order.
const IN_ORDER: [SpmmKernel; 5] = [
    SpmmKernel::RowPerThread,
    SpmmKernel::ElementPerThread,
    SpmmKernel::RowCaching { tiles: 1 },
    SpmmKernel::RowCaching { tiles: 2 },
    SpmmKernel::RowCaching { tiles: 4 },
];

const ATOMIC: [SpmmKernel; 3] =
    [SpmmKernel::AtomicEntryPerThread, SpmmKernel::AtomicEntryPerWarp, SpmmKernel::AtomicEntryPerWarpByColumns];

fn every_kernel() -> impl Iterator<Item = SpmmKernel> {
    IN_ORDER.into_iter().chain(ATOMIC)
}

fn force<T: Scalar>(on: &DeviceMatrix<T>, cols: usize, kernel: SpmmKernel) -> SpmmPlan<'_, T> {
    on.spmm_plan(cols, &SpmmOptions::default().kernel(kernel).nondeterministic()).unwrap()
}

/// The kernels of the ladder for `T` and row offsets of so many bytes.
fn rungs<T: Scalar>(offset_bytes: usize) -> BTreeSet<String> {
    let keys = spmm_ladder::KEYS.iter().filter(|key| key.dtype == T::DTYPE && key.offset_bytes == offset_bytes);
    keys.map(|key| key.entry().name.to_owned()).collect()
}

fn every_kernel_and_width<T: Scalar>(device: &Device) {
    let matrix = uneven::<T>();
    let uploaded = device.upload(&matrix).unwrap();
    let mut kernels = BTreeSet::new();
    for kernel in every_kernel() {
        for ncols in [1, 2, 3, 31, 32, 33, 65, 127] {
            let plan = force(&uploaded, ncols, kernel);
            let choice = plan.describe().clone();
            for (gap, offset, alpha, beta) in [(1, 0, 1.0, 0.0), (3, 5, -2.5, 0.75), (0, 1, 1.0, 1.0)] {
                let (b, c) = (Dense::random(4, 60, ncols, gap, offset), old(45, ncols, gap, offset, beta));
                let case = format!("{choice}, {ncols} columns, gap {gap}, offset {offset}, beta {beta}");
                check(&case, &matrix, &plan, (alpha, beta), &b, &c);
            }
            kernels.insert(choice.kernel);
        }
    }
    let mut expected = rungs::<T>(4);
    let products = spmm_atomic::KEYS.iter().filter(|key| key.dtype == T::DTYPE && key.task != Task::Scale);
    expected.extend(products.map(|key| key.entry().name.to_owned()));
    assert_eq!(kernels, expected);
}

/// Of integers: not one entry is lost, or taken twice.
fn every_matrix<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        // The emulator is slow.
        if device.to_string() == "emulated" && matrix.nnz() > 12_000 {
            continue;
        }
        let matrix = integers::matrix(&matrix);
        let uploaded = device.upload(&matrix).unwrap();
        for kernel in every_kernel() {
            let plan = force(&uploaded, 5, kernel);
            let choice = plan.describe();
            let b = Dense::integers(3, matrix.ncols(), 5, 0, 0);
            let c = old(matrix.nrows(), 5, 0, 0, 0.0);
            check_exact(&format!("{name}, {choice}"), &matrix, &plan, (-1.0, 0.0), &b, &c);
            let c = Dense::integers(4, matrix.nrows(), 5, 0, 0);
            check_exact(&format!("{name}, {choice}, no product"), &matrix, &plan, (0.0, 2.0), &b, &c);
        }
    }
}

fn wide_offsets<T: Scalar>(device: &Device) {
    let matrix = uneven::<T>();
    let uploaded = device.upload(&CsrMatrix::<T, u64>::from(&matrix)).unwrap();
    let mut kernels = BTreeSet::new();
    for kernel in every_kernel() {
        let plan = force(&uploaded, 35, kernel);
        let choice = plan.describe().clone();
        let (b, c) = (Dense::random(4, 60, 35, 2, 0), old(45, 35, 2, 0, 0.5));
        check(&choice.to_string(), &matrix, &plan, (1.5, 0.5), &b, &c);
        kernels.insert(choice.kernel);
    }
    assert!(kernels.is_superset(&rungs::<T>(8)), "{kernels:?}");
}

/// Neither the old C where beta is 0, nor a row of B that no entry meets: both are not numbers.
fn only_what_has_entries_is_read(device: &Device) {
    let matrix = matrices::from_rows::<f64>(3, vec![vec![(1, 1.0), (2, 2.0)], vec![], vec![(2, -4.0)]]);
    let uploaded = device.upload(&matrix).unwrap();
    let b = device.upload_vec(&[f64::NAN, f64::INFINITY, 3.0, 30.0, 5.0, 50.0]).unwrap();
    for kernel in every_kernel() {
        let plan = force(&uploaded, 2, kernel);
        let mut c = device.upload_vec(&[f64::NAN, f64::INFINITY, f64::NAN, f64::NAN, 1.0, f64::NAN]).unwrap();
        plan.multiply(2.0, b.matrix((3, 2)).unwrap(), 0.0, c.matrix_mut((3, 2)).unwrap()).unwrap();
        assert_eq!(c.to_vec().unwrap(), [26.0, 260.0, 0.0, 0.0, -40.0, -400.0], "{kernel:?}");
    }
}

/// The product in f32 where each row is added up entry by entry, with one rounding an entry.
fn in_order(a: &CsrMatrix<f32>, alpha: f32, b: &Dense<f32>, beta: f32, c: &Dense<f32>) -> Vec<u32> {
    let mut sums = vec![0.0f32; c.nrows * c.ncols];
    for (i, k, value) in a.triplets() {
        for (sum, &element) in sums[i * c.ncols..].iter_mut().zip(b.row(k)) {
            *sum = value.mul_add(element, *sum);
        }
    }
    let rows = sums.chunks(c.ncols).enumerate();
    let written = |(i, sums): (usize, &[f32])| -> Vec<u32> {
        sums.iter().zip(c.row(i)).map(|(&sum, &old)| beta.mul_add(old, alpha * sum).to_bits()).collect()
    };
    rows.flat_map(written).collect()
}

fn bits(on: &impl Multiplies<f32>, alpha: f32, b: &Dense<f32>, beta: f32, c: &Dense<f32>) -> Vec<u32> {
    let found = product(on, f64::from(alpha), b, f64::from(beta), c);
    let rows = (0..c.nrows).map(|i| c.offset + i * c.leading_dimension);
    rows.flat_map(|first| &found[first..first + c.ncols]).map(|value| value.to_bits()).collect()
}

fn rows_are_added_up_in_order(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    for ncols in [3, 70] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.75));
        let expected = in_order(&matrix, -2.5, &b, 0.75, &c);
        for kernel in IN_ORDER {
            let plan = force(&uploaded, ncols, kernel);
            assert!(bits(&plan, -2.5, &b, 0.75, &c) == expected, "{kernel:?}, {ncols} columns");
        }
    }
}

/// Which kernel computes a product shows in its bits: the tiles cut long rows into pieces.
fn plans_leave_other_products_alone(device: &Device) {
    let matrix = uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let plan = force(&uploaded, 32, SpmmKernel::RowCaching { tiles: 2 });
    // Whatever the alignment.
    for gap in [0, 1, 4] {
        let (b, c) = (Dense::random(4, 60, 32, gap, 0), old(45, 32, gap, 0, 0.5));
        let expected = in_order(&matrix, 1.5, &b, 0.5, &c);
        assert!(bits(&plan, 1.5, &b, 0.5, &c) == expected);
        assert!(bits(&uploaded, 1.5, &b, 0.5, &c) != expected);
    }
    let (b, mut c) = (device.zeros(60 * 33).unwrap(), device.zeros(45 * 33).unwrap());
    let error = plan.multiply(1.0, b.matrix((60, 33)).unwrap(), 0.0, c.matrix_mut((45, 33)).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the row of B has 33 elements where the operation needs 32");
}

fn products_with_the_transpose(device: &Device) {
    let matrix = uneven::<f64>();
    let uploaded = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    let transpose = matrix.transpose().unwrap();
    let (b, c) = (Dense::random(4, 45, 6, 0, 0), old(60, 6, 0, 0, 0.0));
    let x = device.upload_vec(&b.elements).unwrap();
    for kernel in every_kernel() {
        let plan = force(&uploaded, 6, kernel);
        let mut y = device.upload_vec(&c.elements).unwrap();
        plan.multiply(2.0, x.matrix(b.layout()).unwrap(), 0.0, y.matrix_mut(c.layout()).unwrap()).unwrap();
        let expected = reference(&transpose, 2.0, &b, 0.0, &c);
        common::assert_within(&format!("{kernel:?}"), &y.to_vec().unwrap(), &expected);
    }
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    let rows = (0..50).map(|i| (0..i % 5).map(|k| ((7 * i + k) % 50, 1.0)).collect()).collect();
    let uploaded = device.upload(&matrices::from_rows::<f64>(50, rows)).unwrap();
    let b = device.upload_vec(&[2.0; 50 * 4]).unwrap();
    for kernel in every_kernel() {
        let plan = force(&uploaded, 4, kernel);
        let mut c = device.upload_vec(&[100.0; 50 * 4]).unwrap();
        let product = || plan.multiply(3.0, b.matrix((50, 4))?, 2.0, c.matrix_mut((50, 4))?);
        let mut graph = device.record(product).unwrap();
        graph.launch(2).unwrap();
        graph.launch(1).unwrap();
        drop(graph);
        let after_three = |at: usize| 800.0 + (4.0 + 2.0 + 1.0) * 6.0 * (at / 4 % 5) as f64;
        assert_eq!(c.to_vec().unwrap(), (0..50 * 4).map(after_three).collect::<Vec<_>>(), "{kernel:?}");
    }
}

fn what_options_refuse(device: &Device) {
    let uploaded = device.upload(&uneven::<f32>()).unwrap();
    let refused = |options: SpmmOptions| uploaded.spmm_plan(8, &options).unwrap_err().to_string();
    let forced = |kernel| SpmmOptions::default().kernel(kernel);
    for kernel in ATOMIC {
        let way_out = "allow that by SpmmOptions::nondeterministic";
        let expected = format!("invalid option: the kernel {kernel:?} adds in no fixed order: {way_out}");
        assert_eq!(refused(forced(kernel)), expected);
    }
    for tiles in [0, 3, 8] {
        assert_eq!(
            refused(forced(SpmmKernel::RowCaching { tiles })),
            format!("invalid option: row caching for {tiles} tiles: kernels exist for 1, 2 and 4")
        );
    }
    let naive = forced(SpmmKernel::ElementPerThread);
    for options in [naive.clone().tile(8, 1), naive.clone().long_row(100), naive.clone().autotune()] {
        let problem = "a tile, long rows, an order of rows and timing are for SpmmKernel::Tiles";
        assert_eq!(refused(options), format!("invalid option: the kernel ElementPerThread: {problem}"));
    }
    let chosen = uploaded.spmm_plan(8, &naive).unwrap().describe().kernel.clone();
    let expected = if device.to_string() == "cpu" { "cpu_spmm_csr" } else { "spmm_ladder_element_per_thread_f32" };
    assert_eq!(chosen, expected);
}

/// By the kernels that do not add atomically.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let matrix = uneven::<T>();
    let (emulated, real) = (Device::emulated(1).upload(&matrix).unwrap(), gpu.upload(&matrix).unwrap());
    for ncols in [3, 33, 70] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.75));
        for kernel in IN_ORDER {
            let bits = |on| {
                product::<T>(&force(on, ncols, kernel), -2.5, &b, 0.75, &c)
                    .into_iter()
                    .map(|value| value.to_f64().to_bits())
                    .collect::<Vec<_>>()
            };
            assert!(bits(&emulated) == bits(&real), "{kernel:?}, {ncols} columns");
        }
    }
}
