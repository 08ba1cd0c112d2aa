//! Options for products with dense matrices.

use kernels_gpu::spmm_rows::LONGEST_PIECE;

use crate::{Error, Result, device::check_length};

/// A GPU kernel for products with a dense matrix.
///
/// All but the first are for comparison: the rungs of a ladder from the obvious kernel to GE-SpMM (Huang, Dai, Wang &
/// Yang, "GE-SpMM: General-purpose sparse matrix-matrix multiplication on GPUs for graph neural networks", 2020), and
/// kernels that distribute the entries evenly among threads, which requires atomic additions to `C`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpmmKernel {
    /// One group of threads per row and tile of columns, with long rows split into pieces.
    #[default]
    Tiles,
    /// One thread per row of `A`, which traverses the row once for each column.
    RowPerThread,
    /// One thread per element of `C`; the threads of a warp compute 32 columns of a row.
    ElementPerThread,
    /// Like [`ElementPerThread`](Self::ElementPerThread), but each warp stages the entries of its row in shared memory,
    /// 32 at a time: GE-SpMM's coalesced row caching, and with more than one tile its coarse-grained warp merging.
    RowCaching {
        /// Tiles of 32 columns per warp: 1, 2 or 4.
        tiles: u32,
    },
    /// One thread per entry of `A`, which loops over the columns. Like all atomic kernels, it adds in no fixed order,
    /// and allocates another array of `nnz` indices.
    AtomicEntryPerThread,
    /// One warp per entry of `A`, with its threads on the columns.
    AtomicEntryPerWarp,
    /// Like [`AtomicEntryPerWarp`](Self::AtomicEntryPerWarp), but on a copy of the entries sorted by column, so that
    /// rows of `B` are read once.
    AtomicEntryPerWarpByColumns,
}

impl SpmmKernel {
    /// Returns whether the order of additions varies from run to run.
    fn is_atomic(self) -> bool {
        match self {
            Self::Tiles | Self::RowPerThread | Self::ElementPerThread | Self::RowCaching { .. } => false,
            Self::AtomicEntryPerThread | Self::AtomicEntryPerWarp | Self::AtomicEntryPerWarpByColumns => true,
        }
    }
}

/// Options for products with a dense matrix: see [`DeviceMatrix::spmm_plan`](crate::DeviceMatrix::spmm_plan).
///
/// ```
/// use warpsparse::SpmmOptions;
/// let forced = SpmmOptions::default().tile(16, 2).long_row(512);
/// let fastest = SpmmOptions::default().autotune();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmmOptions {
    /// The kernel on a GPU.
    pub kernel: SpmmKernel,
    /// GPU threads per row, and vectors of columns per thread; `None` chooses by the number of columns.
    pub tile: Option<(u32, u32)>,
    /// The maximum number of entries of a row per group of threads; `None` chooses by the matrix.
    pub long_row: Option<u32>,
    /// The order in which rows are processed; `None` for the storage order.
    pub row_order: Option<Vec<u32>>,
    /// Whether the tile and the threshold for long rows are chosen by timing.
    pub autotune: bool,
    /// Whether products may differ in the last bits from run to run.
    pub nondeterministic: bool,
}

impl SpmmOptions {
    /// Sets the kernel. The other options, except [`nondeterministic`](Self::nondeterministic), apply to
    /// [`SpmmKernel::Tiles`]. Ignored on the CPU.
    #[must_use]
    pub fn kernel(mut self, kernel: SpmmKernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Allows kernels that add in no fixed order, so that products may differ in the last bits from run to run. Without
    /// this, they are errors.
    #[must_use]
    pub fn nondeterministic(mut self) -> Self {
        self.nondeterministic = true;
        self
    }

    /// Sets the number of GPU threads per row, 1 to 32, and of vectors of columns per thread, 1 to 4. Ignored on the
    /// CPU.
    #[must_use]
    pub fn tile(mut self, lanes: u32, coarsening: u32) -> Self {
        self.tile = Some((lanes, coarsening));
        self
    }

    /// Splits rows of more than this many entries, 1 to 2³⁰, into pieces of about this size. Ignored on the CPU.
    #[must_use]
    pub fn long_row(mut self, entries: u32) -> Self {
        self.long_row = Some(entries);
        self
    }

    /// Processes rows in this order, a permutation. Rows that share columns should be close together, to find the rows
    /// of `B` in the caches; [`CsrMatrix::cluster_rows`](crate::CsrMatrix::cluster_rows) computes such an order. The
    /// product has the same bits. Ignored on the CPU.
    #[must_use]
    pub fn row_order(mut self, order: Vec<u32>) -> Self {
        self.row_order = Some(order);
        self
    }

    /// Times products with each tile and several thresholds for long rows, within the other options, and keeps the
    /// fastest. Ignored on the CPU.
    ///
    /// Costs some 10 products per candidate, and memory for a `B` and a `C`.
    #[must_use]
    pub fn autotune(mut self) -> Self {
        self.autotune = true;
        self
    }

    /// Fails on every device if no kernel matches the options, they do not allow it, or `row_order` does not have
    /// `nrows` rows.
    pub(crate) fn check(&self, nrows: usize) -> Result<()> {
        let Self { kernel, tile, long_row, autotune, nondeterministic, ref row_order } = *self;
        if let Some(entries) = long_row.filter(|entries| !(1..=LONGEST_PIECE).contains(entries)) {
            return Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")));
        }
        if kernel != SpmmKernel::Tiles && (tile.is_some() || long_row.is_some() || row_order.is_some() || autotune) {
            let problem = "a tile, long rows, an order of rows and timing are for SpmmKernel::Tiles";
            return Err(Error::InvalidOption(format!("the kernel {kernel:?}: {problem}")));
        }
        if kernel.is_atomic() && !nondeterministic {
            let way_out = "allow that by SpmmOptions::nondeterministic";
            return Err(Error::InvalidOption(format!("the kernel {kernel:?} adds in no fixed order: {way_out}")));
        }
        if let Some(order) = row_order {
            check_order(order, nrows)?;
        }
        match kernel {
            SpmmKernel::RowCaching { tiles } if !matches!(tiles, 1 | 2 | 4) => {
                Err(Error::InvalidOption(format!("row caching for {tiles} tiles: kernels exist for 1, 2 and 4")))
            }
            _ => Ok(()),
        }
    }
}

/// Fails unless the order is a permutation.
fn check_order(order: &[u32], nrows: usize) -> Result<()> {
    check_length("the order of rows", nrows, order.len())?;
    let mut seen = vec![false; nrows];
    for (place, &row) in order.iter().enumerate() {
        match seen.get_mut(row as usize) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => {
                return Err(Error::InvalidOption(format!("row {row} stands twice in the order of rows, at {place}")));
            }
            None => return Err(Error::InvalidOption(format!("row {row} at {place} in the order of {nrows} rows"))),
        }
    }
    Ok(())
}
