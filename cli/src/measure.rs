//! Measuring products with one matrix: what `spmv` and `bench` share.

use std::time::Duration;

use clap::ValueEnum;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use warpsparse::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, FormatChoice, Result, Scalar, SpmvOptions, Structure, io::MatrixSource,
};

use crate::{source, statistics::Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DTypeName {
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatName {
    Auto,
    Csr,
    Coo,
    Dia,
    Ell,
    Hyb,
}

impl From<FormatName> for FormatChoice {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Auto => Self::Auto,
            FormatName::Csr => Self::Csr,
            FormatName::Coo => Self::Coo,
            FormatName::Dia => Self::Dia,
            FormatName::Ell => Self::Ell,
            FormatName::Hyb => Self::Hyb,
        }
    }
}

/// Whether a product finds its data in the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Cold,
    Hot,
}

/// A matrix, an `x`, and what their product is.
pub(crate) struct Problem<T> {
    pub(crate) matrix: CsrMatrix<T>,
    pub(crate) x: Vec<T>,
    /// Bytes that one product in CSR must move at least.
    pub(crate) bytes: usize,
    reference: Vec<(f64, f64)>,
}

impl<T: Scalar> Problem<T> {
    /// The matrix of this source, and random numbers from -1 to 1 for `x`.
    pub(crate) fn load(source: &MatrixSource) -> Result<Self> {
        let matrix = source::load::<T>(source)?;
        let mut random = Pcg64::seed_from_u64(1);
        let x: Vec<T> = (0..matrix.ncols()).map(|_| T::from_f64(random.random_range(-1.0..1.0))).collect();
        let reference = reference_product(&matrix, &x);
        // On the CPU the matrix is shared, so that this copies nothing.
        let bytes = Device::cpu().upload(&matrix)?.spmv_bytes();
        Ok(Self { matrix, x, bytes, reference })
    }
}

/// How products with one matrix are measured.
pub(crate) struct Measurement<'a, T> {
    pub(crate) device: &'a Device,
    pub(crate) problem: &'a Problem<T>,
    pub(crate) repeats: usize,
    /// Bytes that pass between two uses of the same data.
    distance: usize,
    copy_bandwidth: f64,
}

impl<'a, T: Scalar> Measurement<'a, T> {
    /// With a cold cache, between two uses of a copy lie this many times the size of the L2 cache.
    const CACHE_MULTIPLE: usize = 4;
    const MOST_COPIES: usize = 4096;

    /// `copy_bandwidth` in bytes a second, `repeats` at least 1.
    pub(crate) fn new(
        device: &'a Device,
        problem: &'a Problem<T>,
        cache: Cache,
        repeats: usize,
        copy_bandwidth: f64,
    ) -> Result<Self> {
        let l2_bytes = device.info()?.l2_bytes.unwrap_or(0) as usize;
        let distance = match cache {
            Cache::Cold => Self::CACHE_MULTIPLE * l2_bytes,
            Cache::Hot => 0,
        };
        Ok(Self { device, problem, repeats, distance, copy_bandwidth })
    }

    /// Copies of matrix and vectors that products of so many bytes go round: with a cold cache as many as the L2 cache
    /// cannot hold.
    pub(crate) fn rotation(&self, bytes: usize) -> usize {
        self.distance.div_ceil(bytes.max(1)).clamp(1, Self::MOST_COPIES)
    }

    /// Products to run before those that count: they touch every copy, and wake the device.
    pub(crate) fn warm_up(rotation: usize) -> usize {
        rotation.max(10)
    }

    /// Measures the kernel that `options` lead to.
    pub(crate) fn product(&self, options: &SpmvOptions) -> Result<ProductReport> {
        let mut sets = Sets::new(self, options)?;
        let y = sets.product()?;
        let (bytes, rotation) = (sets.0[0].0.spmv_bytes(), sets.0.len());
        let warm_up = Self::warm_up(rotation);
        let times = self.device.time_each(warm_up + self.repeats, |set| sets.multiply(set))?;
        let choice = sets.0[0].0.describe();
        let figures = self.figures(&times[warm_up..], &y, bytes);
        Ok(ProductReport { kernel: choice.kernel, reason: choice.reason, bytes, rotation, figures })
    }

    /// The figures of a product that gave `y`, took `times`, and must move so many `bytes` at least.
    pub(crate) fn figures(&self, times: &[Duration], y: &[T], bytes: usize) -> Figures {
        let time_us = Spread::of(times);
        let bytes_per_second = bytes as f64 / (time_us.median * 1e-6);
        let (relative_error, error_over_bound) = errors(y, &self.problem.reference);
        Figures {
            time_us,
            gb_per_s: bytes_per_second / 1e9,
            percent_of_copy: 100.0 * bytes_per_second / self.copy_bandwidth,
            relative_error,
            error_over_bound,
        }
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct ProductReport {
    pub(crate) kernel: String,
    pub(crate) reason: String,
    /// Bytes that one product must move at least, in the format that it runs in.
    pub(crate) bytes: usize,
    /// Copies of matrix and vectors that the products go round, so that none finds its data in the L2 cache.
    pub(crate) rotation: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

#[derive(Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) time_us: Spread,
    pub(crate) gb_per_s: f64,
    pub(crate) percent_of_copy: f64,
    /// `|y - reference| / |reference|` in the 2-norm, the reference taken in f64.
    pub(crate) relative_error: f64,
    /// The largest error of an element of `y` over what rounding can explain there: at most 1 in a correct product.
    pub(crate) error_over_bound: f64,
}

impl ProductReport {
    /// Fails if the result is wrong: off by more than rounding explains.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        // Not `> 1.0`: a NaN is wrong too.
        match self.figures.error_over_bound {
            0.0..=1.0 => Ok(()),
            off => Err(format!("{} is off by {off:.1e} times what rounding explains", self.kernel)),
        }
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct MatrixReport {
    pub(crate) source: String,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) entries: usize,
    pub(crate) min_row: usize,
    pub(crate) mean_row: f64,
    pub(crate) max_row: usize,
}

impl MatrixReport {
    pub(crate) fn new(source: &MatrixSource, structure: &Structure) -> Self {
        let &Structure { nrows: rows, ncols: columns, nnz: entries, min_row, max_row, .. } = structure;
        Self { source: source.to_string(), rows, columns, entries, min_row, mean_row: structure.mean_row(), max_row }
    }
}

/// Copies of the matrix and its vectors on the device.
struct Sets<T>(Vec<(DeviceMatrix<T>, DeviceVec<T>, DeviceVec<T>)>);

impl<T: Scalar> Sets<T> {
    fn new(measurement: &Measurement<'_, T>, options: &SpmvOptions) -> Result<Self> {
        let Measurement { device, problem: Problem { matrix, x, .. }, .. } = measurement;
        let not_a_number = vec![T::from_f64(f64::NAN); matrix.nrows()];
        let set =
            || Ok((device.upload_with(matrix, options)?, device.upload_vec(x)?, device.upload_vec(&not_a_number)?));
        let mut sets = vec![set()?];
        for _ in 1..measurement.rotation(sets[0].0.spmv_bytes()) {
            sets.push(set()?);
        }
        Ok(Self(sets))
    }

    fn multiply(&mut self, set: usize) -> Result<()> {
        let count = self.0.len();
        let (matrix, x, y) = &mut self.0[set % count];
        matrix.spmv(T::from_f64(1.0), x, T::from_f64(0.0), y)
    }

    /// The result of one product.
    fn product(&mut self) -> Result<Vec<T>> {
        self.multiply(0)?;
        self.0[0].2.to_vec()
    }
}

/// The product in f64, and for each row twice the bound of what a sum of rounded products in `T` can be off (Higham,
/// "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1): twice, for the reference is rounded too.
fn reference_product<T: Scalar>(matrix: &CsrMatrix<T>, x: &[T]) -> Vec<(f64, f64)> {
    let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let row = |i: usize| {
        let row = matrix.row_range(i);
        let terms = row.len() as f64 + 3.0;
        let products = row.map(|k| matrix.values()[k].to_f64() * x[matrix.col_indices()[k] as usize].to_f64());
        let (sum, magnitude) = products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()));
        (sum, 2.0 * terms * epsilon * magnitude)
    };
    (0..matrix.nrows()).map(row).collect()
}

/// The relative error in the 2-norm, 0 where both are zero everywhere, and the largest error over its bound.
fn errors<T: Scalar>(found: &[T], reference: &[(f64, f64)]) -> (f64, f64) {
    let (mut difference, mut norm, mut over_bound) = (0.0, 0.0, 0.0);
    for (found, &(expected, bound)) in found.iter().zip(reference) {
        let error = (found.to_f64() - expected).abs();
        difference += error * error;
        norm += expected * expected;
        let ratio = if error == 0.0 { 0.0 } else { error / bound };
        // `f64::max` would drop a NaN.
        over_bound = if ratio > over_bound || ratio.is_nan() { ratio } else { over_bound };
    }
    (if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }, over_bound)
}
