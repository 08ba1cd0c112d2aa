//! Small positive integers, of which a device can add up as many as tests have, exactly and in any order: an entry that is
//! lost, taken twice or multiplied by a neighbour shows in every sum, however long, and in `f32` too.
//!
//! Products are at most 8 * 16, and the longest row of the test matrices has 70 001 entries: all partial sums stay below
//! 2^24, up to which `f32` has every integer. A factor for the sum should be 1 or -1.

use warpsparse::{CsrMatrix, Scalar};

use super::Random;

/// The matrix with values from 1 to 8 in place of its own; explicit zeros stay.
pub(crate) fn matrix<T: Scalar>(of: &CsrMatrix<T>) -> CsrMatrix<T> {
    let mut random = Random(31);
    let mut integer = |old: T| if old == T::default() { old } else { T::from_f64(1.0 + random.next_below(8) as f64) };
    let values: Vec<T> = of.values().iter().map(|&value| integer(value)).collect();
    let (offsets, columns) = (of.row_offsets().to_vec(), of.col_indices().to_vec());
    CsrMatrix::try_from_csr_data(of.nrows(), of.ncols(), offsets, columns, values).expect("the structure of a matrix")
}

/// A vector of numbers from 1 to 16.
pub(crate) fn vector<T: Scalar>(seed: u64, len: usize) -> Vec<T> {
    let mut random = Random(seed);
    (0..len).map(|_| T::from_f64(1.0 + random.next_below(16) as f64)).collect()
}
