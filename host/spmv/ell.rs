//! ELL matrices on a device: the kernel family `spmv_ell`.

use kernels_gpu::spmv_ell::{Args, Key, PADDING, STEP, grid_size};

use super::{Chosen, Product, Spmv, cpu::OnCpu};
use crate::{
    Device, EllMatrix, Error, KernelChoice, Result, Scalar,
    device::{Backend, Buffer, launch},
    formats::add_diagonal_of,
};

const _: () = assert!(PADDING == EllMatrix::<f32>::PADDING);

/// An ELL matrix on a GPU or in the emulator.
#[derive(Debug)]
struct GpuEll<T> {
    device: Device,
    nrows: u32,
    width: u32,
    leading_dimension: u64,
    col_indices: Buffer<u32>,
    values: Buffer<T>,
}

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &EllMatrix<T>) -> Result<Chosen<T>> {
    let reason = format!("the format's only kernel; {} slots a row", matrix.width());
    if let Backend::Cpu { .. } = device.backend() {
        let choice = KernelChoice { kernel: "cpu_ell".into(), reason };
        return Ok(Chosen::new(OnCpu(matrix.clone()), choice));
    }
    // Without rows there may be any number of empty columns.
    let width = if matrix.nrows() == 0 { 0 } else { matrix.width() };
    // The kernel counts them in 32 bits, up to one step beyond the last.
    if width > (u32::MAX - STEP) as usize {
        return Err(Error::Unsupported(format!("{width} slots a row on a GPU")));
    }
    let (col_indices, values) = matrix.arrays();
    let operator = GpuEll {
        device: device.clone(),
        nrows: matrix.nrows() as u32,
        width: width as u32,
        leading_dimension: matrix.leading_dimension() as u64,
        col_indices: Buffer::share(device, col_indices)?,
        values: Buffer::share(device, values)?,
    };
    let kernel = Key { dtype: T::DTYPE }.entry().name.into();
    Ok(Chosen::new(operator, KernelChoice { kernel, reason }))
}

/// Returns the minimum bytes of a product: every slot of the rows once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, width: usize) -> usize {
    width * nrows * (4 + size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> Spmv<T> for GpuEll<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let blocks = grid_size(self.nrows, size_of::<T>());
        if blocks == 0 {
            return Ok(());
        }
        let entry = Key { dtype: T::DTYPE }.entry();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: self.nrows,
            width: self.width,
            alpha,
            beta,
            leading_dimension: self.leading_dimension,
            col_indices: self.col_indices.readable(&self.device),
            values: self.values.readable(&self.device),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid ELL matrix, aligned as allocations are, and vectors of fitting lengths; `y` is
        // aligned as `needs_alignment` asks, and borrowed mutably, so it overlaps none of the others.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        let (columns, values) = (self.col_indices.to_vec(&self.device)?, self.values.to_vec(&self.device)?);
        let slot_length = self.leading_dimension.max(1) as usize;
        let slots = columns.chunks(slot_length).zip(values.chunks(slot_length));
        for (columns, values) in slots {
            let entries = columns.iter().zip(values).enumerate();
            add_diagonal_of(entries.map(|(row, (&column, &value))| (row, column as usize, value)), diagonal);
        }
        Ok(())
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
