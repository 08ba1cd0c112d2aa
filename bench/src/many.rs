//! `warpsparse-bench many`: block conjugate gradients for many right-hand sides, compared with conjugate gradients for each.

use clap::Args;
use measure::{Clock, DTypeName, Outcome, Spread, random_elements};
use serde::Serialize;
use warpsparse::{BlockCg, Cg, DeviceDense, DeviceMatrix, Jacobi, Result, Scalar, Tolerance, io::MatrixSource};

use super::{
    matrix::wall_times,
    report::{Finished, Method, Report},
    session::{Basics, Benchmark, Conditions, Session},
    solution::Solution,
    suite, table,
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz, .mtx.xz) and generators of symmetric positive definite matrices [default:
    /// gen:fem3:10000 gen:poisson2d:2048]
    matrices: Vec<MatrixSource>,
    /// Right-hand sides.
    #[arg(short, long, value_delimiter = ',', default_values_t = [8, 16, 32])]
    columns: Vec<usize>,
    /// The relative tolerance of each residual [default: 1e-8, of f32 1e-4]
    #[arg(long)]
    tol: Option<f64>,
    /// The element type; can be repeated [default: both]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    /// The number of times that the solutions are repeated after a warm-up.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    pub(super) basics: Basics,
}

/// One whose vectors fit in the caches, and one that moves them.
const SUITE: [&str; 2] = ["gen:fem3:10000", "gen:poisson2d:2048"];

const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.many",
    version: 1,
    baselines: &[],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "A X = B for random B, from X = 0, with Jacobi's preconditioner, by block conjugate gradients, and column by column by conjugate gradients",
    figures: "Times are wall times on the host of whole solutions, from the call until the device is idle; medians after a warm-up. Conjugate gradients choose \
        their kernels, and keep what the first solution has prepared. Neither checks that the matrix is symmetric. Iterations are those of the column that takes most. \
        The ratio is the time of all columns one by one over that of the block.",
};

/// One system with so many right-hand sides.
#[derive(Serialize)]
struct System {
    name: String,
    dtype: DTypeName,
    rows: usize,
    entries: usize,
    columns: usize,
    tolerance: f64,
    block: Solution,
    one_by_one: Solution,
    ratio: f64,
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
        DTypeName::F32 => options.systems::<f32>(session, source, dtype),
        DTypeName::F64 => options.systems::<f64>(session, source, dtype),
    })?;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {}", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

impl Options {
    fn systems<T: Scalar>(
        &self,
        session: &Session<'_>,
        source: &MatrixSource,
        dtype: DTypeName,
    ) -> Result<Vec<System>> {
        let matrix = session.load(|| source.load::<T>())?;
        let (rows, entries) = (matrix.nrows(), matrix.nnz());
        let a = session.device.upload(&matrix)?;
        drop(matrix);
        let tolerance = self.tol.unwrap_or(if dtype == DTypeName::F32 { 1e-4 } else { 1e-8 });
        let system = |&columns: &usize| {
            let b = session.device.upload_dense((rows, columns), &random_elements::<T>(rows * columns, 1)?)?;
            let block = block(session, &a, &b, tolerance)?;
            let one_by_one = one_by_one(session, &a, &b, tolerance)?;
            let ratio = one_by_one.time_us.median / block.time_us.median;
            let name = suite::name(source);
            Ok(System { name, dtype, rows, entries, columns, tolerance, block, one_by_one, ratio })
        };
        self.columns.iter().map(system).collect()
    }
}

fn block<T: Scalar>(
    session: &Session<'_>,
    a: &DeviceMatrix<T>,
    b: &DeviceDense<T>,
    tolerance: f64,
) -> Result<Solution> {
    let mut solver =
        BlockCg::new(a).tolerance(Tolerance::relative(tolerance)).preconditioner(Jacobi::new(a)?).assume_symmetric();
    let mut x = session.device.zeros_dense((b.nrows(), b.ncols()))?;
    let mut infos = vec![];
    let time_us = wall_times(session, || {
        x.elements_mut().fill(T::default())?;
        infos = solver.solve(b, &mut x)?;
        Ok(())
    })?;
    Ok(Solution::of(time_us, &infos))
}

fn one_by_one<T: Scalar>(
    session: &Session<'_>,
    a: &DeviceMatrix<T>,
    b: &DeviceDense<T>,
    tolerance: f64,
) -> Result<Solution> {
    let mut solver =
        Cg::new(a).tolerance(Tolerance::relative(tolerance)).preconditioner(Jacobi::new(a)?).assume_symmetric();
    let n = b.nrows();
    let column = |j| {
        let mut column = session.device.zeros_dense((n, 1))?;
        column.assign(b.columns(j..=j)?)?;
        Ok(column.into_vec())
    };
    let columns = (0..b.ncols()).map(column).collect::<Result<Vec<_>>>()?;
    let mut x = session.device.zeros(n)?;
    let mut infos = vec![];
    let time_us = wall_times(session, || {
        infos.clear();
        for b in &columns {
            x.fill(T::default())?;
            infos.push(solver.solve(b, &mut x)?);
        }
        Ok(())
    })?;
    Ok(Solution::of(time_us, &infos))
}

/// Fails where the block does not converge.
fn check(report: &Report<System>) -> std::result::Result<(), String> {
    match report.results.iter().find(|system| !system.block.converged) {
        Some(System { name, dtype, columns, block, .. }) => Err(format!(
            "{name} {dtype}, {columns} columns: not converged, a relative residual is {:.1e}",
            block.relative_residual
        )),
        None => Ok(()),
    }
}

fn markdown(report: &Report<System>) -> String {
    let ms = |spread: &Spread| format!("{:.2}", 1e-3 * spread.median);
    let per_iteration =
        |solution: &Solution| format!("{:.1}", solution.time_us.median / solution.iterations.max(1) as f64);
    let row = |system: &System| {
        let System { block, one_by_one, .. } = system;
        vec![
            system.name.clone(),
            system.dtype.to_string(),
            system.columns.to_string(),
            ms(&block.time_us),
            block.iterations.to_string(),
            per_iteration(block),
            ms(&one_by_one.time_us),
            one_by_one.iterations.to_string(),
            format!("{:.1e}", block.relative_residual.max(one_by_one.relative_residual)),
            table::short(system.ratio),
        ]
    };
    let header = [
        "<system",
        "<type",
        "columns",
        "block, ms",
        "iterations",
        "iteration, us",
        "one by one, ms",
        "iterations",
        "residual",
        "ratio",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    format!("{}\n\n{}\n\n{}", report.machine.model, report.method.text, table::markdown(&header, &rows))
}
