//! `warpsparse-bench faults`: random systems over processes, of which some are killed.

mod plan;
mod rank;
mod trial;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use measure::{Outcome, Ranks, TransportName, emit};
use warpsparse::{Device, Error};

use self::{
    plan::Plan,
    trial::{End, Places},
};

#[derive(Args)]
pub(crate) struct Options {
    /// The devices, as for `warpsparse solve`: a process for each; a run uses some of them.
    #[arg(long, value_name = "DEVICES", default_value = "all")]
    devices: String,
    /// The ways of data from device to device, of which each run uses one; may be repeated [default: all that the devices have]
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<TransportName>,
    /// Begin no run after so many minutes.
    #[arg(long, default_value_t = 10.0, value_parser = parse_minutes)]
    minutes: f64,
    /// End after so many runs [default: when the time is over]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// The seed of the random runs [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// The number of the first run: with the same seed, devices, transport and most rows, a run is the same again.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: usize,
    /// The most rows of a system.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    max_rows: u32,
    /// Be a process of a run: solve its system, and print what was found.
    #[arg(long, hide = true, value_enum)]
    child: Option<Child>,
}

/// What a started process does.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Child {
    /// Solves the system twice.
    Solve,
    /// Solves it again and again, until a rank has died.
    UntilKilled,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.0..=100_000.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes from 0 on".into()),
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    if let Some(child) = options.child {
        return rank::run(options, child);
    }
    let start = Instant::now();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = options.seed.unwrap_or(since_1970);
    eprintln!("seed {seed}");
    let places = Places { devices: devices(&options.devices)?, seed, max_rows: options.max_rows };
    let transports = transports(&places, &options.transport)?;
    let mut found = Found::default();
    let mut number = options.first;
    let goes_on = |number: usize| {
        let is_in_time = start.elapsed() < Duration::from_secs_f64(60.0 * options.minutes);
        is_in_time && options.runs.is_none_or(|runs| number - options.first < runs)
    };
    while goes_on(number) {
        let plan = Plan::new(seed, number, &transports, places.devices.len(), options.max_rows);
        let end = places.try_out(&plan)?;
        eprintln!("run {number}: {plan}: {end}");
        found.count(&plan, end);
        number += 1;
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let (runs, devices) = (number - options.first, places.devices.join(", "));
    emit(&format!("seed {seed}: {runs} runs in {minutes:.1} minutes on {devices}: {found}"))?;
    match found.failures {
        0 => Ok(()),
        failures => Err(format!("{failures} runs failed; `--seed {seed} --first N --runs 1` and the same devices, transport and rows repeat run N").into()),
    }
}

/// The names of the devices.
fn devices(name: &str) -> Result<Vec<String>, Error> {
    match Ranks::from_name(name, TransportName::Auto)? {
        // This process keeps no GPU open.
        Ranks::Threads(devices, _) => Ok(devices.iter().map(Device::to_string).collect()),
        Ranks::Process(..) => {
            Err(Error::InvalidOption("faults starts processes itself; name devices instead of `ranks`".into()))
        }
    }
}

/// The transports that processes on the devices can use, of those that are wanted, or of all.
fn transports(places: &Places, wanted: &[TransportName]) -> Outcome<Vec<TransportName>> {
    if !wanted.is_empty() {
        return Ok(wanted.to_vec());
    }
    let mut found = Vec::new();
    for transport in [TransportName::Peers, TransportName::Nccl, TransportName::Host] {
        match places.why_not(transport)? {
            None => found.push(transport),
            Some(reason) => eprintln!("without {}: {reason}", plan::name(&transport)),
        }
    }
    Ok(found)
}

/// What the runs have come to.
#[derive(Default)]
struct Found {
    solved: usize,
    killed: usize,
    failures: usize,
    /// From a kill until the last process had ended.
    slowest: Duration,
}

impl Found {
    fn count(&mut self, plan: &Plan, end: End) {
        match end {
            End::Failed(_) => self.failures += 1,
            End::AsItShould(_) if plan.kill.is_none() => self.solved += 1,
            End::AsItShould(time) => {
                self.killed += 1;
                self.slowest = self.slowest.max(time);
            }
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { solved, killed, failures, slowest } = self;
        write!(
            f,
            "{solved} solved, with the bits of threads; {killed} with a rank killed, whose survivors all named it and ended, the slowest \
             after {:.2} s; {failures} failed",
            slowest.as_secs_f64()
        )
    }
}
