//! The analysis on the CPU. Rows and, separately, entries are split into pieces of equal size, so that threads share a
//! huge row like any other.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};

use kernels_gpu::csr_structure::{LENGTH_CLASSES, are_near, class_of};

use super::Structure;
use crate::{Offset, parallel::merged};

/// Rows or entries per piece: large enough to amortise the cost of a task.
const PIECE: usize = 1 << 15;

/// The structure of a valid matrix.
pub(super) fn analyse<O: Offset>(ncols: usize, row_offsets: &[O], col_indices: &[u32]) -> Structure {
    let matrix = Arrays { row_offsets, col_indices };
    let (nrows, nnz) = (row_offsets.len() - 1, col_indices.len());
    let diagonals = Diagonals::new(nrows, ncols);
    let rows = merged(PIECE, 0..nrows, &|rows| RowFigures::of(matrix, rows), &RowFigures::and);
    let entries = merged(PIECE, 0..nnz, &|entries| EntryFigures::of(matrix, entries, &diagonals), &EntryFigures::and);
    Structure {
        nrows,
        ncols,
        nnz,
        min_row: if nrows == 0 { 0 } else { rows.shortest },
        max_row: rows.longest,
        row_histogram: rows.histogram,
        lower_bandwidth: entries.lower,
        upper_bandwidth: entries.upper,
        diagonals: Structure::counted(diagonals.count.into_inner()),
        near_entries: entries.near,
    }
}

/// The arrays of a valid CSR matrix that determine its structure.
#[derive(Clone, Copy)]
struct Arrays<'a, O> {
    row_offsets: &'a [O],
    col_indices: &'a [u32],
}

impl<O: Offset> Arrays<'_, O> {
    /// Returns the range of row `i`.
    fn row(&self, i: usize) -> Range<usize> {
        self.row_offsets[i].index()..self.row_offsets[i + 1].index()
    }
}

/// Figures of row lengths.
#[derive(Clone, Copy)]
struct RowFigures {
    histogram: [usize; LENGTH_CLASSES],
    shortest: usize,
    longest: usize,
}

impl RowFigures {
    const NONE: Self = Self { histogram: [0; LENGTH_CLASSES], shortest: usize::MAX, longest: 0 };

    fn of<O: Offset>(matrix: Arrays<'_, O>, rows: Range<usize>) -> Self {
        let mut figures = Self::NONE;
        for pair in matrix.row_offsets[rows.start..=rows.end].windows(2) {
            let length = pair[1].index() - pair[0].index();
            figures.histogram[class_of(length)] += 1;
            figures.shortest = figures.shortest.min(length);
            figures.longest = figures.longest.max(length);
        }
        figures
    }

    fn and(mut self, other: Self) -> Self {
        self.histogram.iter_mut().zip(other.histogram).for_each(|(rows, more)| *rows += more);
        Self { shortest: self.shortest.min(other.shortest), longest: self.longest.max(other.longest), ..self }
    }
}

/// Figures of columns.
#[derive(Clone, Copy)]
struct EntryFigures {
    lower: usize,
    upper: usize,
    near: usize,
}

impl EntryFigures {
    const NONE: Self = Self { lower: 0, upper: 0, near: 0 };

    fn of<O: Offset>(matrix: Arrays<'_, O>, entries: Range<usize>, diagonals: &Diagonals) -> Self {
        let mut figures = Self::NONE;
        let mut row = matrix.row_offsets.partition_point(|offset| offset.index() <= entries.start) - 1;
        let mut next = entries.start;
        while next < entries.end {
            let end = matrix.row(row).end.min(entries.end);
            if next < end {
                figures = figures.and(Self::of_row_part(matrix, row, next..end));
                diagonals.add(matrix, row, next..end);
            }
            (next, row) = (end, row + 1);
        }
        figures
    }

    /// Analyses some entries of one row, at least one.
    fn of_row_part<O: Offset>(matrix: Arrays<'_, O>, row: usize, entries: Range<usize>) -> Self {
        let columns = &matrix.col_indices[entries.clone()];
        let first = columns.iter().min().map_or(row, |&column| column as usize);
        let last = columns.iter().max().map_or(row, |&column| column as usize);
        // Starts with the preceding entry, if the row has one.
        let followers = &matrix.col_indices[entries.start.saturating_sub(1).max(matrix.row(row).start)..entries.end];
        let near = followers.windows(2).filter(|pair| are_near(pair[0], pair[1])).count();
        Self { lower: row.saturating_sub(first), upper: last.saturating_sub(row), near }
    }

    fn and(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper), near: self.near + other.near }
    }
}

/// The diagonals found to hold entries: one bit each, and their number.
struct Diagonals {
    nrows: usize,
    bits: Vec<AtomicU32>,
    count: AtomicUsize,
}

impl Diagonals {
    fn new(nrows: usize, ncols: usize) -> Self {
        let bits = (0..(nrows + ncols).div_ceil(32)).map(|_| AtomicU32::new(0)).collect();
        Self { nrows, bits, count: AtomicUsize::new(0) }
    }

    /// Marks the diagonals of some entries of a row, unless there are too many already.
    fn add<O: Offset>(&self, matrix: Arrays<'_, O>, row: usize, entries: Range<usize>) {
        if self.are_too_many() {
            return;
        }
        // An entry continues the diagonal of the one to its upper left, if that stands at the same place in its row:
        // then the diagonal is marked for that one, or for one that it continues in turn.
        let begin = matrix.row(row).start;
        let before = if row == 0 { 0..0 } else { matrix.row(row - 1) };
        for entry in entries {
            let column = matrix.col_indices[entry];
            let upper_left = before.start + (entry - begin);
            if upper_left >= before.end || matrix.col_indices[upper_left] + 1 != column {
                self.mark(column as usize + (self.nrows - 1 - row));
            }
        }
    }

    fn are_too_many(&self) -> bool {
        self.count.load(Relaxed) > Structure::MAX_DIAGONALS
    }

    fn mark(&self, diagonal: usize) {
        let (word, bit) = (&self.bits[diagonal / 32], 1 << (diagonal % 32));
        // Most bits are set already, and reading is cheaper than setting.
        if word.load(Relaxed) & bit == 0 && !self.are_too_many() && word.fetch_or(bit, Relaxed) & bit == 0 {
            self.count.fetch_add(1, Relaxed);
        }
    }
}
