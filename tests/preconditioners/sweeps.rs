//! Triangular solves and incomplete factors by sweeps: against the same iterations of dense rows in `f64`, and what they do for solvers.

use libtest_mimic::Trial;
use warpsparse::{
    Cg, CsrMatrix, Device, Diagonal, Error, Ilu, Preconditioner, Scalar, Solver, SolverMethod, StopReason, Tolerance,
    Triangle, TriangularSweeps,
};

use super::ilu::{convection, random, reference};
use crate::common::{
    Random,
    matrices::{from_rows, stencil},
    on_every_device, other,
    sums::{assert_within, epsilon},
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_every_device("triangular_sweeps_f32", triangles::<f32>));
    trials.extend(on_every_device("triangular_sweeps_f64", triangles::<f64>));
    trials.extend(on_every_device("triangular_sweeps_of_degenerate_matrices", degenerate));
    trials.extend(on_every_device("triangular_sweeps_that_are_refused", refused));
    trials.extend(on_every_device("fixed_point_factors_f32", fixed_point::<f32>));
    trials.extend(on_every_device("fixed_point_factors_f64", fixed_point::<f64>));
    trials.extend(on_every_device("fixed_point_factors_of_symmetric_matrices", symmetric));
    trials.extend(on_every_device("sweeps_in_solvers", solvers));
    trials.extend(on_every_device("sweeps_of_new_values", new_values));
    trials
}

/// `x = D⁻¹ (b - N x)`, so many times, and how large an error rounding explains.
fn swept<T: Scalar>(
    matrix: &CsrMatrix<T>,
    (triangle, diagonal, sweeps): (Triangle, Diagonal, usize),
    b: &[T],
) -> Vec<(f64, f64)> {
    let n = matrix.nrows();
    let (mut pivots, mut rest) = (vec![1.0; n], vec![vec![]; n]);
    for (i, j, value) in matrix.triplets() {
        let value = value.to_f64();
        if i == j && diagonal == Diagonal::Stored {
            pivots[i] = value;
        } else if i != j && (triangle == Triangle::Lower) == (j < i) {
            rest[i].push((j, value));
        }
    }
    // The values, and the sums of their terms' absolute values.
    let mut x: Vec<(f64, f64)> = b.iter().zip(&pivots).map(|(b, d)| (b.to_f64() / d, (b.to_f64() / d).abs())).collect();
    for _ in 0..sweeps {
        let row = |i: usize| {
            let (mut sum, mut size) = (b[i].to_f64(), b[i].to_f64().abs());
            for &(j, value) in &rest[i] {
                sum -= value * x[j].0;
                size += value.abs() * x[j].1;
            }
            (sum / pivots[i], size / pivots[i].abs())
        };
        x = (0..n).map(row).collect();
    }
    let bound = |(i, (value, size))| {
        (value, (sweeps + 1) as f64 * (6.0 + rest[i as usize].len() as f64).sqrt() * epsilon::<T>() * size)
    };
    (0..n as u32).zip(x).map(bound).collect()
}

fn triangles<T: Scalar>(device: &Device) {
    // One with as many levels as rows, one with a full row.
    let chain =
        |i: usize| [(i.wrapping_sub(1), -1.0), (i, 2.0), (i + 1, -1.0)].into_iter().filter(|e| e.0 < 70).collect();
    let arrow = |i: usize| match i {
        299 => (0..300).map(|j| (j, if j == 299 { 3.0 } else { 1.0 / (j as f64 + 2.0) })).collect(),
        _ => vec![(i, 2.0 + (i % 3) as f64), (299, 0.5)],
    };
    for matrix in [
        random::<T>(1, 200, 4),
        random(2, 90, 40),
        from_rows(70, (0..70).map(chain).collect()),
        from_rows(300, (0..300).map(arrow).collect()),
    ] {
        let n = matrix.nrows();
        let (a, b) = (device.upload(&matrix).unwrap(), Random(3).vector::<T>(n));
        let on_device = device.upload_vec(&b).unwrap();
        for triangle in [Triangle::Lower, Triangle::Upper] {
            for diagonal in [Diagonal::Stored, Diagonal::Unit] {
                for sweeps in [0, 1, 2, 5] {
                    let case = format!("{n} rows, {triangle:?}, {diagonal:?}, {sweeps} sweeps");
                    let solver = TriangularSweeps::new(&a, triangle, diagonal, sweeps).unwrap();
                    assert_eq!(solver.sweeps(), sweeps);
                    let mut x = device.upload_vec(&vec![T::from_f64(f64::NAN); n]).unwrap();
                    solver.solve(&on_device, &mut x).unwrap();
                    let found = x.to_vec().unwrap();
                    assert_within(&case, &found, &swept(&matrix, (triangle, diagonal, sweeps), &b));
                    // Recorded: the same bits.
                    x.fill(T::from_f64(f64::NAN)).unwrap();
                    device.record(|| solver.solve(&on_device, &mut x)).unwrap().launch(2).unwrap();
                    assert_eq!(x.to_vec().unwrap(), found, "{case}");
                }
            }
        }
    }
}

fn degenerate(device: &Device) {
    for n in 0..3 {
        let rows = |i: usize| if i == 0 { vec![(0, 2.0)] } else { vec![(0, 3.0), (1, 4.0)] };
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(rows).collect())).unwrap();
        let (b, mut x) = (device.upload_vec(&[8.0, 20.0][..n]).unwrap(), device.zeros(n).unwrap());
        for (triangle, expected) in [(Triangle::Lower, [4.0, 2.0]), (Triangle::Upper, [4.0, 5.0])] {
            TriangularSweeps::new(&a, triangle, Diagonal::Stored, 1).unwrap().solve(&b, &mut x).unwrap();
            assert_eq!(x.to_vec().unwrap(), expected[..n]);
        }
        let ilu = Ilu::fixed_point(&a, 0).unwrap().with_sweeps(1).unwrap();
        ilu.apply((&b).into(), (&mut x).into()).unwrap();
        assert_eq!(x.to_vec().unwrap(), [4.0, 2.0][..n]);
    }
    // No entries at all, and ones on the diagonal.
    let a = device.upload(&from_rows::<f64>(3, vec![vec![]; 3])).unwrap();
    let (b, mut x) = (device.upload_vec(&[1.0, 2.0, 3.0]).unwrap(), device.zeros(3).unwrap());
    TriangularSweeps::new(&a, Triangle::Upper, Diagonal::Unit, 4).unwrap().solve(&b, &mut x).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1.0, 2.0, 3.0]);
}

fn refused(device: &Device) {
    let a = device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)], vec![(1, 2.0)], vec![(0, 1.0)]])).unwrap();
    for (element, row) in [(0.0, 1), (f64::NAN, 1), (1e-310, 1), (f64::INFINITY, 1), (1.0, 2)] {
        let rows = vec![vec![(0, 1.0)], vec![(1, element)], vec![(0, 1.0)]];
        let a = device.upload(&from_rows::<f64>(3, rows)).unwrap();
        let error = TriangularSweeps::new(&a, Triangle::Lower, Diagonal::Stored, 2).unwrap_err();
        assert!(error.to_string().contains(&format!("row {row} of a triangle")), "{element}: {error}");
    }
    let wide = device.upload(&from_rows::<f64>(4, vec![vec![(0, 1.0)]; 2])).unwrap();
    let error = TriangularSweeps::new(&wide, Triangle::Lower, Diagonal::Unit, 2).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");

    let solver = TriangularSweeps::new(&a, Triangle::Lower, Diagonal::Unit, 2).unwrap();
    let vector = |n: usize| device.upload_vec(&vec![7.0; n]).unwrap();
    for (b, x, what) in [(2, 3, "b"), (3, 4, "x")] {
        let mut x = vector(x);
        let error = solver.solve(&vector(b), &mut x).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { what: found, .. } if found == what), "{error}");
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 7.0));
    }
    let error = solver.solve(&other(device).zeros(3).unwrap(), &mut vector(3)).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "b", .. }), "{error}");
    let error = solver.solve(&other(device).zeros(3).unwrap(), &mut other(device).zeros(3).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "the triangle", .. }), "{error}");
    let setup = device.record(|| TriangularSweeps::new(&a, Triangle::Lower, Diagonal::Unit, 2).map(drop));
    let error = setup.and_then(|mut graph| graph.launch(1)).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
}

/// The fixed-point iteration by dense rows: the values of the factors in the order of the matrix.
fn iterated(matrix: &CsrMatrix<f64>, sweeps: usize) -> Vec<f64> {
    let n = matrix.nrows();
    let mut a = vec![vec![None; n]; n];
    matrix.triplets().for_each(|(i, j, value)| a[i][j] = Some(value));
    let pivot = |factors: &[Vec<Option<f64>>], j: usize| factors[j][j].unwrap();
    let mut factors = a.clone();
    (0..n).for_each(|i| (0..i).for_each(|j| factors[i][j] = factors[i][j].map(|value| value / pivot(&a, j))));
    for _ in 0..sweeps {
        // The rest without the term of the entry itself.
        let rest = |i: usize, j: usize| {
            let terms = (0..i.min(j)).filter_map(|k| Some(factors[i][k]? * factors[k][j]?));
            a[i][j].map(|value| value - terms.sum::<f64>())
        };
        let mut new: Vec<Vec<_>> = (0..n).map(|i| (0..n).map(|j| rest(i, j)).collect()).collect();
        for i in 0..n {
            for j in 0..i {
                new[i][j] = new[i][j].map(|value| value / pivot(&new, j));
            }
        }
        factors = new;
    }
    factors.into_iter().flatten().flatten().collect()
}

fn fixed_point<T: Scalar>(device: &Device) {
    for matrix in [random::<f64>(1, 60, 4), random(2, 150, 9), random(3, 70, 50), stencil(9), convection(8, 2.0)] {
        let matrix = matrix.cast::<T>();
        let in_f64 = matrix.cast::<f64>();
        let a = device.upload(&matrix).unwrap();
        let n = matrix.nrows();
        // The emulator takes seconds for many sweeps over many rows.
        let all = (n < 100 || device.to_string() != "emulated").then_some(n);
        for sweeps in [0, 1, 3].into_iter().chain(all) {
            let found = Ilu::fixed_point(&a, sweeps).unwrap().factors().unwrap();
            assert_eq!((found.row_offsets(), found.col_indices()), (matrix.row_offsets(), matrix.col_indices()));
            // All factors are below 5, and their terms smaller still.
            let bound = 40.0 * epsilon::<T>();
            let expected: Vec<_> = iterated(&in_f64, sweeps).into_iter().map(|value| (value, bound)).collect();
            assert_within(&format!("{n} rows, {sweeps} sweeps"), found.values(), &expected);
            if sweeps == n {
                let exact: Vec<_> = reference(&in_f64).into_iter().map(|value| (value, bound)).collect();
                assert_within(&format!("{n} rows, exact factors"), found.values(), &exact);
            }
        }
    }
}

/// U = D Lᵀ, positive pivots, and the shift where it takes one.
fn symmetric(device: &Device) {
    let laplacian = device.upload(&stencil(8)).unwrap();
    let ilu = Ilu::symmetric_fixed_point(&laplacian, 2).unwrap();
    assert_eq!(ilu.shift(), 0.0);
    let factors = ilu.factors().unwrap();
    let pivots = factors.diagonal();
    let at = |i: usize, j: u32| {
        let (columns, values) = factors.row(i);
        values[columns.iter().position(|&column| column == j).unwrap()]
    };
    for (i, j, value) in factors.triplets().filter(|&(i, j, _)| j < i) {
        assert!((value * pivots[j] - at(j, i as u32)).abs() < 1e-15, "{i}, {j}");
    }
    let kershaw = [[3.0, -2.0, 0.0, 2.0], [-2.0, 3.0, -2.0, 0.0], [0.0, -2.0, 3.0, -2.0], [2.0, 0.0, -2.0, 3.0]];
    let row = |row: &[f64; 4]| row.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
    let a = device.upload(&from_rows::<f64>(4, kershaw.iter().map(row).collect())).unwrap();
    let ilu = Ilu::symmetric_fixed_point(&a, 4).unwrap();
    assert_eq!(ilu.shift(), Ilu::symmetric(&a).unwrap().shift());
    assert!(ilu.shift() > 0.0 && ilu.factors().unwrap().diagonal().iter().all(|pivot| *pivot > 0.0));
}

/// Few sweeps take hardly more iterations than exact factors and solves.
fn solvers(device: &Device) {
    let iterations = |matrix: &CsrMatrix<f64>, is_symmetric: bool, sweeps: Option<usize>| {
        let a = device.upload(matrix).unwrap();
        let n = matrix.nrows();
        let (b, mut x) = (device.upload_vec(&Random(3).vector::<f64>(n)).unwrap(), device.zeros(n).unwrap());
        let ilu = match (is_symmetric, sweeps) {
            (true, None) => Ilu::symmetric(&a),
            (false, None) => Ilu::new(&a),
            (true, Some(sweeps)) => Ilu::symmetric_fixed_point(&a, sweeps).and_then(|ilu| ilu.with_sweeps(sweeps)),
            (false, Some(sweeps)) => Ilu::fixed_point(&a, sweeps).and_then(|ilu| ilu.with_sweeps(sweeps)),
        };
        let (ilu, tolerance) = (ilu.unwrap(), Tolerance::relative(1e-9));
        let info = if is_symmetric {
            Cg::new(&a).preconditioner(ilu).tolerance(tolerance).solve(&b, &mut x)
        } else {
            Solver::new(&a).method(SolverMethod::BiCgStab).preconditioner(ilu).tolerance(tolerance).solve(&b, &mut x)
        };
        let info = info.unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let (mut residual, x) = (b.to_vec().unwrap(), x.to_vec().unwrap());
        matrix.triplets().for_each(|(i, j, value)| residual[i] -= value * x[j]);
        assert!(residual.iter().map(|r| r * r).sum::<f64>().sqrt() < 1e-8);
        info.iterations
    };
    for (matrix, is_symmetric) in [(stencil(13), true), (convection(13, 3.0), false)] {
        let [exact, three, none] = [None, Some(3), Some(0)].map(|sweeps| iterations(&matrix, is_symmetric, sweeps));
        assert!(three <= exact + exact / 3 && three < none, "{exact}, {three}, {none}");
    }
}

fn new_values(device: &Device) {
    let matrix = random::<f64>(6, 80, 6);
    let with = |values: Vec<f64>| {
        let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
        device.upload(&CsrMatrix::try_from_csr_data(80, 80, offsets, columns, values).unwrap()).unwrap()
    };
    let new = with(matrix.values().iter().map(|value| value * value + value).collect());
    let b = device.upload_vec(&Random(4).vector::<f64>(80)).unwrap();
    let apply = |ilu: &Ilu<f64>| {
        let mut x = device.zeros(80).unwrap();
        ilu.apply((&b).into(), (&mut x).into()).unwrap();
        (ilu.factors().unwrap().values().to_vec(), x.to_vec().unwrap())
    };
    let mut ilu = Ilu::fixed_point(&device.upload(&matrix).unwrap(), 3).unwrap().with_sweeps(2).unwrap();
    let old = apply(&ilu);
    ilu.update_values(&new).unwrap();
    let expected = apply(&Ilu::fixed_point(&new, 3).unwrap().with_sweeps(2).unwrap());
    assert_eq!(apply(&ilu), expected);
    assert_ne!(old, expected);
    // A failure leaves the factors and the sweeps.
    let error = ilu.update_values(&with(vec![0.0; matrix.nnz()])).unwrap_err();
    assert!(matches!(error, Error::Breakdown { .. }), "{error}");
    assert_eq!(apply(&ilu), expected);
}
