//! Aggregates of the rows of a matrix, by a maximal independent set at distance 2.

use kernels_gpu::amg_aggregates::{
    ADDED_UP, BeginArgs, DecideArgs, GONE, Graph, JoinArgs, Key, NONE, NearestArgs, OUT, Operation, ROOT, RestArgs,
    RootsArgs, UNDECIDED, better, grid_size, lanes, least, number, rule,
};

use super::strength::csr;
use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{KernelLaunch, launch},
    parallel::for_blocks,
    primitives::row_offsets,
    stored::{Csr, CsrArrays},
};

/// Rounds, at most: in each at least one vertex is decided, and about half of them.
const MAX_ROUNDS: u32 = 1000;

/// Rounds that are queued before the host looks whether there have to be more.
const AT_A_TIME: usize = 3;

/// The aggregate of each row, and which rows have one.
pub(crate) struct Aggregates {
    /// The number of the aggregate; [`NONE`] for a row that has none.
    pub(super) of_rows: DeviceVec<u32>,
    /// 1 for a row that has an aggregate, otherwise 0.
    placed: DeviceVec<u32>,
    /// How many aggregates there are.
    pub(crate) count: u32,
}

impl Aggregates {
    /// Along the entries of a square matrix. Rows without an off-diagonal entry get none. On the finest level, aggregates of long rows are larger.
    pub(crate) fn of<T: Scalar>(s: &DeviceMatrix<T>, is_finest: bool) -> Result<Self> {
        if s.nrows() > 1 << 31 {
            return Err(Error::Unsupported(format!("aggregates of {} rows: more than 2^31", s.nrows())));
        }
        match csr(s) {
            Csr::Host(matrix) => on_cpu(s.device(), matrix, is_finest),
            Csr::Device(arrays) => on_gpu(arrays, is_finest),
        }
    }

    /// The matrix with a 1 in each row that has an aggregate, in the aggregate's column.
    pub(crate) fn tentative<T: Scalar>(self, device: &Device) -> Result<DeviceMatrix<T>> {
        let (offsets, entries) = row_offsets::<u32>(&self.placed)?;
        let (n, entries) = (self.of_rows.len(), entries as usize);
        let columns = if entries == n { self.of_rows } else { self.of_rows.select(&self.placed)? };
        let ones = device.filled(entries, T::from_f64(1.0))?;
        if device.is_cpu() {
            let (offsets, columns, values) = (offsets.to_vec()?, columns.to_vec()?, ones.to_vec()?);
            // SAFETY: the offsets count the rows that have an aggregate, which are below the number of aggregates.
            let matrix =
                unsafe { CsrMatrix::from_csr_data_unchecked(n, self.count as usize, offsets, columns, values) };
            return Ok(DeviceMatrix::of_host_csr(device, matrix));
        }
        let size = (n as u32, self.count, entries as u32);
        // SAFETY: as above, and a row has one entry at most.
        let arrays = unsafe { CsrArrays::of_vectors(size, offsets, columns, ones, Some(true)) };
        Ok(DeviceMatrix::of_csr(arrays))
    }
}

/// The rules of the two passes.
fn rules(is_finest: bool) -> [u32; 2] {
    [rule::ONE, if is_finest { rule::MOST_OF_MANY } else { rule::HALF }]
}

fn on_gpu<T: Scalar>(arrays: &CsrArrays<T, u32>, is_finest: bool) -> Result<Aggregates> {
    let (device, rows) = (&arrays.device, arrays.nrows);
    let n = rows as usize;
    if n == 0 {
        return Ok(Aggregates { of_rows: device.zeros(0)?, placed: device.zeros(0)?, count: 0 });
    }
    let lanes = lanes(arrays.nnz, rows);
    let entry = |operation| (Key { operation, lanes }.entry(), grid_size(rows, lanes));
    let (mut states, mut nearest, mut joined, mut count) =
        (device.scratch::<u32>(n)?, device.scratch::<u32>(n)?, None::<DeviceVec<u32>>, 0);
    let mut begun = [0; MAX_ROUNDS as usize + 1];
    begun[0] = 1;
    for rule in rules(is_finest) {
        let before = || joined.as_ref().map(DeviceVec::readable).unwrap_or_default();
        let (kernel, blocks) = entry(Operation::Begin);
        let args = BeginArgs { rule, joined: before(), states: states.writable(), graph: graph(arrays) };
        // SAFETY: a valid, square matrix, here and below, and an element for each row.
        unsafe { launch(device, kernel, blocks, args) }?;
        let mut undecided = device.upload_vec(&begun)?;
        for first in (0..MAX_ROUNDS).step_by(AT_A_TIME) {
            let next = (first + AT_A_TIME as u32).min(MAX_ROUNDS);
            for round in first..next {
                let (kernel, blocks) = entry(Operation::Nearest);
                let args = NearestArgs {
                    round,
                    undecided: undecided.readable(),
                    states: states.readable(),
                    nearest: nearest.writable(),
                    graph: graph(arrays),
                };
                // SAFETY: as above.
                unsafe { launch(device, kernel, blocks, args) }?;
                let (kernel, blocks) = entry(Operation::Decide);
                let args = DecideArgs {
                    round,
                    nearest: nearest.readable(),
                    states: states.writable(),
                    undecided: undecided.writable(),
                    graph: graph(arrays),
                };
                // SAFETY: as above, and a word for each round and one more.
                unsafe { launch(device, kernel, blocks, args) }?;
            }
            if undecided.slice(next as usize..=next as usize)?.to_vec()? == [0] {
                break;
            }
        }
        let mut flags = device.scratch(n)?;
        let args = RootsArgs { rows, states: states.readable(), flags: flags.writable() };
        let kernel = Key { operation: Operation::Roots, lanes: 1 }.entry();
        // SAFETY: as above.
        unsafe { launch(device, kernel, grid_size(rows, 1), args) }?;
        let (numbers, roots) = row_offsets::<u32>(&flags)?;
        let mut next = flags;
        let (kernel, blocks) = entry(Operation::Join);
        let args = JoinArgs {
            first: count,
            numbers: numbers.readable(),
            joined: before(),
            aggregates: next.writable(),
            graph: graph(arrays),
        };
        // SAFETY: as above.
        unsafe { launch(device, kernel, blocks, args) }?;
        (joined, count) = (Some(next), count + roots as u32);
    }
    let (joined, mut of_rows, mut placed) = (joined.expect("two passes"), nearest, states);
    let values = arrays.values.read();
    let args = RestArgs {
        values: values.readable(),
        joined: joined.readable(),
        aggregates: of_rows.writable(),
        placed: placed.writable(),
        graph: graph(arrays),
    };
    let (kernel, blocks) = entry(Operation::Rest(T::DTYPE));
    // SAFETY: as above; the entry is for `T`.
    unsafe { launch(device, kernel, blocks, args) }?;
    Ok(Aggregates { of_rows, placed, count })
}

fn graph<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Graph<KernelLaunch<'_>> {
    Graph {
        rows: arrays.nrows,
        entries: arrays.nnz,
        row_offsets: arrays.row_offsets.readable(&arrays.device),
        col_indices: arrays.col_indices.readable(&arrays.device),
    }
}

fn on_cpu<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>, is_finest: bool) -> Result<Aggregates> {
    let n = matrix.nrows();
    let neighbours = |row: usize| matrix.row(row).0.iter().map(|&column| column as usize);
    let mut joined = vec![NONE; n];
    let mut count = 0;
    for rule in rules(is_finest) {
        // Of those without an aggregate, who may be a root.
        let is_free = |vertex: usize| joined[vertex] == NONE;
        let mut states = vec![0; n];
        for_blocks(0..n, &mut states, &|rows, states: &mut [u32]| {
            for (row, state) in rows.zip(states) {
                let all = neighbours(row).filter(|&vertex| vertex != row);
                let free = all.clone().filter(|&vertex| is_free(vertex)).count() as u32;
                let may = if free >= least(rule, all.count() as u32) { UNDECIDED } else { OUT };
                *state = if is_free(row) { may } else { GONE };
            }
        });
        independent(matrix, &mut states);
        let mut numbers = vec![NONE; n];
        for (number, &state) in numbers.iter_mut().zip(&states) {
            if state == ROOT {
                *number = count;
                count += 1;
            }
        }
        let mut next = vec![NONE; n];
        for_blocks(0..n, &mut next, &|rows, next: &mut [u32]| {
            for (row, next) in rows.zip(next) {
                *next = joined[row];
                if *next == NONE {
                    *next = if numbers[row] != NONE {
                        numbers[row]
                    } else {
                        neighbours(row).map(|vertex| numbers[vertex]).min().unwrap_or(NONE)
                    };
                }
            }
        });
        joined = next;
    }
    let mut of_rows = vec![0; n];
    for_blocks(0..n, &mut of_rows, &|rows, of_rows: &mut [u32]| {
        for (row, aggregate) in rows.zip(of_rows) {
            *aggregate = if joined[row] == NONE { strongest(matrix, row, &joined) } else { joined[row] };
        }
    });
    let placed: Vec<u32> = of_rows.iter().map(|&aggregate| u32::from(aggregate != NONE)).collect();
    Ok(Aggregates { of_rows: device.upload_vec(&of_rows)?, placed: device.upload_vec(&placed)?, count })
}

/// Decides who is a root, of the undecided ones.
fn independent<T: Scalar>(matrix: &CsrMatrix<T>, states: &mut [u32]) {
    let n = states.len();
    let neighbours = |row: usize| matrix.row(row).0.iter().map(|&column| column as usize);
    let mut nearest = vec![0; n];
    for round in 0..MAX_ROUNDS {
        let number = |vertex: usize| number(vertex as u32, states[vertex], round);
        for_blocks(0..n, &mut nearest, &|rows, nearest: &mut [u32]| {
            for (row, nearest) in rows.zip(nearest) {
                let is_gone = states[row] == GONE;
                *nearest = if is_gone { 0 } else { neighbours(row).map(number).fold(number(row), u32::max) };
            }
        });
        for_blocks(0..n, states, &|rows, states: &mut [u32]| {
            for (row, state) in rows.zip(states).filter(|(_, state)| **state == UNDECIDED) {
                let greatest = neighbours(row).map(|vertex| nearest[vertex]).fold(nearest[row], u32::max);
                if greatest == ROOT {
                    *state = OUT;
                } else if greatest == self::number(row as u32, UNDECIDED, round) {
                    *state = ROOT;
                }
            }
        });
        if !states.contains(&UNDECIDED) {
            break;
        }
    }
}

/// The neighbouring aggregate that a row's entries are largest for in all, or none.
fn strongest<T: Scalar>(matrix: &CsrMatrix<T>, row: usize, joined: &[u32]) -> u32 {
    let (columns, values) = matrix.row(row);
    let entries = || columns.iter().zip(values).map(|(&column, value)| (joined[column as usize], value.to_f64().abs()));
    let mut best = (-1.0, NONE);
    for (aggregate, magnitude) in entries().filter(|(aggregate, _)| *aggregate != NONE) {
        let is_added_up = columns.len() <= ADDED_UP as usize;
        let sum =
            || entries().filter(|(other, _)| *other == aggregate).fold(0.0, |sum, (_, magnitude)| sum + magnitude);
        best = better(best, (if is_added_up { sum() } else { magnitude }, aggregate));
    }
    best.1
}
