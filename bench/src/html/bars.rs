//! Speeds as bars: a case, our kernel, and below it the others.

use maud::{Markup, html};
use measure::DTypeName;

use super::{facts::count, short, speed, told, unit};
use crate::reading::{By, Case, Kind, Reading, Timed, Way};

/// A plot for each element type.
pub(super) fn plots(reading: &Reading) -> Markup {
    html! {
        div.panels.single[reading.dtypes().len() == 1] {
            @for dtype in reading.dtypes() { (plot(reading, dtype)) }
        }
    }
}

fn plot(reading: &Reading, dtype: DTypeName) -> Markup {
    let kind = reading.kind;
    let cases: Vec<&Case> = reading.cases.iter().filter(|case| case.dtype == dtype).collect();
    let roof = matches!(kind, Kind::Spmv | Kind::Vector).then_some(reading.machine.copy_gb_per_s);
    let of_case = |case: &&Case| drawn(case).map(|(_, timed)| speed(kind, case.flops, &timed)).fold(0.0, f64::max);
    let most = cases.iter().map(of_case).chain(roof).filter(|speed| speed.is_finite()).fold(0.0, f64::max);
    html! {
        div.panel {
            h3 { (dtype) span.quiet { " " (unit(kind)) } }
            div.cases { @for case in &cases {
                div.case {
                    div.name { (case.label()) @if let Some(size) = size(case) { span.quiet { " " (size) } } }
                    @for (way, timed) in drawn(case) {
                        (bar(kind, case, way, &timed, most, roof))
                    }
                    @for way in case.ways.iter().filter(|way| way.timed.is_err() && is_drawn(way)) {
                        div.bar title=(reason(way)) {
                            div.who { (shown_name(way)) }
                            div.track {}
                            div.value.quiet { span.wide { "refused" } }
                        }
                    }
                }
            } }
        }
    }
}

/// What takes part: all but kernels that were forced.
fn drawn(case: &Case) -> impl Iterator<Item = (&Way, Timed)> {
    case.timed().filter(|(way, _)| is_drawn(way))
}

fn is_drawn(way: &Way) -> bool {
    way.by != By::Forced
}

fn reason(way: &Way) -> &str {
    way.timed.as_ref().err().map_or("", String::as_str)
}

fn bar(kind: Kind, case: &Case, way: &Way, timed: &Timed, most: f64, roof: Option<f64>) -> Markup {
    let speed = speed(kind, case.flops, timed);
    let percent = |speed: f64| if most > 0.0 { 100.0 * speed / most } else { 0.0 };
    let class = match way.by {
        By::Chosen => "chosen",
        By::Ours | By::Forced => "ours",
        By::Baseline => "theirs",
    };
    let ratio = case.chosen().filter(|_| way.by == By::Baseline).map(|(_, ours)| timed.timing.over(&ours.timing));
    html! {
        div.bar title=(told(way, timed, case.flops)) {
            div.who { (shown_name(way)) }
            div.track {
                @if let Some(roof) = roof { span.roof style=(format!("left:{:.2}%", percent(roof))) {} }
                span.fill.(class) style=(format!("width:{:.2}%", percent(speed))) {}
            }
            div.value {
                span { (short(speed)) }
                @if let Some(ratio) = ratio { b.(if ratio >= 1.0 { "good" } else { "bad" }) { (super::ratio(ratio)) } }
            }
        }
    }
}

fn shown_name(way: &Way) -> &str {
    match (way.by, way.name.as_str()) {
        (By::Chosen, "auto") => "automatic choice",
        (By::Chosen, _) => "warpsparse",
        (_, "csr" | "coo" | "dia" | "ell" | "hyb") => match way.name.as_str() {
            "csr" => "CSR",
            "coo" => "COO",
            "dia" => "DIA",
            "ell" => "ELL",
            _ => "HYB",
        },
        (_, name) => name,
    }
}

fn size(case: &Case) -> Option<String> {
    let matrix = case.matrix.as_ref()?;
    Some(format!("{} rows, {} entries", count(matrix.rows), count(matrix.entries)))
}
