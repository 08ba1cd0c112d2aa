//! `warpsparse bench first-use`: how long a program takes from its start to its first result.

mod operation;
mod report;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use serde::{Deserialize, Serialize};
use warpsparse::Device;

use self::{
    operation::Operation,
    report::{FirstUse, Start},
};
use super::{
    report::{Method, Report, Skipped},
    session::{machine, write},
};
use crate::{Outcome, emit};

#[derive(Args)]
pub(crate) struct Options {
    /// Device, as `warpsparse info` lists them.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Programs started for each figure.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Only these operations.
    #[arg(long, value_delimiter = ',')]
    operation: Vec<Operation>,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Be the program that is started: do the one operation, and print when it was done.
    #[arg(long, hide = true)]
    child: bool,
}

pub(crate) const SCHEMA: &str = "warpsparse.bench.first-use";
pub(crate) const VERSION: u64 = 1;

/// What the driver finds when a program starts.
#[derive(Clone, Copy)]
enum Cache {
    /// A cache of compiled kernels that is empty.
    Cold,
    /// One in which an earlier program left what it compiled.
    Warm,
    /// An empty one, and the order to compile PTX even where there is machine code.
    Ptx,
}

/// What a started program prints.
#[derive(Serialize, Deserialize)]
struct Done {
    /// Since 1970, of the first result.
    unix_ns: u128,
    /// Until the device was ready: the driver's start and its context.
    device_us: f64,
    /// From there to the first result.
    operation_us: f64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if options.child {
        return child(options);
    }
    let report = measure(&options.device, options.repeat as usize, &options.operation)?;
    if let Some(path) = &options.json {
        write(path, &serde_json::to_string_pretty(&report)?)?;
    }
    emit(&report.markdown())
}

/// Starts programs for each of the operations, or for all where none is named.
pub(crate) fn measure(
    device: &str,
    repeats: usize,
    operations: &[Operation],
) -> Result<Report<FirstUse>, Box<dyn std::error::Error>> {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let chosen = Device::from_name(device)?;
    let operations = if operations.is_empty() { Operation::ALL } else { operations };
    let mut skipped = Vec::new();
    let mut results = Vec::new();
    for &operation in operations {
        let starts = |cache| starts(device, operation, repeats, cache);
        let cold = starts(Cache::Cold)?;
        let warm = starts(Cache::Warm)?;
        // A driver may not know the order.
        let ptx = chosen.is_cuda().then(|| starts(Cache::Ptx)).transpose().unwrap_or_else(|error| {
            skipped.push(Skipped { what: format!("{operation} from PTX"), reason: error.to_string() });
            None
        });
        results.push(FirstUse { operation, modules: operation.modules(), cold, warm, ptx });
    }
    Ok(Report {
        schema: SCHEMA,
        version: VERSION,
        warpsparse: env!("CARGO_PKG_VERSION"),
        date,
        machine: machine(&chosen, chosen.measure_copy_bandwidth()?)?,
        method: Method { repeats, cache: "as named", rivals: Vec::new(), text: report::method(repeats) },
        results,
        skipped,
    })
}

/// Starts the program so many times.
fn starts(
    device: &str,
    operation: Operation,
    repeats: usize,
    cache: Cache,
) -> Result<Start, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    if matches!(cache, Cache::Warm) {
        start(device, operation, cache, folder.path())?;
    }
    let mut times = Vec::new();
    for _ in 0..repeats {
        let empty = tempfile::tempdir()?;
        let folder = if matches!(cache, Cache::Warm) { folder.path() } else { empty.path() };
        times.push(start(device, operation, cache, folder)?);
    }
    Ok(Start::of(&times))
}

/// Starts the program once; the time until it had its result, with what it says itself.
fn start(
    device: &str,
    operation: Operation,
    cache: Cache,
    folder: &Path,
) -> Result<(Duration, Done), Box<dyn std::error::Error>> {
    let mut program = Command::new(env::current_exe()?);
    program.args(["bench", "first-use", "--child", "--device", device, "--operation", &operation.to_string()]);
    program.env("CUDA_CACHE_PATH", folder).env("CUDA_CACHE_DISABLE", "0");
    match cache {
        Cache::Ptx => program.env("CUDA_FORCE_PTX_JIT", "1"),
        Cache::Cold | Cache::Warm => program.env_remove("CUDA_FORCE_PTX_JIT"),
    };
    let started = unix_time()?;
    let output = program.output()?;
    if !output.status.success() {
        return Err(format!("{operation}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let done: Done = serde_json::from_slice(&output.stdout)?;
    Ok((Duration::from_nanos(u64::try_from(done.unix_ns.saturating_sub(started))?), done))
}

fn child(options: &Options) -> Outcome {
    let [operation] = options.operation[..] else {
        return Err("a program does one operation".into());
    };
    let begun = Instant::now();
    let device = Device::from_name(&options.device)?;
    device.upload_vec(&[0_f32])?;
    let ready = Instant::now();
    operation.run(&device)?;
    let done = Done {
        unix_ns: unix_time()?,
        device_us: (ready - begun).as_secs_f64() * 1e6,
        operation_us: ready.elapsed().as_secs_f64() * 1e6,
    };
    emit(&serde_json::to_string(&done)?)
}

fn unix_time() -> Result<u128, Box<dyn std::error::Error>> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())
}
