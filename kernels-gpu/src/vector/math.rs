//! Elementary functions of additions, multiplications and divisions alone, so that they give the same bits on a GPU and on the CPU.
//!
//! Arguments are reduced to where a Taylor polynomial is exact to the last bits (Muller, "Elementary Functions", 2016, chapters 3 and 11);
//! the last part is rounded only once or twice. Errors are below 2 units in the last place, and below 4 for `tanh` and `sigmoid`.

use crate::Scalar;

/// A type with elementary functions.
pub trait Math: Scalar {
    /// `e^self`: 0 where it is less than the least positive number.
    #[must_use]
    fn exp(self) -> Self;
    /// The natural logarithm: negative infinity of 0, a NaN of what is less.
    #[must_use]
    fn ln(self) -> Self;
    /// The sine and the cosine of `2 * pi * self`, for `self` from 0 to 1.
    #[must_use]
    fn sin_cos_turns(self) -> (Self, Self);

    /// The hyperbolic tangent.
    #[must_use]
    fn tanh(self) -> Self;

    /// `1 / (1 + e^-self)`.
    #[inline(always)]
    #[must_use]
    fn sigmoid(self) -> Self {
        // Of the magnitude, so that nothing overflows.
        let below = (if self < Self::ZERO { self } else { -self }).exp();
        (if self < Self::ZERO { below } else { Self::ONE }) / (Self::ONE + below)
    }
}

/// `horner!(x; highest, ..., lowest)` is the polynomial of these coefficients.
macro_rules! horner {
    ($x:expr; $highest:expr $(, $coefficient:expr)*) => {{
        let mut value = $highest;
        $(value = cuda_std::GpuFloat::mul_add(value, $x, $coefficient);)*
        value
    }};
}

/// Implements [`Math`] for a type: its bits as integers, bits of its fraction, bias of its exponent, the parts of ln 2, the least and the largest
/// argument of `exp`, and the polynomials.
macro_rules! math {
    ($type:ident, $bits:ident, $int:ident, $fraction:literal, $bias:literal, ($ln2:expr, $ln2_low:literal), $least:literal..$most:literal,
     exp: [$($exp:expr),*], ln: [$($ln:expr),*], sin: [$($sin:expr),*], cos: [$($cos:expr),*]) => {
        impl Math for $type {
            #[inline(always)]
            fn exp(self) -> Self {
                let (k, r) = reduce(self);
                let of_fraction = cuda_std::GpuFloat::mul_add(horner!(r; $($exp),*), r, 1.0);
                scaled(of_fraction, k, self)
            }

            #[inline(always)]
            fn tanh(self) -> Self {
                if self == 0.0 {
                    return self;
                }
                let magnitude = if self < 0.0 { -self } else { self };
                let below = exp_m1(-2.0 * magnitude);
                let tanh = -below / (below + 2.0);
                if self < 0.0 { -tanh } else { tanh }
            }

            #[inline(always)]
            fn ln(self) -> Self {
                if self.is_nan() || self < 0.0 {
                    return $type::NAN;
                }
                if self == 0.0 {
                    return $type::NEG_INFINITY;
                }
                if self == $type::INFINITY {
                    return self;
                }
                // Subnormal numbers are made normal.
                let (normal, shifted) = if self < $type::MIN_POSITIVE {
                    (self * power_of_two($fraction + 2), $fraction + 2)
                } else {
                    (self, 0)
                };
                /// The bits of the root of 1/2: from there on the fraction's exponent is 0.
                const ROOT: $bits = (core::f64::consts::FRAC_1_SQRT_2 as $type).to_bits();
                let above = normal.to_bits().wrapping_sub(ROOT) as $int;
                let exponent = above >> $fraction;
                let fraction = $type::from_bits(normal.to_bits().wrapping_sub((exponent << $fraction) as $bits));
                let exponent = (exponent - shifted) as $type;
                // ln m = 2 artanh((m - 1) / (m + 1)), as m - 1 is exact: with f the quotient, it is m - 1 less f times what the series lacks.
                let below = fraction - 1.0;
                let f = below / (fraction + 1.0);
                let square = f * f;
                let series = horner!(square; $($ln),*) * square;
                // 2 f = below - f * below.
                let tail = cuda_std::GpuFloat::mul_add(f, series - below, exponent * $ln2_low);
                cuda_std::GpuFloat::mul_add(exponent, $ln2, below + tail)
            }

            #[inline(always)]
            fn sin_cos_turns(self) -> (Self, Self) {
                let quarter = round(4.0 * self);
                let rest = cuda_std::GpuFloat::mul_add(quarter, -0.25, self) * (core::f64::consts::TAU as $type);
                let square = rest * rest;
                let sin = cuda_std::GpuFloat::mul_add(horner!(square; $($sin),*) * square, rest, rest);
                let cos = cuda_std::GpuFloat::mul_add(horner!(square; $($cos),*), square, 1.0);
                match quarter as u32 % 4 {
                    0 => (sin, cos),
                    1 => (cos, -sin),
                    2 => (-sin, -cos),
                    _ => (-cos, sin),
                }
            }
        }

        /// `e^x - 1`, accurate where that is small, for `x` of at most 0.
        #[inline(always)]
        fn exp_m1(x: $type) -> $type {
            // Below it, the result is -1 to the last bit.
            const MINUS_ONE: $type = -(($fraction + 3) as $type);
            if x < MINUS_ONE {
                return -1.0;
            }
            let (k, r) = reduce(x);
            let of_fraction = horner!(r; $($exp),*) * r;
            if k == 0 {
                return of_fraction;
            }
            let whole = scaled(1.0, k, x);
            cuda_std::GpuFloat::mul_add(whole, of_fraction, whole - 1.0)
        }

        /// `x = k ln 2 + r`, with `k` an integer as a number and `r` at most half of ln 2.
        #[inline(always)]
        fn reduce(x: $type) -> ($int, $type) {
            let k = round(x * (core::f64::consts::LOG2_E as $type));
            let r = cuda_std::GpuFloat::mul_add(k, -$ln2, x);
            (k as $int, cuda_std::GpuFloat::mul_add(k, -$ln2_low, r))
        }

        /// `value * 2^k`, rounded once, where the result is `e^x`.
        #[inline(always)]
        fn scaled(value: $type, k: $int, x: $type) -> $type {
            if x > $most {
                return $type::INFINITY;
            }
            if x < $least {
                return 0.0;
            }
            let half = k / 2;
            value * power_of_two(half) * power_of_two(k - half)
        }

        #[inline(always)]
        fn power_of_two(exponent: $int) -> $type {
            $type::from_bits(((exponent + $bias) as $bits) << $fraction)
        }

        /// The nearest integer of a number that is not large.
        #[inline(always)]
        fn round(x: $type) -> $type {
            // Adding it leaves no bits for a fraction.
            const SHIFT: $type = 1.5 * (1u64 << $fraction) as $type;
            (x + SHIFT) - SHIFT
        }
    };
}

mod single {
    use super::Math;

    math!(f32, u32, i32, 23, 127, (core::f32::consts::LN_2, -1.904_654_3e-9), -103.98..88.722_84,
        exp: [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0],
        ln: [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0],
        sin: [1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0],
        cos: [-1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5]);
}

mod double {
    use super::Math;

    math!(f64, u64, i64, 52, 1023, (core::f64::consts::LN_2, 2.319_046_813_846_299_6e-17), -745.14..709.782_712_893_384,
    exp: [
        1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0, 1.0 / 39_916_800.0, 1.0 / 3_628_800.0, 1.0 / 362_880.0, 1.0 / 40_320.0,
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0
    ],
    ln: [
        2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0
    ],
    sin: [
        1.0 / 355_687_428_096_000.0, -1.0 / 1_307_674_368_000.0, 1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0,
        -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0
    ],
    cos: [
        -1.0 / 6_402_373_705_728_000.0, 1.0 / 20_922_789_888_000.0, -1.0 / 87_178_291_200.0, 1.0 / 479_001_600.0, -1.0 / 3_628_800.0,
        1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5
    ]);
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// Arguments that grow from `from` to `to` by equal factors or, if `from` is not positive, by equal steps.
    fn arguments(from: f64, to: f64) -> impl Iterator<Item = f64> {
        (0..=40_000).map(move |i| {
            let part = f64::from(i) / 40_000.0;
            if from > 0.0 { (from.ln() + (to.ln() - from.ln()) * part).exp() } else { from + (to - from) * part }
        })
    }

    /// Fails where `found` is more than `ulps` units in the last place of `T` off.
    fn check<T: Math>(name: &str, x: f64, found: T, expected: f64, ulps: f64) {
        let found = found.widen();
        let (epsilon, least) = if size_of::<T>() == 4 {
            (f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE))
        } else {
            (f64::EPSILON, f64::MIN_POSITIVE)
        };
        // The reference is a rounded f64 itself, hence half a unit of it.
        let bound = (ulps * epsilon + f64::EPSILON / 2.0) * expected.abs().max(least);
        assert!((found - expected).abs() <= bound, "{name}({x:e}) = {found:e}, expected {expected:e}");
    }

    fn check_all<T: Math>(exponent: f64, least: f64) {
        for x in arguments(-exponent, exponent).chain(arguments(1e-30, 1.0)) {
            let t = T::narrow(x);
            let x = t.widen();
            check("exp", x, t.exp(), x.exp(), 1.5);
            check("tanh", x, t.tanh(), x.tanh(), 4.0);
            check("tanh", -x, T::narrow(-x).tanh(), (-x).tanh(), 4.0);
            check("sigmoid", x, t.sigmoid(), 1.0 / (1.0 + (-x).exp()), 4.0);
        }
        for x in arguments(least, 1e30).chain(arguments(0.5, 2.0)) {
            let t = T::narrow(x);
            check("ln", t.widen(), t.ln(), t.widen().ln(), 1.5);
        }
        for x in arguments(0.0, 1.0) {
            let t = T::narrow(x);
            let (sin, cos) = t.sin_cos_turns();
            let angle = core::f64::consts::TAU * t.widen();
            let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { 4.0 * f64::EPSILON };
            assert!((sin.widen() - angle.sin()).abs() <= epsilon, "sin of {x} turns: {sin:?}");
            assert!((cos.widen() - angle.cos()).abs() <= epsilon, "cos of {x} turns: {cos:?}");
        }
    }

    #[test]
    fn functions_are_right_to_the_last_bits() {
        check_all::<f32>(87.0, 1e-40);
        check_all::<f64>(700.0, 1e-310);
    }

    fn check_ends<T: Math>() {
        let (infinity, nan) = (T::narrow(f64::INFINITY), T::narrow(f64::NAN));
        assert_eq!((infinity.exp().widen(), (-infinity).exp().widen()), (f64::INFINITY, 0.0));
        assert_eq!((infinity.tanh().widen(), (-infinity).tanh().widen()), (1.0, -1.0));
        assert_eq!((infinity.sigmoid().widen(), (-infinity).sigmoid().widen()), (1.0, 0.0));
        assert_eq!((infinity.ln().widen(), T::ZERO.ln().widen()), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((T::ZERO.exp().widen(), T::ONE.ln().widen()), (1.0, 0.0));
        // The zeros have signs.
        assert!(T::ZERO.tanh().widen().is_sign_positive() && (-T::ZERO).tanh().widen().is_sign_negative());
        assert_eq!(((-T::ZERO).tanh().widen(), T::ZERO.sigmoid().widen()), (0.0, 0.5));
        assert!([nan.exp(), nan.tanh(), nan.sigmoid(), nan.ln(), (-T::ONE).ln()].iter().all(|x| x.widen().is_nan()));
    }

    #[test]
    fn sigmoid_is_right_where_its_reciprocal_overflows() {
        for x in arguments(-103.0, -88.0) {
            // In multiples of the least positive number, 2^-149.
            let (found, expected) = (f64::from(Math::sigmoid(x as f32)), 1.0 / (1.0 + (-f64::from(x as f32)).exp()));
            assert!(
                (found - expected).abs() <= 2.0 * 2f64.powi(-149) + 4.0 * f64::from(f32::EPSILON) * expected,
                "{x}: {found:e}"
            );
        }
        for x in arguments(-745.0, -708.0) {
            let (found, expected) = (Math::sigmoid(x), x.exp());
            assert!((found - expected).abs() <= 1e-323 + 4.0 * f64::EPSILON * expected, "{x}: {found:e}");
        }
    }

    #[test]
    fn infinities_zeros_and_nans() {
        check_ends::<f32>();
        check_ends::<f64>();
        assert_eq!((Math::exp(-104.0f32), Math::exp(88.8f32)), (0.0, f32::INFINITY));
        assert_eq!((Math::exp(-746.0f64), Math::exp(709.8f64)), (0.0, f64::INFINITY));
    }
}
