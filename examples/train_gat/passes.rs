//! The forward pass, and the backward pass in reverse order.

use warpsparse::{Attention, DeviceDense, Map, Result, Scalar, Zip, gemm, learning};

use super::{
    layer::Layer,
    model::{DROPPED, Gat},
    network::{Network, Task},
    parameter::Parameter,
};

impl<T: Scalar> Network<T> for Gat<T> {
    /// The dropout of edges is drawn when a step is recorded.
    const REPLAYS: bool = false;
    const PATIENCE: usize = 100;

    fn forward(&mut self, training: bool) -> Result<()> {
        let options = self.options(training);
        let ([first, second], [w1, w2]) = (&mut self.layers, &self.parameters);
        if training {
            self.x.drop_entries(&self.task.step)?;
        }
        self.x.multiply(training, &w1.weights, &mut first.features)?;
        first.forward(&self.graph, &options[0])?;
        elu(&first.out, &mut self.hidden, &mut self.slope)?;
        if training {
            self.dropout.apply(&self.task.step, self.hidden.elements_mut())?;
        }
        self.hidden.gemm(T::from_f64(1.0), &w2.weights, T::default(), &mut second.features)?;
        second.forward(&self.graph, &options[1])
    }

    fn backward(&mut self) -> Result<()> {
        let (zero, one, options) = (T::default(), T::from_f64(1.0), self.options(true));
        let ([first, second], [w1, w2]) = (&mut self.layers, &mut self.parameters);
        learning::cross_entropy_backward(&second.out, &self.task.labels[0], &mut self.d_logits)?;
        second.backward(&self.graph, &options[1], &self.d_logits)?;
        gemm(one, self.hidden.transpose(), &second.d_features, zero, &mut w2.gradient)?;
        second.d_features.gemm(one, w2.weights.transpose(), zero, &mut self.d_hidden)?;
        self.dropout.apply(&self.task.step, self.d_hidden.elements_mut())?;
        self.d_hidden.elements_mut().zip(Zip::Mul, self.slope.elements())?;
        first.backward(&self.graph, &options[0], &self.d_hidden)?;
        self.seed += 2;
        self.x.multiply_transposed(&first.d_features, &mut w1.gradient)
    }

    fn parts(&mut self) -> (Vec<&mut Parameter<T>>, &mut Task<T>, &DeviceDense<T>) {
        let [Layer { vectors, .. }, Layer { vectors: of_second, out, .. }] = &mut self.layers;
        (self.parameters.iter_mut().chain(vectors).chain(of_second).collect(), &mut self.task, out)
    }
}

impl<T: Scalar> Gat<T> {
    fn options(&self, training: bool) -> [Attention; 2] {
        let rate = if training { DROPPED } else { 0.0 };
        [0, 1].map(|layer| Attention::default().dropout(rate, self.seed + layer))
    }
}

/// `y = elu(x)`, which is `x` above 0 and `exp(x) - 1` below, and its derivative `exp(min(x, 0))`.
fn elu<T: Scalar>(x: &DeviceDense<T>, y: &mut DeviceDense<T>, slope: &mut DeviceDense<T>) -> Result<()> {
    let (zero, one) = (T::default(), T::from_f64(1.0));
    slope.elements_mut().map_from(Map::Clamp(T::from_f64(f64::NEG_INFINITY), zero), x.elements())?;
    slope.elements_mut().map(Map::Exp)?;
    y.elements_mut().map_from(Map::Relu, x.elements())?;
    y.elements_mut().zip(Zip::Add, slope.elements())?;
    y.elements_mut().map(Map::Add(zero - one))
}
