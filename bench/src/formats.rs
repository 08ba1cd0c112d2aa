//! `warpsparse-bench formats`: the same product in every format, as in N. Bell, M. Garland: Efficient Sparse Matrix-Vector
//! Multiplication on CUDA, 2008.

mod report;

use clap::Args;
use measure::{DTypeName, FormatName, MatrixReport, Measurement, Problem};
use warpsparse::{CsrMatrix, Device, Error, HybMatrix, Result, Scalar, SpmvOptions, io::MatrixSource};

use self::report::{Conversion, FormatResult, HybSplit, MatrixResult, Measured, Outcome, Ratio, Refused};
use super::{
    baselines::{Baseline, Number},
    report::{BaselineReport, Finished},
    session::{Benchmark, Session, Settings, least_time},
    suite::{self, Suite},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.formats",
    version: 2,
    baselines: Baseline::SPARSE,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "y = 1 A x + 0 y",
    figures: "GFLOP/s count two operations for each entry, padding left out. GB/s count the bytes that must move at least \
        in the format: its arrays once, padding included, x and y once. Errors are relative to the product in f64, in the \
        2-norm. A format that would be mostly padding refuses the matrix: then its slots for each entry stand in place of \
        figures. Ratios are another library's time over that of the format: above 1 that library is slower. Of a library \
        that multiplies by several algorithms, figures are the fastest one's; cuSPARSE's are told for each of its formats. A conversion begins and ends in the host's memory. It has paid back after so many products as it takes \
        to save the time of an upload with the conversion, next to products in CSR by the automatically chosen kernel.",
};

/// What a matrix is converted to; all else is compared with the first.
const FORMATS: [FormatName; 6] =
    [FormatName::Csr, FormatName::Coo, FormatName::Dia, FormatName::Ell, FormatName::Hyb, FormatName::Auto];

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let report = options.settings.run(&BENCHMARK, Suite::Default, |session, source, dtype| match dtype {
        DTypeName::F32 => measure_matrix::<f32>(session, source, dtype),
        DTypeName::F64 => measure_matrix::<f64>(session, source, dtype),
    })?;
    Ok(Finished::new(&report, report.to_string(), report.check())?)
}

fn measure_matrix<T: Number>(
    session: &mut Session<'_>,
    source: &MatrixSource,
    dtype: DTypeName,
) -> Result<[MatrixResult; 1]> {
    let name = suite::name(source);
    let problem = session.load(|| Problem::<T>::load(source))?;
    let measurement = session.measurement(&problem)?;
    let mut result = MatrixResult {
        matrix: MatrixReport::new(source, &problem.matrix.structure()),
        name: name.clone(),
        dtype,
        formats: Vec::new(),
        hyb: hyb_split(&problem.matrix)?,
        baselines: Vec::new(),
    };
    for format in FORMATS {
        let outcome = measure_format(&measurement, format, &result)?;
        result.formats.push(FormatResult { format, outcome });
    }
    let baselines: Vec<_> = session.baselines.iter().flat_map(|baseline| baseline.in_every_format()).collect();
    let in_csr = result.in_csr().expect("CSR refuses no matrix");
    result.baselines = session.measure_baselines(
        &baselines,
        |baseline| baseline.runs(&measurement),
        &in_csr,
        &format!("{name} {dtype}"),
    );
    for format in &mut result.formats {
        if let Outcome::Measured(measured) = &mut format.outcome {
            let ours = measured.product.figures.timing;
            let ratio = |baseline: &BaselineReport| baseline.figures.timing.over(&ours);
            measured.ratios = result
                .baselines
                .iter()
                .map(|baseline| Ratio { baseline: baseline.name, ratio: ratio(baseline) })
                .collect();
        }
    }
    Ok([result])
}

/// `before` holds the results of the formats before this one.
fn measure_format<T: Scalar>(
    measurement: &Measurement<'_, Problem<T>>,
    format: FormatName,
    before: &MatrixResult,
) -> Result<Outcome> {
    let matrix = &measurement.problem.matrix;
    let options = SpmvOptions::default().format(format.into());
    let product = match measurement.product(&options) {
        Ok(product) => product,
        Err(error @ Error::PaddingExceeded { .. }) => {
            let slots_per_entry = slots(matrix, format, before.matrix.max_row) as f64 / matrix.nnz() as f64;
            return Ok(Outcome::Refused(Refused { slots_per_entry, reason: error.to_string() }));
        }
        Err(error) => return Err(error),
    };
    let us = product.figures.us();
    let conversion = match before.in_csr() {
        Some(in_csr) if format != FormatName::Auto => {
            Some(conversion(measurement.device, matrix, &options, in_csr.time_us.median - us)?)
        }
        _ => None,
    };
    let gflop_per_s = 2e-3 * matrix.nnz() as f64 / us;
    Ok(Outcome::Measured(Box::new(Measured { product, gflop_per_s, ratios: Vec::new(), conversion })))
}

/// What a format that pads would take for the rows of this matrix.
fn slots<T: Scalar>(matrix: &CsrMatrix<T>, format: FormatName, max_row: usize) -> usize {
    let columns = match format {
        FormatName::Dia => {
            let mut seen = vec![false; matrix.nrows() + matrix.ncols()];
            matrix.triplets().for_each(|(i, j, _)| seen[matrix.nrows() - i + j] = true);
            seen.into_iter().filter(|&seen| seen).count()
        }
        _ => max_row,
    };
    columns * matrix.nrows()
}

/// A product in the format saves `saved_us` against one in CSR.
fn conversion<T: Scalar>(
    device: &Device,
    matrix: &CsrMatrix<T>,
    options: &SpmvOptions,
    saved_us: f64,
) -> Result<Conversion> {
    /// Conversions each.
    const REPEATS: usize = 3;
    // On the CPU an upload is a conversion and nothing else.
    let cpu = Device::cpu();
    let on_host = least_time(&cpu, REPEATS, || cpu.upload_with(matrix, options).map(drop))?;
    let upload = least_time(device, REPEATS, || device.upload_with(matrix, options).map(drop))?;
    let [host_ms, upload_ms] = [on_host, upload].map(|time| time.as_secs_f64() * 1e3);
    let products = (saved_us > 0.0).then(|| (1e3 * upload_ms / saved_us).ceil());
    Ok(Conversion { host_ms, upload_ms, products })
}

fn hyb_split<T: Scalar>(matrix: &CsrMatrix<T>) -> Result<HybSplit> {
    let hyb = HybMatrix::try_from(matrix)?;
    Ok(HybSplit { width: hyb.ell().width(), entries_in_ell: hyb.ell().nnz(), entries_in_coo: hyb.coo().nnz() })
}
