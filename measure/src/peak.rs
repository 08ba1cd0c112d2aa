//! What a GPU could compute at most.

use cudarc::driver::{result::device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE};
use warpsparse::{Device, Result};

use super::DTypeName;

/// Operations a second, two for a fused multiplication and addition, at the highest clock that the driver tells. `None`
/// where that is not known.
pub fn peak(device: &Device, dtype: DTypeName) -> Result<Option<f64>> {
    let (name, info) = (device.to_string(), device.info()?);
    let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok());
    let cores = match dtype {
        DTypeName::F32 => fp32_cores,
        DTypeName::F64 => fp64_cores,
    };
    let cores = info.cuda.as_ref().and_then(|cuda| cores(cuda.compute_capability));
    let clock = index.and_then(clock_hz);
    Ok(cores.zip(clock).map(|(cores, clock)| 2.0 * f64::from(cores) * info.parallel_units as f64 * clock))
}

fn clock_hz(index: i32) -> Option<f64> {
    let gpu = device::get(index).ok()?;
    // SAFETY: the GPU is the one that the driver has just given.
    let kilohertz = unsafe { device::get_attribute(gpu, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) }.ok()?;
    (kilohertz > 0).then(|| f64::from(kilohertz) * 1e3)
}

/// FP32 units of a multiprocessor: the CUDA Programming Guide has them by compute capability.
fn fp32_cores(compute_capability: (u32, u32)) -> Option<u32> {
    match compute_capability {
        (7, _) | (8, 0) => Some(64),
        (8..=10 | 12, _) => Some(128),
        _ => None,
    }
}

/// FP64 units of a multiprocessor, from the same guide.
fn fp64_cores(compute_capability: (u32, u32)) -> Option<u32> {
    match compute_capability {
        (7, 0) | (8, 0) => Some(32),
        (9, 0) | (10, 0) => Some(64),
        (7, 5) | (8, 6 | 9) | (12, 0) => Some(2),
        _ => None,
    }
}
