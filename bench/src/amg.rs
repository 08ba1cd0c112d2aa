//! `warpsparse-bench amg`: setup and solve times of algebraic multigrid, compared with conjugate gradients with Jacobi's preconditioner.

use std::collections::BTreeMap;

use clap::Args;
use measure::{Clock, DTypeName, Outcome, Spread};
use serde::Serialize;
use warpsparse::{
    Amg, AmgInfo, AmgOptions, AmgSmoother, Cg, DeviceMatrix, DeviceVec, Jacobi, MixedAmg, NearNullSpace, Result,
    Scalar, Tolerance,
    io::{Generator, MatrixSource, generate},
};

use super::{
    matrix::wall_times,
    pool::peak_bytes,
    report::{Finished, Method, Report},
    session::{Benchmark, Session, Settings},
    solution::Solution,
    suite::{self, Suite},
    table::{self, none},
};

#[derive(Args)]
pub(crate) struct Options {
    /// The relative tolerance of the residual.
    #[arg(long, default_value_t = 1e-8)]
    tol: f64,
    /// Smooth by Chebyshev iterations of this degree, 1 to 8 [default: a Jacobi iteration]
    #[arg(long, value_name = "DEGREE", value_parser = clap::value_parser!(u32).range(1..=8))]
    chebyshev: Option<u32>,
    /// Set up multigrid for the matrix rounded to f32, for systems in f64.
    #[arg(long)]
    single: bool,
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.amg",
    version: 1,
    baselines: &[],
    dtypes: &[DTypeName::F64],
    product: "A x = b for b = 1, from x = 0, by conjugate gradients with multigrid by smoothed aggregation, and with Jacobi's preconditioner",
    figures: "Times are wall times on the host, from the call until the device is idle; medians after a warm-up. A setup begins with the matrix on the \
        device and includes the check that it is symmetric, for elasticity3d with the motions of a rigid body; an update is a setup for new values that keeps prolongators, and is not the first; a solution reuses what the first one \
        has prepared: its graph and vectors. An iteration is the time of a solution over its iterations. Complexity is the number of entries of all levels over that of the matrix. Memory is that of the hierarchy and its vectors before the first update, \
        without the matrix, over the matrix's; the peak is what a setup takes at most at once. Residuals are computed from x.",
};

/// One system with elements of one type.
#[derive(Serialize)]
struct System {
    name: String,
    dtype: DTypeName,
    rows: usize,
    entries: usize,
    /// Rows of each level.
    levels: Vec<usize>,
    operator_complexity: f64,
    grid_complexity: f64,
    bytes: usize,
    peak_bytes: Option<u64>,
    matrix_bytes: usize,
    notes: Vec<String>,
    setup_us: Spread,
    update_us: Spread,
    multigrid: Solution,
    jacobi: Solution,
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let mut report = options.settings.run(&BENCHMARK, Suite::Diffusion, |session, source, dtype| match dtype {
        DTypeName::F32 => options.system::<f32, Amg<f32>>(session, source, dtype),
        DTypeName::F64 if options.single => options.system::<f64, MixedAmg>(session, source, dtype),
        DTypeName::F64 => options.system::<f64, Amg<f64>>(session, source, dtype),
    })?;
    let smoother = match options.chebyshev {
        None => "One damped Jacobi iteration smooths before and after each correction".into(),
        Some(degree) => format!("Chebyshev iterations of degree {degree} smooth before and after each correction"),
    };
    let single = if options.single {
        " The hierarchy is in f32; its setup and its memory include the rounded matrix."
    } else {
        ""
    };
    let repeats = report.method.repeats;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!(
            "{}; relative tolerance {:e}. {smoother}.{single} {} There are {repeats} repeats.",
            BENCHMARK.product, options.tol, BENCHMARK.figures
        ),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

/// Multigrid for systems of `T`.
trait Multigrid<T: Scalar>: Sized {
    fn set_up(a: &DeviceMatrix<T>, options: AmgOptions<T>) -> Result<Self>;
    fn update(&mut self, a: &DeviceMatrix<T>) -> Result<()>;
    fn cg(&self) -> Cg<'_, T>;
    fn info(&self) -> AmgInfo;
}

impl<T: Scalar> Multigrid<T> for Amg<T> {
    fn set_up(a: &DeviceMatrix<T>, options: AmgOptions<T>) -> Result<Self> {
        options.build(a)
    }

    fn update(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        self.update_values(a)
    }

    fn cg(&self) -> Cg<'_, T> {
        self.cg()
    }

    fn info(&self) -> AmgInfo {
        self.describe()
    }
}

impl Multigrid<f64> for MixedAmg {
    fn set_up(a: &DeviceMatrix<f64>, options: AmgOptions<f64>) -> Result<Self> {
        options.build_mixed(a)
    }

    fn update(&mut self, a: &DeviceMatrix<f64>) -> Result<()> {
        self.update_values(a)
    }

    fn cg(&self) -> Cg<'_, f64> {
        self.cg()
    }

    fn info(&self) -> AmgInfo {
        self.describe()
    }
}

/// Of a matrix in CSR.
fn matrix_bytes(rows: usize, entries: usize, size: usize) -> usize {
    4 * (rows + 1) + entries * (4 + size)
}

impl Options {
    fn system<T: Scalar, M: Multigrid<T>>(
        &self,
        session: &Session<'_>,
        source: &MatrixSource,
        dtype: DTypeName,
    ) -> Result<[System; 1]> {
        let matrix = session.load(|| source.load::<T>())?;
        let (rows, entries) = (matrix.nrows(), matrix.nnz());
        let a = session.device.upload(&matrix)?;
        let b = session.device.upload_vec(&vec![T::from_f64(1.0); rows])?;
        drop(matrix);
        let smoother = self.chebyshev.map_or(AmgSmoother::Jacobi, AmgSmoother::Chebyshev);
        let mut options = Amg::options().smoother(smoother);
        if let MatrixSource::Generator(Generator::Elasticity3d { n }) = source {
            options = options.near_null_space(NearNullSpace::rigid_body_modes(&generate::elasticity3d_nodes(*n))?);
        }
        let set_up = || M::set_up(&a, options.clone());
        // Kernels are loaded by the first one.
        drop(set_up()?);
        let (mut amg, peak_bytes) = peak_bytes(session.device, set_up)?;
        let info = amg.info();
        let setup_us = wall_times(session, || set_up().map(drop))?;
        let update_us = wall_times(session, || amg.update(&a))?;
        let multigrid = self.solution(session, &b, amg.cg())?;
        let jacobi = self.solution(session, &b, Cg::new(&a).preconditioner(Jacobi::new(&a)?))?;
        Ok([System {
            name: suite::name(source),
            dtype,
            rows,
            entries,
            levels: info.levels.iter().map(|level| level.rows).collect(),
            operator_complexity: info.operator_complexity,
            grid_complexity: info.grid_complexity,
            bytes: info.bytes,
            peak_bytes,
            matrix_bytes: matrix_bytes(rows, entries, size_of::<T>()),
            notes: info.notes,
            setup_us,
            update_us,
            multigrid,
            jacobi,
        }])
    }

    fn solution<T: Scalar>(&self, session: &Session<'_>, b: &DeviceVec<T>, cg: Cg<'_, T>) -> Result<Solution> {
        let mut x = session.device.zeros(b.len())?;
        let mut cg = cg.tolerance(Tolerance::relative(self.tol)).max_iterations(100_000);
        let mut infos = vec![];
        let time_us = wall_times(session, || {
            x.fill(T::default())?;
            infos = vec![cg.solve(b, &mut x)?];
            Ok(())
        })?;
        Ok(Solution::of(time_us, &infos))
    }
}

/// Fails where multigrid does not converge.
fn check(report: &Report<System>) -> std::result::Result<(), String> {
    match report.results.iter().find(|system| !system.multigrid.converged) {
        Some(System { name, dtype, multigrid, .. }) => {
            Err(format!("{name} {dtype}: not converged, the relative residual is {:.1e}", multigrid.relative_residual))
        }
        None => Ok(()),
    }
}

fn markdown(report: &Report<System>) -> String {
    let ms = |spread: &Spread| format!("{:.2}", 1e-3 * spread.median);
    let row = |system: &System| {
        let System { multigrid, jacobi, .. } = system;
        let per_matrix = |bytes: f64| format!("{:.2}", bytes / system.matrix_bytes as f64);
        vec![
            system.name.clone(),
            system.dtype.to_string(),
            system.rows.to_string(),
            ms(&system.setup_us),
            ms(&system.update_us),
            ms(&multigrid.time_us),
            multigrid.iterations.to_string(),
            format!("{:.3}", 1e-3 * multigrid.time_us.median / multigrid.iterations.max(1) as f64),
            format!("{:.1e}", multigrid.relative_residual),
            ms(&jacobi.time_us),
            jacobi.iterations.to_string(),
            format!("{:.2}", system.operator_complexity),
            system.levels.len().to_string(),
            per_matrix(system.bytes as f64),
            system.peak_bytes.map_or_else(none, |bytes| per_matrix(bytes as f64)),
        ]
    };
    let header = [
        "<system",
        "<type",
        "rows",
        "setup, ms",
        "update, ms",
        "solution, ms",
        "iterations",
        "iteration, ms",
        "residual",
        "Jacobi, ms",
        "iterations",
        "complexity",
        "levels",
        "memory",
        "peak",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let notes: String = report
        .results
        .iter()
        .flat_map(|system| system.notes.iter().map(move |note| format!("\n{}: {note}\n", system.name)))
        .collect();
    let growth = growth(&report.results);
    format!("{}\n\n{}\n\n{}{growth}{notes}", report.machine.model, report.method.text, table::markdown(&header, &rows))
}

/// How the iterations grow from the smallest to the largest system of a kind, such as `poisson2d:256` and `poisson2d:4096`.
fn growth(systems: &[System]) -> String {
    let mut sizes = BTreeMap::<_, Vec<_>>::new();
    for System { name, dtype, multigrid, .. } in systems {
        if let Some((kind, size)) =
            name.split_once(':').and_then(|(kind, size)| Some((kind, size.parse::<u64>().ok()?)))
        {
            sizes.entry((kind, dtype.to_string())).or_default().push((size, multigrid.iterations));
        }
    }
    let mut text = String::new();
    for ((kind, dtype), sizes) in &mut sizes {
        sizes.sort_unstable();
        if let [(small, few), .., (large, many)] = sizes[..] {
            let factor = many as f64 / few.max(1) as f64;
            text += &format!(
                "\nIterations of {kind} {dtype} grow {factor:.2} times from {small} to {large}: from {few} to {many}.\n"
            );
        }
    }
    text
}
