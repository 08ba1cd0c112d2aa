//! Matrices in BSR, with blocks of every size: products against a reference in f64 and bit by bit against CSR, sizes that are no multiples of the block's, what has no
//! blocks, and what a GPU refuses.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_exact, assert_within, bits,
    dense::{self, Dense, check, check_exact, old},
    integers, matrices, on_every_device, properties,
    sums::reference_spmv,
};
use proptest::prelude::*;
use warpsparse::{
    BlockJacobi, BlockSize, BsrMatrix, Cg, CsrKernel, CsrMatrix, Device, DeviceMatrix, Error, Format, FormatChoice,
    HostMatrix, Lanes, Reduce, Scalar, SpmmOptions, SpmvOptions, StopReason, Weights, strategies,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(every_matrix, bits_of_csr, huge_rows, random_blocks, dense_products, bits_of_dense_products);
    trials.extend(on_every_device("numbers_that_are_not_finite", numbers_that_are_not_finite));
    trials.extend(on_every_device("kernels_are_described", kernels_are_described));
    trials.extend(on_every_device("sizes_are_chosen", sizes_are_chosen));
    trials.extend(on_every_device("what_is_not_supported_is_an_error", not_supported));
    trials.extend(on_every_device("block_jacobi_and_cg", block_jacobi_and_cg));
    common::run(trials)
}

fn is_cpu(device: &Device) -> bool {
    device.to_string() == "cpu"
}

const SIZES: std::ops::RangeInclusive<usize> = 2..=8;

fn of<T: Scalar>(matrix: &CsrMatrix<T>, size: usize) -> BsrMatrix<T> {
    BsrMatrix::from_csr_with_fill(matrix, BlockSize::Fixed(size), f64::INFINITY).unwrap()
}

/// A canonical matrix all of whose entries are in full blocks, about `per_row` of them in each block row, none in every fifth one; for 0, one in
/// every third block row.
fn full_blocks<T: Scalar>((nrows, ncols): (usize, usize), size: usize, per_row: usize) -> CsrMatrix<T> {
    let mut random = Random(size as u64);
    let mut rows = Vec::new();
    for block_row in 0..nrows.div_ceil(size) {
        let count = match per_row {
            0 => usize::from(block_row % 3 == 1),
            _ if block_row % 5 == 3 => 0,
            _ => 1 + random.next_below(2 * per_row),
        };
        let mut columns: Vec<_> = (0..count).map(|_| random.next_below(ncols.div_ceil(size))).collect();
        columns.sort_unstable();
        columns.dedup();
        let columns = columns.iter().flat_map(|column| column * size..((column + 1) * size).min(ncols));
        let columns: Vec<_> = columns.collect();
        for _ in block_row * size..((block_row + 1) * size).min(nrows) {
            rows.push(columns.iter().map(|&column| (column, random.next_unit())).collect());
        }
    }
    matrices::from_rows(ncols, rows)
}

fn product<T: Scalar>(matrix: &DeviceMatrix<T>, alpha: T, x: &[T], beta: T, y: &[T]) -> Vec<T> {
    let device = matrix.device();
    let mut y = device.upload_vec(y).unwrap();
    matrix.spmv(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
    y.to_vec().unwrap()
}

/// Every size, on matrices without blocks too: exact with integers, and within rounding.
fn every_matrix<T: Scalar>(device: &Device) {
    let (two, half) = (T::from_f64(2.0), T::from_f64(0.5));
    for (name, matrix) in matrices::all::<T>() {
        // Every element that is looked at costs the emulator time.
        let sizes = if is_cpu(device) || matrix.nnz() < 5000 { SIZES } else { 3..=4 };
        for size in sizes {
            let case = format!("{name}, blocks of {size}");
            let counted = integers::matrix(&matrix);
            let a = device.upload(&of(&counted, size)).unwrap();
            assert_eq!((a.nrows(), a.ncols()), (matrix.nrows(), matrix.ncols()));
            let (x, y) = (integers::vector::<T>(1, matrix.ncols()), integers::vector::<T>(2, matrix.nrows()));
            let (one, three) = (T::from_f64(-1.0), T::from_f64(3.0));
            let expected = reference_spmv(&counted, one, &x, three, &y);
            assert_exact(&case, &product(&a, one, &x, three, &y), &expected);

            let a = device.upload(&of(&matrix, size)).unwrap();
            let (x, y) = (Random(3).vector::<T>(matrix.ncols()), Random(4).vector::<T>(matrix.nrows()));
            assert_within(&case, &product(&a, two, &x, half, &y), &reference_spmv(&matrix, two, &x, half, &y));
            // What y holds is not read.
            let nans = vec![T::from_f64(f64::NAN); y.len()];
            let expected = reference_spmv(&matrix, two, &x, T::default(), &y);
            assert_within(&case, &product(&a, two, &x, T::default(), &nans), &expected);
        }
    }
}

/// Full blocks, in matrices whose last blocks reach beyond them in rows, columns or both: the bits of the product in CSR, with as many lanes.
fn bits_of_csr<T: Scalar>(device: &Device) {
    let mut lanes_seen = Vec::new();
    for size in SIZES {
        for (nrows, ncols) in [(60 * size, 70 * size), (60 * size + 1, 70 * size - 1), (9 * size - 1, 300 * size + 1)] {
            for per_row in [0, 1, 3, 9, 40] {
                let csr = full_blocks::<T>((nrows, ncols), size, per_row);
                let bsr = of(&csr, size);
                assert_eq!(CsrMatrix::try_from(&bsr).unwrap(), csr, "no zeros are added");
                let a = device.upload(&bsr).unwrap();
                let mut options = SpmvOptions::default();
                if !is_cpu(device) {
                    let reason = a.describe().reason;
                    let lanes = reason.rsplit("; ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
                    options = options.kernel(CsrKernel::Vector).lanes(Lanes::Fixed(lanes));
                    lanes_seen.push(lanes);
                }
                let in_csr = device.upload_with(&csr, &options).unwrap();
                let (x, y) = (Random(5).vector::<T>(ncols), Random(6).vector::<T>(nrows));
                for (alpha, beta) in [(1.0, 0.0), (-2.5, 0.75)].map(|(a, b)| (T::from_f64(a), T::from_f64(b))) {
                    let (found, expected) = (product(&a, alpha, &x, beta, &y), product(&in_csr, alpha, &x, beta, &y));
                    let case = format!("{nrows} x {ncols}, blocks of {size}, {per_row} a row, {}", a.describe());
                    assert!(bits(&found) == bits(&expected), "{case}");
                }
            }
        }
    }
    if !is_cpu(device) {
        assert!([1, 2, 4, 8, 16, 32].iter().all(|lanes| lanes_seen.contains(lanes)), "{lanes_seen:?}");
    }
}

/// A block row of thousands of blocks among empty ones.
fn huge_rows<T: Scalar>(device: &Device) {
    for size in SIZES {
        let ncols = 9001 * size / 2 - 1;
        let row = |i: usize| if i / size == 2 { (0..ncols).map(|j| (j, 1.0)).collect() } else { vec![] };
        let csr = integers::matrix(&matrices::from_rows::<T>(ncols, (0..5 * size + 1).map(row).collect()));
        let x = integers::vector::<T>(1, ncols);
        let (one, y) = (T::from_f64(1.0), vec![T::default(); csr.nrows()]);
        let found = product(&device.upload(&of(&csr, size)).unwrap(), one, &x, one, &y);
        assert_exact(&format!("blocks of {size}"), &found, &reference_spmv(&csr, one, &x, one, &y));
    }
}

/// Blocks in any order, some of them twice: products, the diagonal, the transpose, and the way through CSR.
fn random_blocks<T: Scalar>(device: &Device) {
    let cases = strategies::bsr_matrix::<T>().prop_flat_map(|matrix| {
        let (x, y) = (strategies::vector(matrix.ncols()), strategies::vector(matrix.nrows()));
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    properties::check(&format!("bsr_{:?}", T::DTYPE), 100, cases, |(bsr, x, y, alpha, beta)| {
        let csr = CsrMatrix::<T>::try_from(&bsr).unwrap();
        prop_assert_eq!(csr.nnz(), bsr.nnz());
        let a = device.upload(&bsr).unwrap();
        let expected = reference_spmv(&csr, alpha, &x, beta, &y);
        assert_within("a random matrix", &product(&a, alpha, &x, beta, &y), &expected);

        let diagonal = device.upload(&csr).unwrap().diagonal().unwrap().to_vec().unwrap();
        for (found, expected) in a.diagonal().unwrap().to_vec().unwrap().into_iter().zip(diagonal) {
            prop_assert!((found.to_f64() - expected.to_f64()).abs() <= 1e-5 * expected.to_f64().abs().max(1.0));
        }
        prop_assert_eq!(a.download().unwrap(), HostMatrix::Bsr(bsr.clone()));
        let converted = a.convert(Format::Csr).unwrap().download().unwrap().into_csr().unwrap();
        prop_assert_eq!(matrices::bits(&converted), matrices::bits(&csr));

        let transpose = bsr.transpose().unwrap();
        prop_assert_eq!((transpose.nrows(), transpose.ncols()), (bsr.ncols(), bsr.nrows()));
        let mut expected: Vec<_> = bsr.triplets().map(|(i, j, value)| (j, i, value.to_f64().to_bits())).collect();
        expected.sort_unstable();
        let mut found: Vec<_> = transpose.triplets().map(|(i, j, value)| (i, j, value.to_f64().to_bits())).collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        Ok(())
    });
}

/// With gaps between the rows of B and C, and numbers of columns around those of a group of lanes.
fn dense_products<T: Scalar>(device: &Device) {
    for size in SIZES {
        for (nrows, ncols) in [(0, 5), (5, 0), (1, 1), (2, 17), (13 * size, 11 * size), (13 * size - 1, 11 * size + 1)]
        {
            let csr = full_blocks::<T>((nrows, ncols), size, 3);
            let counted = integers::matrix(&csr);
            let (a, of_integers) =
                (device.upload(&of(&csr, size)).unwrap(), device.upload(&of(&counted, size)).unwrap());
            for cols in [0, 1, 2, 3, 8, 33, 64, 65, 130] {
                let case = format!("{nrows} x {ncols}, blocks of {size}, {cols} columns");
                for (alpha, beta) in [(1.0, 0.0), (-2.5, 0.75)] {
                    let (b, c) = (Dense::random(1, ncols, cols, 3, 2), old(nrows, cols, 1, 5, beta));
                    check(&case, &csr, &a, (alpha, beta), &b, &c);
                }
                let (b, c) = (Dense::integers(1, ncols, cols, 0, 0), Dense::integers(2, nrows, cols, 0, 0));
                check_exact(&case, &counted, &of_integers, (-1.0, 3.0), &b, &c);
            }
        }
    }
}

/// As in CSR, where no row is cut.
fn bits_of_dense_products<T: Scalar>(device: &Device) {
    for size in SIZES {
        let (nrows, ncols, cols) = (20 * size - 1, 15 * size + 1, 37);
        let csr = full_blocks::<T>((nrows, ncols), size, 5);
        let (b, c) = (Dense::random(1, ncols, cols, 0, 0), old(nrows, cols, 0, 0, -0.5));
        let whole = SpmmOptions::default().split_threshold(1 << 20);
        let in_bsr = (device.upload(&of(&csr, size)).unwrap(), SpmmOptions::default());
        let found = [in_bsr, (device.upload(&csr).unwrap(), whole)].map(|(a, options)| {
            let plan = a.spmm_plan(cols, &options).unwrap();
            bits(&dense::product(&plan, 1.25, &b, -0.5, &c))
        });
        assert!(found[0] == found[1], "blocks of {size}");
    }
}

/// Zeros in a block are entries; what lies beyond the matrix is not.
fn numbers_that_are_not_finite(device: &Device) {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = vec![vec![(0, 1.0)], vec![(1, 2.0)], vec![(2, 3.0)]];
    let a = device.upload(&of(&matrices::from_rows::<f64>(3, rows), 2)).unwrap();
    let y = product(&a, 1.0, &[inf, 1.0, 1.0], 0.0, &[nan; 3]);
    assert!(y[0] == inf && y[1].is_nan() && y[2] == 3.0, "{y:?}");
    let y = product(&a, 1.0, &[1.0, 1.0, -inf], 0.0, &[nan; 3]);
    assert_eq!(y, [1.0, 2.0, -inf]);
    let rows = vec![vec![(0, nan)], vec![(1, inf)], vec![(2, -inf)]];
    let a = device.upload(&of(&matrices::from_rows::<f64>(3, rows), 2)).unwrap();
    let y = product(&a, 1.0, &[1.0; 3], 1.0, &[1.0; 3]);
    assert!(y[0].is_nan() && y[1] == inf && y[2] == -inf, "{y:?}");
    // New values, of padding too, which is ignored.
    let mut a = device.upload(&of(&matrices::from_rows::<f64>(3, vec![vec![], vec![], vec![(2, 1.0)]]), 2)).unwrap();
    a.update_values(&device.upload_vec(&[5.0, nan, nan, nan]).unwrap()).unwrap();
    assert_eq!(product(&a, 1.0, &[1.0; 3], 0.0, &[0.0; 3]), [0.0, 0.0, 5.0]);
    let HostMatrix::Bsr(bsr) = a.download().unwrap() else { panic!("not BSR") };
    assert_eq!(bsr.values(), [5.0, 0.0, 0.0, 0.0]);
}

fn kernels_are_described(device: &Device) {
    let csr = full_blocks::<f32>((300, 300), 3, 4);
    let a = device.upload_with(&csr, &SpmvOptions::default().format(FormatChoice::Bsr(BlockSize::Auto))).unwrap();
    let choice = a.describe();
    assert_eq!(choice.kernel, if is_cpu(device) { "cpu_bsr" } else { "spmv_bsr_f32_b3" });
    assert!(choice.reason.starts_with("the format's only kernel; blocks of 3 x 3, 4.4 bytes per entry"), "{choice}");
    let blocks = csr.nnz() / 9;
    assert_eq!(a.spmv_bytes(), blocks * (4 + 9 * 4) + 101 * 4 + 2 * 300 * 4);
    assert_eq!(a.nnz(), csr.nnz());
    assert!(a.structure().is_none());
    // The options lead back to the same blocks without looking for them.
    assert_eq!(a.options().format, FormatChoice::Bsr(BlockSize::Fixed(3)));
    assert_eq!(device.upload_with(&csr, a.options()).unwrap().describe(), choice);
}

fn sizes_are_chosen(device: &Device) {
    for size in [2, 3, 5, 7] {
        let csr = full_blocks::<f64>((40 * size, 40 * size), size, 3);
        let blocks = csr.blocks().unwrap();
        assert_eq!((blocks.size, blocks.count, blocks.added), (size, csr.nnz() / (size * size), 0));
        assert!(blocks.is_exact() && blocks.fill() == 1.0);
        let a = device.upload(&csr).unwrap().convert(Format::Bsr(BlockSize::Auto)).unwrap();
        let HostMatrix::Bsr(bsr) = a.download().unwrap() else { panic!("not BSR") };
        assert_eq!(bsr, BsrMatrix::try_from(&csr).unwrap());
        assert_eq!(bsr.block_size(), size);
    }
    // Without blocks, the size that takes the fewest bytes.
    let diagonal = matrices::from_rows::<f32>(100, (0..100).map(|i| vec![(i, 1.0)]).collect());
    assert_eq!(diagonal.blocks(), None);
    assert_eq!(BsrMatrix::try_from(&diagonal).unwrap().block_size(), 2);
}

fn not_supported(device: &Device) {
    let csr = full_blocks::<f64>((9, 6), 3, 1);
    let a = device.upload(&of(&csr, 3)).unwrap();
    let (x, mut y) = (device.zeros(9).unwrap(), device.zeros(6).unwrap());
    let error = a.spmv_transposed(1.0, &x, 0.0, &mut y).unwrap_err();
    assert_eq!(error.to_string(), "not supported: products with the transpose of a matrix in this format");
    let (b, mut c) = (device.zeros_dense((6, 2)).unwrap(), device.zeros_dense((9, 2)).unwrap());
    let error = a.spmm_reduce(Reduce::Sum, Weights::Values, &b, &mut c, None).unwrap_err();
    let text = "not supported: reductions over the entries of a matrix in BSR: convert it to CSR";
    assert_eq!(error.to_string(), text);
    assert!(matches!(a.spmm_plan(2, &SpmmOptions::default().autotune()), Err(Error::InvalidOption(_))));
    assert!(matches!(
        a.spmm_transposed(1.0, &c, 0.0, &mut device.zeros_dense((6, 2)).unwrap()),
        Err(Error::Unsupported(_))
    ));

    for size in [0, 1, 9, usize::MAX] {
        let text = format!("invalid option: blocks of {size} x {size}: they have 2 to 8 rows");
        let size = BlockSize::Fixed(size);
        assert_eq!(device.upload(&csr).unwrap().convert(Format::Bsr(size)).unwrap_err().to_string(), text);
        let options = SpmvOptions::default().format(FormatChoice::Bsr(size));
        assert_eq!(device.upload_with(&csr, &options).unwrap_err().to_string(), text);
    }
    // A block for each entry: 64 values, where 3 are accepted beyond 65536.
    let scattered = matrices::from_rows::<f64>(16_000, (0..2000).map(|i| vec![(8 * i, 1.0)]).collect());
    for convert in [
        device.upload(&scattered).unwrap().convert(Format::Bsr(BlockSize::Fixed(8))),
        device.upload_with(&scattered, &SpmvOptions::default().format(FormatChoice::Bsr(BlockSize::Fixed(8)))),
    ] {
        let error = convert.unwrap_err();
        assert!(
            matches!(error, Error::PaddingExceeded { format: "BSR", slots: 128_000, entries: 2000, .. }),
            "{error}"
        );
    }
}

/// Solvers multiply by blocks, and block-Jacobi takes the blocks of the diagonal.
fn block_jacobi_and_cg(device: &Device) {
    let (size, nodes) = (3usize, 40);
    let rows = (0..size * nodes).map(|i| {
        let node = i / size;
        let columns = node.saturating_sub(1) * size..((node + 2) * size).min(size * nodes);
        columns.map(|j| (j, if i == j { 20.0 } else { -1.0 })).collect()
    });
    let csr = matrices::from_rows::<f64>(size * nodes, rows.collect());
    let (in_csr, in_bsr) = (device.upload(&csr).unwrap(), device.upload(&of(&csr, size)).unwrap());
    let b = device.filled(size * nodes, 1.0).unwrap();
    let solutions = [in_csr, in_bsr].map(|a| {
        let blocks = BlockJacobi::new(&a, size as u32).unwrap();
        let mut x = device.zeros(size * nodes).unwrap();
        let info = Cg::new(&a).preconditioner(blocks).solve(&b, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        x.to_vec().unwrap()
    });
    for (found, expected) in solutions[1].iter().zip(&solutions[0]) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{found}, {expected}");
    }
}
