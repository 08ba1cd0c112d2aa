//! What the model of the expected time takes from the devices.

use measure::{Collective, Spread, Times};
use warpsparse::{
    CsrMatrix, Result, Scalar, Tolerance,
    distributed::{DistributedCg, DistributedDense, DistributedMatrix, DistributedVec, Partition},
};

use super::system::{Operation, random_element};

/// Rows of a rank that cost nothing but latency.
const FEW: usize = 1000;

/// The most iterations on them: more would leave no residual.
const MAX_ITERATIONS: usize = 500;

/// Figures of so many devices.
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub(super) devices: usize,
    /// Of all devices, which copy at the same time, in bytes a second.
    pub(super) copy_bandwidth: f64,
    /// Of an exchange in which each rank receives from one other, in bytes a second; infinite if it takes no time.
    exchange_bandwidth: f64,
    /// Of operations on few rows.
    product_us: f64,
    dense_product_us: f64,
    iteration_us: f64,
}

impl Links {
    pub(super) fn measure<T: Scalar>(rank: &Collective<'_>, iterations: usize) -> Result<Self> {
        let (devices, [zero, one]) = (rank.communicator.size(), [0.0, 1.0].map(T::from_f64));
        let few = ring::<T>(rank, FEW, &[(0, 2.0001), (1, -1.0), (FEW * devices - 1, -1.0)])?;
        let mut b = DistributedDense::zeros(rank.communicator, few.rows(), 2)?;
        let mut c = DistributedDense::zeros(rank.communicator, few.rows(), 2)?;
        let dense_product_us = median(&rank.times(|| few.spmm(one, &mut b, zero, &mut c))?);
        // Whose exchange is long.
        let many = if rank.communicator.device().is_cuda() { 1 << 20 } else { 1 << 14 };
        let exchange_us = match devices {
            1 => 0.0,
            // Each rank's own elements, or those of the next one.
            _ => {
                let own_us = product_us(rank, &ring::<T>(rank, many, &[(0, 1.0)])?)?;
                product_us(rank, &ring::<T>(rank, many, &[(many, 1.0)])?)? - own_us
            }
        };
        let is_timed = exchange_us > f64::EPSILON;
        let bytes = (many * size_of::<T>()) as f64;
        let exchange_bandwidth = if is_timed { bytes / exchange_us * 1e6 } else { f64::INFINITY };
        Ok(Self {
            devices,
            copy_bandwidth: rank.copy_bandwidth,
            exchange_bandwidth,
            product_us: product_us(rank, &few)?,
            dense_product_us,
            iteration_us: iteration_us(rank, &few, iterations)?,
        })
    }

    /// The expected time of an operation, in which the rank that moves most moves so many bytes.
    pub(super) fn expected_us(&self, operation: Operation, bytes: usize, halo_bytes: usize) -> f64 {
        let latency_us = match operation {
            Operation::Spmv => self.product_us,
            Operation::Spmm => self.dense_product_us,
            Operation::Cg => self.iteration_us,
        };
        let copy_us = bytes as f64 * self.devices as f64 / self.copy_bandwidth * 1e6;
        latency_us + copy_us + halo_bytes as f64 / self.exchange_bandwidth * 1e6
    }
}

/// A matrix with `rows` rows on each rank, whose row `i` has these values in the columns `i` plus a distance, around the ring of all rows.
fn ring<T: Scalar>(rank: &Collective<'_>, rows: usize, entries: &[(usize, f64)]) -> Result<DistributedMatrix<T>> {
    let (communicator, all) = (rank.communicator, rows * rank.communicator.size());
    let first = communicator.rank() * rows;
    let offsets = (0..=rows).map(|row| (row * entries.len()) as u32).collect();
    let columns = (first..first + rows).flat_map(|row| {
        let mut columns: Vec<_> = entries.iter().map(|&(distance, value)| ((row + distance) % all, value)).collect();
        columns.sort_unstable_by_key(|&(column, _)| column);
        columns
    });
    let (columns, values) = columns.map(|(column, value)| (column as u32, T::from_f64(value))).unzip();
    let block = CsrMatrix::try_from_csr_data(rows, all, offsets, columns, values)?;
    DistributedMatrix::from_rows(communicator, &block, &Partition::even(communicator, all))
}

fn median(times: &Times) -> f64 {
    Spread::of(&times.each).median
}

fn product_us<T: Scalar>(rank: &Collective<'_>, a: &DistributedMatrix<T>) -> Result<f64> {
    let [zero, one] = [0.0, 1.0].map(T::from_f64);
    let mut x = DistributedVec::zeros(rank.communicator, a.columns())?;
    let mut y = DistributedVec::zeros(rank.communicator, a.rows())?;
    Ok(median(&rank.times(|| a.spmv(one, &mut x, zero, &mut y))?))
}

/// Of so many iterations at most.
fn iteration_us<T: Scalar>(rank: &Collective<'_>, a: &DistributedMatrix<T>, iterations: usize) -> Result<f64> {
    let first = a.rows().rows(rank.communicator.rank()).start;
    // Not constant, or one iteration would do.
    let local: Vec<T> = (first..first + FEW).map(|row| T::from_f64(random_element(row))).collect();
    let b = DistributedVec::from_local(rank.communicator, a.rows(), &local)?;
    let mut x = DistributedVec::zeros(rank.communicator, a.rows())?;
    let mut cg = DistributedCg::new(a)
        .tolerance(Tolerance::relative(0.0))
        .max_iterations(iterations.min(MAX_ITERATIONS))
        .preconditioner(a.jacobi()?);
    let mut took = 1;
    let times = rank.times(|| {
        x.fill(T::default())?;
        took = cg.solve(&b, &mut x)?.iterations.max(1);
        Ok(())
    })?;
    Ok(median(&times) / took as f64)
}
