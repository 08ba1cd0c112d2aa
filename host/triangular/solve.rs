//! Solves, on the CPU and by kernels.

use kernels_gpu::trsv::{AFTER, Args, BEFORE, ClearArgs, Key, Operation, UNIT, clear_grid_size, grid_size};

use super::{Diagonal, Rows, Schedule, Triangle, analysis::OnDevice};
use crate::{
    CsrMatrix, DenseMut, DenseRef, DeviceSlice, DeviceSliceMut, Error, Order, Result, Scalar,
    conversion::Operand,
    device::{check_length, launch},
    stored::CsrArrays,
};

/// Right-hand sides and solutions.
pub(crate) struct Sides<'b, 'x, T> {
    b: DeviceSlice<'b, T>,
    b_strides: Strides,
    x: DeviceSliceMut<'x, T>,
    x_strides: Strides,
    columns: usize,
}

/// The distances of rows and of columns.
#[derive(Clone, Copy)]
struct Strides {
    row: usize,
    column: usize,
}

impl Strides {
    fn of(order: Order, leading_dimension: usize) -> Self {
        match order {
            Order::RowMajor => Self { row: leading_dimension, column: 1 },
            Order::ColumnMajor => Self { row: 1, column: leading_dimension },
        }
    }

    fn at(self, row: usize, column: usize) -> usize {
        row * self.row + column * self.column
    }
}

impl<'b, 'x, T: Scalar> Sides<'b, 'x, T> {
    pub(crate) fn of_vectors(b: DeviceSlice<'b, T>, x: DeviceSliceMut<'x, T>) -> Self {
        let strides = Strides { row: 1, column: 0 };
        Self { b, b_strides: strides, x, x_strides: strides, columns: 1 }
    }

    /// Of as many rows as the triangle, and as many columns each.
    pub(super) fn of_matrices(b: DenseRef<'b, T>, x: DenseMut<'x, T>) -> Self {
        let b_strides = Strides::of(b.order(), b.leading_dimension());
        let (x_strides, columns) = (Strides::of(x.order(), x.leading_dimension()), x.ncols());
        Self { b: b.elements(), b_strides, x: x.into_elements(), x_strides, columns }
    }
}

impl Schedule {
    /// Solves with the matrix that was analysed, perhaps with other values.
    pub(crate) fn solve<T: Scalar>(&self, matrix: &Operand<T>, sides: Sides<'_, '_, T>) -> Result<()> {
        if sides.b_strides.column == 0 {
            check_length("b", matrix.nrows(), sides.b.len())?;
            check_length("x", matrix.nrows(), sides.x.len())?;
        }
        sides.x.device().check_same("b", sides.b.device())?;
        matrix.check_device("the triangle", sides.x.device())?;
        match (matrix, &self.on_device) {
            (_, _) if matrix.nrows() == 0 || sides.columns == 0 => Ok(()),
            (Operand::Device(arrays), Some(on_device)) => self.solve_on_device(arrays, on_device, sides),
            (Operand::Host(matrix), _) => {
                self.solve_on_cpu(matrix, sides);
                Ok(())
            }
            (Operand::Device(_), None) => unreachable!("a schedule is for the device of its matrix"),
        }
    }

    fn solve_on_cpu<T: Scalar>(&self, matrix: &CsrMatrix<T>, sides: Sides<'_, '_, T>) {
        let Sides { b, b_strides, x, x_strides, columns } = sides;
        let (b, x, rows) = (b.on_cpu(), x.on_cpu_mut(), Rows::on_cpu(matrix));
        let (indices, values) = (matrix.col_indices(), matrix.values());
        for step in 0..rows.len() {
            let row = self.triangle.nth(step, rows.len());
            let (split, others) = (rows.split(row), rows.span(row, self.triangle));
            for column in 0..columns {
                let entries = indices[others.clone()].iter().zip(&values[others.clone()]);
                let sum = entries.fold(T::default(), |sum, (&index, &value)| {
                    value.mul_add(x[x_strides.at(index as usize, column)], sum)
                });
                let rest = b[b_strides.at(row, column)] - sum;
                x[x_strides.at(row, column)] = match self.diagonal {
                    Diagonal::Unit => rest,
                    Diagonal::Stored => rest / values[split],
                };
            }
        }
    }

    fn solve_on_device<T: Scalar>(
        &self,
        matrix: &CsrArrays<T, u32>,
        on_device: &OnDevice,
        sides: Sides<'_, '_, T>,
    ) -> Result<()> {
        let Sides { b, b_strides, mut x, x_strides, columns } = sides;
        let tiles = on_device.tiles.len() as u32 - 1;
        let columns = u32::try_from(columns).unwrap_or(u32::MAX);
        let blocks = grid_size(tiles, columns).max(clear_grid_size(u64::from(matrix.nrows) * u64::from(columns)));
        if blocks > i32::MAX as u64 {
            return Err(Error::Unsupported(format!("a triangular solve of {columns} columns at once")));
        }
        let device = x.device().clone();
        let mut ticket = device.scratch::<u32>(1)?;
        let (x_row, x_column) = (x_strides.row as u64, x_strides.column as u64);
        let entry = |operation| Key { operation, dtype: T::DTYPE }.entry();
        let (queue, out) = x.as_slice_mut().into_writable();
        let args = ClearArgs { rows: matrix.nrows, columns, x_row, x_column, x: out, ticket: ticket.writable() };
        let blocks = clear_grid_size(u64::from(matrix.nrows) * u64::from(columns)) as u32;
        // SAFETY: `x` has an element for each row and column, borrowed mutably; a word; the entry is for `T`.
        unsafe { launch(queue, entry(Operation::Clear), blocks, args) }?;
        let (queue, out) = x.into_writable();
        let values = matrix.values.read();
        let args = Args {
            rows: matrix.nrows,
            entries: matrix.nnz,
            tiles,
            columns,
            diagonal: match (self.diagonal, self.triangle) {
                (Diagonal::Unit, _) => UNIT,
                (Diagonal::Stored, Triangle::Lower) => AFTER,
                (Diagonal::Stored, Triangle::Upper) => BEFORE,
            },
            reach: on_device.reach,
            b_row: b_strides.row as u64,
            b_column: b_strides.column as u64,
            x_row,
            x_column,
            col_indices: matrix.col_indices.readable(&matrix.device),
            values: values.readable(),
            order: on_device.order.readable(),
            spans: on_device.spans.readable(),
            tiles_of_rows: on_device.tiles.readable(),
            places: on_device.narrow.as_ref().map(|narrow| narrow.places.readable()).unwrap_or_default(),
            depths: on_device.narrow.as_ref().map(|narrow| narrow.depths.readable()).unwrap_or_default(),
            b: b.readable(),
            x: out,
            ticket: ticket.writable(),
        };
        let blocks = grid_size(tiles, columns) as u32;
        let operation = match on_device.narrow {
            None => Operation::Solve(on_device.lanes),
            Some(_) => Operation::SolveNarrow(on_device.lanes),
        };
        // SAFETY: the schedule of this matrix's pattern, whose rows wait for those of earlier tiles; `b` and `x` have an element for each row and column, and `x` is
        // borrowed mutably and cleared; the entry is for `T`.
        unsafe { launch(queue, entry(operation), blocks, args) }
    }
}
