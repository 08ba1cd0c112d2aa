//! Systems whose vectors have squares that the element type does not hold.

use super::system::System;
use crate::{
    Result, Scalar,
    solver::{
        Course, Method, Phase, Round, SolveInfo, StopReason, breakdown,
        course::{ACCEPTED, OVERFLOW},
    },
};

/// Solves a system by a method that computes dot products of residuals, which may neither overflow nor underflow: where the norm of `b` is out of
/// [range](factor), `b` and `x` are multiplied by a power of two meanwhile. This changes no digit of them, and the report is that of the system itself.
pub(super) fn run<T: Scalar>(
    course: &mut Course<'_, '_>,
    system: System<'_, T>,
    method: impl for<'m> FnOnce(System<'m, T>) -> Result<Box<dyn Method + 'm>>,
) -> Result<SolveInfo> {
    let b_norm = system.b.norm2()?.get()?.to_f64();
    let Some(factor) = factor::<T>(b_norm) else {
        return course.run(&mut *method(system)?);
    };
    let (mut b, mut x) = (system.b.try_clone()?, system.x.try_clone()?);
    b.scale(T::from_f64(factor))?;
    x.scale(T::from_f64(factor))?;
    let mut scaled = Scaled { method: method(System { a: system.a, m: system.m, b: &b, x: &mut x })?, factor };
    let info = course.run(&mut scaled);
    drop(scaled);
    let copied = system.x.axpby(T::from_f64(1.0 / factor), &x, T::default());
    let mut info = info?;
    copied?;
    // Elements of x may have lost digits, or overflow.
    info.residual_norm = system.residual(&mut system.vector()?, &mut system.scalar()?)?;
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

/// The power of two by which a system is multiplied whose `b` has this norm, which becomes 1 to 2; None if the squares of it, and of residuals that
/// are smaller by the precision, are well within the range of the type.
fn factor<T: Scalar>(norm: f64) -> Option<f64> {
    // Exponents: those that need no factor, and of the largest number whose inverse has all digits.
    let (safe, largest) = if size_of::<T>() == size_of::<f32>() { (30.0, 126.0) } else { (300.0, 1022.0) };
    let exponent = norm.log2().floor();
    let is_safe = norm == 0.0 || !norm.is_finite() || exponent.abs() <= safe;
    (!is_safe).then(|| (-exponent).clamp(-largest, largest).exp2())
}

/// A method whose system is multiplied by a factor.
struct Scaled<M> {
    method: M,
    factor: f64,
}

impl Method for Scaled<Box<dyn Method + '_>> {
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
        // The factors for the smallest and the largest numbers are representable, and so are their inverses.
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
