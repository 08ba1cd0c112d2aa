//! `warpsparse-bench formats`: the same product in every format, as in N. Bell, M. Garland: Efficient Sparse Matrix-Vector
//! Multiplication on CUDA, 2008.

mod report;

use clap::Args;
use measure::{DTypeName, FormatName, MatrixReport, Measurement, Problem};
use warpsparse::{
    BlockSize, Blocks, BsrMatrix, CsrMatrix, Device, DeviceMatrix, Error, FormatChoice, HybMatrix, Result, Scalar,
    SpmvOptions, io::MatrixSource,
};

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
    /// The formats, in addition to CSR [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    format: Vec<FormatName>,
    /// Choose the automatic format by timing.
    #[arg(long)]
    autotune: bool,
    /// Leave out how long conversions take.
    #[arg(long)]
    products_only: bool,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.formats",
    version: 2,
    baselines: Baseline::SPARSE,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "y = 1 A x + 0 y",
    figures: "GFLOP/s count two operations for each entry, padding left out. GB/s count the bytes that must move at least \
        in the format: its arrays once, padding included, x and y once. Errors are relative to the product in f64, in the \
        2-norm; products in CSR with narrow columns or packed values must have the bits of the CSR kernel with as many threads per row. \
        A format that would be mostly padding refuses the matrix, and BSR one without blocks that hold at most a quarter as many zeros as \
        entries: then its slots for each entry stand in place of figures. Ratios are another library's time over that of the format: above 1 that library is slower. Of a library \
        that multiplies by several algorithms, figures are the fastest one's; cuSPARSE's are told for each of its formats. \
        A conversion begins and ends in the host's memory. It has paid back after so many products as it takes \
        to save the time of an upload with the conversion, next to products in CSR by the automatically chosen kernel. Narrow columns and packed values \
        are made by the upload alone.",
};

/// What a matrix is converted to; all else is compared with the first.
const FORMATS: [FormatName; 9] = [
    FormatName::Csr,
    FormatName::Coo,
    FormatName::Dia,
    FormatName::Ell,
    FormatName::Hyb,
    FormatName::Narrow,
    FormatName::Packed,
    FormatName::Bsr,
    FormatName::Auto,
];

impl Options {
    fn formats(&self) -> Vec<FormatName> {
        let is_wanted = |name: &FormatName| self.format.is_empty() || self.format.contains(name);
        FORMATS.into_iter().filter(|name| *name == FormatName::Csr || is_wanted(name)).collect()
    }
}

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let report = options.settings.run(&BENCHMARK, Suite::Default, |session, source, dtype| match dtype {
        DTypeName::F32 => measure_matrix::<f32>(options, session, source, dtype),
        DTypeName::F64 => measure_matrix::<f64>(options, session, source, dtype),
    })?;
    let check = report.check().and_then(|()| report.results.iter().try_for_each(MatrixResult::check_bits));
    Ok(Finished::new(&report, report.to_string(), check)?)
}

fn measure_matrix<T: Number>(
    options: &Options,
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
        hyb: None,
        baselines: Vec::new(),
    };
    for format in options.formats() {
        let outcome = measure_format(&measurement, format, &result, options)?;
        if format == FormatName::Hyb {
            result.hyb = Some(hyb_split(&problem.matrix)?);
        }
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
    let MatrixResult { formats, baselines, .. } = &mut result;
    for format in formats {
        if let Outcome::Measured(measured) = &mut format.outcome {
            let ours = measured.product.figures.timing;
            let ratio = |it: &BaselineReport| Ratio { baseline: it.name, ratio: it.figures.timing.over(&ours) };
            measured.ratios = baselines.iter().map(ratio).collect();
        }
    }
    Ok([result])
}

/// `before` holds the results of the formats before this one.
fn measure_format<T: Scalar>(
    measurement: &Measurement<'_, Problem<T>>,
    format: FormatName,
    before: &MatrixResult,
    &Options { autotune, products_only, .. }: &Options,
) -> Result<Outcome> {
    let matrix = &measurement.problem.matrix;
    let options = SpmvOptions::default().format(format.into());
    let options = if autotune && format == FormatName::Auto { options.autotune() } else { options };
    let product = match found(matrix, &options).and_then(|options| measurement.product(&options)) {
        Ok(product) => product,
        Err(error @ Error::PaddingExceeded { slots, .. }) => {
            let slots =
                if format == FormatName::Bsr { slots } else { self::slots(matrix, format, before.matrix.max_row) };
            let slots_per_entry = slots as f64 / matrix.nnz() as f64;
            return Ok(Outcome::Refused(Refused { slots_per_entry, reason: error.to_string() }));
        }
        Err(error) => return Err(error),
    };
    let us = product.figures.us();
    let conversion = match before.in_csr() {
        Some(in_csr) if format != FormatName::Auto && !products_only => {
            Some(conversion(measurement.device, matrix, &options, in_csr.time_us.median - us)?)
        }
        _ => None,
    };
    let bits_of_csr = is_packed(&options).then(|| has_bits_of_csr(measurement, &options)).transpose()?;
    let gflop_per_s = 2e-3 * matrix.nnz() as f64 / us;
    Ok(Outcome::Measured(Box::new(Measured { product, gflop_per_s, bits_of_csr, ratios: Vec::new(), conversion })))
}

/// With the size of the blocks, so that it is not found again for each copy of the matrix.
fn found<T: Scalar>(matrix: &CsrMatrix<T>, options: &SpmvOptions) -> Result<SpmvOptions> {
    if options.format != FormatChoice::Bsr(BlockSize::Auto) {
        return Ok(options.clone());
    }
    let size = match matrix.blocks() {
        Some(blocks) => blocks.size,
        None => BsrMatrix::from_csr_with_fill(matrix, BlockSize::Auto, Blocks::MAX_FILL)?.block_size(),
    };
    Ok(options.clone().format(FormatChoice::Bsr(BlockSize::Fixed(size))))
}

fn is_packed(options: &SpmvOptions) -> bool {
    matches!(options.format, FormatChoice::Narrow | FormatChoice::Packed)
}

/// Whether the product has the bits of that in CSR by the same kernel, in as many threads per row.
fn has_bits_of_csr<T: Scalar>(measurement: &Measurement<'_, Problem<T>>, options: &SpmvOptions) -> Result<bool> {
    let Measurement { device, problem: Problem { matrix, x, .. }, .. } = measurement;
    let x = device.upload_vec(x)?;
    let product = |matrix: &DeviceMatrix<T>| -> Result<Vec<u64>> {
        let mut y = device.zeros(matrix.nrows())?;
        matrix.spmv(T::from_f64(1.0), &x, T::default(), &mut y)?;
        Ok(y.to_vec()?.into_iter().map(|y| y.to_f64().to_bits()).collect())
    };
    let packed = device.upload_with(matrix, options)?;
    let in_csr = device.upload_with(matrix, &packed.options().clone().format(FormatChoice::Csr))?;
    Ok(product(&packed)? == product(&in_csr)?)
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
    let upload_ms = |device: &Device| {
        let time = least_time(device, REPEATS, || device.upload_with(matrix, options).map(drop));
        time.map(|time| time.as_secs_f64() * 1e3)
    };
    // On the CPU an upload is a conversion and nothing else, but CSR is not packed there.
    let host_ms = (!is_packed(options)).then(|| upload_ms(&Device::cpu())).transpose()?;
    let upload_ms = upload_ms(device)?;
    let products = (saved_us > 0.0).then(|| (1e3 * upload_ms / saved_us).ceil());
    Ok(Conversion { host_ms, upload_ms, products })
}

fn hyb_split<T: Scalar>(matrix: &CsrMatrix<T>) -> Result<HybSplit> {
    let hyb = HybMatrix::try_from(matrix)?;
    Ok(HybSplit { width: hyb.ell().width(), entries_in_ell: hyb.ell().nnz(), entries_in_coo: hyb.coo().nnz() })
}
