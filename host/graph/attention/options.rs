//! The options, inputs and gradients of graph attention.

use kernels_gpu::graph_attention::threshold;

use crate::{DenseMut, DenseRef, Error, Result, Scalar};

/// How [`Adjacency::attention`](crate::Adjacency::attention) weighs edges: the slope of its leaky ReLU, and dropout.
///
/// ```
/// let attention = warpsparse::Attention::default().slope(0.2).dropout(0.6, 42);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    pub(super) slope: f64,
    rate: f64,
    pub(super) seed: u64,
}

impl Default for Attention {
    /// A slope of 0.2, without dropout.
    fn default() -> Self {
        Self { slope: 0.2, rate: 0.0, seed: 0 }
    }
}

impl Attention {
    /// Sets the slope of the leaky ReLU below 0.
    #[must_use]
    pub fn slope(self, slope: f64) -> Self {
        Self { slope, ..self }
    }

    /// Drops the weight of each edge and head with a probability of `rate`, from 0 to less than 1, and divides the others by `1 - rate`. Which are dropped
    /// depends on the seed, on the numbers of the edge and of the head, and on the number of heads alone: it is the same on every device, and in the
    /// backward pass. Use another seed for each step of training.
    #[must_use]
    pub fn dropout(self, rate: f64, seed: u64) -> Self {
        Self { rate, seed, ..self }
    }

    pub(super) fn threshold(&self) -> u32 {
        threshold(self.rate)
    }

    /// What weights that are not dropped are multiplied by.
    pub(super) fn kept<T: Scalar>(&self) -> T {
        T::from_f64(1.0 / (1.0 - self.rate))
    }

    pub(super) fn check<T: Scalar>(&self) -> Result<()> {
        let Self { slope, rate, .. } = *self;
        match () {
            () if !(0.0..1.0).contains(&rate) => {
                Err(Error::InvalidOption(format!("a dropout rate of {rate}: it is from 0 to less than 1")))
            }
            () if !T::from_f64(slope).to_f64().is_finite() => {
                Err(Error::InvalidOption(format!("a slope of {slope}, which is not a finite number")))
            }
            () => Ok(()),
        }
    }
}

/// The inputs of [`Adjacency::attention`](crate::Adjacency::attention).
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a, T> {
    /// A score for each row and head: `nrows` x `heads`.
    pub row_scores: DenseRef<'a, T>,
    /// A score for each column and head: `ncols` x `heads`.
    pub col_scores: DenseRef<'a, T>,
    /// What is summed: `ncols` x `heads * width`.
    pub features: DenseRef<'a, T>,
}

/// The gradients that [`Adjacency::attention_backward`](crate::Adjacency::attention_backward) writes.
#[derive(Debug)]
pub struct AttentionGradients<'a, T> {
    /// With respect to the scores of rows: `nrows` x `heads`.
    pub row_scores: DenseMut<'a, T>,
    /// With respect to the scores of columns: `ncols` x `heads`.
    pub col_scores: DenseMut<'a, T>,
    /// With respect to the features: `ncols` x `heads * width`.
    pub features: DenseMut<'a, T>,
}
