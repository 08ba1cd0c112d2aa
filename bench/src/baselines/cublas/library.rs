//! cuBLAS as a library: whether it is there, its context, its errors.

use std::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::Arc,
};

use cudarc::{
    cublas::sys::{
        self, cublasHandle_t as RawHandle, cublasMath_t::CUBLAS_DEFAULT_MATH, cublasStatus_t as Status,
        libraryPropertyType as Property,
    },
    driver::{CudaSlice, CudaStream, DevicePtr},
};
use measure::stream::{LibraryQueue, driver};
use warpsparse::Device;

use super::lt;

/// The functions without which there is nothing to compare: the bindings panic where one is missing.
const FUNCTIONS: [&CStr; 20] = [
    c"cublasCreate_v2",
    c"cublasDestroy_v2",
    c"cublasGetProperty",
    c"cublasGetStatusString",
    c"cublasSetStream_v2",
    c"cublasSetMathMode",
    c"cublasSgemm_v2",
    c"cublasDgemm_v2",
    c"cublasSetPointerMode_v2",
    c"cublasSetWorkspace_v2",
    c"cublasSdot_v2",
    c"cublasDdot_v2",
    c"cublasSaxpy_v2",
    c"cublasDaxpy_v2",
    c"cublasSscal_v2",
    c"cublasDscal_v2",
    c"cublasScopy_v2",
    c"cublasDcopy_v2",
    c"cublasSnrm2_v2",
    c"cublasDnrm2_v2",
];

/// The library's name and version, with the reason if cuBLASLt is missing; an error says why cuBLAS cannot be used. Call it before
/// anything else here.
pub(in super::super) fn describe(device: &Device) -> Result<String, String> {
    // SAFETY: opens the library, whose initialisers are the vendor's, as any program does that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Err("cuBLAS not found: is the folder of libcublas.so, and of what it needs, in LD_LIBRARY_PATH?".into());
    }
    if let Some(missing) = FUNCTIONS.iter().find(|name| !has_function(name)) {
        return Err(format!("the cuBLAS found has no {}", missing.to_string_lossy()));
    }
    // Whether it works at all.
    let queue = LibraryQueue::new(device)?;
    drop(Handle::new(&queue.stream)?);
    let [major, minor, patch] = [Property::MAJOR_VERSION, Property::MINOR_VERSION, Property::PATCH_LEVEL].map(property);
    let workspace = WORKSPACE_BYTES >> 20;
    let without_lt = lt::problem().map_or_else(String::new, |reason| format!(", without cuBLASLt: {reason}"));
    Ok(format!(
        "cuBLAS {}.{}.{}, TF32 off (CUBLAS_DEFAULT_MATH), with a workspace of {workspace} MiB{without_lt}",
        major?, minor?, patch?
    ))
}

fn property(which: Property) -> Result<i32, String> {
    let mut value = 0;
    // SAFETY: writes the one integer.
    check("cublasGetProperty", unsafe { sys::cublasGetProperty(which, &mut value) })?;
    Ok(value)
}

/// cuBLAS's context, bound to a stream.
pub(in super::super) struct Handle {
    pub(super) raw: RawHandle,
    pub(super) stream: Arc<CudaStream>,
    /// What it works in.
    _workspace: CudaSlice<u8>,
}

/// What cuBLAS works in: as much as NVIDIA recommends for its newer GPUs.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

impl Handle {
    /// With a workspace, so that the library does not see to memory by itself: within a recorded graph that would be
    /// allocated anew at each launch.
    pub(in super::super) fn new(stream: &Arc<CudaStream>) -> Result<Self, String> {
        // The library works in the thread's current context.
        stream.context().bind_to_thread().map_err(driver("entering the context"))?;
        let workspace = stream.alloc_zeros::<u8>(WORKSPACE_BYTES).map_err(driver("allocating the workspace"))?;
        let address = workspace.device_ptr(stream).0 as *mut c_void;
        let mut raw = null_mut();
        // SAFETY: writes the one handle.
        check("cublasCreate", unsafe { sys::cublasCreate_v2(&mut raw) })?;
        let handle = Self { raw, stream: Arc::clone(stream), _workspace: workspace };
        // SAFETY: the handle is alive, and the stream lives as long. The driver's stream and the runtime's, which the
        // function takes, are one type under two names.
        check("cublasSetStream", unsafe { sys::cublasSetStream_v2(raw, stream.cu_stream().cast()) })?;
        // SAFETY: the handle is alive.
        check("cublasSetMathMode", unsafe { sys::cublasSetMathMode(raw, CUBLAS_DEFAULT_MATH) })?;
        // SAFETY: the handle is alive, and keeps the memory, which nothing else uses.
        check("cublasSetWorkspace", unsafe { sys::cublasSetWorkspace_v2(raw, address, WORKSPACE_BYTES) })?;
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `cublasCreate`, destroyed once. A failure, if any, has shown before.
        let _ = unsafe { sys::cublasDestroy_v2(self.raw) };
    }
}

/// Whether the library, which is present, has this function.
fn has_function(name: &CStr) -> bool {
    // SAFETY: only looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.to_bytes_with_nul()).is_ok() }
}

/// An error of cuBLAS, with the call that gave it.
pub(super) fn check(call: &str, status: Status) -> Result<(), String> {
    if status == Status::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: takes any status, and returns a string that stays, or null.
    let text = unsafe {
        let text = sys::cublasGetStatusString(status);
        if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy() }
    };
    Err(format!("{call}: {text} ({status:?})"))
}
