//! How much memory an operation takes: what a GPU's default pool, where warpsparse allocates, hands out at most.

use cudarc::driver::sys::{self, CUmemPool_attribute as Attribute, CUmemoryPool};
use measure::stream::{driver, primary_context};
use warpsparse::{Device, Error, Result};

/// The result of an operation and the most bytes that it has at once beyond those allocated before; `None` on other devices than GPUs.
pub(crate) fn peak_bytes<R>(device: &Device, operation: impl FnOnce() -> Result<R>) -> Result<(R, Option<u64>)> {
    if !device.is_cuda() {
        return Ok((operation()?, None));
    }
    device.synchronize()?;
    let failed = |message| Error::Driver { call: "reading the size of the memory pool".into(), message };
    let pool = pool(device).map_err(failed)?;
    let before = read(pool, Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT).map_err(failed)?;
    let mut zero = 0u64;
    // SAFETY: the device's own pool, and an attribute of 64 bits.
    let reset =
        unsafe { sys::cuMemPoolSetAttribute(pool, Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, (&raw mut zero).cast()) };
    reset.result().map_err(driver("resetting a peak")).map_err(failed)?;
    let result = operation()?;
    device.synchronize()?;
    let peak = read(pool, Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH).map_err(failed)?;
    Ok((result, Some(peak.saturating_sub(before))))
}

fn pool(device: &Device) -> std::result::Result<CUmemoryPool, String> {
    let context = primary_context(device)?;
    let mut pool = std::ptr::null_mut();
    // SAFETY: a live context's device.
    unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) }
        .result()
        .map_err(driver("finding the pool"))?;
    Ok(pool)
}

fn read(pool: CUmemoryPool, attribute: Attribute) -> std::result::Result<u64, String> {
    let mut bytes = 0u64;
    // SAFETY: the device's own pool, and an attribute of 64 bits.
    let read = unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()) };
    read.result().map_err(driver("reading an attribute"))?;
    Ok(bytes)
}
