//! The sparse matrices of nalgebra and of sprs. Both multiply on one core.

use std::time::Duration;

use nalgebra_sparse::{
    na::{DVector, RealField},
    ops::{Op, serial::spmm_csr_dense},
};
use warpsparse::Scalar;

use super::Run;
use crate::measure::{Measurement, Problem};

/// What the two ask of an element type.
pub(crate) trait Number: RealField + Copy {
    /// `y += A x` by sprs, whose bounds are on references and thus no supertraits.
    fn multiply_by_sprs(a: &sprs::CsMatI<Self, u32>, x: &[Self], y: &mut [Self]);
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn multiply_by_sprs(a: &sprs::CsMatI<Self, u32>, x: &[Self], y: &mut [Self]) {
                sprs::prod::mul_acc_mat_vec_csr(a.view(), x, y);
            }
        }
    )*};
}
numbers!(f32, f64);

pub(super) fn nalgebra_sparse<T: Scalar + Number>(measurement: &Measurement<'_, T>) -> Result<Run<T>, String> {
    let Problem { matrix, x, .. } = measurement.problem;
    let wide = |indices: &[u32]| indices.iter().map(|&index| index as usize).collect();
    let a = nalgebra_sparse::CsrMatrix::try_from_unsorted_csr_data(
        matrix.nrows(),
        matrix.ncols(),
        wide(matrix.row_offsets()),
        wide(matrix.col_indices()),
        matrix.values().to_vec(),
    )
    .map_err(|error| error.to_string())?;
    let x = DVector::from_column_slice(x);
    let mut y = DVector::from_element(matrix.nrows(), T::zero());
    // What `a * x` calls, without its allocation of the result.
    let times = time(measurement, || spmm_csr_dense(T::zero(), &mut y, T::one(), Op::NoOp(&a), Op::NoOp(&x)))?;
    Ok(Run { variant: "spmm_csr_dense".into(), bytes: measurement.problem.bytes, times, y: y.as_slice().to_vec() })
}

pub(super) fn sprs<T: Scalar + Number>(measurement: &Measurement<'_, T>) -> Result<Run<T>, String> {
    let Problem { matrix, x, .. } = measurement.problem;
    let a = sprs::CsMatI::new_from_unsorted(
        (matrix.nrows(), matrix.ncols()),
        matrix.row_offsets().to_vec(),
        matrix.col_indices().to_vec(),
        matrix.values().to_vec(),
    )
    .map_err(|(.., error)| error.to_string())?;
    let mut y = vec![T::zero(); matrix.nrows()];
    // What `a * x` calls, without its allocation of the result.
    let times = time(measurement, || {
        y.fill(T::zero());
        T::multiply_by_sprs(&a, x, &mut y);
    })?;
    Ok(Run { variant: "mul_acc_mat_vec_csr".into(), bytes: measurement.problem.bytes, times, y })
}

fn time<T: Scalar>(measurement: &Measurement<'_, T>, mut multiply: impl FnMut()) -> Result<Vec<Duration>, String> {
    let Measurement { device, repeats, .. } = measurement;
    let operation = |_| {
        multiply();
        Ok(())
    };
    let warm_up = Measurement::<T>::warm_up(1);
    let times = device.time_each(warm_up + repeats, operation).map_err(|error| error.to_string())?;
    Ok(times[warm_up..].to_vec())
}
