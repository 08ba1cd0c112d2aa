//! What [`SolverMethod::Auto`] tries, in which order.

use std::rc::Rc;

use super::{Solver, SolverMethod, SolverPreconditioner};
use crate::{DeviceMatrix, Error, Ilu, Jacobi, Preconditioner, Result, Scalar, solver::symmetry};

/// Basis vectors between two restarts of GMRES,
const RESTART: usize = 50;

/// and for systems of at most [`SMALL`] unknowns: the basis takes as much memory as a matrix with long rows.
const LONG_RESTART: usize = 400;

/// See [`LONG_RESTART`].
const SMALL: usize = 20_000;

/// The most attempts.
pub(super) const ATTEMPTS: usize = 3;

/// A preconditioner of a solver, and perhaps of its user.
pub(super) type Shared<'a, T> = Rc<dyn Preconditioner<T> + 'a>;

/// A method with its preconditioner.
#[derive(Clone)]
pub(super) struct Candidate<'a, T: Scalar> {
    pub(super) method: SolverMethod,
    pub(super) kind: SolverPreconditioner,
    pub(super) preconditioner: Option<Shared<'a, T>>,
    pub(super) reason: String,
}

impl<'a, T: Scalar> Candidate<'a, T> {
    /// With the user's preconditioner, if any.
    pub(super) fn given(method: SolverMethod, preconditioner: Option<Shared<'a, T>>, reason: String) -> Self {
        let kind = match preconditioner {
            Some(_) => SolverPreconditioner::Given,
            None => SolverPreconditioner::None,
        };
        Self { method, kind, preconditioner, reason }
    }
}

/// What has been found about the system.
pub(super) struct Known<'a, T: Scalar> {
    matrix: Option<&'a DeviceMatrix<T>>,
    is_square: bool,
    is_symmetric: bool,
    /// Whether there is a preconditioner to choose.
    chooses: bool,
    /// Of the user.
    given: Option<Shared<'a, T>>,
    jacobi: Option<Shared<'a, T>>,
    /// Incomplete factors, or why there are none.
    factors: Option<std::result::Result<Shared<'a, T>, String>>,
}

impl<'a, T: Scalar> Known<'a, T> {
    pub(super) fn new(solver: &Solver<'a, T>) -> Result<Self> {
        let matrix = solver.operator.as_matrix();
        let is_square = matrix.is_none_or(|matrix| matrix.nrows() == matrix.ncols());
        let is_symmetric = match matrix {
            _ if solver.assume_symmetric => true,
            Some(matrix) if is_square => match symmetry::check(matrix) {
                Ok(()) => true,
                Err(Error::Breakdown { .. }) => false,
                Err(error) => return Err(error),
            },
            _ => false,
        };
        let (chooses, given) = (solver.chooses && matrix.is_some(), solver.preconditioner.clone());
        Ok(Self { matrix, is_square, is_symmetric, chooses, given, jacobi: None, factors: None })
    }

    /// What to try after so many attempts, of which the last has failed as told.
    pub(super) fn candidate(&mut self, attempts: usize, failure: &Failure) -> Result<Candidate<'a, T>> {
        use SolverMethod::{BiCgStab, BiCgStabL, Cg, Gmres, Lsmr, Minres};
        use SolverPreconditioner::{Columns, Ilu, Jacobi, None as Nothing};
        let reason = match failure {
            Failure::None if !self.is_square => "the matrix is not square".into(),
            Failure::None if self.is_symmetric => "the matrix is symmetric".into(),
            Failure::None if self.matrix.is_some() => "the matrix is not symmetric".into(),
            Failure::None => "the operator is no matrix, and may not be symmetric".into(),
            Failure::Breakdown(what) => format!("{what} broke down"),
            Failure::Unconverged(what) => format!("{what} did not converge"),
        };
        let n = self.matrix.map_or(usize::MAX, DeviceMatrix::nrows);
        let gmres = Gmres { restart: if n <= SMALL { LONG_RESTART } else { RESTART } };
        let (method, kind) = match (self.is_symmetric, attempts) {
            _ if !self.is_square => (Lsmr, Columns),
            (true, 0) => (Cg, Jacobi),
            (true, 1) if !self.chooses || matches!(failure, Failure::Breakdown(_)) => (Minres, Nothing),
            (true, 1) => (Cg, Ilu),
            (false, 0) => (BiCgStab, Ilu),
            (false, 1) => (BiCgStabL { l: 2 }, Ilu),
            (_, _) if !self.chooses => (Gmres { restart: 4 * RESTART }, Nothing),
            (false, _) if matches!(failure, Failure::Breakdown(_)) => (gmres, Jacobi),
            (_, _) => (gmres, Ilu),
        };
        match self.matrix {
            Some(matrix) if self.chooses => self.prepared(matrix, method, kind, reason),
            _ => Ok(Candidate::given(method, self.given.clone(), reason)),
        }
    }

    /// With the preconditioner set up, or another one if that fails.
    fn prepared(
        &mut self,
        matrix: &'a DeviceMatrix<T>,
        method: SolverMethod,
        kind: SolverPreconditioner,
        reason: String,
    ) -> Result<Candidate<'a, T>> {
        let preconditioner = match kind {
            SolverPreconditioner::Ilu => match self.factors(matrix, method)? {
                Ok(factors) => Some(factors),
                Err(why) => {
                    let reason = format!("{reason}, and {why}");
                    return match method {
                        // They have failed with Jacobi's preconditioner already.
                        SolverMethod::Cg => {
                            self.prepared(matrix, SolverMethod::Minres, SolverPreconditioner::None, reason)
                        }
                        method => self.prepared(matrix, method, SolverPreconditioner::Jacobi, reason),
                    };
                }
            },
            SolverPreconditioner::Jacobi => Some(self.jacobi(matrix)?),
            SolverPreconditioner::Columns => Some(Rc::new(Jacobi::of_columns(matrix)?) as Shared<'a, T>),
            _ => None,
        };
        Ok(Candidate { method, kind, preconditioner, reason })
    }

    fn jacobi(&mut self, matrix: &'a DeviceMatrix<T>) -> Result<Shared<'a, T>> {
        if let Some(jacobi) = &self.jacobi {
            return Ok(jacobi.clone());
        }
        let jacobi: Shared<'a, T> = Rc::new(Jacobi::of_nonzero(matrix)?);
        Ok(self.jacobi.insert(jacobi).clone())
    }

    fn factors(
        &mut self,
        matrix: &'a DeviceMatrix<T>,
        method: SolverMethod,
    ) -> Result<std::result::Result<Shared<'a, T>, String>> {
        if let Some(factors) = &self.factors {
            return Ok(factors.clone());
        }
        let ilu = if method == SolverMethod::Cg { Ilu::symmetric(matrix) } else { Ilu::new(matrix) };
        let factors = match ilu {
            Ok(ilu) => Ok(Rc::new(ilu) as Shared<'a, T>),
            Err(Error::Breakdown { problem, .. }) => Err(problem),
            Err(error) => return Err(error),
        };
        Ok(self.factors.insert(factors).clone())
    }
}

/// How the last attempt failed, and what it was.
pub(super) enum Failure {
    /// There was none.
    None,
    Breakdown(SolverMethod),
    Unconverged(SolverMethod),
}
