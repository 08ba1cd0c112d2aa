//! Sparse matrix times dense matrix: which group of lanes has which row, or which piece of a long row, and which columns.

use cuda_std::{
    mem, thread,
    warp::{self, WARP_SIZE},
};

/// Threads per block.
///
/// On an H200 (driver 580, 2026-11-21) blocks of 256 and 512 were 0 to 4% slower.
pub const BLOCK_SIZE: u32 = 128;

/// The most entries of a piece, and of a row that is not cut.
pub const MAX_PIECE: u32 = 1 << 30;

/// What a group of lanes computes at a time: `lanes * vector * coarsening` columns of a row of `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Columns that a lane loads and stores at a time: 1, 2 or 4, at most 16 bytes.
    pub vector: u32,
    /// Lanes of a group: a power of two up to 32.
    pub lanes: u32,
    /// Vectors of a lane, each `lanes * vector` columns from the one before it.
    pub coarsening: u32,
}

impl Tile {
    /// Of these measures.
    #[must_use]
    pub const fn new(vector: u32, lanes: u32, coarsening: u32) -> Self {
        Self { vector, lanes, coarsening }
    }

    /// Columns of the tile.
    #[must_use]
    pub const fn columns(self) -> u32 {
        self.vector * self.lanes * self.coarsening
    }

    /// Tiles for so many columns.
    #[must_use]
    pub const fn count(self, cols: u32) -> u32 {
        cols.div_ceil(self.columns())
    }

    /// Blocks for so many rows, columns, and pieces.
    #[must_use]
    pub const fn grid_size(self, rows: u32, cols: u32, pieces: u32) -> u64 {
        let groups = BLOCK_SIZE / self.lanes;
        (pieces.div_ceil(groups) as u64 + rows.div_ceil(groups) as u64) * self.count(cols) as u64
    }
}

use crate::{args::args, arrival::arrive};

args! {
    /// The rows of a product, the entries of `A`, and how they are shared out: a part of the arguments of every kernel.
    ///
    /// # Safety
    /// A kernel that has one asks that
    /// 1. it describes live global memory, each array as long as its field says;
    /// 2. `row_offsets` starts at 0 and never falls, its last element is `entries`, and column indices are rows of
    ///    `B`; `row_order` is null or holds each row once;
    /// 3. `split_threshold` is at most [`MAX_PIECE`], and so is every piece. The pieces of a row stand side by side in the list,
    ///    make up the row, and each row of more than `split_threshold` entries, but no other, has pieces;
    /// 4. `arrivals` is zero before the launch, which leaves it so, overlaps nothing, and no two launches that share it run at
    ///    a time.
    pub struct Rows {
        /// Rows of `A` and `C`.
        value rows: u32,
        /// Columns of `B` and `C`, at least 1.
        value cols: u32,
        /// Bytes from one row of `B` to the next.
        value b_row_bytes: u32,
        /// Bytes from one row of `C` to the next.
        value c_row_bytes: u32,
        /// Pieces of long rows.
        value pieces: u32,
        /// Entries of the longest row that is not long.
        value split_threshold: u32,
        /// 1 if `row_offsets` are 64-bit numbers, otherwise 0.
        value wide_offsets: u32,
        /// How many rows ahead a group has the cache fetch what another group will load of `A`; 0 for none.
        value ahead: u32,
        /// How many entries those rows have, about.
        value entries_ahead: u64,
        /// Entries of the matrix.
        value entries: u64,
        /// `rows + 1` offsets, of 64 bits if `wide_offsets`.
        read row_offsets: u32,
        /// A column index for each entry.
        read col_indices: u32 [entries as usize],
        /// The order in which rows are taken, or null for their own.
        read row_order: u32 [null or rows as usize],
        /// Of each piece: its row, the first piece of that row, how many pieces the row has, and 0.
        read piece_rows: u32 [4 * pieces as usize],
        /// Of each piece: its first entry, and the one after its last.
        read piece_bounds: u64 [2 * pieces as usize],
        /// A counter a piece and tile, 0; those of first pieces are used.
        write arrivals: u32,
    }
}

/// What a group of lanes does: a row, or a piece of a long one, for a tile of columns.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) tile: u32,
    pub(crate) is_piece: bool,
    /// The row, or the piece.
    pub(crate) index: u32,
    pub(crate) begin: u64,
    pub(crate) length: u32,
}

/// A row all of whose pieces have arrived.
#[derive(Clone, Copy)]
pub(crate) struct LongRow {
    pub(crate) index: u32,
    pub(crate) first_piece: u32,
    pub(crate) pieces: u32,
}

impl Rows {
    /// What this thread's group does, the same for all its lanes: first come the blocks with pieces, then those with rows,
    /// and then both once more for the next tile. `None` beyond the last, and for a long row.
    ///
    /// # Safety
    /// The rules of this type, in a grid of [`Tile::grid_size`] blocks.
    #[inline(always)]
    pub(crate) unsafe fn work<const LANES: u32>(&self) -> Option<Work> {
        let groups = BLOCK_SIZE / LANES;
        let piece_blocks = self.pieces.div_ceil(groups);
        let blocks = piece_blocks + self.rows.div_ceil(groups);
        if blocks == 0 {
            return None;
        }
        let (tile, block) = (thread::block_idx_x() / blocks, thread::block_idx_x() % blocks);
        let group = thread::thread_idx_x() / LANES;
        // SAFETY: a piece or a row that exists has bounds.
        unsafe {
            if block < piece_blocks {
                let index = block * groups + group;
                if index >= self.pieces {
                    return None;
                }
                let [begin, end] = mem::load_readonly_v2(self.piece_bounds.add(2 * index as usize));
                return Some(Work { tile, is_piece: true, index, begin, length: (end - begin) as u32 });
            }
            // 64 bits: the last block's rows may lie beyond 2^32.
            let place = u64::from(block - piece_blocks) * u64::from(groups) + u64::from(group);
            if place >= u64::from(self.rows) {
                return None;
            }
            let mut index = place as u32;
            if !self.row_order.is_null() {
                index = mem::load_readonly(self.row_order.add(place as usize));
            }
            let (begin, length) = self.entries_of(index);
            self.fetch_ahead::<LANES>(place, begin);
            (length <= u64::from(self.split_threshold)).then_some(Work {
                tile,
                is_piece: false,
                index,
                begin,
                length: length as u32,
            })
        }
    }

    /// Has the L2 cache fetch offsets and column indices that groups some blocks later will load.
    ///
    /// What a group of short rows waits for is its chain of loads: offsets, entries, rows of `B`. The first two come from
    /// memory, unless somebody has asked for them before.
    ///
    /// # Safety
    /// The rules of this type.
    #[inline(always)]
    unsafe fn fetch_ahead<const LANES: u32>(&self, place: u64, begin: u64) {
        let row = place + u64::from(self.ahead);
        let entry = begin + self.entries_ahead;
        if self.ahead == 0 || row >= u64::from(self.rows) || entry >= self.entries {
            return;
        }
        // SAFETY: the row and the entry exist.
        unsafe {
            match thread::thread_idx_x() % LANES {
                0 => mem::prefetch(self.col_indices.add(entry as usize)),
                1 if self.wide_offsets == 0 => mem::prefetch(self.row_offsets.add(row as usize)),
                _ => {}
            }
        }
    }

    /// The first entry of a row, and how many it has.
    ///
    /// # Safety
    /// The rules of this type, and `row` is a row.
    #[inline(always)]
    pub(crate) unsafe fn entries_of(&self, row: u32) -> (u64, u64) {
        // SAFETY: a row has two offsets, of the width that the field says.
        unsafe {
            if self.wide_offsets == 0 {
                let offset = self.row_offsets.add(row as usize);
                let begin = mem::load_readonly(offset);
                (u64::from(begin), u64::from(mem::load_readonly(offset.add(1)) - begin))
            } else {
                let offset = self.row_offsets.cast::<u64>().add(row as usize);
                let begin = mem::load_readonly(offset);
                (begin, mem::load_readonly(offset.add(1)) - begin)
            }
        }
    }

    /// The address of what belongs to a piece in an array of `cols` elements a piece.
    ///
    /// # Safety
    /// The array has room for the piece.
    #[inline(always)]
    pub(crate) unsafe fn row_of<T>(&self, array: *mut T, piece: u32) -> *mut T {
        let row_bytes = u64::from(self.cols) * size_of::<T>() as u64;
        // SAFETY: the caller's promise.
        unsafe { array.byte_add((u64::from(piece) * row_bytes) as usize) }
    }

    /// Tells the groups that share the row of a piece that this one has stored what it found. Returns the row to the last of
    /// them, which sees what all have stored.
    ///
    /// # Safety
    /// The rules of this type; `work` is the piece of this group, all of whose lanes are here.
    #[inline(always)]
    pub(crate) unsafe fn arrive<const LANES: u32>(&self, work: &Work) -> Option<LongRow> {
        let lane = thread::thread_idx_x() % WARP_SIZE;
        let mask = (u32::MAX >> (WARP_SIZE - LANES)) << (lane / LANES * LANES);
        // SAFETY: the piece exists; the mask has the lanes of the group.
        unsafe {
            let [index, first_piece, pieces, _] = mem::load_readonly_v4(self.piece_rows.add(4 * work.index as usize));
            let counter = self.arrivals.add(work.tile as usize * self.pieces as usize + first_piece as usize);
            warp::sync_warp(mask);
            arrive::<LANES>(mask, counter, pieces).then_some(LongRow { index, first_piece, pieces })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_row_piece_and_column_once() {
        let tile = Tile { vector: 4, lanes: 8, coarsening: 2 };
        // 16 groups a block, 64 columns a tile.
        for (rows, cols, pieces, blocks) in [
            (0, 1, 0, 0),
            (1, 1, 0, 1),
            (16, 64, 0, 1),
            (17, 64, 0, 2),
            (17, 65, 1, 6),
            (u32::MAX, 64, 17, (1 << 28) + 2),
        ] {
            assert_eq!(tile.grid_size(rows, cols, pieces), blocks, "{rows} rows, {cols} columns, {pieces} pieces");
        }
    }
}
