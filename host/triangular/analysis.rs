//! The analysis of a triangle on a GPU or in the emulator.

use kernels_gpu::{
    row_levels::{
        ANYTHING, COUNTS, CountArgs, DIVISORS, ENTRIES, FROM_BAD_ROW, FindArgs, Key, LEVELS, PlaceArgs, STORED, Step,
        TileArgs, Tiling, grid_size,
    },
    trsv::{BLOCK_SIZE, LANES, NARROW_BLOCK_SIZE},
};

use super::{Diagonal, Triangle, bad_diagonal};
use crate::{
    DeviceVec, Result, Scalar,
    device::{Writable, launch},
    primitives::{bits_below, sort_pairs},
    stored::CsrArrays,
};

/// Up to so many entries of a row in the mean, a row gets the number of lanes in that place of [`LANES`], otherwise the last: these load twice as many at a time, so that
/// few rows wait twice. Rows of one lane need no exchange of sums, and those of stencils differ little in length. Not measured yet.
const MEANS: [u32; 4] = [3, 8, 16, 32];

/// The same for tiles of several levels, whose lanes load half as many more. Not measured yet.
const NARROW_MEANS: [u32; 4] = [4, 16, 32, 64];

/// Blocks look for elements of `x` from so many levels of mean width before their own. In a cube the widest are about twice as wide as the mean.
/// If blocks look from the beginning, solves take up to 5 times as long (H100, driver 580.159.04, 2026-11-26: docs/performance/trsv.md). Other distances have not been tried.
const REACH_OF_LEVELS: u32 = 4;

/// They do so at least from so many tiles before: one for each multiprocessor, about. Not measured yet.
const LEAST_REACH: u32 = 128;

/// The same for tiles of several levels, which follow one another. Not measured yet.
const LEAST_NARROW_REACH: u32 = 8;

/// Of the rows that a tile of several levels has room for, this part is filled on average, which leaves room for wider levels. Other parts have not been tried.
const FILLED: (u64, u64) = (2, 3);

/// What kernels know of a schedule.
#[derive(Debug)]
pub(super) struct OnDevice {
    /// The rows by level; those of a level ascend.
    pub(super) order: DeviceVec<u32>,
    /// Of each row in that order, the first entry of its part without the diagonal, in the upper half, and their number.
    pub(super) spans: DeviceVec<u64>,
    /// The first place of each tile in that order, and the end of the last. The last tiles may be empty: their number is a bound, so that nobody waits for it.
    pub(super) tiles: DeviceVec<u32>,
    pub(super) lanes: u32,
    /// Of tiles that hold several levels.
    pub(super) narrow: Option<Narrow>,
    /// So many tiles before its own, a block begins to look for elements of `x`.
    pub(super) reach: u32,
}

/// What only their kernel knows.
#[derive(Debug)]
pub(super) struct Narrow {
    /// The place of each row.
    pub(super) places: DeviceVec<u32>,
    /// One more than the level of the row in each place.
    pub(super) depths: DeviceVec<u32>,
}

/// The number of levels of a triangle, and the rest. Waits once, for that number.
pub(super) fn analyse<T: Scalar>(
    matrix: &CsrArrays<T, u32>,
    (triangle, diagonal): (Triangle, Diagonal),
    divides: bool,
    diagonals: Option<&mut DeviceVec<u32>>,
) -> Result<(usize, OnDevice)> {
    let (device, rows) = (&matrix.device, matrix.nrows);
    let mut depths = device.zeros::<u32>(rows as usize)?;
    let (mut spans, mut numbers) = (device.scratch::<u64>(rows as usize)?, device.scratch::<u32>(rows as usize)?);
    let mut counts = device.zeros::<u32>(COUNTS)?;
    if rows > 0 {
        let values = matrix.values.read();
        let args = FindArgs {
            rows,
            entries: matrix.nnz,
            upper: u32::from(triangle == Triangle::Upper),
            diagonal: match (diagonal, divides) {
                (Diagonal::Unit, _) => ANYTHING,
                (Diagonal::Stored, false) => STORED,
                (Diagonal::Stored, true) => DIVISORS,
            },
            row_offsets: matrix.row_offsets.readable(device),
            col_indices: matrix.col_indices.readable(device),
            values: values.readable(),
            depths: depths.writable(),
            spans: spans.writable(),
            numbers: numbers.writable(),
            diagonals: diagonals.map(DeviceVec::writable).unwrap_or_default(),
            counts: counts.writable(),
        };
        // SAFETY: a square, canonical matrix, and new arrays, of which depths and counts are zeros; the entry is for `T`.
        unsafe { launch(device, Key { step: Step::Find(T::DTYPE) }.entry(), grid_size(rows), args) }?;
    }
    let counts = counts.to_vec()?;
    if counts[FROM_BAD_ROW] > 0 {
        return Err(bad_diagonal((rows - counts[FROM_BAD_ROW]) as usize));
    }
    let levels = counts[LEVELS];
    let tiling = lanes_and_levels(rows, counts[ENTRIES], levels);
    Ok((levels as usize, place((depths, numbers), &spans, levels, tiling)?))
}

/// The lanes of a row, and the levels of a tile.
fn lanes_and_levels(rows: u32, entries: u32, levels: u32) -> (u32, u32) {
    let mean = entries.div_ceil(rows.max(1));
    let lanes = |means: [u32; 4]| LANES[means.iter().position(|&most| mean <= most).unwrap_or(means.len())];
    let narrow_lanes = lanes(NARROW_MEANS);
    match levels_per_tile(rows, levels, narrow_lanes) {
        1 => (lanes(MEANS), 1),
        levels => (narrow_lanes, levels),
    }
}

/// How many levels of mean width a tile holds; 1 if they are not narrow.
fn levels_per_tile(rows: u32, levels: u32, lanes: u32) -> u32 {
    let room = u64::from(NARROW_BLOCK_SIZE / lanes) * FILLED.0 * u64::from(levels) / FILLED.1;
    (room / u64::from(rows.max(1))).max(1) as u32
}

/// The rows by depth, with all that depends on it, from the depths of the rows, their numbers and spans.
fn place(
    (depths, numbers): (DeviceVec<u32>, DeviceVec<u32>),
    spans: &DeviceVec<u64>,
    levels: u32,
    (lanes, levels_per_tile): (u32, u32),
) -> Result<OnDevice> {
    let (device, rows, is_narrow) = (depths.device().clone(), depths.len() as u32, levels_per_tile > 1);
    let rows_per_tile = if is_narrow { NARROW_BLOCK_SIZE } else { BLOCK_SIZE } / lanes;
    let (depths, order) = sort_pairs(depths, numbers, 0..bits_below(levels + 1))?;
    let mut placed_spans = device.scratch::<u64>(rows as usize)?;
    let mut places = device.scratch::<u32>(if is_narrow { rows as usize } else { 0 })?;
    let mut firsts = device.zeros::<u32>(levels as usize + 1)?;
    if rows > 0 {
        let args = PlaceArgs {
            rows,
            levels,
            depths: depths.readable(),
            order: order.readable(),
            spans: spans.readable(),
            placed_spans: placed_spans.writable(),
            places: if is_narrow { places.writable() } else { Writable::default() },
            firsts: firsts.writable(),
        };
        // SAFETY: depths in their order, of which each from 1 to `levels` is there, and the rows in that order; new arrays.
        unsafe { launch(&device, Key { step: Step::Place }.entry(), grid_size(rows), args) }?;
    }

    let groups = levels.div_ceil(levels_per_tile);
    let mut tiles = device.scratch::<u32>(groups as usize + 1)?;
    let tiling = Tiling { levels, rows_per_tile, levels_per_tile, firsts: firsts.readable() };
    let args = CountArgs { tiling, groups, tiles: tiles.writable() };
    // SAFETY: where levels begin, and a new array.
    unsafe { launch(&device, Key { step: Step::Count }.entry(), grid_size(groups + 1), args) }?;
    let first_tiles = tiles.exclusive_scan()?;

    // A tile has a row at least. Of a group there is one tile, or each of its levels has less than one tile that is not full.
    let bound = rows.min((rows / rows_per_tile).saturating_add(levels));
    let mut tiles = device.scratch::<u32>(bound as usize + 1)?;
    let args = TileArgs {
        tiling: Tiling { levels, rows_per_tile, levels_per_tile, firsts: firsts.readable() },
        groups,
        rows,
        tiles: bound,
        depths: depths.readable(),
        first_tiles: first_tiles.readable(),
        tiles_of_rows: tiles.writable(),
    };
    // SAFETY: as above; there are no more tiles than `bound`.
    unsafe { launch(&device, Key { step: Step::Tile }.entry(), grid_size(rows.max(bound + 1)), args) }?;

    let least = if is_narrow { LEAST_NARROW_REACH } else { LEAST_REACH };
    let reach = (rows / rows_per_tile).div_ceil(levels.max(1)).saturating_mul(REACH_OF_LEVELS).max(least);
    let narrow = is_narrow.then_some(Narrow { places, depths });
    Ok(OnDevice { order, spans: placed_spans, tiles, lanes, narrow, reach })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsrMatrix, Device, conversion::Operand, triangular::Rows};

    /// A matrix of ones with these columns in each row.
    fn pattern(rows: &[Vec<usize>]) -> CsrMatrix<f32> {
        let mut offsets = vec![0u32];
        offsets.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as u32;
            Some(*end)
        }));
        let columns: Vec<u32> = rows.iter().flatten().map(|&column| column as u32).collect();
        let values = vec![1.0; columns.len()];
        CsrMatrix::try_from_csr_data(rows.len(), rows.len(), offsets, columns, values).unwrap()
    }

    fn rows_of(n: usize, has: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
        (0..n).map(|row| (0..n).filter(|&column| has(row, column)).collect()).collect()
    }

    /// A number that depends on two others in no apparent way.
    fn mixed(row: usize, column: usize) -> usize {
        (row * 100_003 + column + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    /// Order, spans and tiles as a host finds them, one row after another.
    fn expected(
        matrix: &CsrMatrix<f32>,
        triangle: Triangle,
        (rows_per_tile, levels_per_tile): (usize, u32),
    ) -> (Vec<u32>, Vec<u64>, Vec<u32>) {
        let rows = Rows::on_cpu(matrix);
        let levels = rows.levels(triangle).unwrap();
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_by_key(|&row| levels[row as usize]);
        let span = |&row: &u32| {
            let span = rows.span(row as usize, triangle);
            (span.start as u64) << 32 | span.len() as u64
        };
        let mut tiles = vec![];
        for (place, &row) in order.iter().enumerate() {
            let level = levels[row as usize];
            let first_of = |level: u32| order.partition_point(|&other| levels[other as usize] < level);
            let begin = level / levels_per_tile * levels_per_tile;
            let is_one = first_of(begin + levels_per_tile) - first_of(begin) <= rows_per_tile;
            if (place - first_of(if is_one { begin } else { level })).is_multiple_of(rows_per_tile) {
                tiles.push(place as u32);
            }
        }
        tiles.push(rows.len() as u32);
        (order.clone(), order.iter().map(span).collect(), tiles)
    }

    fn check(what: &str, rows: &[Vec<usize>]) {
        let matrix = pattern(rows);
        for device in [Device::emulated(0), Device::emulated(1), Device::emulated(2)] {
            let Operand::Device(arrays) = device.upload(&matrix).unwrap().operand().unwrap() else {
                panic!("the emulator's memory")
            };
            for triangle in [Triangle::Lower, Triangle::Upper] {
                let mut diagonals = device.upload_vec(&vec![u32::MAX; rows.len()]).unwrap();
                let (levels, found) =
                    analyse(&arrays, (triangle, Diagonal::Unit), false, Some(&mut diagonals)).unwrap();
                let of_rows = Rows::on_cpu(&matrix).levels(triangle).unwrap();
                let number = of_rows.iter().max().map_or(0, |&level| level as usize + 1);
                assert_eq!(levels, number, "{what}, {triangle:?}");
                let block = if found.narrow.is_some() { NARROW_BLOCK_SIZE } else { BLOCK_SIZE };
                let levels_per_tile = match found.narrow {
                    Some(_) => levels_per_tile(rows.len() as u32, levels as u32, found.lanes),
                    None => 1,
                };
                let tiling = ((block / found.lanes) as usize, levels_per_tile);
                let (order, spans, tiles) = expected(&matrix, triangle, tiling);
                if let Some(Narrow { places, depths }) = found.narrow {
                    let (places, depths) = (places.to_vec().unwrap(), depths.to_vec().unwrap());
                    for (place, &row) in order.iter().enumerate() {
                        let depth = of_rows[row as usize] + 1;
                        assert_eq!((places[row as usize], depths[place]), (place as u32, depth), "{what}, row {row}");
                    }
                }
                assert_eq!(found.order.to_vec().unwrap(), order, "{what}, {triangle:?}");
                assert_eq!(found.spans.to_vec().unwrap(), spans, "{what}, {triangle:?}");
                let found_tiles = found.tiles.to_vec().unwrap();
                let (first, rest) = found_tiles.split_at(tiles.len());
                assert_eq!(first, tiles, "{what}, {triangle:?}");
                assert!(rest.iter().all(|&end| end == rows.len() as u32), "{what}, {triangle:?}: {rest:?}");
                for (row, &entry) in diagonals.to_vec().unwrap().iter().enumerate() {
                    let split = Rows::on_cpu(&matrix).split(row) as u32;
                    let expected = if rows[row].contains(&row) { split } else { u32::MAX };
                    assert_eq!(entry, expected, "{what}, {triangle:?}, row {row}");
                }
            }
        }
    }

    #[test]
    fn order_and_tiles_are_those_of_the_host() {
        for n in 0..4 {
            check("dense and small", &rows_of(n, |_, _| true));
            check("no entries", &rows_of(n, |_, _| false));
        }
        check("a diagonal", &rows_of(400, |row, column| row == column));
        check("no entries, more than a tile", &rows_of(130, |_, _| false));
        check("a dense matrix", &rows_of(150, |_, _| true));
        check("a chain", &rows_of(300, |row, column| row.abs_diff(column) <= 1));
        check("every second row", &rows_of(200, |row, column| row.abs_diff(column) == 2));
        check("a grid", &rows_of(240, |row, column| matches!(row.abs_diff(column), 0 | 1 | 16)));
        for seldom in [3, 9, 40, 160] {
            check("random", &rows_of(330, |row, column| mixed(row, column).is_multiple_of(seldom)));
        }
        // The last row and the last column are full.
        check("an arrow", &rows_of(280, |row, column| row == column || row == 279 || column == 279));
    }

    #[test]
    fn the_first_bad_row_is_named() {
        let mut rows = rows_of(200, |row, column| row == column);
        rows[70] = vec![69, 71];
        rows[150] = vec![];
        let device = Device::emulated(1);
        let Operand::Device(arrays) = device.upload(&pattern(&rows)).unwrap().operand().unwrap() else {
            panic!("the emulator's memory")
        };
        for triangle in [Triangle::Lower, Triangle::Upper] {
            for divides in [false, true] {
                let error = analyse(&arrays, (triangle, Diagonal::Stored), divides, None).unwrap_err().to_string();
                assert!(error.contains("row 70 of a triangle"), "{error}");
            }
        }
    }
}
