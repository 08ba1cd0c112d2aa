//! How products with dense matrices are computed.

use kernels_gpu::spmm_rows::LONGEST_PIECE;

use crate::{Error, Result, device::check_length};

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
    /// GPU threads that share a row, and vectors of columns that each has; `None` for what suits the number of columns.
    pub tile: Option<(u32, u32)>,
    /// The most entries of a row that one group of threads takes; `None` for a number that suits the matrix.
    pub long_row: Option<u32>,
    /// The order in which rows are taken; `None` for their own.
    pub row_order: Option<Vec<u32>>,
    /// Whether tile and long rows are chosen by timing.
    pub autotune: bool,
}

impl SpmmOptions {
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

    /// Fails for a length that rows cannot be cut at, or what is no order of so many rows: on every device.
    pub(crate) fn check(&self, nrows: usize) -> Result<()> {
        if let Some(entries) = self.long_row.filter(|entries| !(1..=LONGEST_PIECE).contains(entries)) {
            return Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")));
        }
        self.row_order.as_ref().map_or(Ok(()), |order| check_order(order, nrows))
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
