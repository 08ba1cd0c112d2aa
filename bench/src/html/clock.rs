//! The check of the clock by NVIDIA's profiler.

use maud::{Markup, html};

use super::method_of;
use crate::{
    clock::HEADER,
    reading::{ClockReading, Section},
};

pub(super) fn section(section: &Section, ClockReading { method, results, skipped }: &ClockReading) -> Markup {
    html! {
        section {
            h2 { "The clock checked by NVIDIA's profiler" }
            @if results.is_empty() {
                p { "Nothing was measured." }
            } @else {
                div.scroll {
                    table {
                        thead { tr { @for title in HEADER { th.text[is_text(title)] { (title.trim_start_matches('<')) } } } }
                        tbody {
                            @for result in results {
                                tr { @for (title, cell) in HEADER.iter().zip(result.cells()) { td.text[is_text(title)] { (cell) } } }
                            }
                        }
                    }
                }
            }
            (method_of(section, method, skipped))
        }
    }
}

/// Whether a column of this title is of text, not of numbers.
fn is_text(title: &str) -> bool {
    title.starts_with('<')
}
