//! Products with dense matrices by every kernel that can be forced, against a reference in f64.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::{collections::BTreeSet, process::ExitCode};

use common::{
    dense::{Dense, Multiplies, check, check_exact, old, product},
    integers,
    matrices::{self, uneven},
    on_device, on_emulator_and_gpu, on_gpu,
};
use ladders::{
    SpmmLadder, SpmmRung,
    kernels::{
        spmm_atomic::{self, Task},
        spmm_ladder,
    },
};
use warpsparse::{CsrMatrix, DenseLayout, DenseMut, DenseRef, Device, Offset, Result, Scalar};

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
    trials.extend(on_emulator_and_gpu("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_emulator_and_gpu("what_is_refused", what_is_refused));
    trials.push(on_device("the_cpu_runs_no_rung::cpu".into(), the_cpu_runs_no_rung, Device::cpu));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

impl<T: Scalar, O: Offset> Multiplies<T> for SpmmLadder<T, O> {
    fn on_device(&self) -> &Device {
        self.device()
    }

    fn multiply(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.spmm(alpha, b, beta, c)
    }
}

/// Those whose sums have a fixed order.
fn in_fixed_order() -> impl Iterator<Item = SpmmRung> {
    SpmmRung::ALL.iter().copied().filter(|rung| !rung.is_atomic())
}

fn on<T: Scalar, O: Offset>(device: &Device, matrix: &CsrMatrix<T, O>, rung: SpmmRung) -> SpmmLadder<T, O> {
    SpmmLadder::new(device, matrix, rung).unwrap()
}

/// The kernels of the ladder for `T` and row offsets of so many bytes.
fn rungs<T: Scalar>(offset_bytes: usize) -> BTreeSet<String> {
    let keys = spmm_ladder::KEYS.iter().filter(|key| key.dtype == T::DTYPE && key.offset_bytes == offset_bytes);
    keys.map(|key| key.entry().name.to_owned()).collect()
}

fn every_kernel_and_width<T: Scalar>(device: &Device) {
    let matrix = uneven::<T>();
    let mut kernels = BTreeSet::new();
    for &rung in SpmmRung::ALL {
        let ladder = on(device, &matrix, rung);
        for ncols in [1, 2, 3, 31, 32, 33, 65, 127] {
            for (gap, offset, alpha, beta) in [(1, 0, 1.0, 0.0), (3, 5, -2.5, 0.75), (0, 1, 1.0, 1.0)] {
                let (b, c) = (Dense::random(4, 60, ncols, gap, offset), old(45, ncols, gap, offset, beta));
                let case = format!("{rung:?}, {ncols} columns, gap {gap}, offset {offset}, beta {beta}");
                check(&case, &matrix, &ladder, (alpha, beta), &b, &c);
            }
        }
        kernels.insert(ladder.name().to_owned());
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
        for &rung in SpmmRung::ALL {
            let ladder = on(device, &matrix, rung);
            let b = Dense::integers(3, matrix.ncols(), 5, 0, 0);
            let c = old(matrix.nrows(), 5, 0, 0, 0.0);
            check_exact(&format!("{name}, {rung:?}"), &matrix, &ladder, (-1.0, 0.0), &b, &c);
            let c = Dense::integers(4, matrix.nrows(), 5, 0, 0);
            check_exact(&format!("{name}, {rung:?}, no product"), &matrix, &ladder, (0.0, 2.0), &b, &c);
        }
    }
}

fn wide_offsets<T: Scalar>(device: &Device) {
    let matrix = uneven::<T>();
    let wide = CsrMatrix::<T, u64>::from(&matrix);
    let mut kernels = BTreeSet::new();
    for &rung in SpmmRung::ALL {
        let ladder = on(device, &wide, rung);
        let (b, c) = (Dense::random(4, 60, 35, 2, 0), old(45, 35, 2, 0, 0.5));
        check(&format!("{rung:?}"), &matrix, &ladder, (1.5, 0.5), &b, &c);
        kernels.insert(ladder.name().to_owned());
    }
    assert!(kernels.is_superset(&rungs::<T>(8)), "{kernels:?}");
}

/// Neither the old C where beta is 0, nor a row of B that no entry meets: both are not numbers.
fn only_what_has_entries_is_read(device: &Device) {
    let matrix = matrices::from_rows::<f64>(3, vec![vec![(1, 1.0), (2, 2.0)], vec![], vec![(2, -4.0)]]);
    let b = device.upload_vec(&[f64::NAN, f64::INFINITY, 3.0, 30.0, 5.0, 50.0]).unwrap();
    for &rung in SpmmRung::ALL {
        let mut c = device.upload_vec(&[f64::NAN, f64::INFINITY, f64::NAN, f64::NAN, 1.0, f64::NAN]).unwrap();
        let ladder = on(device, &matrix, rung);
        ladder.spmm(2.0, b.matrix((3, 2)).unwrap(), 0.0, c.matrix_mut((3, 2)).unwrap()).unwrap();
        assert_eq!(c.to_vec().unwrap(), [26.0, 260.0, 0.0, 0.0, -40.0, -400.0], "{rung:?}");
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
    for ncols in [3, 70] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.75));
        let expected = in_order(&matrix, -2.5, &b, 0.75, &c);
        for rung in in_fixed_order() {
            let ladder = on(device, &matrix, rung);
            assert!(bits(&ladder, -2.5, &b, 0.75, &c) == expected, "{rung:?}, {ncols} columns");
        }
    }
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    let rows = (0..50).map(|i| (0..i % 5).map(|k| ((7 * i + k) % 50, 1.0)).collect()).collect();
    let matrix = matrices::from_rows::<f64>(50, rows);
    let b = device.upload_vec(&[2.0; 50 * 4]).unwrap();
    for &rung in SpmmRung::ALL {
        let ladder = on(device, &matrix, rung);
        let mut c = device.upload_vec(&[100.0; 50 * 4]).unwrap();
        let product = || ladder.spmm(3.0, b.matrix((50, 4))?, 2.0, c.matrix_mut((50, 4))?);
        let mut graph = device.record(product).unwrap();
        graph.launch(2).unwrap();
        graph.launch(1).unwrap();
        drop(graph);
        let after_three = |at: usize| 800.0 + (4.0 + 2.0 + 1.0) * 6.0 * (at / 4 % 5) as f64;
        assert_eq!(c.to_vec().unwrap(), (0..50 * 4).map(after_three).collect::<Vec<_>>(), "{rung:?}");
    }
}

fn what_is_refused(device: &Device) {
    let matrix = uneven::<f32>(); // 45 x 60
    for &rung in SpmmRung::ALL {
        let ladder = on(device, &matrix, rung);
        let refused = |b: DenseLayout, c: DenseLayout| {
            let (x, mut y) = (device.zeros::<f32>(180).unwrap(), device.zeros::<f32>(180).unwrap());
            ladder.spmm(1.0, x.matrix(b).unwrap(), 0.0, y.matrix_mut(c).unwrap()).unwrap_err().to_string()
        };
        let (b, c) = (DenseLayout::row_major(60, 3), DenseLayout::row_major(45, 3));
        let takes = "kernels of the ladder take row-major matrices";
        let columns = DenseLayout::column_major(60, 3);
        assert_eq!(refused(columns, c), format!("not supported: a column-major B: {takes}"));
        assert_eq!(
            refused(b, DenseLayout::row_major(45, 2)),
            "the row of C has 2 elements where the operation needs 3"
        );
        assert_eq!(refused(c, c), "the column of B has 45 elements where the operation needs 60");
    }
}

fn the_cpu_runs_no_rung(cpu: &Device) {
    let ladder = on(cpu, &uneven::<f32>(), SpmmRung::ElementPerThread);
    let (x, mut y) = (cpu.zeros::<f32>(60).unwrap(), cpu.zeros::<f32>(45).unwrap());
    let error = ladder.spmm(1.0, x.matrix((60, 1)).unwrap(), 0.0, y.matrix_mut((45, 1)).unwrap()).unwrap_err();
    assert!(error.to_string().contains("the CPU runs no kernels"), "{error}");
}

/// By the kernels that do not add atomically.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let (matrix, emulator) = (uneven::<T>(), Device::emulated(1));
    for ncols in [3, 33, 70] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.75));
        for rung in in_fixed_order() {
            let bits = |device: &Device| {
                product::<T>(&on(device, &matrix, rung), -2.5, &b, 0.75, &c)
                    .into_iter()
                    .map(|value| value.to_f64().to_bits())
                    .collect::<Vec<_>>()
            };
            assert!(bits(&emulator) == bits(gpu), "{rung:?}, {ncols} columns");
        }
    }
}
