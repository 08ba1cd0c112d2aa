//! Every method with every preconditioner: few unknowns, right-hand sides of 0, first guesses, limits and callbacks, and systems that are singular, without
//! a solution, or indefinite.

use std::ops::ControlFlow;

use warpsparse::{
    Amg, BlockJacobi, CgMethod, Chebyshev, CsrMatrix, Device, DeviceMatrix, Error, Fsai, Ilu, Jacobi, Preconditioner,
    Result, Scalar, SolveInfo, Solver, SolverMethod, StopReason, Tolerance,
};

use super::{direct, residual, shifted, tolerance};
use crate::common::{
    Random,
    direct::{doubles, norm},
    matrices::from_rows,
};

/// The methods. `tests/cg.rs` has all the ways in which conjugate gradients compute their iterations.
const METHODS: [(SolverMethod, CgMethod); 10] = [
    (SolverMethod::Cg, CgMethod::Auto),
    (SolverMethod::Cg, CgMethod::Plain),
    (SolverMethod::Cg, CgMethod::SingleReduction),
    (SolverMethod::Minres, CgMethod::Auto),
    (SolverMethod::BiCgStab, CgMethod::Auto),
    (SolverMethod::BiCgStabL { l: 2 }, CgMethod::Auto),
    (SolverMethod::Idr { s: 4 }, CgMethod::Auto),
    (SolverMethod::Gmres { restart: 30 }, CgMethod::Auto),
    (SolverMethod::FlexibleGmres { restart: 30 }, CgMethod::Auto),
    (SolverMethod::Lsmr, CgMethod::Auto),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum With {
    Nothing,
    Jacobi,
    Blocks,
    Chebyshev,
    Ilu,
    SymmetricIlu,
    Fsai,
    Multigrid,
}

const PRECONDITIONERS: [With; 8] = [
    With::Nothing,
    With::Jacobi,
    With::Blocks,
    With::Chebyshev,
    With::Ilu,
    With::SymmetricIlu,
    With::Fsai,
    With::Multigrid,
];

fn preconditioner<T: Scalar>(name: With, a: &DeviceMatrix<T>) -> Result<Option<Box<dyn Preconditioner<T> + '_>>> {
    Ok(match name {
        With::Nothing => None,
        With::Jacobi => Some(Box::new(Jacobi::new(a)?)),
        With::Blocks => Some(Box::new(BlockJacobi::new(a, 2)?)),
        With::Chebyshev => Some(Box::new(Chebyshev::new(a, 3)?)),
        With::Ilu => Some(Box::new(Ilu::new(a)?)),
        With::SymmetricIlu => Some(Box::new(Ilu::symmetric(a)?)),
        With::Fsai => Some(Box::new(Fsai::new(a)?)),
        // Several levels, where there is room.
        With::Multigrid => Some(Box::new(Amg::options().coarse_rows(5).build(a)?)),
    })
}

/// A system, a method and a preconditioner.
struct Case<'a, T: Scalar> {
    name: String,
    matrix: &'a CsrMatrix<T>,
    a: &'a DeviceMatrix<T>,
    method: (SolverMethod, CgMethod),
    m: Option<&'a dyn Preconditioner<T>>,
}

impl<T: Scalar> Case<'_, T> {
    fn solver(&self) -> Solver<'_, T> {
        let (method, cg_method) = self.method;
        let solver = Solver::new(self.a).method(method).cg_method(cg_method);
        let solver = solver.tolerance(Tolerance::relative(tolerance::<T>()));
        match self.m {
            Some(m) => solver.preconditioner(m),
            None => solver.unpreconditioned(),
        }
    }

    /// The report, or the error, and `x`, which is finite in any case. A report is true.
    fn run(&self, mut solver: Solver<'_, T>, b: &[T], guess: &[T]) -> (Result<SolveInfo>, Vec<T>) {
        let device = self.a.device();
        let (on_device, mut x) = (device.upload_vec(b).unwrap(), device.upload_vec(guess).unwrap());
        let outcome = solver.solve(&on_device, &mut x);
        let (x, name) = (x.to_vec().unwrap(), &self.name);
        assert!(x.iter().all(|x| x.to_f64().is_finite()), "{name}: {outcome:?}");
        match &outcome {
            Ok(info) => {
                let (left, b_norm) = (residual(self.matrix, b, &x), norm(&doubles(b)));
                // Of products with a rounded x.
                let rounding = if size_of::<T>() == 4 { 1e-5 } else { 1e-13 } * (b_norm + 8.0 * norm(&doubles(&x)));
                assert!((left - info.residual_norm).abs() <= rounding, "{name}: {left:e}, {info:?}");
                assert_eq!(info.history.len(), info.iterations + 1, "{name}");
                let is_small = info.residual_norm <= 1.011 * tolerance::<T>() * b_norm;
                assert_eq!(is_small, info.reason == StopReason::Converged, "{name}: {info:?}");
            }
            Err(error) => assert!(matches!(error, Error::Breakdown { .. }), "{name}: {error}"),
        }
        (outcome, x)
    }

    fn distance(&self, x: &[T], expected: &[f64]) -> f64 {
        norm(&x.iter().zip(expected).map(|(x, y)| x.to_f64() - y).collect::<Vec<_>>())
    }
}

/// Calls `body` for every method with every preconditioner of the matrix. Returns the preconditioners that it does not have.
fn every_case<T: Scalar>(
    device: &Device,
    matrix: &CsrMatrix<T>,
    mut body: impl FnMut(&Case<'_, T>, With),
) -> Vec<With> {
    let a = &device.upload(matrix).unwrap();
    let mut refused = Vec::new();
    for with in PRECONDITIONERS {
        let m = match preconditioner(with, a) {
            Ok(m) => m,
            // As for a pivot that is not positive.
            Err(Error::Breakdown { .. }) => {
                refused.push(with);
                continue;
            }
            Err(error) => panic!("{with:?}: {error}"),
        };
        for method in METHODS {
            let name = format!("{}, {:?}, {with:?}, {} rows", method.0, method.1, matrix.nrows());
            body(&Case { name, matrix, a, method, m: m.as_deref() }, with);
        }
    }
    refused
}

/// No unknowns, one, two; a right-hand side of 0; a first guess that is the solution.
pub(crate) fn few_unknowns<T: Scalar>(device: &Device) {
    let (rows, solution) = ([[4.0, 1.0], [1.0, 3.0]], [1.0, -2.0]);
    for n in 0..3 {
        let row = |i: usize| (0..n).map(|j| (j, rows[i][j])).collect();
        let matrix = from_rows::<T>(n, (0..n).map(row).collect());
        let in_type = |values: Vec<f64>| values.into_iter().map(T::from_f64).collect::<Vec<_>>();
        let product = |i: usize| (0..n).map(|j| rows[i][j] * solution[j]).sum();
        let (b, exact) = (in_type((0..n).map(product).collect()), in_type(solution[..n].to_vec()));
        let refused = every_case(device, &matrix, |case, _| {
            for guess in [in_type(vec![0.0; n]), in_type(vec![0.5; n]), exact.clone()] {
                let (info, x) = case.run(case.solver(), &b, &guess);
                let (info, name) = (info.unwrap(), &case.name);
                assert_eq!(info.reason, StopReason::Converged, "{name}");
                assert!(
                    info.iterations <= n + n / 4 + 1 && (guess != exact || info.iterations == 0),
                    "{name}: {info:?}"
                );
                assert!(case.distance(&x, &solution[..n]) <= 10.0 * tolerance::<T>(), "{name}: {x:?}");
            }
            let (info, x) = case.run(case.solver(), &in_type(vec![0.0; n]), &in_type(vec![7.0; n]));
            let info = info.unwrap();
            let found = (info.reason, info.iterations, info.relative_residual);
            assert_eq!(found, (StopReason::Converged, 0, 0.0), "{}", case.name);
            assert_eq!(x, in_type(vec![0.0; n]), "{}", case.name);
        });
        assert_eq!(refused, []);
    }
}

/// Solutions from a first guess; limits of 0 and of a few iterations; callbacks that stop, after which `x` is as if that had been the limit.
pub(crate) fn limits<T: Scalar>(device: &Device) {
    let matrix = shifted::<T>(7, 0.0);
    let n = matrix.nrows();
    let (b, guess) = (Random(5).vector::<T>(n), Random(6).vector::<T>(n));
    let exact = direct(&matrix, &b);
    let refused = every_case(device, &matrix, |case, _| {
        let name = &case.name;
        let (info, x) = case.run(case.solver(), &b, &guess);
        let whole = info.unwrap();
        assert_eq!(whole.reason, StopReason::Converged, "{name}: {whole:?}");
        // The condition is about 25.
        assert!(case.distance(&x, &exact) <= 25.0 * tolerance::<T>() * norm(&exact), "{name}");
        let (again, same) = case.run(case.solver(), &b, &x);
        assert!(again.unwrap().iterations <= 1 && case.distance(&same, &doubles(&x)) <= 1e-4 * norm(&exact), "{name}");

        let (info, x) = case.run(case.solver().max_iterations(0), &b, &guess);
        assert_eq!((info.unwrap().reason, &x), (StopReason::MaxIterations, &guess), "{name}");
        // With multigrid, few suffice in `f32`.
        let limit = 3.min(whole.iterations - 1);
        let (info, _) = case.run(case.solver().max_iterations(limit), &b, &guess);
        let limited = info.unwrap();
        assert_eq!((limited.reason, limited.iterations), (StopReason::MaxIterations, limit), "{name}");
        assert_eq!(limited.history, whole.history[..=limit], "{name}");

        let mut seen = Vec::new();
        let stopping = case.solver().callback(|progress| {
            seen.push((progress.iteration, progress.residual_norm));
            if progress.iteration == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let (info, x) = case.run(stopping, &b, &guess);
        let stopped = info.unwrap();
        assert_eq!(seen, stopped.history.iter().copied().enumerate().skip(1).take(2).collect::<Vec<_>>(), "{name}");
        // What is queued by then may be enough.
        match stopped.reason {
            StopReason::Stopped => {
                let (_, expected) = case.run(case.solver().max_iterations(stopped.iterations), &b, &guess);
                assert_eq!(x, expected, "{name}");
            }
            reason => assert_eq!((reason, stopped.iterations), (whole.reason, whole.iterations), "{name}"),
        }
    });
    assert_eq!(refused, []);
}

/// The Laplacian of a grid, whose null space is that of constant vectors: with a right-hand side in the range, and without a solution.
pub(crate) fn singular(device: &Device) {
    let side = 4;
    let n = side * side;
    let row = |i: usize| {
        let (x, y) = (i % side, i / side);
        let near = [
            (y > 0, i.wrapping_sub(side)),
            (x > 0, i.wrapping_sub(1)),
            (x + 1 < side, i + 1),
            (y + 1 < side, i + side),
        ];
        let mut entries: Vec<_> = near.iter().filter(|(exists, _)| *exists).map(|&(_, j)| (j, -1.0)).collect();
        entries.push((i, entries.len() as f64));
        entries.sort_unstable_by_key(|(j, _)| *j);
        entries
    };
    let matrix = from_rows::<f64>(n, (0..n).map(row).collect());
    // All sums of these numbers are exact, and that of all is 0.
    let in_range: Vec<f64> = (0..n).map(|i| ((7 * i) % n) as f64 - 7.5).collect();
    let outside: Vec<f64> = in_range.iter().map(|b| b + 3.0).collect();
    let refused = every_case(device, &matrix, |case, _| {
        let name = &case.name;
        let (info, _) = case.run(case.solver().max_iterations(40), &in_range, &vec![0.0; n]);
        assert_eq!(info.unwrap().reason, StopReason::Converged, "{name}");
        let (info, _) = case.run(case.solver().max_iterations(20), &outside, &vec![0.0; n]);
        // The part outside of the range stays.
        let least = 3.0 * (n as f64).sqrt();
        if let Ok(info) = info {
            assert!(info.residual_norm >= 0.999 * least, "{name}: {info:?}");
            assert!(case.method.0 != SolverMethod::Lsmr || info.reason == StopReason::LeastSquares, "{name}: {info:?}");
        } else {
            assert!(case.method.0 != SolverMethod::Lsmr, "{name}");
        }
    });
    assert_eq!(refused, []);
}

/// Conjugate gradients break down, and say why; what others report is true.
pub(crate) fn indefinite(device: &Device) {
    // One eigenvalue is negative, none is near 0.
    let matrix = shifted::<f64>(6, 0.7);
    let b = Random(5).vector::<f64>(36);
    let refused = every_case(device, &matrix, |case, with| {
        let (outcome, _) = case.run(case.solver().max_iterations(100), &b, &[0.0; 36]);
        let name = &case.name;
        match case.method.0 {
            SolverMethod::Cg => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("positive definite"), "{name}: {error}");
            }
            SolverMethod::Minres if matches!(with, With::Nothing | With::Jacobi) => {
                assert_eq!(outcome.unwrap().reason, StopReason::Converged, "{name}");
            }
            SolverMethod::Gmres { .. } | SolverMethod::FlexibleGmres { .. } if with == With::Ilu => {
                assert_eq!(outcome.unwrap().reason, StopReason::Converged, "{name}");
            }
            _ => {}
        }
    });
    // Definite matrices alone have these.
    assert!(
        refused.iter().all(|with| matches!(with, With::SymmetricIlu | With::Fsai | With::Multigrid)),
        "{refused:?}"
    );
}
