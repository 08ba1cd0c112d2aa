//! The levels of distributed multigrid, from the finest to those that each rank has whole.

use std::ops::{Deref, Range};

use super::spectrum;
use crate::{
    Amg, AmgOptions, CsrMatrix, DeviceIndices, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    conversion::Operand,
    distributed::{
        Communicator, DistributedMatrix, DistributedVec, Partition,
        halo::Halo,
        rows::{added_up, fetch, outside, renumbered, stacked},
    },
    scalar::precision,
    solver::{
        breakdown,
        multigrid::{Aggregates, FILL, Factors, STALLED, Strength, bytes_of, factors},
    },
};

/// The matrices of all levels.
pub(super) struct Hierarchy<'a, T: Scalar> {
    /// Those that are divided among the ranks.
    pub(super) levels: Vec<Level<'a, T>>,
    pub(super) gathered: Gathered<T>,
    /// The user's matrix.
    finest: &'a DistributedMatrix<T>,
}

/// A level that is divided among the ranks.
pub(super) struct Level<'a, T> {
    pub(super) a: Matrix<'a, T>,
    /// The inverse of this rank's diagonal; 0 for rows of zeros.
    pub(super) inverse: DeviceVec<T>,
    /// The steps of the smoother.
    pub(super) factors: Vec<Factors>,
    /// Interpolates.
    pub(super) p: DistributedMatrix<T>,
    /// The transpose of `p`.
    pub(super) r: DistributedMatrix<T>,
    pub(super) is_smoothed: bool,
    /// Of all ranks.
    pub(super) strong_entries: f64,
    pub(super) rho: f64,
}

/// The matrix of a level.
pub(super) enum Matrix<'a, T> {
    Finest(&'a DistributedMatrix<T>),
    Coarse(Box<DistributedMatrix<T>>),
}

/// The levels that each rank has whole.
pub(super) struct Gathered<T: Scalar> {
    pub(super) partition: Partition,
    /// The elements of all other ranks.
    pub(super) halo: Halo<T>,
    /// Where each element is, among the own ones and those of the others.
    pub(super) order: DeviceIndices,
    pub(super) own: Range<usize>,
    pub(super) amg: Amg<T>,
}

impl<T> Deref for Matrix<'_, T> {
    type Target = DistributedMatrix<T>;

    fn deref(&self) -> &DistributedMatrix<T> {
        match self {
            Self::Finest(a) => a,
            Self::Coarse(a) => a,
        }
    }
}

impl<'a, T: Scalar> Hierarchy<'a, T> {
    pub(super) fn new(finest: &'a DistributedMatrix<T>, options: &AmgOptions<T>, gathered_rows: usize) -> Result<Self> {
        let (mut a, mut block) = (Matrix::Finest(finest), finest.block()?);
        let (mut levels, mut options) = (Vec::new(), options.clone());
        let ranks = finest.communicator().size();
        while ranks > 1 && a.nrows() > gathered_rows {
            if levels.is_empty() && !options.assume_symmetric {
                check_symmetry(finest)?;
                options = options.assume_symmetric();
            }
            let found = coarsen(&a, &block, &options, levels.is_empty()).map_err(|error| {
                let first = a.rows().rows(a.communicator().rank()).start;
                error.within(&format!("multigrid, level {}, of the rows from {first} on and their halo", levels.len()))
            })?;
            let Some(Coarser { a: coarse, block: coarse_block, inverse, p, r, is_smoothed, strong_entries, rho }) =
                found
            else {
                break;
            };
            let factors = factors(options.smoother, rho);
            levels.push(Level { a, inverse, factors, p, r, is_smoothed, strong_entries, rho });
            (a, block) = (Matrix::Coarse(Box::new(coarse)), coarse_block);
            let theta = 0.5 * options.theta;
            options = options.theta(theta);
        }
        let gathered = Gathered::new(a.communicator(), a.rows(), &block, options)?;
        Ok(Self { levels, gathered, finest })
    }

    pub(super) fn finest(&self) -> &'a DistributedMatrix<T> {
        self.finest
    }

    /// Of this rank's matrices, without the finest and those of the whole levels.
    pub(super) fn bytes(&self) -> usize {
        let of =
            |matrix: &DistributedMatrix<T>| matrix.parts().iter().map(|part| bytes_of(&part.matrix)).sum::<usize>();
        let coarse = self.levels.iter().skip(1).map(|level| of(&level.a)).sum::<usize>();
        let others = self.levels.iter().map(|level| of(&level.p) + of(&level.r) + level.inverse.len() * size_of::<T>());
        coarse + others.sum::<usize>()
    }
}

/// A next level, and what leads to it.
struct Coarser<T> {
    a: DistributedMatrix<T>,
    block: CsrMatrix<T>,
    inverse: DeviceVec<T>,
    p: DistributedMatrix<T>,
    r: DistributedMatrix<T>,
    is_smoothed: bool,
    strong_entries: f64,
    rho: f64,
}

/// The matrices that follow from a prolongator.
struct Galerkin<T> {
    /// This rank's rows of each.
    p: CsrMatrix<T>,
    r: CsrMatrix<T>,
    coarse: CsrMatrix<T>,
    /// The entries of the coarse matrix on all ranks.
    entries: f64,
}

/// Finds the next level for a matrix, of which this rank has a block; none if there are no aggregates, or too many.
fn coarsen<T: Scalar>(
    a: &DistributedMatrix<T>,
    block: &CsrMatrix<T>,
    options: &AmgOptions<T>,
    is_finest: bool,
) -> Result<Option<Coarser<T>>> {
    let (communicator, rows) = (a.communicator(), a.rows());
    let own = rows.rows(communicator.rank());
    let reach = Reach { communicator, rows, halo: outside(block, own.clone()), own };
    let n = reach.own.len();
    // The connections of the own rows and of the halo to each other.
    let near = renumbered(&reach.extended(block)?, reach.len(), |column| reach.place(column))?;
    let on_device = upload(communicator, near.clone())?;
    let (scaling, strength) = Strength::of(&on_device, options.theta)?;
    let mut inverse = communicator.device().zeros(n)?;
    inverse.assign(scaling.inverse.slice(..n)?)?;
    let rho = spectrum::largest(a, &inverse, scaling.bound)?;
    let s = strength.smoothing_matrix(&on_device, strength.pattern()?, 4.0 / (3.0 * rho.min(2.0)))?;
    let s = s.download()?.into_csr()?.slice_rows(0..n)?;
    let strong_entries = communicator.sum(&[s.nnz() as f64])?[0];

    let (tentative, coarse_rows) = aggregated(communicator, &s, is_finest)?;
    if coarse_rows.is_empty() || coarse_rows.len() as f64 > STALLED * a.nrows() as f64 {
        return Ok(None);
    }
    let smoothed = upload(communicator, s)?.multiply(&upload(communicator, reach.extended(&tentative)?)?)?;
    let local = upload(communicator, near.slice_rows(0..n)?)?;
    let mut found = galerkin(&reach, &local, smoothed.download()?.into_csr()?, &coarse_rows)?;
    let is_smoothed = found.entries <= FILL * a.nnz() as f64;
    if !is_smoothed {
        found = galerkin(&reach, &local, tentative, &coarse_rows)?;
    }
    let Galerkin { p, r, coarse, .. } = found;
    Ok(Some(Coarser {
        a: DistributedMatrix::from_rows(communicator, &coarse, &coarse_rows)?,
        block: coarse,
        inverse,
        p: DistributedMatrix::from_rows(communicator, &p, &coarse_rows)?,
        r: DistributedMatrix::from_rows(communicator, &r, rows)?,
        is_smoothed,
        strong_entries,
        rho,
    }))
}

/// This rank's rows of the tentative prolongator, which is 1 in the column of a row's aggregate, and who has which aggregates. `s` has the rank's rows of the smoothing
/// matrix. Collective.
fn aggregated<T: Scalar>(
    communicator: &Communicator,
    s: &CsrMatrix<T>,
    is_finest: bool,
) -> Result<(CsrMatrix<T>, Partition)> {
    let n = s.nrows();
    let inside = renumbered(s, n, |column| Some(column).filter(|&column| (column as usize) < n))?;
    let aggregates = Aggregates::of(&upload(communicator, inside)?, is_finest)?;
    let own = with_singles(&aggregates.tentative::<T>(communicator.device())?.download()?.into_csr()?, s)?;
    let partition = Partition::from_local(communicator, own.ncols())?;
    let first = partition.rows(communicator.rank()).start as u32;
    Ok((renumbered(&own, partition.len(), |column| Some(first + column))?, partition))
}

/// Makes aggregates of their own of the rows that have none and are connected, by the smoothing matrix, with rows of other ranks.
fn with_singles<T: Scalar>(tentative: &CsrMatrix<T>, s: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let (mut count, mut offsets, mut columns) = (tentative.ncols() as u32, vec![0u32], Vec::new());
    for ((aggregate, _), (connected, _)) in tentative.rows().zip(s.rows()) {
        if let Some(&aggregate) = aggregate.first() {
            columns.push(aggregate);
        } else if connected.len() > 1 {
            columns.push(count);
            count += 1;
        }
        offsets.push(columns.len() as u32);
    }
    let ones = vec![T::from_f64(1.0); columns.len()];
    CsrMatrix::try_from_csr_data(tentative.nrows(), count as usize, offsets, columns, ones)
}

/// `R = Pᵀ` and `Pᵀ A P` for this rank's rows of `P`, and its rows of `A` with columns of its reach.
fn galerkin<T: Scalar>(
    reach: &Reach<'_>,
    a: &DeviceMatrix<T>,
    p: CsrMatrix<T>,
    coarse_rows: &Partition,
) -> Result<Galerkin<T>> {
    let communicator = reach.communicator;
    // The rows of R of which this rank has a part.
    let touched = outside(&p, 0..0);
    let of_touched = renumbered(&p, touched.len(), |column| touched.binary_search(&column).ok().map(|at| at as u32))?;
    let r = upload(communicator, of_touched)?.transpose()?;
    let ap = a.multiply(&upload(communicator, reach.extended(&p)?)?)?;
    let parts = r.multiply(&ap)?.download()?.into_csr()?;
    let coarse = added_up(communicator, coarse_rows, &touched, &parts)?;
    let r = renumbered(&r.download()?.into_csr()?, reach.rows.len(), |row| Some(reach.own.start as u32 + row))?;
    let r = added_up(communicator, coarse_rows, &touched, &r)?;
    let entries = communicator.sum(&[coarse.nnz() as f64])?[0];
    Ok(Galerkin { p, r, coarse, entries })
}

/// The rows that this rank's rows are connected with: its own, then its halo in ascending order.
struct Reach<'c> {
    communicator: &'c Communicator,
    rows: &'c Partition,
    own: Range<usize>,
    halo: Vec<u32>,
}

impl Reach<'_> {
    fn len(&self) -> usize {
        self.own.len() + self.halo.len()
    }

    /// Where a row is, if it is there.
    fn place(&self, row: u32) -> Option<u32> {
        match self.own.contains(&(row as usize)) {
            true => Some(row - self.own.start as u32),
            false => self.halo.binary_search(&row).ok().map(|place| (self.own.len() + place) as u32),
        }
    }

    /// This rank's rows of a matrix, and those of the halo from the ranks that have them. Collective.
    fn extended<T: Scalar>(&self, block: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
        let of_halo = fetch(self.communicator, self.rows, block, &self.halo)?;
        stacked(&[block, &of_halo], block.ncols())
    }
}

impl<T: Scalar> Gathered<T> {
    fn new(
        communicator: &Communicator,
        partition: &Partition,
        block: &CsrMatrix<T>,
        options: AmgOptions<T>,
    ) -> Result<Self> {
        let (n, own) = (partition.len(), partition.rows(communicator.rank()));
        let others: Vec<u32> = (0..own.start).chain(own.end..n).map(|row| row as u32).collect();
        let of_others = fetch(communicator, partition, block, &others)?;
        let [before, after] = [0..own.start, own.start..others.len()].map(|rows| of_others.slice_rows(rows));
        let whole = stacked(&[&before?, block, &after?], n)?;
        let place = |row: usize| match row {
            row if row < own.start => own.len() + row,
            row if row < own.end => row - own.start,
            row => row,
        };
        let order: Vec<u32> = (0..n).map(|row| place(row) as u32).collect();
        Ok(Self {
            partition: partition.clone(),
            halo: Halo::new(communicator, partition, &others)?,
            order: communicator.device().upload_indices(&order, n)?,
            amg: options.build(&upload(communicator, whole)?)?,
            own,
        })
    }
}

/// A matrix in CSR on the rank's device.
fn upload<T: Scalar>(communicator: &Communicator, matrix: CsrMatrix<T>) -> Result<DeviceMatrix<T>> {
    Ok(Operand::upload(communicator.device(), matrix)?.into_matrix(communicator.device()))
}

/// Compares `u . (A v)` with `v . (A u)` for two random vectors, as for one device.
fn check_symmetry<T: Scalar>(a: &DistributedMatrix<T>) -> Result<()> {
    let communicator = a.communicator();
    let vector = || DistributedVec::<T>::zeros(communicator, a.rows());
    let random = |stream: usize| {
        let mut x = vector()?;
        let seed = 2 * communicator.rank() + stream;
        x.local_mut().fill_uniform(seed as u64, T::from_f64(-1.0), T::from_f64(1.0))?;
        Ok::<_, Error>(x)
    };
    let (mut u, mut v, mut au, mut av) = (random(1)?, random(2)?, vector()?, vector()?);
    let (one, zero) = (T::from_f64(1.0), T::default());
    a.spmv(one, &mut u, zero, &mut au)?;
    a.spmv(one, &mut v, zero, &mut av)?;
    let [uav, vau, norm] = [u.dot(&av)?, v.dot(&au)?, av.norm2()?].map(|scalar| Ok(scalar.get()?.to_f64()));
    let (uav, vau, norm): (f64, f64, f64) = (uav?, vau?, norm?);
    if (uav - vau).abs() > precision::<T>().sqrt() * norm {
        let problem = format!("the matrix is not symmetric: for two vectors u . A v is {uav:e} and v . A u is {vau:e}");
        return Err(breakdown(0, &problem));
    }
    Ok(())
}
