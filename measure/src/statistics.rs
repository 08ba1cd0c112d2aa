//! Statistics of repeated measurements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the times are less.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// A quarter of the times are less.
    pub q1: f64,
    /// Three quarters of the times are less.
    pub q3: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of at least one time.
    pub fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let at = |quantile: f64| {
            let place = quantile * (times.len() - 1) as f64;
            let (below, above) = (times[place.floor() as usize], times[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { median: at(0.5), min: at(0.0), q1: at(0.25), q3: at(0.75), max: at(1.0) }
    }

    /// Half the interquartile range, in percent of the median.
    pub fn percent(&self) -> f64 {
        50.0 * (self.q3 - self.q1) / self.median
    }
}

/// The geometric mean, for averaging ratios. `None` if there are none.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (logarithms / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_or_lie_between_two() {
        let spread = |micros: &[u64]| {
            let Spread { min, q1, median, q3, max } =
                Spread::of(&micros.iter().copied().map(Duration::from_micros).collect::<Vec<_>>());
            [min, q1, median, q3, max].map(|micros| (micros * 1e3).round() / 1e3)
        };
        assert_eq!(spread(&[7]), [7.0; 5]);
        assert_eq!(spread(&[9, 1, 4]), [1.0, 2.5, 4.0, 6.5, 9.0]);
        assert_eq!(spread(&[8, 2, 4, 100]), [2.0, 3.5, 6.0, 31.0, 100.0]);
    }

    #[test]
    fn geometric_means_undo_each_other() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 8.0, 1.0]).unwrap() - 2.0).abs() < 1e-12);
    }
}
