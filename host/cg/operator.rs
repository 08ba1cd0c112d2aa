//! What the method is given: the matrix or a function in its place, and the preconditioner.

use std::fmt;

use crate::{Device, DeviceMatrix, DeviceVec, Error, Result, Scalar, device::check_length};

/// A linear map of vectors of length `size` to such vectors: a matrix, or anything that computes what a matrix would.
///
/// ```
/// use warpsparse::{Cg, Device, DeviceVec, LinearOperator, Result};
///
/// /// Twice the vector.
/// struct Twice(Device);
///
/// impl LinearOperator<f64> for Twice {
///     fn size(&self) -> usize { 3 }
///     fn device(&self) -> &Device { &self.0 }
///     fn apply(&self, x: &DeviceVec<f64>, y: &mut DeviceVec<f64>) -> Result<()> {
///         y.copy_from(&x.to_vec()?.iter().map(|x| 2.0 * x).collect::<Vec<_>>())
///     }
/// }
///
/// let twice = Twice(Device::cpu());
/// let b = twice.device().upload_vec(&[2.0, 4.0, 6.0])?;
/// let mut x = twice.device().zeros(3)?;
/// Cg::new(&twice).solve(&b, &mut x)?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
pub trait LinearOperator<T: Scalar> {
    /// Rows, and columns.
    fn size(&self) -> usize;

    /// Where the vectors live.
    fn device(&self) -> &Device;

    /// `y = A * x`, queued on `y`'s queue. The old `y` may hold anything. It is written in place: whoever puts another
    /// vector there, as by [`std::mem::swap`], makes the solution fail with [`Error::InvalidOption`].
    ///
    /// # Errors
    /// Its own.
    fn apply(&self, x: &DeviceVec<T>, y: &mut DeviceVec<T>) -> Result<()>;

    /// The matrix, if it is one of this crate's: its products are part of the method's kernels. Nobody else can implement
    /// this, for the argument's type has no name outside.
    #[doc(hidden)]
    fn as_matrix(&self, _: sealed::Token) -> Option<&DeviceMatrix<T>> {
        None
    }
}

pub(super) mod sealed {
    /// What only this crate can name.
    #[derive(Debug)]
    pub struct Token;
}

/// The products of a square matrix. Of others, [`Cg`](crate::Cg) refuses to solve a system.
impl<T: Scalar> LinearOperator<T> for DeviceMatrix<T> {
    fn size(&self) -> usize {
        self.nrows()
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn apply(&self, x: &DeviceVec<T>, y: &mut DeviceVec<T>) -> Result<()> {
        check_length("the row of A", self.nrows(), self.ncols())?;
        self.spmv(T::from_f64(1.0), x, T::default(), y)
    }

    fn as_matrix(&self, _: sealed::Token) -> Option<&DeviceMatrix<T>> {
        Some(self)
    }
}

/// A symmetric positive definite linear map that is about the inverse of the matrix.
pub trait Preconditioner<T: Scalar> {
    /// `z = M * r`, queued on `z`'s queue. The old `z` may hold anything. It is written in place, as in
    /// [`LinearOperator::apply`].
    ///
    /// # Errors
    /// Its own.
    fn apply(&self, r: &DeviceVec<T>, z: &mut DeviceVec<T>) -> Result<()>;
}

/// Has `apply`, a function of the user's called `what`, write a vector of the method's. `&mut` lets it put another vector
/// there, whose length and queue nobody knows: that is an error.
pub(super) fn write_in_place<T: Scalar>(
    what: &str,
    vector: &mut DeviceVec<T>,
    apply: impl FnOnce(&mut DeviceVec<T>) -> Result<()>,
) -> Result<()> {
    let place = vector.place();
    let applied = apply(vector);
    if vector.place() != place {
        let problem = format!("{what} has replaced the vector that it was to write: write the elements of that one");
        return Err(Error::InvalidOption(problem));
    }
    applied
}

/// The inverse of the matrix's diagonal as preconditioner: for CSR matrices with 32-bit offsets.
#[derive(Clone, Copy, Debug)]
pub struct Jacobi;

/// What [`Cg::preconditioner`](crate::Cg::preconditioner) takes.
#[derive(Clone, Copy, Default)]
pub enum Preconditioning<'a, T> {
    /// None.
    #[default]
    None,
    /// [`Jacobi`].
    Jacobi,
    /// One of your own.
    By(&'a dyn Preconditioner<T>),
}

impl<T> From<Jacobi> for Preconditioning<'_, T> {
    fn from(_: Jacobi) -> Self {
        Self::Jacobi
    }
}

impl<'a, T: Scalar, P: Preconditioner<T>> From<&'a P> for Preconditioning<'a, T> {
    fn from(preconditioner: &'a P) -> Self {
        Self::By(preconditioner)
    }
}

impl<T> fmt::Debug for Preconditioning<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Jacobi => "Jacobi",
            Self::By(_) => "By(..)",
        })
    }
}
