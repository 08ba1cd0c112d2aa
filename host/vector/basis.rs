//! Products of a vector with all vectors of a basis.

use kernels_gpu::vector_basis::{
    CombineArgs, DotsArgs, GROUP, Key, Product, combine_grid_size, dots_grid_size, groups,
};

use super::{Reduction, cpu, gpu::SumWorkspace, on_cpu};
use crate::{
    Device, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar,
    device::{Found, check_length, launch},
};

/// Vectors of one length, the columns of a matrix `V`, each aligned to 16 bytes.
pub(crate) struct Basis<T> {
    vectors: DeviceVec<T>,
    len: usize,
    stride: usize,
    count: usize,
}

impl<T: Scalar> Basis<T> {
    /// Creates `count` vectors of zeros.
    pub(crate) fn zeros(device: &Device, len: usize, count: usize) -> Result<Self> {
        let stride = len.next_multiple_of(16 / size_of::<T>());
        Ok(Self { vectors: device.zeros(count.saturating_mul(stride))?, len, stride, count })
    }

    pub(crate) fn vector(&self, i: usize) -> Result<DeviceSlice<'_, T>> {
        self.vectors.slice(i * self.stride..i * self.stride + self.len)
    }

    pub(crate) fn vector_mut(&mut self, i: usize) -> Result<DeviceSliceMut<'_, T>> {
        self.vectors.slice_mut(i * self.stride..i * self.stride + self.len)
    }

    /// Computes `h = V^T w` with the first vectors, as many as `h` has elements, and adds `h` to `total`. One launch, which
    /// reads `V` once.
    pub(crate) fn dots_into(
        &self,
        w: &DeviceVec<T>,
        mut h: DeviceSliceMut<'_, T>,
        mut total: Option<DeviceSliceMut<'_, T>>,
    ) -> Result<()> {
        let count = self.check(w, h.as_slice())?;
        total.as_ref().map_or(Ok(()), |total| check_length("total", h.len(), total.len()))?;
        if count == 0 {
            return Ok(());
        }
        if on_cpu(w.device()) {
            for i in 0..h.len() {
                let dot = T::from_f64(cpu::dot_of(self.vector(i)?, w.as_slice()));
                h.as_slice_mut().on_cpu_mut()[i] = dot;
                if let Some(total) = &mut total {
                    let total = &mut total.as_slice_mut().on_cpu_mut()[i];
                    *total += dot;
                }
            }
            return Ok(());
        }
        let n = self.len as u64;
        let entry = Key { product: Product::Dots, dtype: T::DTYPE }.entry();
        let blocks = dots_grid_size::<T>(n, count);
        let (queue, h) = h.into_writable();
        let mut partials = queue.workspace(Found::Anything, blocks as usize * GROUP as usize)?;
        let mut arrivals = queue.workspace(Found::Zeros, groups(count) as usize)?;
        let args = DotsArgs {
            n,
            count,
            stride: self.stride as u64,
            v: self.vectors.readable(),
            w: w.readable(),
            h,
            total: total.map(|total| total.into_writable().1).unwrap_or_default(),
            partials: partials.writable(),
            arrivals: arrivals.writable(),
        };
        // SAFETY: there are `count` vectors of n elements, and as many numbers; what is written is borrowed mutably.
        unsafe { launch(queue, entry, grid(blocks)?, args) }
    }

    /// Computes `w = w + alpha V h` with the first vectors, as many as `h` has elements, and the 2-norm of the new `w`, also into
    /// the first element of `log`. One launch, which reads `V` once.
    pub(crate) fn combine(
        &self,
        alpha: T,
        h: DeviceSlice<'_, T>,
        w: &mut DeviceVec<T>,
        norm: &mut DeviceScalar<T>,
        log: Option<DeviceSliceMut<'_, T>>,
    ) -> Result<()> {
        let count = self.check(w, h)?;
        if on_cpu(w.device()) || count == 0 {
            let vectors = (0..h.len()).map(|i| self.vector(i)).collect::<Result<Vec<_>>>()?;
            if count > 0 {
                cpu::combine_vectors(w.as_slice_mut(), alpha, &vectors, h);
            }
            w.reduce_into(Reduction::Norm2, norm)?;
            return log.map_or(Ok(()), |mut log| log.slice_mut(..1)?.fill(&*norm));
        }
        let n = self.len as u64;
        let entry = Key { product: Product::Combine, dtype: T::DTYPE }.entry();
        let (queue, w) = w.as_slice_mut().into_writable();
        let mut workspace = SumWorkspace::of(queue)?;
        let args = CombineArgs {
            n,
            count,
            stride: self.stride as u64,
            v: self.vectors.readable(),
            h: h.readable(),
            alpha,
            w,
            norm: norm.vector_mut().writable(),
            log: log.map(|log| log.into_writable().1).unwrap_or_default(),
            workspace: workspace.writable(),
        };
        // SAFETY: there are `count` vectors of n elements, and as many numbers; what is written is borrowed mutably.
        unsafe { launch(queue, entry, grid(combine_grid_size::<T>(n))?, args) }
    }

    /// How many vectors take part.
    fn check(&self, w: &DeviceVec<T>, h: DeviceSlice<'_, T>) -> Result<u32> {
        check_length("w", self.len, w.len())?;
        w.device().check_same("the basis", self.vectors.device())?;
        w.device().check_same("h", h.device())?;
        match u32::try_from(h.len()) {
            Ok(count) if h.len() <= self.count => Ok(count),
            _ => Err(Error::LengthMismatch { what: "h", expected: self.count, found: h.len() }),
        }
    }
}

fn grid(blocks: u64) -> Result<u32> {
    u32::try_from(blocks).map_err(|_| Error::Unsupported("a basis of so many vectors".into()))
}
