//! What `warpsparse-bench sgemm` finds out, and its tables, in Markdown.

use measure::{DTypeName, Figures, GemmReport, ProductReport, Shape, Timing, geometric_mean};
use serde::Serialize;

use crate::{
    report::{Machine, MatrixResult, Report, RivalReport, Skipped},
    table::{self, none, us},
};

/// Products of one shape with elements of one type.
#[derive(Serialize)]
pub(crate) struct GemmResult {
    name: String,
    #[serde(flatten)]
    shape: Shape,
    dtype: DTypeName,
    /// The default kernel, or the ladder from the bottom, with that kernel last.
    kernels: Vec<KernelReport>,
    rivals: Vec<RivalReport>,
}

#[derive(Serialize)]
pub(crate) struct KernelReport {
    /// The rung, `tiles` for the kernel on top of them, or `cpu`.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) product: GemmReport,
    /// The fastest other library's median time over that of this one.
    pub(crate) ratio: Option<f64>,
}

impl KernelReport {
    pub(super) fn us(&self) -> f64 {
        self.product.product.figures.us()
    }

    /// With a mark where there is but one time.
    fn marked_us(&self) -> String {
        let once = if self.product.repeats == 1 { "¹" } else { "" };
        us(self.us()) + once
    }
}

impl MatrixResult for GemmResult {
    fn name(&self) -> &str {
        &self.name
    }

    fn dtype(&self) -> DTypeName {
        self.dtype
    }

    fn products(&self) -> impl Iterator<Item = &ProductReport> {
        self.kernels.iter().map(|kernel| &kernel.product.product)
    }

    fn rivals(&self) -> &[RivalReport] {
        &self.rivals
    }
}

impl GemmResult {
    pub(super) fn new(
        shape: Shape,
        dtype: DTypeName,
        mut kernels: Vec<KernelReport>,
        rivals: Vec<RivalReport>,
    ) -> Self {
        let fastest = rivals.iter().map(rival_us).min_by(f64::total_cmp);
        for kernel in &mut kernels {
            kernel.ratio = fastest.map(|us| us / kernel.us());
        }
        Self { name: shape.to_string(), shape, dtype, kernels, rivals }
    }

    fn kernel(&self, name: &str) -> Option<&KernelReport> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// A kernel's speed in percent of a library's.
    fn percent(&self, kernel: &KernelReport, rival: &str) -> Option<f64> {
        Some(100.0 * rival_us(self.rival(rival)?) / kernel.us())
    }
}

fn rival_us(rival: &RivalReport) -> f64 {
    rival.figures.us()
}

impl Report<GemmResult> {
    /// Kernel by kernel for a ladder, otherwise shape by shape.
    pub(super) fn markdown(&self, is_ladder: bool) -> String {
        let Machine { device, model, .. } = &self.machine;
        let Self { warpsparse, date, .. } = self;
        let mut text = format!("warpsparse {warpsparse} on {device}, {model}; {date}.\n\n{}\n", self.method.text);
        for rival in &self.method.rivals {
            text += &format!("\nCompared with {rival}.\n");
        }
        text += &format!("\n{}", self.losses());
        for (dtype, results) in self.by_dtype() {
            text += &format!("\n## {dtype}\n\n");
            text += &if is_ladder { self.ladder(&results) } else { self.shapes(&results) };
        }
        for Skipped { what, reason } in &self.skipped {
            text += &format!("\nskipped {what}: {reason}\n");
        }
        text
    }

    fn shapes(&self, results: &[&GemmResult]) -> String {
        let rivals = self.rival_names();
        let mut header = ["<shape", "<kernel", "µs", "±%", "call µs", "TFLOP/s", "error"].map(str::to_owned).to_vec();
        for rival in &rivals {
            header.extend([format!("% of {rival}"), format!("{rival} µs"), "call µs".into(), "TFLOP/s".into()]);
            header.extend(["% of calls".into(), "error".into()]);
        }
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        let row = |result: &&GemmResult| result.kernels.iter().map(|kernel| row(result, kernel, &rivals)).collect();
        let rows: Vec<_> = results.iter().flat_map::<Vec<_>, _>(row).collect();
        let summaries = rivals.iter().filter_map(|rival| summary(results, rival));
        table::markdown(&header, &rows) + &summaries.map(|summary| format!("\n{summary}\n")).collect::<String>()
    }

    fn ladder(&self, results: &[&GemmResult]) -> String {
        let mut names: Vec<&str> = Vec::new();
        for kernel in results.iter().flat_map(|result| &result.kernels) {
            if !names.contains(&kernel.name.as_str()) {
                names.push(&kernel.name);
            }
        }
        // A row a kernel, a cell a shape.
        let rows = |cell: &dyn Fn(&GemmResult, &KernelReport) -> Option<String>| {
            let cells = |name: &str| {
                let of = |result: &&GemmResult| result.kernel(name).and_then(|kernel| cell(result, kernel));
                results.iter().map(|result| of(result).unwrap_or_else(none)).collect::<Vec<_>>()
            };
            names.iter().map(|&name| [vec![name.to_owned()], cells(name)].concat()).collect::<Vec<_>>()
        };
        let header: Vec<&str> = ["<kernel"].into_iter().chain(results.iter().map(|result| result.name())).collect();
        let mut times = rows(&|_, kernel| Some(kernel.marked_us()));
        for rival in self.rival_names() {
            let cell = |result: &&GemmResult| result.rival(rival).map_or_else(none, |it| us(rival_us(it)));
            times.push([vec![rival.to_owned()], results.iter().map(cell).collect()].concat());
        }
        let mut text = format!("µs; ¹ of one product alone\n\n{}", table::markdown(&header, &times));
        for rival in self.rival_names() {
            let percents = rows(&|result, kernel| result.percent(kernel, rival).map(|percent| format!("{percent:.1}")));
            text += &format!("\n% of {rival}\n\n{}", table::markdown(&header, &percents));
        }
        text
    }
}

fn row(result: &GemmResult, kernel: &KernelReport, rivals: &[&str]) -> Vec<String> {
    let GemmReport { product: ProductReport { kernel: entry, figures, .. }, tflop_per_s, .. } = &kernel.product;
    let Figures { timing: Timing { time_us, call_us, .. }, relative_error, .. } = figures;
    let mut cells = vec![
        result.name.clone(),
        entry.clone(),
        kernel.marked_us(),
        format!("{:.1}", time_us.percent()),
        call_us.map_or_else(none, |call_us| us(call_us.median)),
        format!("{tflop_per_s:.3}"),
        format!("{relative_error:.0e}"),
    ];
    for name in rivals {
        cells.extend(match (result.rival(name), result.percent(kernel, name)) {
            (Some(rival), Some(percent)) => [
                format!("{percent:.1}"),
                us(rival_us(rival)),
                rival.figures.timing.call_us.map_or_else(none, |call_us| us(call_us.median)),
                format!("{:.3}", 1e-6 * result.shape.operations() / rival_us(rival)),
                format!("{:.1}", 100.0 * rival.figures.timing.calls_over(&kernel.product.product.figures.timing)),
                format!("{:.0e}", rival.figures.relative_error),
            ],
            _ => std::array::from_fn(|_| none()),
        });
    }
    cells
}

/// The geometric mean and the lowest of what the last kernels are in percent of a library.
fn summary(results: &[&GemmResult], rival: &str) -> Option<String> {
    let percent = |result: &&GemmResult| Some((result.percent(result.kernels.last()?, rival)?, result.name.clone()));
    let percents: Vec<(f64, String)> = results.iter().filter_map(percent).collect();
    let mean = geometric_mean(&percents.iter().map(|(percent, _)| *percent).collect::<Vec<_>>())?;
    let (lowest, shape) = percents.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("% of {rival}: geometric mean {mean:.1}, lowest {lowest:.1} with {shape}."))
}
