//! The levels of multigrid.

use std::sync::Arc;

use super::{
    AmgCycle, AmgOptions, AmgSmoother,
    aggregates::Aggregates,
    coarsest,
    info::Coarsest,
    spectrum,
    strength::Strength,
    sweep::{Smoothed, chebyshev},
};
use crate::{DeviceMatrix, DeviceVec, Error, Result, Scalar, solver::symmetry};

/// Levels, at most.
const MAX_LEVELS: usize = 30;

/// Coarsening ends when a level keeps more than this part of the rows.
const STALLED: f64 = 0.8;

/// A prolongator is not smoothed if the next matrix then has more entries than so many times this one. Those of grids have 0.4 to 0.5, with jumps up to 0.7; graphs
/// with heavy rows fill up: pubmed's Laplacian has 3.2, and takes 23 iterations in place of 28.
const FILL: f64 = 0.7;

/// Rows that are solved directly where coarsening stalls, at most.
const MAX_DIRECT: usize = 1500;

/// Entries of the matrix from which on a second visit of coarse levels takes little in comparison.
const LARGE: usize = 1 << 24;

/// Steps of the smoother on a coarsest level that is too large to be solved directly.
pub(super) const COARSEST_DEGREE: u32 = 8;

/// The matrices of all levels.
#[derive(Debug)]
pub(super) struct Hierarchy<T> {
    /// From the finest to the last but one.
    pub(super) levels: Vec<Level<T>>,
    pub(super) last: Last<T>,
    pub(super) zero_rows: usize,
    /// Why there are no more levels.
    pub(super) end: End,
}

/// Why coarsening has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Small,
    /// No aggregates: nothing is connected.
    Isolated,
    Stalled,
}

/// A level with a coarser one.
#[derive(Debug)]
pub(super) struct Level<T> {
    pub(super) smoothed: Smoothed<T>,
    /// Interpolates.
    pub(super) p: Arc<DeviceMatrix<T>>,
    /// The transpose of `p`.
    pub(super) r: Arc<DeviceMatrix<T>>,
    /// Whether a cycle visits it twice when it visits the level above once.
    pub(super) is_visited_twice: bool,
    pub(super) about: About,
}

/// What the report says of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) theta: f64,
    pub(super) strong_entries: usize,
    /// Whether the prolongator is smoothed.
    pub(super) is_smoothed: bool,
    pub(super) rho: f64,
}

/// The coarsest level.
#[derive(Debug)]
pub(super) enum Last<T> {
    Direct(Box<Direct<T>>),
    Smoothed(Box<Smoothed<T>>),
}

/// A matrix that is solved directly.
#[derive(Debug)]
pub(super) struct Direct<T> {
    a: DeviceMatrix<T>,
    pub(super) inverse: DeviceMatrix<T>,
    rank: usize,
}

impl<T: Scalar> Hierarchy<T> {
    pub(super) fn new(a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<Self> {
        let mut a = own(a, options)?;
        let (mut levels, mut zero_rows, mut theta) = (Vec::new(), 0, options.theta);
        loop {
            // Also of a matrix that is solved directly: for its checks.
            let strength = Strength::of(&a, theta)?;
            if levels.is_empty() {
                zero_rows = strength.zero_rows;
            }
            if a.nrows() <= options.coarse_rows {
                return Ok(Self { levels, last: Last::direct(a)?, zero_rows, end: End::Small });
            }
            let rho = spectrum::largest(&a, &strength.inverse, strength.bound)?;
            let pattern = strength.pattern()?;
            // The eigenvalues of `G^-1 F` are at most 2, and with or without dropped entries about those of `D^-1 A`.
            let s = strength.smoothing_matrix(&a, pattern, 4.0 / (3.0 * rho.min(2.0)))?;
            let aggregates = Aggregates::of(&s, levels.is_empty())?;
            let count = aggregates.count as usize;
            let end = match count {
                0 => Some(End::Isolated),
                _ if count as f64 > STALLED * a.nrows() as f64 || levels.len() + 1 >= MAX_LEVELS => Some(End::Stalled),
                _ => None,
            };
            if let Some(end) = end {
                let last = match a.nrows() <= MAX_DIRECT && end == End::Stalled {
                    true => Last::direct(a)?,
                    false => Last::by_steps(a, strength.inverse, rho),
                };
                return Ok(Self { levels, last, zero_rows, end });
            }
            let tentative = aggregates.tentative(a.device())?;
            let mut about = About { theta, strong_entries: s.nnz(), rho, is_smoothed: true };
            let (mut p, mut r, mut coarse) = galerkin(&a, s.multiply(&tentative)?)?;
            drop(s);
            if coarse.nnz() as f64 > FILL * a.nnz() as f64 {
                about.is_smoothed = false;
                (p, r, coarse) = galerkin(&a, tentative)?;
            }
            let smoothed = Smoothed::new(a, strength.inverse, factors(options.smoother, rho));
            p.choose_kernels()?;
            r.choose_kernels()?;
            let above: Vec<_> =
                levels.iter().map(|level: &Level<T>| (level.smoothed.a.nnz(), level.is_visited_twice)).collect();
            let is_visited_twice = visits_twice(options.cycle, smoothed.a.nnz(), &above);
            levels.push(Level { smoothed, p: Arc::new(p), r: Arc::new(r), is_visited_twice, about });
            (a, theta) = (coarse, 0.5 * theta);
        }
    }

    /// With the prolongators of this hierarchy and the values of another matrix.
    pub(super) fn updated(&self, a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<Self> {
        let finest = self.finest();
        finest.device().check_same("A", a.device())?;
        if (a.nrows(), a.ncols()) != (finest.nrows(), finest.ncols()) {
            let problem = format!(
                "a matrix of {} rows and {} columns: the hierarchy has {} rows",
                a.nrows(),
                a.ncols(),
                finest.nrows()
            );
            return Err(Error::InvalidOption(problem));
        }
        let mut a = own(a, options)?;
        if a.nnz() != finest.nnz() {
            let problem =
                format!("a matrix of {} entries: the hierarchy is for a pattern of {}", a.nnz(), finest.nnz());
            return Err(Error::InvalidOption(problem));
        }
        let (mut levels, mut zero_rows) = (Vec::new(), 0);
        for level in &self.levels {
            let strength = Strength::of(&a, level.about.theta)?;
            if levels.is_empty() {
                zero_rows = strength.zero_rows;
            }
            let rho = spectrum::largest(&a, &strength.inverse, strength.bound)?;
            let coarse = a.triple_product(&level.r, &level.p)?;
            let smoothed = Smoothed::new(a, strength.inverse, factors(options.smoother, rho));
            let (p, r) = (Arc::clone(&level.p), Arc::clone(&level.r));
            let about = About { rho, ..level.about };
            levels.push(Level { smoothed, p, r, is_visited_twice: level.is_visited_twice, about });
            a = coarse;
        }
        let strength = Strength::of(&a, 0.0)?;
        if levels.is_empty() {
            zero_rows = strength.zero_rows;
        }
        let last = match &self.last {
            Last::Direct(_) => Last::direct(a)?,
            Last::Smoothed(_) => {
                let rho = spectrum::largest(&a, &strength.inverse, strength.bound)?;
                Last::by_steps(a, strength.inverse, rho)
            }
        };
        Ok(Self { levels, last, zero_rows, end: self.end })
    }

    pub(super) fn finest(&self) -> &DeviceMatrix<T> {
        self.levels.first().map_or_else(|| self.last.matrix(), |level| &level.smoothed.a)
    }

    pub(super) fn matrix(&self, level: usize) -> Option<&DeviceMatrix<T>> {
        match self.levels.get(level) {
            Some(level) => Some(&level.smoothed.a),
            None => (level == self.levels.len()).then(|| self.last.matrix()),
        }
    }

    /// What the coarsest level is solved by, for the report.
    pub(super) fn coarsest(&self) -> Coarsest {
        match &self.last {
            Last::Direct(direct) => Coarsest::Direct { rank: direct.rank, rows: direct.a.nrows() },
            Last::Smoothed(_) => Coarsest::Smoothed,
        }
    }
}

impl<T: Scalar> Last<T> {
    fn direct(a: DeviceMatrix<T>) -> Result<Self> {
        let (inverse, rank) = coarsest::inverse(&a)?;
        inverse.choose_kernels()?;
        Ok(Self::Direct(Box::new(Direct { a, inverse, rank })))
    }

    /// By steps of the smoother, for eigenvalues up to `rho`.
    fn by_steps(a: DeviceMatrix<T>, inverse: DeviceVec<T>, rho: f64) -> Self {
        Self::Smoothed(Box::new(Smoothed::new(a, inverse, chebyshev(COARSEST_DEGREE, rho / 30.0, rho))))
    }

    pub(super) fn matrix(&self) -> &DeviceMatrix<T> {
        match self {
            Self::Direct(direct) => &direct.a,
            Self::Smoothed(smoothed) => &smoothed.a,
        }
    }
}

/// A prolongator, its transpose, and the next matrix.
fn galerkin<T: Scalar>(
    a: &DeviceMatrix<T>,
    p: DeviceMatrix<T>,
) -> Result<(DeviceMatrix<T>, DeviceMatrix<T>, DeviceMatrix<T>)> {
    let r = p.transpose()?;
    let coarse = a.triple_product(&r, &p)?;
    Ok((p, r, coarse))
}

/// The matrix as the hierarchy keeps it: canonical, in CSR. Its arrays are shared where that is how it is stored.
fn own<T: Scalar>(a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<DeviceMatrix<T>> {
    let own = a.operand()?.into_matrix(a.device()).canonical()?;
    if !options.assume_symmetric {
        symmetry::check(&own)?;
    }
    Ok(own)
}

/// Whether a level is visited twice, by the entries of its matrix, of those above, and whether one of them is.
fn visits_twice(cycle: AmgCycle, entries: usize, above: &[(usize, bool)]) -> bool {
    let Some(&(finest, _)) = above.first() else { return false };
    match cycle {
        AmgCycle::V => false,
        AmgCycle::W => true,
        AmgCycle::Auto => finest >= LARGE && entries <= finest / 8 && !above.iter().any(|&(_, is_twice)| is_twice),
    }
}

/// The smoother's factors for eigenvalues up to `rho`.
fn factors(smoother: AmgSmoother, rho: f64) -> Vec<super::sweep::Factors> {
    match smoother {
        AmgSmoother::Jacobi => chebyshev(1, rho / 4.0, rho),
        AmgSmoother::Chebyshev(degree) => chebyshev(degree, rho / 30.0, rho),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_levels_of_large_matrices_are_visited_twice() {
        let twice = |cycle, entries: &[usize]| {
            let mut levels = Vec::new();
            for &entries in entries {
                levels.push((entries, visits_twice(cycle, entries, &levels)));
            }
            levels.into_iter().map(|(_, is_twice)| is_twice).collect::<Vec<_>>()
        };
        let (large, small) = ([20_000_000, 9_000_000, 1_500_000, 100_000], [16_000_000, 7_000_000, 1_000_000]);
        assert_eq!(twice(AmgCycle::Auto, &large), [false, false, true, false]);
        assert_eq!(twice(AmgCycle::Auto, &small), [false; 3]);
        assert_eq!(twice(AmgCycle::V, &large), [false; 4]);
        assert_eq!(twice(AmgCycle::W, &small), [false, true, true]);
    }
}
