//! A report as one page that needs nothing else: no script, no font, no file beside it.

mod bars;
mod clock;
mod facts;
mod figures;
mod first_use;
mod ladder;
mod roofline;
mod scale;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::DTypeName;
use serde_json::Value;

use super::{
    reading::{Document, Kind, Reading, Section},
    report::{Machine, Method, Skipped},
    table,
};

pub(crate) use self::verdict::headline;

/// The page of any benchmark's report. All text in it is escaped by the template.
pub(crate) fn page(report: &Value) -> Result<String, String> {
    let document = Document::read(report)?;
    let (readings, clocks) = (document.readings()?, document.clocks()?);
    let Document { machine, date, warpsparse, .. } = &document;
    let body = html! {
        header {
            p.brand { "warpsparse " (warpsparse) }
            h1 { "Measured on " (machine.model) }
            p.quiet { (facts::moment(date)) @if let Some(seconds) = document.seconds { ", in " (facts::duration(seconds)) } }
        }
        main {
            (verdict::section(&readings))
            (roofline::section(&readings, machine))
            @for (place, (section, reading)) in readings.iter().enumerate() { (benchmark(place, section, reading)) }
            @for (section, reading) in &clocks { (clock::section(section, reading)) }
            @for section in document.sections.iter().filter(|section| section.failed.is_some()) { (failure(section)) }
            section #conditions {
                h2 { "Conditions" }
                (facts::section(&document))
            }
        }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "warpsparse on " (machine.model) }
                style { (PreEscaped(include_str!("html/style.css"))) }
            }
            body { (body) }
        }
    };
    Ok(page.into_string())
}

/// One benchmark: its figures drawn, how they were taken, and all of them in a table.
fn benchmark(place: usize, section: &Section, reading: &Reading) -> Markup {
    let is_ladder = ladder::is_one(reading);
    html! {
        section #(format!("section-{place}")) {
            h2 { (reading.kind.title()) @if is_ladder && reading.kind == Kind::Gemm { ": the ladder of kernels" } }
            p.lead { (lead(reading, is_ladder)) }
            @if reading.cases.is_empty() { p { "Nothing was measured." } }
            @match reading.kind {
                Kind::FirstUse => (first_use::plot(reading)),
                _ if is_ladder => (ladder::plots(reading)),
                _ => (bars::plots(reading)),
            }
            (method_of(section, &reading.method, &reading.skipped))
            details {
                summary { "All figures" }
                (figures::table(reading))
            }
        }
    }
}

/// What is drawn, in a sentence or two.
fn lead(reading: &Reading, is_ladder: bool) -> &'static str {
    match reading.kind {
        Kind::Spmv => {
            "GB/s of the bytes that must move at least, in CSR by the automatically chosen kernel; the line is the bandwidth \
             of a copy on the device."
        }
        Kind::Spmm => "GFLOP/s, two operations for each entry and column, by the automatically chosen kernel.",
        Kind::Graphs => {
            "From the obvious kernel to clustered rows: what each step gains, in GFLOP/s. The graphs are stand-ins of \
             published sizes and made-up structure; the line is the fastest other library."
        }
        Kind::Gemm if is_ladder => {
            "From the obvious kernel to the default one: what each step gains, in TFLOP/s. The line is the fastest other \
             library."
        }
        Kind::Gemm => "TFLOP/s of C = A B by the default kernel; shapes are m x n x k, one number all three.",
        Kind::Cg => {
            "From the way that programs call NVIDIA's libraries to one launch for many iterations: microseconds an \
             iteration by wall time, and bars of iterations a second. The line is the libraries captured in a graph."
        }
        Kind::FirstUse => {
            "Milliseconds from a program's start to its first result: faint what the driver and its context take, full the \
             operation with all that it loads."
        }
        Kind::Formats => "GFLOP/s of the same product in every format. One that would be mostly padding refuses.",
        Kind::Vector => {
            "GB/s of the elements that an operation must read and write; the line is the bandwidth of a copy on the device."
        }
    }
}

fn method_of(section: &Section, method: &Method, skipped: &[Skipped]) -> Markup {
    html! {
        details.method {
            summary { "How it was measured" @if !skipped.is_empty() { ", and " (skipped.len()) " skipped" } }
            @for paragraph in method.text.split("\n\n") { p { (paragraph) } }
            @for baseline in &method.baselines { p { "Compared with " (baseline) "." } }
            @if let Some(load) = &section.load { p { (facts::load(load)) } }
            @if let Some(command) = &section.command {
                p { "The same alone" @if let Some(seconds) = section.seconds { ", in " (facts::duration(seconds)) } ":" }
                pre { (command) }
            }
            @if !skipped.is_empty() {
                ul { @for Skipped { what, reason } in skipped { li { b { (what) } ": " (reason) } } }
            }
        }
    }
}

fn failure(section: &Section) -> Markup {
    html! {
        section {
            h2 { "Failed" }
            p { (section.failed.as_deref().unwrap_or_default()) }
        }
    }
}

/// The quantity that is drawn of a kind, and its unit.
fn speed(kind: Kind, flops: f64, timed: &super::reading::Timed) -> f64 {
    match kind {
        Kind::Spmv | Kind::Vector => timed.gb_per_s(),
        Kind::Spmm | Kind::Graphs | Kind::Formats => timed.gflop_per_s(flops),
        Kind::Gemm => timed.gflop_per_s(flops) / 1e3,
        // Of iterations, thousands a second.
        Kind::Cg | Kind::FirstUse => 1e3 / timed.us().median,
    }
}

fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Spmv | Kind::Vector => "GB/s",
        Kind::Spmm | Kind::Graphs | Kind::Formats => "GFLOP/s",
        Kind::Gemm => "TFLOP/s",
        Kind::Cg => "thousand iterations/s",
        Kind::FirstUse => "thousand programs/s",
    }
}

/// About three digits, of small figures too.
fn short(figure: f64) -> String {
    match figure {
        0.0 => "0".into(),
        ..0.00995 => format!("{figure:.1e}"),
        ..0.0995 => format!("{figure:.3}"),
        _ => table::short(figure),
    }
}

/// With more digits where two would hide which side of 1 it is on, or be all that there is.
fn ratio(ratio: f64) -> String {
    match ratio {
        ..0.0995 | 0.995..1.005 => format!("{ratio:.3}×"),
        _ => format!("{}×", table::short(ratio)),
    }
}

/// All that is known of a time.
fn told(way: &super::reading::Way, timed: &super::reading::Timed, flops: f64) -> String {
    let us = timed.us();
    let calls =
        timed.timing.call_us.map_or_else(String::new, |calls| format!("; host call time {} µs", short(calls.median)));
    let kernel = if way.kernel.is_empty() { String::new() } else { format!(" ({})", way.kernel) };
    let gflop_per_s = short(timed.gflop_per_s(flops));
    format!(
        "{}{kernel}: {} µs ({}), quartiles {} and {}; {} GB/s, {gflop_per_s} GFLOP/s{calls}",
        way.name,
        short(us.median),
        timed.timing.clock.name(),
        short(us.q1),
        short(us.q3),
        short(timed.gb_per_s()),
    )
}

fn peak(machine: &Machine, dtype: DTypeName) -> Option<f64> {
    match dtype {
        DTypeName::F32 => machine.peak_f32_tflop_per_s,
        DTypeName::F64 => machine.peak_f64_tflop_per_s,
    }
}

#[cfg(test)]
mod tests;
