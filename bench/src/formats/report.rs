//! What `warpsparse-bench formats` finds out, and its tables, in Markdown.

use std::fmt;

use measure::{DTypeName, Figures, FormatName, MatrixReport, ProductReport, Timing};
use serde::Serialize;

use crate::{
    report::{self, BaselineReport, MatrixResult as _, Report, Skipped},
    table::{self, none, short, us},
};

/// One matrix with elements of one type.
#[derive(Serialize)]
pub(crate) struct MatrixResult {
    pub(crate) name: String,
    pub(crate) matrix: MatrixReport,
    pub(crate) dtype: DTypeName,
    pub(crate) formats: Vec<FormatResult>,
    /// `None` if HYB is not measured.
    pub(crate) hyb: Option<HybSplit>,
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
    /// Whether the result has the bits of the product in CSR, where it must.
    pub(crate) bits_of_csr: Option<bool>,
    pub(crate) ratios: Vec<Ratio>,
    /// `None` for what needs none, for the automatic format, which is one of the others, and if conversions are not measured.
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
    /// The conversion alone, in the host's memory; `None` of what only an upload makes.
    pub(crate) host_ms: Option<f64>,
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
#[derive(Clone, Copy, Serialize)]
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

    /// Fails if a product does not have the bits that it must have.
    pub(crate) fn check_bits(&self) -> Result<(), String> {
        match self.formats.iter().filter_map(FormatResult::measured).find(|it| it.bits_of_csr == Some(false)) {
            Some(measured) => {
                Err(format!("{} {}: {} has not the bits of CSR", self.name, self.dtype, measured.product.kernel))
            }
            None => Ok(()),
        }
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

impl Measured {
    fn us(&self) -> f64 {
        self.product.figures.us()
    }

    /// The ratio of the fastest library.
    fn over_fastest(&self) -> Option<f64> {
        self.ratios.iter().map(|ratio| ratio.ratio).min_by(f64::total_cmp)
    }
}

impl fmt::Display for Report<MatrixResult> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "\n{}", self.losses())?;
        for (dtype, results) in self.by_dtype() {
            let of_formats = |cell: &dyn Fn(&Measured) -> String| of_formats(&results, cell);
            writeln!(f, "\n## {dtype}")?;
            writeln!(f, "\nGFLOP/s:\n\n{}", self.speeds(&results))?;
            writeln!(f, "GB/s, in percent of a copy:\n\n{}", self.bandwidths(&results))?;
            writeln!(f, "µs:\n\n{}", self.times(&results))?;
            let megabytes = |measured: &Measured| short(1e-6 * measured.product.bytes as f64);
            writeln!(f, "MB that a product moves at least:\n\n{}", of_formats(&megabytes))?;
            let baselines = self.baseline_names();
            if baselines.len() > 1 {
                let ratio = |measured: &Measured| measured.over_fastest().map_or_else(none, |it| format!("{it:.2}"));
                writeln!(f, "The time of the fastest library over that of the format:\n\n{}", of_formats(&ratio))?;
            }
            for baseline in baselines {
                let ratio = |measured: &Measured| {
                    let ratio = measured.ratios.iter().find(|ratio| ratio.baseline == baseline);
                    ratio.map_or_else(none, |ratio| format!("{:.2}", ratio.ratio))
                };
                writeln!(f, "The time of {baseline} over that of the format:\n\n{}", of_formats(&ratio))?;
            }
            if let Some(conversions) = conversions(&results) {
                writeln!(f, "Conversions on the host, ms, and the products that pay back:\n\n{conversions}")?;
            }
            writeln!(f, "{}", accuracy(&results))?;
        }
        self.skipped.iter().try_for_each(|Skipped { what, reason }| writeln!(f, "\nskipped {what}: {reason}"))
    }
}

fn title(name: FormatName) -> &'static str {
    match name {
        FormatName::Auto => "auto",
        FormatName::Csr => "CSR",
        FormatName::Coo => "COO",
        FormatName::Dia => "DIA",
        FormatName::Ell => "ELL",
        FormatName::Hyb => "HYB",
        FormatName::Narrow => "narrow",
        FormatName::Packed => "packed",
        FormatName::Bsr => "BSR",
    }
}

/// The formats, which are the same in all results.
fn titles(results: &[&MatrixResult]) -> Vec<&'static str> {
    results.first().map_or_else(Vec::new, |result| result.formats.iter().map(|it| title(it.format)).collect())
}

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

    fn times(&self, results: &[&MatrixResult]) -> String {
        self.beside_baselines(results, &|_, measured| us(measured.us()), &|_, baseline| us(baseline.figures.us()))
    }

    /// A row a matrix: the formats, the kernel that the automatic one ended with, the baselines.
    fn beside_baselines(
        &self,
        results: &[&MatrixResult],
        of_format: &dyn Fn(&MatrixResult, &Measured) -> String,
        of_baseline: &dyn Fn(&MatrixResult, &BaselineReport) -> String,
    ) -> String {
        let baselines = self.baseline_names();
        let header = [&["<matrix"][..], &titles(results), &["<auto's kernel"], &baselines].concat();
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

/// A row a matrix, a column a format.
fn of_formats(results: &[&MatrixResult], cell: &dyn Fn(&Measured) -> String) -> String {
    let row = |result: &&MatrixResult| {
        let cells = result.formats.iter().map(|format| format.cell(cell));
        std::iter::once(result.name.clone()).chain(cells).collect()
    };
    let header = [&["<matrix"][..], &titles(results)].concat();
    table::markdown(&header, &results.iter().map(row).collect::<Vec<_>>())
}

/// `None` if none is measured.
fn conversions(results: &[&MatrixResult]) -> Option<String> {
    let of = |result: &MatrixResult, name| result.format(name)?.measured()?.conversion.as_ref().map(Conversion::cells);
    let is_converted = |name: &FormatName| !matches!(name, FormatName::Csr | FormatName::Auto);
    let first = results.first()?;
    let names: Vec<_> = first.formats.iter().map(|format| format.format).filter(is_converted).collect();
    if !names.iter().any(|&name| results.iter().any(|result| of(result, name).is_some())) {
        return None;
    }
    let mut header = vec!["<matrix"];
    header.extend(names.iter().flat_map(|&name| [title(name), "products"]));
    if first.hyb.is_some() {
        header.extend(["HYB's slots a row", "entries in them"]);
    }
    let row = |result: &&MatrixResult| {
        let mut cells = vec![result.name.clone()];
        cells.extend(names.iter().flat_map(|&name| of(result, name).unwrap_or_else(|| [none(), none()])));
        if let Some(HybSplit { width, entries_in_ell, entries_in_coo }) = result.hyb {
            let share = 100.0 * entries_in_ell as f64 / (entries_in_ell + entries_in_coo).max(1) as f64;
            cells.extend([width.to_string(), format!("{share:.0}%")]);
        }
        cells
    };
    Some(table::markdown(&header, &results.iter().map(row).collect::<Vec<_>>()))
}

impl Conversion {
    /// On the host, and the products that pay back.
    fn cells(&self) -> [String; 2] {
        let products = self.products.map_or_else(|| "never".into(), |products| format!("{products:.0}"));
        [self.host_ms.map_or_else(none, short), products]
    }
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
