//! Reports read from JSON, of every benchmark in one form: what pages and comparisons work on.

mod file;
mod raw;

use measure::{DTypeName, MatrixReport, Spread, Timing};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::file::read;
use self::raw::RawReport;
use super::{
    all, cg, clock, first_use, formats, gemm,
    gpu::{Gpu, UnderLoad},
    graphs,
    report::{Machine, Method, Skipped},
    spmm, spmv, vector,
};

/// The report of `warpsparse-bench all`; that of one benchmark is read as such a one of one section.
#[derive(Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) schema: String,
    pub(crate) version: u64,
    pub(crate) warpsparse: String,
    /// What the command was built from.
    pub(crate) commit: Option<String>,
    /// When the measurement began, in UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// What NVIDIA's management library tells of the GPU.
    pub(crate) gpu: Option<Gpu>,
    /// What all may take, and did take.
    pub(crate) budget_s: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) sections: Vec<Section>,
}

/// A benchmark in a document.
#[derive(Serialize, Deserialize)]
pub(crate) struct Section {
    /// The command that measures it alone.
    pub(crate) command: Option<String>,
    pub(crate) seconds: Option<f64>,
    /// Clocks while it ran.
    pub(crate) load: Option<UnderLoad>,
    /// Why there is no report, or what is wrong with it.
    pub(crate) failed: Option<String>,
    /// As the benchmark writes it.
    pub(crate) report: Value,
}

/// The report of one benchmark.
pub(crate) struct Reading {
    pub(crate) kind: Kind,
    pub(crate) machine: Machine,
    pub(crate) method: Method,
    pub(crate) cases: Vec<Case>,
    pub(crate) skipped: Vec<Skipped>,
}

/// The report of `warpsparse-bench clock`, which has no cases as the others have.
#[derive(Deserialize)]
pub(crate) struct ClockReading {
    pub(crate) method: Method,
    pub(crate) results: Vec<clock::ClockResult>,
    pub(crate) skipped: Vec<Skipped>,
}

/// In the order of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Spmv,
    Spmm,
    Graphs,
    Gemm,
    Cg,
    Formats,
    Vector,
    FirstUse,
}

/// What is computed in one or more ways.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) dtype: DTypeName,
    /// Columns of the dense matrices, with sparse ones; of vectors their elements.
    pub(crate) columns: Option<u32>,
    pub(crate) matrix: Option<MatrixReport>,
    pub(crate) flops: f64,
    pub(crate) ways: Vec<Way>,
}

/// A kernel, a format, or another library.
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) by: By,
    /// Of another library, its algorithm.
    pub(crate) kernel: String,
    pub(crate) timed: Result<Timed, String>,
}

#[derive(Clone, Copy)]
pub(crate) struct Timed {
    /// Of a product; of conjugate gradients, of an iteration.
    pub(crate) timing: Timing,
    /// Bytes that must move at least; none of what has no such number.
    pub(crate) bytes: f64,
    /// Of a program's start, what is not the driver's.
    pub(crate) operation_us: Option<f64>,
    pub(crate) error: Option<f64>,
}

/// A baseline's times over ours.
#[derive(Clone, Copy)]
pub(crate) struct Ratios {
    /// Device times, where both have them.
    pub(crate) times: f64,
    /// Host call times.
    pub(crate) calls: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// What a user gets who asks for nothing in particular.
    Chosen,
    /// Another kernel or format of ours: a rung of a ladder.
    Ours,
    /// A kernel that was forced for comparison alone.
    Forced,
    Baseline,
}

impl Document {
    /// Of `warpsparse-bench all`, or of one benchmark.
    pub(crate) fn read(report: &Value) -> Result<Self, String> {
        let schema = report["schema"].as_str().unwrap_or_default();
        let known = Kind::ALL.iter().map(|kind| kind.schema());
        let known = known
            .chain([(all::SCHEMA, all::VERSION), (clock::SCHEMA, clock::VERSION)])
            .find(|(known, _)| *known == schema);
        let (_, version) = known.ok_or("no report of `warpsparse-bench`")?;
        check_version(report, version)?;
        let document = if schema == all::SCHEMA { report.clone() } else { wrapped(report) };
        Self::deserialize(document).map_err(|error| error.to_string())
    }

    /// The sections of the benchmarks known here, read, in one order whatever was measured first; beside them what else
    /// is known of each.
    pub(crate) fn readings(&self) -> Result<Vec<(&Section, Reading)>, String> {
        let with_reports = self.sections.iter().filter(|section| section.report.is_object());
        let read = |section| Some(Reading::of(section)?.map(|reading| (section, reading)));
        let mut readings = with_reports.filter_map(read).collect::<Result<Vec<_>, _>>()?;
        readings.sort_by_key(|(_, reading)| reading.kind);
        Ok(readings)
    }

    /// The sections of `warpsparse-bench clock`.
    pub(crate) fn clocks(&self) -> Result<Vec<(&Section, ClockReading)>, String> {
        let sections = self.sections.iter().filter(|section| section.report["schema"] == clock::SCHEMA);
        let read = |section: &Section| {
            check_version(&section.report, clock::VERSION)?;
            ClockReading::deserialize(&section.report).map_err(|error| error.to_string())
        };
        let told = |problem| format!("{}: {problem}", clock::SCHEMA);
        sections.map(|section| Ok((section, read(section).map_err(told)?))).collect()
    }
}

/// Refuses a report of another version than this one, which is to say how times have come about.
fn check_version(report: &Value, version: u64) -> Result<(), String> {
    let found = &report["version"];
    if *found == version {
        return Ok(());
    }
    let clock = match found.as_u64() {
        // Ours of conjugate gradients are wall times in every version.
        Some(1) if report["schema"] != Kind::Cg.schema().0 => {
            ": its times lie between events around single calls, and so include the host's time for each call"
        }
        _ => "",
    };
    Err(format!("a report of version {found}, where this reads {version}{clock}"))
}

/// A report as the only section.
fn wrapped(report: &Value) -> Value {
    let mut document = serde_json::json!({ "sections": [{ "report": report }] });
    for key in ["schema", "version", "warpsparse", "date", "machine"] {
        document[key] = report[key].clone();
    }
    document
}

impl Reading {
    /// None of a benchmark that is not known here.
    fn of(section: &Section) -> Option<Result<Self, String>> {
        let kind = Kind::ALL.into_iter().find(|kind| section.report["schema"] == kind.schema().0)?;
        let (schema, version) = kind.schema();
        if let Err(problem) = check_version(&section.report, version) {
            return Some(Err(format!("{schema}: {problem}")));
        }
        let raw = RawReport::deserialize(&section.report).map_err(|error| error.to_string());
        Some(raw.map(|raw| raw.into_reading(kind)))
    }

    /// The element types that there are.
    pub(crate) fn dtypes(&self) -> Vec<DTypeName> {
        let is_there = |dtype: &DTypeName| self.cases.iter().any(|case| case.dtype == *dtype);
        [DTypeName::F32, DTypeName::F64].into_iter().filter(is_there).collect()
    }
}

impl Kind {
    const ALL: [Self; 8] =
        [Self::Spmv, Self::Spmm, Self::Graphs, Self::Gemm, Self::Cg, Self::Formats, Self::Vector, Self::FirstUse];

    /// What its reports call themselves, and the version that is read.
    fn schema(self) -> (&'static str, u64) {
        let benchmark = match self {
            Self::Spmv => &spmv::BENCHMARK,
            Self::Spmm => &spmm::BENCHMARK,
            Self::Graphs => &graphs::BENCHMARK,
            Self::Gemm => &gemm::BENCHMARK,
            Self::Cg => &cg::BENCHMARK,
            Self::Formats => &formats::BENCHMARK,
            Self::Vector => &vector::BENCHMARK,
            Self::FirstUse => return (first_use::SCHEMA, first_use::VERSION),
        };
        (benchmark.schema, benchmark.version)
    }

    /// What it is called.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Spmv => "Sparse matrix × vector",
            Self::Spmm => "Sparse matrix × dense matrix",
            Self::Graphs => "Ladder of kernels on graphs",
            Self::Gemm => "Dense matrix × dense matrix",
            Self::Cg => "Conjugate gradients",
            Self::Formats => "Formats of sparse matrices",
            Self::Vector => "Operations on vectors",
            Self::FirstUse => "A program's first result",
        }
    }

    /// The same, short.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::Spmv => "SpMV",
            Self::Spmm => "SpMM",
            Self::Graphs => "SpMM on graphs",
            Self::Gemm => "GEMM",
            Self::Cg => "CG",
            Self::Formats => "Formats",
            Self::Vector => "Vectors",
            Self::FirstUse => "First use",
        }
    }
}

impl Case {
    /// With all that tells it from others of one report but the element type.
    pub(crate) fn label(&self) -> String {
        match self.columns {
            Some(columns) => format!("{}, n = {columns}", self.name),
            None => self.name.clone(),
        }
    }

    pub(crate) fn chosen(&self) -> Option<(&Way, Timed)> {
        self.timed().find(|(way, _)| way.by == By::Chosen)
    }

    /// The ways that have times.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (&Way, Timed)> {
        self.ways.iter().filter_map(|way| Some((way, *way.timed.as_ref().ok()?)))
    }

    /// Baselines, and what their times are over those of the chosen kernel, in one ratio and of host call times: above 1 they are
    /// slower.
    pub(crate) fn ratios(&self) -> Vec<(&Way, Ratios)> {
        let Some((_, Timed { timing: ours, .. })) = self.chosen() else { return Vec::new() };
        let baselines = self.timed().filter(|(way, _)| way.by == By::Baseline);
        let ratios = |timing: Timing| Ratios { times: timing.over(&ours), calls: timing.calls_over(&ours) };
        baselines.map(|(way, timed)| (way, ratios(timed.timing))).collect()
    }
}

impl Timed {
    /// The times that the clock tells.
    pub(crate) fn us(&self) -> Spread {
        self.timing.time_us
    }

    /// Operations in a nanosecond.
    pub(crate) fn gflop_per_s(&self, flops: f64) -> f64 {
        1e-3 * flops / self.us().median
    }

    pub(crate) fn gb_per_s(&self) -> f64 {
        1e-3 * self.bytes / self.us().median
    }
}
