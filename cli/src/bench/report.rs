//! What the reports of the benchmarks have in common.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::{DTypeName, Figures, ProductReport};

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
    fn rivals(&self) -> &[RivalReport];

    fn rival(&self, name: &str) -> Option<&RivalReport> {
        self.rivals().iter().find(|rival| rival.name == name)
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
    /// Products timed; others before them warm up.
    pub(crate) repeats: usize,
    /// `cold`, `hot`, or `as it comes` where there is no way to tell.
    pub(crate) cache: String,
    /// The libraries compared with, and their versions.
    pub(crate) rivals: Vec<String>,
    /// All of it in words.
    pub(crate) text: String,
}

/// Another library, by the fastest of its ways.
#[derive(Serialize)]
pub(crate) struct RivalReport {
    pub(crate) name: &'static str,
    pub(crate) variant: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Its median time over that of the chosen kernel: above 1 the library is slower.
    pub(crate) ratio: f64,
    /// The median time of every way that was tried, in microseconds.
    pub(crate) variants: Vec<Variant>,
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

impl<R: MatrixResult> Report<R> {
    /// The element types measured, and their results.
    pub(crate) fn by_dtype(&self) -> impl Iterator<Item = (DTypeName, Vec<&R>)> {
        let of = |dtype| self.results.iter().filter(|result| result.dtype() == dtype).collect::<Vec<_>>();
        [DTypeName::F32, DTypeName::F64]
            .into_iter()
            .map(move |dtype| (dtype, of(dtype)))
            .filter(|(_, of)| !of.is_empty())
    }

    /// The rivals that have any times.
    pub(crate) fn rival_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for rival in self.results.iter().flat_map(MatrixResult::rivals) {
            if !names.contains(&rival.name) {
                names.push(rival.name);
            }
        }
        names
    }

    /// Fails if a product was wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.results.iter().try_for_each(|result| {
            let check = result.products().try_for_each(ProductReport::check);
            check.map_err(|problem| format!("{}: {problem}", result.name()))
        })
    }
}

impl fmt::Display for DTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DTypeName::F32 => "f32",
            DTypeName::F64 => "f64",
        })
    }
}
