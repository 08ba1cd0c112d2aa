//! Indices that are known to be in range.

use kernels_gpu::vector_move::{InvertArgs, Key, Move, grid_size};

use crate::{
    Device, DeviceVec, Error, Result,
    device::{self, Backend, check_length, launch},
    memory,
};

/// Indices on a device, each less than a bound, for [`DeviceVec::gather`] and [`DeviceVec::scatter`].
///
/// ```
/// use warpsparse::Device;
///
/// let device = Device::auto();
/// let x = device.upload_vec(&[10.0f32, 20.0, 30.0])?;
/// let order = device.upload_indices(&[2, 0, 1], 3)?;
/// let (mut y, mut back) = (device.zeros::<f32>(3)?, device.zeros::<f32>(3)?);
/// y.gather(&order, &x)?;
/// assert_eq!(y.to_vec()?, [30.0, 10.0, 20.0]);
/// back.scatter(&order, &y)?;
/// assert_eq!(back.to_vec()?, [10.0, 20.0, 30.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceIndices {
    vector: DeviceVec<u32>,
    bound: usize,
    are_distinct: bool,
}

impl Device {
    /// Uploads indices to this device, for vectors with at least `bound` elements. Waits for the copy.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] naming the first index that is not less than `bound`, and while a graph is recorded; [`Error::OutOfMemory`],
    /// [`Error::Driver`].
    pub fn upload_indices(&self, indices: &[u32], bound: usize) -> Result<DeviceIndices> {
        if let Some(position) = indices.iter().position(|&index| index as usize >= bound) {
            let problem = format!("index {} at position {position} is not less than {bound}", indices[position]);
            return Err(Error::InvalidOption(problem));
        }
        Ok(DeviceIndices { vector: self.upload_vec(indices)?, bound, are_distinct: are_distinct(indices)? })
    }
}

impl DeviceIndices {
    /// Returns the number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.vector.len()
    }

    /// Returns whether there are no indices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vector.is_empty()
    }

    /// Returns the bound that each index is less than.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Returns whether all indices are distinct.
    #[must_use]
    pub fn are_distinct(&self) -> bool {
        self.are_distinct
    }

    /// Copies the indices to the host. Waits for everything queued on the device before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`], and [`Error::InvalidOption`] while a graph is recorded.
    pub fn to_vec(&self) -> Result<Vec<u32>> {
        self.vector.to_vec()
    }

    /// Computes the inverse of a permutation: element `indices[i]` is `i`. Queued without waiting.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless there are as many indices as their bound; [`Error::InvalidOption`] if they are not distinct, and while a graph is recorded;
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn inverse(&self) -> Result<Self> {
        device::refuse("the inverse of a permutation")?;
        self.check_permutation("the indices", self.bound)?;
        let mut inverse = self.vector.device().scratch(self.len())?;
        if let Backend::Cpu { .. } = self.vector.device().backend() {
            let (indices, inverse) = (self.vector.as_slice().on_cpu(), inverse.as_slice_mut().on_cpu_mut());
            (0..).zip(indices).for_each(|(position, &index)| inverse[index as usize] = position);
        } else if !self.is_empty() {
            let n = self.len() as u64;
            let args = InvertArgs { n, indices: self.vector.readable(), y: inverse.writable() };
            // SAFETY: the indices are distinct, and below the length of the inverse.
            unsafe {
                let entry = Key { operation: Move::Invert }.entry();
                launch(self.vector.device(), entry, grid_size(n) as u32, args)
            }?;
        }
        // SAFETY: the inverse of a permutation is one.
        Ok(unsafe { Self::of_permutation(inverse) })
    }

    /// Indices that the device has computed.
    ///
    /// # Safety
    /// They are a permutation of the numbers below their number.
    pub(crate) unsafe fn of_permutation(vector: DeviceVec<u32>) -> Self {
        Self { bound: vector.len(), vector, are_distinct: true }
    }

    /// Indices that the device has computed, perhaps not distinct.
    ///
    /// # Safety
    /// They are below the bound.
    pub(crate) unsafe fn of_vector(vector: DeviceVec<u32>, bound: usize) -> Self {
        Self { vector, bound, are_distinct: false }
    }

    /// Fails unless the indices are a permutation of the numbers below `size`.
    pub(crate) fn check_permutation(&self, what: &'static str, size: usize) -> Result<()> {
        check_length(what, size, self.len())?;
        if self.are_distinct && self.bound <= size {
            return Ok(());
        }
        let problem = if self.are_distinct { "may be too large" } else { "are not distinct" };
        Err(Error::InvalidOption(format!("{what} of {size}: the indices {problem}")))
    }

    pub(crate) fn into_vector(self) -> DeviceVec<u32> {
        self.vector
    }

    pub(crate) fn vector(&self) -> &DeviceVec<u32> {
        &self.vector
    }

    pub(super) fn check_bound(&self, what: &'static str, len: usize) -> Result<()> {
        if len < self.bound { check_length(what, self.bound, len) } else { Ok(()) }
    }
}

fn are_distinct(indices: &[u32]) -> Result<bool> {
    let bound = indices.iter().max().map_or(0, |&largest| largest as usize + 1);
    if indices.len() > bound {
        return Ok(false);
    }
    let mut seen = memory::zeros::<u64>(bound.div_ceil(64))?;
    Ok(indices.iter().all(|&index| {
        let (word, bit) = (&mut seen[index as usize / 64], 1 << (index % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }))
}
