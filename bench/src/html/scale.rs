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

    /// The powers of ten within the range, with texts; more numbers where these are but few.
    pub(super) fn decades(&self) -> Vec<(f64, String)> {
        [&[1.0][..], &[1.0, 2.0, 5.0], &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]]
            .map(|digits| self.multiples(digits))
            .into_iter()
            .reduce(|few, more| if few.len() >= 3 { few } else { more })
            .expect("one of three")
    }

    fn multiples(&self, digits: &[f64]) -> Vec<(f64, String)> {
        let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let values = decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)));
        let inside = values.filter(|value| (self.from..=self.to).contains(value));
        // Rounded to the digits that a tick has: 0.3 and not 0.30000000000000004.
        let text = |value: f64| match value {
            ..9999.0 => format!("{}", (value * 1e6).round() / 1e6),
            // With a narrow space, as in 10 000.
            _ => format!("{:.0}\u{202f}000", value / 1e3),
        };
        inside.map(|value| (self.at(value), text(value))).collect()
    }
}

/// The least and the greatest of the numbers that are positive and finite.
pub(super) fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.filter(|number| *number > 0.0 && number.is_finite()).fold(None, |range, number| {
        let (least, greatest) = range.unwrap_or((number, number));
        Some((number.min(least), number.max(greatest)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers_at_their_places() {
        let texts =
            |from, to| LogScale::new(from, to, 0.0, 100.0).decades().into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(texts(0.9, 1100.0), ["1", "10", "100", "1000"]);
        assert_eq!(texts(900.0, 110_000.0), ["1000", "10\u{202f}000", "100\u{202f}000"]);
        assert_eq!(texts(0.9, 21.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(texts(0.14, 0.31), ["0.15", "0.2", "0.25", "0.3"]);
        let scale = LogScale::new(1.0, 100.0, 50.0, 10.0);
        assert_eq!([scale.at(1.0), scale.at(10.0), scale.at(100.0)], [50.0, 30.0, 10.0]);
    }
}
