//! Right-hand sides whose squares the element type does not hold.

use std::ops::ControlFlow;

use warpsparse::{CsrMatrix, Device, Error, Jacobi, Scalar, SolveInfo, Solver, SolverMethod, StopReason, Tolerance};

use super::{convection, direct, tolerance};
use crate::common::{
    Random, bits,
    direct::{doubles, norm},
};

/// The methods, and whether they solve the system times a power of two. LSMR divides by norms instead.
const METHODS: [(SolverMethod, bool); 8] = [
    (SolverMethod::Minres, true),
    (SolverMethod::BiCgStab, true),
    (SolverMethod::BiCgStabL { l: 2 }, true),
    (SolverMethod::Idr { s: 4 }, true),
    (SolverMethod::Gmres { restart: 20 }, true),
    (SolverMethod::FlexibleGmres { restart: 20 }, true),
    (SolverMethod::Cg, true),
    (SolverMethod::Lsmr, false),
];

/// About 1e-30 and 1e30 in `f32`, 1e-200 and 1e200 in `f64`.
fn powers<T>() -> [f64; 2] {
    let exponent = if size_of::<T>() == 4 { 100 } else { 664 };
    [-exponent, exponent].map(|exponent| 2f64.powi(exponent))
}

fn times<T: Scalar>(x: &[T], factor: f64) -> Vec<T> {
    x.iter().map(|x| T::from_f64(factor * x.to_f64())).collect()
}

/// The report, `x`, and the norms and targets that the callback has got.
type Outcome<T> = (Result<SolveInfo, Error>, Vec<T>, Vec<(f64, f64)>);

fn run<T: Scalar>(
    device: &Device,
    matrix: &CsrMatrix<T>,
    method: SolverMethod,
    with_jacobi: bool,
    tolerance: Tolerance,
    [b, guess]: [&[T]; 2],
) -> Outcome<T> {
    let a = device.upload(matrix).unwrap();
    let (b, mut x) = (device.upload_vec(b).unwrap(), device.upload_vec(guess).unwrap());
    let mut seen = Vec::new();
    let solver = Solver::new(&a).method(method).tolerance(tolerance).callback(|progress| {
        seen.push((progress.residual_norm, progress.target));
        ControlFlow::Continue(())
    });
    let jacobi = with_jacobi.then(|| Jacobi::new(&a).unwrap());
    let mut solver = match jacobi {
        Some(jacobi) => solver.preconditioner(jacobi),
        None => solver.unpreconditioned(),
    };
    let outcome = solver.solve(&b, &mut x);
    drop(solver);
    (outcome, x.to_vec().unwrap(), seen)
}

/// As a right-hand side of about 1: the same bits times a power of two, where the system is scaled.
pub(super) fn powers_of_two<T: Scalar>(device: &Device) {
    for (method, scales) in METHODS {
        let is_symmetric = matches!(method, SolverMethod::Minres | SolverMethod::Cg);
        let matrix = convection::<T>(7, if is_symmetric { 0.0 } else { 0.3 });
        let (b, guess) = (Random(5).vector::<T>(49), Random(6).vector::<T>(49));
        let expected = direct(&matrix, &b);
        let with_jacobi = size_of::<T>() == 8;
        let absolute = Tolerance::absolute(tolerance::<T>() * norm(&doubles(&b)));
        let (plain, x, seen) = run(device, &matrix, method, with_jacobi, absolute, [&b, &guess]);
        let plain = plain.unwrap();
        assert_eq!(plain.reason, StopReason::Converged, "{method}");
        for factor in powers::<T>() {
            let what = format!("{method}, Jacobi: {with_jacobi}, times {factor:e}");
            let absolute = Tolerance::absolute(factor * tolerance::<T>() * norm(&doubles(&b)));
            let vectors = [times(&b, factor), times(&guess, factor)];
            let (outcome, found, scaled_seen) =
                run(device, &matrix, method, with_jacobi, absolute, [&vectors[0], &vectors[1]]);
            let info = outcome.unwrap();
            assert_eq!(info.reason, StopReason::Converged, "{what}");
            assert!(info.relative_residual <= 1.011 * tolerance::<T>(), "{what}: {info:?}");
            let back = times(&found, 1.0 / factor);
            let error: Vec<_> = back.iter().zip(&expected).map(|(x, y)| x.to_f64() - y).collect();
            assert!(norm(&error) <= 100.0 * tolerance::<T>() * norm(&expected), "{what}: {:e}", norm(&error));
            if scales {
                assert_eq!(bits(&back), bits(&x), "{what}");
                let history: Vec<_> = info.history.iter().map(|norm| norm / factor).collect();
                assert_eq!(history, plain.history, "{what}");
                // Computed from other vectors: where squares underflow, a norm is rounded otherwise.
                let ratio = info.residual_norm / factor / plain.residual_norm;
                assert!((ratio - 1.0).abs() < 1e-6, "{what}: {ratio}");
                let norms = |seen: &[(f64, f64)]| seen.iter().map(|(norm, _)| *norm).collect::<Vec<_>>();
                assert_eq!(times(&norms(&scaled_seen), 1.0 / factor), norms(&seen), "{what}");
                assert!(scaled_seen.iter().all(|(_, target)| (target / factor / seen[0].1 - 1.0).abs() < 1e-12));
            }
        }
    }
}

/// A tiny right-hand side with a guess of about 1, whose residual decides on the scale of the system.
pub(super) fn large_guesses(device: &Device) {
    for (method, _) in METHODS {
        let is_symmetric = matches!(method, SolverMethod::Minres | SolverMethod::Cg);
        let matrix = convection::<f32>(7, if is_symmetric { 0.0 } else { 0.3 });
        let tolerance = Tolerance::absolute(1e-3);
        let (outcome, x, _) = run(device, &matrix, method, false, tolerance, [&[1e-20; 49], &[1.0; 49]]);
        assert_eq!(outcome.unwrap().reason, StopReason::Converged, "{method}");
        assert!(x.iter().all(|x| x.abs() < 0.1), "{method}: {x:?}");
    }
}

/// A solution that has few digits, because its elements are among the least numbers of the type: the report says how good it is.
pub(super) fn least_numbers(device: &Device) {
    let matrix = convection::<f32>(9, 0.3);
    let b = times(&Random(5).vector::<f32>(81), 2f64.powi(-140));
    let bicgstab_l = SolverMethod::BiCgStabL { l: 2 };
    for method in [SolverMethod::BiCgStab, bicgstab_l, SolverMethod::Idr { s: 4 }, SolverMethod::Gmres { restart: 20 }]
    {
        let tolerance = Tolerance::relative(1e-6);
        let (outcome, x, _) = run(device, &matrix, method, false, tolerance, [&b, &[0.0; 81]]);
        let info = outcome.unwrap();
        let (scaled_b, scaled_x) = (times(&doubles(&b), 2f64.powi(140)), times(&doubles(&x), 2f64.powi(140)));
        let mut r = scaled_b.clone();
        matrix.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * scaled_x[j]);
        let left = norm(&r) / norm(&scaled_b);
        assert!((1e-4..0.1).contains(&left), "{method}: {left:e}");
        assert!((info.relative_residual / left - 1.0).abs() < 0.2, "{method}: {left:e}, {info:?}");
        assert_eq!(info.reason, StopReason::RoundingLimit, "{method}");
    }
}
