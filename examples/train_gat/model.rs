//! The network of Veličković et al. (2018): a layer of several heads, ELU, and a layer of one head for the classes; with dropout of what goes into
//! each, and of edges.

use warpsparse::{
    Adjacency, Device, DeviceDense, Result, Scalar,
    learning::{self, Dropout},
};

use super::{data::Data, features::Features, layer::Layer, network::Task, parameter::Parameter};

/// The probability of dropout.
pub(crate) const DROPPED: f64 = 0.6;
/// The learning rate, and the weight decay.
pub(crate) const ADAM: (f64, f64) = (0.005, 5e-4);

pub(crate) struct Gat<T: Scalar> {
    pub(crate) graph: Adjacency,
    pub(crate) x: Features<T>,
    /// Of the projections.
    pub(crate) parameters: [Parameter<T>; 2],
    pub(crate) layers: [Layer<T>; 2],
    /// What the first layer gives, through ELU, and ELU's derivative there.
    pub(crate) hidden: DeviceDense<T>,
    pub(crate) slope: DeviceDense<T>,
    pub(crate) d_hidden: DeviceDense<T>,
    pub(crate) d_logits: DeviceDense<T>,
    pub(crate) dropout: Dropout,
    /// That of the next dropout of edges: a step takes one for each layer.
    pub(crate) seed: u64,
    pub(crate) task: Task<T>,
}

impl<T: Scalar> Gat<T> {
    pub(crate) fn new(device: &Device, data: &Data, (heads, width): (usize, usize), seed: u64) -> Result<Self> {
        let (n, f, c, units) = (data.features.nrows(), data.features.ncols(), data.classes, heads * width);
        let seed = |k: u64| seed.wrapping_mul(1 << 32) + k; // each use has a generator of its own
        let parameter = |seed: u64, size| Parameter::new(learning::glorot_uniform(device, seed, size)?, ADAM);
        let first = Layer::new(device, n, (heads, width), [seed(2), seed(3)])?;
        Ok(Self {
            graph: device.upload(&data.graph)?.adjacency()?,
            x: Features::new(device, &data.features.cast(), Dropout::new(DROPPED, seed(6))?)?,
            parameters: [parameter(seed(0), (f, units))?, parameter(seed(1), (units, c))?],
            layers: [first, Layer::new(device, n, (1, c), [seed(4), seed(5)])?],
            hidden: device.zeros_dense((n, units))?,
            slope: device.zeros_dense((n, units))?,
            d_hidden: device.zeros_dense((n, units))?,
            d_logits: device.zeros_dense((n, c))?,
            dropout: Dropout::new(DROPPED, seed(7))?,
            seed: seed(8),
            task: Task::new(device, data)?,
        })
    }
}
