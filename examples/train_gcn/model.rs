//! The network of Kipf & Welling (2017), `relu(S X W)` in each layer but the last, which has no rectifier; with dropout of what goes into each.

use warpsparse::{
    Device, DeviceDense, DeviceMatrix, Result, Scalar,
    learning::{self, Dropout},
};

use super::{data::Data, features::Features, network::Task, parameter::Parameter};

pub(crate) struct Gcn<T: Scalar> {
    pub(crate) s: DeviceMatrix<T>,
    pub(crate) x: Features<T>,
    pub(crate) layers: Vec<Layer<T>>,
    pub(crate) task: Task<T>,
}

pub(crate) struct Layer<T: Scalar> {
    pub(crate) parameter: Parameter<T>,
    /// Of what comes out; the last layer has none.
    pub(crate) dropout: Option<Dropout>,
    /// `X W`, and then the gradient with respect to it.
    pub(crate) product: DeviceDense<T>,
    /// After the rectifier and dropout.
    pub(crate) out: DeviceDense<T>,
    pub(crate) d_out: DeviceDense<T>,
}

impl<T: Scalar> Gcn<T> {
    /// With hidden layers of so many units.
    pub(crate) fn new(device: &Device, data: &Data, hidden: &[usize], seed: u64) -> Result<Self> {
        let widths = [&[data.features.ncols()], hidden, &[data.classes]].concat();
        let (n, count) = (data.features.nrows(), hidden.len() + 1);
        let seed = |k: usize| seed.wrapping_mul(2 * count as u64) + k as u64; // each use has a generator of its own
        let layer = |k: usize| {
            let weights = learning::glorot_uniform(device, seed(k), (widths[k], widths[k + 1]))?;
            let zeros = || device.zeros_dense((n, widths[k + 1]));
            Ok(Layer {
                parameter: Parameter::new(weights, (0.01, if k == 0 { 5e-4 } else { 0.0 }))?,
                dropout: if k + 1 < count { Some(Dropout::new(0.5, seed(count + k + 1))?) } else { None },
                product: zeros()?,
                out: zeros()?,
                d_out: zeros()?,
            })
        };
        Ok(Self {
            s: device.upload(&data.graph.cast())?,
            x: Features::new(device, &data.features.cast(), Dropout::new(0.5, seed(count))?)?,
            layers: (0..count).map(layer).collect::<Result<_>>()?,
            task: Task::new(device, data)?,
        })
    }
}
