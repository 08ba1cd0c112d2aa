//! Iterations by cooperative launches of the kernel family `cg_persistent`.

use std::sync::Arc;

use kernels_gpu::{
    Variant,
    cg_persistent::{Args, BLOCK_SIZE, STATIC_SHARED_BYTES, VARIANTS, slot_words, vector_bytes},
    cg_state::State,
};

use super::workspace::{Workspace, Z};
use crate::{
    DeviceMatrix, KernelChoice, Lanes, Result, Scalar,
    device::{Buffer, KernelLaunch, Mode},
    spmv::{Csr, CsrArrays},
};

/// The most iterations of a launch. What a launch costs, the fetching of the matrix foremost, is a few iterations' time.
const ITERATIONS: u32 = 256;

/// Entries and places of vectors that make another block worth its part in each barrier.
const WORK_OF_BLOCK: usize = 4096;

/// What a row weighs beside its entries.
const WORK_OF_ROW: usize = 4;

/// A matrix whose rows are shared among blocks.
#[derive(Debug)]
pub(super) struct Persistent<'a, T> {
    csr: &'a Arc<CsrArrays<T, u32>>,
    variant: &'static Variant,
    blocks: u32,
    block_rows: Buffer<u32>,
    pairs: Buffer<T>,
    slots: Buffer<u64>,
    /// The number of the next launch's first barrier.
    epoch: u32,
    shared_bytes: u32,
    /// Entries that stay in shared memory.
    cached: usize,
}

impl<'a, T: Scalar> Persistent<'a, T> {
    /// How many iterations [`advance`](Self::advance) queues.
    pub(super) const AT_A_TIME: usize = ITERATIONS as usize;

    /// If the matrix is in CSR on a GPU, or an emulated one, whose shared memory holds the vectors.
    pub(super) fn new(matrix: &'a DeviceMatrix<T>, lanes: Lanes) -> Result<Option<Self>> {
        let Some(Csr::Device(csr)) = matrix.product()?.csr() else { return Ok(None) };
        let device = &csr.device;
        let offsets = csr.row_offsets.to_vec(device)?;
        let shared_bytes = device.shared_bytes() - STATIC_SHARED_BYTES;
        let work = csr.nnz as usize + WORK_OF_ROW * csr.nrows as usize;
        let most = device.multiprocessors().min(BLOCK_SIZE);
        let blocks = (work / WORK_OF_BLOCK).clamp(1, most as usize) as u32;
        let block_rows = share_rows(&offsets, blocks);
        let element_bytes = size_of::<T>() as u32;
        let mut cached = 0;
        for rows in block_rows.windows(2) {
            let vectors = u64::from(rows[1] - rows[0]) * 7 * u64::from(element_bytes);
            if vectors > u64::from(shared_bytes) || vector_bytes(rows[1] - rows[0], element_bytes) > shared_bytes {
                return Ok(None);
            }
            let room = (shared_bytes - vector_bytes(rows[1] - rows[0], element_bytes)) / (element_bytes + 4);
            cached += (offsets[rows[1] as usize] - offsets[rows[0] as usize]).min(room) as usize;
        }
        let lanes = match lanes {
            Lanes::Fixed(lanes) => lanes,
            Lanes::Auto => lanes_for(csr.nrows.div_ceil(blocks), csr.nnz / csr.nrows.max(1)),
        };
        let of_type = |variant: &&Variant| variant.dtype == Some(T::DTYPE) && variant.lanes == lanes;
        let variant = VARIANTS.iter().find(of_type).expect("a variant for every valid number of lanes");
        Ok(Some(Self {
            csr,
            variant,
            blocks,
            block_rows: Buffer::upload(device, &block_rows)?,
            pairs: Buffer::zeros(device, 4 * csr.nrows as usize)?,
            slots: Buffer::zeros(device, slot_words(blocks))?,
            epoch: 1,
            shared_bytes,
            cached,
        }))
    }

    /// Whether it is faster than kernels one after the other: as long as shared memory and the L2 cache hold what an iteration reads.
    pub(super) fn pays(&self) -> bool {
        /// Bytes of the matrix beyond those in shared memory.
        const MOST_STREAMED: usize = 24 << 20;
        (self.csr.nnz as usize - self.cached) * (4 + size_of::<T>()) <= MOST_STREAMED
    }

    pub(super) fn describe(&self) -> KernelChoice {
        let percent = 100 * self.cached / (self.csr.nnz as usize).max(1);
        let reason = format!(
            "up to {ITERATIONS} iterations a launch, by {} blocks; the vectors and {percent}% of the matrix stay in shared memory",
            self.blocks
        );
        KernelChoice { kernel: self.variant.entry.into(), reason }
    }

    /// Queues some iterations, and returns how many.
    pub(super) fn advance(&mut self, workspace: &mut Workspace<T>) -> Result<usize> {
        let Self { csr, variant, blocks, block_rows, pairs, slots, epoch, shared_bytes, .. } = self;
        let Workspace { device, x, r, p, z, state, .. } = workspace;
        let launch = KernelLaunch::of_family(device, Mode::Queue, "cg_persistent", variant, *blocks);
        let mut launch = launch.cooperative(*shared_bytes);
        let args = Args {
            rows: csr.nrows,
            has_diagonal: u32::from(matches!(z, Z::Diagonal(_))),
            iterations: ITERATIONS,
            epoch: *epoch,
            shared_bytes: *shared_bytes,
            block_rows: launch.read("block_rows", block_rows.array(), device),
            row_offsets: launch.read("row_offsets", csr.row_offsets.array(), device),
            col_indices: launch.read("col_indices", csr.col_indices.array(), device),
            values: launch.read("values", csr.values.array(), device),
            diagonal: match z {
                Z::Diagonal(diagonal) => launch.read("diagonal", diagonal.buffer().array(), device),
                Z::Residual | Z::Stored(_) => std::ptr::null(),
            },
            x: launch.write("x", x.parts_mut().1, device),
            r: launch.write("r", r.parts_mut().1, device),
            p: launch.write("p", p.parts_mut().1, device),
            pairs: launch.write("pairs", pairs, device),
            slots: launch.write("slots", slots, device),
            state: State {
                scalars: launch.write("scalars", &mut state.scalars, device),
                counters: launch.write("counters", &mut state.counters, device),
                mailbox: launch.mailbox(&mut state.mailbox),
            },
        };
        *epoch = epoch.wrapping_add(ITERATIONS + 1);
        // SAFETY: a valid square matrix, vectors of its size, each an allocation of its own, borrowed mutably where they are written; a
        // block's share of the rows fits the shared memory, as `new` has seen to; barriers have numbers of their own. The variant is for `T`.
        unsafe { launch.run_variant(variant, &args) }?;
        Ok(ITERATIONS as usize)
    }
}

/// The first row of each block, and after the last one the number of rows: about as much work for each.
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

/// As many lanes a row as keep all threads of a block busy, but no more than a row has entries for.
fn lanes_for(rows: u32, mean_row: u32) -> u32 {
    let mut lanes = 1;
    while lanes < 32 && rows * lanes < BLOCK_SIZE && 2 * lanes < mean_row {
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
    fn lanes_keep_threads_busy() {
        assert_eq!(lanes_for(228, 32), 4);
        assert_eq!(lanes_for(10_000, 32), 1);
        assert_eq!(lanes_for(10, 5), 4);
    }
}
