//! `warpsparse-bench compare`: what got slower between two reports.

use std::{fmt, path::PathBuf};

use clap::Args;
use measure::{DTypeName, Outcome, Spread, emit};
use serde_json::Value;

use super::{
    baselines::Baseline,
    clock::{ClockResult, Side},
    reading::{By, Document, read},
    table::{self, none, short},
};

#[derive(Args)]
pub(crate) struct Options {
    /// The old report, from `--json` of any benchmark.
    old: PathBuf,
    /// The new report, of the same benchmark on the same device.
    new: PathBuf,
}

/// A median this much above the old one is called slower, if the quartiles lie apart too.
const TOLERANCE: f64 = 1.02;

/// A kernel of ours on what it was measured on, but for those that were forced for comparison alone; of `warpsparse-bench clock` cuBLAS too.
struct Figure {
    name: Name,
    kernel: String,
    us: Spread,
    is_ours: bool,
}

#[derive(Clone, PartialEq)]
struct Name {
    benchmark: &'static str,
    /// With its element type.
    case: String,
    way: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { benchmark, case, way } = self;
        write!(f, "{benchmark} {case}, {way}")
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let [(old_json, old), (new_json, new)] = [read(&options.old)?, read(&options.new)?];
    check(&old_json, &new_json)?;
    let old = figures(&old).map_err(|problem| format!("{}: {problem}", options.old.display()))?;
    let new = figures(&new).map_err(|problem| format!("{}: {problem}", options.new.display()))?;
    let (mut rows, mut slower, mut compared) = (Vec::new(), Vec::new(), 0);
    for after in &new {
        let before = old.iter().find(|before| before.name == after.name);
        let verdict = before.map_or("only in the new report", |before| verdict(before.us, after.us));
        if verdict == "slower" && after.is_ours {
            slower.push(after.name.to_string());
        }
        compared += usize::from(before.is_some() && after.is_ours);
        rows.push(row(before, Some(after), verdict));
    }
    for before in old.iter().filter(|before| new.iter().all(|after| before.name != after.name)) {
        rows.push(row(Some(before), None, "only in the old report"));
    }
    if compared == 0 {
        return Err("the two reports have no figure in common".into());
    }
    emit(&table::markdown(
        &["<benchmark", "<of", "<kernel", "old µs", "new µs", "new/old", "<", "<kernel's name"],
        &rows,
    ))?;
    match slower.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {compared} figures got slower: {}", slower.join("; ")).into()),
    }
}

/// Rejects reports that do not measure the same thing.
fn check(old: &Value, new: &Value) -> Result<(), String> {
    let differ = |what: &str, old: &Value, new: &Value| match old == new {
        true => Ok(()),
        false => Err(format!("the {what} differ: {old} in the old report, {new} in the new one")),
    };
    differ("benchmarks", &old["schema"], &new["schema"])?;
    differ("devices", &old["machine"]["model"], &new["machine"]["model"])?;
    differ("devices' sizes", &old["machine"]["parallel_units"], &new["machine"]["parallel_units"])?;
    differ("caches", &old["method"]["cache"], &new["method"]["cache"])?;
    differ("clocks", &old["method"]["clock"], &new["method"]["clock"])?;
    // Sections of one benchmark, each with a report of its own.
    let sections = |report: &Value| report["sections"].as_array().cloned().unwrap_or_default();
    for old in sections(old) {
        let of_kind = |section: &Value| section["report"]["schema"] == old["report"]["schema"];
        if let Some(new) = sections(new).into_iter().find(of_kind) {
            let [old, new] = [&old["report"]["method"], &new["report"]["method"]];
            differ("caches", &old["cache"], &new["cache"])?;
            differ("clocks", &old["clock"], &new["clock"])?;
        }
    }
    Ok(())
}

/// Of all sections.
fn figures(document: &Document) -> Result<Vec<Figure>, String> {
    let mut figures: Vec<Figure> = Vec::new();
    for (_, reading) in document.readings()? {
        for case in &reading.cases {
            let ours = case.timed().filter(|(way, _)| matches!(way.by, By::Chosen | By::Ours));
            for (way, timed) in ours {
                let case = format!("{} {}", case.label(), case.dtype);
                let name = Name { benchmark: reading.kind.short(), case, way: way.name.clone() };
                // A kernel that two sections measured counts once.
                if figures.iter().all(|figure| figure.name != name) {
                    figures.push(Figure { name, kernel: way.kernel.clone(), us: timed.us(), is_ours: true });
                }
            }
        }
    }
    for (_, reading) in document.clocks()? {
        for ClockResult { name: shape, ours, way, cublas } in reading.results {
            let sides = [("ours", String::new(), ours, true), (Baseline::Cublas.name(), way, cublas, false)];
            figures.extend(sides.map(|(side, kernel, Side { timing, .. }, is_ours)| {
                let name = Name { benchmark: "Clock", case: format!("{shape} {}", DTypeName::F32), way: side.into() };
                Figure { name, kernel, us: timing.time_us, is_ours }
            }));
        }
    }
    Ok(figures)
}

fn row(before: Option<&Figure>, after: Option<&Figure>, verdict: &str) -> Vec<String> {
    let Some(Figure { name, .. }) = after.or(before) else { unreachable!("one of the two is there") };
    let median = |figure: Option<&Figure>| figure.map(|figure| figure.us.median);
    let cell = |us: Option<f64>| us.map_or_else(none, short);
    let ratio = median(after).zip(median(before)).map(|(new, old)| format!("{:.3}", new / old));
    let kernel = match [before, after].map(|figure| figure.map(|figure| figure.kernel.as_str())) {
        [Some(old), Some(new)] if old != new => format!("{old} → {new}"),
        [old, new] => new.or(old).unwrap_or_default().to_owned(),
    };
    vec![
        name.benchmark.to_owned(),
        name.case.clone(),
        name.way.clone(),
        cell(median(before)),
        cell(median(after)),
        ratio.unwrap_or_else(none),
        verdict.to_owned(),
        kernel,
    ]
}

/// Told apart only where the middle halves of the times do not overlap.
fn verdict(old: Spread, new: Spread) -> &'static str {
    let is_slower = |fast: Spread, slow: Spread| slow.median > fast.median * TOLERANCE && slow.q1 > fast.q3;
    match () {
        () if is_slower(old, new) => "slower",
        () if is_slower(new, old) => "faster",
        () => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_is_beyond_the_tolerance_and_the_spread() {
        let times = |median: f64, half: f64| Spread {
            median,
            min: 0.0,
            q1: median - half,
            q3: median + half,
            max: 2.0 * median,
        };
        assert_eq!(verdict(times(100.0, 1.0), times(110.0, 1.0)), "slower");
        assert_eq!(verdict(times(110.0, 1.0), times(100.0, 1.0)), "faster");
        assert_eq!(verdict(times(100.0, 6.0), times(110.0, 6.0)), "");
        assert_eq!(verdict(times(100.0, 0.1), times(101.0, 0.1)), "");
    }
}
