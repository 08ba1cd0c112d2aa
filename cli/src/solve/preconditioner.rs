//! Which preconditioner, and why.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use warpsparse::{
    Amg, AmgInfo, Attempt, CsrMatrix, DeviceMatrix, Error, Ilu, Jacobi, Preconditioner, Result, Scalar,
    SolverPreconditioner,
};

use super::MethodName;

/// What the option asks for.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Wanted {
    /// Multigrid for large, nearly diagonally dominant matrices, otherwise jacobi or ilu as the method needs.
    Auto,
    /// No preconditioner.
    None,
    /// The inverse of the diagonal; with lsmr of the norms of the columns.
    Jacobi,
    /// Incomplete factors without fill: ILU(0), and with cg and minres IC(0).
    Ilu,
    /// Algebraic multigrid by smoothed aggregation.
    Amg,
}

/// What is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    None,
    Jacobi,
    Columns,
    Ilu,
    Amg,
}

/// A preconditioner that has been set up.
pub(super) struct Chosen<T: Scalar> {
    pub(super) kind: Kind,
    pub(super) reason: String,
    pub(super) preconditioner: Option<Box<dyn Preconditioner<T>>>,
    pub(super) setup: Option<Setup>,
}

/// What the setup of multigrid has made; in seconds and bytes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setup {
    pub(super) seconds: f64,
    levels: Vec<Level>,
    operator_complexity: f64,
    grid_complexity: f64,
    bytes: usize,
    notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Level {
    rows: usize,
    entries: usize,
}

/// From so many rows on, setup and solution by multigrid can take less time than Jacobi's preconditioner: see docs/performance/amg.md for where, on an H200.
const LARGE: usize = 200_000;

/// The part of the rows that may lack diagonal dominance.
const OUTLIERS: f64 = 0.05;

impl<T: Scalar> Chosen<T> {
    pub(super) fn new(wanted: Wanted, method: MethodName, matrix: &CsrMatrix<T>, a: &DeviceMatrix<T>) -> Result<Self> {
        let is_lsmr = method == MethodName::Lsmr || a.nrows() != a.ncols();
        match wanted {
            Wanted::None => Ok(Self::none(asked_for())),
            Wanted::Auto if is_lsmr => Self::columns(a, "the method is LSMR".into()),
            Wanted::Jacobi if is_lsmr => Self::columns(a, asked_for()),
            Wanted::Ilu | Wanted::Amg if is_lsmr => {
                Err(Error::InvalidOption("a preconditioner of LSMR other than jacobi and none".into()))
            }
            Wanted::Jacobi => Self::jacobi(a, asked_for()),
            Wanted::Ilu => Self::ilu(a, method),
            Wanted::Amg => Self::amg(a, asked_for()),
            Wanted::Auto => match suits(matrix) {
                Err(why) => Self::small(a, method, why),
                Ok(why) => match Self::amg(a, why) {
                    Err(Error::Breakdown { problem, .. }) => {
                        Self::small(a, method, format!("the setup of multigrid failed: {problem}"))
                    }
                    chosen => chosen,
                },
            },
        }
    }

    /// Jacobi's, or none if there are zeros on the diagonal. A solver that chooses the method chooses it by itself.
    fn small(a: &DeviceMatrix<T>, method: MethodName, reason: String) -> Result<Self> {
        if method == MethodName::Auto {
            return Ok(Self::none(reason));
        }
        match Self::jacobi(a, reason) {
            Err(Error::Breakdown { problem, .. }) => Ok(Self::none(problem)),
            chosen => chosen,
        }
    }

    fn none(reason: String) -> Self {
        Self { kind: Kind::None, reason, preconditioner: None, setup: None }
    }

    fn ilu(a: &DeviceMatrix<T>, method: MethodName) -> Result<Self> {
        let ilu = match method {
            MethodName::Cg | MethodName::Minres => Ilu::symmetric(a)?,
            _ => Ilu::new(a)?,
        };
        let reason = match ilu.shift() {
            0.0 => asked_for(),
            shift => format!("{}, with the diagonal shifted by {shift} of itself", asked_for()),
        };
        Ok(Self { kind: Kind::Ilu, reason, preconditioner: Some(Box::new(ilu)), setup: None })
    }

    /// What an attempt has used.
    pub(super) fn of(&self, attempt: &Attempt) -> Kind {
        match attempt.preconditioner {
            SolverPreconditioner::Jacobi => Kind::Jacobi,
            SolverPreconditioner::Ilu => Kind::Ilu,
            SolverPreconditioner::Columns => Kind::Columns,
            _ => self.kind,
        }
    }

    fn jacobi(a: &DeviceMatrix<T>, reason: String) -> Result<Self> {
        let preconditioner = Some(Box::new(Jacobi::new(a)?) as Box<_>);
        Ok(Self { kind: Kind::Jacobi, reason, preconditioner, setup: None })
    }

    fn columns(a: &DeviceMatrix<T>, reason: String) -> Result<Self> {
        let preconditioner = Some(Box::new(Jacobi::of_columns(a)?) as Box<_>);
        Ok(Self { kind: Kind::Columns, reason, preconditioner, setup: None })
    }

    fn amg(a: &DeviceMatrix<T>, reason: String) -> Result<Self> {
        a.device().synchronize()?;
        let start = Instant::now();
        let amg = Amg::new(a)?;
        a.device().synchronize()?;
        let setup = Some(Setup::new(&amg.describe(), start.elapsed()));
        Ok(Self { kind: Kind::Amg, reason, preconditioner: Some(Box::new(amg)), setup })
    }
}

/// The reason for what the user has named.
pub(super) fn asked_for() -> String {
    "as the options specify".into()
}

/// Whether multigrid suits a matrix, or why not.
fn suits<T: Scalar>(matrix: &CsrMatrix<T>) -> std::result::Result<String, String> {
    let n = matrix.nrows();
    if n < LARGE {
        return Err(format!("{n} rows, and multigrid pays off from {LARGE} on"));
    }
    let is_dominant = |(row, (columns, values)): (usize, (&[u32], &[T]))| {
        let (mut diagonal, mut others) = (0.0, 0.0);
        for (&column, value) in columns.iter().zip(values) {
            let value = value.to_f64();
            if column as usize == row { diagonal += value } else { others += value.abs() }
        }
        diagonal > 0.0 && others <= diagonal * (1.0 + 1e-6)
    };
    let dominant = matrix.rows().enumerate().filter(|row| is_dominant(*row)).count();
    let percent = 100.0 * dominant as f64 / n as f64;
    match dominant as f64 >= (1.0 - OUTLIERS) * n as f64 {
        true => Ok(format!("{n} rows, of which {percent:.0}% are diagonally dominant")),
        false => {
            Err(format!("only {percent:.0}% of the rows are diagonally dominant: multigrid may not suit the matrix"))
        }
    }
}

impl Setup {
    fn new(info: &AmgInfo, time: Duration) -> Self {
        let level = |level: &warpsparse::AmgLevel| Level { rows: level.rows, entries: level.entries };
        Self {
            seconds: time.as_secs_f64(),
            levels: info.levels.iter().map(level).collect(),
            operator_complexity: info.operator_complexity,
            grid_complexity: info.grid_complexity,
            bytes: info.bytes,
            notes: info.notes.clone(),
        }
    }

    /// In lines, of which the first comes after a name.
    pub(super) fn lines(&self) -> Vec<String> {
        let (levels, complexity, megabytes) = (self.levels.len(), self.operator_complexity, self.bytes as f64 / 1e6);
        let first = format!(
            "{levels} levels, operator complexity {complexity:.2}, {megabytes:.1} MB; set up in {:.3} ms",
            1e3 * self.seconds
        );
        [first].into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use warpsparse::{Device, io::generate};

    use super::*;

    #[test]
    fn large_and_dominant_matrices_get_multigrid() {
        let small = generate::poisson2d::<f64>(10).unwrap();
        assert!(suits(&small).unwrap_err().contains("100 rows, and multigrid pays off from"));
        let large = generate::poisson2d::<f32>(450).unwrap();
        assert_eq!(suits(&large).unwrap(), "202500 rows, of which 100% are diagonally dominant");
        let halves = large.values().iter().map(|&value| if value > 0.0 { 0.5 * value } else { value }).collect();
        let (offsets, columns, _) = large.into_csr_data();
        let weak = CsrMatrix::try_from_csr_data(202_500, 202_500, offsets, columns, halves).unwrap();
        assert!(suits(&weak).unwrap_err().contains("only 0% of the rows are diagonally dominant"));
        let a = Device::cpu().upload(&small).unwrap();
        let kinds = [Wanted::Auto, Wanted::None, Wanted::Jacobi, Wanted::Amg, Wanted::Ilu]
            .map(|wanted| Chosen::new(wanted, MethodName::Cg, &small, &a).unwrap().kind);
        assert_eq!(kinds, [Kind::Jacobi, Kind::None, Kind::Jacobi, Kind::Amg, Kind::Ilu]);
        // Left to the solver.
        assert_eq!(Chosen::new(Wanted::Auto, MethodName::Auto, &small, &a).unwrap().kind, Kind::None);
    }
}
