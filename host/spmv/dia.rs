//! DIA matrices on a device: the kernel family `spmv_dia`.

use kernels_gpu::spmv_dia::{Args, MAX_DIAGONALS, Shape};

use super::{Chosen, Product, Spmv, cpu::OnCpu};
use crate::{
    Device, DiaMatrix, Error, KernelChoice, Result, Scalar,
    device::{Backend, Buffer, KernelLaunch},
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmv_dia";

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
    let kernel = operator.shape().variant.entry.into();
    Ok(Chosen::new(operator, KernelChoice { kernel, reason }))
}

/// The bytes that a product must move at least: every slot of the rows once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, diagonals: usize) -> usize {
    diagonals * (8 + nrows * size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> GpuDia<T> {
    fn shape(&self) -> Shape {
        Shape::new(T::DTYPE, self.offsets.len() as u32)
    }
}

impl<T: Scalar> Spmv<T> for GpuDia<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let shape = self.shape();
        let blocks = shape.grid_size(self.nrows);
        if blocks == 0 {
            return Ok(());
        }
        let variant = shape.variant;
        let (queue, y, first) = y.into_parts();
        let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, blocks);
        let args = Args {
            rows: self.nrows,
            cols: self.ncols,
            diagonals: self.offsets.len() as u32,
            alpha,
            beta,
            leading_dimension: self.leading_dimension,
            offsets: launch.read("offsets", self.offsets.array(), &self.device),
            values: launch.read("values", self.values.array(), &self.device),
            x: launch.read_slice("x", x),
            y: launch.write("y", y, queue).wrapping_add(first),
        };
        // SAFETY: the arrays are a valid DIA matrix, aligned as allocations are, and vectors of fitting lengths; `y` is
        // aligned as `needs_alignment` asks, and borrowed mutably, so it overlaps none of the others.
        unsafe { launch.run_variant(variant, &args) }
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
