//! How products with dense matrices are computed.

use kernels_gpu::spmm_rows::LONGEST_PIECE;

use crate::{Error, Result, device::check_length};

/// A GPU kernel for products with a dense matrix.
///
/// All but the first are there to compare with: the rungs of a ladder from the obvious kernel to GE-SpMM (Huang, Dai, Wang &
/// Yang, "GE-SpMM: General-purpose sparse matrix-matrix multiplication on GPUs for graph neural networks", 2020), and
/// kernels that part the entries evenly among threads, at the price of atomic additions to `C`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpmmKernel {
    /// Groups of threads that have a row and a tile of columns each, long rows cut into pieces.
    #[default]
    Tiles,
    /// A thread has a row of `A`, which it goes through once for each column.
    RowPerThread,
    /// A thread has an element of `C`, the threads of a warp 32 columns of a row.
    ElementPerThread,
    /// As before, but the entries of the row are loaded once a warp and staged in shared memory, 32 at a time: GE-SpMM's
    /// coalesced row caching; and with more than one tile its coarse-grained warp merging.
    RowCaching {
        /// Tiles of 32 columns that a warp has: 1, 2 or 4.
        tiles: u32,
    },
    /// A thread has an entry of `A`, and goes through the columns. Like all that are atomic it adds in no fixed order, and
    /// takes memory for another array of `nnz` indices.
    AtomicEntryPerThread,
    /// A warp has an entry of `A`, its threads the columns.
    AtomicEntryPerWarp,
    /// As before, for a copy of the entries that is sorted by column, so that rows of `B` are read once.
    AtomicEntryPerWarpByColumns,
}

impl SpmmKernel {
    /// Whether the order of additions differs from run to run.
    fn is_atomic(self) -> bool {
        match self {
            Self::Tiles | Self::RowPerThread | Self::ElementPerThread | Self::RowCaching { .. } => false,
            Self::AtomicEntryPerThread | Self::AtomicEntryPerWarp | Self::AtomicEntryPerWarpByColumns => true,
        }
    }
}

/// How to choose the kernel for products with a dense matrix, for [`DeviceMatrix::spmm_plan`](crate::DeviceMatrix::spmm_plan).
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
    /// GPU threads that share a row, and vectors of columns that each has; `None` for what suits the number of columns.
    pub tile: Option<(u32, u32)>,
    /// The most entries of a row that one group of threads takes; `None` for a number that suits the matrix.
    pub long_row: Option<u32>,
    /// The order in which rows are taken; `None` for their own.
    pub row_order: Option<Vec<u32>>,
    /// Whether tile and long rows are chosen by timing.
    pub autotune: bool,
    /// Whether products may differ in the last bits from run to run.
    pub nondeterministic: bool,
}

impl SpmmOptions {
    /// Sets the kernel; the other options but [`nondeterministic`](Self::nondeterministic) are for [`SpmmKernel::Tiles`].
    /// Ignored on the CPU.
    #[must_use]
    pub fn kernel(mut self, kernel: SpmmKernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Allows kernels whose additions have no fixed order, so that products may differ in the last bits from run to run.
    /// Without this they are errors.
    #[must_use]
    pub fn nondeterministic(mut self) -> Self {
        self.nondeterministic = true;
        self
    }

    /// Sets the GPU threads that share a row, 1 to 32, and the vectors of columns that each of them has, 1 to 4. Means
    /// nothing on the CPU.
    #[must_use]
    pub fn tile(mut self, lanes: u32, coarsening: u32) -> Self {
        self.tile = Some((lanes, coarsening));
        self
    }

    /// Has rows of more than this many entries, 1 to 2³⁰, cut into pieces of about as many. Ignored on the CPU.
    #[must_use]
    pub fn long_row(mut self, entries: u32) -> Self {
        self.long_row = Some(entries);
        self
    }

    /// Has rows taken in this order, in which each is once: close together those that have columns in common, so that they find
    /// rows of `B` in the caches. [`CsrMatrix::cluster_rows`](crate::CsrMatrix::cluster_rows) finds such an order. The
    /// product is the same, to the last bit. Ignored on the CPU.
    #[must_use]
    pub fn row_order(mut self, order: Vec<u32>) -> Self {
        self.row_order = Some(order);
        self
    }

    /// Has the preparation time products with each tile and several lengths of long rows that the other options leave, and
    /// keep the fastest. Ignored on the CPU.
    ///
    /// Costs some 10 products a candidate, and memory for a `B` and a `C`.
    #[must_use]
    pub fn autotune(mut self) -> Self {
        self.autotune = true;
        self
    }

    /// Fails if the options name no kernel, or one that they do not allow, or no order of so many rows: on every device.
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

/// Fails unless each row is in the order once.
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
