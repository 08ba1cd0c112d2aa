//! The check of the clock by NVIDIA's profiler.

use maud::{Markup, html};
use serde::Deserialize;

use super::method_of;
use crate::bench::{
    clock::{self, ClockResult, HEADER},
    reading::Section,
    report::{Method, Skipped},
};

#[derive(Deserialize)]
struct Raw {
    method: Method,
    results: Vec<ClockResult>,
    skipped: Vec<Skipped>,
}

/// Nothing for a section of another benchmark.
pub(super) fn section(section: &Section) -> Markup {
    let raw = (section.report["schema"] == clock::SCHEMA).then(|| Raw::deserialize(&section.report).ok()).flatten();
    html! {
        @if let Some(Raw { method, results, skipped }) = raw {
            section {
                h2 { "The clock beside NVIDIA's profiler" }
                div.scroll {
                    table {
                        thead { tr { @for title in HEADER { th.text[is_text(title)] { (title.trim_start_matches('<')) } } } }
                        tbody {
                            @for result in &results {
                                tr { @for (title, cell) in HEADER.iter().zip(result.cells()) { td.text[is_text(title)] { (cell) } } }
                            }
                        }
                    }
                }
                (method_of(section, &method, &skipped))
            }
        }
    }
}

/// Whether a column of this title is of text, not of numbers.
fn is_text(title: &str) -> bool {
    title.starts_with('<')
}
