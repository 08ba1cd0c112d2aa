//! Products of sparse matrices on the CPU, on all cores with the feature `rayon`.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use kernels_gpu::spgemm_common::{add, product, zero};

use super::{Semiring, other_pattern, too_large};
use crate::{
    CsrMatrix, Device, DeviceMatrix, Error, Offset, Result, Scalar, memory,
    parallel::{for_blocks, join},
};

/// Rows that are not split any more.
const BLOCK: usize = 256;

/// The pattern of a product of two matrices.
#[derive(Debug)]
pub(super) struct Plan<T> {
    a: CsrMatrix<T>,
    b: CsrMatrix<T>,
    pattern: Pattern<T>,
}

/// A matrix of zeros.
#[derive(Debug)]
enum Pattern<T> {
    Narrow(CsrMatrix<T, u32>),
    Wide(CsrMatrix<T, u64>),
}

impl<T: Scalar> Plan<T> {
    pub(super) fn new(
        device: &Device,
        a: &CsrMatrix<T>,
        b: &CsrMatrix<T>,
        mask: Option<&CsrMatrix<T>>,
    ) -> Result<Self> {
        let (mut products, mut least) = (0u64, 0u64);
        for (columns, _) in a.rows() {
            let lengths = columns.iter().map(|&k| b.row_range(k as usize).len() as u64);
            products += lengths.clone().sum::<u64>();
            least += if mask.is_none() { lengths.max().unwrap_or(0) } else { 0 };
        }
        let names = |error: Error, entries| match error {
            Error::OutOfMemory { requested, available, .. } => {
                let error = Error::OutOfMemory { device: device.to_string(), requested, available };
                too_large(error, products, entries, size_of::<T>())
            }
            other => other,
        };
        let fits = |entries: u64| {
            let entries = usize::try_from(entries).unwrap_or(usize::MAX);
            memory::room::<u32>(entries).and_then(|columns| Ok((columns, memory::room::<T>(entries)?))).map(drop)
        };
        fits(least).map_err(|error| names(error, least))?;
        let mut lengths = memory::zeros::<u32>(a.nrows())?;
        let failed = Failed::default();
        for_blocks_of_rows(0..a.nrows(), &mut lengths, &|rows, lengths| {
            let mut table = Table::default();
            for (row, length) in rows.zip(lengths) {
                failed.keep(table.columns_of_row(a, b, mask, row).map(|found| *length = found.len() as u32));
            }
        });
        failed.result()?;
        let nnz = lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        fits(nnz).map_err(|error| names(error, nnz))?;
        let pattern = match u32::try_from(nnz) {
            Ok(_) => Pattern::Narrow(fill(a, b, mask, &lengths)?),
            Err(_) => Pattern::Wide(fill(a, b, mask, &lengths)?),
        };
        Ok(Self { a: a.clone(), b: b.clone(), pattern })
    }

    pub(super) fn nnz(&self) -> usize {
        match &self.pattern {
            Pattern::Narrow(matrix) => matrix.nnz(),
            Pattern::Wide(matrix) => matrix.nnz(),
        }
    }

    pub(super) fn has_made(&self, c: &CsrMatrix<T>) -> bool {
        matches!(&self.pattern, Pattern::Narrow(own) if Arc::ptr_eq(own.arrays().1, c.arrays().1))
    }

    pub(super) fn has_made64(&self, c: &CsrMatrix<T, u64>) -> bool {
        matches!(&self.pattern, Pattern::Wide(own) if Arc::ptr_eq(own.arrays().1, c.arrays().1))
    }

    pub(super) fn multiply(
        &self,
        device: &Device,
        semiring: Semiring,
        a: &CsrMatrix<T>,
        b: &CsrMatrix<T>,
    ) -> Result<DeviceMatrix<T>> {
        for (name, own, other) in [("A", &self.a, a), ("B", &self.b, b)] {
            if !own.has_pattern_of(other) {
                return Err(other_pattern(name));
            }
        }
        Ok(match &self.pattern {
            Pattern::Narrow(c) => DeviceMatrix::of_host_csr(device, c.with_values(values(semiring, a, b, c)?)),
            Pattern::Wide(c) => DeviceMatrix::of_host_csr(device, c.with_values(values(semiring, a, b, c)?)),
        })
    }
}

/// The product, whose pattern is that of another product: only the values are computed.
pub(super) fn on_pattern<T: Scalar>(
    device: &Device,
    a: &CsrMatrix<T>,
    b: &CsrMatrix<T>,
    c: &CsrMatrix<T>,
) -> Result<DeviceMatrix<T>> {
    Ok(DeviceMatrix::of_host_csr(device, c.with_values(values(Semiring::PlusTimes, a, b, c)?)))
}

/// The first error of several threads.
#[derive(Default)]
struct Failed(Mutex<Option<Error>>);

impl Failed {
    fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn result(self) -> Result<()> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// As [`for_blocks`], in smaller blocks.
fn for_blocks_of_rows<E: Send>(
    rows: Range<usize>,
    elements: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    if rows.len() <= BLOCK {
        return for_blocks(rows, elements, work);
    }
    let half = rows.len() / 2;
    let middle = rows.start + half;
    let (elements, later) = elements.split_at_mut(half);
    join(
        || for_blocks_of_rows(rows.start..middle, elements, work),
        || for_blocks_of_rows(middle..rows.end, later, work),
    );
}

/// Calls `work` for consecutive blocks of rows and their entries.
fn for_entries<O: Offset, E: Send>(
    rows: Range<usize>,
    offsets: &[O],
    entries: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    if rows.len() <= BLOCK {
        return work(rows, entries);
    }
    let middle = rows.start + rows.len() / 2;
    let (entries, later) = entries.split_at_mut(offsets[middle].index() - offsets[rows.start].index());
    join(
        || for_entries(rows.start..middle, offsets, entries, work),
        || for_entries(middle..rows.end, offsets, later, work),
    );
}

fn fill<T: Scalar, O: Offset>(
    a: &CsrMatrix<T>,
    b: &CsrMatrix<T>,
    mask: Option<&CsrMatrix<T>>,
    lengths: &[u32],
) -> Result<CsrMatrix<T, O>> {
    let mut offsets = memory::zeros::<O>(a.nrows() + 1)?;
    let mut nnz = 0;
    for (offset, &length) in offsets[1..].iter_mut().zip(lengths) {
        nnz += length as usize;
        *offset = O::try_from(nnz).ok().expect("offsets count the entries");
    }
    let mut columns = memory::zeros::<u32>(nnz)?;
    let failed = Failed::default();
    for_entries(0..a.nrows(), &offsets, &mut columns, &|rows, mut columns| {
        let mut table = Table::default();
        for row in rows {
            let (own, later) = columns.split_at_mut(lengths[row] as usize);
            columns = later;
            failed.keep(table.columns_of_row(a, b, mask, row).map(|found| {
                own.copy_from_slice(found);
                own.sort_unstable();
            }));
        }
    });
    failed.result()?;
    let values = memory::zeros(nnz)?;
    // SAFETY: the offsets are running sums, and all columns are columns of B.
    Ok(unsafe { CsrMatrix::from_csr_data_unchecked(a.nrows(), b.ncols(), offsets, columns, values) })
}

fn values<T: Scalar, O: Offset>(
    semiring: Semiring,
    a: &CsrMatrix<T>,
    b: &CsrMatrix<T>,
    c: &CsrMatrix<T, O>,
) -> Result<Vec<T>> {
    let semiring = semiring.number();
    let mut values = memory::zeros::<T>(c.nnz())?;
    let failed = Failed::default();
    for_entries(0..a.nrows(), c.row_offsets(), &mut values, &|rows, mut values| {
        let mut table = Table::default();
        for row in rows {
            let (own, later) = values.split_at_mut(c.row_range(row).len());
            values = later;
            own.fill(zero(semiring));
            failed.keep(table.of_columns(c.row(row).0));
            for (&k, &factor) in a.row(row).0.iter().zip(a.row(row).1) {
                for (&column, &value) in b.row(k as usize).0.iter().zip(b.row(k as usize).1) {
                    if let Some(sum) = table.get(column).and_then(|place| own.get_mut(place as usize)) {
                        *sum = add(semiring, *sum, product(semiring, factor, value));
                    }
                }
            }
        }
    });
    failed.result()?;
    Ok(values)
}

/// Columns of a row by hashing, each with a place.
#[derive(Default)]
struct Table {
    /// Column and place; no column: free.
    slots: Vec<(u32, u32)>,
    /// The columns of a row.
    found: Vec<u32>,
}

impl Table {
    const FREE: u32 = u32::MAX;

    /// Clears a table for so many columns.
    fn clear(&mut self, columns: usize) -> Result<()> {
        let slots = (2 * columns).next_power_of_two().max(4);
        self.slots.clear();
        self.slots.try_reserve(slots).map_err(|_| memory::out_of_memory::<u64>(slots))?;
        self.slots.resize(slots, (Self::FREE, 0));
        self.found.clear();
        self.found.try_reserve(columns).map_err(|_| memory::out_of_memory::<u32>(columns))
    }

    fn slot(&self, column: u32) -> usize {
        let mut slot = column.wrapping_mul(0x9E37_79B1).rotate_left(16) as usize;
        loop {
            // Their number is a power of two.
            slot &= self.slots.len() - 1;
            if self.slots[slot].0 == column || self.slots[slot].0 == Self::FREE {
                return slot;
            }
            slot += 1;
        }
    }

    /// The place of a column.
    fn get(&self, column: u32) -> Option<u32> {
        let (found, place) = self.slots[self.slot(column)];
        (found == column).then_some(place)
    }

    fn of_columns(&mut self, columns: &[u32]) -> Result<()> {
        self.clear(columns.len())?;
        for (place, &column) in columns.iter().enumerate() {
            let slot = self.slot(column);
            self.slots[slot] = (column, place as u32);
        }
        Ok(())
    }

    /// The columns of a row of the product, in any order.
    fn columns_of_row<T: Scalar>(
        &mut self,
        a: &CsrMatrix<T>,
        b: &CsrMatrix<T>,
        mask: Option<&CsrMatrix<T>>,
        row: usize,
    ) -> Result<&[u32]> {
        let products = a.row(row).0.iter().map(|&k| b.row_range(k as usize).len()).sum::<usize>();
        match mask {
            // With a mask, a place of 0 is that of a column that has not been found.
            Some(mask) => {
                self.of_columns(mask.row(row).0)?;
                self.slots.iter_mut().for_each(|slot| slot.1 = 0);
            }
            None => self.clear(products.min(b.ncols()))?,
        }
        for &k in a.row(row).0 {
            for &column in b.row(k as usize).0 {
                let slot = self.slot(column);
                let (found, place) = &mut self.slots[slot];
                let is_new = if mask.is_some() { *found == column && *place == 0 } else { *found == Self::FREE };
                if is_new {
                    (*found, *place) = (column, 1);
                    self.found.push(column);
                }
            }
        }
        Ok(&self.found)
    }
}
