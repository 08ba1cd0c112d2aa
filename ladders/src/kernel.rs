//! The kernels with their PTX.

use kernels_gpu::Entry;
use warpsparse::{Device, Error, Kernel, Result};

/// The PTX: the family, the oldest compute capability that runs it, and the text. The newest of a family come first.
#[cfg(feature = "cuda")]
const TEXTS: &[(&str, u32, &str)] = &include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
#[cfg(not(feature = "cuda"))]
const TEXTS: &[(&str, u32, &str)] = &[];

/// The kernel of an entry, with the PTX that suits the device.
pub(crate) fn kernel<Args>(device: &Device, entry: &'static Entry) -> Result<Kernel<Args>> {
    let kernel = Kernel::from_entry(entry)?;
    let Some(cuda) = device.info()?.cuda else { return Ok(kernel) };
    let (major, minor) = cuda.compute_capability;
    let mut texts = TEXTS.iter().filter(|(family, arch, _)| *family == entry.family && *arch <= 10 * major + minor);
    let (_, _, text) = texts.next().ok_or_else(|| Error::NoDevice {
        wanted: format!("GPU that runs {}", entry.name),
        reason: format!("this one has compute capability {major}.{minor}, older than any kernel"),
    })?;
    Ok(kernel.with_ptx(text))
}

/// A number of elements, rows or bytes, which kernels count in 32 bits.
pub(crate) fn count(what: &str, count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::Unsupported(format!("{what} of {count}: 2^32 and more")))
}

/// Fails unless the matrices are row-major, as all kernels here take them.
pub(crate) fn check_orders(orders: &[(&str, warpsparse::Order)]) -> Result<()> {
    match orders.iter().find(|(_, order)| *order == warpsparse::Order::ColumnMajor) {
        None => Ok(()),
        Some((what, _)) => {
            Err(Error::Unsupported(format!("a column-major {what}: kernels of the ladder take row-major matrices")))
        }
    }
}

/// Fails unless the length is the one that the operation needs.
pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::LengthMismatch { what, expected, found }) }
}
