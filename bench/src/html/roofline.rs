//! The roofline: all that was measured, speed over arithmetic intensity, beneath what memory and units allow.

use maud::{Markup, html};
use measure::{Clock, DTypeName};

use super::{
    peak,
    scale::{LogScale, range},
    short, told,
};
use crate::{
    reading::{By, Kind, Reading, Section},
    report::Machine,
};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Where the axes cross, and where they end.
const LEFT: f64 = 74.0;
const BOTTOM: f64 = HEIGHT - 52.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 34.0;

/// A mark: a case by a kernel.
struct Point {
    kind: Kind,
    by: By,
    title: String,
    intensity: f64,
    gflop_per_s: f64,
}

pub(super) fn section(readings: &[(&Section, Reading)], machine: &Machine) -> Markup {
    let dtypes = [DTypeName::F32, DTypeName::F64].map(|dtype| (dtype, points(readings, dtype)));
    html! {
        section #roofline {
            h2 { "Roofline" }
            p.lead {
                "Every kernel measured: operations for each byte that must move, against operations a second. The slope is \
                 the measured bandwidth of a copy; the level is what the units could do at the highest clock. What a cache \
                 holds may be above the slope."
            }
            @for (dtype, points) in dtypes.iter().filter(|(_, points)| !points.is_empty()) {
                @let measurements = if points.len() == 1 { "measurement" } else { "measurements" };
                h3 { (dtype) span.quiet { " " (points.len()) " " (measurements) } }
                (legend(points))
                (plot(points, machine.copy_gb_per_s, peak(machine, *dtype)))
            }
        }
    }
}

fn points(readings: &[(&Section, Reading)], dtype: DTypeName) -> Vec<Point> {
    let mut points = Vec::new();
    for (_, reading) in readings {
        for case in reading.cases.iter().filter(|case| case.dtype == dtype) {
            // A kernel's compilation has no place here.
            let computed = case.timed().filter(|(_, timed)| timed.timing.clock != Clock::Calls);
            points.extend(computed.map(|(way, timed)| Point {
                kind: reading.kind,
                by: way.by,
                title: format!("{} {}, {}", reading.kind.short(), case.label(), told(way, &timed, case.flops)),
                intensity: case.flops / timed.bytes,
                gflop_per_s: timed.gflop_per_s(case.flops),
            }));
        }
    }
    // What has no operations or no bytes has no place on logarithmic axes.
    let is_positive = |number: f64| number > 0.0 && number.is_finite();
    points.retain(|point| is_positive(point.intensity) && is_positive(point.gflop_per_s));
    // What matters most comes last, thus on top.
    points.sort_by_key(|point| match point.by {
        By::Forced => 0,
        By::Ours => 1,
        By::Baseline => 2,
        By::Chosen => 3,
    });
    points
}

fn plot(points: &[Point], copy_gb_per_s: f64, peak_tflop_per_s: Option<f64>) -> Markup {
    let intensities = range(points.iter().map(|point| point.intensity));
    let speeds = range(points.iter().map(|point| point.gflop_per_s));
    let (Some((least, greatest)), Some((slowest, fastest))) = (intensities, speeds) else {
        return html! { p { "There is nothing to plot." } };
    };
    let peak = peak_tflop_per_s.map_or(f64::INFINITY, |peak| 1e3 * peak);
    // Both roofs are to be seen.
    let corner = Some(peak / copy_gb_per_s).filter(|corner| corner.is_finite()).unwrap_or(0.0);
    let x = LogScale::new(least / 1.3, (1.3 * greatest).max(2.0 * corner), LEFT, RIGHT);
    let roof = |intensity: f64| (copy_gb_per_s * intensity).min(peak);
    let y = LogScale::new(slowest / 1.5, fastest.max(roof(x.to)) * 1.5, BOTTOM, TOP);
    // The slope begins where it enters the plot, and ends at the level or at the right.
    let start = x.from.max(y.from / copy_gb_per_s);
    let ridge = (peak / copy_gb_per_s).min(x.to);
    let from = (x.at(start), y.at(roof(start)));
    let to = (x.at(ridge), y.at(roof(ridge)));
    let angle = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
    let marks: Vec<(f64, f64)> = points.iter().map(|it| (x.at(it.intensity), y.at(it.gflop_per_s))).collect();
    let text = place_on_slope(from, to, &marks);
    html! {
        div.scroll {
            svg.roofline viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
                title { "Roofline plot" }
                @for (place, text) in x.decades() {
                    line.grid x1=(place) x2=(place) y1=(TOP) y2=(BOTTOM) {}
                    text.quiet x=(place) y=(BOTTOM + 20.0) text-anchor="middle" { (text) }
                }
                @for (place, text) in y.decades() {
                    line.grid x1=(LEFT) x2=(RIGHT) y1=(place) y2=(place) {}
                    text.quiet x=(LEFT - 10.0) y=(place + 4.0) text-anchor="end" { (text) }
                }
                text.quiet x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { "operations for each byte" }
                text.quiet x=(LEFT) y=(TOP - 14.0) { "GFLOP/s" }
                @if from.0 < to.0 {
                    line.limit x1=(from.0) y1=(from.1) x2=(to.0) y2=(to.1) {}
                    text x=(text.0) y=(text.1 - 8.0) transform=(format!("rotate({angle:.2} {:.1} {:.1})", text.0, text.1)) {
                        "a copy: " (short(copy_gb_per_s)) " GB/s"
                    }
                }
                @if let Some(peak_tflop_per_s) = peak_tflop_per_s.filter(|_| to.0 < RIGHT) {
                    line.limit x1=(to.0) y1=(to.1) x2=(RIGHT) y2=(to.1) {}
                    text x=(RIGHT) y=(to.1 - 8.0) text-anchor="end" { (short(peak_tflop_per_s)) " TFLOP/s" }
                }
                @for (point, &(x, y)) in points.iter().zip(&marks) { (mark(point, x, y)) }
            }
        }
    }
}

/// Where on the slope its text begins: where the middle of it is farthest from marks.
fn place_on_slope(from: (f64, f64), to: (f64, f64), marks: &[(f64, f64)]) -> (f64, f64) {
    /// About as long as the text is.
    const LENGTH: f64 = 110.0;
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let at = |part: f64| (from.0 + part * dx, from.1 + part * dy);
    let half = 0.5 * LENGTH / dx.hypot(dy);
    let distance = |part: f64| {
        let middle = at(part + half);
        let distances = marks.iter().map(|mark| (mark.0 - middle.0).hypot(mark.1 - middle.1));
        // Far enough is far enough: rather at the slope's beginning than ever farther away.
        distances.fold(LENGTH, f64::min)
    };
    let parts = (1..=14).map(|step| 0.05 * f64::from(step));
    at(parts.rev().max_by(|&a, &b| distance(a).total_cmp(&distance(b))).expect("some parts"))
}

/// A form for what is computed, a colour for who computes it.
fn mark(point: &Point, x: f64, y: f64) -> Markup {
    let (class, radius) = match point.by {
        By::Chosen => ("chosen", 5.0),
        By::Ours | By::Forced => ("ours", 3.5),
        By::Baseline => ("theirs", 4.0),
    };
    shape(point.kind, class, (x, y), radius, Some(&point.title))
}

fn shape(kind: Kind, class: &str, (x, y): (f64, f64), r: f64, title: Option<&str>) -> Markup {
    let points = |corners: &[(f64, f64)]| {
        let corner = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + r * dx, y + r * dy);
        corners.iter().map(corner).collect::<Vec<_>>().join(" ")
    };
    let corners: &[(f64, f64)] = match kind {
        Kind::Spmv | Kind::Formats | Kind::Vector | Kind::FirstUse => &[],
        Kind::Spmm | Kind::Graphs => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        Kind::Gemm => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        Kind::Cg => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    };
    html! {
        @if corners.is_empty() {
            circle.mark.(class) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r=(r) { (titled(title)) }
        } @else {
            polygon.mark.(class) points=(points(corners)) { (titled(title)) }
        }
    }
}

fn titled(title: Option<&str>) -> Markup {
    html! { @if let Some(title) = title { title { (title) } } }
}

fn legend(points: &[Point]) -> Markup {
    let forms = [
        ("SpMV", [Kind::Spmv, Kind::Formats]),
        ("SpMM", [Kind::Spmm, Kind::Graphs]),
        ("GEMM", [Kind::Gemm, Kind::Gemm]),
        ("an iteration of CG", [Kind::Cg, Kind::Cg]),
    ];
    let is_there = |kinds: &[Kind]| points.iter().any(|point| kinds.contains(&point.kind));
    let colours = [
        ("automatic choice", "chosen", [By::Chosen, By::Chosen]),
        ("our other kernels", "ours", [By::Ours, By::Forced]),
        ("other libraries", "theirs", [By::Baseline, By::Baseline]),
    ];
    let key = |kind: Kind, class: &str| {
        html! { svg.key viewBox="0 0 14 14" { (shape(kind, class, (7.0, 7.5), 5.0, None)) } }
    };
    html! {
        p.legend {
            @for (name, kinds) in forms.iter().filter(|(_, kinds)| is_there(kinds)) {
                span { (key(kinds[0], "outline")) (name) }
            }
            @for (name, class, by) in &colours {
                @if points.iter().any(|point| by.contains(&point.by)) { span { (key(Kind::Spmv, class)) (name) } }
            }
        }
    }
}
