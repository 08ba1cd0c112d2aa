//! What `warpsparse-bench learning` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{Figures, Timing, geometric_mean};
use serde::Serialize;
use warpsparse::{Result, Scalar};

use super::{LEAST, examples::data::Data};
use crate::{
    report::{BaselineReport, Report, Skipped},
    session::Session,
    table::{self, none, us},
};

#[derive(Serialize)]
#[serde(tag = "part", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "there are a few dozen")]
pub(super) enum Measured {
    Sddmm(Product),
    Operation(Operation),
}

/// A sampled product.
#[derive(Serialize)]
pub(super) struct Product {
    pub(super) name: String,
    /// Elements of each row.
    pub(super) k: u32,
    pub(super) entries: usize,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// By the fastest of its layouts.
    pub(super) cusparse: Option<BaselineReport>,
}

/// An operation, or a step of training.
#[derive(Serialize)]
pub(super) struct Operation {
    pub(super) operation: &'static str,
    pub(super) graph: String,
    /// Loops included.
    pub(super) entries: usize,
    #[serde(flatten)]
    pub(super) timing: Timing,
    /// Of a network: its memory at most, in the first step.
    pub(super) peak_bytes: Option<u64>,
    /// Of an operation, from the CPU's result in f64: relative, in the 2-norm.
    pub(super) error: Option<f64>,
    /// The error from which on the result is wrong.
    #[serde(skip)]
    pub(super) most_error: f64,
    /// Of a network: before all steps, and after those that the clock took.
    pub(super) losses: Option<[f64; 2]>,
}

/// The relative error of an operation's result, in the 2-norm.
pub(super) fn error<T: Scalar>(found: &[T], expected: &[f64]) -> f64 {
    let squares = found.iter().zip(expected).map(|(x, y)| (x.to_f64() - y).powi(2)).sum::<f64>();
    (squares / expected.iter().map(|y| y * y).sum::<f64>()).sqrt()
}

impl Operation {
    pub(super) fn new(
        session: &Session<'_>,
        (operation, graph, data): (&'static str, &str, &Data),
        call: impl FnMut(usize) -> Result<()>,
    ) -> Result<Self> {
        let timing = session.measurement_from(LEAST, &())?.times(session.device, 1, call)?.timing();
        let (graph, entries) = (graph.into(), data.graph.nnz());
        Ok(Self { operation, graph, entries, timing, peak_bytes: None, error: None, most_error: 2e-5, losses: None })
    }
}

/// Fails if a result is wrong, or a network has learnt nothing.
pub(super) fn check(report: &Report<Measured>) -> std::result::Result<(), String> {
    for measured in &report.results {
        let (is_right, what) = match measured {
            Measured::Sddmm(it) => ((0.0..=1.0).contains(&it.figures.error_over_bound), &*it.name),
            Measured::Operation(it) => {
                let learns = it.losses.is_none_or(|[first, last]| last < first);
                (learns && it.error.is_none_or(|error| error < it.most_error), it.operation)
            }
        };
        if !is_right {
            return Err(format!("{what}: the result is wrong"));
        }
    }
    Ok(())
}

impl fmt::Display for Report<Measured> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        let (mut products, mut operations) = (Vec::new(), Vec::new());
        for measured in &self.results {
            match measured {
                Measured::Sddmm(product) => products.push(product.cells()),
                Measured::Operation(operation) => operations.push(operation.cells()),
            }
        }
        let header = ["<matrix", "k", "µs", "±%", "GB/s", "% copy", "error", "<cuSPARSE", "µs", "ratio"];
        writeln!(f, "\n## SDDMM\n\n{}", table::markdown(&header, &products))?;
        let ratios = self.results.iter().filter_map(|measured| match measured {
            Measured::Sddmm(Product { cusparse: Some(cusparse), .. }) => Some(cusparse.ratio),
            _ => None,
        });
        let ratios: Vec<f64> = ratios.collect();
        if let Some(mean) = geometric_mean(&ratios) {
            let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            writeln!(
                f,
                "Speedup over cuSPARSE: {mean:.2} (geometric mean of {}), at least {lowest:.2}.",
                ratios.len()
            )?;
        }
        let header = ["<operation", "<graph", "entries", "µs", "±%", "call µs", "<clock", "MB", "error", "<loss"];
        writeln!(f, "\n## Operations, and steps of training\n\n{}", table::markdown(&header, &operations))?;
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Product {
    fn cells(&self) -> Vec<String> {
        let (figures, cusparse) = (&self.figures, self.cusparse.as_ref());
        vec![
            self.name.clone(),
            self.k.to_string(),
            us(figures.us()),
            format!("{:.1}", figures.timing.time_us.percent()),
            format!("{:.0}", figures.gb_per_s),
            format!("{:.1}", figures.percent_of_copy),
            format!("{:.0e}", figures.relative_error),
            cusparse.map_or_else(none, |it| it.variant.clone()),
            cusparse.map_or_else(none, |it| us(it.figures.us())),
            cusparse.map_or_else(none, |it| format!("{:.2}", it.ratio)),
        ]
    }
}

impl Operation {
    fn cells(&self) -> Vec<String> {
        vec![
            self.operation.into(),
            self.graph.clone(),
            self.entries.to_string(),
            us(self.timing.time_us.median),
            format!("{:.1}", self.timing.time_us.percent()),
            self.timing.call_us.map_or_else(none, |calls| us(calls.median)),
            self.timing.clock.name().into(),
            self.peak_bytes.map_or_else(none, |bytes| format!("{:.0}", bytes as f64 / 1e6)),
            self.error.map_or_else(none, |error| format!("{error:.0e}")),
            self.losses.map_or_else(none, |[first, last]| format!("{first:.3} to {last:.3}")),
        ]
    }
}
