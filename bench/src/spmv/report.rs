//! What `warpsparse-bench spmv` finds out, and its table.

use std::fmt;

use measure::{DTypeName, Figures, MatrixReport, ProductReport};
use serde::Serialize;

use crate::{
    report::{self, BaselineColumns, BaselineReport, Machine, MatrixResult as _, Skipped},
    table::{self, none, us},
};

pub(crate) type Report = report::Report<MatrixResult>;

/// One matrix with elements of one type.
#[derive(Serialize)]
pub(crate) struct MatrixResult {
    pub(crate) name: String,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    /// Bytes that one product must move at least.
    pub(crate) bytes: usize,
    /// Sets of buffers that the products go round.
    pub(crate) rotation: usize,
    /// What the choice and preparation of the kernel takes beyond the copy of the arrays.
    pub(crate) analysis: Analysis,
    /// The automatically chosen kernel.
    pub(crate) chosen: ProductReport,
    /// The others, by force.
    pub(crate) forced: Vec<Forced>,
    pub(crate) baselines: Vec<BaselineReport>,
}

#[derive(Serialize)]
pub(crate) struct Analysis {
    pub(crate) time_us: f64,
    /// The same, counted in products of the chosen kernel.
    pub(crate) products: f64,
}

#[derive(Serialize)]
pub(crate) struct Forced {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) product: ProductReport,
}

impl MatrixResult {
    /// The fastest kernel, with its name; the chosen one if none is faster.
    pub(crate) fn best(&self) -> (&str, &ProductReport) {
        let forced = self.forced.iter().map(|forced| (forced.name.as_str(), &forced.product));
        let by_time =
            |a: &(&str, &ProductReport), b: &(&str, &ProductReport)| a.1.figures.us().total_cmp(&b.1.figures.us());
        std::iter::once(("the chosen one", &self.chosen)).chain(forced).min_by(by_time).expect("one at least")
    }

    /// The chosen kernel's time over that of the fastest.
    pub(crate) fn chosen_over_best(&self) -> f64 {
        self.chosen.figures.us() / self.best().1.figures.us()
    }
}

impl report::MatrixResult for MatrixResult {
    fn name(&self) -> &str {
        &self.name
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        std::iter::once(&self.chosen).chain(self.forced.iter().map(|forced| &forced.product))
    }

    fn baselines(&self) -> &[BaselineReport] {
        &self.baselines
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { device, model, copy_gb_per_s, .. } = &self.machine;
        writeln!(f, "warpsparse {} on {device}, {model}, which copies {copy_gb_per_s:.0} GB/s", self.warpsparse)?;
        writeln!(f, "{}", self.method.text)?;
        write!(f, "\n{}", self.losses())?;
        for (dtype, results) in self.by_dtype() {
            writeln!(f, "\n{dtype}")?;
            write!(f, "{}", self.table(&results))?;
        }
        writeln!(f)?;
        self.summaries().iter().try_for_each(|summary| writeln!(f, "{summary}"))?;
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Report {
    fn table(&self, results: &[&MatrixResult]) -> String {
        let mut header = vec![
            "<matrix",
            "rows",
            "entries",
            "mean",
            "max row",
            "<kernel",
            "µs",
            "±%",
            "call µs",
            "GB/s",
            "% copy",
            "error",
            "analysis",
            "<best forced",
            "chosen/best",
        ];
        let baselines = self.baseline_columns();
        let titles: Vec<_> = baselines.iter().flat_map(BaselineColumns::header).collect();
        header.extend(titles.iter().map(String::as_str));
        let rows: Vec<_> = results.iter().map(|result| row(result, &baselines)).collect();
        table::text(&header, &rows)
    }
}

fn row(result: &MatrixResult, baselines: &[BaselineColumns]) -> Vec<String> {
    let MatrixReport { rows, entries, mean_row, max_row, .. } = result.matrix;
    let Figures { timing, gb_per_s, percent_of_copy, relative_error, .. } = result.chosen.figures;
    let mut cells = vec![
        result.name.clone(),
        rows.to_string(),
        entries.to_string(),
        format!("{mean_row:.1}"),
        max_row.to_string(),
        result.chosen.kernel.clone(),
        us(timing.time_us.median),
        format!("{:.1}", timing.time_us.percent()),
        timing.call_us.map_or_else(none, |call_us| us(call_us.median)),
        format!("{gb_per_s:.0}"),
        format!("{percent_of_copy:.1}"),
        format!("{relative_error:.0e}"),
        format!("{:.1}", result.analysis.products),
        result.best().0.to_owned(),
        format!("{:.2}", result.chosen_over_best()),
    ];
    cells.extend(baselines.iter().flat_map(|columns| columns.cells(result.baseline(columns.name))));
    cells
}
