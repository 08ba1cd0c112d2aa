//! A report as one page that needs nothing else: no script, no font, no file beside it.

mod bars;
mod roofline;
mod scale;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    report::{Machine, MatrixResult as _, RivalReport},
    spmv::report::{MatrixResult, Report},
};
use crate::measure::{DTypeName, Figures, MatrixReport};

/// The page. All text in it is escaped by the template.
pub(crate) fn page(report: &Report) -> String {
    let Report { machine, method, .. } = report;
    let body = html! {
        header {
            h1 { "Sparse matrix times vector: warpsparse " (report.warpsparse) }
            p.quiet { (machine.model) ", " (report.date) }
        }
        section.cards { (headlines(report)) }
        section.columns {
            div { h2 { "Machine" } (facts(machine)) }
            div {
                h2 { "How it was measured" }
                p { (method.text) }
                ul { @for rival in &method.rivals { li { "Compared with " (rival) } } }
            }
        }
        @for (dtype, results) in report.by_dtype() {
            section {
                h2 { "Roofline, " (dtype) }
                p.quiet {
                    "Compulsory arithmetic intensity against speed, beneath the roof that a copy on this device sets. "
                    "A number is a row of the table; point at a mark for its figures."
                }
                (roofline::plot(&results, report.machine.copy_gb_per_s))
            }
            @for rival in report.rival_names() {
                section {
                    h2 { "Speed beside " (rival) ", " (dtype) }
                    p.quiet { (rival) "'s time over that of the kernel chosen by itself: to the right of 1, " (rival) " is slower." }
                    (bars::plot(&results, rival))
                }
            }
            section { h2 { "Figures, " (dtype) } (table(report, dtype, &results)) }
        }
        @if !report.skipped.is_empty() {
            section {
                h2 { "Skipped" }
                ul { @for skipped in &report.skipped { li { b { (skipped.what) } ": " (skipped.reason) } } }
            }
        }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "warpsparse SpMV on " (machine.model) }
                style { (PreEscaped(include_str!("html/style.css"))) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// The geometric means, large.
fn headlines(report: &Report) -> Markup {
    html! {
        @for summary in report.summaries() {
            div.card {
                div.big { (format!("{:.2}×", summary.geometric_mean)) }
                div { "the speed of " (summary.rival) ", " (summary.dtype) }
                div.quiet {
                    "geometric mean of " (summary.matrices) " matrices, slower on " (summary.below_one)
                }
            }
        }
    }
}

fn facts(machine: &Machine) -> Markup {
    let gib = |bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30));
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let facts = [
        ("Device", Some(format!("{} ({})", machine.model, machine.device))),
        ("Parallel units", Some(machine.parallel_units.to_string())),
        ("Memory", machine.memory_bytes.map(gib)),
        ("L2 cache", machine.l2_bytes.map(mib)),
        ("Compute capability", machine.compute_capability.clone()),
        ("Driver for CUDA", machine.driver_cuda.clone()),
        ("A copy moves", Some(format!("{:.0} GB/s", machine.copy_gb_per_s))),
    ];
    html! {
        dl { @for (name, fact) in facts { @if let Some(fact) = fact { dt { (name) } dd { (fact) } } } }
    }
}

fn table(report: &Report, dtype: DTypeName, results: &[&MatrixResult]) -> Markup {
    let rivals = report.rival_names();
    html! {
        div.scroll {
            table {
                caption.hidden { "Products in " (dtype) }
                thead {
                    tr {
                        th { "#" } th.text { "Matrix" } th { "Rows" } th { "Entries" } th { "Mean row" } th { "Max row" }
                        th.text { "Kernel" } th { "µs" } th { "±%" } th { "GB/s" } th { "% of copy" } th { "Error" }
                        th { "Analysis, products" } th.text { "Fastest kernel" } th { "Chosen / fastest" }
                        @for rival in &rivals { th.text { (rival) } th { "µs" } th { "Ratio" } th { "Error" } }
                    }
                }
                tbody { @for (number, result) in results.iter().enumerate() { (row(number + 1, result, &rivals)) } }
            }
        }
    }
}

fn row(number: usize, result: &MatrixResult, rivals: &[&str]) -> Markup {
    let MatrixReport { source, rows, entries, mean_row, max_row, .. } = &result.matrix;
    let Figures { time_us, gb_per_s, percent_of_copy, relative_error, .. } = &result.chosen.figures;
    let spread =
        format!("{:.2} to {:.2} µs, quartiles {:.2} and {:.2}", time_us.min, time_us.max, time_us.q1, time_us.q3);
    html! {
        tr {
            td { (number) }
            td.text title=(source) { (result.name) }
            td { (rows) }
            td { (entries) }
            td { (format!("{mean_row:.1}")) }
            td { (max_row) }
            td.text title=(result.chosen.reason) { (result.chosen.kernel) }
            td title=(spread) { (format!("{:.1}", time_us.median)) }
            td title=(spread) { (format!("{:.1}", time_us.percent())) }
            td { (format!("{gb_per_s:.0}")) }
            td { (format!("{percent_of_copy:.1}")) }
            td { (format!("{relative_error:.1e}")) }
            td { (format!("{:.1}", result.analysis.products)) }
            td.text { (result.best().0) }
            td { (format!("{:.2}", result.chosen_over_best())) }
            @for rival in rivals {
                @match result.rival(rival) {
                    Some(RivalReport { variant, figures, ratio, .. }) => {
                        td.text { (variant) }
                        td { (format!("{:.1}", figures.time_us.median)) }
                        td.slower[*ratio < 1.0] { (format!("{ratio:.2}")) }
                        td { (format!("{:.1e}", figures.relative_error)) }
                    }
                    None => { td.text { "–" } td { "–" } td { "–" } td { "–" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
