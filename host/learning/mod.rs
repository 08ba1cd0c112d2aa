//! Training neural networks: what a loop over epochs needs beside products and elementwise functions, as plain functions.
//!
//! A network is written as the operations of its forward pass, and then as those of its backward pass in reverse order. No tape records anything:
//!
//! | forward | backward, with `dy` the gradient of the loss with respect to `y` |
//! |---|---|
//! | `y = A x`, `A` sparse: [`DeviceMatrix::spmm`](crate::DeviceMatrix::spmm) | `dx = A^T dy`: the same of the transpose |
//! | `y = x W`: [`gemm`](crate::gemm) | `dx = dy W^T` and `dW = x^T dy`: the same with transposed views |
//! | `y = f(x)`: [`DeviceVec::map`](crate::DeviceVec::map) | [`map_backward`] |
//! | [`Dropout::apply`] | [`Dropout::apply`] on `dy` |
//! | [`cross_entropy`] | [`cross_entropy_backward`] |
//!
//! [`Adam`] then updates the weights, which [`glorot_uniform`] has initialised, and [`accuracy`] judges the result. What changes from step to step is a
//! [`StepCounter`] on the device, so a whole step can be recorded once as a [`Graph`](crate::Graph). All results are deterministic: the same
//! data and seeds give the same weights to the bit on the same device.
//!
//! ```
//! use warpsparse::{
//!     Device, gemm,
//!     learning::{self, Adam, Labels, StepCounter},
//! };
//!
//! // Softmax regression: two points of each of two classes.
//! let device = Device::cpu();
//! let x = device.upload_dense((4, 2), &[1.0f32, 0.2, 0.9, -0.1, -0.8, 0.3, -1.1, 0.1])?;
//! let labels = Labels::new(&device, 2, &[Some(0), Some(0), Some(1), Some(1)])?;
//! let mut weights = learning::glorot_uniform(&device, 7, (2, 2))?;
//! let (mut logits, mut gradient) = (device.zeros_dense((4, 2))?, device.zeros_dense((4, 2))?);
//! let mut slope = device.zeros_dense((2, 2))?;
//! let (mut adam, mut step) = (Adam::new(&device, 4, 0.1)?, StepCounter::new(&device)?);
//! for _ in 0..50 {
//!     x.gemm(1.0, &weights, 0.0, &mut logits)?;
//!     learning::cross_entropy_backward(&logits, &labels, &mut gradient)?;
//!     gemm(1.0, x.transpose(), &gradient, 0.0, &mut slope)?;
//!     adam.update(&step, slope.elements(), weights.elements_mut())?;
//!     step.advance()?;
//! }
//! let mut share = device.scalar(0.0f32)?;
//! learning::accuracy(&logits, &labels, &mut share)?;
//! assert_eq!(share.get()?, 1.0);
//! # Ok::<(), warpsparse::Error>(())
//! ```

mod adam;
mod cross_entropy;
mod dropout;
mod map_backward;

pub use adam::Adam;
pub use cross_entropy::{Labels, accuracy, cross_entropy, cross_entropy_backward};
pub use dropout::Dropout;
pub use map_backward::map_backward;

use crate::{Device, DeviceDense, DeviceScalar, Map, Result, Scalar};

/// The number of a training step, on a device: 1 at first.
///
/// [`Dropout`] and [`Adam`] read it there. So a step that ends with [`advance`](Self::advance) can be recorded once and replayed: every replay is another step.
#[derive(Debug)]
pub struct StepCounter {
    number: DeviceScalar<f64>,
}

impl StepCounter {
    /// Creates a counter at 1. Waits for the copy.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { number: device.scalar(1.0)? })
    }

    /// Goes on to the next step. Queued without waiting.
    ///
    /// # Errors
    /// [`Driver`](crate::Error::Driver).
    pub fn advance(&mut self) -> Result<()> {
        self.number.map(Map::Add(1.0))
    }

    /// Returns the number of the step, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// [`Driver`](crate::Error::Driver), also for a failure of an operation queued earlier.
    pub fn get(&self) -> Result<u64> {
        Ok(self.number.get()? as u64)
    }
}

/// Creates a matrix of `fan_in` rows and `fan_out` columns with uniform random numbers in `[-a, a)`, where `a = sqrt(6 / (fan_in + fan_out))` (Glorot &
/// Bengio, "Understanding the Difficulty of Training Deep Feedforward Neural Networks", 2010).
///
/// The numbers have the same bits on every device, and depend on the seed alone: give each layer another one.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
pub fn glorot_uniform<T: Scalar>(
    device: &Device,
    seed: u64,
    (fan_in, fan_out): (usize, usize),
) -> Result<DeviceDense<T>> {
    let mut weights = device.zeros_dense((fan_in, fan_out))?;
    let bound = (6.0 / (fan_in as f64 + fan_out as f64).max(1.0)).sqrt();
    weights.elements_mut().fill_uniform(seed, T::from_f64(-bound), T::from_f64(bound))?;
    Ok(weights)
}
