//! Algebraic multigrid over several devices.

mod cycle;
mod setup;
mod spectrum;

use std::{cell::RefCell, fmt};

use cycle::Vectors;
use setup::Hierarchy;

use super::DistributedMatrix;
use crate::{
    Amg, AmgInfo, AmgLevel, AmgOptions, Device, DeviceSlice, DeviceSliceMut, Error, Preconditioner, Result, Scalar,
    device::{self, check_length},
    solver::multigrid::per_finest,
};

/// The multigrid of [`Amg`](crate::Amg) for a [`DistributedMatrix`] that is symmetric positive definite: a preconditioner for
/// [`DistributedCg`](super::DistributedCg).
///
/// ```
/// use warpsparse::{Device, Tolerance, distributed::{self, *}, io::generate};
///
/// let whole = generate::poisson2d::<f64>(60)?;
/// let devices = [Device::auto(), Device::auto()];
/// let iterations = distributed::run(&devices, |communicator| {
///     let a = DistributedMatrix::from_whole(communicator, &whole)?;
///     let amg = DistributedAmg::options().gathered_rows(1000).build(&a)?;
///     let b = DistributedVec::from_whole(communicator, a.rows(), &vec![1.0; 3600])?;
///     let mut x = DistributedVec::zeros(communicator, a.rows())?;
///     let info = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-8)).preconditioner(&amg).solve(&b, &mut x)?;
///     Ok(info.iterations)
/// })?;
/// assert!(iterations[0] < 20); // without it: 130
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # The method
/// Each rank puts its own rows together in aggregates, which do not cross ranks; a row that is connected with other ranks' rows alone is one by itself. Their prolongator is smoothed over all connections, so that rows of `P` refer to
/// aggregates of other ranks too. A rank fetches the rows of `P` for its halo, multiplies, and sends parts of rows of `Pᵀ A P` to the ranks that have them, where they are
/// added up in the order of ranks. A level with few rows, by default at most 100 000, is gathered, and so is one that cannot be coarsened: every rank holds it whole as an [`Amg`](crate::Amg), and
/// applies that to the gathered vector. So the exchange of short halos on coarse levels is saved. One rank alone has all levels whole.
///
/// A number of ranks gives the same bits in every run. Aggregates end at the border between ranks, so that another number of ranks gives other aggregates, and
/// usually a few iterations more or less.
///
/// # Cost
/// The setup moves matrices between the devices and their hosts, which renumber columns and exchange rows: `O(nnz)` work there in one thread for each level. A cycle
/// takes four products and a few vector operations on each distributed level, with a halo each. On GPUs that exchange data without the host it is queued and can be recorded.
///
/// Memory on each rank: its part of the coarse matrices and prolongators, 3 vectors of each distributed level (4 with Chebyshev's smoother) and their halos, and the whole gathered levels.
pub struct DistributedAmg<'a, T: Scalar> {
    hierarchy: Hierarchy<'a, T>,
    options: DistributedAmgOptions<T>,
    vectors: RefCell<Vectors<T>>,
}

/// Options of [`DistributedAmg`].
#[derive(Clone, Debug, PartialEq)]
pub struct DistributedAmgOptions<T> {
    amg: AmgOptions<T>,
    gathered_rows: usize,
}

impl<T: Scalar> DistributedAmgOptions<T> {
    /// Sets the options that are those of [`Amg`](crate::Amg). The [cycle](AmgOptions::cycle) and the [rows that are solved directly](AmgOptions::coarse_rows) concern the
    /// gathered levels; a distributed level is visited once in a cycle. A [near-null space](AmgOptions::near_null_space) is for one device.
    #[must_use]
    pub fn amg(self, amg: AmgOptions<T>) -> Self {
        Self { amg, ..self }
    }

    /// Sets the number of rows up to which a level is gathered on every rank; the default is 100 000.
    #[must_use]
    pub fn gathered_rows(self, rows: usize) -> Self {
        Self { gathered_rows: rows, ..self }
    }

    /// Sets up multigrid. Collective: all ranks use the same options.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) for options out of range, a near-null space, a matrix whose rows and columns are not divided alike, and while a graph is
    /// recorded; [`Breakdown`](Error::Breakdown) for a matrix that is not symmetric or not positive definite, as by [`AmgOptions::build`];
    /// [`Rank`](Error::Rank); [`Unsupported`](Error::Unsupported) for 2³² entries of a rank and more; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn build<'a>(self, a: &'a DistributedMatrix<T>) -> Result<DistributedAmg<'a, T>> {
        device::refuse("the setup of multigrid")?;
        let has_near_null_space = self.amg.near_null_space.is_some();
        let options = if has_near_null_space { "with a near-null space".into() } else { format!("{self:?}") };
        let call = a.communicator().call(format!("a setup of multigrid, {options}"));
        self.amg.check()?;
        if has_near_null_space {
            return Err(Error::InvalidOption("a near-null space is for multigrid on one device".into()));
        }
        a.rows().check_same("a row of A", a.columns())?;
        call.all_gather(&[])?;
        // Copies to the host wait without a limit.
        a.communicator().settle()?;
        let hierarchy = Hierarchy::new(a, &self.amg, self.gathered_rows)?;
        let vectors = RefCell::new(Vectors::new(&hierarchy)?);
        Ok(DistributedAmg { hierarchy, options: self, vectors })
    }
}

impl<'a, T: Scalar> DistributedAmg<'a, T> {
    /// Sets up multigrid with the default options. Collective.
    ///
    /// # Errors
    /// As [`DistributedAmgOptions::build`].
    pub fn new(a: &'a DistributedMatrix<T>) -> Result<Self> {
        Self::options().build(a)
    }

    /// Returns the default options, to change some of them.
    #[must_use]
    pub fn options() -> DistributedAmgOptions<T> {
        DistributedAmgOptions { amg: AmgOptions::default(), gathered_rows: 100_000 }
    }

    /// Returns the matrix of a level that is divided among the ranks, 0 for the finest, or `None` beyond them.
    #[must_use]
    pub fn matrix(&self, level: usize) -> Option<&DistributedMatrix<T>> {
        self.hierarchy.levels.get(level).map(|level| &*level.a)
    }

    /// Returns the prolongator to a level that is divided among the ranks, or `None` beyond them. Its transpose restricts.
    #[must_use]
    pub fn prolongator(&self, level: usize) -> Option<&DistributedMatrix<T>> {
        self.hierarchy.levels.get(level).map(|level| &level.p)
    }

    /// Returns the multigrid of the levels that each rank has whole.
    #[must_use]
    pub fn gathered(&self) -> &Amg<T> {
        &self.hierarchy.gathered.amg
    }

    /// Returns the levels with their sizes over all ranks, the memory on this one, and what was found about the matrix.
    #[must_use]
    pub fn describe(&self) -> AmgInfo {
        let Hierarchy { levels: divided, gathered, .. } = &self.hierarchy;
        let whole = gathered.amg.describe();
        let level = |level: &setup::Level<'_, T>| AmgLevel {
            rows: level.a.nrows(),
            entries: level.a.nnz(),
            strong: level.strong_entries / level.a.nnz().max(1) as f64,
            rho: level.rho,
            prolongator_entries: level.p.nnz(),
        };
        let levels: Vec<_> = divided.iter().map(level).chain(whole.levels).collect();
        let ranks = self.hierarchy.finest().communicator().size();
        let mut notes = vec![match divided.len() {
            0 => format!("Each of {ranks} ranks has all levels whole."),
            count => format!("{count} levels are divided among {ranks} ranks; each rank has the others whole."),
        }];
        let is_unsmoothed = |&level: &usize| !divided[level].is_smoothed;
        let unsmoothed: Vec<_> = (0..divided.len()).filter(is_unsmoothed).map(|level| level.to_string()).collect();
        if !unsmoothed.is_empty() {
            notes.push(format!(
                "Prolongators that are not smoothed, since the next matrix would fill up: those of level {}.",
                unsmoothed.join(", ")
            ));
        }
        // These count the whole levels alone.
        let of_whole = whole.notes.into_iter();
        notes.extend(of_whole.map(|note| if divided.is_empty() { note } else { format!("On each rank: {note}") }));
        AmgInfo {
            operator_complexity: per_finest(&levels, |level| level.entries),
            grid_complexity: per_finest(&levels, |level| level.rows),
            bytes: whole.bytes + self.hierarchy.bytes() + self.vectors.borrow().bytes(),
            smoother: whole.smoother,
            notes,
            levels,
        }
    }
}

impl<T: Scalar> Preconditioner<T> for DistributedAmg<'_, T> {
    /// One cycle from the guess 0, on this rank's elements. Collective, for [`DistributedCg`](super::DistributedCg): where devices exchange data in streams, the ranks have to
    /// agree before that all call it.
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        let finest = self.hierarchy.finest();
        let n = finest.rows().rows(finest.communicator().rank()).len();
        check_length("r", n, r.len())?;
        check_length("z", n, z.len())?;
        self.hierarchy.cycle(&mut self.vectors.borrow_mut(), r, z)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.hierarchy.finest().communicator().device())
    }

    fn is_expensive(&self) -> bool {
        true
    }
}

impl<T: Scalar> fmt::Debug for DistributedAmg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("DistributedAmg");
        of.field("options", &self.options).field("levels", &self.hierarchy.levels.len()).finish_non_exhaustive()
    }
}
