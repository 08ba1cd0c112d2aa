//! A matrix in host memory, in whichever format it is.

use super::Factors;
use crate::{
    BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, DiaMatrix, EllMatrix, HybMatrix, Offset, Result, Scalar, memory,
    parallel::for_blocks,
};

/// A sparse matrix in host memory, in the format that it had on a device: see [`DeviceMatrix::download`](crate::DeviceMatrix::download).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostMatrix<T> {
    /// CSR, with 32-bit offsets.
    Csr(CsrMatrix<T>),
    /// CSR, with 64-bit offsets.
    Csr64(CsrMatrix<T, u64>),
    /// CSC, with 32-bit offsets.
    Csc(CscMatrix<T>),
    /// CSC, with 64-bit offsets.
    Csc64(CscMatrix<T, u64>),
    /// COO.
    Coo(CooMatrix<T>),
    /// DIA.
    Dia(DiaMatrix<T>),
    /// ELL.
    Ell(EllMatrix<T>),
    /// HYB.
    Hyb(HybMatrix<T>),
    /// BSR.
    Bsr(BsrMatrix<T>),
}

/// Does something with the matrix in any of the formats.
macro_rules! with_matrix {
    ($host:expr, $matrix:ident => $work:expr) => {
        match $host {
            HostMatrix::Csr($matrix) => $work,
            HostMatrix::Csr64($matrix) => $work,
            HostMatrix::Csc($matrix) => $work,
            HostMatrix::Csc64($matrix) => $work,
            HostMatrix::Coo($matrix) => $work,
            HostMatrix::Dia($matrix) => $work,
            HostMatrix::Ell($matrix) => $work,
            HostMatrix::Hyb($matrix) => $work,
            HostMatrix::Bsr($matrix) => $work,
        }
    };
}
pub(crate) use with_matrix;

impl<T: Scalar> HostMatrix<T> {
    /// Number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        with_matrix!(self, matrix => matrix.nrows())
    }

    /// Number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        with_matrix!(self, matrix => matrix.ncols())
    }

    /// Number of entries.
    #[must_use]
    pub fn nnz(&self) -> usize {
        with_matrix!(self, matrix => matrix.nnz())
    }

    /// The matrix in CSR. Copies nothing that is in CSR.
    ///
    /// # Errors
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries and more, [`OutOfMemory`](crate::Error::OutOfMemory).
    pub fn into_csr(self) -> Result<CsrMatrix<T>> {
        match self {
            Self::Csr(matrix) => Ok(matrix),
            Self::Csr64(matrix) => (&matrix).try_into(),
            Self::Csc(matrix) => (&matrix).try_into(),
            Self::Csc64(matrix) => CsrMatrix::try_from(&CsrMatrix::<T, u64>::try_from(&matrix)?),
            Self::Coo(matrix) => (&matrix).try_into(),
            Self::Dia(matrix) => (&matrix).try_into(),
            Self::Ell(matrix) => (&matrix).try_into(),
            Self::Hyb(matrix) => (&matrix).try_into(),
            Self::Bsr(matrix) => (&matrix).try_into(),
        }
    }

    /// A matrix in CSR with offsets of either size.
    pub(crate) fn of_csr<O: Offset>(matrix: &CsrMatrix<T, O>) -> Self {
        let matrix: &dyn std::any::Any = matrix;
        let narrow = matrix.downcast_ref().cloned().map(Self::Csr);
        narrow.or_else(|| matrix.downcast_ref().cloned().map(Self::Csr64)).expect("offsets are u32 or u64")
    }

    /// The transpose in CSC of a matrix in CSR.
    pub(crate) fn into_transposed(self) -> Self {
        match self {
            Self::Csr(matrix) => Self::Csc(CscMatrix::from_transposed(matrix)),
            Self::Csr64(matrix) => Self::Csc64(CscMatrix::from_transposed(matrix)),
            other => other,
        }
    }

    /// Adds the elements on the diagonal.
    pub(crate) fn add_diagonal(&self, diagonal: &mut [T]) {
        with_matrix!(self, matrix => {
            let on_diagonal = matrix.triplets().filter(|&(row, column, _)| row == column);
            on_diagonal.for_each(|(row, _, value)| diagonal[row] += value);
        });
    }

    /// How many values are stored, padding included.
    pub(crate) fn values_len(&self) -> usize {
        match self {
            Self::Hyb(matrix) => matrix.ell().values().len() + matrix.coo().values().len(),
            Self::Dia(matrix) => matrix.values().len(),
            Self::Ell(matrix) => matrix.values().len(),
            Self::Bsr(matrix) => matrix.values().len(),
            other => other.nnz(),
        }
    }

    /// The same matrix with other values, as many as are stored. Padding stays.
    pub(crate) fn with_values(&self, values: &[T]) -> Result<Self> {
        let mut copy = memory::room(values.len())?;
        copy.extend_from_slice(values);
        Ok(match self {
            Self::Csr(matrix) => Self::Csr(matrix.with_values(copy)),
            Self::Csr64(matrix) => Self::Csr64(matrix.with_values(copy)),
            Self::Csc(matrix) => Self::Csc(CscMatrix::from_transposed(matrix.as_transposed().with_values(copy))),
            Self::Csc64(matrix) => Self::Csc64(CscMatrix::from_transposed(matrix.as_transposed().with_values(copy))),
            Self::Coo(matrix) => Self::Coo(matrix.with_values(copy)),
            Self::Dia(matrix) => Self::Dia(matrix.with_values(copy)?),
            Self::Ell(matrix) => Self::Ell(matrix.with_values(copy)),
            Self::Bsr(matrix) => Self::Bsr(matrix.with_values(copy)),
            Self::Hyb(matrix) => {
                let (ell, coo) = values.split_at(matrix.ell().values().len());
                Self::Hyb(HybMatrix::try_from_parts(
                    matrix.ell().with_values(ell.to_vec()),
                    matrix.coo().with_values(coo.to_vec()),
                )?)
            }
        })
    }

    /// The same matrix with rows and columns multiplied by factors of their own.
    pub(crate) fn scaled(&self, factors: Factors<'_, T>) -> Result<Self> {
        let Factors { rows, cols } = factors;
        let (rows, cols) = (rows.map(|rows| rows.on_cpu()), cols.map(|cols| cols.on_cpu()));
        let scaled = |values: &[T], place: &(dyn Fn(usize) -> Option<(usize, usize)> + Sync)| {
            scaled_values(values, (rows, cols), place)
        };
        let swapped = Factors { rows: factors.cols, cols: factors.rows };
        match self {
            Self::Csr(matrix) => self.with_values(&scaled(matrix.values(), &|k| Some(place_in_csr(matrix, k)))?),
            Self::Csr64(matrix) => self.with_values(&scaled(matrix.values(), &|k| Some(place_in_csr(matrix, k)))?),
            Self::Csc(matrix) => Ok(Self::Csr(matrix.as_transposed().clone()).scaled(swapped)?.into_transposed()),
            Self::Csc64(matrix) => Ok(Self::Csr64(matrix.as_transposed().clone()).scaled(swapped)?.into_transposed()),
            Self::Coo(matrix) => {
                let place = |k: usize| Some((matrix.row_indices()[k] as usize, matrix.col_indices()[k] as usize));
                self.with_values(&scaled(matrix.values(), &place)?)
            }
            Self::Dia(matrix) => {
                let (ld, values) = (matrix.leading_dimension(), matrix.values());
                let place = |k: usize| {
                    let (row, col) = (k % ld, (k % ld) as i64 + matrix.offsets()[k / ld]);
                    // A zero is no entry, and stays one.
                    let is_entry = row < matrix.nrows() && (0..matrix.ncols() as i64).contains(&col);
                    (is_entry && values[k] != T::default()).then_some((row, col as usize))
                };
                self.with_values(&scaled(values, &place)?)
            }
            Self::Ell(matrix) => {
                let (ld, columns) = (matrix.leading_dimension(), matrix.col_indices());
                let place = |k: usize| (columns[k] != EllMatrix::<T>::PADDING).then(|| (k % ld, columns[k] as usize));
                self.with_values(&scaled(matrix.values(), &place)?)
            }
            Self::Bsr(matrix) => self.with_values(&scaled(matrix.values(), &|k| matrix.place(k))?),
            Self::Hyb(matrix) => {
                let (ell, coo) = (Self::Ell(matrix.ell().clone()), Self::Coo(matrix.coo().clone()));
                match (ell.scaled(factors)?, coo.scaled(factors)?) {
                    (Self::Ell(ell), Self::Coo(coo)) => HybMatrix::try_from_parts(ell, coo).map(Self::Hyb),
                    _ => unreachable!("a format stays as it is"),
                }
            }
        }
    }
}

/// Row and column of a stored entry.
fn place_in_csr<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, entry: usize) -> (usize, usize) {
    let row = matrix.row_offsets().partition_point(|offset| offset.index() <= entry) - 1;
    (row, matrix.col_indices()[entry] as usize)
}

/// The values, each times the factors of its row and column, if it has a place.
fn scaled_values<T: Scalar>(
    values: &[T],
    (rows, cols): (Option<&[T]>, Option<&[T]>),
    place: &(dyn Fn(usize) -> Option<(usize, usize)> + Sync),
) -> Result<Vec<T>> {
    let mut scaled = memory::zeros(values.len())?;
    for_blocks(0..values.len(), &mut scaled, &|entries, scaled: &mut [T]| {
        for (k, scaled) in entries.zip(scaled) {
            *scaled = values[k];
            if let Some((row, col)) = place(k) {
                if let Some(rows) = rows {
                    *scaled = rows[row] * *scaled;
                }
                if let Some(cols) = cols {
                    *scaled = *scaled * cols[col];
                }
            }
        }
    });
    Ok(scaled)
}
