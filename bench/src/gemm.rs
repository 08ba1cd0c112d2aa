//! `warpsparse-bench gemm`.

mod report;

use std::time::Duration;

use clap::Args;
use ladders::{GemmLadder, GemmRung};
use measure::{DTypeName, GemmProblem, Measurement, Numbers, Operands, Outcome, Shape};
use warpsparse::{Error, GemmOptions, Result};

use self::report::{GemmResult, KernelReport};
use super::{
    baselines::{Baseline, Number},
    report::{Finished, Skipped},
    session::{Benchmark, Case, Conditions, Session, parse_limit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Shapes MxNxK, C being M x N and A M x K, or one size for all three [default: squares from 256 to 8192, and
    /// uneven ones; of a ladder the squares]
    shapes: Vec<Shape>,
    /// Measure every kernel, from the obvious to the best.
    #[arg(long)]
    ladder: bool,
    /// Time fewer products of a kernel if together they would take longer than this, and just one if a single product does.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = parse_limit)]
    limit: Duration,
    /// What A and B hold. Kinds other than random are meant for comparing errors.
    #[arg(long, value_enum, default_value = "random", value_name = "KIND")]
    numbers: Numbers,
    #[command(flatten)]
    pub(super) conditions: Conditions,
}

/// Squares measured unless shapes are named.
const SQUARES: [u32; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// What is measured besides, but not by a ladder: thin matrices, and sizes that no tile divides.
const UNEVEN: [Shape; 6] = [
    Shape { m: 8192, n: 8192, k: 64 },
    Shape { m: 64, n: 8192, k: 8192 },
    Shape { m: 8192, n: 64, k: 8192 },
    Shape { m: 4095, n: 4097, k: 1023 },
    Shape::square(1000),
    Shape { m: 333, n: 777, k: 555 },
];

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.gemm",
    version: 2,
    baselines: Baseline::DENSE,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "C = 1 A B + 0 C, with random A and B, all row-major without gaps",
    figures: "Shapes are m x n x k: rows and columns of C, columns of A; one number is all three. TFLOP/s count two \
        operations for each product of elements. Errors are relative to the product in f64, in the 2-norm; of large \
        products they are those of elements from everywhere. The largest and the median error of an element are over what \
        rounding can explain there. Percent of another library are its time over ours: below \
        100 that library is faster. cuBLAS multiplies by cublasSgemm or cublasDgemm and, where cuBLASLt is there, by up to 8 \
        algorithms that its heuristics propose. Only proposals that come within 1.3 times the fastest way's time in a \
        trial (the least of 3 products on one set of buffers) are measured in full. Figures are those of the \
        fastest way measured, which the report in JSON names.",
};

impl Case for Shape {
    fn name(&self) -> String {
        self.to_string()
    }
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let limit = options.limit.as_secs_f64();
    let fewer = "fewer are timed; a product that takes that long by itself is timed once.";
    let figures = format!("If so many would take more than {limit} s, {fewer} {}", BENCHMARK.figures);
    // Only the kernel on top of the ladder is for f64 too.
    let dtypes = if options.ladder { &[DTypeName::F32] } else { BENCHMARK.dtypes };
    let benchmark = Benchmark { figures: &figures, dtypes, ..BENCHMARK };
    let report = options.conditions.run(&benchmark, &options.shapes(), |session, &shape, dtype| match dtype {
        DTypeName::F32 => options.measure::<f32>(session, shape, dtype, rungs),
        DTypeName::F64 => options.measure::<f64>(session, shape, dtype, |_, _| {
            Err(Error::Unsupported("the rungs of the ladder are for f32".into()))
        }),
    })?;
    Ok(Finished::new(&report, report.markdown(options.ladder), report.check())?)
}

impl Options {
    fn shapes(&self) -> Vec<Shape> {
        if !self.shapes.is_empty() {
            return self.shapes.clone();
        }
        let mut shapes = SQUARES.map(Shape::square).to_vec();
        if !self.ladder {
            shapes.extend(UNEVEN);
        }
        shapes
    }

    /// None if no kernel takes the matrices. `rungs` measures those of a ladder.
    fn measure<T: Number>(
        &self,
        session: &mut Session<'_>,
        shape: Shape,
        dtype: DTypeName,
        rungs: impl Fn(&Measurement<'_, GemmProblem<T>>, &[Operands<T>]) -> Result<Vec<KernelReport>>,
    ) -> Result<Option<GemmResult>> {
        let problem = GemmProblem::<T>::of(self.numbers, shape, false, false)?;
        let measurement = session.measurement_from(1, &problem)?.limit(self.limit);
        let copies = measurement.upload()?;
        let label = format!("{shape} {dtype}");
        let is_cpu = session.device.to_string() == "cpu";
        let mut reports = Vec::new();
        if self.ladder && !is_cpu {
            match rungs(&measurement, &copies) {
                Ok(measured) => reports = measured,
                Err(error @ Error::Unsupported(_)) => session.skip(label.clone(), error.to_string()),
                Err(error) => return Err(error),
            }
        }
        // In f32 the tensor cores must be asked for. The default comes last: the summary is about it.
        let on_demand =
            (dtype == DTypeName::F32 && !is_cpu).then_some(("tensor-cores", GemmOptions::default().tensor_cores(true)));
        let default = (if is_cpu { "cpu" } else { "tiles" }, GemmOptions::default());
        for (name, options) in on_demand.into_iter().chain([default]) {
            match measurement.product(&copies, &options) {
                Ok(product) => reports.push(KernelReport { name: name.into(), product, ratio: None }),
                Err(error @ Error::Unsupported(_)) => session.skip(format!("{name} on {label}"), error.to_string()),
                Err(error) => return Err(error),
            }
        }
        // The other libraries have copies of their own.
        drop(copies);
        let Some(best) = reports.last().map(|report| report.product.product.figures.timing) else { return Ok(None) };
        let (baselines, mut left_out) = (session.baselines.clone(), Vec::new());
        let runs = |baseline: Baseline| baseline.gemm_runs(&measurement, &mut left_out);
        let baselines = session.measure_baselines(&baselines, runs, &best, &label);
        left_out.into_iter().for_each(|Skipped { what, reason }| session.skip(format!("{what} on {label}"), reason));
        Ok(Some(GemmResult::new(shape, dtype, reports, baselines)))
    }
}

/// Every rung, from the bottom.
fn rungs(measurement: &Measurement<'_, GemmProblem<f32>>, copies: &[Operands<f32>]) -> Result<Vec<KernelReport>> {
    let rungs = GemmRung::ALL.iter().map(|&rung| {
        let ladder = GemmLadder::new(measurement.device, rung)?;
        let (rows, cols) = rung.tile();
        let kernel = (ladder.name().to_owned(), format!("a rung of the ladder, tiles of {rows} x {cols}"));
        let product = measurement.product_by(kernel, copies, |a, b, c| ladder.gemm(1.0, a, b, 0.0, c))?;
        Ok(KernelReport { name: kebab_case(&format!("{rung:?}")), product, ratio: None })
    });
    rungs.collect()
}

/// `thread-tile1d` for `ThreadTile1d`.
fn kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_in_lower_case() {
        assert_eq!(["Naive", "ThreadTile1d"].map(kebab_case), ["naive", "thread-tile1d"]);
    }
}
