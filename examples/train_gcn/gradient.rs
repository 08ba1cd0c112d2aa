//! The backward pass: the forward pass in reverse order.

use warpsparse::{Map, Result, Scalar, gemm, learning};

use super::model::Gcn;

impl<T: Scalar> Gcn<T> {
    /// Computes the gradients of the loss with respect to the weights, after a forward pass in training.
    pub(crate) fn backward(&mut self) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let ([wide, of_hidden], [narrow, of_logits]) = (&mut self.wide, &mut self.narrow);
        learning::cross_entropy_backward(&self.logits, &self.labels[0], &mut *of_logits)?;
        self.s.spmm(one, &*of_logits, zero, &mut *narrow)?; // S is symmetric
        gemm(one, self.hidden.transpose(), &*narrow, zero, &mut self.gradients[1])?;
        narrow.gemm(one, self.weights[1].transpose(), zero, &mut *of_hidden)?;
        self.dropouts[1].apply(&self.step, of_hidden.elements_mut())?;
        learning::map_backward(Map::Relu, self.hidden.elements(), of_hidden.elements_mut())?;
        self.s.spmm(one, &*of_hidden, zero, &mut *wide)?;
        self.x.transposed.spmm(one, &*wide, zero, &mut self.gradients[0])
    }
}
