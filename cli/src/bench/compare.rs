//! `warpsparse bench compare`: what got slower between two reports.

use std::{fs, path::PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::{
    spmv::report::{SCHEMA, VERSION},
    table,
};
use crate::{Outcome, emit, measure::DTypeName, statistics::Spread};

#[derive(Args)]
pub(crate) struct Options {
    /// The old report, from `bench spmv --json`.
    old: PathBuf,
    /// The new report.
    new: PathBuf,
}

/// A median this much above the old one is called slower, if the quartiles lie apart too.
const TOLERANCE: f64 = 1.02;

/// Of a report, what is compared.
#[derive(Deserialize)]
struct Report {
    machine: Machine,
    method: Method,
    results: Vec<MatrixResult>,
}

#[derive(Deserialize)]
struct Machine {
    model: String,
}

#[derive(Deserialize)]
struct Method {
    cache: String,
}

#[derive(Deserialize)]
struct MatrixResult {
    name: String,
    dtype: DTypeName,
    chosen: Chosen,
}

#[derive(Deserialize)]
struct Chosen {
    kernel: String,
    time_us: Spread,
}

impl Report {
    /// The result for the same matrix and element type.
    fn find(&self, other: &MatrixResult) -> Option<&MatrixResult> {
        self.results.iter().find(|result| result.name == other.name && result.dtype == other.dtype)
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (old, new) = (read(&options.old)?, read(&options.new)?);
    for (what, old, new) in
        [("devices", &old.machine.model, &new.machine.model), ("caches", &old.method.cache, &new.method.cache)]
    {
        if old != new {
            eprintln!("warning: the {what} differ: {old}, {new}");
        }
    }
    for only in old.results.iter().filter(|before| new.find(before).is_none()) {
        eprintln!("{} {}: only in {}", only.name, only.dtype, options.old.display());
    }
    let (mut rows, mut slower) = (Vec::new(), 0);
    for after in &new.results {
        let Some(before) = old.find(after) else {
            eprintln!("{} {}: only in {}", after.name, after.dtype, options.new.display());
            continue;
        };
        let (old, new) = (before.chosen.time_us, after.chosen.time_us);
        let verdict = verdict(old, new);
        slower += usize::from(verdict == "slower");
        let kernel = if before.chosen.kernel == after.chosen.kernel {
            after.chosen.kernel.clone()
        } else {
            format!("{} → {}", before.chosen.kernel, after.chosen.kernel)
        };
        rows.push(vec![
            after.name.clone(),
            after.dtype.to_string(),
            format!("{:.1}", old.median),
            format!("{:.1}", new.median),
            format!("{:.3}", new.median / old.median),
            verdict.to_owned(),
            kernel,
        ]);
    }
    if rows.is_empty() {
        return Err("the two reports have no product in common".into());
    }
    emit(&table::text(&["<matrix", "<dtype", "old µs", "new µs", "new/old", "<", "<kernel"], &rows))?;
    match slower {
        0 => Ok(()),
        _ => Err(format!("{slower} of {} products got slower", rows.len()).into()),
    }
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

fn read(path: &PathBuf) -> Result<Report, String> {
    let at = |problem: String| format!("{}: {problem}", path.display());
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| at(format!("no JSON: {error}")))?;
    if report["schema"] != SCHEMA {
        return Err(at("no report of `warpsparse bench spmv`".into()));
    }
    if report["version"] != VERSION {
        return Err(at(format!("a report of version {}, where this reads {VERSION}", report["version"])));
    }
    serde_json::from_value(report).map_err(|error| at(error.to_string()))
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
