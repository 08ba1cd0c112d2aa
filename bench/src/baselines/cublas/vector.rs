//! What cuBLAS does with vectors: `dot`, `axpy`, `scal`, `copy`, `nrm2`.

use cudarc::cublas::sys::{
    self, cublasHandle_t as RawHandle, cublasPointerMode_t as PointerMode, cublasStatus_t as Status,
};

use super::{Handle, Number, library::check};

/// `cublasSdot` and `cublasDdot`.
pub(super) type Dot<T> = unsafe fn(RawHandle, i32, *const T, i32, *const T, i32, *mut T) -> Status;
/// `cublasSaxpy` and `cublasDaxpy`.
pub(super) type Axpy<T> = unsafe fn(RawHandle, i32, *const T, *const T, i32, *mut T, i32) -> Status;
/// `cublasSscal` and `cublasDscal`.
pub(super) type Scal<T> = unsafe fn(RawHandle, i32, *const T, *mut T, i32) -> Status;
/// `cublasScopy` and `cublasDcopy`.
pub(super) type Copying<T> = unsafe fn(RawHandle, i32, *const T, i32, *mut T, i32) -> Status;
/// `cublasSnrm2` and `cublasDnrm2`.
pub(super) type Nrm2<T> = unsafe fn(RawHandle, i32, *const T, i32, *mut T) -> Status;

/// Where the numbers lie that the functions here take and give: `alpha`, and the results of `dot` and `nrm2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scalars {
    /// A product waits until it is there.
    OnHost,
    /// Nothing waits.
    OnDevice,
}

/// # Safety
/// The same rules hold for every function but the first: vectors are live device memory of `n` elements each, those that
/// are written overlap no other, and all that touches them is ordered by the handle's stream. Scalars are where the handle
/// was last told.
impl Handle {
    /// Where scalars lie from now on: on the host to begin with.
    pub(in super::super) fn expect_scalars(&self, place: Scalars) -> Result<(), String> {
        let mode = match place {
            Scalars::OnHost => PointerMode::CUBLAS_POINTER_MODE_HOST,
            Scalars::OnDevice => PointerMode::CUBLAS_POINTER_MODE_DEVICE,
        };
        // SAFETY: the handle is alive.
        check("cublasSetPointerMode", unsafe { sys::cublasSetPointerMode_v2(self.raw, mode) })
    }

    /// `result = sum(x[i] * y[i])`.
    ///
    /// # Safety
    /// The rules at the head of this `impl`; `x` may be `y`.
    pub(in super::super) unsafe fn dot<T: Number>(
        &self,
        n: i32,
        x: *const T,
        y: *const T,
        result: *mut T,
    ) -> Result<(), String> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        check("cublas?dot", unsafe { (T::DOT)(self.raw, n, x, 1, y, 1, result) })
    }

    /// `y = alpha * x + y`.
    ///
    /// # Safety
    /// The rules at the head of this `impl`.
    pub(in super::super) unsafe fn axpy<T: Number>(
        &self,
        n: i32,
        alpha: *const T,
        x: *const T,
        y: *mut T,
    ) -> Result<(), String> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        check("cublas?axpy", unsafe { (T::AXPY)(self.raw, n, alpha, x, 1, y, 1) })
    }

    /// `x = alpha * x`.
    ///
    /// # Safety
    /// The rules at the head of this `impl`.
    pub(in super::super) unsafe fn scal<T: Number>(&self, n: i32, alpha: *const T, x: *mut T) -> Result<(), String> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        check("cublas?scal", unsafe { (T::SCAL)(self.raw, n, alpha, x, 1) })
    }

    /// `y = x`.
    ///
    /// # Safety
    /// The rules at the head of this `impl`.
    pub(super) unsafe fn copy<T: Number>(&self, n: i32, x: *const T, y: *mut T) -> Result<(), String> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        check("cublas?copy", unsafe { (T::COPY)(self.raw, n, x, 1, y, 1) })
    }

    /// `result = sqrt(sum(x[i] * x[i]))`.
    ///
    /// # Safety
    /// The rules at the head of this `impl`.
    pub(super) unsafe fn nrm2<T: Number>(&self, n: i32, x: *const T, result: *mut T) -> Result<(), String> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        check("cublas?nrm2", unsafe { (T::NRM2)(self.raw, n, x, 1, result) })
    }
}
