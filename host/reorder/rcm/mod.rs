//! Reverse Cuthill-McKee ordering.

mod cpu;
mod gpu;

use super::lists::Lists;
use crate::{CsrMatrix, DeviceIndices, DeviceMatrix, Error, Offset, Result, Scalar, conversion::Operand, device};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes an order of rows and columns that gives a square matrix a small bandwidth: `order[new] = old`, as
    /// [`permute`](Self::permute) expects for both.
    ///
    /// For meshes and other matrices that have a small bandwidth in some order. Graphs with hubs do not; for those use
    /// [`cluster_rows`](Self::cluster_rows). The pattern is treated as that of `A + Aᵀ`; values do not matter. The same
    /// pattern gives the same order, on the host and on every device.
    ///
    /// The algorithm is that of E. Cuthill and J. McKee ("Reducing the bandwidth of sparse symmetric matrices", ACM
    /// National Conference 1969), reversed (A. George, 1971): connected rows breadth-first, neighbours by increasing
    /// degree, equal ones by increasing index. A search from the first row of a component, by degree and index, finds the row to start from: of
    /// those farthest away the first. This is the first step of the pseudo-peripheral node finder of A. George and J. W. H. Liu ("An
    /// implementation of a pseudoperipheral node finder", ACM Transactions on Mathematical Software 5, 1979), which repeats it.
    ///
    /// Takes `O(nnz log(longest row or column))` time on one core, for two searches of each component, and 5 to 25
    /// bytes of memory per entry.
    ///
    /// ```
    /// use warpsparse::CsrMatrix;
    ///
    /// // The path 1 - 3 - 0 - 2.
    /// let a = CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 2, 3, 4, 6], vec![2, 3, 3, 0, 0, 1], vec![1.0f32; 6])?;
    /// let order = a.reverse_cuthill_mckee()?;
    /// assert_eq!(order, [1, 3, 0, 2]);
    /// assert_eq!(a.permute(&order, &order)?.structure().upper_bandwidth, 1);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the matrix is not square.
    pub fn reverse_cuthill_mckee(&self) -> Result<Vec<u32>> {
        check_square(self.nrows(), self.ncols())?;
        Ok(cpu::reverse_cuthill_mckee(&Lists::rows(self)))
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes the order of [`CsrMatrix::reverse_cuthill_mckee`] on the matrix's device, for [`permute_by`](Self::permute_by) with both
    /// rows and columns.
    ///
    /// On a GPU all components are searched at once, level by level, in one launch per search. Two things take the time: the passes over the entries
    /// before, which build the graph, and the levels, of which a mesh with a large diameter has thousands, one after another. `O(nnz)` work and some
    /// sorts; memory for three copies of the matrix. A matrix in another format is converted to CSR first, on the host if it has 64-bit
    /// offsets. Waits for the GPU a few times.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the matrix is not square, and while a graph is recorded;
    /// [`InvalidMatrix`](Error::InvalidMatrix) if `A + Aᵀ` has 2³² entries and more; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn reverse_cuthill_mckee(&self) -> Result<DeviceIndices> {
        device::refuse("an order of rows")?;
        check_square(self.nrows(), self.ncols())?;
        let order = match self.operand()? {
            Operand::Host(matrix) => self.device().upload_vec(&matrix.reverse_cuthill_mckee()?)?,
            Operand::Device(matrix) => gpu::reverse_cuthill_mckee(matrix)?,
        };
        // SAFETY: each row has one place in the order.
        Ok(unsafe { DeviceIndices::of_permutation(order) })
    }
}

fn check_square(nrows: usize, ncols: usize) -> Result<()> {
    if nrows == ncols {
        return Ok(());
    }
    let problem = format!("reverse Cuthill-McKee orders square matrices, and this one is {nrows} x {ncols}");
    Err(Error::InvalidOption(problem))
}
