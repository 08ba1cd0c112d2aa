//! Products of a CSR matrix with dense matrices by forced kernels: launches of the families `spmm_ladder` and `spmm_atomic`.

use std::sync::Arc;

use kernels_gpu::{
    Variant,
    spmm_atomic::{self, PRODUCTS, SCALES},
    spmm_ladder::{self, Rung},
};

use super::{
    Multiply, Product, SpmmKernel,
    shares::{columns, grid, row_bytes},
};
use crate::{
    CsrMatrix, DenseMut, Error, KernelChoice, Offset, Result, Scalar,
    device::{Buffer, KernelLaunch},
    spmv::CsrArrays,
};

/// Products by one kernel of these families, whatever the matrix is like.
#[derive(Debug)]
pub(super) struct Forced<T, O> {
    csr: Arc<CsrArrays<T, O>>,
    kernel: Kernel<T>,
    reason: String,
}

#[derive(Debug)]
enum Kernel<T> {
    Rung(Rung, &'static Variant),
    Atomic { variant: &'static Variant, entries: Entries<T> },
}

/// What the CSR arrays lack of the entries in the order wanted.
#[derive(Debug)]
enum Entries<T> {
    ByRows { row_indices: Buffer<u32> },
    ByColumns { row_indices: Buffer<u32>, col_indices: Buffer<u32>, values: Buffer<T> },
}

impl<T: Scalar, O: Offset> Forced<T, O> {
    /// The kernel, which is one of these families. Atomic ones take `O(nnz + nrows + ncols)`.
    pub(super) fn new(csr: &Arc<CsrArrays<T, O>>, ncols: usize, kernel: SpmmKernel) -> Result<Self> {
        const ATOMIC: &str = "atomic additions, whose order changes from run to run, as the options say";
        let rung = |rung: Rung, what: String| {
            let variant = rung.variant(T::DTYPE, size_of::<O>()).expect("the options have been checked");
            Ok((Kernel::Rung(rung, variant), format!("{what}, as the options say")))
        };
        let atomic = |lanes, entries: Result<Entries<T>>, what: &str| {
            let kernel = Kernel::Atomic { variant: of_lanes::<T>(PRODUCTS, lanes), entries: entries? };
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
            SpmmKernel::AtomicEntryPerThread => atomic(1, by_rows(csr), "an entry a thread"),
            SpmmKernel::AtomicEntryPerWarp => atomic(32, by_rows(csr), "an entry a warp"),
            SpmmKernel::AtomicEntryPerWarpByColumns => {
                atomic(32, by_columns(csr, ncols), "an entry a warp, by columns")
            }
        }?;
        Ok(Self { csr: Arc::clone(csr), kernel, reason })
    }

    pub(super) fn choice(&self) -> KernelChoice {
        let (Kernel::Rung(_, variant) | Kernel::Atomic { variant, .. }) = self.kernel;
        KernelChoice { kernel: variant.entry.into(), reason: self.reason.clone() }
    }

    /// `C = alpha * A * B + C`.
    fn add(&self, variant: &'static Variant, arrays: &Entries<T>, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, c, .. } = product;
        let csr = &*self.csr;
        let (row_indices, col_indices, values) = match arrays {
            Entries::ByRows { row_indices } => (row_indices, &csr.col_indices, &csr.values),
            Entries::ByColumns { row_indices, col_indices, values } => (row_indices, col_indices, values),
        };
        let entries = entries(csr)?;
        if entries == 0 {
            return Ok(());
        }
        let (b_offset, c_offset, cols) = (b.offset(), c.offset(), c.ncols() as u32);
        let (b_row_bytes, c_row_bytes) =
            (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
        let (queue, c) = c.into_vec().parts_mut();
        let blocks = spmm_atomic::grid_size(entries, variant.lanes);
        let mut launch = KernelLaunch::of_family(queue, "spmm_atomic", variant, blocks);
        let args = spmm_atomic::Args {
            entries,
            cols,
            b_row_bytes,
            c_row_bytes,
            alpha,
            row_indices: launch.read("row_indices", row_indices.array(), &csr.device),
            col_indices: launch.read("col_indices", col_indices.array(), &csr.device),
            values: launch.read("values", values.array(), &csr.device),
            b: launch.read("b", b.vec().buffer().array(), b.device()).wrapping_add(b_offset),
            c: launch.write("c", c, queue).wrapping_add(c_offset),
        };
        // SAFETY: the arrays are the entries of a valid CSR matrix, and dense matrices of fitting sizes that their vectors
        // have room for, none a part of another; `c` is borrowed mutably, so it is none of the others.
        unsafe { launch.run_variant(variant, &args) }
    }
}

impl<T: Scalar, O: Offset> Multiply<T> for Forced<T, O> {
    fn multiply(&self, mut product: Product<'_, T>) -> Result<()> {
        if columns(product.b.ncols())? == 0 || self.csr.nrows == 0 {
            return Ok(());
        }
        match &self.kernel {
            Kernel::Rung(rung, variant) => launch_rung(&self.csr, *rung, variant, product),
            Kernel::Atomic { variant, entries: arrays } => {
                // What the second launch could refuse, before the first has changed C.
                row_bytes::<T>(product.b.leading_dimension())?;
                entries(&self.csr)?;
                scale(self.csr.nrows, product.beta, product.c.view_mut())?;
                self.add(variant, arrays, product)
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
    let (columns, values) = (csr.col_indices.to_vec(device)?, csr.values.to_vec(device)?);
    let offsets = csr.row_offsets.to_vec(device)?;
    let transpose = CsrMatrix::try_from_csr_data(csr.nrows as usize, ncols, offsets, columns, values)?.transpose()?;
    let (_, row_indices, values) = transpose.arrays();
    Ok(Entries::ByColumns {
        row_indices: Buffer::share(device, row_indices)?,
        col_indices: Buffer::upload(device, &indices(transpose.row_offsets()))?,
        values: Buffer::share(device, values)?,
    })
}

fn launch_rung<T: Scalar, O: Offset>(
    csr: &CsrArrays<T, O>,
    rung: Rung,
    variant: &'static Variant,
    product: Product<'_, T>,
) -> Result<()> {
    let Product { alpha, b, beta, c } = product;
    let (b_offset, c_offset, cols) = (b.offset(), c.offset(), c.ncols() as u32);
    let (b_row_bytes, c_row_bytes) = (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
    let blocks = grid(rung.grid_size(csr.nrows, cols), csr.nrows, cols)?;
    let (queue, c) = c.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, "spmm_ladder", variant, blocks);
    let args = spmm_ladder::Args {
        rows: csr.nrows,
        cols,
        b_row_bytes,
        c_row_bytes,
        alpha,
        beta,
        row_offsets: launch.read("row_offsets", csr.row_offsets.array(), &csr.device),
        col_indices: launch.read("col_indices", csr.col_indices.array(), &csr.device),
        values: launch.read("values", csr.values.array(), &csr.device),
        b: launch.read("b", b.vec().buffer().array(), b.device()).wrapping_add(b_offset),
        c: launch.write("c", c, queue).wrapping_add(c_offset),
    };
    // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for, none
    // a part of another; `c` is borrowed mutably, so it is none of the others. `Args<T, O>` is what the variant for
    // `T` and `O` takes.
    unsafe { launch.run_variant(variant, &args) }
}

/// `C = beta * C`, gaps left as they are.
fn scale<T: Scalar>(rows: u32, beta: T, c: DenseMut<'_, T>) -> Result<()> {
    if beta == T::from_f64(1.0) {
        return Ok(());
    }
    let variant = of_lanes::<T>(SCALES, 32);
    let (offset, cols, c_row_bytes) = (c.offset(), c.ncols() as u32, row_bytes::<T>(c.leading_dimension())?);
    let (queue, c) = c.into_vec().parts_mut();
    let blocks = spmm_atomic::grid_size(rows, variant.lanes);
    let mut launch = KernelLaunch::of_family(queue, "spmm_atomic", variant, blocks);
    let args =
        spmm_atomic::ScaleArgs { rows, cols, c_row_bytes, beta, c: launch.write("c", c, queue).wrapping_add(offset) };
    // SAFETY: the vector has room for the matrix, and is borrowed mutably.
    unsafe { launch.run_variant(variant, &args) }
}

/// The number of entries, which the atomic kernels count in 32 bits.
fn entries<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>) -> Result<u32> {
    let nnz = csr.nnz;
    u32::try_from(nnz.index())
        .map_err(|_| Error::Unsupported(format!("atomic additions of {nnz} entries: 2^32 and more")))
}

/// The row of each entry, of the offsets of rows; or the column, of those of columns.
fn indices<O: Offset>(offsets: &[O]) -> Vec<u32> {
    let mut indices = Vec::with_capacity(offsets[offsets.len() - 1].index());
    for (line, end) in offsets[1..].iter().enumerate() {
        indices.resize(end.index(), line as u32);
    }
    indices
}

fn of_lanes<T: Scalar>(variants: &'static [Variant], lanes: u32) -> &'static Variant {
    let wanted = |variant: &&Variant| variant.dtype == Some(T::DTYPE) && variant.lanes == lanes;
    variants.iter().find(wanted).expect("a variant for every element type")
}
