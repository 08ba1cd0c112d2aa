//! What `warpsparse-bench gemm` finds out, and its tables, in Markdown.

use measure::{DTypeName, Figures, GemmReport, ProductReport, Shape, Timing, geometric_mean};
use serde::Serialize;

use crate::{
    report::{BaselineReport, Machine, MatrixResult, Report, Skipped},
    table::{self, none, us},
};

/// Products of one shape with elements of one type.
#[derive(Serialize)]
pub(crate) struct GemmResult {
    name: String,
    #[serde(flatten)]
    shape: Shape,
    dtype: DTypeName,
    /// The default kernel, last; before it that of `f32` on the tensor cores, and before that the ladder from the bottom.
    kernels: Vec<KernelReport>,
    baselines: Vec<BaselineReport>,
}

#[derive(Serialize)]
pub(crate) struct KernelReport {
    /// The rung, `tensor-cores` for the kernel that the options demand, `tiles` for the default one, or `cpu`.
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

    fn baselines(&self) -> &[BaselineReport] {
        &self.baselines
    }
}

impl GemmResult {
    pub(super) fn new(
        shape: Shape,
        dtype: DTypeName,
        mut kernels: Vec<KernelReport>,
        baselines: Vec<BaselineReport>,
    ) -> Self {
        let fastest = baselines.iter().map(baseline_us).min_by(f64::total_cmp);
        for kernel in &mut kernels {
            kernel.ratio = fastest.map(|us| us / kernel.us());
        }
        Self { name: shape.to_string(), shape, dtype, kernels, baselines }
    }

    fn kernel(&self, name: &str) -> Option<&KernelReport> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// A kernel's speed in percent of a library's.
    fn percent(&self, kernel: &KernelReport, baseline: &str) -> Option<f64> {
        Some(100.0 * baseline_us(self.baseline(baseline)?) / kernel.us())
    }
}

fn baseline_us(baseline: &BaselineReport) -> f64 {
    baseline.figures.us()
}

impl Report<GemmResult> {
    /// Kernel by kernel for a ladder, otherwise shape by shape.
    pub(super) fn markdown(&self, is_ladder: bool) -> String {
        let Machine { device, model, .. } = &self.machine;
        let Self { warpsparse, date, .. } = self;
        let mut text = format!("warpsparse {warpsparse} on {device}, {model}; {date}.\n\n{}\n", self.method.text);
        for baseline in &self.method.baselines {
            text += &format!("\nCompared with {baseline}.\n");
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
        let baselines = self.baseline_names();
        let mut header = ["<shape", "<kernel", "µs", "±%", "call µs", "TFLOP/s", "error", "largest", "median"]
            .map(str::to_owned)
            .to_vec();
        for baseline in &baselines {
            header.extend([format!("% of {baseline}"), format!("{baseline} µs"), "call µs".into(), "TFLOP/s".into()]);
            header.extend(["% of calls", "error", "largest", "median"].map(str::to_owned));
        }
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        let row = |result: &&GemmResult| result.kernels.iter().map(|kernel| row(result, kernel, &baselines)).collect();
        let rows: Vec<_> = results.iter().flat_map::<Vec<_>, _>(row).collect();
        let summaries = baselines.iter().filter_map(|baseline| summary(results, baseline));
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
        for baseline in self.baseline_names() {
            let cell = |result: &&GemmResult| result.baseline(baseline).map_or_else(none, |it| us(baseline_us(it)));
            times.push([vec![baseline.to_owned()], results.iter().map(cell).collect()].concat());
        }
        let mut text = format!("µs; ¹ of one product alone\n\n{}", table::markdown(&header, &times));
        for baseline in self.baseline_names() {
            let percents =
                rows(&|result, kernel| result.percent(kernel, baseline).map(|percent| format!("{percent:.1}")));
            text += &format!("\n% of {baseline}\n\n{}", table::markdown(&header, &percents));
        }
        text
    }
}

fn row(result: &GemmResult, kernel: &KernelReport, baselines: &[&str]) -> Vec<String> {
    let GemmReport { product: ProductReport { kernel: entry, figures, .. }, tflop_per_s, .. } = &kernel.product;
    let Figures { timing: Timing { time_us, call_us, .. }, .. } = figures;
    let mut cells = vec![
        result.name.clone(),
        entry.clone(),
        kernel.marked_us(),
        format!("{:.1}", time_us.percent()),
        call_us.map_or_else(none, |call_us| us(call_us.median)),
        format!("{tflop_per_s:.3}"),
    ];
    cells.extend(errors(figures));
    for name in baselines {
        match (result.baseline(name), result.percent(kernel, name)) {
            (Some(baseline), Some(percent)) => cells.extend(
                [
                    format!("{percent:.1}"),
                    us(baseline_us(baseline)),
                    baseline.figures.timing.call_us.map_or_else(none, |call_us| us(call_us.median)),
                    format!("{:.3}", 1e-6 * result.shape.operations() / baseline_us(baseline)),
                    format!(
                        "{:.1}",
                        100.0 * baseline.figures.timing.calls_over(&kernel.product.product.figures.timing)
                    ),
                ]
                .into_iter()
                .chain(errors(&baseline.figures)),
            ),
            _ => cells.extend(std::array::from_fn::<_, 8, _>(|_| none())),
        }
    }
    cells
}

/// The error in the 2-norm, and the largest and the median one of an element, over what rounding can explain.
fn errors(figures: &Figures) -> [String; 3] {
    [figures.relative_error, figures.error_over_bound, figures.median_error_over_bound]
        .map(|error| format!("{error:.1e}"))
}

/// The geometric mean and the lowest of what the last kernels are in percent of a library.
fn summary(results: &[&GemmResult], baseline: &str) -> Option<String> {
    let percent = |result: &&GemmResult| Some((result.percent(result.kernels.last()?, baseline)?, result.name.clone()));
    let percents: Vec<(f64, String)> = results.iter().filter_map(percent).collect();
    let mean = geometric_mean(&percents.iter().map(|(percent, _)| *percent).collect::<Vec<_>>())?;
    let (lowest, shape) = percents.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("% of {baseline}: geometric mean {mean:.1}, lowest {lowest:.1} with {shape}."))
}
