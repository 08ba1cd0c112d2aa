//! Memory of one device that others write to, from this process and from others of the machine.

use std::sync::atomic::AtomicU64;

use super::{Backend, Device};
use crate::{Error, Result};
use cuda_std::emulator::SystemBuffer;
#[cfg(feature = "cuda")]
use {
    super::{PinnedVec, Stream, vector::byte_size},
    cudarc::driver::{
        result,
        sys::{self, CUdeviceptr, CUresult},
    },
    std::sync::Arc,
};

/// 64-bit words of a device, which other devices write, and a few of the host, which kernels of this device read and write. All 0 at first.
#[derive(Debug)]
pub(crate) struct Window(Memory);

#[derive(Debug)]
enum Memory {
    Emulated {
        words: SystemBuffer,
        flags: SystemBuffer,
    },
    #[cfg(feature = "cuda")]
    Cuda {
        words: CUdeviceptr,
        /// The address of the memory of `_host`.
        flags: *mut u64,
        /// How many flags there are.
        count: usize,
        _host: PinnedVec<u64>,
        stream: Arc<Stream>,
    },
}

// SAFETY: the words are reached by kernels alone, and the flags by atomics.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Allocates a window of so many words, and so many flags.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the CPU; [`Error::OutOfMemory`], [`Error::Driver`].
    pub(crate) fn new(device: &Device, words: usize, flags: usize) -> Result<Self> {
        Ok(Self(match device.backend() {
            Backend::Cpu { .. } => return Err(Error::Unsupported("a window of the CPU".into())),
            Backend::Emulated { .. } => Memory::Emulated {
                words: SystemBuffer::zeroed(words, "window"),
                flags: SystemBuffer::zeroed(flags, "flags"),
            },
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                let bytes = byte_size::<u64>(device, words)?;
                let mut host = device.pinned_zeros::<u64>(flags)?;
                let (count, flags) = (flags, host.word(0).as_ptr());
                // Not from the pool, whose memory other devices and processes do not reach.
                let allocated = stream.inside(|| {
                    // SAFETY: the memory is written before anybody knows of it.
                    unsafe {
                        let words = result::malloc_sync(bytes)?;
                        result::memset_d8_sync(words, 0, bytes)?;
                        result::ctx::synchronize()?;
                        Ok(words)
                    }
                });
                let words = allocated.map_err(|error| stream.allocation_error(error, bytes))?;
                Memory::Cuda { words, flags, count, _host: host, stream: Arc::clone(stream) }
            }
        }))
    }

    /// The address of the words, the same for all devices that [reach](Self::reach) the window.
    pub(crate) fn address(&self) -> u64 {
        match &self.0 {
            Memory::Emulated { words, .. } => words.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Memory::Cuda { words, .. } => *words,
        }
    }

    /// The address of the flags, for kernels of the own device.
    pub(crate) fn address_of_flags(&self) -> u64 {
        match &self.0 {
            Memory::Emulated { flags, .. } => flags.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Memory::Cuda { flags, .. } => *flags as u64,
        }
    }

    /// A flag, which a kernel may read or write at the same time.
    pub(crate) fn flag(&self, place: usize) -> &AtomicU64 {
        match &self.0 {
            Memory::Emulated { flags, .. } => &flags.words()[place],
            #[cfg(feature = "cuda")]
            Memory::Cuda { flags, count, .. } => {
                assert!(place < *count);
                // SAFETY: a live word, which is accessed by atomics alone.
                unsafe { AtomicU64::from_ptr(flags.add(place)) }
            }
        }
    }

    /// Has another device of this process reach the words. Returns why it does not, if so.
    pub(crate) fn reach(&self, from: &Device) -> std::result::Result<(), String> {
        match (&self.0, from.backend()) {
            (Memory::Emulated { .. }, Backend::Emulated { .. }) => Ok(()),
            #[cfg(feature = "cuda")]
            (Memory::Cuda { stream: owner, .. }, Backend::Cuda(from)) => {
                let [own, other] = [from, owner].map(|stream| stream.context().cu_device());
                let mut can = 0;
                // SAFETY: two devices of the driver's; the answer is written.
                let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, own, other) }.result();
                asked.map_err(|error| error.to_string())?;
                if can == 0 {
                    return Err(format!("it does not reach the memory of cuda:{}", owner.device_index()));
                }
                // SAFETY: a live context of this process.
                let enable = || unsafe { sys::cuCtxEnablePeerAccess(owner.context().cu_ctx(), 0) }.result();
                match from.inside(|| Ok(enable())) {
                    Ok(Err(error)) if error.0 == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
                    Ok(Err(error)) | Err(error) => Err(error.to_string()),
                    Ok(Ok(())) => Ok(()),
                }
            }
            #[cfg(feature = "cuda")]
            _ => Err("it is another kind of device".into()),
            #[cfg(not(feature = "cuda"))]
            (Memory::Emulated { .. }, Backend::Cpu { .. }) => Err("it is another kind of device".into()),
        }
    }

    /// What another process on this machine opens the words by; or why it cannot.
    pub(crate) fn handle(&self) -> std::result::Result<Vec<u8>, String> {
        match &self.0 {
            Memory::Emulated { .. } => Err("emulated devices of several processes share no memory".into()),
            #[cfg(feature = "cuda")]
            Memory::Cuda { words, stream, .. } => {
                let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
                // SAFETY: the handle is written; the words are the beginning of an allocation.
                let made = stream.inside(|| unsafe { sys::cuIpcGetMemHandle(&raw mut handle, *words) }.result());
                made.map_err(|error| format!("no handle of its memory: {error}"))?;
                Ok(handle.reserved.iter().map(|&byte| byte as u8).collect())
            }
        }
    }
}

#[cfg(feature = "cuda")]
impl Drop for Window {
    fn drop(&mut self) {
        if let Memory::Cuda { words, stream, .. } = &self.0 {
            // Nobody is left to hear of an error.
            // SAFETY: allocated so, freed once; whoever has written there has ended.
            let _ = stream.inside(|| unsafe { result::free_sync(*words) });
        }
    }
}

/// The window of another process of this machine.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    #[cfg(feature = "cuda")]
    words: CUdeviceptr,
    #[cfg(feature = "cuda")]
    stream: Arc<Stream>,
}

impl OpenWindow {
    /// Opens a window by its [handle](Window::handle), for kernels of a device. Returns why not, if so.
    #[cfg(feature = "cuda")]
    pub(crate) fn new(device: &Device, handle: &[u8]) -> std::result::Result<Self, String> {
        let Backend::Cuda(stream) = device.backend() else { return Err("it is no GPU".into()) };
        let bytes = <[u8; 64]>::try_from(handle).map_err(|_| "it gets no handle of memory".to_owned())?;
        let handle = sys::CUipcMemHandle { reserved: bytes.map(|byte| byte as _) };
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut words = 0;
        // SAFETY: the address is written; the handle is from another process of this machine, or the driver finds that it is not.
        let opened = stream.inside(|| unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut words, handle, flags) }.result());
        opened.map_err(|error| format!("it does not open the memory of another process: {error}"))?;
        Ok(Self { words, stream: Arc::clone(stream) })
    }

    /// Without GPUs no process has a handle.
    #[cfg(not(feature = "cuda"))]
    pub(crate) fn new(_: &Device, _: &[u8]) -> std::result::Result<Self, String> {
        Err("it is no GPU".into())
    }

    /// The address of the words, for kernels of the device.
    pub(crate) fn address(&self) -> u64 {
        #[cfg(feature = "cuda")]
        return self.words;
        #[cfg(not(feature = "cuda"))]
        unreachable!("no window of another process has been opened");
    }
}

#[cfg(feature = "cuda")]
impl Drop for OpenWindow {
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        // SAFETY: opened so, closed once; this process's kernels that write there have ended.
        let _ = self.stream.inside(|| unsafe { sys::cuIpcCloseMemHandle(self.words) }.result());
    }
}
