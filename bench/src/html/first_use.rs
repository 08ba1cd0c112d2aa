//! Starts of programs: how long until there is a result, and what of it is not the driver's.

use maud::{Markup, html};

use super::short;
use crate::reading::{Case, Reading, Timed, Way};

pub(super) fn plot(reading: &Reading) -> Markup {
    let times = reading.cases.iter().flat_map(Case::timed).map(|(_, timed)| timed.us().median);
    let most = times.fold(0.0, f64::max);
    html! {
        div.single {
            div.cases {
                @for case in &reading.cases {
                    div.case {
                        div.name { (case.name) }
                        @for (way, timed) in case.timed() { (bar(way, &timed, most)) }
                    }
                }
            }
        }
    }
}

fn bar(way: &Way, timed: &Timed, most: f64) -> Markup {
    let (whole, own) = (timed.us().median, timed.operation_us.unwrap_or(0.0).min(timed.us().median));
    let percent = |us: f64| if most > 0.0 { 100.0 * us / most } else { 0.0 };
    let place = |from: f64, to: f64| format!("left:{:.2}%;width:{:.2}%", percent(from), percent(to - from));
    let [ms, own_ms, q1, q3] = [whole, own, timed.us().q1, timed.us().q3].map(|us| short(us / 1e3));
    html! {
        div.bar title=(format!("{}: {ms} ms, quartiles {q1} and {q3}; of it the operation {own_ms} ms", way.name)) {
            div.who { (way.name) }
            div.track {
                span.fill.ours style=(place(0.0, whole - own)) {}
                span.fill.chosen style=(place(whole - own, whole)) {}
            }
            div.value { span { (ms) } }
        }
    }
}
