//! `warpsparse-bench sort`: prefix sums and radix sorts, beside CUB's.

use std::{fs, path::PathBuf, time::Duration};

use clap::Args;
use measure::{Clock, Outcome, Spread, geometric_mean};
use rayon::prelude::*;
use serde::Serialize;
use warpsparse::{Device, DeviceVec, Element, Result, SortKey};

use super::{
    report::{Finished, Method, Report},
    session::{Basics, machine, now},
    table::{self, none, us},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Elements [default: 2^20, 2^22, 2^24, 2^26 and 2^28]
    #[arg(short, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    n: Vec<u32>,
    /// CUB's times on the same GPU: what the program of bench/cub/sort.cu has printed.
    #[arg(long, value_name = "FILE")]
    cub: Option<PathBuf>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

const LENGTHS: [u32; 5] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28];

/// Samples: so many times as many as are queued at a time, each beside a copy that restores what is sorted.
const ROUNDS: usize = 4;
const AT_A_TIME: usize = 8;

const METHOD: &str = "Prefix sums (y.exclusive_scan_from(&x)) and stable sorts (keys.sort(), keys.sort_pairs(&mut values)) of random keys. Times are \
    device times, between events on a stream that is held back until the calls are queued; medians of 32 after a warm-up; on other devices than GPUs \
    wall times. The copy that restores the keys before each sort is not counted; the allocation of temporary memory is. CUB's temporary memory is \
    allocated beforehand, and its times are those of a CUDA graph of one call. Ratios are CUB's time over ours: above 1 CUB is slower.";

/// One operation on so many elements.
#[derive(Serialize)]
struct Timed {
    /// As `bench/cub/sort.cu` names it.
    operation: &'static str,
    /// The type of elements, or of keys and values.
    types: String,
    n: usize,
    time_us: Spread,
    /// Elements in a second, in thousands of millions.
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
    let date = now();
    let device = Device::from_name(&options.basics.device)?;
    let cub = options.cub.as_ref().map(fs::read_to_string).transpose()?;
    let lengths = if options.n.is_empty() { &LENGTHS[..] } else { &options.n };
    let mut results = Vec::new();
    for &n in lengths {
        results.extend(of_length(&device, n as usize)?);
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
        skipped: Vec::new(),
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

fn of_length(device: &Device, n: usize) -> Result<Vec<Timed>> {
    Ok(vec![
        scan::<u32>(device, n, |bits| bits as u32)?,
        scan::<u64>(device, n, |bits| bits)?,
        scan::<f32>(device, n, |bits| (bits >> 40) as f32)?,
        scan::<f64>(device, n, |bits| (bits >> 40) as f64)?,
        keys::<u32>(device, n)?,
        keys::<u64>(device, n)?,
        pairs::<u32, u32>(device, n)?,
        pairs::<u32, u64>(device, n)?,
        pairs::<u64, u32>(device, n)?,
        pairs::<u64, u64>(device, n)?,
    ])
}

/// Elements whose bits are random, and which add up exactly where that can be checked.
trait Bits: Element {
    const NAME: &'static str;
    fn of_bits(bits: u64) -> Self;
    fn to_bits_of(self) -> u64;
}

macro_rules! bits {
    ($($type:ty)*) => {$(
        impl Bits for $type {
            const NAME: &'static str = stringify!($type);
            fn of_bits(bits: u64) -> Self { bits as Self }
            fn to_bits_of(self) -> u64 { self as u64 }
        }
    )*};
}

bits!(u32 u64 f32 f64);

/// SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", 2014) of an index.
fn random_bits(index: usize) -> u64 {
    let mut z = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn random<T: Bits>(device: &Device, n: usize, element: impl Fn(u64) -> T + Sync) -> Result<DeviceVec<T>> {
    let elements: Vec<T> = (0..n).into_par_iter().map(|index| element(random_bits(index))).collect();
    device.upload_vec(&elements)
}

/// Samples of an operation, before each of which another one goes that is not timed.
fn times(
    device: &Device,
    mut before: impl FnMut() -> Result<()>,
    mut operation: impl FnMut() -> Result<()>,
) -> Result<Spread> {
    before()?;
    operation()?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let both = device.time_each(2 * AT_A_TIME, |call| if call % 2 == 0 { before() } else { operation() })?;
        times.extend(both.into_iter().skip(1).step_by(2));
    }
    Ok(Spread::of(&times))
}

fn timed(operation: &'static str, types: String, n: usize, time_us: Spread, problem: Option<String>) -> Timed {
    let gelements_per_s = n as f64 / time_us.median / 1e3;
    let problem = problem.map(|problem| format!("{operation} of {n} {types}: {problem}"));
    Timed { operation, types, n, time_us, gelements_per_s, cub_us: None, problem }
}

fn scan<T: Bits>(device: &Device, n: usize, element: impl Fn(u64) -> T + Sync) -> Result<Timed> {
    let x = random(device, n, &element)?;
    let mut y = device.zeros::<T>(n)?;
    let time_us = times(device, || Ok(()), || y.exclusive_scan_from(&x))?;
    // The sum of all elements but the last; those of floating-point numbers are rounded on their way.
    let found = y.slice(n - 1..)?.to_vec()?[0];
    let is_integer = matches!(T::NAME, "u32" | "u64");
    let right = if is_integer {
        let sum = (0..n - 1).into_par_iter().map(random_bits).reduce(|| 0, u64::wrapping_add);
        found.to_bits_of() == T::of_bits(sum).to_bits_of()
    } else {
        let sum: u64 = (0..n - 1).into_par_iter().map(|index| random_bits(index) >> 40).sum();
        (found.to_bits_of() as f64 - sum as f64).abs() <= 1e-4 * sum as f64
    };
    let problem = (!right).then(|| "the last sum is wrong".into());
    Ok(timed("exclusive_scan", T::NAME.into(), n, time_us, problem))
}

fn keys<K: Bits + SortKey>(device: &Device, n: usize) -> Result<Timed> {
    let original = random(device, n, K::of_bits)?;
    let keys = std::cell::RefCell::new(device.zeros::<K>(n)?);
    let time_us = times(device, || keys.borrow_mut().assign(&original), || keys.borrow_mut().sort())?;
    let problem = disorder(&keys.borrow().to_vec()?);
    Ok(timed("sort", K::NAME.into(), n, time_us, problem))
}

fn pairs<K: Bits + SortKey, V: Bits>(device: &Device, n: usize) -> Result<Timed> {
    let original = random(device, n, K::of_bits)?;
    // A value tells its key, so that any other order of the two is noticed.
    let value = |bits: u64| V::of_bits(K::of_bits(bits).to_bits_of() ^ 0x5555_5555);
    let values = random(device, n, value)?;
    let both = std::cell::RefCell::new((device.zeros::<K>(n)?, device.zeros::<V>(n)?));
    let restore = || {
        let (keys, sorted) = &mut *both.borrow_mut();
        keys.assign(&original)?;
        sorted.assign(&values)
    };
    let sort = || {
        let (keys, sorted) = &mut *both.borrow_mut();
        keys.sort_pairs(sorted)
    };
    let time_us = times(device, restore, sort)?;
    let (keys, sorted) = (both.borrow().0.to_vec()?, both.borrow().1.to_vec()?);
    let parted = || {
        let of_key = |key: &K| V::of_bits(key.to_bits_of() ^ 0x5555_5555).to_bits_of();
        let parted = keys.par_iter().zip(&sorted).any(|(key, value)| of_key(key) != value.to_bits_of());
        parted.then(|| "a value is not beside its key".into())
    };
    let problem = disorder(&keys).or_else(parted);
    Ok(timed("sort_pairs", format!("{}_{}", K::NAME, V::NAME), n, time_us, problem))
}

/// What is wrong with sorted keys: their order, or that they are not those that were sorted.
fn disorder<K: Bits + SortKey>(keys: &[K]) -> Option<String> {
    if !keys.par_windows(2).all(|pair| pair[0] <= pair[1]) {
        return Some("the keys are not in order".into());
    }
    let mix = |key: u64| random_bits(key as usize);
    let found = keys.par_iter().map(|key| mix(key.to_bits_of())).reduce(|| 0, u64::wrapping_add);
    let original = (0..keys.len()).into_par_iter().map(|index| mix(K::of_bits(random_bits(index)).to_bits_of()));
    (found != original.reduce(|| 0, u64::wrapping_add)).then(|| "the keys are others than before".into())
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
    format!("{}\n\n{}\n\n{}{mean}", report.machine.model, report.method.text, table::markdown(&header, &rows))
}
