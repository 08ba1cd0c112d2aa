//! Conjugate gradients on every device, against a reference in f64.

mod common;

use std::{cell::Cell, ops::ControlFlow, process::ExitCode};

use common::{
    Random, matrices::from_rows, on_cpu_and_gpu, on_device, on_emulator_and_gpu, on_every_device, on_gpu,
    sums::epsilon, uploads::in_every_format,
};
use warpsparse::{
    Cg, CgMethod, CsrMatrix, DType, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, ErrorKind,
    FormatChoice, Jacobi, Lanes, LinearOperator, Preconditioner, Result, Scalar, SolveInfo, SpmvOptions, StopReason,
    Tolerance, Zip, io,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_method_solves_f32", every_method_solves::<f32>));
    trials.extend(on_every_device("every_method_solves_f64", every_method_solves::<f64>));
    trials.extend(on_emulator_and_gpu("every_number_of_lanes_f32", every_number_of_lanes::<f32>));
    trials.extend(on_emulator_and_gpu("every_number_of_lanes_f64", every_number_of_lanes::<f64>));
    trials.extend(on_every_device("several_blocks_f32", several_blocks::<f32>));
    trials.extend(on_every_device("several_blocks_f64", several_blocks::<f64>));
    trials.extend(on_every_device("degenerate_systems", degenerate_systems));
    trials.extend(on_every_device("matrices_that_it_is_not_for", matrices_that_it_is_not_for));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.extend(on_every_device("operators_and_preconditioners_of_ones_own", ones_own));
    trials.extend(on_every_device("operators_that_are_recorded", operators_that_are_recorded));
    trials.extend(on_every_device("operators_that_wait_and_do_not_say_so", operators_that_wait));
    trials.extend(on_every_device("matrices_on_another_queue", matrices_on_another_queue));
    trials.extend(on_every_device("diagonal_preconditioners_of_ones_own", diagonals_of_ones_own));
    trials.extend(on_every_device("plain_and_fast_agree_f32", plain_and_fast_agree::<f32>));
    trials.extend(on_every_device("plain_and_fast_agree_f64", plain_and_fast_agree::<f64>));
    trials.extend(on_every_device("every_format", every_format));
    trials.extend(on_every_device("jacobi_for_every_format_f32", jacobi_for_every_format::<f32>));
    trials.extend(on_every_device("jacobi_for_every_format_f64", jacobi_for_every_format::<f64>));
    trials.extend(on_every_device("bad_diagonals_are_errors", bad_diagonals));
    trials.extend(on_every_device("one_cg_many_right_hand_sides", many_right_hand_sides));
    trials.extend(on_every_device("callbacks_see_every_iteration", callbacks));
    trials.extend(on_every_device("callbacks_stop", callbacks_stop));
    trials.extend(on_every_device("either_tolerance_is_enough", either_tolerance_is_enough));
    trials.extend(on_every_device("symmetry_can_be_assumed", symmetry_can_be_assumed));
    trials.extend(on_every_device("kernels_are_described", kernels_are_described));
    trials.extend(on_every_device("rounding_limits_are_told", rounding_limits));
    trials.extend(on_every_device("digits_that_cancel_f32", digits_that_cancel::<f32>));
    trials.extend(on_every_device("digits_that_cancel_f64", digits_that_cancel::<f64>));
    trials.extend(on_every_device("two_precisions", two_precisions));
    trials.extend(on_every_device("same_input_same_bits", same_input_same_bits));
    trials.extend(on_cpu_and_gpu("a_stiffness_matrix", a_stiffness_matrix));
    trials.extend(on_cpu_and_gpu("large_systems", large_systems));
    trials.push(on_device("same_bits_in_any_order_f32::emulated".into(), same_bits::<f32>, || Device::emulated(0)));
    trials.push(on_device("same_bits_in_any_order_f64::emulated".into(), same_bits::<f64>, || Device::emulated(0)));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    trials.push(on_gpu("emulated_bits_of_two_precisions_are_the_gpus", emulated_bits_of_two_precisions));
    common::run(trials)
}

const METHODS: [CgMethod; 6] = [
    CgMethod::Auto,
    CgMethod::Plain,
    CgMethod::Launches,
    CgMethod::Graph,
    CgMethod::Persistent,
    CgMethod::SingleReduction,
];

/// The methods by kernels of their own, which alone know two precisions.
const FAST: [CgMethod; 4] = [CgMethod::Auto, CgMethod::Launches, CgMethod::Graph, CgMethod::Persistent];

fn jacobi_of<T: Scalar>(matrix: &DeviceMatrix<T>) -> Jacobi<T> {
    Jacobi::new(matrix).unwrap()
}

/// The textbook's method in f64: the solution, and the norms of the residual.
fn reference(matrix: &CsrMatrix<f64>, b: &[f64], jacobi: bool, tolerance: f64, limit: usize) -> (Vec<f64>, Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut diagonal = vec![0.0; b.len()];
    matrix.triplets().filter(|&(i, j, _)| i == j).for_each(|(i, _, value)| diagonal[i] += value);
    let precondition =
        |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, d)| if jacobi { r / d } else { *r }).collect() };
    let (mut x, mut r) = (vec![0.0; b.len()], b.to_vec());
    let mut z = precondition(&r);
    let mut p = z.clone();
    let mut rz = dot(&r, &z);
    let mut norms = vec![dot(&r, &r).sqrt()];
    while norms[norms.len() - 1] > tolerance * norms[0] && norms.len() <= limit {
        let q = product(matrix, &p);
        let alpha = rz / dot(&p, &q);
        x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        z = precondition(&r);
        let new = dot(&r, &z);
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + new / rz * *p);
        rz = new;
        norms.push(dot(&r, &r).sqrt());
    }
    (x, norms)
}

fn product(matrix: &CsrMatrix<f64>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; matrix.nrows()];
    matrix.triplets().for_each(|(i, j, value)| y[i] += value * x[j]);
    y
}

/// `norm(b - A x) / norm(b)`.
fn relative_residual<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let wide = |v: &[T]| v.iter().map(|v| v.to_f64()).collect::<Vec<_>>();
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let ax = product(&matrix.cast(), &wide(x));
    let r: Vec<_> = wide(b).iter().zip(ax).map(|(b, ax)| b - ax).collect();
    norm(&r) / norm(&wide(b))
}

/// A symmetric matrix with a dominant diagonal that varies, and about so many entries a row, some of them duplicates.
fn dominant<T: Scalar>(n: usize, per_row: usize) -> CsrMatrix<T> {
    let mut random = Random(n as u64);
    let mut rows = vec![vec![]; n];
    for i in 0..n {
        for _ in 0..per_row / 2 {
            let (j, value) = (random.next_below(n), random.next_unit());
            // Halves of integers, so that no sum is rounded.
            let value = (8.0 * value).round() / 2.0;
            rows[i].push((j, value));
            rows[j].push((i, value));
        }
    }
    for (i, row) in rows.iter_mut().enumerate() {
        let magnitude: f64 = row.iter().map(|(_, value): &(usize, f64)| value.abs()).sum();
        row.push((i, magnitude + 0.5 + (i % 40) as f64));
    }
    from_rows(n, rows)
}

fn solve<T: Scalar>(device: &Device, cg: &mut Cg<'_, T>, b: &[T]) -> Result<(SolveInfo, Vec<T>)> {
    let b = device.upload_vec(b)?;
    let mut x = device.zeros(b.len())?;
    let info = cg.solve(&b, &mut x)?;
    Ok((info, x.to_vec()?))
}

fn tolerance<T>() -> f64 {
    if size_of::<T>() == 4 { 1e-5 } else { 1e-10 }
}

/// Solves by every method, with and without Jacobi, and compares solution, residual, history and the number of iterations.
fn check_methods<T: Scalar>(case: &str, device: &Device, matrix: &CsrMatrix<T>, lanes: Lanes, methods: &[CgMethod]) {
    let n = matrix.nrows();
    let solution: Vec<f64> = Random(3).vector(n);
    let b: Vec<T> = product(&matrix.cast(), &solution).into_iter().map(T::from_f64).collect();
    let on_device = device.upload(matrix).unwrap();
    for &method in methods {
        for jacobi in [false, true] {
            let case = format!("{case}, {method:?}, Jacobi {jacobi}, {lanes:?}");
            let mut cg =
                Cg::new(&on_device).tolerance(Tolerance::relative(tolerance::<T>())).method(method).lanes(lanes);
            if jacobi {
                cg = cg.preconditioner(jacobi_of(&on_device));
            }
            let (info, x) = solve(device, &mut cg, &b).unwrap_or_else(|error| panic!("{case}: {error}"));
            let wide: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
            let (_, norms) = reference(&matrix.cast(), &wide, jacobi, tolerance::<T>(), 10 * n);
            assert_eq!(info.reason, StopReason::Converged, "{case}");
            let expected = norms.len() - 1;
            assert!(
                info.iterations.abs_diff(expected) <= 1 + expected / 20,
                "{case}: {} for {expected}",
                info.iterations
            );
            assert_eq!(info.history.len(), info.iterations + 1, "{case}");
            // Rounding grows from iteration to iteration.
            for (i, (found, norm)) in info.history.iter().zip(&norms).enumerate().take(5) {
                let bound = 50.0 * epsilon::<T>() * 4f64.powi(i as i32) * norm;
                assert!((found - norm).abs() <= bound, "{case}: norm {i} is {found}, not {norm}");
            }
            let residual = relative_residual(matrix, &b, &x);
            assert!(residual <= 1.1 * tolerance::<T>(), "{case}: {residual}");
            assert!(
                (info.relative_residual - residual).abs() <= 0.1 * tolerance::<T>(),
                "{case}: {info:?}, {residual}"
            );
        }
    }
}

fn every_method_solves<T: Scalar>(device: &Device) {
    check_methods("a grid", device, &io::generate::poisson2d::<T>(9).unwrap(), Lanes::Auto, &METHODS);
    check_methods("dominant", device, &dominant::<T>(150, 12), Lanes::Auto, &METHODS);
}

fn every_number_of_lanes<T: Scalar>(device: &Device) {
    let methods = [CgMethod::Launches, CgMethod::Persistent, CgMethod::SingleReduction];
    for lanes in [1, 2, 4, 8, 16, 32] {
        check_methods("dominant", device, &dominant::<T>(99, 40), Lanes::Fixed(lanes), &methods);
    }
}

/// More work than one block of the persistent kernel takes.
fn several_blocks<T: Scalar>(device: &Device) {
    check_methods("several blocks", device, &dominant::<T>(801, 14), Lanes::Auto, &METHODS);
}

fn degenerate_systems(device: &Device) {
    for method in METHODS {
        let none = device.upload(&from_rows::<f64>(0, vec![])).unwrap();
        let (info, _) =
            solve(device, &mut Cg::new(&none).method(method).preconditioner(jacobi_of(&none)), &[]).unwrap();
        assert_eq!((info.iterations, info.residual_norm, info.reason), (0, 0.0, StopReason::Converged));

        let one = device.upload(&from_rows::<f64>(1, vec![vec![(0, 4.0)]])).unwrap();
        let (info, x) = solve(device, &mut Cg::new(&one).method(method), &[8.0]).unwrap();
        assert_eq!((info.iterations, x), (1, vec![2.0]));

        let two =
            device.upload(&from_rows::<f64>(2, vec![vec![(0, 2.0), (1, 1.0)], vec![(0, 1.0), (1, 2.0)]])).unwrap();
        let (info, x) =
            solve(device, &mut Cg::new(&two).method(method).preconditioner(jacobi_of(&two)), &[3.0, 3.0]).unwrap();
        assert_eq!((info.iterations, x), (1, vec![1.0, 1.0]));
        let (info, x) =
            solve(device, &mut Cg::new(&two).method(method).tolerance(Tolerance::relative(1e-14)), &[4.0, 5.0])
                .unwrap();
        assert!(info.iterations == 2 && (x[0] - 1.0).abs() < 1e-14 && (x[1] - 2.0).abs() < 1e-14, "{info:?} {x:?}");

        // b = 0, whatever the first guess.
        let b = device.upload_vec(&[0.0, 0.0]).unwrap();
        let mut x = device.upload_vec(&[5.0, 6.0]).unwrap();
        let info = Cg::new(&two).method(method).solve(&b, &mut x).unwrap();
        assert_eq!((info.iterations, info.relative_residual, x.to_vec().unwrap()), (0, 0.0, vec![0.0, 0.0]));

        // The first guess is the solution.
        let b = device.upload_vec(&[4.0, 5.0]).unwrap();
        let mut x = device.upload_vec(&[1.0, 2.0]).unwrap();
        let info = Cg::new(&two).method(method).solve(&b, &mut x).unwrap();
        assert_eq!((info.iterations, info.history.len(), info.reason), (0, 1, StopReason::Converged));
        assert_eq!(x.to_vec().unwrap(), [1.0, 2.0]);

        // No iterations allowed.
        let mut x = device.upload_vec(&[1.0, 1.0]).unwrap();
        let info = Cg::new(&two).method(method).max_iterations(0).solve(&b, &mut x).unwrap();
        assert_eq!((info.iterations, info.reason), (0, StopReason::MaxIterations));
        assert_eq!(x.to_vec().unwrap(), [1.0, 1.0]);
        let info = Cg::new(&two).method(method).max_iterations(1).solve(&b, &mut x).unwrap();
        assert_eq!((info.iterations, info.reason), (1, StopReason::MaxIterations));

        // No tolerance at all: as far as the numbers go.
        let grid = io::generate::poisson2d::<f64>(6).unwrap();
        let on_device = device.upload(&grid).unwrap();
        let b: Vec<f64> = Random(5).vector(36);
        let (info, x) =
            solve(device, &mut Cg::new(&on_device).method(method).tolerance(Tolerance::relative(0.0)), &b).unwrap();
        assert!(info.reason == StopReason::RoundingLimit && relative_residual(&grid, &b, &x) < 1e-14, "{info:?}");
        let on_device = device.upload(&grid.cast::<f32>()).unwrap();
        let b: Vec<f32> = Random(5).vector(36);
        let (info, x) =
            solve(device, &mut Cg::new(&on_device).method(method).tolerance(Tolerance::relative(0.0)), &b).unwrap();
        let residual = relative_residual(&grid.cast(), &b, &x);
        assert!(info.reason == StopReason::RoundingLimit && residual < 1e-5, "{info:?}");

        // NaN in b, and infinity in the guess.
        let error = solve(device, &mut Cg::new(&two).method(method), &[f64::NAN, 1.0]).unwrap_err();
        assert!(matches!(error, Error::Breakdown { iteration: 0, .. }), "{error}");
        let (b, mut x) = (device.upload_vec(&[1.0, 1.0]).unwrap(), device.upload_vec(&[f64::INFINITY, 1.0]).unwrap());
        let error = Cg::new(&two).method(method).solve(&b, &mut x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Breakdown);
    }
}

fn matrices_that_it_is_not_for(device: &Device) {
    let error_of = |matrix: &CsrMatrix<f64>, jacobi: bool, method: CgMethod, b: &[f64]| {
        let matrix = device.upload(matrix).unwrap();
        let mut cg = Cg::new(&matrix).method(method);
        if jacobi {
            cg = cg.preconditioner(Jacobi::new(&matrix)?);
        }
        solve(device, &mut cg, b)
    };
    let diagonal = |values: &[f64]| {
        from_rows::<f64>(values.len(), values.iter().enumerate().map(|(i, &v)| vec![(i, v)]).collect())
    };
    for method in METHODS {
        // p . A p = 0 at first.
        let indefinite = diagonal(&[1.0, -1.0, 2.0]);
        let error = error_of(&indefinite, false, method, &[1.0, 1.0, 0.0]).unwrap_err();
        assert!(matches!(error, Error::Breakdown { iteration: 1, .. }), "{error}");
        assert!(error.to_string().contains("not positive definite"), "{error}");
        // Positive at first, negative later: x stays what the first iteration made of it.
        let later = from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![(0, 2.0), (1, 1.0)]]);
        let later = device.upload(&later).unwrap();
        let (b, mut x) = (device.upload_vec(&[1.0, 0.0]).unwrap(), device.zeros(2).unwrap());
        let error = Cg::new(&later).method(method).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::Breakdown { iteration: 2, .. }), "{error}");
        assert_eq!(x.to_vec().unwrap(), [1.0, 0.0]);

        // Singular: solved where b allows it; otherwise the second direction is one that the matrix makes 0.
        let singular = from_rows::<f64>(2, vec![vec![(0, 1.0), (1, -1.0)], vec![(0, -1.0), (1, 1.0)]]);
        let (info, _) = error_of(&singular, false, method, &[1.0, -1.0]).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let error = error_of(&singular, true, method, &[1.0, 0.0]).unwrap_err();
        assert!(matches!(error, Error::Breakdown { iteration: 2, .. }), "{error}");

        let unsymmetric = from_rows::<f64>(3, vec![vec![(0, 4.0), (1, 1.0)], vec![(1, 4.0)], vec![(2, 4.0)]]);
        let error = error_of(&unsymmetric, false, method, &[1.0, 1.0, 1.0]).unwrap_err();
        assert!(error.to_string().contains("not symmetric"), "{error}");

        // Negative on the diagonal: so is the preconditioner.
        let negative = diagonal(&[1.0, 1.0, -2.0, 1.0, -2.0]);
        let error = error_of(&negative, true, method, &[1.0, 1.0, 8.0, 1.0, 8.0]).unwrap_err();
        assert!(error.to_string().contains("r . M r is not positive: the preconditioner is not"), "{error}");

        // NaN, met by the second component of b alone.
        let nan = diagonal(&[1.0, f64::NAN]);
        let error = error_of(&nan, false, method, &[1.0, 1.0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Breakdown, "{error}");
    }
}

fn what_does_not_fit(device: &Device) {
    let matrix = device.upload(&io::generate::poisson2d::<f32>(3).unwrap()).unwrap();
    let (b, mut short) = (device.zeros(9).unwrap(), device.zeros(8).unwrap());
    let error = Cg::new(&matrix).solve(&b, &mut short).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 9, found: 8 }), "{error}");
    let wide = device.upload(&from_rows::<f32>(3, vec![vec![(0, 1.0)]; 2])).unwrap();
    let (b, mut x) = (device.zeros(2).unwrap(), device.zeros(2).unwrap());
    let error = Cg::new(&wide).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of A", .. }), "{error}");
    let (b, mut x) = (device.zeros(9).unwrap(), device.zeros(9).unwrap());
    for tolerance in [-1.0, f64::NAN, f64::INFINITY] {
        let error = Cg::new(&matrix).tolerance(Tolerance::absolute(tolerance)).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let error = Cg::new(&matrix).lanes(Lanes::Fixed(3)).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    for method in [CgMethod::Plain, CgMethod::SingleReduction] {
        let error = Cg::new(&matrix).compensated().method(method).solve(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let larger = device.upload(&io::generate::poisson2d::<f32>(4).unwrap()).unwrap();
    let error = Cg::new(&matrix).preconditioner(jacobi_of(&larger)).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the preconditioner's diagonal", .. }), "{error}");
    let error = Cg::new(&matrix).method(CgMethod::Plain).preconditioner(jacobi_of(&larger)).solve(&b, &mut x);
    assert!(matches!(error, Err(Error::LengthMismatch { .. })), "{error:?}");
    let error = Cg::new(&Impostor { matrix: &larger, size: 9 }).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the operator's matrix", .. }), "{error}");
    if device.describe().starts_with("cpu") {
        return;
    }
    let error = Cg::new(&matrix).compensated().method(CgMethod::Persistent).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    let on_cpu = Device::cpu().upload(&io::generate::poisson2d::<f32>(3).unwrap()).unwrap();
    let error = Cg::new(&matrix).preconditioner(jacobi_of(&on_cpu)).solve(&b, &mut x).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "the preconditioner's diagonal", .. }), "{error}");
    let elsewhere = Device::cpu().zeros(9).unwrap();
    let error = Cg::new(&matrix).solve(&elsewhere, &mut x).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "b", .. }), "{error}");
}

/// An operator that names a matrix of another size.
struct Impostor<'a> {
    matrix: &'a DeviceMatrix<f32>,
    size: usize,
}

impl LinearOperator<f32> for Impostor<'_> {
    fn nrows(&self) -> usize {
        self.size
    }
    fn ncols(&self) -> usize {
        self.size
    }
    fn device(&self) -> &Device {
        self.matrix.device()
    }
    fn apply(&self, x: DeviceSlice<'_, f32>, mut y: DeviceSliceMut<'_, f32>) -> Result<()> {
        y.assign(x)
    }
    fn as_matrix(&self) -> Option<&DeviceMatrix<f32>> {
        Some(self.matrix)
    }
}

/// A matrix that hides that it is one, and counts its products.
struct Hidden<'a, T> {
    matrix: &'a DeviceMatrix<T>,
    products: Cell<usize>,
    recorded: bool,
    /// Whether a product also copies its result to the host.
    waits: bool,
}

impl<'a, T> Hidden<'a, T> {
    fn new(matrix: &'a DeviceMatrix<T>) -> Self {
        Self { matrix, products: Cell::new(0), recorded: false, waits: false }
    }
}

impl<T: Scalar> LinearOperator<T> for Hidden<'_, T> {
    fn nrows(&self) -> usize {
        self.matrix.nrows()
    }
    fn ncols(&self) -> usize {
        self.matrix.ncols()
    }
    fn device(&self) -> &Device {
        self.matrix.device()
    }
    fn apply(&self, x: DeviceSlice<'_, T>, mut y: DeviceSliceMut<'_, T>) -> Result<()> {
        self.products.set(self.products.get() + 1);
        self.matrix.spmv(T::from_f64(1.0), x, T::default(), &mut y)?;
        if self.waits {
            y.to_vec()?;
        }
        Ok(())
    }
    fn can_be_recorded(&self) -> bool {
        self.recorded
    }
}

/// A diagonal as a matrix.
struct Diagonal {
    matrix: DeviceMatrix<f64>,
    recorded: bool,
}

impl Diagonal {
    /// The inverse of the diagonal of `matrix`.
    fn inverse(device: &Device, matrix: &CsrMatrix<f64>, recorded: bool) -> Self {
        let n = matrix.nrows();
        let mut diagonal = vec![0.0; n];
        matrix.triplets().filter(|&(i, j, _)| i == j).for_each(|(i, _, value)| diagonal[i] += value);
        let rows = diagonal.iter().enumerate().map(|(i, value)| vec![(i, 1.0 / value)]).collect();
        Self { matrix: device.upload(&from_rows::<f64>(n, rows)).unwrap(), recorded }
    }
}

impl Preconditioner<f64> for Diagonal {
    fn apply(&self, r: DeviceSlice<'_, f64>, z: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrix.spmv(1.0, r, 0.0, z)
    }
    fn can_be_recorded(&self) -> bool {
        self.recorded
    }
}

fn assert_close(case: &str, found: &[f64], expected: &[f64]) {
    let close = |(found, x): (&f64, &f64)| (found - x).abs() <= 1e-12 * (1.0 + x.abs());
    assert!(found.iter().zip(expected).all(close), "{case}: {found:?} {expected:?}");
}

fn ones_own(device: &Device) {
    let matrix = dominant::<f64>(120, 8);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(7).vector(120);
    let mut jacobi = Cg::new(&on_device).method(CgMethod::Launches).preconditioner(jacobi_of(&on_device));
    let (expected, x) = solve(device, &mut jacobi, &b).unwrap();

    let inverse = Diagonal::inverse(device, &matrix, false);
    let hidden = Hidden::new(&on_device);
    for (compensated, method, most) in [
        (false, CgMethod::Auto, 6),
        (false, CgMethod::Plain, 6),
        (false, CgMethod::SingleReduction, 6),
        (false, CgMethod::Launches, 4),
        (true, CgMethod::Auto, 4),
        (true, CgMethod::Graph, 4),
    ] {
        let case = format!("{method:?}, compensated: {compensated}");
        hidden.products.set(0);
        let mut cg = Cg::new(&hidden).preconditioner(&inverse).method(method);
        if compensated {
            cg = cg.compensated();
        }
        let (info, found) = solve(device, &mut cg, &b).unwrap();
        assert_eq!((info.iterations, info.reason), (expected.iterations, StopReason::Converged), "{case}");
        assert_close(&case, &found, &x);
        // One before, one after, and some too many.
        let products = hidden.products.get();
        assert!((info.iterations + 2..=info.iterations + 2 + most).contains(&products), "{case}: {products}, {info:?}");
    }
    // Jacobi's preconditioner of the matrix, for an operator that hides it.
    let (info, found) = solve(device, &mut Cg::new(&hidden).preconditioner(jacobi_of(&on_device)), &b).unwrap();
    assert_eq!(info.iterations, expected.iterations);
    assert_close("Jacobi", &found, &x);
}

/// The operator and the preconditioner only queue: the method's graphs hold them, and nothing of them is called when they are replayed.
fn operators_that_are_recorded(device: &Device) {
    let matrix = dominant::<f64>(120, 8);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(7).vector(120);
    let (expected, x) = solve(device, &mut Cg::new(&on_device).preconditioner(jacobi_of(&on_device)), &b).unwrap();
    let inverse = Diagonal::inverse(device, &matrix, true);
    let hidden = Hidden { recorded: true, ..Hidden::new(&on_device) };
    let mut cg = Cg::new(&hidden).preconditioner(&inverse);
    let reason = cg.describe().unwrap().reason;
    assert_eq!(reason.contains("a graph"), device.is_cuda(), "{reason}");
    for _ in 0..2 {
        hidden.products.set(0);
        let (info, found) = solve(device, &mut cg, &b).unwrap();
        assert_eq!((info.iterations, info.reason), (expected.iterations, StopReason::Converged));
        assert_close("recorded", &found, &x);
        if device.is_cuda() {
            // The residuals before and after.
            assert_eq!(hidden.products.get(), 2);
        }
    }
}

/// One that says that it can be recorded, and waits, is an error on every device where it would be.
fn operators_that_wait(device: &Device) {
    let on_device = device.upload(&dominant::<f64>(120, 8)).unwrap();
    let b: Vec<f64> = Random(7).vector(120);
    let honest = Hidden { waits: true, ..Hidden::new(&on_device) };
    let (expected, x) = solve(device, &mut Cg::new(&honest), &b).unwrap();
    assert_eq!(expected.reason, StopReason::Converged);
    let wrong = Hidden { waits: true, recorded: true, ..Hidden::new(&on_device) };
    for method in [CgMethod::Auto, CgMethod::Graph] {
        let error = solve(device, &mut Cg::new(&wrong).method(method), &b).unwrap_err();
        assert!(error.to_string().contains("a copy to the host cannot be recorded"), "{error}");
        // The stream is as before.
        assert_eq!(solve(device, &mut Cg::new(&honest), &b).unwrap().1, x);
    }
    // Where nothing is recorded it may wait.
    for method in [CgMethod::Plain, CgMethod::Launches] {
        let (info, found) = solve(device, &mut Cg::new(&wrong).method(method), &b).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        assert_close("not recorded", &found, &x);
    }
}

/// A preconditioner that names its diagonal: the kernels multiply by it, and never call it.
struct Scaled(DeviceVec<f64>);

impl Preconditioner<f64> for Scaled {
    fn apply(&self, r: DeviceSlice<'_, f64>, mut z: DeviceSliceMut<'_, f64>) -> Result<()> {
        z.zip_from(Zip::Mul, &self.0, r)
    }
    fn as_diagonal(&self) -> Option<&DeviceVec<f64>> {
        Some(&self.0)
    }
}

fn diagonals_of_ones_own(device: &Device) {
    let matrix = dominant::<f64>(120, 8);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(7).vector(120);
    let inverse: Vec<f64> = on_device.diagonal().unwrap().to_vec().unwrap().iter().map(|value| 1.0 / value).collect();
    let scaled = Scaled(device.upload_vec(&inverse).unwrap());
    for method in METHODS {
        let jacobi = solve(device, &mut Cg::new(&on_device).method(method).preconditioner(jacobi_of(&on_device)), &b);
        let own = solve(device, &mut Cg::new(&on_device).method(method).preconditioner(&scaled), &b);
        assert_eq!(own.unwrap(), jacobi.unwrap(), "{method:?}");
    }
}

/// Half the identity.
struct Halved;

impl Preconditioner<f32> for Halved {
    fn apply(&self, r: DeviceSlice<'_, f32>, mut z: DeviceSliceMut<'_, f32>) -> Result<()> {
        z.axpby(0.5, r, 0.0)
    }
}

/// A matrix on another stream than the operator's: its kernels are not taken, for only `apply` orders the two streams.
struct Elsewhere<'a> {
    matrix: &'a DeviceMatrix<f64>,
    queue: Device,
}

impl LinearOperator<f64> for Elsewhere<'_> {
    fn nrows(&self) -> usize {
        self.matrix.nrows()
    }
    fn ncols(&self) -> usize {
        self.matrix.ncols()
    }
    fn device(&self) -> &Device {
        &self.queue
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrix.spmv(1.0, x, 0.0, y)
    }
    fn as_matrix(&self) -> Option<&DeviceMatrix<f64>> {
        Some(self.matrix)
    }
}

fn matrices_on_another_queue(device: &Device) {
    let matrix = dominant::<f64>(300, 10);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(7).vector(300);
    let elsewhere = Elsewhere { matrix: &on_device, queue: device.new_stream().unwrap() };
    for method in [CgMethod::Auto, CgMethod::Launches] {
        let (info, x) = solve(&elsewhere.queue, &mut Cg::new(&elsewhere).method(method), &b).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        assert!(relative_residual(&matrix, &b, &x) < 1.1e-6, "{method:?}");
    }
}

/// As far as rounding lets them, which grows from iteration to iteration.
fn plain_and_fast_agree<T: Scalar>(device: &Device) {
    let matrix = dominant::<T>(300, 10);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<T> = Random(7).vector(300);
    for jacobi in [false, true] {
        let run = |method| {
            let mut cg = Cg::new(&on_device).method(method).tolerance(Tolerance::relative(tolerance::<T>()));
            if jacobi {
                cg = cg.preconditioner(jacobi_of(&on_device));
            }
            solve(device, &mut cg, &b).unwrap()
        };
        let ((plain, x), (fast, expected)) = (run(CgMethod::Plain), run(CgMethod::Launches));
        assert_eq!((plain.iterations, plain.reason), (fast.iterations, fast.reason));
        assert_eq!(plain.history.len(), fast.history.len());
        for (i, (found, norm)) in plain.history.iter().zip(&fast.history).enumerate().take(6) {
            let bound = 20.0 * epsilon::<T>() * 3f64.powi(i as i32) * norm;
            assert!((found - norm).abs() <= bound, "Jacobi {jacobi}: norm {i} is {found}, not {norm}");
        }
        for (found, x) in x.iter().zip(&expected).map(|(found, x)| (found.to_f64(), x.to_f64())) {
            assert!((found - x).abs() <= 4.0 * tolerance::<T>() * 10.0, "{found}, not {x}");
        }
    }
}

fn every_format(device: &Device) {
    let matrix = io::generate::poisson2d::<f64>(8).unwrap();
    let b: Vec<f64> = Random(7).vector(64);
    for format in [FormatChoice::Csr, FormatChoice::Coo, FormatChoice::Dia, FormatChoice::Ell, FormatChoice::Hyb] {
        let on_device = device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap();
        for compensated in [false, true] {
            let mut cg = Cg::new(&on_device).tolerance(Tolerance::relative(1e-11));
            if compensated {
                cg = cg.compensated();
            }
            let (info, x) = solve(device, &mut cg, &b).unwrap();
            assert_eq!(info.reason, StopReason::Converged, "{format:?}");
            assert!(relative_residual(&matrix, &b, &x) < 1.1e-11, "{format:?}");
        }
    }
}

fn jacobi_for_every_format<T: Scalar>(device: &Device) {
    // Of several diagonals, with numbers that no rounding changes.
    let n = 30;
    let row = |i: usize| {
        let around = [i.checked_sub(7), i.checked_sub(1), Some(i + 1), Some(i + 7)].into_iter().flatten();
        let mut row: Vec<_> = around.filter(|&j| j < n).map(|j| (j, -0.5)).collect();
        row.push((i, 4.0 * (1 + i % 3) as f64));
        row.sort_by_key(|entry| entry.0);
        row
    };
    let matrix = from_rows::<T>(n, (0..n).map(row).collect());
    let diagonal: Vec<f64> = (0..n).map(|i| 4.0 * (1 + i % 3) as f64).collect();
    let r: Vec<T> = Random(7).vector(n);
    let b = &r;
    for (format, uploaded) in in_every_format(device, &matrix) {
        let found: Vec<f64> = uploaded.diagonal().unwrap().to_vec().unwrap().iter().map(|d| d.to_f64()).collect();
        assert_eq!(found, diagonal, "{format}");
        let jacobi = jacobi_of(&uploaded);
        let (on_device, mut z) = (device.upload_vec(&r).unwrap(), device.zeros::<T>(n).unwrap());
        jacobi.apply((&on_device).into(), (&mut z).into()).unwrap();
        for (i, z) in z.to_vec().unwrap().into_iter().enumerate() {
            let (z, expected) = (z.to_f64(), r[i].to_f64() / diagonal[i]);
            assert!(
                (z - expected).abs() <= 2.0 * epsilon::<T>() * expected.abs(),
                "{format}: z[{i}] is {z}, not {expected}"
            );
        }
        let solved = solve(device, &mut Cg::new(&uploaded).preconditioner(&jacobi), b);
        if format == "CSC" {
            assert!(matches!(solved, Err(Error::InvalidOption(_))), "{solved:?}");
            continue;
        }
        let (info, x) = solved.unwrap();
        assert!(
            info.reason == StopReason::Converged && relative_residual(&matrix, b, &x) < 1.02e-6,
            "{format}: {info:?}"
        );
    }
    // A wide matrix has a diagonal, but no inverse of it.
    let wide = from_rows::<T>(4, vec![vec![(0, 4.0)], vec![(3, 2.0)]]);
    for (format, uploaded) in in_every_format(device, &wide) {
        let found: Vec<f64> = uploaded.diagonal().unwrap().to_vec().unwrap().iter().map(|d| d.to_f64()).collect();
        assert_eq!(found, [4.0, 0.0], "{format}");
        assert!(matches!(Jacobi::new(&uploaded), Err(Error::LengthMismatch { .. })), "{format}");
    }
    let duplicates = from_rows::<T>(2, vec![vec![(0, 3.0), (1, 5.0), (0, 1.0)], vec![(1, 2.0), (1, -0.5)]]);
    for format in [FormatChoice::Csr, FormatChoice::Coo] {
        let uploaded = device.upload_with(&duplicates, &SpmvOptions::default().format(format)).unwrap();
        let (b, mut z) = (device.upload_vec(&[T::from_f64(1.0); 2]).unwrap(), device.zeros(2).unwrap());
        jacobi_of(&uploaded).apply((&b).into(), (&mut z).into()).unwrap();
        let expected = [0.25, 1.0 / 1.5].map(T::from_f64);
        assert_eq!(z.to_vec().unwrap(), expected, "{format:?}");
    }
}

fn bad_diagonals(device: &Device) {
    let diagonal = |values: &[f64]| {
        from_rows::<f64>(values.len(), values.iter().enumerate().map(|(i, &v)| vec![(i, v)]).collect())
    };
    for bad in [0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 1e10] {
        for (format, uploaded) in in_every_format(device, &diagonal(&[1.0, -1.0, bad, 1.0, bad])) {
            let error = Jacobi::new(&uploaded).unwrap_err();
            assert!(matches!(error, Error::Breakdown { iteration: 0, .. }), "{error}");
            assert!(error.to_string().contains("row 2"), "{bad} in {format}: {error}");
        }
    }
    let missing = from_rows::<f64>(2, vec![vec![(0, 1.0)], vec![]]);
    for (format, uploaded) in in_every_format(device, &missing) {
        let error = Jacobi::new(&uploaded).unwrap_err();
        assert!(error.to_string().contains("row 1"), "{format}: {error}");
    }
    for (format, uploaded) in in_every_format(device, &diagonal(&[1.0, -4.0])) {
        let (r, mut z) = (device.upload_vec(&[1.0, 2.0]).unwrap(), device.zeros(2).unwrap());
        jacobi_of(&uploaded).apply((&r).into(), (&mut z).into()).unwrap();
        assert_eq!(z.to_vec().unwrap(), [1.0, -0.5], "{format}");
    }
}

fn many_right_hand_sides(device: &Device) {
    let matrix = dominant::<f64>(100, 6);
    let on_device = device.upload(&matrix).unwrap();
    for method in METHODS {
        let mut cg = Cg::new(&on_device)
            .preconditioner(jacobi_of(&on_device))
            .tolerance(Tolerance::relative(1e-10))
            .method(method);
        for seed in 0..3 {
            let b: Vec<f64> = Random(seed).vector(100);
            let (info, x) = solve(device, &mut cg, &b).unwrap();
            assert!(relative_residual(&matrix, &b, &x) < 1.1e-10, "{method:?}, {seed}: {info:?}");
            let alone = Cg::new(&on_device)
                .preconditioner(jacobi_of(&on_device))
                .tolerance(Tolerance::relative(1e-10))
                .method(method);
            assert_eq!((info, x), solve(device, &mut { alone }, &b).unwrap());
            // An error in between leaves nothing behind.
            assert!(solve(device, &mut cg, &[f64::NAN; 100]).is_err());
        }
    }
}

fn callbacks(device: &Device) {
    let on_device = device.upload(&io::generate::poisson2d::<f64>(12).unwrap()).unwrap();
    let b: Vec<f64> = Random(8).vector(144);
    for method in METHODS {
        let mut seen = Vec::new();
        let callback = |progress: warpsparse::Progress| {
            assert!(progress.target > 0.0);
            seen.push((progress.iteration, progress.residual_norm));
            ControlFlow::Continue(())
        };
        let (info, _) = solve(device, &mut Cg::new(&on_device).method(method).callback(callback), &b).unwrap();
        let expected: Vec<_> = info.history.iter().copied().enumerate().skip(1).collect();
        assert_eq!(seen, expected, "{method:?}");
    }
}

/// A callback that stops is not called again; what was queued by then still runs, and no more; `x` is as if that were the limit.
fn callbacks_stop(device: &Device) {
    // With conditions like these the method would go on for thousands of iterations.
    let diagonal: Vec<f64> = (0..100).map(|i| 1.3f64.powi(i)).collect();
    let rows = diagonal.iter().enumerate().map(|(i, &value)| vec![(i, value)]).collect();
    let on_device = device.upload(&from_rows::<f64>(100, rows)).unwrap();
    let b: Vec<f64> = Random(8).vector(100);
    for method in METHODS {
        let at_a_time = match method {
            CgMethod::Plain => 4,
            CgMethod::Launches => 2,
            CgMethod::Graph => 8,
            _ => 256,
        };
        let solver = || Cg::new(&on_device).method(method).tolerance(Tolerance::relative(1e-14)).max_iterations(10_000);
        let mut calls = 0;
        let stop = |progress: warpsparse::Progress| {
            calls += 1;
            if progress.iteration < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let (info, x) = solve(device, &mut solver().callback(stop), &b).unwrap();
        assert_eq!((info.reason, calls), (StopReason::Stopped, 3), "{method:?}");
        assert!((3..=2 + 2 * at_a_time).contains(&info.iterations), "{method:?}: {}", info.iterations);
        let (limited, x_limited) = solve(device, &mut solver().max_iterations(info.iterations), &b).unwrap();
        assert_eq!((limited.reason, x_limited), (StopReason::MaxIterations, x), "{method:?}");
        assert_eq!((limited.history, limited.residual_norm), (info.history, info.residual_norm), "{method:?}");
    }
}

fn either_tolerance_is_enough(device: &Device) {
    let on_device = device.upload(&io::generate::poisson2d::<f64>(6).unwrap()).unwrap();
    let b = vec![100.0; 36]; // of norm 600
    let residual = |tolerance| {
        let (info, _) = solve(device, &mut Cg::new(&on_device).tolerance(tolerance), &b).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        info.residual_norm
    };
    let (strict, lax) = (residual(Tolerance::relative(1e-9)), residual(Tolerance::absolute(6.0)));
    assert!(strict <= 6.06e-7 && lax > 1e-3 && lax <= 6.06, "{strict}, {lax}");
    assert_eq!(residual(Tolerance::relative(1e-9).or(Tolerance::absolute(6.0))), lax);
    assert_eq!(residual(Tolerance::absolute(1e-30).or(Tolerance::relative(1e-9))), strict);
}

/// Without the check, a matrix that is not symmetric is the caller's risk: here the first iteration solves the system.
fn symmetry_can_be_assumed(device: &Device) {
    let unsymmetric = from_rows::<f64>(3, vec![vec![(0, 2.0), (1, 1.0)], vec![(1, 2.0)], vec![(2, 2.0)]]);
    let on_device = device.upload(&unsymmetric).unwrap();
    let b = [0.0, 0.0, 6.0];
    assert!(solve(device, &mut Cg::new(&on_device), &b).unwrap_err().to_string().contains("not symmetric"));
    let (info, x) = solve(device, &mut Cg::new(&on_device).assume_symmetric(), &b).unwrap();
    assert_eq!((info.iterations, x), (1, vec![0.0, 0.0, 3.0]));
}

fn kernels_are_described(device: &Device) {
    let on_device = device.upload(&io::generate::poisson2d::<f64>(6).unwrap()).unwrap();
    let kernel = |method| {
        let mut cg = Cg::new(&on_device).method(method).lanes(Lanes::Fixed(2));
        let kernel = cg.describe().unwrap().kernel;
        // What has been prepared is good for solving.
        solve(device, &mut cg, &[1.0; 36]).unwrap();
        kernel
    };
    let expected = match device.to_string().as_str() {
        "cpu" => ["cpu_cg", "cpu_cg", "vector operations"],
        _ => ["cg_csr_f64_t2", "cg_persistent_f64_t2", "cg_persistent_one_f64_t2"],
    };
    assert_eq!([CgMethod::Launches, CgMethod::Persistent, CgMethod::SingleReduction].map(kernel), expected);
    assert_eq!(kernel(CgMethod::Plain), "vector operations");
}

/// A residual that the element type has not the digits for.
fn rounding_limits(device: &Device) {
    let matrix = io::generate::poisson2d::<f32>(10).unwrap();
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f32> = Random(9).vector(100);
    let (info, x) = solve(device, &mut Cg::new(&on_device).tolerance(Tolerance::relative(1e-12)), &b).unwrap();
    assert_eq!(info.reason, StopReason::RoundingLimit, "{info:?}");
    assert!(info.relative_residual < 1e-5 && relative_residual(&matrix, &b, &x) < 1e-5, "{info:?}");
}

/// With one reduction, `p . A p` is the difference of two numbers, of which in the second iteration nothing is left.
fn digits_that_cancel<T: Scalar>(device: &Device) {
    let large = 16.0 / epsilon::<T>();
    let rows = (0..40).map(|i| vec![(i, if i % 2 == 0 { 1.0 } else { large })]).collect();
    let on_device = device.upload(&from_rows::<T>(40, rows)).unwrap();
    let hidden = Hidden::new(&on_device);
    let run = |a: &dyn LinearOperator<T>, method| {
        let mut cg = Cg::new_dyn(a).method(method).tolerance(Tolerance::relative(tolerance::<T>()));
        let (info, _) = solve(device, &mut cg, &[T::from_f64(1.0); 40]).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        info.iterations
    };
    let expected = run(&on_device, CgMethod::Plain);
    for a in [&on_device as &dyn LinearOperator<T>, &hidden] {
        let iterations = run(a, CgMethod::SingleReduction);
        assert!(iterations <= expected + 1, "{iterations}, otherwise {expected}");
    }
}

/// A matrix of `f32`, a residual that only `f64` can have.
fn two_precisions(device: &Device) {
    let matrix = dominant::<f32>(200, 10);
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(12).vector(200);
    for method in FAST {
        for jacobi in [false, true] {
            let mut cg = Cg::new(&on_device).tolerance(Tolerance::relative(1e-12)).method(method);
            if jacobi {
                cg = cg.preconditioner(jacobi_of(&on_device));
            }
            let (_, norms) = reference(&matrix.cast(), &b, jacobi, 1e-12, 1000);
            let b_on_device = device.upload_vec(&b).unwrap();
            for guess in [0.0, 3.0] {
                let mut x = device.upload_vec(&vec![guess; 200]).unwrap();
                let info = cg.solve_mixed(&b_on_device, &mut x).unwrap();
                let case = format!("{method:?}, Jacobi {jacobi}, from {guess}");
                assert_eq!(info.reason, StopReason::Converged, "{case}");
                let residual = relative_residual(&matrix.cast(), &b, &x.to_vec().unwrap());
                assert!(
                    residual < 1.02e-12 && (info.relative_residual - residual).abs() < 1e-14,
                    "{case}: {residual} {info:?}"
                );
                assert!(
                    guess > 0.0 || info.iterations.abs_diff(norms.len() - 1) <= 1 + norms.len() / 20,
                    "{case}: {info:?}"
                );
                assert_eq!(info.history.len(), info.iterations + 1, "{case}");
            }
        }
    }
    // A preconditioner of one's own, which cannot be recorded.
    let mut cg = Cg::new(&on_device).tolerance(Tolerance::relative(1e-12)).preconditioner(Halved);
    let (b_on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(200).unwrap());
    for _ in 0..2 {
        assert_eq!(cg.solve_mixed(&b_on_device, &mut x).unwrap().reason, StopReason::Converged);
        assert!(relative_residual(&matrix.cast(), &b, &x.to_vec().unwrap()) < 1.02e-12);
    }
    // Solved to the last digit of f32 in two iterations: the direction after them is rounding alone.
    let two = device.upload(&from_rows::<f32>(2, vec![vec![(0, 4.0), (1, 1.0)], vec![(0, 1.0), (1, 3.0)]])).unwrap();
    let (b_of_two, mut x) = (device.upload_vec(&[1.0, 2.0]).unwrap(), device.zeros(2).unwrap());
    let info = Cg::new(&two).tolerance(Tolerance::relative(1e-14)).solve_mixed(&b_of_two, &mut x).unwrap();
    assert!(info.relative_residual < 1.02e-14 && info.iterations <= 8, "{info:?}");
    let mut zero = device.upload_vec(&[1.0; 200]).unwrap();
    let b_on_zero = device.zeros(200).unwrap();
    Cg::new(&on_device).solve_mixed(&b_on_zero, &mut zero).unwrap();
    assert_eq!(zero.to_vec().unwrap(), [0.0; 200]);
    for method in [CgMethod::Plain, CgMethod::SingleReduction] {
        let mut cg = Cg::new(&on_device).method(method);
        // Also if another solution has prepared what fits but for the precision.
        cg.solve(&device.zeros(200).unwrap(), &mut device.zeros(200).unwrap()).unwrap();
        let error = cg.solve_mixed(&b_on_zero, &mut zero).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let dia = SpmvOptions::default().format(FormatChoice::Dia);
    let dia = device.upload_with(&io::generate::poisson2d::<f32>(3).unwrap(), &dia).unwrap();
    let error = Cg::new(&dia).solve_mixed(&device.zeros(9).unwrap(), &mut device.zeros(9).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

fn same_input_same_bits(device: &Device) {
    let on_device = device.upload(&dominant::<f32>(400, 10)).unwrap();
    let b: Vec<f32> = Random(9).vector(400);
    for method in METHODS {
        let run = || {
            solve(device, &mut Cg::new(&on_device).preconditioner(jacobi_of(&on_device)).method(method), &b).unwrap()
        };
        assert_eq!(run(), run(), "{method:?}");
    }
}

/// Blocks of the persistent kernel that exchange sums and vectors, whatever the order of threads and blocks, and with loads that return
/// older values where they may.
fn same_bits<T: Scalar>(natural: &Device) {
    let matrix = dominant::<T>(801, 14);
    let b: Vec<T> = Random(9).vector(801);
    let run = |device: &Device, method: CgMethod| {
        let on_device = device.upload(&matrix).unwrap();
        let mut cg = Cg::new(&on_device).preconditioner(jacobi_of(&on_device)).method(method).max_iterations(6);
        let reason = cg.describe().unwrap().reason;
        assert!(reason.contains("by 3 blocks"), "{reason}");
        solve(device, &mut cg, &b).unwrap()
    };
    for method in [CgMethod::Persistent, CgMethod::SingleReduction] {
        let expected = run(natural, method);
        for seed in 1..=8 {
            assert_eq!(run(&Device::emulated(seed), method), expected, "{method:?}, seed {seed}");
        }
    }
}

fn a_stiffness_matrix(device: &Device) {
    let matrix = CsrMatrix::<f64>::read_matrix_market("tests/data/bcsstk16.mtx.xz");
    let matrix = matrix.or_else(|_| CsrMatrix::read_matrix_market("data/bcsstk16.mtx.xz")).unwrap();
    let b = vec![1.0; matrix.nrows()];
    let (_, norms) = reference(&matrix, &b, true, 1e-8, 10_000);
    let expected = norms.len() - 1;
    let on_device = device.upload(&matrix).unwrap();
    for method in METHODS {
        let mut cg = Cg::new(&on_device)
            .preconditioner(jacobi_of(&on_device))
            .tolerance(Tolerance::relative(1e-8))
            .method(method);
        let (info, x) = solve(device, &mut cg, &b).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        assert!(info.iterations.abs_diff(expected) * 20 <= expected, "{} iterations for {expected}", info.iterations);
        assert!(relative_residual(&matrix, &b, &x) < 1.02e-8);
    }
    // In two precisions, for the matrix as f32 has it.
    let matrix = matrix.cast::<f32>();
    let (_, norms) = reference(&matrix.cast(), &b, true, 1e-8, 10_000);
    let expected = norms.len() - 1;
    let on_device = device.upload(&matrix).unwrap();
    for method in FAST {
        let mut cg = Cg::new(&on_device)
            .preconditioner(jacobi_of(&on_device))
            .tolerance(Tolerance::relative(1e-8))
            .method(method);
        let (b, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(b.len()).unwrap());
        let info = cg.solve_mixed(&b, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        assert!(info.iterations.abs_diff(expected) * 20 <= expected, "{} iterations for {expected}", info.iterations);
    }
}

/// Grids of many blocks, rows that no multiple divides.
fn large_systems(device: &Device) {
    let matrix = io::generate::poisson2d::<f64>(301).unwrap();
    let on_device = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(10).vector(301 * 301);
    let (expected, _) = solve(device, &mut Cg::new(&on_device), &b).unwrap();
    for method in METHODS {
        let (info, x) = solve(device, &mut Cg::new(&on_device).method(method), &b).unwrap();
        assert!(info.iterations.abs_diff(expected.iterations) <= 2, "{method:?}: {}", info.iterations);
        assert!(relative_residual(&matrix, &b, &x) < 1.02e-6, "{method:?}");
    }
}

/// What sets options of a method for a matrix.
type Settings<'f, T> = dyn for<'m> Fn(Cg<'m, T>, &'m DeviceMatrix<T>) -> Cg<'m, T> + 'f;

/// By every kernel: with and without Jacobi, of a matrix in CSR and in another format, with dots compensated, in two precisions.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let matrix = dominant::<T>(700, 12);
    let b: Vec<T> = Random(4).vector(700);
    let check = |case: &str, format: FormatChoice, cg: &Settings<'_, T>| {
        let [on_gpu, emulated] = [gpu, &Device::emulated(0)].map(|device| {
            let on_device = device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap();
            solve(device, &mut cg(Cg::new(&on_device), &on_device), &b).unwrap()
        });
        assert_eq!(on_gpu, emulated, "{case}");
    };
    for method in [CgMethod::Plain, CgMethod::Launches, CgMethod::Persistent, CgMethod::SingleReduction] {
        check(&format!("{method:?}"), FormatChoice::Csr, &|cg, _| cg.method(method));
        check(&format!("{method:?}, Jacobi"), FormatChoice::Csr, &|cg, a| {
            cg.method(method).preconditioner(jacobi_of(a))
        });
    }
    check("COO", FormatChoice::Coo, &|cg, _| cg);
    check("one reduction, COO", FormatChoice::Coo, &|cg, _| cg.method(CgMethod::SingleReduction));
    if T::DTYPE == DType::F64 {
        check("compensated", FormatChoice::Csr, &|cg, a| cg.compensated().preconditioner(jacobi_of(a)));
        check("compensated, COO", FormatChoice::Coo, &|cg, _| cg.compensated());
    }
}

fn emulated_bits_of_two_precisions(gpu: &Device) {
    let matrix = dominant::<f32>(700, 12);
    let b: Vec<f64> = Random(4).vector(700);
    for method in [CgMethod::Launches, CgMethod::Persistent] {
        let [on_gpu, emulated] = [gpu, &Device::emulated(0)].map(|device| {
            let on_device = device.upload(&matrix).unwrap();
            let (b, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(700).unwrap());
            let mut cg = Cg::new(&on_device)
                .method(method)
                .tolerance(Tolerance::relative(1e-12))
                .preconditioner(jacobi_of(&on_device));
            (cg.solve_mixed(&b, &mut x).unwrap(), x.to_vec().unwrap())
        });
        assert_eq!(on_gpu, emulated, "{method:?}");
    }
}
