//! Numbers of 16 bits: their conversions, and products that store them, on every device.

mod common;

use std::process::ExitCode;

use common::{
    Random, integers,
    matrices::{self, from_rows},
    on_every_device, on_gpu, other,
    sums::Sum,
};
use warpsparse::{
    Adjacency, CsrMatrix, DenseLayout, Device, DeviceDense, Error, ErrorKind, Half, HalfDense, Reduce, Result, bf16,
    f16,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    let mut add = |name: &str, body: fn(&Device)| trials.extend(on_every_device(name, body));
    add("every_number_of_bf16", every_number::<bf16>);
    add("every_number_of_f16", every_number::<f16>);
    add("numbers_between_two_of_bf16", numbers_between::<bf16>);
    add("numbers_between_two_of_f16", numbers_between::<f16>);
    add("casts_of_every_layout", casts_of_every_layout);
    add("products_in_bf16", products::<bf16>);
    add("products_in_f16", products::<f16>);
    add("sums_of_integers_in_bf16", sums_of_integers::<bf16>);
    add("sums_of_integers_in_f16", sums_of_integers::<f16>);
    add("every_width", every_width);
    add("infinite_numbers_and_nan", infinite_numbers_and_nan);
    add("sums_beyond_the_largest_number", sums_beyond_the_largest_number);
    add("values_of_every_layout", values_of_every_layout);
    add("same_input_same_bits", same_input_same_bits);
    add("sums_of_short_rows_have_the_bits_of_the_cpu", bits_of_the_cpu);
    add("what_does_not_fit_is_an_error", what_does_not_fit);
    trials.push(on_gpu("emulated_bits_are_the_gpus", emulated_bits_are_the_gpus));
    common::run(trials)
}

/// A type of 16 bits with the conversions of the crate `half`, which these tests take for right.
trait Reference: Half {
    /// Binary digits.
    const DIGITS: i32;
    /// The least number above 0.
    const LEAST: f64;
    fn of_bits(bits: u16) -> Self;
    fn to_bits(self) -> u16;
    fn nearest(number: f32) -> Self;
    fn exact(self) -> f64;
}

macro_rules! references {
    ($($type:ident: $digits:literal, $least:expr;)*) => {$(
        impl Reference for $type {
            const DIGITS: i32 = $digits;
            const LEAST: f64 = $least;
            fn of_bits(bits: u16) -> Self {
                Self::from_bits(bits)
            }
            fn to_bits(self) -> u16 {
                $type::to_bits(self)
            }
            fn nearest(number: f32) -> Self {
                Self::from_f32(number)
            }
            fn exact(self) -> f64 {
                self.to_f64()
            }
        }
    )*};
}
references! {
    bf16: 8, f64::from_bits((1023 - 133) << 52);
    f16: 11, f64::from_bits((1023 - 24) << 52);
}

/// The matrix of these numbers, rounded on the device.
fn rounded<H: Half>(device: &Device, (nrows, ncols): (usize, usize), numbers: &[f32]) -> HalfDense<H> {
    let mut rounded = device.zeros_half((nrows, ncols)).unwrap();
    rounded.cast_from(&device.upload_dense((nrows, ncols), numbers).unwrap()).unwrap();
    rounded
}

fn bits<H: Reference>(matrix: &HalfDense<H>) -> Vec<u16> {
    matrix.to_vec().unwrap().into_iter().map(Reference::to_bits).collect()
}

/// Of every number, there and back: to `f32` exactly, and from there to the same bits.
fn every_number<H: Reference>(device: &Device) {
    let all: Vec<H> = (0..=u16::MAX).map(H::of_bits).collect();
    // Columns that fill no vector.
    let size = (128, 512);
    let matrix = device.upload_half(size, &all).unwrap();
    assert_eq!(bits(&matrix), (0..=u16::MAX).collect::<Vec<_>>());
    let mut widened = device.zeros_dense::<f32>(size).unwrap();
    matrix.cast_to(&mut widened).unwrap();
    let widened = widened.to_vec().unwrap();
    for (&number, &found) in all.iter().zip(&widened) {
        let expected = number.exact() as f32;
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{number:?}: {found}, expected {expected}");
    }
    let back = bits(&rounded::<H>(device, size, &widened));
    for (number, found) in all.into_iter().zip(back) {
        assert_eq!(found, if number.exact().is_nan() { 0x7fff } else { number.to_bits() }, "{number:?}");
    }
}

/// Midpoints between neighbouring numbers round to even, and the `f32` next to them to the nearer one; also numbers beyond the largest and below the least.
fn numbers_between<H: Reference>(device: &Device) {
    let infinity = H::nearest(f32::INFINITY).to_bits();
    let (mut numbers, mut expected) = (vec![], vec![]);
    let mut add = |number: f32, bits: u16| {
        numbers.extend([number, -number]);
        expected.extend([bits, bits | 0x8000]);
    };
    for bits in 0..infinity {
        let exact = |bits: u16| match bits == infinity {
            // Where the next number would be, were there larger ones.
            true => 2.0 * H::of_bits(infinity - 1).exact() - H::of_bits(infinity - 2).exact(),
            false => H::of_bits(bits).exact(),
        };
        let middle = (exact(bits) + exact(bits + 1)) / 2.0;
        assert_eq!(f64::from(middle as f32), middle, "the middle is exact in f32");
        let middle = middle as f32;
        add(middle, bits + bits % 2);
        add(middle.next_down(), bits);
        add(middle.next_up(), bits + 1);
    }
    add(f32::MAX, infinity);
    add(f32::MIN_POSITIVE, H::nearest(f32::MIN_POSITIVE).to_bits());
    add(f32::from_bits(1), 0);
    add(f32::INFINITY, infinity);
    let found = bits(&rounded::<H>(device, (2, numbers.len() / 2), &numbers));
    for ((number, found), expected) in numbers.iter().zip(found).zip(expected) {
        assert_eq!(found, expected, "{number:e}, whose bits are {:x}", number.to_bits());
        assert_eq!(H::nearest(*number).to_bits(), expected, "the crate half: {number:e}");
    }
    // NaNs with one bit of the significand, each of the 23, and with all of them.
    let nans: Vec<_> =
        (0..23).map(|bit| 1 << bit).chain([0x7f_ffff]).map(|low| f32::from_bits(0xff80_0000 | low)).collect();
    assert_eq!(bits(&rounded::<H>(device, (1, 24), &nans)), [0x7fff; 24]);
}

fn casts_of_every_layout(device: &Device) {
    for (nrows, ncols) in [(0, 3), (3, 0), (1, 1), (5, 7), (4, 8), (3, 12), (2, 67)] {
        let numbers: Vec<f32> = Random(1).vector(nrows * ncols);
        let expected: Vec<_> = numbers.iter().map(|&number| bf16::from_f32(number)).collect();
        let by_rows = DenseLayout::row_major(nrows, ncols);
        let by_columns = DenseLayout::column_major(nrows, ncols);
        for layout in [
            by_rows,
            by_rows.leading_dimension(ncols + 1).offset(1),
            by_rows.leading_dimension(ncols.next_multiple_of(4)).offset(4),
            by_columns,
            by_columns.leading_dimension(nrows + 2).offset(3),
        ] {
            let case = format!("{layout:?}");
            let elements = layout.elements().unwrap();
            let mut x = device.upload_dense(layout, &vec![77.0f32; elements]).unwrap();
            x.assign(&device.upload_dense((nrows, ncols), &numbers).unwrap()).unwrap();
            let mut rounded = device.zeros_half::<bf16>((nrows, ncols)).unwrap();
            rounded.cast_from(&x).unwrap();
            assert_eq!(rounded.to_vec().unwrap(), expected, "{case}");
            assert_eq!((rounded.nrows(), rounded.ncols()), (nrows, ncols));

            let mut y = device.upload_dense(layout, &vec![77.0f32; elements]).unwrap();
            rounded.cast_to(&mut y).unwrap();
            assert_eq!(y.to_vec().unwrap(), expected.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), "{case}");
            // Nothing else has been written.
            let gaps = y.elements().to_vec().unwrap().into_iter().filter(|&element| element == 77.0).count();
            assert_eq!(gaps, elements - nrows * ncols, "{case}");
        }
    }
}

/// Graphs with their names: in the emulator, which is slow, small ones, and some with a long row or column.
fn graphs(device: &Device) -> Vec<(&'static str, CsrMatrix<f32>)> {
    let mut all = matrices::all();
    if device.to_string() == "emulated" {
        all.retain(|(_, matrix)| matrix.nnz() <= 1000);
    }
    let long = (0..1003).map(|k| (k * 7 % 50, (k % 17) as f64 / 8.0 - 0.75)).collect();
    all.push(("a long row", from_rows(50, vec![vec![], vec![(3, 1.0)], long, vec![], vec![(49, 2.0); 5]])));
    let lists = (0..150).map(|i| [vec![(2, 1.0)], vec![(0, -1.0); usize::from(i % 3 == 0)]].concat()).collect();
    all.push(("a long column", from_rows(4, lists)));
    all.push(("uneven rows", matrices::uneven()));
    all
}

/// The reduction, whether there are values, and whether it is of columns.
type Kind = (Reduce, bool, bool);

const KINDS: [Kind; 6] = [
    (Reduce::Sum, false, false),
    (Reduce::Sum, true, false),
    (Reduce::Mean, false, false),
    (Reduce::Mean, true, true),
    (Reduce::Sum, false, true),
    (Reduce::Sum, true, true),
];

/// A graph, values of its edges, and elements of a matrix of `cols` columns with a row for each vertex.
struct Problem<H> {
    matrix: CsrMatrix<f32>,
    cols: usize,
    elements: Vec<H>,
}

impl<H: Reference> Problem<H> {
    /// Of random numbers.
    fn new(matrix: &CsrMatrix<f32>, cols: usize) -> Self {
        let rows = matrix.nrows().max(matrix.ncols());
        let elements = Random(2).vector::<f32>(rows * cols).into_iter().map(H::nearest).collect();
        Self { matrix: matrix.clone(), cols, elements }
    }

    /// Of integers that `bf16` has.
    fn of_integers(matrix: &CsrMatrix<f32>, cols: usize) -> Self {
        let rows = matrix.nrows().max(matrix.ncols());
        let elements = integers::vector::<f32>(3, rows * cols).into_iter().map(H::nearest).collect();
        Self { matrix: integers::matrix(matrix), cols, elements }
    }

    /// What a device finds. Whatever its result held is overwritten.
    fn on(&self, device: &Device, graph: &Adjacency, (reduce, weighted, transposed): Kind) -> Vec<H> {
        let (from, to) = match transposed {
            true => (graph.nrows(), graph.ncols()),
            false => (graph.ncols(), graph.nrows()),
        };
        let values = device.upload_dense((graph.nnz(), 1), self.matrix.values()).unwrap();
        let values = weighted.then(|| values.view());
        let b = device.upload_half((from, self.cols), &self.elements[..from * self.cols]).unwrap();
        let mut c = device.upload_half((to, self.cols), &vec![H::nearest(f32::NAN); to * self.cols]).unwrap();
        match transposed {
            true => graph.spmm_half_transposed(reduce, values, &b, &mut c).unwrap(),
            false => graph.spmm_half(reduce, values, &b, &mut c).unwrap(),
        }
        c.to_vec().unwrap()
    }

    /// The products that are added up, in `f64`.
    fn sums(&self, (_, weighted, transposed): Kind) -> Vec<Sum> {
        let (matrix, cols) = (&self.matrix, self.cols);
        let mut sums = vec![Sum::default(); if transposed { matrix.ncols() } else { matrix.nrows() } * cols];
        for (i, j, value) in matrix.triplets() {
            let (of, at) = if transposed { (i, j) } else { (j, i) };
            let value = if weighted { f64::from(value) } else { 1.0 };
            for c in 0..cols {
                sums[at * cols + c].add(value * self.elements[of * cols + c].exact());
            }
        }
        sums
    }
}

/// Every element is within the bound of sums in `f32`, and of one rounding to 16 bits.
fn products<H: Reference>(device: &Device) {
    for (name, matrix) in graphs(device) {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        for cols in [1, 12, 70] {
            let problem = Problem::<H>::new(&matrix, cols);
            for kind in KINDS {
                let found = problem.on(device, &graph, kind);
                for (place, (sum, found)) in problem.sums(kind).into_iter().zip(found).enumerate() {
                    let (expected, bound) = match kind.0 {
                        Reduce::Mean => sum.mean::<f32>(),
                        _ => sum.bounded::<f32>(0.0),
                    };
                    let bound = bound + (expected.abs() + bound) * 0.5f64.powi(H::DIGITS) + H::LEAST / 2.0;
                    let off = (found.exact() - expected).abs();
                    assert!(
                        off <= bound,
                        "{name}, {cols} columns, {kind:?}: {found:?} at {place}, not {expected} within {bound:e}"
                    );
                }
            }
        }
    }
}

/// Sums that `f32` has, so that every bit is known: that of the rounded sum. An entry that is lost or taken twice shows, unless the rounding hides it.
fn sums_of_integers<H: Reference>(device: &Device) {
    for (name, matrix) in graphs(device) {
        let problem = Problem::<H>::of_integers(&matrix, 9);
        let graph = device.upload(&problem.matrix).unwrap().adjacency().unwrap();
        for kind in KINDS.into_iter().filter(|(reduce, ..)| *reduce == Reduce::Sum) {
            let exact = |sum: Sum| H::nearest(sum.bounded::<f32>(0.0).0 as f32);
            let expected: Vec<_> = problem.sums(kind).into_iter().map(exact).collect();
            assert_eq!(problem.on(device, &graph, kind), expected, "{name}, {kind:?}");
        }
    }
}

/// Each number of lanes, with all of them in use and not; and no entry of a long row is lost or taken twice: each has a column of its own.
fn every_width(device: &Device) {
    let lists = vec![vec![(1, 1.0)], (0..400).map(|k| (k, 1.0)).collect(), vec![], vec![(399, 1.0); 3]];
    let matrix = from_rows::<f32>(400, lists);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    for cols in [0, 1, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 250, 256, 257, 400, 520] {
        let one_each: Vec<_> = (0..400 * cols).map(|at| f16::from_f32(f32::from(at / cols == at % cols))).collect();
        let b = device.upload_half((400, cols), &one_each).unwrap();
        let mut c = device.zeros_half((4, cols)).unwrap();
        graph.spmm_half(Reduce::Sum, None, &b, &mut c).unwrap();
        let expected = |row: usize, col: usize| match row {
            0 => f32::from(col == 1),
            1 => f32::from(col < 400),
            2 => 0.0,
            _ => f32::from(col == 399) * 3.0,
        };
        let expected: Vec<_> = (0..4 * cols).map(|at| f16::from_f32(expected(at / cols, at % cols))).collect();
        assert_eq!(c.to_vec().unwrap(), expected, "{cols} columns");
    }
}

fn infinite_numbers_and_nan(device: &Device) {
    // A column each: infinities of one sign, of both, NaN, and an infinity times 0; the last row has nothing of them.
    let inf = f64::INFINITY;
    let rows = [[inf, inf, f64::NAN, inf, 1.0], [inf, -inf, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0]];
    let matrix =
        from_rows::<f32>(3, vec![vec![(0, 0.0), (1, 1.0)], vec![(0, 1.0), (1, 1.0), (2, 1.0)], vec![(2, 2.0)]]);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let b: Vec<_> = rows.concat().into_iter().map(bf16::from_f64).collect();
    let b = device.upload_half((3, 5), &b).unwrap();
    let values = device.upload_dense((6, 1), matrix.values()).unwrap();
    let mut c = device.zeros_half::<bf16>((3, 5)).unwrap();
    graph.spmm_half(Reduce::Sum, Some(values.view()), &b, &mut c).unwrap();
    let found: Vec<_> = c.to_vec().unwrap().into_iter().map(f64::from).collect();
    let expected = [
        [f64::NAN, f64::NAN, f64::NAN, f64::NAN, 2.0],
        [inf, f64::NAN, f64::NAN, inf, 8.0],
        [2.0, 4.0, 6.0, 8.0, 10.0],
    ];
    for (place, (found, expected)) in found.into_iter().zip(expected.concat()).enumerate() {
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{place}: {found}, expected {expected}");
    }
}

/// The sum of `f16` is beyond its largest number, the mean is not, and sums in `f32` forget no intermediate one.
fn sums_beyond_the_largest_number(device: &Device) {
    let rows = vec![vec![(0, 1.0), (0, 1.0)], vec![(0, 1.0), (0, 1.0), (1, 1.0)], vec![(1, 1.0); 200]];
    let matrix = from_rows::<f32>(2, rows);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let b = device.upload_half((2, 1), &[60_000.0, -60_000.0].map(f16::from_f32)).unwrap();
    let mut c = device.zeros_half::<f16>((3, 1)).unwrap();
    let mut reduced = |reduce| {
        graph.spmm_half(reduce, None, &b, &mut c).unwrap();
        c.to_vec().unwrap().into_iter().map(f32::from).collect::<Vec<_>>()
    };
    assert_eq!(reduced(Reduce::Sum), [f32::INFINITY, 60_000.0, f32::NEG_INFINITY]);
    assert_eq!(reduced(Reduce::Mean), [60_000.0, 20_000.0, -60_000.0]);
}

/// Values in a column of a wider matrix, and column-major.
fn values_of_every_layout(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let problem = Problem::<f16>::new(&matrix, 10);
    let kinds = [(Reduce::Sum, true, false), (Reduce::Sum, true, true)];
    let [expected, expected_transposed] = kinds.map(|kind| problem.on(device, &graph, kind));
    let nnz = graph.nnz();
    let plain = device.upload_dense((nnz, 1), matrix.values()).unwrap();
    for layout in [
        DenseLayout::row_major(nnz, 1).leading_dimension(3).offset(2),
        DenseLayout::column_major(nnz, 1).leading_dimension(nnz + 5).offset(1),
    ] {
        let mut values = device.upload_dense(layout, &vec![f32::NAN; layout.elements().unwrap()]).unwrap();
        values.assign(&plain).unwrap();
        let b = device.upload_half((60, 10), &problem.elements).unwrap();
        let mut c = device.zeros_half((45, 10)).unwrap();
        graph.spmm_half(Reduce::Sum, Some(values.view()), &b, &mut c).unwrap();
        assert_eq!(c.to_vec().unwrap(), expected, "{layout:?}");
        let b = device.upload_half((45, 10), &problem.elements[..450]).unwrap();
        let mut c = device.zeros_half((60, 10)).unwrap();
        graph.spmm_half_transposed(Reduce::Sum, Some(values.view()), &b, &mut c).unwrap();
        assert_eq!(c.to_vec().unwrap(), expected_transposed, "{layout:?}");
    }
}

/// All results of a graph with lists of every length.
fn all_results(device: &Device, matrix: &CsrMatrix<f32>, kinds: &[Kind]) -> Vec<u16> {
    let graph = device.upload(matrix).unwrap().adjacency().unwrap();
    let mut results = vec![];
    for cols in [3, 40, 72, 264] {
        let (of_bf16, of_f16) = (Problem::<bf16>::new(matrix, cols), Problem::<f16>::new(matrix, cols));
        for &kind in kinds {
            results.extend(of_bf16.on(device, &graph, kind).into_iter().map(bf16::to_bits));
            results.extend(of_f16.on(device, &graph, kind).into_iter().map(f16::to_bits));
        }
    }
    results
}

/// Whatever the order of threads, and in every run.
fn same_input_same_bits(device: &Device) {
    let matrix = matrices::uneven();
    let again = match device.to_string() == "emulated" {
        true => Device::emulated(99),
        false => device.clone(),
    };
    assert!(all_results(device, &matrix, &KINDS) == all_results(&again, &matrix, &KINDS));
}

fn emulated_bits_are_the_gpus(gpu: &Device) {
    let matrix = matrices::uneven();
    assert!(all_results(gpu, &matrix, &KINDS) == all_results(&Device::emulated(1), &matrix, &KINDS));
}

/// Without values nothing but sums is rounded, and lists that are not divided are added up in one order everywhere.
fn bits_of_the_cpu(device: &Device) {
    let mut random = Random(5);
    let mut list = |length: usize| (0..length).map(|_| (random.next_below(60), 1.0)).collect::<Vec<_>>();
    let matrix = from_rows(60, (0..65).map(&mut list).collect());
    let kinds = [(Reduce::Sum, false, false), (Reduce::Mean, false, false)];
    assert!(all_results(device, &matrix, &kinds) == all_results(&Device::cpu(), &matrix, &kinds));
}

fn what_does_not_fit(device: &Device) {
    let matrix = from_rows::<f32>(3, vec![vec![(0, 1.0), (2, 1.0)], vec![(1, 1.0)]]);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let zeros = |nrows: usize, ncols: usize| device.zeros_half::<f16>((nrows, ncols)).unwrap();
    let dense = |nrows: usize, ncols: usize| device.zeros_dense::<f32>((nrows, ncols)).unwrap();
    let lengths = |result: Result<()>, expected: usize, found: usize| match result {
        Err(Error::LengthMismatch { expected: e, found: f, .. }) => assert_eq!((e, f), (expected, found)),
        other => panic!("{other:?}"),
    };
    let product = |values: Option<&DeviceDense<f32>>, b: &HalfDense<f16>, mut c: HalfDense<f16>| {
        graph.spmm_half(Reduce::Sum, values.map(DeviceDense::view), b, &mut c)
    };
    product(None, &zeros(3, 4), zeros(2, 4)).unwrap();
    lengths(product(None, &zeros(2, 4), zeros(2, 4)), 3, 2);
    lengths(product(None, &zeros(3, 4), zeros(3, 4)), 2, 3);
    lengths(product(None, &zeros(3, 4), zeros(2, 5)), 4, 5);
    lengths(product(Some(&dense(2, 1)), &zeros(3, 4), zeros(2, 4)), 3, 2);
    lengths(product(Some(&dense(3, 2)), &zeros(3, 4), zeros(2, 4)), 1, 2);
    lengths(graph.spmm_half_transposed(Reduce::Sum, None, &zeros(3, 4), &mut zeros(3, 4)), 2, 3);
    lengths(graph.spmm_half_transposed(Reduce::Sum, None, &zeros(2, 4), &mut zeros(2, 4)), 3, 2);
    for reduce in [Reduce::Max, Reduce::Min] {
        let error = graph.spmm_half(reduce, None, &zeros(3, 4), &mut zeros(2, 4)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    lengths(device.upload_half((2, 3), &[f16::ZERO; 5]).map(|_| ()), 6, 5);
    // A matrix of one row may have any leading dimension.
    let one_edge = device.upload(&from_rows::<f32>(3, vec![vec![(0, 1.0)], vec![]])).unwrap().adjacency().unwrap();
    let value = device.upload_vec(&[2.0f32]).unwrap();
    let far = value.matrix(DenseLayout::row_major(1, 1).leading_dimension(1 << 62)).unwrap();
    match one_edge.spmm_half(Reduce::Sum, Some(far), &zeros(3, 4), &mut zeros(2, 4)) {
        Ok(()) => assert!(device.describe().starts_with("cpu")),
        Err(error) => assert!(matches!(error, Error::Unsupported(_)), "{error}"),
    }
    for columns in [(1 << 31) - 7, 1 << 31, usize::MAX] {
        assert!(matches!(device.zeros_half::<f16>((0, columns)), Err(Error::Unsupported(_))), "{columns} columns");
    }
    assert_eq!(device.zeros_half::<f16>((0, (1 << 31) - 8)).unwrap().ncols(), (1 << 31) - 8);
    lengths(zeros(2, 3).cast_from(&dense(3, 3)), 2, 3);
    lengths(zeros(2, 3).cast_from(&dense(2, 4)), 3, 4);
    lengths(zeros(2, 3).cast_to(&mut dense(3, 3)), 2, 3);
    lengths(zeros(2, 3).cast_to(&mut dense(2, 4)), 3, 4);

    let elsewhere = other(device);
    let is_mismatch = |result: Result<()>| assert!(matches!(result, Err(Error::DeviceMismatch { .. })), "{result:?}");
    is_mismatch(product(None, &elsewhere.zeros_half((3, 4)).unwrap(), zeros(2, 4)));
    is_mismatch(product(None, &zeros(3, 4), elsewhere.zeros_half((2, 4)).unwrap()));
    is_mismatch(product(Some(&elsewhere.zeros_dense((3, 1)).unwrap()), &zeros(3, 4), zeros(2, 4)));
    is_mismatch(zeros(2, 3).cast_from(&elsewhere.zeros_dense((2, 3)).unwrap()));
    is_mismatch(zeros(2, 3).cast_to(&mut elsewhere.zeros_dense((2, 3)).unwrap()));
    // Nothing to do.
    product(None, &zeros(3, 0), zeros(2, 0)).unwrap();
    zeros(0, 3).cast_from(&dense(0, 3)).unwrap();
    zeros(3, 0).cast_to(&mut dense(3, 0)).unwrap();
}
