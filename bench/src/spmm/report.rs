//! What `warpsparse-bench spmm` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{DTypeName, DenseReport, Figures, MatrixReport, ProductReport, Timing, geometric_mean};
use serde::Serialize;

use crate::{
    report::{self, BaselineColumns, BaselineReport, MatrixResult as _, Report, Skipped},
    table::{self, none, short, us},
};

/// One matrix with elements of one type, times dense matrices of one width.
#[derive(Serialize)]
pub(crate) struct ProductResult {
    pub(crate) name: String,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    /// Columns of the dense matrices.
    pub(crate) n: u32,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

#[derive(Serialize)]
pub(crate) struct Measured {
    /// The automatically chosen kernel.
    pub(crate) chosen: DenseReport,
    /// The one chosen by timing, if that was asked for.
    pub(crate) autotuned: Option<DenseReport>,
    /// In BSR, if that was asked for and the matrix has blocks.
    pub(crate) bsr: Option<DenseReport>,
    pub(crate) baselines: Vec<BaselineReport>,
}

impl report::MatrixResult for ProductResult {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Option<u32> {
        Some(self.n)
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        let Measured { chosen, autotuned, bsr, .. } = &self.measured;
        std::iter::once(chosen).chain(autotuned).chain(bsr).map(|report| &report.product)
    }

    fn baselines(&self) -> &[BaselineReport] {
        &self.measured.baselines
    }
}

/// Another way of ours to compute the product.
struct Other {
    title: &'static str,
    measured: fn(&Measured) -> Option<&DenseReport>,
}

const OTHERS: [Other; 2] = [
    Other { title: "autotuned", measured: |measured| measured.autotuned.as_ref() },
    Other { title: "BSR", measured: |measured| measured.bsr.as_ref() },
];

impl Other {
    fn is_there(&self, results: &[&ProductResult]) -> bool {
        results.iter().any(|result| (self.measured)(&result.measured).is_some())
    }

    /// The chosen kernel's time over that of this one.
    fn ratio(&self, result: &ProductResult) -> Option<f64> {
        let us = |report: &DenseReport| report.product.figures.us();
        Some(us(&result.measured.chosen) / us((self.measured)(&result.measured)?))
    }
}

impl fmt::Display for Report<ProductResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "\n{}", self.losses())?;
        for (dtype, results) in self.by_dtype() {
            writeln!(f, "\n## {dtype}\n\n{}", self.products(&results))?;
            for baseline in self.baseline_names() {
                let ratio = |result: &ProductResult| Some(result.baseline(baseline)?.ratio);
                writeln!(f, "The time of {baseline} over that of the chosen kernel:\n\n{}", summary(&results, ratio))?;
                // Where there are two clocks.
                let ratio = |result: &ProductResult| Some(result.baseline(baseline)?.call_ratio);
                if results.iter().any(|result| result.measured.chosen.product.figures.timing.call_us.is_some()) {
                    writeln!(f, "The same of host call times:\n\n{}", summary(&results, ratio))?;
                }
            }
            for other in OTHERS.iter().filter(|other| other.is_there(&results)) {
                // Turned over, so that below 1 is what is to be looked at, as with baselines.
                let ratio = |result: &ProductResult| Some(1.0 / other.ratio(result)?);
                let title = other.title;
                writeln!(
                    f,
                    "The time of the other kernel ({title}) over that of the chosen one:\n\n{}",
                    summary(&results, ratio)
                )?;
            }
        }
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "skipped {what}: {reason}"))
    }
}

impl Report<ProductResult> {
    fn products(&self, results: &[&ProductResult]) -> String {
        let mut header = vec!["<matrix", "n", "<kernel", "µs", "±%", "call µs", "GB/s", "% copy", "GFLOP/s", "error"];
        let others: Vec<_> = OTHERS.iter().filter(|other| other.is_there(results)).collect();
        let baselines = self.baseline_columns();
        let of_others =
            others.iter().flat_map(|Other { title, .. }| [format!("<{title}"), "µs".into(), format!("chosen/{title}")]);
        let titles: Vec<_> = of_others.chain(baselines.iter().flat_map(BaselineColumns::header)).collect();
        header.extend(titles.iter().map(String::as_str));
        let rows: Vec<_> = results.iter().map(|result| row(result, &others, &baselines)).collect();
        table::markdown(&header, &rows)
    }
}

fn row(result: &ProductResult, others: &[&Other], baselines: &[BaselineColumns]) -> Vec<String> {
    let DenseReport { product, gflop_per_s, .. } = &result.measured.chosen;
    let Figures { timing: Timing { time_us, call_us, .. }, gb_per_s, percent_of_copy, relative_error, .. } =
        product.figures;
    let mut cells = vec![
        result.name.clone(),
        result.n.to_string(),
        product.kernel.clone(),
        us(time_us.median),
        format!("{:.1}", time_us.percent()),
        call_us.map_or_else(none, |call_us| us(call_us.median)),
        format!("{gb_per_s:.0}"),
        format!("{percent_of_copy:.1}"),
        short(*gflop_per_s),
        format!("{relative_error:.0e}"),
    ];
    for other in others {
        cells.extend(match ((other.measured)(&result.measured), other.ratio(result)) {
            (Some(DenseReport { product, .. }), Some(ratio)) => {
                [product.kernel.clone(), us(product.figures.us()), format!("{ratio:.2}")]
            }
            _ => [none(), none(), none()],
        });
    }
    cells.extend(baselines.iter().flat_map(|columns| columns.cells(result.baseline(columns.name))));
    cells
}

/// Of ratios, the geometric means and the lowest, for each width and for all.
fn summary(results: &[&ProductResult], ratio: impl Fn(&ProductResult) -> Option<f64>) -> String {
    let mut widths: Vec<u32> = results.iter().map(|result| result.n).collect();
    widths.sort_unstable();
    widths.dedup();
    let row = |title: String, is_of_row: &dyn Fn(u32) -> bool| {
        let of_row = results.iter().filter(|result| is_of_row(result.n));
        let ratios: Vec<_> = of_row.filter_map(|result| Some((ratio(result)?, *result))).collect();
        let mean = geometric_mean(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>())?;
        let (lowest, of) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let below_one = ratios.iter().filter(|(ratio, _)| *ratio < 1.0).count();
        Some(vec![
            title,
            format!("{mean:.2}"),
            format!("{lowest:.2}"),
            format!("{}, n = {}", of.name, of.n),
            format!("{below_one} of {}", ratios.len()),
        ])
    };
    let of_widths = widths.iter().map(|&width| row(width.to_string(), &|n| n == width));
    let rows: Vec<_> = of_widths.chain([row("all".into(), &|_| true)]).flatten().collect();
    table::markdown(&["n", "geometric mean", "lowest", "<on", "below 1"], &rows)
}
