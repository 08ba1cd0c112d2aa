//! Selected elements, runs of equal keys, and sums over them.

use kernels_gpu::{
    compact::{self, Keep},
    run_sums,
};

use super::SortKey;
use crate::{
    Device, DeviceVec, Element, Error, Result,
    device::{Backend, check_length, launch, refuse},
    memory,
    parallel::for_pieces,
};

/// Elements selected by flags. These wait for the number of elements that are selected, so they cannot be recorded. `O(n)` work in one pass.
///
/// All fail with [`Unsupported`](Error::Unsupported) for 2^32 elements and more, [`InvalidOption`](Error::InvalidOption) while a graph is recorded,
/// [`OutOfMemory`](Error::OutOfMemory), and [`Driver`](Error::Driver).
impl<T: Element> DeviceVec<T> {
    /// Returns the elements whose flag is not 0, in their order.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let x = device.upload_vec(&[1.5f64, 2.5, 3.5])?;
    /// let flags = device.upload_vec(&[1u32, 0, 1])?;
    /// assert_eq!(x.select(&flags)?.to_vec()?, [1.5, 3.5]);
    /// assert_eq!(flags.flagged_indices()?.to_vec()?, [0, 2]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
    /// [`Unsupported`](Error::Unsupported), [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver);
    /// [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn select(&self, flags: &DeviceVec<u32>) -> Result<Self> {
        check_length("flags", self.len(), flags.len())?;
        self.device().check_same("flags", flags.device())?;
        let n = size("a selection from", self.len())?;
        if let Backend::Cpu { .. } = self.device().backend() {
            let (x, flags) = (self.as_slice().on_cpu(), flags.as_slice().on_cpu());
            return kept(self.device(), x.len(), x.iter().zip(flags).filter(|(_, flag)| **flag != 0).map(|(x, _)| *x));
        }
        let mut selected = self.device().scratch(self.len())?;
        let count = compact(self.device(), n, Keep::Flagged, Some(flags), Some(self), Some(&mut selected), None)?;
        shortened(selected, count)
    }
}

impl DeviceVec<u32> {
    /// Returns the indices of the elements that are not 0, in ascending order.
    ///
    /// # Errors
    /// See [`select`](Self::select).
    pub fn flagged_indices(&self) -> Result<Self> {
        let n = size("a selection from", self.len())?;
        if let Backend::Cpu { .. } = self.device().backend() {
            let flags = self.as_slice().on_cpu();
            return kept(self.device(), flags.len(), (0..n).filter(|&index| flags[index as usize] != 0));
        }
        let mut places = self.device().scratch(self.len())?;
        let none = None::<&DeviceVec<u32>>;
        let count = compact(self.device(), n, Keep::Flagged, Some(self), none, None, Some(&mut places))?;
        shortened(places, count)
    }
}

/// Runs of equal elements side by side; sorted keys have a run for each distinct key. These wait for the number of runs, so they cannot be
/// recorded. They fail as those above do.
impl<K: SortKey> DeviceVec<K> {
    /// Returns the element of each run.
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported), [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver);
    /// [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn unique(&self) -> Result<Self> {
        Ok(runs(self)?.keys)
    }

    /// Returns the element of each run, and the run's length: a run-length encoding.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let keys = Device::auto().upload_vec(&[7u64, 7, 7, 2, 7])?;
    /// let (elements, lengths) = keys.run_lengths()?;
    /// assert_eq!(elements.to_vec()?, [7, 2, 7]);
    /// assert_eq!(lengths.to_vec()?, [3, 1, 1]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported), [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver);
    /// [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn run_lengths(&self) -> Result<(Self, DeviceVec<u32>)> {
        let Runs { keys, starts } = runs(self)?;
        let lengths = run_lengths(&starts, self.len() as u32)?;
        Ok((keys, lengths))
    }

    /// Returns the element of each run of equal keys, and the sum of the `values` that go with the run.
    ///
    /// Integers wrap. Floating-point sums are rounded in an order that depends on the numbers of elements and runs and on the run's length alone:
    /// a device gives the same bits in every run, and the emulator those of a GPU; the CPU adds from left to right. A run is added by 4 or 32
    /// threads, so one that is much longer than the others takes time in proportion to its length.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let keys = device.upload_vec(&[3u32, 3, 5, 9, 9])?;
    /// let values = device.upload_vec(&[1.0f32, 2.0, 4.0, 8.0, 16.0])?;
    /// let (keys, sums) = keys.reduce_by_key(&values)?;
    /// assert_eq!(keys.to_vec()?, [3, 5, 9]);
    /// assert_eq!(sums.to_vec()?, [3.0, 4.0, 24.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
    /// [`Unsupported`](Error::Unsupported), [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver);
    /// [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn reduce_by_key<V: Element>(&self, values: &DeviceVec<V>) -> Result<(Self, DeviceVec<V>)> {
        check_length("values", self.len(), values.len())?;
        self.device().check_same("values", values.device())?;
        let Runs { keys, starts } = runs(self)?;
        let sums = sum_runs(&starts, values)?;
        Ok((keys, sums))
    }
}

/// Runs of equal keys.
pub(crate) struct Runs<K> {
    /// The key of each run.
    pub(crate) keys: DeviceVec<K>,
    /// Where it starts.
    pub(crate) starts: DeviceVec<u32>,
}

/// The runs of equal keys side by side. Waits for their number.
///
/// # Errors
/// [`Error::Unsupported`] for 2^32 keys and more, [`Error::InvalidOption`] while a graph is recorded, [`Error::OutOfMemory`],
/// [`Error::Driver`].
pub(crate) fn runs<K: SortKey>(keys: &DeviceVec<K>) -> Result<Runs<K>> {
    let (device, n) = (keys.device(), size("runs of", keys.len())?);
    if let Backend::Cpu { .. } = device.backend() {
        let all = keys.as_slice().on_cpu();
        let heads = || (0..n).filter(|&i| i == 0 || all[i as usize] != all[i as usize - 1]);
        let runs = heads().count();
        let keys = kept(device, runs, heads().map(|i| all[i as usize]))?;
        return Ok(Runs { keys, starts: kept(device, runs, heads())? });
    }
    let (mut heads, mut starts) = (device.scratch(keys.len())?, device.scratch(keys.len())?);
    let count = compact(device, n, Keep::Heads, None, Some(keys), Some(&mut heads), Some(&mut starts))?;
    Ok(Runs { keys: shortened(heads, count)?, starts: shortened(starts, count)? })
}

/// The sums of the runs that start there, each to the next one's start, and the last to the end.
pub(crate) fn sum_runs<V: Element>(starts: &DeviceVec<u32>, values: &DeviceVec<V>) -> Result<DeviceVec<V>> {
    let (n, runs) = (values.len() as u32, starts.len() as u32);
    let mut sums = values.device().scratch::<V>(starts.len())?;
    if let Backend::Cpu { .. } = values.device().backend() {
        let (starts, values) = (starts.as_slice().on_cpu(), values.as_slice().on_cpu());
        for_pieces(sums.as_slice_mut().on_cpu_mut(), 1024, |number, sums| {
            for (run, sum) in (number * 1024..).zip(sums) {
                let end = starts.get(run + 1).map_or(values.len(), |&end| end as usize);
                *sum = values[starts[run] as usize..end].iter().fold(V::default(), |sum, &value| sum.plus(value));
            }
        });
    } else if runs > 0 {
        let lanes = run_sums::lanes(n, runs);
        let entry = run_sums::Key { sum: run_sums::Sum::Of(V::ELEMENT), lanes }.entry();
        let (queue, sums) = sums.as_slice_mut().into_writable();
        let args = run_sums::Args { n, runs, starts: starts.readable(), x: values.readable(), sums };
        // SAFETY: the starts ascend and are below n, the sums are as many, and the entry is that for these types and lanes.
        unsafe { launch(queue, entry, run_sums::grid_size(runs, lanes), args) }?;
    }
    Ok(sums)
}

/// The lengths of runs of `n` elements that start there.
pub(crate) fn run_lengths(starts: &DeviceVec<u32>, n: u32) -> Result<DeviceVec<u32>> {
    let runs = starts.len() as u32;
    let mut lengths = starts.device().scratch::<u32>(starts.len())?;
    if let Backend::Cpu { .. } = starts.device().backend() {
        let starts = starts.as_slice().on_cpu();
        let ends = starts.iter().skip(1).chain(std::iter::once(&n));
        let pairs = starts.iter().zip(ends).zip(lengths.as_slice_mut().on_cpu_mut());
        pairs.for_each(|((start, end), length)| *length = end - start);
    } else if runs > 0 {
        let (queue, lengths) = lengths.as_slice_mut().into_writable();
        let args = run_sums::LengthArgs { n, runs, starts: starts.readable(), lengths };
        let entry = run_sums::Key { sum: run_sums::Sum::Lengths, lanes: 1 }.entry();
        // SAFETY: the starts ascend and are at most n, and the lengths are as many.
        unsafe { launch(queue, entry, run_sums::grid_size(runs, 1), args) }?;
    }
    Ok(lengths)
}

/// Keeps elements, on a GPU or in the emulator, and waits for their number.
fn compact<T: Element>(
    device: &Device,
    n: u32,
    keep: Keep,
    flags: Option<&DeviceVec<u32>>,
    x: Option<&DeviceVec<T>>,
    kept: Option<&mut DeviceVec<T>>,
    places: Option<&mut DeviceVec<u32>>,
) -> Result<usize> {
    if n == 0 {
        return Ok(0);
    }
    let (mut count, mut state) = (device.scratch::<u64>(1)?, device.zeros::<u64>(compact::state_len(n) as usize)?);
    let args = compact::Args {
        n,
        flags: flags.map(DeviceVec::readable).unwrap_or_default(),
        x: x.map(DeviceVec::readable).unwrap_or_default(),
        kept: kept.map(DeviceVec::writable).unwrap_or_default(),
        places: places.map(DeviceVec::writable).unwrap_or_default(),
        count: count.writable(),
        state: state.writable(),
    };
    let entry = compact::Key { keep, bytes: size_of::<T>() }.entry();
    // SAFETY: all arrays have n elements, what is written is borrowed mutably or new; callers give flags or x as `keep` wants. The entry is
    // that for elements of as many bytes, which it copies and compares as bits.
    unsafe { launch(device, entry, compact::grid_size(n), args) }?;
    let mut value = [0];
    count.copy_to(&mut value)?;
    Ok(value[0] as usize)
}

/// # Errors
/// [`Error::Unsupported`], [`Error::InvalidOption`].
fn size(what: &str, len: usize) -> Result<u32> {
    refuse("a number of elements that the host waits for")?;
    u32::try_from(len).map_err(|_| Error::Unsupported(format!("{what} {len} elements: at most 2^32 - 1")))
}

/// Elements in a new vector on the CPU, at most so many.
fn kept<T: Element>(device: &Device, most: usize, elements: impl Iterator<Item = T>) -> Result<DeviceVec<T>> {
    let mut values = memory::room(most)?;
    values.extend(elements);
    device.upload_vec(&values)
}

/// The first elements, in memory of their own if much of this were in vain.
fn shortened<T: Element>(mut vector: DeviceVec<T>, len: usize) -> Result<DeviceVec<T>> {
    let room = vector.len();
    vector.truncate(len);
    if len < room / 2 { vector.try_clone() } else { Ok(vector) }
}
