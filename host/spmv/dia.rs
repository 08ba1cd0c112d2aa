//! DIA matrices on a device: the kernel family `spmv_dia`.

use kernels_gpu::spmv_dia::{Args, Key, MAX_DIAGONALS};

use super::{Chosen, Product, Spmv, cpu::OnCpu};
use crate::{
    Device, DiaMatrix, Error, KernelChoice, Result, Scalar,
    device::{Backend, Buffer, launch},
};

/// A DIA matrix on a GPU or in the emulator.
#[derive(Debug)]
struct GpuDia<T> {
    device: Device,
    nrows: u32,
    ncols: u32,
    leading_dimension: u64,
    /// In two's complement.
    offsets: Buffer<u64>,
    values: Buffer<T>,
}

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &DiaMatrix<T>) -> Result<Chosen<T>> {
    let reason = format!("{} diagonals", matrix.offsets().len());
    if let Backend::Cpu { .. } = device.backend() {
        let choice = KernelChoice { kernel: "cpu_dia".into(), reason };
        return Ok(Chosen::new(OnCpu(matrix.clone()), choice));
    }
    let diagonals = matrix.offsets().len();
    if diagonals > MAX_DIAGONALS as usize {
        return Err(Error::Unsupported(format!("{diagonals} diagonals on a GPU")));
    }
    let (offsets, values) = matrix.arrays();
    let offsets: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
    let operator = GpuDia {
        device: device.clone(),
        nrows: matrix.nrows() as u32,
        ncols: matrix.ncols() as u32,
        leading_dimension: matrix.leading_dimension() as u64,
        offsets: Buffer::upload(device, &offsets)?,
        values: Buffer::share(device, values)?,
    };
    let kernel = operator.key().entry().name.into();
    Ok(Chosen::new(operator, KernelChoice { kernel, reason }))
}

/// Returns the minimum bytes of a product: every slot of the rows once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, diagonals: usize) -> usize {
    diagonals * (8 + nrows * size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> GpuDia<T> {
    fn key(&self) -> Key {
        Key::fastest(T::DTYPE, self.offsets.len() as u32)
    }
}

impl<T: Scalar> Spmv<T> for GpuDia<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let key = self.key();
        let blocks = key.grid_size(self.nrows);
        if blocks == 0 {
            return Ok(());
        }
        let entry = key.entry();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: self.nrows,
            cols: self.ncols,
            diagonals: self.offsets.len() as u32,
            alpha,
            beta,
            leading_dimension: self.leading_dimension,
            offsets: self.offsets.readable(&self.device),
            values: self.values.readable(&self.device),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid DIA matrix, aligned as allocations are, and vectors of fitting lengths; `y` is
        // aligned as `needs_alignment` asks, and borrowed mutably, so it overlaps none of the others.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        match self.offsets.to_vec(&self.device)?.iter().position(|&offset| offset == 0) {
            Some(main) => self.values.download(&self.device, main * self.leading_dimension as usize, diagonal),
            None => Ok(()),
        }
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
