//! What DIA, ELL, HYB and BSR share: more slots than entries, and conversions by way of CSR. The slots of DIA, ELL and HYB stand in columns as long as the matrix has
//! rows.

use std::ops::Range;

use crate::{
    BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, DiaMatrix, EllMatrix, Error, HybMatrix, Offset, Result, Scalar,
    parallel::{BLOCK, join},
};

/// The most slots an entry that conversions make by themselves.
pub(crate) const MAX_FILL: f64 = 3.0;

/// So few slots are always accepted: the padding of a small matrix costs next to nothing.
const SMALL: usize = 1 << 16;

/// The leading dimension of converted matrices: the number of rows, rounded up so that every column begins at a
/// multiple of 128 bytes.
pub(crate) fn leading_dimension(nrows: usize) -> usize {
    nrows.next_multiple_of(32)
}

/// Refuses what kernels cannot load in pieces of four elements, and arrays of another size than `columns` columns.
pub(super) fn check_slots(
    nrows: usize,
    leading_dimension: usize,
    columns: (usize, &str),
    array: (usize, &str),
) -> std::result::Result<(), String> {
    if leading_dimension < nrows || !leading_dimension.is_multiple_of(4) {
        let what = "where there must be a multiple of 4, no less than the rows";
        return Err(format!("a leading dimension of {leading_dimension} for {nrows} rows, {what}"));
    }
    if leading_dimension.checked_mul(columns.0) != Some(array.0) {
        return Err(format!("{} {} for {} {} of {leading_dimension} slots", array.0, array.1, columns.0, columns.1));
    }
    Ok(())
}

/// Whether a value is +0.0, as padding is; -0.0 is not.
pub(super) fn is_positive_zero<T: Scalar>(value: T) -> bool {
    value.to_f64().to_bits() == 0
}

/// The most slots for so many entries.
///
/// # Errors
/// [`Error::InvalidOption`] if `max_fill` is negative or not a number.
pub(super) fn slot_limit(entries: usize, max_fill: f64) -> Result<usize> {
    if max_fill.is_nan() || max_fill < 0.0 {
        return Err(Error::InvalidOption(format!("{max_fill} slots an entry, where there must be 0 or more")));
    }
    // Rounds down, and saturates.
    Ok(((max_fill * entries as f64) as usize).max(SMALL))
}

/// Calls `fill(rows, columns)` for consecutive blocks of rows, in parallel: with the slots of just these rows, column by
/// column.
pub(super) fn for_row_blocks<E: Send>(
    rows: Range<usize>,
    mut columns: Vec<&mut [E]>,
    fill: &(impl Fn(Range<usize>, &mut [&mut [E]]) + Sync),
) {
    if rows.len() <= BLOCK {
        return fill(rows, &mut columns);
    }
    let half = rows.len() / 2;
    let middle = rows.start + half;
    let (columns, later) = columns.into_iter().map(|column| column.split_at_mut(half)).unzip();
    join(|| for_row_blocks(rows.start..middle, columns, fill), || for_row_blocks(middle..rows.end, later, fill));
}

macro_rules! by_way_of_csr {
    ($($matrix:ident),*) => {$(
        /// Converts by way of CSR: sorts the entries by row and column, and sums duplicates. Fails like the conversion
        /// from CSR.
        impl<T: Scalar> TryFrom<&CooMatrix<T>> for $matrix<T> {
            type Error = Error;

            fn try_from(coo: &CooMatrix<T>) -> Result<Self> {
                Self::try_from(&CsrMatrix::try_from(coo)?)
            }
        }

        /// The entries in row order, by way of CSR. Fails like the conversion to CSR.
        impl<T: Scalar> TryFrom<&$matrix<T>> for CooMatrix<T> {
            type Error = Error;

            fn try_from(matrix: &$matrix<T>) -> Result<Self> {
                Ok(Self::from(&CsrMatrix::<T>::try_from(matrix)?))
            }
        }

        /// Converts by way of CSR, with the entries of each row sorted by column. Fails like the conversion from CSR.
        impl<T: Scalar, O: Offset> TryFrom<&CscMatrix<T, O>> for $matrix<T> {
            type Error = Error;

            fn try_from(csc: &CscMatrix<T, O>) -> Result<Self> {
                Self::try_from(&CsrMatrix::try_from(csc)?)
            }
        }

        /// Converts by way of CSR. Fails like the conversion to CSR.
        impl<T: Scalar, O: Offset> TryFrom<&$matrix<T>> for CscMatrix<T, O> {
            type Error = Error;

            fn try_from(matrix: &$matrix<T>) -> Result<Self> {
                Self::try_from(&CsrMatrix::<T, O>::try_from(matrix)?)
            }
        }
    )*};
}
by_way_of_csr!(BsrMatrix, DiaMatrix, EllMatrix, HybMatrix);

macro_rules! into_one_another {
    ($($from:ident to $to:ident),*) => {$(
        /// Converts by way of CSR. Fails like the conversion from CSR.
        impl<T: Scalar> TryFrom<&$from<T>> for $to<T> {
            type Error = Error;

            fn try_from(matrix: &$from<T>) -> Result<Self> {
                Self::try_from(&CsrMatrix::<T, u64>::try_from(matrix)?)
            }
        }
    )*};
}
into_one_another! {
    DiaMatrix to EllMatrix, DiaMatrix to HybMatrix, EllMatrix to DiaMatrix, EllMatrix to HybMatrix, HybMatrix to DiaMatrix,
    HybMatrix to EllMatrix, BsrMatrix to DiaMatrix, BsrMatrix to EllMatrix, BsrMatrix to HybMatrix, DiaMatrix to BsrMatrix,
    EllMatrix to BsrMatrix, HybMatrix to BsrMatrix
}
