//! `warpsparse-bench spmm`.

mod report;

use clap::Args;
use measure::{DTypeName, DenseProblem, DenseProblems, DenseReport, MAX_COLUMNS, MatrixReport, Measurement, Outcome};
use warpsparse::{
    BlockSize, DeviceMatrix, DeviceVec, Error, FormatChoice, Result, SpmmOptions, SpmvOptions, io::MatrixSource,
};

use self::report::{Measured, ProductResult};
use super::{
    baselines::{Baseline, Number},
    report::Finished,
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
    /// Columns of the dense matrices.
    #[arg(short, value_delimiter = ',', default_value = "16,32,64,128,256",
        value_parser = clap::value_parser!(u32).range(1..=MAX_COLUMNS))]
    n: Vec<u32>,
    /// Measure the kernel chosen by timing too.
    #[arg(long)]
    autotune: bool,
    /// Measure the product in BSR too, where the matrix has blocks.
    #[arg(long)]
    bsr: bool,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.spmm",
    version: 2,
    baselines: Baseline::SPARSE,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "C = 1 A B + 0 C, with n columns in B and C, which are row-major",
    figures: "On the CPU, where so many products would take more than 0.15 s, fewer are timed, but at least 3. \
        GB/s count the bytes that must move at least: values, column indices and row offsets once, B and C once. GFLOP/s \
        count two operations for each entry and column of B. Errors are relative to the product in f64, in the 2-norm; of \
        large products they are those of rows from everywhere, the longest one among them. Ratios are another library's \
        time over that of the automatically chosen kernel: above 1 that library is slower. Of a library that multiplies by \
        several algorithms, figures are the fastest one's, which is named; those of cuSPARSE are preprocessed, on the matrix in CSR and in COO, \
        and in each format only those are measured in full that come within 1.5 times the fastest one's time in a trial (the least of 3 \
        products on one set of buffers). A product in BSR is one of blocks that hold at most a quarter as many zeros as entries; its bytes are those of BSR.",
};

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let report = options.settings.run(&BENCHMARK, Suite::Dense, |session, source, dtype| match dtype {
        DTypeName::F32 => measure_matrix::<f32>(options, session, source, dtype),
        DTypeName::F64 => measure_matrix::<f64>(options, session, source, dtype),
    })?;
    Ok(Finished::new(&report, report.to_string(), report.check())?)
}

fn measure_matrix<T: Number>(
    options: &Options,
    session: &mut Session<'_>,
    source: &MatrixSource,
    dtype: DTypeName,
) -> Result<Vec<ProductResult>> {
    let widest = options.n.iter().max().map_or(0, |&n| n as usize);
    let problems = session.load(|| DenseProblems::<T>::load(source, widest))?;
    let matrix = MatrixReport::new(source, &problems.matrix.structure());
    let (mut on_device, mut results) = (Vec::new(), Vec::new());
    for &n in &options.n {
        let problem = problems.with_cols(n as usize)?;
        let name = suite::name(source);
        let label = format!("{name} {dtype}, n = {n}");
        match measure_product(session, &problem, &mut on_device, options, &label) {
            Ok(measured) => results.push(ProductResult { name, matrix: matrix.clone(), dtype, n, measured }),
            // Narrower ones may fit.
            Err(error @ Error::OutOfMemory { .. }) => session.skip(label, error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(results)
}

fn measure_product<T: Number>(
    session: &mut Session<'_>,
    problem: &DenseProblem<'_, T>,
    on_device: &mut Vec<DeviceMatrix<T>>,
    options: &Options,
    label: &str,
) -> Result<Measured> {
    let least = if session.device.is_cuda() { usize::MAX } else { 3 };
    let measurement = session.measurement_from(least, problem)?;
    let mut dense = Vec::new();
    let chosen = measurement.product(on_device, &mut dense, &SpmmOptions::default())?;
    let autotuned =
        options.autotune.then(|| measurement.product(on_device, &mut dense, &SpmmOptions::default().autotune()));
    let autotuned = autotuned.transpose()?;
    let blocks = if options.bsr { problem.matrix.blocks() } else { None };
    let bsr = blocks.map(|blocks| product_in_bsr(&measurement, blocks.size, &mut dense)).transpose()?;
    let baselines = session.baselines.clone();
    let baselines = session.measure_baselines(
        &baselines,
        |baseline| baseline.dense_runs(&measurement),
        &chosen.product.figures.timing,
        label,
    );
    Ok(Measured { chosen, autotuned, bsr, baselines })
}

/// In blocks of this size.
fn product_in_bsr<T: Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
    size: usize,
    dense: &mut Vec<DeviceVec<T>>,
) -> Result<DenseReport> {
    let (problem, mut matrices) = (measurement.problem, Vec::new());
    let options = SpmvOptions::default().format(FormatChoice::Bsr(BlockSize::Fixed(size)));
    measurement.fill(&mut matrices, || measurement.device.upload_with(problem.matrix, &options))?;
    let mut report = measurement.product(&mut matrices, dense, &SpmmOptions::default())?;
    let bytes = matrices[0].spmm_bytes(problem.cols);
    let of_csr = bytes as f64 / problem.bytes as f64;
    report.product.bytes = bytes;
    report.product.figures.gb_per_s *= of_csr;
    report.product.figures.percent_of_copy *= of_csr;
    Ok(report)
}
