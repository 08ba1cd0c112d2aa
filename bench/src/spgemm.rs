//! `warpsparse-bench spgemm`: a sparse matrix times itself.

use std::time::{Duration, Instant};

use clap::Args;
use measure::{Clock, DTypeName, Spread};
use serde::Serialize;
use warpsparse::{CsrMatrix, Device, Result, SpgemmPlan, io::MatrixSource};

use super::{
    baselines::{Baseline, Number, spgemm_runs},
    report::{Finished, Method, Report},
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
    table::{self, none},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.spgemm",
    version: 1,
    baselines: &[Baseline::Cusparse],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "C = A A, all of it sparse in CSR",
    figures: "A product includes the pattern of C, its allocation, and its values, and waits for sizes in between, so it cannot be \
        captured in a graph. Times are wall times on the host, from the call until the device is idle, for both libraries; medians after a \
        warm-up. `plan` is a product with new values on the same patterns. Of cuSPARSE's algorithms the fastest counts; ratios are its time \
        over ours: above 1 cuSPARSE is slower. Its workspace is the memory that it requests besides C. Results are compared entry by entry.",
};

/// One matrix with elements of one type.
#[derive(Serialize)]
struct Square {
    name: String,
    dtype: DTypeName,
    entries: usize,
    /// Entries of C.
    c_entries: usize,
    c_bytes: usize,
    product_us: Spread,
    plan_us: Spread,
    /// One a cuSPARSE algorithm that computes it, fastest first.
    cusparse: Vec<Rival>,
    /// Why there are none.
    refusal: Option<String>,
}

#[derive(Serialize)]
struct Rival {
    algorithm: &'static str,
    time_us: Spread,
    workspace_bytes: usize,
    /// The largest difference of an entry from ours, relative to the larger of the two; infinite if patterns differ.
    difference: f64,
}

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let mut report = options.settings.run(&BENCHMARK, Suite::Squares, |session, source, dtype| match dtype {
        DTypeName::F32 => square::<f32>(session, source, dtype),
        DTypeName::F64 => square::<f64>(session, source, dtype),
    })?;
    let repeats = report.method.repeats;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {} There are {repeats} repeats.", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

fn square<T: Number>(session: &mut Session<'_>, source: &MatrixSource, dtype: DTypeName) -> Result<[Square; 1]> {
    let (device, repeats) = (session.device, session.repeats());
    let matrix = session.load(|| source.load::<T>())?.canonical();
    let a = device.upload(&matrix)?;
    let product_us = times(device, repeats, || a.multiply(&a).map(drop))?;
    let plan = SpgemmPlan::new(&a, &a)?;
    let mut c = plan.multiply(&a, &a)?;
    let plan_us = times(device, repeats, || plan.compute(&a, &a, &mut c))?;
    let ours = c.download()?.into_csr()?;
    drop((plan, c, a));
    let (mut cusparse, mut refusal) = (Vec::new(), None);
    if !session.baselines.is_empty() {
        match spgemm_runs(device, (&matrix, &matrix), repeats) {
            Ok(runs) => {
                cusparse.extend(runs.into_iter().map(|run| Rival {
                    algorithm: run.algorithm,
                    time_us: Spread::of(&run.times),
                    workspace_bytes: run.workspace,
                    difference: difference(&ours, &run.product.canonical()),
                }));
                cusparse.sort_by(|a, b| a.time_us.median.total_cmp(&b.time_us.median));
            }
            Err(problem) => refusal = Some(problem),
        }
    }
    Ok([Square {
        name: suite::name(source),
        dtype,
        entries: matrix.nnz(),
        c_entries: ours.nnz(),
        c_bytes: ours.nnz() * (4 + size_of::<T>()) + 4 * (ours.nrows() + 1),
        product_us,
        plan_us,
        cusparse,
        refusal,
    }])
}

fn times(device: &Device, repeats: usize, mut operation: impl FnMut() -> Result<()>) -> Result<Spread> {
    operation()?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..repeats {
        device.synchronize()?;
        let begin = Instant::now();
        operation()?;
        device.synchronize()?;
        times.push(begin.elapsed());
    }
    Ok(Spread::of(&times))
}

/// Relative to the larger of two entries, the largest of the differences.
fn difference<T: Number>(a: &CsrMatrix<T>, b: &CsrMatrix<T>) -> f64 {
    if (a.row_offsets(), a.col_indices()) != (b.row_offsets(), b.col_indices()) {
        return f64::INFINITY;
    }
    let pairs = a.values().iter().zip(b.values()).map(|(a, b)| (a.to_f64(), b.to_f64()));
    pairs.filter(|(a, b)| a != b).map(|(a, b)| (a - b).abs() / a.abs().max(b.abs())).fold(0.0, f64::max)
}

/// Fails where the pattern of C is another than cuSPARSE's.
fn check(report: &Report<Square>) -> std::result::Result<(), String> {
    for square in &report.results {
        if let Some(rival) = square.cusparse.iter().find(|rival| rival.difference.is_infinite()) {
            return Err(format!(
                "{} {}: another pattern than by cuSPARSE's {}",
                square.name, square.dtype, rival.algorithm
            ));
        }
    }
    Ok(())
}

fn markdown(report: &Report<Square>) -> String {
    let row = |square: &Square| {
        let us = |spread: &Spread| format!("{:.0}", spread.median);
        let best = square.cusparse.first();
        let ratio = |ours: &Spread| best.map_or_else(none, |best| format!("{:.2}", best.time_us.median / ours.median));
        let megabytes = |bytes: usize| format!("{:.1}", bytes as f64 / 1e6);
        vec![
            square.name.clone(),
            square.dtype.to_string(),
            square.entries.to_string(),
            square.c_entries.to_string(),
            us(&square.product_us),
            us(&square.plan_us),
            best.map_or_else(none, |best| best.algorithm.to_owned()),
            best.map_or_else(none, |best| us(&best.time_us)),
            ratio(&square.product_us),
            ratio(&square.plan_us),
            megabytes(square.c_bytes),
            best.map_or_else(none, |best| megabytes(best.workspace_bytes)),
        ]
    };
    let header = [
        "<A",
        "<type",
        "entries",
        "entries of C",
        "µs",
        "plan, µs",
        "<cuSPARSE",
        "µs",
        "ratio",
        "ratio, plan",
        "C, MB",
        "its workspace, MB",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    format!("{}\n\n{}\n\n{}", report.machine.model, report.method.text, table::markdown(&header, &rows))
}
