//! Host memory that the GPU copies from and to at full speed.

use std::ops::{Deref, DerefMut};

#[cfg(feature = "cuda")]
use super::Backend;
use super::Device;
use crate::{Result, Scalar};

/// A slice of host memory that is pinned (page-locked), so that copies to and from the GPU run at the full speed of the
/// bus. On the CPU it is an ordinary vector.
///
/// Pinned memory is scarce: keep a buffer and use it again.
#[derive(Debug)]
pub struct PinnedVec<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Ordinary(Vec<T>),
    #[cfg(feature = "cuda")]
    Pinned(cudarc::driver::PinnedHostSlice<T>),
}

impl Device {
    /// `len` zeros in pinned host memory.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the operating system pins no more memory.
    pub fn pinned_zeros<T: Scalar>(&self, len: usize) -> Result<PinnedVec<T>> {
        let memory = match self.backend() {
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) if len > 0 => {
                // SAFETY: all elements are written below. Flags 0: cached, so that the host reads it at full speed too.
                let slice = unsafe { stream.context().alloc_pinned_with_flags::<T>(len, 0) };
                let mut slice = slice.map_err(super::cuda::driver("pinning host memory"))?;
                let values = slice.as_mut_ptr().map_err(super::cuda::driver("pinning host memory"))?;
                // SAFETY: the allocation holds `len` elements, and all-zero bits are a valid T.
                unsafe { values.write_bytes(0, len) };
                Memory::Pinned(slice)
            }
            _ => Memory::Ordinary(vec![T::default(); len]),
        };
        Ok(PinnedVec(memory))
    }
}

// Copies wait until they are done, so nothing is in flight here and the event that cudarc keeps with the slice never
// fails: the error arms below are never taken.
impl<T: Scalar> Deref for PinnedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            Memory::Pinned(slice) => slice.as_slice().unwrap_or_default(),
        }
    }
}

impl<T: Scalar> DerefMut for PinnedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            Memory::Pinned(slice) => slice.as_mut_slice().unwrap_or_default(),
        }
    }
}
