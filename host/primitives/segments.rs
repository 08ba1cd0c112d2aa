//! Sorts of many segments of a vector, each by itself.

use std::sync::{Mutex, PoisonError};

use kernels_gpu::triplets;

use super::row_sort::{Columns, Sorted, UnsortedRows, radix_sorted};
use crate::{
    DeviceVec, Error, Result, Scalar,
    device::{self, check_length, launch},
    memory,
    parallel::for_pieces,
};

/// Sorts of segments, as of the rows of a matrix: segment `i` is `offsets[i]..offsets[i + 1]`.
///
/// Segments of up to 512 elements are sorted in shared memory, each by a group of lanes that compares every element with every other; if one is
/// longer, all are sorted by a radix sort. They need memory for another copy of what they sort. The offsets are checked on the host: the sorts wait for a copy
/// of them, and for the answer whether a segment was too long.
impl DeviceVec<u32> {
    /// Sorts the elements of each segment, in ascending order.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let mut x = device.upload_vec(&[3u32, 1, 2, 9, 8])?;
    /// x.sort_segments(&device.upload_vec(&[0u32, 3, 3, 5])?)?;
    /// assert_eq!(x.to_vec()?, [1, 2, 3, 8, 9]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the offsets do not begin with 0, fall, or do not end with the number of elements, and while a graph is
    /// recorded; then nothing is changed. [`DeviceMismatch`](Error::DeviceMismatch), [`Unsupported`](Error::Unsupported) for 2³² elements
    /// and more, [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
    pub fn sort_segments(&mut self, offsets: &DeviceVec<u32>) -> Result<()> {
        sort::<f32>(self, offsets, None)
    }

    /// Sorts the elements of each segment as keys, in ascending order, and `values` with them: values of equal keys keep their order.
    ///
    /// # Errors
    /// As [`sort_segments`](Self::sort_segments); [`LengthMismatch`](Error::LengthMismatch).
    pub fn sort_segments_with<T: Scalar>(&mut self, offsets: &DeviceVec<u32>, values: &mut DeviceVec<T>) -> Result<()> {
        check_length("values", self.len(), values.len())?;
        self.device().check_same("values", values.device())?;
        sort(self, offsets, Some(values))
    }
}

fn sort<T: Scalar>(
    keys: &mut DeviceVec<u32>,
    offsets: &DeviceVec<u32>,
    values: Option<&mut DeviceVec<T>>,
) -> Result<()> {
    device::refuse("a sort of segments")?;
    keys.device().check_same("offsets", offsets.device())?;
    let (segments, elements) = (offsets.len().saturating_sub(1), keys.len());
    let (Ok(rows), Ok(entries)) = (u32::try_from(segments), u32::try_from(elements)) else {
        return Err(Error::Unsupported(format!(
            "a sort of {elements} elements in {segments} segments: at most 2^32 - 1"
        )));
    };
    let starts = offsets.to_vec()?;
    let is_valid = starts.first() == Some(&0) && starts.last() == Some(&entries) && starts.is_sorted();
    if !is_valid {
        let rule = "they begin with 0, never fall, and end with the number of elements";
        let problem = format!("the offsets of {segments} segments of {elements} elements: {rule}");
        return Err(Error::InvalidOption(problem));
    }
    if keys.device().is_cpu() {
        let keys = keys.as_slice_mut().on_cpu_mut();
        return sort_on_cpu(&starts, keys, values.map(|values| values.as_slice_mut().on_cpu_mut()));
    }
    if rows == 0 {
        return Ok(());
    }
    let device = &keys.device().clone();
    let unsorted = UnsortedRows {
        device,
        rows,
        entries,
        offsets: offsets.readable(),
        columns: Columns::Own(keys.readable()),
        values: values.as_deref(),
    };
    let (new_keys, new_values) = match unsorted.sorted()? {
        Some(sorted) => sorted,
        None => {
            let mut segment_of = device.scratch(elements)?;
            let args = triplets::RowsArgs {
                rows,
                entries,
                row_offsets: offsets.readable(),
                row_indices: segment_of.writable(),
            };
            let entry = triplets::Key { operation: triplets::Operation::Rows }.entry();
            // SAFETY: the offsets are in order.
            unsafe { launch(device, entry, triplets::rows_grid_size(entries), args) }?;
            // The sort moves values too, if only some that nobody reads.
            let none = device.zeros(if values.is_some() { 0 } else { elements })?;
            let values = values.as_deref().unwrap_or(&none);
            let Sorted { columns, values, .. } = radix_sorted((rows, u32::MAX), segment_of, keys.readable(), values)?;
            (columns, values)
        }
    };
    *keys = new_keys;
    if let Some(values) = values {
        *values = new_values;
    }
    Ok(())
}

/// Segments that one thread sorts at a time.
const SEGMENTS: usize = 16;

fn sort_on_cpu<T: Scalar>(offsets: &[u32], keys: &mut [u32], values: Option<&mut [T]>) -> Result<()> {
    let Some(values) = values else {
        let mut segments = split(offsets, keys)?;
        for_pieces(&mut segments, SEGMENTS, |_, segments| {
            segments.iter_mut().for_each(|segment| segment.sort_unstable());
        });
        return Ok(());
    };
    let sort = |keys: &mut [u32], values: &mut [T]| -> Result<()> {
        let mut pairs = memory::room(keys.len())?;
        pairs.extend(keys.iter().copied().zip(values.iter().copied()));
        pairs.sort_by_key(|&(key, _)| key);
        for ((key, value), pair) in keys.iter_mut().zip(values).zip(pairs) {
            (*key, *value) = pair;
        }
        Ok(())
    };
    let mut segments = memory::room(offsets.len() - 1)?;
    segments.extend(split(offsets, keys)?.into_iter().zip(split(offsets, values)?));
    let result = Mutex::new(Ok(()));
    for_pieces(&mut segments, SEGMENTS, |_, segments| {
        if let Err(error) = segments.iter_mut().try_for_each(|(keys, values)| sort(keys, values)) {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn split<'a, E>(offsets: &[u32], mut rest: &'a mut [E]) -> Result<Vec<&'a mut [E]>> {
    let mut segments = memory::room(offsets.len() - 1)?;
    for bounds in offsets.windows(2) {
        let (segment, after) = rest.split_at_mut((bounds[1] - bounds[0]) as usize);
        segments.push(segment);
        rest = after;
    }
    Ok(segments)
}
