//! Logarithmic axes.

/// From a range of positive numbers to a range of pixels.
pub(super) struct LogScale {
    pub(super) from: f64,
    pub(super) to: f64,
    start: f64,
    end: f64,
}

impl LogScale {
    /// `from` and `to` come to lie at the pixels `start` and `end`.
    pub(super) fn new(from: f64, to: f64, start: f64, end: f64) -> Self {
        Self { from, to, start, end }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        self.start + (self.end - self.start) * (value / self.from).ln() / (self.to / self.from).ln()
    }

    /// 1, 2 and 5 times the powers of ten within the range, with texts.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let decades = first..=last;
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| (digit * 10f64.powi(decade), decade)));
        let inside = ticks.filter(|(value, _)| (self.from..=self.to).contains(value));
        inside.map(|(value, decade)| (self.at(value), format!("{value:.*}", (-decade).max(0) as usize))).collect()
    }
}

/// The least and the greatest of the numbers that are positive and finite.
pub(super) fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.filter(|number| *number > 0.0 && number.is_finite()).fold(None, |range, number| {
        let (least, greatest) = range.unwrap_or((number, number));
        Some((number.min(least), number.max(greatest)))
    })
}
