//! Vectors that are made orthogonal to each other, and their linear combinations.

use kernels_gpu::vector_basis::{
    CombineArgs, DotsArgs, ExtendArgs, GROUP, Key, Step, combine_grid_size, dots_grid_size, groups,
};

use super::{cpu, gpu::SumWorkspace, on_cpu};
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

    /// Computes the dot products of the first `count` vectors with the last of them, and then those with `u`. One launch, which reads the vectors once.
    pub(crate) fn dots(&self, count: usize, u: &DeviceVec<T>, mut sums: DeviceSliceMut<'_, f64>) -> Result<()> {
        let vectors = self.check(count, u)?;
        check_length("sums", 2 * count, sums.len())?;
        if on_cpu(u.device()) {
            let w = self.vector(count - 1)?;
            for i in 0..count {
                for (which, other) in [w, u.into()].into_iter().enumerate() {
                    sums.as_slice_mut().on_cpu_mut()[which * count + i] = cpu::dot_of(self.vector(i)?, other);
                }
            }
            return Ok(());
        }
        let n = self.len as u64;
        let entry = Key { step: Step::Dots, dtype: T::DTYPE }.entry();
        let blocks = dots_grid_size::<T>(n, vectors);
        let (queue, sums) = sums.into_writable();
        let mut partials = queue.workspace(Found::Anything, 2 * blocks as usize * GROUP as usize)?;
        let mut arrivals = queue.workspace(Found::Zeros, groups(vectors) as usize)?;
        let args = DotsArgs {
            n,
            count: vectors,
            stride: self.stride as u64,
            v: self.vectors.slice(..(count - 1) * self.stride + self.len)?.readable(),
            u: u.readable(),
            sums,
            partials: partials.writable(),
            arrivals: arrivals.writable(),
        };
        // SAFETY: there are `count` vectors of n elements, and two numbers for each; what is written is borrowed mutably.
        unsafe { launch(queue, entry, grid(blocks)?, args) }
    }

    /// Makes vector `count - 1` orthogonal to those before it, for the second time, and computes vector `count`: what is orthogonal to all before it of `u`, divided by
    /// `scale`. `sums` begins with those of [`dots`](Self::dots), and then gets the divisor and the new vector's norm. One launch, which reads the vectors once.
    pub(crate) fn extend(
        &mut self,
        count: usize,
        u: &DeviceVec<T>,
        mut sums: DeviceSliceMut<'_, f64>,
        scale: &mut DeviceScalar<T>,
    ) -> Result<()> {
        let vectors = self.check(count + 1, u)? - 1;
        check_length("sums", 2 * count + 2, sums.len())?;
        if on_cpu(u.device()) {
            self.extend_on_cpu(count, u, sums.as_slice_mut().on_cpu_mut(), scale);
            return Ok(());
        }
        let n = self.len as u64;
        let entry = Key { step: Step::Extend, dtype: T::DTYPE }.entry();
        let (queue, v) = self.vectors.slice_mut(..count * self.stride + self.len)?.into_writable();
        let mut workspace = SumWorkspace::of(queue)?;
        let args = ExtendArgs {
            n,
            count: vectors,
            stride: self.stride as u64,
            v,
            u: u.readable(),
            sums: sums.into_writable().1,
            scale: scale.vector_mut().writable(),
            workspace: workspace.writable(),
        };
        // SAFETY: there are `count + 1` vectors of n elements, and two numbers for each but the last; what is written is borrowed mutably.
        unsafe { launch(queue, entry, grid(combine_grid_size::<T>(n))?, args) }
    }

    fn extend_on_cpu(&mut self, count: usize, u: &DeviceVec<T>, sums: &mut [f64], scale: &mut DeviceScalar<T>) {
        let (len, stride, before) = (self.len, self.stride, count - 1);
        let (sums, log) = sums.split_at_mut(2 * count);
        let (s, t) = sums.split_at(count);
        let ss: f64 = s[..before].iter().map(|s| s * s).sum();
        let st: f64 = s[..before].iter().zip(t).map(|(s, t)| s * t).sum();
        let (norm_of_w, alpha) = (s[before].sqrt(), (s[before] - ss).sqrt());
        let c = (t[before] - st) / alpha;
        let scale = &mut scale.vector_mut().as_slice_mut().on_cpu_mut()[0];
        let divisor = if *scale == T::default() { 1.0 } else { scale.to_f64() };

        let (orthonormal, rest) = self.vectors.as_slice_mut().on_cpu_mut().split_at_mut(before * stride);
        let (w, next) = rest.split_at_mut(stride);
        let (w, next) = (&mut w[..len], &mut next[..len]);
        let mut vectors: Vec<&[T]> = (0..before).map(|i| &orthonormal[i * stride..][..len]).collect();
        let minus = |numbers: &[f64]| numbers[..before].iter().map(|number| -number).collect::<Vec<_>>();
        cpu::combine_vectors(w, &vectors, &minus(s), 1.0 / alpha);
        vectors.push(w);
        next.copy_from_slice(u.as_slice().on_cpu());
        cpu::combine_vectors(next, &vectors, &[minus(t), vec![-c]].concat(), 1.0 / divisor);
        let norm = cpu::norm2(next);
        log.copy_from_slice(&[divisor, norm]);
        *scale = T::from_f64(divisor * norm / norm_of_w);
    }

    /// Computes `w = w + V h` with the first vectors, as many as `h` has elements. One launch, which reads `V` once.
    pub(crate) fn combine(&self, h: &DeviceVec<T>, w: &mut DeviceVec<T>) -> Result<()> {
        w.device().check_same("h", h.device())?;
        let count = self.check(h.len(), w)?;
        if on_cpu(w.device()) {
            let vectors = (0..h.len()).map(|i| self.vector(i).map(DeviceSlice::on_cpu)).collect::<Result<Vec<_>>>()?;
            let h: Vec<f64> = h.as_slice().on_cpu().iter().map(|h| h.to_f64()).collect();
            cpu::combine_vectors(w.as_slice_mut().on_cpu_mut(), &vectors, &h, 1.0);
            return Ok(());
        }
        let n = self.len as u64;
        let entry = Key { step: Step::Combine, dtype: T::DTYPE }.entry();
        let (queue, w) = w.as_slice_mut().into_writable();
        let args = CombineArgs { n, count, stride: self.stride as u64, v: self.vectors.readable(), h: h.readable(), w };
        // SAFETY: there are `count` vectors of n elements, and as many numbers; what is written is borrowed mutably.
        unsafe { launch(queue, entry, grid(combine_grid_size::<T>(n))?, args) }
    }

    /// The first `count` vectors, of the length of `w`.
    fn check(&self, count: usize, w: &DeviceVec<T>) -> Result<u32> {
        check_length("w", self.len, w.len())?;
        w.device().check_same("the basis", self.vectors.device())?;
        match u32::try_from(count) {
            Ok(vectors) if (1..=self.count).contains(&count) => Ok(vectors),
            _ => Err(Error::LengthMismatch { what: "the basis", expected: self.count, found: count }),
        }
    }
}

fn grid(blocks: u64) -> Result<u32> {
    u32::try_from(blocks).map_err(|_| Error::Unsupported("a basis of so many vectors".into()))
}
