//! `warpsparse gemm`: computes, times and checks one product of dense matrices.

use std::fmt;

use clap::Args;
use measure::{Cache, DTypeName, Figures, GemmProblem, GemmReport, Measurement, Outcome, ProductReport, Shape, emit};
use serde::Serialize;
use warpsparse::{Device, GemmOptions, Result, Scalar};

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rows of A and C.
    #[arg(short, value_parser = clap::value_parser!(u32).range(1..=Shape::MAX))]
    m: u32,
    /// Number of columns of B and C.
    #[arg(short, value_parser = clap::value_parser!(u32).range(1..=Shape::MAX))]
    n: u32,
    /// Number of columns of A and rows of B.
    #[arg(short, value_parser = clap::value_parser!(u32).range(1..=Shape::MAX))]
    k: u32,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// The element type.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DTypeName,
    /// Rows and columns of C per thread block, such as 128x64 [default: chosen by the sizes].
    #[arg(long, value_name = "RxC", value_parser = parse_tile)]
    tile: Option<(u32, u32)>,
    /// Thread blocks that split the sums of a tile [default: chosen by the sizes].
    #[arg(long)]
    split_k: Option<u32>,
    /// Use the tensor cores, or do not [default: for large products in f64, where they are fast, and not in f32].
    #[arg(long, value_name = "BOOL")]
    tensor_cores: Option<bool>,
    /// Time every tile, and use the fastest.
    #[arg(long, conflicts_with_all = ["tile", "split_k", "tensor_cores"])]
    autotune: bool,
    /// Use the transpose of a row-major matrix as A.
    #[arg(long)]
    transpose_a: bool,
    /// Use the transpose of a row-major matrix as B.
    #[arg(long)]
    transpose_b: bool,
    /// Number of samples to time: replays of a CUDA graph on a GPU, single products elsewhere.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    #[serde(flatten)]
    shape: Shape,
    transpose_a: bool,
    transpose_b: bool,
    device: String,
    dtype: DTypeName,
    /// The bandwidth of a large copy on the device in bytes per second, counting bytes read and written.
    copy_gb_per_s: f64,
    #[serde(flatten)]
    product: GemmReport,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let device = Device::from_name(&options.device)?;
    let report = match options.dtype {
        DTypeName::F32 => measure::<f32>(options, &device)?,
        DTypeName::F64 => measure::<f64>(options, &device)?,
    };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })?;
    Ok(report.product.product.check()?)
}

/// Parses two numbers such as `128x64`.
fn parse_tile(text: &str) -> std::result::Result<(u32, u32), String> {
    let numbers = text.split_once('x').and_then(|(rows, cols)| Some((rows.parse().ok()?, cols.parse().ok()?)));
    numbers.ok_or_else(|| "a tile has the form 128x64: rows x columns".into())
}

fn measure<T: Scalar>(options: &Options, device: &Device) -> Result<Report> {
    let &Options { m, n, k, transpose_a, transpose_b, repeat, .. } = options;
    let (shape, repeats) = (Shape { m, n, k }, repeat as usize);
    let problem = GemmProblem::<T>::random(shape, transpose_a, transpose_b)?;
    let copy_bandwidth = device.measure_copy_bandwidth()?;
    let measurement = Measurement::new(device, &problem, Cache::Cold, repeats..=repeats, copy_bandwidth)?;
    let uploaded = measurement.upload()?;
    let gemm_options = match options.autotune {
        true => measurement.fastest(&uploaded)?,
        false => {
            let mut forced = GemmOptions::default();
            (forced.tile, forced.split_k, forced.tensor_cores) = (options.tile, options.split_k, options.tensor_cores);
            forced
        }
    };
    let product = measurement.product(&uploaded, &gemm_options)?;
    Ok(Report {
        schema: "warpsparse.gemm",
        version: 2,
        shape,
        transpose_a,
        transpose_b,
        device: device.describe(),
        dtype: options.dtype,
        copy_gb_per_s: copy_bandwidth / 1e9,
        product,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { shape: Shape { m, n, k }, ref device, dtype, copy_gb_per_s, .. } = self;
        let GemmReport { product, tflop_per_s, percent_of_peak, repeats, checked_elements } = &self.product;
        let ProductReport { kernel, reason, figures, .. } = product;
        let Figures { timing, relative_error, .. } = figures;
        let operand = |rows, cols, is_transposed| match is_transposed {
            false => format!("{rows} x {cols}, row-major"),
            true => format!("{rows} x {cols}, the transpose of a row-major matrix"),
        };
        writeln!(f, "A          {}", operand(m, k, self.transpose_a))?;
        writeln!(f, "B          {}", operand(k, n, self.transpose_b))?;
        writeln!(f, "C          {m} x {n}, row-major; all {dtype}")?;
        writeln!(f, "device     {device}")?;
        writeln!(f, "           copies {copy_gb_per_s:.0} GB/s")?;
        writeln!(f, "kernel     {kernel}")?;
        writeln!(f, "           {reason}")?;
        writeln!(f, "time       {}", timing.describe(*repeats))?;
        writeln!(f, "           {}", product.buffers())?;
        write!(f, "speed      {tflop_per_s:.3} TFLOP/s")?;
        match percent_of_peak {
            Some(percent) => writeln!(f, ", {percent:.1}% of the FP32 peak")?,
            None => writeln!(f)?,
        }
        write!(f, "error      {relative_error:.1e} relative to the product in f64")?;
        match *checked_elements as u64 == u64::from(m) * u64::from(n) {
            true => writeln!(f),
            false => writeln!(f, ", in {checked_elements} of its elements from everywhere"),
        }
    }
}
