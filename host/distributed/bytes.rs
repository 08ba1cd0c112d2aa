//! Numbers as the bytes of messages, in the byte order of the machine.

use std::sync::Arc;

use crate::{Element, Result, memory};

/// Copies numbers into a message.
pub(super) fn to_bytes<E: Element>(numbers: &[E]) -> Arc<[u8]> {
    // SAFETY: the bytes of the slice; elements are plain numbers, which have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), size_of_val(numbers)) }.into()
}

/// Copies the numbers out of a message. Returns `None` if its length is no multiple of theirs.
pub(super) fn from_bytes<E: Element>(bytes: &[u8]) -> Result<Option<Vec<E>>> {
    if !bytes.len().is_multiple_of(size_of::<E>()) {
        return Ok(None);
    }
    let mut numbers = memory::zeros::<E>(bytes.len() / size_of::<E>())?;
    // SAFETY: as many bytes, in two arrays; every pattern of bits is a number.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), numbers.as_mut_ptr().cast::<u8>(), bytes.len()) };
    Ok(Some(numbers))
}
