//! Work on all cores with the feature `rayon`, and one part after the other without it.
//!
//! Nothing else calls rayon, and here only the sorts are generic: for each pair of closures that it joins, rayon compiles some 1500 lines of
//! LLVM IR, which were a quarter of this crate's.

use std::ops::Range;

#[cfg(feature = "rayon")]
use rayon::prelude::*;

/// Below this many rows, or other elements, a block of work is not split any more.
pub(crate) const BLOCK: usize = 4096;

/// Returns how many threads share the work.
pub(crate) fn threads() -> usize {
    #[cfg(feature = "rayon")]
    return rayon::current_num_threads();
    #[cfg(not(feature = "rayon"))]
    return 1;
}

/// Does both, in parallel.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut of_a, mut of_b) = (None, None);
    both(&mut || of_a = a.take().map(|a| a()), &mut || of_b = b.take().map(|b| b()));
    of_a.zip(of_b).expect("both have been done")
}

fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    #[cfg(feature = "rayon")]
    rayon::join(a, b);
    #[cfg(not(feature = "rayon"))]
    {
        a();
        b();
    }
}

/// Calls `work` for every index below `count`, in parallel.
pub(crate) fn for_each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "rayon")]
    (0..count).into_par_iter().for_each(work);
    #[cfg(not(feature = "rayon"))]
    (0..count).for_each(work);
}

/// Calls `work(indices, elements)` for consecutive blocks of `elements`, in parallel.
pub(crate) fn for_blocks<E: Send>(
    indices: Range<usize>,
    elements: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    for_blocks_of(BLOCK, indices, elements, work);
}

/// As [`for_blocks`], with blocks of at most so many elements.
pub(crate) fn for_blocks_of<E: Send>(
    block: usize,
    indices: Range<usize>,
    elements: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    if indices.len() <= block {
        return work(indices, elements);
    }
    let half = indices.len() / 2;
    let middle = indices.start + half;
    let (elements, later) = elements.split_at_mut(half);
    join(
        || for_blocks_of(block, indices.start..middle, elements, work),
        || for_blocks_of(block, middle..indices.end, later, work),
    );
}

/// Calls `work` for each piece of `len` consecutive elements, of which the last may be shorter, with its number, in parallel.
pub(crate) fn for_pieces<E: Send>(elements: &mut [E], len: usize, work: impl Fn(usize, &mut [E]) + Sync) {
    for_pieces_from(0, elements, len, &work);
}

fn for_pieces_from<E: Send>(first: usize, elements: &mut [E], len: usize, work: &(impl Fn(usize, &mut [E]) + Sync)) {
    if elements.is_empty() {
        return;
    }
    let half = elements.len().div_ceil(len) / 2;
    if half == 0 {
        return work(first, elements);
    }
    let (elements, later) = elements.split_at_mut(half * len);
    join(|| for_pieces_from(first, elements, len, work), || for_pieces_from(first + half, later, len, work));
}

/// Sorts the elements; equal ones may trade places.
pub(crate) fn sort<E: Ord + Send>(elements: &mut [E]) {
    #[cfg(feature = "rayon")]
    elements.par_sort_unstable();
    #[cfg(not(feature = "rayon"))]
    elements.sort_unstable();
}

/// Sorts the elements by their keys, keeping the order of equal ones.
pub(crate) fn sort_by_key<E: Send, K: Ord>(elements: &mut [E], key: impl Fn(&E) -> K + Sync) {
    #[cfg(feature = "rayon")]
    elements.par_sort_by_key(key);
    #[cfg(not(feature = "rayon"))]
    elements.sort_by_key(key);
}

/// Merges the results of `of_block` for blocks of at most so many indices pairwise: the same for any number of threads.
pub(crate) fn merged<S: Send>(
    block: usize,
    range: Range<usize>,
    of_block: &(impl Fn(Range<usize>) -> S + Sync),
    merge: &(impl Fn(S, S) -> S + Sync),
) -> S {
    if range.len() <= block {
        return of_block(range);
    }
    let middle = range.start + range.len() / 2;
    let (below, above) = join(
        || merged(block, range.start..middle, of_block, merge),
        || merged(block, middle..range.end, of_block, merge),
    );
    merge(below, above)
}
