//! COO matrices on a device: the kernel family `spmv_coo`.

use std::sync::{Arc, Mutex};

use kernels_gpu::{
    csr_to_coo,
    spmv_coo::{Args, CarryArgs, ENTRIES_PER_STEP, Key, Pass, grid_size},
};

use super::{Chosen, Product, Spmv, Uploaded, cpu::OnCpu, scale::scale};
use crate::{
    CooMatrix, Device, HostMatrix, KernelChoice, Result, Scalar,
    device::{self, Backend, Buffer, launch},
    stored::{CooArrays, Stored},
};

/// A COO matrix on a GPU or in the emulator, sorted by row.
#[derive(Debug)]
struct GpuCoo<T> {
    arrays: Arc<CooArrays<T>>,
    per_warp: u32,
    run_rows: Buffer<u32>,
    run_starts: Buffer<u32>,
    /// Results of a product's first launch for its second. Products are ordered on any stream, because each launch joins
    /// the matrix's own stream: the lock is held until both launches have been queued and have joined.
    carries: Arc<Mutex<Buffer<T>>>,
}

/// Returns the entries per warp: few enough that the warps fill a large GPU once, but enough that their slots cost less
/// than their entries.
fn entries_per_warp(nnz: usize) -> u32 {
    /// Twice the number of concurrent warps of a large GPU.
    const WARPS: usize = 1 << 14;
    (nnz.div_ceil(WARPS) as u32).next_multiple_of(ENTRIES_PER_STEP).max(ENTRIES_PER_STEP)
}

/// Sorts by row where that is needed.
pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &CooMatrix<T>) -> Result<Uploaded<T>> {
    let sorted = matrix.is_row_sorted();
    let reason = reason(sorted);
    let matrix = if sorted { matrix.clone() } else { matrix.sorted_by_row()? };
    if let Backend::Cpu { .. } = device.backend() {
        let choice = KernelChoice { kernel: "cpu_coo".into(), reason };
        return Ok((Chosen::new(OnCpu(matrix.clone()), choice), Stored::Host(HostMatrix::Coo(matrix))));
    }
    let ends = ends(matrix.row_indices(), entries_per_warp(matrix.nnz()) as usize);
    let (operator, stored) = with_ends(CooArrays::upload(device, &matrix)?, &ends)?;
    Ok((Chosen::new(operator, KernelChoice { kernel: kernel::<T>(), reason }), stored))
}

/// For a matrix on a GPU or in the emulator. Waits for the rows at the ends of the warps' entries.
pub(crate) fn of_arrays<T: Scalar>(arrays: CooArrays<T>) -> Result<Uploaded<T>> {
    let (entries, per_warp) = (arrays.entries, entries_per_warp(arrays.entries as usize));
    let shares = entries.div_ceil(per_warp);
    let mut ends = arrays.device.scratch(2 * shares as usize)?;
    if entries > 0 {
        let row_indices = arrays.row_indices.readable(&arrays.device);
        let args = csr_to_coo::EndsArgs { entries, per_warp, row_indices, ends: ends.writable() };
        let entry = csr_to_coo::Key { operation: csr_to_coo::Operation::Ends }.entry();
        // SAFETY: a valid matrix, and two new elements for each share, which is not empty.
        unsafe { launch(&arrays.device, entry, csr_to_coo::ends_grid_size(shares), args) }?;
    }
    let ends = ends.to_vec()?;
    let (operator, stored) = with_ends(arrays, &ends)?;
    Ok((Chosen::new(operator, KernelChoice { kernel: kernel::<T>(), reason: reason(true) }), stored))
}

fn reason(sorted: bool) -> String {
    format!("the format's only kernel; entries {} by row", if sorted { "came sorted" } else { "sorted" })
}

fn kernel<T: Scalar>() -> String {
    Key { pass: Pass::Segments, dtype: T::DTYPE }.entry().name.into()
}

fn with_ends<T: Scalar>(arrays: CooArrays<T>, ends: &[u32]) -> Result<(GpuCoo<T>, Stored<T>)> {
    let per_warp = entries_per_warp(arrays.entries as usize);
    let (run_rows, run_starts) = runs(ends);
    let arrays = Arc::new(arrays);
    let device = &arrays.device;
    let operator = GpuCoo {
        arrays: Arc::clone(&arrays),
        per_warp,
        run_rows: Buffer::upload(device, &run_rows)?,
        run_starts: Buffer::upload(device, &run_starts)?,
        carries: Arc::new(Mutex::new(Buffer::zeros(device, ends.len())?)),
    };
    Ok((operator, Stored::Device(Box::new(arrays))))
}

/// Returns the minimum bytes of a product: every entry once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>((nrows, ncols, nnz): (usize, usize, usize)) -> usize {
    nnz * (8 + size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

/// The rows of the first and the last entry of each warp.
fn ends(row_indices: &[u32], per_warp: usize) -> Vec<u32> {
    row_indices.chunks(per_warp).flat_map(|entries| [entries[0], entries[entries.len() - 1]]).collect()
}

/// Each warp has two slots, for the rows of its [`ends`]. Returns, for the runs of equal rows among them, the rows and the starts, and
/// finally the number of slots.
fn runs(ends: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut rows, mut starts) = (Vec::new(), Vec::new());
    for (slot, &row) in ends.iter().enumerate() {
        if rows.last() != Some(&row) {
            rows.push(row);
            starts.push(slot as u32);
        }
    }
    starts.push(ends.len() as u32);
    (rows, starts)
}

impl<T: Scalar> Spmv<T> for GpuCoo<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, mut y } = product;
        scale(beta, y.as_slice_mut())?;
        if self.arrays.entries == 0 {
            return Ok(());
        }
        let carries = &mut *device::lock(&self.carries);
        self.add_segments(Product { alpha, x, beta, y: y.as_slice_mut() }, carries)?;
        self.add_carries(Product { alpha, x, beta, y }, carries)
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}

impl<T: Scalar> GpuCoo<T> {
    fn add_segments(&self, product: Product<'_, T>, carries: &mut Buffer<T>) -> Result<()> {
        let Product { alpha, x, y, .. } = product;
        let entry = Key { pass: Pass::Segments, dtype: T::DTYPE }.entry();
        let arrays = &*self.arrays;
        let values = arrays.values.read();
        let (queue, y) = y.into_writable();
        let blocks = grid_size(arrays.entries.div_ceil(self.per_warp));
        let args = Args {
            entries: arrays.entries,
            per_warp: self.per_warp,
            alpha,
            row_indices: arrays.row_indices.readable(&arrays.device),
            col_indices: arrays.col_indices.readable(&arrays.device),
            values: values.readable(),
            x: x.readable(),
            y,
            carries: carries.writable(&self.arrays.device),
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
            run_rows: self.run_rows.readable(&self.arrays.device),
            run_starts: self.run_starts.readable(&self.arrays.device),
            carries: carries.readable(&self.arrays.device),
            y,
        };
        // SAFETY: the runs are those of the slots, which the launch before has filled on the same stream; the rows are
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
        assert_eq!(runs(&ends(&rows, 4)), (vec![0, 2, 5, 7], vec![0, 1, 5, 6, 8]));
        assert_eq!(runs(&ends(&[], 4)), (vec![], vec![0]));
    }
}
