//! Work on pieces of arrays, on all cores with the feature `rayon`.

#[cfg(feature = "rayon")]
use rayon::prelude::*;

/// Elements of a piece: large enough to amortise the cost of a task.
pub(super) const PIECE: usize = 1 << 14;

/// Calls `work` for each piece of `len` consecutive elements, of which the last may be shorter, with its number.
pub(crate) fn each_piece<E: Send>(elements: &mut [E], len: usize, work: impl Fn(usize, &mut [E]) + Sync + Send) {
    #[cfg(feature = "rayon")]
    elements.par_chunks_mut(len).enumerate().for_each(|(number, piece)| work(number, piece));
    #[cfg(not(feature = "rayon"))]
    elements.chunks_mut(len).enumerate().for_each(|(number, piece)| work(number, piece));
}

/// The elements of piece `number`.
pub(super) fn piece<E>(elements: &[E], number: usize) -> &[E] {
    let first = number * PIECE;
    &elements[first..elements.len().min(first + PIECE)]
}
