//! `warpsparse-bench sort`: prefix sums and radix sorts, against CUB.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use measure::{Clock, Outcome, Spread, geometric_mean};
use rayon::prelude::*;
use serde::Serialize;
use warpsparse::{Device, DeviceVec, Element, Error, Result, SortKey};

use super::{
    report::{Finished, Method, Report, Skipped},
    session::{Basics, machine, now},
    table::{self, none, us},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Elements [default: 2^20, 2^22, 2^24, 2^26 and 2^28]
    #[arg(short, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    n: Vec<u32>,
    /// CUB's times on the same GPU: the output of bench/cub/sort.cu.
    #[arg(long, value_name = "FILE")]
    cub: Option<PathBuf>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

const LENGTHS: [u32; 5] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28];

/// Samples: `ROUNDS` batches of `AT_A_TIME` calls, each preceded by a copy that restores the keys.
const ROUNDS: usize = 4;
const AT_A_TIME: usize = 8;

const METHOD: &str = "Prefix sums (y.exclusive_scan_from(&x)) and stable sorts (keys.sort(), keys.sort_pairs(&mut values)) of random keys. Times are \
    device times, between events on a stream that is held back until the calls are queued; medians of 32 after a warm-up. On other devices than GPUs \
    they are wall times. The copy that restores the keys before each sort is not timed. Each of our calls allocates its temporary memory on the stream; \
    CUB's is allocated beforehand, and its times are those of a CUDA graph of one call. Ratios are CUB's time over ours: above 1 CUB is slower.";

/// One operation on so many elements.
#[derive(Serialize)]
struct Timed {
    /// As `bench/cub/sort.cu` names it.
    operation: &'static str,
    /// The type of elements, or of keys and values.
    types: String,
    n: usize,
    time_us: Spread,
    /// Billions of elements per second.
    gelements_per_s: f64,
    cub_us: Option<f64>,
    /// What is wrong with the result.
    #[serde(skip)]
    problem: Option<String>,
}

impl Timed {
    fn ratio(&self) -> Option<f64> {
        Some(self.cub_us? / self.time_us.median)
    }
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let (start, date) = (Instant::now(), now());
    let device = Device::from_name(&options.basics.device)?;
    let read = |path: &PathBuf| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let cub = options.cub.as_ref().map(read).transpose()?;
    let lengths = if options.n.is_empty() { &LENGTHS[..] } else { &options.n };
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for &n in lengths {
        let reason = match options.basics.too_late(start) {
            Some(reason) => reason,
            None => match of_length(&device, n as usize) {
                Ok(timed) => {
                    results.extend(timed);
                    continue;
                }
                // Shorter vectors may fit.
                Err(error @ Error::OutOfMemory { .. }) => error.to_string(),
                Err(error) => return Err(error.into()),
            },
        };
        skipped.push(Skipped { what: format!("n = {n}"), reason });
    }
    for timed in &mut results {
        timed.cub_us = cub.as_deref().and_then(|text| cub_time(text, timed));
    }
    let report = Report {
        schema: "warpsparse.bench.sort",
        version: 1,
        warpsparse: env!("CARGO_PKG_VERSION").into(),
        date,
        machine: machine(&device, device.measure_copy_bandwidth()?)?,
        method: Method {
            clock: if device.is_cuda() { Clock::Held } else { Clock::Wall },
            repeats: ROUNDS * AT_A_TIME,
            cache: "as it comes".into(),
            baselines: cub.iter().map(|_| "CUB".into()).collect(),
            text: METHOD.into(),
        },
        results,
        skipped,
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

fn of_length(device: &Device, n: usize) -> Result<Vec<Timed>> {
    Ok(vec![
        scan::<u32>(device, n, |bits| bits as u32)?,
        scan::<u64>(device, n, |bits| bits)?,
        scan::<f32>(device, n, rare_one)?,
        scan::<f64>(device, n, rare_one)?,
        keys::<u32>(device, n)?,
        keys::<u64>(device, n)?,
        pairs::<u32, u32>(device, n)?,
        pairs::<u32, u64>(device, n)?,
        pairs::<u64, u32>(device, n)?,
        pairs::<u64, u64>(device, n)?,
    ])
}

/// Elements made from integers; unsigned ones keep the lower bits.
trait Number: Element {
    const NAME: &'static str;
    fn from_u64(integer: u64) -> Self;
    fn to_u64(self) -> u64;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);
            fn from_u64(integer: u64) -> Self { integer as Self }
            fn to_u64(self) -> u64 { self as u64 }
        }
    )*};
}

numbers!(u32 u64 f32 f64);

/// 1 for one of 128 random words, otherwise 0: the sum of 2^30 of them is about 2^23, exact in `f32`.
fn rare_one<T: Number>(bits: u64) -> T {
    T::from_u64(u64::from(bits >> 57 == 0))
}

/// SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", 2014) of an index.
pub(crate) fn random_bits(index: usize) -> u64 {
    let mut z = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn random<T: Number>(device: &Device, n: usize, element: impl Fn(u64) -> T + Sync) -> Result<DeviceVec<T>> {
    let elements: Vec<T> = (0..n).into_par_iter().map(|index| element(random_bits(index))).collect();
    device.upload_vec(&elements)
}

enum Step {
    /// Restores what the operation overwrites.
    Restore,
    /// The operation.
    Timed,
}

/// Samples of the step `Timed`, each after a `Restore`.
fn times(device: &Device, mut call: impl FnMut(Step) -> Result<()>) -> Result<Spread> {
    call(Step::Restore)?;
    call(Step::Timed)?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let steps = |index| call(if index % 2 == 0 { Step::Restore } else { Step::Timed });
        times.extend(device.time_each(2 * AT_A_TIME, steps)?.into_iter().skip(1).step_by(2));
    }
    Ok(Spread::of(&times))
}

fn timed(operation: &'static str, types: String, n: usize, time_us: Spread, problem: Option<String>) -> Timed {
    let gelements_per_s = n as f64 / time_us.median / 1e3;
    let problem = problem.map(|problem| format!("{operation} of {n} {types}: {problem}"));
    Timed { operation, types, n, time_us, gelements_per_s, cub_us: None, problem }
}

fn scan<T: Number>(device: &Device, n: usize, element: impl Fn(u64) -> T + Sync) -> Result<Timed> {
    let x = random(device, n, &element)?;
    let mut y = device.zeros::<T>(n)?;
    let time_us = times(device, |step| match step {
        Step::Restore => Ok(()),
        Step::Timed => y.exclusive_scan_from(&x),
    })?;
    let mut sum = 0u64;
    let is_wrong = |(index, found): (usize, &T)| {
        let expected = T::from_u64(sum);
        sum = sum.wrapping_add(element(random_bits(index)).to_u64());
        found.to_u64() != expected.to_u64()
    };
    let problem = y.to_vec()?.iter().enumerate().position(is_wrong).map(|index| format!("sum {index} is wrong"));
    Ok(timed("exclusive_scan", T::NAME.into(), n, time_us, problem))
}

fn keys<K: Number + SortKey>(device: &Device, n: usize) -> Result<Timed> {
    let original = random(device, n, K::from_u64)?;
    let mut keys = device.zeros::<K>(n)?;
    let time_us = times(device, |step| match step {
        Step::Restore => keys.assign(&original),
        Step::Timed => keys.sort(),
    })?;
    Ok(timed("sort", K::NAME.into(), n, time_us, disorder(&keys.to_vec()?)))
}

fn pairs<K: Number + SortKey, V: Number>(device: &Device, n: usize) -> Result<Timed> {
    // A value that is made from its key tells whether the two stay together.
    let value_of = |key: K| V::from_u64(key.to_u64() ^ 0x5555_5555);
    let original_keys = random(device, n, K::from_u64)?;
    let original_values = random(device, n, |bits| value_of(K::from_u64(bits)))?;
    let (mut keys, mut values) = (device.zeros::<K>(n)?, device.zeros::<V>(n)?);
    let time_us = times(device, |step| match step {
        Step::Restore => {
            keys.assign(&original_keys)?;
            values.assign(&original_values)
        }
        Step::Timed => keys.sort_pairs(&mut values),
    })?;
    let (keys, values) = (keys.to_vec()?, values.to_vec()?);
    let mismatch = || {
        let matches = keys.par_iter().zip(&values).all(|(&key, value)| value_of(key).to_u64() == value.to_u64());
        (!matches).then(|| "a value does not match its key".into())
    };
    let problem = disorder(&keys).or_else(mismatch);
    Ok(timed("sort_pairs", format!("{}_{}", K::NAME, V::NAME), n, time_us, problem))
}

/// What is wrong with sorted keys: their order, or that they are not the original ones.
fn disorder<K: Number + SortKey>(keys: &[K]) -> Option<String> {
    if !keys.par_windows(2).all(|pair| pair[0] <= pair[1]) {
        return Some("the keys are not in order".into());
    }
    // Hashes that are added up do not depend on the order.
    let hash = |key: K| random_bits(key.to_u64() as usize);
    let found = keys.par_iter().map(|&key| hash(key)).reduce(|| 0, u64::wrapping_add);
    let original = (0..keys.len()).into_par_iter().map(|index| hash(K::from_u64(random_bits(index))));
    (found != original.reduce(|| 0, u64::wrapping_add)).then(|| "the keys are not the original ones".into())
}

/// The time in a line `operation,types,n,microseconds`.
fn cub_time(text: &str, timed: &Timed) -> Option<f64> {
    let start = format!("{},{},{},", timed.operation, timed.types, timed.n);
    text.lines().find_map(|line| line.strip_prefix(&start)?.trim().parse().ok())
}

/// Fails if a result was wrong.
fn check(report: &Report<Timed>) -> std::result::Result<(), String> {
    report.results.iter().find_map(|timed| timed.problem.clone()).map_or(Ok(()), Err)
}

fn markdown(report: &Report<Timed>) -> String {
    let row = |timed: &Timed| {
        vec![
            timed.operation.to_owned(),
            timed.types.clone(),
            timed.n.to_string(),
            us(timed.time_us.median),
            format!("{:.1}", timed.time_us.percent()),
            format!("{:.2}", timed.gelements_per_s),
            timed.cub_us.map_or_else(none, us),
            timed.ratio().map_or_else(none, |ratio| format!("{ratio:.2}")),
        ]
    };
    let header = ["<operation", "<types", "n", "µs", "±%", "10⁹/s", "CUB, µs", "ratio"];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let ratios: Vec<f64> = report.results.iter().filter_map(Timed::ratio).collect();
    let mean = geometric_mean(&ratios).map_or_else(String::new, |mean| {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        format!("\nSpeedup over CUB {mean:.2} (geometric mean of {}), at least {least:.2}.\n", ratios.len())
    });
    let skipped = report.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
    let table = table::markdown(&header, &rows);
    format!("{}\n\n{}\n\n{table}{mean}{}", report.machine.model, report.method.text, skipped.collect::<String>())
}
