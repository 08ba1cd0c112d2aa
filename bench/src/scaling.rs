//! `warpsparse-bench scaling`: products and conjugate gradients on more and more devices.

mod links;
mod system;

use std::time::Instant;

use clap::Args;
use measure::{Clock, Collective, DTypeName, MAX_COLUMNS, Outcome, Ranks, Spread, TransportName, load};
use serde::Serialize;
use warpsparse::{Device, Error, ErrorKind, Result, Scalar, io::MatrixSource};

use self::{
    links::Links,
    system::{Found, Measured, Operation, Rows, System},
};
use super::{
    report::{Finished, Method, Report, Skipped},
    session::{Basics, machine, now},
    suite,
    table::{self, short, us},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz, .mtx.xz) and generators, as for `warpsparse spmv`, for strong scaling [default: gen:poisson3d:256]
    matrices: Vec<MatrixSource>,
    /// The side of each device's cubic grid, for weak scaling.
    #[arg(long, value_name = "POINTS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=600))]
    weak: u32,
    /// The devices, as for `warpsparse solve`, for threads of this process [default: all, or the one that --device names]
    #[arg(long, value_name = "DEVICES", conflicts_with = "device")]
    devices: Option<String>,
    /// How data goes from device to device.
    #[arg(long, value_enum, default_value = "auto")]
    transport: TransportName,
    /// The number of columns of dense matrices.
    #[arg(short, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=MAX_COLUMNS))]
    n: u32,
    /// The number of iterations of conjugate gradients that are timed together.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// The element type; may be repeated [default: f64]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    /// The number of samples.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    pub(super) basics: Basics,
}

const METHOD: &str = "Products y = A x and C = A B, and iterations of conjugate gradients with Jacobi's preconditioner, on 1, 2, 4, .. devices, a thread for \
    each. Strong scaling divides one matrix; weak scaling is the 7-point stencil on a grid of N x N x (N devices) points, of which each rank makes its own rows. \
    Times are wall times, from when all ranks begin until all have ended; medians after a warm-up. On GPUs a sample of products is as many as take about 2 ms, \
    queued one after the other. An iteration's time is that of a whole solution over its iterations. Efficiency is the time on the fewest devices over \
    the time, and for strong scaling over the ratio of devices. The model is the bytes of the rank that moves most over a device's share of the copy bandwidth, when \
    all copy, plus the elements that it receives over the bandwidth of an exchange, plus the time of the same operation on 1000 rows a rank, where \
    latencies are all. These three are measured on the same devices before. Every product, or a sample of its rows, is compared with the product in f64, and \
    the residual of every solution with that of the iteration.";

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Scaling {
    Strong,
    Weak,
}

/// One operation on so many devices.
#[derive(Serialize)]
struct Timed {
    scaling: Scaling,
    name: String,
    dtype: DTypeName,
    operation: Operation,
    devices: usize,
    rows: usize,
    entries: usize,
    time_us: Spread,
    model_us: f64,
    /// Of the rank that moves most.
    bytes: usize,
    /// Received by the rank that receives most.
    halo_bytes: usize,
    /// The time on the fewest devices over this time.
    speedup: f64,
    efficiency: f64,
    /// That of the model's times.
    model_efficiency: f64,
    /// What is wrong with the result.
    #[serde(skip)]
    problem: Option<String>,
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let (start, date) = (Instant::now(), now());
    if let Some(missing) = options.matrices.iter().find_map(suite::missing) {
        return Err(format!("{}: there is no such file", missing.display()).into());
    }
    let devices = options.devices()?;
    let mut run = Run { options, start, devices: &devices, results: Vec::new(), skipped: Vec::new() };
    let wanted = if options.dtype.is_empty() { &[DTypeName::F64][..] } else { &options.dtype };
    for &dtype in wanted {
        match dtype {
            DTypeName::F32 => run.all::<f32>(dtype)?,
            DTypeName::F64 => run.all::<f64>(dtype)?,
        }
    }
    let Run { results, skipped, .. } = run;
    let report = Report {
        schema: "warpsparse.bench.scaling",
        version: 1,
        warpsparse: env!("CARGO_PKG_VERSION").into(),
        date,
        machine: machine(&devices[0], devices[0].measure_copy_bandwidth()?)?,
        method: Method {
            clock: Clock::Wall,
            repeats: options.repeat as usize,
            cache: "as it comes".into(),
            baselines: Vec::new(),
            text: METHOD.into(),
        },
        results,
        skipped,
    };
    let check = report.results.iter().find_map(|timed| timed.problem.clone()).map_or(Ok(()), Err);
    Ok(Finished::new(&report, markdown(&report), check)?)
}

impl Options {
    fn devices(&self) -> Result<Vec<Device>> {
        let name = match (&self.devices, self.basics.device.as_str()) {
            (Some(name), _) => name,
            (None, "auto") => "all",
            (None, device) => return Ok(vec![Device::from_name(device)?]),
        };
        match Ranks::from_name(name, self.transport)? {
            Ranks::Threads(devices, _) => Ok(devices),
            Ranks::Process(..) => {
                Err(Error::InvalidOption("scaling is measured with threads; name devices instead of `ranks`".into()))
            }
        }
    }
}

/// A benchmark on its way.
struct Run<'a> {
    options: &'a Options,
    start: Instant,
    devices: &'a [Device],
    results: Vec<Timed>,
    skipped: Vec<Skipped>,
}

impl Run<'_> {
    fn all<T: Scalar>(&mut self, dtype: DTypeName) -> Result<()> {
        let Options { repeat, iterations, matrices, weak, .. } = self.options;
        let mut counts = Vec::new();
        for count in counts_to(self.devices.len()) {
            let ranks = Ranks::Threads(self.devices[..count].to_vec(), self.options.transport);
            let measured = ranks.measure(*repeat as usize, |rank| Links::measure::<T>(rank, *iterations as usize))?;
            counts.extend(measured.map(|(_, links)| (ranks, links)));
        }
        let default = ["gen:poisson3d:256".parse()?];
        for matrix in if matrices.is_empty() { &default[..] } else { matrices } {
            let case = (Scaling::Strong, suite::name(matrix), dtype);
            let matrix = load::<T>(matrix)?;
            self.case(&case, &counts, |_| Rows::Of(&matrix))?;
        }
        let side = *weak as usize;
        let case = (Scaling::Weak, format!("poisson3d, {side}³ a device"), dtype);
        self.case::<T>(&case, &counts, |devices| Rows::Slabs { side, devices })
    }

    /// Measures one case on each number of devices.
    fn case<'m, T: Scalar>(
        &mut self,
        case: &(Scaling, String, DTypeName),
        counts: &[(Ranks, Links)],
        rows: impl Fn(usize) -> Rows<'m, T>,
    ) -> Result<()> {
        let first = self.results.len();
        for (ranks, links) in counts {
            let what = format!("{} {} on {} devices", case.1, case.2, links.devices);
            if let Some(reason) = self.options.basics.too_late(self.start) {
                self.skipped.push(Skipped { what, reason });
                continue;
            }
            match self.measure(ranks, links, rows(links.devices)) {
                Ok(Measured { found, unsolved }) => {
                    self.results.extend(found.into_iter().map(|found| timed(case, links, found)));
                    let unsolved = unsolved.map(|reason| Skipped { what: format!("cg, {what}"), reason });
                    self.skipped.extend(unsolved);
                }
                // On more devices there is more memory.
                Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Unsupported) => {
                    self.skipped.push(Skipped { what, reason: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        compare(&mut self.results[first..]);
        Ok(())
    }

    fn measure<T: Scalar>(&self, ranks: &Ranks, links: &Links, rows: Rows<'_, T>) -> Result<Measured> {
        let Options { repeat, n, iterations, .. } = *self.options;
        let system = System::new(rows)?;
        let measured = ranks.run(|communicator| {
            let rank = Collective::new(communicator, repeat as usize, links.copy_bandwidth);
            system.measure(&rank, n as usize, iterations as usize)
        })?;
        Ok(measured.expect("threads return to this process"))
    }
}

/// 1, 2, 4, .., and the number of all devices.
fn counts_to(devices: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&count| count < devices);
    powers.chain([devices]).collect()
}

fn timed((scaling, name, dtype): &(Scaling, String, DTypeName), links: &Links, found: Found) -> Timed {
    let Found { operation, rows, entries, time_us, bytes, halo_bytes, problem } = found;
    let devices = links.devices;
    Timed {
        scaling: *scaling,
        problem: problem.map(|problem| format!("{operation} with {name} {dtype} on {devices} devices: {problem}")),
        name: name.clone(),
        dtype: *dtype,
        operation,
        devices,
        rows,
        entries,
        time_us,
        model_us: links.expected_us(operation, bytes, halo_bytes),
        bytes,
        halo_bytes,
        speedup: 1.0,
        efficiency: 1.0,
        model_efficiency: 1.0,
    }
}

/// Compares the results of one case with those on the fewest devices.
fn compare(results: &mut [Timed]) {
    let figures = |timed: &Timed| (timed.operation, timed.devices, timed.time_us.median, timed.model_us);
    let all: Vec<_> = results.iter().map(figures).collect();
    for timed in results {
        let Some(&(_, devices, time_us, model_us)) = all.iter().find(|it| it.0 == timed.operation) else { continue };
        let more = match timed.scaling {
            Scaling::Strong => timed.devices as f64 / devices as f64,
            Scaling::Weak => 1.0,
        };
        timed.speedup = time_us / timed.time_us.median;
        timed.efficiency = timed.speedup / more;
        timed.model_efficiency = model_us / timed.model_us / more;
    }
}

fn markdown(report: &Report<Timed>) -> String {
    let row = |timed: &Timed| {
        vec![
            timed.name.clone(),
            timed.dtype.to_string(),
            timed.operation.to_string(),
            timed.devices.to_string(),
            timed.rows.to_string(),
            us(timed.time_us.median),
            format!("{:.1}", timed.time_us.percent()),
            us(timed.model_us),
            short(timed.halo_bytes as f64 / 1e6),
            format!("{:.2}", timed.speedup),
            format!("{:.2}", timed.efficiency),
            format!("{:.2}", timed.model_efficiency),
        ]
    };
    let table = |scaling: Scaling| {
        let header = [
            "<matrix",
            "<type",
            "<operation",
            "devices",
            "rows",
            "µs",
            "±%",
            "model, µs",
            "halo, MB",
            "speedup",
            "efficiency",
            "model",
        ];
        let rows: Vec<_> = report.results.iter().filter(|timed| timed.scaling == scaling).map(row).collect();
        table::markdown(&header, &rows)
    };
    let skipped = report.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
    format!(
        "{}\n\n{}\n\nStrong scaling:\n\n{}\nWeak scaling:\n\n{}{}",
        report.machine.model,
        report.method.text,
        table(Scaling::Strong),
        table(Scaling::Weak),
        skipped.collect::<String>()
    )
}
