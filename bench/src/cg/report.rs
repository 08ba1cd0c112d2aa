//! What `warpsparse-bench cg` finds out, and its tables, in Markdown.

use std::{fmt, time::Duration};

use measure::{Clock, DTypeName, MatrixReport, Spread, Timing};
use serde::Serialize;
use warpsparse::Scalar;

use super::{residual::factor, rungs::CAPTURED, to_tolerance::ToTolerance};
use crate::{
    report::{Report, Skipped},
    table::{self, none, short},
};

/// One system with elements of one type.
#[derive(Serialize)]
pub(crate) struct CgResult {
    pub(crate) name: String,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    pub(crate) rungs: Vec<RungReport>,
    pub(crate) to_tolerance: ToTolerance,
    /// Which solutions of ours are wrong, and why.
    #[serde(skip)]
    pub(crate) wrong: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct RungReport {
    pub(crate) rung: &'static str,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Measured(Box<Measured>),
    Skipped {
        /// Why there are no figures.
        skipped: String,
    },
}

#[derive(Serialize)]
pub(crate) struct Measured {
    /// Of the libraries, their algorithm.
    pub(crate) kernel: String,
    /// Why that kernel, of ours.
    pub(crate) reason: Option<String>,
    /// Pairs of solutions, or solutions.
    pub(crate) repeats: usize,
    /// Of the solution timed, the longer one of a pair.
    pub(crate) iterations: usize,
    /// An iteration, by wall time.
    #[serde(flatten)]
    pub(crate) timing: Timing,
    /// All these iterations, with the start and the end of the solution.
    pub(crate) solution_ms: f64,
    /// Of the longer solution, `|b - A x| / |b|` in f64.
    pub(crate) relative_residual: f64,
    /// Why that solution, which is one of ours, is wrong by itself.
    #[serde(skip)]
    pub(crate) wrong: Option<String>,
    /// The time of an iteration of the libraries captured in a graph over this one.
    pub(crate) ratio: Option<f64>,
    /// The time of a copy of the bytes that must move over this one.
    pub(crate) percent_of_bound: Option<f64>,
}

/// Pairs of solutions, timed.
#[derive(Default)]
pub(super) struct Samples {
    /// Of an iteration: the difference of a pair over that of their iterations.
    iterations: Vec<Duration>,
    /// Of the longer ones.
    solutions: Vec<Duration>,
}

impl Samples {
    /// Adds a pair, in which the longer one has so many iterations more.
    pub(super) fn add(&mut self, short: Duration, long: Duration, more: usize) {
        self.iterations.push(long.saturating_sub(short).div_f64(more as f64));
        self.solutions.push(long);
    }

    pub(super) fn measured(
        &self,
        kernel: String,
        reason: Option<String>,
        iterations: usize,
        relative_residual: f64,
    ) -> Measured {
        Measured {
            kernel,
            reason,
            repeats: self.solutions.len(),
            iterations,
            timing: Timing { time_us: Spread::of(&self.iterations), clock: Clock::Wall, call_us: None },
            solution_ms: Spread::of(&self.solutions).median / 1e3,
            relative_residual,
            wrong: None,
            ratio: None,
            percent_of_bound: None,
        }
    }
}

impl Measured {
    /// Fails if the residual is not about as expected, by ours after as many iterations: the methods are one, but their roundings differ.
    pub(super) fn check<T: Scalar>(&self, expected: f64) -> Result<(), String> {
        let factor = factor::<T>();
        let Self { relative_residual: found, iterations, .. } = self;
        // Not `> factor`: a NaN is wrong too.
        match (expected / factor..=expected * factor).contains(found) {
            true => Ok(()),
            false => Err(format!(
                "its answer is wrong: a relative residual of {found:.2e} after {iterations} iterations, where {expected:.2e} is expected"
            )),
        }
    }
}

impl Outcome {
    pub(super) fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped { skipped: reason.into() }
    }

    /// Compares the time of an iteration with the minimum that its bytes allow.
    pub(super) fn with_bound(mut self, bound_us: Option<f64>) -> Self {
        if let Self::Measured(measured) = &mut self {
            measured.percent_of_bound = bound_us.map(|bound_us| 100.0 * bound_us / measured.timing.time_us.median);
        }
        self
    }
}

impl RungReport {
    fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Skipped { .. } => None,
        }
    }
}

impl CgResult {
    /// Compares every row with the libraries captured in a graph.
    pub(super) fn with_ratios(mut self) -> Self {
        let captured = self.rungs.iter().find(|rung| rung.rung == CAPTURED).and_then(RungReport::measured);
        let captured_us = captured.map(|captured| captured.timing.time_us.median);
        for rung in &mut self.rungs {
            if let Outcome::Measured(measured) = &mut rung.outcome {
                measured.ratio = captured_us.map(|us| us / measured.timing.time_us.median);
            }
        }
        self
    }

    fn ladder(&self) -> String {
        let row = |rung: &RungReport| {
            let cell = |cell: fn(&Measured) -> Option<String>| rung.measured().and_then(cell).unwrap_or_else(none);
            vec![
                rung.rung.into(),
                cell(|it| Some(short(it.timing.time_us.median))),
                cell(|it| Some(format!("{:.1}%", it.timing.time_us.percent()))),
                cell(|it| it.ratio.map(|ratio| format!("{ratio:.2}"))),
                cell(|it| it.percent_of_bound.map(|percent| format!("{percent:.0}"))),
                cell(|it| Some(it.iterations.to_string())),
                cell(|it| Some(short(it.solution_ms))),
                cell(|it| Some(format!("{:.2e}", it.relative_residual))),
                cell(|it| Some(it.kernel.clone())),
            ]
        };
        let header = [
            "<way",
            "µs an iteration",
            "±",
            "ratio",
            "% of bound",
            "iterations",
            "all of them, ms",
            "residual",
            "<kernel",
        ];
        table::markdown(&header, &self.rungs.iter().map(row).collect::<Vec<_>>())
    }

    /// Why rows are empty: ways in a row for the same reason together.
    fn reasons(&self) -> String {
        let mut reasons: Vec<(String, &str)> = Vec::new();
        for rung in &self.rungs {
            let Outcome::Skipped { skipped } = &rung.outcome else { continue };
            match reasons.last_mut() {
                Some((ways, reason)) if reason == skipped => *ways += &format!("; {}", rung.rung),
                _ => reasons.push((rung.rung.into(), skipped)),
            }
        }
        reasons.into_iter().map(|(ways, reason)| format!("- {ways}: {reason}\n")).collect()
    }
}

impl fmt::Display for Report<CgResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for result in &self.results {
            let CgResult { name, dtype, matrix: MatrixReport { rows, entries, .. }, .. } = result;
            writeln!(f, "\n## {name} {dtype}: {rows} unknowns, {entries} entries\n\n{}", result.ladder())?;
            let reasons = result.reasons();
            if !reasons.is_empty() {
                writeln!(f, "No figures for:\n\n{reasons}")?;
            }
        }
        if !self.results.is_empty() {
            writeln!(f, "\n## To the tolerance\n\n{}", self.to_tolerance())?;
        }
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Report<CgResult> {
    /// Fails if a solution of ours was wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let of =
            |result: &CgResult| result.wrong.first().map(|wrong| format!("{} {}, {wrong}", result.name, result.dtype));
        self.results.iter().find_map(of).map_or(Ok(()), Err)
    }

    /// A solution of each system, and a word below on those that ended elsewhere than expected.
    fn to_tolerance(&self) -> String {
        let row = |result: &CgResult| {
            let of = &result.to_tolerance;
            vec![
                format!("{} {}", result.name, result.dtype),
                format!("{:e}", of.tolerance),
                of.iterations.to_string(),
                short(of.ms),
                format!("{:.2e}", of.relative_residual),
                format!("{:.3e}", of.residual_norm),
                of.baseline_residual_norm.map_or_else(none, |norm| format!("{norm:.3e}")),
                of.kernel.clone(),
            ]
        };
        let header =
            ["<system", "tolerance", "iterations", "ms", "true residual", "norm", "norm, sample style", "<kernel"];
        let mut text = table::markdown(&header, &self.results.iter().map(row).collect::<Vec<_>>());
        text += "\nBy the automatic choice, prepared. The true residual is |b - A x| / |b| in f64 of the x found; norms are those of \
            the residual that the iteration carries along, and of the libraries in the sample's style after as many \
            iterations.\n";
        for CgResult { name, dtype, to_tolerance: ToTolerance { ended, differs, .. }, .. } in &self.results {
            if let Some(ended) = ended {
                text += &format!("\n{name} {dtype}: the tolerance was not met ({ended}).\n");
            }
            if *differs {
                text += &format!("\n{name} {dtype}: the norms differ by more than 10 %.\n");
            }
        }
        text
    }
}
