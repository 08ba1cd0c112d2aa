//! Stable sorts of unsigned integers, and of values that go with them.

use std::{mem, ops::Range};

use kernels_gpu::{
    radix::{DIGIT_BITS, RADIX, digit_mask},
    radix_count::{self, Step},
    radix_sort::{self, grid_size, state_len, tile_len},
};

use crate::{
    Device, DeviceVec, Element, Error, Result,
    device::{Backend, Readable, Writable, check_length, launch},
    memory, parallel,
};

/// A key of sorts: `u32` or `u64`. The trait is sealed.
pub trait SortKey: kernels_gpu::radix::SortKey + Element + Ord {}

impl SortKey for u32 {}
impl SortKey for u64 {}

/// Sorts of `u32` and `u64`. They are queued without waiting, and need memory for another copy of what they sort.
///
/// A stable radix sort of 8 bits a pass, each of which moves the elements once in and once out (Adinets and Merrill, "Onesweep: A Faster Least
/// Significant Digit Radix Sort for GPUs", 2022): `O(n * bits / 8)` work. On the CPU rayon's sorts, `O(n log n)` work.
impl<K: SortKey> DeviceVec<K> {
    /// Sorts the elements, in ascending order.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let mut x = Device::auto().upload_vec(&[30u32, 10, 20, 10])?;
    /// x.sort()?;
    /// assert_eq!(x.to_vec()?, [10, 10, 20, 30]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported) for 2^32 elements and more, [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
    pub fn sort(&mut self) -> Result<()> {
        let len = self.len();
        check_size(len)?;
        if let Backend::Cpu { .. } = self.device().backend() {
            parallel::sort(self.as_slice_mut().on_cpu_mut());
            return Ok(());
        }
        let mut other = self.device().scratch(len)?;
        // Full keys have an even number of digits, so the last pass writes to this vector.
        passes::<K, u32>(self, &mut other, None, 0..K::BITS, PORTION)?;
        Ok(())
    }

    /// Sorts the elements as keys, in ascending order, and `values` with them: values of equal keys keep their order.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let mut keys = device.upload_vec(&[2u32, 1, 2, 0])?;
    /// let mut values = device.upload_vec(&[0.5f64, 1.5, 2.5, 3.5])?;
    /// keys.sort_pairs(&mut values)?;
    /// assert_eq!(keys.to_vec()?, [0, 1, 2, 2]);
    /// assert_eq!(values.to_vec()?, [3.5, 1.5, 0.5, 2.5]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sort`](Self::sort); [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch).
    pub fn sort_pairs<V: Element>(&mut self, values: &mut DeviceVec<V>) -> Result<()> {
        let len = self.len();
        check_length("values", len, values.len())?;
        self.device().check_same("values", values.device())?;
        check_size(len)?;
        if let Backend::Cpu { .. } = self.device().backend() {
            let (keys, values) = (self.as_slice_mut().on_cpu_mut(), values.as_slice_mut().on_cpu_mut());
            return sort_on_cpu(keys, values, |key| key);
        }
        let mut other = (self.device().scratch(len)?, self.device().scratch(len)?);
        passes(self, &mut other.0, Some((values, &mut other.1)), 0..K::BITS, PORTION)?;
        Ok(())
    }
}

/// The bits of the numbers below `limit`.
pub(crate) fn bits_below(limit: u32) -> u32 {
    u32::BITS - limit.saturating_sub(1).leading_zeros()
}

/// Sorts pairs by those bits of their keys alone, keeping the order of keys that are equal there. The fewer bits, the fewer passes.
///
/// # Errors
/// As [`DeviceVec::sort_pairs`]; the bits are those of a key.
pub(crate) fn sort_pairs<K: SortKey, V: Element>(
    mut keys: DeviceVec<K>,
    mut values: DeviceVec<V>,
    bits: Range<u32>,
) -> Result<(DeviceVec<K>, DeviceVec<V>)> {
    assert!(bits.end <= K::BITS, "bits of a key");
    let len = keys.len();
    check_length("values", len, values.len())?;
    keys.device().check_same("values", values.device())?;
    check_size(len)?;
    if bits.is_empty() {
        return Ok((keys, values));
    }
    if let Backend::Cpu { .. } = keys.device().backend() {
        sort_on_cpu(keys.as_slice_mut().on_cpu_mut(), values.as_slice_mut().on_cpu_mut(), |key| {
            let digit = |shift: u32| match shift < bits.end {
                true => u64::from(key.digit(shift, digit_mask(shift, bits.end))) << (shift - bits.start),
                false => 0,
            };
            (bits.start..bits.end).step_by(DIGIT_BITS as usize).map(digit).sum::<u64>()
        })?;
        return Ok((keys, values));
    }
    let (mut other_keys, mut other_values) = (keys.device().scratch(len)?, keys.device().scratch(len)?);
    match passes(&mut keys, &mut other_keys, Some((&mut values, &mut other_values)), bits, PORTION)? {
        false => Ok((keys, values)),
        true => Ok((other_keys, other_values)),
    }
}

/// The most keys of one launch, whose counts have 30 bits.
const PORTION: u32 = 1 << 29;

/// # Errors
/// [`Error::Unsupported`].
fn check_size(len: usize) -> Result<()> {
    match u32::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Unsupported(format!("a sort of {len} elements: at most 2^32 - 1"))),
    }
}

/// Sorts by those bits, at least one, on a GPU or in the emulator, between the first and the second of the keys and values, in turn, in portions
/// of so many keys, rounded down to whole tiles. Returns whether the result is the second.
fn passes<'a, K: SortKey, V: Element>(
    mut keys: &'a mut DeviceVec<K>,
    mut other_keys: &'a mut DeviceVec<K>,
    mut values: Option<(&'a mut DeviceVec<V>, &'a mut DeviceVec<V>)>,
    bits: Range<u32>,
    portion: u32,
) -> Result<bool> {
    let (queue, n) = (keys.device().clone(), keys.len() as u32);
    let passes = bits.len().div_ceil(DIGIT_BITS as usize);
    if n == 0 {
        return Ok(false);
    }
    let mut starts = count_digits(&queue, keys, &bits)?;
    let mut next_starts = queue.scratch::<u32>(RADIX as usize)?;
    for pass in 0..passes {
        let shift = bits.start + DIGIT_BITS * pass as u32;
        sweep(
            &queue,
            keys,
            other_keys,
            values.as_mut().map(|(values, other)| (&**values, &mut **other)),
            (shift, digit_mask(shift, bits.end)),
            (&mut starts, &mut next_starts, pass),
            portion,
        )?;
        mem::swap(&mut keys, &mut other_keys);
        if let Some((values, other)) = &mut values {
            mem::swap(values, other);
        }
    }
    Ok(passes % 2 == 1)
}

/// For each digit of the bits, where the keys with each of its values begin.
fn count_digits<K: SortKey>(queue: &Device, keys: &DeviceVec<K>, bits: &Range<u32>) -> Result<DeviceVec<u32>> {
    let (n, passes) = (keys.len() as u32, (bits.len() as u32).div_ceil(DIGIT_BITS));
    let mut counts = queue.zeros::<u32>((passes * RADIX) as usize)?;
    let entry = radix_count::Key { step: Step::Count(size_of::<K>()) }.entry();
    let (begin, end) = (bits.start, bits.end);
    let args = radix_count::Args { n, begin, end, passes, keys: keys.readable(), counts: counts.writable() };
    // SAFETY: the arrays are as long as their fields say, the counts new zeros, and the bits those of a key.
    unsafe { launch(queue, entry, radix_count::grid_size(n), args) }?;
    let entry = radix_count::Key { step: Step::Start }.entry();
    let args = radix_count::StartArgs { passes, counts: counts.writable() };
    // SAFETY: a block for each digit.
    unsafe { launch(queue, entry, passes, args) }?;
    Ok(counts)
}

/// One pass, by one digit. `starts` has those of all passes, `next_starts` room for those of another portion.
fn sweep<K: SortKey, V: Element>(
    queue: &Device,
    keys: &DeviceVec<K>,
    sorted_keys: &mut DeviceVec<K>,
    mut values: Option<(&DeviceVec<V>, &mut DeviceVec<V>)>,
    (shift, mask): (u32, u32),
    (starts, next_starts, pass): (&mut DeviceVec<u32>, &mut DeviceVec<u32>, usize),
    portion: u32,
) -> Result<()> {
    let value_bytes = if values.is_some() { size_of::<V>() } else { 0 };
    let entry = radix_sort::Key { key_bytes: size_of::<K>(), value_bytes }.entry();
    let tile_len = tile_len(size_of::<K>(), value_bytes);
    let portion = portion / tile_len * tile_len;
    let total = keys.len() as u32;
    let row = pass * RADIX as usize;
    let mut first = 0;
    let mut swapped = false;
    while first < total {
        let n = portion.min(total - first);
        let tiles = grid_size(n, tile_len);
        let mut state = queue.zeros::<u32>(state_len(tiles))?;
        let is_last = first + n == total;
        // The starts of portions lie in turn in both arrays.
        let (from, to): (Readable<'_, u32>, Writable<'_, u32>) = match swapped {
            false => (starts.readable().skip(row), next_starts.writable()),
            true => (next_starts.readable(), starts.writable().skip(row)),
        };
        let (values, sorted_values) = match &mut values {
            Some((values, sorted)) => (values.readable().skip(first as usize), sorted.writable()),
            None => Default::default(),
        };
        let args = radix_sort::Args {
            n,
            total,
            shift,
            mask,
            keys: keys.readable().skip(first as usize),
            values,
            sorted_keys: sorted_keys.writable(),
            sorted_values,
            starts: from,
            next_starts: if is_last { Writable::default() } else { to },
            state: state.writable(),
        };
        // SAFETY: the arrays are as long as their fields say and borrowed as they must be; portions but the last are whole tiles; the starts
        // are those of this digit, and the state is zeros.
        unsafe { launch(queue, entry, tiles, args) }?;
        swapped = !swapped;
        first += n;
    }
    Ok(())
}

/// Sorts pairs by what `order` makes of a key, keeping the order of equals.
fn sort_on_cpu<K: SortKey, V: Element, O: Ord>(
    keys: &mut [K],
    values: &mut [V],
    order: impl Fn(K) -> O + Sync,
) -> Result<()> {
    let mut pairs = memory::room(keys.len())?;
    pairs.extend(keys.iter().copied().zip(values.iter().copied()));
    parallel::sort_by_key(&mut pairs, |&(key, _)| order(key));
    for ((key, value), (sorted_key, sorted_value)) in keys.iter_mut().zip(values).zip(pairs) {
        (*key, *value) = (sorted_key, sorted_value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(n: u64) -> Vec<u64> {
        (0..n).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
    }

    #[test]
    fn only_the_given_bits_count() {
        for device in [Device::cpu(), Device::emulated(1)] {
            for bits in [0..0, 0..1, 3..8, 0..8, 5..14, 20..52, 0..64, 57..64] {
                let all = keys(5000);
                let mut expected: Vec<_> = all.iter().copied().zip(0u32..).collect();
                let width = bits.end - bits.start;
                let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
                expected.sort_by_key(|&(key, _)| (key >> bits.start) & mask);
                let values = device.upload_vec(&(0..5000).collect::<Vec<u32>>()).unwrap();
                let (sorted, values) = sort_pairs(device.upload_vec(&all).unwrap(), values, bits.clone()).unwrap();
                let found: Vec<_> = sorted.to_vec().unwrap().into_iter().zip(values.to_vec().unwrap()).collect();
                assert!(found == expected, "{device}, bits {bits:?}");
            }
        }
    }

    /// Portions of 2^29 keys are too many for a test: these have one or two tiles.
    #[test]
    fn portions_follow_one_another() {
        let device = Device::emulated(0);
        for portion in [4096, 8192] {
            let all = keys(3 * 8192 + 17);
            let (mut sorted, mut other) = (device.upload_vec(&all).unwrap(), device.zeros(all.len()).unwrap());
            assert!(!passes::<u64, u32>(&mut sorted, &mut other, None, 0..64, portion).unwrap());
            let mut expected = all;
            expected.sort_unstable();
            assert!(sorted.to_vec().unwrap() == expected);
        }
    }

    #[test]
    fn sizes_beyond_32_bits_are_refused() {
        let error = check_size(1 << 32).unwrap_err().to_string();
        assert_eq!(error, "not supported: a sort of 4294967296 elements: at most 2^32 - 1");
        check_size((1 << 32) - 1).unwrap();
    }
}
