//! NVIDIA's libraries, timed as our method is.

use super::{
    report::{Measured, Outcome, Samples},
    residual,
    rungs::{FEWEST, Pair, repeats},
};
use crate::baselines::vendor_cg::{Number, VendorCg, Way};

/// The system, and how good a solution after so many iterations should be.
pub(super) struct Expected<'a, T: Number> {
    pub(super) matrix: &'a warpsparse::CsrMatrix<T>,
    pub(super) b: &'a [T],
    pub(super) pair: Pair,
    /// The relative residual, in f64, of ours after the longer solution of the pair.
    pub(super) relative_residual: f64,
}

/// What a way to iterate is measured at, or why there are no figures.
pub(super) fn measure<T: Number>(
    vendor: &mut Result<VendorCg<T>, String>,
    way: Way,
    expected: &Expected<'_, T>,
) -> Outcome {
    let measured = vendor.as_mut().map_err(|reason| reason.clone()).and_then(|vendor| time(vendor, way, expected));
    measured.map_or_else(Outcome::skipped, |measured| Outcome::Measured(measured.into()))
}

fn time<T: Number>(vendor: &mut VendorCg<T>, way: Way, expected: &Expected<'_, T>) -> Result<Measured, String> {
    let Pair { short, long } = expected.pair;
    let samples = vendor.prepared(way, |solve| {
        let one = solve(FEWEST)? / FEWEST as u32;
        let mut samples = Samples::default();
        for _ in 0..repeats(one * (long + short) as u32) {
            let (before, time) = (solve(short)?, solve(long)?);
            samples.add(before, time, long - short);
        }
        Ok(samples)
    })?;
    let residual = residual::relative(expected.matrix, expected.b, &vendor.solution()?);
    let kernel = format!("cuSPARSE {}", vendor.algorithm());
    let measured = samples.measured(kernel, None, long, residual);
    measured.check::<T>(expected.relative_residual)?;
    Ok(measured)
}
