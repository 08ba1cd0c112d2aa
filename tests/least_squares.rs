//! LSMR: solutions of least squares against a direct solver in `f64`, and how it ends.

mod common;

use std::{ops::ControlFlow, process::ExitCode};

use common::{
    Random,
    direct::{doubles, norm, solved},
    matrices::from_rows,
    on_every_device,
};
use warpsparse::{
    CscMatrix, CsrMatrix, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, Error, Jacobi, LinearOperator,
    Preconditioner, Result, Scalar, SolveInfo, Solver, SolverMethod, SolverPreconditioner, StopReason, Tolerance,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("tall_f32", tall::<f32>));
    trials.extend(on_every_device("tall_f64", tall::<f64>));
    trials.extend(on_every_device("wide_f32", wide::<f32>));
    trials.extend(on_every_device("wide_f64", wide::<f64>));
    trials.extend(on_every_device("columns_that_depend_on_each_other", dependent));
    trials.extend(on_every_device("columns_of_different_sizes", badly_scaled));
    trials.extend(on_every_device("columns_whose_squares_are_out_of_range_f32", out_of_range::<f32>));
    trials.extend(on_every_device("columns_whose_squares_are_out_of_range_f64", out_of_range::<f64>));
    trials.extend(on_every_device("histories_are_true", histories));
    trials.extend(on_every_device("iterations_are_those_of_the_space", spaces));
    trials.extend(on_every_device("degenerate_systems", degenerate));
    trials.extend(on_every_device("operators_multiply_by_their_transpose", operators));
    trials.extend(on_every_device("auto_takes_it_for_rectangular_matrices", auto));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", misfits));
    common::run(trials)
}

/// A sparse matrix whose columns are independent, if there are fewer than rows.
fn sparse<T: Scalar>(rows: usize, cols: usize) -> CsrMatrix<T> {
    let mut random = Random(11);
    let row = |i: usize| {
        let mut entries = vec![(i % cols, 3.0 + random.next_unit())];
        for step in [1, 4] {
            let column = (i * 7 + step) % cols;
            if entries.iter().all(|(other, _)| *other != column) {
                entries.push((column, random.next_unit()));
            }
        }
        entries.sort_by_key(|(column, _)| *column);
        entries
    };
    from_rows(cols, (0..rows).map(row).collect())
}

/// The solution of the least squares problem, from `r + A x = b` and `A^T r = damping^2 x`.
fn least_squares<T: Scalar>(a: &CsrMatrix<T>, b: &[T], damping: f64) -> Vec<f64> {
    let (m, n) = (a.nrows(), a.ncols());
    let mut rows = vec![vec![0.0; m + n + 1]; m + n];
    for (i, j, value) in a.triplets() {
        rows[i][m + j] += value.to_f64();
        rows[m + j][i] += value.to_f64();
    }
    for i in 0..m {
        (rows[i][i], rows[i][m + n]) = (1.0, b[i].to_f64());
    }
    (0..n).for_each(|j| rows[m + j][m + j] = -damping * damping);
    solved(rows)[m..].to_vec()
}

/// The solution of the least norm, from `x = A^T t` and `A x = b`.
fn least_norm<T: Scalar>(a: &CsrMatrix<T>, b: &[T]) -> Vec<f64> {
    let (m, n) = (a.nrows(), a.ncols());
    let mut rows = vec![vec![0.0; m + n + 1]; m + n];
    for (i, j, value) in a.triplets() {
        rows[j][n + i] -= value.to_f64();
        rows[n + i][j] += value.to_f64();
    }
    (0..n).for_each(|j| rows[j][j] = 1.0);
    (0..m).for_each(|i| rows[n + i][m + n] = b[i].to_f64());
    solved(rows)[..n].to_vec()
}

fn distance<T: Scalar>(x: &[T], y: &[f64]) -> f64 {
    norm(&x.iter().zip(y).map(|(x, y)| x.to_f64() - y).collect::<Vec<_>>())
}

/// `b - A x`.
fn residual<T: Scalar>(a: &CsrMatrix<T>, b: &[T], x: &[T]) -> Vec<f64> {
    let mut r = doubles(b);
    a.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * x[j].to_f64());
    r
}

/// `A^T r - damping^2 x`.
fn slope<T: Scalar>(a: &CsrMatrix<T>, r: &[f64], damping: f64, x: &[T]) -> Vec<f64> {
    let mut slope: Vec<f64> = x.iter().map(|x| -damping * damping * x.to_f64()).collect();
    a.triplets().for_each(|(i, j, value)| slope[j] += value.to_f64() * r[i]);
    slope
}

fn tolerance<T>() -> f64 {
    if size_of::<T>() == 4 { 1e-5 } else { 1e-11 }
}

fn solver<T: Scalar>(a: &DeviceMatrix<T>) -> Solver<'_, T> {
    Solver::new(a).method(SolverMethod::Lsmr).tolerance(Tolerance::relative(tolerance::<T>()))
}

fn run<T: Scalar>(mut solver: Solver<'_, T>, device: &Device, b: &[T], guess: &[T]) -> (SolveInfo, Vec<T>) {
    let (b, mut x) = (device.upload_vec(b).unwrap(), device.upload_vec(guess).unwrap());
    let info = solver.solve(&b, &mut x).unwrap();
    assert_eq!(info.history.len(), info.iterations + 1);
    (info, x.to_vec().unwrap())
}

/// With residuals that vanish and that do not; damped; scaled; from a guess.
fn tall<T: Scalar>(device: &Device) {
    let (rows, cols) = (70, 26);
    let matrix = sparse::<T>(rows, cols);
    let a = device.upload(&matrix).unwrap();
    let solution = Random(3).vector::<T>(cols);
    let in_range = residual(&matrix, &vec![T::default(); rows], &solution).iter().map(|r| T::from_f64(-r)).collect();
    let tolerance = tolerance::<T>();
    for (b, is_in_range) in [(Random(5).vector::<T>(rows), false), (in_range, true)] {
        for damping in [0.0, 0.75] {
            let expected = least_squares(&matrix, &b, damping);
            for (scaled, guess) in
                [(false, vec![T::default(); cols]), (true, vec![T::default(); cols]), (true, Random(6).vector(cols))]
            {
                let what = format!("in the range: {is_in_range}, damping {damping}, scaled: {scaled}");
                let mut solver = solver(&a).damping(damping);
                if scaled {
                    solver = solver.preconditioner(Jacobi::of_columns(&a).unwrap());
                }
                let (info, x) = run(solver, device, &b, &guess);
                let is_solved = is_in_range && damping == 0.0;
                let reason = if is_solved { StopReason::Converged } else { StopReason::LeastSquares };
                assert_eq!(info.reason, reason, "{what}");
                assert!(info.iterations <= 2 * cols, "{what}: {}", info.iterations);
                let error = distance(&x, &expected);
                assert!(error <= 20.0 * tolerance * norm(&expected), "{what}: {error:e}");
                let left = residual(&matrix, &b, &x);
                let whole = norm(&left).hypot(damping * norm(&doubles(&x)));
                assert!((info.residual_norm - whole).abs() <= tolerance * norm(&doubles(&b)), "{what}: {whole:e}");
                let updated = info.history[info.iterations];
                assert!((updated - whole).abs() <= tolerance * norm(&doubles(&b)), "{what}: {updated:e}, {whole:e}");
                if !is_solved {
                    // |A| is about 12.
                    let slope = norm(&slope(&matrix, &left, damping, &x));
                    assert!(slope <= 20.0 * tolerance * whole, "{what}: {slope:e}");
                }
            }
        }
    }
}

/// Of many solutions the one of the least norm.
fn wide<T: Scalar>(device: &Device) {
    let (rows, cols) = (24, 61);
    let matrix = sparse::<T>(rows, cols);
    let b = Random(5).vector::<T>(rows);
    let (info, x) = run(solver(&device.upload(&matrix).unwrap()), device, &b, &vec![T::default(); cols]);
    assert_eq!(info.reason, StopReason::Converged);
    let expected = least_norm(&matrix, &b);
    assert!(distance(&x, &expected) <= 20.0 * tolerance::<T>() * norm(&expected));
    let left = norm(&residual(&matrix, &b, &x));
    assert!(left <= 1.2 * tolerance::<T>() * norm(&doubles(&b)), "{left:e}");
}

/// Two equal columns and one of zeros: equal unknowns, and 0.
fn dependent(device: &Device) {
    let (rows, cols) = (30, 12);
    let independent = sparse::<f64>(rows, cols);
    let mut entries = vec![Vec::new(); rows];
    for (i, j, value) in independent.triplets() {
        entries[i].push((j, value));
        if j == 4 {
            entries[i].push((cols + 1, value));
        }
    }
    let matrix = from_rows::<f64>(cols + 2, entries);
    let b = Random(5).vector::<f64>(rows);
    let a = device.upload(&matrix).unwrap();
    let mut expected = least_squares(&independent, &b, 0.0);
    expected[4] /= 2.0;
    expected.extend([0.0, expected[4]]);
    for scaled in [false, true] {
        let mut solver = solver(&a);
        if scaled {
            solver = solver.preconditioner(Jacobi::of_columns(&a).unwrap());
        }
        let (info, x) = run(solver, device, &b, &[0.0; 14]);
        assert_eq!(info.reason, StopReason::LeastSquares);
        assert!(distance(&x, &expected) <= 1e-9 * norm(&expected), "{x:?}, {expected:?}");
        assert!(x[cols] == 0.0, "{x:?}");
    }
}

/// Where columns differ by powers of ten, scaling them brings the iterations back to what they were.
fn badly_scaled(device: &Device) {
    let (rows, cols) = (80, 30);
    let matrix = sparse::<f64>(rows, cols);
    let mut entries = vec![Vec::new(); rows];
    matrix.triplets().for_each(|(i, j, value)| entries[i].push((j, value * 10f64.powi(j as i32 % 5))));
    let scaled = from_rows::<f64>(cols, entries);
    let b = Random(5).vector::<f64>(rows);
    let iterations = |matrix: &CsrMatrix<f64>| {
        let a = device.upload(matrix).unwrap();
        let solver = solver(&a).preconditioner(Jacobi::of_columns(&a).unwrap());
        let (info, x) = run(solver, device, &b, &[0.0; 30]);
        assert_eq!(info.reason, StopReason::LeastSquares);
        let expected = least_squares(matrix, &b, 0.0);
        assert!(distance(&x, &expected) <= 1e-9 * norm(&expected));
        info.iterations
    };
    let (of_scaled, of_matrix) = (iterations(&scaled), iterations(&matrix));
    assert!(of_scaled.abs_diff(of_matrix) <= 1, "{of_scaled}, {of_matrix}");
    let plain = run(solver(&device.upload(&scaled).unwrap()), device, &b, &[0.0; 30]).0.iterations;
    assert!(plain > 2 * of_scaled, "{plain}, {of_scaled}");
}

/// Powers of two that columns are multiplied by divide the scaling, and the solution.
fn out_of_range<T: Scalar>(device: &Device) {
    let matrix = sparse::<T>(40, 15);
    let exponent = if size_of::<T>() == 4 { 80 } else { 600 };
    let factor = |j: usize| 2f64.powi((j as i32 % 3 - 1) * exponent);
    let mut entries = vec![Vec::new(); 40];
    matrix.triplets().for_each(|(i, j, value)| entries[i].push((j, value.to_f64() * factor(j))));
    let [plain, scaled] = [&matrix, &from_rows(15, entries)].map(|matrix| device.upload(matrix).unwrap());
    let inverses = |a: &DeviceMatrix<T>| {
        let (ones, mut z) = (device.filled(15, T::from_f64(1.0)).unwrap(), device.zeros(15).unwrap());
        Jacobi::of_columns(a).unwrap().apply((&ones).into(), (&mut z).into()).unwrap();
        z.to_vec().unwrap()
    };
    let solution = |a: &DeviceMatrix<T>| {
        let (b, mut x) = (device.upload_vec(&Random(5).vector::<T>(40)).unwrap(), device.zeros(15).unwrap());
        Solver::new(a).tolerance(Tolerance::relative(1e-5)).solve(&b, &mut x).unwrap();
        x.to_vec().unwrap()
    };
    let divided = |of: Vec<T>| of.into_iter().enumerate().map(|(j, of)| T::from_f64(of.to_f64() / factor(j))).collect();
    let expected: [Vec<T>; 2] = [divided(inverses(&plain)), divided(solution(&plain))];
    assert_eq!([inverses(&scaled), solution(&scaled)], expected);
}

/// The norms of the history are those of the residuals of the iterates, and `|A^T r|` never grows.
fn histories(device: &Device) {
    let (rows, cols) = (50, 22);
    let matrix = sparse::<f64>(rows, cols);
    let (a, b) = (device.upload(&matrix).unwrap(), Random(8).vector::<f64>(rows));
    for damping in [0.0, 0.5] {
        let mut slopes = Vec::new();
        for limit in 0..=14 {
            let solver = solver(&a).damping(damping).max_iterations(limit);
            let (info, x) = run(solver, device, &b, &[0.0; 22]);
            assert_eq!((info.iterations, info.reason), (limit, StopReason::MaxIterations));
            let left = residual(&matrix, &b, &x);
            let whole = norm(&left).hypot(damping * norm(&x));
            let updated = info.history[limit];
            assert!((whole - updated).abs() <= 1e-12 * norm(&b), "{limit}: {whole}, {updated}");
            slopes.push(norm(&slope(&matrix, &left, damping, &x)));
        }
        assert!(slopes.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{slopes:?}");
    }
    let mut heard = Vec::new();
    let solver = solver(&a).callback(|progress| {
        heard.push(progress.residual_norm);
        if progress.iteration == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let (info, x) = run(solver, device, &b, &[0.0; 22]);
    assert_eq!((info.reason, &heard[..]), (StopReason::Stopped, &info.history[1..7]));
    assert!((norm(&residual(&matrix, &b, &x)) - info.residual_norm).abs() <= 1e-12);
    let again = run(self::solver(&a), device, &b, &[0.0; 22]);
    assert_eq!(run(self::solver(&a), device, &b, &[0.0; 22]), again, "the same input, the same bits");
}

/// Three different singular values take three iterations.
fn spaces(device: &Device) {
    let row = |i: usize| if i < 30 { vec![(i, [2.0, 1.0, 5.0][i % 3])] } else { vec![] };
    let a = device.upload(&from_rows::<f64>(30, (0..45).map(row).collect())).unwrap();
    let (info, x) = run(solver(&a), device, &vec![1.0; 45], &[0.0; 30]);
    assert_eq!((info.iterations, info.reason), (3, StopReason::LeastSquares));
    assert!((info.residual_norm - 15f64.sqrt()).abs() < 1e-12);
    let expected: Vec<f64> = (0..30).map(|i| 1.0 / [2.0, 1.0, 5.0][i % 3]).collect();
    assert!(distance(&x, &expected) < 1e-10);
}

/// Few rows and columns, or none; `b` is 0, or orthogonal to all columns; a guess that is the solution; NaN.
fn degenerate(device: &Device) {
    for (rows, cols) in [(0, 0), (0, 2), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2), (3, 2)] {
        let matrix = from_rows::<f64>(
            cols,
            (0..rows).map(|i| if i < cols { vec![(i, 2.0 + i as f64)] } else { vec![] }).collect(),
        );
        let a = device.upload(&matrix).unwrap();
        let b = [4.0, 9.0, 7.0];
        let expected: Vec<f64> = (0..cols).map(|j| if j < rows { [2.0, 3.0][j] } else { 0.0 }).collect();
        for guess in [vec![0.0; cols], expected.clone()] {
            let (info, x) = run(solver(&a), device, &b[..rows], &guess);
            let what = format!("{rows} x {cols}: {info:?}, {x:?}");
            let reason = if rows <= cols { StopReason::Converged } else { StopReason::LeastSquares };
            assert_eq!(info.reason, reason, "{what}");
            assert!(distance(&x, &expected) < 1e-11 && info.iterations <= 2, "{what}");
        }
        let (info, x) = run(solver(&a), device, &vec![0.0; rows], &vec![5.0; cols]);
        assert_eq!((info.reason, info.iterations, x), (StopReason::Converged, 0, vec![0.0; cols]));
    }
    let first = device.upload(&from_rows::<f64>(2, vec![vec![(0, 1.0)], vec![(1, 1.0)], vec![], vec![]])).unwrap();
    let (info, x) = run(solver(&first), device, &[0.0, 0.0, 3.0, 4.0], &[0.0; 2]);
    assert_eq!((info.reason, info.iterations, info.residual_norm), (StopReason::LeastSquares, 0, 5.0));
    assert_eq!(x, [0.0; 2]);
    let zeros = device.upload(&from_rows::<f64>(2, vec![vec![]; 3])).unwrap();
    assert_eq!(run(solver(&zeros), device, &[1.0; 3], &[0.0; 2]).0.reason, StopReason::LeastSquares);
    let nan = device.upload(&from_rows::<f64>(2, vec![vec![(0, 1.0)], vec![(1, f64::NAN)], vec![]])).unwrap();
    let error = solver(&nan).solve(&device.upload_vec(&[1.0; 3]).unwrap(), &mut device.zeros(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Breakdown { .. }), "{error}");
}

/// Multiplies by a matrix, or by its transpose if it has it. If it claims to queue only, it still copies to the host.
struct Operator<'a> {
    a: &'a DeviceMatrix<f64>,
    transpose: Option<&'a DeviceMatrix<f64>>,
    claims: bool,
}

impl LinearOperator<f64> for Operator<'_> {
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
        self.a.spmv(1.0, x, 0.0, y)
    }
    fn apply_transposed(&self, y: DeviceSlice<'_, f64>, x: DeviceSliceMut<'_, f64>) -> Result<()> {
        let Some(transpose) = self.transpose else {
            return Err(Error::Unsupported("no transpose".into()));
        };
        transpose.spmv(1.0, y, 0.0, x)?;
        y.to_vec().map(drop)
    }
    fn can_be_recorded(&self) -> bool {
        self.claims
    }
}

fn operators(device: &Device) {
    let matrix = sparse::<f64>(40, 15);
    let (a, transpose) = (device.upload(&matrix).unwrap(), device.upload(&matrix.transpose().unwrap()).unwrap());
    let b = Random(5).vector::<f64>(40);
    let of_matrix = run(solver(&a), device, &b, &[0.0; 15]);
    let operator = Operator { a: &a, transpose: Some(&transpose), claims: false };
    let by_operator = Solver::new(&operator).method(SolverMethod::Lsmr).tolerance(Tolerance::relative(1e-11));
    // Three batches at least: what is recorded has the same bits.
    assert!(of_matrix.0.iterations > 8, "{:?}", of_matrix.0);
    assert_eq!(run(by_operator, device, &b, &[0.0; 15]), of_matrix);
    let operator = Operator { claims: true, ..operator };
    let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(15).unwrap());
    let error = Solver::new(&operator).method(SolverMethod::Lsmr).solve(&on_device, &mut x).unwrap_err();
    assert!(matches!(&error, Error::InvalidOption(problem) if problem.contains("recorded")), "{error}");
    let operator = Operator { transpose: None, claims: false, ..operator };
    let (b, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(15).unwrap());
    let error = Solver::new(&operator).method(SolverMethod::Lsmr).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    // A matrix multiplies by its transpose itself where its format allows it.
    let csc = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    LinearOperator::apply_transposed(&csc, (&b).into(), (&mut x).into()).unwrap();
    let mut expected = device.zeros(15).unwrap();
    transpose.spmv(1.0, &b, 0.0, &mut expected).unwrap();
    assert!(distance(&x.to_vec().unwrap(), &expected.to_vec().unwrap()) < 1e-12);
}

fn auto(device: &Device) {
    let matrix = sparse::<f64>(40, 15);
    let a = device.upload(&matrix).unwrap();
    let b = Random(5).vector::<f64>(40);
    let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(15).unwrap());
    let mut solver = Solver::new(&a).tolerance(Tolerance::relative(1e-11));
    assert_eq!(solver.solve(&on_device, &mut x).unwrap().reason, StopReason::LeastSquares);
    let [attempt] = solver.attempts() else { panic!("{:?}", solver.attempts()) };
    assert_eq!((attempt.method, attempt.preconditioner), (SolverMethod::Lsmr, SolverPreconditioner::Columns));
    assert_eq!(attempt.reason, "the matrix is not square");
    let expected = least_squares(&matrix, &b, 0.0);
    assert!(distance(&x.to_vec().unwrap(), &expected) <= 1e-9 * norm(&expected));
    // Damped too.
    let mut solver = Solver::new(&a).tolerance(Tolerance::relative(1e-11)).damping(2.0).unpreconditioned();
    solver.solve(&on_device, &mut x).unwrap();
    let expected = least_squares(&matrix, &b, 2.0);
    assert!(distance(&x.to_vec().unwrap(), &expected) <= 1e-9 * norm(&expected));
}

fn misfits(device: &Device) {
    let a = device.upload(&sparse::<f64>(5, 3)).unwrap();
    let square = device.upload(&sparse::<f64>(3, 3)).unwrap();
    let (b, mut x) = (device.zeros(5).unwrap(), device.zeros(3).unwrap());
    let error = Solver::new(&a).method(SolverMethod::BiCgStab).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of A", expected: 5, found: 3 }), "{error}");
    let error = solver(&a).solve(&device.zeros(3).unwrap(), &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "b", expected: 5, found: 3 }), "{error}");
    let error = solver(&a).solve(&b, &mut device.zeros(5).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 3, found: 5 }), "{error}");
    for damping in [-1.0, f64::NAN, f64::INFINITY] {
        let error = solver(&a).damping(damping).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let single = device.upload(&from_rows::<f32>(1, vec![vec![(0, 1.0)]; 2])).unwrap();
    for damping in [1e39, 1e-50] {
        let (b, mut x) = (device.zeros(2).unwrap(), device.zeros(1).unwrap());
        let error = solver(&single).damping(damping).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let b = device.zeros(3).unwrap();
    let error = Solver::new(&square).damping(1.0).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    let infinite = device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0), (2, f64::INFINITY)]])).unwrap();
    let error = Jacobi::of_columns(&infinite).unwrap_err();
    assert!(matches!(error, Error::Breakdown { .. }) && error.to_string().contains("column 2"), "{error}");
}
