//! Systems whose vectors have squares that the element type does not hold.

use super::{
    Course, Method, Phase, Round, SolveInfo, StopReason, breakdown,
    course::{ACCEPTED, OVERFLOW},
    operator::residual,
};
use crate::{DeviceScalar, DeviceVec, LinearOperator, Result, Scalar};

/// Solves the system of a method.
pub(super) type Run<'r> = dyn FnMut(&mut dyn Method) -> Result<SolveInfo> + 'r;

/// Solves a system by a method that computes dot products of residuals, which may neither overflow nor underflow: where the norms of `b` and of the first residual
/// are out of [range](is_safe), `b` and `x` are multiplied by a power of two meanwhile. This changes no digit of them, and the report is that of the system itself.
///
/// `solve` makes the method for a `b` and an `x`, and returns what the function that it gets makes of that. It is called a second time if `b` is out of range.
pub(super) fn run<T: Scalar>(
    course: &mut Course<'_, '_>,
    a: &dyn LinearOperator<T>,
    b: &DeviceVec<T>,
    x: &mut DeviceVec<T>,
    mut solve: impl FnMut(&DeviceVec<T>, &mut DeviceVec<T>, &mut Run<'_>) -> Result<SolveInfo>,
) -> Result<SolveInfo> {
    let mut out_of_range = false;
    let info = solve(b, x, &mut |method| {
        let first = method.residual()?;
        out_of_range = !is_safe::<T>(first.1);
        if out_of_range { Ok(SolveInfo::at_start(first.0)) } else { course.run_from(method, first) }
    })?;
    if !out_of_range {
        return Ok(info);
    }
    // These norms are right even if squares are not.
    let b_norm = b.norm2()?.get()?.to_f64();
    let mut norm = DeviceScalar::zero(a.device())?;
    let first = residual(a, b, x, &mut b.try_clone()?, &mut norm)?;
    // The residual of a first guess may be far larger than `b`.
    let Some(factor) = factor::<T>(if b_norm == 0.0 { 0.0 } else { b_norm.max(first) }) else {
        return solve(b, x, &mut |method| {
            method.residual()?;
            course.run_from(method, (first, b_norm))
        });
    };
    let (mut scaled_b, mut scaled_x) = (b.try_clone()?, x.try_clone()?);
    scaled_b.scale(T::from_f64(factor))?;
    scaled_x.scale(T::from_f64(factor))?;
    let info = solve(&scaled_b, &mut scaled_x, &mut |method| course.run(&mut Scaled { method, factor }));
    let copied = x.axpby(T::from_f64(1.0 / factor), &scaled_x, T::default());
    let mut info = info?;
    copied?;
    // Elements of x may have lost digits, or overflow.
    info.residual_norm = residual(a, b, x, &mut scaled_x, &mut norm)?;
    info.relative_residual = info.residual_norm / b_norm;
    match () {
        () if !info.residual_norm.is_finite() => return Err(breakdown(info.iterations, OVERFLOW)),
        () if info.reason == StopReason::Converged
            && info.residual_norm > ACCEPTED * course.criterion.target(b_norm) =>
        {
            info.reason = StopReason::RoundingLimit;
        }
        () => {}
    }
    Ok(info)
}

/// The power of two by which a system with this norm is multiplied, which becomes 1 to 2; None if none is needed, or none helps.
fn factor<T: Scalar>(norm: f64) -> Option<f64> {
    let needs_none = norm == 0.0 || !norm.is_finite() || is_safe::<T>(norm);
    (!needs_none).then(|| to_exponent::<T>(norm, 0.0))
}

/// The power of two by which a number becomes one with this exponent; the nearest whose inverse has all digits too.
pub(super) fn to_exponent<T: Scalar>(number: f64, exponent: f64) -> f64 {
    let largest = if size_of::<T>() == size_of::<f32>() { 126.0 } else { 1022.0 };
    (exponent - number.log2().floor()).clamp(-largest, largest).exp2()
}

/// Whether the squares of this norm, and of residuals that are smaller by the precision, are well within the range of the type.
fn is_safe<T: Scalar>(norm: f64) -> bool {
    let most = if size_of::<T>() == size_of::<f32>() { 30.0 } else { 300.0 };
    norm.log2().floor().abs() <= most
}

/// A method whose system is multiplied by a factor.
struct Scaled<'m> {
    method: &'m mut dyn Method,
    factor: f64,
}

impl Method for Scaled<'_> {
    fn size(&self) -> usize {
        self.method.size()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        let (residual, b_norm) = self.method.residual()?;
        Ok((residual / self.factor, b_norm / self.factor))
    }

    fn set_zero(&mut self) -> Result<()> {
        self.method.set_zero()
    }

    fn replaced_at(&self) -> Option<f64> {
        self.method.replaced_at()
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        self.method.begin(Round { target: self.factor * round.target, ..round })
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        self.method.advance(done)
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        let known = history.len();
        let phase = self.method.norms(history)?;
        history[known..].iter_mut().for_each(|norm| *norm /= self.factor);
        Ok(phase)
    }

    fn finish(&mut self) -> Result<()> {
        self.method.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_out_of_range_become_1_to_2() {
        assert!(!is_safe::<f64>(0.0) && !is_safe::<f64>(f64::NAN) && !is_safe::<f64>(f64::INFINITY));
        for norm in [0.0, 1.0, 1e-9, 1e9, f64::INFINITY, f64::NAN] {
            assert_eq!(factor::<f32>(norm), None, "{norm}");
        }
        for norm in [1e-12, 3e-30, 1e20, f64::from(f32::MAX)] {
            let scaled = factor::<f32>(norm).unwrap() * norm;
            assert!((1.0..2.0).contains(&scaled) || norm > 1e38, "{norm}");
        }
        assert_eq!(factor::<f64>(1e-90), None);
        assert_eq!(factor::<f64>(1.5 * 2f64.powi(-700)), Some(2f64.powi(700)));
        assert_eq!(factor::<f64>(1.5 * 2f64.powi(700)), Some(2f64.powi(-700)));
        // Even for the extremes of the type, the factor and its inverse are normal numbers.
        for norm in [f64::from(f32::from_bits(1)), f64::from(f32::MAX)] {
            let factor = factor::<f32>(norm).unwrap() as f32;
            assert!(factor.is_normal() && (1.0 / factor).is_normal(), "{norm}");
        }
        for norm in [f64::from_bits(1), f64::MAX] {
            let factor = factor::<f64>(norm).unwrap();
            assert!(factor.is_normal() && (1.0 / factor).is_normal(), "{norm}");
        }
    }
}
