//! Operations on vectors.

mod operation;
mod reference;

use measure::{Measurement, ProductReport, random_elements, reference::read};
use rayon::prelude::*;
use warpsparse::{Device, DeviceScalar, DeviceVec, Result, Scalar};

pub(crate) use self::operation::{ALPHA, Operation, SCALE};
use self::reference::VectorReference;

/// What operations begin with.
pub(crate) struct Vectors<T> {
    pub(crate) x: Vec<T>,
    pub(crate) y: Vec<T>,
}

/// An operation on vectors, and what it gives.
pub(crate) struct VectorProblem<'a, T> {
    pub(crate) operation: Operation,
    pub(crate) vectors: &'a Vectors<T>,
    /// Bytes that it must move at least.
    pub(crate) bytes: usize,
    pub(crate) reference: VectorReference,
}

impl<T: Scalar> Vectors<T> {
    /// Random numbers from -1 to 1. Those of `y` have the signs of those of `x`: a dot product is then the sum of its terms' magnitudes, and one
    /// that lacks terms is noticed even where it may be added up in `f32`.
    pub(crate) fn random(n: usize) -> Result<Self> {
        let x: Vec<T> = random_elements(n, 0)?;
        let mut y: Vec<T> = random_elements(n, 1)?;
        y.par_iter_mut().zip(&x).for_each(|(y, x)| *y = T::from_f64(y.to_f64().copysign(x.to_f64())));
        Ok(Self { x, y })
    }

    pub(crate) fn problem(&self, operation: Operation) -> Result<VectorProblem<'_, T>> {
        let bytes = operation.vectors() * size_of_val(&self.x[..]);
        let reference = VectorReference::new(operation, &self.x, &self.y)?;
        Ok(VectorProblem { operation, vectors: self, bytes, reference })
    }
}

/// Copies of the vectors on the device, and where results go that are numbers.
pub(crate) struct VectorSets<T> {
    sets: Vec<Set<T>>,
    number: DeviceScalar<T>,
    index: DeviceScalar<u64>,
}

struct Set<T> {
    x: DeviceVec<T>,
    /// The only one that operations write.
    y: DeviceVec<T>,
    /// What `y` begins with.
    z: DeviceVec<T>,
}

impl<T: Scalar> VectorSets<T> {
    /// None yet.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { sets: Vec::new(), number: device.scalar(T::default())?, index: device.scalar(0)? })
    }

    /// Adds those that are missing of so many.
    fn fill(&mut self, device: &Device, Vectors { x, y }: &Vectors<T>, count: usize) -> Result<()> {
        while self.sets.len() < count {
            let (x, mut y, z) = (device.upload_vec(x)?, device.zeros(y.len())?, device.upload_vec(y)?);
            y.assign(&z)?;
            self.sets.push(Set { x, y, z });
        }
        Ok(())
    }

    fn run(&mut self, operation: Operation, set: usize) -> Result<()> {
        operation.run(&mut self.sets[set], &mut self.number, &mut self.index)
    }

    /// What the operation makes of the first set as that is in the beginning: the elements that are known, and numbers.
    fn result(&mut self, problem: &VectorProblem<'_, T>) -> Result<(Vec<T>, Vec<f64>)> {
        let Set { y, z, .. } = &mut self.sets[0];
        y.assign(&*z)?;
        self.number.set(T::from_f64(f64::NAN))?;
        self.run(problem.operation, 0)?;
        let elements = read(&self.sets[0].y, problem.reference.places())?;
        let numbers = [self.number.get()?.to_f64(), self.index.get()? as f64];
        Ok((elements, numbers[..problem.reference.numbers()].to_vec()))
    }
}

impl<T: Scalar> VectorProblem<'_, T> {
    /// Measures the operation on copies of the vectors, to which those are added that are missing.
    pub(crate) fn measure(by: &Measurement<'_, Self>, copies: &mut VectorSets<T>) -> Result<ProductReport> {
        let &VectorProblem { operation, vectors, bytes, ref reference } = by.problem;
        let rotation = by.rotation(bytes);
        copies.fill(by.device, vectors, rotation)?;
        let (elements, numbers) = copies.result(by.problem)?;
        let times = by.times(by.device, rotation, |set| copies.run(operation, set))?;
        // Ours are added up in f64, whatever the elements are.
        let figures = by.figures(&times, bytes, &reference.errors::<T, f64>(&elements, &numbers));
        let (kernel, reason) = (operation.call().into(), "the only way to compute it".into());
        Ok(ProductReport { kernel, reason, bytes, rotation, figures })
    }
}
