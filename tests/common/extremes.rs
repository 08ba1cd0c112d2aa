//! Products whose operands hold infinities, NaN, and numbers so large or so small that results overflow or underflow.

use warpsparse::{DType, Scalar};

use super::sums::Sum;

/// What an element of a product may be.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Within {
        value: f64,
        bound: f64,
    },
    Nan,
    Infinite {
        sign: f64,
    },
    /// A partial sum may overflow to the other infinity.
    InfiniteOrNan {
        sign: f64,
    },
    /// Whether a partial sum overflows depends on the order of the additions.
    Anything,
}

/// How a kernel adds to an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Additions {
    InRegisters,
    /// On a GPU these take denormal numbers of `f32` for 0 (PTX ISA, `atom`).
    Atomic,
}

/// Fails unless each element found is the one of `alpha * A * x + beta * y`, by the rules for infinities and NaN, whatever the order of the
/// additions and whether `alpha` is multiplied first or last. The entries are rows, columns and values.
pub(crate) fn check<T: Scalar>(
    case: &str,
    additions: Additions,
    entries: impl IntoIterator<Item = (usize, usize, T)>,
    (alpha, x): (T, &[T]),
    (beta, y): (T, &[T]),
    found: &[T],
) {
    let range = Range::of::<T>(additions);
    let mut rows = vec![Row::default(); y.len()];
    for (i, j, value) in entries {
        rows[i].add(&range, alpha.to_f64(), value.to_f64(), x[j].to_f64());
    }
    for (i, (row, (&old, &found))) in rows.into_iter().zip(y.iter().zip(found)).enumerate() {
        let (expected, found) = (row.expected(&range, alpha, beta, old), found.to_f64());
        let holds = match expected {
            Expected::Within { value, bound } => (found - value).abs() <= bound,
            Expected::Nan => found.is_nan(),
            Expected::Infinite { sign } => found == sign * f64::INFINITY,
            Expected::InfiniteOrNan { sign } => found == sign * f64::INFINITY || found.is_nan(),
            Expected::Anything => true,
        };
        assert!(holds, "{case}: y[{i}] = {found:e}, expected {expected:?}");
    }
}

/// The numbers of a type.
struct Range {
    least: f64,
    most: f64,
    /// Of denormal numbers.
    lost_by_addition: f64,
}

impl Range {
    fn of<T: Scalar>(additions: Additions) -> Self {
        match T::DTYPE {
            DType::F32 => {
                // What is added, or the sum so far; and the new sum.
                let lost = if additions == Additions::Atomic { 2.0 * f64::from(f32::MIN_POSITIVE) } else { 0.0 };
                Self { least: f64::from(f32::from_bits(1)), most: f64::from(f32::MAX), lost_by_addition: lost }
            }
            DType::F64 => Self { least: f64::from_bits(1), most: f64::MAX, lost_by_addition: 0.0 },
        }
    }
}

/// What the terms of an element have in common.
#[derive(Clone, Copy, Default)]
struct Row {
    /// Of finite operands.
    sum: Sum,
    /// Of those below 0, and above, a quarter of the sum, which may be beyond the numbers of the reference itself.
    quarters: [f64; 2],
    /// And of all magnitudes that may come up on the way.
    largest_quarter: f64,
    /// What may be lost where results are denormal.
    underflow: f64,
    has_nan: bool,
    /// Terms that are minus infinity, and infinity.
    has_infinite: [bool; 2],
}

impl Row {
    fn add(&mut self, range: &Range, alpha: f64, value: f64, x: f64) {
        if value.is_finite() && x.is_finite() {
            let (product, factor) = (value * (x / 4.0), alpha * (x / 4.0));
            let term = alpha * product;
            self.quarters[usize::from(term > 0.0)] += term;
            self.largest_quarter += product.abs().max(factor.abs()).max(term.abs());
            self.underflow += range.least * (1.0 + alpha.abs() + value.abs()) + range.lost_by_addition;
            self.sum.add(alpha * (value * x));
        } else {
            self.add_special(value * x * alpha);
            if value.is_infinite() && (alpha * x).abs() < range.least {
                // If `alpha` comes first, it is infinity times 0.
                self.largest_quarter = f64::INFINITY;
            }
        }
    }

    fn add_special(&mut self, term: f64) {
        self.has_nan |= term.is_nan();
        self.has_infinite[0] |= term == f64::NEG_INFINITY;
        self.has_infinite[1] |= term == f64::INFINITY;
    }

    /// With `beta` times the old element, which does not count if `beta` is 0.
    fn expected<T: Scalar>(mut self, range: &Range, alpha: T, beta: T, old: T) -> Expected {
        let beta = beta.to_f64();
        let old = if beta == 0.0 { 0.0 } else { old.to_f64() };
        if old.is_finite() {
            let quarter = beta * (old / 4.0);
            self.quarters[usize::from(quarter > 0.0)] += quarter;
            self.largest_quarter += quarter.abs();
        } else {
            self.add_special(beta * old);
        }
        // With a factor of 2 to spare.
        let may_overflow = self.largest_quarter > range.most / 8.0;
        let overflows = |of_one_sign: f64, of_other: f64| {
            // Infinity times an `alpha` of 0 would be NaN.
            alpha != T::default() && of_one_sign.is_finite() && of_one_sign.abs() > range.most / 2.0 && of_other == 0.0
        };
        let [below, above] = self.quarters;
        match self.has_infinite {
            _ if self.has_nan => Expected::Nan,
            [true, true] => Expected::Nan,
            [false, false] if !may_overflow => {
                let (value, bound) = self.sum.bounded::<T>(beta * old);
                Expected::Within { value, bound: bound + self.underflow + 2.0 * range.least }
            }
            [false, false] if overflows(below, above) => Expected::Infinite { sign: -1.0 },
            [false, false] if overflows(above, below) => Expected::Infinite { sign: 1.0 },
            [false, false] => Expected::Anything,
            [_, above] => {
                let sign = if above { 1.0 } else { -1.0 };
                if may_overflow { Expected::InfiniteOrNan { sign } } else { Expected::Infinite { sign } }
            }
        }
    }
}
