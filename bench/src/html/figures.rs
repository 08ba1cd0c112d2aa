//! All figures in a table.

use maud::{Markup, html};

use super::{short, told};
use crate::reading::{By, Case, Reading, Timed, Way};

pub(super) fn table(reading: &Reading) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text { "Case" } th.text { "Type" } th.text { "Way" } th.text { "Kernel" } th { "µs" } th { "±%" }
                        th.text { "Clock" } th { "Host call µs" }
                        th { "GB/s" } th { "GFLOP/s" } th { "Error" } th { "Of ours" }
                    }
                }
                tbody {
                    @for case in &reading.cases { @for way in &case.ways { (row(case, way)) } }
                }
            }
        }
    }
}

fn row(case: &Case, way: &Way) -> Markup {
    html! {
        tr.theirs[way.by == By::Baseline].strong[way.by == By::Chosen] {
            td.text { (case.label()) }
            td.text { (case.dtype) }
            td.text { (way.name) }
            td.text { (way.kernel) }
            @match &way.timed {
                Ok(timed) => (cells(case, way, timed)),
                Err(reason) => td.text.quiet colspan="8" { (reason) },
            }
        }
    }
}

fn cells(case: &Case, way: &Way, timed: &Timed) -> Markup {
    let of_ours = case.chosen().map(|(_, ours)| timed.timing.over(&ours.timing)).filter(|ratio| ratio.is_finite());
    html! {
        td title=(told(way, timed, case.flops)) { (short(timed.us().median)) }
        td { (format!("{:.1}", if timed.us().median > 0.0 { timed.us().percent() } else { 0.0 })) }
        td.text { (timed.timing.clock.name()) }
        td { @match timed.timing.call_us { Some(call_us) => (short(call_us.median)), None => "–" } }
        td { (finite(timed.gb_per_s())) }
        td { (finite(timed.gflop_per_s(case.flops))) }
        td { @match timed.error { Some(error) => (format!("{error:.0e}")), None => "–" } }
        td { @match of_ours { Some(ratio) => (format!("{ratio:.2}")), None => "–" } }
    }
}

fn finite(figure: f64) -> String {
    if figure.is_finite() { short(figure) } else { crate::table::none() }
}
