//! The largest eigenvalue of `D^-1 A` over all ranks.

use std::mem;

use crate::{
    DeviceVec, Map, Result, Scalar, Zip,
    distributed::{DistributedMatrix, DistributedVec},
    solver::multigrid::{STEPS, bounded, ritz_values},
};

/// An upper bound, in practice, as for one device: from the bound of each rank's rows, or by Lanczos's method. `inverse` is that of this rank's diagonal. Collective.
pub(super) fn largest<T: Scalar>(a: &DistributedMatrix<T>, inverse: &DeviceVec<T>, bound: f64) -> Result<f64> {
    let bounds = a.communicator().call("bounds of eigenvalues").numbers(&[bound])?;
    let bound = bounds.iter().map(|bound| bound[0]).fold(0.0, f64::max);
    bounded(bound, (a.nnz(), a.nrows()), || lanczos(a, inverse))
}

/// The largest Ritz value of `D^-1/2 A D^-1/2` (Lanczos, 1950).
fn lanczos<T: Scalar>(a: &DistributedMatrix<T>, inverse: &DeviceVec<T>) -> Result<f64> {
    let communicator = a.communicator();
    let vector = || DistributedVec::<T>::zeros(communicator, a.rows());
    let (zero, one, real) = (T::default(), T::from_f64(1.0), T::from_f64);
    let mut roots = communicator.device().zeros(inverse.len())?;
    roots.map_from(Map::Sqrt, inverse)?;
    let (mut v, mut before, mut scaled, mut w) = (vector()?, vector()?, vector()?, vector()?);
    w.local_mut().fill_uniform(1 + communicator.rank() as u64, real(-1.0), one)?;
    let mut beta = w.norm2()?.get()?.to_f64();
    let mut log = Vec::new();
    for step in 0..STEPS {
        v.axpby(real(1.0 / beta), &w, zero)?;
        scaled.local_mut().zip_from(Zip::Mul, &roots, v.local())?;
        a.spmv(one, &mut scaled, zero, &mut w)?;
        w.local_mut().zip(Zip::Mul, &roots)?;
        let alpha = w.dot(&v)?.get()?.to_f64();
        w.axpy(real(-alpha), &v)?;
        if step > 0 {
            w.axpy(real(-beta), &before)?;
        }
        beta = w.norm2()?.get()?.to_f64();
        log.extend([alpha, beta]);
        mem::swap(&mut v, &mut before);
    }
    Ok(ritz_values(&log).1)
}
