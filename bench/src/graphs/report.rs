//! What `warpsparse-bench graphs` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{DTypeName, DenseReport, MatrixReport, ProductReport, geometric_mean};
use serde::Serialize;

use super::{
    ladder::{ALL_CLUSTERED, LADDER, ROWS_CLUSTERED},
    reordering::Reordering,
};
use crate::{
    report::{self, BaselineReport, MatrixResult as _, Report, Skipped},
    table::{self, none, short, us},
};

/// One graph times dense matrices of one width.
#[derive(Serialize)]
pub(crate) struct GraphResult {
    pub(crate) name: &'static str,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    /// Columns of the dense matrices.
    pub(crate) n: u32,
    pub(crate) rungs: Vec<RungReport>,
    pub(crate) reordering: Reordering,
    pub(crate) baselines: Vec<BaselineReport>,
}

#[derive(Serialize)]
pub(crate) struct RungReport {
    pub(crate) rung: &'static str,
    #[serde(flatten)]
    pub(crate) product: DenseReport,
    /// The fastest other library's median time over that of this one.
    pub(crate) ratio: Option<f64>,
}

impl RungReport {
    pub(super) fn us(&self) -> f64 {
        self.product.product.figures.us()
    }
}

impl report::MatrixResult for GraphResult {
    fn name(&self) -> &str {
        self.name
    }

    fn columns(&self) -> Option<u32> {
        Some(self.n)
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        self.rungs.iter().map(|rung| &rung.product.product)
    }

    fn baselines(&self) -> &[BaselineReport] {
        &self.baselines
    }
}

impl GraphResult {
    /// Compares the kernels with the fastest other library.
    pub(super) fn with_ratios(mut self) -> Self {
        let fastest = self.baselines.iter().map(|baseline| baseline.figures.us()).min_by(f64::total_cmp);
        for rung in &mut self.rungs {
            rung.ratio = fastest.map(|us| us / rung.us());
        }
        self
    }

    fn rung(&self, name: &str) -> Option<&RungReport> {
        self.rungs.iter().find(|rung| rung.rung == name)
    }

    fn baseline_gflop_per_s(&self, baseline: &BaselineReport) -> f64 {
        2e-3 * self.matrix.entries as f64 * f64::from(self.n) / baseline.figures.us()
    }
}

impl fmt::Display for Report<GraphResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "\n{}", self.losses())?;
        writeln!(f, "\n## Stand-ins\n\n{}", self.graphs())?;
        let mut widths: Vec<u32> = self.results.iter().map(|result| result.n).collect();
        widths.sort_unstable();
        widths.dedup();
        for n in widths {
            let results: Vec<_> = self.results.iter().filter(|result| result.n == n).collect();
            writeln!(f, "## n = {n}\n\nµs; ¹ of one product alone\n\n{}", self.times(&results))?;
            writeln!(f, "GFLOP/s\n\n{}", self.speeds(&results))?;
            writeln!(
                f,
                "Means are geometric, over the graphs that both kernels were measured on.\n\n{}",
                ratios(&results)
            )?;
        }
        writeln!(f, "## Orders of rows, found on the host\n\n{}", self.reorderings())?;
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Report<GraphResult> {
    fn graphs(&self) -> String {
        let mut graphs: Vec<&GraphResult> = self.results.iter().collect();
        graphs.dedup_by_key(|result| result.name);
        let row = |result: &&GraphResult| {
            let MatrixReport { rows, entries, mean_row, max_row, .. } = result.matrix;
            vec![
                result.name.into(),
                rows.to_string(),
                entries.to_string(),
                format!("{mean_row:.1}"),
                max_row.to_string(),
            ]
        };
        let rows: Vec<_> = graphs.iter().map(row).collect();
        table::markdown(&["<graph", "rows", "entries", "mean row", "longest row"], &rows)
    }

    fn times(&self, results: &[&GraphResult]) -> String {
        let mut rows = rung_rows(results, |rung| {
            let once = if rung.product.repeats == 1 { "¹" } else { "" };
            us(rung.us()) + once
        });
        for name in self.baseline_names() {
            rows.push(baseline_row(name, results, name, |_, baseline| us(baseline.figures.us())));
            rows.push(baseline_row("its algorithm", results, name, |_, baseline| baseline.variant.clone()));
        }
        by_graphs(results, &[], &rows)
    }

    fn speeds(&self, results: &[&GraphResult]) -> String {
        let mut rows = rung_rows(results, |rung| short(rung.product.gflop_per_s));
        for name in self.baseline_names() {
            rows.push(baseline_row(name, results, name, |result, baseline| {
                short(result.baseline_gflop_per_s(baseline))
            }));
        }
        by_graphs(results, &[], &rows)
    }

    fn reorderings(&self) -> String {
        let row = |result: &GraphResult| {
            let Reordering { cluster_ms, permute_ms, cluster_products, permute_products, .. } = result.reordering;
            let pays = |rung: &str, after: Option<u64>| match (result.rung(rung), after) {
                (None, _) => none(),
                (Some(_), None) => "never".into(),
                (Some(_), Some(products)) => products.to_string(),
            };
            vec![
                result.name.into(),
                result.n.to_string(),
                format!("{cluster_ms:.1}"),
                short(cluster_products),
                pays(ROWS_CLUSTERED, result.reordering.rows_pay_after),
                format!("{permute_ms:.1}"),
                short(permute_products),
                pays(ALL_CLUSTERED, result.reordering.all_pay_after),
            ]
        };
        let header = [
            "<graph",
            "n",
            "order, ms",
            "in products",
            "rows pay after",
            "permuting, ms",
            "in products",
            "both pay after",
        ];
        table::markdown(&header, &self.results.iter().map(row).collect::<Vec<_>>())
    }
}

/// For each graph, how often a kernel is as fast as the fastest other library; their mean, and that over the first kernel.
fn ratios(results: &[&GraphResult]) -> String {
    let mut rows = rung_rows(results, |rung| rung.ratio.map_or_else(none, |ratio| format!("{ratio:.2}")));
    let first = rows.first().map(|row| row[0].clone()).unwrap_or_default();
    for row in &mut rows {
        let rungs = || results.iter().filter_map(|result| Some((result.rung(&row[0])?, result.rung(&first))));
        let ratios: Vec<f64> = rungs().filter_map(|(rung, _)| rung.ratio).collect();
        let over_first: Vec<f64> = rungs().filter_map(|(rung, first)| Some(first?.us() / rung.us())).collect();
        let means = [ratios, over_first].map(|ratios| geometric_mean(&ratios).map_or_else(none, short));
        row.extend(means);
    }
    by_graphs(results, &["mean", &format!("over {first}")], &rows)
}

/// A row for each kernel that was measured: its name, and a cell for each graph.
fn rung_rows(results: &[&GraphResult], cell: impl Fn(&RungReport) -> String) -> Vec<Vec<String>> {
    let is_measured = |name: &&str| results.iter().any(|result| result.rung(name).is_some());
    let row = |name: &str| {
        let cells = results.iter().map(|result| result.rung(name).map_or_else(none, &cell));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    LADDER.iter().map(|(name, _)| *name).filter(is_measured).map(row).collect()
}

fn baseline_row(
    title: &str,
    results: &[&GraphResult],
    name: &str,
    cell: impl Fn(&GraphResult, &BaselineReport) -> String,
) -> Vec<String> {
    let cells = results.iter().map(|result| result.baseline(name).map_or_else(none, |baseline| cell(result, baseline)));
    std::iter::once(title.to_owned()).chain(cells).collect()
}

/// A column for each graph, and then the others.
fn by_graphs(results: &[&GraphResult], others: &[&str], rows: &[Vec<String>]) -> String {
    let graphs = results.iter().map(|result| result.name);
    let header: Vec<&str> = std::iter::once("<kernel").chain(graphs).chain(others.iter().copied()).collect();
    table::markdown(&header, rows)
}
