//! `warpsparse spmm`: computes, times and checks one sparse-dense product or reduction.

use std::fmt;

use clap::{Args, ValueEnum};
use measure::{
    Cache, DTypeName, DenseProblems, DenseReport, Figures, MAX_COLUMNS, MatrixReport, Measurement, Outcome,
    ProductReport, Ranks, Reduction, TransportName, emit,
};
use serde::Serialize;
use warpsparse::{Device, Reduce, Result, Scalar, SpmmOptions, Weights, io::MatrixSource};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    /// Number of columns of the dense matrix, 1 to 65536.
    #[arg(short, value_parser = clap::value_parser!(u32).range(1..=MAX_COLUMNS))]
    n: u32,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// Multiply over several devices, a rank on each: see `warpsparse solve --help`.
    #[arg(long, value_name = "DEVICES", conflicts_with_all = ["device", "reduce", "tile", "split_threshold", "autotune"])]
    devices: Option<String>,
    /// How data goes from device to device with --devices.
    #[arg(long, value_enum, default_value = "auto", requires = "devices")]
    transport: TransportName,
    /// The element type.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DTypeName,
    /// Compute this reduction over the neighbours of each vertex instead of the product, as graph neural networks do.
    #[arg(long, value_enum, conflicts_with_all = ["tile", "split_threshold", "autotune"])]
    reduce: Option<ReduceName>,
    /// Use 1 as the value of every entry.
    #[arg(long, requires = "reduce")]
    unweighted: bool,
    /// GPU threads per row, and vectors of columns per thread, such as 16x2 [default: chosen by N].
    #[arg(long, value_name = "LxC", value_parser = parse_tile)]
    tile: Option<(u32, u32)>,
    /// Split rows of more entries than this into pieces, for several groups of GPU threads [default: chosen by the
    /// matrix].
    #[arg(long, value_name = "ENTRIES")]
    split_threshold: Option<u32>,
    /// Choose the kernel by timing all that match the other options.
    #[arg(long)]
    autotune: bool,
    /// Number of samples to time: replays of a CUDA graph on a GPU, single products elsewhere.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReduceName {
    Sum,
    Mean,
    Max,
    Min,
}

impl From<ReduceName> for Reduce {
    fn from(name: ReduceName) -> Self {
        match name {
            ReduceName::Sum => Self::Sum,
            ReduceName::Mean => Self::Mean,
            ReduceName::Max => Self::Max,
            ReduceName::Min => Self::Min,
        }
    }
}

fn parse_tile(text: &str) -> std::result::Result<(u32, u32), String> {
    let tile = text.split_once('x').and_then(|(lanes, vectors)| Some((lanes.parse().ok()?, vectors.parse().ok()?)));
    tile.ok_or_else(|| "a tile is lanes x vectors, such as 16x2".into())
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    matrix: MatrixReport,
    /// The number of columns of the dense matrix.
    n: u32,
    /// The reduction, if not the product.
    reduce: Option<ReduceName>,
    /// Whether every value counts as 1.
    unweighted: bool,
    device: String,
    dtype: DTypeName,
    /// The bandwidth of a large copy on the device in bytes per second, counting bytes read and written.
    copy_gb_per_s: f64,
    #[serde(flatten)]
    product: DenseReport,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let report = match options.dtype {
        DTypeName::F32 => measure::<f32>(options)?,
        DTypeName::F64 => measure::<f64>(options)?,
    };
    let Some(report) = report else { return Ok(()) };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })?;
    Ok(report.product.product.check()?)
}

/// None if this process is not the rank that reports.
fn measure<T: Scalar>(options: &Options) -> Result<Option<Report>> {
    let (cols, repeats) = (options.n as usize, options.repeat as usize);
    let load = || DenseProblems::<T>::load(&options.matrix, cols);
    let (problems, device, copy_bandwidth, product) = match &options.devices {
        None => {
            let device = Device::from_name(&options.device)?;
            let problems = load()?;
            let copy_bandwidth = device.measure_copy_bandwidth()?;
            let product = product(options, &device, &problems, copy_bandwidth)?;
            (problems, device.describe(), copy_bandwidth, product)
        }
        Some(names) => {
            let ranks = Ranks::from_name(names, options.transport)?;
            let problems = load()?;
            let problem = problems.with_cols(cols)?;
            let product = ranks.measure(repeats, |rank| rank.dense_product(&problem))?;
            let Some((copy_bandwidth, product)) = product else { return Ok(None) };
            (problems, ranks.describe(), copy_bandwidth, product)
        }
    };
    Ok(Some(Report {
        schema: "warpsparse.spmm",
        version: 2,
        matrix: MatrixReport::new(&options.matrix, &problems.matrix.structure()),
        n: options.n,
        reduce: options.reduce,
        unweighted: options.unweighted,
        device,
        dtype: options.dtype,
        copy_gb_per_s: copy_bandwidth / 1e9,
        product,
    }))
}

/// Measures on one device.
fn product<T: Scalar>(
    options: &Options,
    device: &Device,
    problems: &DenseProblems<T>,
    copy_bandwidth: f64,
) -> Result<DenseReport> {
    let (cols, repeats) = (options.n as usize, options.repeat as usize);
    let weights = if options.unweighted { Weights::Ones } else { Weights::Values };
    let problem = match options.reduce {
        Some(name) => problems.reduced(cols, Reduction { reduce: name.into(), weights })?,
        None => problems.with_cols(cols)?,
    };
    let measurement = Measurement::new(device, &problem, Cache::Cold, repeats..=repeats, copy_bandwidth)?;
    let mut forced = SpmmOptions::default();
    (forced.tile, forced.split_threshold, forced.autotune) = (options.tile, options.split_threshold, options.autotune);
    match options.reduce {
        Some(_) => measurement.reduction(),
        None => measurement.product(&mut Vec::new(), &mut Vec::new(), &forced),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matrix, n, device, copy_gb_per_s, .. } = self;
        let DenseReport { product, gflop_per_s, repeats, checked_rows } = &self.product;
        let ProductReport { kernel, reason, bytes, figures, .. } = product;
        let Figures { timing, gb_per_s, percent_of_copy, relative_error, .. } = figures;
        let megabytes = *bytes as f64 / 1e6;
        write!(f, "{matrix}")?;
        writeln!(f, "dense      {} x {n}, row-major", matrix.columns)?;
        if let Some(reduce) = self.reduce {
            let of = if self.unweighted { "rows of it, without weights" } else { "values times rows of it" };
            writeln!(f, "reduction  {} of {of}", format!("{reduce:?}").to_lowercase())?;
        }
        writeln!(f, "device     {device}")?;
        writeln!(f, "           copies {copy_gb_per_s:.0} GB/s")?;
        writeln!(f, "kernel     {kernel}")?;
        writeln!(f, "           {reason}")?;
        writeln!(f, "time       {}", timing.describe(*repeats))?;
        writeln!(f, "           {}", product.buffers())?;
        writeln!(f, "bandwidth  {gb_per_s:.1} GB/s for {megabytes:.1} MB, {percent_of_copy:.1}% of a copy")?;
        writeln!(f, "speed      {gflop_per_s:.1} GFLOP/s")?;
        let exact = match self.reduce {
            None => "the product in f64",
            Some(ReduceName::Sum | ReduceName::Mean) => "the reduction in f64",
            Some(ReduceName::Max | ReduceName::Min) => "the reduction by plain code",
        };
        write!(f, "error      {relative_error:.1e} relative to {exact}")?;
        match *checked_rows == matrix.rows {
            true => writeln!(f),
            false => writeln!(f, ", in {checked_rows} of its rows, the longest among them"),
        }
    }
}
