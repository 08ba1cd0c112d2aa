//! What kernels on rows of a CSR matrix share: searches, groups of lanes, and entries shared among warps.

use cuda_std::{
    mem, thread,
    warp::{self, WARP_SIZE},
};

/// Entries per warp in `for_entries_of_warp`: 16 per lane, which amortises the search for the first row. Not measured yet.
pub const ENTRIES_PER_WARP: u32 = 16 * WARP_SIZE;

/// Blocks of `block_size` threads for so many groups of `lanes` lanes.
pub const fn blocks_of_groups(groups: u32, lanes: u32, block_size: u32) -> u32 {
    groups.div_ceil(block_size / lanes)
}

/// Blocks of `block_size` threads for so many entries, [`ENTRIES_PER_WARP`] a warp.
pub const fn blocks_of_entries(entries: u32, block_size: u32) -> u32 {
    entries.div_ceil(block_size / WARP_SIZE * ENTRIES_PER_WARP)
}

/// The row of an entry, which is one of `low..=high`: the last that begins at the entry or before. (Of rows that begin at one place, all but
/// the last are empty.)
///
/// # Safety
/// The offsets up to `high` exist in global memory, and nothing writes them during the launch.
#[inline(always)]
pub(crate) unsafe fn row_of(row_offsets: *const u32, entry: u32, mut low: u32, mut high: u32) -> u32 {
    while low < high {
        let middle = high - (high - low) / 2;
        // SAFETY: middle <= high.
        let begin = unsafe { mem::load_readonly(row_offsets.add(middle as usize)) };
        if begin <= entry { low = middle } else { high = middle - 1 }
    }
    low
}

/// The first place in `begin..end` whose index is not below `index`, or `end`.
///
/// # Safety
/// The indices exist in global memory, ascend, and nothing writes them during the launch.
#[inline(always)]
pub(crate) unsafe fn first_not_below(indices: *const u32, mut begin: u32, mut end: u32, index: u32) -> u32 {
    while begin < end {
        let middle = begin + (end - begin) / 2;
        // SAFETY: begin <= middle < end.
        if unsafe { mem::load_readonly(indices.add(middle as usize)) } < index {
            begin = middle + 1
        } else {
            end = middle
        }
    }
    begin
}

/// Calls `each(entry, row)` for the entries of this thread: entries are shared among the warps of the grid in pieces of
/// [`ENTRIES_PER_WARP`], so neither long nor empty rows keep a warp longer than any other.
///
/// A warp searches the row of its first and of its last entry; between the two each lane searches the row of its own.
///
/// # Safety
/// `row_offsets` has `rows + 1` offsets in global memory, which start at 0, never fall, end at `entries`, and which nothing writes during
/// the launch. All lanes of the warp are here, and blocks have `BLOCK_SIZE` threads in one dimension.
#[inline(always)]
pub(crate) unsafe fn for_entries_of_warp<const BLOCK_SIZE: u32>(
    row_offsets: *const u32,
    rows: u32,
    entries: u32,
    mut each: impl FnMut(u32, u32),
) {
    // 64 bits: pieces of the last block may lie beyond 2^32.
    let warp = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / WARP_SIZE)
        + u64::from(thread::thread_idx_x() / WARP_SIZE);
    let first = warp * u64::from(ENTRIES_PER_WARP);
    if first >= u64::from(entries) {
        return;
    }
    let first = first as u32;
    let lane = warp::lane_id();
    let count = (entries - first).min(ENTRIES_PER_WARP);
    // SAFETY: `first` and the piece's last entry are entries, so there are rows, and the whole warp is here.
    unsafe {
        // One search for both ends: the even lanes' and the odd lanes'.
        let end = if lane.is_multiple_of(2) { first } else { first + (count - 1) };
        let outermost = row_of(row_offsets, end, 0, rows - 1);
        let (mut row, _) = warp::warp_shuffle_idx(u32::MAX, outermost, 0, WARP_SIZE);
        let (last_row, _) = warp::warp_shuffle_idx(u32::MAX, outermost, 1, WARP_SIZE);
        let mut place = lane;
        while place < count {
            let entry = first + place;
            row = row_of(row_offsets, entry, row, last_row);
            each(entry, row);
            place += WARP_SIZE;
        }
    }
}
