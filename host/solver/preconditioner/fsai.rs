//! Factorised sparse approximate inverses.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use super::Preconditioner;
use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar,
    device::{self, check_length},
    formats::rows::from_rows,
};

/// Entries of a row of the factor, at most.
const MAX_ROW: usize = 64;

/// Powers of the matrix, at most.
const MAX_POWER: u32 = 4;

/// A pivot is one if it is greater than so many rounding errors of the element on the diagonal.
const PIVOT: f64 = 16.0 * f64::EPSILON;

/// A factorised sparse approximate inverse `Gᵀ G` of a symmetric positive definite matrix (Kolotilina & Yeremin, 1993): a triangular matrix `G` of a given
/// pattern, the nearest to the inverse of the Cholesky factor that it can hold. It is symmetric positive definite.
///
/// ```
/// use warpsparse::{Cg, Device, Fsai, Jacobi, io::generate};
///
/// let device = Device::auto();
/// let a = device.upload(&generate::poisson2d::<f64>(64)?)?;
/// let (b, mut x) = (device.upload_vec(&vec![1.0; 64 * 64])?, device.zeros(64 * 64)?);
/// let jacobi = Cg::new(&a).preconditioner(Jacobi::new(&a)?).solve(&b, &mut x)?.iterations;
/// x.fill(0.0)?;
/// let info = Cg::new(&a).preconditioner(Fsai::with_power(&a, 2)?).solve(&b, &mut x)?;
/// assert!(3 * info.iterations < 2 * jacobi);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// An application is two sparse products, without the dependent levels of a triangular solve; it usually takes more iterations than [`Ilu`](crate::Ilu). Every row of `G`
/// solves a small dense system, all in parallel, on the host, in `f64`: the factor has the same bits on every device.
///
/// Memory: `G` and its transpose, together as large as the pattern, and a vector.
#[derive(Debug)]
pub struct Fsai<T> {
    g: DeviceMatrix<T>,
    transpose: DeviceMatrix<T>,
    /// `G r`.
    middle: Arc<Mutex<DeviceVec<T>>>,
}

impl<T: Scalar> Fsai<T> {
    /// A factor with the pattern of the lower triangle of the matrix. It is not checked that the matrix is symmetric: its lower triangle is read. Duplicate
    /// entries are summed. `O(n m^3)` work for `m` entries in a row of the triangle, on the host, to which the matrix is copied; waits for the result.
    ///
    /// A row of `G` has at most 64 entries: the diagonal and the 63 largest others, by magnitude in the matrix, or in its power.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown), naming the first such row, if a part of the
    /// matrix is not positive definite, or has numbers that are not finite; [`InvalidOption`](Error::InvalidOption) while a graph is recorded;
    /// [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn new(a: &DeviceMatrix<T>) -> Result<Self> {
        Self::with_power(a, 1)
    }

    /// As [`new`](Self::new), with the pattern of a power of the matrix, 1 to 4: more entries and fewer iterations.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`InvalidOption`](Error::InvalidOption) for another power.
    pub fn with_power(a: &DeviceMatrix<T>, power: u32) -> Result<Self> {
        device::refuse("the setup of an approximate inverse")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        if !(1..=MAX_POWER).contains(&power) {
            let problem =
                format!("the power {power} for the pattern of an approximate inverse: it is 1 to {MAX_POWER}");
            return Err(Error::InvalidOption(problem));
        }
        let own = a.operand()?.into_matrix(a.device()).canonical()?;
        let matrix = own.download()?.into_csr()?;
        let pattern = match power {
            1 => None,
            _ => {
                let mut product = own.multiply(&own)?;
                for _ in 2..power {
                    product = product.multiply(&own)?;
                }
                Some(product.canonical()?.download()?.into_csr()?)
            }
        };
        let g = a.device().upload(&factor(&matrix, pattern.as_ref().unwrap_or(&matrix))?)?;
        let transpose = g.transpose()?;
        transpose.choose_kernels()?;
        Ok(Self { g, transpose, middle: Arc::new(Mutex::new(a.device().zeros(matrix.nrows())?)) })
    }

    /// Returns `G`, a lower triangle.
    #[must_use]
    pub fn factor(&self) -> &DeviceMatrix<T> {
        &self.g
    }
}

impl<T: Scalar> Preconditioner<T> for Fsai<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let mut middle = device::lock(&self.middle);
        self.g.spmv(one, r, zero, &mut *middle)?;
        self.transpose.spmv(one, &*middle, zero, z)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.g.device())
    }
}

/// `G`, whose rows have their columns from the lower triangle of the pattern.
fn factor<T: Scalar>(matrix: &CsrMatrix<T>, pattern: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let n = matrix.nrows();
    let first_bad = AtomicU32::new(u32::MAX);
    let below = |row: usize| {
        let (columns, values) = pattern.row(row);
        // An element of the diagonal that is not stored is 0: the row is bad.
        let count = columns.partition_point(|&column| (column as usize) < row);
        (&columns[..count], &values[..count])
    };
    let g = from_rows(
        n,
        n,
        |row| below(row).0.len().min(MAX_ROW - 1) + 1,
        |row, columns, values: &mut [T]| {
            let (last, others) = columns.split_last_mut().expect("the diagonal at least");
            *last = row as u32;
            largest(below(row), others);
            match solution(matrix, columns) {
                Some(solution) => {
                    values.iter_mut().zip(solution).for_each(|(value, number)| *value = T::from_f64(number));
                }
                None => _ = first_bad.fetch_min(row as u32, Relaxed),
            }
        },
    )?;
    match first_bad.into_inner() {
        u32::MAX => Ok(g),
        row => {
            let problem = format!(
                "an approximate inverse, row {row} of {n}: the part of the matrix that the row covers is not positive definite, or numbers are not finite"
            );
            Err(Error::Breakdown { iteration: 0, problem })
        }
    }
}

/// As many columns as there is room for, those with the largest numbers, in ascending order.
fn largest<T: Scalar>((columns, values): (&[u32], &[T]), kept: &mut [u32]) {
    if columns.len() == kept.len() {
        return kept.copy_from_slice(columns);
    }
    let mut places: Vec<usize> = (0..columns.len()).collect();
    places.sort_by(|&i, &j| values[j].to_f64().abs().total_cmp(&values[i].to_f64().abs()));
    places.truncate(kept.len());
    places.sort_unstable();
    kept.iter_mut().zip(places).for_each(|(kept, place)| *kept = columns[place]);
}

/// The `g` of least `g A gᵀ - 2 g e` over these columns, scaled to `g A gᵀ = 1`: with the Cholesky factor `L` of their part of the matrix, `Lᵀ g = e`, where `e` is
/// the last unit vector. None if there is no such factor.
fn solution<T: Scalar>(matrix: &CsrMatrix<T>, columns: &[u32]) -> Option<Vec<f64>> {
    let m = columns.len();
    let mut l = vec![0.0; m * m];
    for p in 0..m {
        let (done, rest) = l.split_at_mut(p * m);
        let own = &mut rest[..=p];
        gather(matrix.row(columns[p] as usize), &columns[..=p], own);
        let diagonal = own[p];
        for q in 0..p {
            let other = &done[q * m..];
            own[q] = (own[q] - dot(&own[..q], &other[..q])) / other[q];
        }
        let pivot = own[p] - dot(&own[..p], &own[..p]);
        if !(pivot.is_finite() && pivot > PIVOT * diagonal) {
            return None;
        }
        own[p] = pivot.sqrt();
    }
    let mut g = vec![0.0; m];
    g[m - 1] = 1.0 / l[m * m - 1];
    for q in (0..m - 1).rev() {
        let sum: f64 = (q + 1..m).map(|p| l[p * m + q] * g[p]).sum();
        g[q] = -sum / l[q * m + q];
    }
    g.iter().all(|number| number.is_finite()).then_some(g)
}

/// The numbers of a row at some columns. Both ascend.
fn gather<T: Scalar>((columns, values): (&[u32], &[T]), wanted: &[u32], numbers: &mut [f64]) {
    let mut place = 0;
    for (&wanted, number) in wanted.iter().zip(numbers) {
        place += columns[place..].partition_point(|&column| column < wanted);
        if columns.get(place) == Some(&wanted) {
            *number = values[place].to_f64();
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
