//! Strategies for property tests with [proptest](https://docs.rs/proptest): sparse matrices whose structure is hard on
//! kernels, and vectors to go with them.
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

use crate::{CsrMatrix, Scalar};

/// The most rows that [`csr_matrix`] makes: beyond a block of 256 threads with one row each, twice.
pub const MAX_ROWS: usize = 520;

/// The longest row that [`csr_matrix`] makes.
pub const MAX_ROW_LENGTH: usize = 3000;

/// Any sparse matrix of up to [`MAX_ROWS`] rows: without rows, columns or entries; with even rows, rows whose lengths
/// lie around powers of two, one huge row, lengths by a power law; diagonal, banded, in blocks or scattered, with
/// duplicates, columns out of order and explicit zeros.
///
/// It shrinks to fewer and shorter rows.
pub fn csr_matrix<T: Scalar>() -> impl Strategy<Value = CsrMatrix<T>> {
    (row_lengths(), ncols(), layout(), any::<u64>())
        .prop_map(|(lengths, ncols, layout, seed)| fill(&lengths, ncols, layout, seed))
}

/// A vector of `len` numbers in [-1, 1].
pub fn vector<T: Scalar>(len: usize) -> impl Strategy<Value = Vec<T>> {
    // From one seed: a strategy for every element would take longer than the test.
    any::<u64>().prop_map(move |seed| (0..len).map(|i| T::from_f64(unit(seed, i as u64))).collect())
}

/// A factor such as alpha and beta: 0, 1, -1 or another.
pub fn factor<T: Scalar>() -> impl Strategy<Value = T> {
    prop_oneof![Just(0.0), Just(1.0), Just(-1.0), -4.0..4.0].prop_map(T::from_f64)
}

fn row_lengths() -> impl Strategy<Value = Vec<usize>> {
    let around_powers_of_two: Vec<usize> = (0..8).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).collect();
    let even = (0..MAX_ROWS, 0usize..40).prop_map(|(rows, length)| vec![length; rows]);
    let one_huge = (1..MAX_ROWS, 0..MAX_ROW_LENGTH, any::<prop::sample::Index>()).prop_map(|(rows, length, at)| {
        let mut lengths = vec![0; rows];
        lengths[at.index(rows)] = length;
        lengths
    });
    let power_law =
        (0usize..300, 1usize..1500).prop_map(|(rows, longest)| (0..rows).map(|i| longest / (i + 1)).collect());
    prop_oneof![vec(0usize..20, 0..MAX_ROWS), vec(select(around_powers_of_two), 0..100), even, one_huge, power_law,]
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
