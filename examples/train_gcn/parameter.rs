//! Weights, their gradient, and what updates them.

use warpsparse::{
    DeviceDense, Result, Scalar,
    learning::{Adam, StepCounter},
};

pub(crate) struct Parameter<T: Scalar> {
    pub(crate) weights: DeviceDense<T>,
    pub(crate) gradient: DeviceDense<T>,
    adam: Adam<T>,
}

impl<T: Scalar> Parameter<T> {
    pub(crate) fn new(weights: DeviceDense<T>, (rate, decay): (f64, f64)) -> Result<Self> {
        let (device, rows, cols) = (weights.device(), weights.nrows(), weights.ncols());
        let adam = Adam::new(device, rows * cols, rate)?.weight_decay(decay)?;
        Ok(Self { gradient: device.zeros_dense((rows, cols))?, adam, weights })
    }

    pub(crate) fn update(&mut self, step: &StepCounter) -> Result<()> {
        self.adam.update(step, self.gradient.elements(), self.weights.elements_mut())
    }
}
