//! What the benchmarks share: their options, the way over matrices and element types, the other libraries.

mod comparison;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use measure::{Cache, Clock, DTypeName, Measurement, peak};
use serde_json::Value;
use warpsparse::{Device, Error, Result, io::MatrixSource};

pub(crate) use self::comparison::right;
use super::{
    baselines::Baseline,
    html,
    report::{Machine, Method, Report, Skipped},
    suite::{self, Suite},
};

// No documentation here: it would take the place of the subcommand's.
#[derive(Args)]
pub(crate) struct Settings {
    /// Matrix Market files (.mtx, .mtx.gz, .mtx.xz) and generators, as for `warpsparse spmv` [default: a suite]
    matrices: Vec<MatrixSource>,
    /// A set of matrices, in addition to those named.
    #[arg(long, value_enum)]
    suite: Option<Suite>,
    /// The folder with the suite's files [default: tests/data, or else data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    pub(super) conditions: Conditions,
}

// None here either. What is measured comes from elsewhere; this is how.
#[derive(Args)]
pub(crate) struct Conditions {
    /// Libraries to compare with [default: NVIDIA's on a GPU, the others on the CPU]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIBRARIES")]
    pub(super) against: Option<Vec<Baseline>>,
    /// The element type; may be repeated [default: both; f32 for a ladder]
    #[arg(long, value_enum)]
    pub(super) dtype: Vec<DTypeName>,
    /// The number of samples: replays of a CUDA graph on a GPU, single products elsewhere.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(30..))]
    pub(super) repeat: u32,
    /// Use one set of buffers, which may stay in the L2 cache, instead of cycling through more than it holds.
    #[arg(long)]
    pub(super) hot: bool,
    #[command(flatten)]
    pub(super) basics: Basics,
}

// None here either. What all benchmarks take, whatever they measure.
#[derive(Args, Clone)]
pub(crate) struct Basics {
    /// The device: auto, cpu, cuda, cuda:N or emulated.
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
    /// Skip measurements that have not started after this many seconds [default: measure all]
    #[arg(long, value_name = "SECONDS", value_parser = parse_limit)]
    budget: Option<Duration>,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page with plots to this file, if the benchmark has one.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What products are measured on.
pub(crate) trait Case {
    /// Short, and the same wherever its files lie.
    fn name(&self) -> String;

    /// Why there is nothing to measure.
    fn problem(&self) -> Option<String> {
        None
    }
}

impl Case for MatrixSource {
    fn name(&self) -> String {
        suite::name(self)
    }

    fn problem(&self) -> Option<String> {
        suite::missing(self).map(|path| format!("{} is not there", path.display()))
    }
}

/// Which benchmark it is.
pub(crate) struct Benchmark<'a> {
    pub(crate) schema: &'static str,
    pub(crate) version: u64,
    /// The libraries that compute it too.
    pub(crate) baselines: &'static [Baseline],
    /// The element types unless others are named.
    pub(crate) dtypes: &'static [DTypeName],
    /// What is computed, as a formula.
    pub(crate) product: &'static str,
    /// What its figures mean, in words.
    pub(crate) figures: &'a str,
}

/// A benchmark on its way.
pub(crate) struct Session<'a> {
    pub(crate) device: &'a Device,
    pub(crate) baselines: Vec<Baseline>,
    cache: Cache,
    repeats: usize,
    /// In bytes a second.
    pub(crate) copy_bandwidth: f64,
    bar: ProgressBar,
    skipped: Vec<Skipped>,
}

impl Settings {
    /// Calls `measure` for every matrix with elements of every type, and makes a report of its results. The suite is
    /// what is measured if no matrix is named.
    pub(crate) fn run<R, I: IntoIterator<Item = R>>(
        &self,
        benchmark: &Benchmark<'_>,
        suite: Suite,
        measure: impl FnMut(&mut Session<'_>, &MatrixSource, DTypeName) -> Result<I>,
    ) -> std::result::Result<Report<R>, Box<dyn std::error::Error>> {
        self.conditions.run(benchmark, &self.sources(suite)?, measure)
    }

    pub(crate) fn sources(&self, default: Suite) -> std::result::Result<Vec<MatrixSource>, Box<dyn std::error::Error>> {
        let mut sources = self.matrices.clone();
        if let Some(suite) = self.suite.or(sources.is_empty().then_some(default)) {
            sources.extend(suite.sources(self.data.as_deref())?);
        }
        // What was named has to be there, what a suite names need not.
        if let Some(missing) = self.matrices.iter().find_map(suite::missing) {
            return Err(format!("{}: there is no such file", missing.display()).into());
        }
        Ok(sources)
    }
}

impl Conditions {
    /// Calls `measure` for every case with elements of every type, and makes a report of its results.
    pub(crate) fn run<C: Case, R, I: IntoIterator<Item = R>>(
        &self,
        benchmark: &Benchmark<'_>,
        cases: &[C],
        mut measure: impl FnMut(&mut Session<'_>, &C, DTypeName) -> Result<I>,
    ) -> std::result::Result<Report<R>, Box<dyn std::error::Error>> {
        let start = Instant::now();
        let device = &Device::from_name(&self.basics.device)?;
        let wanted = if self.dtype.is_empty() { benchmark.dtypes } else { &self.dtype };
        let dtypes: Vec<_> = [DTypeName::F32, DTypeName::F64].into_iter().filter(|it| wanted.contains(it)).collect();
        let mut session = Session::new(self, device)?;
        let date = now();
        let method = session.method(self, benchmark);

        let mut results = Vec::new();
        session.bar.set_length((cases.len() * dtypes.len()) as u64);
        for case in cases {
            let name = case.name();
            if let Some(problem) = case.problem() {
                session.skip(name, problem);
                session.bar.inc(dtypes.len() as u64);
                continue;
            }
            for &dtype in &dtypes {
                if let Some(reason) = self.basics.too_late(start) {
                    session.skip(format!("{name} {dtype}"), reason);
                    session.bar.inc(1);
                    continue;
                }
                session.bar.set_message(format!("{name} {dtype}"));
                match measure(&mut session, case, dtype) {
                    Ok(measured) => results.extend(measured),
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
            warpsparse: env!("CARGO_PKG_VERSION").into(),
            date,
            machine: machine(device, session.copy_bandwidth)?,
            method,
            results,
            skipped: session.skipped,
        })
    }
}

impl Basics {
    /// Whether the report is to be written to files.
    pub(crate) fn writes(&self) -> bool {
        self.json.is_some() || self.html.is_some()
    }

    /// Whether the report is to be written as a page.
    pub(crate) fn wants_page(&self) -> bool {
        self.html.is_some()
    }

    /// Why nothing more begins, if the time for it is over.
    pub(crate) fn too_late(&self, start: Instant) -> Option<String> {
        let budget = self.budget.filter(|&budget| start.elapsed() >= budget)?;
        Some(format!("its turn came after {:.0} s", budget.as_secs_f64()))
    }

    /// Writes the report to the files that were asked for.
    pub(crate) fn write(&self, report: &Value) -> std::result::Result<(), Box<dyn std::error::Error>> {
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string_pretty(report)?)?;
        }
        if let Some(path) = &self.html {
            write(path, &html::page(report)?)?;
        }
        Ok(())
    }
}

/// The time in UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn write(path: &Path, text: &str) -> std::result::Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl<'a> Session<'a> {
    fn new(conditions: &Conditions, device: &'a Device) -> Result<Self> {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template");
        Ok(Self {
            device,
            baselines: Vec::new(),
            cache: if conditions.hot { Cache::Hot } else { Cache::Cold },
            repeats: conditions.repeat as usize,
            copy_bandwidth: device.measure_copy_bandwidth()?,
            bar: ProgressBar::new(0).with_style(style),
            skipped: Vec::new(),
        })
    }

    /// The method in words; finds out which baselines are there.
    fn method(&mut self, conditions: &Conditions, benchmark: &Benchmark<'_>) -> Method {
        let mut baselines = Vec::new();
        let defaults =
            || benchmark.baselines.iter().copied().filter(|baseline| baseline.is_default(self.device)).collect();
        for baseline in conditions.against.clone().unwrap_or_else(defaults) {
            let description = match benchmark.baselines.contains(&baseline) {
                true => baseline.describe(self.device),
                false => Err(format!("{} does not compute this product", baseline.name())),
            };
            match description {
                Ok(description) => {
                    self.baselines.push(baseline);
                    baselines.push(description);
                }
                Err(reason) => self.skip(baseline.name().into(), reason),
            }
        }
        let Self { device, cache, repeats, .. } = *self;
        let clock = if device.is_cuda() { Clock::Graph } else { Clock::Wall };
        let (cache, buffers) = match (device.is_cuda(), cache) {
            (true, Cache::Cold) => {
                ("cold", "on up to 4096 sets of buffers in turn, as many as make four times the L2 cache")
            }
            (true, Cache::Hot) => ("hot", "on one set of buffers"),
            (false, _) => ("as it comes", "on one set of buffers"),
        };
        let Benchmark { product, figures, .. } = benchmark;
        let times = match clock {
            Clock::Graph => format!(
                "Times are device times: products are captured in a CUDA graph, as many as take about 2 ms, {buffers}, and the graph's time is \
                divided by their number; medians of {repeats} replays after a warm-up. What cannot be captured is timed between events on a \
                queue that is held back until it is full, and says so. Host call times stand beside them: the wall time of products that are queued one after \
                the other without a graph, until all are done, over their number. Ratios are of device times unless said otherwise"
            ),
            _ => format!("Medians of {repeats} products after a warm-up, by wall time, {buffers}"),
        };
        let text = format!("{product}. {times}. {figures}");
        Method { clock, repeats, cache: cache.into(), baselines, text }
    }

    /// Samples of each.
    pub(crate) fn repeats(&self) -> usize {
        self.repeats
    }

    /// What loads a matrix may show a bar of its own.
    pub(crate) fn load<P>(&self, load: impl FnOnce() -> Result<P>) -> Result<P> {
        self.bar.suspend(load)
    }

    /// Of as many samples as the command line says.
    pub(crate) fn measurement<'b, P>(&self, problem: &'b P) -> Result<Measurement<'b, P>>
    where
        'a: 'b,
    {
        self.measurement_from(self.repeats, problem)
    }

    /// Of fewer samples, but so many at least, where they take long.
    pub(crate) fn measurement_from<'b, P>(&self, least: usize, problem: &'b P) -> Result<Measurement<'b, P>>
    where
        'a: 'b,
    {
        let repeats = least.min(self.repeats)..=self.repeats;
        Measurement::new(self.device, problem, self.cache, repeats, self.copy_bandwidth)
    }

    pub(crate) fn skip(&mut self, what: String, reason: String) {
        self.bar.suspend(|| eprintln!("skipped {what}: {reason}"));
        self.skipped.push(Skipped { what, reason });
    }
}

/// A time from seconds on the command line.
pub(crate) fn parse_limit(text: &str) -> std::result::Result<Duration, String> {
    let limit = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| "a limit is a number of seconds over 0".into())
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

/// What is told of a device, whose copies have this bandwidth in bytes a second.
pub(crate) fn machine(device: &Device, copy_bandwidth: f64) -> Result<Machine> {
    let info = device.info()?;
    let peak = |dtype| Ok::<_, Error>(peak(device, dtype)?.map(|peak| peak / 1e12));
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
        peak_f32_tflop_per_s: peak(DTypeName::F32)?,
        peak_f64_tflop_per_s: peak(DTypeName::F64)?,
    })
}
