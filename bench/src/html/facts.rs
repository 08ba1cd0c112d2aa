//! The machine, its clocks, the time that all took.

use maud::{Markup, html};

use super::short;
use crate::{
    cg::VECTORS,
    gpu::{Gpu, Range, UnderLoad},
    reading::{Document, Section},
    report::Machine,
};

pub(super) fn section(document: &Document) -> Markup {
    let Document { machine, gpu, commit, warpsparse, date, .. } = document;
    let gib = |bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30));
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let tflop_per_s = |peak: f64| format!("{peak:.1} TFLOP/s at the highest clock");
    let Machine { model, device, .. } = machine;
    let (known, unknown) = match gpu {
        Some(Gpu::Known(facts)) => (Some(facts), None),
        Some(Gpu::Skipped { skipped }) => (None, Some(format!("not known: {skipped}"))),
        None => (None, None),
    };
    let clocks = known.map(|facts| {
        let clock = |clock: Option<u32>| clock.map_or("?".into(), |clock| format!("{clock} MHz"));
        format!("{} at most, memory {}", clock(facts.max_sm_clock_mhz), clock(facts.max_memory_clock_mhz))
    });
    let limit = known.and_then(|facts| facts.power_limit_w).map(|watts| format!("{watts:.0} W"));
    let facts = [
        ("Device", Some(format!("{model} ({device})"))),
        ("Parallel units", Some(machine.parallel_units.to_string())),
        ("Memory", machine.memory_bytes.map(gib)),
        ("L2 cache", machine.l2_bytes.map(mib)),
        ("Compute capability", machine.compute_capability.clone()),
        ("Driver", known.map(|facts| facts.driver.clone()).or(unknown.clone())),
        ("Driver for CUDA", machine.driver_cuda.clone()),
        ("Clocks", clocks.or(unknown)),
        ("Power limit", limit),
        ("A copy moves", Some(format!("{} GB/s, measured", short(machine.copy_gb_per_s)))),
        ("FP32 peak", machine.peak_f32_tflop_per_s.map(tflop_per_s)),
        ("FP64 peak", machine.peak_f64_tflop_per_s.map(tflop_per_s)),
        ("warpsparse", Some(warpsparse.clone())),
        ("Commit", commit.clone()),
        ("Date", Some(moment(date))),
    ];
    html! {
        div.panels {
            dl { @for (name, fact) in facts { @if let Some(fact) = fact { dt { (name) } dd { (fact) } } } }
            @if document.seconds.is_some() { (times(document)) }
        }
        p.quiet {
            "A time is a median. On a GPU it is device time: products are captured in a CUDA graph, and the time of a replay is \
             divided by their number. Host call time is the wall time of products that are queued one after the other without a \
             graph, until all are done, over their number: what a program meets that calls them one by one. Conjugate gradients and first results \
             are wall time. Bytes are those that must move at least, whatever moved; results are checked against a \
             product in f64. An iteration of conjugate gradients counts two operations for each entry and 13 for each \
             unknown, and the bytes of the matrix and of " (VECTORS) " vectors. Point at anything drawn for its figures."
        }
    }
}

/// How long each section took.
fn times(document: &Document) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th.text { "Benchmark" } th { "Took" } th { "SM clock" } th { "Power" } } }
                tbody {
                    @for section in &document.sections { (time(section)) }
                    @if let (Some(seconds), Some(budget)) = (document.seconds, document.budget_s) {
                        tr.strong {
                            td.text { "All, with " (duration(budget)) " to begin in" } td { (duration(seconds)) } td {} td {}
                        }
                    }
                }
            }
        }
    }
}

fn time(section: &Section) -> Markup {
    let of_load = |of: fn(&UnderLoad) -> Range| section.load.as_ref().map(|load| format!("{:.0}", of(load).median));
    let command = section.command.as_deref().unwrap_or_default();
    let name = command.split_whitespace().skip(1).take_while(|word| *word != "--device").collect::<Vec<_>>().join(" ");
    html! {
        tr {
            td.text.wrap { (name) }
            td { (duration(section.seconds.unwrap_or_default())) }
            td { @match of_load(|load| load.sm_clock_mhz) { Some(clock) => { (clock) " MHz" }, None => "–" } }
            td { @match of_load(|load| load.power_w) { Some(power) => { (power) " W" }, None => "–" } }
        }
    }
}

/// Clocks while a section ran, in words.
pub(super) fn load(load: &UnderLoad) -> String {
    let range = |range: Range, unit| format!("{:.0} {unit} ({:.0} to {:.0})", range.median, range.min, range.max);
    let slowed = match load.slowed_by[..] {
        [] => String::new(),
        ref reasons => format!(" Clocks were kept down at times by: {}.", reasons.join(", ")),
    };
    format!(
        "While it ran, of {} samples in which the GPU was at work: SM clock {}, memory clock {}, power {}, {}.{slowed}",
        load.samples,
        range(load.sm_clock_mhz, "MHz"),
        range(load.memory_clock_mhz, "MHz"),
        range(load.power_w, "W"),
        range(load.temperature_c, "°C"),
    )
}

/// A date for people.
pub(super) fn moment(date: &str) -> String {
    date.replace('T', " ").replace('Z', " UTC")
}

pub(super) fn duration(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// A large number, short.
pub(super) fn count(number: usize) -> String {
    match number as f64 {
        number @ ..1e4 => format!("{number}"),
        number @ ..9.995e5 => format!("{:.0} k", number / 1e3),
        number @ ..1e7 => format!("{:.1} M", number / 1e6),
        number => format!("{:.0} M", number / 1e6),
    }
}
