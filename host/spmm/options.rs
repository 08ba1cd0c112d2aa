//! How products with dense matrices are computed.

use kernels_gpu::spmm_rows::LONGEST_PIECE;

use crate::{Error, Result};

/// How to choose the kernel for products with a dense matrix, for [`DeviceMatrix::prepare_spmm`](crate::DeviceMatrix::prepare_spmm).
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

    /// Has rows of more than this many entries, 1 to 2³⁰, cut into pieces of about as many. Means nothing on the CPU.
    #[must_use]
    pub fn long_row(mut self, entries: u32) -> Self {
        self.long_row = Some(entries);
        self
    }

    /// Has the preparation time products with each tile and several lengths of long rows that the other options leave, and
    /// keep the fastest. Means nothing on the CPU.
    ///
    /// Costs some 10 products a candidate, and memory for a `B` and a `C`.
    #[must_use]
    pub fn autotune(mut self) -> Self {
        self.autotune = true;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.long_row {
            None | Some(1..=LONGEST_PIECE) => Ok(()),
            Some(entries) => {
                Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")))
            }
        }
    }
}
