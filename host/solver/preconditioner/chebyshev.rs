//! Chebyshev's polynomial as a preconditioner.

use std::sync::{Arc, Mutex};

use super::{
    Preconditioner,
    amg::{Iterates, Operator, Scaling, Smoothed, chebyshev, extremes},
};
use crate::{
    Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, Error, Result, Scalar,
    device::{self, check_length},
};

/// Degrees, at most.
const MAX_DEGREE: u32 = 64;

/// The value at 0 of Chebyshev's polynomial, which is between -1 and 1 in the interval: 3 leaves the eigenvalues there between 2/3 and 4/3.
const DAMPING: f64 = 3.0;

/// A preconditioner of products alone, without dots and triangular solves: Chebyshev's iteration of a fixed degree for `D^-1 A`, from 0 (Saad, "Iterative
/// Methods for Sparse Linear Systems", 2003, algorithm 12.1). For symmetric positive definite matrices, for which it is symmetric positive definite too.
///
/// ```
/// use warpsparse::{Cg, Chebyshev, Device, io::generate};
///
/// let device = Device::auto();
/// let a = device.upload(&generate::poisson2d::<f64>(64)?)?;
/// let (b, mut x) = (device.upload_vec(&vec![1.0; 64 * 64])?, device.zeros(64 * 64)?);
/// let plain = Cg::new(&a).solve(&b, &mut x)?.iterations;
/// x.fill(0.0)?;
/// let info = Cg::new(&a).preconditioner(Chebyshev::new(&a, 4)?).solve(&b, &mut x)?;
/// assert!(3 * info.iterations < plain);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// A polynomial of degree `k` takes `k - 1` products, and conjugate gradients then take up to `k` times fewer iterations: hardly fewer products, but fewer
/// dot products, each of which is a point of synchronisation.
///
/// Memory: the diagonal, three vectors, and a copy of the matrix unless it is in CSR, sorted and without duplicates.
#[derive(Debug)]
pub struct Chebyshev<T> {
    smoothed: Smoothed<T>,
    iterates: Arc<Mutex<Iterates<T>>>,
    interval: (f64, f64),
}

impl<T: Scalar> Chebyshev<T> {
    /// The polynomial of this degree, 1 to 64, for an interval of eigenvalues from Lanczos's method (12 steps, or 3 for each degree if that is more): up to 1.05 times
    /// the largest that it finds, or Gershgorin's bound if that is less, and down to the smallest one that the degree resolves. It is not checked that the matrix is
    /// symmetric. Duplicate entries are summed. `O(nnz)` work for each step; waits for the result.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown), naming the first such row, for an element
    /// of the diagonal that is negative, or 0 though the row has other entries, and for numbers that are not finite;
    /// [`InvalidOption`](Error::InvalidOption) for another degree, and while a graph is recorded; [`OutOfMemory`](Error::OutOfMemory) and
    /// [`Driver`](Error::Driver).
    pub fn new(a: &DeviceMatrix<T>, degree: u32) -> Result<Self> {
        Self::of(a, degree, None)
    }

    /// As [`new`](Self::new), for these smallest and largest eigenvalues of `D^-1 A`. Smaller eigenvalues do no harm. Larger ones make the
    /// polynomial indefinite if its degree is even.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`InvalidOption`](Error::InvalidOption) unless `0 < smallest < largest`, both finite.
    pub fn with_eigenvalues(a: &DeviceMatrix<T>, degree: u32, (smallest, largest): (f64, f64)) -> Result<Self> {
        if !(0.0 < smallest && smallest < largest && largest.is_finite()) {
            let problem = format!("eigenvalues from {smallest} to {largest} for Chebyshev's polynomial");
            return Err(Error::InvalidOption(problem));
        }
        Self::of(a, degree, Some((smallest, largest)))
    }

    fn of(a: &DeviceMatrix<T>, degree: u32, interval: Option<(f64, f64)>) -> Result<Self> {
        device::refuse("the setup of Chebyshev's polynomial")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        if !(1..=MAX_DEGREE).contains(&degree) {
            return Err(Error::InvalidOption(format!(
                "Chebyshev's polynomial of degree {degree}: it is 1 to {MAX_DEGREE}"
            )));
        }
        let a = a.operand()?.into_matrix(a.device()).canonical()?;
        let scaling = Scaling::of(&a).map_err(|error| error.within("Chebyshev's polynomial"))?;
        let interval = match interval {
            Some(interval) => interval,
            None => {
                let (smallest, largest) = extremes(&a, &scaling.inverse, scaling.bound, degree)?;
                (smallest.max(resolved(degree) * largest).min(0.5 * largest), largest)
            }
        };
        let operator = Operator::of(a)?;
        let factors = chebyshev(degree, interval.0, interval.1);
        let smoothed = Smoothed::new(operator, scaling.inverse, factors);
        let iterates = Arc::new(Mutex::new(Iterates::new(smoothed.operator.a.device(), Some(&smoothed))?));
        Ok(Self { smoothed, iterates, interval })
    }

    /// Returns the smallest and the largest eigenvalue of `D^-1 A` that the polynomial is made for.
    #[must_use]
    pub fn eigenvalues(&self) -> (f64, f64) {
        self.interval
    }

    /// Returns the degree.
    #[must_use]
    pub fn degree(&self) -> u32 {
        self.smoothed.factors.len() as u32
    }
}

/// The quotient of the ends of the interval for which the polynomial of this degree has [`DAMPING`].
fn resolved(degree: u32) -> f64 {
    let sigma = (DAMPING.acosh() / f64::from(degree)).cosh();
    (sigma - 1.0) / (sigma + 1.0)
}

impl<T: Scalar> Preconditioner<T> for Chebyshev<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        let (n, device) = (self.smoothed.operator.a.nrows(), self.smoothed.operator.a.device());
        check_length("r", n, r.len())?;
        check_length("z", n, z.len())?;
        z.device().check_same("the preconditioner", device)?;
        z.device().check_same("r", r.device())?;
        match n {
            0 => Ok(()),
            _ => device::lock(&self.iterates).polynomial(&self.smoothed, r, z),
        }
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.smoothed.operator.a.device())
    }

    fn is_expensive(&self) -> bool {
        true
    }
}
