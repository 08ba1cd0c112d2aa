//! What the tests of conversions from and to other libraries share.

use std::fmt::Debug;

use warpsparse::{ErrorKind, Result, Scalar};

/// Entries as `(row, column, bits of the value)`.
pub(crate) type Entries = Vec<(usize, usize, u64)>;

pub(crate) fn bits<T: Scalar>(triplets: impl Iterator<Item = (usize, usize, T)>) -> Entries {
    triplets.map(|(i, j, value)| (i, j, value.to_f64().to_bits())).collect()
}

/// The text of an error that is a mistake in the call.
pub(crate) fn text<M: Debug>(result: Result<M>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.to_string()
}

/// Values that a comparison of numbers does not tell apart, or from anything.
pub(crate) const VALUES: [f64; 5] = [-0.0, 0.0, f64::NAN, f64::NEG_INFINITY, 5e-324];

pub(crate) fn value_bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
