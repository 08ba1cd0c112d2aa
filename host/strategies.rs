//! Strategies for property tests with [proptest](https://docs.rs/proptest): sparse matrices with difficult structures,
//! and vectors to multiply them by.
//!
//! ```
//! use proptest::prelude::*;
//! use warpsparse::{CooMatrix, CsrMatrix, strategies};
//!
//! proptest!(|(matrix in strategies::csr_matrix::<f64>())| {
//!     prop_assert_eq!(CooMatrix::from(&matrix).nnz(), matrix.nnz());
//! });
//! ```

use proptest::{collection::vec, prelude::*, sample::select};

use crate::{BsrMatrix, CsrMatrix, DType, Scalar};

/// The maximum number of rows of [`csr_matrix`]: more than two blocks of 256 threads with one row per thread.
pub const MAX_ROWS: usize = 520;

/// The maximum row length of [`csr_matrix`].
pub const MAX_ROW_LENGTH: usize = 3000;

/// Generates sparse matrices of up to [`MAX_ROWS`] rows: without rows, columns or entries; with even rows, with row
/// lengths around powers of two, with one huge row, with lengths by a power law; diagonal, banded, blocked or
/// scattered; with duplicates, unsorted columns and explicit zeros.
///
/// They shrink to fewer and shorter rows.
pub fn csr_matrix<T: Scalar>() -> impl Strategy<Value = CsrMatrix<T>> {
    (row_lengths(), ncols(), layout(), any::<u64>())
        .prop_map(|(lengths, ncols, layout, seed)| fill(&lengths, ncols, layout, seed))
}

/// Generates matrices like [`csr_matrix`], including values that are huge, tiny, denormal, infinite or NaN.
pub fn csr_matrix_with_extremes<T: Scalar>() -> impl Strategy<Value = CsrMatrix<T>> {
    (csr_matrix::<T>(), extremes(), any::<u64>()).prop_map(|(matrix, extremes, seed)| {
        let mut values = matrix.values().to_vec();
        extremes.put_into(&mut values, seed);
        let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
        // SAFETY: the offsets and the columns are those of a matrix with as many values.
        unsafe { CsrMatrix::from_csr_data_unchecked(matrix.nrows(), matrix.ncols(), offsets, columns, values) }
    })
}

/// Generates matrices in blocks of every size, of up to 40 block rows: without rows, columns or blocks; with block rows of any length, blocks in any order and some of them
/// twice; with sizes that are no multiples of the block size. One value in eight is a zero.
pub fn bsr_matrix<T: Scalar>() -> impl Strategy<Value = BsrMatrix<T>> {
    let lengths = vec(prop_oneof![0usize..4, 0usize..60], 0..40);
    (2usize..=8, lengths, 1usize..50, (0usize..8, 0usize..8), any::<u64>()).prop_map(
        |(size, lengths, block_cols, missing, seed)| {
            // Rows and columns that the last blocks have beyond the matrix.
            let within = |blocks: usize, missing: usize| (blocks * size).saturating_sub(missing % size);
            let (nrows, ncols) = (within(lengths.len(), missing.0), within(block_cols, missing.1));
            let (mut offsets, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
            for (block_row, &length) in lengths.iter().enumerate() {
                for _ in 0..length {
                    let column = mix(seed ^ mix(columns.len() as u64)) as usize % block_cols;
                    for element in 0..size * size {
                        let (row, col) = (block_row * size + element / size, column * size + element % size);
                        let random = mix(seed ^ values.len() as u64);
                        let is_zero = random >> 61 == 0 || row >= nrows || col >= ncols;
                        values.push(T::from_f64(if is_zero { 0.0 } else { unit(seed, values.len() as u64) }));
                    }
                    columns.push(column as u32);
                }
                offsets.push(columns.len() as u32);
            }
            BsrMatrix::try_from_bsr_data(nrows, ncols, size, offsets, columns, values).expect("a valid matrix")
        },
    )
}

/// Generates vectors like [`vector`], including numbers that are huge, tiny, denormal, infinite or NaN.
pub fn vector_with_extremes<T: Scalar>(len: usize) -> impl Strategy<Value = Vec<T>> {
    (vector::<T>(len), extremes(), any::<u64>()).prop_map(|(mut values, extremes, seed)| {
        extremes.put_into(&mut values, seed);
        values
    })
}

/// Generates vectors of `len` numbers in [-1, 1].
pub fn vector<T: Scalar>(len: usize) -> impl Strategy<Value = Vec<T>> {
    // From one seed: a strategy for every element would take longer than the test.
    any::<u64>().prop_map(move |seed| (0..len).map(|i| T::from_f64(unit(seed, i as u64))).collect())
}

/// Extreme numbers among others.
#[derive(Clone, Debug)]
struct Extremes {
    kinds: Vec<Extreme>,
    /// One number in so many is extreme.
    one_in: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extreme {
    /// From a quarter of the largest number on.
    Huge,
    /// Up to four times the least normal number.
    Tiny,
    Denormal,
    Infinite,
    Nan,
}

/// None, one kind, or several; everywhere or few.
fn extremes() -> impl Strategy<Value = Extremes> {
    use Extreme::{Denormal, Huge, Infinite, Nan, Tiny};
    let kinds = [
        vec![],
        vec![Huge],
        vec![Tiny],
        vec![Denormal],
        vec![Infinite],
        vec![Nan],
        vec![Tiny, Denormal],
        vec![Huge, Tiny, Denormal, Infinite, Nan],
    ];
    (select(kinds.to_vec()), select(vec![1, 5, 50, 1000])).prop_map(|(kinds, one_in)| Extremes { kinds, one_in })
}

impl Extremes {
    fn put_into<T: Scalar>(&self, values: &mut [T], seed: u64) {
        let (least, most) = match T::DTYPE {
            DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
            DType::F64 => (f64::MIN_POSITIVE, f64::MAX),
        };
        for (index, value) in values.iter_mut().enumerate() {
            let random = mix(seed ^ mix(index as u64));
            if self.kinds.is_empty() || !random.is_multiple_of(self.one_in) {
                continue;
            }
            // In [-1, 1), and of the same sign in [1/4, 1].
            let unit = unit(seed, random);
            let large = (0.25 + 0.75 * unit.abs()).copysign(unit);
            *value = T::from_f64(match self.kinds[(random >> 32) as usize % self.kinds.len()] {
                Extreme::Huge => most * large,
                Extreme::Tiny => 4.0 * least * large,
                Extreme::Denormal => least * unit,
                Extreme::Infinite => f64::INFINITY.copysign(unit),
                Extreme::Nan => f64::NAN,
            });
        }
    }
}

/// Generates factors such as alpha and beta: 0, 1, -1 or another number.
pub fn factor<T: Scalar>() -> impl Strategy<Value = T> {
    prop_oneof![Just(0.0), Just(1.0), Just(-1.0), -4.0..4.0].prop_map(T::from_f64)
}

fn row_lengths() -> impl Strategy<Value = Vec<usize>> {
    let around_powers_of_two: Vec<usize> = (0..8).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).collect();
    let even = (0..=MAX_ROWS, 0usize..40).prop_map(|(rows, length)| vec![length; rows]);
    let one_huge =
        (1..=MAX_ROWS, up_to(MAX_ROW_LENGTH), any::<prop::sample::Index>()).prop_map(|(rows, length, at)| {
            let mut lengths = vec![0; rows];
            lengths[at.index(rows)] = length;
            lengths
        });
    let power_law =
        (0usize..300, 1usize..1500).prop_map(|(rows, longest)| (0..rows).map(|i| longest / (i + 1)).collect());
    let largest = vec(0usize..3, MAX_ROWS);
    prop_oneof![
        4 => vec(0usize..20, 0..=MAX_ROWS),
        4 => vec(select(around_powers_of_two), 0..100),
        4 => even,
        4 => one_huge,
        4 => power_law,
        1 => largest,
    ]
}

/// Any length up to the longest, often the longest itself.
fn up_to(longest: usize) -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..=longest, 1 => Just(longest)]
}

fn ncols() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), 1usize..10, 1usize..2000]
}

/// Where the entries of a row stand.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// From the diagonal on; a diagonal matrix where rows have one entry.
    Banded,
    /// From the start of the diagonal block of this size on.
    Blocks(usize),
    /// Anywhere, in any order, with duplicates.
    Scattered,
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Banded), (2usize..9).prop_map(Layout::Blocks), Just(Layout::Scattered)]
}

/// The matrix with rows of these lengths; without columns, all rows are empty. One entry in eight is an explicit zero.
fn fill<T: Scalar>(lengths: &[usize], ncols: usize, layout: Layout, seed: u64) -> CsrMatrix<T> {
    let (mut offsets, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
    for (i, &length) in lengths.iter().enumerate() {
        for k in 0..if ncols == 0 { 0 } else { length } {
            let random = mix(seed ^ values.len() as u64);
            let column = match layout {
                Layout::Banded => i + k,
                Layout::Blocks(size) => i / size * size + k,
                Layout::Scattered => random as usize,
            };
            columns.push((column % ncols) as u32);
            values.push(T::from_f64(if random >> 61 == 0 { 0.0 } else { unit(seed, values.len() as u64) }));
        }
        offsets.push(values.len() as u32);
    }
    // SAFETY: an offset was added at the end of each row, and the columns are remainders by `ncols`.
    unsafe { CsrMatrix::from_csr_data_unchecked(lengths.len(), ncols, offsets, columns, values) }
}

/// The number at `index` of a random sequence in [-1, 1).
fn unit(seed: u64, index: u64) -> f64 {
    (mix(seed ^ mix(index)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014): turns a counter into random bits.
fn mix(counter: u64) -> u64 {
    let mut bits = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
