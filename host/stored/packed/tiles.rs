//! Tiles: the rows of a block of the kernel, whose columns and ends of rows count from the tile's first ones.

use std::ops::Range;

use super::words;
use crate::{
    CsrMatrix, Offset, Result, Scalar, memory,
    parallel::{for_blocks, for_blocks_of},
};

/// A CSR matrix cut into tiles.
#[derive(Debug)]
pub(crate) struct Tiles {
    /// Rows of a tile.
    pub(super) rows: usize,
    /// The first entry of each tile.
    pub(super) firsts: Vec<u64>,
    /// The smallest column of each tile; of a tile without entries, 0.
    pub(super) columns: Vec<u32>,
    /// How far apart the columns of a tile are, at most.
    pub(crate) span: u32,
    /// The entries of a tile, at most.
    pub(crate) longest: usize,
}

impl Tiles {
    /// Cuts a matrix into tiles of so many rows. Reads its offsets and columns.
    pub(crate) fn of<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, rows: usize) -> Result<Self> {
        let (offsets, columns, _) = matrix.arrays();
        let tiles = matrix.nrows().div_ceil(rows);
        let entries =
            |tile: usize| offsets[tile * rows].index()..offsets[((tile + 1) * rows).min(matrix.nrows())].index();
        let mut extremes = memory::room(tiles)?;
        extremes.resize(tiles, (0, 0));
        // About as many rows as in other blocks of work.
        for_blocks_of(16, 0..tiles, &mut extremes, &|tiles, extremes: &mut [(u32, u32)]| {
            for (tile, extremes) in tiles.zip(extremes) {
                let columns = &columns[entries(tile)];
                *extremes = (columns.iter().min().copied().unwrap_or(0), columns.iter().max().copied().unwrap_or(0));
            }
        });
        let (mut firsts, mut smallest) = (memory::room(tiles)?, memory::room(tiles)?);
        firsts.extend((0..tiles).map(|tile| entries(tile).start as u64));
        smallest.extend(extremes.iter().map(|&(least, _)| least));
        Ok(Self {
            rows,
            firsts,
            columns: smallest,
            span: extremes.iter().map(|(least, most)| most - least).max().unwrap_or(0),
            longest: (0..tiles).map(|tile| entries(tile).len()).max().unwrap_or(0),
        })
    }

    /// Bytes of a column: 2 or 4.
    pub(crate) fn column_bytes(&self) -> usize {
        if self.span <= u16::MAX.into() { 2 } else { 4 }
    }

    /// Bytes of a row's end: 2 or 4.
    pub(super) fn end_bytes(&self) -> usize {
        if self.longest <= u16::MAX.into() { 2 } else { 4 }
    }

    /// The ends of the rows.
    pub(super) fn row_ends<O: Offset>(&self, row_offsets: &[O]) -> Result<Vec<u32>> {
        let rows = row_offsets.len() - 1;
        let end = |row: usize| row_offsets[row + 1].index() - self.firsts[row / self.rows] as usize;
        if self.end_bytes() == 2 {
            let mut ends = words::room_for::<u16>(rows)?;
            for_blocks(0..rows, &mut words::narrow_mut::<u16>(&mut ends)[..rows], &|rows, ends: &mut [u16]| {
                rows.zip(ends).for_each(|(row, at)| *at = end(row) as u16);
            });
            return Ok(ends);
        }
        let mut ends = memory::zeros(rows)?;
        for_blocks(0..rows, &mut ends, &|rows, ends: &mut [u32]| {
            rows.zip(ends).for_each(|(row, at)| *at = end(row) as u32);
        });
        Ok(ends)
    }

    /// Columns of 16 bits, which are enough for every tile.
    pub(super) fn narrow_columns(&self, columns: &[u32]) -> Result<Vec<u32>> {
        let mut packed = words::room_for::<u16>(columns.len())?;
        let narrow = &mut words::narrow_mut::<u16>(&mut packed)[..columns.len()];
        for_blocks(0..columns.len(), narrow, &|entries, narrow: &mut [u16]| {
            for ((entry, tile), narrow) in with_tiles(&self.firsts, entries).zip(narrow) {
                *narrow = (columns[entry] - self.columns[tile]) as u16;
            }
        });
        Ok(packed)
    }
}

/// Consecutive entries with their tiles, whose first entries are `firsts`.
pub(super) fn with_tiles(firsts: &[u64], entries: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut next = firsts.partition_point(|&first| first <= entries.start as u64);
    entries.map(move |entry| {
        while firsts.get(next).is_some_and(|&first| first <= entry as u64) {
            next += 1;
        }
        (entry, next - 1)
    })
}
