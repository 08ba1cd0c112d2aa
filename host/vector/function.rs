//! The functions that vectors can be mapped by, and the reductions.

/// A function of one element.
///
/// Elementary functions are accurate to 4 units in the last place, except for results below the smallest normal number,
/// which may be 0. Their bits are the same on a GPU and in the emulator; the CPU uses the functions of `std` in `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Map<T> {
    /// `|x|`.
    Abs,
    /// The square root; NaN for negative numbers.
    Sqrt,
    /// `1 / x`.
    Recip,
    /// `e^x`.
    Exp,
    /// The natural logarithm: negative infinity for 0, NaN for negative numbers.
    Ln,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `x` if it is positive, otherwise `x` times this number; NaN stays NaN.
    LeakyRelu(T),
    /// `x` plus this number.
    Add(T),
    /// `x` times this number.
    Mul(T),
    /// `x` clamped to a lower and an upper bound: the first number if `x` is less than it, otherwise the second if `x`
    /// is greater, otherwise `x`. NaN stays NaN. The bounds are not checked; a NaN bound has no effect.
    Clamp(T, T),
}

/// A function of two elements, one from each of two vectors.
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
    /// The smaller of the two; NaN if either is NaN.
    Min,
    /// The larger of the two; NaN if either is NaN.
    Max,
}

/// A reduction of a vector to one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The 1-norm: the sum of the magnitudes.
    Norm1,
    /// The 2-norm: the square root of the sum of squares.
    Norm2,
    /// The infinity norm: the largest magnitude.
    NormInf,
}
