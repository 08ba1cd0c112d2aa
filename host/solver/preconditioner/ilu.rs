//! Incomplete factors without fill.

mod fixed_point;

use std::sync::{Arc, Mutex};

use kernels_gpu::ilu::{Args, Key, grid_size, is_bad};

use super::Preconditioner;
use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Diagonal, Error, Result, Scalar, Triangle,
    conversion::{Operand, copy_of},
    device::{self, Buffer, check_length, launch},
    memory,
    stored::CsrArrays,
    triangular::{Rows, Schedule, Sides, TriangularSweeps},
};

/// The first shift of [`Ilu::symmetric`] if pivots are not positive; every further one is twice as large.
const FIRST_SHIFT: f64 = 1e-3;

/// With this one, a diagonal that is positive dominates in all but extreme matrices.
const LAST_SHIFT: f64 = 100.0;

/// Incomplete factors of a matrix with the pattern of the matrix itself: ILU(0), and for symmetric positive definite matrices IC(0) as `L D Lᵀ`.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, Ilu, Solver};
///
/// // 4 1
/// // 2 3: without fill the factors are exact
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 2.0, 3.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let (b, mut x) = (device.upload_vec(&[6.0, 8.0])?, device.zeros(2)?);
/// let info = Solver::new(&a).preconditioner(Ilu::new(&a)?).solve(&b, &mut x)?;
/// assert_eq!(info.iterations, 1);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// An application is two triangular solves, which on a GPU take the longer the more levels the rows have: see
/// [`TriangularSolver`](crate::TriangularSolver). [`with_sweeps`](Self::with_sweeps) replaces them by products with vectors, and [`fixed_point`](Self::fixed_point) the
/// factorisation, which has the same levels, by sparse products. Factors and applications have the same bits in every run, and the factors on every device. Applications queue
/// operations without waiting and can be recorded.
///
/// Memory: a copy of the matrix, of whose pattern there is none on the CPU; a vector; on a GPU 28 bytes a row, up to 44 where levels have few rows. With sweeps, another
/// copy of the matrix and five vectors.
#[derive(Debug)]
pub struct Ilu<T> {
    /// L without its diagonal of ones, and U.
    factors: Operand<T>,
    pattern: Pattern,
    kind: Kind,
    method: Method,
    shift: f64,
    /// L and U, if they are solved with by sweeps.
    sweeps: Option<[TriangularSweeps<T>; 2]>,
    /// The solution with L.
    middle: Arc<Mutex<DeviceVec<T>>>,
}

/// How the factors are computed.
#[derive(Clone, Copy, Debug)]
enum Method {
    /// By the levels of the rows.
    Exact,
    /// By so many sweeps of a fixed-point iteration.
    FixedPoint(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    General,
    /// All pivots are positive.
    Symmetric,
}

/// What depends on the pattern alone.
#[derive(Debug)]
struct Pattern {
    lower: Schedule,
    upper: Schedule,
    /// The entry on the diagonal of each row; the CPU finds it itself.
    diagonals: Option<DeviceVec<u32>>,
}

impl<T: Scalar> Ilu<T> {
    /// Factors a square matrix in any format. Duplicate entries are summed. `O(nnz * entries per row)` work; waits for the result.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown), naming the first such row, if an element of the
    /// diagonal is not stored, or a pivot is zero or not finite; [`InvalidOption`](Error::InvalidOption) while a graph is recorded;
    /// [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn new(a: &DeviceMatrix<T>) -> Result<Self> {
        Self::of(a, Kind::General, Method::Exact)
    }

    /// Factors a symmetric matrix into factors that are positive definite, as conjugate gradients and MINRES need. It is not checked that the matrix is symmetric.
    ///
    /// If a pivot is not positive, a multiple of the diagonal is added to the matrix (Manteuffel, 1980): see [`shift`](Self::shift).
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Breakdown`](Error::Breakdown) if no shift helps, as where an element of the diagonal is not positive.
    pub fn symmetric(a: &DeviceMatrix<T>) -> Result<Self> {
        Self::of(a, Kind::Symmetric, Method::Exact)
    }

    /// Approximates the factors of [`new`](Self::new) by so many sweeps of a fixed-point iteration over all entries at once (Chow & Patel, "Fine-grained parallel
    /// incomplete LU factorization", 2015, in its synchronous form). Each sweep is a sparse product and sums of matrices, however many levels the rows have; 3 to 5
    /// are mostly enough for a preconditioner. Each sweep makes the factors of at least one more level exact, apart from rounding.
    ///
    /// Needs memory for about six copies of the matrix meanwhile.
    ///
    /// # Errors
    /// As [`new`](Self::new). Where the iteration diverges, a pivot may become 0 or infinite: scale the matrix to a diagonal of ones, or use `new`.
    pub fn fixed_point(a: &DeviceMatrix<T>, sweeps: usize) -> Result<Self> {
        Self::of(a, Kind::General, Method::FixedPoint(sweeps))
    }

    /// As [`fixed_point`](Self::fixed_point), for the factors of [`symmetric`](Self::symmetric): with positive pivots, if need be of a shifted matrix.
    ///
    /// # Errors
    /// As [`symmetric`](Self::symmetric).
    pub fn symmetric_fixed_point(a: &DeviceMatrix<T>, sweeps: usize) -> Result<Self> {
        Self::of(a, Kind::Symmetric, Method::FixedPoint(sweeps))
    }

    /// Solves with each factor by so many sweeps of Jacobi's method instead of exactly: see [`TriangularSweeps`], also for when that pays. The preconditioner
    /// stays linear, and symmetric positive definite if the factors are.
    ///
    /// # Errors
    /// [`Breakdown`](Error::Breakdown) for a pivot without a finite inverse; [`InvalidOption`](Error::InvalidOption) while a graph is recorded;
    /// [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn with_sweeps(mut self, sweeps: usize) -> Result<Self> {
        self.sweeps = Some(self.triangular_sweeps(sweeps)?);
        Ok(self)
    }

    fn of(a: &DeviceMatrix<T>, kind: Kind, method: Method) -> Result<Self> {
        device::refuse("an incomplete factorisation")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        let matrix = a.operand()?.canonical()?;
        let lower = Schedule::new(&matrix, Triangle::Lower, Diagonal::Unit)?;
        let (upper, diagonals) = Schedule::with_diagonals(&matrix, Triangle::Upper)?;
        let pattern = Pattern { lower, upper, diagonals };
        let (factors, shift) = factor(a.device(), &matrix, &pattern, kind, method)?;
        let middle = Arc::new(Mutex::new(a.device().scratch(a.nrows())?));
        Ok(Self { factors, pattern, kind, method, shift, sweeps: None, middle })
    }

    fn triangular_sweeps(&self, sweeps: usize) -> Result<[TriangularSweeps<T>; 2]> {
        let factors = self.factors.clone().into_matrix(device::lock(&self.middle).device());
        let lower = TriangularSweeps::new(&factors, Triangle::Lower, Diagonal::Unit, sweeps)?;
        let upper = TriangularSweeps::new(&factors, Triangle::Upper, Diagonal::Stored, sweeps)?;
        Ok([lower, upper])
    }

    /// Factors new values on the same pattern, without another analysis. After an error the factors are as they were.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) for another pattern; [`DeviceMismatch`](Error::DeviceMismatch); otherwise as [`new`](Self::new).
    pub fn update_values(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        device::refuse("an incomplete factorisation")?;
        self.factors.check_device("the factors", a.device())?;
        let matrix = a.operand()?.canonical()?;
        let is_same = match (&matrix, &self.factors) {
            (Operand::Host(new), Operand::Host(old)) => new.has_pattern_of(old),
            (Operand::Device(new), Operand::Device(old)) => new.has_pattern_of(old)?,
            _ => false,
        };
        if !is_same {
            return Err(Error::InvalidOption("new values for incomplete factors of another pattern".into()));
        }
        let (factors, shift) = factor(a.device(), &matrix, &self.pattern, self.kind, self.method)?;
        let old = std::mem::replace(&mut self.factors, factors);
        if let Some([lower, _]) = &self.sweeps {
            match self.triangular_sweeps(lower.sweeps()) {
                Ok(sweeps) => self.sweeps = Some(sweeps),
                Err(error) => {
                    self.factors = old;
                    return Err(error);
                }
            }
        }
        self.shift = shift;
        Ok(())
    }

    /// Returns what was added to the diagonal before the factorisation, relative to it: 0, except where [`symmetric`](Self::symmetric) had to.
    #[must_use]
    pub fn shift(&self) -> f64 {
        self.shift
    }

    /// Returns the number of levels of L and of U: see [`TriangularSolver::levels`](crate::TriangularSolver::levels).
    #[must_use]
    pub fn levels(&self) -> [usize; 2] {
        [self.pattern.lower.levels(), self.pattern.upper.levels()]
    }

    /// Copies the factors: L without its diagonal of ones below the diagonal, and U. Waits for the copy.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn factors(&self) -> Result<CsrMatrix<T>> {
        match &self.factors {
            Operand::Host(matrix) => Ok(matrix.clone()),
            Operand::Device(arrays) => DeviceMatrix::of_csr(arrays.clone()).download()?.into_csr(),
        }
    }
}

impl<T: Scalar> Preconditioner<T> for Ilu<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        let mut middle = device::lock(&self.middle);
        if let Some([lower, upper]) = &self.sweeps {
            lower.solve(r, &mut *middle)?;
            return upper.solve(&*middle, z);
        }
        self.pattern.lower.solve(&self.factors, Sides::of_vectors(r, (&mut *middle).into()))?;
        self.pattern.upper.solve(&self.factors, Sides::of_vectors((&*middle).into(), z))
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        match &self.factors {
            Operand::Host(_) => None,
            Operand::Device(arrays) => Some(&arrays.device),
        }
    }

    fn is_expensive(&self) -> bool {
        true
    }
}

/// The factors, and the shift that they needed.
fn factor<T: Scalar>(
    device: &Device,
    matrix: &Operand<T>,
    pattern: &Pattern,
    kind: Kind,
    method: Method,
) -> Result<(Operand<T>, f64)> {
    let mut shift = 0.0;
    loop {
        let shifted = T::from_f64(shift);
        let (factors, bad_row) = match (method, matrix) {
            (Method::FixedPoint(sweeps), _) => {
                fixed_point::factor(&matrix.clone().into_matrix(device), kind, shifted, sweeps)?
            }
            (Method::Exact, Operand::Host(matrix)) => factor_on_cpu(matrix, kind, shifted)?,
            (Method::Exact, Operand::Device(arrays)) => factor_on_device(arrays, pattern, kind, shifted)?,
        };
        let Some(row) = bad_row else { return Ok((factors, shift)) };
        shift = if shift == 0.0 { FIRST_SHIFT } else { 2.0 * shift };
        if kind == Kind::General || shift > LAST_SHIFT {
            let what = if kind == Kind::General { "zero or not finite" } else { "not positive or not finite" };
            let problem = format!("incomplete factors, row {row}: the pivot is {what}");
            return Err(Error::Breakdown { iteration: 0, problem });
        }
    }
}

/// The factors, and the first row with a bad pivot.
fn factor_on_cpu<T: Scalar>(matrix: &CsrMatrix<T>, kind: Kind, shift: T) -> Result<(Operand<T>, Option<usize>)> {
    let (offsets, columns) = (matrix.row_offsets(), matrix.col_indices());
    let mut values = matrix.values().to_vec();
    let (diagonals, mut bad_row) = (diagonals(&Rows::on_cpu(matrix))?, None);
    for row in 0..matrix.nrows() {
        let (begin, end, diagonal) = (offsets[row] as usize, offsets[row + 1] as usize, diagonals[row] as usize);
        values[diagonal] = shift.mul_add(values[diagonal], values[diagonal]);
        for entry in begin..diagonal {
            let other = columns[entry] as usize;
            let pivot = diagonals[other] as usize;
            let factor = values[entry] / values[pivot];
            values[entry] = factor;
            // Both rows ascend.
            let mut own = entry + 1;
            for theirs in pivot + 1..offsets[other + 1] as usize {
                while own < end && columns[own] < columns[theirs] {
                    own += 1;
                }
                if own < end && columns[own] == columns[theirs] {
                    values[own] = (-factor).mul_add(values[theirs], values[own]);
                }
            }
        }
        if bad_row.is_none() && is_bad(values[diagonal], kind == Kind::Symmetric) {
            bad_row = Some(row);
        }
    }
    Ok((Operand::Host(matrix.with_values(values)), bad_row))
}

/// As [`factor_on_cpu`], with the same bits.
fn factor_on_device<T: Scalar>(
    matrix: &CsrArrays<T, u32>,
    pattern: &Pattern,
    kind: Kind,
    shift: T,
) -> Result<(Operand<T>, Option<usize>)> {
    let (device, rows) = (&matrix.device, matrix.nrows);
    let mut values = matrix.values.read().try_clone()?;
    let mut bad_row = Buffer::upload(device, &[u32::MAX])?;
    if let (1.., Some(diagonals), Some(order)) = (rows, &pattern.diagonals, pattern.lower.order()) {
        let (mut done, mut ticket) = (device.zeros::<u32>(rows as usize)?, device.zeros::<u32>(1)?);
        let args = Args {
            rows,
            entries: matrix.nnz,
            positive: u32::from(kind == Kind::Symmetric),
            shift,
            row_offsets: matrix.row_offsets.readable(device),
            col_indices: matrix.col_indices.readable(device),
            diagonals: diagonals.readable(),
            order: order.readable(),
            values: values.writable(),
            done: done.writable(),
            ticket: ticket.writable(),
            bad_row: bad_row.writable(device),
        };
        // SAFETY: a square, canonical matrix with a full diagonal, its rows by level, and new arrays; the entry is for `T`.
        unsafe { launch(device, Key { dtype: T::DTYPE }.entry(), grid_size(rows), args) }?;
    }
    let bad_row = bad_row.to_vec(device)?[0];
    let size = (rows, matrix.ncols, matrix.nnz);
    let (offsets, columns) = (copy_of(&matrix.row_offsets, device)?, copy_of(&matrix.col_indices, device)?);
    // SAFETY: the pattern of the matrix, which is canonical.
    let factors = unsafe { CsrArrays::of_vectors(size, offsets, columns, values, Some(true)) };
    Ok((Operand::Device(factors.into()), (bad_row != u32::MAX).then_some(bad_row as usize)))
}

/// The entry on the diagonal of each row, all of which are there.
fn diagonals(rows: &Rows<'_>) -> Result<Vec<u32>> {
    let mut diagonals = memory::zeros::<u32>(rows.len())?;
    diagonals.iter_mut().enumerate().for_each(|(row, diagonal)| *diagonal = rows.split(row) as u32);
    Ok(diagonals)
}
