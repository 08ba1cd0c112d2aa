//! The operations of an iteration, queued one by one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, result};
use kernels_gpu::cg_ladder::{
    AlphaArgs, BetaArgs, DotArgs, JacobiArgs, MOST_DOT_BLOCKS, VARIANTS, dot_grid_size, jacobi_grid_size,
};
use warpsparse::{Device, Kernel};

use super::{Number, READ_EVERY};
use crate::bench::rivals::{
    cublas::{self, Scalars},
    cusparse::{Product, Set},
    stream::{driver, time_each},
};

/// Our kernels.
pub(super) struct Kernels<T> {
    alpha: Kernel<AlphaArgs<T>>,
    beta: Kernel<BetaArgs<T>>,
    jacobi: Kernel<JacobiArgs<T>>,
    dot: Kernel<DotArgs<T>>,
}

impl<T: Number> Kernels<T> {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            alpha: kernel::<T, _>("alpha")?,
            beta: kernel::<T, _>("beta")?,
            jacobi: kernel::<T, _>("jacobi")?,
            dot: kernel::<T, _>("dot")?,
        })
    }
}

/// The kernel for one step, in `T`.
fn kernel<T, Args>(step: &str) -> Result<Kernel<Args>, String> {
    let wanted = format!("cg_ladder_{step}_f{}", 8 * size_of::<T>());
    let variant = VARIANTS.iter().find(|variant| variant.entry == wanted).ok_or(wanted)?;
    Kernel::embedded("cg_ladder", variant.entry).map_err(|error| error.to_string())
}

/// The vectors beside those of the product, and the scalars.
pub(super) struct Vectors<T> {
    b: CudaSlice<T>,
    x: CudaSlice<T>,
    r: CudaSlice<T>,
    z: CudaSlice<T>,
    inverse_diagonal: CudaSlice<T>,
    scalars: CudaSlice<T>,
    partials: CudaSlice<f64>,
    arrivals: CudaSlice<u32>,
}

impl<T: Number> Vectors<T> {
    pub(super) fn new(stream: &Arc<CudaStream>, b: &[T], inverse_diagonal: &[T]) -> Result<Self, String> {
        let failed = driver("copying to the device");
        let zeros = || stream.alloc_zeros(b.len()).map_err(&failed);
        let [zero, one] = [0.0, 1.0].map(T::from_f64);
        Ok(Self {
            b: stream.clone_htod(b).map_err(&failed)?,
            x: zeros()?,
            r: zeros()?,
            z: zeros()?,
            inverse_diagonal: stream.clone_htod(inverse_diagonal).map_err(&failed)?,
            // In the order of `addresses`.
            scalars: stream.clone_htod(&[zero, zero, zero, zero, zero, zero, zero, one]).map_err(&failed)?,
            partials: stream.alloc_zeros(MOST_DOT_BLOCKS as usize).map_err(&failed)?,
            arrivals: stream.alloc_zeros(1).map_err(&failed)?,
        })
    }

    /// `x`.
    pub(super) fn solution(&self) -> &CudaSlice<T> {
        &self.x
    }

    /// `r`.
    pub(super) fn residual(&self) -> &CudaSlice<T> {
        &self.r
    }

    /// Where everything is; `p` and `q` are vectors of the product.
    pub(super) fn addresses(&mut self, stream: &CudaStream, product: &mut Set<T>) -> Addresses<T> {
        let (p, q) = product.addresses(stream);
        let scalars = self.scalars.device_ptr_mut(stream).0 as *mut T;
        let [rz, rz_old, pq, rr, alpha, minus_alpha, beta, one] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|place| scalars.wrapping_add(place));
        Addresses {
            n: self.b.len() as u32,
            b: self.b.device_ptr(stream).0 as *const T,
            x: self.x.device_ptr_mut(stream).0 as *mut T,
            r: self.r.device_ptr_mut(stream).0 as *mut T,
            z: self.z.device_ptr_mut(stream).0 as *mut T,
            p,
            q,
            inverse_diagonal: self.inverse_diagonal.device_ptr(stream).0 as *const T,
            rz,
            rz_old,
            pq,
            rr,
            alpha,
            minus_alpha,
            beta,
            one,
            partials: self.partials.device_ptr_mut(stream).0 as *mut f64,
            arrivals: self.arrivals.device_ptr_mut(stream).0 as *mut u32,
        }
    }
}

/// Addresses on the device: of vectors of `n` elements, of scalars, and of what our dot product works in.
#[derive(Clone, Copy)]
pub(super) struct Addresses<T> {
    n: u32,
    b: *const T,
    x: *mut T,
    r: *mut T,
    z: *mut T,
    p: *mut T,
    q: *mut T,
    inverse_diagonal: *const T,
    rz: *mut T,
    rz_old: *mut T,
    pq: *mut T,
    rr: *mut T,
    alpha: *mut T,
    minus_alpha: *mut T,
    beta: *mut T,
    one: *mut T,
    partials: *mut f64,
    arrivals: *mut u32,
}

/// Whose dot products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dots {
    Cublas,
    Own,
}

/// All that an iteration takes.
pub(super) struct Steps<'a, T> {
    queue: &'a Device,
    /// The same queue.
    stream: &'a Arc<CudaStream>,
    blas: &'a cublas::Handle,
    product: Product<'a, T>,
    kernels: &'a Kernels<T>,
    at: Addresses<T>,
    dots: Dots,
}

impl<'a, T: Number> Steps<'a, T> {
    /// # Safety
    /// `stream` is `queue`, and the libraries' handles are on it. The addresses are those of [`Vectors::addresses`], with
    /// the vectors of `product`; while this lives, the vectors are alive, and nobody else accesses them.
    pub(super) unsafe fn new(
        queue: &'a Device,
        stream: &'a Arc<CudaStream>,
        blas: &'a cublas::Handle,
        product: Product<'a, T>,
        kernels: &'a Kernels<T>,
        at: Addresses<T>,
        dots: Dots,
    ) -> Self {
        Self { queue, stream, blas, product, kernels, at, dots }
    }

    /// How long the iterations take from the start by the clock of the device. `repeat` queues so many of them.
    pub(super) fn time_on_device(
        &self,
        iterations: usize,
        mut repeat: impl FnMut(usize) -> Result<(), String>,
    ) -> Result<Duration, String> {
        self.start()?;
        repeat(2)?;
        self.read_residual()?;
        self.start()?;
        let times = time_each(self.stream, 1, |_| {
            for done in (0..iterations).step_by(READ_EVERY) {
                let count = READ_EVERY.min(iterations - done);
                repeat(count)?;
                if count == READ_EVERY {
                    self.read_residual()?;
                }
            }
            Ok(())
        })?;
        Ok(times.iter().sum())
    }

    /// The same by the clock of the host, with the scalars there.
    pub(super) fn time_on_host(&self, iterations: usize) -> Result<Duration, String> {
        let run = |iterations| {
            self.start()?;
            let mut rz = self.read(self.at.rz)?;
            self.blas.expect_scalars(Scalars::OnHost)?;
            let start = Instant::now();
            for _ in 0..iterations {
                rz = self.iterate_with_host(rz)?;
            }
            self.stream.synchronize().map_err(driver("waiting for the stream"))?;
            Ok(start.elapsed())
        };
        run(2).and_then(|_: Duration| run(iterations))
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
        self.stream.synchronize().map_err(driver("waiting for the stream"))?;
        Ok(value[0])
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
        // SAFETY: the caller's promise; the memory is of this GPU, and used in the order of this queue alone.
        unsafe { launch.run(args) }.map_err(|error| error.to_string())
    }
}
