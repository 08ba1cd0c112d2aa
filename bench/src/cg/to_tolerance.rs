//! One solve to a tolerance, compared with the libraries' after as many iterations.

use measure::DTypeName;
use serde::Serialize;
use warpsparse::{Result, Scalar, StopReason, Tolerance};

use super::solver::Solver;
use crate::baselines::vendor_cg::{Number, VendorCg, Way};

#[derive(Serialize)]
pub(crate) struct ToTolerance {
    /// Of the residual, relative to b.
    pub(crate) tolerance: f64,
    pub(crate) kernel: String,
    pub(crate) iterations: usize,
    pub(crate) ms: f64,
    /// `|b - A x| / |b|` in f64.
    pub(crate) relative_residual: f64,
    /// Why the solution is wrong by itself.
    #[serde(skip)]
    pub(crate) wrong: Option<String>,
    /// Why it ended, unless the tolerance was met.
    pub(crate) ended: Option<String>,
    /// As the method carries it along.
    pub(crate) residual_norm: f64,
    /// That of the libraries in the sample's style after as many iterations.
    pub(crate) baseline_residual_norm: Option<f64>,
    /// Whether the two differ by more than 10 %.
    pub(crate) differs: bool,
}

impl ToTolerance {
    /// Solved by the method of its own choice.
    pub(super) fn measure<T: Scalar>(solver: &mut Solver<'_, T>, dtype: DTypeName) -> Result<Self> {
        let tolerance = match dtype {
            DTypeName::F32 => 1e-4,
            DTypeName::F64 => 1e-6,
        };
        let (info, time) = solver.solve(10 * solver.unknowns(), Tolerance::relative(tolerance))?;
        let residual = solver.residual(&info)?;
        Ok(Self {
            tolerance,
            kernel: solver.kernel().to_owned(),
            iterations: info.iterations,
            ms: time.as_secs_f64() * 1e3,
            relative_residual: residual.of_x,
            wrong: residual.check::<T>().err(),
            ended: (info.reason != StopReason::Converged).then(|| format!("{:?}", info.reason)),
            residual_norm: info.history.last().copied().unwrap_or(info.residual_norm),
            baseline_residual_norm: None,
            differs: false,
        })
    }

    /// Compares the libraries' residual with ours; if there is none, their rows give the reason.
    pub(super) fn compare<T: Number>(&mut self, vendor: &mut std::result::Result<VendorCg<T>, String>) {
        let norm_of = |vendor: &mut VendorCg<T>| {
            vendor.prepared(Way::HostSync, |solve| solve(self.iterations))?;
            vendor.residual_norm()
        };
        let norm = vendor.as_mut().ok().and_then(|vendor| norm_of(vendor).ok());
        // Not `> 0.1`: a NaN differs too.
        let is_near = |norm: f64| (norm - self.residual_norm).abs() <= 0.1 * self.residual_norm;
        self.differs = norm.is_some_and(|norm| !is_near(norm));
        self.baseline_residual_norm = norm;
    }
}
