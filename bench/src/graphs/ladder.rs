//! The kernels measured, from the obvious to the best.

use ladders::SpmmRung;

/// A way to multiply: a published kernel, or the chosen one, also with what an order of rows adds to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    Published(SpmmRung),
    /// What the library chooses by itself.
    Chosen,
    /// Rows are taken in the order that `cluster_rows` finds.
    RowsClustered,
    /// Rows and columns are in this order, so that `B` and `C` are in it too.
    AllClustered,
}

pub(super) const LADDER: [(&str, Rung); 11] = [
    ("row per thread", Rung::Published(SpmmRung::RowPerThread)),
    ("element per thread", Rung::Published(SpmmRung::ElementPerThread)),
    ("entry per thread, atomic", Rung::Published(SpmmRung::AtomicEntryPerThread)),
    ("entry per warp, atomic", Rung::Published(SpmmRung::AtomicEntryPerWarp)),
    ("entry per warp by columns, atomic", Rung::Published(SpmmRung::AtomicEntryPerWarpByColumns)),
    ("GE-SpMM: CRC", Rung::Published(SpmmRung::RowCaching)),
    ("GE-SpMM: CRC and CWM, 2 tiles", Rung::Published(SpmmRung::RowCaching2)),
    ("GE-SpMM: CRC and CWM, 4 tiles", Rung::Published(SpmmRung::RowCaching4)),
    (CHOSEN, Rung::Chosen),
    (ROWS_CLUSTERED, Rung::RowsClustered),
    (ALL_CLUSTERED, Rung::AllClustered),
];

/// What is taken unless something else is asked for.
pub(crate) const CHOSEN: &str = "automatic choice";
pub(super) const ROWS_CLUSTERED: &str = "rows clustered";
pub(super) const ALL_CLUSTERED: &str = "rows and columns clustered";

impl Rung {
    /// The CPU has one kernel, which takes rows as they come.
    pub(super) fn is_of_cpu(self) -> bool {
        matches!(self, Self::Chosen | Self::AllClustered)
    }
}
