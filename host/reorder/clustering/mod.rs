//! Clustering: places rows that share columns close together.

mod aggregation;
mod aggregation_on_gpu;
mod cpu;
mod gpu;

use super::lists::Lists;
use crate::{
    CsrMatrix, DeviceIndices, DeviceMatrix, Offset, Result, Scalar, conversion::Operand, device, parallel::for_pieces,
};

/// As many rows as are compared in a group, whether they share columns.
const GROUP: usize = kernels_gpu::clustering::GROUP as usize;

/// Rounds of label propagation, at most: communities are found in about five.
const MAX_ROUNDS: usize = 8;

/// No further round, once one changes the labels of less than one row in so many.
const SETTLED: usize = 16;

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes an order of the rows in which rows that share columns are close to one another: `order[new] = old`, as
    /// [`permute`](Self::permute) expects.
    ///
    /// In products with a dense matrix `B`, successive rows then need the same rows of `B`, and find them in a cache.
    /// This holds for a few dozen rows as for thousands. Graphs with communities gain most, whatever their degrees;
    /// meshes gain as well; with random columns, no order helps. Permute the rows alone, or, for a square matrix, the
    /// columns with them. Rows without entries come last.
    ///
    /// If the rows are in a good order already, as in many finite-element matrices, returns that order: if groups of 64
    /// successive rows have no more distinct columns than in the computed order.
    ///
    /// Values do not matter; duplicates count with their multiplicity. The same pattern gives the same order for any
    /// number of threads, and on every device.
    ///
    /// Rows and columns are the vertices of a bipartite graph, and entries are its edges. Three steps lead to an order:
    ///
    /// 1. Label propagation partitions the graph into clusters. Every column starts with its own label; then, in turn,
    ///    all rows and all columns take the label among their neighbours that increases the bipartite modularity of M.
    ///    J. Barber most (M. J. Barber and J. W. Clark, "Detecting network communities by propagating labels under
    ///    constraints", Physical Review E 80, 2009). Modularity compares the neighbours with a label with the number
    ///    expected by chance. So no label takes over, and hubs do not connect unrelated rows.
    /// 2. Rounds of aggregation, at first only within clusters, then without clusters: every vertex chooses the neighbour with the greatest
    ///    `gain² / degree`, where the gain is that of modularity, and vertices of low degree are merged into those that they have chosen, as long
    ///    as those are not merged themselves. The order of the rows is that of the tree of merges: what is merged early stands together. (J. Arai
    ///    et al., "Rabbit Order: just-in-time parallel reordering for fast graph analysis", IPDPS 2016, merges one vertex at a time.)
    /// 3. The order is compared with the given one.
    ///
    /// All cores work in all steps. Takes `O(nnz log(longest row or column))` time a round: at most 8 rounds of label propagation, and some dozen
    /// rounds of aggregation, of which each has a smaller graph. Takes memory for several copies of the pattern, however many columns are empty.
    #[must_use]
    pub fn cluster_rows(&self) -> Vec<u32> {
        cpu::cluster_rows(Lists::rows(self), self.ncols())
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes the order of [`CsrMatrix::cluster_rows`] on the matrix's device, for [`permute_by`](Self::permute_by).
    ///
    /// On a GPU a round is a radix sort of the edges that are left, and a few passes over them; the call waits for the number of edges after
    /// each. Takes memory for some ten copies of the pattern. A matrix in another format is converted to CSR first, on the host if it has
    /// 64-bit offsets.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let a = CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 2, 4, 6, 8], vec![0, 2, 1, 3, 0, 2, 1, 3], vec![1.0f32; 8])?;
    /// let a = Device::auto().upload(&a)?;
    /// let clustered = a.permute_by(Some(&a.cluster_rows()?), None)?;
    /// assert_eq!(clustered.nnz(), 8);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) on a GPU for 2³¹ entries, or 2³² rows and columns with entries, and more;
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded; [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Driver`](crate::Error::Driver).
    pub fn cluster_rows(&self) -> Result<DeviceIndices> {
        device::refuse("an order of rows")?;
        let order = match self.operand()? {
            Operand::Host(matrix) => self.device().upload_vec(&matrix.cluster_rows())?,
            Operand::Device(matrix) => gpu::cluster_rows(&matrix)?,
        };
        // SAFETY: each row has one place in the order.
        Ok(unsafe { DeviceIndices::of_permutation(order) })
    }
}

/// `f` of every index below `count`, on all cores.
fn map<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    const PIECE: usize = 64;
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    for_pieces(&mut results, PIECE, |number, results| {
        (number * PIECE..).zip(results).for_each(|(index, result)| *result = Some(f(index)));
    });
    results.into_iter().flatten().collect()
}
