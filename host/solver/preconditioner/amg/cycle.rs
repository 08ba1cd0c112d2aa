//! The cycle over the levels.

use super::{
    setup::{Hierarchy, Last, Level},
    sweep::Smoothed,
};
use crate::{CastFrom, Device, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar, device::paused, vector};

/// The vectors of a cycle.
#[derive(Debug)]
pub(super) struct Workspace<T> {
    iterates: Vec<Iterates<T>>,
    /// Of all levels but the finest, for which the caller has them.
    ends: Vec<Ends<T>>,
    /// Those of the finest level, where the caller's are of another type.
    cast: Option<Ends<T>>,
}

/// The iterates of the smoother on a level: the last first, then those before it.
#[derive(Debug)]
pub(in super::super) struct Iterates<T>([DeviceVec<T>; 3]);

/// Where a visit of a level begins.
#[derive(Clone, Copy, PartialEq)]
enum Guess {
    Zero,
    /// What `x` holds.
    X,
}

/// The right-hand side and the solution of a level.
#[derive(Debug)]
struct Ends<T> {
    b: DeviceVec<T>,
    x: DeviceVec<T>,
}

impl<T: Scalar> Workspace<T> {
    pub(super) fn new(hierarchy: &Hierarchy<T>) -> Result<Self> {
        let device = hierarchy.finest().device();
        let levels = hierarchy.levels.iter().map(|level| Some(&level.smoothed)).chain([hierarchy.last.smoothed()]);
        let iterates = |smoothed: Option<&Smoothed<T>>| Iterates::new(device, smoothed);
        let ends = |level: &Level<T>| Ok(Ends { b: device.zeros(level.r.nrows())?, x: device.zeros(level.r.nrows())? });
        Ok(Self {
            iterates: levels.map(iterates).collect::<Result<_>>()?,
            ends: hierarchy.levels.iter().map(ends).collect::<Result<_>>()?,
            cast: None,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let iterates = self.iterates.iter().flat_map(|iterates| &iterates.0).map(DeviceVec::len);
        let ends = self.ends.iter().chain(&self.cast).map(|ends| ends.b.len() + ends.x.len());
        iterates.chain(ends).sum::<usize>() * size_of::<T>()
    }
}

impl<T: Scalar> Last<T> {
    fn smoothed(&self) -> Option<&Smoothed<T>> {
        match self {
            Self::Direct(_) => None,
            Self::Smoothed(smoothed) => Some(smoothed),
        }
    }
}

impl<T: Scalar> Iterates<T> {
    /// Room for the iterates of a smoother, if there is one.
    pub(in super::super) fn new(device: &Device, smoothed: Option<&Smoothed<T>>) -> Result<Self> {
        // A step needs two vectors, several steps with the residual three.
        let room = |number: usize| match smoothed {
            Some(smoothed) if number < 2 || smoothed.factors.len() > 1 => smoothed.operator.a.nrows(),
            _ => 0,
        };
        Ok(Self([device.zeros(room(0))?, device.zeros(room(1))?, device.zeros(room(2))?]))
    }

    /// The steps from 0; the last one goes to `result`.
    pub(in super::super) fn polynomial(
        &mut self,
        smoothed: &Smoothed<T>,
        b: DeviceSlice<'_, T>,
        result: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let steps = smoothed.factors.len();
        let Some(&last) = smoothed.factors[1..].last() else { return smoothed.first(b, result) };
        self.start(smoothed, steps - 1, b, None)?;
        let [x, older, _] = &self.0;
        smoothed.step(last, b, x.as_slice(), (steps > 2).then(|| older.as_slice()), result)
    }

    /// The next iterate from the others. Then it is the first.
    fn advance(
        &mut self,
        next: impl FnOnce(&DeviceVec<T>, &DeviceVec<T>, DeviceSliceMut<'_, T>) -> Result<()>,
    ) -> Result<()> {
        // With two vectors nothing is older.
        let free = if self.0[2].is_empty() { 1 } else { 2 };
        let (others, last) = self.0.split_at_mut(free);
        next(&others[0], &others[free - 1], last[0].as_slice_mut())?;
        self.0[..=free].rotate_right(1);
        Ok(())
    }

    /// Some steps from a guess, or from 0.
    fn start(
        &mut self,
        smoothed: &Smoothed<T>,
        steps: usize,
        b: DeviceSlice<'_, T>,
        guess: Option<DeviceSlice<'_, T>>,
    ) -> Result<()> {
        for (step, &factors) in smoothed.factors[..steps].iter().enumerate() {
            self.advance(|x, older, y| match (step, guess) {
                (0, None) => smoothed.first(b, y),
                (0, Some(guess)) => smoothed.step(factors, b, guess, None, y),
                (1, guess) => smoothed.step(factors, b, x.as_slice(), guess, y),
                _ => smoothed.step(factors, b, x.as_slice(), Some(older.as_slice()), y),
            })?;
        }
        Ok(())
    }

    /// Steps from the iterate; the last one goes to `result`.
    fn smooth(&mut self, smoothed: &Smoothed<T>, b: DeviceSlice<'_, T>, result: DeviceSliceMut<'_, T>) -> Result<()> {
        let Some((&last, before)) = smoothed.factors.split_last() else { return Ok(()) };
        for (step, &factors) in before.iter().enumerate() {
            self.advance(|x, older, y| {
                let older = (step > 0).then(|| older.as_slice());
                smoothed.step(factors, b, x.as_slice(), older, y)
            })?;
        }
        let [x, older, _] = &self.0;
        let older = (!before.is_empty()).then(|| older.as_slice());
        smoothed.step(last, b, x.as_slice(), older, result)
    }
}

impl<T: Scalar> Hierarchy<T> {
    /// `x = M b`: one cycle from 0.
    pub(super) fn cycle(
        &self,
        workspace: &mut Workspace<T>,
        b: DeviceSlice<'_, T>,
        x: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        self.descend(&self.levels, &mut workspace.iterates, &mut workspace.ends, b, x, Guess::Zero)
    }

    /// As [`cycle`](Self::cycle), for vectors of another type.
    pub(super) fn cycle_cast<U: Scalar + CastFrom<T>>(
        &self,
        workspace: &mut Workspace<T>,
        b: DeviceSlice<'_, U>,
        x: DeviceSliceMut<'_, U>,
    ) -> Result<()>
    where
        T: CastFrom<U>,
    {
        let Workspace { iterates, ends, cast } = workspace;
        if cast.is_none() {
            let device = self.finest().device();
            // Not in a graph, which would clear them each time.
            *cast = Some(paused(|| Ok(Ends { b: device.zeros(b.len())?, x: device.zeros(b.len())? }))?);
        }
        let Some(own) = cast else { unreachable!("there are some now") };
        vector::cast(own.b.as_slice_mut(), b)?;
        self.descend(&self.levels, iterates, ends, own.b.as_slice(), own.x.as_slice_mut(), Guess::Zero)?;
        vector::cast(x, own.x.as_slice())
    }

    fn descend(
        &self,
        levels: &[Level<T>],
        iterates: &mut [Iterates<T>],
        ends: &mut [Ends<T>],
        b: DeviceSlice<'_, T>,
        x: DeviceSliceMut<'_, T>,
        guess: Guess,
    ) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let (own, iterates) = iterates.split_first_mut().expect("iterates of each level");
        let (Some((level, levels)), Some((coarse, ends))) = (levels.split_first(), ends.split_first_mut()) else {
            return self.solve_last(own, b, x);
        };
        own.start(&level.smoothed, level.smoothed.factors.len(), b, (guess == Guess::X).then(|| x.as_slice()))?;
        // Not an iterate: the last one stays the first.
        let [iterate, second, third] = &mut own.0;
        let residual = if third.is_empty() { second } else { third };
        level.smoothed.residual(b, iterate.as_slice(), residual.as_slice_mut())?;
        level.r.spmv(one, &*residual, zero, &mut coarse.b)?;
        self.descend(levels, iterates, ends, coarse.b.as_slice(), coarse.x.as_slice_mut(), Guess::Zero)?;
        if levels.first().is_some_and(|level| level.is_visited_twice) {
            self.descend(levels, iterates, ends, coarse.b.as_slice(), coarse.x.as_slice_mut(), Guess::X)?;
        }
        level.p.spmv(one, &coarse.x, one, iterate)?;
        own.smooth(&level.smoothed, b, x)
    }

    fn solve_last(&self, own: &mut Iterates<T>, b: DeviceSlice<'_, T>, x: DeviceSliceMut<'_, T>) -> Result<()> {
        match &self.last {
            Last::Direct(direct) => direct.inverse.spmv(T::from_f64(1.0), b, T::default(), x),
            Last::Smoothed(smoothed) => own.polynomial(smoothed, b, x),
        }
    }
}
