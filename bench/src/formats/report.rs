//! What `warpsparse-bench formats` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{DTypeName, Figures, FormatName, MatrixReport, ProductReport, Timing};
use serde::Serialize;

use crate::{
    report::{self, BaselineReport, MatrixResult as _, Report, Skipped},
    table::{self, none, short},
};

/// One matrix with elements of one type.
#[derive(Serialize)]
pub(crate) struct MatrixResult {
    pub(crate) name: String,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    pub(crate) formats: Vec<FormatResult>,
    pub(crate) hyb: HybSplit,
    /// Other libraries; their ratios are over the time in CSR.
    pub(crate) baselines: Vec<BaselineReport>,
}

#[derive(Serialize)]
pub(crate) struct FormatResult {
    pub(crate) format: FormatName,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Measured(Box<Measured>),
    Refused(Refused),
}

#[derive(Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(crate) product: ProductReport,
    /// Two operations for each entry of the matrix.
    pub(crate) gflop_per_s: f64,
    pub(crate) ratios: Vec<Ratio>,
    /// `None` for what needs none, and for the automatic format, which is one of the others.
    pub(crate) conversion: Option<Conversion>,
}

/// A baseline's time over that of this format: above 1 the baseline is slower.
#[derive(Serialize)]
pub(crate) struct Ratio {
    pub(crate) baseline: &'static str,
    pub(crate) ratio: f64,
}

/// From CSR.
#[derive(Serialize)]
pub(crate) struct Conversion {
    /// The conversion alone, in the host's memory.
    pub(crate) host_ms: f64,
    /// An upload, the conversion included.
    pub(crate) upload_ms: f64,
    /// Products after which the upload's time is saved next to products in CSR; `None` if those are faster.
    pub(crate) products: Option<f64>,
}

/// The format would be mostly padding.
#[derive(Serialize)]
pub(crate) struct Refused {
    pub(crate) slots_per_entry: f64,
    pub(crate) reason: String,
}

/// How HYB divides the matrix.
#[derive(Serialize)]
pub(crate) struct HybSplit {
    /// Slots a row of the ELL part.
    pub(crate) width: usize,
    pub(crate) entries_in_ell: usize,
    pub(crate) entries_in_coo: usize,
}

impl report::MatrixResult for MatrixResult {
    fn name(&self) -> &str {
        &self.name
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        self.formats.iter().filter_map(|format| Some(&format.measured()?.product))
    }

    fn baselines(&self) -> &[BaselineReport] {
        &self.baselines
    }
}

impl MatrixResult {
    fn format(&self, name: FormatName) -> Option<&FormatResult> {
        self.formats.iter().find(|result| result.format == name)
    }

    /// The times of products in CSR, once they have been measured.
    pub(crate) fn in_csr(&self) -> Option<Timing> {
        Some(self.format(FormatName::Csr)?.measured()?.product.figures.timing)
    }

    fn gflop_per_s(&self, figures: &Figures) -> f64 {
        2e-3 * self.matrix.entries as f64 / figures.us()
    }
}

impl FormatResult {
    fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Refused(_) => None,
        }
    }

    /// A cell for a product, or the padding that it would have.
    fn cell(&self, of_product: impl Fn(&Measured) -> String) -> String {
        match &self.outcome {
            Outcome::Measured(measured) => of_product(measured),
            Outcome::Refused(Refused { slots_per_entry, .. }) => format!("{} slots", short(*slots_per_entry)),
        }
    }
}

impl fmt::Display for Report<MatrixResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "\n{}", self.losses())?;
        for (dtype, results) in self.by_dtype() {
            writeln!(f, "\n## {dtype}")?;
            writeln!(f, "\nGFLOP/s:\n\n{}", self.speeds(&results))?;
            writeln!(f, "GB/s, in percent of a copy:\n\n{}", self.bandwidths(&results))?;
            for baseline in self.baseline_names() {
                writeln!(f, "The time of {baseline} over that of the format:\n\n{}", ratios(&results, baseline))?;
            }
            writeln!(f, "Conversions on the host, ms, and the products that pay back:\n\n{}", conversions(&results))?;
            writeln!(f, "{}", accuracy(&results))?;
        }
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "\nskipped {what}: {reason}"))
    }
}

const TITLES: [&str; 6] = ["CSR", "COO", "DIA", "ELL", "HYB", "auto"];

impl Report<MatrixResult> {
    fn speeds(&self, results: &[&MatrixResult]) -> String {
        self.beside_baselines(results, &|_, measured| short(measured.gflop_per_s), &|result, baseline| {
            short(result.gflop_per_s(&baseline.figures))
        })
    }

    fn bandwidths(&self, results: &[&MatrixResult]) -> String {
        let cell = |figures: &Figures| format!("{} ({:.0}%)", short(figures.gb_per_s), figures.percent_of_copy);
        self.beside_baselines(results, &|_, measured| cell(&measured.product.figures), &|_, baseline| {
            cell(&baseline.figures)
        })
    }

    /// A row a matrix: the formats, the kernel that the automatic one ended with, the baselines.
    fn beside_baselines(
        &self,
        results: &[&MatrixResult],
        of_format: &dyn Fn(&MatrixResult, &Measured) -> String,
        of_baseline: &dyn Fn(&MatrixResult, &BaselineReport) -> String,
    ) -> String {
        let baselines = self.baseline_names();
        let header = [&["<matrix"], TITLES.as_slice(), &["<auto's kernel"], &baselines].concat();
        let row = |result: &&MatrixResult| {
            let mut cells = vec![result.name.clone()];
            cells.extend(result.formats.iter().map(|format| format.cell(|measured| of_format(result, measured))));
            let auto = result.format(FormatName::Auto).and_then(FormatResult::measured);
            cells.push(auto.map_or_else(none, |auto| auto.product.kernel.clone()));
            cells.extend(
                baselines
                    .iter()
                    .map(|baseline| result.baseline(baseline).map_or_else(none, |r| of_baseline(result, r))),
            );
            cells
        };
        table::markdown(&header, &results.iter().map(row).collect::<Vec<_>>())
    }
}

fn ratios(results: &[&MatrixResult], baseline: &str) -> String {
    let of_format = |measured: &Measured| {
        let ratio = measured.ratios.iter().find(|ratio| ratio.baseline == baseline);
        ratio.map_or_else(none, |ratio| format!("{:.2}", ratio.ratio))
    };
    let row = |result: &&MatrixResult| {
        let cells = result.formats.iter().map(|format| format.cell(of_format));
        std::iter::once(result.name.clone()).chain(cells).collect()
    };
    table::markdown(&[&["<matrix"], TITLES.as_slice()].concat(), &results.iter().map(row).collect::<Vec<_>>())
}

fn conversions(results: &[&MatrixResult]) -> String {
    let header = [
        "<matrix",
        "COO",
        "products",
        "DIA",
        "products",
        "ELL",
        "products",
        "HYB",
        "products",
        "HYB's slots a row",
        "entries in them",
    ];
    let row = |result: &&MatrixResult| {
        let mut cells = vec![result.name.clone()];
        for name in [FormatName::Coo, FormatName::Dia, FormatName::Ell, FormatName::Hyb] {
            let measured = result.format(name).and_then(FormatResult::measured);
            cells.extend(match measured.and_then(|measured| measured.conversion.as_ref()) {
                Some(Conversion { host_ms, products, .. }) => {
                    [short(*host_ms), products.map_or("never".into(), |products| format!("{products:.0}"))]
                }
                None => [none(), none()],
            });
        }
        let HybSplit { width, entries_in_ell, entries_in_coo } = result.hyb;
        let share = 100.0 * entries_in_ell as f64 / (entries_in_ell + entries_in_coo).max(1) as f64;
        cells.extend([width.to_string(), format!("{share:.0}%")]);
        cells
    };
    table::markdown(&header, &results.iter().map(row).collect::<Vec<_>>())
}

fn accuracy(results: &[&MatrixResult]) -> String {
    let figures = || results.iter().flat_map(|result| result.products()).map(|product| &product.figures);
    let largest = |of: fn(&Figures) -> f64| figures().map(of).fold(0.0, f64::max);
    let (error, share) = (largest(|figures| figures.relative_error), largest(|figures| figures.error_over_bound));
    format!(
        "The largest relative error is {error:.1e}; of what rounding explains, at most {:.0}% is used.",
        100.0 * share
    )
}
