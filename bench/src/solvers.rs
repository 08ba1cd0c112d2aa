//! `warpsparse-bench solvers`: Krylov methods and preconditioners, an iteration and whole solutions.

use clap::{Args, ValueEnum};
use measure::{Clock, DTypeName, Outcome, Spread, random_elements};
use serde::Serialize;
use warpsparse::{
    Amg, BlockJacobi, DeviceMatrix, DeviceVec, Ilu, Jacobi, Preconditioner, Result, Scalar, SolveInfo, Solver,
    SolverMethod, Tolerance, io::MatrixSource,
};

use super::{
    matrix::wall_times,
    report::{Finished, Method, Report, Skipped},
    session::{Basics, Benchmark, Conditions, Session},
    solution::Solution,
    suite,
    table::{self, none},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz, .mtx.xz) and generators of square matrices [default: convection and diffusion in two and three
    /// dimensions, from 65 536 to 4.2 million unknowns]
    matrices: Vec<MatrixSource>,
    /// The methods. Those that do not suit a matrix are skipped.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bicgstab,bicgstabl,idr,gmres,fgmres,lsmr")]
    method: Vec<MethodName>,
    /// The preconditioners; block-jacobi finds its blocks from the pattern, see --block-rows.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,jacobi,block-jacobi,ilu")]
    precond: Vec<PreconditionerName>,
    /// The most rows of a block of block-jacobi.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=32))]
    block_rows: u32,
    /// Iterations between restarts of gmres and fgmres.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    restart: u32,
    /// The relative tolerance of the residual [default: 1e-8, of f32 1e-4]
    #[arg(long)]
    tol: Option<f64>,
    /// Iterations of a whole solution, at most.
    #[arg(long, default_value_t = 2000)]
    max_iterations: usize,
    /// The element type; can be repeated [default: f64]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    /// The number of times that everything is repeated after a warm-up.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    pub(super) basics: Basics,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum MethodName {
    Cg,
    Minres,
    Bicgstab,
    Bicgstabl,
    Idr,
    Gmres,
    Fgmres,
    Lsmr,
}

#[derive(Clone, Copy, PartialEq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum PreconditionerName {
    None,
    Jacobi,
    BlockJacobi,
    Ilu,
    Amg,
}

/// Two below 100 000 unknowns, one with 262 144, and one whose vectors no cache holds.
const SUITE: [&str; 4] =
    ["gen:convdiff2d:256:10", "gen:convdiff3d:44:10", "gen:convdiff3d:64:10", "gen:convdiff2d:2048:10"];

/// Iterations of the two solutions whose difference is timed: whole cycles of GMRES(30).
const ITERATIONS: [usize; 2] = [60, 180];

const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.solvers",
    version: 1,
    baselines: &[],
    dtypes: &[DTypeName::F64],
    product: "A x = b for random b, from x = 0",
    figures: "Times are wall times on the host, from the call until the device is idle, with all that the host waits for in between; medians after a warm-up. \
        An iteration is the difference between solutions of 60 and of 180 iterations without a tolerance, over the 120. A whole solution includes the method's memory, \
        but not the setup of the preconditioner. The bound is the bytes of an iteration without a preconditioner, each vector as often as it has to be read and written, over \
        the bandwidth of a copy.",
};

/// One system with one method and preconditioner.
#[derive(Serialize)]
struct Solved {
    name: String,
    dtype: DTypeName,
    rows: usize,
    entries: usize,
    method: String,
    preconditioner: PreconditionerName,
    /// None where the residual vanished in less than the iterations that are timed.
    iteration_us: Option<f64>,
    bound_us: Option<f64>,
    tolerance: f64,
    solution: Solution,
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let sources = match options.matrices.is_empty() {
        true => SUITE.iter().map(|text| text.parse()).collect::<Result<_>>()?,
        false => options.matrices.clone(),
    };
    let conditions = Conditions {
        against: None,
        dtype: options.dtype.clone(),
        basics: options.basics.clone(),
        repeat: options.repeat,
        hot: true, // one set of buffers, as iterations have
    };
    let mut report = conditions.run(&BENCHMARK, &sources, |session, source, dtype| match dtype {
        DTypeName::F32 => options.solutions::<f32>(session, source, dtype),
        DTypeName::F64 => options.solutions::<f64>(session, source, dtype),
    })?;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {}", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

/// A matrix, its right-hand side and a preconditioner.
struct System<'s, T: Scalar> {
    a: &'s DeviceMatrix<T>,
    b: &'s DeviceVec<T>,
    m: Option<&'s dyn Preconditioner<T>>,
}

impl<T: Scalar> System<'_, T> {
    fn solve(
        &self,
        method: SolverMethod,
        tolerance: f64,
        iterations: usize,
        x: &mut DeviceVec<T>,
    ) -> Result<SolveInfo> {
        x.fill(T::default())?;
        let solver = Solver::new(self.a).method(method).tolerance(Tolerance::relative(tolerance));
        let solver = solver.max_iterations(iterations);
        match self.m {
            Some(m) => solver.preconditioner(m).solve(self.b, x),
            None => solver.unpreconditioned().solve(self.b, x),
        }
    }
}

impl Options {
    fn solutions<T: Scalar>(
        &self,
        session: &mut Session<'_>,
        source: &MatrixSource,
        dtype: DTypeName,
    ) -> Result<Vec<Solved>> {
        let matrix = session.load(|| source.load::<T>())?;
        let (a, b) = (session.device.upload(&matrix)?, random_elements::<T>(matrix.nrows(), 1)?);
        drop(matrix);
        let b = session.device.upload_vec(&b)?;
        let mut results = Vec::new();
        for &preconditioner in &self.precond {
            let what = format!("{} {dtype}, {}", suite::name(source), label(preconditioner));
            let m = match self.preconditioner(preconditioner, &a) {
                Ok(m) => m,
                Err(error) => {
                    session.skip(what, error.to_string());
                    continue;
                }
            };
            let system = System { a: &a, b: &b, m: m.as_deref() };
            for &name in &self.method {
                // It would scale the columns of another matrix.
                if name == MethodName::Lsmr && preconditioner != PreconditionerName::None {
                    continue;
                }
                match self.solved(session, &system, name, dtype) {
                    Ok(solved) => {
                        results.push(Solved { name: suite::name(source), preconditioner, ..solved });
                    }
                    Err(error) => session.skip(format!("{what}, {}", self.method_of(name)), error.to_string()),
                }
            }
        }
        Ok(results)
    }

    fn preconditioner<'a, T: Scalar>(
        &self,
        name: PreconditionerName,
        a: &'a DeviceMatrix<T>,
    ) -> Result<Option<Box<dyn Preconditioner<T> + 'a>>> {
        Ok(match name {
            PreconditionerName::None => None,
            PreconditionerName::Jacobi => Some(Box::new(Jacobi::new(a)?)),
            PreconditionerName::BlockJacobi => Some(Box::new(BlockJacobi::from_pattern(a, self.block_rows)?)),
            PreconditionerName::Ilu => Some(Box::new(Ilu::new(a)?)),
            PreconditionerName::Amg => Some(Box::new(Amg::new(a)?)),
        })
    }

    fn method_of(&self, name: MethodName) -> SolverMethod {
        let restart = self.restart as usize;
        match name {
            MethodName::Cg => SolverMethod::Cg,
            MethodName::Minres => SolverMethod::Minres,
            MethodName::Bicgstab => SolverMethod::BiCgStab,
            MethodName::Bicgstabl => SolverMethod::BiCgStabL { l: 2 },
            MethodName::Idr => SolverMethod::Idr { s: 4 },
            MethodName::Gmres => SolverMethod::Gmres { restart },
            MethodName::Fgmres => SolverMethod::FlexibleGmres { restart },
            MethodName::Lsmr => SolverMethod::Lsmr,
        }
    }

    /// One method; its caller knows the names of the system and of the preconditioner.
    fn solved<T: Scalar>(
        &self,
        session: &Session<'_>,
        system: &System<'_, T>,
        name: MethodName,
        dtype: DTypeName,
    ) -> Result<Solved> {
        let method = self.method_of(name);
        let tolerance = self.tol.unwrap_or(if dtype == DTypeName::F32 { 1e-4 } else { 1e-8 });
        let mut x = session.device.zeros(system.b.len())?;
        let mut infos = vec![];
        let time_us = wall_times(session, || {
            infos = vec![system.solve(method, tolerance, self.max_iterations, &mut x)?];
            Ok(())
        })?;
        let bytes = bytes::<T>(method, system).filter(|_| system.m.is_none());
        Ok(Solved {
            name: String::new(),
            dtype,
            rows: system.a.nrows(),
            entries: system.a.nnz(),
            method: method.to_string(),
            preconditioner: PreconditionerName::None,
            iteration_us: iteration_us(session, system, method, &mut x),
            bound_us: bytes.map(|bytes| 1e6 * bytes / session.copy_bandwidth),
            tolerance,
            solution: Solution::of(time_us, &infos),
        })
    }
}

/// The time of an iteration; None if the method ends before, as at a residual of rounding errors.
fn iteration_us<T: Scalar>(
    session: &Session<'_>,
    system: &System<'_, T>,
    method: SolverMethod,
    x: &mut DeviceVec<T>,
) -> Option<f64> {
    let mut time = |iterations: usize| {
        let mut done = 0;
        let time = wall_times(session, || {
            done = system.solve(method, 0.0, iterations, x)?.iterations;
            Ok(())
        });
        time.ok().filter(|_| done == iterations).map(|time| time.median)
    };
    let [few, many] = ITERATIONS;
    Some((time(many)? - time(few)?) / (many - few) as f64)
}

/// The bytes that an iteration without a preconditioner has to move: its products, and how often it reads or writes a vector.
fn bytes<T: Scalar>(method: SolverMethod, system: &System<'_, T>) -> Option<f64> {
    let (products, vectors) = match method {
        // r^ . v; s and its norm; t . s and t . t; y, r and rho; p.
        SolverMethod::BiCgStab => (2.0, 2.0 + 3.0 + 2.0 + 7.0 + 4.0),
        // The basis twice, of half the vectors on average; u read twice, and two vectors written; x at the end.
        SolverMethod::Gmres { restart } | SolverMethod::FlexibleGmres { restart } => {
            let m = restart as f64;
            (1.0, 2.0 * (m + 1.0) / 2.0 + 2.0 + 2.0 + (m + 2.0) / m)
        }
        _ => return None,
    };
    Some(products * system.a.spmv_bytes() as f64 + vectors * (size_of::<T>() * system.b.len()) as f64)
}

fn label(name: PreconditionerName) -> &'static str {
    match name {
        PreconditionerName::None => "none",
        PreconditionerName::Jacobi => "Jacobi",
        PreconditionerName::BlockJacobi => "block-Jacobi",
        PreconditionerName::Ilu => "ILU(0)",
        PreconditionerName::Amg => "multigrid",
    }
}

/// Fails where a solution is said to have converged that has not.
fn check(report: &Report<Solved>) -> std::result::Result<(), String> {
    let is_wrong = |solved: &&Solved| {
        let Solution { converged, relative_residual, .. } = solved.solution;
        converged && (relative_residual > 1.02 * solved.tolerance || relative_residual.is_nan())
    };
    match report.results.iter().find(is_wrong) {
        Some(Solved { name, dtype, method, solution, .. }) => {
            Err(format!("{name} {dtype}, {method}: the relative residual is {:.1e}", solution.relative_residual))
        }
        None => Ok(()),
    }
}

fn markdown(report: &Report<Solved>) -> String {
    let ms = |spread: &Spread| format!("{:.2}", 1e-3 * spread.median);
    let us = |time: Option<f64>| time.map_or_else(none, |time| format!("{time:.1}"));
    let row = |solved: &Solved| {
        let Solved { solution, iteration_us, bound_us, .. } = solved;
        let percent = iteration_us.zip(*bound_us).map(|(time, bound)| format!("{:.0}", 100.0 * bound / time));
        vec![
            solved.name.clone(),
            solved.dtype.to_string(),
            solved.rows.to_string(),
            solved.method.clone(),
            label(solved.preconditioner).to_owned(),
            us(*iteration_us),
            us(*bound_us),
            percent.unwrap_or_else(none),
            solution.iterations.to_string(),
            if solution.converged { ms(&solution.time_us) } else { none() },
            format!("{:.1e}", solution.relative_residual),
        ]
    };
    let header = [
        "<system",
        "<type",
        "unknowns",
        "<method",
        "<preconditioner",
        "iteration, us",
        "bound, us",
        "% of it",
        "iterations",
        "solution, ms",
        "residual",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let skipped = report.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
    format!(
        "{}\n\n{}\n\n{}{}",
        report.machine.model,
        report.method.text,
        table::markdown(&header, &rows),
        skipped.collect::<String>()
    )
}
