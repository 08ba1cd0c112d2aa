//! Options for products with vectors.

use kernels_gpu::{spmv_csr_adaptive::MAX_PIECE, spmv_csr_packed::MAX_LANES};

use crate::{BlockSize, Error, Result};

/// Options for the format and the kernel of products with a CSR matrix.
///
/// ```
/// use warpsparse::{FormatChoice, Lanes, SpmvOptions};
/// let forced = SpmvOptions::default().lanes(Lanes::Fixed(8));
/// let fastest = SpmvOptions::default().format(FormatChoice::Auto).autotune();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmvOptions {
    /// The format on the device.
    pub format: FormatChoice,
    /// The kernel family for CSR.
    pub kernel: CsrKernel,
    /// GPU threads per row.
    pub lanes: Lanes,
    /// The maximum number of entries of a row per group of lanes; `None` chooses by the matrix.
    pub split_threshold: Option<u32>,
    /// Whether the kernel is chosen by timing.
    pub autotune: bool,
    /// Whether products may differ in the last bits from run to run.
    pub nondeterministic: bool,
}

/// The format of a CSR matrix on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatChoice {
    /// CSR, as it is.
    #[default]
    Csr,
    /// DIA if the conversion pays back within [`PAY_BACK`](Self::PAY_BACK) products on a GPU, otherwise CSR.
    ///
    /// It pays back if nearly all slots of the diagonals are used. ELL never does, because it saves only the row
    /// offsets. The notes on [`Dia`](Self::Dia) apply here too.
    ///
    /// With [`autotune`](SpmvOptions::autotune) the upload also times, besides DIA and every kernel for CSR, [`Narrow`](Self::Narrow), [`Packed`](Self::Packed) if there are at
    /// most 256 distinct values, and [`Bsr`](Self::Bsr) if all elements of its blocks are entries. [`DeviceMatrix::options`](crate::DeviceMatrix::options) tells which
    /// format is the fastest; its notes apply then: not every format has products with dense matrices, or takes any new values. The search for blocks and the
    /// packing run on the host, `O(nnz)` work.
    Auto,
    /// COO.
    Coo,
    /// DIA; the upload fails with [`PaddingExceeded`](crate::Error::PaddingExceeded) if it would be mostly padding.
    ///
    /// Sums duplicates first, and drops explicit zeros: an infinity or NaN in `x` that meets only these does not reach
    /// `y`.
    Dia,
    /// ELL; the upload fails with [`PaddingExceeded`](crate::Error::PaddingExceeded) if it would be mostly padding.
    Ell,
    /// HYB.
    Hyb,
    /// CSR with fewer bytes for columns and row offsets, and the values as they are: the bits of products, of a download, and of all else are those of CSR.
    ///
    /// The rows of a block of the kernel, 256 divided by the [`lanes`](SpmvOptions::lanes), are a tile. If the columns of each tile are at most 2¹⁶ - 1
    /// apart, they are stored in 16 bits, counted from the smallest one of the tile; otherwise the matrix stays in CSR. Products have the
    /// order of additions, hence the bits, of [`CsrKernel::Vector`] with the same lanes; lanes are at most 8, and there is no [`CsrKernel::Adaptive`] and no
    /// [`autotune`](SpmvOptions::autotune). Products with the transpose and with dense matrices do not exist.
    ///
    /// Packed on the host, by all cores with the feature `rayon`: an upload reads the columns twice. Conversions, the diagonal and scaling pass
    /// through the host too, and wait. On the CPU the matrix stays in CSR.
    Narrow,
    /// As [`Narrow`](Self::Narrow), with fewer bytes for the values too: if all have the same bits, one is stored; if there are at most 256 distinct bit patterns, a
    /// code of 8 bits for each entry and a table. Columns that do not fit in 16 bits keep 32 if the values are so few; otherwise the matrix stays in CSR.
    ///
    /// How values are stored is decided by the upload. [`update_values`](crate::DeviceMatrix::update_values) and scaling are
    /// [`Unsupported`](crate::Error::Unsupported) if the new values are not as few: one, or 256.
    Packed,
    /// BSR with blocks of this size. The upload fails with [`PaddingExceeded`](crate::Error::PaddingExceeded) if it would be mostly added zeros.
    ///
    /// Sums duplicates first. Zeros that fill up blocks are entries: an infinity or NaN in `x` that meets one reaches `y`.
    Bsr(BlockSize),
}

impl FormatChoice {
    /// The number of products within which a conversion chosen by [`Auto`](Self::Auto) should save more time than it
    /// takes.
    pub const PAY_BACK: usize = 5000;
}

/// A family of GPU kernels for CSR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsrKernel {
    /// Chosen by the matrix's structure; [`Vector`](Self::Vector) if the lanes are fixed.
    #[default]
    Auto,
    /// A group of 1 to 32 lanes per row.
    Vector,
    /// Long rows split into pieces, one warp per piece; a group of 1 to 16 lanes per row for the others; 16-byte loads.
    Adaptive,
}

/// The number of GPU threads per row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// Chosen by the number of rows and their lengths.
    #[default]
    Auto,
    /// This number: 1, 2, 4, 8, 16 or 32.
    Fixed(u32),
}

impl SpmvOptions {
    /// Sets the format on the device. Options about kernels apply to CSR.
    #[must_use]
    pub fn format(mut self, format: FormatChoice) -> Self {
        self.format = format;
        self
    }

    /// Allows kernels that add in no fixed order, so that products may differ in the last bits from run to run: those
    /// with the transpose of a CSR matrix, and with a CSC matrix. Without this, they are errors.
    #[must_use]
    pub fn nondeterministic(mut self) -> Self {
        self.nondeterministic = true;
        self
    }

    /// Sets the kernel family. Ignored on the CPU.
    #[must_use]
    pub fn kernel(mut self, kernel: CsrKernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Makes [`CsrKernel::Adaptive`] split rows of more than this many entries, 1 to 2³⁰, into pieces of about this
    /// size.
    #[must_use]
    pub fn split_threshold(mut self, entries: u32) -> Self {
        self.split_threshold = Some(entries);
        self
    }

    /// Returns every way to force a kernel; each is correct for any matrix.
    #[must_use]
    pub fn candidates() -> Vec<Self> {
        let vector = [1, 2, 4, 8, 16, 32].map(|lanes| (CsrKernel::Vector, lanes));
        let adaptive = [1, 2, 4, 8, 16].map(|lanes| (CsrKernel::Adaptive, lanes));
        let forced = |(kernel, lanes)| Self::default().kernel(kernel).lanes(Lanes::Fixed(lanes));
        vector.into_iter().chain(adaptive).map(forced).collect()
    }

    /// Sets the number of threads per row. Ignored on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// Makes the upload time products with each of the [`candidates`](Self::candidates) within the other options, and
    /// keep the fastest. [`DeviceMatrix::options`](crate::DeviceMatrix::options) then returns it, for later uploads of
    /// the matrix without timing. Ignored on the CPU.
    ///
    /// With [`FormatChoice::Auto`] other formats are candidates too. The products run back to back on one set of arrays, as in an iterative solver: a matrix that fits in the L2
    /// cache is timed there. Costs some 30 products per candidate, memory for an `x` and a `y`, and for the
    /// matrix in each of the formats; one that does not fit in memory is no candidate.
    #[must_use]
    pub fn autotune(mut self) -> Self {
        self.autotune = true;
        self
    }

    /// Returns the candidates that agree with these options.
    pub(crate) fn eligible(&self) -> Vec<Self> {
        let agrees = |candidate: &Self| {
            (self.kernel == CsrKernel::Auto || candidate.kernel == self.kernel)
                && (self.lanes == Lanes::Auto || candidate.lanes == self.lanes)
        };
        let with_rest = |candidate| Self { split_threshold: self.split_threshold, ..candidate };
        Self::candidates().into_iter().filter(agrees).map(with_rest).collect()
    }

    /// Fails on every device if no kernel matches the options.
    pub(crate) fn check(&self) -> Result<()> {
        let is_packed = matches!(self.format, FormatChoice::Narrow | FormatChoice::Packed);
        if is_packed && self.kernel == CsrKernel::Adaptive {
            return Err(Error::InvalidOption(format!(
                "adaptive kernels for the format {:?}, which has none",
                self.format
            )));
        }
        let (exist, most) = match self.kernel {
            _ if is_packed => ("packed kernels exist for 1, 2, 4 and 8", MAX_LANES),
            CsrKernel::Adaptive => ("adaptive kernels exist for 1, 2, 4, 8 and 16", 16),
            CsrKernel::Auto | CsrKernel::Vector => ("kernels exist for 1, 2, 4, 8, 16 and 32", 32),
        };
        match self.lanes {
            Lanes::Fixed(lanes) if !lanes.is_power_of_two() || lanes > most => {
                return Err(Error::InvalidOption(format!("{lanes} lanes: {exist}")));
            }
            Lanes::Fixed(_) | Lanes::Auto => {}
        }
        match self.split_threshold {
            None | Some(1..=MAX_PIECE) => Ok(()),
            Some(entries) => {
                Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")))
            }
        }
    }
}
