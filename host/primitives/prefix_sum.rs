//! Prefix sums.

use kernels_gpu::{
    prefix_sum::{Args, Key, Sum, grid_size, state_len},
    summand::convert,
};

use crate::{
    DeviceSlice, DeviceSliceMut, DeviceVec, Element, Offset, Result,
    device::{Backend, check_length, launch, refuse},
    memory,
    parallel::for_pieces,
};

/// Elements that a thread adds up at a time on the CPU: large enough to amortise the cost of a task.
const PIECE: usize = 1 << 14;

/// Prefix sums of `u32`, `u64`, `f32` and `f64`. Integers wrap. They are queued without waiting; `O(n)` work in one pass, which moves each
/// element once in and once out, after the decoupled look-back of Merrill and Garland, "Single-pass parallel prefix scan with decoupled
/// look-back" (2016).
///
/// Floating-point sums are rounded in an order that depends on the length alone: a device gives the same bits in every run, and the
/// emulator those of a GPU. The order on the CPU is another one.
impl<T: Element> DeviceVec<T> {
    /// Returns the sums of all elements up to each: `y[i] = x[0] + ... + x[i]`.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let x = Device::auto().upload_vec(&[3u32, 0, 4, 1])?;
    /// assert_eq!(x.inclusive_scan()?.to_vec()?, [3, 3, 7, 8]);
    /// assert_eq!(x.exclusive_scan()?.to_vec()?, [0, 3, 3, 7]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn inclusive_scan(&self) -> Result<Self> {
        let mut sums = self.device().scratch(self.len())?;
        scan(sums.as_slice_mut(), self.as_slice(), false)?;
        Ok(sums)
    }

    /// Returns the sums of all elements before each: `y[i] = x[0] + ... + x[i - 1]`, and `y[0] = 0`.
    ///
    /// # Errors
    /// As [`inclusive_scan`](Self::inclusive_scan).
    pub fn exclusive_scan(&self) -> Result<Self> {
        let mut sums = self.device().scratch(self.len())?;
        scan(sums.as_slice_mut(), self.as_slice(), true)?;
        Ok(sums)
    }

    /// Computes `y[i] = x[0] + ... + x[i]`, on this vector's stream.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`OutOfMemory`](crate::Error::OutOfMemory) (the sums of blocks take 1/1000 of the vector),
    /// [`Driver`](crate::Error::Driver).
    pub fn inclusive_scan_from<'a>(&mut self, x: impl Into<DeviceSlice<'a, T>>) -> Result<()> {
        scan(self.as_slice_mut(), x.into(), false)
    }

    /// Computes `y[i] = x[0] + ... + x[i - 1]`, and `y[0] = 0`, on this vector's stream.
    ///
    /// # Errors
    /// As [`inclusive_scan_from`](Self::inclusive_scan_from).
    pub fn exclusive_scan_from<'a>(&mut self, x: impl Into<DeviceSlice<'a, T>>) -> Result<()> {
        scan(self.as_slice_mut(), x.into(), true)
    }
}

fn scan<T: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, T>, exclusive: bool) -> Result<()> {
    check_length("x", y.len(), x.len())?;
    y.device().check_same("x", x.device())?;
    if let Backend::Cpu { .. } = y.device().backend() {
        scan_on_cpu::<T, T, T>(y.on_cpu_mut(), x.on_cpu(), exclusive)?;
        return Ok(());
    }
    run::<T, T, T>(Sum::Of(T::ELEMENT), y, x, exclusive, None)
}

/// The offsets of rows with so many entries, one more than there are rows: `offsets[i]` is the sum of the first `i` counts. And their total.
/// Waits for it. Offsets of 32 bits are those modulo 2^32 where the total does not fit: the caller looks.
///
/// # Errors
/// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded, [`OutOfMemory`](crate::Error::OutOfMemory),
/// [`Driver`](crate::Error::Driver).
pub(crate) fn row_offsets<O: Offset>(counts: &DeviceVec<u32>) -> Result<(DeviceVec<O>, u64)> {
    refuse("a sum that the host waits for")?;
    let (device, n) = (counts.device(), counts.len());
    if let Backend::Cpu { .. } = device.backend() {
        let mut offsets = device.zeros::<O>(n + 1)?;
        let values = offsets.as_slice_mut().on_cpu_mut();
        let total = scan_on_cpu::<u32, u64, O>(&mut values[..n], counts.as_slice().on_cpu(), true)?;
        values[n] = convert(total);
        return Ok((offsets, total));
    }
    if n == 0 {
        return Ok((device.zeros(1)?, 0));
    }
    let (mut offsets, mut total) = (device.scratch::<O>(n + 1)?, device.scratch::<u64>(1)?);
    let sum = Sum::Offsets(size_of::<O>());
    run::<u32, u64, O>(sum, offsets.as_slice_mut(), counts.as_slice(), true, Some(&mut total))?;
    let mut value = [0];
    total.copy_to(&mut value)?;
    Ok((offsets, value[0]))
}

/// Sums the elements of `x` as `S`, on a GPU or in the emulator. With a `total` the result has one element more.
fn run<I: Element, S: Element, O: Element>(
    sum: Sum,
    y: DeviceSliceMut<'_, O>,
    x: DeviceSlice<'_, I>,
    exclusive: bool,
    total: Option<&mut DeviceVec<u64>>,
) -> Result<()> {
    let n = x.len() as u64;
    if n == 0 {
        return Ok(());
    }
    let (queue, y) = y.into_writable();
    let mut state = queue.zeros::<u64>(state_len::<I, S>(n) as usize)?;
    let args = Args {
        n,
        exclusive: exclusive.into(),
        ends: total.is_some().into(),
        x: x.readable(),
        y,
        total: total.map(DeviceVec::writable).unwrap_or_default(),
        state: state.writable(),
    };
    // SAFETY: all arrays are as long as their fields say, and what is written is borrowed mutably or new; the entry is that for these types. No
    // memory holds enough elements for 2^31 blocks.
    unsafe { launch(queue, Key { sum }.entry(), grid_size::<I>(n) as u32, args) }
}

/// Sums in two passes: those of the pieces, then within each from what is before it. Returns the total.
fn scan_on_cpu<I: Element, S: Element, O: Element>(y: &mut [O], x: &[I], exclusive: bool) -> Result<S> {
    let mut before = memory::zeros::<S>(x.len().div_ceil(PIECE))?;
    for_pieces(&mut before, 1, |number, sum| {
        sum[0] = piece(x, number).iter().fold(S::default(), |sum, &x| sum.plus(convert(x)));
    });
    let mut total = S::default();
    for sum in &mut before {
        let through = total.plus(*sum);
        *sum = total;
        total = through;
    }
    for_pieces(y, PIECE, |number, y| {
        let mut sum = before[number];
        for (y, &x) in y.iter_mut().zip(piece(x, number)) {
            let through = sum.plus(convert(x));
            *y = convert(if exclusive { sum } else { through });
            sum = through;
        }
    });
    Ok(total)
}

/// The elements of piece `number`.
fn piece<E>(elements: &[E], number: usize) -> &[E] {
    let first = number * PIECE;
    &elements[first..elements.len().min(first + PIECE)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn check<O: Offset>(device: &Device, counts: &[u32]) {
        let counts_there = device.upload_vec(counts).unwrap();
        let (offsets, total) = row_offsets::<O>(&counts_there).unwrap();
        let mut sum = 0u64;
        let mut expected = vec![O::default()];
        for &count in counts {
            sum += u64::from(count);
            expected.push(convert(sum));
        }
        assert_eq!((offsets.to_vec().unwrap(), total), (expected, sum), "{} counts", counts.len());
    }

    #[test]
    fn offsets_and_the_exact_total() {
        for device in [Device::cpu(), Device::emulated(0), Device::emulated(1)] {
            for n in [0, 1, 2, 31, 4095, 4096, 4097, 20_000] {
                let counts: Vec<u32> = (0..n).map(|i: u32| i.wrapping_mul(2_654_435_761) % 7).collect();
                check::<u32>(&device, &counts);
                check::<u64>(&device, &counts);
            }
            // Beyond 2^32: 32 bits wrap, the total does not.
            check::<u32>(&device, &[u32::MAX; 5000]);
            check::<u64>(&device, &[u32::MAX; 5000]);
        }
    }
}
