//! Scratch memory that the operations of one stream share.

use std::sync::MutexGuard;
#[cfg(feature = "cuda")]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "cuda")]
use cudarc::driver::{CudaSlice, DevicePtr, sys::CUdeviceptr};

use super::{Backend, Device, DeviceVec};
#[cfg(feature = "cuda")]
use super::{
    Owner,
    cuda::{Stream, release},
    vector::byte_size,
};
use crate::{Element, Result};

/// What launches find in their workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// What others have left there.
    Anything,
    /// The same, in memory apart from that of the others: for operands in another form, which stay from launch to launch of one
    /// [turn](Device::workspace_turn).
    Operands,
    /// Zeros, which they leave as zeros.
    Zeros,
}

impl Device {
    /// Waits until no other thread is between launches on this stream that leave something in a workspace for each other, and keeps others out until
    /// what is returned is dropped. Only launches that take a turn may use [`Found::Operands`]; graphs, which may contain some, take one too.
    pub(crate) fn workspace_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => None,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Some(stream.workspaces().turn()),
        }
    }

    /// Returns a workspace of `len` elements for launches on this stream.
    ///
    /// On a GPU the stream keeps the memory, and allocates only if a workspace is larger than any before. Launches share
    /// it; the order of the stream keeps them apart. The memory lives as long as any handle of the stream, including the
    /// smaller workspaces, because graphs may use them. The emulator allocates new memory each time, to find every
    /// access out of bounds.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "the emulator's are zeros"))]
    pub(crate) fn workspace<T: Element>(&self, found: Found, len: usize) -> Result<DeviceVec<T>> {
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => self.zeros(len),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                let address = stream.workspaces().address(stream, found, byte_size::<T>(self, len)?)?;
                // SAFETY: memory of so many bytes, aligned as allocations are. It stays for as long as the stream, which
                // the vector keeps, and only launches on the stream touch it.
                Ok(unsafe { DeviceVec::of_parts(stream, address, len, Owner::Queue) })
            }
        }
    }
}

/// The workspaces of a stream by what is found in them, of each the largest last. The stream outlives them.
#[cfg(feature = "cuda")]
#[derive(Default)]
pub(super) struct Workspaces {
    /// Whose turn it is to launch what needs a workspace from launch to launch.
    turn: Mutex<()>,
    of_anything: Mutex<Vec<CudaSlice<u8>>>,
    of_operands: Mutex<Vec<CudaSlice<u8>>>,
    of_zeros: Mutex<Vec<CudaSlice<u8>>>,
}

#[cfg(feature = "cuda")]
impl Workspaces {
    /// The fewest bytes that are allocated.
    const LEAST: usize = 1 << 16;

    /// See [`Device::workspace_turn`].
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the largest, which has so many bytes, or is allocated now, on `stream`, whose they are.
    fn address(&self, stream: &Stream, found: Found, bytes: usize) -> Result<CUdeviceptr> {
        let kept = match found {
            Found::Anything => &self.of_anything,
            Found::Operands => &self.of_operands,
            Found::Zeros => &self.of_zeros,
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.last().is_none_or(|largest| largest.len() < bytes) {
            // Powers of two: all the smaller ones together are no larger than the largest.
            kept.push({
                let bytes = bytes.next_power_of_two().max(Self::LEAST);
                stream.allocate_zeros_apart(bytes, bytes)?
            });
        }
        let largest = kept.last().expect("one at least");
        Ok(largest.device_ptr(largest.stream()).0)
    }
}

#[cfg(feature = "cuda")]
impl Drop for Workspaces {
    fn drop(&mut self) {
        for kept in [&mut self.of_anything, &mut self.of_operands, &mut self.of_zeros] {
            for slice in kept.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                let context = Arc::clone(slice.stream().context());
                release(&context, || drop(slice));
            }
        }
    }
}
