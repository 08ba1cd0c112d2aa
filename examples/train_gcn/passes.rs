//! The forward pass, and the backward pass in reverse order.

use warpsparse::{DeviceDense, Map, Result, Scalar, gemm, learning};

use super::{
    model::{Gcn, Layer},
    network::{Network, Task},
    parameter::Parameter,
};

impl<T: Scalar> Network<T> for Gcn<T> {
    const REPLAYS: bool = true;
    const PATIENCE: usize = 10;

    fn forward(&mut self, training: bool) -> Result<()> {
        let (Self { s, x, layers, task }, zero, one) = (self, T::default(), T::from_f64(1.0));
        if training {
            x.drop_entries(&task.step)?;
        }
        let mut before: Option<&DeviceDense<T>> = None;
        for layer in layers {
            let (weights, product) = (&layer.parameter.weights, &mut layer.product);
            match before {
                None => x.multiply(training, weights, product)?,
                Some(before) => before.gemm(one, weights, zero, product)?,
            }
            s.spmm(one, &layer.product, zero, &mut layer.out)?;
            if let Some(dropout) = &layer.dropout {
                layer.out.elements_mut().map(Map::Relu)?;
                if training {
                    dropout.apply(&task.step, layer.out.elements_mut())?;
                }
            }
            before = Some(&layer.out);
        }
        Ok(())
    }

    fn backward(&mut self) -> Result<()> {
        let (Self { s, x, layers, task }, zero, one) = (self, T::default(), T::from_f64(1.0));
        let last = layers.last_mut().expect("a layer");
        learning::cross_entropy_backward(&last.out, &task.labels[0], &mut last.d_out)?;
        let mut rest = &mut layers[..];
        while let [before @ .., layer] = rest {
            if let Some(dropout) = &layer.dropout {
                dropout.apply(&task.step, layer.d_out.elements_mut())?;
                learning::map_backward(Map::Relu, layer.out.elements(), layer.d_out.elements_mut())?;
            }
            s.spmm(one, &layer.d_out, zero, &mut layer.product)?; // S is symmetric
            let Parameter { weights, gradient, .. } = &mut layer.parameter;
            match before.last_mut() {
                None => x.multiply_transposed(&layer.product, gradient)?,
                Some(before) => {
                    gemm(one, before.out.transpose(), &layer.product, zero, gradient)?;
                    layer.product.gemm(one, weights.transpose(), zero, &mut before.d_out)?;
                }
            }
            rest = before;
        }
        Ok(())
    }

    fn parts(&mut self) -> (Vec<&mut Parameter<T>>, &mut Task<T>, &DeviceDense<T>) {
        let mut logits = None;
        let parts = self.layers.iter_mut().map(|Layer { parameter, out, .. }| {
            logits = Some(&*out);
            parameter
        });
        (parts.collect(), &mut self.task, logits.expect("a layer"))
    }
}
