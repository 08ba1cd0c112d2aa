//! Ladders as steps: each rung begins where the one before it ended.

use maud::{Markup, html};

use super::{facts::count, short, speed, told};
use crate::{
    cg::{CAPTURED, CPU},
    reading::{By, Case, Kind, Reading, Timed, Way},
};

/// Whether a report is that of a ladder.
pub(super) fn is_one(reading: &Reading) -> bool {
    match reading.kind {
        Kind::Graphs | Kind::Cg => true,
        Kind::Gemm => reading.cases.iter().any(|case| rungs(Kind::Gemm, case).len() > 1),
        Kind::Spmv | Kind::Spmm | Kind::Formats | Kind::Vector | Kind::FirstUse => false,
    }
}

pub(super) fn plots(reading: &Reading) -> Markup {
    html! {
        div.ladders {
            @for case in &reading.cases { (plot(reading.kind, case)) }
        }
    }
}

/// Of conjugate gradients the libraries are rungs too.
fn rungs(kind: Kind, case: &Case) -> Vec<&Way> {
    case.ways.iter().filter(|way| kind == Kind::Cg || way.by != By::Baseline).collect()
}

/// The fastest other library, with which all rungs are compared.
fn fastest_baseline(kind: Kind, case: &Case) -> Option<(&Way, Timed)> {
    let baselines =
        case.timed().filter(|(way, _)| way.by == By::Baseline && (kind != Kind::Cg || way.name == CAPTURED));
    baselines.min_by(|a, b| a.1.us().median.total_cmp(&b.1.us().median))
}

fn plot(kind: Kind, case: &Case) -> Markup {
    let baseline = fastest_baseline(kind, case);
    let of = |timed: &Timed| speed(kind, case.flops, timed);
    let rungs = rungs(kind, case);
    let times =
        rungs.iter().filter_map(|way| way.timed.as_ref().ok()).chain(baseline.as_ref().map(|baseline| &baseline.1));
    let most = times.map(of).filter(|speed| speed.is_finite()).fold(0.0, f64::max);
    let line = baseline.as_ref().map(|(_, timed)| percent(of(timed), most));
    let mut before = 0.0;
    html! {
        div.ladder {
            h3 { (case.label()) span.quiet { " " (case.dtype) @if let Some(matrix) = &case.matrix {
                ", " (count(matrix.rows)) " rows, " (count(matrix.entries)) " entries"
            } } }
            @for way in rungs {
                @match &way.timed {
                    Ok(timed) => {
                        @let now = percent(of(timed), most);
                        // The CPU is no step from the GPU.
                        @let from = if way.name == CPU { 0.0 } else { std::mem::replace(&mut before, now) };
                        (step(kind, case, way, timed, (from, now), line))
                    }
                    Err(reason) => {
                        div.bar title=(reason) {
                            div.who { (way.name) }
                            div.track { (rule(line)) }
                            div.value.quiet { span { "–" } }
                        }
                    }
                }
            }
            @if let Some((way, timed)) = baseline.filter(|_| kind != Kind::Cg) {
                div.bar title=(told(way, &timed, case.flops)) {
                    div.who { (way.name) }
                    div.track { span.fill.theirs style=(format!("width:{:.2}%", percent(of(&timed), most))) {} }
                    div.value { span { (value(kind, case, &timed)) } }
                }
            }
        }
    }
}

fn percent(speed: f64, most: f64) -> f64 {
    if most > 0.0 && speed.is_finite() { 100.0 * speed / most } else { 0.0 }
}

/// From the rung before to this one: what was there is faint, a gain is not, and a loss has a colour of its own.
fn step(kind: Kind, case: &Case, way: &Way, timed: &Timed, (from, now): (f64, f64), line: Option<f64>) -> Markup {
    let place = |from: f64, to: f64| format!("left:{:.2}%;width:{:.2}%", from, to - from);
    let is_theirs = way.by == By::Baseline;
    let baseline = fastest_baseline(kind, case).filter(|(baseline, _)| baseline.name != way.name);
    let ratio = baseline.map(|(_, baseline)| baseline.timing.over(&timed.timing));
    html! {
        div.bar title=(told(way, timed, case.flops)) {
            div.who.strong[way.by == By::Chosen] { (way.name) }
            div.track {
                span.fill.faint.theirs[is_theirs].ours[!is_theirs] style=(place(0.0, from.min(now))) {}
                @if now > from { span.fill.theirs[is_theirs].chosen[!is_theirs] style=(place(from, now)) {} }
                @if now < from { span.fill.lost style=(place(now, from)) {} }
                (rule(line))
            }
            div.value {
                span { (value(kind, case, timed)) }
                @if let Some(ratio) = ratio {
                    span.(if ratio >= 1.0 { "good" } else { "quiet" }) { (super::ratio(ratio)) }
                }
            }
        }
    }
}

/// Where the other library is.
fn rule(line: Option<f64>) -> Markup {
    html! { @if let Some(line) = line { span.roof style=(format!("left:{line:.2}%")) {} } }
}

/// An iteration is told by its time.
fn value(kind: Kind, case: &Case, timed: &Timed) -> String {
    match kind {
        Kind::Cg => short(timed.us().median),
        _ => short(speed(kind, case.flops, timed)),
    }
}
