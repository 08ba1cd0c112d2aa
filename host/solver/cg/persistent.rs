//! Iterations by cooperative launches of the kernel family `cg_persistent`.

use std::sync::Arc;

use kernels_gpu::{
    Entry,
    args::Arguments,
    cg_persistent::{
        Args, BLOCK_SIZE, Key, MAX_BLOCKS, MAX_PLACES, Reductions, SHARE_NUMBERS, STATIC_SHARED_BYTES,
        bytes_of_two_entries, numbers, slot_words, vector_bytes, vectors, words_of_row,
    },
};

use super::workspace::{Workspace, Z};
use crate::{
    DeviceMatrix, KernelChoice, Lanes, Result, Scalar,
    device::{Buffer, KernelLaunch, Readable, Writable},
    stored::{Csr, CsrArrays},
};

/// The maximum number of iterations per launch. The cost of a launch, mostly loading the matrix, is the time of a few
/// iterations.
const ITERATIONS: u32 = 256;

/// If more bytes of the matrix than these do not fit in shared memory, separate kernels are faster, because the L2
/// cache no longer holds what an iteration reads.
pub(super) const MAX_STREAMED: usize = 24 << 20;

/// Entries and vector elements that justify another block, given its cost in each exchange.
const WORK_OF_BLOCK: usize = 4096;

/// The weight of a row in addition to its entries.
const WORK_OF_ROW: usize = 4;

/// A matrix whose rows are distributed over blocks.
#[derive(Debug)]
pub(super) struct Persistent<'a, T> {
    csr: &'a Arc<CsrArrays<T, u32>>,
    reductions: Reductions,
    entry: &'static Entry,
    blocks: u32,
    shares: Buffer<u32>,
    columns: Buffer<u32>,
    halo: Buffer<u32>,
    words: Buffer<u64>,
    slots: Buffer<u64>,
    /// The number of the next launch's first exchange.
    epoch: u32,
    shared_bytes: u32,
    /// Entries kept in shared memory.
    cached: usize,
}

impl<'a, T: Scalar> Persistent<'a, T> {
    /// How many iterations [`advance`](Self::advance) queues.
    pub(super) const AT_A_TIME: usize = ITERATIONS as usize;

    /// Succeeds if the matrix is in CSR on a real or emulated GPU whose shared memory holds the vectors, and all of the
    /// matrix except `most_streamed` bytes.
    pub(super) fn new(
        matrix: &'a DeviceMatrix<T>,
        reductions: Reductions,
        lanes: Lanes,
        most_streamed: usize,
    ) -> Result<Option<Self>> {
        let Some(Csr::Device(csr)) = matrix.csr() else { return Ok(None) };
        let device = &csr.device;
        let element_bytes = size_of::<T>() as u32;
        let shared_bytes = device.shared_bytes() - STATIC_SHARED_BYTES;
        let work = csr.nnz as usize + WORK_OF_ROW * csr.nrows as usize;
        let most = device.multiprocessors().min(MAX_BLOCKS);
        let (rows, entries) = (csr.nrows as usize, csr.nnz as usize);
        let bytes_of_row = vectors(reductions).0 as usize * size_of::<T>();
        if !may_fit(rows, entries, bytes_of_row, size_of::<T>(), most as usize * shared_bytes as usize, most_streamed) {
            return Ok(None);
        }
        let blocks = (work / WORK_OF_BLOCK).clamp(1, most as usize) as u32;
        let offsets = csr.row_offsets.to_vec(device)?;
        let shares = Shares::new(&offsets, &csr.col_indices.to_vec(device)?, &share_rows(&offsets, blocks));
        let mut cached = 0;
        for share in shares.numbers.chunks(SHARE_NUMBERS) {
            let (rows, entries, halo) = (share[1], share[3], share[5]);
            if rows.saturating_add(halo) > MAX_PLACES {
                return Ok(None);
            }
            let of_vectors = vector_bytes(reductions, rows, halo, element_bytes);
            if of_vectors > shared_bytes {
                return Ok(None);
            }
            let room = (shared_bytes - of_vectors) / bytes_of_two_entries(element_bytes) * 2;
            cached += entries.min(room) as usize;
        }
        if streamed_bytes(entries, cached, size_of::<T>()) > most_streamed {
            return Ok(None);
        }
        let lanes = match lanes {
            Lanes::Fixed(lanes) => lanes,
            Lanes::Auto => lanes_for(csr.nrows.div_ceil(blocks), csr.nnz / csr.nrows.max(1)),
        };
        let entry = Key { reductions, dtype: T::DTYPE, lanes }.entry();
        let sets = if reductions == Reductions::One { 2 } else { 1 };
        Ok(Some(Self {
            csr,
            reductions,
            entry,
            blocks,
            shares: Buffer::upload(device, &shares.numbers)?,
            columns: Buffer::upload(device, &shares.columns)?,
            halo: Buffer::upload(device, &shares.halo)?,
            words: Buffer::zeros(device, sets * words_of_row(size_of::<T>()) * csr.nrows as usize)?,
            slots: Buffer::zeros(device, slot_words(blocks))?,
            epoch: 1,
            shared_bytes,
            cached,
        }))
    }

    pub(super) fn describe(&self) -> KernelChoice {
        let percent = 100 * self.cached / (self.csr.nnz as usize).max(1);
        let reason = format!(
            "up to {ITERATIONS} iterations a launch{}, by {} blocks; the vectors and {percent}% of the matrix stay in shared memory",
            if self.reductions == Reductions::One { ", with one reduction each" } else { "" },
            self.blocks
        );
        KernelChoice { kernel: self.entry.name.into(), reason }
    }

    /// Makes launches request a wrong number of blocks.
    #[cfg(test)]
    pub(super) fn need_blocks(&mut self, blocks: u32) {
        self.blocks = blocks;
    }

    /// Queues some iterations, and returns how many.
    pub(super) fn advance(&mut self, workspace: &mut Workspace<T>) -> Result<usize> {
        let Self { csr, reductions, entry, blocks, shares, columns, halo, words, slots, epoch, shared_bytes, .. } =
            self;
        let Workspace { device, x, r, p, q, z, state, .. } = workspace;
        let values = csr.values.read();
        let args = Args {
            has_diagonal: u32::from(matches!(z, Z::Diagonal(_))),
            iterations: ITERATIONS,
            epoch: *epoch,
            shared_bytes: *shared_bytes,
            shares: shares.readable(device),
            row_offsets: csr.row_offsets.readable(device),
            columns: columns.readable(device),
            values: values.readable(),
            halo: halo.readable(device),
            diagonal: match z {
                Z::Diagonal(diagonal) => diagonal.readable(),
                Z::Residual | Z::Stored(_) => Readable::default(),
            },
            x: x.writable(),
            r: r.writable(),
            p: p.writable(),
            s: match reductions {
                Reductions::One => q.writable(),
                Reductions::Two => Writable::default(),
            },
            words: words.writable(device),
            slots: slots.writable(device),
            state: state.writable(device).0,
        };
        *epoch = epoch.wrapping_add(numbers(*reductions, ITERATIONS));
        let mut launch = KernelLaunch::cooperative(device, entry, *blocks, *shared_bytes)?;
        let args = args.bind(&mut launch);
        // SAFETY: a valid square matrix, vectors of its size, none a part of another, borrowed mutably where they are written; a
        // block's share of the rows fits the shared memory, as `new` has seen to; exchanges have numbers of their own. The entry is for `T`.
        unsafe { launch.run_entry(entry, &args) }?;
        Ok(ITERATIONS as usize)
    }
}

/// Returns the bytes of the matrix that every iteration reads from outside of shared memory.
fn streamed_bytes(entries: usize, cached: usize, element_bytes: usize) -> usize {
    entries.saturating_sub(cached) * (2 + element_bytes)
}

/// Returns whether examining the columns is worthwhile: without halos, the vectors of all rows fit in `shared_bytes`,
/// and with entries in the rest at most `most_streamed` bytes of the matrix remain.
fn may_fit(
    rows: usize,
    entries: usize,
    bytes_of_row: usize,
    element_bytes: usize,
    shared_bytes: usize,
    most_streamed: usize,
) -> bool {
    let of_rows = rows * bytes_of_row;
    let most_cached = shared_bytes.saturating_sub(of_rows) / bytes_of_two_entries(element_bytes as u32) as usize * 2;
    of_rows <= shared_bytes && streamed_bytes(entries, most_cached, element_bytes) <= most_streamed
}

/// Returns the first row of each block, and finally the number of rows: about equal work for each.
fn share_rows(offsets: &[u32], blocks: u32) -> Vec<u32> {
    let rows = offsets.len() - 1;
    let work_before = |row: usize| offsets[row] as usize + WORK_OF_ROW * row;
    let all = work_before(rows);
    let numbers: Vec<u32> = (0..=rows as u32).collect();
    let first_of = |block: u32| {
        let share = (all as u128 * u128::from(block) / u128::from(blocks)) as usize;
        numbers.partition_point(|&row| work_before(row as usize) < share) as u32
    };
    (0..=blocks).map(|block| if block == blocks { rows as u32 } else { first_of(block) }).collect()
}

/// The data of the blocks: see `Args` of the kernel family.
struct Shares {
    numbers: Vec<u32>,
    columns: Vec<u32>,
    halo: Vec<u32>,
}

impl Shares {
    /// For blocks of these rows.
    fn new(offsets: &[u32], col_indices: &[u32], block_rows: &[u32]) -> Self {
        let mut shares = Self { numbers: Vec::new(), columns: Vec::new(), halo: Vec::new() };
        // For each column, the last block that uses it, and its position there.
        let mut places = vec![(u32::MAX, 0); offsets.len() - 1];
        for (block, rows) in (0..).zip(block_rows.windows(2)) {
            let (first, end) = (offsets[rows[0] as usize], offsets[rows[1] as usize]);
            let columns = &col_indices[first as usize..end as usize];
            let first_halo = shares.halo.len();
            for &column in columns {
                if !(rows[0]..rows[1]).contains(&column) && places[column as usize].0 != block {
                    places[column as usize].0 = block;
                    shares.halo.push(column);
                }
            }
            shares.halo[first_halo..].sort_unstable();
            let halo = &shares.halo[first_halo..];
            for (place, &column) in (rows[1] - rows[0]..).zip(halo) {
                places[column as usize].1 = place;
            }
            let [halo, first_halo] = [halo.len(), first_halo].map(|count| count as u32);
            let first_word = shares.columns.len() as u32;
            shares.numbers.extend([rows[0], rows[1] - rows[0], first, end - first, first_halo, halo, first_word, 0]);
            let place_of = |column: u32| match (rows[0]..rows[1]).contains(&column) {
                true => column - rows[0],
                false => places[column as usize].1,
            };
            let word_of =
                |pair: &[u32]| pair.iter().rev().fold(0, |word, &column| word << 16 | place_of(column) & 0xffff);
            shares.columns.extend(columns.chunks(2).map(word_of));
        }
        shares
    }
}

/// As many lanes per row as keep all threads of a block busy twice, but no more than a row has a few entries for.
///
/// On an H200 (driver 580, 2026-11-22), f32, us an iteration with 2, 4, 8 and 16 lanes: FEM band of 32 entries a row, 228 rows a block 7.95,
/// 7.85, 7.66 and 7.89, 682 rows 11.2, 11.2, 11.6 and 13.3; 5-point stencil, 496 rows 6.2, 6.6, 7.7 and 9.7.
fn lanes_for(rows: u32, mean_row: u32) -> u32 {
    let mut lanes = 1;
    while lanes < 32 && rows * lanes < 2 * BLOCK_SIZE && 4 * lanes < mean_row {
        lanes *= 2;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shared_by_their_entries() {
        // One row of 1000 entries, then 1000 rows of 1 entry.
        let offsets: Vec<u32> = (0..=1001).map(|row| if row == 0 { 0 } else { 999 + row }).collect();
        let shares = share_rows(&offsets, 4);
        assert_eq!((shares[0], shares[4]), (0, 1001));
        assert!(shares.windows(2).all(|rows| rows[0] <= rows[1]));
        let work = |rows: &[u32]| (offsets[rows[1] as usize] - offsets[rows[0] as usize]) + 4 * (rows[1] - rows[0]);
        assert!(shares.windows(2).all(|rows| work(rows) <= 1500 + 1004), "{shares:?}");
        assert_eq!(share_rows(&[0], 1), [0, 0]);
    }

    #[test]
    fn columns_are_places_of_the_block() {
        // 1 1 . .
        // 1 1 1 1    the first block
        // . 1 1 .    the second
        // . 1 . 1
        let (offsets, columns) = ([0, 2, 6, 8, 10], [0, 1, 0, 1, 3, 2, 1, 2, 1, 3]);
        let shares = Shares::new(&offsets, &columns, &[0, 2, 4]);
        assert_eq!(shares.numbers, [0, 2, 0, 6, 0, 2, 0, 0, 2, 2, 6, 4, 2, 1, 3, 0]);
        assert_eq!(shares.halo, [2, 3, 1]);
        assert_eq!(shares.columns, [1 << 16, 1 << 16, 2 << 16 | 3, 2, 1 << 16 | 2]);
    }

    #[test]
    fn what_cannot_pay_is_not_looked_at() {
        let shared = 132 * (226 << 10);
        assert!(may_fit(30_000, 1_250_000, 20, 4, shared, 0));
        // The vectors alone: 5 of 4 bytes a row.
        assert!(may_fit(shared / 20, 0, 20, 4, shared, 0) && !may_fit(shared / 20 + 1, 0, 20, 4, shared, usize::MAX));
        // 6 bytes an entry, of which shared memory holds some 5 million.
        assert!(
            may_fit(1000, 9_000_000, 20, 4, shared, 24 << 20) && !may_fit(1000, 10_000_000, 20, 4, shared, 24 << 20)
        );
        assert!(may_fit(1000, 10_000_000, 20, 4, shared, usize::MAX));
    }

    #[test]
    fn lanes_keep_threads_busy() {
        assert_eq!(lanes_for(228, 32), 8);
        assert_eq!(lanes_for(10_000, 32), 1);
        assert_eq!(lanes_for(10, 5), 2);
    }
}
