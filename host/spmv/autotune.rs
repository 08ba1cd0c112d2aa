//! Autotuning of products with vectors.

use std::time::Duration;

use super::{Chosen, Product};
use crate::{Device, DeviceVec, FormatChoice, KernelChoice, Result, Scalar};

/// Rounds of timing, so that a disturbance affects one round of all candidates, not all rounds of one.
const ROUNDS: usize = 3;

/// Timed products of a candidate per round, after one warm-up.
const REPEATS: usize = 9;

/// Candidates this much slower than the best in a round are dropped.
const HOPELESS: f64 = 1.5;

/// Returns the fastest of at least one kernel, each with what belongs to it, for products of `nrows` x `ncols`
/// matrices on `device`, which is not the CPU. The others are freed.
pub(crate) fn autotune<T: Scalar, P>(
    device: &Device,
    (nrows, ncols): (usize, usize),
    candidates: Vec<(Chosen<T>, P)>,
) -> Result<(Chosen<T>, P)> {
    // Zeros would cost less power, and so be faster.
    let x: Vec<T> = (0..ncols).map(|i| T::from_f64(((i * 7919) % 1000) as f64 / 1000.0 - 0.5)).collect();
    let (x, mut y) = (device.upload_vec(&x)?, device.zeros(nrows)?);
    let (rounds, repeats) = if device.is_cuda() { (ROUNDS, REPEATS) } else { (1, 1) };

    let count = candidates.len();
    let mut timed: Vec<_> = candidates.into_iter().map(|(chosen, place)| (Duration::MAX, chosen, place)).collect();
    for _ in 0..rounds {
        for (best, chosen, _) in &mut timed {
            *best = (*best).min(median_time(device, chosen, repeats, &x, &mut y)?);
        }
        timed.sort_by_key(|(best, ..)| *best);
        let limit = timed[0].0.mul_f64(HOPELESS);
        timed.retain(|(best, ..)| *best <= limit);
    }
    let (time, mut chosen, place) = timed.swap_remove(0);
    let KernelChoice { reason, .. } = &mut chosen.choice;
    let fastest = format!("the fastest of {count} candidates, {:.1} us a product", time.as_secs_f64() * 1e6);
    // What a format saves; that of a kernel for CSR is that it was told its lanes.
    *reason = if chosen.options.format == FormatChoice::Csr { fastest } else { format!("{fastest}; {reason}") };
    Ok((chosen, place))
}

/// Returns the median over `repeats` products, after one that loads the kernel and fills the cache.
fn median_time<T: Scalar>(
    device: &Device,
    chosen: &Chosen<T>,
    repeats: usize,
    x: &DeviceVec<T>,
    y: &mut DeviceVec<T>,
) -> Result<Duration> {
    let (alpha, beta) = (T::from_f64(1.0), T::default());
    let mut product = |_| chosen.operator.spmv(Product { alpha, x: x.into(), beta, y: (&mut *y).into() });
    product(0)?;
    let mut times = device.time_each(repeats, product)?;
    times.sort();
    Ok(times[times.len() / 2])
}
