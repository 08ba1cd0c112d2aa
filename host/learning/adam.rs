//! The optimiser Adam.

use kernels_gpu::adam::{Args, Correction, Key, Numbers, correction, grid_size, update};

use super::StepCounter;
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar,
    device::{Backend, check_length, launch},
    parallel::{BLOCK, join},
};

/// Adam, with the moments of one array of weights (Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015).
///
/// In step `t`, for every weight `w` with gradient `g`, where `decay` is 0 unless [`weight_decay`](Self::weight_decay) sets it:
/// ```text
/// g' = g + decay * w
/// m  = beta1 * m + (1 - beta1) * g'
/// v  = beta2 * v + (1 - beta2) * g'^2
/// w  = w - rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// ```
/// So weight decay is the gradient of a penalty `decay / 2 * |w|^2` that is part of the loss. Every array of weights has its own `Adam`; all share a
/// [`StepCounter`]. The CPU and the emulator compute the same bits.
///
/// Memory: `2 n` elements for `n` weights.
#[derive(Debug)]
pub struct Adam<T> {
    rate: f64,
    betas: (f64, f64),
    epsilon: f64,
    decay: f64,
    m: DeviceVec<T>,
    v: DeviceVec<T>,
}

impl<T: Scalar> Adam<T> {
    /// Creates the moments of `len` weights, all 0, with `beta1` = 0.9, `beta2` = 0.999, `epsilon` = 1e-8 and no weight decay.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) unless the learning rate is finite and not negative; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn new(device: &Device, len: usize, rate: f64) -> Result<Self> {
        let rate = check("learning rate", rate, f64::INFINITY)?;
        let (m, v) = (device.zeros(len)?, device.zeros(len)?);
        Ok(Self { rate, betas: (0.9, 0.999), epsilon: 1e-8, decay: 0.0, m, v })
    }

    /// Sets how much of the first and of the second moment stays from step to step.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) unless both are at least 0 and less than 1.
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Result<Self> {
        self.betas = (check("beta1", beta1, 1.0)?, check("beta2", beta2, 1.0)?);
        Ok(self)
    }

    /// Sets what is added to the root of the second moment.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) unless it is finite and not negative.
    pub fn epsilon(mut self, epsilon: f64) -> Result<Self> {
        self.epsilon = check("epsilon", epsilon, f64::INFINITY)?;
        Ok(self)
    }

    /// Sets the weight decay.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) unless it is finite and not negative.
    pub fn weight_decay(mut self, decay: f64) -> Result<Self> {
        self.decay = check("weight decay", decay, f64::INFINITY)?;
        Ok(self)
    }

    /// Updates the moments and the weights. Queued on the stream of `weights` without waiting; `O(n)` work.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
    pub fn update<'a, 'b>(
        &mut self,
        step: &StepCounter,
        gradient: impl Into<DeviceSlice<'b, T>>,
        weights: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<()> {
        let (gradient, weights) = (gradient.into(), weights.into());
        let device = weights.device();
        check_length("the weights", self.m.len(), weights.len())?;
        check_length("the gradient", self.m.len(), gradient.len())?;
        device.check_same("the moments", self.m.device())?;
        device.check_same("the gradient", gradient.device())?;
        device.check_same("the step counter", step.number.device())?;
        let (n, numbers) = (weights.len() as u64, self.numbers());
        if n == 0 {
            return Ok(());
        }
        if let Backend::Cpu { .. } = device.backend() {
            let correction = correction(&numbers, step.number.vector().as_slice().on_cpu()[0]);
            let (m, v) = (self.m.as_slice_mut().on_cpu_mut(), self.v.as_slice_mut().on_cpu_mut());
            on_cpu(&numbers, correction, gradient.on_cpu(), [m, v, weights.on_cpu_mut()]);
            return Ok(());
        }
        let (queue, w) = weights.into_writable();
        let (m, v) = (self.m.writable(), self.v.writable());
        let step = step.number.vector().readable();
        let args = Args { n, numbers, step, gradient: gradient.readable(), m, v, w };
        // SAFETY: all arrays have n elements on this device, and what is written is borrowed mutably.
        unsafe { launch(queue, Key { dtype: T::DTYPE }.entry(), grid_size(n) as u32, args) }
    }

    fn numbers(&self) -> Numbers<T> {
        let (beta1, beta2) = self.betas;
        Numbers {
            rate: self.rate,
            ln_beta1: beta1.ln(),
            ln_beta2: beta2.ln(),
            beta1: T::from_f64(beta1),
            beta2: T::from_f64(beta2),
            epsilon: T::from_f64(self.epsilon),
            decay: T::from_f64(self.decay),
        }
    }
}

fn on_cpu<T: Scalar>(numbers: &Numbers<T>, correction: Correction<T>, gradient: &[T], [m, v, w]: [&mut [T]; 3]) {
    if w.len() <= BLOCK {
        for (((&gradient, m), v), w) in gradient.iter().zip(m).zip(v).zip(w) {
            [*m, *v, *w] = update(numbers, correction, gradient, [*m, *v, *w]);
        }
        return;
    }
    let half = w.len() / 2;
    let (gradient, later_gradient) = gradient.split_at(half);
    let [(m, later_m), (v, later_v), (w, later_w)] = [m, v, w].map(|array| array.split_at_mut(half));
    join(
        || on_cpu(numbers, correction, gradient, [m, v, w]),
        || on_cpu(numbers, correction, later_gradient, [later_m, later_v, later_w]),
    );
}

/// Returns a number that is at least 0 and less than `limit`.
fn check(what: &str, value: f64, limit: f64) -> Result<f64> {
    if (0.0..limit).contains(&value) {
        return Ok(value);
    }
    Err(Error::InvalidOption(format!("a {what} of {value}: it must be at least 0 and less than {limit}")))
}
