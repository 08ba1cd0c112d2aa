//! `warpsparse spmv`: computes, times and checks one sparse matrix-vector product.

use std::fmt;

use clap::{Args, ValueEnum};
use measure::{
    Cache, DTypeName, Figures, FormatName, MatrixReport, Measurement, Outcome, Problem, ProductReport, Ranks,
    TransportName, emit,
};
use serde::Serialize;
use warpsparse::{CsrKernel, Device, Lanes, Result, Scalar, SpmvOptions, io::MatrixSource};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: gen:poisson2d:N, gen:poisson3d:N, gen:stencil27:N,
    /// gen:aniso2d:N:EPS, gen:jump3d:N:CONTRAST, gen:convdiff2d:N:PECLET, gen:convdiff3d:N:PECLET,
    /// gen:helmholtz2d:N:K, gen:stokes2d:N, gen:elasticity3d:N, gen:graphlap:FILE (the Laplacian of the graph in a Matrix Market file, plus 0.001 on the
    /// diagonal), gen:rmat:SCALE:EDGE_FACTOR, gen:uniform:ROWS:PER_ROW, gen:fem3:NODES, gen:communities:ROWS:NNZ, gen:standin:NAME (a synthetic
    /// graph of the size of a published one: arxiv, reddit and others).
    matrix: MatrixSource,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// Multiply over several devices, a rank on each: see `warpsparse solve --help`.
    #[arg(long, value_name = "DEVICES", conflicts_with_all = ["device"])]
    devices: Option<String>,
    /// How data goes from device to device with --devices.
    #[arg(long, value_enum, default_value = "auto", requires = "devices")]
    transport: TransportName,
    /// The element type.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DTypeName,
    /// The format on the device; auto is csr, or dia if a conversion pays off. narrow is csr with 16-bit columns where they fit, packed also stores
    /// few distinct values as codes.
    #[arg(long, value_enum, default_value = "csr")]
    format: FormatName,
    /// GPU threads per row of CSR: auto, 1, 2, 4, 8, 16, 32, or all for a table of all of them.
    #[arg(long, default_value = "auto", value_parser = parse_lanes)]
    lanes: LaneChoice,
    /// The family of GPU kernels for CSR.
    #[arg(long, value_enum, default_value = "auto")]
    kernel: KernelName,
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

#[derive(Clone, Copy)]
enum LaneChoice {
    One(Lanes),
    All,
}

#[derive(Clone, Copy, ValueEnum)]
enum KernelName {
    Auto,
    Vector,
    Adaptive,
}

impl From<KernelName> for CsrKernel {
    fn from(name: KernelName) -> Self {
        match name {
            KernelName::Auto => Self::Auto,
            KernelName::Vector => Self::Vector,
            KernelName::Adaptive => Self::Adaptive,
        }
    }
}

fn parse_lanes(text: &str) -> std::result::Result<LaneChoice, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(LaneChoice::One(Lanes::Auto)),
        ("all", _) => Ok(LaneChoice::All),
        (_, Ok(lanes @ (1 | 2 | 4 | 8 | 16 | 32))) => Ok(LaneChoice::One(Lanes::Fixed(lanes))),
        _ => Err("lanes are auto, all, 1, 2, 4, 8, 16 or 32".into()),
    }
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    matrix: MatrixReport,
    device: String,
    dtype: DTypeName,
    /// The bandwidth of a large copy on the device in bytes per second, counting bytes read and written.
    copy_gb_per_s: f64,
    repeats: u32,
    products: Vec<ProductReport>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let report = match options.dtype {
        DTypeName::F32 => measure::<f32>(options)?,
        DTypeName::F64 => measure::<f64>(options)?,
    };
    let Some(report) = report else { return Ok(()) };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })?;
    Ok(report.products.iter().try_for_each(ProductReport::check)?)
}

/// None if this process is not the rank that reports.
fn measure<T: Scalar>(options: &Options) -> Result<Option<Report>> {
    let choices = choices(options);
    let repeats = options.repeat as usize;
    let (problem, device, copy_bandwidth, products) = match &options.devices {
        None => {
            let device = Device::from_name(&options.device)?;
            let problem = Problem::<T>::load(&options.matrix)?;
            let copy_bandwidth = device.measure_copy_bandwidth()?;
            let measurement = Measurement::new(&device, &problem, Cache::Cold, repeats..=repeats, copy_bandwidth)?;
            let products = choices.iter().map(|choice| measurement.product(choice)).collect::<Result<_>>()?;
            (problem, device.describe(), copy_bandwidth, products)
        }
        Some(names) => {
            let ranks = Ranks::from_name(names, options.transport)?;
            let problem = Problem::<T>::load(&options.matrix)?;
            let products = ranks.measure(repeats, |rank| {
                choices.iter().map(|choice| rank.product(&problem, choice)).collect::<Result<Vec<_>>>()
            })?;
            let Some((copy_bandwidth, products)) = products else { return Ok(None) };
            (problem, ranks.describe(), copy_bandwidth, products)
        }
    };
    Ok(Some(Report {
        schema: "warpsparse.spmv",
        version: 3,
        matrix: MatrixReport::new(&options.matrix, &problem.matrix.structure()),
        device,
        dtype: options.dtype,
        copy_gb_per_s: copy_bandwidth / 1e9,
        repeats: options.repeat,
        products,
    }))
}

/// What leads to the kernels to measure.
fn choices(options: &Options) -> Vec<SpmvOptions> {
    let kernel = CsrKernel::from(options.kernel);
    let lanes = match (options.lanes, kernel) {
        (LaneChoice::One(lanes), _) => vec![lanes],
        (LaneChoice::All, CsrKernel::Adaptive) => [1, 2, 4, 8, 16].map(Lanes::Fixed).to_vec(),
        (LaneChoice::All, _) => [1, 2, 4, 8, 16, 32].map(Lanes::Fixed).to_vec(),
    };
    let choice = |lanes| {
        let forced = SpmvOptions::default().format(options.format.into()).kernel(kernel).lanes(lanes);
        if options.autotune { forced.autotune() } else { forced }
    };
    lanes.into_iter().map(choice).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.matrix)?;
        writeln!(f, "device     {}", self.device)?;
        writeln!(f, "           copies {:.0} GB/s", self.copy_gb_per_s)?;
        match self.products.as_slice() {
            [product] => self.write_one(f, product),
            _ => self.write_table(f),
        }
    }
}

impl Report {
    fn write_one(&self, f: &mut fmt::Formatter<'_>, product: &ProductReport) -> fmt::Result {
        let ProductReport { kernel, reason, bytes, figures, .. } = product;
        let Figures { timing, gb_per_s, percent_of_copy, relative_error, .. } = figures;
        let megabytes = *bytes as f64 / 1e6;
        writeln!(f, "kernel     {kernel}")?;
        writeln!(f, "           {reason}")?;
        writeln!(f, "time       {}", timing.describe(self.repeats as usize))?;
        writeln!(f, "           {}", product.buffers())?;
        writeln!(f, "bandwidth  {gb_per_s:.1} GB/s for {megabytes:.1} MB, {percent_of_copy:.1}% of a copy")?;
        writeln!(f, "error      {relative_error:.1e} relative to the product in f64")
    }

    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.products[0].figures.timing.clock.name();
        writeln!(f, "times      {clock}, medians of {}, {}", self.repeats, self.products[0].buffers())?;
        writeln!(f, "{:26} {:>9} {:>8} {:>7} {:>9}", "kernel", "µs", "GB/s", "% copy", "error")?;
        for product in &self.products {
            let ProductReport { kernel, figures, .. } = product;
            let Figures { gb_per_s, percent_of_copy, relative_error, .. } = figures;
            writeln!(
                f,
                "{kernel:26} {:>9.2} {gb_per_s:>8.0} {percent_of_copy:>7.1} {relative_error:>9.1e}",
                figures.us()
            )?;
        }
        Ok(())
    }
}
