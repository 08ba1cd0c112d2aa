//! What lies on the device.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use ladders::kernels::cg_ladder::MAX_DOT_BLOCKS;
use measure::stream::driver;

use super::Number;
use crate::baselines::cusparse::Set;

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
            partials: stream.alloc_zeros(MAX_DOT_BLOCKS as usize).map_err(&failed)?,
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
    pub(super) n: u32,
    pub(super) b: *const T,
    pub(super) x: *mut T,
    pub(super) r: *mut T,
    pub(super) z: *mut T,
    pub(super) p: *mut T,
    pub(super) q: *mut T,
    pub(super) inverse_diagonal: *const T,
    pub(super) rz: *mut T,
    pub(super) rz_old: *mut T,
    pub(super) pq: *mut T,
    pub(super) rr: *mut T,
    pub(super) alpha: *mut T,
    pub(super) minus_alpha: *mut T,
    pub(super) beta: *mut T,
    pub(super) one: *mut T,
    pub(super) partials: *mut f64,
    pub(super) arrivals: *mut u32,
}
