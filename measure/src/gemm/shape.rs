//! How large the matrices of a product are.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// `C` of `m` rows and `n` columns, from `A` of `k` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Rows of `C` and `A`.
    pub m: u32,
    /// Columns of `C` and `B`.
    pub n: u32,
    /// Columns of `A`, rows of `B`.
    pub k: u32,
}

impl Shape {
    /// The most of each, which is what the library takes.
    pub const MAX: i64 = i32::MAX as i64;

    /// All the same.
    #[must_use]
    pub const fn square(size: u32) -> Self {
        Self { m: size, n: size, k: size }
    }

    /// Two for each product of elements.
    pub fn operations(self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }
}

/// As it is parsed: one number if all are the same.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k } = *self;
        if self == &Self::square(m) { write!(f, "{m}") } else { write!(f, "{m}x{n}x{k}") }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |text: &str| text.parse().ok().filter(|size| (1..=Self::MAX).contains(&i64::from(*size)));
        let sizes: Option<Vec<u32>> = text.split('x').map(size).collect();
        match sizes.as_deref() {
            Some(&[size]) => Ok(Self::square(size)),
            Some(&[m, n, k]) => Ok(Self { m, n, k }),
            _ => {
                Err(format!("a shape is MxNxK, such as 512x256x64, or one size for all three, each 1 to {}", Self::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_three_sizes_or_one() {
        let shape = Shape { m: 5, n: 6, k: 7 };
        assert_eq!(("5x6x7".parse(), "9x9x9".parse()), (Ok(shape), Ok(Shape::square(9))));
        assert_eq!((shape.to_string(), Shape::square(9).to_string()), ("5x6x7".into(), "9".into()));
        assert_eq!("2147483647".parse(), Ok(Shape::square(2147483647)));
        for wrong in ["", "0", "5x6", "5x6x0", "5x6x7x8", "5x6x2147483648", "-5", "5X6X7"] {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
        assert_eq!(shape.operations(), 420.0);
    }
}
