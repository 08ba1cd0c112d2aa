//! The functions that vectors can be mapped by, and what they can be reduced to.

/// A function of an element.
///
/// Elementary functions are right to within 4 units in the last place, but for results below the least normal number, which may be 0. Their
/// bits are the same on a GPU and in the emulator; the CPU uses those of `std` in `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Map<T> {
    /// `|x|`.
    Abs,
    /// The square root; a NaN of what is less than 0.
    Sqrt,
    /// `1 / x`.
    Recip,
    /// `e^x`.
    Exp,
    /// The natural logarithm: negative infinity of 0, a NaN of what is less.
    Ln,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x`, or 0 where that is less; a NaN stays one.
    Relu,
    /// `x` where it is greater than 0, otherwise `x` times this number; a NaN stays one.
    LeakyRelu(T),
    /// `x` plus this number.
    Add(T),
    /// `x` times this number.
    Mul(T),
    /// The first number where `x` is less than that, otherwise the second where `x` is greater than that, otherwise `x`; a NaN stays one.
    /// The bounds are not checked; a bound that is a NaN bounds nothing.
    Clamp(T, T),
}

/// A function of two elements, one of each of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Zip {
    /// `x + y`.
    Add,
    /// `x - y`.
    Sub,
    /// `x * y`.
    Mul,
    /// `x / y`.
    Div,
    /// The lesser of the two; a NaN if either is one.
    Min,
    /// The greater of the two; a NaN if either is one.
    Max,
}

/// One number of all elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The sum of the magnitudes.
    Norm1,
    /// The root of the sum of the squares.
    Norm2,
    /// The largest magnitude.
    NormInf,
}
