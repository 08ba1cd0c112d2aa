//! The positions of a matrix in bins, and how densely entries fill them.

use warpsparse::{CsrMatrix, Scalar};

/// Shades of bins that hold entries, from the least dense to the densest.
pub(super) const LEVELS: u8 = 8;

/// How rows or columns lie along a side of the picture: so many `positions` to a bin, so many `pixels` to draw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    length: usize,
    pub(super) positions: usize,
    pub(super) pixels: usize,
}

impl Axis {
    /// An entry's square is no larger, however small the matrix.
    const LARGEST_SQUARE: usize = 32;

    /// For rows and columns, of the same scale in at most `size` pixels; but the shorter side of a long matrix gets at
    /// least an eighth of that, if need be by a scale of its own.
    pub(super) fn pair(nrows: usize, ncols: usize, size: usize) -> [Self; 2] {
        let longer = Self::fit(nrows.max(ncols), size);
        [nrows, ncols].map(|length| {
            let same_scale = Self { length, ..longer };
            if same_scale.extent() < size / 8 { Self::fit(length, size / 8) } else { same_scale }
        })
    }

    /// With the fewest positions to a bin, and then the largest squares, for which `most` pixels suffice.
    fn fit(length: usize, most: usize) -> Self {
        let pixels = (most / length.max(1)).clamp(1, Self::LARGEST_SQUARE);
        Self { length, positions: length.div_ceil(most).max(1), pixels }
    }

    /// Half as many bins of twice the size.
    pub(super) fn coarser(self) -> Self {
        Self { positions: 2 * self.positions, pixels: 2 * self.pixels, ..self }
    }

    pub(super) fn bins(&self) -> usize {
        self.length.div_ceil(self.positions)
    }

    /// Pixels in all.
    pub(super) fn extent(&self) -> usize {
        self.bins() * self.pixels
    }

    /// Positions in this bin: the last may have fewer.
    fn positions_of(&self, bin: usize) -> usize {
        self.positions.min(self.length - bin * self.positions)
    }
}

/// How many entries each bin holds.
pub(super) struct Grid {
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    /// Row by row.
    counts: Vec<usize>,
}

impl Grid {
    /// Reads the structure once; takes 8 bytes a bin.
    pub(super) fn new<T: Scalar>(matrix: &CsrMatrix<T>, [rows, columns]: [Axis; 2]) -> Self {
        let mut counts = vec![0; rows.bins() * columns.bins()];
        for i in 0..matrix.nrows() {
            let first = i / rows.positions * columns.bins();
            for &column in &matrix.col_indices()[matrix.row_range(i)] {
                counts[first + column as usize / columns.positions] += 1;
            }
        }
        Self { rows, columns, counts }
    }

    /// Entries per position, row by row; above 1 where there are duplicates.
    fn densities(&self) -> impl Iterator<Item = f64> {
        let positions = (0..self.rows.bins()).flat_map(move |row| {
            let rows = self.rows.positions_of(row);
            (0..self.columns.bins()).map(move |column| rows as f64 * self.columns.positions_of(column) as f64)
        });
        self.counts.iter().zip(positions).map(|(&count, positions)| count as f64 / positions)
    }

    /// The density of a single entry in a whole bin, and the greatest; `None` without entries.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let most = self.densities().fold(0.0, f64::max);
        let least = 1.0 / (self.rows.positions as f64 * self.columns.positions as f64);
        (most > 0.0).then_some((least.min(most), most))
    }

    /// The shade of each bin, row by row: 0 where it is empty, else 1 to [`LEVELS`] by the logarithm of the density.
    /// Where all densities are the same, [`LEVELS`].
    pub(super) fn levels(&self) -> Vec<u8> {
        let Some((least, most)) = self.range() else { return vec![0; self.counts.len()] };
        let level = |density: f64| match density {
            0.0 => 0,
            _ if least == most => LEVELS,
            _ => 1 + (f64::from(LEVELS - 1) * (density / least).ln() / (most / least).ln()).round() as u8,
        };
        self.densities().map(level).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(length: usize, positions: usize, pixels: usize) -> Axis {
        Axis { length, positions, pixels }
    }

    #[test]
    fn axes_share_a_scale_unless_a_side_would_vanish() {
        let pair = |nrows, ncols| Axis::pair(nrows, ncols, 800);
        assert_eq!(pair(0, 0), [axis(0, 1, 32); 2]);
        assert_eq!(pair(3, 4), [axis(3, 1, 32), axis(4, 1, 32)]);
        assert_eq!(pair(300, 100), [axis(300, 1, 2), axis(100, 1, 2)]);
        assert_eq!(pair(800, 801), [axis(800, 2, 1), axis(801, 2, 1)]);
        assert_eq!(pair(4884, 1000), [axis(4884, 7, 1), axis(1000, 7, 1)]);
        assert_eq!(pair(1, 5000), [axis(1, 1, 32), axis(5000, 7, 1)]);
        assert_eq!(pair(1_000_000, 150), [axis(1_000_000, 1250, 1), axis(150, 2, 1)]);
        for length in 1..5000 {
            let axis = Axis::pair(length, length, 800)[0];
            assert!((1..=800).contains(&axis.extent()), "{axis:?}");
            assert!(axis.positions * axis.bins() >= length && axis.positions * (axis.bins() - 1) < length, "{axis:?}");
        }
        let coarser = axis(5, 1, 3).coarser();
        assert_eq!((coarser, coarser.bins(), coarser.extent()), (axis(5, 2, 6), 3, 18));
    }

    /// 5 x 3, in bins of 2 x 2 positions:
    ///
    /// ```text
    /// x x | .
    /// x x | x
    /// ----+--
    /// x . | x
    /// . . | x
    /// ----+--
    /// . . | .
    /// ```
    #[test]
    fn shades_go_by_the_logarithm_of_the_density() {
        let (offsets, columns) = (vec![0u32, 2, 5, 7, 8, 8], vec![0, 1, 0, 1, 2, 0, 2, 2]);
        let matrix = CsrMatrix::try_from_csr_data(5, 3, offsets, columns, vec![0.0f32; 8]).unwrap();
        let grid = Grid::new(&matrix, [axis(5, 2, 1), axis(3, 2, 1)]);
        assert_eq!(grid.densities().collect::<Vec<_>>(), [1.0, 0.5, 0.25, 1.0, 0.0, 0.0]);
        assert_eq!(grid.range(), Some((0.25, 1.0)));
        // A half is midway from a quarter to 1: level 1 + 3.5, rounded.
        assert_eq!(grid.levels(), [8, 5, 1, 8, 0, 0]);
        let grid = Grid::new(&matrix, [axis(5, 1, 1), axis(3, 1, 1)]);
        assert_eq!(grid.range(), Some((1.0, 1.0)));
        assert_eq!(grid.levels(), [8, 8, 0, 8, 8, 8, 8, 0, 8, 0, 0, 8, 0, 0, 0]);
    }

    #[test]
    fn duplicates_count_and_nothing_has_no_range() {
        let matrix = CsrMatrix::try_from_csr_data(1, 3, vec![0u32, 4], vec![2, 0, 2, 2], vec![1.0f64; 4]).unwrap();
        let grid = Grid::new(&matrix, [axis(1, 1, 1), axis(3, 1, 1)]);
        assert_eq!((grid.range(), grid.levels()), (Some((1.0, 3.0)), vec![1, 0, 8]));
        let empty = CsrMatrix::try_from_csr_data(2, 2, vec![0u32; 3], vec![], Vec::<f64>::new()).unwrap();
        let grid = Grid::new(&empty, [axis(2, 1, 1); 2]);
        assert_eq!((grid.range(), grid.levels()), (None, vec![0; 4]));
    }
}
