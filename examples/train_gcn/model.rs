//! The network of Kipf & Welling (2017), `Z = S relu(S X W1) W2` with dropout of `X` and of the hidden layer.

use warpsparse::{
    Device, DeviceDense, DeviceMatrix, DeviceScalar, Map, Result, Scalar,
    learning::{self, Adam, Dropout, Labels, StepCounter},
};

use super::{data::Data, features::Features};

pub(crate) struct Gcn<T: Scalar> {
    pub(crate) s: DeviceMatrix<T>,
    pub(crate) x: Features<T>,
    /// Those for training, validation and test.
    pub(crate) labels: [Labels; 3],
    pub(crate) weights: [DeviceDense<T>; 2],
    pub(crate) gradients: [DeviceDense<T>; 2],
    pub(crate) hidden: DeviceDense<T>,
    pub(crate) logits: DeviceDense<T>,
    /// The losses of training and validation after the last step, and the share of right answers in validation.
    pub(crate) progress: [DeviceScalar<T>; 3],
    pub(crate) step: StepCounter,
    pub(crate) dropouts: [Dropout; 2],
    pub(crate) optimisers: [Adam<T>; 2],
    /// As wide as the hidden layer or the logits, for whatever comes between.
    pub(crate) wide: [DeviceDense<T>; 2],
    pub(crate) narrow: [DeviceDense<T>; 2],
}

impl<T: Scalar> Gcn<T> {
    pub(crate) fn new(device: &Device, data: &Data, units: usize, seed: u64) -> Result<Self> {
        let (n, f, c) = (data.features.nrows(), data.features.ncols(), data.classes);
        let seed = |k: u64| seed.wrapping_mul(4) + k; // each use has a generator of its own
        let labels = |split: usize| Labels::new(device, c, &data.labels[split]);
        let optimiser = |len: usize| Adam::new(device, len, 0.01);
        Ok(Self {
            s: device.upload(&data.graph.cast())?,
            x: Features::new(device, &data.features.cast())?,
            labels: [labels(0)?, labels(1)?, labels(2)?],
            weights: [
                learning::glorot_uniform(device, seed(0), (f, units))?,
                learning::glorot_uniform(device, seed(1), (units, c))?,
            ],
            gradients: [device.zeros_dense((f, units))?, device.zeros_dense((units, c))?],
            hidden: device.zeros_dense((n, units))?,
            logits: device.zeros_dense((n, c))?,
            progress: [device.scalar(T::default())?, device.scalar(T::default())?, device.scalar(T::default())?],
            step: StepCounter::new(device)?,
            dropouts: [Dropout::new(0.5, seed(2))?, Dropout::new(0.5, seed(3))?],
            optimisers: [optimiser(f * units)?.weight_decay(5e-4)?, optimiser(units * c)?],
            wide: [device.zeros_dense((n, units))?, device.zeros_dense((n, units))?],
            narrow: [device.zeros_dense((n, c))?, device.zeros_dense((n, c))?],
        })
    }

    /// Computes the logits, in training with dropout.
    pub(crate) fn forward(&mut self, training: bool) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        if training {
            self.x.drop_entries(&self.dropouts[0], &self.step)?;
        }
        let x = if training { &self.x.dropped } else { &self.x.whole };
        x.spmm(one, &self.weights[0], zero, &mut self.wide[0])?;
        self.s.spmm(one, &self.wide[0], zero, &mut self.hidden)?;
        self.hidden.elements_mut().map(Map::Relu)?;
        if training {
            self.dropouts[1].apply(&self.step, self.hidden.elements_mut())?;
        }
        self.hidden.gemm(one, &self.weights[1], zero, &mut self.narrow[0])?;
        self.s.spmm(one, &self.narrow[0], zero, &mut self.logits)
    }
}
