//! The operations of an iteration, queued one by one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cudarc::driver::{CudaStream, result};
use ladders::{
    CgSteps,
    kernels::cg_ladder::{AlphaArgs, BetaArgs, DotArgs, JacobiArgs, dot_grid_size, jacobi_grid_size},
};
use measure::stream::driver;
use warpsparse::{Device, Kernel};

use super::{Number, READ_EVERY, vectors::Addresses};
use crate::baselines::{
    cublas::{self, Scalars},
    cusparse::Product,
};

/// Whose dot products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dots {
    Cublas,
    Own,
}

/// All that an iteration takes.
pub(super) struct Steps<'a, T> {
    queue: &'a Device,
    /// The same stream.
    stream: &'a Arc<CudaStream>,
    blas: &'a cublas::Handle,
    product: Product<'a, T>,
    kernels: &'a CgSteps<T>,
    at: Addresses<T>,
    dots: Dots,
}

impl<'a, T: Number> Steps<'a, T> {
    /// # Safety
    /// `stream` is `queue`, and the libraries' handles are on it. The addresses are those of [`Vectors`](super::Vectors), with
    /// the vectors of `product`; while this lives, the vectors are alive, and nobody else accesses them.
    pub(super) unsafe fn new(
        queue: &'a Device,
        stream: &'a Arc<CudaStream>,
        blas: &'a cublas::Handle,
        product: Product<'a, T>,
        kernels: &'a CgSteps<T>,
        at: Addresses<T>,
        dots: Dots,
    ) -> Self {
        Self { queue, stream, blas, product, kernels, at, dots }
    }

    /// The wall time of so many iterations, and of the start, until all of it is done. `iterate` queues so many of them.
    pub(super) fn time(
        &self,
        iterations: usize,
        mut iterate: impl FnMut(usize) -> Result<(), String>,
    ) -> Result<Duration, String> {
        self.wait()?;
        let start = Instant::now();
        self.start()?;
        for done in (0..iterations).step_by(READ_EVERY) {
            iterate(READ_EVERY.min(iterations - done))?;
            self.read_residual()?;
        }
        self.wait()?;
        Ok(start.elapsed())
    }

    /// The same with the scalars on the host.
    pub(super) fn time_with_host(&self, iterations: usize) -> Result<Duration, String> {
        self.wait()?;
        let start = Instant::now();
        self.start()?;
        let mut rz = self.read(self.at.rz)?;
        self.blas.expect_scalars(Scalars::OnHost)?;
        for _ in 0..iterations {
            rz = self.iterate_with_host(rz)?;
        }
        self.wait()?;
        Ok(start.elapsed())
    }

    /// Begins anew: `x = 0`, `r = b`, `z` and `p` the preconditioned residual, `rz = r . z`.
    pub(super) fn start(&self) -> Result<(), String> {
        let Addresses { b, x, r, z, p, rz, rz_old, n, .. } = self.at;
        self.blas.expect_scalars(Scalars::OnDevice)?;
        self.stream.context().bind_to_thread().map_err(driver("entering the context"))?;
        let bytes = n as usize * size_of::<T>();
        // SAFETY: the promise of `new`: vectors of n elements, used in the order of this stream.
        unsafe { result::memset_d8_async(x as u64, 0, bytes, self.stream.cu_stream()) }
            .map_err(driver("clearing the solution"))?;
        self.copy(b, r, n as usize)?;
        self.precondition()?;
        self.copy(z, p, n as usize)?;
        self.dot(r, z, rz)?;
        self.copy(rz, rz_old, 1)
    }

    /// Queues an iteration with the scalars on the device.
    pub(super) fn iterate(&self) -> Result<(), String> {
        let Addresses { n, x, r, z, p, q, rz, rz_old, pq, alpha, minus_alpha, beta, one, .. } = self.at;
        let (n, blas) = (n as i32, self.blas);
        self.product.multiply()?;
        self.dot(p, q, pq)?;
        // SAFETY: the promise of `new`: vectors of n elements and scalars, apart from each other, all on the device, as
        // `start` has told cuBLAS.
        unsafe {
            self.launch(&self.kernels.alpha, 1, AlphaArgs { rz, pq, alpha, minus_alpha })?;
            blas.axpy(n, alpha, p, x)?;
            blas.axpy(n, minus_alpha, q, r)?;
        }
        self.precondition()?;
        self.dot(r, z, rz)?;
        // SAFETY: as above.
        unsafe {
            self.launch(&self.kernels.beta, 1, BetaArgs { rz, rz_old, beta })?;
            blas.scal(n, beta, p)?;
            blas.axpy(n, one, z, p)
        }
    }

    /// An iteration with the scalars on the host, where cuBLAS has been told to expect them: from the old `r . z` to the
    /// new.
    fn iterate_with_host(&self, rz: T) -> Result<T, String> {
        let Addresses { n, x, r, z, p, q, .. } = self.at;
        let (n, blas) = (n as i32, self.blas);
        let dot = |a, b| {
            let mut product = T::from_f64(0.0);
            // SAFETY: the promise of `new`; the number is on the host, and there when the call returns.
            unsafe { blas.dot(n, a, b, &mut product) }.map(|()| product)
        };
        self.product.multiply()?;
        let alpha = rz / dot(p, q)?;
        // SAFETY: the promise of `new`: vectors of n elements, apart from each other. The scalars are on the host, and
        // read during the call.
        unsafe {
            blas.axpy(n, &alpha, p, x)?;
            blas.axpy(n, &-alpha, q, r)?;
        }
        let _residual = dot(r, r)?; // what the host would end by
        self.precondition()?;
        let new = dot(r, z)?;
        // SAFETY: as above.
        unsafe {
            blas.scal(n, &(new / rz), p)?;
            blas.axpy(n, &T::from_f64(1.0), z, p)?;
        }
        Ok(new)
    }

    /// Queues `z[i] = r[i] / A[i][i]`.
    fn precondition(&self) -> Result<(), String> {
        let Addresses { n, inverse_diagonal, r, z, .. } = self.at;
        // SAFETY: the promise of `new`: n elements each, apart from each other.
        unsafe { self.launch(&self.kernels.jacobi, jacobi_grid_size(n), JacobiArgs { n, inverse_diagonal, r, z }) }
    }

    /// Queues `result = a . b`, two vectors and a scalar of `at`.
    fn dot(&self, a: *const T, b: *const T, result: *mut T) -> Result<(), String> {
        let Addresses { n, partials, arrivals, .. } = self.at;
        // SAFETY: the promise of `new`: n elements each, a scalar on the device, as `start` has told cuBLAS; of ours, room
        // for every block's partial, and a counter that started from 0 and is used in the order of this stream.
        unsafe {
            match self.dots {
                Dots::Cublas => self.blas.dot(n as i32, a, b, result),
                Dots::Own => {
                    let args = DotArgs { n, a, b, partials, arrivals, result };
                    self.launch(&self.kernels.dot, dot_grid_size(n), args)
                }
            }
        }
    }

    /// The square of the residual's norm, which the host waits for.
    fn read_residual(&self) -> Result<T, String> {
        self.dot(self.at.r, self.at.r, self.at.rr)?;
        self.read(self.at.rr)
    }

    /// A scalar of `at`, when all that is queued has run.
    fn read(&self, scalar: *const T) -> Result<T, String> {
        let mut value = [T::from_f64(0.0)];
        // SAFETY: the promise of `new`: one element; the host's is there until the copy is done.
        unsafe { result::memcpy_dtoh_async(&mut value, scalar as u64, self.stream.cu_stream()) }
            .map_err(driver("copying from the device"))?;
        self.wait()?;
        Ok(value[0])
    }

    fn wait(&self) -> Result<(), String> {
        self.stream.synchronize().map_err(driver("waiting for the stream"))
    }

    /// Queues a copy from one vector or scalar of `at` to another.
    fn copy(&self, from: *const T, to: *mut T, elements: usize) -> Result<(), String> {
        let bytes = elements * size_of::<T>();
        // SAFETY: the promise of `new`: both have so many elements, and are two.
        unsafe { result::memcpy_dtod_async(to as u64, from as u64, bytes, self.stream.cu_stream()) }
            .map_err(driver("copying on the device"))
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// The kernel's rules hold for the arguments, which point to what is in `at`.
    unsafe fn launch<Args: Copy>(&self, kernel: &Kernel<Args>, blocks: u32, args: Args) -> Result<(), String> {
        let launch = self.queue.launch(kernel, blocks).map_err(|error| error.to_string())?;
        // SAFETY: the caller's promise; the memory is of this GPU, and used in the order of this stream alone.
        unsafe { launch.run(args) }.map_err(|error| error.to_string())
    }
}
