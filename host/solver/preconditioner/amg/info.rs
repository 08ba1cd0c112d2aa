//! The report of a setup.

use std::fmt;

use super::{
    AmgOptions, AmgSmoother, NearNullSpace,
    diagonals::Diagonals,
    setup::{COARSEST_DEGREE, End, Hierarchy},
};
use crate::{DType, DeviceMatrix, Scalar};

/// What [`Amg`](super::Amg) has set up. Displayed as a table, and sentences about what was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AmgInfo {
    /// From the finest level to the coarsest.
    pub levels: Vec<AmgLevel>,
    /// The entries of the matrices of all levels, per entry of the finest.
    pub operator_complexity: f64,
    /// The rows of all levels, per row of the finest.
    pub grid_complexity: f64,
    /// The bytes of the hierarchy and its vectors, without those of the finest matrix.
    pub bytes: usize,
    /// The smoother, in words.
    pub smoother: String,
    /// What was found and chosen, in sentences.
    pub notes: Vec<String>,
}

/// A level of [`AmgInfo`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AmgLevel {
    /// The rows of the matrix.
    pub rows: usize,
    /// The entries of the matrix.
    pub entries: usize,
    /// The part of the entries that are strong or on the diagonal; 1 on the coarsest level.
    pub strong: f64,
    /// A bound of the eigenvalues of the matrix scaled to a diagonal of 1; 0 on the coarsest level if that is solved directly.
    pub rho: f64,
    /// The entries of the prolongator to this level; 0 on the coarsest.
    pub prolongator_entries: usize,
}

/// How the coarsest level is solved.
pub(super) enum Coarsest {
    Direct { rank: usize, rows: usize },
    Smoothed,
}

impl<T: Scalar> Hierarchy<T> {
    pub(super) fn info(&self, options: &AmgOptions<T>, workspace_bytes: usize) -> AmgInfo {
        let mut levels: Vec<_> = self
            .levels
            .iter()
            .map(|level| {
                let a = &level.smoothed.operator.a;
                AmgLevel {
                    rows: a.nrows(),
                    entries: a.nnz(),
                    strong: level.about.strong_entries as f64 / a.nnz().max(1) as f64,
                    rho: level.about.rho,
                    prolongator_entries: level.p.nnz(),
                }
            })
            .collect();
        let last = self.last.matrix();
        levels.push(AmgLevel {
            rows: last.nrows(),
            entries: last.nnz(),
            strong: 1.0,
            rho: 0.0,
            prolongator_entries: 0,
        });
        let matrices = self.levels.iter().flat_map(|level| [&*level.p, &*level.r]);
        let coarse = self.levels.iter().skip(1).map(|level| &level.smoothed.operator.a).chain(
            // The only level shares the arrays of the matrix.
            (!self.levels.is_empty()).then_some(last),
        );
        let inverses = levels.iter().map(|level| level.rows * size_of::<T>()).sum::<usize>();
        let diagonals = self.diagonals().map_or(0, Diagonals::bytes);
        let products =
            self.levels.iter().filter_map(|level| level.product.as_ref()).map(|product| product.bytes()).sum::<usize>();
        let bytes =
            matrices.chain(coarse).map(bytes_of).sum::<usize>() + products + diagonals + inverses + workspace_bytes;
        AmgInfo {
            operator_complexity: per_finest(&levels, |level| level.entries),
            grid_complexity: per_finest(&levels, |level| level.rows),
            bytes,
            smoother: options.smoother.to_string(),
            notes: self.notes(options),
            levels,
        }
    }

    fn notes(&self, options: &AmgOptions<T>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(diagonals) = self.diagonals() {
            notes.push(format!(
                "Sweeps over the finest level go over {} diagonals in {}.",
                diagonals.len(),
                match diagonals.dtype() {
                    DType::F32 => "f32",
                    DType::F64 => "f64",
                }
            ));
        }
        match (self.end, self.coarsest()) {
            (_, Coarsest::Direct { rank, rows }) if rank < rows => notes.push(format!(
                "The coarsest matrix has rank {rank} of {rows}: the matrix is singular, to rounding. Systems are solved up to its null space, if they can be."
            )),
            (End::Small, Coarsest::Direct { .. }) if self.levels.is_empty() => notes.push(format!(
                "The matrix has at most {} rows: it is solved directly.",
                options.coarse_rows
            )),
            (End::Isolated, _) => notes.push(format!(
                "The coarsest level has no strong connections: {COARSEST_DEGREE} steps of a Chebyshev iteration solve it."
            )),
            (End::Stalled, Coarsest::Direct { .. }) => {
                notes.push("Coarsening ended where aggregates became too small; that level is solved directly.".into());
            }
            (End::Stalled, Coarsest::Smoothed) => notes.push(format!(
                "Coarsening ended where aggregates became too small: {COARSEST_DEGREE} steps of a Chebyshev iteration take the place of a direct solution. \
                 Multigrid does not suit this matrix well."
            )),
            (End::Small, _) => {}
        }
        if let Some(NearNullSpace { unknowns, columns, .. }) = options.near_null_space {
            notes.push(format!("Nodes of {unknowns} unknowns, and {columns} vectors near the null space: coarse nodes have {columns} unknowns."));
        }
        let unsmoothed: Vec<_> =
            (0..self.levels.len()).filter(|&level| !self.levels[level].about.is_smoothed).collect();
        if !unsmoothed.is_empty() {
            let levels: Vec<String> = unsmoothed.iter().map(usize::to_string).collect();
            notes.push(format!(
                "Prolongators that are not smoothed, since the next matrix would fill up: those of level {}.",
                levels.join(", ")
            ));
        }
        let mut twice = (0..self.levels.len()).filter(|&level| self.levels[level].is_visited_twice);
        if let Some(first) = twice.next() {
            notes.push(match twice.next() {
                None => format!("A cycle visits level {first} and those below twice."),
                Some(_) => format!("W-cycle from level {first} on: each is visited twice as often as the one above."),
            });
        }
        if self.zero_rows > 0 {
            notes.push(format!(
                "Rows of zeros: {}. Their unknowns stay as they are, and the system has a solution only if b is 0 there.",
                self.zero_rows
            ));
        }
        notes
    }
}

/// The sum over all levels of a number, per that of the finest.
pub(crate) fn per_finest(levels: &[AmgLevel], of: fn(&AmgLevel) -> usize) -> f64 {
    levels.iter().map(of).sum::<usize>() as f64 / of(&levels[0]).max(1) as f64
}

/// Of a matrix in CSR with 32-bit offsets.
pub(crate) fn bytes_of<T: Scalar>(a: &DeviceMatrix<T>) -> usize {
    (a.nrows() + 1) * 4 + a.nnz() * (4 + size_of::<T>())
}

impl fmt::Display for AmgSmoother {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jacobi => f.write_str("a damped Jacobi iteration before and after each correction"),
            Self::Chebyshev(degree) => {
                write!(f, "Chebyshev iterations of degree {degree} before and after each correction")
            }
        }
    }
}

impl fmt::Display for AmgInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "smoothed aggregation, {} levels; {}", self.levels.len(), self.smoother)?;
        writeln!(f, "level       rows      entries  per row  strong")?;
        for (number, level) in self.levels.iter().enumerate() {
            let per_row = level.entries as f64 / level.rows.max(1) as f64;
            let percent = 100.0 * level.strong;
            writeln!(f, "{number:>5} {:>10} {:>12} {per_row:>8.1} {percent:>6.0}%", level.rows, level.entries)?;
        }
        write!(
            f,
            "operator complexity {:.2}, grid complexity {:.2}, {:.1} MB in addition to the matrix",
            self.operator_complexity,
            self.grid_complexity,
            self.bytes as f64 / 1e6
        )?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}
