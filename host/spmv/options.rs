//! How the kernel for products is chosen.

use kernels_gpu::spmv_csr_adaptive::LONGEST_PIECE;

use crate::{Error, Result};

/// How to choose the format and the kernel for products with a CSR matrix.
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
    /// GPU threads that share a row.
    pub lanes: Lanes,
    /// The most entries of a row that one group of lanes takes; `None` for a number that suits the matrix.
    pub long_row: Option<u32>,
    /// Whether the kernel is chosen by timing.
    pub autotune: bool,
    /// Whether products may differ in the last bits from run to run.
    pub nondeterministic: bool,
}

/// The format of a CSR matrix on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatChoice {
    /// As it is.
    #[default]
    Csr,
    /// DIA where that pays back within [`PAY_BACK`](Self::PAY_BACK) products on a GPU, otherwise CSR.
    ///
    /// It pays where nearly all slots of the diagonals are used. ELL never does: next to CSR it saves the row offsets and
    /// nothing else. What is said of [`Dia`](Self::Dia) holds here too.
    Auto,
    /// COO.
    Coo,
    /// DIA; the upload fails with [`PaddingExceeded`](crate::Error::PaddingExceeded) if it would be mostly padding.
    ///
    /// Duplicates are summed first, and explicit zeros are dropped: an infinity or NaN in x that meets nothing but these
    /// does not reach y.
    Dia,
    /// ELL; the upload fails with [`PaddingExceeded`](crate::Error::PaddingExceeded) if it would be mostly padding.
    Ell,
    /// HYB.
    Hyb,
}

impl FormatChoice {
    /// Products after which a conversion chosen by [`Auto`](Self::Auto) should have saved more time than it took.
    pub const PAY_BACK: usize = 5000;
}

/// A family of GPU kernels for CSR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsrKernel {
    /// From the matrix's structure; [`Vector`](Self::Vector) where the lanes are fixed.
    #[default]
    Auto,
    /// A group of 1 to 32 lanes a row.
    Vector,
    /// Long rows cut into pieces, a warp each; a group of 1 to 16 lanes for any other row; 16-byte loads.
    Adaptive,
}

/// GPU threads that share a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// From the lengths of the rows, and how many there are.
    #[default]
    Auto,
    /// This many: 1, 2, 4, 8, 16 or 32.
    Fixed(u32),
}

impl SpmvOptions {
    /// Sets the format on the device. What the other options say of kernels is for CSR.
    #[must_use]
    pub fn format(mut self, format: FormatChoice) -> Self {
        self.format = format;
        self
    }

    /// Allows kernels whose additions have no fixed order, so that products may differ in the last bits from run to run:
    /// those with the transpose of a CSR matrix, and with a CSC matrix. Without this they are errors.
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

    /// Has [`CsrKernel::Adaptive`] cut the rows of more than this many entries, 1 to 2³⁰, into pieces of about as many.
    #[must_use]
    pub fn long_row(mut self, entries: u32) -> Self {
        self.long_row = Some(entries);
        self
    }

    /// Every way to force a kernel, all of which are right for any matrix.
    #[must_use]
    pub fn candidates() -> Vec<Self> {
        let vector = [1, 2, 4, 8, 16, 32].map(|lanes| (CsrKernel::Vector, lanes));
        let adaptive = [1, 2, 4, 8, 16].map(|lanes| (CsrKernel::Adaptive, lanes));
        let forced = |(kernel, lanes)| Self::default().kernel(kernel).lanes(Lanes::Fixed(lanes));
        vector.into_iter().chain(adaptive).map(forced).collect()
    }

    /// Sets the threads that share a row. Ignored on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// Has the upload time products with each of the [`candidates`](Self::candidates) that the other options leave, and
    /// keep the fastest. [`DeviceMatrix::options`](crate::DeviceMatrix::options) then names it, for later uploads of the
    /// matrix without timing. Ignored on the CPU.
    ///
    /// The products follow one another on one set of arrays, as those of an iterative solver do: a matrix that the L2
    /// cache holds is timed in there. Costs some 30 products a candidate, and memory for an `x` and a `y`.
    #[must_use]
    pub fn autotune(mut self) -> Self {
        self.autotune = true;
        self
    }

    /// Those of the candidates that agree with what these options force.
    pub(crate) fn eligible(&self) -> Vec<Self> {
        let agrees = |candidate: &Self| {
            (self.kernel == CsrKernel::Auto || candidate.kernel == self.kernel)
                && (self.lanes == Lanes::Auto || candidate.lanes == self.lanes)
        };
        let with_rest = |candidate| Self { long_row: self.long_row, ..candidate };
        Self::candidates().into_iter().filter(agrees).map(with_rest).collect()
    }

    /// Fails if the options name no kernel: on every device, whether it has such kernels or not.
    pub(crate) fn check(&self) -> Result<()> {
        let (exist, most) = match self.kernel {
            CsrKernel::Adaptive => ("adaptive kernels exist for 1, 2, 4, 8 and 16", 16),
            CsrKernel::Auto | CsrKernel::Vector => ("kernels exist for 1, 2, 4, 8, 16 and 32", 32),
        };
        match self.lanes {
            Lanes::Fixed(lanes) if !lanes.is_power_of_two() || lanes > most => {
                return Err(Error::InvalidOption(format!("{lanes} lanes: {exist}")));
            }
            Lanes::Fixed(_) | Lanes::Auto => {}
        }
        match self.long_row {
            None | Some(1..=LONGEST_PIECE) => Ok(()),
            Some(entries) => {
                Err(Error::InvalidOption(format!("long rows of more than {entries} entries: it is 1 to 2^30")))
            }
        }
    }
}
