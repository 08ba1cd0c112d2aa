//! The block-Jacobi preconditioner.

mod cpu;

use kernels_gpu::block_jacobi::{
    ApplyArgs, CompareArgs, InvertArgs, Key, MAX_BLOCK, Operation, SLICE, grid_size, lanes_for,
};

use super::Preconditioner;
use crate::{
    CsrMatrix, DType, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar,
    conversion::Operand,
    device::{self, Backend, check_length, launch},
    scalar::precision,
    stored::CsrArrays,
};

/// The block-Jacobi preconditioner: the inverses of the blocks of the diagonal of a matrix, with 1 to 32 consecutive rows each.
///
/// ```
/// use warpsparse::{BlockJacobi, Cg, CsrMatrix, Device};
///
/// // 4 1 0
/// // 1 4 1
/// // 0 1 4
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(3, 3, vec![0u32, 2, 5, 7], vec![0, 1, 0, 1, 2, 1, 2], vec![4.0, 1.0, 1.0, 4.0, 1.0, 1.0, 4.0])?;
/// let a = device.upload(&a)?;
/// let blocks = BlockJacobi::new(&a, 2)?;
/// assert_eq!(blocks.block_offsets(), [0, 2, 3]);
/// let (b, mut x) = (device.upload_vec(&[5.0, 6.0, 5.0])?, device.zeros(3)?);
/// let info = Cg::new(&a).preconditioner(blocks).solve(&b, &mut x)?;
/// assert!(info.iterations <= 3);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// It suits matrices whose unknowns come in groups, such as the displacements of a node: [`from_pattern`](Self::from_pattern) finds them. An application multiplies a
/// vector by small dense matrices, in one kernel without waits.
///
/// The inverse of a symmetric block is symmetric to the last bit, and that of a positive definite one is positive definite unless the block is nearly singular: conjugate
/// gradients and MINRES need both. All devices compute the same inverses; an application has the same bits in every run on a device.
///
/// Memory: for each row as many elements as the largest block in its slice of 32 rows has rows; 4 bytes for each row; 4 for each block, on the device and on the host.
#[derive(Debug)]
pub struct BlockJacobi<T> {
    blocks: Blocks,
    inverses: DeviceVec<T>,
}

/// The blocks, and where their inverses lie: see the kernel family `block_jacobi`.
#[derive(Debug)]
struct Blocks {
    offsets: Vec<u32>,
    offsets_on_device: DeviceVec<u32>,
    spans: DeviceVec<u32>,
    slices: DeviceVec<u32>,
    /// Of the inverses.
    elements: usize,
    /// Rows.
    largest: u32,
}

impl<T: Scalar> BlockJacobi<T> {
    /// Inverts blocks of so many rows, 1 to 32; the last block has what is left. Duplicate entries are summed. `O(nnz + n size^2)` work; waits for the result.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) for another size, and while a graph is recorded; [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square;
    /// [`Breakdown`](Error::Breakdown), naming the first such row and its block, if a pivot is zero, not finite, or no more than rounding errors of its column:
    /// such a block is singular, or nearly so; [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more; [`OutOfMemory`](Error::OutOfMemory) and
    /// [`Driver`](Error::Driver).
    pub fn new(a: &DeviceMatrix<T>, size: u32) -> Result<Self> {
        Self::of(a, size, |matrix| {
            let rows = matrix.nrows() as u32;
            Ok((0..rows).step_by(size as usize).chain([rows]).collect())
        })
    }

    /// Inverts blocks of at most so many rows, 1 to 32, found from the pattern: consecutive rows with the same columns form a block, or several if they are too many, and
    /// consecutive blocks that fit into one are merged (supervariable blocking: Chow & Scott, 2014). The comparison of rows takes `O(nnz)` work on the device; otherwise
    /// as [`new`](Self::new).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_pattern(a: &DeviceMatrix<T>, max_size: u32) -> Result<Self> {
        Self::of(a, max_size, |matrix| Ok(merged(&supervariables(matrix)?, max_size)))
    }

    fn of(a: &DeviceMatrix<T>, size: u32, offsets: impl FnOnce(&Operand<T>) -> Result<Vec<u32>>) -> Result<Self> {
        device::refuse("the setup of block-Jacobi")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        if !(1..=MAX_BLOCK).contains(&size) {
            let problem = format!("blocks of {size} rows for block-Jacobi: they have 1 to {MAX_BLOCK}");
            return Err(Error::InvalidOption(problem));
        }
        let matrix = a.operand()?.canonical()?;
        let blocks = Blocks::new(a.device(), offsets(&matrix)?)?;
        let inverses = blocks.invert(&matrix)?;
        Ok(Self { blocks, inverses })
    }

    /// Inverts the same blocks of a matrix with new values. After an error the inverses are as they were.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix of another size; [`DeviceMismatch`](Error::DeviceMismatch); otherwise as [`new`](Self::new).
    pub fn update_values(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        device::refuse("the setup of block-Jacobi")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        check_length("the diagonal of A", self.blocks.spans.len(), a.nrows())?;
        self.inverses.device().check_same("the matrix", a.device())?;
        self.inverses = self.blocks.invert(&a.operand()?.canonical()?)?;
        Ok(())
    }

    /// Returns the first row of each block, and finally the number of rows.
    #[must_use]
    pub fn block_offsets(&self) -> &[u32] {
        &self.blocks.offsets
    }
}

impl<T: Scalar> Preconditioner<T> for BlockJacobi<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        let Blocks { spans, slices, .. } = &self.blocks;
        check_length("r", spans.len(), r.len())?;
        check_length("z", spans.len(), z.len())?;
        z.device().check_same("r", r.device())?;
        z.device().check_same("the preconditioner", self.inverses.device())?;
        if let Backend::Cpu { .. } = z.device().backend() {
            cpu::apply(
                spans.as_slice().on_cpu(),
                slices.as_slice().on_cpu(),
                &self.inverses,
                r.on_cpu(),
                z.on_cpu_mut(),
            );
        } else if !spans.is_empty() {
            let rows = spans.len() as u32;
            let (queue, z) = z.into_writable();
            let (spans, slices) = (spans.readable(), slices.readable());
            let args = ApplyArgs { rows, spans, slices, inverses: self.inverses.readable(), r: r.readable(), z };
            let entry = Key { operation: Operation::Apply, dtype: T::DTYPE }.entry();
            // SAFETY: spans and slices of blocks within the rows, as many elements as they name, and vectors of so many rows, of which the written one is borrowed
            // mutably; the entry is for `T`.
            unsafe { launch(queue, entry, grid_size(rows, 1), args) }?;
        }
        Ok(())
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.inverses.device())
    }
}

impl Blocks {
    /// Blocks of rows from each offset to the next one.
    fn new(device: &Device, offsets: Vec<u32>) -> Result<Self> {
        let (mut spans, mut largest) = (Vec::new(), 1);
        for block in offsets.windows(2) {
            let size = block[1] - block[0];
            spans.extend((0..size).map(|place| place << 16 | size));
            largest = largest.max(size);
        }
        let (mut slices, mut columns) = (Vec::new(), 0);
        for slice in spans.chunks(SLICE as usize) {
            slices.push(columns);
            columns += slice.iter().map(|span| span & 0xffff).max().expect("a row at least");
        }
        slices.push(columns);
        Ok(Self {
            offsets_on_device: device.upload_vec(&offsets)?,
            spans: device.upload_vec(&spans)?,
            slices: device.upload_vec(&slices)?,
            elements: columns as usize * SLICE as usize,
            largest,
            offsets,
        })
    }

    /// The inverses of the blocks of a canonical matrix.
    fn invert<T: Scalar>(&self, matrix: &Operand<T>) -> Result<DeviceVec<T>> {
        let mut inverses = self.spans.device().zeros(self.elements)?;
        let bad_row = match matrix {
            Operand::Host(matrix) => {
                let (spans, slices) = (self.spans.as_slice().on_cpu(), self.slices.as_slice().on_cpu());
                cpu::invert(matrix, spans, slices, inverses.as_slice_mut().on_cpu_mut())
            }
            Operand::Device(arrays) => self.invert_on_device(arrays, &mut inverses)?,
        };
        let Some(row) = bad_row else { return Ok(inverses) };
        let block = self.offsets.partition_point(|&first| first <= row) - 1;
        let (first, last) = (self.offsets[block], self.offsets[block + 1] - 1);
        let problem = format!(
            "block-Jacobi, block {block} (rows {first} to {last}), row {row}: the pivot is zero, not finite, or no more than a rounding error"
        );
        Err(Error::Breakdown { iteration: 0, problem })
    }

    /// Returns the first row with a bad pivot.
    fn invert_on_device<T: Scalar>(
        &self,
        matrix: &CsrArrays<T, u32>,
        inverses: &mut DeviceVec<T>,
    ) -> Result<Option<u32>> {
        let device = &matrix.device;
        let blocks = self.offsets.len() as u32 - 1;
        let mut bad_row = device.upload_vec(&[u32::MAX])?;
        if blocks > 0 {
            let lanes = lanes_for(self.largest);
            let values = matrix.values.read();
            let args = InvertArgs {
                blocks,
                least: T::from_f64(precision::<T>()),
                block_offsets: self.offsets_on_device.readable(),
                row_offsets: matrix.row_offsets.readable(device),
                col_indices: matrix.col_indices.readable(device),
                values: values.readable(),
                slices: self.slices.readable(),
                inverses: inverses.writable(),
                bad_row: bad_row.writable(),
            };
            let entry = Key { operation: Operation::Invert { lanes }, dtype: T::DTYPE }.entry();
            // SAFETY: a square, canonical matrix, whose rows the blocks divide, each of at most so many rows as there are lanes; new elements, as many as the slices name,
            // and a word; the entry is for `T`.
            unsafe { launch(device, entry, grid_size(blocks, lanes), args) }?;
        }
        let bad_row = bad_row.to_vec()?[0];
        Ok((bad_row != u32::MAX).then_some(bad_row))
    }
}

/// The numbers of consecutive rows that have the same columns, in a canonical matrix.
fn supervariables<T: Scalar>(matrix: &Operand<T>) -> Result<Vec<u32>> {
    let is_same = match matrix {
        Operand::Host(matrix) => same_as_before(matrix),
        Operand::Device(arrays) => {
            let (device, rows) = (&arrays.device, arrays.nrows);
            let mut is_same = device.zeros(rows as usize)?;
            if rows > 0 {
                let (row_offsets, col_indices) =
                    (arrays.row_offsets.readable(device), arrays.col_indices.readable(device));
                let args = CompareArgs { rows, row_offsets, col_indices, is_same: is_same.writable() };
                let entry = Key { operation: Operation::Compare, dtype: DType::F32 }.entry();
                // SAFETY: a canonical matrix, and a new word for each row.
                unsafe { launch(device, entry, grid_size(rows, 1), args) }?;
            }
            is_same.to_vec()?
        }
    };
    let mut counts: Vec<u32> = Vec::new();
    for is_same in is_same {
        match counts.last_mut() {
            Some(count) if is_same != 0 => *count += 1,
            _ => counts.push(1),
        }
    }
    Ok(counts)
}

/// 1 for each row with the columns of the row before, otherwise 0.
fn same_as_before<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<u32> {
    let columns = |row: usize| matrix.row(row).0;
    (0..matrix.nrows()).map(|row| u32::from(row > 0 && columns(row) == columns(row - 1))).collect()
}

/// The offsets of blocks of at most `most` rows: of whole supervariables, but for those that are larger.
fn merged(supervariables: &[u32], most: u32) -> Vec<u32> {
    let (mut offsets, mut end) = (vec![0], 0);
    for &count in supervariables {
        let first = *offsets.last().expect("the first offset");
        if end + count - first > most && end > first {
            offsets.push(end);
        }
        end += count;
        while end - offsets.last().expect("the first offset") > most {
            offsets.push(offsets.last().expect("the first offset") + most);
        }
    }
    if end > 0 {
        offsets.push(end);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervariables_are_merged_whole() {
        assert_eq!(merged(&[], 4), [0]);
        assert_eq!(merged(&[1], 4), [0, 1]);
        assert_eq!(merged(&[3, 3, 3], 8), [0, 6, 9]);
        assert_eq!(merged(&[3, 3, 3], 3), [0, 3, 6, 9]);
        assert_eq!(merged(&[3, 3, 3], 2), [0, 2, 3, 5, 6, 8, 9]);
        assert_eq!(merged(&[1, 2, 1, 5, 9, 1], 4), [0, 4, 8, 9, 13, 17, 19]);
    }
}
