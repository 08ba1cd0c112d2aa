//! `warpsparse-bench all`: every benchmark in one run, one report and one page.

mod plan;

use std::{
    fs::OpenOptions,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, Parser};
use measure::{Outcome, emit};
use serde_json::Value;
use warpsparse::Device;

use self::plan::Planned;
use super::{
    Benchmark,
    gpu::{Gpu, Watch},
    html,
    reading::{Document, Section},
    report::Finished,
    session::{machine, now, parse_limit, write},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure less, in a minute and a half in place of eight minutes.
    #[arg(long)]
    quick: bool,
    /// Leave out what does not begin within so many seconds [default: 540, or 75 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = parse_limit)]
    budget: Option<Duration>,
    /// Measure this in place of the usual: a benchmark with what it takes, such as `spmv gen:rmat:17:8 --dtype f32`; can
    /// be repeated.
    #[arg(long, value_name = "BENCHMARK")]
    section: Vec<String>,
    /// auto, cpu, cuda, cuda:N; emulated only with --section.
    #[arg(long, default_value = "auto")]
    device: String,
}

pub(super) const SCHEMA: &str = "warpsparse.bench.all";
pub(super) const VERSION: u64 = 2;

/// A benchmark as on the command line.
#[derive(Parser)]
#[command(name = "warpsparse-bench", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    benchmark: Benchmark,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (start, date) = (Instant::now(), now());
    options.check()?;
    let budget = options.budget.unwrap_or(Duration::from_secs(if options.quick { 75 } else { 540 }));
    let mut sections = Vec::new();
    // Programs start faster while another one has the GPU open: this one has not yet.
    for planned in options.planned_alone() {
        let share = budget.saturating_sub(start.elapsed()).mul_f64(planned.weight / (1.0 + planned.weight));
        sections.push(told(planned, &options.device, share, None));
    }
    let device = Device::from_name(&options.device)?;
    let planned = options.planned(&device);
    let watch = Watch::new(&device);
    let mut document = Document {
        schema: SCHEMA.into(),
        version: VERSION,
        warpsparse: env!("CARGO_PKG_VERSION").into(),
        commit: Some(env!("WARPSPARSE_COMMIT").into()),
        date,
        machine: machine(&device, device.measure_copy_bandwidth()?)?,
        gpu: Some(match watch.as_ref().map_err(Clone::clone).and_then(Watch::facts) {
            Ok(facts) => Gpu::Known(facts),
            Err(skipped) => Gpu::Skipped { skipped },
        }),
        budget_s: Some(budget.as_secs_f64()),
        seconds: None,
        sections,
    };
    let mut weights: f64 = planned.iter().map(|section| section.weight).sum();
    for section in planned {
        let share = budget.saturating_sub(start.elapsed()).mul_f64(section.weight / weights);
        weights -= section.weight;
        document.sections.push(told(section, &device.to_string(), share, watch.as_ref().ok()));
    }
    document.seconds = Some(start.elapsed().as_secs_f64());
    options.finish(&document)
}

impl Options {
    /// Refuses what cannot be measured, before anything is for nothing.
    fn check(&self) -> Outcome {
        if self.section.is_empty() && self.device == "emulated" {
            return Err("the emulator's times say nothing about a GPU: name what to measure by --section".into());
        }
        for path in self.json.iter().chain(&self.html) {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.given().try_for_each(|planned| {
            let line = parse(&planned.arguments(&self.device, Duration::MAX))?;
            match line.benchmark.basics().writes() {
                true => Err(format!("{}: --json and --html are for the whole run", planned.line).into()),
                false => Ok(()),
            }
        })
    }

    /// What needs a GPU that nobody has open.
    fn planned_alone(&self) -> Vec<Planned> {
        match self.section.is_empty() {
            true => vec![plan::first(self.quick)],
            false => self.given().filter(Planned::is_alone).collect(),
        }
    }

    /// All else.
    fn planned(&self, device: &Device) -> Vec<Planned> {
        match self.section.is_empty() {
            true => plan::usual(device, self.quick),
            false => self.given().filter(|planned| !planned.is_alone()).collect(),
        }
    }

    fn given(&self) -> impl Iterator<Item = Planned> {
        self.section.iter().map(|line| Planned::new(1.0, line))
    }

    fn finish(&self, document: &Document) -> Outcome {
        // First, for a disk may be full.
        emit(&html::headline(document)?)?;
        let report = serde_json::to_value(document)?;
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string_pretty(&report)?)?;
            eprintln!("written: {}", path.display());
        }
        if let Some(path) = &self.html {
            write(path, &html::page(&report)?)?;
            eprintln!("written: {}", path.display());
        }
        let failed = document.sections.iter().filter_map(|section| section.failed.as_deref());
        match failed.collect::<Vec<_>>()[..] {
            [] => Ok(()),
            ref failed => Err(failed.join("; ").into()),
        }
    }
}

/// Measures a section, and says so.
fn told(planned: Planned, device: &str, share: Duration, watch: Option<&Watch>) -> Section {
    eprintln!("{}: may start new measurements for {:.0} s", planned.line, share.as_secs_f64());
    let section = measure(&planned, device, share, watch);
    eprintln!("took {:.1} s", section.seconds.unwrap_or_default());
    section
}

/// A failure is told in the section, so that the others are measured all the same.
fn measure(planned: &Planned, device: &str, share: Duration, watch: Option<&Watch>) -> Section {
    let start = Instant::now();
    let arguments = planned.arguments(device, share);
    let work = || parse(&arguments).and_then(|line| line.benchmark.measure());
    let (measured, load) = match watch {
        Some(watch) => watch.during(work),
        None => (work(), None),
    };
    let (report, failed) = match measured {
        Ok(Finished { json, check, .. }) => (json, check.err()),
        Err(error) => (Value::Null, Some(error.to_string())),
    };
    let failed = failed.map(|problem| format!("{}: {problem}", planned.line));
    let command = Some(format!("warpsparse-bench {}", arguments.join(" ")));
    Section { command, seconds: Some(start.elapsed().as_secs_f64()), load, failed, report }
}

fn parse(arguments: &[String]) -> Outcome<Line> {
    // Without the usage that belongs to another command line.
    let first = |error: clap::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let told = |error| format!("{}: {}", arguments.join(" "), first(error).trim_start_matches("error: "));
    Ok(Line::try_parse_from(arguments).map_err(told)?)
}
