//! `warpsparse bench spmv`.

use std::{fs, path::PathBuf, time::Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use warpsparse::{CsrKernel, Device, Lanes, Result, Scalar, SpmvOptions, io::MatrixSource};

use super::{
    html,
    report::{Analysis, Forced, Machine, MatrixResult, Method, Report, RivalReport, SCHEMA, Skipped, VERSION, Variant},
    rivals::{Number, Rival},
    suite::{self, Suite},
};
use crate::{
    Outcome, emit,
    measure::{Cache, DTypeName, MatrixReport, Measurement, Problem},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz) and generators, as for `warpsparse spmv`; a suite if there is none.
    matrices: Vec<MatrixSource>,
    /// A set of matrices, beside those named.
    #[arg(long, value_enum)]
    suite: Option<Suite>,
    /// The folder with the suite's files [default: tests/data, or else data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Libraries to compare with [default: cusparse on a GPU, the others on the CPU]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIBRARIES")]
    against: Option<Vec<Rival>>,
    /// The element type; can be repeated [default: both]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    /// auto, cpu, cuda, cuda:N, or emulated.
    #[arg(long, default_value = "auto")]
    device: String,
    /// How many products to time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(30..))]
    repeat: u32,
    /// Work on one set of buffers, which the L2 cache may hold, in place of as many as it cannot.
    #[arg(long)]
    hot: bool,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page with plots to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Every kernel that can be forced, whatever the matrix. On the CPU there is but one, which is chosen anyway.
fn candidates(device: &Device) -> Vec<(String, SpmvOptions)> {
    let named = |options: SpmvOptions| {
        let Lanes::Fixed(lanes) = options.lanes else { unreachable!("a candidate has fixed lanes") };
        (format!("{} t{lanes}", if options.kernel == CsrKernel::Vector { "vector" } else { "adaptive" }), options)
    };
    if device.to_string() == "cpu" { Vec::new() } else { SpmvOptions::candidates().into_iter().map(named).collect() }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let device = Device::from_name(&options.device)?;
    let mut sources = options.matrices.clone();
    if let Some(suite) = options.suite.or(sources.is_empty().then_some(Suite::Default)) {
        sources.extend(suite.sources(options.data.as_deref())?);
    }
    // What was named has to be there, what a suite names need not.
    if let Some(missing) = options.matrices.iter().find_map(suite::missing) {
        return Err(format!("{}: there is no such file", missing.display()).into());
    }
    let report = Bench::new(options, &device)?.run(&sources)?;

    if let Some(path) = &options.json {
        write(path, &serde_json::to_string_pretty(&report)?)?;
    }
    if let Some(path) = &options.html {
        write(path, &html::page(&report))?;
    }
    emit(&report.to_string())?;
    report.results.iter().try_for_each(|result| {
        let products = result.forced.iter().map(|forced| &forced.product);
        let check = std::iter::once(&result.chosen).chain(products).try_for_each(|product| product.check());
        check.map_err(|problem| format!("{}: {problem}", result.name).into())
    })
}

fn write(path: &PathBuf, text: &str) -> std::result::Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

struct Bench<'a> {
    device: &'a Device,
    cache: Cache,
    repeats: usize,
    dtypes: Vec<DTypeName>,
    rivals: Vec<Rival>,
    copy_bandwidth: f64,
    bar: ProgressBar,
    report: Report,
}

impl<'a> Bench<'a> {
    fn new(options: &Options, device: &'a Device) -> Result<Self> {
        let cache = if options.hot { Cache::Hot } else { Cache::Cold };
        let repeats = options.repeat as usize;
        let copy_bandwidth = device.measure_copy_bandwidth()?;
        let dtypes = [DTypeName::F32, DTypeName::F64].into_iter();
        let dtypes = dtypes.filter(|dtype| options.dtype.is_empty() || options.dtype.contains(dtype)).collect();
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template");

        let mut bench = Self {
            device,
            cache,
            repeats,
            dtypes,
            rivals: Vec::new(),
            copy_bandwidth,
            bar: ProgressBar::new(0).with_style(style),
            report: Report {
                schema: SCHEMA,
                version: VERSION,
                warpsparse: env!("CARGO_PKG_VERSION"),
                date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                machine: machine(device, copy_bandwidth)?,
                method: method(device, cache, repeats),
                results: Vec::new(),
                skipped: Vec::new(),
            },
        };
        for rival in options.against.clone().unwrap_or_else(|| Rival::defaults(device)) {
            match rival.describe(device) {
                Ok(description) => {
                    bench.rivals.push(rival);
                    bench.report.method.rivals.push(description);
                }
                Err(reason) => bench.skip(rival.name().into(), reason),
            }
        }
        Ok(bench)
    }

    fn run(mut self, sources: &[MatrixSource]) -> Result<Report> {
        self.bar.set_length((sources.len() * self.dtypes.len()) as u64);
        for source in sources {
            if let Some(path) = suite::missing(source) {
                self.skip(suite::name(source), format!("{} is not there", path.display()));
                self.bar.inc(self.dtypes.len() as u64);
                continue;
            }
            for dtype in self.dtypes.clone() {
                let measured = match dtype {
                    DTypeName::F32 => self.measure::<f32>(source, dtype),
                    DTypeName::F64 => self.measure::<f64>(source, dtype),
                };
                match measured {
                    Ok(result) => self.report.results.push(result),
                    // The others may be smaller.
                    Err(error @ warpsparse::Error::OutOfMemory { .. }) => {
                        self.skip(format!("{} {dtype}", suite::name(source)), error.to_string());
                    }
                    Err(error) => return Err(error),
                }
                self.bar.inc(1);
            }
        }
        self.bar.finish_and_clear();
        Ok(self.report)
    }

    fn measure<T: Number>(&mut self, source: &MatrixSource, dtype: DTypeName) -> Result<MatrixResult> {
        let name = suite::name(source);
        self.bar.set_message(format!("{name} {dtype}"));
        let problem: Problem<T> = self.bar.suspend(|| Problem::load(source))?;
        let measurement = Measurement::new(self.device, &problem, self.cache, self.repeats, self.copy_bandwidth)?;

        let chosen = measurement.product(&SpmvOptions::default())?;
        let mut forced: Vec<Forced> = Vec::new();
        for (name, options) in candidates(self.device) {
            forced.push(Forced { name, product: measurement.product(&options)? });
        }
        let chosen_us = chosen.figures.time_us.median;
        let analysis_us = analysis_us(self.device, &problem)?;
        let mut rivals = Vec::new();
        for rival in self.rivals.clone() {
            match measure_rival(rival, &measurement, chosen_us) {
                Ok(report) => rivals.push(report),
                Err(reason) => self.skip(format!("{} on {name} {dtype}", rival.name()), reason),
            }
        }
        Ok(MatrixResult {
            matrix: MatrixReport::new(source, &problem.matrix.structure()),
            name,
            dtype,
            bytes: problem.bytes,
            rotation: measurement.rotation,
            analysis: Analysis { time_us: analysis_us, products: analysis_us / chosen_us },
            chosen,
            forced,
            rivals,
        })
    }

    fn skip(&mut self, what: String, reason: String) {
        self.bar.suspend(|| eprintln!("skipped {what}: {reason}"));
        self.report.skipped.push(Skipped { what, reason });
    }
}

/// The fastest of a library's ways to compute the product.
fn measure_rival<T: Number>(
    rival: Rival,
    measurement: &Measurement<'_, T>,
    chosen_us: f64,
) -> std::result::Result<RivalReport, String> {
    let runs = rival.runs(measurement)?;
    let runs = runs.into_iter().map(|run| (run.variant, measurement.figures(&run.times, &run.y)));
    let runs: Vec<_> = runs.collect();
    let variant = |(variant, figures): &(String, _)| Variant { variant: variant.clone(), median_us: median(figures) };
    let variants = runs.iter().map(variant).collect();
    let fastest = runs.into_iter().min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
    let (variant, figures) = fastest.ok_or("it has no way to compute this product")?;
    let ratio = median(&figures) / chosen_us;
    Ok(RivalReport { name: rival.name(), variant, figures, ratio, variants })
}

fn median(figures: &crate::measure::Figures) -> f64 {
    figures.time_us.median
}

/// What an upload takes beyond the copy of the arrays: the least of five each, for copies from pageable memory spread
/// widely. On the CPU nothing is copied.
fn analysis_us<T: Scalar>(device: &Device, problem: &Problem<T>) -> Result<f64> {
    let matrix = &problem.matrix;
    let least_us = |operation: &dyn Fn() -> Result<()>| {
        let time = |_| {
            let start = Instant::now();
            operation()?;
            device.synchronize()?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        let times = (0..5).map(time).collect::<Result<Vec<f64>>>()?;
        Ok(times.into_iter().fold(f64::INFINITY, f64::min))
    };
    let upload = least_us(&|| device.upload_with(matrix, &SpmvOptions::default()).map(drop))?;
    if !device.is_cuda() {
        return Ok(upload);
    }
    let copy = least_us(&|| {
        let offsets = device.upload_vec(matrix.row_offsets())?;
        let columns = device.upload_vec(matrix.col_indices())?;
        let values = device.upload_vec(matrix.values())?;
        drop((offsets, columns, values));
        Ok(())
    })?;
    Ok((upload - copy).max(0.0))
}

fn machine(device: &Device, copy_bandwidth: f64) -> Result<Machine> {
    let info = device.info()?;
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    Ok(Machine {
        device: device.to_string(),
        model: info.name,
        parallel_units: info.parallel_units,
        memory_bytes: info.memory_bytes,
        l2_bytes: info.l2_bytes,
        compute_capability: info.cuda.as_ref().map(|cuda| version(cuda.compute_capability)),
        driver_cuda: info.cuda.as_ref().map(|cuda| version(cuda.driver_cuda)),
        copy_gb_per_s: copy_bandwidth / 1e9,
    })
}

fn method(device: &Device, cache: Cache, repeats: usize) -> Method {
    let clock = if device.is_cuda() { "device events between products queued back to back" } else { "wall time" };
    let (cache, buffers) = match (device.is_cuda(), cache) {
        (true, Cache::Cold) => {
            ("cold", "on up to 4096 sets of buffers in turn, as many as make four times the L2 cache")
        }
        (true, Cache::Hot) => ("hot", "on one set of buffers"),
        (false, _) => ("as it comes", "on one set of buffers"),
    };
    let text = format!(
        "Medians of {repeats} products after a warm-up, by {clock}, {buffers}; y = 1 A x + 0 y. GB/s count the bytes \
         that must move at least: values, column indices and row offsets once, x and y once. Errors are relative to \
         the product in f64, in the 2-norm. Ratios are another library's time over that of the kernel chosen by \
         itself: above 1 that library is slower."
    );
    Method { repeats, cache, rivals: Vec::new(), text }
}
