//! What the ranks multiply and solve, and whether it comes out right.

use std::fmt;

use measure::{Collective, Errors, Spread, reference::Reference};
use rayon::prelude::*;
use serde::Serialize;
use warpsparse::{
    CsrMatrix, Error, Result, Scalar, Tolerance,
    distributed::{Communicator, DistributedCg, DistributedDense, DistributedMatrix, DistributedVec, Partition},
};

use crate::{cg::VECTORS, sort::random_bits};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Spmv,
    Spmm,
    /// An iteration of conjugate gradients.
    Cg,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spmv => "spmv",
            Self::Spmm => "spmm",
            Self::Cg => "cg",
        })
    }
}

/// Where the rows of a rank come from.
pub(super) enum Rows<'m, T: Scalar> {
    /// A part of this matrix.
    Of(&'m CsrMatrix<T>),
    /// The 7-point stencil on a grid of `side` x `side` x (`side` `devices`) points: each rank makes `side` planes.
    Slabs { side: usize, devices: usize },
}

/// A matrix, and a vector to multiply.
pub(super) struct System<'m, T: Scalar> {
    rows: Rows<'m, T>,
    x: Vec<T>,
}

/// What a rank has found out.
pub(super) struct Measured {
    pub(super) found: Vec<Found>,
    /// Why there is no solution.
    pub(super) unsolved: Option<String>,
}

/// One operation.
pub(super) struct Found {
    pub(super) operation: Operation,
    pub(super) rows: usize,
    pub(super) entries: usize,
    pub(super) time_us: Spread,
    /// That the rank with most must move.
    pub(super) bytes: usize,
    /// That the rank with most receives.
    pub(super) halo_bytes: usize,
    pub(super) problem: Option<String>,
}

impl<'m, T: Scalar> System<'m, T> {
    pub(super) fn new(rows: Rows<'m, T>) -> Result<Self> {
        let columns = match rows {
            Rows::Of(matrix) => matrix.ncols(),
            Rows::Slabs { side, devices } => side.pow(3) * devices,
        };
        if u32::try_from(columns).is_err() {
            return Err(Error::Unsupported(format!("a matrix of {columns} columns, 2^32 and more")));
        }
        Ok(Self { rows, x: (0..columns).into_par_iter().map(|index| T::from_f64(random_element(index))).collect() })
    }

    /// Measures products with a vector and with so many columns, and a solution by so many iterations.
    pub(super) fn measure(&self, rank: &Collective<'_>, columns: usize, iterations: usize) -> Result<Measured> {
        let (block, of_columns) = self.block(rank.communicator)?;
        let a = DistributedMatrix::from_rows(rank.communicator, &block, &of_columns)?;
        let reference = Reference::new(&block, &self.x, 1, 1 << 24);
        let mut system = OnRank { system: self, rank, a, reference };
        let mut found = vec![system.spmv(&block)?, system.spmm(&block, columns)?];
        let unsolved = match system.cg(&block, iterations) {
            Ok(solved) => {
                found.push(solved);
                None
            }
            // The same on every rank.
            Err(error @ (Error::Breakdown { .. } | Error::InvalidOption(_))) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(Measured { found, unsolved })
    }

    /// This rank's rows, and who has which columns.
    fn block(&self, communicator: &Communicator) -> Result<(CsrMatrix<T>, Partition)> {
        match self.rows {
            Rows::Of(matrix) => {
                let rows = Partition::balanced(communicator, matrix);
                let is_square = matrix.nrows() == matrix.ncols();
                let block = matrix.slice_rows(rows.rows(communicator.rank()))?;
                Ok((block, if is_square { rows } else { Partition::even(communicator, matrix.ncols()) }))
            }
            Rows::Slabs { side, devices } => {
                let block = slab(side, devices, communicator.rank())?;
                Ok((block, Partition::even(communicator, side.pow(3) * devices)))
            }
        }
    }
}

/// A number from -1 to 1.
pub(super) fn random_element(index: usize) -> f64 {
    // 53 bits, over 2^52.
    (random_bits(index) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// The rows of a rank of the 7-point stencil on its slab of a grid.
fn slab<T: Scalar>(side: usize, ranks: usize, rank: usize) -> Result<CsrMatrix<T>> {
    let (plane, planes) = (side * side, side * ranks);
    let [off, diagonal] = [-1.0, 6.0].map(T::from_f64);
    let (mut offsets, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
    for row in rank * side * plane..(rank + 1) * side * plane {
        let (x, y, z) = (row % side, row / side % side, row / plane);
        let mut entry = |is_there: bool, column: usize, value: T| {
            if is_there {
                columns.push(column as u32);
                values.push(value);
            }
        };
        entry(z > 0, row.wrapping_sub(plane), off);
        entry(y > 0, row.wrapping_sub(side), off);
        entry(x > 0, row.wrapping_sub(1), off);
        entry(true, row, diagonal);
        entry(x + 1 < side, row + 1, off);
        entry(y + 1 < side, row + side, off);
        entry(z + 1 < planes, row + plane, off);
        offsets.push(columns.len() as u32);
    }
    CsrMatrix::try_from_csr_data(side * plane, plane * planes, offsets, columns, values)
}

/// A system on one of its ranks.
struct OnRank<'s, T: Scalar> {
    system: &'s System<'s, T>,
    rank: &'s Collective<'s>,
    a: DistributedMatrix<T>,
    /// Of this rank's rows.
    reference: Reference,
}

impl<T: Scalar> OnRank<'_, T> {
    fn spmv(&mut self, block: &CsrMatrix<T>) -> Result<Found> {
        let (communicator, [zero, one]) = (self.rank.communicator, [0.0, 1.0].map(T::from_f64));
        let mut x = DistributedVec::from_whole(communicator, self.a.columns(), &self.system.x)?;
        let mut y = DistributedVec::zeros(communicator, self.a.rows())?;
        y.fill(T::from_f64(f64::NAN))?;
        let times = self.rank.times(|| self.a.spmv(one, &mut x, zero, &mut y))?;
        let errors = self.reference.errors(&self.reference.pick(&y.local().to_vec()?));
        let time_us = Spread::of(&times.each);
        self.found(block, Operation::Spmv, time_us, 1, self.problem(&[errors])?)
    }

    /// Column `j` of `B` is `x` times a power of 2 with a sign, and so is that of `C`.
    fn spmm(&mut self, block: &CsrMatrix<T>, columns: usize) -> Result<Found> {
        let (communicator, [zero, one]) = (self.rank.communicator, [0.0, 1.0].map(T::from_f64));
        let factor = |column: usize| [1.0, -2.0, 4.0, -8.0][column % 4];
        let own = &self.system.x[self.a.columns().rows(communicator.rank())];
        let row = |x: &T| {
            let x = x.to_f64();
            (0..columns).map(move |column| T::from_f64(x * factor(column)))
        };
        let elements: Vec<T> = own.iter().flat_map(row).collect();
        let mut b = DistributedDense::from_local(communicator, self.a.columns(), columns, &elements)?;
        drop(elements);
        let mut c = DistributedDense::zeros(communicator, self.a.rows(), columns)?;
        let times = self.rank.times(|| self.a.spmm(one, &mut b, zero, &mut c))?;
        let c = c.local().to_vec()?;
        let of_column = |column: usize| {
            let element = |row: usize| T::from_f64(c[row * columns + column].to_f64() / factor(column));
            self.reference.errors(&self.reference.places().flatten().map(element).collect::<Vec<T>>())
        };
        let errors: Vec<_> = (0..columns).map(of_column).collect();
        let time_us = Spread::of(&times.each);
        self.found(block, Operation::Spmm, time_us, columns, self.problem(&errors)?)
    }

    fn cg(&mut self, block: &CsrMatrix<T>, iterations: usize) -> Result<Found> {
        let communicator = self.rank.communicator;
        let jacobi = self.a.jacobi();
        // A rank without a preconditioner must not keep the others waiting.
        let without = communicator.sum(&[f64::from(u8::from(jacobi.is_err()))])?[0];
        let jacobi = match jacobi? {
            jacobi if without == 0.0 => jacobi,
            _ => return Err(Error::InvalidOption("Jacobi's preconditioner fails on another rank".into())),
        };
        let b = DistributedVec::from_whole(communicator, self.a.rows(), &self.system.x)?;
        let mut x = DistributedVec::zeros(communicator, self.a.rows())?;
        let mut cg = DistributedCg::new(&self.a)
            .tolerance(Tolerance::relative(0.0))
            .max_iterations(iterations)
            .preconditioner(jacobi);
        let mut last = None;
        let times = self.rank.times(|| {
            x.fill(T::default())?;
            last = Some(cg.solve(&b, &mut x)?);
            Ok(())
        })?;
        let info = last.expect("a solution was timed");
        let took = info.iterations.max(1) as u32;
        let each: Vec<_> = times.each.iter().map(|time| *time / took).collect();
        let by_iteration = info.history.last().copied().unwrap_or(f64::NAN);
        let of_b = info.history.first().copied().unwrap_or(f64::NAN);
        let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let off = (info.residual_norm - by_iteration).abs();
        let is_right = off <= 1e-3 * by_iteration + epsilon.sqrt() * of_b;
        let problem = (!is_right)
            .then(|| format!("the residual is {:.3e}, by the iteration {by_iteration:.3e}", info.residual_norm));
        self.found(block, Operation::Cg, Spread::of(&each), 1, problem)
    }

    /// What is wrong with products of any rank.
    fn problem(&self, errors: &[Errors]) -> Result<Option<String>> {
        let is_wrong = errors.iter().any(|errors| !(0.0..=1.0).contains(&errors.over_bound));
        let wrong = self.rank.communicator.sum(&[f64::from(u8::from(is_wrong))])?[0];
        Ok((wrong > 0.0).then(|| format!("{wrong} ranks are off by more than rounding explains")))
    }

    fn found(
        &self,
        block: &CsrMatrix<T>,
        operation: Operation,
        time_us: Spread,
        width: usize,
        problem: Option<String>,
    ) -> Result<Found> {
        let communicator = self.rank.communicator;
        let (element, rows, halo) = (size_of::<T>(), block.nrows(), self.a.halo_len());
        let own_columns = self.a.columns().rows(communicator.rank()).len();
        let vectors = match operation {
            Operation::Spmv | Operation::Spmm => (own_columns + halo + rows) * width,
            Operation::Cg => VECTORS * rows,
        };
        let bytes = block.nnz() * (4 + element) + 4 * (rows + 1) + vectors * element;
        let [bytes, halo_bytes] = most(communicator, [bytes, halo * width * element])?;
        let (rows, entries) = (self.a.nrows(), self.a.nnz());
        Ok(Found { operation, rows, entries, time_us, bytes, halo_bytes, problem })
    }
}

/// The largest of each of these numbers on any rank.
fn most<const N: usize>(communicator: &Communicator, numbers: [usize; N]) -> Result<[usize; N]> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|&number| (number as u64).to_le_bytes()).collect();
    let of_ranks = communicator.all_gather(&bytes)?;
    let at = |bytes: &[u8], place: usize| {
        let word = bytes.chunks_exact(8).nth(place).and_then(|word| word.try_into().ok());
        word.map_or(0, u64::from_le_bytes) as usize
    };
    Ok(std::array::from_fn(|place| of_ranks.iter().map(|bytes| at(bytes, place)).max().unwrap_or(0)))
}
