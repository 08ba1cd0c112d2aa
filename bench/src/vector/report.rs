//! What `warpsparse-bench vector` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{DTypeName, Figures, ProductReport, Timing};
use serde::Serialize;

use crate::vector::Operation;
use crate::{
    report::{BaselineColumns, BaselineReport, MatrixResult, Report, Skipped},
    table::{self, none, us},
};

/// An operation on vectors of one length with elements of one type.
#[derive(Serialize)]
pub(crate) struct VectorResult {
    /// As `--operation` takes it.
    pub(super) name: String,
    pub(super) n: u32,
    pub(super) dtype: DTypeName,
    #[serde(skip)]
    pub(super) operation: Operation,
    pub(super) chosen: ProductReport,
    pub(super) baselines: Vec<BaselineReport>,
}

impl MatrixResult for VectorResult {
    fn name(&self) -> &str {
        &self.name
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        std::iter::once(&self.chosen)
    }

    fn baselines(&self) -> &[BaselineReport] {
        &self.baselines
    }

    fn columns(&self) -> Option<u32> {
        Some(self.n)
    }
}

impl fmt::Display for Report<VectorResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for (dtype, results) in self.by_dtype() {
            writeln!(f, "\n## {dtype}\n\n{}", self.table(results))?;
        }
        self.summaries().iter().try_for_each(|summary| writeln!(f, "{summary}."))?;
        write!(f, "{}", self.losses())?;
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Report<VectorResult> {
    /// Operation by operation, each with all its lengths.
    fn table(&self, mut results: Vec<&VectorResult>) -> String {
        results.sort_by_key(|result| result.operation);
        let baselines = self.baseline_columns();
        let titles: Vec<_> = baselines.iter().flat_map(BaselineColumns::header).collect();
        let mut header = vec!["<operation", "n", "µs", "±%", "call µs", "GB/s", "% copy", "error"];
        header.extend(titles.iter().map(String::as_str));
        let rows: Vec<_> = results.iter().map(|result| row(result, &baselines)).collect();
        table::markdown(&header, &rows)
    }
}

fn row(result: &VectorResult, baselines: &[BaselineColumns]) -> Vec<String> {
    let Figures { timing, gb_per_s, percent_of_copy, relative_error, .. } = result.chosen.figures;
    let Timing { time_us, call_us, .. } = timing;
    let mut cells = vec![
        result.name.clone(),
        result.n.to_string(),
        us(time_us.median),
        format!("{:.1}", time_us.percent()),
        call_us.map_or_else(none, |call_us| us(call_us.median)),
        format!("{gb_per_s:.0}"),
        format!("{percent_of_copy:.1}"),
        format!("{relative_error:.0e}"),
    ];
    cells.extend(baselines.iter().flat_map(|columns| columns.cells(result.baseline(columns.name))));
    cells
}
