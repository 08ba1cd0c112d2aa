//! What methods of one's own are made of: operators, preconditioners and slices, as a program outside of the crate uses them.

mod common;

use std::process::ExitCode;

use common::{Random, matrices::from_rows, on_every_device};
use warpsparse::{
    Cg, CsrMatrix, Device, DeviceMatrix, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Jacobi,
    LinearOperator, Preconditioner, Reduction, Result, StopReason, Tolerance,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("rectangular_operators", rectangular_operators));
    trials.extend(on_every_device("operators_write_what_they_are_given", operators_write_what_they_are_given));
    trials.extend(on_every_device("gmres", gmres_solves));
    common::run(trials)
}

/// A matrix, or its transpose.
struct Rectangular<'a> {
    matrix: &'a DeviceMatrix<f64>,
    transpose: &'a DeviceMatrix<f64>,
}

impl LinearOperator<f64> for Rectangular<'_> {
    fn nrows(&self) -> usize {
        self.matrix.nrows()
    }
    fn ncols(&self) -> usize {
        self.matrix.ncols()
    }
    fn device(&self) -> &Device {
        self.matrix.device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrix.spmv(1.0, x, 0.0, y)
    }
}

/// `A^T A`, of two rectangular operators.
struct Normal<'a> {
    a: Rectangular<'a>,
    transpose: Rectangular<'a>,
}

impl LinearOperator<f64> for Normal<'_> {
    fn nrows(&self) -> usize {
        self.transpose.nrows()
    }
    fn ncols(&self) -> usize {
        self.a.ncols()
    }
    fn device(&self) -> &Device {
        self.a.device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        let mut between = self.device().zeros(self.a.nrows())?;
        self.a.apply(x, (&mut between).into())?;
        self.transpose.apply((&between).into(), y)
    }
    fn can_be_recorded(&self) -> bool {
        true
    }
}

fn multiply(matrix: &CsrMatrix<f64>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; matrix.nrows()];
    matrix.triplets().for_each(|(i, j, value)| y[i] += value * x[j]);
    y
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn distance(x: &[f64], y: &[f64]) -> f64 {
    norm(&x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<_>>())
}

/// The least squares problem `A^T A x = A^T b`.
fn rectangular_operators(device: &Device) {
    let (rows, cols) = (90, 40);
    let row = |i: usize| vec![(i % cols, 4.0 + (i % 5) as f64), ((i * 7 + 3) % cols, 1.0)];
    let matrix = from_rows::<f64>(cols, (0..rows).map(row).collect());
    let (a, at) = (device.upload(&matrix).unwrap(), device.upload(&matrix.transpose().unwrap()).unwrap());
    let normal =
        Normal { a: Rectangular { matrix: &a, transpose: &at }, transpose: Rectangular { matrix: &at, transpose: &a } };
    assert_eq!((normal.a.nrows(), normal.a.ncols(), normal.a.transpose.nrows()), (rows, cols, cols));
    let solution: Vec<f64> = Random(3).vector(cols);
    let b = device.upload_vec(&multiply(&matrix, &solution)).unwrap();
    let (mut atb, mut x) = (device.zeros(cols).unwrap(), device.zeros(cols).unwrap());
    normal.transpose.apply((&b).into(), (&mut atb).into()).unwrap();
    let info = Cg::new(&normal).tolerance(Tolerance::relative(1e-12)).solve(&atb, &mut x).unwrap();
    assert_eq!(info.reason, StopReason::Converged);
    let error = distance(&x.to_vec().unwrap(), &solution);
    assert!(error <= 1e-9 * norm(&solution), "{error}");

    // The operator itself makes no system for conjugate gradients, whatever the vectors.
    for n in [rows, cols] {
        let (b, mut x) = (device.zeros(n).unwrap(), device.zeros(n).unwrap());
        let error = Cg::new(&normal.a).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { what: "the row of A", .. }), "{error}");
        let error = Cg::new(&normal.a).describe().unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { what: "the row of A", .. }), "{error}");
    }
}

/// A slice within a larger vector, the elements around it stay.
fn operators_write_what_they_are_given(device: &Device) {
    let matrix = from_rows::<f64>(3, vec![vec![(0, 2.0)], vec![(2, 1.0), (0, 1.0)]]);
    let uploaded = device.upload(&matrix).unwrap();
    let x = device.upload_vec(&[9.0, 1.0, 2.0, 3.0, 9.0]).unwrap();
    let mut y = device.upload_vec(&[7.0; 5]).unwrap();
    let operator: &dyn LinearOperator<f64> = &uploaded;
    operator.apply(x.slice(1..4).unwrap(), y.slice_mut(1..3).unwrap()).unwrap();
    assert_eq!(y.to_vec().unwrap(), [7.0, 2.0, 4.0, 7.0, 7.0]);
    let error = operator.apply(x.slice(..).unwrap(), y.slice_mut(1..3).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 3, found: 5 }), "{error}");
    let error = operator.apply(x.slice(1..4).unwrap(), y.slice_mut(1..4).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "y", expected: 2, found: 3 }), "{error}");

    // What an operator that waits does: copies of slices to the host and back.
    let mut slice = y.slice_mut(3..).unwrap();
    slice.copy_from(&[1.0, 2.0]).unwrap();
    assert_eq!(slice.to_vec().unwrap(), [1.0, 2.0]);
    let error = slice.copy_from(&[1.0]).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the source", expected: 2, found: 1 }), "{error}");
    assert_eq!(y.to_vec().unwrap(), [7.0, 2.0, 4.0, 1.0, 2.0]);
}

/// The basis of a Krylov space in one vector, and the matrix that projects on it, column by column: Arnoldi's method with modified
/// Gram-Schmidt (Saad, 2003, algorithm 6.2). Nothing waits. The products are preconditioned from the right.
struct Arnoldi {
    basis: DeviceVec<f64>,
    hessenberg: DeviceVec<f64>,
    w: DeviceVec<f64>,
    z: DeviceVec<f64>,
    dot: DeviceScalar<f64>,
}

impl Arnoldi {
    fn extend(
        &mut self,
        a: &dyn LinearOperator<f64>,
        m: &dyn Preconditioner<f64>,
        j: usize,
        restart: usize,
    ) -> Result<()> {
        let n = a.nrows();
        let Self { basis, hessenberg, w, z, dot } = self;
        m.apply(basis.slice(j * n..(j + 1) * n)?, z.into())?;
        a.apply((&*z).into(), w.into())?;
        let mut column = hessenberg.slice_mut(j * (restart + 1)..(j + 1) * (restart + 1))?;
        for i in 0..=j {
            let v = basis.slice(i * n..(i + 1) * n)?;
            w.dot_into(v, dot)?;
            w.axpy(-&*dot, v)?;
            column.slice_mut(i..=i)?.fill(&*dot)?;
        }
        w.reduce_into(Reduction::Norm2, dot)?;
        column.slice_mut(j + 1..j + 2)?.fill(&*dot)?;
        basis.slice_mut((j + 1) * n..(j + 2) * n)?.axpby(1.0 / &*dot, &*w, 0.0)
    }
}

/// GMRES (Saad & Schultz, 1986). Returns the norms that it believes in, one a step.
fn gmres(
    a: &dyn LinearOperator<f64>,
    m: &dyn Preconditioner<f64>,
    b: &DeviceVec<f64>,
    x: &mut DeviceVec<f64>,
    restart: usize,
) -> Result<Vec<f64>> {
    let (device, n) = (a.device(), a.nrows());
    let mut arnoldi = Arnoldi {
        basis: device.zeros((restart + 1) * n)?,
        hessenberg: device.zeros((restart + 1) * restart)?,
        w: device.zeros(n)?,
        z: device.zeros(n)?,
        dot: device.scalar(0.0)?,
    };
    let mut norms = Vec::new();
    for _ in 0..3 {
        a.apply((&*x).into(), (&mut arnoldi.w).into())?;
        arnoldi.w.axpby_norm(1.0, b, -1.0, &mut arnoldi.dot)?;
        let Arnoldi { basis, w, dot, .. } = &mut arnoldi;
        basis.slice_mut(..n)?.axpby(1.0 / &*dot, &*w, 0.0)?;
        let first = arnoldi.dot.get()?;
        (0..restart).try_for_each(|j| arnoldi.extend(a, m, j, restart))?;
        let (y, of_cycle) = least_squares(arnoldi.hessenberg.to_vec()?, first, restart);
        norms.extend(of_cycle);
        arnoldi.w.fill(0.0)?;
        for (j, y) in y.into_iter().enumerate() {
            arnoldi.w.axpy(y, arnoldi.basis.slice(j * n..(j + 1) * n)?)?;
        }
        m.apply((&arnoldi.w).into(), (&mut arnoldi.z).into())?;
        x.axpy(1.0, &arnoldi.z)?;
    }
    Ok(norms)
}

/// The `y` of the least `first * e1 - H y`, by rotations, and what is left after each column.
fn least_squares(mut h: Vec<f64>, first: f64, restart: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut g, mut rotations, mut left) = (vec![0.0; restart + 1], vec![], vec![]);
    g[0] = first;
    for j in 0..restart {
        let column = &mut h[j * (restart + 1)..][..restart + 1];
        for (i, &(c, s)) in rotations.iter().enumerate() {
            (column[i], column[i + 1]) = (c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]);
        }
        let length = column[j].hypot(column[j + 1]);
        let (c, s) = (column[j] / length, column[j + 1] / length);
        column[j] = length;
        (g[j], g[j + 1]) = (c * g[j], -s * g[j]);
        rotations.push((c, s));
        left.push(g[j + 1].abs());
    }
    for j in (0..restart).rev() {
        g[j] /= h[j * (restart + 1) + j];
        for i in 0..j {
            g[i] -= g[j] * h[j * (restart + 1) + i];
        }
    }
    g.truncate(restart);
    (g, left)
}

/// An unsymmetric system, whose residual GMRES makes smaller in every step; and it says how small.
fn gmres_solves(device: &Device) {
    let n = 61;
    let row = |i: usize| {
        let (before, after) = (i.checked_sub(1).map(|j| (j, -1.5)), Some((i + 1, -0.5)).filter(|&(j, _)| j < n));
        before.into_iter().chain([(i, 3.0 + (i % 4) as f64)]).chain(after).collect()
    };
    let matrix = from_rows::<f64>(n, (0..n).map(row).collect());
    let a = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(8).vector(n);
    let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(n).unwrap());
    let norms = gmres(&a, &Jacobi::new(&a).unwrap(), &on_device, &mut x, 7).unwrap();
    assert!(norms.windows(2).all(|norms| norms[1] <= norms[0] * (1.0 + 1e-12)), "{norms:?}");
    let residual = distance(&multiply(&matrix, &x.to_vec().unwrap()), &b);
    assert!(residual <= 1e-5 * norm(&b), "{residual}");
    let believed = norms[norms.len() - 1];
    assert!((residual - believed).abs() <= 1e-10 * norm(&b), "{residual}, not {believed}");
}
