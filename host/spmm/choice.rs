//! The column tile of a group of GPU threads, and the threshold for rows too long for one group.

use kernels_gpu::{
    DType,
    spmm_rows::{MAX_PIECE, Tile},
};

use super::SpmmOptions;
use crate::{Error, Result, Structure};

/// Concurrent threads of a large GPU: with 44 registers each, and enough memory accesses in flight.
const FILL: usize = 132 * 1536;

/// Returns the maximum number of columns that a lane loads at a time. `alignment` is a common divisor of the columns,
/// and of all distances and offsets in elements.
pub(super) fn widest_vector(dtype: DType, alignment: usize) -> u32 {
    let most = match dtype {
        DType::F32 => 4,
        DType::F64 => 2,
    };
    let divides = |vector: &u32| alignment.is_multiple_of(*vector as usize);
    [4, 2, 1].into_iter().filter(|&vector| vector <= most).find(divides).expect("1 divides everything")
}

/// Returns the tile for `cols` columns: with the forced lanes and vectors per lane, if any, otherwise the one with the
/// least work among those of at most `widest` columns, if any. Work is counted in vectors per entry, including idle
/// lanes; reading the entry again for another tile counts as 8 vectors.
///
/// On an H200 (driver 580, 2026-11-21), by a prototype in CUDA C, f32, 128 columns, us: R-MAT 20/16 by 16 lanes with 2 vectors
/// 1066, by 32 lanes with 1 1059; 27-point stencil by 16 with 2 732, by 8 with 2, in two tiles, 786.
pub(super) fn tile(
    tiles: impl Iterator<Item = Tile> + Clone,
    vector: u32,
    cols: u32,
    widest: u32,
    forced: Option<(u32, u32)>,
) -> Result<Tile> {
    let of_vector = || tiles.clone().filter(|tile| tile.vector == vector);
    if let Some((lanes, coarsening)) = forced {
        let wanted = Tile { vector, lanes, coarsening };
        return of_vector().find(|&tile| tile == wanted).ok_or_else(|| {
            let exist: Vec<_> = of_vector().map(|tile| format!("{} x {}", tile.lanes, tile.coarsening)).collect();
            let exist = exist.join(", ");
            Error::InvalidOption(format!(
                "a tile of {lanes} lanes x {coarsening} vectors of {vector}: there are {exist}"
            ))
        });
    }
    let work = |tile: Tile| u64::from(tile.count(cols)) * u64::from(tile.lanes * tile.coarsening + 8);
    // A too wide tile is worse than any work.
    let cost = |tile: Tile| (tile.columns().max(widest), work(tile), tile.count(cols));
    Ok(of_vector().min_by_key(|&tile| cost(tile)).expect("tiles for every vector"))
}

/// Returns the widest tile, in bytes of a row of `B`, for which the rows of `B` in use at a time stay in the L2 cache,
/// as far as the structure shows.
///
/// Rows are processed in order, so those in use span the bandwidth. If even a narrow tile of these is too much, columns
/// are either close together anyway, or a few of them are used often, or all of them at random: then one cache line is
/// enough, because the cache holds more of a narrower tile.
///
/// If long rows have similar lengths, the groups traverse the columns in step, and find their rows of `B` in the L1
/// cache. If lengths differ, they do not; then it is best to keep nearly all of `B` in the L2 cache.
///
/// On an H200 (driver 580, 2026-11-21), f32, us with tiles of 128 / 256 / 512 / 1024 bytes: 7-point stencil 160^3, 256 columns -
/// / 3009 / 4469 / 4220; 27-point 100^3 - / 1676 / 1554 / 1535; 16 entries a row at random, 128 columns 1814 / 2012 / 2031 / -;
/// R-MAT 20/16, 256 columns - / - / 2325 / 2600; 4267 rows of 472, 256 columns 225 / 186 / 171 (rows cut) / 114; stand-ins for graphs, 256
/// columns: ddi 218 / 204 / 215 / 228, protein 9126 / 8930 / 9023 / 12016, reddit 13449 / 13490 / 16408 / -, yelp 3219 / 3083 /
/// 2923 / -. Not all in one run, nor with the same registers.
pub(super) fn widest_tile(structure: &Structure, element_bytes: usize) -> u32 {
    const CACHE: usize = 16 << 20;
    const CACHES: usize = 64 << 20;
    let span = structure.lower_bandwidth + structure.upper_bandwidth + 1;
    let fits = [1024, 512, 256].into_iter().find(|bytes| span.saturating_mul(*bytes) <= CACHE);
    let skewed = structure.max_row as f64 > 8.0 * structure.mean_row();
    let out_of_step = structure.mean_row() >= 64.0 && structure.max_row as f64 > 2.0 * structure.mean_row();
    let bytes = match fits {
        _ if out_of_step && structure.ncols.saturating_mul(256) <= CACHES => 256,
        Some(bytes) => bytes,
        None if structure.locality() >= 0.5 => 1024,
        None if skewed => 512,
        None => 128,
    };
    (bytes / element_bytes) as u32
}

/// Returns how many rows ahead a group prefetches into the L2 cache what another group will load of `A`: more than a
/// GPU processes at a time.
///
/// On an H200 (driver 580, 2026-11-21), f32, us for 0 / 4000 / 12 000 / 24 000 rows: 5-point stencil, 32 columns 486 / 467 / 444 /
/// 443, 128 columns 1504 / 1444 / 1447 / 1447; NotreDame_www, 128 columns 112 / 109 / 108 / 107; 27-point stencil 746 / 722 / 724 / 754.
pub(super) fn ahead(tile: Tile) -> u32 {
    FILL as u32 / tile.lanes
}

/// Returns the distance from a row of `A` to the row of `B` that its group prefetches into the L2 cache: beyond the
/// upper band, where no earlier row has loaded anything. 0, for no prefetch, if the rows in between would take too much
/// of the cache.
///
/// On an H200 (driver 580, 2026-11-21), f32, us without / with: 5-point stencil, 32 columns 452 / 430, 128 columns 1447 / 1388, 256
/// columns 2708 / 2762; 7-point stencil, 64 columns 737 / 765; 27-point stencil, 128 columns 717 / 717.
pub(super) fn b_ahead(structure: &Structure, tile: Tile, element_bytes: usize) -> u32 {
    const CACHE: usize = 8 << 20;
    let beyond = ahead(tile) as usize / 2;
    let span = structure.lower_bandwidth + structure.upper_bandwidth + beyond;
    let fits = span.saturating_mul(tile.columns() as usize * element_bytes) <= CACHE;
    if fits { u32::try_from(structure.upper_bandwidth + beyond).unwrap_or(0) } else { 0 }
}

/// Returns the threshold for long rows, which is also the size of their pieces. It is small enough that the pieces fill
/// a large GPU several times over and none delays the end, but large enough to be worthwhile. If no row is much longer
/// than the others, and there are enough of them, no row is split.
///
/// On an H200 (driver 580, 2026-11-21), f32, us with pieces of 32 / 64 / 128 / 256 / 512 entries: R-MAT 17/8, 16 columns 27 / 25 / - / - / -,
/// 128 columns - / 77 / 82 / - / -; R-MAT 20/16, 128 columns - / 1149 / 1098 / - / 1078; 4267 rows of 472, 16 columns 46 / 34 / 31 / - / -;
/// stand-ins for graphs, 32 columns: ddi 44 / 42 / 38 / 49 / 84, arxiv 39 / 41 / 46 / 56 / -, protein - / 1356 / 1290 / 1253 / 1184;
/// 256 columns: ddi 241 / 223 / 218 / 220 / 237, arxiv 221 / 222 / 233 / 260 / -, protein - / 10202 / 9529 / 9318 / 9135.
pub(super) fn split_threshold(structure: &Structure, tile: Tile, cols: u32) -> u32 {
    const MIN: usize = 16;
    const MAX: usize = 512;
    let groups = FILL / tile.lanes as usize;
    let tiles = tile.count(cols) as usize;
    let rows_fill = structure.nrows.saturating_mul(tiles) >= groups / 2;
    if rows_fill && structure.max_row as f64 <= 2.0 * structure.mean_row() {
        return MAX_PIECE;
    }
    let to_fill = structure.nnz.saturating_mul(tiles) / groups;
    (to_fill / 8).clamp(to_fill.clamp(MIN, 128), MAX).next_power_of_two() as u32
}

/// Returns options that force each tile that is not much wider than the columns, with a quarter, one and four times the
/// threshold that suits the matrix; options that are already forced stay.
pub(super) fn candidates(
    vector: u32,
    cols: u32,
    options: &SpmmOptions,
    structure: &Structure,
    tiles: impl Iterator<Item = Tile>,
) -> Vec<SpmmOptions> {
    let agrees = |tile: &Tile| match options.tile {
        Some(forced) => (tile.lanes, tile.coarsening) == forced,
        None => tile.vector == vector && tile.columns() < cols.max(vector).saturating_mul(2) && tile.count(cols) <= 16,
    };
    let mut candidates = vec![];
    for tile in tiles.filter(|tile| tile.vector == vector).filter(agrees) {
        let suiting = split_threshold(structure, tile, cols);
        let mut lengths = options
            .split_threshold
            .map_or(vec![suiting, suiting / 4, suiting.saturating_mul(4).min(MAX_PIECE)], |forced| vec![forced]);
        // One of those that split no row is enough.
        lengths.sort_unstable();
        let enough = lengths.iter().position(|&length| length as usize >= structure.max_row);
        lengths.truncate(enough.map_or(lengths.len(), |position| position + 1));
        let forced = |length| options.clone().tile(tile.lanes, tile.coarsening).split_threshold(length);
        candidates.extend(lengths.into_iter().map(forced));
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsrMatrix, spmm::csr::tiles};

    fn chosen(dtype: DType, vector: u32, cols: u32) -> (u32, u32) {
        let tile = tile(tiles(dtype), vector, cols, u32::MAX, None).unwrap();
        (tile.lanes, tile.coarsening)
    }

    #[test]
    fn vectors_divide_columns_and_distances() {
        assert_eq!([1, 2, 3, 4, 6, 8, 12].map(|a| widest_vector(DType::F32, a)), [1, 2, 1, 4, 2, 4, 4]);
        assert_eq!([1, 2, 3, 4].map(|a| widest_vector(DType::F64, a)), [1, 2, 1, 2]);
    }

    #[test]
    fn tiles_fit_the_columns() {
        let f32_by_4 = [4, 8, 16, 32, 64, 128, 256, 512, 1000].map(|cols| chosen(DType::F32, 4, cols));
        assert_eq!(f32_by_4, [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (16, 2), (32, 2), (32, 2), (32, 2)]);
        // 40 vectors: one tile, with lanes idle. 65: three tiles of 32, not two of 64.
        assert_eq!([160, 260].map(|cols| chosen(DType::F32, 4, cols)), [(32, 2), (16, 2)]);
        assert_eq!(
            [3, 7, 31, 33, 127].map(|cols| chosen(DType::F32, 1, cols)),
            [(4, 1), (8, 1), (32, 1), (32, 2), (32, 4)]
        );
        assert_eq!([16, 32, 64, 128].map(|cols| chosen(DType::F64, 2, cols)), [(8, 1), (16, 1), (16, 2), (32, 2)]);
    }

    #[test]
    fn a_tile_without_a_kernel_is_an_error() {
        assert_eq!(tile(tiles(DType::F32), 4, 64, 64, Some((32, 2))).unwrap().columns(), 256);
        let error = tile(tiles(DType::F64), 2, 64, 64, Some((3, 1))).unwrap_err().to_string();
        assert!(
            error.starts_with("invalid option: a tile of 3 lanes x 1 vectors of 2: there are 1 x 1, 4 x 1"),
            "{error}"
        );
    }

    fn structure(nrows: usize, nnz: usize) -> Structure {
        let matrix = CsrMatrix::<f32>::try_from_csr_data(0, 0, vec![0u32], vec![], vec![]).unwrap();
        let mut structure = matrix.structure();
        (structure.nrows, structure.nnz) = (nrows, nnz);
        structure
    }

    #[test]
    fn rows_are_cut_where_the_gpu_would_wait_for_them() {
        let tile = Tile { vector: 4, lanes: 8, coarsening: 1 };
        // A small graph, a large one, few long rows, and many rows of one length.
        let skewed = |nrows, nnz| Structure { max_row: nnz / 10, ..structure(nrows, nnz) };
        assert_eq!(split_threshold(&skewed(2708, 13_264), tile, 32), 16);
        assert_eq!(split_threshold(&skewed(169_343, 1_166_243), tile, 32), 64);
        assert_eq!(split_threshold(&skewed(1 << 20, 16 << 20), tile, 32), 128);
        assert_eq!(split_threshold(&skewed(1 << 17, 75 << 20), tile, 32), 512);
        assert_eq!(split_threshold(&structure(4267, 4267 * 472), tile, 32), 128);
        assert_eq!(split_threshold(&structure(27_000, 729_000), tile, 32), MAX_PIECE);
    }

    #[test]
    fn tiles_are_as_wide_as_the_cache_allows() {
        let banded = |nrows: usize, bandwidth| {
            let mut structure = structure(nrows, 7 * nrows);
            (structure.lower_bandwidth, structure.upper_bandwidth, structure.max_row) = (bandwidth, bandwidth, 7);
            structure
        };
        assert_eq!([2048, 10_000, 25_600].map(|width| widest_tile(&banded(1 << 20, width), 4)), [256, 128, 64]);
        assert_eq!(widest_tile(&banded(1 << 20, 10_000), 8), 64);
        // No band: at random, skewed, and near one another.
        let mut random = banded(1 << 20, 1 << 20);
        assert_eq!(widest_tile(&random, 4), 32);
        random.max_row = 1000;
        assert_eq!(widest_tile(&random, 4), 128);
        random.near_entries = 4 << 20;
        assert_eq!(widest_tile(&random, 4), 256);
        let of_128 = Tile { vector: 4, lanes: 16, coarsening: 2 };
        assert_eq!(b_ahead(&banded(1 << 20, 2048), of_128, 4), 2048 + 6336);
        assert_eq!(b_ahead(&banded(1 << 20, 10_000), of_128, 4), 0);
        // Many entries a row: in step, out of step, and too many rows of B for the cache.
        let many =
            |nrows: usize, longest| Structure { max_row: longest, ncols: nrows, ..structure(nrows, 100 * nrows) };
        assert_eq!([100, 300].map(|longest| widest_tile(&many(4000, longest), 4)), [256, 64]);
        assert_eq!(widest_tile(&Structure { upper_bandwidth: 1 << 20, ..many(1 << 20, 900) }, 4), 128);
        let narrowed = |cols| tile(tiles(DType::F32), 4, cols, 32, None).unwrap().columns();
        assert_eq!([16, 64, 256].map(narrowed), [16, 32, 32]);
    }
}
