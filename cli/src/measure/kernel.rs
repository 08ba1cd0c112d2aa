//! Names of the kernels for products with dense matrices.

use clap::ValueEnum;
use serde::Serialize;
use warpsparse::{SpmmKernel, SpmmOptions};

/// A kernel on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KernelName {
    /// Groups of threads have a row and a tile of columns each, long rows are cut: what is taken by default.
    Tiles,
    /// A thread has a row.
    RowPerThread,
    /// A thread has an element of the product.
    ElementPerThread,
    /// GE-SpMM's coalesced row caching: a warp has 32 columns of a row, whose entries are staged in shared memory.
    RowCaching,
    /// The same with coarse-grained warp merging: 64 columns.
    RowCaching2,
    /// The same with 128 columns.
    RowCaching4,
    /// A thread has an entry, and adds atomically: sums may differ in the last bits from run to run.
    AtomicEntryPerThread,
    /// A warp has an entry, and adds atomically.
    AtomicEntryPerWarp,
    /// The same, column after column.
    AtomicEntryPerWarpByColumns,
}

impl KernelName {
    /// Options that force the kernel; who names one that adds atomically, allows it.
    pub(crate) fn options(self) -> SpmmOptions {
        let options = SpmmOptions::default();
        match self {
            Self::Tiles => options,
            Self::RowPerThread => options.kernel(SpmmKernel::RowPerThread),
            Self::ElementPerThread => options.kernel(SpmmKernel::ElementPerThread),
            Self::RowCaching => options.kernel(SpmmKernel::RowCaching { tiles: 1 }),
            Self::RowCaching2 => options.kernel(SpmmKernel::RowCaching { tiles: 2 }),
            Self::RowCaching4 => options.kernel(SpmmKernel::RowCaching { tiles: 4 }),
            Self::AtomicEntryPerThread => options.kernel(SpmmKernel::AtomicEntryPerThread).nondeterministic(),
            Self::AtomicEntryPerWarp => options.kernel(SpmmKernel::AtomicEntryPerWarp).nondeterministic(),
            Self::AtomicEntryPerWarpByColumns => {
                options.kernel(SpmmKernel::AtomicEntryPerWarpByColumns).nondeterministic()
            }
        }
    }
}
