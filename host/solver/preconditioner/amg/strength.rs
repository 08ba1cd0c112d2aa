//! Strong connections, and the matrix that smooths a prolongator along them.

use kernels_gpu::amg_strength::{
    FillArgs, Key, Matrix, MeasureArgs, Operation, ScaleArgs, Summary, grid_size, inverse_of, is_strong, scale_of,
    scaled, smoothing,
};

use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{KernelLaunch, launch},
    formats::rows::from_rows,
    parallel::for_blocks,
    primitives::{lanes, row_offsets},
    stored::{Csr, CsrArrays},
};

/// What smoothers know of a matrix, row by row.
pub(crate) struct Scaling<T> {
    /// Of the diagonal; 0 for rows of zeros.
    pub(crate) inverse: DeviceVec<T>,
    /// No eigenvalue of `D^-1 A` is greater (Gershgorin).
    pub(crate) bound: f64,
    pub(super) zero_rows: usize,
}

/// Which entries of a matrix are strong.
pub(crate) struct Strength<T> {
    threshold: f64,
    diagonal: DeviceVec<T>,
    /// What entries are compared with: `t`, see the kernels.
    scales: DeviceVec<T>,
    /// Entries of each row of the smoothing matrix: the strong ones and the diagonal; none for rows of zeros.
    counts: DeviceVec<u32>,
}

impl<T: Scalar> Scaling<T> {
    /// Of a canonical square matrix. Waits for the answer whether it can be smoothed.
    ///
    /// # Errors
    /// [`Breakdown`](Error::Breakdown), naming the first row whose diagonal is not positive, though there are other entries, or that has a number that is
    /// not finite.
    pub(in super::super) fn of(a: &DeviceMatrix<T>) -> Result<Self> {
        let diagonal = a.diagonal()?;
        // Nobody asks what is strong: no scales need be found.
        Ok(measured(a, &diagonal, &diagonal, 0.0)?.0)
    }
}

impl<T: Scalar> Strength<T> {
    /// Of a canonical square matrix, with its scaling: as [`Scaling::of`].
    pub(crate) fn of(a: &DeviceMatrix<T>, threshold: f64) -> Result<(Scaling<T>, Self)> {
        let diagonal = a.diagonal()?;
        let mut scales = a.device().scratch(a.nrows())?;
        match csr(a) {
            Csr::Host(matrix) => scale_on_cpu(matrix, diagonal.as_slice().on_cpu(), on_cpu(&mut scales)),
            Csr::Device(arrays) if arrays.nrows > 0 => {
                let (values, lanes) = (arrays.values.read(), lanes(arrays.nnz, arrays.nrows));
                let matrix = matrix(arrays, &values, (&diagonal, None), threshold);
                let args = ScaleArgs { new_scales: scales.writable(), matrix };
                let entry = Key { operation: Operation::Scale, lanes, dtype: T::DTYPE }.entry();
                // SAFETY: a valid, square, canonical matrix, its diagonal, and a place for each row.
                unsafe { launch(&arrays.device, entry, grid_size(arrays.nrows, lanes), args) }?;
            }
            Csr::Device(_) => {}
        }
        let (scaling, counts) = measured(a, &diagonal, &scales, threshold)?;
        Ok((scaling, Self { threshold, diagonal, scales, counts }))
    }

    /// The pattern of the smoothing matrix: offsets and the number of entries.
    pub(crate) fn pattern(&self) -> Result<(DeviceVec<u32>, u32)> {
        let (offsets, entries) = row_offsets::<u32>(&self.counts)?;
        Ok((offsets, entries as u32))
    }

    /// `S = I - omega G^-1 F`, see the kernels, with this pattern.
    pub(crate) fn smoothing_matrix(
        &self,
        a: &DeviceMatrix<T>,
        (offsets, new_entries): (DeviceVec<u32>, u32),
        omega: f64,
    ) -> Result<DeviceMatrix<T>> {
        let device = a.device();
        match csr(a) {
            Csr::Host(matrix) => {
                let smoothed = fill_on_cpu(matrix, self.vectors_on_cpu(), self.threshold, omega, &offsets)?;
                Ok(DeviceMatrix::of_host_csr(device, smoothed))
            }
            Csr::Device(arrays) => {
                let (mut columns, mut new_values) =
                    (device.scratch(new_entries as usize)?, device.scratch(new_entries as usize)?);
                if new_entries > 0 {
                    let (values, lanes) = (arrays.values.read(), lanes(arrays.nnz, arrays.nrows));
                    let args = FillArgs {
                        omega,
                        new_entries,
                        new_offsets: offsets.readable(),
                        new_columns: columns.writable(),
                        new_values: new_values.writable(),
                        matrix: matrix(arrays, &values, (&self.diagonal, Some(&self.scales)), self.threshold),
                    };
                    let entry = Key { operation: Operation::Fill, lanes, dtype: T::DTYPE }.entry();
                    // SAFETY: a valid, square, canonical matrix; the offsets are those of the counts that `measure` has found with this threshold.
                    unsafe { launch(device, entry, grid_size(arrays.nrows, lanes), args) }?;
                }
                let size = (arrays.nrows, arrays.ncols, new_entries);
                // SAFETY: the offsets count what is kept, in the order that the columns have.
                let arrays = unsafe { CsrArrays::of_vectors(size, offsets, columns, new_values, Some(true)) };
                Ok(DeviceMatrix::of_csr(arrays))
            }
        }
    }
}

impl<T: Scalar> Strength<T> {
    /// The diagonal, and what entries are compared with.
    fn vectors_on_cpu(&self) -> (&[T], &[T]) {
        (self.diagonal.as_slice().on_cpu(), self.scales.as_slice().on_cpu())
    }
}

/// The scaling of a matrix with this diagonal, and how many entries of each row are strong or on the diagonal.
fn measured<T: Scalar>(
    a: &DeviceMatrix<T>,
    diagonal: &DeviceVec<T>,
    scales: &DeviceVec<T>,
    threshold: f64,
) -> Result<(Scaling<T>, DeviceVec<u32>)> {
    let (device, n) = (a.device(), a.nrows());
    let (mut counts, mut inverse, mut bounds) = (device.scratch(n)?, device.scratch(n)?, device.scratch(n)?);
    let (first_bad, zero_rows) = match csr(a) {
        Csr::Host(matrix) => {
            let rows = MeasuredRows { counts: &mut counts, inverse: &mut inverse, bounds: &mut bounds };
            let vectors = (diagonal.as_slice().on_cpu(), scales.as_slice().on_cpu());
            measure_on_cpu(matrix, vectors, threshold, rows)?
        }
        Csr::Device(arrays) => {
            let (mut first_bad, mut zero_rows) = (device.upload_vec(&[u32::MAX])?, device.zeros(1)?);
            if n > 0 {
                let (values, lanes) = (arrays.values.read(), lanes(arrays.nnz, arrays.nrows));
                let args = MeasureArgs {
                    counts: counts.writable(),
                    inverse: inverse.writable(),
                    bounds: bounds.writable(),
                    first_bad: first_bad.writable(),
                    zero_rows: zero_rows.writable(),
                    matrix: matrix(arrays, &values, (diagonal, Some(scales)), threshold),
                };
                let entry = Key { operation: Operation::Measure, lanes, dtype: T::DTYPE }.entry();
                // SAFETY: a valid, square, canonical matrix, its diagonal, and a place for each row.
                unsafe { launch(device, entry, grid_size(arrays.nrows, lanes), args) }?;
            }
            (first_bad.to_vec()?[0], zero_rows.to_vec()?[0])
        }
    };
    if first_bad != u32::MAX {
        return Err(bad_row(a, first_bad as usize, diagonal));
    }
    let bound = bounds.norm_inf()?.get()?.to_f64();
    Ok((Scaling { inverse, bound, zero_rows: zero_rows as usize }, counts))
}

/// The matrix in CSR, as which the hierarchy keeps all.
pub(super) fn csr<T: Scalar>(a: &DeviceMatrix<T>) -> Csr<'_, T> {
    a.csr().expect("matrices of a hierarchy are in CSR")
}

fn matrix<'a, T: Scalar>(
    arrays: &'a CsrArrays<T, u32>,
    values: &'a DeviceVec<T>,
    (diagonal, scales): (&'a DeviceVec<T>, Option<&'a DeviceVec<T>>),
    threshold: f64,
) -> Matrix<T, KernelLaunch<'a>> {
    Matrix {
        rows: arrays.nrows,
        entries: arrays.nnz,
        threshold,
        row_offsets: arrays.row_offsets.readable(&arrays.device),
        col_indices: arrays.col_indices.readable(&arrays.device),
        values: values.readable(),
        diagonal: diagonal.readable(),
        scales: scales.map(DeviceVec::readable).unwrap_or_default(),
    }
}

fn bad_row<T: Scalar>(a: &DeviceMatrix<T>, row: usize, diagonal: &DeviceVec<T>) -> Error {
    let element = diagonal.slice(row..=row).and_then(|element| element.to_vec()).map(|element| element[0].to_f64());
    let problem = match element {
        Err(error) => return error,
        Ok(element) if element < 0.0 => {
            format!("the element on the diagonal is {element}: the matrix is not positive definite")
        }
        Ok(element) if element.is_finite() && !(1.0 / element).is_finite() => {
            format!(
                "the element on the diagonal is {element}, though the row has others: the matrix is not positive definite"
            )
        }
        Ok(_) => "a number is not finite, or the diagonal has no finite inverse".into(),
    };
    Error::Breakdown { iteration: 0, problem: format!("row {row} of {}: {problem}", a.nrows()) }
}

/// What is found of each row.
struct MeasuredRows<'a, T> {
    counts: &'a mut DeviceVec<u32>,
    inverse: &'a mut DeviceVec<T>,
    bounds: &'a mut DeviceVec<T>,
}

fn scale_on_cpu<T: Scalar>(matrix: &CsrMatrix<T>, diagonal: &[T], scales: &mut [T]) {
    for_blocks(0..diagonal.len(), scales, &|rows, scales: &mut [T]| {
        for (row, scale) in rows.zip(scales) {
            let (columns, values) = matrix.row(row);
            let own = diagonal[row].to_f64();
            let others = columns.iter().zip(values).filter(|(column, _)| **column as usize != row);
            let greatest = others
                .map(|(&column, &value)| scaled(value.to_f64(), own, diagonal[column as usize].to_f64()))
                .fold(0.0, |greatest, found| if found > greatest { found } else { greatest });
            *scale = T::from_f64(scale_of(own, greatest));
        }
    });
}

/// Returns the first bad row and the number of rows of zeros.
fn measure_on_cpu<T: Scalar>(
    matrix: &CsrMatrix<T>,
    (diagonal, scales): (&[T], &[T]),
    threshold: f64,
    rows: MeasuredRows<'_, T>,
) -> Result<(u32, u32)> {
    let n = matrix.nrows();
    let mut sums = Device::cpu().zeros::<f64>(n)?;
    let of_rows = on_cpu(rows.counts).iter_mut().zip(on_cpu(&mut sums));
    let mut of_rows: Vec<_> = of_rows.collect();
    for_blocks(0..n, &mut of_rows, &|rows, found| {
        for (row, (count, sum)) in rows.zip(found) {
            let (summary, _) = summary(matrix, scales, row, diagonal[row], threshold);
            (**count, **sum) = (summary.strong + 1, summary.sum);
        }
    });
    drop(of_rows);
    let (mut first_bad, mut zero_rows) = (u32::MAX, 0);
    let places = on_cpu(rows.counts).iter_mut().zip(on_cpu(rows.inverse)).zip(on_cpu(rows.bounds));
    for (row, (((count, inverse), bound), &sum)) in places.zip(sums.as_slice().on_cpu()).enumerate() {
        let (is_good, inverted) = inverse_of(diagonal[row], sum);
        if !is_good {
            first_bad = first_bad.min(row as u32);
        }
        *inverse = inverted;
        *bound = T::from_f64((diagonal[row].to_f64() + sum) / diagonal[row].to_f64());
        if is_good && inverted == T::default() {
            (*count, *bound) = (0, T::default());
            zero_rows += 1;
        }
    }
    Ok((first_bad, zero_rows))
}

fn on_cpu<E: crate::Element>(vector: &mut DeviceVec<E>) -> &mut [E] {
    vector.parts_mut().1.on_cpu_mut()
}

fn fill_on_cpu<T: Scalar>(
    matrix: &CsrMatrix<T>,
    (diagonal, scales): (&[T], &[T]),
    threshold: f64,
    omega: f64,
    offsets: &DeviceVec<u32>,
) -> Result<CsrMatrix<T>> {
    let offsets = offsets.as_slice().on_cpu();
    let length = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
    from_rows(matrix.nrows(), matrix.ncols(), length, |row, columns, values| {
        if columns.is_empty() {
            return;
        }
        let (summary, kept) = summary(matrix, scales, row, diagonal[row], threshold);
        let (own, scale) = (diagonal[row].to_f64(), scales[row].to_f64());
        let (filtered, divisor) = summary.diagonals(own);
        let (old_columns, old_values) = matrix.row(row);
        let mut place = 0;
        for (&column, &value) in old_columns.iter().zip(old_values) {
            let value = value.to_f64();
            let is_diagonal = column as usize == row;
            if is_diagonal || column == kept || is_strong(value, scale, scales[column as usize].to_f64(), threshold) {
                columns[place] = column;
                values[place] = T::from_f64(smoothing(omega, is_diagonal, value, filtered, divisor));
                place += 1;
            }
        }
    })
}

/// Of a row, and the column of an entry that is strong only because no other is: added in the order of the kernels.
fn summary<T: Scalar>(matrix: &CsrMatrix<T>, scales: &[T], row: usize, diagonal: T, threshold: f64) -> (Summary, u32) {
    let lanes = lanes(matrix.nnz() as u32, matrix.nrows() as u32) as usize;
    let scale = scales[row].to_f64();
    let mut sums = [Summary::NONE; 32];
    let (columns, values) = matrix.row(row);
    for (entry, (&column, &value)) in columns.iter().zip(values).enumerate() {
        if column as usize != row {
            let (value, other) = (value.to_f64(), scales[column as usize].to_f64());
            let sum = &mut sums[entry % lanes];
            *sum = sum.with(column, value, is_strong(value, scale, other, threshold));
        }
    }
    let mut distance = lanes / 2;
    while distance > 0 {
        for lane in 0..distance {
            sums[lane] = sums[lane].plus(sums[lane + distance]);
        }
        distance /= 2;
    }
    sums[0].of_row(diagonal.to_f64())
}
