//! Sums, means and extrema of neighbours, on every device, against plain code.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_exact, assert_within,
    dense::{Dense, GAP, old, reference},
    integers, matrices, on_every_device, on_gpu,
    sums::Sum,
};
use warpsparse::{CooMatrix, CsrMatrix, Device, DeviceMatrix, Reduce, Scalar, SpmmOptions, Weights};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_reduction_f32", every_reduction::<f32>));
    trials.extend(on_every_device("every_reduction_f64", every_reduction::<f64>));
    trials.extend(on_every_device("every_matrix", every_matrix));
    trials.extend(on_every_device("sums_of_integers_are_exact_f32", sums_of_integers::<f32>));
    trials.extend(on_every_device("sums_of_integers_are_exact_f64", sums_of_integers::<f64>));
    trials.extend(on_every_device("sums_and_means_of_integers_are_exact", sums_and_means_of_integers));
    trials.extend(on_every_device("nan_and_equal_products", nan_and_equal_products));
    trials.extend(on_every_device("without_weights_values_are_not_read", without_weights_values_are_not_read));
    trials.extend(on_every_device("wide_offsets", wide_offsets));
    trials.extend(on_every_device("rows_in_any_order_give_the_same_bits", rows_in_any_order));
    trials.extend(on_every_device("same_input_same_bits", same_input_same_bits));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

const ALL: [Reduce; 4] = [Reduce::Sum, Reduce::Mean, Reduce::Max, Reduce::Min];

/// What a device made of C and, of extrema, of the numbers of entries.
fn reduced<T: Scalar>(
    on: &DeviceMatrix<T>,
    (reduce, weights): (Reduce, Weights),
    b: &Dense<T>,
    c: &Dense<T>,
) -> (Vec<T>, Vec<u32>) {
    let device = on.device();
    let (x, mut y) = (device.upload_vec(&b.elements).unwrap(), device.upload_vec(&c.elements).unwrap());
    let mut of = device.upload_vec(&vec![77; c.elements.len()]).unwrap();
    let extremum = matches!(reduce, Reduce::Max | Reduce::Min);
    let entries = extremum.then(|| of.matrix_mut(c.layout()).unwrap());
    on.spmm_reduce(reduce, weights, x.matrix(b.layout()).unwrap(), y.matrix_mut(c.layout()).unwrap(), entries).unwrap();
    (y.to_vec().unwrap(), of.to_vec().unwrap())
}

/// Extrema and their entries must be those of plain code in `T`, to the bit; sums and means within the bound of rounding.
fn check<T: Scalar>(
    case: &str,
    a: &CsrMatrix<T>,
    on: &DeviceMatrix<T>,
    kind: (Reduce, Weights),
    b: &Dense<T>,
    c: &Dense<T>,
) {
    let (reduce, weights) = kind;
    let case = format!("{case}, {reduce:?} of {weights:?}");
    let (found, of) = reduced(on, kind, b, c);
    let mut is_element = vec![false; found.len()];
    for i in 0..c.nrows {
        let entries = a.row_range(i);
        for j in 0..c.ncols {
            let at = c.offset + i * c.leading_dimension + j;
            is_element[at] = true;
            let weight = |k: usize| if weights == Weights::Values { a.values()[k] } else { T::from_f64(1.0) };
            let products = entries.clone().map(|k| (weight(k) * b.row(a.col_indices()[k] as usize)[j], k as u32));
            let best = |better: fn(f64, f64) -> bool| {
                products.clone().reduce(|best, next| if better(next.0.to_f64(), best.0.to_f64()) { next } else { best })
            };
            let best = match reduce {
                Reduce::Max => best(|next, best| next > best),
                Reduce::Min => best(|next, best| next < best),
                Reduce::Sum | Reduce::Mean => {
                    let exact = |k: usize| weight(k).to_f64() * b.row(a.col_indices()[k] as usize)[j].to_f64();
                    let sum: Sum = entries.clone().map(exact).collect();
                    let expected = if reduce == Reduce::Mean { sum.mean::<T>() } else { sum.bounded::<T>(0.0) };
                    assert_within(&format!("{case} at {i}, {j}"), &[found[at]], &[expected]);
                    continue;
                }
            };
            let (value, entry) = best.unwrap_or((T::default(), Reduce::NO_ENTRY));
            let bits = |value: T| value.to_f64().to_bits();
            assert_eq!((bits(found[at]), of[at]), (bits(value), entry), "{case} at {i}, {j}");
        }
    }
    for at in (0..found.len()).filter(|&at| !is_element[at]) {
        assert_eq!((found[at].to_f64(), of[at]), (GAP, 77), "{case}: the gap at {at}");
    }
}

fn every_reduction<T: Scalar>(device: &Device) {
    let matrix = matrices::uneven::<T>();
    let uploaded = device.upload(&matrix).unwrap();
    let widths: &[usize] = match device.to_string() == "emulated" {
        true => &[1, 3, 4, 31, 64],
        false => &[1, 2, 3, 4, 7, 16, 31, 32, 33, 64, 127, 128, 256, 1000],
    };
    for &ncols in widths {
        for (gap, offset) in [(0, 0), (4, 8), (1, 3)] {
            let (b, c) = (Dense::random(4, 60, ncols, gap, offset), old(45, ncols, gap, offset, 0.0));
            for reduce in ALL {
                for weights in [Weights::Values, Weights::Ones] {
                    let case = format!("{ncols} columns, gap {gap}, offset {offset}");
                    check(&case, &matrix, &uploaded, (reduce, weights), &b, &c);
                }
            }
        }
    }
}

fn every_matrix(device: &Device) {
    for (name, matrix) in matrices::all::<f32>() {
        // The emulator is slow.
        if device.to_string() == "emulated" && matrix.nnz() > 20_000 {
            continue;
        }
        let uploaded = device.upload(&matrix).unwrap();
        let (b, c) = (Dense::random(3, matrix.ncols(), 8, 0, 0), old(matrix.nrows(), 8, 0, 0, 0.0));
        for reduce in ALL {
            check(name, &matrix, &uploaded, (reduce, Weights::Values), &b, &c);
        }
    }
}

/// Not one entry of a huge row is lost, or taken twice: see [`integers`].
fn sums_of_integers<T: Scalar>(device: &Device) {
    let emulated = device.to_string() == "emulated";
    for (name, matrix) in matrices::all::<T>() {
        // The emulator is slow. Rows of those that are left are cut into pieces, too.
        if emulated && matrix.nnz() > 20_000 {
            continue;
        }
        let matrix = integers::matrix(&matrix);
        let uploaded = device.upload(&matrix).unwrap();
        for ncols in [1, 8] {
            let (b, c) = (Dense::integers(3, matrix.ncols(), ncols, 0, 0), old(matrix.nrows(), ncols, 0, 0, 0.0));
            let found = reduced(&uploaded, (Reduce::Sum, Weights::Values), &b, &c).0;
            assert_exact(&format!("{name}, {ncols} columns"), &found, &reference(&matrix, 1.0, &b, 0.0, &c));
        }
    }
}

fn sums_and_means_of_integers(device: &Device) {
    // Row i has i + 1 entries of value 2; in column j, element k of B is k * (j + 1).
    let rows = (0..70).map(|i| (0..=i).map(|k| (k, 2.0)).collect()).collect();
    let matrix = matrices::from_rows::<f32>(70, rows);
    let uploaded = device.upload(&matrix).unwrap();
    let mut next = 0;
    let element = || {
        next += 1;
        (((next - 1) / 4) * ((next - 1) % 4 + 1)) as f64
    };
    let (b, c) = (Dense::new(70, 4, 0, 0, element), old(70, 4, 0, 0, 0.0));
    let expected =
        |of_row: fn(usize) -> f32| -> Vec<f32> { (0..70 * 4).map(|at| of_row(at / 4) * (at % 4 + 1) as f32).collect() };
    let found = |reduce, weights| reduced(&uploaded, (reduce, weights), &b, &c).0;
    assert_eq!(found(Reduce::Sum, Weights::Values), expected(|i| (i * (i + 1)) as f32));
    assert_eq!(found(Reduce::Sum, Weights::Ones), expected(|i| (i * (i + 1) / 2) as f32));
    assert_eq!(found(Reduce::Mean, Weights::Values), expected(|i| i as f32));
    assert_eq!(found(Reduce::Mean, Weights::Ones), expected(|i| i as f32 / 2.0));
}

fn nan_and_equal_products(device: &Device) {
    // Rows of equal products, of NaN among numbers, twice NaN, infinities, zeros of both signs, and one cut into pieces.
    let long = (0..100).map(|k| (if k == 60 { 1 } else { 0 }, 1.0)).collect();
    let rows = vec![
        vec![(0, 1.0), (2, 1.0), (0, 1.0)],
        vec![(0, 1.0), (1, 1.0), (3, 1.0)],
        vec![(1, 1.0), (1, 1.0)],
        vec![(3, 1.0), (4, 1.0), (0, 1.0)],
        vec![(5, 1.0), (6, 1.0)],
        long,
    ];
    let matrix = matrices::from_rows::<f64>(7, rows);
    let uploaded = device.upload(&matrix).unwrap();
    let column = [5.0, f64::NAN, 5.0, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
    let mut elements = column.iter();
    let (b, c) = (Dense::new(7, 1, 1, 0, || *elements.next().unwrap()), old(6, 1, 1, 0, 0.0));
    for (reduce, infinite) in [(Reduce::Max, (f64::INFINITY, 8)), (Reduce::Min, (f64::NEG_INFINITY, 9))] {
        let (found, of) = reduced(&uploaded, (reduce, Weights::Values), &b, &c);
        let at = |i: usize| (found[2 * i], of[2 * i]);
        assert_eq!(at(0), (5.0, 0), "{reduce:?}");
        assert!(at(1).0.is_nan() && at(1).1 == 4, "{reduce:?}: {:?}", at(1));
        assert!(at(2).0.is_nan() && at(2).1 == 6, "{reduce:?}: {:?}", at(2));
        assert_eq!(at(3), infinite, "{reduce:?}");
        assert_eq!(at(4), (0.0, 11), "{reduce:?}");
        assert!(at(5).0.is_nan() && at(5).1 == 13 + 60, "{reduce:?}: {:?}", at(5));
    }
}

fn without_weights_values_are_not_read(device: &Device) {
    let rows = (0..40).map(|i| (0..=i).map(|k| (k, f64::NAN)).collect()).collect();
    let matrix = matrices::from_rows::<f32>(40, rows);
    let ones = matrices::from_rows::<f32>(40, (0..40).map(|i| (0..=i).map(|k| (k, 1.0)).collect()).collect());
    let uploaded = device.upload(&matrix).unwrap();
    let (b, c) = (Dense::random(3, 40, 8, 0, 0), old(40, 8, 0, 0, 0.0));
    for reduce in ALL {
        check("values of NaN", &ones, &uploaded, (reduce, Weights::Ones), &b, &c);
    }
}

fn wide_offsets(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let uploaded = device.upload(&CsrMatrix::<f32, u64>::from(&matrix)).unwrap();
    let (b, c) = (Dense::random(4, 60, 12, 0, 0), old(45, 12, 0, 0, 0.0));
    for reduce in ALL {
        check("64-bit offsets", &matrix, &uploaded, (reduce, Weights::Values), &b, &c);
    }
}

fn rows_in_any_order(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let (ordered, plain) = (device.upload(&matrix).unwrap(), device.upload(&matrix).unwrap());
    let mut order: Vec<u32> = (0..45).collect();
    let mut random = Random(13);
    (1..45).rev().for_each(|i| order.swap(i, random.next_below(i + 1)));
    let (b, c) = (Dense::random(4, 60, 12, 0, 0), old(45, 12, 0, 0, 0.5));
    for order in [order, matrix.cluster_rows()] {
        let plan = ordered.spmm_plan(12, &SpmmOptions::default().row_order(order)).unwrap();
        let choice = plan.describe();
        assert!(device.to_string() == "cpu" || choice.reason.ends_with("; rows in the order given"), "{choice}");
        let bits = |found: Vec<f32>| found.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let product = common::dense::product(&plan, 1.25, &b, 0.5, &c);
        assert!(bits(product) == bits(common::dense::product(&plain, 1.25, &b, 0.5, &c)));
    }
    for (order, expected) in [
        (vec![0; 44], "the order of rows has 44 elements where the operation needs 45"),
        (vec![0; 45], "invalid option: row 0 stands twice in the order of rows, at 1"),
        ((1..46).collect(), "invalid option: row 45 at 44 in the order of 45 rows"),
    ] {
        let error = ordered.spmm_plan(12, &SpmmOptions::default().row_order(order)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn same_input_same_bits(device: &Device) {
    let runs = if device.is_cuda() { 100 } else { 3 };
    let uploaded = device.upload(&matrices::uneven::<f32>()).unwrap();
    let (b, c) = (Dense::random(4, 60, 20, 0, 0), old(45, 20, 0, 0, 0.0));
    for reduce in ALL {
        let bits = || {
            let (found, of) = reduced(&uploaded, (reduce, Weights::Values), &b, &c);
            (found.into_iter().map(f32::to_bits).collect::<Vec<_>>(), of)
        };
        let first = bits();
        (1..runs).for_each(|_| assert!(bits() == first, "{reduce:?}"));
    }
}

fn what_does_not_fit(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let uploaded = device.upload(&matrix).unwrap();
    let b = device.zeros::<f32>(60 * 8).unwrap();
    let (mut c, mut of) = (device.zeros::<f32>(45 * 8).unwrap(), device.zeros::<u32>(45 * 8).unwrap());
    let mut error = |on: &DeviceMatrix<f32>, reduce, b_rows, of_size: Option<(usize, usize)>| {
        let entries = of_size.map(|size| of.matrix_mut(size).unwrap());
        let (b, c) = (b.matrix((b_rows, 8)).unwrap(), c.matrix_mut((45, 8)).unwrap());
        on.spmm_reduce(reduce, Weights::Ones, b, c, entries).unwrap_err().to_string()
    };
    assert_eq!(error(&uploaded, Reduce::Max, 59, None), "the column of B has 59 elements where the operation needs 60");
    assert_eq!(
        error(&uploaded, Reduce::Max, 60, Some((44, 8))),
        "the column of the numbers of entries has 44 elements where the operation needs 45"
    );
    assert_eq!(
        error(&uploaded, Reduce::Max, 60, Some((45, 7))),
        "the row of the numbers of entries has 7 elements where the operation needs 8"
    );
    assert_eq!(
        error(&uploaded, Reduce::Mean, 60, Some((45, 8))),
        "invalid option: the entries of a Mean: only extrema are of one entry"
    );
    assert_eq!(
        error(&device.upload(&CooMatrix::from(&matrix)).unwrap(), Reduce::Sum, 60, None),
        "not supported: products of dense matrices with a matrix that is not in CSR or BSR on the device"
    );
}

/// By every kernel: those of a name with `v1` have columns that no vector divides.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let matrix = matrices::uneven::<T>();
    let (emulated, real) = (Device::emulated(1).upload(&matrix).unwrap(), gpu.upload(&matrix).unwrap());
    for ncols in [3, 8, 16, 33, 64, 132] {
        let (b, c) = (Dense::random(4, 60, ncols, 0, 0), old(45, ncols, 0, 0, 0.0));
        for reduce in ALL {
            for weights in [Weights::Values, Weights::Ones] {
                let bits = |on| {
                    let (found, of) = reduced::<T>(on, (reduce, weights), &b, &c);
                    (found.into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>(), of)
                };
                assert!(bits(&emulated) == bits(&real), "{reduce:?} of {weights:?}, {ncols} columns");
            }
        }
    }
}
