//! The roofline: speed over arithmetic intensity, beneath what the memory allows.

use maud::{Markup, html};

use super::scale::{LogScale, range};
use crate::bench::spmv::report::MatrixResult;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 520.0;
/// Where the axes cross, and where they end.
const LEFT: f64 = 70.0;
const BOTTOM: f64 = HEIGHT - 50.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 44.0;

pub(super) fn plot(results: &[&MatrixResult], copy_gb_per_s: f64) -> Markup {
    let points: Vec<Point> = results.iter().enumerate().flat_map(|(place, result)| points(place + 1, result)).collect();
    let intensities = range(points.iter().map(|point| point.intensity));
    let (Some((least, greatest)), Some((slowest, fastest))) =
        (intensities, range(points.iter().map(|point| point.gflops)))
    else {
        return html! { p { "There is nothing to plot." } };
    };
    let x = LogScale::new(least / 1.15, greatest * 1.15, LEFT, RIGHT);
    let roof = |intensity: f64| copy_gb_per_s * intensity;
    let y = LogScale::new(slowest.min(roof(x.from)) / 1.4, fastest.max(roof(x.to)) * 1.2, BOTTOM, TOP);
    let marks: Vec<(f64, f64)> = points.iter().map(|point| (x.at(point.intensity), y.at(point.gflops))).collect();
    let ours = || points.iter().zip(&marks).filter(|(point, _)| point.is_ours);
    let labels = place_labels(&marks, ours().map(|(point, &mark)| (point.number.to_string(), mark)));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) role="img" {
            title { "Roofline plot" }
            @for (place, text) in x.ticks() {
                line.grid x1=(place) x2=(place) y1=(TOP) y2=(BOTTOM) {}
                text.quiet x=(place) y=(BOTTOM + 18.0) text-anchor="middle" { (text) }
            }
            @for (place, text) in y.ticks() {
                line.grid x1=(LEFT) x2=(RIGHT) y1=(place) y2=(place) {}
                text.quiet x=(LEFT - 8.0) y=(place + 4.0) text-anchor="end" { (text) }
            }
            text.quiet x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 12.0) text-anchor="middle" { "flops per compulsory byte" }
            text.quiet x=(LEFT) y=(TOP - 22.0) { "GFLOP/s" }
            (legend(&points))
            line.roof x1=(x.at(x.from)) y1=(y.at(roof(x.from))) x2=(x.at(x.to)) y2=(y.at(roof(x.to))) {
                title { (format!("a copy: {copy_gb_per_s:.0} GB/s")) }
            }
            @for (point, &(cx, cy)) in points.iter().zip(&marks) {
                @if let Some((_, &(_, ours))) = ours().find(|(ours, _)| ours.number == point.number) {
                    line.pair x1=(cx) x2=(cx) y1=(cy) y2=(ours) {}
                }
            }
            @for (point, &(cx, cy)) in points.iter().zip(&marks).filter(|(point, _)| !point.is_ours) { (mark(point, cx, cy)) }
            @for (point, &(cx, cy)) in ours() { (mark(point, cx, cy)) }
            @for label in &labels { text x=(label.x) y=(label.y + 4.0) text-anchor="middle" { (label.text) } }
        }
    }
}

/// A mark: a matrix by a library.
struct Point {
    number: usize,
    is_ours: bool,
    by: String,
    title: String,
    intensity: f64,
    gflops: f64,
}

/// Ours and the others' marks of one matrix, at the same intensity.
fn points(number: usize, result: &MatrixResult) -> Vec<Point> {
    let flops = 2.0 * result.matrix.entries as f64;
    let intensity = flops / result.bytes as f64;
    let point = |is_ours, by: &str, how: &str, median_us: f64| {
        let gflops = flops / median_us / 1e3;
        let title = format!("{number} {}, {by} ({how}): {gflops:.0} GFLOP/s, {median_us:.1} µs", result.name);
        Point { number, is_ours, by: by.to_owned(), title, intensity, gflops }
    };
    let ours = point(true, "warpsparse", &result.chosen.kernel, result.chosen.figures.time_us.median);
    let theirs =
        result.rivals.iter().map(|rival| point(false, rival.name, &rival.variant, rival.figures.time_us.median));
    // A matrix without entries has no place on a logarithmic axis.
    std::iter::once(ours).chain(theirs).filter(|point| point.gflops > 0.0).collect()
}

/// Ours are discs, theirs are squares: not told apart by colour alone.
fn mark(point: &Point, cx: f64, cy: f64) -> Markup {
    html! {
        @if point.is_ours {
            circle.ours.mark cx=(cx) cy=(cy) r="5" { title { (point.title) } }
        } @else {
            rect.theirs.mark x=(cx - 4.0) y=(cy - 4.0) width="8" height="8" { title { (point.title) } }
        }
    }
}

fn legend(points: &[Point]) -> Markup {
    let mut theirs: Vec<&str> = points.iter().filter(|point| !point.is_ours).map(|point| point.by.as_str()).collect();
    theirs.sort_unstable();
    theirs.dedup();
    html! {
        circle.ours cx=(LEFT + 105.0) cy=(TOP - 26.0) r="5" {}
        text x=(LEFT + 116.0) y=(TOP - 22.0) { "warpsparse" }
        @if !theirs.is_empty() {
            rect.theirs x=(LEFT + 216.0) y=(TOP - 30.0) width="8" height="8" {}
            text x=(LEFT + 231.0) y=(TOP - 22.0) { (theirs.join(", ")) }
        }
        line.roof x1=(RIGHT - 150.0) x2=(RIGHT - 126.0) y1=(TOP - 26.0) y2=(TOP - 26.0) {}
        text x=(RIGHT - 120.0) y=(TOP - 22.0) { "a copy on the device" }
    }
}

/// A text around its middle.
struct Label {
    text: String,
    x: f64,
    y: f64,
}

/// Puts each text as near its mark as it neither covers a mark nor another text; where there is no room it is left out,
/// and the mark's tooltip has to do.
fn place_labels(marks: &[(f64, f64)], wanted: impl Iterator<Item = (String, (f64, f64))>) -> Vec<Label> {
    const DIRECTIONS: [(f64, f64); 8] =
        [(1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.7, -0.7), (-0.7, -0.7), (0.7, 0.7), (-0.7, 0.7)];
    let mut labels: Vec<Label> = Vec::new();
    for (text, (x, y)) in wanted {
        let half_width = 4.0 * text.len() as f64;
        let is_free = |&(x, y): &(f64, f64)| {
            let off_marks = marks.iter().all(|mark| (mark.0 - x).abs() > half_width + 5.0 || (mark.1 - y).abs() > 11.0);
            let off_labels = labels.iter().all(|other| {
                (other.x - x).abs() > half_width + 4.0 * other.text.len() as f64 || (other.y - y).abs() > 12.0
            });
            let inside = x - half_width > LEFT && x + half_width < RIGHT && y > TOP && y < BOTTOM - 6.0;
            off_marks && off_labels && inside
        };
        let around = [10.0, 16.0, 24.0].into_iter().flat_map(|distance| {
            DIRECTIONS.map(|(dx, dy)| (x + dx * (distance + half_width), y + dy * (distance + 3.0)))
        });
        if let Some((x, y)) = around.into_iter().find(is_free) {
            labels.push(Label { text, x, y });
        }
    }
    labels
}
