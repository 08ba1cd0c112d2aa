//! Random matrices. Random numbers are counter-based: each depends only on the seed and its position.

use super::checked_product;
use crate::{
    CsrMatrix, Error, Result, Scalar,
    formats::rows::from_rows,
    memory::zeros,
    parallel::{self, for_blocks},
};

/// Generates `nrows` rows of `per_row` distinct random columns each, sorted, with values in (0, 1].
///
/// # Errors
/// [`Error::InvalidOption`] if `per_row` exceeds `ncols`, or the number of rows, columns or entries exceeds 32 bits,
/// and [`Error::OutOfMemory`].
pub fn uniform<T: Scalar>(nrows: usize, ncols: usize, per_row: usize, seed: u64) -> Result<CsrMatrix<T>> {
    checked_product("rows", &[nrows])?;
    checked_product("columns", &[ncols])?;
    checked_product("entries", &[nrows, per_row])?;
    if per_row > ncols {
        let problem = format!("{per_row} distinct columns a row, but there are only {ncols} columns");
        return Err(Error::InvalidOption(problem));
    }
    from_rows(
        nrows,
        ncols,
        |_| per_row,
        |row, columns, values| {
            let mut random = Random::at(seed, row as u64);
            choose_columns(ncols as u32, columns, &mut random);
            values.fill_with(|| random.value());
        },
    )
}

/// Fills `columns` with distinct numbers below `ncols`, in rising order.
pub(super) fn choose_columns(ncols: u32, columns: &mut [u32], random: &mut Random) {
    // Where most columns are wanted: one pass over all of them, each taken with the probability that leaves every
    // choice equally likely (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
    if columns.len() > ncols as usize / 4 {
        let mut taken = 0;
        for column in 0..ncols {
            if (random.below(ncols - column) as usize) < columns.len() - taken {
                columns[taken] = column;
                taken += 1;
            }
        }
        return;
    }
    draw_distinct(columns, || random.below(ncols));
}

/// Fills `columns` with distinct numbers of those that are drawn, in rising order: sorts them, and draws again what came
/// twice. For few columns of many.
pub(super) fn draw_distinct(columns: &mut [u32], mut draw: impl FnMut() -> u32) {
    let mut distinct = 0;
    while distinct < columns.len() {
        columns[distinct..].fill_with(&mut draw);
        columns.sort_unstable();
        distinct = 1;
        for next in 1..columns.len() {
            if columns[next] != columns[distinct - 1] {
                columns[distinct] = columns[next];
                distinct += 1;
            }
        }
    }
}

/// Generates an R-MAT graph (D. Chakrabarti, Y. Zhan, C. Faloutsos: R-MAT: A Recursive Model for Graph Mining, SDM
/// 2004) with the Graph500 parameters a = 0.57, b = c = 0.19: `2^scale` rows, and `edge_factor * 2^scale` directed
/// edges with duplicates merged and values in (0, 1]. Vertices are not renumbered: heavy rows and columns come first.
///
/// Takes 8 bytes per edge in addition to the matrix, and sorts the edges.
///
/// # Errors
/// [`Error::InvalidOption`] if the number of rows or edges exceeds 32 bits, and [`Error::OutOfMemory`].
pub fn rmat<T: Scalar>(scale: u32, edge_factor: usize, seed: u64) -> Result<CsrMatrix<T>> {
    if scale > 31 {
        let problem = format!("2^{scale} rows, and 32-bit indices reach {}", u32::MAX);
        return Err(Error::InvalidOption(problem));
    }
    let nrows = 1usize << scale;
    let edges = checked_product("edges", &[nrows, edge_factor])?;
    let mut edges = zeros::<u64>(edges)?;
    for_blocks(0..edges.len(), &mut edges, &|places, edges: &mut [u64]| {
        for (place, edge) in places.zip(edges) {
            *edge = rmat_edge(scale, &mut Random::at(seed, place as u64));
        }
    });
    parallel::sort(&mut edges);
    edges.dedup();

    let mut first_edge = zeros::<u32>(nrows + 1)?;
    for edge in &edges {
        first_edge[(edge >> 32) as usize + 1] += 1;
    }
    for row in 0..nrows {
        first_edge[row + 1] += first_edge[row];
    }
    let edges_of = |row: usize| first_edge[row] as usize..first_edge[row + 1] as usize;
    from_rows(
        nrows,
        nrows,
        |row| edges_of(row).len(),
        |row, columns, values| {
            let mut random = Random::at(!seed, row as u64);
            for ((column, value), &edge) in columns.iter_mut().zip(values).zip(&edges[edges_of(row)]) {
                (*column, *value) = (edge as u32, random.value());
            }
        },
    )
}

/// An edge, its row in the upper half and its column in the lower: at each level one quadrant of the matrix is chosen.
fn rmat_edge(scale: u32, random: &mut Random) -> u64 {
    const UPPER_LEFT: u64 = share_of_32_bits(0.57);
    const UPPER: u64 = share_of_32_bits(0.57 + 0.19);
    const ALL_BUT_LOWER_RIGHT: u64 = share_of_32_bits(0.57 + 0.19 + 0.19);
    let (mut edge, mut bits) = (0, 0);
    for level in 0..scale {
        bits = if level % 2 == 0 { random.bits() } else { bits >> 32 };
        let choice = bits & 0xffff_ffff;
        let lower = choice >= UPPER;
        let right = (choice >= UPPER_LEFT) & !lower | (choice >= ALL_BUT_LOWER_RIGHT);
        edge = edge << 1 | u64::from(lower) << 32 | u64::from(right);
    }
    edge
}

const fn share_of_32_bits(share: f64) -> u64 {
    (share * 4_294_967_296.0) as u64
}

/// Generates a matrix like that of a finite-element solid: `nodes` nodes of 3 unknowns each, so `3 nodes` rows, in
/// dense 3 x 3 blocks. A node is connected to itself and to each of the 52 nodes before and after it with probability
/// 1/8, so to 13 on average: about `126 nodes` entries, all within 158 of the diagonal.
///
/// Symmetric. Off-diagonal values are in [-1, 0), and each diagonal value is 1.01 times the sum of the magnitudes of
/// the others in its row: positive definite by diagonal dominance, with a condition number of about 200 at most.
///
/// # Errors
/// [`Error::InvalidOption`] if the number of rows or expected entries exceeds 32 bits, [`Error::InvalidMatrix`] if the
/// actual number of entries does, and [`Error::OutOfMemory`].
pub fn fem3<T: Scalar>(nodes: usize, seed: u64) -> Result<CsrMatrix<T>> {
    const REACH: usize = 52;
    const DOMINANCE: f64 = 1.01;
    const MEAN_PER_NODE: usize = 9 * (1 + 2 * REACH / 8);
    checked_product("entries", &[MEAN_PER_NODE, nodes])?;
    let nrows = 3 * nodes;
    let joined = |node: usize, other: usize| {
        let (first, second) = (node.min(other), node.max(other));
        node == other || Random::at(seed, (first << 8 | (second - first)) as u64).below(8) == 0
    };
    let neighbours = |node: usize| {
        let reach = node.saturating_sub(REACH)..(node + REACH + 1).min(nodes);
        reach.filter(move |&other| joined(node, other))
    };
    from_rows(
        nrows,
        nrows,
        |row| 3 * neighbours(row / 3).count(),
        |row, columns, values| {
            let all_columns = neighbours(row / 3).flat_map(|node| 3 * node..3 * node + 3);
            let mut sum = 0.0;
            let mut diagonal = 0;
            for (entry, column) in all_columns.enumerate() {
                columns[entry] = column as u32;
                if column == row {
                    diagonal = entry;
                } else {
                    let place = (row.min(column) as u64) << 32 | row.max(column) as u64;
                    let size = Random::at(!seed, place).value::<T>();
                    values[entry] = size * T::from_f64(-1.0);
                    sum += size.to_f64();
                }
            }
            values[diagonal] = T::from_f64(DOMINANCE * sum);
        },
    )
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): any place of
/// any seed's sequence can be reached at once, so rows are independent of each other and of the threads that make them.
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The sequence of its own that belongs to `place`.
    pub(super) fn at(seed: u64, place: u64) -> Self {
        let mut of_seed = Self { state: seed };
        let state = of_seed.bits() ^ place;
        let mut of_place = Self { state };
        Self { state: of_place.bits() }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// A number in (0, 1].
    pub(super) fn value<T: Scalar>(&mut self) -> T {
        T::from_f64(((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64)
    }
}
