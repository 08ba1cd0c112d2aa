//! Names of methods, and of the ways to launch their iterations.

use clap::ValueEnum;
use serde::Serialize;
use warpsparse::{CgMethod, SolverMethod};

#[derive(Clone, Copy, PartialEq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MethodName {
    /// For symmetric matrices cg, then minres or cg with ilu, then gmres; for others bicgstab, then bicgstabl, then gmres; lsmr for rectangular ones.
    Auto,
    /// Conjugate gradients, for symmetric positive definite matrices.
    Cg,
    /// MINRES, for symmetric matrices.
    Minres,
    /// BiCGSTAB.
    Bicgstab,
    /// BiCGSTAB(l).
    Bicgstabl,
    /// IDR(s).
    Idr,
    /// GMRES with restarts.
    Gmres,
    /// Flexible GMRES, for preconditioners that change.
    Fgmres,
    /// LSMR, for least squares with rectangular matrices.
    Lsmr,
}

impl MethodName {
    /// `dimensions` are those of `idr` and `bicgstabl`.
    pub(super) fn with(self, restart: usize, dimensions: Option<usize>) -> SolverMethod {
        match self {
            Self::Auto => SolverMethod::Auto,
            Self::Cg => SolverMethod::Cg,
            Self::Minres => SolverMethod::Minres,
            Self::Bicgstab => SolverMethod::BiCgStab,
            Self::Bicgstabl => SolverMethod::BiCgStabL { l: dimensions.unwrap_or(2) },
            Self::Idr => SolverMethod::Idr { s: dimensions.unwrap_or(4) },
            Self::Gmres => SolverMethod::Gmres { restart },
            Self::Fgmres => SolverMethod::FlexibleGmres { restart },
            Self::Lsmr => SolverMethod::Lsmr,
        }
    }
}

pub(super) fn parse_restart(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(restart) if restart > 0 => Ok(restart),
        _ => Err("a restart comes after a whole number of iterations, at least 1".into()),
    }
}

pub(super) fn parse_dimensions(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(dimensions @ 1..=64) => Ok(dimensions),
        _ => Err("a whole number from 1 to 64".into()),
    }
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LaunchName {
    /// Persistent if the caches hold the system, otherwise graph.
    Auto,
    /// Three kernels per iteration, launched one by one.
    Launches,
    /// The same kernels as a CUDA graph.
    Graph,
    /// One launch for many iterations.
    Persistent,
    /// One reduction in each iteration instead of two: persistent if the caches hold the system, otherwise vector operations.
    #[serde(rename = "single-reduction")]
    SingleReduction,
}

impl From<LaunchName> for CgMethod {
    fn from(name: LaunchName) -> Self {
        match name {
            LaunchName::Auto => Self::Auto,
            LaunchName::Launches => Self::Launches,
            LaunchName::Graph => Self::Graph,
            LaunchName::Persistent => Self::Persistent,
            LaunchName::SingleReduction => Self::SingleReduction,
        }
    }
}
