//! What the reports of the benchmarks have in common.

use std::fmt;

use measure::{Clock, DTypeName, Figures, ProductReport, geometric_mean};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::{none, us};

/// Everything that a benchmark finds out; its JSON form is stable within a version.
#[derive(Serialize)]
pub(crate) struct Report<R> {
    pub(crate) schema: &'static str,
    pub(crate) version: u64,
    pub(crate) warpsparse: String,
    /// When the measurement began, in UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) method: Method,
    pub(crate) results: Vec<R>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A report in the forms in which it leaves the command.
pub(crate) struct Finished {
    pub(crate) json: Value,
    /// For the terminal.
    pub(crate) text: String,
    /// Fails if a product was wrong.
    pub(crate) check: Result<(), String>,
}

impl Finished {
    pub(crate) fn new(report: &impl Serialize, text: String, check: Result<(), String>) -> serde_json::Result<Self> {
        Ok(Self { json: serde_json::to_value(report)?, text, check })
    }
}

/// One matrix with elements of one type.
pub(crate) trait MatrixResult {
    fn name(&self) -> &str;
    fn dtype(&self) -> DTypeName;
    fn products(&self) -> impl Iterator<Item = &ProductReport>;
    fn baselines(&self) -> &[BaselineReport];

    /// Of dense matrices, where results differ in that; of vectors their elements.
    fn columns(&self) -> Option<u32> {
        None
    }

    fn baseline(&self, name: &str) -> Option<&BaselineReport> {
        self.baselines().iter().find(|baseline| baseline.name == name)
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Machine {
    /// What `--device` takes.
    pub(crate) device: String,
    pub(crate) model: String,
    /// Multiprocessors of a GPU, threads used of a CPU.
    pub(crate) parallel_units: usize,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) l2_bytes: Option<u64>,
    pub(crate) compute_capability: Option<String>,
    /// The CUDA version that the driver supports.
    pub(crate) driver_cuda: Option<String>,
    /// Of a large copy on the device, read and written bytes counted.
    pub(crate) copy_gb_per_s: f64,
    /// What its FP32 units could do at the highest clock, where that is known.
    pub(crate) peak_f32_tflop_per_s: Option<f64>,
    /// The same of its FP64 units.
    pub(crate) peak_f64_tflop_per_s: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Method {
    /// What the times are, but for those that say otherwise.
    #[serde(default)]
    pub(crate) clock: Clock,
    /// Samples of each; others before them warm up.
    pub(crate) repeats: usize,
    /// `cold`, `hot`, or `as it comes` where there is no way to tell.
    pub(crate) cache: String,
    /// The libraries compared with, and their versions.
    pub(crate) baselines: Vec<String>,
    /// All of it in words.
    pub(crate) text: String,
}

/// Another library, by the fastest of its ways.
#[derive(Serialize)]
pub(crate) struct BaselineReport {
    pub(crate) name: &'static str,
    pub(crate) variant: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Its median time over that of the chosen kernel: above 1 the library is slower. Of device times; where there are none, of
    /// host call times.
    pub(crate) ratio: f64,
    /// The same of host call times.
    pub(crate) call_ratio: f64,
    /// By format of the matrix, of a library that multiplies in several.
    pub(crate) formats: Vec<FormatReport>,
    /// The median time of every way that was tried, in microseconds.
    pub(crate) variants: Vec<Variant>,
}

/// The fastest way in a format.
#[derive(Serialize)]
pub(crate) struct FormatReport {
    pub(crate) format: &'static str,
    pub(crate) variant: String,
    pub(crate) median_us: f64,
    pub(crate) ratio: f64,
}

/// The columns of a baseline in a table: its fastest algorithm, the ratio to ours, and the ratio of the fastest for each format.
pub(crate) struct BaselineColumns {
    pub(crate) name: &'static str,
    formats: Vec<&'static str>,
}

impl BaselineColumns {
    pub(crate) fn header(&self) -> Vec<String> {
        let formats = self.formats.iter().map(|format| format!("ratio, {format}"));
        let first = [format!("<{}", self.name), "µs".into(), "ratio".into()];
        let last = ["call µs", "call ratio", "error"].map(str::to_owned);
        first.into_iter().chain(formats).chain(last).collect()
    }

    pub(crate) fn cells(&self, baseline: Option<&BaselineReport>) -> Vec<String> {
        let Some(baseline) = baseline else { return vec![none(); 6 + self.formats.len()] };
        let BaselineReport { variant, figures, ratio, call_ratio, .. } = baseline;
        let of_format = |format: &&str| baseline.formats.iter().find(|report| report.format == *format);
        let formats =
            self.formats.iter().map(|format| of_format(format).map_or_else(none, |it| format!("{:.2}", it.ratio)));
        let call_us = figures.timing.call_us.unwrap_or(figures.timing.time_us);
        // What is not as the method says.
        let variant = match figures.timing.clock {
            clock @ (Clock::Held | Clock::Calls) => format!("{variant} ({})", clock.name()),
            Clock::Graph | Clock::Wall => variant.clone(),
        };
        let first = [variant, us(figures.us()), format!("{ratio:.2}")];
        let last = [us(call_us.median), format!("{call_ratio:.2}"), format!("{:.0e}", figures.relative_error)];
        first.into_iter().chain(formats).chain(last).collect()
    }
}

/// A baseline over all cases of one element type.
pub(crate) struct Summary {
    baseline: &'static str,
    dtype: DTypeName,
    geometric_mean: f64,
    /// Of host call times.
    of_calls: f64,
    cases: usize,
    /// On how many the baseline is faster.
    below_one: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { baseline, dtype, geometric_mean, of_calls, cases, below_one } = self;
        write!(f, "{dtype}: speedup over {baseline} {geometric_mean:.2} (geometric mean of {cases}), ")?;
        write!(f, "slower on {below_one}; of host call times {of_calls:.2}")
    }
}

#[derive(Serialize)]
pub(crate) struct Variant {
    pub(crate) variant: String,
    pub(crate) median_us: f64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) what: String,
    pub(crate) reason: String,
}

impl<R> Report<R> {
    /// What a report in Markdown begins with: where and when, how it was measured, and against what.
    pub(crate) fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { device, model, copy_gb_per_s, .. } = &self.machine;
        let Self { warpsparse, date, .. } = self;
        writeln!(f, "warpsparse {warpsparse} on {device}, {model}, which copies {copy_gb_per_s:.0} GB/s; {date}.\n")?;
        writeln!(f, "{}", self.method.text)?;
        self.method.baselines.iter().try_for_each(|baseline| writeln!(f, "\nCompared with {baseline}."))
    }
}

impl<R: MatrixResult> Report<R> {
    /// The element types measured, and their results.
    pub(crate) fn by_dtype(&self) -> impl Iterator<Item = (DTypeName, Vec<&R>)> {
        let of = |dtype| self.results.iter().filter(|result| result.dtype() == dtype).collect::<Vec<_>>();
        [DTypeName::F32, DTypeName::F64]
            .into_iter()
            .map(move |dtype| (dtype, of(dtype)))
            .filter(|(_, of)| !of.is_empty())
    }

    /// The baselines that have any times.
    pub(crate) fn baseline_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for baseline in self.results.iter().flat_map(MatrixResult::baselines) {
            if !names.contains(&baseline.name) {
                names.push(baseline.name);
            }
        }
        names
    }

    /// Where a baseline is faster, a line for each: what is to be read first.
    pub(crate) fn losses(&self) -> String {
        let line = |name: &'static str| {
            let of_baseline = |result: &R| {
                let columns = result.columns().map_or_else(String::new, |columns| format!(", n = {columns}"));
                Some((result.baseline(name)?.ratio, format!("{}{columns} {}", result.name(), result.dtype())))
            };
            let mut ratios: Vec<_> = self.results.iter().filter_map(of_baseline).collect();
            let cases = ratios.len();
            ratios.retain(|(ratio, _)| *ratio < 1.0);
            ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
            let lost: Vec<_> = ratios.iter().map(|(ratio, case)| format!("{case} ({ratio:.3})")).collect();
            match lost.len() {
                0 => format!("Slower than {name} in none of {cases} cases.\n"),
                count => format!("Slower than {name} in {count} of {cases} cases: {}.\n", lost.join("; ")),
            }
        };
        self.baseline_names().into_iter().map(line).collect()
    }

    /// Of each element type and baseline.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let summary = |dtype, results: &[&R], baseline| {
            let ratios: Vec<f64> = results.iter().filter_map(|result| Some(result.baseline(baseline)?.ratio)).collect();
            let calls: Vec<f64> =
                results.iter().filter_map(|result| Some(result.baseline(baseline)?.call_ratio)).collect();
            let below_one = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
            let (geometric_mean, of_calls) = (geometric_mean(&ratios)?, geometric_mean(&calls)?);
            Some(Summary { baseline, dtype, geometric_mean, of_calls, cases: ratios.len(), below_one })
        };
        let of_dtype = |(dtype, results): (_, Vec<_>)| {
            self.baseline_names()
                .into_iter()
                .filter_map(move |baseline| summary(dtype, &results, baseline))
                .collect::<Vec<_>>()
        };
        self.by_dtype().flat_map(of_dtype).collect()
    }

    /// The baselines that have any times, each with the formats that it multiplies in, if there are several.
    pub(crate) fn baseline_columns(&self) -> Vec<BaselineColumns> {
        let formats_of = |name| {
            let reports = self.results.iter().filter_map(|result| result.baseline(name));
            let mut formats: Vec<_> = reports.flat_map(|report| &report.formats).map(|format| format.format).collect();
            formats.sort_unstable_by(|a, b| b.cmp(a));
            formats.dedup();
            formats
        };
        self.baseline_names().into_iter().map(|name| BaselineColumns { name, formats: formats_of(name) }).collect()
    }

    /// Fails if a product was wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.results.iter().try_for_each(|result| {
            let check = result.products().try_for_each(ProductReport::check);
            check.map_err(|problem| format!("{}: {problem}", result.name()))
        })
    }
}
