//! How good a solution is, found out apart from the method: on the host, in f64.

use warpsparse::{CsrMatrix, DType, Scalar, SolveInfo};

use crate::baselines::vendor_cg::true_residual;

/// What is left of `b` after a solution, relative to `b`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residual {
    /// `|b - A x| / |b|`
    pub(super) of_x: f64,
    /// As the iteration carries it along.
    carried: f64,
    /// What rounding may have put between the two.
    rounding: f64,
}

impl Residual {
    /// Of the `x` that was found in the course that `info` tells of, from x = 0.
    pub(super) fn of<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], x: &[T], info: &SolveInfo) -> Self {
        let carried = info.history.last().copied().unwrap_or(info.residual_norm);
        Self {
            of_x: relative(matrix, b, x),
            carried: carried / norm(b),
            rounding: epsilon::<T>() * (info.iterations as f64).sqrt() * magnitude(matrix, b, x) / norm(b),
        }
    }

    /// Fails if the residual of x is not the one that the method took it for: it has computed something else then.
    pub(super) fn check<T: Scalar>(&self) -> Result<(), String> {
        let Self { of_x, carried, rounding } = *self;
        let factor = factor::<T>();
        // Not `>` and `<`: a NaN is wrong too.
        match (carried / factor - rounding..=carried * factor + rounding).contains(&of_x) {
            true => Ok(()),
            false => Err(format!(
                "its answer is wrong: a relative residual of {of_x:.2e}, where the iteration carries {carried:.2e} along and rounding explains {rounding:.0e}"
            )),
        }
    }
}

/// Residuals that differ by no more are taken for the same.
pub(super) fn factor<T: Scalar>() -> f64 {
    if T::DTYPE == DType::F32 { 3.0 } else { 1.5 }
}

/// `|b - A x| / |b|`
pub(super) fn relative<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    true_residual(matrix, b, x) / norm(b)
}

/// `||A| |x| + |b||`: what the rounding of one iteration is relative to.
fn magnitude<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let mut sums: Vec<f64> = b.iter().map(|b| b.to_f64().abs()).collect();
    for (row, column, value) in matrix.triplets() {
        sums[row] += (value.to_f64() * x[column].to_f64()).abs();
    }
    norm(&sums)
}

fn norm<T: Scalar>(vector: &[T]) -> f64 {
    vector.iter().map(|element| element.to_f64().powi(2)).sum::<f64>().sqrt()
}

fn epsilon<T: Scalar>() -> f64 {
    if T::DTYPE == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON }
}

#[cfg(test)]
mod tests {
    use warpsparse::{Cg, CgMethod, Device, Jacobi, Tolerance, io::generate::poisson2d};

    use super::{
        super::{
            System,
            report::Outcome,
            rungs::Pair,
            solver::{Solver, outcome},
        },
        *,
    };
    use measure::{DTypeName, random_elements};

    fn solved<T: Scalar>(iterations: usize) -> (CsrMatrix<T>, Vec<T>, Vec<T>, SolveInfo) {
        let matrix = poisson2d::<T>(60).unwrap();
        let b = random_elements::<T>(matrix.nrows(), 0).unwrap();
        let on_device = Device::cpu().upload(&matrix).unwrap();
        let mut x = Device::cpu().zeros(b.len()).unwrap();
        let mut cg = Cg::new(&on_device)
            .preconditioner(Jacobi::new(&on_device).unwrap())
            .max_iterations(iterations)
            .tolerance(Tolerance::relative(0.0));
        let info = cg.solve(&Device::cpu().upload_vec(&b).unwrap(), &mut x).unwrap();
        let x = x.to_vec().unwrap();
        (matrix, b, x, info)
    }

    fn an_answer_is_checked<T: Scalar>() {
        let (matrix, b, mut x, info) = solved::<T>(50);
        let residual = |x: &[T]| Residual::of(&matrix, &b, x, &info);
        let found = residual(&x);
        found.check::<T>().unwrap();
        assert!(found.of_x < 0.5 && (found.of_x - info.relative_residual).abs() < 1e-3 * found.of_x, "{found:?}");
        // One element in 3600 off.
        x[1800] = T::from_f64(x[1800].to_f64() + 100.0);
        let problem = residual(&x).check::<T>().unwrap_err();
        assert!(problem.contains("its answer is wrong") && problem.contains("carries"), "{problem}");
        x[1800] = T::from_f64(f64::NAN);
        residual(&x).check::<T>().unwrap_err();
    }

    #[test]
    fn answers_are_checked() {
        an_answer_is_checked::<f32>();
        an_answer_is_checked::<f64>();
    }

    #[test]
    fn rounding_is_no_mistake() {
        let (matrix, b, x, info) = solved::<f32>(500);
        let found = Residual::of(&matrix, &b, &x, &info);
        // The method goes on where f32 has no more digits for x.
        assert!(found.carried < 1e-3 * found.of_x && found.of_x < 1e-4, "{found:?}");
        found.check::<f32>().unwrap();
    }

    #[test]
    fn another_system_than_the_one_asked_for_is_noticed() {
        let matrix = poisson2d::<f64>(20).unwrap();
        let mut values = matrix.values().to_vec();
        values[0] += 0.1;
        let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
        let other = CsrMatrix::try_from_csr_data(400, 400, offsets, columns, values).unwrap();
        let b = random_elements::<f64>(matrix.nrows(), 0).unwrap();
        for (on_device, is_wrong) in [(&matrix, false), (&other, true)] {
            let on_device = Device::cpu().upload(on_device).unwrap();
            let system = System { matrix: &matrix, on_device: &on_device, b: &b, dtype: DTypeName::F64 };
            let solver = Solver::new(&system, &on_device, CgMethod::Auto);
            let Ok(Outcome::Measured(measured)) = outcome(solver, |_| Pair { short: 16, long: 64 }) else {
                panic!("not measured")
            };
            assert_eq!(measured.wrong.is_some(), is_wrong, "{:?}", measured.wrong);
        }
    }
}
