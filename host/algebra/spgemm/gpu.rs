//! Products of sparse matrices on a GPU or in the emulator.

pub(super) mod triple;

use std::sync::Arc;

use kernels_gpu::{
    spgemm_bitmap,
    spgemm_common::{
        CLASSES, COUNTERS, HASHED_LIMIT, HEAVY_WORDS, MIDDLE_LIMIT, Offsets, Patterns, SMALL_LIMIT, WIDE_WORDS, class,
        counter, length_class, semiring,
    },
    spgemm_gather, spgemm_hash,
    spgemm_rows::{self, Step},
    spgemm_short, spgemm_sorted, spgemm_values,
};

use super::{Semiring, other_pattern, too_large};
use crate::{
    Device, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{Buffer, KernelLaunch, Readable, launch},
    primitives,
    stored::{Arrays, CsrArrays},
};

/// The most bytes of columns and bitmaps that are kept from counting to filling.
pub(super) const WORKSPACE_BYTES: u64 = 2 << 30;

/// Two matrices, and the pattern of their product.
#[derive(Debug)]
pub(super) struct Plan<T> {
    a: Arc<CsrArrays<T, u32>>,
    b: Arc<CsrArrays<T, u32>>,
    pattern: Pattern,
}

/// The pattern of a product of two matrices, and the tasks of its values.
#[derive(Debug)]
pub(super) struct Pattern {
    device: Device,
    /// Rows and columns.
    size: (u32, u32),
    entries: u64,
    offsets: RowOffsets,
    columns: DeviceVec<u32>,
    /// Of short rows; none under a mask.
    short: Option<Tasks>,
    /// Of all other rows, if there are any.
    long: Option<LongTasks>,
}

/// Where rows begin.
#[derive(Debug)]
enum RowOffsets {
    Narrow(DeviceVec<u32>),
    Wide(DeviceVec<u64>),
}

/// Tasks by classes, each with what `count` has found for its row.
#[derive(Debug)]
struct Tasks {
    list: DeviceVec<u32>,
    counts: [u32; CLASSES as usize],
}

/// The tasks of values of long rows. Only the device knows how many there are.
#[derive(Debug)]
struct LongTasks {
    list: DeviceVec<u32>,
    counters: DeviceVec<u64>,
    /// The most of each class.
    bounds: [u32; length_class::LARGE as usize + 1],
}

/// The pattern of `C`, whose values the tasks of long rows write.
struct LongPattern<'c> {
    entries: u64,
    /// Where its rows begin, of one of the two; the other is null.
    narrow: Readable<'c, u32>,
    wide: Readable<'c, u64>,
    columns: Readable<'c, u32>,
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
    /// The tasks of rows of which `count` has found this.
    fn place(device: &Device, rows: &DeviceVec<u32>, counters: &mut DeviceVec<u64>, found: &[u64]) -> Result<Self> {
        let mut counts = [0; CLASSES as usize];
        counts.iter_mut().zip(found).for_each(|(count, &found)| *count = found as u32);
        let mut list = task_list(device, found[..CLASSES as usize].iter().sum())?;
        let args = spgemm_rows::PlaceArgs {
            row_count: (rows.len() / 4) as u32,
            rows: rows.readable(),
            lengths: Default::default(),
            are_offsets: 0,
            counters: counters.writable(),
            tasks: list.writable(),
        };
        place(device, Step::PlacePattern, args)?;
        Ok(Self { list, counts })
    }

    /// The first task of a class, and how many there are.
    fn of(&self, class: u32) -> (u32, u32) {
        (self.counts[..class as usize].iter().sum(), self.counts[class as usize])
    }

    fn short(&self) -> spgemm_sorted::Counts {
        let classes = class::SHORT as usize..class::HASHED as usize;
        self.counts[classes].try_into().expect("as many classes")
    }

    /// Those of short rows.
    fn sorted(&self) -> spgemm_sorted::Tasks<KernelLaunch<'_>> {
        spgemm_sorted::Tasks { counts: self.short(), tasks: self.list.readable() }
    }

    fn has_long(&self) -> bool {
        self.counts[class::HASHED as usize..].iter().any(|&count| count > 0)
    }
}

impl LongTasks {
    /// For the values of `long` rows with `entries` entries in all. `lengths` of rows may be offsets.
    fn new(
        device: &Device,
        (row_count, long, entries): (u32, u32, u64),
        rows: Option<&DeviceVec<u32>>,
        lengths: &Buffer<u32>,
    ) -> Result<Self> {
        let (most, long_rows) = (|length: u64| (entries / length).min(long.into()), u64::from(long));
        let segments = entries / u64::from(HASHED_LIMIT);
        let mut list = task_list(device, long_rows + segments)?;
        let bounds =
            [0, long, most(u64::from(SMALL_LIMIT) + 1) as u32, (most(u64::from(MIDDLE_LIMIT) + 1) + segments) as u32];
        let mut counters = device.zeros::<u64>(COUNTERS as usize)?;
        let are_offsets = u32::from(lengths.len() > row_count as usize);
        let rows = || rows.map(DeviceVec::readable).unwrap_or_default();
        let args = spgemm_rows::TallyArgs {
            rows: row_count,
            classes: rows(),
            lengths: lengths.readable(device),
            are_offsets,
            counters: counters.writable(),
        };
        let blocks = spgemm_rows::grid_size(row_count, 1);
        if blocks > 0 {
            // SAFETY: a length for each row, and counters of 0.
            unsafe { launch(device, spgemm_rows::Key { step: Step::Tally }.entry(), blocks, args) }?;
        }
        let args = spgemm_rows::PlaceArgs {
            row_count,
            rows: rows(),
            lengths: lengths.readable(device),
            are_offsets,
            counters: counters.writable(),
            tasks: list.writable(),
        };
        place(device, Step::PlaceValues, args)?;
        Ok(Self { list, counters, bounds })
    }

    /// Writes the values of the rows of these tasks. Of A and B there may be no values for [`semiring::ANY`], whose values of C say whether there are products.
    fn write<T: Scalar, V: Scalar>(
        &self,
        (a, b): (&CsrArrays<T, u32>, &CsrArrays<T, u32>),
        (values_a, values_b): (Readable<'_, V>, Readable<'_, V>),
        semiring: u32,
        c: LongPattern<'_>,
        values: &mut DeviceVec<V>,
    ) -> Result<()> {
        // The longest first: what is left to do in the end is short.
        for class in [length_class::LARGE, length_class::MIDDLE, length_class::SMALL] {
            let blocks = spgemm_values::grid_size(class, self.bounds[class as usize]);
            if blocks == 0 {
                continue;
            }
            let args = spgemm_values::Args {
                patterns: patterns(a, b),
                values_a,
                values_b,
                semiring,
                counters: self.counters.readable(),
                tasks: self.list.readable(),
                entries: c.entries,
                rows: Offsets { narrow: c.narrow, wide: c.wide },
                columns: c.columns,
                values: values.writable(),
            };
            let key = spgemm_values::Key { dtype: V::DTYPE, class, any_semiring: semiring != semiring::PLUS_TIMES };
            // SAFETY: valid matrices, B and C canonical; the tasks are those of the rows of C; the entry is for `V`.
            unsafe { launch(&a.device, key.entry(), blocks, args) }?;
        }
        Ok(())
    }
}

/// Room for so many tasks, whose indices have 32 bits in kernels.
fn task_list(device: &Device, tasks: u64) -> Result<DeviceVec<u32>> {
    let fits = u32::try_from(tasks).map_err(|_| {
        let requested = tasks.saturating_mul(16);
        Error::OutOfMemory { device: format!("{device}, for {tasks} tasks"), requested, available: None }
    })?;
    device.scratch::<u32>(4 * fits as usize)
}

/// The product, whose pattern is that of another product: only the values are computed.
pub(super) fn on_pattern<T: Scalar>(
    a: &CsrArrays<T, u32>,
    b: &CsrArrays<T, u32>,
    c: &CsrArrays<T, u32>,
) -> Result<CsrArrays<T, u32>> {
    let (device, entries) = (&a.device, u64::from(c.nnz));
    let tasks = LongTasks::new(device, (a.nrows, a.nrows, entries), None, &c.row_offsets)?;
    let mut values = device.scratch(c.nnz as usize)?;
    let pattern = LongPattern {
        entries,
        narrow: c.row_offsets.readable(device),
        wide: Default::default(),
        columns: c.col_indices.readable(device),
    };
    let (values_a, values_b) = (a.values.read(), b.values.read());
    tasks.write((a, b), (values_a.readable(), values_b.readable()), semiring::PLUS_TIMES, pattern, &mut values)?;
    Ok(c.with_values(values))
}

fn place<'a>(device: &'a Device, step: Step, args: spgemm_rows::PlaceArgs<KernelLaunch<'a>>) -> Result<()> {
    let blocks = spgemm_rows::place_grid_size(args.row_count);
    if blocks == 0 {
        return Ok(());
    }
    // SAFETY: the counters are those of these rows, and the list has room for all tasks.
    unsafe { launch(device, spgemm_rows::Key { step }.entry(), blocks, args) }
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
        mask: Option<&CsrArrays<T, u32>>,
    ) -> Result<Self> {
        let mut pattern = Pattern::unfilled(a, b, mask)?;
        pattern.fill_short(a, b, None)?;
        Ok(Self { a: Arc::clone(a), b: Arc::clone(b), pattern: pattern.shared() })
    }

    pub(super) fn nnz(&self) -> usize {
        self.pattern.nnz()
    }

    pub(super) fn has_made(&self, c: &dyn Arrays<T>) -> bool {
        let columns = c.csr().map(|c| &c.col_indices).or(c.csr64().map(|c| &c.col_indices));
        columns.is_some_and(|columns| columns.is_alias_of(self.pattern.columns.buffer()))
    }

    pub(super) fn multiply(
        &self,
        semiring: Semiring,
        a: &Arc<CsrArrays<T, u32>>,
        b: &Arc<CsrArrays<T, u32>>,
    ) -> Result<DeviceMatrix<T>> {
        self.check(a, b)?;
        self.pattern.multiply(semiring, a, b)
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
            (Some(c), _) => self.pattern.write(semiring, a, b, &mut *c.values.write()?),
            (_, Some(c)) => self.pattern.write(semiring, a, b, &mut *c.values.write()?),
            _ => unreachable!("the product is in CSR"),
        }
    }

    /// Fails unless these matrices have the patterns of the plan's.
    fn check(&self, a: &Arc<CsrArrays<T, u32>>, b: &Arc<CsrArrays<T, u32>>) -> Result<()> {
        for (name, own, other) in [("A", &self.a, a), ("B", &self.b, b)] {
            if !Arc::ptr_eq(own, other) && !own.has_pattern_of(other)? {
                return Err(other_pattern(name));
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// A product, and its pattern: columns and values of short rows are written by one kernel.
    pub(super) fn with_product<T: Scalar>(
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        mask: Option<&CsrArrays<T, u32>>,
        semiring: Semiring,
    ) -> Result<(Self, DeviceMatrix<T>)> {
        let mut pattern = Self::unfilled(a, b, mask)?;
        let mut values = a.device.scratch::<T>(pattern.nnz())?;
        pattern.fill_short(a, b, Some((semiring, &mut values)))?;
        pattern.write_long(semiring, a, b, &mut values)?;
        let pattern = pattern.shared();
        let product = pattern.matrix(values);
        Ok((pattern, product))
    }

    /// All but the columns of short rows.
    fn unfilled<T: Scalar>(
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        mask: Option<&CsrArrays<T, u32>>,
    ) -> Result<Self> {
        match mask {
            None => Self::of_products(a, b),
            Some(mask) => Self::of_mask(a, b, mask),
        }
    }

    fn of_products<T: Scalar>(a: &CsrArrays<T, u32>, b: &CsrArrays<T, u32>) -> Result<Self> {
        let (device, nrows) = (&a.device, a.nrows);
        let mut counters = device.zeros::<u64>(COUNTERS as usize)?;
        let mut rows = device.scratch::<u32>(4 * nrows as usize)?;
        if nrows > 0 {
            let is_short = u64::from(a.nnz) < 16 * u64::from(nrows);
            let lanes = if is_short { 4 } else { 32 };
            let entry = spgemm_rows::Key { step: Step::Count { lanes } }.entry();
            let (rows, counters) = (rows.writable(), counters.writable());
            let args = spgemm_rows::CountArgs { patterns: patterns(a, b), rows, counters };
            // SAFETY: valid matrices, B canonical, as the caller has checked; counters of 0.
            unsafe { launch(device, entry, spgemm_rows::grid_size(nrows, lanes), args) }?;
        }
        let found = counters.to_vec()?;
        let [room, products, least, long_rows] =
            [counter::ROOM, counter::PRODUCTS, counter::LEAST_ENTRIES, counter::LONG_ROWS].map(|at| found[at as usize]);
        let names = |error, entries| too_large(error, products, entries, size_of::<T>());
        let fits = |entries: u64| {
            let entries = usize::try_from(entries).unwrap_or(usize::MAX);
            device.scratch::<u32>(entries).and_then(|columns| Ok((columns, device.scratch::<T>(entries)?))).map(drop)
        };
        // A small product would fit anywhere, and is not worth a look.
        if least > 1 << 28 {
            fits(least).map_err(|error| names(error, least))?;
        }
        let tasks = Tasks::place(device, &rows, &mut counters, &found)?;
        let has_long = tasks.has_long();
        let counts = device.scratch(if has_long { tasks.list.len() / 4 } else { 0 })?;
        let mut pattern = PatternOfRows { a, b, rows, counts, tasks };
        // What is kept is a fraction of C, however few entries that turns out to have.
        let is_kept = 4 * room <= WORKSPACE_BYTES.min(least * (4 + size_of::<T>() as u64) / 4);
        let mut kept = if is_kept { Some(device.scratch::<u32>(room as usize)?) } else { None };
        let mut lengths = device.zeros::<u32>(nrows as usize)?;
        pattern.count(&mut lengths, kept.as_mut())?;
        let (offsets, entries) = row_offsets(&lengths)?;
        let mut columns = device.scratch::<u32>(entries as usize).map_err(|error| names(error, entries))?;
        pattern.fill(&offsets, kept.as_ref(), &mut columns)?;
        let PatternOfRows { rows, tasks, .. } = pattern;
        let long = match has_long {
            true => Some(LongTasks::new(device, (nrows, long_rows as u32, entries), Some(&rows), lengths.buffer())?),
            false => None,
        };
        let size = (nrows, b.ncols);
        Ok(Self { device: device.clone(), size, entries, offsets, columns, short: Some(tasks), long })
    }

    /// With the entries of a mask for which there are products.
    fn of_mask<T: Scalar>(a: &CsrArrays<T, u32>, b: &CsrArrays<T, u32>, mask: &CsrArrays<T, u32>) -> Result<Self> {
        let (device, rows, entries) = (&a.device, a.nrows, mask.nnz);
        let long = LongTasks::new(device, (rows, rows, entries.into()), None, &mask.row_offsets)?;
        let mut marks = device.zeros::<f32>(entries as usize)?;
        let pattern = LongPattern {
            entries: entries.into(),
            narrow: mask.row_offsets.readable(device),
            wide: Default::default(),
            columns: mask.col_indices.readable(device),
        };
        long.write((a, b), Default::default(), semiring::ANY, pattern, &mut marks)?;
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
        let long = Some(LongTasks::new(device, (rows, rows, kept), None, offsets.buffer())?);
        let (size, offsets) = ((rows, b.ncols), RowOffsets::Narrow(offsets));
        Ok(Self { device: device.clone(), size, entries: kept, offsets, columns, short: None, long })
    }

    /// To be shared by products.
    fn shared(self) -> Self {
        Self { offsets: self.offsets.shared(), columns: self.columns.into_shared(), ..self }
    }

    pub(super) fn nnz(&self) -> usize {
        self.entries as usize
    }

    /// The bytes of its arrays.
    pub(super) fn bytes(&self) -> usize {
        let offsets = match &self.offsets {
            RowOffsets::Narrow(offsets) => 4 * offsets.len(),
            RowOffsets::Wide(offsets) => 8 * offsets.len(),
        };
        let tasks = [self.short.as_ref().map(|tasks| &tasks.list), self.long.as_ref().map(|tasks| &tasks.list)];
        offsets + 4 * self.columns.len() + tasks.into_iter().flatten().map(|list| 4 * list.len()).sum::<usize>()
    }

    /// The product of matrices of the same patterns.
    pub(super) fn multiply<T: Scalar>(
        &self,
        semiring: Semiring,
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
    ) -> Result<DeviceMatrix<T>> {
        let mut values = self.device.scratch::<T>(self.nnz())?;
        self.write(semiring, a, b, &mut values)?;
        Ok(self.matrix(values))
    }

    fn matrix<T: Scalar>(&self, values: DeviceVec<T>) -> DeviceMatrix<T> {
        let (rows, cols) = self.size;
        // SAFETY: the pattern is valid, and columns ascend in every row.
        unsafe {
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
        }
    }

    fn write<T: Scalar>(
        &self,
        semiring: Semiring,
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        values: &mut DeviceVec<T>,
    ) -> Result<()> {
        // The longest first: what is left to do in the end is short.
        self.write_long(semiring, a, b, values)?;
        match &self.short {
            Some(tasks) => fill_short((a, b), tasks, &self.offsets, None, Some((semiring, values))),
            None => Ok(()),
        }
    }

    /// The columns of short rows, and their values too where asked for.
    fn fill_short<T: Scalar>(
        &mut self,
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        values: Option<(Semiring, &mut DeviceVec<T>)>,
    ) -> Result<()> {
        match &self.short {
            Some(tasks) => fill_short((a, b), tasks, &self.offsets, Some(&mut self.columns), values),
            None => Ok(()),
        }
    }

    fn write_long<T: Scalar>(
        &self,
        semiring: Semiring,
        a: &CsrArrays<T, u32>,
        b: &CsrArrays<T, u32>,
        values: &mut DeviceVec<T>,
    ) -> Result<()> {
        let Some(long) = &self.long else { return Ok(()) };
        let Offsets { narrow, wide } = self.offsets.readable();
        let pattern = LongPattern { entries: self.entries, narrow, wide, columns: self.columns.readable() };
        let (values_a, values_b) = (a.values.read(), b.values.read());
        long.write((a, b), (values_a.readable(), values_b.readable()), semiring.number(), pattern, values)
    }
}

/// Fills short rows: columns, values, or both.
fn fill_short<T: Scalar>(
    (a, b): (&CsrArrays<T, u32>, &CsrArrays<T, u32>),
    tasks: &Tasks,
    offsets: &RowOffsets,
    columns: Option<&mut DeviceVec<u32>>,
    values: Option<(Semiring, &mut DeviceVec<T>)>,
) -> Result<()> {
    let blocks = spgemm_short::grid_size(tasks.short()) as u32;
    if blocks == 0 {
        return Ok(());
    }
    let (values_a, values_b) = (a.values.read(), b.values.read());
    let semiring = values.as_ref().map_or(Semiring::PlusTimes, |(semiring, _)| *semiring);
    let has_values = values.is_some();
    let args = spgemm_short::FillArgs {
        patterns: patterns(a, b),
        tasks: tasks.sorted(),
        values_a: if has_values { values_a.readable() } else { Default::default() },
        values_b: if has_values { values_b.readable() } else { Default::default() },
        semiring: semiring.number(),
        rows: offsets.readable(),
        columns: columns.map(DeviceVec::writable).unwrap_or_default(),
        values: values.map(|(_, values)| values.writable()).unwrap_or_default(),
    };
    let step = spgemm_short::Step::Fill { dtype: T::DTYPE, any_semiring: semiring != Semiring::PlusTimes };
    // SAFETY: valid matrices of the patterns of the tasks, and the rows' places in C; the entry is for `T`.
    unsafe { launch(&a.device, spgemm_short::Key { step }.entry(), blocks, args) }
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
        self.count_short(lengths)?;
        self.hash(None, Some(lengths), kept)
    }

    fn count_short(&self, lengths: &mut DeviceVec<u32>) -> Result<()> {
        let blocks = spgemm_short::grid_size(self.tasks.short()) as u32;
        if blocks == 0 {
            return Ok(());
        }
        let (patterns, tasks) = (patterns(self.a, self.b), self.tasks.sorted());
        let args = spgemm_short::CountArgs { patterns, tasks, lengths: lengths.writable() };
        let entry = spgemm_short::Key { step: spgemm_short::Step::Count }.entry();
        // SAFETY: the tasks of these matrices, and a length for each row.
        unsafe { launch(&self.a.device, entry, blocks, args) }
    }

    /// The columns of long rows.
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
        let (first, count) = self.tasks.of(class::HASHED);
        if count == 0 {
            return Ok(());
        }
        let (tasks, room) = (self.tasks.list.readable(), kept.readable());
        let (rows, columns) = (offsets.readable(), columns.writable());
        let args = spgemm_gather::RowsArgs { first, count, tasks, room, rows, columns };
        let threads = u64::from(count) * u64::from(spgemm_gather::ROW_LANES);
        let entry = spgemm_gather::Key { step: spgemm_gather::Step::Rows }.entry();
        // SAFETY: these tasks keep the columns of their rows.
        unsafe { launch(device, entry, spgemm_gather::grid_size(threads) as u32, args) }
    }

    /// The columns of scattered rows, in the room of their tasks or where the rows begin.
    fn hash(
        &self,
        offsets: Option<&RowOffsets>,
        lengths: Option<&mut DeviceVec<u32>>,
        columns: Option<&mut DeviceVec<u32>>,
    ) -> Result<()> {
        let (first, count) = self.tasks.of(class::HASHED);
        if count == 0 {
            return Ok(());
        }
        let args = spgemm_hash::Args {
            patterns: patterns(self.a, self.b),
            first,
            count,
            tasks: self.tasks.list.readable(),
            rows: offsets.map_or_else(RowOffsets::none, RowOffsets::readable),
            lengths: lengths.map(DeviceVec::writable).unwrap_or_default(),
            columns: columns.map(DeviceVec::writable).unwrap_or_default(),
        };
        // SAFETY: tasks of this class, and room for the columns of each.
        unsafe { launch(&self.a.device, spgemm_hash::Key {}.entry(), spgemm_hash::grid_size(count), args) }
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
    let (narrow, total) = primitives::row_offsets::<u32>(lengths)?;
    Ok(match u32::try_from(total) {
        Ok(_) => (RowOffsets::Narrow(narrow), total),
        Err(_) => (RowOffsets::Wide(primitives::row_offsets::<u64>(lengths)?.0), total),
    })
}
