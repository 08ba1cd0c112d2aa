//! BiCGSTAB, BiCGSTAB(l), IDR(s), GMRES and MINRES: solutions against a direct solver in `f64`, how they end where there is none, and the kernels
//! alone.

mod combinations;
#[path = "../common/mod.rs"]
mod common;
mod kernels;
mod least_squares;
mod magnitudes;

use std::{cell::Cell, ops::ControlFlow, process::ExitCode};

use common::{
    Random,
    direct::{doubles, norm, solved},
    matrices::from_rows,
    on_cpu_and_gpu, on_emulator_and_gpu, on_every_device, other,
};
use warpsparse::{
    Attempt, CgMethod, CsrMatrix, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Jacobi,
    LinearOperator, Preconditioner, Result, Scalar, SolveInfo, Solver, SolverMethod, SolverPreconditioner, StopReason,
    Tolerance,
};

const UNSYMMETRIC: [SolverMethod; 8] = [
    SolverMethod::BiCgStab,
    SolverMethod::BiCgStabL { l: 2 },
    SolverMethod::BiCgStabL { l: 4 },
    SolverMethod::Idr { s: 1 },
    SolverMethod::Idr { s: 4 },
    SolverMethod::Gmres { restart: 7 },
    SolverMethod::Gmres { restart: 40 },
    SolverMethod::FlexibleGmres { restart: 7 },
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("unsymmetric_f32", unsymmetric::<f32>));
    trials.extend(on_every_device("unsymmetric_f64", unsymmetric::<f64>));
    trials.extend(on_every_device("indefinite_f32", indefinite::<f32>));
    trials.extend(on_every_device("indefinite_f64", indefinite::<f64>));
    trials.extend(on_every_device("histories_are_true", histories));
    trials.extend(on_every_device("iterations_are_those_of_the_space", spaces));
    trials.extend(on_every_device("a_changing_preconditioner", changing));
    trials.extend(on_every_device("degenerate_systems", degenerate));
    trials.extend(on_every_device("systems_without_a_solution", without_a_solution));
    trials.extend(on_every_device("attempts", attempts));
    trials.extend(on_every_device("attempts_without_memory", attempts_without_memory));
    trials.extend(on_every_device("residuals_do_not_grow_without_limit", growth));
    trials.extend(on_every_device("limits_and_callbacks", limits));
    trials.extend(on_every_device("every_combination_with_few_unknowns_f32", combinations::few_unknowns::<f32>));
    trials.extend(on_every_device("every_combination_with_few_unknowns_f64", combinations::few_unknowns::<f64>));
    trials.extend(on_every_device("every_combination_with_limits_f32", combinations::limits::<f32>));
    trials.extend(on_cpu_and_gpu("every_combination_with_limits_f64", combinations::limits::<f64>));
    trials.extend(on_every_device("every_combination_of_a_singular_matrix", combinations::singular));
    trials.extend(on_every_device("every_combination_of_an_indefinite_matrix", combinations::indefinite));
    trials.extend(on_every_device("operators_that_cannot_be_recorded", unrecordable));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", misfits));
    trials.extend(on_every_device("same_input_same_bits", same_bits));
    trials.extend(on_every_device("basis_of_an_ill_conditioned_system_f32", ill_conditioned::<f32>));
    trials.extend(on_every_device("basis_of_an_ill_conditioned_system_f64", ill_conditioned::<f64>));
    trials.extend(on_every_device("restarts_of_gmres_f32", restarts::<f32>));
    trials.extend(on_every_device("restarts_of_gmres_f64", restarts::<f64>));
    trials.extend(on_every_device("long_cycles_f32", long_cycles::<f32>));
    trials.extend(on_every_device("long_cycles_f64", long_cycles::<f64>));
    trials.extend(on_every_device("residuals_are_replaced_f32", replaced::<f32>));
    trials.extend(on_every_device("residuals_are_replaced_f64", replaced::<f64>));
    trials.extend(on_every_device("tiny_and_huge_right_hand_sides_f32", magnitudes::powers_of_two::<f32>));
    trials.extend(on_every_device("tiny_and_huge_right_hand_sides_f64", magnitudes::powers_of_two::<f64>));
    trials.extend(on_every_device("tiny_right_hand_sides_with_large_guesses", magnitudes::large_guesses));
    trials.extend(on_every_device("right_hand_sides_of_the_least_numbers", magnitudes::least_numbers));
    trials.extend(on_emulator_and_gpu("products_with_a_basis_f32", kernels::products::<f32>));
    trials.extend(on_emulator_and_gpu("products_with_a_basis_f64", kernels::products::<f64>));
    trials.extend(on_emulator_and_gpu("gram_schmidt_twice_f32", kernels::orthogonality::<f32>));
    trials.extend(on_emulator_and_gpu("gram_schmidt_twice_f64", kernels::orthogonality::<f64>));
    trials.extend(on_emulator_and_gpu("steps_of_bicgstab_f32", kernels::steps::<f32>));
    trials.extend(on_emulator_and_gpu("steps_of_bicgstab_f64", kernels::steps::<f64>));
    trials.extend(on_emulator_and_gpu("least_squares_f32", least_squares::solutions::<f32>));
    trials.extend(on_emulator_and_gpu("least_squares_f64", least_squares::solutions::<f64>));
    trials.extend(on_emulator_and_gpu("ends_of_least_squares", least_squares::ends));
    trials.extend(on_every_device("one_dimension_of_bicgstab_l_is_bicgstab", one_dimension));
    common::run(trials)
}

/// Convection and diffusion on a grid: not symmetric, and diagonally dominant only just.
fn convection<T: Scalar>(side: usize, wind: f64) -> CsrMatrix<T> {
    let row = |i: usize| {
        let (x, y) = (i % side, i / side);
        let mut entries = vec![(i, 4.0 + wind)];
        if y > 0 {
            entries.insert(0, (i - side, -1.0));
        }
        if x > 0 {
            entries.insert(entries.len() - 1, (i - 1, -1.0 - wind));
        }
        if x + 1 < side {
            entries.push((i + 1, -1.0));
        }
        if y + 1 < side {
            entries.push((i + side, -1.0 + 0.25 * wind));
        }
        entries
    };
    from_rows(side * side, (0..side * side).map(row).collect())
}

/// A symmetric matrix with eigenvalues on both sides of 0: a shifted stencil.
fn shifted<T: Scalar>(side: usize, shift: f64) -> CsrMatrix<T> {
    let a = convection::<f64>(side, 0.0);
    let (offsets, columns, values) = (a.row_offsets().to_vec(), a.col_indices().to_vec(), a.values());
    let mut values = values.to_vec();
    for row in 0..a.nrows() {
        for k in offsets[row] as usize..offsets[row + 1] as usize {
            if columns[k] as usize == row {
                values[k] -= shift;
            }
        }
    }
    let values = values.into_iter().map(T::from_f64).collect();
    CsrMatrix::try_from_csr_data(a.nrows(), a.ncols(), offsets, columns, values).unwrap()
}

/// The solution, by Gaussian elimination with partial pivoting.
fn direct<T: Scalar>(a: &CsrMatrix<T>, b: &[T]) -> Vec<f64> {
    let n = a.nrows();
    let mut rows = vec![vec![0.0; n + 1]; n];
    a.triplets().for_each(|(i, j, value)| rows[i][j] += value.to_f64());
    (0..n).for_each(|i| rows[i][n] = b[i].to_f64());
    solved(rows)
}

fn residual<T: Scalar>(a: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let mut r = doubles(b);
    a.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * x[j].to_f64());
    norm(&r)
}

fn tolerance<T>() -> f64 {
    if size_of::<T>() == 4 { 1e-5 } else { 1e-11 }
}

/// BiCGSTAB(1) takes the steps of BiCGSTAB, but for rounding errors, which grow.
fn one_dimension(device: &Device) {
    let matrix = convection::<f64>(9, 0.3);
    let (a, b) = (device.upload(&matrix).unwrap(), device.upload_vec(&Random(5).vector(81)).unwrap());
    let history = |method| {
        let mut solver = Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-10));
        solver.solve(&b, &mut device.zeros(81).unwrap()).unwrap().history
    };
    let (one, plain) = (history(SolverMethod::BiCgStabL { l: 1 }), history(SolverMethod::BiCgStab));
    assert!(plain.len() > 6);
    for (i, (one, plain)) in one.iter().zip(&plain).take(7).enumerate() {
        assert!((one - plain).abs() <= 1e-8 * plain, "{i}: {one:e}, {plain:e}");
    }
}

/// Eigenvalues over many orders of magnitude: the basis has to stay orthogonal for GMRES to find the solution in as many iterations as there are
/// unknowns, and to know its residual.
fn ill_conditioned<T: Scalar>(device: &Device) {
    let (n, decades) = (24, if size_of::<T>() == 4 { 3.0 } else { 6.0 });
    let row = |i: usize| vec![(i, 10f64.powf(-decades * i as f64 / (n - 1) as f64))];
    let matrix = from_rows::<T>(n, (0..n).map(row).collect());
    let (a, b) = (device.upload(&matrix).unwrap(), Random(4).vector::<T>(n));
    let on_device = device.upload_vec(&b).unwrap();
    for method in [SolverMethod::Gmres { restart: 400 }, SolverMethod::FlexibleGmres { restart: n }] {
        let mut x = device.zeros(n).unwrap();
        let tolerance = Tolerance::relative(10.0 * tolerance::<T>());
        let info = Solver::new(&a).method(method).tolerance(tolerance).solve(&on_device, &mut x).unwrap();
        assert!(info.reason == StopReason::Converged && info.iterations <= n, "{method}: {info:?}");
        let left = residual(&matrix, &b, &x.to_vec().unwrap());
        assert!(left <= 11.0 * self::tolerance::<T>() * norm(&doubles(&b)), "{method}: {left:e}");
    }
}

/// Cycles of one iteration, cycles longer than there are unknowns, and a space that ends at once because `b` is an eigenvector.
fn restarts<T: Scalar>(device: &Device) {
    let of_length = |restart| [SolverMethod::Gmres { restart }, SolverMethod::FlexibleGmres { restart }];
    let matrix = convection::<T>(5, 1.0);
    solves(device, &matrix, &[of_length(1), of_length(26), of_length(100)].concat(), &[false, true]);
    // The sine waves of a symmetric stencil.
    let side = 6;
    let wave = |i: usize| (std::f64::consts::PI * (i + 1) as f64 / (side + 1) as f64).sin();
    let b: Vec<T> = (0..side * side).map(|i| T::from_f64(wave(i % side) * wave(i / side))).collect();
    let eigenvalue = 4.0 - 4.0 * (std::f64::consts::PI / (side + 1) as f64).cos();
    let a = device.upload(&convection::<T>(side, 0.0)).unwrap();
    for method in [of_length(1), of_length(9)].concat() {
        let mut x = device.zeros(b.len()).unwrap();
        let mut solver = Solver::new(&a).method(method).tolerance(Tolerance::relative(tolerance::<T>()));
        let info = solver.solve(&device.upload_vec(&b).unwrap(), &mut x).unwrap();
        assert_eq!((info.reason, info.iterations), (StopReason::Converged, 1), "{method}");
        let x = x.to_vec().unwrap();
        let is_multiple = |(x, b): (&T, &T)| (eigenvalue * x.to_f64() - b.to_f64()).abs() <= 10.0 * tolerance::<T>();
        assert!(x.iter().zip(&b).all(is_multiple), "{method}");
    }
}

/// A cyclic shift whose first entry is far larger than the others. GMRES needs one basis vector per unknown, and none of them may underflow.
fn long_cycles<T: Scalar>(device: &Device) {
    let n = 50;
    let row = |i: usize| vec![((i + n - 1) % n, if i == 1 { 1e4 } else { 1.0 })];
    let a = device.upload(&from_rows::<T>(n, (0..n).map(row).collect())).unwrap();
    let unit = |at: usize| (0..n).map(|i| T::from_f64(f64::from(u8::from(i == at)))).collect::<Vec<_>>();
    for method in [SolverMethod::Gmres { restart: n }, SolverMethod::FlexibleGmres { restart: n }] {
        let mut x = device.zeros(n).unwrap();
        let info = Solver::new(&a).method(method).solve(&device.upload_vec(&unit(0)).unwrap(), &mut x).unwrap();
        assert_eq!((info.reason, info.iterations), (StopReason::Converged, n), "{method}");
        assert_eq!(x.to_vec().unwrap(), unit(n - 1), "{method}");
    }
}

/// From a guess that is far off, the rounding errors of the first residuals are larger than the last ones. BiCGSTAB's recurrence does not see them,
/// unless its residual is replaced.
fn replaced<T: Scalar>(device: &Device) {
    let (matrix, far) = (convection::<T>(9, 1.0), if size_of::<T>() == 4 { 1e3 } else { 1e6 });
    let n = matrix.nrows();
    let b = Random(8).vector::<T>(n);
    let guess: Vec<T> = Random(6).vector::<f64>(n).into_iter().map(|x| T::from_f64(far * x)).collect();
    let (a, on_device) = (device.upload(&matrix).unwrap(), device.upload_vec(&b).unwrap());
    let tolerance = Tolerance::relative(0.1 * tolerance::<T>());
    let solve = |limit: usize, with_jacobi: bool| {
        let mut x = device.upload_vec(&guess).unwrap();
        let mut solver = Solver::new(&a).method(SolverMethod::BiCgStab).tolerance(tolerance).max_iterations(limit);
        if with_jacobi {
            solver = solver.preconditioner(Jacobi::new(&a).unwrap());
        }
        let info = solver.solve(&on_device, &mut x).unwrap();
        drop(solver);
        (info, residual(&matrix, &b, &x.to_vec().unwrap()))
    };
    for with_jacobi in [false, true] {
        let (whole, _) = solve(1000, with_jacobi);
        assert_eq!(whole.reason, StopReason::Converged);
        for limit in whole.iterations - 6..whole.iterations {
            let (info, left) = solve(limit, with_jacobi);
            let updated = info.history[limit];
            assert!((left - updated).abs() <= 0.05 * left, "{limit}: {left:e}, {updated:e}");
        }
    }
}

/// Solves from a guess that is not 0, with and without Jacobi's preconditioner, and compares with the direct solution.
fn solves<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>, methods: &[SolverMethod], preconditioned: &[bool]) {
    let n = matrix.nrows();
    let (b, guess) = (Random(5).vector::<T>(n), Random(6).vector::<T>(n));
    let expected = direct(matrix, &b);
    let a = device.upload(matrix).unwrap();
    let b_norm = norm(&doubles(&b));
    for &method in methods {
        for &with_jacobi in preconditioned {
            let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.upload_vec(&guess).unwrap());
            let mut solver = Solver::new(&a).method(method).tolerance(Tolerance::relative(tolerance::<T>()));
            if with_jacobi {
                solver = solver.preconditioner(Jacobi::new(&a).unwrap());
            }
            let info = solver.solve(&on_device, &mut x).unwrap();
            let what = format!("{method}, Jacobi: {with_jacobi}: {:?} after {}", info.reason, info.iterations);
            assert_eq!(info.reason, StopReason::Converged, "{what}");
            let x = x.to_vec().unwrap();
            let left = residual(matrix, &b, &x);
            assert!(left <= 1.2 * tolerance::<T>() * b_norm, "{what}: {left}");
            assert!((info.residual_norm - left).abs() <= 0.2 * tolerance::<T>() * b_norm, "{what}: {left}");
            let error: Vec<f64> = x.iter().zip(&expected).map(|(x, y)| x.to_f64() - y).collect();
            assert!(norm(&error) <= 200.0 * tolerance::<T>() * norm(&expected), "{what}: {}", norm(&error));
            assert_eq!(info.history.len(), info.iterations + 1);
        }
    }
}

fn unsymmetric<T: Scalar>(device: &Device) {
    solves(device, &convection::<T>(12, 1.5), &UNSYMMETRIC, &[false, true]);
}

fn indefinite<T: Scalar>(device: &Device) {
    // Eigenvalues are 4 - 2 cos - 2 cos - shift: 12 of them are negative, none is near 0.
    solves(
        device,
        &shifted::<T>(12, 1.03),
        &[SolverMethod::Minres, SolverMethod::Gmres { restart: 150 }],
        &[false, true],
    );
}

/// The norms of the history are those of the residuals of the iterates, and those of MINRES and GMRES never grow.
fn histories(device: &Device) {
    let (unsymmetric, symmetric) = (convection::<f64>(9, 1.0), shifted::<f64>(9, 1.03));
    let cases = [
        (&unsymmetric, SolverMethod::BiCgStab),
        (&unsymmetric, SolverMethod::BiCgStabL { l: 2 }),
        (&unsymmetric, SolverMethod::Idr { s: 4 }),
        (&unsymmetric, SolverMethod::Gmres { restart: 6 }),
        (&unsymmetric, SolverMethod::FlexibleGmres { restart: 6 }),
        (&symmetric, SolverMethod::Minres),
    ];
    for (matrix, method) in cases {
        for with_jacobi in [false, true] {
            let b = Random(8).vector::<f64>(matrix.nrows());
            let a = device.upload(matrix).unwrap();
            let on_device = device.upload_vec(&b).unwrap();
            let mut norms = Vec::new();
            // The iterations of BiCGSTAB(2) are twice as many.
            let limits = if method == (SolverMethod::BiCgStabL { l: 2 }) { 10 } else { 17 };
            for limit in 1..=limits {
                let mut x = device.zeros(matrix.nrows()).unwrap();
                let mut solver =
                    Solver::new(&a).method(method).max_iterations(limit).tolerance(Tolerance::relative(1e-13));
                if with_jacobi {
                    solver = solver.preconditioner(Jacobi::new(&a).unwrap());
                }
                let info = solver.solve(&on_device, &mut x).unwrap();
                assert_eq!((info.iterations, info.reason), (limit, StopReason::MaxIterations), "{method}");
                let left = residual(matrix, &b, &x.to_vec().unwrap());
                assert!(
                    (left - info.history[limit]).abs() <= 1e-12 * norm(&b),
                    "{method} {limit}: {left}, {:?}",
                    info.history
                );
                norms.push(left);
            }
            let never_grows = match method {
                SolverMethod::Minres => !with_jacobi,
                SolverMethod::Gmres { .. } | SolverMethod::FlexibleGmres { .. } => true,
                _ => false,
            };
            if never_grows {
                assert!(norms.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{method}: {norms:?}");
            }
        }
    }
}

/// Three different eigenvalues are solved in three iterations.
fn spaces(device: &Device) {
    let n = 40;
    let row = |i: usize| vec![(i, [-2.0, 1.0, 5.0][i % 3])];
    let a = device.upload(&from_rows::<f64>(n, (0..n).map(row).collect())).unwrap();
    let b = device.upload_vec(&Random(4).vector::<f64>(n)).unwrap();
    for method in [SolverMethod::Minres, SolverMethod::Gmres { restart: 10 }] {
        let mut x = device.zeros(n).unwrap();
        let info = Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-10)).solve(&b, &mut x).unwrap();
        assert_eq!((info.iterations, info.reason), (3, StopReason::Converged), "{method}");
    }
}

/// Scales by another number in each application.
struct Changing(std::cell::Cell<u32>);

impl Preconditioner<f64> for Changing {
    fn apply(&self, r: DeviceSlice<'_, f64>, mut z: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.0.set(self.0.get() + 1);
        z.assign(r)?;
        z.scale(f64::from(self.0.get() % 4 + 1))
    }
}

/// Flexible GMRES bears it, and believes in the right residuals.
fn changing(device: &Device) {
    let matrix = convection::<f64>(10, 1.0);
    let b = Random(3).vector::<f64>(100);
    let (a, on_device) = (device.upload(&matrix).unwrap(), device.upload_vec(&b).unwrap());
    let mut x = device.zeros(100).unwrap();
    let mut solver = Solver::new(&a).method(SolverMethod::FlexibleGmres { restart: 60 });
    solver = solver.tolerance(Tolerance::relative(1e-10)).preconditioner(Changing(0.into()));
    let info = solver.solve(&on_device, &mut x).unwrap();
    assert_eq!(info.reason, StopReason::Converged);
    let left = residual(&matrix, &b, &x.to_vec().unwrap());
    assert!((left - info.history[info.iterations]).abs() <= 1e-11 * norm(&b), "{left}");
}

/// No unknowns, one, two; a right-hand side of 0; a first guess that is the solution.
fn degenerate(device: &Device) {
    let all = UNSYMMETRIC.into_iter().chain([SolverMethod::Minres, SolverMethod::Auto]);
    for method in all {
        for n in 0..3 {
            let a = device.upload(&from_rows::<f64>(n, (0..n).map(|i| vec![(i, 2.0 + i as f64)]).collect())).unwrap();
            let solution: Vec<f64> = (0..n).map(|i| 1.0 - 3.0 * i as f64).collect();
            let b: Vec<f64> = (0..n).map(|i| (2.0 + i as f64) * solution[i]).collect();
            let on_device = device.upload_vec(&b).unwrap();
            for guess in [vec![0.5; n], solution.clone()] {
                let mut x = device.upload_vec(&guess).unwrap();
                let info =
                    Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-12)).solve(&on_device, &mut x);
                let info = info.unwrap();
                assert_eq!(info.reason, StopReason::Converged, "{method} {n}");
                // IDR(s) takes up to n + n / s.
                let most = if method == (SolverMethod::Idr { s: 1 }) { 2 * n } else { n };
                assert!(info.iterations <= most, "{method} {n}: {}", info.iterations);
                let x = x.to_vec().unwrap();
                assert!(x.iter().zip(&solution).all(|(x, y)| (x - y).abs() < 1e-11), "{method} {n}: {x:?}");
            }
            let mut x = device.upload_vec(&vec![7.0; n]).unwrap();
            let info = Solver::new(&a).method(method).solve(&device.zeros(n).unwrap(), &mut x).unwrap();
            assert_eq!((info.reason, info.iterations), (StopReason::Converged, 0));
            assert_eq!(x.to_vec().unwrap(), vec![0.0; n]);
        }
    }
}

/// A singular matrix, with a right-hand side in its range and with one that is not; NaN.
fn without_a_solution(device: &Device) {
    let n = 20;
    let a = device
        .upload(&from_rows::<f64>(n, (0..n).map(|i| vec![(i, if i == 3 { 0.0 } else { 1.0 + i as f64 })]).collect()));
    let a = a.unwrap();
    let methods = [
        SolverMethod::BiCgStab,
        SolverMethod::BiCgStabL { l: 2 },
        SolverMethod::Idr { s: 4 },
        SolverMethod::Gmres { restart: 30 },
        SolverMethod::Minres,
    ];
    for method in methods {
        let mut b = vec![1.0; n];
        b[3] = 0.0;
        let mut x = device.zeros(n).unwrap();
        let solver = || Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-9)).max_iterations(200);
        let info = solver().solve(&device.upload_vec(&b).unwrap(), &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged, "{method}");
        let mut x = device.zeros(n).unwrap();
        let outcome = solver().solve(&device.upload_vec(&vec![1.0; n]).unwrap(), &mut x);
        let is_honest = match &outcome {
            Ok(info) => info.reason != StopReason::Converged && info.relative_residual > 0.1,
            Err(error) => matches!(error, Error::Breakdown { .. }),
        };
        assert!(is_honest, "{method}: {outcome:?}");
        assert!(x.to_vec().unwrap().iter().all(|x| x.is_finite()), "{method}: {outcome:?}");
    }
    let nan =
        device.upload(&from_rows::<f64>(4, (0..4).map(|i| vec![(i, if i == 2 { f64::NAN } else { 1.0 })]).collect()));
    let nan = nan.unwrap();
    for method in UNSYMMETRIC.into_iter().chain([SolverMethod::Minres]) {
        let mut x = device.zeros(4).unwrap();
        let error = Solver::new(&nan).method(method).solve(&device.upload_vec(&[1.0; 4]).unwrap(), &mut x).unwrap_err();
        assert!(matches!(error, Error::Breakdown { .. }), "{method}: {error}");
    }
}

/// What `Auto` chooses, and that it goes on where a method does not suit.
fn attempts(device: &Device) {
    let solve = |matrix: &CsrMatrix<f64>| {
        let a = device.upload(matrix).unwrap();
        let b = device.upload_vec(&Random(2).vector::<f64>(matrix.nrows())).unwrap();
        let mut x = device.zeros(matrix.nrows()).unwrap();
        let mut solver = Solver::new(&a).tolerance(Tolerance::relative(1e-9));
        let info = solver.solve(&b, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        solver.attempts().iter().map(|attempt| (attempt.method, attempt.outcome.clone())).collect::<Vec<_>>()
    };
    let methods = |attempts: &[(SolverMethod, String)]| attempts.iter().map(|(method, _)| *method).collect::<Vec<_>>();
    assert_eq!(methods(&solve(&shifted(8, 0.0))), [SolverMethod::Cg]);
    let of_indefinite = solve(&shifted(8, 1.03));
    assert_eq!(methods(&of_indefinite), [SolverMethod::Cg, SolverMethod::Minres]);
    assert!(of_indefinite[0].1.contains("not positive definite"), "{of_indefinite:?}");
    assert!(of_indefinite[1].1.starts_with("Converged after "), "{of_indefinite:?}");
    assert_eq!(methods(&solve(&convection(8, 1.0))), [SolverMethod::BiCgStab]);
    reasons(device);
    // A rotation by a right angle: r . A r is 0, so that BiCGSTAB divides by it, and BiCGSTAB(2) too.
    let n = 16;
    let row = |i: usize| vec![(i ^ 1, [1.0, -1.0][i % 2])];
    let of_rotation = solve(&from_rows(n, (0..n).map(row).collect()));
    assert_eq!(
        methods(&of_rotation),
        [SolverMethod::BiCgStab, SolverMethod::BiCgStabL { l: 2 }, SolverMethod::Gmres { restart: 400 }]
    );
    assert!(of_rotation[0].1.contains("try GMRES"), "{of_rotation:?}");
}

/// Why each method was used, and how conjugate gradients compute their iterations; solves again with what the first solve has prepared.
fn reasons(device: &Device) {
    let a = device.upload(&shifted::<f64>(8, 1.03)).unwrap();
    let b = device.upload_vec(&Random(2).vector::<f64>(64)).unwrap();
    let mut solver = Solver::new(&a).cg_method(CgMethod::Launches);
    for _ in 0..2 {
        let mut x = device.zeros(64).unwrap();
        solver.solve(&b, &mut x).unwrap();
        let reasons: Vec<_> = solver.attempts().iter().map(|attempt| attempt.reason.as_str()).collect();
        assert_eq!(reasons, ["the matrix is symmetric", "conjugate gradients broke down"]);
        let preconditioners: Vec<_> = solver.attempts().iter().map(|attempt| attempt.preconditioner).collect();
        assert_eq!(preconditioners, [SolverPreconditioner::Jacobi, SolverPreconditioner::None]);
        let kernels: Vec<_> = solver.attempts().iter().map(|attempt| attempt.kernel.kernel.clone()).collect();
        assert!(kernels[0].contains("cg") && kernels[1] == "vector operations", "{kernels:?}");
    }
    // The last attempt again, without the first.
    let mut x = device.zeros(64).unwrap();
    let mut solver = solver.keep_last();
    solver.solve(&b, &mut x).unwrap();
    assert!(solver.attempts().len() == 1 && solver.attempts()[0].method == SolverMethod::Minres);
    drop(solver);

    // Few iterations do not suffice, and what does not break down is tried with incomplete factors.
    let laplacian = device.upload(&shifted::<f64>(16, 0.0)).unwrap();
    let b = device.upload_vec(&Random(2).vector::<f64>(256)).unwrap();
    let mut x = device.zeros(256).unwrap();
    let mut solver = Solver::new(&laplacian).tolerance(Tolerance::relative(1e-8)).max_iterations(28);
    assert_eq!(solver.solve(&b, &mut x).unwrap().reason, StopReason::Converged);
    let of = |attempt: &Attempt| (attempt.method, attempt.preconditioner);
    let tried: Vec<_> = solver.attempts().iter().map(of).collect();
    assert_eq!(tried, [SolverPreconditioner::Jacobi, SolverPreconditioner::Ilu].map(|with| (SolverMethod::Cg, with)));
    let (mut solver, found) = (solver.keep_last(), x.to_vec().unwrap());
    x.fill(0.0).unwrap();
    solver.solve(&b, &mut x).unwrap();
    assert_eq!((solver.attempts().len(), x.to_vec().unwrap()), (1, found));
    drop(solver);

    // A given preconditioner is used by all.
    let b = device.upload_vec(&[1.0; 64]).unwrap();
    let mut solver = Solver::new(&a).preconditioner(Jacobi::new(&a).unwrap());
    solver.solve(&b, &mut device.zeros(64).unwrap()).unwrap();
    assert!(solver.attempts().iter().all(|attempt| attempt.preconditioner == SolverPreconditioner::Given));
    drop(solver);
    // And none by all, if there is to be none.
    let mut solver = Solver::new(&a).unpreconditioned();
    solver.solve(&b, &mut device.zeros(64).unwrap()).unwrap();
    assert!(solver.attempts().len() == 2);
    assert!(solver.attempts().iter().all(|attempt| attempt.preconditioner == SolverPreconditioner::None));
    drop(solver);
    // A number of iterations from a callback that the solver keeps for all methods.
    let mut heard = 0;
    let mut solver = Solver::new(&a).callback(|_| {
        heard += 1;
        ControlFlow::Continue(())
    });
    let mut x = device.zeros(64).unwrap();
    let info = solver.solve(&b, &mut x).unwrap();
    drop(solver);
    assert!(heard >= info.iterations, "{heard}, {info:?}");
}

fn limits(device: &Device) {
    let a = device.upload(&convection::<f64>(10, 1.0)).unwrap();
    let b = device.upload_vec(&Random(3).vector::<f64>(100)).unwrap();
    for method in UNSYMMETRIC {
        for limit in [0, 1, 5] {
            let mut x = device.zeros(100).unwrap();
            let solver = Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-12)).max_iterations(limit);
            let info = { solver }.solve(&b, &mut x).unwrap();
            assert_eq!((info.reason, info.iterations), (StopReason::MaxIterations, limit), "{method}");
        }
        let (mut x, mut seen) = (device.zeros(100).unwrap(), Vec::new());
        let info = Solver::new(&a)
            .method(method)
            .tolerance(Tolerance::relative(1e-12))
            .callback(|progress| {
                seen.push((progress.iteration, progress.residual_norm));
                if progress.iteration == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .solve(&b, &mut x)
            .unwrap();
        assert_eq!(info.reason, StopReason::Stopped, "{method}");
        let left = residual(&convection::<f64>(10, 1.0), &b.to_vec().unwrap(), &x.to_vec().unwrap());
        assert!((left - info.residual_norm).abs() <= 1e-12, "{method}: {left}");
        assert!((left - info.history[info.iterations]).abs() <= 1e-11, "{method}: {left}");
        assert_eq!(seen, info.history.iter().copied().enumerate().skip(1).take(6).collect::<Vec<_>>(), "{method}");
    }
}

/// IDR(1) diverges on this matrix, whose powers grow by orders of magnitude before they decay.
fn growth(device: &Device) {
    let n = 60;
    let row = |i: usize| if i + 1 < n { vec![(i, 1.0), (i + 1, 1e3)] } else { vec![(i, 1.0)] };
    let a = device.upload(&from_rows::<f64>(n, (0..n).map(row).collect())).unwrap();
    let b = device.upload_vec(&Random(8).vector(n)).unwrap();
    let (mut most, mut x) = (0.0f64, device.zeros(n).unwrap());
    let mut solver = Solver::new(&a).method(SolverMethod::Idr { s: 1 }).max_iterations(100_000).callback(|progress| {
        most = most.max(progress.residual_norm);
        ControlFlow::Continue(())
    });
    let error = solver.solve(&b, &mut x).unwrap_err();
    drop(solver);
    assert!(matches!(&error, Error::Breakdown { problem, .. } if problem.contains("has grown")), "{error}");
    let limit = norm(&b.to_vec().unwrap()) / f64::EPSILON;
    assert!((limit..1e3 * limit).contains(&most), "{most:e} {limit:e}");
}

/// Has memory for so many products.
struct Limited<'a> {
    a: &'a DeviceMatrix<f64>,
    left: Cell<usize>,
}

impl LinearOperator<f64> for Limited<'_> {
    fn nrows(&self) -> usize {
        self.a.nrows()
    }
    fn ncols(&self) -> usize {
        self.a.ncols()
    }
    fn device(&self) -> &Device {
        self.a.device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or(Error::OutOfMemory { device: "test".into(), requested: 1, available: None })?);
        self.a.spmv(1.0, x, 0.0, y)
    }
}

/// The best result so far is the result, if there is any.
fn attempts_without_memory(device: &Device) {
    let a = device.upload(&convection::<f64>(9, 1.0)).unwrap();
    let operator = Limited { a: &a, left: Cell::new(0) };
    let b = device.upload_vec(&Random(2).vector::<f64>(81)).unwrap();
    let run = |method, products| {
        operator.left.set(products);
        let mut x = device.filled(81, 0.5).unwrap();
        let mut solver = Solver::new(&operator).method(method).max_iterations(3);
        let result = solver.solve(&b, &mut x).map(|info| (info, x.to_vec().unwrap()));
        (result, solver.attempts().len(), solver.keep_last(), products - operator.left.get())
    };
    let methods = [SolverMethod::BiCgStab, SolverMethod::BiCgStabL { l: 2 }];
    let [first, second] = methods.map(|method| run(method, 1000));
    let norm =
        |(result, ..): &(Result<(SolveInfo, _)>, usize, Solver<f64>, usize)| result.as_ref().unwrap().0.residual_norm;
    let best = if norm(&second) < norm(&first) { &second } else { &first };
    assert!(matches!(run(SolverMethod::Auto, 0).0, Err(Error::OutOfMemory { .. })));
    for (products, attempts, expected) in [(first.3 + 1, 2, &first), (first.3 + second.3 + 1, 3, best)] {
        let found = run(SolverMethod::Auto, products);
        assert_eq!((found.0.unwrap(), found.1), (expected.0.as_ref().unwrap().clone(), attempts));
        assert_eq!(format!("{:?}", found.2), format!("{:?}", expected.2));
    }
}

/// Copies to the host, and claims that it does not, or says so.
struct Copying<'a> {
    a: &'a DeviceMatrix<f64>,
    claims: bool,
}

impl LinearOperator<f64> for Copying<'_> {
    fn nrows(&self) -> usize {
        self.a.nrows()
    }
    fn ncols(&self) -> usize {
        self.a.ncols()
    }
    fn device(&self) -> &Device {
        self.a.device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.a.spmv(1.0, x, 0.0, y)?;
        x.to_vec().map(drop)
    }
    fn can_be_recorded(&self) -> bool {
        self.claims
    }
}

fn solved_by(
    method: SolverMethod,
    operator: &impl LinearOperator<f64>,
    b: &DeviceVec<f64>,
) -> Result<(SolveInfo, Vec<f64>)> {
    let mut x = operator.device().zeros(b.len())?;
    let mut solver = Solver::new(operator).method(method).tolerance(Tolerance::relative(1e-13)).max_iterations(26);
    let info = solver.solve(b, &mut x)?;
    drop(solver);
    Ok((info, x.to_vec()?))
}

/// The iterations of a longer solve are recorded.
fn unrecordable(device: &Device) {
    let a = device.upload(&shifted::<f64>(9, 0.0)).unwrap();
    let b = device.upload_vec(&Random(3).vector::<f64>(81)).unwrap();
    let of_all = [SolverMethod::Minres, SolverMethod::Gmres { restart: 4 }, SolverMethod::FlexibleGmres { restart: 6 }];
    for method in of_all.into_iter().chain(UNSYMMETRIC) {
        if method == (SolverMethod::Gmres { restart: 40 }) {
            // One cycle suffices.
            continue;
        }
        let (info, x) = solved_by(method, &Copying { a: &a, claims: false }, &b).unwrap();
        // What is recorded has the same bits.
        let (of_matrix, found) = solved_by(method, &a, &b).unwrap();
        // Three batches at least.
        let least = if matches!(method, SolverMethod::BiCgStabL { .. }) { 3 } else { 13 };
        assert!(info.iterations >= least && (&info, &x) == (&of_matrix, &found), "{method}: {info:?} {of_matrix:?}");
        // Nor are `x` and a preconditioner on a stream of their own.
        let stream = device.new_stream().unwrap();
        let own = Jacobi::new(&stream.upload(&shifted::<f64>(9, 0.0)).unwrap()).unwrap();
        let mut elsewhere = stream.zeros(81).unwrap();
        let solver =
            Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-13)).max_iterations(26).preconditioner(own);
        let by_others = { solver }.solve(&b, &mut elsewhere).unwrap();
        let own = Jacobi::new(&a).unwrap();
        let mut here = device.zeros(81).unwrap();
        let solver =
            Solver::new(&a).method(method).tolerance(Tolerance::relative(1e-13)).max_iterations(26).preconditioner(own);
        let by_own = { solver }.solve(&b, &mut here).unwrap();
        assert_eq!((by_others, elsewhere.to_vec().unwrap()), (by_own, here.to_vec().unwrap()), "{method}");
        let error = solved_by(method, &Copying { a: &a, claims: true }, &b).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(problem) if problem.contains("recorded")), "{method}: {error}");
    }
}

/// Not a matrix, and not square.
struct Wide<'d>(&'d Device);

impl LinearOperator<f64> for Wide<'_> {
    fn nrows(&self) -> usize {
        3
    }
    fn ncols(&self) -> usize {
        4
    }
    fn device(&self) -> &Device {
        self.0
    }
    fn apply(&self, _: DeviceSlice<'_, f64>, _: DeviceSliceMut<'_, f64>) -> Result<()> {
        unreachable!("nothing is computed")
    }
}

fn misfits(device: &Device) {
    let a = device.upload(&convection::<f64>(4, 1.0)).unwrap();
    let (b, mut x) = (device.zeros(16).unwrap(), device.zeros(16).unwrap());
    for method in [SolverMethod::Gmres { restart: 0 }, SolverMethod::BiCgStabL { l: 0 }, SolverMethod::Idr { s: 0 }] {
        let error = Solver::new(&a).method(method).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    // As many iterations as there are numbers is no limit.
    let symmetric = device.upload(&convection::<f64>(4, 0.0)).unwrap();
    let ones = device.upload_vec(&[1.0; 16]).unwrap();
    let mut solver = Solver::new(&symmetric).method(SolverMethod::Minres).max_iterations(usize::MAX);
    assert_eq!(solver.solve(&ones, &mut device.zeros(16).unwrap()).unwrap().reason, StopReason::Converged);
    let error = Solver::new(&a).tolerance(Tolerance::relative(-1.0)).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    let error = Solver::new(&a).solve(&device.zeros(15).unwrap(), &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "b", expected: 16, found: 15 }), "{error}");
    let error = Solver::new(&a).solve(&other(device).zeros(16).unwrap(), &mut x).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
    let wide = Wide(device);
    let error = Solver::new(&wide).solve(&device.zeros(3).unwrap(), &mut device.zeros(4).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of A", .. }), "{error}");
}

fn same_bits(device: &Device) {
    let a = device.upload(&convection::<f64>(11, 1.0)).unwrap();
    let b = device.upload_vec(&Random(3).vector::<f64>(121)).unwrap();
    for method in UNSYMMETRIC {
        let solve = || {
            let mut x = device.zeros(121).unwrap();
            let info = Solver::new(&a).method(method).solve(&b, &mut x).unwrap();
            (info.history.iter().map(|norm| norm.to_bits()).collect::<Vec<_>>(), x.to_vec().unwrap())
        };
        assert_eq!(solve(), solve(), "{method}");
    }
}
