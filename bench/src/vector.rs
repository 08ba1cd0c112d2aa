//! `warpsparse-bench vector`.

mod problem;
mod report;

use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::{DTypeName, Outcome};
use warpsparse::Result;

pub(crate) use self::problem::{ALPHA, Operation, SCALE, VectorProblem, VectorSets, Vectors};
use self::report::VectorResult;
use super::{
    baselines::{Baseline, Number},
    report::Finished,
    session::{Benchmark, Case, Conditions, Session, parse_limit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Elements of the vectors [default: 2^10, 2^14, 2^17, 2^20, 2^24 and 2^27]
    #[arg(short, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    n: Vec<u32>,
    /// Only these operations.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "OPERATIONS")]
    operation: Vec<Operation>,
    /// Time fewer samples of an operation if together they would take longer than this, and just one if a single call does.
    #[arg(long, default_value = "0.05", value_name = "SECONDS", value_parser = parse_limit)]
    limit: Duration,
    #[command(flatten)]
    pub(super) conditions: Conditions,
}

/// Lengths measured unless others are named: from what a launch takes to what memory takes.
const LENGTHS: [u32; 6] = [1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 24, 1 << 27];

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.vector",
    version: 1,
    baselines: Baseline::VECTOR,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "Operations on vectors x, y and z of n random elements, which write y or a number on the device",
    figures: "GB/s count the elements that must be read and written, each once. Errors are those of the first call, relative to its result \
        in f64, in the 2-norm; of long vectors they are those of elements from everywhere, and of sums over all. Ratios are cuBLAS's time \
        over ours: above 1 cuBLAS is slower. It has functions for axpy, scale (scal), assign (copy), dot and norm2 (nrm2), whose results stay \
        on the device as ours do.",
};

struct Length(u32);

impl Case for Length {
    fn name(&self) -> String {
        format!("n = {}", self.0)
    }
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let limit = options.limit.as_secs_f64();
    let fewer = "fewer are timed; a call that takes that long by itself is timed once.";
    let figures = format!("If so many would take more than {limit} s, {fewer} {}", BENCHMARK.figures);
    let benchmark = Benchmark { figures: &figures, ..BENCHMARK };
    let lengths = if options.n.is_empty() { &LENGTHS[..] } else { &options.n };
    let lengths: Vec<Length> = lengths.iter().copied().map(Length).collect();
    let report = options.conditions.run(&benchmark, &lengths, |session, &Length(n), dtype| match dtype {
        DTypeName::F32 => options.measure::<f32>(session, n, dtype),
        DTypeName::F64 => options.measure::<f64>(session, n, dtype),
    })?;
    Ok(Finished::new(&report, report.to_string(), report.check())?)
}

impl Options {
    fn operations(&self) -> &[Operation] {
        if self.operation.is_empty() { Operation::value_variants() } else { &self.operation }
    }

    fn measure<T: Number>(&self, session: &mut Session<'_>, n: u32, dtype: DTypeName) -> Result<Vec<VectorResult>> {
        let vectors = Vectors::<T>::random(n as usize)?;
        let mut on_device = VectorSets::new(session.device)?;
        let mut results = Vec::new();
        for &operation in self.operations() {
            let problem = vectors.problem(operation)?;
            let measurement = session.measurement_from(1, &problem)?.limit(self.limit);
            let chosen = VectorProblem::measure(&measurement, &mut on_device)?;
            let name = operation.name();
            let baselines: Vec<Baseline> =
                session.baselines.iter().copied().filter(|baseline| baseline.has(operation)).collect();
            let baselines = session.measure_baselines(
                &baselines,
                |baseline| baseline.vector_runs(&measurement),
                &chosen.figures.timing,
                &format!("{name} {dtype}, n = {n}"),
            );
            results.push(VectorResult { name, n, dtype, operation, chosen, baselines });
        }
        Ok(results)
    }
}
