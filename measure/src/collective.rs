//! Products over several devices, a rank on each.

use std::time::{Duration, Instant};

use warpsparse::{
    Result, Scalar, SpmvOptions,
    distributed::{Communicator, DistributedDense, DistributedMatrix, DistributedVec},
};

use super::{Clock, DenseProblem, DenseReport, Figures, Problem, ProductReport, Ranks, Times};

/// A measurement on one of several ranks. All ranks call the same functions in the same order.
#[derive(Debug)]
pub struct Collective<'c> {
    /// The rank.
    pub communicator: &'c Communicator,
    samples: usize,
    /// Of all ranks together, in bytes a second.
    pub copy_bandwidth: f64,
}

impl Ranks {
    /// Measures with so many samples on every rank. Returns the copy bandwidth of all ranks, which copy at the same time, in bytes a second, and
    /// the result of rank 0; in another process nothing.
    pub fn measure<R: Send>(
        &self,
        samples: usize,
        measure: impl Fn(&Collective<'_>) -> Result<R> + Sync,
    ) -> Result<Option<(f64, R)>> {
        self.run(|communicator| {
            communicator.barrier()?;
            let copy_bandwidth = communicator.sum(&[communicator.device().measure_copy_bandwidth()?])?[0];
            Ok((copy_bandwidth, measure(&Collective::new(communicator, samples, copy_bandwidth))?))
        })
    }
}

impl<'c> Collective<'c> {
    /// With so many samples, where all ranks together copy so many bytes a second.
    #[must_use]
    pub fn new(communicator: &'c Communicator, samples: usize, copy_bandwidth: f64) -> Self {
        Self { communicator, samples, copy_bandwidth }
    }

    /// The wall time of a collective call, from when all ranks begin until all have ended. A sample on GPUs is as many calls, one queued
    /// after the other, as take about 2 ms.
    pub fn times(&self, mut call: impl FnMut() -> Result<()>) -> Result<Times> {
        const SAMPLE: Duration = Duration::from_millis(2);
        const MAX_CALLS: u128 = 1000;
        let communicator = self.communicator;
        let device = communicator.device();
        let mut sample = |calls: u32| {
            communicator.barrier()?;
            let start = Instant::now();
            (0..calls).try_for_each(|_| call())?;
            device.synchronize()?;
            communicator.barrier()?;
            Ok::<_, warpsparse::Error>(start.elapsed() / calls)
        };
        sample(1)?; // the first use of a kernel loads it
        let one = sample(1)?.max(Duration::from_nanos(1));
        // All ranks make as many calls.
        let wanted = if device.is_cuda() { SAMPLE.as_nanos().div_ceil(one.as_nanos()).min(MAX_CALLS) } else { 1 };
        let calls = communicator.sum(&[if communicator.rank() == 0 { wanted as f64 } else { 0.0 }])?[0] as u32;
        let clock = if device.is_cuda() { Clock::Calls } else { Clock::Wall };
        Ok(Times::of_host(clock, (0..self.samples).map(|_| sample(calls)).collect::<Result<_>>()?))
    }

    /// Measures the product with a vector, by the kernels that `options` lead to.
    pub fn product<T: Scalar>(&self, problem: &Problem<T>, options: &SpmvOptions) -> Result<ProductReport> {
        let (communicator, [zero, one]) = (self.communicator, [0.0, 1.0].map(T::from_f64));
        let a = DistributedMatrix::from_whole_with(communicator, &problem.matrix, options)?;
        let mut x = DistributedVec::from_whole(communicator, a.columns(), &problem.x)?;
        let mut y = DistributedVec::zeros(communicator, a.rows())?;
        y.fill(T::from_f64(f64::NAN))?;
        let times = self.times(|| a.spmv(one, &mut x, zero, &mut y))?;
        let errors = problem.reference.errors(&y.gather()?);
        let figures = Figures::new(&times, problem.bytes, &errors, self.copy_bandwidth);
        Ok(self.report(&a, problem.bytes, figures))
    }

    /// Measures the product with a dense matrix.
    pub fn dense_product<T: Scalar>(&self, problem: &DenseProblem<'_, T>) -> Result<DenseReport> {
        let &DenseProblem { matrix, cols, b, bytes, ref reference, .. } = problem;
        let (communicator, [zero, one]) = (self.communicator, [0.0, 1.0].map(T::from_f64));
        let a = DistributedMatrix::from_whole(communicator, matrix)?;
        let mut b = DistributedDense::from_whole(communicator, a.columns(), cols, b)?;
        let mut c = DistributedDense::zeros(communicator, a.rows(), cols)?;
        let times = self.times(|| a.spmm(one, &mut b, zero, &mut c))?;
        let errors = reference.errors(&reference.pick(&c.gather()?));
        let figures = Figures::new(&times, bytes, &errors, self.copy_bandwidth);
        Ok(DenseReport {
            gflop_per_s: 2e-3 * (matrix.nnz() * cols) as f64 / figures.us(),
            product: self.report(&a, bytes, figures),
            repeats: self.samples,
            checked_rows: reference.known_rows(),
        })
    }

    fn report<T: Scalar>(&self, a: &DistributedMatrix<T>, bytes: usize, figures: Figures) -> ProductReport {
        ProductReport { kernel: a.describe(), reason: self.communicator.describe(), bytes, rotation: 1, figures }
    }
}
