//! The levels of multigrid.

use std::sync::Arc;

use super::{
    AmgCycle, AmgOptions, AmgSmoother,
    aggregates::Aggregates,
    coarsest,
    diagonals::{Diagonals, Operator},
    info::Coarsest,
    nodes::{self, Space},
    spectrum,
    strength::{Scaling, Strength, csr},
    sweep::{Factors, Smoothed, chebyshev},
};
use crate::{
    DeviceMatrix, DeviceVec, Error, LinearOperator, Result, Scalar, algebra::spgemm::ProductPattern, scalar::precision,
    solver::symmetry, stored::Csr,
};

/// Levels, at most.
const MAX_LEVELS: usize = 30;

/// Coarsening ends when a level keeps more than this part of the rows.
pub(crate) const STALLED: f64 = 0.8;

/// A prolongator is not smoothed if the next matrix then has more entries than so many times this one. Those of grids have 0.4 to 0.5, with jumps up to 0.7; graphs
/// with heavy rows fill up: pubmed's Laplacian has 3.2, and takes 23 iterations in place of 28.
pub(crate) const FILL: f64 = 0.7;

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
    /// The pattern of `A P`, from the first update on.
    pub(super) product: Option<Arc<ProductPattern>>,
    /// Whether a cycle visits it twice when it visits the level above once.
    pub(super) is_visited_twice: bool,
    pub(super) about: About,
}

/// What the report says of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
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
    /// Rows that are 0 by construction.
    dependent: usize,
}

impl<T: Scalar> Hierarchy<T> {
    pub(super) fn new(a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<Self> {
        let Operator { mut a, mut diagonals } = own(a, options)?;
        let (mut levels, mut zero_rows, mut theta) = (Vec::new(), 0, options.theta);
        let mut space = options.near_null_space.as_ref().map(|space| Space::upload(a.device(), space)).transpose()?;
        loop {
            let is_finest = levels.is_empty();
            // Also of a matrix that is solved directly: for its checks.
            let measured = match &space {
                None => Strength::of(&a, theta).map(|(scaling, strength)| (scaling, Some(strength))),
                // Of nodes it is blocks that are strong.
                Some(_) => Scaling::of(&a).map(|scaling| (scaling, None)),
            };
            let (scaling, strength) = measured.map_err(|error| on_level(levels.len(), error))?;
            if is_finest {
                zero_rows = scaling.zero_rows;
            }
            // Zeros by construction say nothing about the matrix.
            let dependent = || space.as_ref().filter(|_| !is_finest).map_or(Ok(0), Space::dependent);
            if a.nrows() <= options.coarse_rows {
                return Ok(Self { levels, last: Last::direct(a, dependent()?)?, zero_rows, end: End::Small });
            }
            let rho = spectrum::largest(&a, &scaling.inverse, scaling.bound)?;
            let (aggregates, strong_entries, s, blocks) = match (&space, strength) {
                (Some(space), _) => {
                    let (aggregates, entries, blocks) = nodes::aggregates(&a, space.unknowns, theta, is_finest)?;
                    (aggregates, entries, None, Some(blocks))
                }
                (None, Some(strength)) => {
                    // The eigenvalues of `G^-1 F` are at most 2, and with or without dropped entries about those of `D^-1 A`.
                    let s = strength.smoothing_matrix(&a, strength.pattern()?, 4.0 / (3.0 * rho.min(2.0)))?;
                    (Aggregates::of(&s, is_finest)?, s.nnz(), Some(s), None)
                }
                (None, None) => unreachable!("without nodes entries are measured"),
            };
            let count = aggregates.count as usize * space.as_ref().map_or(1, |space| space.columns);
            let end = match count {
                0 => Some(End::Isolated),
                _ if count as f64 > STALLED * a.nrows() as f64 || levels.len() + 1 >= MAX_LEVELS => Some(End::Stalled),
                _ => None,
            };
            if let Some(end) = end {
                let last = match a.nrows() <= MAX_DIRECT && end == End::Stalled {
                    true => Last::direct(a, dependent()?)?,
                    false => Last::by_steps(a, scaling.inverse, rho),
                };
                return Ok(Self { levels, last, zero_rows, end });
            }
            let (tentative, next, nodes) = match space.as_ref().zip(blocks) {
                None => (aggregates.tentative(a.device())?, None, None),
                Some((space, blocks)) => {
                    let (tentative, next, nodes) = nodes::tentative((aggregates, blocks), space)?;
                    (tentative, Some(next), Some(nodes))
                }
            };
            let mut about = About { strong_entries, rho, is_smoothed: true };
            let smoothed = match (&s, &nodes) {
                (Some(s), _) => s.multiply(&tentative)?,
                (_, Some(nodes)) => nodes.smoothed(&a, &scaling.inverse, &tentative, 4.0 / (3.0 * rho))?,
                (None, None) => unreachable!("a prolongator is smoothed by a matrix or along nodes"),
            };
            let galerkin = |p: DeviceMatrix<T>, is_smoothed: bool| -> Result<_> {
                let r = p.transpose()?;
                let coarse = match &nodes {
                    None => a.triple_product(&r, &p)?,
                    Some(nodes) => nodes.triple_product(&a, (&r, &p), is_smoothed)?,
                };
                Ok((p, r, coarse))
            };
            let (mut p, mut r, mut coarse) = galerkin(smoothed, true)?;
            drop(s);
            if coarse.nnz() as f64 > FILL * a.nnz() as f64 {
                about.is_smoothed = false;
                (p, r, coarse) = galerkin(tentative, false)?;
            }
            if coarse.nrows() <= options.coarse_rows && a.nrows() <= MAX_DIRECT && is_rounding(&coarse, &a)? {
                return Ok(Self { levels, last: Last::direct(a, dependent()?)?, zero_rows, end: End::Small });
            }
            let smoothed = Smoothed::new(
                Operator { a, diagonals: diagonals.take() },
                scaling.inverse,
                factors(options.smoother, rho),
            );
            p.choose_kernels()?;
            r.choose_kernels()?;
            let above: Vec<_> = levels
                .iter()
                .map(|level: &Level<T>| (level.smoothed.operator.a.nnz(), level.is_visited_twice))
                .collect();
            let is_visited_twice = visits_twice(options.cycle, smoothed.operator.a.nnz(), &above);
            let (p, r) = (Arc::new(p), Arc::new(r));
            levels.push(Level { smoothed, p, r, product: None, is_visited_twice, about });
            (a, theta, space) = (coarse, 0.5 * theta, next);
        }
    }

    /// With the prolongators of this hierarchy and the values of another matrix.
    pub(super) fn updated(&self, a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<Self> {
        let finest = self.finest();
        check_size(finest, a)?;
        let Operator { mut a, mut diagonals } = own(a, options)?;
        if !has_pattern_of(&a, finest)? {
            let problem = "the entries of the matrix are not where those of the hierarchy's matrix are";
            return Err(Error::InvalidOption(problem.into()));
        }
        let (mut levels, mut zero_rows) = (Vec::new(), 0);
        for (number, level) in self.levels.iter().enumerate() {
            let scaling = Scaling::of(&a).map_err(|error| on_level(number, error))?;
            if levels.is_empty() {
                zero_rows = scaling.zero_rows;
            }
            let rho = spectrum::largest(&a, &scaling.inverse, scaling.bound)?;
            let (mut product, next) = (level.product.clone(), self.matrix(number + 1).expect("a coarser level"));
            let coarse = level.r.multiply_on(&a.multiply_keeping(&level.p, &mut product)?, next)?;
            let smoothed = Smoothed::new(
                Operator { a, diagonals: diagonals.take() },
                scaling.inverse,
                factors(options.smoother, rho),
            );
            let (p, r) = (Arc::clone(&level.p), Arc::clone(&level.r));
            let about = About { rho, ..level.about };
            levels.push(Level { smoothed, p, r, product, is_visited_twice: level.is_visited_twice, about });
            a = coarse;
        }
        let scaling = Scaling::of(&a).map_err(|error| on_level(levels.len(), error))?;
        if levels.is_empty() {
            zero_rows = scaling.zero_rows;
        }
        let last = match &self.last {
            Last::Direct(direct) => Last::direct(a, direct.dependent)?,
            Last::Smoothed(_) => {
                let rho = spectrum::largest(&a, &scaling.inverse, scaling.bound)?;
                Last::by_steps(a, scaling.inverse, rho)
            }
        };
        Ok(Self { levels, last, zero_rows, end: self.end })
    }

    /// The finest matrix, as products go over it.
    pub(super) fn operator(&self) -> &dyn LinearOperator<T> {
        self.levels.first().map_or_else(|| self.last.matrix() as _, |level| &level.smoothed.operator as _)
    }

    pub(super) fn finest(&self) -> &DeviceMatrix<T> {
        self.levels.first().map_or_else(|| self.last.matrix(), |level| &level.smoothed.operator.a)
    }

    /// The finest matrix by its diagonals, where that pays.
    pub(super) fn diagonals(&self) -> Option<&Diagonals<T>> {
        self.levels.first()?.smoothed.operator.diagonals.as_ref()
    }

    pub(super) fn matrix(&self, level: usize) -> Option<&DeviceMatrix<T>> {
        match self.levels.get(level) {
            Some(level) => Some(&level.smoothed.operator.a),
            None => (level == self.levels.len()).then(|| self.last.matrix()),
        }
    }

    /// What the coarsest level is solved by, for the report.
    pub(super) fn coarsest(&self) -> Coarsest {
        match &self.last {
            Last::Direct(direct) => Coarsest::Direct { rank: direct.rank, rows: direct.a.nrows() - direct.dependent },
            Last::Smoothed(_) => Coarsest::Smoothed,
        }
    }
}

impl<T: Scalar> Last<T> {
    fn direct(a: DeviceMatrix<T>, dependent: usize) -> Result<Self> {
        let (inverse, rank) = coarsest::inverse(&a)?;
        inverse.choose_kernels()?;
        Ok(Self::Direct(Box::new(Direct { a, inverse, rank, dependent })))
    }

    /// By steps of the smoother, for eigenvalues up to `rho`.
    fn by_steps(a: DeviceMatrix<T>, inverse: DeviceVec<T>, rho: f64) -> Self {
        Self::Smoothed(Box::new(Smoothed::new(
            Operator { a, diagonals: None },
            inverse,
            chebyshev(COARSEST_DEGREE, rho / 30.0, rho),
        )))
    }

    pub(super) fn matrix(&self) -> &DeviceMatrix<T> {
        match self {
            Self::Direct(direct) => &direct.a,
            Self::Smoothed(smoothed) => &smoothed.operator.a,
        }
    }
}

/// What is wrong with the matrix of a level, of which the first is the user's.
fn on_level(level: usize, error: Error) -> Error {
    match level {
        0 => error.within("multigrid"),
        _ => error.within(&format!("multigrid, level {level}")),
    }
}

/// Whether all that is left is the null space of a singular matrix, whose energy is 0 but for rounding.
fn is_rounding<T: Scalar>(coarse: &DeviceMatrix<T>, a: &DeviceMatrix<T>) -> Result<bool> {
    let greatest = |a: &DeviceMatrix<T>| Ok(a.diagonal()?.norm_inf()?.get()?.to_f64());
    Ok(greatest(coarse)? <= 1000.0 * precision::<T>() * greatest(a)?)
}

/// The matrix as the hierarchy keeps it: canonical, in CSR. Its arrays are shared where that is how it is stored. And its diagonals, where they pay: then it is
/// symmetric.
pub(super) fn own<T: Scalar>(a: &DeviceMatrix<T>, options: &AmgOptions<T>) -> Result<Operator<T>> {
    let own = Operator::of(a.operand()?.into_matrix(a.device()).canonical()?)?;
    if own.diagonals.is_none() && !options.assume_symmetric {
        symmetry::check(&own.a)?;
    }
    Ok(own)
}

/// Checks the size and the device of a matrix with new values.
pub(super) fn check_size<T: Scalar>(finest: &DeviceMatrix<T>, a: &DeviceMatrix<T>) -> Result<()> {
    finest.device().check_same("A", a.device())?;
    if (a.nrows(), a.ncols()) != (finest.nrows(), finest.ncols()) {
        let (rows, columns) = (a.nrows(), a.ncols());
        let problem =
            format!("a matrix of {rows} rows and {columns} columns: the hierarchy has {} rows", finest.nrows());
        return Err(Error::InvalidOption(problem));
    }
    Ok(())
}

/// Whether the entries of two matrices of the hierarchy's kind are at the same places.
fn has_pattern_of<T: Scalar>(a: &DeviceMatrix<T>, other: &DeviceMatrix<T>) -> Result<bool> {
    match (csr(a), csr(other)) {
        (Csr::Host(a), Csr::Host(other)) => Ok(a.has_pattern_of(other)),
        (Csr::Device(a), Csr::Device(other)) => Ok(Arc::ptr_eq(a, other) || a.has_pattern_of(other)?),
        _ => unreachable!("they are on one device"),
    }
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
pub(crate) fn factors(smoother: AmgSmoother, rho: f64) -> Vec<Factors> {
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
