//! What a layer of graph attention does after its projection: scores, attention, and their gradients.

use warpsparse::{
    Adjacency, Attention, AttentionGradients, AttentionInputs, Device, DeviceDense, Result, Scalar, Zip, gemm,
};

use super::{model::ADAM, parameter::Parameter};

pub(crate) struct Layer<T: Scalar> {
    /// `heads * width` x `heads`, for the scores of rows and of columns: each column is the vector of a head, and 0 in the rows of the others.
    pub(crate) vectors: [Parameter<T>; 2],
    /// 1 where a head has its rows.
    pub(crate) mask: DeviceDense<T>,
    /// The projection, a row for each vertex, and its gradient.
    pub(crate) features: DeviceDense<T>,
    pub(crate) d_features: DeviceDense<T>,
    pub(crate) scores: [DeviceDense<T>; 2],
    pub(crate) d_scores: [DeviceDense<T>; 2],
    pub(crate) out: DeviceDense<T>,
    pub(crate) log_sums: DeviceDense<T>,
}

impl<T: Scalar> Layer<T> {
    pub(crate) fn new(device: &Device, n: usize, (heads, width): (usize, usize), seeds: [u64; 2]) -> Result<Self> {
        let cols = heads * width;
        let of_head = |at: usize| T::from_f64(if at / heads / width == at % heads { 1.0 } else { 0.0 });
        let mask = device.upload_dense((cols, heads), &(0..cols * heads).map(of_head).collect::<Vec<_>>())?;
        let bound = T::from_f64((6.0 / (width + 1) as f64).sqrt()); // by Glorot's rule, for each head
        let vectors = |seed: u64| {
            let mut vectors = device.zeros_dense((cols, heads))?;
            vectors.elements_mut().fill_uniform(seed, T::default() - bound, bound)?;
            vectors.elements_mut().zip(Zip::Mul, mask.elements())?;
            Parameter::new(vectors, ADAM)
        };
        let zeros = |ncols: usize| device.zeros_dense((n, ncols));
        Ok(Self {
            vectors: [vectors(seeds[0])?, vectors(seeds[1])?],
            mask,
            features: zeros(cols)?,
            d_features: zeros(cols)?,
            scores: [zeros(heads)?, zeros(heads)?],
            d_scores: [zeros(heads)?, zeros(heads)?],
            out: zeros(cols)?,
            log_sums: zeros(heads)?,
        })
    }

    pub(crate) fn forward(&mut self, graph: &Adjacency, options: &Attention) -> Result<()> {
        for (scores, vectors) in self.scores.iter_mut().zip(&self.vectors) {
            self.features.gemm(T::from_f64(1.0), &vectors.weights, T::default(), scores)?;
        }
        let inputs = inputs(&self.scores, &self.features);
        graph.attention(options, inputs, &mut self.out, &mut self.log_sums)
    }

    /// Computes the gradients of the vectors and `d_features`, from that of `out`.
    pub(crate) fn backward(&mut self, graph: &Adjacency, options: &Attention, d_out: &DeviceDense<T>) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let [row_scores, col_scores] = self.d_scores.each_mut().map(DeviceDense::view_mut);
        let gradients = AttentionGradients { row_scores, col_scores, features: self.d_features.view_mut() };
        let inputs = inputs(&self.scores, &self.features);
        graph.attention_backward(options, inputs, &self.out, &self.log_sums, d_out, gradients)?;
        for (d_scores, Parameter { weights, gradient, .. }) in self.d_scores.iter().zip(&mut self.vectors) {
            d_scores.gemm(one, weights.transpose(), one, &mut self.d_features)?;
            gemm(one, self.features.transpose(), d_scores, zero, &mut *gradient)?;
            gradient.elements_mut().zip(Zip::Mul, self.mask.elements())?;
        }
        Ok(())
    }
}

pub(crate) fn inputs<'a, T: Scalar>(
    scores: &'a [DeviceDense<T>; 2],
    features: &'a DeviceDense<T>,
) -> AttentionInputs<'a, T> {
    AttentionInputs { row_scores: scores[0].view(), col_scores: scores[1].view(), features: features.view() }
}
