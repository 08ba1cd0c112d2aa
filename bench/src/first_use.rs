//! `warpsparse-bench first-use`: how long a program takes from its start to its first result.

mod operation;
mod report;

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use measure::{Clock, Outcome, emit};
use serde::{Deserialize, Serialize};
use warpsparse::Device;

use self::{
    operation::Operation,
    report::{FirstUse, Start},
};
use super::{
    report::{Finished, Method, Report, Skipped},
    session::{Basics, machine, now},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Programs started for each figure.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Only these operations.
    #[arg(long, value_delimiter = ',')]
    operation: Vec<Operation>,
    #[command(flatten)]
    pub(super) basics: Basics,
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
    /// An empty one, and PTX is compiled even where there is machine code.
    Ptx,
}

/// What a started program prints.
#[derive(Serialize, Deserialize)]
struct Done {
    /// Since 1970, of the first result.
    unix_ns: u128,
    /// The device is a GPU.
    cuda: bool,
    /// The driver's start.
    driver_us: f64,
    /// From there until something had been copied to the device: its context, and a first allocation.
    device_us: f64,
    /// From there to the first result.
    operation_us: f64,
}

impl Options {
    /// Whether this is a program that was started to be measured.
    pub(super) fn is_child(&self) -> bool {
        self.child
    }
}

/// Starts programs for each of the operations, or for all where none is named.
pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let (start, date) = (Instant::now(), now());
    let (device, repeats) = (options.basics.device.as_str(), options.repeat as usize);
    let operations = if options.operation.is_empty() { Operation::ALL } else { &options.operation };
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    // A driver starts faster while another program has the GPU open: this one must not, until all have run.
    for &operation in operations {
        if let Some(reason) = options.basics.too_late(start) {
            skipped.push(Skipped { what: operation.to_string(), reason });
            continue;
        }
        let starts = |cache| starts(device, operation, repeats, cache);
        let (cold, cuda) = starts(Cache::Cold)?;
        let (warm, _) = starts(Cache::Warm)?;
        let ptx = if cuda { Some(starts(Cache::Ptx)?.0) } else { None };
        results.push(FirstUse { operation, modules: operation.modules(), cold, warm, ptx, held: None });
    }
    let chosen = Device::from_name(device)?;
    for result in results.iter_mut().filter(|_| chosen.is_cuda()) {
        result.held = Some(starts(device, result.operation, repeats, Cache::Warm)?.0);
    }
    let report = Report {
        schema: SCHEMA,
        version: VERSION,
        warpsparse: env!("CARGO_PKG_VERSION").into(),
        date,
        machine: machine(&chosen, chosen.measure_copy_bandwidth()?)?,
        method: Method {
            clock: Clock::Wall,
            repeats,
            cache: "as named".into(),
            baselines: Vec::new(),
            text: report::method(repeats),
        },
        results,
        skipped,
    };
    Ok(Finished::new(&report, report.markdown(), Ok(()))?)
}

/// Starts the program so many times; and whether it ran on a GPU.
fn starts(
    device: &str,
    operation: Operation,
    repeats: usize,
    cache: Cache,
) -> Result<(Start, bool), Box<dyn std::error::Error>> {
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
    Ok((Start::of(&times), times.iter().all(|(_, done)| done.cuda)))
}

/// Starts the program once; the time until it had its result, with what it says itself.
fn start(
    device: &str,
    operation: Operation,
    cache: Cache,
    folder: &Path,
) -> Result<(Duration, Done), Box<dyn std::error::Error>> {
    let mut program = Command::new(env::current_exe()?);
    program.args(["first-use", "--child", "--device", device, "--operation", &operation.to_string()]);
    program.env("CUDA_CACHE_PATH", folder).env("CUDA_CACHE_DISABLE", "0");
    program.env("WARPSPARSE_PTX", if matches!(cache, Cache::Ptx) { "1" } else { "0" });
    let started = unix_time()?;
    let output = program.output()?;
    if !output.status.success() {
        return Err(format!("{operation}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let done: Done = serde_json::from_slice(&output.stdout)?;
    Ok((Duration::from_nanos(u64::try_from(done.unix_ns.saturating_sub(started))?), done))
}

pub(super) fn child(options: &Options) -> Outcome {
    let [operation] = options.operation[..] else {
        return Err("a program does one operation".into());
    };
    let begun = Instant::now();
    // Where there is no driver, the device may be the CPU.
    let _ = Device::cuda_count();
    let started = Instant::now();
    let device = Device::from_name(&options.basics.device)?;
    device.upload_vec(&[0_f32])?;
    let ready = Instant::now();
    operation.run(&device)?;
    let done = Done {
        unix_ns: unix_time()?,
        cuda: device.is_cuda(),
        driver_us: (started - begun).as_secs_f64() * 1e6,
        device_us: (ready - started).as_secs_f64() * 1e6,
        operation_us: ready.elapsed().as_secs_f64() * 1e6,
    };
    emit(&serde_json::to_string(&done)?)
}

fn unix_time() -> Result<u128, Box<dyn std::error::Error>> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())
}
