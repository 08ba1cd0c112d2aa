//! What the benchmarks share: their options, the way over matrices and element types, the other libraries.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use warpsparse::{Device, Error, Result, Scalar, io::MatrixSource};

use super::{
    report::{Machine, Method, Report, RivalReport, Skipped, Variant},
    rivals::{Number, Rival},
    suite::{self, Suite},
};
use crate::measure::{Cache, DTypeName, Figures, Measurement, Problem};

// No documentation here: it would take the place of the subcommand's.
#[derive(Args)]
pub(crate) struct Settings {
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
}

/// Which benchmark it is.
pub(crate) struct Benchmark {
    pub(crate) schema: &'static str,
    pub(crate) version: u64,
    /// What its figures mean, in words.
    pub(crate) figures: &'static str,
}

/// A benchmark on its way.
pub(crate) struct Session<'a> {
    pub(crate) device: &'a Device,
    pub(crate) rivals: Vec<Rival>,
    cache: Cache,
    repeats: usize,
    copy_bandwidth: f64,
    bar: ProgressBar,
    skipped: Vec<Skipped>,
}

impl Settings {
    /// Calls `measure` for every matrix with elements of every type, and makes a report of its results.
    pub(crate) fn run<R>(
        &self,
        benchmark: &Benchmark,
        mut measure: impl FnMut(&mut Session<'_>, &MatrixSource, DTypeName) -> Result<R>,
    ) -> std::result::Result<Report<R>, Box<dyn std::error::Error>> {
        let device = &Device::from_name(&self.device)?;
        let sources = self.sources()?;
        let dtypes = [DTypeName::F32, DTypeName::F64].into_iter();
        let dtypes: Vec<_> = dtypes.filter(|dtype| self.dtype.is_empty() || self.dtype.contains(dtype)).collect();
        let mut session = Session::new(self, device)?;
        let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let method = session.method(self, benchmark);

        let mut results = Vec::new();
        session.bar.set_length((sources.len() * dtypes.len()) as u64);
        for source in &sources {
            let name = suite::name(source);
            if let Some(path) = suite::missing(source) {
                session.skip(name, format!("{} is not there", path.display()));
                session.bar.inc(dtypes.len() as u64);
                continue;
            }
            for &dtype in &dtypes {
                session.bar.set_message(format!("{name} {dtype}"));
                match measure(&mut session, source, dtype) {
                    Ok(result) => results.push(result),
                    // The others may be smaller.
                    Err(error @ Error::OutOfMemory { .. }) => {
                        session.skip(format!("{name} {dtype}"), error.to_string());
                    }
                    Err(error) => return Err(error.into()),
                }
                session.bar.inc(1);
            }
        }
        session.bar.finish_and_clear();
        Ok(Report {
            schema: benchmark.schema,
            version: benchmark.version,
            warpsparse: env!("CARGO_PKG_VERSION"),
            date,
            machine: machine(device, session.copy_bandwidth)?,
            method,
            results,
            skipped: session.skipped,
        })
    }

    fn sources(&self) -> std::result::Result<Vec<MatrixSource>, Box<dyn std::error::Error>> {
        let mut sources = self.matrices.clone();
        if let Some(suite) = self.suite.or(sources.is_empty().then_some(Suite::Default)) {
            sources.extend(suite.sources(self.data.as_deref())?);
        }
        // What was named has to be there, what a suite names need not.
        if let Some(missing) = self.matrices.iter().find_map(suite::missing) {
            return Err(format!("{}: there is no such file", missing.display()).into());
        }
        Ok(sources)
    }

    /// Writes the report to the file for JSON, if there is one.
    pub(crate) fn write_json(&self, report: &impl Serialize) -> std::result::Result<(), Box<dyn std::error::Error>> {
        match &self.json {
            Some(path) => Ok(write(path, &serde_json::to_string_pretty(report)?)?),
            None => Ok(()),
        }
    }
}

pub(crate) fn write(path: &Path, text: &str) -> std::result::Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl<'a> Session<'a> {
    fn new(settings: &Settings, device: &'a Device) -> Result<Self> {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template");
        Ok(Self {
            device,
            rivals: Vec::new(),
            cache: if settings.hot { Cache::Hot } else { Cache::Cold },
            repeats: settings.repeat as usize,
            copy_bandwidth: device.measure_copy_bandwidth()?,
            bar: ProgressBar::new(0).with_style(style),
            skipped: Vec::new(),
        })
    }

    /// The method in words; finds out which rivals are there.
    fn method(&mut self, settings: &Settings, benchmark: &Benchmark) -> Method {
        let mut rivals = Vec::new();
        for rival in settings.against.clone().unwrap_or_else(|| Rival::defaults(self.device)) {
            match rival.describe(self.device) {
                Ok(description) => {
                    self.rivals.push(rival);
                    rivals.push(description);
                }
                Err(reason) => self.skip(rival.name().into(), reason),
            }
        }
        let Self { device, cache, repeats, .. } = *self;
        let clock = if device.is_cuda() { "device events between products queued back to back" } else { "wall time" };
        let (cache, buffers) = match (device.is_cuda(), cache) {
            (true, Cache::Cold) => {
                ("cold", "on up to 4096 sets of buffers in turn, as many as make four times the L2 cache")
            }
            (true, Cache::Hot) => ("hot", "on one set of buffers"),
            (false, _) => ("as it comes", "on one set of buffers"),
        };
        let figures = benchmark.figures;
        let text =
            format!("Medians of {repeats} products after a warm-up, by {clock}, {buffers}; y = 1 A x + 0 y. {figures}");
        Method { repeats, cache, rivals, text }
    }

    pub(crate) fn load<T: Scalar>(&self, source: &MatrixSource) -> Result<Problem<T>> {
        self.bar.suspend(|| Problem::load(source))
    }

    pub(crate) fn measurement<'b, T: Scalar>(&self, problem: &'b Problem<T>) -> Result<Measurement<'b, T>>
    where
        'a: 'b,
    {
        Measurement::new(self.device, problem, self.cache, self.repeats, self.copy_bandwidth)
    }

    /// Those of the rivals that can multiply the matrix; `ratio`s are over `our_us`. What is left out is told as being
    /// on `matrix`.
    pub(crate) fn measure_rivals<T: Number>(
        &mut self,
        rivals: &[Rival],
        measurement: &Measurement<'_, T>,
        our_us: f64,
        matrix: &str,
    ) -> Vec<RivalReport> {
        let mut reports = Vec::new();
        for &rival in rivals {
            match measure_rival(rival, measurement, our_us) {
                Ok(report) => reports.push(report),
                Err(reason) => self.skip(format!("{} on {matrix}", rival.name()), reason),
            }
        }
        reports
    }

    fn skip(&mut self, what: String, reason: String) {
        self.bar.suspend(|| eprintln!("skipped {what}: {reason}"));
        self.skipped.push(Skipped { what, reason });
    }
}

/// The fastest of a library's ways to compute the product.
fn measure_rival<T: Number>(
    rival: Rival,
    measurement: &Measurement<'_, T>,
    our_us: f64,
) -> std::result::Result<RivalReport, String> {
    let runs = rival.runs(measurement)?;
    let runs = runs.into_iter().map(|run| (run.variant, measurement.figures(&run.times, &run.y, run.bytes)));
    let runs: Vec<_> = runs.collect();
    let variant = |(variant, figures): &(String, _)| Variant { variant: variant.clone(), median_us: median(figures) };
    let variants = runs.iter().map(variant).collect();
    let fastest = runs.into_iter().min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
    let (variant, figures) = fastest.ok_or("it has no way to compute this product")?;
    let ratio = median(&figures) / our_us;
    Ok(RivalReport { name: rival.name(), variant, figures, ratio, variants })
}

fn median(figures: &Figures) -> f64 {
    figures.time_us.median
}

/// The least of some times that an operation takes, with what it queues on the device: such times spread widely.
pub(crate) fn least_time(
    device: &Device,
    repeats: usize,
    mut operation: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..repeats {
        let start = Instant::now();
        operation()?;
        device.synchronize()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
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
