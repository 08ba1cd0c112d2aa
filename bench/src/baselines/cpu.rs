//! The sparse matrices of nalgebra and of sprs. Both multiply on one core.

use measure::{DenseProblem, Measurement, Problem, Times};
use nalgebra_sparse::{
    na::{DMatrix, DVector, RealField},
    ops::{Op, serial::spmm_csr_dense},
};
use ndarray::{ArrayView2, ArrayViewMut2};
use warpsparse::{CsrMatrix, Scalar};

use super::Run;

/// What the two ask of an element type.
pub(crate) trait Number: RealField + Copy {
    /// `y += A x` by sprs, whose bounds are on references and thus no supertraits.
    fn multiply_by_sprs(a: &sprs::CsMatI<Self, u32>, x: &[Self], y: &mut [Self]);

    /// `C += A B` by sprs.
    fn multiply_dense_by_sprs(a: &sprs::CsMatI<Self, u32>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>);
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn multiply_by_sprs(a: &sprs::CsMatI<Self, u32>, x: &[Self], y: &mut [Self]) {
                sprs::prod::mul_acc_mat_vec_csr(a.view(), x, y);
            }

            fn multiply_dense_by_sprs(
                a: &sprs::CsMatI<Self, u32>,
                b: ArrayView2<'_, Self>,
                c: ArrayViewMut2<'_, Self>,
            ) {
                sprs::prod::csr_mulacc_dense_rowmaj(a.view(), b, c);
            }
        }
    )*};
}
numbers!(f32, f64);

pub(super) fn nalgebra_sparse<T: Scalar + Number>(measurement: &Measurement<'_, Problem<T>>) -> Result<Run, String> {
    let Problem { matrix, x, bytes, reference } = measurement.problem;
    let a = nalgebra_matrix(matrix)?;
    let x = DVector::from_column_slice(x);
    let mut y = DVector::from_element(matrix.nrows(), T::zero());
    // What `a * x` calls, without its allocation of the result.
    let times = time(measurement, || spmm_csr_dense(T::zero(), &mut y, T::one(), Op::NoOp(&a), Op::NoOp(&x)))?;
    let figures = measurement.figures(&times, *bytes, &reference.errors(y.as_slice()));
    Ok(Run { variant: "spmm_csr_dense".into(), format: None, figures })
}

/// Its dense matrices are column-major.
pub(super) fn nalgebra_sparse_dense<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
) -> Result<Run, String> {
    let &DenseProblem { matrix, cols, b, bytes, ref reference, .. } = measurement.problem;
    let a = nalgebra_matrix(matrix)?;
    let b = DMatrix::from_row_slice(matrix.ncols(), cols, b);
    let mut c = DMatrix::from_element(matrix.nrows(), cols, T::zero());
    let times = time(measurement, || spmm_csr_dense(T::zero(), &mut c, T::one(), Op::NoOp(&a), Op::NoOp(&b)))?;
    let by_rows = c.transpose();
    let figures = measurement.figures(&times, bytes, &reference.errors(&reference.pick(by_rows.as_slice())));
    Ok(Run { variant: "spmm_csr_dense, column-major".into(), format: None, figures })
}

pub(super) fn sprs<T: Scalar + Number>(measurement: &Measurement<'_, Problem<T>>) -> Result<Run, String> {
    let Problem { matrix, x, bytes, reference } = measurement.problem;
    let a = sprs_matrix(matrix)?;
    let mut y = vec![T::zero(); matrix.nrows()];
    // What `a * x` calls, without its allocation of the result.
    let times = time(measurement, || {
        y.fill(T::zero());
        T::multiply_by_sprs(&a, x, &mut y);
    })?;
    let figures = measurement.figures(&times, *bytes, &reference.errors(&y));
    Ok(Run { variant: "mul_acc_mat_vec_csr".into(), format: None, figures })
}

pub(super) fn sprs_dense<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
) -> Result<Run, String> {
    let &DenseProblem { matrix, cols, b, bytes, ref reference, .. } = measurement.problem;
    let a = sprs_matrix(matrix)?;
    let shape_error = |error: ndarray::ShapeError| error.to_string();
    let b = ArrayView2::from_shape((matrix.ncols(), cols), b).map_err(shape_error)?;
    let mut c = ndarray::Array2::from_elem((matrix.nrows(), cols), T::zero());
    let times = time(measurement, || {
        c.fill(T::zero());
        T::multiply_dense_by_sprs(&a, b, c.view_mut());
    })?;
    let found = reference.pick(c.as_slice().expect("made row by row, without gaps"));
    let figures = measurement.figures(&times, bytes, &reference.errors(&found));
    Ok(Run { variant: "csr_mulacc_dense_rowmaj".into(), format: None, figures })
}

fn nalgebra_matrix<T: Scalar + Number>(matrix: &CsrMatrix<T>) -> Result<nalgebra_sparse::CsrMatrix<T>, String> {
    let wide = |indices: &[u32]| indices.iter().map(|&index| index as usize).collect();
    let (offsets, columns) = (wide(matrix.row_offsets()), wide(matrix.col_indices()));
    let (nrows, ncols, values) = (matrix.nrows(), matrix.ncols(), matrix.values().to_vec());
    let a = nalgebra_sparse::CsrMatrix::try_from_unsorted_csr_data(nrows, ncols, offsets, columns, values);
    a.map_err(|error| error.to_string())
}

fn sprs_matrix<T: Scalar + Number>(matrix: &CsrMatrix<T>) -> Result<sprs::CsMatI<T, u32>, String> {
    let (offsets, columns) = (matrix.row_offsets().to_vec(), matrix.col_indices().to_vec());
    let shape = (matrix.nrows(), matrix.ncols());
    let a = sprs::CsMatI::new_from_unsorted(shape, offsets, columns, matrix.values().to_vec());
    a.map_err(|(.., error)| error.to_string())
}

fn time<P>(measurement: &Measurement<'_, P>, mut multiply: impl FnMut()) -> Result<Times, String> {
    let call = |_| {
        multiply();
        Ok(())
    };
    measurement.times(measurement.device, 1, call).map_err(|error| error.to_string())
}
