//! Block conjugate gradients: solutions against a direct solver in `f64`, columns of every kind, how they end, and the kernels alone.

#[path = "../common/mod.rs"]
mod common;
mod kernels;

use std::{ops::ControlFlow, process::ExitCode};

use common::{
    Random,
    direct::{norm, solved},
    matrices::{from_rows, stencil},
    on_cpu_and_gpu, on_device, on_emulator_and_gpu, on_every_device, other,
};
use warpsparse::{
    BlockCg, BlockSize, BsrMatrix, Cg, CsrMatrix, DenseLayout, Device, DeviceDense, Error, Ilu, Jacobi, Scalar,
    SolveInfo, StopReason, Tolerance,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_cpu_and_gpu("solutions_f32", |device| solutions::<f32>(device, 12, &[1, 2, 5, 16, 32, 33])));
    trials.extend(on_cpu_and_gpu("solutions_f64", |device| solutions::<f64>(device, 12, &[1, 2, 5, 16, 32, 33])));
    for (name, body) in [
        ("few_solutions_f32::emulated", (|device| solutions::<f32>(device, 5, &[1, 10, 33])) as fn(&Device)),
        ("few_solutions_f64::emulated", |device| solutions::<f64>(device, 5, &[2, 10, 32])),
    ] {
        trials.push(on_device(name.into(), body, || Device::emulated(1)));
    }
    trials.extend(on_cpu_and_gpu("fewer_iterations_than_alone", fewer_iterations));
    trials.extend(on_every_device("columns_that_depend_on_others", dependent));
    trials.extend(on_every_device("columns_end_by_themselves", ends));
    trials.extend(on_every_device("first_guesses", first_guesses));
    trials.extend(on_every_device("the_rounding_limit", rounding_limit));
    trials.extend(on_every_device("what_is_not_definite", indefinite));
    trials.extend(on_every_device("iterates_after_a_breakdown", after_a_breakdown));
    trials.extend(on_every_device("few_unknowns_f32", few_unknowns::<f32>));
    trials.extend(on_every_device("few_unknowns_f64", few_unknowns::<f64>));
    trials.extend(on_every_device("singular_matrices", singular));
    trials.extend(on_every_device("degenerate_systems", degenerate));
    trials.extend(on_every_device("layouts", layouts));
    trials.extend(on_every_device("callbacks", callbacks));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", misfits));
    trials.extend(on_every_device("same_input_same_bits", same_bits));
    trials.extend(on_emulator_and_gpu("kernels_f32", kernels::all::<f32>));
    trials.extend(on_emulator_and_gpu("kernels_f64", kernels::all::<f64>));
    common::run(trials)
}

fn converted<T: Scalar>(a: &CsrMatrix<f64>, element: impl Fn(usize, usize, f64) -> f64) -> CsrMatrix<T> {
    let mut rows = vec![vec![]; a.nrows()];
    a.triplets().for_each(|(i, j, value)| rows[i].push((j, element(i, j, value))));
    from_rows(a.nrows(), rows)
}

/// What the rows and columns of "scaled" are multiplied by.
fn scale(i: usize) -> f64 {
    10f64.powi((i % 5) as i32 - 2)
}

/// Symmetric positive definite matrices, each with a bound for its condition, of "scaled" without the scaling.
fn matrices<T: Scalar>(side: usize) -> Vec<(&'static str, CsrMatrix<T>, f64)> {
    let poisson = stencil(side);
    let n = side * side;
    let dense = (0..n).map(|i| (0..n).map(|j| (j, if i == j { 2.0 } else { 1.0 / (1 + i + j) as f64 })).collect());
    vec![
        ("one row", from_rows(1, vec![vec![(0, 3.0)]]), 1.0),
        ("grid", converted(&poisson, |_, _, value| value), (side * side) as f64),
        ("scaled", converted(&poisson, |i, j, value| scale(i) * value * scale(j)), (side * side) as f64),
        ("dense", from_rows(n, dense.collect()), 10.0),
    ]
}

/// The solutions of the systems for the columns of `b`, a vector each.
fn direct<T: Scalar>(a: &CsrMatrix<T>, b: &[Vec<T>]) -> Vec<Vec<f64>> {
    let n = a.nrows();
    let mut rows = vec![vec![0.0; n + 1]; n];
    a.triplets().for_each(|(i, j, value)| rows[i][j] += value.to_f64());
    let solution = |b: &Vec<T>| {
        let mut rows = rows.clone();
        (0..n).for_each(|i| rows[i][n] = b[i].to_f64());
        solved(rows)
    };
    b.iter().map(solution).collect()
}

fn residual<T: Scalar>(a: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let mut r: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
    a.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * x[j].to_f64());
    norm(&r)
}

fn norm_of<T: Scalar>(x: &[T]) -> f64 {
    norm(&x.iter().map(|x| x.to_f64()).collect::<Vec<_>>())
}

fn random_columns<T: Scalar>(seed: u64, n: usize, k: usize) -> Vec<Vec<T>> {
    (0..k).map(|j| Random(seed + j as u64).vector(n)).collect()
}

fn upload<T: Scalar>(device: &Device, columns: &[Vec<T>]) -> DeviceDense<T> {
    let (n, k) = (columns[0].len(), columns.len());
    let values: Vec<T> = (0..n * k).map(|at| columns[at % k][at / k]).collect();
    device.upload_dense((n, k), &values).unwrap()
}

fn download<T: Scalar>(x: &DeviceDense<T>) -> Vec<Vec<T>> {
    let (values, k) = (x.to_vec().unwrap(), x.ncols());
    (0..k).map(|j| values.iter().skip(j).step_by(k).copied().collect()).collect()
}

/// Solves from 0 on.
fn solve<T: Scalar>(
    mut solver: BlockCg<'_, T>,
    device: &Device,
    b: &[Vec<T>],
) -> warpsparse::Result<(Vec<SolveInfo>, Vec<Vec<T>>)> {
    let mut x = device.zeros_dense((b[0].len(), b.len())).unwrap();
    let infos = solver.solve(&upload(device, b), &mut x)?;
    Ok((infos, download(&x)))
}

fn tolerance<T>() -> f64 {
    if size_of::<T>() == 4 { 1e-5 } else { 1e-10 }
}

/// Checks a report and its solution against the matrix.
fn check_report<T: Scalar>(case: &str, a: &CsrMatrix<T>, b: &[T], x: &[T], info: &SolveInfo) {
    let (b_norm, true_residual) = (norm_of(b), residual(a, b, x));
    assert_eq!(info.reason, StopReason::Converged, "{case}: {info:?}");
    assert_eq!(info.iterations + 1, info.history.len(), "{case}");
    assert!(info.relative_residual <= 1.011 * tolerance::<T>(), "{case}: {info:?}");
    assert!((info.residual_norm - info.relative_residual * b_norm).abs() <= 1e-6 * info.residual_norm, "{case}");
    // Of products with a rounded x.
    let rounding = if size_of::<T>() == 4 { 5e-6 } else { 1e-12 } * (b_norm + norm_of(x));
    assert!((true_residual - info.residual_norm).abs() <= rounding, "{case}: {true_residual:e}, {info:?}");
}

fn solutions<T: Scalar>(device: &Device, side: usize, widths: &[usize]) {
    for (name, matrix, condition) in matrices::<T>(side) {
        if size_of::<T>() == 4 && name == "scaled" {
            continue;
        }
        let a = device.upload(&matrix).unwrap();
        for &k in widths {
            let b = random_columns::<T>(3, matrix.nrows(), k);
            let expected = direct(&matrix, &b);
            for with_jacobi in [false, true] {
                if name == "scaled" && !with_jacobi {
                    continue;
                }
                let case = format!("{name}, {k} columns, jacobi: {with_jacobi}");
                let mut solver = BlockCg::new(&a).tolerance(Tolerance::relative(tolerance::<T>()));
                if with_jacobi {
                    solver = solver.preconditioner(Jacobi::new(&a).unwrap());
                }
                let (infos, x) = solve(solver, device, &b).unwrap();
                assert_eq!(infos.len(), k);
                for (j, info) in infos.iter().enumerate() {
                    check_report(&format!("{case}, column {j}"), &matrix, &b[j], &x[j], info);
                    // The scaled matrix is as hard as the other for its unknowns times their scales, but the residual is weighted.
                    let is_scaled = name == "scaled";
                    let weights = if is_scaled { 1e4 } else { 1.0 };
                    let weighted = |i: usize, x: f64| if is_scaled { scale(i) * x } else { x };
                    let expected: Vec<f64> = expected[j].iter().enumerate().map(|(i, &y)| weighted(i, y)).collect();
                    let found = x[j].iter().enumerate().map(|(i, x)| weighted(i, x.to_f64()));
                    let off: Vec<f64> = found.zip(&expected).map(|(x, y)| x - y).collect();
                    let bound = 2.0 * weights * condition * tolerance::<T>() * norm(&expected);
                    assert!(norm(&off) <= bound, "{case}, column {j}: {:e} > {bound:e}", norm(&off));
                }
            }
        }
    }
}

fn fewer_iterations(device: &Device) {
    let matrix = stencil(64);
    let (a, n) = (device.upload(&matrix).unwrap(), matrix.nrows());
    let b = random_columns::<f64>(7, n, 32);
    let (infos, _) = solve(BlockCg::new(&a).tolerance(Tolerance::relative(1e-8)), device, &b).unwrap();
    let together = infos.iter().map(|info| info.iterations).max().unwrap();
    let mut cg = Cg::new(&a).tolerance(Tolerance::relative(1e-8));
    let mut alone = usize::MAX;
    for b in &b[..4] {
        let info = cg.solve(&device.upload_vec(b).unwrap(), &mut device.zeros(n).unwrap()).unwrap();
        alone = alone.min(info.iterations);
    }
    assert!(infos.iter().all(|info| info.reason == StopReason::Converged));
    assert!(3 * together <= alone, "{together} iterations together, {alone} alone");
}

/// The eigenvector of the grid's matrix with these frequencies.
fn eigenvector(side: usize, (p, q): (usize, usize)) -> Vec<f64> {
    let wave = |frequency: usize, place: usize| {
        (std::f64::consts::PI * (frequency * (place + 1)) as f64 / (side + 1) as f64).sin()
    };
    (0..side * side).map(|i| wave(p, i / side) * wave(q, i % side)).collect()
}

fn dependent(device: &Device) {
    let matrix = stencil(8);
    let (a, n) = (device.upload(&matrix).unwrap(), 64);
    let columns = random_columns::<f64>(1, n, 3);
    let scaled = |x: &[f64], factor: f64| x.iter().map(|x| factor * x).collect::<Vec<_>>();
    let sum = columns[0].iter().zip(&columns[1]).map(|(a, b)| a - 3.0 * b).collect::<Vec<_>>();
    let nearly = columns[2].iter().enumerate().map(|(i, x)| x + 1e-9 * (i % 7) as f64).collect::<Vec<_>>();
    let b = [
        columns[0].clone(),
        vec![0.0; n],
        columns[0].clone(),
        scaled(&columns[1], 1e9),
        scaled(&columns[1], 1e-9),
        sum,
        columns[2].clone(),
        nearly,
        vec![0.0; n],
    ];
    for with_jacobi in [false, true] {
        let mut solver = BlockCg::new(&a).tolerance(Tolerance::relative(tolerance::<f64>()));
        if with_jacobi {
            solver = solver.preconditioner(Jacobi::new(&a).unwrap());
        }
        let (infos, x) = solve(solver, device, &b).unwrap();
        for (j, info) in infos.iter().enumerate() {
            if b[j].iter().all(|b| *b == 0.0) {
                assert_eq!((info.iterations, info.residual_norm, info.reason), (0, 0.0, StopReason::Converged));
                assert!(x[j].iter().all(|x| *x == 0.0));
            } else {
                check_report(&format!("column {j}"), &matrix, &b[j], &x[j], info);
            }
        }
        let off: Vec<f64> = x[3].iter().zip(&x[4]).map(|(x, y)| x - 1e18 * y).collect();
        assert!(norm(&off) <= 1e-7 * norm(&x[3]));
    }
    // More columns than unknowns.
    let small = stencil(2);
    let a = device.upload(&small).unwrap();
    let b = random_columns::<f64>(5, 4, 9);
    let (infos, x) = solve(BlockCg::new(&a).tolerance(Tolerance::relative(1e-10)), device, &b).unwrap();
    for (j, info) in infos.iter().enumerate() {
        check_report(&format!("of 9, column {j}"), &small, &b[j], &x[j], info);
        assert!(info.iterations <= 2, "{info:?}");
    }
}

fn ends(device: &Device) {
    let (side, matrix) = (9, stencil(9));
    let a = device.upload(&matrix).unwrap();
    let mut b = random_columns::<f64>(11, 81, 2);
    b.push(eigenvector(side, (2, 3)));
    let two: Vec<f64> = eigenvector(side, (1, 1)).iter().zip(eigenvector(side, (4, 1))).map(|(x, y)| x + y).collect();
    b.push(two);
    let tolerance = Tolerance::relative(tolerance::<f64>());
    let (infos, x) = solve(BlockCg::new(&a).tolerance(tolerance), device, &b).unwrap();
    for (j, info) in infos.iter().enumerate() {
        check_report(&format!("column {j}"), &matrix, &b[j], &x[j], info);
    }
    assert_eq!((infos[2].iterations, infos[3].iterations), (1, 2), "{infos:?}");
    assert!(infos[0].iterations.min(infos[1].iterations) > 5);
    let limited = BlockCg::new(&a).tolerance(tolerance).max_iterations(3);
    let (infos, x) = solve(limited, device, &b).unwrap();
    let ends: Vec<_> = infos.iter().map(|info| (info.iterations, info.reason)).collect();
    let (limit, converged) = (StopReason::MaxIterations, StopReason::Converged);
    assert_eq!(ends, [(3, limit), (3, limit), (1, converged), (2, converged)]);
    for (j, info) in infos.iter().enumerate() {
        let true_residual = residual(&matrix, &b[j], &x[j]);
        assert!((true_residual - info.residual_norm).abs() <= 1e-13 * norm(&b[j]), "column {j}");
        assert!((info.history[info.iterations] - true_residual).abs() <= 1e-12 * norm(&b[j]), "column {j}");
    }
    let (infos, x) = solve(BlockCg::new(&a).max_iterations(0), device, &b).unwrap();
    assert!(infos.iter().all(|info| (info.iterations, info.reason) == (0, limit)));
    assert!(x.iter().flatten().all(|x| *x == 0.0));
}

fn first_guesses(device: &Device) {
    let matrix = stencil(7);
    let a = device.upload(&matrix).unwrap();
    let b = random_columns::<f64>(2, 49, 3);
    let exact = direct(&matrix, &b);
    let mut guess = random_columns::<f64>(20, 49, 3);
    guess[1] = exact[1].clone();
    let mut x = upload(device, &guess);
    let tolerance = Tolerance::relative(tolerance::<f64>());
    let infos = BlockCg::new(&a).tolerance(tolerance).solve(&upload(device, &b), &mut x).unwrap();
    let found = download(&x);
    for (j, info) in infos.iter().enumerate() {
        check_report(&format!("column {j}"), &matrix, &b[j], &found[j], info);
        let first = residual(&matrix, &b[j], &guess[j]);
        assert!((info.history[0] - first).abs() <= 1e-13 * norm(&b[j]), "column {j}");
    }
    assert_eq!(infos[1].iterations, 0);
    assert_eq!(found[1], exact[1]);
    // A zero column is 0 whatever its guess.
    let mut x = upload(device, &guess);
    let zeros = device.zeros_dense::<f64>((49, 3)).unwrap();
    let infos = BlockCg::new(&a).solve(&zeros, &mut x).unwrap();
    assert!(infos.iter().all(|info| info.residual_norm == 0.0 && info.reason == StopReason::Converged));
    assert!(x.to_vec().unwrap().iter().all(|x| *x == 0.0));
    // One whose squares are 0 is not.
    for tiny in [1e-200, 1e-158] {
        let tiny = upload(device, &[0.0, tiny, 1.0].map(|value| vec![value; 49]));
        let error = BlockCg::new(&a).solve(&tiny, &mut x).unwrap_err();
        assert_eq!(error.to_string(), "iteration 0: squares of a column of B underflow: scale it");
    }
}

fn rounding_limit(device: &Device) {
    let a = device.upload(&converted::<f32>(&stencil(8), |_, _, value| value)).unwrap();
    let b = random_columns::<f32>(4, 64, 3);
    let (infos, _) = solve(BlockCg::new(&a).tolerance(Tolerance::relative(1e-12)), device, &b).unwrap();
    for info in &infos {
        assert_eq!(info.reason, StopReason::RoundingLimit, "{info:?}");
        assert!(info.relative_residual < 1e-5, "{info:?}");
    }
}

fn indefinite(device: &Device) {
    let b = random_columns::<f64>(6, 36, 5);
    let breakdown = |a: &CsrMatrix<f64>| {
        let a = device.upload(a).unwrap();
        match solve(BlockCg::new(&a), device, &b) {
            Err(Error::Breakdown { iteration, problem }) => (iteration, problem),
            other => panic!("{other:?}"),
        }
    };
    let shifted = converted(&stencil(6), |i, j, value| if i == j { value - 3.0 } else { value });
    let (iteration, problem) = breakdown(&shifted);
    assert!(iteration >= 1 && problem.contains("not positive definite"), "{iteration}: {problem}");
    // x holds the iterate before it, that of a solve with so many iterations.
    let a = device.upload(&shifted).unwrap();
    let guess = random_columns::<f64>(8, 36, 5);
    let solution = |limit: usize| {
        let mut x = upload(device, &guess);
        let result = BlockCg::new(&a).max_iterations(limit).solve(&upload(device, &b), &mut x);
        (result, download(&x))
    };
    let (result, x) = solution(100);
    let Err(Error::Breakdown { iteration, .. }) = result else { panic!("{result:?}") };
    let (result, expected) = solution(iteration - 1);
    assert!(result.unwrap().iter().all(|info| info.reason == StopReason::MaxIterations));
    assert!(iteration > 1 && x == expected && x != guess, "{iteration}");
    let negative = converted(&stencil(6), |_, _, value| -value);
    assert!(breakdown(&negative).0 == 1);
    let unsymmetric = converted(&stencil(6), |i, j, value| if i < j { 2.0 * value } else { value });
    let (iteration, problem) = breakdown(&unsymmetric);
    assert!(iteration == 0 && problem.contains("not symmetric"), "{iteration}: {problem}");
    let infinite = converted(&stencil(6), |i, _, value| if i == 7 { f64::INFINITY } else { value });
    assert_eq!(breakdown(&infinite).0, 0);
    let a = device.upload(&stencil(6)).unwrap();
    let mut with_nan = b.clone();
    with_nan[2][5] = f64::NAN;
    let error = solve(BlockCg::new(&a), device, &with_nan).unwrap_err();
    assert!(matches!(error, Error::Breakdown { iteration: 0, .. }), "{error}");
    // Jacobi's preconditioner of -A.
    let of_negative = Jacobi::new(&device.upload(&negative).unwrap()).unwrap();
    let error = solve(BlockCg::new(&a).preconditioner(of_negative), device, &b).unwrap_err();
    assert!(error.to_string().contains("preconditioner is not positive definite"), "{error}");
}

/// With and without Jacobi's preconditioner; where the first group of columns is solved before; and from the start, where nothing has been computed.
fn after_a_breakdown(device: &Device) {
    let shifted = converted(&stencil(6), |i, j, value| if i == j { value - 3.0 } else { value });
    let a = device.upload(&shifted).unwrap();
    let guess = random_columns::<f64>(8, 36, 34);
    let run = |b: &[Vec<f64>], with_jacobi: bool, limit: usize| {
        let mut x = upload(device, &guess[..b.len()]);
        let mut solver = BlockCg::new(&a).max_iterations(limit);
        if with_jacobi {
            solver = solver.preconditioner(Jacobi::new(&a).unwrap());
        }
        let result = solver.solve(&upload(device, b), &mut x);
        drop(solver);
        (result, download(&x))
    };
    let breaks_down = |result: warpsparse::Result<Vec<SolveInfo>>| match result {
        Err(Error::Breakdown { iteration, .. }) => iteration,
        other => panic!("{other:?}"),
    };
    let mut b = random_columns::<f64>(6, 36, 5);
    for with_jacobi in [false, true] {
        let (result, x) = run(&b, with_jacobi, 100);
        let iteration = breaks_down(result);
        let (_, expected) = run(&b, with_jacobi, iteration - 1);
        assert!(iteration > 1 && x == expected && x != guess[..5], "{iteration}");
    }
    b[3][7] = f64::INFINITY;
    let (result, x) = run(&b, false, 100);
    assert_eq!((breaks_down(result), &x[..]), (0, &guess[..5]));

    // 32 columns of zeros, whose solutions are known at once, and two more.
    let mut b = vec![vec![0.0; 36]; 32];
    b.extend(random_columns(6, 36, 2));
    let (result, x) = run(&b, false, 100);
    let iteration = breaks_down(result);
    let (_, expected) = run(&b, false, iteration - 1);
    assert!(x[..32].iter().flatten().all(|x| *x == 0.0));
    assert!(iteration > 1 && x == expected && x[32..] != guess[32..], "{iteration}");
}

/// One unknown and two: solutions, right-hand sides of 0, first guesses that are the solutions, limits.
fn few_unknowns<T: Scalar>(device: &Device) {
    let rows = [[4.0, 1.0], [1.0, 3.0]];
    let number = |value: f64| T::from_f64(value);
    for n in [1, 2] {
        let a = from_rows::<T>(n, (0..n).map(|i| (0..n).map(|j| (j, rows[i][j])).collect()).collect());
        let a = device.upload(&a).unwrap();
        let exact: Vec<Vec<T>> =
            [[1.0, -2.0], [0.0, 0.0], [3.0, 5.0]].map(|x| x[..n].iter().map(|&x| number(x)).collect()).into();
        let product = |x: &Vec<T>| (0..n).map(|i| number((0..n).map(|j| rows[i][j] * x[j].to_f64()).sum())).collect();
        let b: Vec<Vec<T>> = exact.iter().map(product).collect();
        for with_jacobi in [false, true] {
            let solver = || {
                let solver = BlockCg::new(&a).tolerance(Tolerance::relative(tolerance::<T>()));
                if with_jacobi { solver.preconditioner(Jacobi::new(&a).unwrap()) } else { solver }
            };
            for guess in [vec![vec![number(0.5); n]; 3], exact.clone()] {
                let mut x = upload(device, &guess);
                let infos = solver().solve(&upload(device, &b), &mut x).unwrap();
                let found = download(&x);
                for (j, info) in infos.iter().enumerate() {
                    let is_known = guess == exact || j == 1;
                    assert_eq!(info.reason, StopReason::Converged, "{n}, column {j}");
                    assert!(info.iterations <= n && (!is_known || info.iterations == 0), "{n}, column {j}: {info:?}");
                    let off = found[j].iter().zip(&exact[j]).map(|(x, y)| (x.to_f64() - y.to_f64()).abs());
                    assert!(off.fold(0.0, f64::max) <= 10.0 * tolerance::<T>(), "{n}, column {j}");
                }
                let mut x = upload(device, &guess);
                let infos = solver().max_iterations(0).solve(&upload(device, &b), &mut x).unwrap();
                let limited = if guess == exact { StopReason::Converged } else { StopReason::MaxIterations };
                assert_eq!((infos[0].reason, infos[2].reason), (limited, limited), "{n}");
                assert_eq!((&download(&x)[0], &download(&x)[2]), (&guess[0], &guess[2]), "{n}");
            }
        }
    }
}

/// The Laplacian of a ring, whose null space is that of constant vectors: with right-hand sides in the range, and with one that is not.
fn singular(device: &Device) {
    let n = 24;
    let ring = from_rows::<f64>(
        n,
        (0..n)
            .map(|i| {
                let mut entries = vec![((i + n - 1) % n, -1.0), (i, 2.0), ((i + 1) % n, -1.0)];
                entries.sort_unstable_by_key(|(j, _)| *j);
                entries
            })
            .collect(),
    );
    let a = device.upload(&ring).unwrap();
    // Whole numbers, whose sums are exactly 0.
    let column = |step: usize| (0..n).map(|i| ((step * i) % n) as f64 - (n - 1) as f64 / 2.0).collect::<Vec<_>>();
    let mut b = vec![column(5), column(7), column(11)];
    for with_jacobi in [false, true] {
        let solver = || {
            let solver = BlockCg::new(&a).tolerance(Tolerance::relative(1e-9)).max_iterations(100);
            if with_jacobi { solver.preconditioner(Jacobi::new(&a).unwrap()) } else { solver }
        };
        b.truncate(3);
        let (infos, x) = solve(solver(), device, &b).unwrap();
        for (j, info) in infos.iter().enumerate() {
            assert_eq!(info.reason, StopReason::Converged, "column {j}: {info:?}");
            assert!(residual(&ring, &b[j], &x[j]) <= 1.1e-9 * norm(&b[j]), "column {j}");
        }
        b.push(b[0].iter().map(|b| b + 3.0).collect());
        let mut x = device.zeros_dense((n, 4)).unwrap();
        let outcome = solver().solve(&upload(device, &b), &mut x);
        assert!(x.to_vec().unwrap().iter().all(|x| x.is_finite()), "{outcome:?}");
        match outcome {
            // What is outside of the range stays.
            Ok(infos) => assert!(
                infos[3].reason != StopReason::Converged && infos[3].residual_norm >= 2.99 * (n as f64).sqrt(),
                "{infos:?}"
            ),
            Err(error) => assert!(matches!(error, Error::Breakdown { .. }), "{error}"),
        }
    }
}

fn degenerate(device: &Device) {
    let empty = device.upload(&from_rows::<f64>(0, vec![])).unwrap();
    let mut x = device.zeros_dense((0, 3)).unwrap();
    let infos = BlockCg::new(&empty).solve(&device.zeros_dense((0, 3)).unwrap(), &mut x).unwrap();
    assert!(infos.len() == 3 && infos.iter().all(|info| info.reason == StopReason::Converged));
    let mut with_jacobi = BlockCg::new(&empty).preconditioner(Jacobi::new(&empty).unwrap());
    assert_eq!(with_jacobi.solve(&device.zeros_dense((0, 3)).unwrap(), &mut x).unwrap().len(), 3);
    let matrix = stencil(6);
    let a = device.upload(&matrix).unwrap();
    let mut x = device.zeros_dense((36, 0)).unwrap();
    assert!(BlockCg::new(&a).solve(&device.zeros_dense((36, 0)).unwrap(), &mut x).unwrap().is_empty());
    // One column: the method alone.
    let b = random_columns::<f64>(9, 36, 1);
    let tolerance = Tolerance::relative(1e-9);
    let (infos, _) = solve(BlockCg::new(&a).tolerance(tolerance), device, &b).unwrap();
    let mut x = device.zeros(36).unwrap();
    let alone = Cg::new(&a).tolerance(tolerance).solve(&device.upload_vec(&b[0]).unwrap(), &mut x).unwrap();
    assert_eq!(infos[0].iterations, alone.iterations);
    for (block, alone) in infos[0].history.iter().zip(&alone.history) {
        assert!((block - alone).abs() <= 1e-6 * alone + 1e-14, "{block:e}, {alone:e}");
    }
}

fn layouts(device: &Device) {
    let a = device.upload(&stencil(6)).unwrap();
    let columns = random_columns::<f64>(8, 36, 3);
    let (_, expected) = solve(BlockCg::new(&a), device, &columns).unwrap();
    let b = upload(device, &columns);
    for layout in [
        DenseLayout::column_major(36, 3),
        DenseLayout::row_major(36, 3).leading_dimension(7),
        DenseLayout::column_major(36, 3).leading_dimension(40),
    ] {
        let mut other = device.zeros_dense(layout).unwrap();
        other.assign(&b).unwrap();
        let mut x = device.zeros_dense(layout).unwrap();
        BlockCg::new(&a).solve(&other, &mut x).unwrap();
        let mut in_rows = device.zeros_dense((36, 3)).unwrap();
        in_rows.assign(&x).unwrap();
        assert_eq!(download(&in_rows), expected);
    }
}

fn callbacks(device: &Device) {
    let a = device.upload(&stencil(6)).unwrap();
    let b = random_columns::<f64>(10, 36, 4);
    let mut heard = vec![];
    let stop = |progress: warpsparse::Progress| {
        heard.push((progress.iteration, progress.residual_norm));
        if progress.iteration == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let (infos, _) = solve(BlockCg::new(&a).tolerance(Tolerance::relative(1e-10)).callback(stop), device, &b).unwrap();
    assert!(infos.iter().all(|info| (info.iterations, info.reason) == (2, StopReason::Stopped)), "{infos:?}");
    let excess = |info: &SolveInfo, i: usize| info.history[i] / info.history[0];
    for (i, &(iteration, norm)) in heard.iter().enumerate() {
        let farthest = infos.iter().max_by(|a, b| excess(a, i + 1).total_cmp(&excess(b, i + 1))).unwrap();
        assert_eq!((iteration, norm), (i + 1, farthest.history[i + 1]));
    }
    assert_eq!(heard.len(), 2);
    // A second group stops after its first iteration.
    let b = random_columns::<f64>(11, 36, 33);
    let solver = BlockCg::new(&a).tolerance(Tolerance::relative(1e-10));
    let (infos, _) = solve(solver.callback(|_| ControlFlow::Break(())), device, &b).unwrap();
    assert!(infos.iter().all(|info| (info.iterations, info.reason) == (1, StopReason::Stopped)), "{infos:?}");
}

fn misfits(device: &Device) {
    let a = device.upload(&stencil(4)).unwrap();
    let zeros = |rows, columns| device.zeros_dense::<f64>((rows, columns)).unwrap();
    let error = BlockCg::new(&a).solve(&zeros(15, 2), &mut zeros(16, 2)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the column of B", expected: 16, found: 15 }), "{error}");
    let error = BlockCg::new(&a).solve(&zeros(16, 2), &mut zeros(15, 2)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the column of X", expected: 16, found: 15 }), "{error}");
    let error = BlockCg::new(&a).solve(&zeros(16, 2), &mut zeros(16, 3)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of X", expected: 2, found: 3 }), "{error}");
    let elsewhere = other(device).zeros_dense((16, 2)).unwrap();
    let error = BlockCg::new(&a).solve(&elsewhere, &mut zeros(16, 2)).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
    let error = BlockCg::new(&a).tolerance(Tolerance::relative(-1.0)).solve(&zeros(16, 2), &mut zeros(16, 2));
    assert!(matches!(error, Err(Error::InvalidOption(_))), "{error:?}");
    let mut by_ilu = BlockCg::new(&a).preconditioner(Ilu::new(&a).unwrap());
    let error = by_ilu.solve(&zeros(16, 2), &mut zeros(16, 2)).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    let wide = device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)], vec![(1, 1.0)]])).unwrap();
    let error = BlockCg::new(&wide).solve(&zeros(2, 2), &mut zeros(2, 2)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of A", .. }), "{error}");
    let in_dia = warpsparse::DiaMatrix::try_from(&stencil(4)).unwrap();
    let a = device.upload(&in_dia).unwrap();
    let error = BlockCg::new(&a).solve(&zeros(16, 2), &mut zeros(16, 2)).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    let in_blocks = BsrMatrix::from_csr_with_fill(&stencil(4), BlockSize::Fixed(2), f64::INFINITY).unwrap();
    let (a, mut x, ones) =
        (device.upload(&in_blocks).unwrap(), zeros(16, 2), upload(device, &[vec![1.0; 16], vec![2.0; 16]]));
    let infos = BlockCg::new(&a).tolerance(Tolerance::relative(1e-10)).solve(&ones, &mut x).unwrap();
    assert!(infos.iter().all(|info| info.reason == StopReason::Converged));
    assert!(residual(&stencil(4), &[1.0; 16], &x.view().columns(0..=0).unwrap().to_vec().unwrap()) < 1e-9);
}

fn same_bits(device: &Device) {
    let a = device.upload(&stencil(9)).unwrap();
    let b = random_columns::<f64>(12, 81, 9);
    let solve = |device: &Device| {
        let a = device.upload(&stencil(9)).unwrap();
        let (infos, x) = solve(BlockCg::new(&a).tolerance(Tolerance::relative(1e-6)), device, &b).unwrap();
        (infos, x.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    drop(a);
    let first = solve(device);
    assert_eq!(first, solve(device));
    if device.to_string() != "cpu" {
        assert_eq!(first, solve(&Device::emulated(77)));
    }
}
