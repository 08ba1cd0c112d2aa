//! The relative residual over the iterations as self-contained SVG.

use std::fmt::Write;

use maud::{PreEscaped, html};

use super::history::History;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 50.0;
/// The most numbers at an axis.
const MAX_TICKS: usize = 9;
/// Points beyond two for a pixel are not seen.
const MAX_POINTS: usize = 2 * WIDTH as usize;

/// Without variables, which few viewers but browsers know.
const STYLE: &str = "\
    text{font:12px system-ui,sans-serif;fill:#57606a}\
    .title{font-size:14px;fill:#1b1f24}\
    .back{fill:#fff}\
    .grid{stroke:#d0d7de}\
    .axis{stroke:#57606a}\
    .line{stroke:#0b5cad;stroke-width:1.5;fill:none;stroke-linejoin:round}\
    .dot{fill:#0b5cad}\
    .target{stroke:#b45309;stroke-width:1.5;stroke-dasharray:6 4}\
    .goal{fill:#b45309}\
    @media(prefers-color-scheme:dark){\
    text{fill:#9aa5b1}.title{fill:#e6edf3}.back{fill:#12161b}.grid{stroke:#343c46}.axis{stroke:#9aa5b1}\
    .line{stroke:#6cb6ff}.dot{fill:#6cb6ff}.target{stroke:#f5a742}.goal{fill:#f5a742}}";

/// The file's text.
pub(super) fn text(history: &History<'_>) -> String {
    let points = points(history);
    let target = Some(history.tolerance.log10()).filter(|target| target.is_finite());
    let iterations = history.norms.len().saturating_sub(1).max(1);
    let axes = Axes::new(iterations, points.iter().map(|point| point.1).chain(target));
    let thinned = thinned(&points);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) role="img" {
            title { (history.title) ": the relative residual after each iteration" }
            style { (PreEscaped(STYLE)) }
            rect.back width=(WIDTH) height=(HEIGHT) {}
            text.title x=(LEFT) y="24" { (history.title) ": log10 of the relative residual" }
            @for exponent in axes.exponents() {
                @let y = coordinate(axes.y(exponent as f64));
                line.grid x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {}
                text x=(LEFT - 8.0) y=(y) dy="4" text-anchor="end" { (exponent) }
            }
            @for iteration in axes.iterations() {
                @let x = coordinate(axes.x(iteration));
                line.axis x1=(x) x2=(x) y1=(BOTTOM) y2=(BOTTOM + 5.0) {}
                text x=(x) y=(BOTTOM + 20.0) text-anchor="middle" { (iteration) }
            }
            line.axis x1=(LEFT) x2=(RIGHT) y1=(BOTTOM) y2=(BOTTOM) {}
            line.axis x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(BOTTOM) {}
            text x=((LEFT + RIGHT) / 2.0) y=(BOTTOM + 38.0) text-anchor="middle" { "iteration" }
            @if let Some(target) = target {
                @let y = coordinate(axes.y(target));
                line.target x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {}
                text.goal x=(LEFT + 8.0) y=(y) dy="-5" { "target " (format!("{:e}", history.tolerance)) }
            }
            @match thinned.as_slice() {
                [] => {}
                // A path of one point is not drawn.
                [point] => { circle.dot cx=(coordinate(axes.x(point.0))) cy=(coordinate(axes.y(point.1))) r="3" {} }
                points => { path.line d=(path(points, &axes)) {} }
            }
        }
    };
    svg.into_string()
}

/// Iterations, and the logarithms of their residuals; none for a residual of 0 or one that is not finite.
fn points(history: &History<'_>) -> Vec<(usize, f64)> {
    let logarithms = history.norms.iter().map(|norm| (norm / history.b_norm).log10());
    logarithms.enumerate().filter(|(_, logarithm)| logarithm.is_finite()).collect()
}

/// Of so many points in a row, the least and the greatest, so that no peak is lost.
fn thinned(points: &[(usize, f64)]) -> Vec<(usize, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let by_height = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
    let extremes = |points: &[(usize, f64)]| {
        let ends = [points.iter().min_by(by_height), points.iter().max_by(by_height)];
        let mut ends = ends.map(|end| *end.expect("a chunk is not empty"));
        ends.sort_by_key(|end| end.0);
        ends
    };
    points.chunks(points.len().div_ceil(MAX_POINTS / 2)).flat_map(extremes).collect()
}

fn path(points: &[(usize, f64)], axes: &Axes) -> String {
    let mut path = String::new();
    for (place, point) in points.iter().enumerate() {
        let command = if place == 0 { 'M' } else { 'L' };
        let (x, y) = (coordinate(axes.x(point.0)), coordinate(axes.y(point.1)));
        write!(path, "{command}{x} {y}").expect("a string takes it");
    }
    path
}

/// With as many digits as are seen.
fn coordinate(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// Iterations from 0 on, and whole powers of ten.
struct Axes {
    iterations: usize,
    lowest: i32,
    highest: i32,
}

impl Axes {
    fn new(iterations: usize, logarithms: impl Iterator<Item = f64>) -> Self {
        let (lowest, highest) = logarithms
            .fold((-1.0f64, 0.0f64), |(lowest, highest), logarithm| (lowest.min(logarithm), highest.max(logarithm)));
        Self { iterations, lowest: lowest.floor() as i32, highest: highest.ceil() as i32 }
    }

    fn x(&self, iteration: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * iteration as f64 / self.iterations as f64
    }

    fn y(&self, logarithm: f64) -> f64 {
        let range = f64::from(self.highest - self.lowest);
        TOP + (BOTTOM - TOP) * (f64::from(self.highest) - logarithm) / range
    }

    fn exponents(&self) -> impl Iterator<Item = i32> {
        let (lowest, highest) = (self.lowest, self.highest);
        let step = step((highest - lowest) as usize) as i32;
        (lowest..=highest).filter(move |exponent| exponent % step == 0)
    }

    fn iterations(&self) -> impl Iterator<Item = usize> {
        (0..=self.iterations).step_by(step(self.iterations))
    }
}

/// 1, 2 or 5 times a power of ten, so that a range takes a few steps.
fn step(range: usize) -> usize {
    let powers = std::iter::successors(Some(1usize), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|digit| power.saturating_mul(digit)));
    steps.find(|step| range / step < MAX_TICKS).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(norms: &[f64], b_norm: f64, tolerance: f64) -> String {
        text(&History { title: "a < b".into(), norms, b_norm, tolerance })
    }

    #[test]
    fn axes_have_few_round_numbers() {
        assert_eq!([0, 8, 9, 17, 20, 90, 1234].map(step), [1, 1, 2, 2, 5, 20, 200]);
        let axes = Axes::new(150, [0.5, -6.2].into_iter());
        assert_eq!((axes.lowest, axes.highest), (-7, 1));
        assert_eq!(axes.iterations().collect::<Vec<_>>(), [0, 20, 40, 60, 80, 100, 120, 140]);
        assert_eq!([axes.x(0), axes.x(150), axes.y(1.0), axes.y(-7.0)], [LEFT, RIGHT, TOP, BOTTOM]);
    }

    #[test]
    fn what_has_no_logarithm_is_left_out() {
        for (norms, b_norm) in [(&[][..], 1.0), (&[0.0], 0.0), (&[f64::NAN, f64::INFINITY], 1.0)] {
            let svg = text_of(norms, b_norm, 0.0);
            assert!(svg.starts_with("<svg") && !svg.contains("<path") && !svg.contains("NaN"), "{svg}");
        }
        assert!(text_of(&[1.0, 0.1, 0.0], 1.0, 1e-6).contains("a &lt; b"));
        assert!(text_of(&[1.0], 1.0, 1e-6).contains("<circle"));
    }

    #[test]
    fn long_histories_keep_their_peaks() {
        let mut norms = vec![1.0; 100_000];
        norms[77_777] = 1e3;
        let points = thinned(&points(&History { title: String::new(), norms: &norms, b_norm: 1.0, tolerance: 0.1 }));
        assert!(points.len() <= MAX_POINTS && points.contains(&(77_777, 3.0)));
        assert!(points.is_sorted_by_key(|point| point.0));
    }
}
