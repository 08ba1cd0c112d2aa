//! The kernels measured, from the obvious to the best.

use warpsparse::SpmmOptions;

use crate::measure::KernelName;

/// A way to multiply: a kernel, or the chosen one with what an order of rows adds to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    Kernel(KernelName),
    /// Rows are taken in the order that `cluster_rows` finds.
    RowsClustered,
    /// Rows and columns are in this order, so that `B` and `C` are in it too.
    AllClustered,
}

pub(super) const LADDER: [(&str, Rung); 11] = [
    ("row per thread", Rung::Kernel(KernelName::RowPerThread)),
    ("element per thread", Rung::Kernel(KernelName::ElementPerThread)),
    ("entry per thread, atomic", Rung::Kernel(KernelName::AtomicEntryPerThread)),
    ("entry per warp, atomic", Rung::Kernel(KernelName::AtomicEntryPerWarp)),
    ("entry per warp by columns, atomic", Rung::Kernel(KernelName::AtomicEntryPerWarpByColumns)),
    ("GE-SpMM: CRC", Rung::Kernel(KernelName::RowCaching)),
    ("GE-SpMM: CRC and CWM, 2 tiles", Rung::Kernel(KernelName::RowCaching2)),
    ("GE-SpMM: CRC and CWM, 4 tiles", Rung::Kernel(KernelName::RowCaching4)),
    (CHOSEN, Rung::Kernel(KernelName::Tiles)),
    (ROWS_CLUSTERED, Rung::RowsClustered),
    (ALL_CLUSTERED, Rung::AllClustered),
];

/// What is taken unless something else is asked for.
pub(crate) const CHOSEN: &str = "chosen by itself";
pub(super) const ROWS_CLUSTERED: &str = "rows clustered";
pub(super) const ALL_CLUSTERED: &str = "rows and columns clustered";

impl Rung {
    /// The CPU has one kernel, which takes rows as they come.
    pub(super) fn is_of_cpu(self) -> bool {
        matches!(self, Self::Kernel(KernelName::Tiles) | Self::AllClustered)
    }

    pub(super) fn options(self, order: &[u32]) -> SpmmOptions {
        match self {
            Self::Kernel(name) => name.options(),
            Self::RowsClustered => SpmmOptions::default().row_order(order.to_vec()),
            Self::AllClustered => SpmmOptions::default(),
        }
    }
}
