//! NVIDIA's libraries, timed.

use super::{
    report::{Measured, Outcome},
    rungs::{FEWEST, iterations, repeats},
};
use crate::{
    bench::rivals::vendor_cg::{Number, VendorCg, Way},
    statistics::Spread,
};

/// What a way to iterate is measured at, or why there are no figures.
pub(super) fn measure<T: Number>(vendor: &mut Result<VendorCg<T>, String>, way: Way, most: usize) -> Outcome {
    let measured = vendor.as_mut().map_err(|reason| reason.clone()).and_then(|vendor| time(vendor, way, most));
    measured.map_or_else(Outcome::skipped, Outcome::Measured)
}

fn time<T: Number>(vendor: &mut VendorCg<T>, way: Way, most: usize) -> Result<Measured, String> {
    let (first, _) = vendor.solve(way, FEWEST)?;
    let one = first / FEWEST as u32;
    let iterations = iterations(one, most);
    let all = one * iterations as u32;
    let times = (0..repeats(all)).map(|_| Ok(vendor.solve(way, iterations)?.0)).collect::<Result<Vec<_>, String>>()?;
    let each: Vec<_> = times.iter().map(|time| time.div_f64(iterations as f64)).collect();
    Ok(Measured {
        kernel: format!("cuSPARSE {}", vendor.algorithm()),
        reason: None,
        repeats: times.len(),
        iterations,
        time_us: Spread::of(&each),
        solution_ms: Spread::of(&times).median / 1e3,
        ratio: None,
        percent_of_bound: None,
    })
}
