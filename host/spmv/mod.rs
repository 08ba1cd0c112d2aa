//! Sparse matrix times dense vector.

mod cpu;
mod csr_adaptive;
mod csr_vector;

use csr_adaptive::CsrAdaptive;
use kernels_gpu::{
    DType, Variant,
    spmv_csr_vector::{ENTRIES_PER_STEP, lanes_for},
};

use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Graph, KernelChoice, Offset, Result, Scalar, Structure,
    device::{Backend, Recording, check_length},
    device_matrix::{Storage, WithOffsets},
};

/// How to choose the kernel for products with a matrix.
///
/// ```
/// use warpsparse::{Lanes, SpmvOptions};
/// let options = SpmvOptions::default().lanes(Lanes::Fixed(8));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmvOptions {
    /// The kernel family.
    pub kernel: CsrKernel,
    /// GPU threads that share a row.
    pub lanes: Lanes,
    /// The most entries of a row that one group of lanes takes; `None` for a number that suits the matrix.
    pub long_row: Option<u32>,
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
    /// Sets the kernel family. Means nothing on the CPU.
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

    /// Sets the threads that share a row. Means nothing on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }
}

/// The kernel chosen for a matrix.
#[derive(Debug)]
pub(crate) enum Plan<T> {
    Cpu,
    CsrVector { variant: &'static Variant, forced: bool },
    CsrAdaptive(Box<CsrAdaptive<T>>),
}

impl<T: Scalar> Plan<T> {
    pub(crate) fn choose<O: Offset>(
        device: &Device,
        matrix: &CsrMatrix<T, O>,
        structure: &Structure,
        options: &SpmvOptions,
    ) -> Result<Self> {
        let on_cpu = matches!(device.backend(), Backend::Cpu { .. });
        if on_cpu && *options == SpmvOptions::default() {
            return Ok(Self::Cpu);
        }
        // Also for the CPU, which has no lanes: an option that is wrong is wrong everywhere.
        let adaptive = match options.kernel {
            CsrKernel::Vector => false,
            CsrKernel::Adaptive => true,
            CsrKernel::Auto => options.lanes == Lanes::Auto && suits_adaptive::<T>(structure),
        };
        let plan = if adaptive {
            Self::CsrAdaptive(Box::new(csr_adaptive::choose(device, matrix, structure, options)?))
        } else {
            csr_vector::choose::<T, O>(structure, options)?
        };
        Ok(if on_cpu { Self::Cpu } else { plan })
    }

    pub(crate) fn describe(&self, structure: &Structure) -> KernelChoice {
        match self {
            Self::Cpu => cpu::describe(),
            Self::CsrVector { variant, forced } => csr_vector::describe(variant, *forced, structure),
            Self::CsrAdaptive(plan) => plan.describe(structure),
        }
    }
}

/// Lanes for rows of the length classes in `structure`, leaving out those of more than `longest` entries, whose mean is
/// `mean`.
///
/// Where lengths vary, a warp waits for the longest of its rows, so they count for more: the mean is taken with that over
/// entries, geometrically. Where there are too few rows to fill a GPU, more lanes shorten the chain of loads at no cost.
///
/// On an H200 (driver 580, 2026-11-21), f32, us as chosen by the mean alone / by the best number of lanes: R-MAT 17/8 17.1
/// (1) / 13.9 (4); pubmed 12.0 (1) / 6.5 (8); cora 8.4 (1) / 5.6 (8); NotreDame_www 12.9 (1) / 11.3 (2).
fn lanes(structure: &Structure, mean: f64, longest: usize, most: u32) -> u32 {
    /// Threads that a large GPU works on at a time, almost three times over: that much keeps it busy to the end.
    const FILL: usize = 3 << 18;
    let row = mean * structure.spread(longest).sqrt();
    let mut lanes = lanes_for(row).min(most);
    let longest = longest.min(structure.max_row) as f64;
    // Entries that a group takes in a step: neither more than the longest row has, nor much more than most have.
    let step = |lanes: u32| f64::from(ENTRIES_PER_STEP * lanes);
    while lanes < most
        && structure.nrows * 2 * lanes as usize <= FILL
        && step(lanes) <= longest
        && step(lanes) < 3.0 * row
    {
        lanes *= 2;
    }
    lanes
}

/// Whether the matrix is skewed, or its rows are long enough for 16-byte loads to be faster: those of `f32` from about 12
/// entries on, those of `f64` only where the gathers of `x` go all over the place.
///
/// On an H200 (driver 580, 2026-11-21), 8 lanes, GB/s adaptive / vector: 27-point stencil f32 3805 / 3708, f64 3834 /
/// 4286; 16 entries a row at random f64 1662 / 1572.
fn suits_adaptive<T: Scalar>(structure: &Structure) -> bool {
    let quads = structure.mean_row() >= 12.0 && (T::DTYPE == DType::F32 || structure.locality() < 0.5);
    quads || structure.max_row > csr_adaptive::long_row(structure)
}

impl<T: Scalar> DeviceMatrix<T> {
    /// `y = alpha * A * x + beta * y`.
    ///
    /// With `beta` = 0 the old `y` is not read, so it may hold NaN. The sums of a row are taken in a fixed order: the
    /// same input on the same device gives the same bits. `O(nnz + nrows)` work.
    ///
    /// On a GPU the product is queued on `y`'s queue: nothing is allocated there, nothing waits. The first product of
    /// a process also loads the kernel.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if `x` has not `ncols` or `y` not `nrows` elements; [`DeviceMismatch`](crate::Error::DeviceMismatch) if one
    /// of the three is on another device; [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
    pub fn spmv(&self, alpha: T, x: &DeviceVec<T>, beta: T, y: &mut DeviceVec<T>) -> Result<()> {
        self.check_arguments(x, y)?;
        match &self.storage {
            WithOffsets::Bits32(storage) => Product { a: self, storage, alpha, x, beta, y }.queue(),
            WithOffsets::Bits64(storage) => Product { a: self, storage, alpha, x, beta, y }.queue(),
        }
    }

    /// The product as a [`Graph`], which queues it any number of times: with the same `x` and `y`, which stay borrowed.
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device};
    /// # let a = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![2.0f32])?;
    /// # let device = Device::auto();
    /// # let a = device.upload(&a)?;
    /// let x = device.upload_vec(&[1.0])?;
    /// let mut y = device.zeros(1)?;
    /// a.spmv_graph(1.0, &x, 1.0, &mut y)?.launch(5)?; // five times y = A * x + y
    /// assert_eq!(y.to_vec()?, [10.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`spmv`](Self::spmv), and [`InvalidOption`](crate::Error::InvalidOption) if matrix, `x` and `y` live on
    /// different queues of a GPU.
    pub fn spmv_graph<'a>(
        &'a self,
        alpha: T,
        x: &'a DeviceVec<T>,
        beta: T,
        y: &'a mut DeviceVec<T>,
    ) -> Result<Graph<'a>> {
        self.check_arguments(x, y)?;
        // SAFETY: the graph holds the borrows of all arguments, for as long as it can be launched.
        let recording = unsafe {
            match &self.storage {
                WithOffsets::Bits32(storage) => Product { a: self, storage, alpha, x, beta, y }.record(),
                WithOffsets::Bits64(storage) => Product { a: self, storage, alpha, x, beta, y }.record(),
            }
        }?;
        Ok(Graph::new(move || self.spmv(alpha, x, beta, y), recording))
    }

    fn check_arguments(&self, x: &DeviceVec<T>, y: &DeviceVec<T>) -> Result<()> {
        check_length("x", self.ncols(), x.len())?;
        check_length("y", self.nrows(), y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())
    }
}

/// `y = alpha * A * x + beta * y`, where the lengths fit and all arguments are on one device. `storage` is that of `a`.
struct Product<'a, T, O> {
    a: &'a DeviceMatrix<T>,
    storage: &'a Storage<T, O>,
    alpha: T,
    x: &'a DeviceVec<T>,
    beta: T,
    y: &'a mut DeviceVec<T>,
}

impl<T: Scalar, O: Offset> Product<'_, T, O> {
    /// Queues the product on `y`'s queue; the CPU computes it at once.
    fn queue(self) -> Result<()> {
        match &self.a.plan {
            Plan::Cpu => {
                const IN_HOST_MEMORY: &str = "all that the CPU device holds is in host memory";
                let matrix = self.storage.as_host().expect(IN_HOST_MEMORY);
                let x = self.x.buffer().as_host().expect(IN_HOST_MEMORY);
                let y = self.y.parts_mut().1.as_host_mut().expect(IN_HOST_MEMORY);
                cpu::spmv(matrix, self.alpha, x, self.beta, y);
                Ok(())
            }
            Plan::CsrAdaptive(plan) => plan.spmv(self),
            Plan::CsrVector { variant, .. } => csr_vector::spmv(variant, self),
        }
    }

    /// Records the product for `y`'s queue, where that is a GPU's.
    ///
    /// # Safety
    /// The arguments stay borrowed for as long as the recording may be launched.
    unsafe fn record(self) -> Result<Option<Recording>> {
        match &self.a.plan {
            Plan::Cpu => Ok(None),
            // SAFETY: the caller's promise.
            Plan::CsrAdaptive(plan) => unsafe { plan.record(self) },
            // SAFETY: the caller's promise.
            Plan::CsrVector { variant, .. } => unsafe { csr_vector::record(variant, self) },
        }
    }
}
