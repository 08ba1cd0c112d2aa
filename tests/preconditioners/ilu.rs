//! Incomplete factors: their bits against a factorisation of dense rows, and what they do for solvers.

use libtest_mimic::Trial;
use warpsparse::{
    Cg, CooMatrix, CsrMatrix, Device, Error, Ilu, Jacobi, Preconditioner, Scalar, Solver, SolverMethod, StopReason,
    Tolerance,
};

use crate::common::{
    Random,
    matrices::{from_rows, stencil},
    on_every_device, other,
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_every_device("ilu_factors_f32", factors::<f32>));
    trials.extend(on_every_device("ilu_factors_f64", factors::<f64>));
    trials.extend(on_every_device("complete_factors_are_exact", complete));
    trials.extend(on_every_device("ilu_of_degenerate_matrices", degenerate));
    trials.extend(on_every_device("ilu_of_symmetric_matrices", symmetric));
    trials.extend(on_every_device("ilu_in_solvers", solvers));
    trials.extend(on_every_device("ilu_of_new_values", new_values));
    trials.extend(on_every_device("what_cannot_be_factored", refused));
    trials
}

/// About `per_row` entries in a row, at random places, and a diagonal that is not small. No row is like another.
pub(crate) fn random<T: Scalar>(seed: u64, n: usize, per_row: usize) -> CsrMatrix<T> {
    let mut random = Random(seed);
    let row = |i: usize| {
        let mut columns: Vec<usize> = (0..per_row).map(|_| random.next_below(n)).filter(|&j| j != i).collect();
        columns.push(i);
        columns.sort_unstable();
        columns.dedup();
        let value = |j: usize, random: &mut Random| {
            if i == j { 2.0 + random.next_unit() } else { random.next_unit() / per_row as f64 }
        };
        columns.into_iter().map(|j| (j, value(j, &mut random))).collect()
    };
    from_rows(n, (0..n).map(row).collect())
}

/// Convection and diffusion on a grid.
pub(crate) fn convection(side: usize, wind: f64) -> CsrMatrix<f64> {
    let weight = |distance: isize| if distance < 0 { -1.0 - wind } else { -1.0 };
    let matrix = stencil(side);
    let rows = (0..side * side).map(|i| {
        let (columns, _) = matrix.row(i);
        let value = |j: usize| if i == j { 4.0 + 2.0 * wind } else { weight(j as isize - i as isize) };
        columns.iter().map(|&j| (j as usize, value(j as usize))).collect()
    });
    from_rows(side * side, rows.collect())
}

/// ILU(0) by dense rows, in the type itself, with the operations in the same order.
pub(crate) fn reference<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<T> {
    let n = matrix.nrows();
    let mut rows = vec![vec![None; n]; n];
    matrix.triplets().for_each(|(i, j, value)| rows[i][j] = Some(value));
    for i in 0..n {
        for k in 0..i {
            let (Some(value), Some(pivot)) = (rows[i][k], rows[k][k]) else { continue };
            let factor = value / pivot;
            rows[i][k] = Some(factor);
            let (above, below) = rows.split_at_mut(i);
            for (own, theirs) in below[0].iter_mut().zip(&above[k]).skip(k + 1) {
                if let (Some(own), Some(theirs)) = (own, theirs) {
                    *own = (-factor).mul_add(*theirs, *own);
                }
            }
        }
    }
    rows.into_iter().flatten().flatten().collect()
}

fn factors<T: Scalar>(device: &Device) {
    for matrix in [random::<T>(1, 60, 4), random(2, 150, 9), random(3, 90, 50), random(4, 200, 2), stencil(9).cast()] {
        let a = device.upload(&matrix).unwrap();
        let ilu = Ilu::new(&a).unwrap();
        let found = ilu.factors().unwrap();
        assert_eq!((found.row_offsets(), found.col_indices()), (matrix.row_offsets(), matrix.col_indices()));
        assert_eq!(found.values(), reference(&matrix));
        assert_eq!(ilu.shift(), 0.0);
    }
    // In COO, out of order and with duplicates: those of the canonical matrix.
    let matrix = random::<T>(5, 40, 5);
    let mut coo = CooMatrix::new(40, 40).unwrap();
    let mut entries: Vec<_> = matrix.triplets().collect();
    entries.reverse();
    let half = T::from_f64(0.5);
    for (row, column, value) in entries {
        coo.push(row, column, half * value).unwrap();
        coo.push(row, column, half * value).unwrap();
    }
    let ilu = Ilu::new(&device.upload(&coo).unwrap()).unwrap();
    assert_eq!(ilu.factors().unwrap().values(), reference(&matrix));
}

/// Where there is no fill, applications are solutions.
fn complete(device: &Device) {
    let n = 70;
    let tridiagonal = |i: usize| {
        let near = [(i.wrapping_sub(1), -1.5), (i, 4.0 + (i % 3) as f64), (i + 1, 1.0)];
        near.into_iter().filter(|&(j, _)| j < n).collect()
    };
    let matrix = from_rows::<f64>(n, (0..n).map(tridiagonal).collect());
    let full = from_rows::<f64>(
        9,
        (0..9)
            .map(|i| (0..9).map(|j| (j, 1.0 / (1 + i + 2 * j) as f64 + if i == j { 2.0 } else { 0.0 })).collect())
            .collect(),
    );
    for matrix in [matrix, full] {
        let n = matrix.nrows();
        let expected = Random(7).vector::<f64>(n);
        let mut b = vec![0.0; n];
        matrix.triplets().for_each(|(i, j, value)| b[i] += value * expected[j]);
        let a = device.upload(&matrix).unwrap();
        let (b, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(n).unwrap());
        let ilu = Ilu::new(&a).unwrap();
        ilu.apply((&b).into(), (&mut x).into()).unwrap();
        let x = x.to_vec().unwrap();
        assert!(x.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-14), "{x:?}");
        assert_eq!(ilu.levels(), [n, n]);
    }
}

fn degenerate(device: &Device) {
    for n in 0..3 {
        let rows = |i: usize| if i == 0 { vec![(0, 2.0)] } else { vec![(0, 3.0), (1, 4.0)] };
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(rows).collect())).unwrap();
        let (b, mut x) = (device.upload_vec(&[8.0, 20.0][..n]).unwrap(), device.zeros(n).unwrap());
        for ilu in [Ilu::new(&a).unwrap(), Ilu::symmetric(&a).unwrap()] {
            ilu.apply((&b).into(), (&mut x).into()).unwrap();
            assert_eq!(x.to_vec().unwrap(), [4.0, 2.0][..n]);
        }
    }
}

/// Pivots are positive, by themselves or by a shift.
fn symmetric(device: &Device) {
    let laplacian = device.upload(&stencil(8)).unwrap();
    assert_eq!(Ilu::symmetric(&laplacian).unwrap().shift(), 0.0);
    // Positive definite, and its incomplete factors are not (Kershaw, 1978).
    let kershaw = [[3.0, -2.0, 0.0, 2.0], [-2.0, 3.0, -2.0, 0.0], [0.0, -2.0, 3.0, -2.0], [2.0, 0.0, -2.0, 3.0]];
    let row = |row: &[f64; 4]| row.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
    let a = device.upload(&from_rows::<f64>(4, kershaw.iter().map(row).collect())).unwrap();
    let general = Ilu::new(&a).unwrap().factors().unwrap();
    assert!(general.diagonal()[3] < 0.0, "{:?}", general.diagonal());
    let ilu = Ilu::symmetric(&a).unwrap();
    let factors = ilu.factors().unwrap();
    assert!(ilu.shift() > 0.0 && factors.diagonal().iter().all(|pivot| *pivot > 0.0), "{}", ilu.shift());
    // The first of the shifts that does, and the factors of the shifted matrix.
    assert!((ilu.shift() / 1e-3).log2().fract() == 0.0);
    let factors_of = |shift: f64| {
        let shifted = from_rows::<f64>(
            4,
            kershaw
                .iter()
                .enumerate()
                .map(|(i, own)| {
                    let mut entries: Vec<(usize, f64)> = row(own);
                    entries
                        .iter_mut()
                        .filter(|(j, _)| *j == i)
                        .for_each(|(_, value)| *value = shift.mul_add(*value, *value));
                    entries
                })
                .collect(),
        );
        reference(&shifted)
    };
    assert_eq!(factors.values(), factors_of(ilu.shift()));
    let before = if ilu.shift() == 1e-3 { 0.0 } else { ilu.shift() / 2.0 };
    assert!(factors_of(before)[11] < 0.0);
    let (b, mut x) = (device.upload_vec(&[1.0, 2.0, 3.0, 4.0]).unwrap(), device.zeros(4).unwrap());
    let info = Cg::new(&a).preconditioner(&ilu).tolerance(Tolerance::relative(1e-10)).solve(&b, &mut x).unwrap();
    assert!(info.reason == StopReason::Converged && info.iterations <= 5, "{info:?}");
}

/// Far fewer iterations than with Jacobi's preconditioner.
fn solvers(device: &Device) {
    let iterations = |matrix: &CsrMatrix<f64>, method: SolverMethod, with_ilu: bool| {
        let a = device.upload(matrix).unwrap();
        let n = matrix.nrows();
        let (b, mut x) = (device.upload_vec(&Random(3).vector::<f64>(n)).unwrap(), device.zeros(n).unwrap());
        let solver = Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-9));
        let mut solver = match (with_ilu, method) {
            (false, _) => solver.preconditioner(Jacobi::new(&a).unwrap()),
            (true, SolverMethod::Cg) => solver.preconditioner(Ilu::symmetric(&a).unwrap()),
            (true, _) => solver.preconditioner(Ilu::new(&a).unwrap()),
        };
        let info = solver.solve(&b, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged, "{method}");
        let mut residual = b.to_vec().unwrap();
        let x = x.to_vec().unwrap();
        matrix.triplets().for_each(|(i, j, value)| residual[i] -= value * x[j]);
        assert!(residual.iter().map(|r| r * r).sum::<f64>().sqrt() < 1e-8);
        info.iterations
    };
    let (laplacian, convection) = (stencil(13), convection(13, 3.0));
    for (matrix, method) in [
        (&laplacian, SolverMethod::Cg),
        (&convection, SolverMethod::BiCgStab),
        (&convection, SolverMethod::Gmres { restart: 30 }),
    ] {
        let (with, without) = (iterations(matrix, method, true), iterations(matrix, method, false));
        assert!(2 * with <= without, "{method}: {with} iterations, with Jacobi {without}");
    }
}

fn new_values(device: &Device) {
    let (matrix, pattern) = (random::<f64>(6, 80, 6), random::<f64>(7, 80, 6));
    let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
    let values: Vec<f64> = matrix.values().iter().map(|value| value * value + value).collect();
    let other_values = CsrMatrix::try_from_csr_data(80, 80, offsets, columns, values).unwrap();
    let mut ilu = Ilu::new(&device.upload(&matrix).unwrap()).unwrap();
    ilu.update_values(&device.upload(&other_values).unwrap()).unwrap();
    assert_eq!(ilu.factors().unwrap().values(), reference(&other_values));
    let error = ilu.update_values(&device.upload(&pattern).unwrap()).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    let error = ilu.update_values(&other(device).upload(&matrix).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
    // A failure leaves the factors.
    let zeros = matrix.values().iter().map(|_| 0.0).collect();
    let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
    let zeros = CsrMatrix::try_from_csr_data(80, 80, offsets, columns, zeros).unwrap();
    let error = ilu.update_values(&device.upload(&zeros).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Breakdown { .. }), "{error}");
    assert_eq!(ilu.factors().unwrap().values(), reference(&other_values));
}

fn refused(device: &Device) {
    let of = |rows: Vec<Vec<(usize, f64)>>| device.upload(&from_rows::<f64>(rows.len(), rows)).unwrap();
    let cases = [
        // No element on the diagonal; a pivot that becomes 0; NaN.
        (of(vec![vec![(0, 1.0)], vec![(0, 1.0)]]), "row 1"),
        (of(vec![vec![(0, 1.0), (1, 2.0)], vec![(0, 2.0), (1, 4.0)], vec![(1, 1.0), (2, 1.0)]]), "row 1"),
        (of(vec![vec![(0, 1.0)], vec![(1, 1.0)], vec![(2, f64::NAN)]]), "row 2"),
    ];
    for (a, row) in &cases {
        for result in [Ilu::new(a), Ilu::symmetric(a)] {
            // A shift makes the pivot of the second positive.
            if let Err(error) = result {
                assert!(
                    matches!(error, Error::Breakdown { iteration: 0, .. }) && error.to_string().contains(row),
                    "{error}"
                );
            } else {
                assert_eq!(a.nnz(), 6);
            }
        }
        assert!(Ilu::new(a).is_err());
    }
    let negative = of(vec![vec![(0, 1.0)], vec![(1, -1.0)]]);
    let error = Ilu::symmetric(&negative).unwrap_err();
    assert!(error.to_string().contains("row 1: the pivot is not positive"), "{error}");
    let error = Ilu::new(&device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)]; 2])).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let ilu = Ilu::new(&negative).unwrap();
    let error = ilu.apply((&device.zeros(3).unwrap()).into(), (&mut device.zeros(2).unwrap()).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "b", .. }), "{error}");
}
