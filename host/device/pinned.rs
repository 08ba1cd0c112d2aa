//! Pinned host memory, for fast copies from and to the GPU.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::AtomicU64,
};
#[cfg(feature = "cuda")]
use std::{ptr::NonNull, sync::Arc};

#[cfg(feature = "cuda")]
use {
    super::{Backend, Stream, release, vector::byte_size},
    cudarc::driver::PinnedHostSlice,
};

use super::{Device, vector::host_zeros};
use crate::{Element, Result};

/// Pinned (page-locked) host memory. Copies to and from the GPU run at the full speed of the bus. On the CPU this is an
/// ordinary vector.
///
/// Pinned memory is scarce: reuse it.
#[derive(Debug)]
pub struct PinnedVec<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Ordinary(Vec<T>),
    #[cfg(feature = "cuda")]
    Pinned {
        /// The allocation's elements: read here directly, since asking cudarc costs calls of the driver, and can fail.
        values: NonNull<[T]>,
        /// Frees it.
        _owner: Owner<T>,
    },
}

/// Pinned memory, freed in its own context.
#[cfg(feature = "cuda")]
#[derive(Debug)]
struct Owner<T> {
    memory: Option<PinnedHostSlice<T>>,
    queue: Arc<Stream>,
}

#[cfg(feature = "cuda")]
impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        release(self.queue.context(), || drop(self.memory.take()));
    }
}

// SAFETY: the memory is owned, and reached through the usual borrows only.
unsafe impl<T: Send> Send for PinnedVec<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedVec<T> {}

impl Device {
    /// Allocates `len` zeros in pinned host memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is not enough memory, and
    /// [`Error::Driver`](crate::Error::Driver) if the operating system cannot pin more.
    pub fn pinned_zeros<T: Element>(&self, len: usize) -> Result<PinnedVec<T>> {
        let memory = match self.backend() {
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) if len > 0 => {
                byte_size::<T>(self, len)?;
                let failed = || super::cuda::driver("pinning host memory");
                // SAFETY: all elements are written below. Flags 0: cached, so that the host reads it at full speed too.
                let owner = unsafe { stream.context().alloc_pinned_with_flags::<T>(len, 0) };
                let mut owner = owner.map_err(failed())?;
                let values = owner.as_mut_ptr().map_err(failed())?;
                // SAFETY: the allocation holds `len` elements, and all-zero bits are a valid T.
                unsafe { values.write_bytes(0, len) };
                let values = NonNull::new(std::ptr::slice_from_raw_parts_mut(values, len));
                let values = values.expect("an allocation is not null");
                Memory::Pinned { values, _owner: Owner { memory: Some(owner), queue: Arc::clone(stream) } }
            }
            _ => Memory::Ordinary(host_zeros(self, len)?),
        };
        Ok(PinnedVec(memory))
    }
}

impl PinnedVec<u64> {
    /// An element that a kernel may write at the same time.
    pub(super) fn word(&mut self, index: usize) -> &AtomicU64 {
        let words: *mut [u64] = match &mut self.0 {
            Memory::Ordinary(values) => values.as_mut_slice(),
            #[cfg(feature = "cuda")]
            Memory::Pinned { values, .. } => values.as_ptr(),
        };
        assert!(index < words.len());
        // SAFETY: the element is live and aligned. Where a kernel writes it, the host reaches it by this alone.
        unsafe { AtomicU64::from_ptr(words.cast::<u64>().add(index)) }
    }
}

// Copies from and to pinned memory wait until they are done, so the GPU never accesses it during a borrow.
impl<T> Deref for PinnedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            // SAFETY: live, initialised, and borrowed as `self` is.
            Memory::Pinned { values, .. } => unsafe { values.as_ref() },
        }
    }
}

impl<T> DerefMut for PinnedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            // SAFETY: live, initialised, and borrowed as `self` is.
            Memory::Pinned { values, .. } => unsafe { values.as_mut() },
        }
    }
}
