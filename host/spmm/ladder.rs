//! Products of a CSR matrix with dense matrices by forced kernels: launches of the families `spmm_ladder` and `spmm_atomic`.

use std::sync::Arc;

use kernels_gpu::{
    spmm_atomic::{self, Task},
    spmm_ladder::{self, Rung},
};

use super::{
    Multiply, Product, SpmmKernel,
    shares::{columns, grid, row_bytes},
};
use crate::{
    CsrMatrix, DenseMut, Error, KernelChoice, Offset, Result, Scalar,
    device::{Buffer, launch},
    stored::CsrArrays,
};

/// Products by one kernel of these families, for any matrix.
#[derive(Debug)]
pub(super) struct Forced<T, O> {
    csr: Arc<CsrArrays<T, O>>,
    kernel: Kernel<T>,
    reason: String,
}

#[derive(Debug)]
enum Kernel<T> {
    Rung(Rung),
    Atomic { task: Task, entries: Entries<T> },
}

/// The arrays missing from CSR for the entries in the desired order.
#[derive(Debug)]
enum Entries<T> {
    ByRows { row_indices: Buffer<u32> },
    ByColumns { row_indices: Buffer<u32>, col_indices: Buffer<u32>, values: Buffer<T> },
}

impl<T: Scalar, O: Offset> Forced<T, O> {
    /// Creates products by this kernel, which belongs to these families. Atomic kernels take `O(nnz + nrows + ncols)`.
    pub(super) fn new(csr: &Arc<CsrArrays<T, O>>, ncols: usize, kernel: SpmmKernel) -> Result<Self> {
        const ATOMIC: &str = "atomic additions, whose order changes from run to run, as the options say";
        let rung = |rung, what: String| Ok((Kernel::Rung(rung), format!("{what}, as the options say")));
        let atomic = |task, entries: Result<Entries<T>>, what: &str| {
            let kernel = Kernel::Atomic { task, entries: entries? };
            Ok((kernel, format!("{what}; {ATOMIC}")))
        };
        let (kernel, reason) = match kernel {
            SpmmKernel::Tiles => unreachable!("the kernel of another family"),
            SpmmKernel::RowPerThread => rung(Rung::RowPerThread, "a row a thread".into()),
            SpmmKernel::ElementPerThread => rung(Rung::ElementPerThread, "an element of C a thread".into()),
            SpmmKernel::RowCaching { tiles } => {
                let what = format!("a row and {} columns a warp, entries staged in shared memory", 32 * tiles);
                rung(Rung::RowCaching { tiles }, what)
            }
            SpmmKernel::AtomicEntryPerThread => atomic(Task::EntryPerThread, by_rows(csr), "an entry a thread"),
            SpmmKernel::AtomicEntryPerWarp => atomic(Task::EntryPerWarp, by_rows(csr), "an entry a warp"),
            SpmmKernel::AtomicEntryPerWarpByColumns => {
                atomic(Task::EntryPerWarp, by_columns(csr, ncols), "an entry a warp, by columns")
            }
        }?;
        Ok(Self { csr: Arc::clone(csr), kernel, reason })
    }

    pub(super) fn choice(&self) -> KernelChoice {
        let entry = match self.kernel {
            Kernel::Rung(rung) => rung_key::<T, O>(rung).entry(),
            Kernel::Atomic { task, .. } => spmm_atomic::Key { task, dtype: T::DTYPE }.entry(),
        };
        KernelChoice { kernel: entry.name.into(), reason: self.reason.clone() }
    }

    /// `C = alpha * A * B + C`.
    fn add(&self, task: Task, arrays: &Entries<T>, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, c, .. } = product;
        let csr = &*self.csr;
        let own_values = csr.values.read();
        let (row_indices, col_indices, values) = match arrays {
            Entries::ByRows { row_indices } => (row_indices, &csr.col_indices, own_values.buffer()),
            Entries::ByColumns { row_indices, col_indices, values } => (row_indices, col_indices, values),
        };
        let entries = entries(csr)?;
        if entries == 0 {
            return Ok(());
        }
        let cols = c.ncols() as u32;
        let (b_row_bytes, c_row_bytes) =
            (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
        let (queue, c) = c.into_writable();
        let entry = spmm_atomic::Key { task, dtype: T::DTYPE }.entry();
        let args = spmm_atomic::Args {
            entries,
            cols,
            b_row_bytes,
            c_row_bytes,
            alpha,
            row_indices: row_indices.readable(&csr.device),
            col_indices: col_indices.readable(&csr.device),
            values: values.readable(&csr.device),
            b: b.readable(),
            c,
        };
        // SAFETY: the arrays are the entries of a valid CSR matrix, and dense matrices of fitting sizes that their vectors
        // have room for, none a part of another; `c` is borrowed mutably, so it is none of the others.
        unsafe { launch(queue, entry, task.grid_size(entries), args) }
    }
}

impl<T: Scalar, O: Offset> Multiply<T> for Forced<T, O> {
    fn multiply(&self, mut product: Product<'_, T>) -> Result<()> {
        if columns(product.b.ncols())? == 0 || self.csr.nrows == 0 {
            return Ok(());
        }
        match &self.kernel {
            Kernel::Rung(rung) => launch_rung(&self.csr, *rung, product),
            Kernel::Atomic { task, entries: arrays } => {
                // Check what the second launch could reject before the first one changes C.
                row_bytes::<T>(product.b.leading_dimension())?;
                entries(&self.csr)?;
                scale(self.csr.nrows, product.beta, product.c.view_mut())?;
                self.add(*task, arrays, product)
            }
        }
    }
}

fn by_rows<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>) -> Result<Entries<T>> {
    entries(csr)?;
    let offsets = csr.row_offsets.to_vec(&csr.device)?;
    Ok(Entries::ByRows { row_indices: Buffer::upload(&csr.device, &indices(&offsets))? })
}

fn by_columns<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>, ncols: usize) -> Result<Entries<T>> {
    entries(csr)?;
    let device = &csr.device;
    let (columns, values) = (csr.col_indices.to_vec(device)?, csr.values.read().to_vec()?);
    let offsets = csr.row_offsets.to_vec(device)?;
    let transpose = CsrMatrix::try_from_csr_data(csr.nrows as usize, ncols, offsets, columns, values)?.transpose()?;
    let (_, row_indices, values) = transpose.arrays();
    Ok(Entries::ByColumns {
        row_indices: Buffer::share(device, row_indices)?,
        col_indices: Buffer::upload(device, &indices(transpose.row_offsets()))?,
        values: Buffer::share(device, values)?,
    })
}

fn rung_key<T: Scalar, O: Offset>(rung: Rung) -> spmm_ladder::Key {
    spmm_ladder::Key { rung, dtype: T::DTYPE, offset_bytes: size_of::<O>() }
}

fn launch_rung<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>, rung: Rung, product: Product<'_, T>) -> Result<()> {
    let Product { alpha, b, beta, c } = product;
    let cols = c.ncols() as u32;
    let (b_row_bytes, c_row_bytes) = (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
    let blocks = grid(rung.grid_size(csr.nrows, cols), csr.nrows, cols)?;
    let values = csr.values.read();
    let (queue, c) = c.into_writable();
    let args = spmm_ladder::Args {
        rows: csr.nrows,
        cols,
        b_row_bytes,
        c_row_bytes,
        alpha,
        beta,
        row_offsets: csr.row_offsets.readable(&csr.device),
        col_indices: csr.col_indices.readable(&csr.device),
        values: values.readable(),
        b: b.readable(),
        c,
    };
    // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for, none
    // a part of another; `c` is borrowed mutably, so it is none of the others. `Args<T, O>` is what the entry for
    // `T` and `O` takes.
    unsafe { launch(queue, rung_key::<T, O>(rung).entry(), blocks, args) }
}

/// Computes `C = beta * C`, leaving gaps unchanged.
fn scale<T: Scalar>(rows: u32, beta: T, c: DenseMut<'_, T>) -> Result<()> {
    if beta == T::from_f64(1.0) {
        return Ok(());
    }
    let entry = spmm_atomic::Key { task: Task::Scale, dtype: T::DTYPE }.entry();
    let (cols, c_row_bytes) = (c.ncols() as u32, row_bytes::<T>(c.leading_dimension())?);
    let (queue, c) = c.into_writable();
    let args = spmm_atomic::ScaleArgs { rows, cols, c_row_bytes, beta, c };
    // SAFETY: the vector has room for the matrix, and is borrowed mutably.
    unsafe { launch(queue, entry, Task::Scale.grid_size(rows), args) }
}

/// Returns the number of entries, which the atomic kernels count in 32 bits.
fn entries<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>) -> Result<u32> {
    let nnz = csr.nnz;
    u32::try_from(nnz.index())
        .map_err(|_| Error::Unsupported(format!("atomic additions of {nnz} entries: 2^32 and more")))
}

/// Returns the row of each entry from row offsets, or the column from column offsets.
fn indices<O: Offset>(offsets: &[O]) -> Vec<u32> {
    let mut indices = Vec::with_capacity(offsets[offsets.len() - 1].index());
    for (line, end) in offsets[1..].iter().enumerate() {
        indices.resize(end.index(), line as u32);
    }
    indices
}
