//! Options for products with dense matrices.

use kernels_gpu::spmm_rows::MAX_PIECE;

use crate::{Error, Result, device::check_length};

/// Options for products of a CSR or CSC matrix with a dense matrix: see [`DeviceMatrix::spmm_plan`](crate::DeviceMatrix::spmm_plan). Other
/// formats have none: every device refuses them.
///
/// ```
/// use warpsparse::SpmmOptions;
/// let forced = SpmmOptions::default().tile(16, 2).split_threshold(512);
/// let fastest = SpmmOptions::default().autotune();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmmOptions {
    /// GPU threads per row, and vectors of columns per thread; `None` chooses by the number of columns.
    pub tile: Option<(u32, u32)>,
    /// The maximum number of entries of a row per group of threads; `None` chooses by the matrix.
    pub split_threshold: Option<u32>,
    /// The order in which rows are processed; `None` for the storage order.
    pub row_order: Option<Vec<u32>>,
    /// Whether the tile and the threshold for long rows are chosen by timing.
    pub autotune: bool,
}

impl SpmmOptions {
    /// Sets the number of GPU threads per row, 1 to 32, and of vectors of columns per thread, 1 to 4. Ignored on the
    /// CPU.
    #[must_use]
    pub fn tile(mut self, lanes: u32, coarsening: u32) -> Self {
        self.tile = Some((lanes, coarsening));
        self
    }

    /// Splits rows of more than this many entries, 1 to 2³⁰, into pieces of about this size. Ignored on the CPU.
    #[must_use]
    pub fn split_threshold(mut self, entries: u32) -> Self {
        self.split_threshold = Some(entries);
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

    /// Fails on every device if the split threshold is invalid, or `row_order` does not order `nrows` rows.
    pub(crate) fn check(&self, nrows: usize) -> Result<()> {
        if let Some(entries) = self.split_threshold.filter(|entries| !(1..=MAX_PIECE).contains(entries)) {
            return Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")));
        }
        self.row_order.as_ref().map_or(Ok(()), |order| check_order(order, nrows))
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
