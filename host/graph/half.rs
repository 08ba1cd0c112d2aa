//! Sums over neighbours of 16-bit elements: launches of the kernel family `half_precision`.

use kernels_gpu::half_precision::{Args, Half as _, Key, Operation, PIECE_LANES, PiecesArgs, VECTOR, groups};

use super::{
    Adjacency, Lists, blocks, check,
    cpu::{HostLists, OfLists},
    row_major,
};
use crate::{
    DenseMut, DenseRef, Error, Half, HalfDense, Reduce, Result,
    dense::{Rows, RowsMut},
    device::launch,
};

/// `c[i] = reduce(values[k] * b[neighbour of k])` over the edges of list `i`. The sizes fit, and all is on one device.
struct Sums<'a> {
    mean: bool,
    /// Those that are left out count as 1.
    values: Option<DenseRef<'a, f32>>,
    b: DenseRef<'a, u32>,
    c: DenseMut<'a, u32>,
}

impl Adjacency {
    /// Computes sums over the edges of each row of a matrix in `bf16` or `f16`: `C[i] = sum(values[k] * B[j])`, where edge `k` leads from row `i` to column
    /// `j`, or for [`Reduce::Mean`] the same divided by the number of edges; rows without edges give 0. `values` is `nnz` x 1, in any
    /// [layout](crate::DenseLayout), or `None` for ones; `b` is `ncols` x `n`, `c` is `nrows` x `n`.
    ///
    /// Products and sums are in `f32`, and each element of `C` is rounded once; what is beyond the largest `f16` becomes infinite. Sums have a fixed order: the
    /// same input on the same device gives the same bits. `O(nnz * n)` work. Products of rows with many edges need temporary memory, less than a sixteenth of an
    /// element in `f32` for each of their edges and columns.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device, Reduce, bf16};
    ///
    /// // Edges from vertex 0 to 0 and 1, and from 1 to 1.
    /// let device = Device::auto();
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 3], vec![0, 1, 1], vec![1.0f32; 3])?;
    /// let graph = device.upload(&a)?.adjacency()?;
    /// let features = device.upload_half((2, 2), &[1.0, 2.0, 3.0, 5.0].map(bf16::from_f32))?;
    /// let mut means = device.zeros_half((2, 2))?;
    /// graph.spmm_half(Reduce::Mean, None, &features, &mut means)?;
    /// assert_eq!(means.to_vec()?, [2.0, 3.5, 3.0, 5.0].map(bf16::from_f32));
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm); [`InvalidOption`](Error::InvalidOption) for a maximum or minimum.
    pub fn spmm_half<H: Half>(
        &self,
        reduce: Reduce,
        values: Option<DenseRef<'_, f32>>,
        b: &HalfDense<H>,
        c: &mut HalfDense<H>,
    ) -> Result<()> {
        self.sums_of_halves((&self.by_rows, self.ncols), reduce, values, b, c)
    }

    /// Computes sums over the edges to each column: `C[j] = sum(values[k] * B[i])`, where edge `k` leads from row `i` to column `j`, the product with the
    /// transpose. It is the gradient of [`spmm_half`](Self::spmm_half) with respect to its `B`, for sums. `b` is `nrows` x `n`, `c` is `ncols` x `n`; otherwise
    /// like [`spmm_half`](Self::spmm_half).
    ///
    /// # Errors
    /// As [`spmm_half`](Self::spmm_half).
    pub fn spmm_half_transposed<H: Half>(
        &self,
        reduce: Reduce,
        values: Option<DenseRef<'_, f32>>,
        b: &HalfDense<H>,
        c: &mut HalfDense<H>,
    ) -> Result<()> {
        self.sums_of_halves((&self.by_cols, self.nrows), reduce, values, b, c)
    }

    /// The sums of lists whose neighbours are among so many rows.
    fn sums_of_halves<H: Half>(
        &self,
        (lists, rows): (&Lists, usize),
        reduce: Reduce,
        values: Option<DenseRef<'_, f32>>,
        b: &HalfDense<H>,
        c: &mut HalfDense<H>,
    ) -> Result<()> {
        if reduce.is_extremum() {
            return Err(Error::InvalidOption(format!("a {reduce:?} in half precision: there are sums and means")));
        }
        if let Some(values) = values {
            check!(self, "the values", (self.nnz(), 1), values)?;
        }
        check!(self, "B", (rows, b.ncols()), b)?;
        check!(self, "C", (lists.len(), b.ncols()), c)?;
        if c.nrows() == 0 || c.ncols() == 0 {
            return Ok(());
        }
        row_major!(&self.device; ; values);
        let sums = Sums { mean: reduce == Reduce::Mean, values, b: b.words(), c: c.words_mut() };
        if self.device.is_cpu() {
            on_cpu::<H>(lists, sums);
            return Ok(());
        }
        launch_sums::<H>(lists, sums)
    }
}

fn launch_sums<H: Half>(lists: &Lists, sums: Sums<'_>) -> Result<()> {
    let Sums { mean, values, b, mut c } = sums;
    let (pieces, format) = (&lists.pieces, H::Format::FORMAT);
    let (mean, vectors) = (u32::from(mean), (b.ncols() / (VECTOR / 2)) as u32);
    let parts = u32::try_from(lists.len() + pieces.len());
    parts.map_err(|_| Error::Unsupported(format!("{} lists and {} pieces of them", lists.len(), pieces.len())))?;
    let value_bytes = values.map_or(Some(0), |values| size_of::<f32>().checked_mul(values.leading_dimension()));
    let value_bytes = value_bytes.and_then(|bytes| u32::try_from(bytes).ok());
    let value_bytes = value_bytes.ok_or_else(|| Error::Unsupported("values 2^32 bytes apart".into()))?;
    let lanes = vectors.next_power_of_two().min(32);
    let entry = Key { format, operation: Operation::Product { weighted: values.is_some(), lanes } }.entry();
    let grid = blocks(groups(lists.len() as u32, pieces.len() as u32, vectors, lanes), lanes)?;
    let mut of_pieces = c.device().scratch(pieces.len() * VECTOR * vectors as usize)?;
    let (queue, written) = c.view_mut().into_writable();
    let args = Args {
        lists: lists.argument(),
        pieces: pieces.argument(),
        vectors,
        mean,
        value_bytes,
        values: values.map(DenseRef::readable).unwrap_or_default(),
        x: b.readable(),
        y: written,
        of_pieces: of_pieces.writable(),
    };
    // SAFETY: valid lists, and row-major matrices of fitting sizes that their vectors have room for; `c` is borrowed mutably, so it is none of the
    // others. Rows are whole vectors, and allocations are aligned to 16 bytes.
    unsafe { launch(queue, entry, grid, args)? };
    if pieces.len() == 0 {
        return Ok(());
    }
    let entry = Key { format, operation: Operation::Pieces }.entry();
    let grid = blocks(pieces.long_lists() as u64 * u64::from(vectors), PIECE_LANES)?;
    let (queue, y) = c.into_writable();
    let of_pieces = of_pieces.readable();
    let args = PiecesArgs { lists: lists.argument(), pieces: pieces.argument(), vectors, mean, of_pieces, y };
    // SAFETY: as before; the launch before this one has written the sums of all pieces.
    unsafe { launch(queue, entry, grid, args) }
}

/// Words of columns whose sums are accumulated together.
const BLOCK: usize = 16;

fn on_cpu<H: Half>(lists: &Lists, sums: Sums<'_>) {
    let Sums { mean, values, b, c } = sums;
    let (words, lists, values, b) = (c.ncols(), HostLists::new(lists), values.map(Rows::new), Rows::new(b));
    lists.for_ranges(2 * words, OfLists(RowsMut::new(c)), &|range, OfLists(mut c)| {
        for list in range.clone() {
            let c = c.part(list - range.start, 0, words);
            let divisor = if mean { lists.edges(list).count().max(1) as f32 } else { 1.0 };
            for (block, c) in c.chunks_mut(BLOCK).enumerate() {
                let mut sums = [[0.0; 2]; BLOCK];
                for (neighbour, number) in lists.edges(list) {
                    let value = values.map_or(1.0, |values| values.at(number, 0));
                    for (sum, &word) in sums.iter_mut().zip(b.part(neighbour, block * BLOCK, c.len())) {
                        sum[0] += value * H::Format::widen(word as u16);
                        sum[1] += value * H::Format::widen((word >> 16) as u16);
                    }
                }
                for (word, sum) in c.iter_mut().zip(sums) {
                    let [low, high] = sum.map(|sum| u32::from(H::Format::narrow(sum / divisor)));
                    *word = low | high << 16;
                }
            }
        }
    });
}
