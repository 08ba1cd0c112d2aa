//! Spread of repeated measurements.

use std::time::Duration;

use serde::Serialize;

/// Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one time.
    pub(crate) fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let middle = times.len() / 2;
        let median = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
        Self { median, min: times[0], max: times[times.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        let spread = |micros: &[u64]| {
            let spread = Spread::of(&micros.iter().copied().map(Duration::from_micros).collect::<Vec<_>>());
            [spread.median, spread.min, spread.max].map(|micros| (micros * 1e3).round() / 1e3)
        };
        assert_eq!(spread(&[7]), [7.0, 7.0, 7.0]);
        assert_eq!(spread(&[9, 1, 4]), [4.0, 1.0, 9.0]);
        assert_eq!(spread(&[8, 2, 4, 100]), [6.0, 2.0, 100.0]);
    }
}
