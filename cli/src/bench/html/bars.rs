//! Ratios as horizontal bars to both sides of 1.

use maud::{Markup, html};

use super::scale::{LogScale, range};
use crate::bench::{report::MatrixResult as _, spmv::report::MatrixResult};

const WIDTH: f64 = 960.0;
const ROW: f64 = 24.0;
const TOP: f64 = 30.0;
const NAMES: f64 = 230.0;
/// Room for the figure at the end of a bar.
const FIGURE: f64 = 60.0;
const LONGEST_NAME: usize = 28;

pub(super) fn plot(results: &[&MatrixResult], rival: &str) -> Markup {
    let bars = results.iter().enumerate().filter_map(|(place, result)| Some((place + 1, result, result.rival(rival)?)));
    let bars: Vec<_> = bars.collect();
    let Some((least, greatest)) = range(bars.iter().map(|bar| bar.2.ratio)) else {
        return html! { p { "There are no times to compare." } };
    };
    let x = LogScale::new(least.min(0.5), greatest.max(2.0), NAMES + FIGURE, WIDTH - FIGURE);
    let bottom = TOP + ROW * bars.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + 10.0)) width=(WIDTH) height=(bottom + 10.0) role="img" {
            title { "Ratios to " (rival) }
            @for (place, text) in x.ticks() {
                line.grid x1=(place) x2=(place) y1=(TOP) y2=(bottom) {}
                text.quiet x=(place) y=(TOP - 8.0) text-anchor="middle" { (text) }
            }
            @for (row, (number, result, report)) in bars.iter().enumerate() {
                @let (middle, end) = (TOP + ROW * (row as f64 + 0.5), x.at(report.ratio));
                @let is_faster = report.ratio >= 1.0;
                g {
                    title { (result.name) ": " (format!("{:.3}", report.ratio)) " to " (report.variant) }
                    text x=(NAMES) y=(middle + 4.0) text-anchor="end" { (number) " " (shortened(&result.name)) }
                    rect.ours[is_faster].theirs[!is_faster] x=(end.min(x.at(1.0))) y=(middle - 7.0)
                        width=((end - x.at(1.0)).abs()) height="14" rx="2" {}
                    text x=(if is_faster { end + 6.0 } else { end - 6.0 }) y=(middle + 4.0)
                        text-anchor=(if is_faster { "start" } else { "end" }) { (format!("{:.2}", report.ratio)) }
                }
            }
            line.one x1=(x.at(1.0)) x2=(x.at(1.0)) y1=(TOP) y2=(bottom) {}
        }
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}
