//! Graph attention on the CPU. Passes over lists compute scores as often as they need them, rather than store them.

use kernels_gpu::graph_attention::dropout;

use super::{Attention, AttentionInputs, Outputs};
use crate::{
    DenseMut, DenseRef, Scalar,
    dense::{Rows, RowsMut},
    graph::{
        Lists,
        cpu::{HostLists, OfLists, dot, exp, larger, shift},
    },
};

/// The inputs in host memory.
struct Host<'a, T> {
    row_scores: Rows<'a, T>,
    col_scores: Rows<'a, T>,
    features: Rows<'a, T>,
    heads: usize,
    width: usize,
    slope: T,
    dropout: (u64, u32, T),
}

impl<'a, T: Scalar> Host<'a, T> {
    fn new(attention: &Attention, inputs: AttentionInputs<'a, T>) -> Self {
        let heads = inputs.row_scores.ncols();
        Self {
            width: inputs.features.ncols() / heads,
            heads,
            row_scores: Rows::new(inputs.row_scores),
            col_scores: Rows::new(inputs.col_scores),
            features: Rows::new(inputs.features),
            slope: T::from_f64(attention.slope),
            dropout: (attention.seed, attention.threshold(), attention.kept()),
        }
    }

    /// The score of an edge, and the derivative of the leaky ReLU there.
    fn score(&self, row: usize, column: usize, head: usize) -> (T, T) {
        let sum = self.row_scores.at(row, head) + self.col_scores.at(column, head);
        let slope = if sum > T::ZERO { T::ONE } else { self.slope };
        (slope * sum, slope)
    }

    /// What the probability of an edge is multiplied by.
    fn factor(&self, number: usize, head: usize) -> T {
        dropout(self.dropout, number as u32, self.heads as u32, head as u32)
    }

    /// The features of a column for a head.
    fn features(&self, column: usize, head: usize) -> &'a [T] {
        self.features.part(column, head * self.width, self.width)
    }

    /// The work of an edge.
    fn cost(&self) -> usize {
        self.heads * self.width
    }
}

pub(super) fn forward<T: Scalar>(
    rows: &Lists,
    attention: &Attention,
    inputs: AttentionInputs<'_, T>,
    out: DenseMut<'_, T>,
    log_sums: DenseMut<'_, T>,
) {
    let (rows, inputs) = (HostLists::new(rows), Host::new(attention, inputs));
    let out = (OfLists(RowsMut::new(out)), OfLists(RowsMut::new(log_sums)));
    rows.for_ranges(inputs.cost(), out, &|range, (OfLists(mut out), OfLists(mut log_sums))| {
        for row in range.clone() {
            for head in 0..inputs.heads {
                let score = |column| inputs.score(row, column, head).0;
                let none = T::from_f64(f64::NEG_INFINITY);
                let max = rows.edges(row).map(|(column, _)| score(column)).fold(none, larger);
                let shift = shift(max);
                let out = out.part(row - range.start, head * inputs.width, inputs.width);
                out.fill(T::ZERO);
                let mut sum = T::ZERO;
                for (column, number) in rows.edges(row) {
                    let power = exp(score(column) - shift);
                    sum += power;
                    add(out, power * inputs.factor(number, head), inputs.features(column, head));
                }
                if rows.edges(row).next().is_some() {
                    out.iter_mut().for_each(|out| *out = *out / sum);
                }
                *log_sums.at(row - range.start, head) = max + T::from_f64(sum.to_f64().ln());
            }
        }
    });
}

pub(super) fn over_rows<T: Scalar>(
    rows: &Lists,
    attention: &Attention,
    inputs: AttentionInputs<'_, T>,
    outputs: Outputs<'_, T>,
    d_row_scores: DenseMut<'_, T>,
    deltas: DenseMut<'_, T>,
) {
    let (rows, inputs) = (HostLists::new(rows), Host::new(attention, inputs));
    let (out, log_sums, d_out) = (Rows::new(outputs.out), Rows::new(outputs.log_sums), Rows::new(outputs.d_out));
    let written = (OfLists(RowsMut::new(d_row_scores)), OfLists(RowsMut::new(deltas)));
    rows.for_ranges(inputs.cost(), written, &|range, (OfLists(mut d_row_scores), OfLists(mut deltas))| {
        for row in range.clone() {
            for head in 0..inputs.heads {
                let d_out = d_out.part(row, head * inputs.width, inputs.width);
                let delta = dot(d_out, out.part(row, head * inputs.width, inputs.width));
                let log_sum = log_sums.at(row, head);
                let sum = rows.edges(row).fold(T::ZERO, |sum, (column, number)| {
                    let (score, slope) = inputs.score(row, column, head);
                    let dot = dot(d_out, inputs.features(column, head));
                    sum + slope * (exp(score - log_sum) * (inputs.factor(number, head) * dot - delta))
                });
                *d_row_scores.at(row - range.start, head) = sum;
                *deltas.at(row - range.start, head) = delta;
            }
        }
    });
}

pub(super) fn over_columns<T: Scalar>(
    columns: &Lists,
    attention: &Attention,
    inputs: AttentionInputs<'_, T>,
    outputs: Outputs<'_, T>,
    deltas: DenseRef<'_, T>,
    (d_col_scores, d_features): (DenseMut<'_, T>, DenseMut<'_, T>),
) {
    let (columns, inputs) = (HostLists::new(columns), Host::new(attention, inputs));
    let (log_sums, d_out, deltas) = (Rows::new(outputs.log_sums), Rows::new(outputs.d_out), Rows::new(deltas));
    let written = (OfLists(RowsMut::new(d_col_scores)), OfLists(RowsMut::new(d_features)));
    columns.for_ranges(inputs.cost(), written, &|range, (OfLists(mut d_col_scores), OfLists(mut d_features))| {
        for column in range.clone() {
            for head in 0..inputs.heads {
                let features = inputs.features(column, head);
                let d_features = d_features.part(column - range.start, head * inputs.width, inputs.width);
                d_features.fill(T::ZERO);
                let mut sum = T::ZERO;
                for (row, number) in columns.edges(column) {
                    let (score, slope) = inputs.score(row, column, head);
                    let probability = exp(score - log_sums.at(row, head));
                    let factor = inputs.factor(number, head);
                    let d_out = d_out.part(row, head * inputs.width, inputs.width);
                    sum += slope * (probability * (factor * dot(d_out, features) - deltas.at(row, head)));
                    add(d_features, probability * factor, d_out);
                }
                *d_col_scores.at(column - range.start, head) = sum;
            }
        }
    });
}

/// `sums += factor * x`.
fn add<T: Scalar>(sums: &mut [T], factor: T, x: &[T]) {
    for (sum, &x) in sums.iter_mut().zip(x) {
        *sum += factor * x;
    }
}
