//! What is measured of a system, and how often.

use std::{ops::RangeInclusive, time::Duration};

use warpsparse::CgMethod;

use crate::baselines::vendor_cg::{RECORDED, Way};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    /// By NVIDIA's libraries.
    Vendor(Way),
    /// By our kernels.
    Ours(CgMethod),
    /// By our kernels for the CPU, on all cores, whatever the device.
    Cpu,
}

/// What ratios are over.
pub(crate) const CAPTURED: &str = "captured in a graph";

/// The rung that a user gets who asks for nothing in particular, and the one where there is no GPU.
pub(crate) const AUTOMATIC: &str = "automatic";
pub(crate) const CPU: &str = "CPU";

/// From the most obvious down.
pub(super) const RUNGS: [(&str, Rung); 10] = [
    ("sample style", Rung::Vendor(Way::HostSync)),
    ("scalars on the device", Rung::Vendor(Way::DeviceScalars)),
    (CAPTURED, Rung::Vendor(Way::Captured)),
    ("own dots", Rung::Vendor(Way::OwnDots)),
    ("fused, end in pinned memory", Rung::Ours(CgMethod::Launches)),
    ("fused, graph", Rung::Ours(CgMethod::Graph)),
    ("persistent", Rung::Ours(CgMethod::Persistent)),
    ("one reduction", Rung::Ours(CgMethod::SingleReduction)),
    (AUTOMATIC, Rung::Ours(CgMethod::Auto)),
    (CPU, Rung::Cpu),
];

/// How often a rung is timed.
pub(super) const PAIRS: RangeInclusive<usize> = 5..=50;

/// The fewest iterations of a solution that is timed: those of a shorter one, and 20 more.
pub(super) const FEWEST: usize = 32;

/// Iterations of two solutions, the difference of whose times is that of the iterations that one has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) short: usize,
    pub(super) long: usize,
}

impl Pair {
    /// For iterations that take so long each, and no more than about `most`. Both are made of whole graphs.
    pub(super) fn new(one: Duration, most: usize) -> Self {
        let long = iterations(one, most).next_multiple_of(RECORDED);
        Self { short: (long / 6).next_multiple_of(RECORDED), long }
    }
}

/// What a solution takes about, if the system does not converge before.
const SOLUTION: Duration = Duration::from_millis(100);

/// What all solutions of a rung take about, if so many do not take longer.
const RUNG: Duration = Duration::from_millis(500);

/// Iterations that take about as long as a solution is to take, by the time of one, but no more than `most`.
pub(super) fn iterations(one: Duration, most: usize) -> usize {
    within(SOLUTION, one).clamp(FEWEST, most.max(FEWEST))
}

/// How often to measure what takes so long.
pub(super) fn repeats(one: Duration) -> usize {
    within(RUNG, one).clamp(*PAIRS.start(), *PAIRS.end())
}

fn within(all: Duration, one: Duration) -> usize {
    usize::try_from(all.as_nanos() / one.as_nanos().max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_iterations_are_fewer() {
        assert_eq!(iterations(Duration::from_micros(100), 5000), 1000);
        assert_eq!(iterations(Duration::from_micros(1), 5000), 5000);
        assert_eq!(iterations(Duration::from_secs(1), 5000), FEWEST);
        assert_eq!(iterations(Duration::ZERO, 3), FEWEST);
        assert_eq!(Pair::new(Duration::from_micros(100), 5000), Pair { short: 168, long: 1000 });
        assert_eq!(Pair::new(Duration::from_secs(1), 5000), Pair { short: 8, long: 32 });
        assert_eq!([1, 20, 900].map(|ms| repeats(Duration::from_millis(ms))), [50, 25, 5]);
    }
}
