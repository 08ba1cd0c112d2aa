//! Graph attention: launches of the kernel family `graph_attention`.

mod cpu;
mod options;

use kernels_gpu::graph_attention::{Args, ColumnsArgs, Inputs, Key, MergeArgs, Operation, RowsArgs, groups, tiles};
pub use options::{Attention, AttentionGradients, AttentionInputs};

use super::{Adjacency, Lists, blocks, check, narrow, row_major, stride, stride_mut, vector, width};
use crate::{
    DType, DenseMut, DenseRef, Error, Result, Scalar,
    dense::write_rows,
    device::{KernelLaunch, launch},
};

/// What the backward pass over rows and over columns reads besides the inputs.
#[derive(Clone, Copy)]
struct Outputs<'a, T> {
    out: DenseRef<'a, T>,
    log_sums: DenseRef<'a, T>,
    d_out: DenseRef<'a, T>,
}

impl Adjacency {
    /// Computes graph attention (Veličković et al., "Graph attention networks", 2018) for each head: the sums
    /// `out[i] = sum(m[k] * p[k] * features[j])` over the edges `k` from row `i` to columns `j`, where `p` is the softmax, over the edges of each row, of
    /// `leaky_relu(row_scores[i] + col_scores[j])`, and `m[k]` is 1, or with [dropout](Attention::dropout) 0 or `1 / (1 - rate)`. A row without edges
    /// gives 0.
    ///
    /// One pass over the edges computes everything, with a running maximum and sum (Milakov & Gimelshein, "Online normalizer calculation for softmax",
    /// 2018): nothing of the number of the edges is stored. `out` is `nrows` x `heads * width`. `log_sums`, `nrows` x `heads`, receives the logarithm of
    /// the sum of `exp(leaky_relu(..))` over each row, for the backward pass. Each matrix is in any [layout](crate::DenseLayout); those that are not
    /// row-major are copied. `O(nnz * heads * width)` work.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if the sizes do not match; [`InvalidOption`](Error::InvalidOption) for a dropout rate outside of [0, 1), for a
    /// slope that is not finite in the element type, if there is no head, or the columns of the features are 0 or no multiple of the heads; [`DeviceMismatch`](Error::DeviceMismatch);
    /// [`OutOfMemory`](Error::OutOfMemory); [`Unsupported`](Error::Unsupported) for sizes beyond the limits of a launch.
    pub fn attention<'o, 's, T: Scalar>(
        &self,
        attention: &Attention,
        inputs: AttentionInputs<'_, T>,
        out: impl Into<DenseMut<'o, T>>,
        log_sums: impl Into<DenseMut<'s, T>>,
    ) -> Result<()> {
        let (out, log_sums) = (out.into(), log_sums.into());
        self.check_attention(attention, inputs)?;
        self.check_outputs(inputs, out.view(), log_sums.view())?;
        if self.nrows == 0 {
            return Ok(());
        }
        let AttentionInputs { row_scores, col_scores, features } = inputs;
        row_major!(&self.device; row_scores, col_scores, features);
        let inputs = AttentionInputs { row_scores, col_scores, features };
        write_rows(out, false, |out| {
            write_rows(log_sums, false, |log_sums| {
                if self.device.is_cpu() {
                    cpu::forward(&self.by_rows, attention, inputs, out, log_sums);
                    return Ok(());
                }
                self.forward(attention, inputs, out, log_sums)
            })
        })
    }

    /// Computes the gradients of [`attention`](Self::attention) with the same options and inputs, from `out` and `log_sums`, which that has written, and
    /// from the gradient `d_out` of a loss with respect to `out`. With `e[k] = row_scores[i] + col_scores[j]` for edge `k` from row `i` to column `j`,
    /// for each head:
    ///
    /// - `d_e[k] = leaky_relu'(e[k]) * p[k] * (m[k] * dot(d_out[i], features[j]) - dot(d_out[i], out[i]))`, which is not stored;
    /// - `d_row_scores[i] = sum(d_e[k])` over the edges from row `i`;
    /// - `d_col_scores[j] = sum(d_e[k])` over the edges to column `j`;
    /// - `d_features[j] = sum(m[k] * p[k] * d_out[i])` over the edges to column `j`.
    ///
    /// The probabilities and what is dropped are computed again, as by Dao et al., "FlashAttention", 2022, in a pass over rows and one over columns. The
    /// derivative of the leaky ReLU at 0 is its slope. `O(nnz * heads * width)` work, and temporary memory for `nrows * heads` elements.
    ///
    /// # Errors
    /// As [`attention`](Self::attention).
    pub fn attention_backward<'o, 's, 'd, T: Scalar>(
        &self,
        attention: &Attention,
        inputs: AttentionInputs<'_, T>,
        out: impl Into<DenseRef<'o, T>>,
        log_sums: impl Into<DenseRef<'s, T>>,
        d_out: impl Into<DenseRef<'d, T>>,
        gradients: AttentionGradients<'_, T>,
    ) -> Result<()> {
        let (out, log_sums, d_out) = (out.into(), log_sums.into(), d_out.into());
        self.check_attention(attention, inputs)?;
        self.check_outputs(inputs, out, log_sums)?;
        self.check_outputs(inputs, d_out, log_sums)?;
        self.check_gradients(inputs, &gradients)?;
        let AttentionInputs { row_scores, col_scores, features } = inputs;
        row_major!(&self.device; row_scores, col_scores, features, out, log_sums, d_out);
        let inputs = AttentionInputs { row_scores, col_scores, features };
        let outputs = Outputs { out, log_sums, d_out };
        let mut deltas = self.device.zeros_dense((self.nrows, row_scores.ncols()))?;
        if self.nrows > 0 {
            write_rows(gradients.row_scores, false, |d_row_scores| {
                self.over_rows(attention, inputs, outputs, d_row_scores, deltas.view_mut())
            })?;
        }
        if self.ncols > 0 {
            write_rows(gradients.col_scores, false, |d_col_scores| {
                write_rows(gradients.features, false, |d_features| {
                    self.over_columns(attention, inputs, outputs, deltas.view(), d_col_scores, d_features)
                })
            })?;
        }
        Ok(())
    }

    fn forward<T: Scalar>(
        &self,
        attention: &Attention,
        inputs: AttentionInputs<'_, T>,
        mut out: DenseMut<'_, T>,
        mut log_sums: DenseMut<'_, T>,
    ) -> Result<()> {
        let (shape, rows) = (Shape::new(inputs, &[out.view()])?, &self.by_rows);
        let (out_stride, log_sums_stride) = (stride_mut(&out), stride_mut(&log_sums));
        let mut out_of_pieces = self.device.scratch(rows.pieces.len() * inputs.features.ncols())?;
        let mut sums_of_pieces = self.device.scratch(2 * rows.pieces.len() * inputs.row_scores.ncols())?;
        let (queue, written) = out.view_mut().into_writable();
        let args = Args {
            inputs: shape.inputs(rows, attention, inputs),
            out_stride,
            log_sums_stride,
            out: written,
            log_sums: log_sums.view_mut().into_writable().1,
            out_of_pieces: out_of_pieces.writable(),
            sums_of_pieces: sums_of_pieces.writable(),
        };
        // SAFETY: valid lists, and row-major matrices of fitting sizes that their vectors have room for; `out` and `log_sums` are borrowed
        // mutably, so they are none of the others. The entry is for `T`.
        unsafe { launch(queue, shape.entry::<T>(Operation::Forward), shape.blocks(rows, true)?, args)? };
        if rows.pieces.len() == 0 {
            return Ok(());
        }
        let (queue, out) = out.into_writable();
        let args = MergeArgs {
            pieces: rows.pieces.argument(),
            heads: shape.heads,
            width: shape.width,
            out_stride,
            log_sums_stride,
            out_of_pieces: out_of_pieces.readable(),
            sums_of_pieces: sums_of_pieces.readable(),
            out,
            log_sums: log_sums.into_writable().1,
        };
        let blocks = rows.pieces.blocks(inputs.features.ncols())?;
        let entry = Key { operation: Operation::Merge, dtype: T::DTYPE, vector: 1, lanes: 1 }.entry();
        // SAFETY: as above, and the launch before has written all that is of pieces.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn over_rows<T: Scalar>(
        &self,
        attention: &Attention,
        inputs: AttentionInputs<'_, T>,
        outputs: Outputs<'_, T>,
        mut d_row_scores: DenseMut<'_, T>,
        deltas: DenseMut<'_, T>,
    ) -> Result<()> {
        if self.device.is_cpu() {
            cpu::over_rows(&self.by_rows, attention, inputs, outputs, d_row_scores, deltas);
            return Ok(());
        }
        let (shape, rows) = (Shape::new(inputs, &[outputs.out, outputs.d_out])?, &self.by_rows);
        let d_row_scores_stride = stride_mut(&d_row_scores);
        let mut scores_of_pieces = self.device.scratch(rows.pieces.len() * inputs.row_scores.ncols())?;
        let (queue, written) = d_row_scores.view_mut().into_writable();
        let Outputs { out, log_sums, d_out } = outputs;
        let args = RowsArgs {
            inputs: shape.inputs(rows, attention, inputs),
            out_stride: stride(out),
            log_sums_stride: stride(log_sums),
            d_out_stride: stride(d_out),
            d_row_scores_stride,
            out: out.readable(),
            log_sums: log_sums.readable(),
            d_out: d_out.readable(),
            d_row_scores: written,
            deltas: deltas.into_writable().1,
            scores_of_pieces: scores_of_pieces.writable(),
        };
        // SAFETY: valid lists, and row-major matrices of fitting sizes that their vectors have room for; `d_row_scores` and `deltas` are borrowed
        // mutably, so they are none of the others, and the rows of `deltas` have no gaps. The entry is for `T`.
        unsafe { launch(queue, shape.entry::<T>(Operation::Rows), shape.blocks(rows, false)?, args)? };
        rows.pieces.add_up((T::ONE, T::ZERO), &scores_of_pieces, d_row_scores)
    }

    fn over_columns<T: Scalar>(
        &self,
        attention: &Attention,
        inputs: AttentionInputs<'_, T>,
        outputs: Outputs<'_, T>,
        deltas: DenseRef<'_, T>,
        mut d_col_scores: DenseMut<'_, T>,
        mut d_features: DenseMut<'_, T>,
    ) -> Result<()> {
        if self.device.is_cpu() {
            cpu::over_columns(&self.by_cols, attention, inputs, outputs, deltas, (d_col_scores, d_features));
            return Ok(());
        }
        let (shape, cols) = (Shape::new(inputs, &[outputs.d_out, d_features.view()])?, &self.by_cols);
        let (d_col_scores_stride, d_features_stride) = (stride_mut(&d_col_scores), stride_mut(&d_features));
        let mut scores_of_pieces = self.device.scratch(cols.pieces.len() * inputs.row_scores.ncols())?;
        let mut features_of_pieces = self.device.scratch(cols.pieces.len() * inputs.features.ncols())?;
        let (queue, written) = d_features.view_mut().into_writable();
        let args = ColumnsArgs {
            inputs: shape.inputs(cols, attention, inputs),
            log_sums_stride: stride(outputs.log_sums),
            d_out_stride: stride(outputs.d_out),
            d_col_scores_stride,
            d_features_stride,
            log_sums: outputs.log_sums.readable(),
            d_out: outputs.d_out.readable(),
            deltas: deltas.readable(),
            d_col_scores: d_col_scores.view_mut().into_writable().1,
            d_features: written,
            scores_of_pieces: scores_of_pieces.writable(),
            features_of_pieces: features_of_pieces.writable(),
        };
        // SAFETY: as in `over_rows`, with lists of columns.
        unsafe { launch(queue, shape.entry::<T>(Operation::Columns), shape.blocks(cols, true)?, args)? };
        cols.pieces.add_up((T::ONE, T::ZERO), &scores_of_pieces, d_col_scores)?;
        cols.pieces.add_up((T::ONE, T::ZERO), &features_of_pieces, d_features)
    }

    fn check_attention<T: Scalar>(&self, attention: &Attention, inputs: AttentionInputs<'_, T>) -> Result<()> {
        attention.check::<T>()?;
        let AttentionInputs { row_scores, col_scores, features } = inputs;
        let (heads, cols) = (row_scores.ncols(), features.ncols());
        check!(self, "the row scores", (self.nrows, heads), row_scores)?;
        check!(self, "the column scores", (self.ncols, heads), col_scores)?;
        check!(self, "the features", (self.ncols, cols), features)?;
        match width(cols, heads)? {
            0 => Err(Error::InvalidOption("features without columns".into())),
            _ => Ok(()),
        }
    }

    fn check_outputs<T: Scalar>(
        &self,
        inputs: AttentionInputs<'_, T>,
        out: DenseRef<'_, T>,
        log_sums: DenseRef<'_, T>,
    ) -> Result<()> {
        let (heads, cols) = (inputs.row_scores.ncols(), inputs.features.ncols());
        check!(self, "the output", (self.nrows, cols), out)?;
        check!(self, "the sums", (self.nrows, heads), log_sums)
    }

    fn check_gradients<T: Scalar>(
        &self,
        inputs: AttentionInputs<'_, T>,
        gradients: &AttentionGradients<'_, T>,
    ) -> Result<()> {
        let AttentionGradients { row_scores, col_scores, features } = gradients;
        let size = |of: DenseRef<'_, T>| (of.nrows(), of.ncols());
        check!(self, "the gradient of the row scores", size(inputs.row_scores), row_scores)?;
        check!(self, "the gradient of the column scores", size(inputs.col_scores), col_scores)?;
        check!(self, "the gradient of the features", size(inputs.features), features)
    }
}

/// Heads and columns, and what groups of lanes have of them.
#[derive(Clone, Copy)]
struct Shape {
    heads: u32,
    width: u32,
    vector: u32,
    lanes: u32,
}

impl Shape {
    /// Of the inputs, for a kernel that accesses rows of the features and of other matrices of as many columns.
    fn new<T: Scalar>(inputs: AttentionInputs<'_, T>, others: &[DenseRef<'_, T>]) -> Result<Self> {
        let heads = inputs.row_scores.ncols();
        narrow(inputs.features.ncols())?;
        let width = width(inputs.features.ncols(), heads)?;
        let matrices = others.iter().chain([&inputs.features]);
        let mut distances: Vec<_> = matrices.flat_map(|it| [it.leading_dimension(), it.offset()]).collect();
        distances.push(width);
        // Up to 8 columns have a lane each.
        let vector = if T::DTYPE == DType::F32 && width > 8 { vector::<T>(&distances) } else { 1 };
        let most = if vector == 1 { 32 } else { 16 };
        let lanes = if width <= 8 * vector as usize { 8 } else { most };
        Ok(Self { heads: heads as u32, width: width as u32, vector, lanes })
    }

    /// The blocks for so many lists, with a group for each tile of columns or for all.
    fn blocks(&self, lists: &Lists, by_tiles: bool) -> Result<u32> {
        let tiles = if by_tiles { tiles(self.width, self.vector, self.lanes) } else { 1 };
        blocks(groups(lists.len() as u32, lists.pieces.len() as u32, self.heads, tiles), self.lanes)
    }

    fn entry<T: Scalar>(&self, operation: Operation) -> &'static kernels_gpu::Entry {
        Key { operation, dtype: T::DTYPE, vector: self.vector, lanes: self.lanes }.entry()
    }

    fn inputs<'a, T: Scalar>(
        &self,
        lists: &'a Lists,
        attention: &Attention,
        inputs: AttentionInputs<'a, T>,
    ) -> Inputs<T, KernelLaunch<'a>> {
        let AttentionInputs { row_scores, col_scores, features } = inputs;
        Inputs {
            lists: lists.argument(),
            pieces: lists.pieces.argument(),
            heads: self.heads,
            width: self.width,
            row_scores_stride: stride(row_scores),
            col_scores_stride: stride(col_scores),
            features_stride: stride(features),
            slope: T::from_f64(attention.slope),
            seed: attention.seed,
            threshold: attention.threshold(),
            kept: attention.kept(),
            row_scores: row_scores.readable(),
            col_scores: col_scores.readable(),
            features: features.readable(),
        }
    }
}
