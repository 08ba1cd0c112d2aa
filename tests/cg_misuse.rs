//! Conjugate gradients with operators and callbacks that misbehave in safe code, and with numbers that leave the range of
//! their type: each ends in a clear error, and the next solution is right.

mod common;

use std::{
    cell::Cell,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use common::{Random, matrices::from_rows, on_every_device, on_gpu};
use warpsparse::{
    Cg, CgMethod, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, Error, ErrorKind, Jacobi, LinearOperator,
    Preconditioner, Progress, Result, SolveInfo, StopReason, Tolerance, io,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("own_errors_end_the_solution", own_errors_end_the_solution));
    trials.extend(on_every_device("panics_leave_nothing_half_done", panics_leave_nothing_half_done));
    trials.extend(on_every_device("operators_may_change_size_and_queue", operators_may_change));
    trials.extend(on_every_device("fickle_operators_are_safe", fickle_operators_are_safe));
    trials.extend(on_every_device("overflow_is_a_breakdown", overflow_is_a_breakdown));
    trials.extend(on_every_device("squares_out_of_range", squares_out_of_range));
    trials
        .extend(on_every_device("tiny_right_hand_sides_with_large_guesses", tiny_right_hand_sides_with_large_guesses));
    trials.extend(on_every_device("step_lengths_that_underflow_end_the_solution", vanishing_steps));
    trials.push(on_gpu("a_stopped_solution_waits_for_nobody_else", a_stopped_solution_waits_for_nobody_else));
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

/// What an operator does beside its product.
#[derive(Clone, Copy, Debug)]
enum Deed {
    None,
    /// It writes nonsense to half of the vector, and fails.
    Fail,
    Panic,
}

/// A matrix that hides that it is one. `deed` is done from the call number `at` on.
struct Odd<'a> {
    matrix: &'a DeviceMatrix<f64>,
    deed: Cell<Deed>,
    at: Cell<usize>,
}

impl<'a> Odd<'a> {
    fn new(matrix: &'a DeviceMatrix<f64>) -> Self {
        Self { matrix, deed: Cell::new(Deed::None), at: Cell::new(0) }
    }

    fn will(&self, deed: Deed, at: usize) {
        self.deed.set(deed);
        self.at.set(at);
    }

    fn apply(&self, x: DeviceSlice<'_, f64>, mut y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrix.spmv(1.0, x, 0.0, &mut y)?;
        if self.at.get() > 0 {
            self.at.set(self.at.get() - 1);
            return Ok(());
        }
        match self.deed.get() {
            Deed::None => Ok(()),
            Deed::Fail => {
                y.slice_mut(..x.len() / 2)?.fill(f64::NAN)?;
                Err(Error::Unsupported("its own error".into()))
            }
            Deed::Panic => panic!("as planned"),
        }
    }
}

impl LinearOperator<f64> for Odd<'_> {
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
        self.apply(x, y)
    }
}

impl Preconditioner<f64> for Odd<'_> {
    fn apply(&self, r: DeviceSlice<'_, f64>, z: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.apply(r, z)
    }
}

const N: usize = 81;

fn solve(device: &Device, cg: &mut Cg<'_, f64>) -> Result<SolveInfo> {
    let matrix = io::generate::poisson2d::<f64>(9)?;
    let b: Vec<f64> = Random(5).vector(N);
    let (on_device, mut x) = (device.upload_vec(&b)?, device.zeros(N)?);
    let info = cg.solve(&on_device, &mut x)?;
    let x = x.to_vec()?;
    let mut residual = b.clone();
    matrix.triplets().for_each(|(i, j, value)| residual[i] -= value * x[j]);
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    assert!(norm(&residual) <= 1.1e-6 * norm(&b), "{info:?}");
    Ok(info)
}

/// The identity, as a matrix.
fn identity(device: &Device) -> DeviceMatrix<f64> {
    device.upload(&from_rows(N, (0..N).map(|i| vec![(i, 1.0)]).collect())).unwrap()
}

fn own_errors_end_the_solution(device: &Device) {
    let (matrix, identity) = (device.upload(&io::generate::poisson2d(9).unwrap()).unwrap(), identity(device));
    let (operator, preconditioner) = (Odd::new(&matrix), Odd::new(&identity));
    for method in METHODS.into_iter().filter(|&method| method != CgMethod::Persistent) {
        let mut plain = Cg::new(&operator).method(method);
        let mut preconditioned = Cg::new(&matrix).method(method).preconditioner(&preconditioner);
        // The first call is for the residual of the guess, or for the first direction.
        for at in [0, 1, 5] {
            operator.will(Deed::Fail, at);
            let error = solve(device, &mut plain).unwrap_err();
            assert!(error.to_string().contains("its own error"), "{method:?} at {at}: {error}");
            operator.will(Deed::None, 0);
            assert_eq!(solve(device, &mut plain).unwrap().reason, StopReason::Converged, "{method:?} after {at}");

            preconditioner.will(Deed::Fail, at);
            let error = solve(device, &mut preconditioned).unwrap_err();
            assert!(error.to_string().contains("its own error"), "{method:?} at {at}: {error}");
            preconditioner.will(Deed::None, 0);
            assert_eq!(solve(device, &mut preconditioned).unwrap().reason, StopReason::Converged);
        }
    }
}

fn panics_leave_nothing_half_done(device: &Device) {
    let matrix = device.upload(&io::generate::poisson2d(9).unwrap()).unwrap();
    let operator = Odd::new(&matrix);
    let mut cg = Cg::new(&operator);
    for at in [0, 1, 5] {
        operator.will(Deed::Panic, at);
        assert!(catch_unwind(AssertUnwindSafe(|| solve(device, &mut cg))).is_err());
        operator.will(Deed::None, 0);
        solve(device, &mut cg).unwrap();
    }
    for method in METHODS {
        let panics = Cell::new(true);
        let callback = |_| match panics.replace(false) {
            true => panic!("as planned"),
            false => ControlFlow::Continue(()),
        };
        let mut cg = Cg::new(&matrix).method(method).callback(callback);
        assert!(catch_unwind(AssertUnwindSafe(|| solve(device, &mut cg))).is_err(), "{method:?}");
        solve(device, &mut cg).unwrap();
    }
}

/// One matrix after another.
struct Changing {
    matrices: Vec<DeviceMatrix<f64>>,
    current: Cell<usize>,
}

impl LinearOperator<f64> for Changing {
    fn nrows(&self) -> usize {
        self.matrices[self.current.get()].nrows()
    }
    fn ncols(&self) -> usize {
        self.matrices[self.current.get()].ncols()
    }
    fn device(&self) -> &Device {
        self.matrices[self.current.get()].device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrices[self.current.get()].spmv(1.0, x, 0.0, y)
    }
}

fn operators_may_change(device: &Device) {
    let queues = [device.clone(), device.clone(), device.new_stream().unwrap()];
    let matrices = [(0, 9), (1, 4), (2, 4), (0, 12)];
    let matrices = matrices.map(|(queue, n)| queues[queue].upload(&io::generate::poisson2d(n).unwrap()).unwrap());
    let operator = Changing { matrices: matrices.into(), current: Cell::new(0) };
    let mut cg = Cg::new(&operator);
    for current in [0, 1, 2, 0, 3, 1] {
        operator.current.set(current);
        let n = operator.nrows();
        let (b, mut x) = (device.upload_vec(&vec![1.0; n]).unwrap(), device.zeros(n).unwrap());
        let info = cg.solve(&b, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let other = operator.matrices.iter().map(DeviceMatrix::nrows).find(|&size| size != n).unwrap();
        let error = cg.solve(&device.zeros(other).unwrap(), &mut x).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { what: "b", .. }), "{error}");
    }
}

/// An operator that answers otherwise whenever it is asked.
struct Fickle {
    matrices: [DeviceMatrix<f64>; 2],
    asked: Cell<usize>,
    size_changes: bool,
    matrix_changes: bool,
}

impl Fickle {
    fn matrix(&self, changes: bool) -> &DeviceMatrix<f64> {
        self.asked.set(self.asked.get() + usize::from(changes));
        &self.matrices[self.asked.get() % 2]
    }
}

impl LinearOperator<f64> for Fickle {
    fn nrows(&self) -> usize {
        self.matrix(self.size_changes).nrows()
    }
    fn ncols(&self) -> usize {
        self.matrix(false).ncols()
    }
    fn device(&self) -> &Device {
        self.matrices[0].device()
    }
    fn apply(&self, x: DeviceSlice<'_, f64>, y: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.matrices.iter().find(|matrix| matrix.nrows() == y.len()).unwrap().spmv(1.0, x, 0.0, y)
    }
    fn can_be_recorded(&self) -> bool {
        true
    }
    fn as_matrix(&self) -> Option<&DeviceMatrix<f64>> {
        self.matrix_changes.then(|| self.matrix(true))
    }
}

/// It is asked once: the answer fits or is an error, and no kernel gets vectors of another size than its matrix.
fn fickle_operators_are_safe(device: &Device) {
    for (size_changes, matrix_changes) in [(true, false), (false, true), (true, true)] {
        let matrices = [4, 9].map(|n| device.upload(&io::generate::poisson2d(n).unwrap()).unwrap());
        let operator = Fickle { matrices, asked: Cell::new(0), size_changes, matrix_changes };
        for method in METHODS {
            let mut cg = Cg::new(&operator).method(method);
            for n in [16, 81, 16, 16, 81, 81] {
                let (b, mut x) = (device.upload_vec(&vec![1.0; n]).unwrap(), device.zeros(n).unwrap());
                match cg.solve(&b, &mut x) {
                    Ok(info) => assert_eq!(info.reason, StopReason::Converged, "{method:?}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{method:?}: {error}"),
                }
            }
        }
    }
}

/// The solution is 1e40, beyond the range of f32.
fn overflow_is_a_breakdown(device: &Device) {
    let small = |value: f64| 1e-30 * value;
    let rows = vec![vec![(0, small(2.0)), (1, small(-1.0))], vec![(0, small(-1.0)), (1, small(2.0))]];
    let matrix = device.upload(&from_rows::<f32>(2, rows)).unwrap();
    let b = [1e10f32, 1e10];
    for method in METHODS {
        let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(2).unwrap());
        let error = Cg::new(&matrix).method(method).solve(&on_device, &mut x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Breakdown, "{method:?}: {error}");
        assert!(error.to_string().contains("not finite"), "{method:?}: {error}");

        if [CgMethod::Plain, CgMethod::SingleReduction].contains(&method) {
            continue;
        }
        let (on_device, mut x) = (device.upload_vec(&b.map(f64::from)).unwrap(), device.zeros(2).unwrap());
        let error = Cg::new(&matrix).method(method).solve_mixed(&on_device, &mut x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Breakdown, "{method:?}, mixed: {error}");
    }
}

/// About 1e-200 and 1e200: the squares are out of range, and the solutions are those of numbers of about 1, bit by bit.
fn squares_out_of_range(device: &Device) {
    let matrix = device.upload(&io::generate::poisson2d::<f64>(3).unwrap()).unwrap();
    let (b, guess) = ([1.0, -2.0, 3.5, 0.0, 5.0, 0.25, -7.0, 8.0, 9.0], [0.5; 9]);
    for method in METHODS {
        let solve = |factor: f64| {
            let [b, mut x] = [b, guess].map(|x| device.upload_vec(&x.map(|x| factor * x)).unwrap());
            let mut seen = Vec::new();
            let record = |progress: Progress| {
                seen.push(progress.residual_norm / factor);
                ControlFlow::Continue(())
            };
            let mut cg = Cg::new(&matrix).method(method).tolerance(Tolerance::relative(1e-9)).callback(record);
            let info = cg.solve(&b, &mut x).unwrap();
            drop(cg);
            assert_eq!(info.reason, StopReason::Converged, "{method:?}, {factor:e}");
            let history: Vec<_> = info.history.iter().map(|norm| norm / factor).collect();
            (x.to_vec().unwrap().iter().map(|x| x / factor).collect::<Vec<_>>(), history, seen)
        };
        let expected = solve(1.0);
        for factor in [2f64.powi(-664), 2f64.powi(664)] {
            assert_eq!(solve(factor), expected, "{method:?}, {factor:e}");
        }
    }
    // Without a scale of its own.
    let matrix = device.upload(&io::generate::poisson2d::<f32>(3).unwrap()).unwrap();
    for tiny in [1e-200, 1e-158] {
        let (b, mut x) = (device.upload_vec(&[tiny; 9]).unwrap(), device.zeros(9).unwrap());
        let error = Cg::new(&matrix).solve_mixed(&b, &mut x).unwrap_err();
        assert_eq!(error.to_string(), "iteration 0: b . b underflows: scale the system");
    }
}

/// Where the first guess is far from the solution, its residual has the scale of the system.
fn tiny_right_hand_sides_with_large_guesses(device: &Device) {
    let matrix = device.upload(&io::generate::poisson2d::<f64>(3).unwrap()).unwrap();
    for (tiny, guess) in [(1e-200, 7.0), (1e-158, 1.0), (1e-200, 1e-190), (1e-150, 1e150)] {
        for method in METHODS {
            let (b, mut x) = (device.upload_vec(&[tiny; 9]).unwrap(), device.upload_vec(&[guess; 9]).unwrap());
            let absolute = Tolerance::absolute(1e-9 * guess);
            let info = Cg::new(&matrix).method(method).tolerance(absolute).solve(&b, &mut x).unwrap();
            assert_eq!(info.reason, StopReason::Converged, "{method:?}, {tiny:e}, {guess:e}");
            assert!(x.to_vec().unwrap().iter().all(|x| x.abs() < 1e-8 * guess), "{method:?}, {tiny:e}, {guess:e}");
        }
    }
}

/// `alpha` is 1e-325, the inverse of a matrix and of a preconditioner that are each within the range.
fn vanishing_steps(device: &Device) {
    let diagonal = |value: f64| from_rows::<f64>(70, (0..70).map(|i| vec![(i, value)]).collect());
    let (matrix, inverse) = (device.upload(&diagonal(1e163)).unwrap(), device.upload(&diagonal(1e-162)).unwrap());
    for method in METHODS {
        let mut cg = Cg::new(&matrix).method(method).assume_symmetric().preconditioner(Jacobi::new(&inverse).unwrap());
        // Larger ones overflow, and smaller ones are scaled.
        let (b, mut x) = (device.upload_vec(&[3e-91; 70]).unwrap(), device.zeros(70).unwrap());
        let outcome = cg.solve(&b, &mut x);
        assert!(x.to_vec().unwrap().iter().all(|x| x.is_finite()), "{method:?}");
        if method == CgMethod::SingleReduction {
            let info = outcome.unwrap();
            assert_eq!((info.reason, info.iterations), (StopReason::RoundingLimit, 0));
            assert!((info.relative_residual - 1.0).abs() < 1e-12, "{info:?}");
        } else {
            assert!(!matches!(outcome, Ok(info) if info.reason == StopReason::Converged), "{method:?}");
        }
    }
}

/// Another thread keeps the same stream busy for as long as the solution takes, up to a limit that it must not reach.
fn a_stopped_solution_waits_for_nobody_else(gpu: &Device) {
    const LIMIT: usize = 60_000;
    let large = gpu.upload(&io::generate::poisson2d::<f64>(1500).unwrap()).unwrap();
    let matrix = gpu.upload(&io::generate::poisson2d::<f64>(40).unwrap()).unwrap();
    let b = gpu.upload_vec(&[1.0; 1600]).unwrap();
    for method in [CgMethod::Launches, CgMethod::Graph, CgMethod::Persistent] {
        let is_solved = AtomicBool::new(false);
        let products = thread::scope(|scope| {
            let busy = scope.spawn(|| {
                let (x, mut y) = (gpu.zeros(large.ncols()).unwrap(), gpu.zeros(large.nrows()).unwrap());
                (0..LIMIT).take_while(|_| !is_solved.load(SeqCst)).map(|_| large.spmv(1.0, &x, 0.0, &mut y)).count()
            });
            let mut x = gpu.zeros(1600).unwrap();
            let stop = |progress: warpsparse::Progress| match progress.iteration {
                0..3 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            };
            let mut cg = Cg::new(&matrix).method(method).tolerance(Tolerance::relative(1e-14)).callback(stop);
            let info = cg.solve(&b, &mut x).unwrap();
            is_solved.store(true, SeqCst);
            // The kernel that stays goes on until its launch ends.
            assert!(info.reason == StopReason::Stopped || method == CgMethod::Persistent, "{info:?}");
            busy.join().unwrap()
        });
        assert!(products < LIMIT, "{method:?}");
    }
}
