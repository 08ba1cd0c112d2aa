//! Which preconditioner, and why.

use std::{
    error,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use measure::DTypeName;
use serde::Serialize;
use warpsparse::{
    Amg, AmgInfo, AmgOptions, Attempt, BlockJacobi, Chebyshev, CsrMatrix, DeviceMatrix, Error, Fsai, Ilu, Jacobi,
    MixedAmg, Preconditioner, Result, Scalar, Solver, SolverPreconditioner,
};

use super::{MethodName, Options, nodes::Nodes};

/// What the option asks for.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Wanted {
    /// Multigrid for large, nearly diagonally dominant matrices, otherwise jacobi or ilu as the method needs.
    Auto,
    /// No preconditioner.
    None,
    /// The inverse of the diagonal; with lsmr of the norms of the columns.
    Jacobi,
    /// The inverses of blocks of the diagonal.
    BlockJacobi,
    /// Incomplete factors without fill: ILU(0), and with cg and minres IC(0).
    Ilu,
    /// Chebyshev's polynomial, for symmetric positive definite matrices.
    Chebyshev,
    /// A factorised sparse approximate inverse, for symmetric positive definite matrices.
    Fsai,
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
    #[serde(rename = "block-jacobi")]
    BlockJacobi,
    Ilu,
    Chebyshev,
    Fsai,
    Amg,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "no preconditioner",
            Self::Jacobi => "Jacobi's preconditioner",
            Self::Columns => "columns scaled to norm 1",
            Self::BlockJacobi => "block-Jacobi",
            Self::Ilu => "incomplete factors",
            Self::Chebyshev => "Chebyshev's polynomial",
            Self::Fsai => "approximate inverse",
            Self::Amg => "multigrid",
        }
    }
}

/// A preconditioner that has been set up.
pub(super) struct Chosen<T: Scalar> {
    pub(super) kind: Kind,
    pub(super) reason: String,
    made: Made<T>,
    pub(super) setup: Option<Setup>,
}

pub(super) enum Made<T: Scalar> {
    Nothing,
    Preconditioner(Box<dyn Preconditioner<T>>),
    /// With a solver, whose products it may know faster.
    Multigrid(Box<dyn Multiplies<T>>),
}

/// Multigrid that multiplies too.
pub(super) trait Multiplies<T: Scalar> {
    fn solver(&self) -> Solver<'_, T>;
}

impl<T: Scalar> Multiplies<T> for Amg<T> {
    fn solver(&self) -> Solver<'_, T> {
        self.solver()
    }
}

impl Multiplies<f64> for MixedAmg {
    fn solver(&self) -> Solver<'_, f64> {
        self.solver()
    }
}

/// What preconditioners with a number are set up with.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    /// Of Chebyshev's polynomial.
    pub(super) degree: u32,
    /// Of the matrix whose pattern the approximate inverse has.
    pub(super) power: u32,
    /// Of blocks; none if they are found from the pattern.
    pub(super) block_size: Option<u32>,
    /// Of incomplete factors; none if they are exact.
    pub(super) sweeps: Option<u32>,
}

/// How multigrid is set up, if it is.
pub(super) struct Multigrid {
    nodes: Option<Nodes>,
    /// That of the system, or `f32`.
    dtype: DTypeName,
}

/// What the setup of multigrid has made; in seconds and bytes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setup {
    pub(super) seconds: f64,
    dtype: DTypeName,
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

/// The same for elastic bodies with rigid-body modes: `gen:elasticity3d:40`, with 192 000 rows, takes as long with either on the CPU. On an H200 one
/// solution takes less time with Jacobi's there, and several with multigrid.
const LARGE_BODY: usize = 190_000;

/// Rows of a block that is found from the pattern, at most.
const LARGEST_BLOCK: u32 = 8;

/// The part of the rows that may lack diagonal dominance.
const OUTLIERS: f64 = 0.05;

impl Multigrid {
    /// As the options specify, for a matrix with so many rows.
    pub(super) fn new(options: &Options, rows: usize) -> std::result::Result<Self, Box<dyn error::Error>> {
        let Options { precond, dtype, precond_dtype, near_null, unknowns, .. } = options;
        let is_given = precond_dtype.is_some() || near_null.is_some() || unknowns.is_some();
        if is_given && !matches!(precond, Wanted::Auto | Wanted::Amg) {
            return Err("--precond-dtype, --near-null and --unknowns are for multigrid: --precond auto or amg".into());
        }
        if (*dtype, *precond_dtype) == (DTypeName::F32, Some(DTypeName::F64)) {
            return Err("--precond-dtype f64: with --dtype f32 multigrid is in f32 too".into());
        }
        Ok(Self { nodes: Nodes::of(options, rows)?, dtype: precond_dtype.unwrap_or(*dtype) })
    }

    fn options<T: Scalar>(&self) -> AmgOptions<T> {
        let options = Amg::options();
        match &self.nodes {
            Some(nodes) => options.near_null_space(nodes.space.clone()),
            None => options,
        }
    }
}

/// An element type of systems.
pub(super) trait Element: Scalar {
    /// Multigrid in `f32`, with what it is, for systems of another type.
    fn single(multigrid: &Multigrid, a: &DeviceMatrix<Self>) -> Result<Option<(Made<Self>, AmgInfo)>>;
}

impl Element for f32 {
    fn single(_: &Multigrid, _: &DeviceMatrix<f32>) -> Result<Option<(Made<f32>, AmgInfo)>> {
        Ok(None)
    }
}

impl Element for f64 {
    fn single(multigrid: &Multigrid, a: &DeviceMatrix<f64>) -> Result<Option<(Made<f64>, AmgInfo)>> {
        let amg = multigrid.options().build_mixed(a)?;
        let info = amg.describe();
        Ok(Some((Made::Multigrid(Box::new(amg)), info)))
    }
}

impl<T: Element> Chosen<T> {
    pub(super) fn new(
        wanted: Wanted,
        method: MethodName,
        numbers: Numbers,
        multigrid: &Multigrid,
        matrix: &CsrMatrix<T>,
        a: &DeviceMatrix<T>,
    ) -> Result<Self> {
        let is_lsmr = method == MethodName::Lsmr || a.nrows() != a.ncols();
        match wanted {
            Wanted::None => Ok(Self::none(asked_for())),
            Wanted::Auto if is_lsmr => Self::columns(a, "the method is LSMR".into()),
            Wanted::Jacobi if is_lsmr => Self::columns(a, asked_for()),
            Wanted::BlockJacobi | Wanted::Ilu | Wanted::Chebyshev | Wanted::Fsai | Wanted::Amg if is_lsmr => {
                Err(Error::InvalidOption("a preconditioner of LSMR other than jacobi and none".into()))
            }
            Wanted::Jacobi => Self::jacobi(a, asked_for()),
            Wanted::BlockJacobi => Self::block_jacobi(a, numbers.block_size),
            Wanted::Ilu => Self::ilu(a, method, numbers.sweeps),
            Wanted::Chebyshev => Self::chebyshev(a, numbers.degree),
            Wanted::Fsai => Self::fsai(a, numbers.power),
            Wanted::Amg => Self::amg(a, multigrid, asked_for()),
            Wanted::Auto => match suits(matrix, multigrid.nodes.as_ref()) {
                Err(why) => Self::small(a, method, why),
                Ok(why) => match Self::amg(a, multigrid, why) {
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
        Self { kind: Kind::None, reason, made: Made::Nothing, setup: None }
    }

    fn block_jacobi(a: &DeviceMatrix<T>, size: Option<u32>) -> Result<Self> {
        let (blocks, what) = match size {
            Some(size) => (BlockJacobi::new(a, size)?, format!("blocks of {size} rows")),
            None => {
                let what = format!("blocks of up to {LARGEST_BLOCK} rows from the pattern");
                (BlockJacobi::from_pattern(a, LARGEST_BLOCK)?, what)
            }
        };
        let reason = format!("{}, {} {what}", asked_for(), blocks.block_offsets().len() - 1);
        Ok(Self { kind: Kind::BlockJacobi, reason, made: Made::Preconditioner(Box::new(blocks)), setup: None })
    }

    fn ilu(a: &DeviceMatrix<T>, method: MethodName, sweeps: Option<u32>) -> Result<Self> {
        let is_symmetric = matches!(method, MethodName::Cg | MethodName::Minres);
        let mut reason = asked_for();
        let ilu = match sweeps {
            None if is_symmetric => Ilu::symmetric(a)?,
            None => Ilu::new(a)?,
            Some(sweeps) => {
                reason += &format!(", by {sweeps} sweeps");
                let factor = if is_symmetric { Ilu::symmetric_fixed_point } else { Ilu::fixed_point };
                factor(a, sweeps as usize)?.with_sweeps(sweeps as usize)?
            }
        };
        if ilu.shift() != 0.0 {
            reason += &format!(", with the diagonal shifted by {} of itself", ilu.shift());
        }
        Ok(Self { kind: Kind::Ilu, reason, made: Made::Preconditioner(Box::new(ilu)), setup: None })
    }

    fn chebyshev(a: &DeviceMatrix<T>, degree: u32) -> Result<Self> {
        let chebyshev = Chebyshev::new(a, degree)?;
        let (smallest, largest) = chebyshev.eigenvalues();
        let reason =
            format!("{}, of degree {degree}, for eigenvalues from {smallest:.2e} to {largest:.2}", asked_for());
        Ok(Self { kind: Kind::Chebyshev, reason, made: Made::Preconditioner(Box::new(chebyshev)), setup: None })
    }

    fn fsai(a: &DeviceMatrix<T>, power: u32) -> Result<Self> {
        let fsai = Fsai::with_power(a, power)?;
        let reason = format!("{}, with the pattern of A^{power}, {} entries", asked_for(), fsai.factor().nnz());
        Ok(Self { kind: Kind::Fsai, reason, made: Made::Preconditioner(Box::new(fsai)), setup: None })
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
        let made = Made::Preconditioner(Box::new(Jacobi::new(a)?));
        Ok(Self { kind: Kind::Jacobi, reason, made, setup: None })
    }

    fn columns(a: &DeviceMatrix<T>, reason: String) -> Result<Self> {
        let made = Made::Preconditioner(Box::new(Jacobi::of_columns(a)?));
        Ok(Self { kind: Kind::Columns, reason, made, setup: None })
    }

    fn amg(a: &DeviceMatrix<T>, multigrid: &Multigrid, reason: String) -> Result<Self> {
        a.device().synchronize()?;
        let start = Instant::now();
        let single = match multigrid.dtype {
            DTypeName::F32 => T::single(multigrid, a)?,
            DTypeName::F64 => None,
        };
        let (made, info) = match single {
            Some(single) => single,
            None => {
                let amg = multigrid.options().build(a)?;
                let info = amg.describe();
                (Made::Multigrid(Box::new(amg)), info)
            }
        };
        a.device().synchronize()?;
        let setup = Some(Setup::new(&info, multigrid.dtype, start.elapsed()));
        Ok(Self { kind: Kind::Amg, reason, made, setup })
    }

    /// A solver with it, for the matrix that it was set up for.
    pub(super) fn solver<'a>(&'a self, a: &'a DeviceMatrix<T>, wanted: Wanted) -> Solver<'a, T> {
        match &self.made {
            Made::Multigrid(amg) => amg.solver(),
            Made::Preconditioner(preconditioner) => Solver::new(a).preconditioner(&**preconditioner),
            Made::Nothing if wanted == Wanted::Auto => Solver::new(a),
            Made::Nothing => Solver::new(a).unpreconditioned(),
        }
    }
}

/// The reason for what the user has named.
pub(super) fn asked_for() -> String {
    "as the options specify".into()
}

/// Whether multigrid suits a matrix, or why not.
fn suits<T: Scalar>(matrix: &CsrMatrix<T>, nodes: Option<&Nodes>) -> std::result::Result<String, String> {
    let n = matrix.nrows();
    if nodes.is_some_and(|nodes| nodes.is_given) {
        return Ok("the options describe its nodes".into());
    }
    let (of_what, large) = if nodes.is_some() { (" of an elastic body", LARGE_BODY) } else { ("", LARGE) };
    if n < large {
        return Err(format!("{n} rows{of_what}, and multigrid pays off from {large} on"));
    }
    if nodes.is_some() {
        return Ok(format!(
            "{n} rows{of_what} whose rigid-body modes are known, and multigrid pays off from {large} on"
        ));
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
    pub(super) fn new(info: &AmgInfo, dtype: DTypeName, time: Duration) -> Self {
        let level = |level: &warpsparse::AmgLevel| Level { rows: level.rows, entries: level.entries };
        Self {
            seconds: time.as_secs_f64(),
            dtype,
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
            "{levels} levels in {}, operator complexity {complexity:.2}, {megabytes:.1} MB; set up in {:.3} ms",
            self.dtype,
            1e3 * self.seconds
        );
        [first].into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use warpsparse::{Device, NearNullSpace, io::generate};

    use super::*;

    #[test]
    fn large_and_dominant_matrices_get_multigrid() {
        let small = generate::poisson2d::<f64>(10).unwrap();
        assert!(suits(&small, None).unwrap_err().contains("100 rows, and multigrid pays off from"));
        let large = generate::poisson2d::<f32>(450).unwrap();
        assert_eq!(suits(&large, None).unwrap(), "202500 rows, of which 100% are diagonally dominant");
        let halves = large.values().iter().map(|&value| if value > 0.0 { 0.5 * value } else { value }).collect();
        let (offsets, columns, _) = large.into_csr_data();
        let weak = CsrMatrix::try_from_csr_data(202_500, 202_500, offsets, columns, halves).unwrap();
        assert!(suits(&weak, None).unwrap_err().contains("only 0% of the rows are diagonally dominant"));
        let a = Device::cpu().upload(&small).unwrap();
        let mut multigrid = Multigrid { nodes: None, dtype: DTypeName::F64 };
        let kind = |wanted, method, multigrid: &Multigrid| {
            Chosen::new(
                wanted,
                method,
                Numbers { degree: 3, power: 2, block_size: Some(2), sweeps: None },
                multigrid,
                &small,
                &a,
            )
            .unwrap()
            .kind
        };
        let kinds = [
            Wanted::Auto,
            Wanted::None,
            Wanted::Jacobi,
            Wanted::BlockJacobi,
            Wanted::Amg,
            Wanted::Ilu,
            Wanted::Chebyshev,
            Wanted::Fsai,
        ]
        .map(|wanted| kind(wanted, MethodName::Cg, &multigrid));
        assert_eq!(
            kinds,
            [
                Kind::Jacobi,
                Kind::None,
                Kind::Jacobi,
                Kind::BlockJacobi,
                Kind::Amg,
                Kind::Ilu,
                Kind::Chebyshev,
                Kind::Fsai
            ]
        );
        // Vectors near the null space that the user gives are used; those of a generator where multigrid pays off, dominant or not.
        let mut nodes = Nodes { space: NearNullSpace::constants(50, 2).unwrap(), is_given: false };
        assert!(
            suits(&small, Some(&nodes)).unwrap_err().contains("100 rows of an elastic body, and multigrid pays off")
        );
        let found = suits(&weak, Some(&nodes)).unwrap();
        assert!(found.starts_with("202500 rows of an elastic body whose rigid-body modes are known"), "{found}");
        nodes.is_given = true;
        multigrid.nodes = Some(nodes);
        assert_eq!(kind(Wanted::Auto, MethodName::Auto, &multigrid), Kind::Amg);
        multigrid.nodes = None;
        // Left to the solver.
        assert_eq!(kind(Wanted::Auto, MethodName::Auto, &multigrid), Kind::None);
    }
}
