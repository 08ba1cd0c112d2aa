//! Learning on graphs: products, softmax and attention over the edges of a graph, and their gradients.

mod attention;
mod cpu;
mod edge_softmax;
mod half;
mod pieces;
mod sddmm;
mod spmm;

use std::sync::Arc;

pub use attention::{Attention, AttentionGradients, AttentionInputs};
use kernels_gpu::graph_lists;

use self::pieces::Pieces;

use crate::{
    CsrMatrix, DenseMut, DenseRef, Device, DeviceMatrix, DeviceVec, Element, Error, Result, Scalar,
    device::KernelLaunch, memory::zeros,
};

/// The edges of a graph, or the entries of a sparse matrix, by rows and by columns: for operations on values of edges, which are kept apart from the
/// matrix, and for the gradients of these operations.
///
/// Created by [`DeviceMatrix::adjacency`]. An edge leads from a row to a column, and edges are numbered as the entries of the CSR matrix are: row by
/// row. Values of edges are dense matrices of one row for each edge and one column for each head. Where operations have several heads, a row of
/// a dense matrix holds the elements of the first head, then those of the second, and so on.
///
/// Sums have a fixed order: the same input gives the same bits.
///
/// ```
/// use warpsparse::{CsrMatrix, Device};
///
/// // Edges from vertex 0 to 0 and 1, and from 1 to 1.
/// let device = Device::cpu();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 3], vec![0, 1, 1], vec![1.0f64; 3])?;
/// let graph = device.upload(&a)?.adjacency()?;
/// let x = device.upload_dense((2, 2), &[1.0, 2.0, 3.0, 4.0])?;
/// let (mut scores, mut weights) = (device.zeros_dense((3, 1))?, device.zeros_dense((3, 1))?);
/// graph.sddmm(1.0, &x, &x, 0.0, &mut scores)?; // dot products of the vertices' rows
/// assert_eq!(scores.to_vec()?, [5.0, 11.0, 25.0]);
/// graph.edge_softmax(&scores, &mut weights)?;
/// let mut sums = device.zeros_dense::<f64>((2, 2))?;
/// graph.spmm(1.0, &weights, &x, 0.0, &mut sums)?; // means of neighbours, weighted by the softmax
/// assert!((sums.to_vec()?[0] - 2.995).abs() < 1e-3);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Memory: 12 bytes for each edge, 16 on a GPU; 4 for each row and column; less than a third of a byte more for each edge of rows and columns with many.
#[derive(Debug)]
pub struct Adjacency {
    device: Device,
    nrows: usize,
    ncols: usize,
    by_rows: Lists,
    by_cols: Lists,
    /// The row of each edge; empty on the CPU.
    rows_of_edges: DeviceVec<u32>,
}

/// Lists of neighbours, of rows or of columns.
#[derive(Debug)]
struct Lists {
    /// One more than there are lists.
    offsets: DeviceVec<u32>,
    neighbours: DeviceVec<u32>,
    /// The numbers of the edges, unless they are their places.
    numbers: Option<DeviceVec<u32>>,
    pieces: Pieces,
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Returns the edges of the graph whose adjacency matrix this is: see [`Adjacency`]. The values of a matrix in CSR or CSC do not
    /// matter, and duplicates are edges of their own. From other formats, the edges are the entries of the matrix that [`download`](Self::download) converts to CSR:
    /// COO, DIA and BSR add up duplicates, DIA leaves out zeros, and BSR has all entries of its blocks.
    ///
    /// The lists of columns are made on the host, in `O(nnz)`. Waits for copies.
    ///
    /// # Errors
    /// As [`download`](Self::download); [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more.
    pub fn adjacency(&self) -> Result<Adjacency> {
        let matrix = self.download()?.into_csr()?;
        let (offsets, neighbours, _) = matrix.arrays();
        let device = self.device().clone();
        let by_rows = Lists {
            offsets: DeviceVec::share(&device, offsets)?,
            neighbours: DeviceVec::share(&device, neighbours)?,
            numbers: None,
            pieces: Pieces::new(&device, offsets)?,
        };
        let by_cols = Lists::of_columns(&device, &matrix)?;
        let rows_of_edges = rows_of_edges(&device, offsets)?;
        Ok(Adjacency { device, nrows: matrix.nrows(), ncols: matrix.ncols(), by_rows, by_cols, rows_of_edges })
    }
}

impl Adjacency {
    /// Returns the number of rows: of vertices that edges lead from.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Returns the number of columns: of vertices that edges lead to.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Returns the number of edges.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.by_rows.neighbours.len()
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Lists {
    /// Those of the columns of a matrix, in the order of the rows.
    fn of_columns<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>) -> Result<Self> {
        let mut offsets = zeros::<u32>(matrix.ncols() + 1)?;
        for &column in matrix.col_indices() {
            offsets[column as usize + 1] += 1;
        }
        let mut total = 0;
        for offset in &mut offsets {
            total += *offset;
            *offset = total;
        }
        let mut next = zeros::<u32>(matrix.ncols())?;
        next.copy_from_slice(&offsets[..matrix.ncols()]);
        let (mut neighbours, mut numbers) = (zeros::<u32>(matrix.nnz())?, zeros::<u32>(matrix.nnz())?);
        for (number, (row, column, _)) in matrix.triplets().enumerate() {
            let place = next[column] as usize;
            next[column] += 1;
            (neighbours[place], numbers[place]) = (row as u32, number as u32);
        }
        Ok(Self {
            pieces: Pieces::new(device, &offsets)?,
            offsets: DeviceVec::share(device, &Arc::new(offsets))?,
            neighbours: DeviceVec::share(device, &Arc::new(neighbours))?,
            numbers: Some(DeviceVec::share(device, &Arc::new(numbers))?),
        })
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The part of a kernel's arguments. Its rules hold.
    fn argument(&self) -> graph_lists::Lists<KernelLaunch<'_>> {
        graph_lists::Lists {
            lists: self.len() as u32,
            entries: self.neighbours.len() as u32,
            offsets: self.offsets.readable(),
            neighbours: self.neighbours.readable(),
            numbers: self.numbers.as_ref().map(DeviceVec::readable).unwrap_or_default(),
        }
    }
}

/// The row of every edge; nothing on the CPU.
fn rows_of_edges(device: &Device, offsets: &[u32]) -> Result<DeviceVec<u32>> {
    let edges = offsets.last().filter(|_| !device.is_cpu()).map_or(0, |&edges| edges as usize);
    let mut rows = zeros(edges)?;
    if edges > 0 {
        for (row, ends) in offsets.windows(2).enumerate() {
            rows[ends[0] as usize..ends[1] as usize].fill(row as u32);
        }
    }
    DeviceVec::share(device, &Arc::new(rows))
}

/// The columns of a head where a matrix has so many columns for so many heads.
fn width(cols: usize, heads: usize) -> Result<usize> {
    if heads == 0 || !cols.is_multiple_of(heads) {
        return Err(Error::InvalidOption(format!("{cols} columns for {heads} heads: no head has a whole number")));
    }
    Ok(cols / heads)
}

/// A number of columns as kernels have it.
fn narrow(cols: usize) -> Result<u32> {
    let narrow = i32::try_from(cols).map_err(|_| Error::Unsupported(format!("a dense matrix of {cols} columns")))?;
    Ok(narrow as u32)
}

/// The blocks for so many groups of lanes.
fn blocks(groups: u64, lanes: u32) -> Result<u32> {
    let blocks = i32::try_from(graph_lists::grid_size(groups, lanes));
    let too_many = |_| Error::Unsupported(format!("{groups} groups of {lanes} lanes: the grid is too large"));
    blocks.map(|blocks| blocks as u32).map_err(too_many)
}

/// How many elements a lane loads at a time: as many as 16 bytes hold if their number divides all these, otherwise 1.
fn vector<T: Scalar>(elements: &[usize]) -> u32 {
    let widest = 16 / size_of::<T>();
    if elements.iter().all(|elements| elements.is_multiple_of(widest)) { widest as u32 } else { 1 }
}

/// From one row of a matrix to the next.
fn stride<T: Element>(matrix: DenseRef<'_, T>) -> u64 {
    matrix.leading_dimension() as u64
}

/// As [`stride`], for a matrix to write to.
fn stride_mut<T: Element>(matrix: &DenseMut<'_, T>) -> u64 {
    matrix.leading_dimension() as u64
}

/// `check!(graph, "X", (nrows, ncols), x)` fails unless a matrix has so many rows and columns, and is on the graph's device.
macro_rules! check {
    ($graph:expr, $what:literal, $size:expr, $matrix:expr) => {{
        let (size, matrix) = ($size, &$matrix);
        $crate::device::check_length(concat!("the column of ", $what), size.0, matrix.nrows())
            .and_then(|()| $crate::device::check_length(concat!("the row of ", $what), size.1, matrix.ncols()))
            .and_then(|()| $graph.device.check_same($what, matrix.device()))
    }};
}
use check;

/// `row_major!(device; x, y)` makes matrices row-major, those after a second semicolon if there are any: copies of those that are not.
macro_rules! row_major {
    ($device:expr; $($matrix:ident),* $(; $($option:ident),*)?) => {
        $(
            let copy = $crate::dense::in_rows($device, $matrix)?;
            let $matrix = copy.as_ref().map_or($matrix, $crate::DeviceDense::view);
        )*
        $($(
            let copy = $option.map(|matrix| $crate::dense::in_rows($device, matrix)).transpose()?.flatten();
            let $option = copy.as_ref().map($crate::DeviceDense::view).or($option);
        )*)?
    };
}
use row_major;
