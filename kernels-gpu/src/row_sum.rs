//! The sum over a lane's share of a run of consecutive CSR entries.

use cuda_std::mem;

use crate::{Scalar, unroll::unroll};

/// Entries that a lane loads before it uses the first.
pub(crate) const ENTRIES_PER_STEP: u32 = 4;

/// The entries of a matrix, and the vector that they are multiplied with.
#[derive(Clone, Copy)]
pub(crate) struct Csr<T> {
    pub(crate) col_indices: *const u32,
    pub(crate) values: *const T,
    pub(crate) x: *const T,
}

/// Over `length` entries from `begin`: lane `l` of `LANES` takes the entries `l`, `l + LANES` and so on, four at a time.
/// Through the cache (`ld.global.nc`), for few lanes: a sector serves several steps.
///
/// # Safety
/// The entries exist, and their columns are within `x`. `length` is at most 2^30, and `lane` is below `LANES`.
#[inline(always)]
pub(crate) unsafe fn by_entries<T: Scalar, const LANES: u32>(csr: &Csr<T>, begin: usize, length: u32, lane: u32) -> T {
    let mut sum = T::ZERO;
    let mut at = lane;
    while at < length {
        let mut columns = [0; ENTRIES_PER_STEP as usize];
        let mut values = [T::ZERO; ENTRIES_PER_STEP as usize];
        // SAFETY: at + K * LANES < length.
        unsafe {
            unroll!(K in [0, 1, 2, 3] {
                if at + K * LANES < length {
                    let entry = begin + (at + K * LANES) as usize;
                    columns[K as usize] = mem::load_readonly(csr.col_indices.add(entry));
                    values[K as usize] = mem::load_readonly(csr.values.add(entry));
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if at + K * LANES < length {
                    let x = mem::load_readonly(csr.x.add(columns[K as usize] as usize));
                    sum = values[K as usize].mul_add(x, sum);
                }
            });
        }
        at += ENTRIES_PER_STEP * LANES;
    }
    sum
}

/// Over `length` entries from `begin`: quads of entries that start at multiples of 4, so that each is one 16-byte load
/// (two for 8-byte values), past the cache. Lane `l` of `LANES` takes the quads `l`, `l + LANES` and so on. Of the quads
/// at either end, entries of the neighbours are read, but not used.
///
/// # Safety
/// As for [`by_entries`]; the matrix has `entries` entries, and its arrays are aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn by_quads<T: Scalar, const LANES: u32>(
    csr: &Csr<T>,
    begin: usize,
    length: u32,
    entries: usize,
    lane: u32,
) -> T {
    let base = begin & !3;
    // Both relative to `base`: the run, and the end of the arrays.
    let first = (begin - base) as u32;
    let end = first + length;
    let whole_quads_end = (entries - base).min(1 << 31) as u32 & !3;

    let mut sum = T::ZERO;
    let mut at = 4 * lane;
    while at < end {
        let mut columns = [0; 4];
        let mut values = [T::ZERO; 4];
        // SAFETY: below `whole_quads_end` a quad lies within the arrays; beyond, only entries of the run are loaded.
        unsafe {
            let columns_at = csr.col_indices.add(base + at as usize);
            let values_at = csr.values.add(base + at as usize);
            if at < whole_quads_end {
                columns = mem::load_streaming_v4(columns_at);
                values = mem::load_streaming_v4(values_at);
            } else {
                unroll!(J in [0, 1, 2] {
                    if at + J < end {
                        columns[J as usize] = mem::load_streaming(columns_at.add(J as usize));
                        values[J as usize] = mem::load_streaming(values_at.add(J as usize));
                    }
                });
            }
            unroll!(J in [0, 1, 2, 3] {
                if at + J >= first && at + J < end {
                    let x = mem::load_readonly(csr.x.add(columns[J as usize] as usize));
                    sum = values[J as usize].mul_add(x, sum);
                }
            });
        }
        at += 4 * LANES;
    }
    sum
}
