//! Products of dense matrices.

mod reference;
mod shape;

use clap::ValueEnum;
use serde::Serialize;
use warpsparse::{
    DType, DenseMut, DenseRef, DeviceVec, GemmOptions, Result, Scalar, gemm_autotune, gemm_choice, gemm_with,
};

pub use self::reference::GemmReference;
pub use self::shape::Shape;
use super::{DTypeName, Measurement, ProductReport, peak::peak, random::random_elements};

/// `A` and `B`, and what their product is, or elements from everywhere in it.
#[derive(Debug)]
pub struct GemmProblem<T> {
    /// The sizes.
    pub shape: Shape,
    /// `A`.
    pub a: Operand<T>,
    /// `B`.
    pub b: Operand<T>,
    /// Bytes that one product must move at least.
    pub bytes: usize,
    /// What the product is.
    pub reference: GemmReference,
}

/// A row-major matrix without gaps, or the transpose of one.
#[derive(Debug)]
pub struct Operand<T> {
    rows: usize,
    cols: usize,
    /// Whether it is the transpose.
    pub is_transposed: bool,
    /// Row by row, of what may be transposed.
    pub elements: Vec<T>,
}

impl<T: Scalar> Operand<T> {
    /// Random elements, others for another stream.
    fn random((rows, cols): (u32, u32), is_transposed: bool, stream: u64) -> Result<Self> {
        let (rows, cols) = (rows as usize, cols as usize);
        Ok(Self { rows, cols, is_transposed, elements: random_elements(rows.saturating_mul(cols), stream)? })
    }

    fn place(&self, row: usize, col: usize) -> usize {
        if self.is_transposed { col * self.rows + row } else { row * self.cols + col }
    }

    fn element(&self, row: usize, col: usize) -> T {
        self.elements[self.place(row, col)]
    }

    /// Replaces each element by what `change` makes of its row and column and of what there is.
    fn change(&mut self, change: impl Fn(&Self, usize, usize) -> f64) {
        for row in 0..self.rows {
            for col in 0..self.cols {
                let place = self.place(row, col);
                self.elements[place] = T::from_f64(change(self, row, col));
            }
        }
    }

    /// Of a vector with the elements.
    fn view<'a>(&self, vec: &'a DeviceVec<T>) -> Result<DenseRef<'a, T>> {
        match self.is_transposed {
            true => Ok(vec.matrix((self.cols, self.rows))?.transpose()),
            false => vec.matrix((self.rows, self.cols)),
        }
    }
}

impl<T: Scalar> GemmProblem<T> {
    /// Random matrices of this shape, transposes or not.
    pub fn random(shape: Shape, transpose_a: bool, transpose_b: bool) -> Result<Self> {
        Self::of(Numbers::Random, shape, transpose_a, transpose_b)
    }

    /// As [`random`](Self::random), of other numbers.
    pub fn of(numbers: Numbers, shape: Shape, transpose_a: bool, transpose_b: bool) -> Result<Self> {
        /// Products of elements that the reference takes about, so that it takes a second at most.
        const REFERENCE: usize = 1 << 27;
        let Shape { m, n, k } = shape;
        let mut a = Operand::<T>::random((m, k), transpose_a, 0)?;
        let mut b = Operand::<T>::random((k, n), transpose_b, 1)?;
        numbers.apply(&mut a, &mut b);
        let elements = a.elements.len() + b.elements.len() + m as usize * n as usize;
        let bytes = elements.saturating_mul(size_of::<T>());
        let reference = GemmReference::new(shape, |i, p| a.element(i, p), |p, j| b.element(p, j), REFERENCE);
        Ok(Self { shape, a, b, bytes, reference })
    }

    fn views<'a>(&self, [a, b]: &'a Operands<T>) -> Result<(DenseRef<'a, T>, DenseRef<'a, T>)> {
        Ok((self.a.view(a)?, self.b.view(b)?))
    }
}

/// What the elements of `A` and `B` are, made of random numbers from -1 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Numbers {
    /// The random numbers.
    #[default]
    Random,
    /// Their magnitudes: sums do not cancel.
    Positive,
    /// Random, each row and each column scaled by a factor from 1e-3 to 1e3.
    Scaled,
    /// Random, the second half of each sum the negative of the first but for a thousandth: ill-conditioned sums.
    Cancelling,
}

impl Numbers {
    fn apply<T: Scalar>(self, a: &mut Operand<T>, b: &mut Operand<T>) {
        // Multiples of the golden ratio fill the unit interval evenly.
        let factor = |line: usize| 10f64.powf(6.0 * (line as f64 * 0.618_033_988_749_895).fract() - 3.0);
        let half = a.cols / 2;
        match self {
            Self::Random => {}
            Self::Positive => {
                for operand in [a, b] {
                    operand.change(|old, row, col| old.element(row, col).to_f64().abs());
                }
            }
            Self::Scaled => {
                for operand in [a, b] {
                    operand.change(|old, row, col| old.element(row, col).to_f64() * factor(row) * factor(col + 7));
                }
            }
            Self::Cancelling => {
                a.change(|old, row, col| old.element(row, if col < half { col } else { col % half.max(1) }).to_f64());
                b.change(|old, row, col| {
                    let number = old.element(row, col).to_f64();
                    if row < half { number } else { number * 1e-3 - old.element(row % half.max(1), col).to_f64() }
                });
            }
        }
    }
}

/// A dense product, measured.
#[derive(Clone, Debug, Serialize)]
pub struct GemmReport {
    /// Its kernel, time and errors.
    #[serde(flatten)]
    pub product: ProductReport,
    /// Two operations for each product of elements.
    pub tflop_per_s: f64,
    /// Of the FP32 operations that a GPU can do, where that is known; not in f64.
    pub percent_of_peak: Option<f64>,
    /// Samples timed.
    pub repeats: usize,
    /// Elements of the product that the errors are those of.
    pub checked_elements: usize,
}

/// `A` and `B` on the device.
pub type Operands<T> = [DeviceVec<T>; 2];

impl<T: Scalar> Measurement<'_, GemmProblem<T>> {
    /// As many copies of the matrices as products go round.
    pub fn upload(&self) -> Result<Vec<Operands<T>>> {
        let GemmProblem { a, b, bytes, .. } = self.problem;
        let copy = |_| Ok([self.device.upload_vec(&a.elements)?, self.device.upload_vec(&b.elements)?]);
        (0..self.rotation(*bytes)).map(copy).collect()
    }

    /// The fastest options for the first copy.
    pub fn fastest(&self, copies: &[Operands<T>]) -> Result<GemmOptions> {
        let Shape { m, n, .. } = self.problem.shape;
        let (a, b) = self.problem.views(&copies[0])?;
        gemm_autotune(a, b, &self.device.zeros(m as usize * n as usize)?.matrix_mut((m as usize, n as usize))?)
    }

    /// Measures the kernel that `options` lead to, on copies from [`upload`](Self::upload).
    pub fn product(&self, copies: &[Operands<T>], options: &GemmOptions) -> Result<GemmReport> {
        let Shape { m, n, .. } = self.problem.shape;
        let (a, b) = self.problem.views(&copies[0])?;
        let mut c = self.device.zeros(m as usize * n as usize)?;
        let choice = gemm_choice(options, a, b, &c.matrix_mut((m as usize, n as usize))?)?;
        drop(c);
        self.product_by((choice.kernel, choice.reason), copies, |a, b, c| {
            gemm_with(options, T::from_f64(1.0), a, b, T::from_f64(0.0), c)
        })
    }

    /// Measures what `multiply` makes of the copies, by a kernel that is taken for a reason.
    ///
    /// # Errors
    /// Those of `multiply`; [`OutOfMemory`](warpsparse::Error::OutOfMemory).
    pub fn product_by(
        &self,
        (kernel, reason): (String, String),
        copies: &[Operands<T>],
        multiply: impl Fn(DenseRef<'_, T>, DenseRef<'_, T>, DenseMut<'_, T>) -> Result<()>,
    ) -> Result<GemmReport> {
        let &GemmProblem { shape, bytes, ref reference, .. } = self.problem;
        let size = (shape.m as usize, shape.n as usize);
        // New ones, so that what is checked below is the result of this kernel.
        let c = copies.iter().map(|_| self.device.zeros(size.0 * size.1));
        let mut c = c.collect::<Result<Vec<DeviceVec<T>>>>()?;
        let times = self.times(self.device, copies.len(), |set| {
            let (a, b) = self.problem.views(&copies[set])?;
            multiply(a, b, c[set].matrix_mut(size)?)
        })?;

        let figures = self.figures(&times, bytes, &reference.errors(&c[0].to_vec()?));
        let flop_per_s = shape.operations() / (figures.timing.time_us.median * 1e-6);
        let peak = if T::DTYPE == DType::F32 { peak(self.device, DTypeName::F32)? } else { None };
        Ok(GemmReport {
            tflop_per_s: flop_per_s / 1e12,
            percent_of_peak: peak.map(|peak| 100.0 * flop_per_s / peak),
            product: ProductReport { kernel, reason, bytes, rotation: copies.len(), figures },
            repeats: times.each.len(),
            checked_elements: reference.known_elements(),
        })
    }
}
