//! Dense matrices on devices: copies between layouts, views and parts, and the products that take them.

mod common;

use std::process::ExitCode;

use common::{Random, dense::Dense, matrices, on_emulator_and_gpu, on_every_device};
use warpsparse::{
    CscMatrix, DenseLayout, Device, DeviceDense, Element, Error, Kernel, Order, Reduce, Scalar, SpmmOptions, Weights,
    gemm,
    kernels_gpu::dense_copy::{Args, Key},
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! everywhere {
        ($($name:ident),* $(,)?) => { $(trials.extend(on_every_device(stringify!($name), $name));)* };
    }
    trials.extend(on_every_device("copies_f32", |device| copies::<f32>(device, |k| k as f32)));
    trials.extend(on_every_device("copies_f64", |device| copies::<f64>(device, |k| k as f64)));
    trials.extend(on_every_device("copies_u32", |device| copies::<u32>(device, |k| k as u32)));
    trials.extend(on_every_device("copies_u64", |device| copies::<u64>(device, |k| k as u64 + (1 << 40))));
    trials.extend(on_emulator_and_gpu("tiles_in_turn", tiles_in_turn));
    everywhere!(
        parts_of_matrices,
        parts_are_written_alone,
        elements_are_those_from_the_first_to_the_last,
        slices_are_matrices,
        dense_products,
        sparse_products_in_any_order,
        reductions_in_any_order,
        columns_are_vectors,
        what_does_not_fit_is_an_error,
    );
    common::run(trials)
}

/// Both orders, without gaps, with gaps, and begun elsewhere.
fn layouts(nrows: usize, ncols: usize) -> Vec<DenseLayout> {
    let mut all = vec![];
    for (layout, line) in
        [(DenseLayout::row_major(nrows, ncols), ncols), (DenseLayout::column_major(nrows, ncols), nrows)]
    {
        all.extend([layout, layout.leading_dimension(line + 3), layout.leading_dimension(line + 4).offset(5)]);
    }
    all
}

fn copies<T: Element + PartialEq>(device: &Device, value: fn(usize) -> T) {
    let sizes: &[(usize, usize)] = match device.to_string().as_str() {
        "emulated" => &[(0, 3), (1, 1), (5, 3), (1, 40), (40, 1), (33, 65)],
        _ => {
            &[(0, 3), (3, 0), (1, 1), (5, 3), (1, 100), (100, 1), (31, 33), (32, 32), (64, 96), (257, 129), (1000, 70)]
        }
    };
    for &(nrows, ncols) in sizes {
        for from in layouts(nrows, ncols) {
            let values: Vec<T> = (0..from.elements().unwrap()).map(value).collect();
            let source = device.upload_vec(&values).unwrap();
            let source = source.matrix(from).unwrap();
            let by_rows = source.to_vec().unwrap();
            for to in layouts(nrows, ncols) {
                let untouched = value(1 << 22);
                let mut target = device.upload_vec(&vec![untouched; to.elements().unwrap()]).unwrap();
                target.matrix_mut(to).unwrap().assign(source).unwrap();
                let case = format!("{from:?} to {to:?}");
                assert!(target.matrix(to).unwrap().to_vec().unwrap() == by_rows, "{case}");
                // Gaps stay as they are.
                let written = target.to_vec().unwrap().into_iter().filter(|&element| element != untouched).count();
                assert_eq!(written, nrows * ncols, "{case}");
            }
        }
    }
}

/// One block transposes all tiles, one after the other, as the blocks of a grid do with a matrix of more than 2^20 tiles.
fn tiles_in_turn(device: &Device) {
    let (lines, width) = (70usize, 100usize);
    let values: Vec<u32> = (0..(lines * width) as u32).collect();
    let (x, mut y) = (device.upload_vec(&values).unwrap(), device.zeros(lines * width).unwrap());
    let kernel = Kernel::embedded(Key { transposed: true, bytes: 4 }.entry()).unwrap();
    let mut launch = device.launch(&kernel, 1).unwrap();
    let args = Args::<u32> {
        lines: lines as u64,
        width: width as u64,
        x_distance: width as u64,
        y_distance: lines as u64,
        x: launch.read("x", &x).unwrap(),
        y: launch.write("y", &mut y).unwrap(),
    };
    // SAFETY: both vectors hold the matrix, and a grid of any size takes all tiles.
    unsafe { launch.run(args).unwrap() };
    let transposed = (0..width).flat_map(|column| (0..lines).map(move |line| (line * width + column) as u32));
    assert!(y.to_vec().unwrap().into_iter().eq(transposed));
}

/// 0, 1, 2... row by row.
fn counting(device: &Device, layout: DenseLayout, nrows: usize, ncols: usize) -> DeviceDense<f64> {
    let values = (0..nrows * ncols).map(|k| k as f64).collect::<Vec<_>>();
    let rows = device.upload_dense((nrows, ncols), &values).unwrap();
    let mut matrix = device.zeros_dense(layout).unwrap();
    matrix.assign(&rows).unwrap();
    assert_eq!(matrix.to_vec().unwrap(), values);
    matrix
}

fn parts_of_matrices(device: &Device) {
    for layout in layouts(6, 4) {
        let a = counting(device, layout, 6, 4);
        assert_eq!(
            a.rows(2..4).unwrap().to_vec().unwrap(),
            [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0],
            "{layout:?}"
        );
        assert_eq!(a.columns(3..).unwrap().to_vec().unwrap(), [3.0, 7.0, 11.0, 15.0, 19.0, 23.0], "{layout:?}");
        let part = a.rows(1..=2).unwrap().columns(..2).unwrap();
        assert_eq!((part.nrows(), part.ncols()), (2, 2));
        assert_eq!(part.to_vec().unwrap(), [4.0, 5.0, 8.0, 9.0], "{layout:?}");
        assert_eq!(part.transpose().to_vec().unwrap(), [4.0, 8.0, 5.0, 9.0], "{layout:?}");
        assert_eq!(
            a.transpose().rows(1..2).unwrap().to_vec().unwrap(),
            [1.0, 5.0, 9.0, 13.0, 17.0, 21.0],
            "{layout:?}"
        );
        // Parts of nothing, at the ends too.
        for empty in [a.rows(6..).unwrap(), a.rows(3..3).unwrap(), a.columns(4..).unwrap()] {
            assert_eq!(empty.to_vec().unwrap(), [0.0; 0], "{layout:?}");
        }
    }
}

fn parts_are_written_alone(device: &Device) {
    for layout in layouts(6, 4) {
        let mut a = counting(device, layout, 6, 4);
        let b = device.upload_dense((2, 3), &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]).unwrap();
        a.rows_mut(2..4).unwrap().columns(1..).unwrap().assign(&b).unwrap();
        a.view_mut()
            .transpose()
            .rows(..1)
            .unwrap()
            .columns(5..)
            .unwrap()
            .assign(b.rows(..1).unwrap().columns(..1).unwrap())
            .unwrap();
        let mut expected: Vec<f64> = (0..24).map(f64::from).collect();
        expected[9..12].copy_from_slice(&[-1.0, -2.0, -3.0]);
        expected[13..16].copy_from_slice(&[-4.0, -5.0, -6.0]);
        expected[20] = -1.0;
        assert_eq!(a.to_vec().unwrap(), expected, "{layout:?}");
        a.columns_mut(..1).unwrap().assign(&b).unwrap_err();
        a.columns_mut(2..3).unwrap().rows(4..).unwrap().assign(b.columns(1..2).unwrap()).unwrap();
        (expected[18], expected[22]) = (-2.0, -5.0);
        assert_eq!(a.to_vec().unwrap(), expected, "{layout:?}");
    }
}

fn elements_are_those_from_the_first_to_the_last(device: &Device) {
    let mut vec = device.upload_vec(&(0..20).map(f64::from).collect::<Vec<_>>()).unwrap();
    let layout = DenseLayout::row_major(3, 2).leading_dimension(5).offset(4);
    assert_eq!(vec.matrix(layout).unwrap().elements().to_vec().unwrap(), (4..16).map(f64::from).collect::<Vec<_>>());
    let column = vec.matrix(layout).unwrap().columns(1..).unwrap();
    assert_eq!(column.elements().to_vec().unwrap(), (5..16).map(f64::from).collect::<Vec<_>>());
    assert!(vec.matrix(layout).unwrap().rows(3..).unwrap().elements().is_empty());
    vec.matrix_mut(layout).unwrap().into_elements().fill(-1.0).unwrap();
    let expected = (0..20).map(|k| if (4..16).contains(&k) { -1.0 } else { f64::from(k) });
    assert_eq!(vec.to_vec().unwrap(), expected.collect::<Vec<_>>());
}

/// A matrix of a slice has its elements, and no others.
fn slices_are_matrices(device: &Device) {
    let mut vec = device.upload_vec(&(0..20).map(f64::from).collect::<Vec<_>>()).unwrap();
    let layout = DenseLayout::column_major(3, 2).leading_dimension(4).offset(1);
    let slice = vec.slice(5..13).unwrap();
    let matrix = slice.matrix(layout).unwrap();
    assert_eq!((matrix.offset(), matrix.to_vec().unwrap()), (6, vec![6.0, 10.0, 7.0, 11.0, 8.0, 12.0]));
    // The vector has an element more, the slice has not.
    let error = vec.slice(5..12).unwrap().matrix(layout).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 8, found: 7, .. }), "{error}");
    let error = vec.slice_mut(5..12).unwrap().matrix_mut(layout).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 8, found: 7, .. }), "{error}");
    let mut within = vec.slice_mut(4..).unwrap();
    let ones = device.upload_dense((3, 2), &[-1.0; 6]).unwrap();
    within.slice_mut(1..9).unwrap().matrix_mut(layout).unwrap().assign(&ones).unwrap();
    let expected = (0..20).map(|k| if [6, 7, 8, 10, 11, 12].contains(&k) { -1.0 } else { f64::from(k) });
    assert_eq!(vec.to_vec().unwrap(), expected.collect::<Vec<_>>());
}

fn dense_products(device: &Device) {
    let (a, b) = (counting(device, DenseLayout::column_major(3, 2), 3, 2), counting(device, (2, 3).into(), 2, 3));
    // 0 1   0 1 2     3  4  5
    // 2 3   3 4 5     9 14 19
    // 4 5            15 24 33
    let expected = [3.0, 4.0, 5.0, 9.0, 14.0, 19.0, 15.0, 24.0, 33.0];
    let mut c = device.zeros_dense((3, 3)).unwrap();
    gemm(1.0, &a, &b, 0.0, &mut c).unwrap();
    assert_eq!(c.to_vec().unwrap(), expected);
    let mut d = device.zeros_dense(DenseLayout::column_major(3, 3)).unwrap();
    b.transpose().gemm(2.0, a.transpose(), 0.0, d.view_mut().transpose()).unwrap();
    assert_eq!(d.to_vec().unwrap(), expected.map(|c| 2.0 * c));
    a.gemm(1.0, &b, -1.0, &mut d).unwrap();
    assert_eq!(d.to_vec().unwrap(), expected.map(|c| -c));
    // The elementwise operations see the elements as they lie.
    d.elements_mut().scale(-2.0).unwrap();
    assert_eq!(d.elements().sum().unwrap().get().unwrap(), 252.0);
    let c = c.into_vec();
    assert_eq!(c.to_vec().unwrap(), expected);
    // Other matrices of the same elements.
    let transpose = DeviceDense::from_vec(DenseLayout::column_major(3, 3), c.try_clone().unwrap()).unwrap();
    assert_eq!(transpose.transpose().to_vec().unwrap(), expected);
    let error = DeviceDense::from_vec((2, 4), c).unwrap_err().to_string();
    assert_eq!(error, "the vector of a dense matrix has 9 elements where the operation needs 8");
}

/// The bits of the product of row-major matrices, with rows that are cut into pieces; also of the transpose, and by a plan.
fn sparse_products_in_any_order(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let a = device.upload(&matrix).unwrap();
    let transposed = device.upload(&CscMatrix::try_from(&matrix.transpose().unwrap()).unwrap()).unwrap();
    for cols in [1, 5, 8] {
        let plan = a.spmm_plan(cols, &SpmmOptions::default()).unwrap();
        let (x, y) = (Random(1).vector::<f32>(60 * cols), Random(2).vector::<f32>(45 * cols));
        let of = |layout: DenseLayout, values: &[f32], nrows: usize| {
            let mut matrix = device.zeros_dense::<f32>(layout).unwrap();
            matrix.assign(&device.upload_dense((nrows, cols), values).unwrap()).unwrap();
            matrix
        };
        let b = of((60, cols).into(), &x, 60);
        for beta in [0.0, -0.7] {
            let mut c = of((45, cols).into(), &y, 45);
            // Of one column too it is the kernel for dense matrices.
            plan.multiply(1.5, &b, beta, &mut c).unwrap();
            let expected = bits(&c);
            let bounds =
                common::dense::reference(&matrix, 1.5, &rows_of(&x, 60, cols), f64::from(beta), &rows_of(&y, 45, cols));
            for b_layout in layouts(60, cols) {
                for c_layout in layouts(45, cols) {
                    let b = of(b_layout, &x, 60);
                    let old = if beta == 0.0 { vec![f32::NAN; 45 * cols] } else { y.clone() };
                    let mut products = [of(c_layout, &old, 45), of(c_layout, &old, 45), of(c_layout, &old, 45)];
                    plan.multiply(1.5, &b, beta, &mut products[0]).unwrap();
                    a.spmm(1.5, &b, beta, &mut products[1]).unwrap();
                    transposed.spmm_transposed(1.5, &b, beta, &mut products[2]).unwrap();
                    let case = format!("{b_layout:?}, {c_layout:?}, beta {beta}");
                    assert!(bits(&products[0]) == expected, "{case}");
                    if cols > 1 {
                        assert!(bits(&products[1]) == expected, "{case}");
                    }
                    for product in &products[1..] {
                        common::assert_within(&case, &product.to_vec().unwrap(), &bounds);
                    }
                }
            }
        }
    }
}

/// A matrix for the reference, of values row by row.
fn rows_of(values: &[f32], nrows: usize, ncols: usize) -> Dense<f32> {
    let mut values = values.iter();
    Dense::new(nrows, ncols, 0, 0, || f64::from(*values.next().unwrap()))
}

fn bits<T: Scalar>(matrix: &DeviceDense<T>) -> Vec<u64> {
    matrix.to_vec().unwrap().into_iter().map(|element| element.to_f64().to_bits()).collect()
}

fn reductions_in_any_order(device: &Device) {
    let matrix = matrices::uneven::<f64>();
    let a = device.upload(&matrix).unwrap();
    let x = Random(3).vector::<f64>(60 * 5);
    let rows = device.upload_dense((60, 5), &x).unwrap();
    let (mut most, mut of) = (device.zeros_dense((45, 5)).unwrap(), device.zeros_dense((45, 5)).unwrap());
    a.spmm_reduce(Reduce::Max, Weights::Values, &rows, &mut most, Some(of.view_mut())).unwrap();
    for layout in layouts(60, 5) {
        let mut b = device.zeros_dense(layout).unwrap();
        b.assign(&rows).unwrap();
        for (c, entries) in layouts(45, 5).into_iter().zip(layouts(45, 5).into_iter().rev()) {
            let (mut c, mut entries) = (device.zeros_dense(c).unwrap(), device.zeros_dense(entries).unwrap());
            a.spmm_reduce(Reduce::Max, Weights::Values, &b, &mut c, Some(entries.view_mut())).unwrap();
            assert!(bits(&c) == bits(&most), "{layout:?}");
            assert_eq!(entries.to_vec().unwrap(), of.to_vec().unwrap(), "{layout:?}");
        }
    }
}

/// One column whose elements follow one another is multiplied as a vector, wherever it begins: the bits are those of `spmv`.
fn columns_are_vectors(device: &Device) {
    let matrix = matrices::uneven::<f64>();
    let a = device.upload(&matrix).unwrap();
    let x = device.upload_vec(&Random(4).vector::<f64>(7 + 60)).unwrap();
    let (mut y, mut c) = (device.zeros(45).unwrap(), device.zeros::<f64>(3 + 2 * 45).unwrap());
    a.spmv(2.0, x.slice(7..).unwrap(), 0.0, &mut y).unwrap();
    let column = DenseLayout::column_major(60, 1).leading_dimension(99).offset(7);
    let target = c.matrix_mut(DenseLayout::column_major(45, 2).offset(3)).unwrap();
    a.spmm(2.0, x.matrix(column).unwrap(), 0.0, target.columns(1..).unwrap()).unwrap();
    let c = c.to_vec().unwrap();
    assert_eq!(c[3 + 45..], y.to_vec().unwrap());
    assert_eq!(c[..3 + 45], [0.0; 48]);
}

fn what_does_not_fit_is_an_error(device: &Device) {
    let mut a = device.zeros_dense::<f32>((3, 4)).unwrap();
    let message = |error: Error| error.to_string();
    assert_eq!(message(a.rows(2..5).unwrap_err()), "invalid option: the range 2..5 is not within 3 rows");
    let error = a.columns(5..).unwrap_err();
    assert_eq!(message(error), "invalid option: the range 5..4 is not within 4 columns");
    let b = device.zeros_dense::<f32>((4, 3)).unwrap();
    assert_eq!(
        message(a.assign(&b).unwrap_err()),
        "the column of the matrix has 4 elements where the operation needs 3"
    );
    a.assign(b.transpose()).unwrap();
    let error = device.upload_dense((3, 4), &[0.0f32; 11]).unwrap_err();
    assert_eq!(message(error), "the vector of a dense matrix has 11 elements where the operation needs 12");
    let error = device.upload_dense((3, 4), &[0.0f32; 13]).unwrap_err();
    assert_eq!(message(error), "the vector of a dense matrix has 13 elements where the operation needs 12");
    let narrow = DenseLayout::row_major(3, 4).leading_dimension(3);
    let error = device.zeros_dense::<f32>(narrow).unwrap_err();
    assert_eq!(message(error), "invalid option: leading dimension 3 is less than the 4 columns of a row");
    for size in [(1 << 40, 1 << 40), (usize::MAX, 2)] {
        let error = device.zeros_dense::<f64>(size).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
    assert!(matches!(
        a.gemm(1.0, &a, 0.0, &mut device.zeros_dense((3, 4)).unwrap()),
        Err(Error::LengthMismatch { .. })
    ));
    if device.to_string() != "cpu" {
        let elsewhere = Device::cpu().zeros_dense::<f32>((3, 4)).unwrap();
        assert!(matches!(a.assign(&elsewhere), Err(Error::DeviceMismatch { .. })));
    }
    assert_eq!(a.layout(), DenseLayout::row_major(3, 4));
    assert_eq!(a.view().order(), Order::RowMajor);
}
