//! Matrix sources as text: the path of a file, or `gen:` and a generator.

use std::{
    fmt,
    path::PathBuf,
    str::{FromStr, Split},
};

use super::{
    MatrixMarketReader,
    generate::{self, DEFAULT_SEED, STAND_INS, StandIn},
};
use crate::{CsrMatrix, Error, Result, Scalar};

/// How a [`MatrixSource::Laplacian`] begins.
const LAPLACIAN: &str = "gen:graphlap:";

/// A matrix file or a generator, parsed from text such as `bcsstk16.mtx.gz` or `gen:poisson2d:2048`.
#[derive(Clone, Debug, PartialEq)]
pub enum MatrixSource {
    /// The path of a Matrix Market file.
    File(PathBuf),
    /// The Laplacian of the graph in a Matrix Market file, by [`generate::graph_laplacian`]: `gen:graphlap:FILE`.
    Laplacian(PathBuf),
    /// A generated matrix: other texts that begin with `gen:`.
    Generator(Generator),
}

/// A generator of [`generate`] with its arguments.
///
/// As text: `gen:poisson2d:N`, `gen:poisson3d:N`, `gen:stencil27:N`, `gen:aniso2d:N:EPS`, `gen:jump3d:N:CONTRAST`,
/// `gen:convdiff2d:N:PECLET`, `gen:convdiff3d:N:PECLET`, `gen:helmholtz2d:N:K`, `gen:stokes2d:N`, `gen:elasticity3d:N`, `gen:rmat:SCALE:EDGE_FACTOR`, `gen:uniform:ROWS:PER_ROW`, `gen:uniform:ROWS:PER_ROW:COLUMNS`, `gen:fem3:NODES`, `gen:communities:ROWS:NNZ` and
/// `gen:standin:NAME`, `rmat` and those after it optionally followed by `:seed=SEED`; the default is [`DEFAULT_SEED`].
/// NAME is one of [`generate::STAND_INS`], in any case.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant names the function that documents its arguments")]
#[non_exhaustive]
pub enum Generator {
    /// [`generate::poisson2d`]
    Poisson2d { n: usize },
    /// [`generate::poisson3d`]
    Poisson3d { n: usize },
    /// [`generate::stencil27`]
    Stencil27 { n: usize },
    /// [`generate::aniso2d`]
    Aniso2d { n: usize, eps: f64 },
    /// [`generate::jump3d`]
    Jump3d { n: usize, contrast: f64 },
    /// [`generate::convdiff2d`]
    Convdiff2d { n: usize, peclet: f64 },
    /// [`generate::convdiff3d`]
    Convdiff3d { n: usize, peclet: f64 },
    /// [`generate::helmholtz2d`]
    Helmholtz2d { n: usize, k: f64 },
    /// [`generate::stokes2d`]
    Stokes2d { n: usize },
    /// [`generate::elasticity3d`]
    Elasticity3d { n: usize },
    /// [`generate::rmat`]
    Rmat { scale: u32, edge_factor: usize, seed: u64 },
    /// [`generate::uniform`]
    Uniform { nrows: usize, ncols: usize, per_row: usize, seed: u64 },
    /// [`generate::fem3`]
    Fem3 { nodes: usize, seed: u64 },
    /// [`generate::communities`]
    Communities { nrows: usize, nnz: usize, seed: u64 },
    /// [`generate::communities`] of the size of a published graph
    StandIn { graph: StandIn, seed: u64 },
}

impl MatrixSource {
    /// Reads or generates the matrix.
    ///
    /// # Errors
    /// Those of [`MatrixMarketReader::open`] and [`MatrixMarketReader::read_csr`], or of the generator.
    pub fn load<T: Scalar>(&self) -> Result<CsrMatrix<T>> {
        self.load_with_progress(|_, _| {})
    }

    /// Reads or generates the matrix like [`load`](Self::load); while reading a file, calls `progress` like
    /// [`MatrixMarketReader::progress`].
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn load_with_progress<T: Scalar>(&self, progress: impl FnMut(u64, u64)) -> Result<CsrMatrix<T>> {
        match self {
            MatrixSource::File(path) => MatrixMarketReader::open(path)?.progress(progress).read_csr(),
            MatrixSource::Laplacian(path) => {
                generate::graph_laplacian(&MatrixMarketReader::open(path)?.progress(progress).read_csr()?)
            }
            MatrixSource::Generator(generator) => generator.generate(),
        }
    }
}

impl Generator {
    /// Generates the matrix.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the arguments describe an impossible matrix, or one that exceeds the limits.
    pub fn generate<T: Scalar>(&self) -> Result<CsrMatrix<T>> {
        match *self {
            Generator::Poisson2d { n } => generate::poisson2d(n),
            Generator::Poisson3d { n } => generate::poisson3d(n),
            Generator::Stencil27 { n } => generate::stencil27(n),
            Generator::Aniso2d { n, eps } => generate::aniso2d(n, eps),
            Generator::Jump3d { n, contrast } => generate::jump3d(n, contrast),
            Generator::Convdiff2d { n, peclet } => generate::convdiff2d(n, peclet),
            Generator::Convdiff3d { n, peclet } => generate::convdiff3d(n, peclet),
            Generator::Helmholtz2d { n, k } => generate::helmholtz2d(n, k),
            Generator::Stokes2d { n } => generate::stokes2d(n),
            Generator::Elasticity3d { n } => generate::elasticity3d(n),
            Generator::Rmat { scale, edge_factor, seed } => generate::rmat(scale, edge_factor, seed),
            Generator::Uniform { nrows, ncols, per_row, seed } => generate::uniform(nrows, ncols, per_row, seed),
            Generator::Fem3 { nodes, seed } => generate::fem3(nodes, seed),
            Generator::Communities { nrows, nnz, seed } => generate::communities(nrows, nnz, seed),
            Generator::StandIn { graph, seed } => generate::communities(graph.nrows, graph.nnz, seed),
        }
    }
}

/// Fails, with [`Error::InvalidOption`], only for texts that begin with `gen:`.
impl FromStr for MatrixSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix(LAPLACIAN) {
            Some("") => Err(Error::InvalidOption(format!("`{text}`: FILE is missing"))),
            Some(path) => Ok(MatrixSource::Laplacian(path.into())),
            None if text.starts_with("gen:") => text.parse().map(MatrixSource::Generator),
            None => Ok(MatrixSource::File(text.into())),
        }
    }
}

impl FromStr for Generator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut spec = Spec::new(text)?;
        let generator = match spec.name {
            "poisson2d" => Generator::Poisson2d { n: spec.number("N")? },
            "poisson3d" => Generator::Poisson3d { n: spec.number("N")? },
            "stencil27" => Generator::Stencil27 { n: spec.number("N")? },
            "aniso2d" => Generator::Aniso2d { n: spec.number("N")?, eps: spec.positive("EPS")? },
            "jump3d" => Generator::Jump3d { n: spec.number("N")?, contrast: spec.positive("CONTRAST")? },
            "convdiff2d" => Generator::Convdiff2d { n: spec.number("N")?, peclet: spec.positive("PECLET")? },
            "convdiff3d" => Generator::Convdiff3d { n: spec.number("N")?, peclet: spec.positive("PECLET")? },
            "helmholtz2d" => Generator::Helmholtz2d { n: spec.number("N")?, k: spec.positive("K")? },
            "stokes2d" => Generator::Stokes2d { n: spec.number("N")? },
            "elasticity3d" => Generator::Elasticity3d { n: spec.number("N")? },
            "rmat" => Generator::Rmat {
                scale: spec.number("SCALE")?,
                edge_factor: spec.number("EDGE_FACTOR")?,
                seed: spec.seed()?,
            },
            "uniform" => {
                let nrows = spec.number("ROWS")?;
                Generator::Uniform {
                    nrows,
                    per_row: spec.number("PER_ROW")?,
                    ncols: if spec.has_argument() { spec.number("COLUMNS")? } else { nrows },
                    seed: spec.seed()?,
                }
            }
            "fem3" => Generator::Fem3 { nodes: spec.number("NODES")?, seed: spec.seed()? },
            "communities" => {
                Generator::Communities { nrows: spec.number("ROWS")?, nnz: spec.number("NNZ")?, seed: spec.seed()? }
            }
            "standin" => Generator::StandIn { graph: spec.stand_in()?, seed: spec.seed()? },
            name => {
                let known = "poisson2d, poisson3d, stencil27, aniso2d, jump3d, convdiff2d, convdiff3d, helmholtz2d, stokes2d, elasticity3d, graphlap, rmat, uniform, fem3, communities and standin";
                return Err(spec.invalid(format!("there is no generator `{name}`: there are {known}")));
            }
        };
        spec.end()?;
        Ok(generator)
    }
}

/// A generator's text, taken part by part.
struct Spec<'a> {
    text: &'a str,
    name: &'a str,
    parts: std::iter::Peekable<Split<'a, char>>,
}

impl<'a> Spec<'a> {
    fn new(text: &'a str) -> Result<Self> {
        let mut parts = text.split(':').peekable();
        match (parts.next(), parts.next()) {
            (Some("gen"), Some(name)) => Ok(Self { text, name, parts }),
            _ => Err(Error::InvalidOption(format!("`{text}`: a generator begins with `gen:`"))),
        }
    }

    fn has_argument(&mut self) -> bool {
        self.parts.peek().is_some_and(|part| !part.starts_with("seed="))
    }

    fn argument(&mut self, what: &str) -> Result<&'a str> {
        let argument = self.parts.next_if(|part| !part.starts_with("seed="));
        argument.ok_or_else(|| self.invalid(format!("{what} is missing")))
    }

    fn number<N: FromStr>(&mut self, what: &str) -> Result<N> {
        let part = self.argument(what)?;
        parse_digits(part).ok_or_else(|| self.invalid(format!("{what} is a whole number, not `{part}`")))
    }

    fn positive(&mut self, what: &str) -> Result<f64> {
        let part = self.argument(what)?;
        let number = part.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
        number.ok_or_else(|| self.invalid(format!("{what} is a positive number, not `{part}`")))
    }

    fn stand_in(&mut self) -> Result<StandIn> {
        let name = self.argument("NAME")?;
        let graph = STAND_INS.iter().find(|graph| graph.name.eq_ignore_ascii_case(name));
        graph.copied().ok_or_else(|| {
            let known: Vec<&str> = STAND_INS.iter().map(|graph| graph.name).collect();
            self.invalid(format!("there is no stand-in for `{name}`, but for {}", known.join(", ")))
        })
    }

    fn seed(&mut self) -> Result<u64> {
        let Some(digits) = self.parts.peek().and_then(|part| part.strip_prefix("seed=")) else {
            return Ok(DEFAULT_SEED);
        };
        self.parts.next();
        parse_digits(digits).ok_or_else(|| self.invalid(format!("seed is a whole number, not `{digits}`")))
    }

    fn end(mut self) -> Result<()> {
        match self.parts.next() {
            None => Ok(()),
            Some(part) => Err(self.invalid(format!("`{part}` is one part too many"))),
        }
    }

    fn invalid(&self, problem: String) -> Error {
        Error::InvalidOption(format!("`{}`: {problem}", self.text))
    }
}

fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for MatrixSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixSource::File(path) => path.display().fmt(f),
            MatrixSource::Laplacian(path) => write!(f, "{LAPLACIAN}{}", path.display()),
            MatrixSource::Generator(generator) => generator.fmt(f),
        }
    }
}

/// The shortest text that parses to the generator.
impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = match *self {
            Generator::Poisson2d { n } => return write!(f, "gen:poisson2d:{n}"),
            Generator::Poisson3d { n } => return write!(f, "gen:poisson3d:{n}"),
            Generator::Stencil27 { n } => return write!(f, "gen:stencil27:{n}"),
            Generator::Aniso2d { n, eps } => return write!(f, "gen:aniso2d:{n}:{eps}"),
            Generator::Jump3d { n, contrast } => return write!(f, "gen:jump3d:{n}:{contrast}"),
            Generator::Convdiff2d { n, peclet } => return write!(f, "gen:convdiff2d:{n}:{peclet}"),
            Generator::Convdiff3d { n, peclet } => return write!(f, "gen:convdiff3d:{n}:{peclet}"),
            Generator::Helmholtz2d { n, k } => return write!(f, "gen:helmholtz2d:{n}:{k}"),
            Generator::Stokes2d { n } => return write!(f, "gen:stokes2d:{n}"),
            Generator::Elasticity3d { n } => return write!(f, "gen:elasticity3d:{n}"),
            Generator::Rmat { scale, edge_factor, seed } => {
                write!(f, "gen:rmat:{scale}:{edge_factor}")?;
                seed
            }
            Generator::Uniform { nrows, ncols, per_row, seed } => {
                write!(f, "gen:uniform:{nrows}:{per_row}")?;
                if ncols != nrows {
                    write!(f, ":{ncols}")?;
                }
                seed
            }
            Generator::Fem3 { nodes, seed } => {
                write!(f, "gen:fem3:{nodes}")?;
                seed
            }
            Generator::Communities { nrows, nnz, seed } => {
                write!(f, "gen:communities:{nrows}:{nnz}")?;
                seed
            }
            Generator::StandIn { graph, seed } => {
                write!(f, "gen:standin:{}", graph.name)?;
                seed
            }
        };
        if seed != DEFAULT_SEED {
            write!(f, ":seed={seed}")?;
        }
        Ok(())
    }
}
