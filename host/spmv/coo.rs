//! COO matrices on a device: the kernel family `spmv_coo`.

use std::sync::{Arc, Mutex};

use kernels_gpu::spmv_coo::{Args, CarryArgs, ENTRIES_PER_STEP, Key, Pass, grid_size};

use super::{Chosen, Product, Spmv, cpu::OnCpu, scale::scale};
use crate::{
    CooMatrix, Device, KernelChoice, Result, Scalar,
    device::{self, Backend, Buffer, launch},
    formats::add_diagonal_of,
};

/// A COO matrix on a GPU or in the emulator, sorted by row.
#[derive(Debug)]
struct GpuCoo<T> {
    device: Device,
    entries: u32,
    per_warp: u32,
    row_indices: Buffer<u32>,
    col_indices: Buffer<u32>,
    values: Buffer<T>,
    run_rows: Buffer<u32>,
    run_starts: Buffer<u32>,
    /// Results of a product's first launch for its second. Products are ordered on any queue, because each launch joins
    /// the matrix's own queue: the lock is held until both launches have been queued and have joined.
    carries: Arc<Mutex<Buffer<T>>>,
}

/// Returns the entries per warp: few enough that the warps fill a large GPU once, but enough that their slots cost less
/// than their entries.
fn entries_per_warp(nnz: usize) -> u32 {
    /// Twice the number of concurrent warps of a large GPU.
    const WARPS: usize = 1 << 14;
    (nnz.div_ceil(WARPS) as u32).next_multiple_of(ENTRIES_PER_STEP).max(ENTRIES_PER_STEP)
}

/// Uploads a matrix, sorted by row if necessary.
pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &CooMatrix<T>) -> Result<Chosen<T>> {
    let sorted = matrix.is_row_sorted();
    let reason = format!("the format's only kernel; entries {} by row", if sorted { "came sorted" } else { "sorted" });
    let matrix = if sorted { matrix.clone() } else { matrix.sorted_by_row()? };
    if let Backend::Cpu { .. } = device.backend() {
        return Ok(Chosen::new(OnCpu(matrix), KernelChoice { kernel: "cpu_coo".into(), reason }));
    }
    let per_warp = entries_per_warp(matrix.nnz());
    let (run_rows, run_starts) = runs(matrix.row_indices(), per_warp as usize);
    let slots = 2 * matrix.nnz().div_ceil(per_warp as usize);
    let (row_indices, col_indices, values) = matrix.arrays();
    let operator = GpuCoo {
        device: device.clone(),
        entries: matrix.nnz() as u32,
        per_warp,
        row_indices: Buffer::share(device, row_indices)?,
        col_indices: Buffer::share(device, col_indices)?,
        values: Buffer::share(device, values)?,
        run_rows: Buffer::upload(device, &run_rows)?,
        run_starts: Buffer::upload(device, &run_starts)?,
        carries: Arc::new(Mutex::new(Buffer::zeros(device, slots)?)),
    };
    let kernel = Key { pass: Pass::Segments, dtype: T::DTYPE }.entry().name.into();
    Ok(Chosen::new(operator, KernelChoice { kernel, reason }))
}

/// Returns the minimum bytes of a product: every entry once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(matrix: &CooMatrix<T>) -> usize {
    matrix.nnz() * (8 + size_of::<T>()) + (matrix.nrows() + matrix.ncols()) * size_of::<T>()
}

/// Each warp has two slots, for the rows of its first and last entry. Returns, for the runs of equal rows among them,
/// the rows and the starts, and finally the number of slots.
fn runs(row_indices: &[u32], per_warp: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut rows, mut starts) = (Vec::new(), Vec::new());
    let mut slots = 0;
    for entries in row_indices.chunks(per_warp) {
        for row in [entries[0], entries[entries.len() - 1]] {
            if rows.last() != Some(&row) {
                rows.push(row);
                starts.push(slots);
            }
            slots += 1;
        }
    }
    starts.push(slots);
    (rows, starts)
}

impl<T: Scalar> Spmv<T> for GpuCoo<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, mut y } = product;
        scale(beta, y.as_slice_mut())?;
        if self.entries == 0 {
            return Ok(());
        }
        let carries = &mut *device::lock(&self.carries);
        self.add_segments(Product { alpha, x, beta, y: y.as_slice_mut() }, carries)?;
        self.add_carries(Product { alpha, x, beta, y }, carries)
    }

    fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        let (rows, columns) = (self.row_indices.to_vec(&self.device)?, self.col_indices.to_vec(&self.device)?);
        let values = self.values.to_vec(&self.device)?;
        let entries = rows.iter().zip(&columns).zip(&values);
        add_diagonal_of(entries.map(|((&row, &column), &value)| (row as usize, column as usize, value)), diagonal);
        Ok(())
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}

impl<T: Scalar> GpuCoo<T> {
    fn add_segments(&self, product: Product<'_, T>, carries: &mut Buffer<T>) -> Result<()> {
        let Product { alpha, x, y, .. } = product;
        let entry = Key { pass: Pass::Segments, dtype: T::DTYPE }.entry();
        let (queue, y) = y.into_writable();
        let blocks = grid_size(self.entries.div_ceil(self.per_warp));
        let args = Args {
            entries: self.entries,
            per_warp: self.per_warp,
            alpha,
            row_indices: self.row_indices.readable(&self.device),
            col_indices: self.col_indices.readable(&self.device),
            values: self.values.readable(&self.device),
            x: x.readable(),
            y,
            carries: carries.writable(&self.device),
        };
        // SAFETY: the arrays are a valid COO matrix, sorted by row, and vectors of fitting lengths;
        // `y` and `carries` are borrowed mutably, so they overlap none of the others. A share of a warp is a multiple
        // of a step, and there are two slots a warp.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn add_carries(&self, product: Product<'_, T>, carries: &Buffer<T>) -> Result<()> {
        let Product { alpha, y, .. } = product;
        let entry = Key { pass: Pass::Carries, dtype: T::DTYPE }.entry();
        let runs = self.run_rows.len() as u32;
        let (queue, y) = y.into_writable();
        let blocks = grid_size(runs);
        let args = CarryArgs {
            runs,
            alpha,
            run_rows: self.run_rows.readable(&self.device),
            run_starts: self.run_starts.readable(&self.device),
            carries: carries.readable(&self.device),
            y,
        };
        // SAFETY: the runs are those of the slots, which the launch before has filled on the same queue; the rows are
        // those of the matrix, and `y`, as long as it has rows, is borrowed mutably.
        unsafe { launch(queue, entry, blocks, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_equal_rows_make_a_run() {
        // Warps of 4 entries: rows 0 and 2, 2 and 2, 2 and 5, 7 and 7.
        let rows = [0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 5, 5, 7];
        assert_eq!(runs(&rows, 4), (vec![0, 2, 5, 7], vec![0, 1, 5, 6, 8]));
        assert_eq!(runs(&[], 4), (vec![], vec![0]));
    }
}
