//! Products of a CSR matrix with dense matrices: launches of the families `spmm_ladder` and `spmm_atomic`.

use ladder_kernels::{
    spmm_atomic::{self, ScaleArgs, Task},
    spmm_ladder::{self, Rung},
};
use warpsparse::{CsrMatrix, DenseMut, DenseRef, Device, DeviceVec, Error, Kernel, Offset, Result, Scalar};

use crate::kernel::{check_length, check_orders, count, kernel};

/// A kernel for products of a CSR matrix with dense matrices: from the obvious one to GE-SpMM (Huang, Dai, Wang & Yang, "GE-SpMM:
/// General-purpose sparse matrix-matrix multiplication on GPUs for graph neural networks", 2020); and kernels that part the entries evenly
/// among threads, at the price of atomic additions to `C`, which have no fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpmmRung {
    /// A thread has a row of `A`, which it goes through once for each column.
    RowPerThread,
    /// A thread has an element of `C`, the threads of a warp 32 columns of a row.
    ElementPerThread,
    /// As before, but the entries of the row are loaded once a warp and staged in shared memory, 32 at a time: GE-SpMM's
    /// coalesced row caching.
    RowCaching,
    /// The same with GE-SpMM's coarse-grained warp merging: a warp has 64 columns.
    RowCaching2,
    /// The same with 128 columns.
    RowCaching4,
    /// A thread has an entry of `A`, and goes through the columns.
    AtomicEntryPerThread,
    /// A warp has an entry of `A`, its threads the columns.
    AtomicEntryPerWarp,
    /// As before, for entries that are sorted by column, so that rows of `B` are read once.
    AtomicEntryPerWarpByColumns,
}

impl SpmmRung {
    /// Every rung.
    pub const ALL: &[Self] = &[
        Self::RowPerThread,
        Self::ElementPerThread,
        Self::RowCaching,
        Self::RowCaching2,
        Self::RowCaching4,
        Self::AtomicEntryPerThread,
        Self::AtomicEntryPerWarp,
        Self::AtomicEntryPerWarpByColumns,
    ];

    /// Whether sums have no fixed order.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        self.rung().is_none()
    }

    /// The rung of the family `spmm_ladder`, if it is of that.
    const fn rung(self) -> Option<Rung> {
        match self {
            Self::RowPerThread => Some(Rung::RowPerThread),
            Self::ElementPerThread => Some(Rung::ElementPerThread),
            Self::RowCaching => Some(Rung::RowCaching { tiles: 1 }),
            Self::RowCaching2 => Some(Rung::RowCaching { tiles: 2 }),
            Self::RowCaching4 => Some(Rung::RowCaching { tiles: 4 }),
            Self::AtomicEntryPerThread | Self::AtomicEntryPerWarp | Self::AtomicEntryPerWarpByColumns => None,
        }
    }
}

/// A CSR matrix on a device, whose products one kernel computes.
#[derive(Debug)]
pub struct SpmmLadder<T: Scalar, O: Offset> {
    device: Device,
    nrows: u32,
    ncols: usize,
    name: &'static str,
    kernel: Kernels<T, O>,
}

#[derive(Debug)]
enum Kernels<T: Scalar, O: Offset> {
    ByRow {
        rung: Rung,
        kernel: Kernel<spmm_ladder::Args<T, O>>,
        row_offsets: DeviceVec<O>,
        col_indices: DeviceVec<u32>,
        values: DeviceVec<T>,
    },
    ByEntry {
        task: Task,
        kernel: Kernel<spmm_atomic::Args<T>>,
        scale: Kernel<ScaleArgs<T>>,
        row_indices: DeviceVec<u32>,
        col_indices: DeviceVec<u32>,
        values: DeviceVec<T>,
    },
}

impl<T: Scalar, O: Offset> SpmmLadder<T, O> {
    /// The matrix on the device, in the form that the rung needs.
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported) for 2^32 entries and more where a rung counts them;
    /// [`NoDevice`](Error::NoDevice) for a GPU that is older than the kernels; [`OutOfMemory`](Error::OutOfMemory);
    /// [`Driver`](Error::Driver).
    pub fn new(device: &Device, matrix: &CsrMatrix<T, O>, rung: SpmmRung) -> Result<Self> {
        let (name, kernel) = match rung {
            SpmmRung::AtomicEntryPerThread => by_entry(device, Task::EntryPerThread, matrix, false)?,
            SpmmRung::AtomicEntryPerWarp => by_entry(device, Task::EntryPerWarp, matrix, false)?,
            SpmmRung::AtomicEntryPerWarpByColumns => by_entry(device, Task::EntryPerWarp, matrix, true)?,
            _ => by_row(device, rung.rung().expect("all others are atomic"), matrix)?,
        };
        let nrows = count("a number of rows", matrix.nrows())?;
        Ok(Self { device: device.clone(), nrows, ncols: matrix.ncols(), name, kernel })
    }

    /// The entry point in the PTX.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where the matrix lives.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// `C = alpha * A * B + beta * C`, queued on the stream of `C`. With `beta` = 0 the old `C` is not read.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch); [`Unsupported`](Error::Unsupported) for
    /// column-major matrices, and for sizes that kernels do not count; [`InvalidOption`](Error::InvalidOption) on the CPU, which runs no
    /// kernels; [`Driver`](Error::Driver).
    pub fn spmm<'b, 'c>(
        &self,
        alpha: T,
        b: impl Into<DenseRef<'b, T>>,
        beta: T,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (b, c) = (b.into(), c.into());
        check_length("the column of B", self.ncols, b.nrows())?;
        check_length("the column of C", self.nrows as usize, c.nrows())?;
        check_length("the row of C", b.ncols(), c.ncols())?;
        check_orders(&[("B", b.order()), ("C", c.order())])?;
        let bytes = |leading_dimension: usize| {
            count("a leading dimension in bytes", leading_dimension.saturating_mul(size_of::<T>()))
        };
        let (b_row_bytes, c_row_bytes) = (bytes(b.leading_dimension())?, bytes(c.leading_dimension())?);
        let shape =
            Shape { rows: self.nrows, cols: count("a number of columns", c.ncols())?, b_row_bytes, c_row_bytes };
        if shape.rows == 0 || shape.cols == 0 {
            return Ok(());
        }
        self.kernel.multiply(shape, alpha, b, beta, c)
    }
}

/// The sizes of a product that is not empty.
#[derive(Clone, Copy)]
struct Shape {
    rows: u32,
    cols: u32,
    b_row_bytes: u32,
    c_row_bytes: u32,
}

impl<T: Scalar, O: Offset> Kernels<T, O> {
    fn multiply(&self, shape: Shape, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        let Shape { rows, cols, b_row_bytes, c_row_bytes } = shape;
        let queue = c.device().clone();
        match self {
            Self::ByRow { rung, kernel, row_offsets, col_indices, values } => {
                let blocks = rung.grid_size(rows, cols);
                let too_large = |_| {
                    Error::Unsupported(format!("a product of {rows} rows and {cols} columns: the grid is too large"))
                };
                let mut launch = queue.launch(kernel, i32::try_from(blocks).map_err(too_large)? as u32)?;
                let args = spmm_ladder::Args {
                    rows,
                    cols,
                    b_row_bytes,
                    c_row_bytes,
                    alpha,
                    beta,
                    row_offsets: launch.read("row_offsets", row_offsets)?,
                    col_indices: launch.read("col_indices", col_indices)?,
                    values: launch.read("values", values)?,
                    b: launch.read("b", b.elements())?,
                    c: launch.write("c", c.into_elements())?,
                };
                // SAFETY: a valid CSR matrix, and row-major matrices of fitting sizes; `c` is borrowed mutably, so it is none of the others.
                unsafe { launch.run(args) }
            }
            Self::ByEntry { task, kernel, scale, row_indices, col_indices, values } => {
                let mut c = c;
                if beta != T::from_f64(1.0) {
                    scale_rows(&queue, scale, shape, beta, c.view_mut())?;
                }
                let entries = values.len() as u32;
                if entries == 0 {
                    return Ok(());
                }
                let mut launch = queue.launch(kernel, task.grid_size(entries))?;
                let args = spmm_atomic::Args {
                    entries,
                    cols,
                    b_row_bytes,
                    c_row_bytes,
                    alpha,
                    row_indices: launch.read("row_indices", row_indices)?,
                    col_indices: launch.read("col_indices", col_indices)?,
                    values: launch.read("values", values)?,
                    b: launch.read("b", b.elements())?,
                    c: launch.write("c", c.into_elements())?,
                };
                // SAFETY: the entries of a valid matrix, and row-major matrices of fitting sizes; `c` is borrowed mutably, so it is none of the
                // others.
                unsafe { launch.run(args) }
            }
        }
    }
}

/// `C = beta * C`, gaps left as they are.
fn scale_rows<T: Scalar>(
    queue: &Device,
    kernel: &Kernel<ScaleArgs<T>>,
    shape: Shape,
    beta: T,
    c: DenseMut<'_, T>,
) -> Result<()> {
    let Shape { rows, cols, c_row_bytes, .. } = shape;
    let mut launch = queue.launch(kernel, Task::Scale.grid_size(rows))?;
    let c = launch.write("c", c.into_elements())?;
    // SAFETY: a row-major matrix of this size, borrowed mutably.
    unsafe { launch.run(ScaleArgs { rows, cols, c_row_bytes, beta, c }) }
}

fn by_row<T: Scalar, O: Offset>(
    device: &Device,
    rung: Rung,
    matrix: &CsrMatrix<T, O>,
) -> Result<(&'static str, Kernels<T, O>)> {
    let entry = spmm_ladder::Key { rung, dtype: T::DTYPE, offset_bytes: size_of::<O>() }.entry();
    let kernels = Kernels::ByRow {
        rung,
        kernel: kernel(device, entry)?,
        row_offsets: device.upload_vec(matrix.row_offsets())?,
        col_indices: device.upload_vec(matrix.col_indices())?,
        values: device.upload_vec(matrix.values())?,
    };
    Ok((entry.name, kernels))
}

fn by_entry<T: Scalar, O: Offset>(
    device: &Device,
    task: Task,
    matrix: &CsrMatrix<T, O>,
    by_columns: bool,
) -> Result<(&'static str, Kernels<T, O>)> {
    count("a number of entries", matrix.nnz())?;
    let entry = spmm_atomic::Key { task, dtype: T::DTYPE }.entry();
    let scale = spmm_atomic::Key { task: Task::Scale, dtype: T::DTYPE }.entry();
    let transpose = if by_columns { Some(matrix.transpose()?) } else { None };
    let lines = transpose.as_ref().unwrap_or(matrix);
    let line_indices = device.upload_vec(&line_indices(lines.row_offsets()))?;
    let others = device.upload_vec(lines.col_indices())?;
    let (row_indices, col_indices) = if by_columns { (others, line_indices) } else { (line_indices, others) };
    let values = device.upload_vec(lines.values())?;
    let (kernel, scale) = (kernel(device, entry)?, kernel(device, scale)?);
    Ok((entry.name, Kernels::ByEntry { task, kernel, scale, row_indices, col_indices, values }))
}

/// The row of each entry, of the offsets of rows; or the column, of those of columns.
fn line_indices<O: Offset>(offsets: &[O]) -> Vec<u32> {
    let mut indices = Vec::with_capacity(offsets[offsets.len() - 1].index());
    for (line, end) in offsets[1..].iter().enumerate() {
        indices.resize(end.index(), line as u32);
    }
    indices
}
