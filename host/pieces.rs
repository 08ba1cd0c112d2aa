//! Long rows of a CSR matrix, split into pieces that groups of GPU threads share.

use crate::Offset;

/// The pieces of a matrix's long rows in the form that kernels expect. For each piece: its row, the first piece of that
/// row, the number of pieces of the row, and 0; and the range of its entries.
#[derive(Debug, PartialEq)]
pub(crate) struct Pieces {
    pub(crate) rows: Vec<u32>,
    pub(crate) bounds: Vec<u64>,
    pub(crate) long_rows: usize,
    pub(crate) long_entries: usize,
}

impl Pieces {
    /// Returns the pieces of a matrix without long rows.
    pub(crate) fn none() -> Self {
        Self { rows: vec![], bounds: vec![], long_rows: 0, long_entries: 0 }
    }

    /// Splits the rows of more than `split_threshold` entries at multiples of `piece_entries`, counted from the multiple of 4
    /// at or below the row's first entry, so that each piece but the first begins with a whole quad. Reads the offsets
    /// once.
    ///
    /// # Panics
    /// If `piece_entries` is not a multiple of 4, for then pieces could be empty.
    pub(crate) fn cut<O: Offset>(row_offsets: &[O], split_threshold: usize, piece_entries: usize) -> Self {
        assert!(piece_entries > 0 && piece_entries.is_multiple_of(4), "pieces of {piece_entries} entries");
        let mut pieces = Self::none();
        for (row, offsets) in row_offsets.windows(2).enumerate() {
            let (begin, end) = (offsets[0].index(), offsets[1].index());
            if end - begin <= split_threshold {
                continue;
            }
            let base = begin & !3;
            let count = (end - base).div_ceil(piece_entries);
            let first = pieces.bounds.len() / 2;
            for piece in 0..count {
                pieces.rows.extend([row as u32, first as u32, count as u32, 0]);
                let from = begin.max(base + piece * piece_entries);
                let to = end.min(base + (piece + 1) * piece_entries);
                pieces.bounds.extend([from as u64, to as u64]);
            }
            pieces.long_rows += 1;
            pieces.long_entries += end - begin;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_cut_at_quads() {
        // Rows of 3, 10, 8 and 9 entries.
        let pieces = Pieces::cut(&[0u32, 3, 13, 21, 30], 8, 8);
        assert_eq!(pieces.rows, [[1, 0, 2, 0], [1, 0, 2, 0], [3, 2, 2, 0], [3, 2, 2, 0]].concat());
        // From 3: its quad begins at 0. From 21: at 20.
        assert_eq!(pieces.bounds, [3, 8, 8, 13, 21, 28, 28, 30]);
        assert_eq!((pieces.long_rows, pieces.long_entries), (2, 19));
    }

    #[test]
    fn rows_that_are_not_long_have_no_pieces() {
        assert_eq!(Pieces::cut(&[0u64, 8, 8, 16], 8, 8), Pieces::none());
        assert_eq!(Pieces::cut(&[0u64], 8, 8), Pieces::none());
    }
}
