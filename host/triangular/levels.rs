//! The order in which the rows of a triangle can be solved.

use std::ops::Range;

use kernels_gpu::ilu;

use super::{Diagonal, Triangle, analysis, analysis::OnDevice, bad_diagonal};
use crate::{CsrMatrix, DeviceVec, Result, Scalar, conversion::Operand, memory};

/// The rows of a triangle by level.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(super) triangle: Triangle,
    pub(super) diagonal: Diagonal,
    levels: usize,
    /// For kernels; the CPU needs none.
    pub(super) on_device: Option<OnDevice>,
}

impl Schedule {
    /// Analyses a triangle of a square matrix with ascending columns. If the diagonal is stored, it is that of factors to come: its values may still be anything.
    ///
    /// # Errors
    /// [`Breakdown`](crate::Error::Breakdown) if an element of a stored diagonal is missing.
    pub(crate) fn new<T: Scalar>(matrix: &Operand<T>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        Self::of(matrix, (triangle, diagonal), false, None)
    }

    /// As [`new`](Self::new), but it is also an error if an element of a stored diagonal is zero or not finite.
    pub(super) fn of_divisors<T: Scalar>(matrix: &Operand<T>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        Self::of(matrix, (triangle, diagonal), true, None)
    }

    /// As [`new`](Self::new) with a stored diagonal, and the entry on the diagonal of each row, on the device; the CPU finds it itself.
    pub(crate) fn with_diagonals<T: Scalar>(
        matrix: &Operand<T>,
        triangle: Triangle,
    ) -> Result<(Self, Option<DeviceVec<u32>>)> {
        let mut diagonals = match matrix {
            Operand::Host(_) => None,
            Operand::Device(arrays) => Some(arrays.device.scratch(arrays.nrows as usize)?),
        };
        let schedule = Self::of(matrix, (triangle, Diagonal::Stored), false, diagonals.as_mut())?;
        Ok((schedule, diagonals))
    }

    fn of<T: Scalar>(
        matrix: &Operand<T>,
        (triangle, diagonal): (Triangle, Diagonal),
        divides: bool,
        diagonals: Option<&mut DeviceVec<u32>>,
    ) -> Result<Self> {
        let (levels, on_device) = match matrix {
            Operand::Device(arrays) => {
                let (levels, on_device) = analysis::analyse(arrays, (triangle, diagonal), divides, diagonals)?;
                (levels, Some(on_device))
            }
            Operand::Host(matrix) => {
                let (rows, values) = (Rows::on_cpu(matrix), matrix.values());
                let is_bad = |&row: &usize| match rows.diagonal(row) {
                    None => true,
                    Some(entry) => divides && ilu::is_bad(values[entry], false),
                };
                if diagonal == Diagonal::Stored
                    && let Some(row) = (0..rows.len()).find(is_bad)
                {
                    return Err(bad_diagonal(row));
                }
                (rows.levels(triangle)?.iter().max().map_or(0, |&deepest| deepest as usize + 1), None)
            }
        };
        Ok(Self { triangle, diagonal, levels, on_device })
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// The rows by level, on the device.
    pub(crate) fn order(&self) -> Option<&DeviceVec<u32>> {
        self.on_device.as_ref().map(|on_device| &on_device.order)
    }
}

/// The pattern of a canonical matrix on the CPU.
pub(crate) struct Rows<'a> {
    offsets: &'a [u32],
    columns: &'a [u32],
}

impl<'a> Rows<'a> {
    pub(crate) fn on_cpu<T: Scalar>(matrix: &'a CsrMatrix<T>) -> Self {
        Self { offsets: matrix.row_offsets(), columns: matrix.col_indices() }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The first entry of a row that is not below the diagonal: the one on it, if there is one.
    pub(crate) fn split(&self, row: usize) -> usize {
        let (begin, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        begin + self.columns[begin..end].partition_point(|&column| (column as usize) < row)
    }

    /// The entry on the diagonal of a row.
    fn diagonal(&self, row: usize) -> Option<usize> {
        let split = self.split(row);
        (split < self.offsets[row + 1] as usize && self.columns[split] as usize == row).then_some(split)
    }

    /// The entries of a row of the triangle without the diagonal.
    pub(super) fn span(&self, row: usize, triangle: Triangle) -> Range<usize> {
        match (triangle, self.diagonal(row)) {
            (Triangle::Lower, _) => self.offsets[row] as usize..self.split(row),
            (Triangle::Upper, Some(diagonal)) => diagonal + 1..self.offsets[row + 1] as usize,
            (Triangle::Upper, None) => self.split(row)..self.offsets[row + 1] as usize,
        }
    }

    /// The level of each row.
    pub(super) fn levels(&self, triangle: Triangle) -> Result<Vec<u32>> {
        let n = self.len();
        let mut levels = memory::zeros::<u32>(n)?;
        for step in 0..n {
            let row = triangle.nth(step, n);
            let columns = &self.columns[self.span(row, triangle)];
            levels[row] = columns.iter().map(|&column| levels[column as usize] + 1).max().unwrap_or(0);
        }
        Ok(levels)
    }
}
