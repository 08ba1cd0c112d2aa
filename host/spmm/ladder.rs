//! Products of a CSR matrix with dense matrices by forced kernels: launches of the families `spmm_ladder` and `spmm_atomic`.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use kernels_gpu::{
    Variant,
    spmm_atomic::{self, PRODUCTS, SCALES},
    spmm_ladder::{self, Rung},
};

use super::{
    Product, SpmmKernel,
    shares::{grid, row_bytes},
};
use crate::{
    CsrMatrix, DenseMut, Error, KernelChoice, Offset, Result, Scalar,
    device::{Buffer, KernelLaunch},
    spmv::CsrArrays,
};

/// The forced kernels of a matrix, and what they need beside its CSR arrays: made once, and kept as long as the matrix, for
/// graphs may hold launches that read it.
#[derive(Debug)]
pub(super) struct Ladder<T> {
    /// By number of columns.
    forced: Mutex<BTreeMap<u32, Forced>>,
    row_indices: OnceLock<Buffer<u32>>,
    by_columns: OnceLock<Entries<T>>,
}

/// A kernel for all products of a number of columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Forced {
    Rung(Rung, &'static Variant),
    Atomic { variant: &'static Variant, by_columns: bool },
}

/// Entries by columns.
#[derive(Debug)]
struct Entries<T> {
    row_indices: Buffer<u32>,
    col_indices: Buffer<u32>,
    values: Buffer<T>,
}

impl<T: Scalar> Ladder<T> {
    pub(super) fn new() -> Self {
        Self { forced: Mutex::default(), row_indices: OnceLock::new(), by_columns: OnceLock::new() }
    }

    /// The kernel forced for products of so many columns.
    pub(super) fn forced(&self, cols: u32) -> Option<Forced> {
        self.lock().get(&cols).copied()
    }

    /// Leaves products of so many columns to others.
    pub(super) fn forget(&self, cols: u32) {
        self.lock().remove(&cols);
    }

    /// Forces the kernel, which is one of these families, for products of so many columns.
    pub(super) fn prepare<O: Offset>(
        &self,
        csr: &CsrArrays<T, O>,
        ncols: usize,
        cols: u32,
        kernel: SpmmKernel,
    ) -> Result<KernelChoice> {
        const ATOMIC: &str = "atomic additions, whose order changes from run to run, as the options say";
        let rung = |rung: Rung, what: String| {
            let variant = rung.variant(T::DTYPE, size_of::<O>()).expect("the options have been checked");
            (Forced::Rung(rung, variant), format!("{what}, as the options say"))
        };
        let atomic = |lanes, by_columns, what: &str| {
            let variant = of_lanes::<T>(PRODUCTS, lanes);
            (Forced::Atomic { variant, by_columns }, format!("{what}; {ATOMIC}"))
        };
        let (forced, reason) = match kernel {
            SpmmKernel::Tiles => unreachable!("the kernel of another family"),
            SpmmKernel::RowPerThread => rung(Rung::RowPerThread, "a row a thread".into()),
            SpmmKernel::ElementPerThread => rung(Rung::ElementPerThread, "an element of C a thread".into()),
            SpmmKernel::RowCaching { tiles } => {
                let what = format!("a row and {} columns a warp, entries staged in shared memory", 32 * tiles);
                rung(Rung::RowCaching { tiles }, what)
            }
            SpmmKernel::AtomicEntryPerThread => atomic(1, false, "an entry a thread"),
            SpmmKernel::AtomicEntryPerWarp => atomic(32, false, "an entry a warp"),
            SpmmKernel::AtomicEntryPerWarpByColumns => atomic(32, true, "an entry a warp, by columns"),
        };
        // The lock is held, so nobody else makes them meanwhile.
        let mut all = self.lock();
        if let Forced::Atomic { by_columns, .. } = forced {
            self.make_entries(csr, ncols, by_columns)?;
        }
        all.insert(cols, forced);
        let (Forced::Rung(_, variant) | Forced::Atomic { variant, .. }) = forced;
        Ok(KernelChoice { kernel: variant.entry.into(), reason })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Forced>> {
        self.forced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what the CSR arrays lack of the entries in the order wanted, unless it is there: `O(nnz + nrows + ncols)`.
    fn make_entries<O: Offset>(&self, csr: &CsrArrays<T, O>, ncols: usize, by_columns: bool) -> Result<()> {
        let device = &csr.device;
        entries(csr)?;
        if by_columns && self.by_columns.get().is_none() {
            let (columns, values) = (csr.col_indices.to_vec(device)?, csr.values.to_vec(device)?);
            let offsets = csr.row_offsets.to_vec(device)?;
            let transpose =
                CsrMatrix::try_from_csr_data(csr.nrows as usize, ncols, offsets, columns, values)?.transpose()?;
            let (_, row_indices, values) = transpose.arrays();
            let entries = Entries {
                row_indices: Buffer::share(device, row_indices)?,
                col_indices: Buffer::upload(device, &indices(transpose.row_offsets()))?,
                values: Buffer::share(device, values)?,
            };
            self.by_columns.set(entries).expect("nobody else makes them");
        } else if !by_columns && self.row_indices.get().is_none() {
            let row_indices = Buffer::upload(device, &indices(&csr.row_offsets.to_vec(device)?))?;
            self.row_indices.set(row_indices).expect("nobody else makes them");
        }
        Ok(())
    }

    pub(super) fn launch<O: Offset>(
        &self,
        csr: &CsrArrays<T, O>,
        forced: Forced,
        product: Product<'_, T>,
    ) -> Result<()> {
        match forced {
            Forced::Rung(rung, variant) => launch_rung(csr, rung, variant, product),
            Forced::Atomic { variant, by_columns } => {
                // What the second launch could refuse, before the first has changed C.
                row_bytes::<T>(product.b.leading_dimension())?;
                entries(csr)?;
                let mut product = product;
                scale(csr.nrows, product.beta, product.c.reborrow())?;
                self.add(csr, variant, by_columns, product)
            }
        }
    }

    /// `C = alpha * A * B + C`.
    fn add<O: Offset>(
        &self,
        csr: &CsrArrays<T, O>,
        variant: &'static Variant,
        by_columns: bool,
        product: Product<'_, T>,
    ) -> Result<()> {
        const MADE: &str = "made when the kernel was prepared";
        let Product { alpha, b, c, .. } = product;
        let (row_indices, col_indices, values) = if by_columns {
            let Entries { row_indices, col_indices, values } = self.by_columns.get().expect(MADE);
            (row_indices, col_indices, values)
        } else {
            (self.row_indices.get().expect(MADE), &csr.col_indices, &csr.values)
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
