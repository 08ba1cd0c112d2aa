//! Products with a vector.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use warpsparse::{CsrMatrix, Device, DeviceMatrix, DeviceVec, Result, Scalar, SpmvOptions, io::MatrixSource};

use super::{Measurement, ProductReport, load, reference::Reference};

/// A matrix, an `x`, and what their product is.
#[derive(Debug)]
pub struct Problem<T> {
    /// The matrix.
    pub matrix: CsrMatrix<T>,
    /// The vector.
    pub x: Vec<T>,
    /// Bytes that one product in CSR must move at least.
    pub bytes: usize,
    /// What the product is.
    pub reference: Reference,
}

impl<T: Scalar> Problem<T> {
    /// The matrix of this source, and random numbers from -1 to 1 for `x`.
    pub fn load(source: &MatrixSource) -> Result<Self> {
        let matrix = load::<T>(source)?;
        let mut random = Pcg64::seed_from_u64(1);
        let x: Vec<T> = (0..matrix.ncols()).map(|_| T::from_f64(random.random_range(-1.0..1.0))).collect();
        let reference = Reference::new(&matrix, &x, 1, usize::MAX);
        // On the CPU the matrix is shared, so that this copies nothing.
        let bytes = Device::cpu().upload(&matrix)?.spmv_bytes();
        Ok(Self { matrix, x, bytes, reference })
    }
}

impl<T: Scalar> Measurement<'_, Problem<T>> {
    /// Measures the kernel that `options` lead to.
    pub fn product(&self, options: &SpmvOptions) -> Result<ProductReport> {
        let mut sets = Sets::new(self, options)?;
        let y = sets.product()?;
        let (bytes, rotation) = (sets.0[0].0.spmv_bytes(), sets.0.len());
        let times = self.times(self.device, rotation, |set| sets.multiply(set))?;
        let choice = sets.0[0].0.describe();
        let figures = self.figures(&times, bytes, &self.problem.reference.errors(&y));
        Ok(ProductReport { kernel: choice.kernel, reason: choice.reason, bytes, rotation, figures })
    }
}

/// Copies of the matrix and its vectors on the device.
struct Sets<T>(Vec<(DeviceMatrix<T>, DeviceVec<T>, DeviceVec<T>)>);

impl<T: Scalar> Sets<T> {
    fn new(measurement: &Measurement<'_, Problem<T>>, options: &SpmvOptions) -> Result<Self> {
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
        let (matrix, x, y) = &mut self.0[set];
        matrix.spmv(T::from_f64(1.0), &*x, T::from_f64(0.0), y)
    }

    /// The result of one product.
    fn product(&mut self) -> Result<Vec<T>> {
        self.multiply(0)?;
        self.0[0].2.to_vec()
    }
}
