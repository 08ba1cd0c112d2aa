//! Arrays in host memory that may not fit: their sizes come from arguments and files.

use std::alloc::{Layout, alloc_zeroed};

use crate::{Element, Error, Result};

/// Allocates `length` zeros.
///
/// The system zeroes pages when they are first touched, so threads that fill the array share that work.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn zeros<E: Element>(length: usize) -> Result<Vec<E>> {
    if length == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<E>(length).map_err(|_| out_of_memory::<E>(length))?;
    // SAFETY: the layout's size is not 0: elements have 4 or 8 bytes, and there is at least one.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<E>();
    if memory.is_null() {
        return Err(out_of_memory::<E>(length));
    }
    // SAFETY: the global allocator gave this memory for just `length` elements, and elements are plain numbers, of which
    // zeroed memory is a valid value.
    Ok(unsafe { Vec::from_raw_parts(memory, length, length) })
}

/// Allocates an empty array with room for `length` elements.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn room<E>(length: usize) -> Result<Vec<E>> {
    let mut array = Vec::new();
    array.try_reserve_exact(length).map_err(|_| out_of_memory::<E>(length))?;
    Ok(array)
}

/// Makes room for another element, with geometric growth.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn reserve_one<E>(array: &mut Vec<E>) -> Result<()> {
    array.try_reserve(1).map_err(|_| out_of_memory::<E>(array.len() + 1))
}

/// The error of an array of `length` elements that does not fit in the host's memory.
pub(crate) fn out_of_memory<E>(length: usize) -> Error {
    let requested = (length as u64).saturating_mul(size_of::<E>() as u64);
    Error::OutOfMemory { device: "the host".into(), requested, available: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn no_memory_is_an_error() {
        for length in [1 << 50, 1 << 60, usize::MAX] {
            for error in [zeros::<f64>(length).unwrap_err(), room::<f64>(length).unwrap_err()] {
                let bytes = (length as u64).saturating_mul(8);
                assert_eq!(error.to_string(), format!("out of memory on the host: {bytes} bytes asked for"));
            }
        }
        assert!(zeros::<u32>(0).unwrap().is_empty());
        assert_eq!(zeros::<f32>(3).unwrap(), [0.0; 3]);
        assert!(room::<f32>(3).unwrap().capacity() >= 3);
    }
}
