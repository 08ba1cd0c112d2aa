//! `warpsparse solve`: solves one linear system, and times it.

mod course;
mod history;
mod method;
mod nodes;
mod plot;
mod preconditioner;
mod report;
mod several;
mod system;
mod vector;

use std::{
    cell::RefCell,
    error, fmt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use measure::{DTypeName, MatrixReport, Outcome, TransportName, emit};
use warpsparse::{CsrMatrix, Device, Error, Scalar, SolveInfo, StopReason, Tolerance, io::MatrixSource};

use self::{
    course::Course,
    history::{History, HistoryOut},
    method::{LaunchName, MethodName},
    preconditioner::{Chosen, Element, Kind, Multigrid, Numbers, Setup, Wanted},
    report::{Ended, Report, Tried},
    system::{Rhs, System},
};
use crate::convert;

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator (see `warpsparse spmv --help`) of a matrix, square except for lsmr.
    matrix: MatrixSource,
    /// The right-hand side: ones, random (numbers from -1 to 1, the same in every run), sums (of the rows, so that ones are a
    /// solution), or a Matrix Market file with one column.
    #[arg(long, default_value = "ones", value_name = "FILE|ones|random|sums")]
    rhs: Rhs,
    /// The tolerance of the residual norm, relative to the norm of the right-hand side.
    #[arg(long, default_value = "1e-6", value_parser = parse_tolerance, allow_negative_numbers = true)]
    tol: f64,
    /// The method; auto tries up to three in turn, and reports them.
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodName,
    /// Iterations of gmres and fgmres between restarts.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = method::parse_restart)]
    restart: usize,
    /// The s of idr [default: 4] or the l of bicgstabl [default: 2].
    #[arg(long, value_name = "N", value_parser = method::parse_dimensions)]
    dimensions: Option<usize>,
    /// The damping of lsmr, for the least |b - A x|^2 + damping^2 |x|^2.
    #[arg(long, default_value_t = 0.0, value_parser = parse_damping, allow_negative_numbers = true)]
    damping: f64,
    /// The maximum number of iterations of a method [default: ten times the number of columns].
    #[arg(long, value_name = "N")]
    max_iters: Option<usize>,
    /// The preconditioner; auto is amg for large matrices that suit it, otherwise jacobi or ilu, and says why.
    #[arg(long, value_enum, default_value = "auto")]
    precond: Wanted,
    /// The degree of chebyshev, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    degree: u32,
    /// The power of the matrix that gives fsai its pattern, 1 to 4.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    power: u32,
    /// The rows of a block of block-jacobi, 1 to 32 [default: found from the pattern, up to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    block_size: Option<u32>,
    /// Compute the factors of ilu, and solve with them, by N sweeps, 1 to 64 [default: exactly, by the levels of the rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    sweeps: Option<u32>,
    /// The element type.
    #[arg(long, value_enum, default_value = "f64")]
    dtype: DTypeName,
    /// The element type of multigrid: f32 takes less time and memory, also for systems in f64 [default: that of the system].
    #[arg(long, value_enum, value_name = "DTYPE", conflicts_with = "devices")]
    precond_dtype: Option<DTypeName>,
    /// For multigrid, the unknowns of a node, 1 to 6, such as 3 for elasticity. They follow one another. [default: 1; 3 for gen:elasticity3d]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6), conflicts_with = "devices")]
    unknowns: Option<u8>,
    /// For multigrid, vectors that the matrix maps to almost 0, such as rigid-body modes: a Matrix Market file with up to 6
    /// columns [default: a constant vector for each unknown of a node; rigid-body modes for gen:elasticity3d]
    #[arg(long, value_name = "FILE", conflicts_with = "devices")]
    near_null: Option<PathBuf>,
    /// How iterations of conjugate gradients are launched on a GPU.
    #[arg(long, value_enum, default_value = "auto")]
    launch: LaunchName,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// Solve over several devices by conjugate gradients, a rank on each: all (every GPU; only one where that is expected to be faster); numbers of GPUs such as 0,1,2;
    /// cpu:N or emulated:N for N ranks; or ranks, for the processes of `warpsparse launch`, torchrun, mpirun or srun, with a GPU each; ranks:cpu without GPUs.
    #[arg(long, value_name = "DEVICES", conflicts_with_all = ["device", "launch"])]
    devices: Option<String>,
    /// How data goes from device to device with --devices.
    #[arg(long, value_enum, default_value = "auto", requires = "devices")]
    transport: TransportName,
    /// Write the solution, .mtx or .mtx.gz, as a Matrix Market array that reads back to the same bits.
    #[arg(long, value_name = "FILE", value_parser = convert::parse_out)]
    x_out: Option<PathBuf>,
    /// Write the residual norm after each iteration as a table (.csv) or a plot (.svg).
    #[arg(long, value_name = "FILE", value_parser = history::parse_out)]
    history: Option<HistoryOut>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn parse_damping(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(damping) if (0.0..f64::INFINITY).contains(&damping) => Ok(damping),
        _ => Err("a damping is a number from 0 on".into()),
    }
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(tolerance) if (0.0..f64::INFINITY).contains(&tolerance) => Ok(tolerance),
        _ => Err("a tolerance is a number from 0 on, such as 1e-6".into()),
    }
}

/// The residual did not reach the tolerance: not an error of the library, but exit status 3.
#[derive(Debug)]
pub(crate) struct NotConverged(String);

impl fmt::Display for NotConverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not converged: {}", self.0)
    }
}

impl error::Error for NotConverged {}

pub(crate) fn run(options: &Options) -> Outcome {
    // Before a long solution, whose outcome would be lost.
    [options.x_out.as_deref(), options.history.as_ref().map(HistoryOut::path)]
        .into_iter()
        .flatten()
        .try_for_each(check_folder)?;
    match (options.dtype, &options.devices) {
        (DTypeName::F32, None) => solve::<f32>(options, &Device::from_name(&options.device)?),
        (DTypeName::F64, None) => solve::<f64>(options, &Device::from_name(&options.device)?),
        (DTypeName::F32, Some(devices)) => several::solve::<f32>(options, devices),
        (DTypeName::F64, Some(devices)) => several::solve::<f64>(options, devices),
    }
}

fn check_folder(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("{}: there is no folder {}", path.display(), folder.display()))
        }
        _ => Ok(()),
    }
}

fn solve<T: Element>(options: &Options, device: &Device) -> Outcome {
    solve_on(options, device, System::<T>::load(options)?, None)
}

/// Solves on a device; the report says why on this one, where that is not what the options name.
fn solve_on<T: Element>(options: &Options, device: &Device, system: System<T>, why: Option<&str>) -> Outcome {
    let System { matrix, b } = system;
    let is_square = matrix.nrows() == matrix.ncols();
    if is_square
        && options.method != MethodName::Lsmr
        && let Some(why) = system::contradiction(&matrix, &b, options.tol)
    {
        return Err(NotConverged(why).into());
    }
    let first_guess = vec![T::default(); matrix.ncols()];
    // With a first guess of 0, the first residual is b.
    let first_norm = b.iter().map(|b| b.to_f64() * b.to_f64()).sum::<f64>().sqrt();
    let course = RefCell::new(Course::new(first_norm));
    let limit = options.max_iters.unwrap_or(10 * matrix.ncols());

    let (a, b) = (device.upload(&matrix)?, device.upload_vec(&b)?);
    let mut x = device.upload_vec(&first_guess)?;
    course.borrow_mut().begin("setting up");
    let multigrid = Multigrid::new(options, matrix.nrows())?;
    let chosen = Chosen::new(
        options.precond,
        options.method,
        Numbers {
            degree: options.degree,
            power: options.power,
            block_size: options.block_size,
            sweeps: options.sweeps,
        },
        &multigrid,
        &matrix,
        &a,
    )?;
    course.borrow_mut().end();
    let mut solver = chosen
        .solver(&a, options.precond)
        .method(options.method.with(options.restart, options.dimensions))
        .damping(options.damping)
        .cg_method(options.launch.into())
        .tolerance(Tolerance::relative(options.tol))
        .max_iterations(limit)
        .callback(|progress| course.borrow_mut().hear(progress));

    course.borrow_mut().begin("solving");
    let solved = solver.solve(&b, &mut x);
    course.borrow_mut().end();
    let tried: Vec<Tried> = solver.attempts().iter().map(|attempt| Tried::new(attempt, chosen.of(attempt))).collect();
    if let Err(error @ Error::Breakdown { iteration: 1.., .. }) = solved {
        tried[..tried.len() - 1].iter().for_each(|tried| eprintln!("{tried}"));
        // Of two errors, the other is the one to tell last.
        if let Err(problem) = write_files(options, first_norm, &course.borrow().norms, &x.to_vec()?) {
            eprintln!("error: {problem}");
        }
        return Err(error.into());
    }
    solved?;

    // The first one may have waited for kernels and memory, and tried several methods.
    x.copy_from(&first_guess)?;
    let last = solver.attempts().last().expect("a solve tries a method").clone();
    let mut solver = solver.keep_last();
    course.borrow_mut().begin("timing");
    let start = Instant::now();
    let solved = solver.solve(&b, &mut x);
    let time = start.elapsed();
    course.borrow_mut().end();
    let preconditioner = (chosen.of(&last), chosen.reason.clone(), chosen.setup.clone());
    let (kernel, reason) = (last.kernel.kernel, last.kernel.reason);
    let solved = Solved { info: solved?, time, x: x.to_vec()?, kernel, reason, preconditioner, tried };
    let described = why.map_or_else(|| device.describe(), |why| format!("{}; {why}", device.describe()));
    tell(options, &matrix, (described, report::threads(device)?), (first_norm, limit), solved)
}

/// The outcome of a solve.
struct Solved<T> {
    info: SolveInfo,
    /// Of the second of two.
    time: Duration,
    x: Vec<T>,
    kernel: String,
    reason: String,
    /// With the reason for it, and what its setup has made.
    preconditioner: (Kind, String, Option<Setup>),
    tried: Vec<Tried>,
}

/// Reports a solve by a device, of so many threads if it is the CPU, from the norm of `b` on, up to a limit of iterations.
fn tell<T: Scalar>(
    options: &Options,
    matrix: &CsrMatrix<T>,
    (device, threads): (String, Option<usize>),
    (first_norm, limit): (f64, usize),
    solved: Solved<T>,
) -> Outcome {
    let Solved { info, time, x, kernel, reason, preconditioner, tried } = solved;
    let (preconditioner, preconditioner_reason, setup) = preconditioner;
    let report = Report {
        schema: "warpsparse.solve",
        version: 2,
        matrix: MatrixReport::new(&options.matrix, &matrix.structure()),
        rhs: options.rhs.to_string(),
        device,
        threads,
        dtype: options.dtype,
        preconditioner,
        preconditioner_reason,
        setup,
        method: options.method,
        launch: options.launch,
        tried,
        tolerance: options.tol,
        max_iterations: limit,
        kernel,
        reason,
        converged: matches!(info.reason, StopReason::Converged | StopReason::LeastSquares),
        ended: Ended::from(info.reason),
        iterations: info.iterations,
        residual_norm: info.residual_norm,
        relative_residual: info.relative_residual,
        seconds: time.as_secs_f64(),
        seconds_per_iteration: (info.iterations > 0).then(|| time.as_secs_f64() / info.iterations as f64),
        history: info.history,
    };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })?;
    write_files(options, first_norm, &report.history, &x)?;
    match report.failure() {
        None => Ok(()),
        Some(why) => Err(NotConverged(why).into()),
    }
}

/// Writes the requested files.
fn write_files<T: Scalar>(options: &Options, b_norm: f64, norms: &[f64], x: &[T]) -> Result<(), String> {
    if let Some(path) = &options.x_out {
        vector::write(path, x).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("{}: {} numbers", path.display(), x.len());
    }
    if let Some(out) = &options.history {
        let history = History { title: options.matrix.to_string(), norms, b_norm, tolerance: options.tol };
        out.write(&history).map_err(|error| format!("{}: {error}", out.path().display()))?;
        eprintln!("{}: {} norms", out.path().display(), norms.len());
    }
    Ok(())
}
