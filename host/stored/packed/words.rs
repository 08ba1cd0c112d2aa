//! Words as arrays of narrow integers, in the order of memory.

use cuda_std::mem::NarrowValue;

use crate::{Result, memory::zeros};

/// Words with room for so many narrow integers.
pub(super) fn room_for<N: NarrowValue>(integers: usize) -> Result<Vec<u32>> {
    zeros(integers.div_ceil(size_of::<u32>() / size_of::<N>()))
}

/// The words as narrow integers.
pub(super) fn narrow<N: NarrowValue>(words: &[u32]) -> &[N] {
    // SAFETY: the same bytes; a narrow integer has any bits, and its alignment, at most 2, divides that of a word.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words) / size_of::<N>()) }
}

/// The words as narrow integers, to write them.
pub(super) fn narrow_mut<N: NarrowValue>(words: &mut [u32]) -> &mut [N] {
    // SAFETY: as in `narrow`; a word has any bits too.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words) / size_of::<N>()) }
}
