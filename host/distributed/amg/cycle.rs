//! The cycle over the levels.

use super::setup::{Gathered, Hierarchy, Level};
use crate::{
    DeviceSlice, DeviceSliceMut, DeviceVec, Preconditioner, Result, Scalar, Zip,
    distributed::{DistributedMatrix, DistributedVec},
};

/// The vectors of a cycle.
pub(super) struct Vectors<T> {
    /// Of the divided levels.
    levels: Vec<OfLevel<T>>,
    last: Last<T>,
}

/// The vectors of a level: the right-hand side, the iterate, and the residual.
struct OfLevel<T> {
    b: DistributedVec<T>,
    x: DistributedVec<T>,
    r: DistributedVec<T>,
    /// The last change of the iterate, for a smoother of several steps.
    change: Option<DistributedVec<T>>,
}

/// The vectors of the gathered level: divided among the ranks, and whole.
struct Last<T> {
    b: DistributedVec<T>,
    x: DistributedVec<T>,
    whole_b: DeviceVec<T>,
    whole_x: DeviceVec<T>,
}

impl<T: Scalar> Vectors<T> {
    pub(super) fn new(hierarchy: &Hierarchy<'_, T>) -> Result<Self> {
        let communicator = hierarchy.finest().communicator();
        // With room for the halos, so that what is recorded allocates nothing.
        let vector = |matrix: &DistributedMatrix<T>, halos: [usize; 2]| {
            let mut vector = DistributedVec::zeros(communicator, matrix.rows())?;
            vector.blocks_mut().reserve(halos[0].max(halos[1]))?;
            Ok::<_, crate::Error>(vector)
        };
        let mut of_p = 0;
        let mut levels = Vec::new();
        for Level { a, p, r, factors, .. } in &hierarchy.levels {
            levels.push(OfLevel {
                b: vector(a, [0, 0])?,
                x: vector(a, [a.halo().rows(), of_p])?,
                r: vector(a, [r.halo().rows(), 0])?,
                change: (factors.len() > 1).then(|| vector(a, [0, 0])).transpose()?,
            });
            of_p = p.halo().rows();
        }
        let Gathered { partition, halo, .. } = &hierarchy.gathered;
        let mut last = Last {
            b: DistributedVec::zeros(communicator, partition)?,
            x: DistributedVec::zeros(communicator, partition)?,
            whole_b: communicator.device().zeros(partition.len())?,
            whole_x: communicator.device().zeros(partition.len())?,
        };
        last.b.blocks_mut().reserve(halo.rows())?;
        last.x.blocks_mut().reserve(of_p)?;
        Ok(Self { levels, last })
    }

    pub(super) fn bytes(&self) -> usize {
        let of_level = |OfLevel { b, x, r, change }: &OfLevel<T>| {
            [Some(b), Some(x), Some(r), change.as_ref()].into_iter().flatten().map(room).sum::<usize>()
        };
        let Last { b, x, whole_b, whole_x } = &self.last;
        let last = room(b) + room(x) + whole_b.len() + whole_x.len();
        (self.levels.iter().map(of_level).sum::<usize>() + last) * size_of::<T>()
    }
}

fn room<T: Scalar>(vector: &DistributedVec<T>) -> usize {
    vector.blocks().storage().len()
}

impl<T: Scalar> Hierarchy<'_, T> {
    /// `z = M r`: one V-cycle from 0, on this rank's elements.
    pub(super) fn cycle(
        &self,
        vectors: &mut Vectors<T>,
        r: DeviceSlice<'_, T>,
        mut z: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let Vectors { levels, last } = vectors;
        let b = levels.first_mut().map_or(&mut last.b, |finest| &mut finest.b);
        b.local_mut().assign(r)?;
        self.descend(&self.levels, levels, last)?;
        z.assign(levels.first().map_or(&last.x, |finest| &finest.x).local())
    }

    fn descend(&self, levels: &[Level<'_, T>], vectors: &mut [OfLevel<T>], last: &mut Last<T>) -> Result<()> {
        let (Some((level, levels)), Some((own, coarser))) = (levels.split_first(), vectors.split_first_mut()) else {
            return self.gathered.solve(last);
        };
        level.smooth_from_zero(own)?;
        level.residual(own)?;
        let coarse_b = coarser.first_mut().map_or(&mut last.b, |coarse| &mut coarse.b);
        level.r.spmv_as_agreed(1.0, &mut own.r, 0.0, coarse_b)?;
        self.descend(levels, coarser, last)?;
        let coarse_x = coarser.first_mut().map_or(&mut last.x, |coarse| &mut coarse.x);
        level.p.spmv_as_agreed(1.0, coarse_x, 1.0, &mut own.x)?;
        level.smooth(own)
    }
}

impl<T: Scalar> Level<'_, T> {
    /// `r = b - A x`.
    fn residual(&self, OfLevel { b, x, r, .. }: &mut OfLevel<T>) -> Result<()> {
        r.assign(b)?;
        self.a.spmv_as_agreed(-1.0, x, 1.0, r)
    }

    /// The steps of the smoother from 0: the first takes no product.
    fn smooth_from_zero(&self, of: &mut OfLevel<T>) -> Result<()> {
        of.r.local_mut().zip_from(Zip::Mul, &self.inverse, of.b.local())?;
        of.x.axpby(T::from_f64(self.factors[0].alpha), &of.r, T::default())?;
        if let Some(change) = &mut of.change {
            change.assign(&of.x)?;
        }
        self.steps(of, 1)
    }

    fn smooth(&self, of: &mut OfLevel<T>) -> Result<()> {
        self.steps(of, 0)
    }

    /// The steps from this one on: `x = x + alpha D (b - A x) + beta (x - older)`.
    fn steps(&self, of: &mut OfLevel<T>, first: usize) -> Result<()> {
        for factors in &self.factors[first..] {
            self.residual(of)?;
            let OfLevel { x, r, change, .. } = of;
            r.local_mut().zip(Zip::Mul, &self.inverse)?;
            let [alpha, beta] = [factors.alpha, factors.beta].map(T::from_f64);
            match change {
                None => x.axpy(alpha, &*r)?,
                Some(change) => {
                    change.axpby(alpha, &*r, beta)?;
                    x.axpy(T::from_f64(1.0), &*change)?;
                }
            }
        }
        Ok(())
    }
}

impl<T: Scalar> Gathered<T> {
    /// Gathers the right-hand side, and solves for all elements, of which this rank keeps its own.
    fn solve(&self, Last { b, x, whole_b, whole_x }: &mut Last<T>) -> Result<()> {
        let communicator = b.blocks().communicator().clone();
        let call = (!communicator.exchanges_in_streams()).then(|| communicator.call("a gather in multigrid"));
        self.halo.exchange(call, b.blocks_mut(), |_| Ok(()))?;
        whole_b.gather(&self.order, b.blocks().storage().slice(..whole_b.len())?)?;
        self.amg.apply(whole_b.as_slice(), whole_x.as_slice_mut())?;
        x.local_mut().assign(whole_x.slice(self.own.clone())?)
    }
}
