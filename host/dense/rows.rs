//! Row-major matrices, for operations that know no other order: as copies of those in another, and as slices on the CPU.

use super::{DenseMut, DenseRef, DeviceDense, Order};
use crate::{Device, Element, Result};

/// Returns a row-major copy of a column-major matrix.
pub(crate) fn in_rows<T: Element>(device: &Device, matrix: DenseRef<'_, T>) -> Result<Option<DeviceDense<T>>> {
    if matrix.order() == Order::RowMajor {
        return Ok(None);
    }
    let mut rows = device.zeros_dense((matrix.nrows(), matrix.ncols()))?;
    rows.assign(matrix)?;
    Ok(Some(rows))
}

/// Calls `write` with a row-major matrix, and copies the result if the matrix is column-major. `reads` says whether the
/// old elements are read.
pub(crate) fn write_rows<T: Element>(
    mut matrix: DenseMut<'_, T>,
    reads: bool,
    write: impl FnOnce(DenseMut<'_, T>) -> Result<()>,
) -> Result<()> {
    if matrix.order() == Order::RowMajor {
        return write(matrix);
    }
    let mut rows = matrix.device().zeros_dense((matrix.nrows(), matrix.ncols()))?;
    if reads {
        rows.assign(&matrix)?;
    }
    write(rows.view_mut())?;
    matrix.assign(&rows)
}

/// A row-major dense matrix on the CPU, from its first element on.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) leading_dimension: usize,
}

/// A row-major dense matrix on the CPU to write to, from its first element on.
pub(crate) struct RowsMut<'a, T> {
    pub(crate) elements: &'a mut [T],
    pub(crate) leading_dimension: usize,
}

impl<'a, T: Element> Rows<'a, T> {
    pub(crate) fn new(matrix: DenseRef<'a, T>) -> Self {
        let elements = matrix.vec().buffer().on_cpu();
        Self { elements: elements.get(matrix.offset()..).unwrap_or(&[]), leading_dimension: matrix.leading_dimension() }
    }

    /// `width` elements of a row from `first` on.
    pub(crate) fn part(&self, row: usize, first: usize, width: usize) -> &'a [T] {
        // Without columns, a matrix has no elements, whatever its leading dimension.
        if width == 0 {
            return &[];
        }
        &self.elements[row * self.leading_dimension + first..][..width]
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> T {
        self.elements[row * self.leading_dimension + column]
    }
}

impl<'a, T: Element> RowsMut<'a, T> {
    pub(crate) fn new(matrix: DenseMut<'a, T>) -> Self {
        let (nrows, ncols, first) = (matrix.nrows(), matrix.ncols(), matrix.offset());
        let leading_dimension = matrix.leading_dimension();
        let elements = matrix.into_vec().parts_mut().1.on_cpu_mut();
        let elements = match nrows.checked_sub(1) {
            Some(last) if ncols > 0 => &mut elements[first..first + last * leading_dimension + ncols],
            _ => &mut [],
        };
        Self { elements, leading_dimension }
    }

    /// The rows, with what lies between them; there are columns.
    pub(crate) fn rows(self) -> impl Iterator<Item = &'a mut [T]> {
        self.elements.chunks_mut(self.leading_dimension)
    }

    /// The first `row` rows, and the others, if there are any.
    pub(crate) fn split_at(self, row: usize) -> (Self, Self) {
        let Self { elements, leading_dimension } = self;
        let (below, above) = elements.split_at_mut((row * leading_dimension).min(elements.len()));
        (Self { elements: below, leading_dimension }, Self { elements: above, leading_dimension })
    }

    /// `width` elements of a row from `first` on.
    pub(crate) fn part(&mut self, row: usize, first: usize, width: usize) -> &mut [T] {
        &mut self.elements[row * self.leading_dimension + first..][..width]
    }

    pub(crate) fn at(&mut self, row: usize, column: usize) -> &mut T {
        &mut self.elements[row * self.leading_dimension + column]
    }
}
