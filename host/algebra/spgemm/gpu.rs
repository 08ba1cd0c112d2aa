//! Products of sparse matrices on a GPU or in the emulator.

use std::sync::Arc;

use kernels_gpu::{
    spgemm_bitmap,
    spgemm_common::{CLASSES, COUNTERS, HEAVY_WORDS, Offsets, Patterns, WIDE_WORDS, class, counter},
    spgemm_gather, spgemm_hash,
    spgemm_rows::{self, Step},
    spgemm_values::{self, semiring},
};

use super::{Semiring, other_pattern, too_large};
use crate::{
    Device, DeviceMatrix, DeviceVec, Error, Result, Scalar, algebra,
    device::{Buffer, KernelLaunch, launch},
    stored::{Arrays, CsrArrays},
};

/// The most bytes of columns and bitmaps that are kept from counting to filling.
pub(super) const WORKSPACE_BYTES: u64 = 2 << 30;

/// The pattern of a product of two matrices, and the tasks of its values.
#[derive(Debug)]
pub(super) struct Plan<T> {
    a: Arc<CsrArrays<T, u32>>,
    b: Arc<CsrArrays<T, u32>>,
    entries: u64,
    offsets: RowOffsets,
    columns: DeviceVec<u32>,
    tasks: Tasks,
}

/// Where rows begin.
#[derive(Debug)]
enum RowOffsets {
    Narrow(DeviceVec<u32>),
    Wide(DeviceVec<u64>),
}

/// Tasks by classes.
#[derive(Debug)]
struct Tasks {
    list: DeviceVec<u32>,
    counts: [u32; CLASSES as usize],
}

impl RowOffsets {
    fn readable(&self) -> Offsets<KernelLaunch<'_>> {
        match self {
            Self::Narrow(offsets) => Offsets { narrow: offsets.readable(), wide: Default::default() },
            Self::Wide(offsets) => Offsets { narrow: Default::default(), wide: offsets.readable() },
        }
    }

    fn none<'a>() -> Offsets<KernelLaunch<'a>> {
        Offsets { narrow: Default::default(), wide: Default::default() }
    }
}

impl Tasks {
    /// The tasks that the counters tell of.
    fn place(
        device: &Device,
        counters: &mut DeviceVec<u64>,
        found: &[u64],
        row_count: u32,
        rows: Option<&DeviceVec<u32>>,
        lengths: Option<&DeviceVec<u32>>,
    ) -> Result<Self> {
        let total: u64 = found[..CLASSES as usize].iter().sum();
        // The indices of tasks have 32 bits in kernels.
        let fits = u32::try_from(total).map_err(|_| {
            let requested = total.saturating_mul(16);
            Error::OutOfMemory { device: format!("{device}, for {total} tasks"), requested, available: None }
        })?;
        let mut list = device.scratch::<u32>(4 * fits as usize)?;
        let mut counts = [0; CLASSES as usize];
        counts.iter_mut().zip(found).for_each(|(count, &found)| *count = found as u32);
        if total > 0 {
            let step = if rows.is_some() { Step::PlacePattern } else { Step::PlaceValues };
            let args = spgemm_rows::PlaceArgs {
                row_count,
                rows: rows.map(DeviceVec::readable).unwrap_or_default(),
                lengths: lengths.map(DeviceVec::readable).unwrap_or_default(),
                counters: counters.writable(),
                tasks: list.writable(),
            };
            let blocks = spgemm_rows::grid_size(row_count, 1);
            // SAFETY: the counters are those of these rows, and the list has room for all tasks.
            unsafe { launch(device, spgemm_rows::Key { step }.entry(), blocks, args) }?;
        }
        Ok(Self { list, counts })
    }

    /// For the values of rows of these lengths.
    fn of_lengths(device: &Device, rows: u32, lengths: &DeviceVec<u32>) -> Result<Self> {
        let mut counters = device.zeros::<u64>(COUNTERS as usize)?;
        if rows > 0 {
            let args = spgemm_rows::TallyArgs { rows, lengths: lengths.readable(), counters: counters.writable() };
            let entry = spgemm_rows::Key { step: Step::Tally }.entry();
            // SAFETY: a length for each row, and counters of 0.
            unsafe { launch(device, entry, spgemm_rows::grid_size(rows, 1), args) }?;
        }
        let found = counters.to_vec()?;
        Self::place(device, &mut counters, &found, rows, None, Some(lengths))
    }

    /// The first task of a class, and how many there are.
    fn of(&self, class: u32) -> (u32, u32) {
        (self.counts[..class as usize].iter().sum(), self.counts[class as usize])
    }
}

fn patterns<'a, T: Scalar>(a: &'a CsrArrays<T, u32>, b: &'a CsrArrays<T, u32>) -> Patterns<KernelLaunch<'a>> {
    Patterns {
        rows: a.nrows,
        rows_b: b.nrows,
        cols: b.ncols,
        entries_a: a.nnz,
        entries_b: b.nnz,
        offsets_a: a.row_offsets.readable(&a.device),
        columns_a: a.col_indices.readable(&a.device),
        offsets_b: b.row_offsets.readable(&b.device),
        columns_b: b.col_indices.readable(&b.device),
    }
}

impl<T: Scalar> Plan<T> {
    pub(super) fn new(
        a: &Arc<CsrArrays<T, u32>>,
        b: &Arc<CsrArrays<T, u32>>,
        mask: Option<&Arc<CsrArrays<T, u32>>>,
    ) -> Result<Self> {
        let (a, b) = (Arc::clone(a), Arc::clone(b));
        match mask {
            None => Self::of_products(a, b),
            Some(mask) => Self::of_mask(a, b, mask),
        }
    }

    fn of_products(a: Arc<CsrArrays<T, u32>>, b: Arc<CsrArrays<T, u32>>) -> Result<Self> {
        let (device, nrows) = (&a.device, a.nrows);
        let mut counters = device.zeros::<u64>(COUNTERS as usize)?;
        let mut rows = device.scratch::<u32>(4 * nrows as usize)?;
        if nrows > 0 {
            let is_short = u64::from(a.nnz) < 16 * u64::from(nrows);
            let lanes = if is_short { 4 } else { 32 };
            let entry = spgemm_rows::Key { step: Step::Count { lanes } }.entry();
            let (rows, counters) = (rows.writable(), counters.writable());
            let args = spgemm_rows::CountArgs { patterns: patterns(&a, &b), rows, counters };
            // SAFETY: valid matrices, B canonical, as the caller has checked; counters of 0.
            unsafe { launch(device, entry, spgemm_rows::grid_size(nrows, lanes), args) }?;
        }
        let found = counters.to_vec()?;
        let [room, products, least] =
            [counter::ROOM, counter::PRODUCTS, counter::LEAST_ENTRIES].map(|at| found[at as usize]);
        let names = |error, entries| too_large(error, products, entries, size_of::<T>());
        let fits = |entries: u64| {
            let entries = usize::try_from(entries).unwrap_or(usize::MAX);
            device.scratch::<u32>(entries).and_then(|columns| Ok((columns, device.scratch::<T>(entries)?))).map(drop)
        };
        // A small product would fit anywhere, and is not worth a look.
        if least > 1 << 28 {
            fits(least).map_err(|error| names(error, least))?;
        }
        let tasks = Tasks::place(device, &mut counters, &found, nrows, Some(&rows), None)?;
        let mut pattern = PatternOfRows { a: &a, b: &b, rows, counts: device.scratch(tasks.list.len() / 4)?, tasks };
        let mut kept = if 4 * room <= WORKSPACE_BYTES { Some(device.scratch::<u32>(room as usize)?) } else { None };
        let mut lengths = device.zeros::<u32>(nrows as usize)?;
        pattern.count(&mut lengths, kept.as_mut())?;
        let (offsets, entries) = row_offsets(&lengths)?;
        let mut columns = device.scratch::<u32>(entries as usize).map_err(|error| names(error, entries))?;
        pattern.fill(&offsets, kept.as_ref(), &mut columns)?;
        let is_short = found[class::HASHED as usize..CLASSES as usize].iter().all(|&tasks| tasks == 0);
        // No row is longer than it has products.
        let tasks = if is_short { pattern.tasks } else { Tasks::of_lengths(device, nrows, &lengths)? };
        Ok(Self { entries, offsets: offsets.shared(), columns: columns.into_shared(), tasks, a, b })
    }

    /// With the entries of a mask for which there are products.
    fn of_mask(a: Arc<CsrArrays<T, u32>>, b: Arc<CsrArrays<T, u32>>, mask: &CsrArrays<T, u32>) -> Result<Self> {
        let (device, rows, entries) = (&a.device, a.nrows, mask.nnz);
        let lengths = |offsets: &Buffer<u32>| {
            let offsets = offsets.to_vec(device)?;
            let lengths: Vec<u32> = offsets.windows(2).map(|bounds| bounds[1] - bounds[0]).collect();
            device.upload_vec(&lengths)
        };
        let tasks = Tasks::of_lengths(device, rows, &lengths(&mask.row_offsets)?)?;
        let mut marks = device.zeros::<f32>(entries as usize)?;
        for class in [class::SMALL, class::MIDDLE, class::HASHED] {
            let (first, count) = tasks.of(class);
            if count == 0 {
                continue;
            }
            let args = spgemm_values::Args::<f32, KernelLaunch<'_>> {
                patterns: patterns(&a, &b),
                values_a: Default::default(),
                values_b: Default::default(),
                semiring: semiring::ANY,
                first,
                count,
                tasks: tasks.list.readable(),
                entries: entries.into(),
                rows: Offsets { narrow: mask.row_offsets.readable(device), wide: Default::default() },
                columns: mask.col_indices.readable(device),
                values: marks.writable(),
            };
            let entry = spgemm_values::Key { dtype: kernels_gpu::DType::F32, class, any_semiring: true }.entry();
            // SAFETY: valid matrices, B and the mask canonical; the tasks are those of the mask's rows.
            unsafe { launch(device, entry, spgemm_values::grid_size(class, count), args) }?;
        }
        let mut flags = device.scratch::<u32>(entries as usize)?;
        if entries > 0 {
            let args = spgemm_gather::FlagsArgs { entries, marks: marks.readable(), flags: flags.writable() };
            let entry = spgemm_gather::Key { step: spgemm_gather::Step::Flags }.entry();
            let blocks = spgemm_gather::grid_size(entries.into()) as u32;
            // SAFETY: as many marks as flags.
            unsafe { launch(device, entry, blocks, args) }?;
        }
        let (places, kept) = match row_offsets(&flags)? {
            (RowOffsets::Narrow(places), kept) => (places, kept),
            (RowOffsets::Wide(_), _) => unreachable!("no more than the entries of the mask"),
        };
        let mut offsets = device.scratch::<u32>(rows as usize + 1)?;
        let mut columns = device.scratch::<u32>(kept as usize)?;
        let args = spgemm_gather::MarkedArgs {
            rows,
            entries,
            offsets: mask.row_offsets.readable(device),
            mask: mask.col_indices.readable(device),
            places: places.readable(),
            c_offsets: offsets.writable(),
            columns: columns.writable(),
        };
        let entry = spgemm_gather::Key { step: spgemm_gather::Step::Marked }.entry();
        let blocks = spgemm_gather::grid_size(u64::from(entries).max(u64::from(rows) + 1)) as u32;
        // SAFETY: the places are the sums of the flags of the mask's entries.
        unsafe { launch(device, entry, blocks, args) }?;
        let tasks = Tasks::of_lengths(device, rows, &lengths(offsets.buffer())?)?;
        let offsets = RowOffsets::Narrow(offsets).shared();
        Ok(Self { entries: kept, offsets, columns: columns.into_shared(), tasks, a, b })
    }

    pub(super) fn nnz(&self) -> usize {
        self.entries as usize
    }

    pub(super) fn has_made(&self, c: &dyn Arrays<T>) -> bool {
        let columns = c.csr().map(|c| &c.col_indices).or(c.csr64().map(|c| &c.col_indices));
        columns.is_some_and(|columns| columns.is_alias_of(self.columns.buffer()))
    }

    pub(super) fn multiply(
        &self,
        semiring: Semiring,
        a: &Arc<CsrArrays<T, u32>>,
        b: &Arc<CsrArrays<T, u32>>,
    ) -> Result<DeviceMatrix<T>> {
        self.check(a, b)?;
        let device = &self.a.device;
        let mut values = device.scratch::<T>(self.nnz())?;
        self.write(semiring, a, b, &mut values)?;
        let (rows, cols) = (a.nrows, b.ncols);
        // SAFETY: the pattern is valid, and columns ascend in every row.
        Ok(unsafe {
            match &self.offsets {
                RowOffsets::Narrow(offsets) => {
                    let size = (rows, cols, self.entries as u32);
                    let arrays = CsrArrays::of_vectors(size, offsets.alias(), self.columns.alias(), values, Some(true));
                    DeviceMatrix::of_csr(arrays)
                }
                RowOffsets::Wide(offsets) => {
                    let size = (rows, cols, self.entries);
                    let arrays = CsrArrays::of_vectors(size, offsets.alias(), self.columns.alias(), values, Some(true));
                    DeviceMatrix::of_csr(arrays)
                }
            }
        })
    }

    pub(super) fn compute(
        &self,
        semiring: Semiring,
        a: &Arc<CsrArrays<T, u32>>,
        b: &Arc<CsrArrays<T, u32>>,
        c: &dyn Arrays<T>,
    ) -> Result<()> {
        self.check(a, b)?;
        match (c.csr(), c.csr64()) {
            (Some(c), _) => self.write(semiring, a, b, &mut *c.values.write()?),
            (_, Some(c)) => self.write(semiring, a, b, &mut *c.values.write()?),
            _ => unreachable!("the product is in CSR"),
        }
    }

    /// Fails unless these matrices have the patterns of the plan's.
    fn check(&self, a: &Arc<CsrArrays<T, u32>>, b: &Arc<CsrArrays<T, u32>>) -> Result<()> {
        for (name, own, other) in [("A", &self.a, a), ("B", &self.b, b)] {
            let same = |own_array: &Buffer<u32>, other_array: &Buffer<u32>| {
                let lengths = own_array.len() == other_array.len();
                Ok::<_, Error>(lengths && own_array.to_vec(&own.device)? == other_array.to_vec(&other.device)?)
            };
            if Arc::ptr_eq(own, other) {
                continue;
            }
            if !same(&own.row_offsets, &other.row_offsets)? || !same(&own.col_indices, &other.col_indices)? {
                return Err(other_pattern(name));
            }
        }
        Ok(())
    }

    fn write(
        &self,
        semiring: Semiring,
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        values: &mut DeviceVec<T>,
    ) -> Result<()> {
        let device = &values.device().clone();
        let (values_a, values_b) = (a.values.read(), b.values.read());
        // The longest first: what is left to do in the end is short.
        for class in [class::HASHED, class::MIDDLE, class::SMALL] {
            let (first, count) = self.tasks.of(class);
            if count == 0 {
                continue;
            }
            let args = spgemm_values::Args {
                patterns: patterns(a, b),
                values_a: values_a.readable(),
                values_b: values_b.readable(),
                semiring: semiring.number(),
                first,
                count,
                tasks: self.tasks.list.readable(),
                entries: self.entries,
                rows: self.offsets.readable(),
                columns: self.columns.readable(),
                values: values.writable(),
            };
            let any_semiring = semiring != Semiring::PlusTimes;
            let entry = spgemm_values::Key { dtype: T::DTYPE, class, any_semiring }.entry();
            // SAFETY: valid matrices of the plan's patterns, and the plan's tasks; the entry is for `T`.
            unsafe { launch(device, entry, spgemm_values::grid_size(class, count), args) }?;
        }
        Ok(())
    }
}

/// The computation of a pattern.
struct PatternOfRows<'a, T> {
    a: &'a CsrArrays<T, u32>,
    b: &'a CsrArrays<T, u32>,
    /// What is known of each row.
    rows: DeviceVec<u32>,
    tasks: Tasks,
    /// The columns of each task that has a bitmap.
    counts: DeviceVec<u32>,
}

const HASHED: [u32; 3] = [class::HASHED, class::MIDDLE, class::SMALL];
const BITMAPS: [(u32, u32); 2] = [(class::HEAVY, HEAVY_WORDS), (class::WIDE, WIDE_WORDS)];

impl<T: Scalar> PatternOfRows<'_, T> {
    fn bitmap_tasks(&self, class: u32, words: u32) -> spgemm_bitmap::Tasks<KernelLaunch<'_>> {
        let (first, count) = self.tasks.of(class);
        let (tasks, rows) = (self.tasks.list.readable(), self.rows.readable());
        spgemm_bitmap::Tasks { patterns: patterns(self.a, self.b), first, count, words, tasks, rows }
    }

    /// The lengths of all rows; keeps what it finds, where there is room.
    fn count(&mut self, lengths: &mut DeviceVec<u32>, mut kept: Option<&mut DeviceVec<u32>>) -> Result<()> {
        let mut counts = std::mem::replace(&mut self.counts, self.a.device.scratch(0)?);
        for (class, words) in BITMAPS {
            let tasks = self.bitmap_tasks(class, words);
            let blocks = tasks.count;
            if blocks > 0 {
                let kept = kept.as_deref_mut().map(DeviceVec::writable).unwrap_or_default();
                let (counts, lengths) = (counts.writable(), lengths.writable());
                let args = spgemm_bitmap::CountArgs { tasks, kept, counts, lengths };
                // SAFETY: tasks of this class, and room for what they keep; lengths of 0.
                unsafe { launch(&self.a.device, spgemm_bitmap::Key { fill: false }.entry(), blocks, args) }?;
            }
        }
        self.counts = counts;
        self.hash(None, Some(lengths), kept)
    }

    /// The columns of all rows.
    fn fill(&self, offsets: &RowOffsets, kept: Option<&DeviceVec<u32>>, columns: &mut DeviceVec<u32>) -> Result<()> {
        let device = &self.a.device;
        for (class, words) in BITMAPS {
            let tasks = self.bitmap_tasks(class, words);
            let blocks = tasks.count;
            if blocks > 0 {
                let args = spgemm_bitmap::FillArgs {
                    tasks,
                    kept: kept.map(DeviceVec::readable).unwrap_or_default(),
                    counts: self.counts.readable(),
                    rows: offsets.readable(),
                    columns: columns.writable(),
                };
                // SAFETY: what has been counted, and the rows' places.
                unsafe { launch(device, spgemm_bitmap::Key { fill: true }.entry(), blocks, args) }?;
            }
        }
        let Some(kept) = kept else {
            return self.hash(Some(offsets), None, Some(columns));
        };
        let count = self.tasks.of(class::WIDE).0;
        if count == 0 {
            return Ok(());
        }
        let (tasks, room) = (self.tasks.list.readable(), kept.readable());
        let (rows, columns) = (offsets.readable(), columns.writable());
        let args = spgemm_gather::RowsArgs { count, tasks, room, rows, columns };
        let threads = u64::from(count) * u64::from(spgemm_gather::ROW_LANES);
        let entry = spgemm_gather::Key { step: spgemm_gather::Step::Rows }.entry();
        // SAFETY: the tasks before those with bitmaps keep the columns of their rows.
        unsafe { launch(device, entry, spgemm_gather::grid_size(threads) as u32, args) }
    }

    /// The columns of short rows, in the room of their tasks or where the rows begin.
    fn hash(
        &self,
        offsets: Option<&RowOffsets>,
        mut lengths: Option<&mut DeviceVec<u32>>,
        mut columns: Option<&mut DeviceVec<u32>>,
    ) -> Result<()> {
        for class in HASHED {
            let (first, count) = self.tasks.of(class);
            if count == 0 {
                continue;
            }
            let key = spgemm_hash::Key { class };
            let args = spgemm_hash::Args {
                patterns: patterns(self.a, self.b),
                first,
                count,
                tasks: self.tasks.list.readable(),
                rows: offsets.map_or_else(RowOffsets::none, RowOffsets::readable),
                lengths: lengths.as_deref_mut().map(DeviceVec::writable).unwrap_or_default(),
                columns: columns.as_deref_mut().map(DeviceVec::writable).unwrap_or_default(),
            };
            let blocks = spgemm_hash::grid_size(key, count);
            // SAFETY: tasks of this class, and room for the columns of each.
            unsafe { launch(&self.a.device, key.entry(), blocks, args) }?;
        }
        Ok(())
    }
}

impl RowOffsets {
    /// To be shared by products.
    fn shared(self) -> Self {
        match self {
            Self::Narrow(offsets) => Self::Narrow(offsets.into_shared()),
            Self::Wide(offsets) => Self::Wide(offsets.into_shared()),
        }
    }
}

/// Where rows of these lengths begin, and the sum of all.
fn row_offsets(lengths: &DeviceVec<u32>) -> Result<(RowOffsets, u64)> {
    let (narrow, total) = algebra::row_offsets::<u32>(lengths)?;
    Ok(match u32::try_from(total) {
        Ok(_) => (RowOffsets::Narrow(narrow), total),
        Err(_) => (RowOffsets::Wide(algebra::row_offsets::<u64>(lengths)?.0), total),
    })
}
