//! CSR in fewer bytes: narrow columns, few values. Everything has the bits of CSR.

mod common;

use std::{fmt::Debug, process::ExitCode};

use common::{
    Random, assert_within, integers,
    matrices::{self, from_rows, stencil},
    on_emulator_and_gpu, on_every_device, properties,
    sums::reference_spmv,
};
use kernels_gpu::spmv_csr_packed::{KEYS, Values};
use proptest::{prelude::*, sample::select};
use warpsparse::{
    Cg, CscMatrix, CsrKernel, CsrMatrix, DType, DenseLayout, Device, DeviceMatrix, Error, Format, FormatChoice,
    HostMatrix, Lanes, Scalar, SpmvOptions,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("bits_are_those_of_csr_f32", bits_are_those_of_csr::<f32>));
    trials.extend(on_every_device("bits_are_those_of_csr_f64", bits_are_those_of_csr::<f64>));
    trials.extend(on_every_device("special_values_f32", special_values_f32));
    trials.extend(on_every_device("special_values_f64", special_values_f64));
    trials.extend(on_every_device("tiles_of_many_entries", tiles_of_many_entries));
    trials.extend(on_every_device("few_values_change", few_values_change));
    trials.extend(on_every_device("narrow_matrices_take_any_values", narrow_matrices_take_any_values));
    trials.extend(on_every_device("other_operations", other_operations));
    trials.extend(on_every_device("wrong_options_are_errors", wrong_options_are_errors));
    for (number, key) in KEYS.iter().enumerate() {
        let limits: fn(&Device, usize) =
            if key.dtype == DType::F32 { at_the_limits::<f32> } else { at_the_limits::<f64> };
        trials.extend(on_emulator_and_gpu(key.entry().name, move |device| limits(device, number)));
    }
    trials.extend(on_emulator_and_gpu("the_choice_is_described", the_choice_is_described));
    common::run(trials)
}

/// Numbers by their bits: NaNs have payloads, and zeros signs.
trait Bits: Scalar {
    type Of: PartialEq + Debug;
    fn all(values: &[Self]) -> Vec<Self::Of>;
}

impl Bits for f32 {
    type Of = u32;
    fn all(values: &[Self]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }
}

impl Bits for f64 {
    type Of = u64;
    fn all(values: &[Self]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }
}

fn with_lanes(lanes: u32) -> SpmvOptions {
    SpmvOptions::default().kernel(CsrKernel::Vector).lanes(Lanes::Fixed(lanes))
}

/// The product with a random vector. All NaNs are one: which one comes out of several is the compiler's choice.
fn product<T: Scalar>(matrix: &DeviceMatrix<T>, alpha: f64, beta: f64) -> Vec<T> {
    let device = matrix.device();
    let x = device.upload_vec(&Random(7).vector::<T>(matrix.ncols())).unwrap();
    // With beta = 0 the old y may be anything.
    let old = if beta == 0.0 { vec![T::from_f64(f64::NAN); matrix.nrows()] } else { Random(8).vector(matrix.nrows()) };
    let mut y = device.upload_vec(&old).unwrap();
    matrix.spmv(T::from_f64(alpha), &x, T::from_f64(beta), &mut y).unwrap();
    let number = |y: T| if y.to_f64().is_nan() { T::from_f64(f64::NAN) } else { y };
    y.to_vec().unwrap().into_iter().map(number).collect()
}

/// Uploads in the format; the products have the bits of CSR with as many lanes, and the matrix comes back as it was.
fn check<T: Bits>(case: &str, device: &Device, matrix: &CsrMatrix<T>, options: &SpmvOptions) -> DeviceMatrix<T> {
    let packed = device.upload_with(matrix, options).unwrap();
    let in_csr = device.upload_with(matrix, &options.clone().format(FormatChoice::Csr)).unwrap();
    let kernel = packed.describe();
    for (alpha, beta) in [(1.0, 0.0), (-2.5, 0.75)] {
        let case = format!("{case}, {kernel}, alpha {alpha}, beta {beta}");
        let products = [&packed, &in_csr].map(|matrix| T::all(&product(matrix, alpha, beta)));
        assert_eq!(products[0], products[1], "{case}");
    }
    let HostMatrix::Csr(back) = packed.download().unwrap() else { panic!("{case}: another format") };
    assert_eq!((back.nrows(), back.ncols()), (matrix.nrows(), matrix.ncols()), "{case}");
    assert_eq!((back.row_offsets(), back.col_indices()), (matrix.row_offsets(), matrix.col_indices()), "{case}");
    assert_eq!(T::all(back.values()), T::all(matrix.values()), "{case}");
    packed
}

/// The same pattern with other values.
fn with_values<T: Scalar>(matrix: &CsrMatrix<T>, value: impl Fn(usize) -> T) -> CsrMatrix<T> {
    let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
    let values = (0..matrix.nnz()).map(value).collect();
    CsrMatrix::try_from_csr_data(matrix.nrows(), matrix.ncols(), offsets, columns, values).unwrap()
}

fn bits_are_those_of_csr<T: Bits>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let matrices = [matrix.clone(), integers::matrix(&matrix), with_values(&matrix, |_| T::from_f64(-0.3))];
        // The emulator is slow.
        let lanes: &[u32] = if matrix.nnz() > 10_000 { &[8] } else { &[1, 2, 8] };
        for (matrix, lanes) in matrices.iter().flat_map(|matrix| lanes.iter().map(move |&lanes| (matrix, lanes))) {
            for format in [FormatChoice::Narrow, FormatChoice::Packed] {
                let packed = check(name, device, matrix, &with_lanes(lanes).format(format));
                let (x, y) = (Random(7).vector::<T>(matrix.ncols()), Random(8).vector::<T>(matrix.nrows()));
                let reference = reference_spmv(matrix, T::from_f64(-2.5), &x, T::from_f64(0.75), &y);
                assert_within(name, &product(&packed, -2.5, 0.75), &reference);
                let again = device.upload_with(matrix, packed.options()).unwrap();
                assert_eq!(again.describe().kernel, packed.describe().kernel, "{name}");
            }
        }
        let wide = CsrMatrix::<T, u64>::from(&matrices[1]);
        let packed = device.upload_with(&wide, &SpmvOptions::default().format(FormatChoice::Packed)).unwrap();
        assert_eq!(packed.download().unwrap(), HostMatrix::Csr64(wide), "{name}");
    }
}

/// Signs of zeros, payloads of NaNs, infinities and denormal numbers are values of their own.
fn special_values<T: Bits>(device: &Device, special: [T; 7]) {
    let pattern = matrices::uneven::<T>();
    let options = with_lanes(4).format(FormatChoice::Packed);
    let cases = [&special[..]].into_iter().chain(special.iter().map(std::slice::from_ref));
    for values in cases {
        let packed = check("special", device, &with_values(&pattern, |k| values[k % values.len()]), &options);
        let distinct = if values.len() == 1 { "; 1 distinct value; " } else { "; 7 distinct values; " };
        let reason = packed.describe().reason;
        assert!(device.to_string() == "cpu" || reason.contains(distinct), "{reason}");
    }
}

fn special_values_f32(device: &Device) {
    // The last three are NaNs, of which the first is signalling.
    let bits = [0, 0x8000_0000, 0x7f80_0000, 1, 0x7f80_0001, 0x7fc0_0005, 0xffff_ffff];
    special_values(device, bits.map(f32::from_bits));
}

fn special_values_f64(device: &Device) {
    let bits = [0, 1 << 63, 0x7ff << 52, 1, 0x7ff << 52 | 1, 0xfff << 51 | 5, u64::MAX];
    special_values(device, bits.map(f64::from_bits));
}

/// Ends of rows count to 2^16 - 1 in 16 bits, and further in 32.
fn tiles_of_many_entries(device: &Device) {
    let row = |len: usize| (0..len).map(|k| (k % 1000, (k % 300) as f64)).collect::<Vec<_>>();
    for (longest, end_bytes) in [(65_532, 2), (65_533, 4)] {
        let matrix = from_rows::<f32>(1000, vec![row(3), vec![], row(longest), vec![]]);
        let packed = check("long rows", device, &matrix, &with_lanes(8).format(FormatChoice::Narrow));
        if device.to_string() != "cpu" {
            // Columns, in whole words; values; ends; the tile; x and y.
            let (nnz, words) = (matrix.nnz(), matrix.nnz().div_ceil(2));
            let bytes = 4 * words + 4 * nnz + 4 * end_bytes + 12 + 4 * 1004;
            assert_eq!(packed.spmv_bytes(), bytes, "{longest}");
        }
    }
}

/// A matrix at the limits: two rows, in one tile or not, have columns so far apart, and there are so many distinct values.
#[derive(Clone, Debug)]
struct AtTheLimits {
    rows: usize,
    places: [usize; 2],
    first_column: usize,
    apart: usize,
    distinct: usize,
    seed: u64,
}

fn limits() -> impl Strategy<Value = AtTheLimits> {
    let rows = 2..600usize;
    let index = any::<prop::sample::Index>;
    (
        rows,
        index(),
        index(),
        0..3usize,
        select(vec![5, 65_534, 65_535, 65_536, 65_537]),
        select(vec![1, 2, 255, 256, 257]),
        any::<u64>(),
    )
        .prop_map(|(rows, one, other, first_column, apart, distinct, seed)| AtTheLimits {
            rows,
            places: [one.index(rows), other.index(rows)],
            first_column,
            apart,
            distinct,
            seed,
        })
}

impl AtTheLimits {
    /// Every row has up to 4 entries near the first column; the two rows the first and the last column too. The row after the first of them has as many entries as there
    /// are distinct values.
    fn matrix<T: Scalar>(&self) -> CsrMatrix<T> {
        let mut random = Random(self.seed);
        let mut number = 0;
        let mut value = || {
            number += 1;
            1.0 + (number % self.distinct) as f64 / 1024.0
        };
        let mut row = |i: usize| {
            let mut row: Vec<(usize, f64)> = vec![];
            let entries = random.next_below(5) + if i == self.places[0] { self.distinct } else { 0 };
            for _ in 0..entries {
                row.push((self.first_column + random.next_below(self.apart.min(50) + 1), value()));
            }
            for (place, column) in self.places.iter().zip([0, self.apart]) {
                if *place == i {
                    row.push((self.first_column + column, value()));
                }
            }
            row
        };
        from_rows(self.first_column + self.apart + 1, (0..self.rows).map(&mut row).collect())
    }

    /// How far apart columns of a tile are at most.
    fn span(matrix: &CsrMatrix<impl Scalar>, rows_of_tile: usize) -> usize {
        let rows: Vec<usize> = (0..matrix.nrows()).collect();
        let spans = rows.chunks(rows_of_tile).map(|rows| {
            let columns = rows.iter().flat_map(|&i| matrix.row(i).0);
            let (least, most) = (columns.clone().min(), columns.max());
            least.map_or(0, |least| most.unwrap() - least) as usize
        });
        spans.max().unwrap_or(0)
    }
}

fn at_the_limits<T: Bits>(device: &Device, number: usize) {
    let key = KEYS[number];
    let name = format!("spmv_packed_{}", key.entry().name);
    let format = if key.values == Values::Full { FormatChoice::Narrow } else { FormatChoice::Packed };
    let options = with_lanes(key.lanes).format(format);
    properties::check(&name, 12, limits(), |case| {
        let matrix = case.matrix::<T>();
        let packed = check("at a limit", device, &matrix, &options);
        let is_narrow = AtTheLimits::span(&matrix, 256 / key.lanes as usize) < 1 << 16;
        let columns = if is_narrow { "c16" } else { "c32" };
        let dtype = if T::DTYPE == DType::F32 { "f32" } else { "f64" };
        let start = match (format, case.distinct) {
            (FormatChoice::Packed, 1) => format!("spmv_csr_packed_{dtype}_{columns}_one_t"),
            (FormatChoice::Packed, 2..=256) => format!("spmv_csr_packed_{dtype}_{columns}_coded_t"),
            _ if is_narrow => format!("spmv_csr_packed_{dtype}_c16_t"),
            _ => format!("spmv_csr_vector_{dtype}_t"),
        };
        let expected = format!("{start}{}", key.lanes);
        prop_assert_eq!(packed.describe().kernel, expected, "{}", packed.describe());
        Ok(())
    });
}

fn the_choice_is_described(device: &Device) {
    let matrix = stencil(40).cast::<f32>();
    let described = |options: SpmvOptions| device.upload_with(&matrix, &options).unwrap().describe().to_string();
    // 7840 entries: with all of it but vectors, 7 tiles of 12 bytes, 1600 ends of 2 bytes; codes, and a table of 1024 bytes.
    let packed = described(SpmvOptions::default().format(FormatChoice::Packed).lanes(Lanes::Fixed(1)));
    let expected = "spmv_csr_packed_f32_c16_coded_t1: 16 bits for columns at most 335 apart in 256 rows; 2 distinct values; \
                    3.55 bytes per entry, 8.82 in CSR; 1 lane per row, as the options specify";
    assert_eq!(packed, expected);
    let narrow = described(SpmvOptions::default().format(FormatChoice::Narrow).lanes(Lanes::Fixed(1)));
    assert!(narrow.contains("; values as they are; 6.42 bytes per entry, 8.82 in CSR; "), "{narrow}");
    let wide = from_rows::<f32>(70_000, (0..300).map(|i| vec![(0, i as f64), (69_999, 0.5)]).collect());
    let wide = |format| device.upload_with(&wide, &with_lanes(1).format(format)).unwrap().describe().reason;
    let reason = wide(FormatChoice::Narrow);
    assert!(
        reason.ends_with(
            "; not packed: columns at most 69999 apart in 256 rows, 512 entries at most; values as they are"
        ),
        "{reason}"
    );
    assert!(wide(FormatChoice::Packed).ends_with("; more than 256 distinct values"));
}

/// New values that are as few, and others.
fn few_values_change(device: &Device) {
    let pattern = matrices::uneven::<f64>();
    let square = from_rows::<f64>(60, (0..60).map(|i| vec![(i, 1.0), ((i + 1) % 60, 1.0)]).collect());
    for (matrix, distinct, most) in [(&pattern, 1, 1), (&square, 1, 1), (&pattern, 3, 256), (&square, 2, 256)] {
        let few = |distinct: usize| with_values(matrix, |k| 0.1 * (1 + k % distinct) as f64);
        let options = with_lanes(2).format(FormatChoice::Packed);
        let mut packed = device.upload_with(&few(distinct), &options).unwrap();
        let mut in_csr = device.upload_with(&few(distinct), &with_lanes(2)).unwrap();
        let same = |packed: &DeviceMatrix<f64>, in_csr: &DeviceMatrix<f64>| {
            assert_eq!(f64::all(&product(packed, 1.0, 0.5)), f64::all(&product(in_csr, 1.0, 0.5)), "{distinct}");
            assert_eq!(packed.download().unwrap(), in_csr.download().unwrap());
            let diagonals = [packed, in_csr].map(|matrix| matrix.diagonal().unwrap().to_vec().unwrap());
            diagonals[0].iter().zip(&diagonals[1]).for_each(|(one, other)| assert!((one - other).abs() < 1e-11));
        };
        let kernel = packed.describe();
        let new = device.upload_vec(with_values(matrix, |k| -7.0 * (k % most) as f64).values()).unwrap();
        for matrix in [&mut packed, &mut in_csr] {
            matrix.update_values(&new).unwrap();
        }
        same(&packed, &in_csr);
        // By the same factor everywhere, there are no more values than before.
        let (rows, cols) = (vec![0.3; matrix.nrows()], vec![0.7; matrix.ncols()]);
        for matrix in [&mut packed, &mut in_csr] {
            matrix.scale_rows(&device.upload_vec(&rows).unwrap()).unwrap();
            matrix.scale_cols(&device.upload_vec(&cols).unwrap()).unwrap();
        }
        same(&packed, &in_csr);
        assert_eq!(packed.describe(), kernel);
        // One value too many changes nothing. The small matrix has no 257 entries.
        let more = with_values(matrix, |k| (k % (most + 1)) as f64);
        let before = packed.download().unwrap();
        if device.to_string() != "cpu" && matrix.nnz() > most {
            let error = packed.update_values(&device.upload_vec(more.values()).unwrap()).unwrap_err();
            let text = format!("more than {most} distinct values");
            assert!(matches!(&error, Error::Unsupported(problem) if problem.contains(&text)), "{error}");
            assert_eq!(packed.download().unwrap(), before);
            let recorded = device.record(|| packed.update_values(&new)).and_then(|mut graph| graph.launch(1));
            assert!(matches!(recorded, Err(Error::InvalidOption(_))), "{recorded:?}");
        }
    }
}

fn narrow_matrices_take_any_values(device: &Device) {
    let matrix = with_values(&matrices::uneven::<f32>(), |_| 1.0);
    let mut packed = device.upload_with(&matrix, &with_lanes(8).format(FormatChoice::Narrow)).unwrap();
    let new = with_values(&matrix, |k| k as f32 * 0.37);
    let values = device.upload_vec(new.values()).unwrap();
    device.record(|| packed.update_values(&values)).unwrap().launch(1).unwrap();
    let in_csr = device.upload_with(&new, &with_lanes(8)).unwrap();
    assert_eq!(product(&packed, 1.0, 0.0), product(&in_csr, 1.0, 0.0));
    let rows = device.upload_vec(&Random(3).vector::<f32>(new.nrows())).unwrap();
    packed.scale_rows(&rows).unwrap();
    let mut in_csr = in_csr;
    in_csr.scale_rows(&rows).unwrap();
    assert_eq!(packed.download().unwrap(), in_csr.download().unwrap());
    // The uploaded matrix keeps its own values.
    assert!(matrix.values().iter().all(|&value| value == 1.0));
}

fn other_operations(device: &Device) {
    let matrix = stencil(12);
    let b = Random(4).vector::<f64>(144);
    for format in [FormatChoice::Narrow, FormatChoice::Packed] {
        let packed = device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap();
        let in_csr = device.upload(&matrix).unwrap();
        for to in [Format::Csr, Format::Csc, Format::Coo, Format::Dia, Format::Ell, Format::Hyb] {
            let converted = [&packed, &in_csr].map(|matrix| matrix.convert(to).unwrap().download().unwrap());
            assert_eq!(converted[0], converted[1], "{to:?}");
        }
        let transposed = [&packed, &in_csr].map(|matrix| matrix.transpose().unwrap().download().unwrap());
        assert_eq!(transposed[0], transposed[1]);
        let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(144).unwrap());
        Cg::new(&packed).solve(&on_device, &mut x).unwrap();
        let x = x.to_vec().unwrap();
        let residual = reference_spmv(&matrix, 1.0, &x, -1.0, &b).iter().map(|(r, _)| r * r).sum::<f64>().sqrt();
        assert!(residual < 1e-5 * b.iter().map(|b| b * b).sum::<f64>().sqrt(), "{residual}");
        let mut graphed = device.zeros(144).unwrap();
        device.record(|| packed.spmv(1.0, &on_device, 1.0, &mut graphed)).unwrap().launch(2).unwrap();
        let once = reference_spmv(&matrix, 2.0, &b, 0.0, &b);
        assert_within("in a graph", &graphed.to_vec().unwrap(), &once);
        if device.to_string() != "cpu" {
            let mut y = device.zeros(144).unwrap();
            let transposed = packed.spmv_transposed(1.0, &on_device, 0.0, &mut y);
            assert!(matches!(transposed, Err(Error::Unsupported(_))), "{transposed:?}");
            let mut c = device.zeros_dense(DenseLayout::row_major(144, 1)).unwrap();
            let dense = packed.spmm(1.0, on_device.matrix((144, 1)).unwrap(), 0.0, &mut c);
            assert!(matches!(dense, Err(Error::Unsupported(_))), "{dense:?}");
        }
    }
}

fn wrong_options_are_errors(device: &Device) {
    let matrix = stencil(3);
    for format in [FormatChoice::Narrow, FormatChoice::Packed] {
        let options = SpmvOptions::default().format(format);
        let adaptive = device.upload_with(&matrix, &options.clone().kernel(CsrKernel::Adaptive));
        assert!(matches!(adaptive, Err(Error::InvalidOption(_))), "{adaptive:?}");
        for lanes in [0, 3, 16] {
            let lanes = device.upload_with(&matrix, &options.clone().lanes(Lanes::Fixed(lanes)));
            assert!(matches!(lanes, Err(Error::InvalidOption(_))), "{lanes:?}");
        }
        let csc = device.upload_with(&CscMatrix::try_from(&matrix).unwrap(), &options);
        assert!(matches!(csc, Err(Error::InvalidOption(_))), "{csc:?}");
    }
}
