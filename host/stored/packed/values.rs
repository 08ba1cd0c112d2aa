//! The values of a packed matrix: as they are, as codes for a table, or once.

use std::{
    ops::Range,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use kernels_gpu::spmv_csr_packed::{TABLE, Values};

use super::words;
use crate::{
    Device, DeviceSlice, DeviceVec, Error, Result, Scalar,
    device::check_length,
    memory,
    parallel::{for_blocks, merged},
};

/// The values, on a GPU or in the emulator. How they are stored never changes.
#[derive(Debug)]
pub(crate) struct PackedValues<T> {
    pub(crate) stored: Values,
    arrays: RwLock<ValueArrays<T>>,
}

/// What the kernels read.
#[derive(Debug)]
pub(crate) struct ValueArrays<T> {
    /// All values, the table, or the one value.
    pub(crate) values: DeviceVec<T>,
    /// The codes, if there are any.
    pub(crate) codes: Option<DeviceVec<u32>>,
}

impl<T: Scalar> PackedValues<T> {
    /// Values as they are, or by the table of those that are distinct.
    pub(super) fn upload(device: &Device, values: &Arc<Vec<T>>, table: Option<&[T]>) -> Result<Self> {
        let (stored, arrays) = match table {
            None => (Values::Full, ValueArrays { values: DeviceVec::share(device, values)?, codes: None }),
            Some(table @ ([] | [_])) => {
                let value = [table.first().copied().unwrap_or_default()];
                (Values::One, ValueArrays { values: device.upload_vec(&value)?, codes: None })
            }
            Some(table) => {
                let codes = device.upload_vec(&codes(values, table)?)?;
                (Values::Coded, ValueArrays { values: device.upload_vec(&padded(table))?, codes: Some(codes) })
            }
        };
        Ok(Self { stored, arrays: RwLock::new(arrays) })
    }

    /// To read while nothing writes.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ValueArrays<T>> {
        self.arrays.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To write. The user's matrix keeps its own.
    fn write(&self) -> Result<RwLockWriteGuard<'_, ValueArrays<T>>> {
        let mut arrays = self.arrays.write().unwrap_or_else(PoisonError::into_inner);
        arrays.values.own()?;
        Ok(arrays)
    }

    /// Bytes of the arrays.
    pub(super) fn bytes(&self) -> usize {
        let arrays = self.read();
        size_of::<T>() * arrays.values.len() + 4 * arrays.codes.as_ref().map_or(0, DeviceVec::len)
    }

    /// The values of so many entries, in host memory.
    pub(super) fn to_vec(&self, entries: usize) -> Result<Vec<T>> {
        let arrays = self.read();
        let stored = arrays.values.to_vec()?;
        if self.stored == Values::Full {
            return Ok(stored);
        }
        let codes = arrays.codes.as_ref().map(DeviceVec::to_vec).transpose()?;
        let codes = codes.as_deref().map(words::narrow::<u8>);
        let mut values = memory::zeros(entries)?;
        for_blocks(0..entries, &mut values, &|entries, values: &mut [T]| {
            for (entry, value) in entries.zip(values) {
                *value = stored[codes.map_or(0, |codes| usize::from(codes[entry]))];
            }
        });
        Ok(values)
    }

    /// Replaces the values by as many others on the device. Waits, unless they are stored as they are.
    pub(super) fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        match self.stored {
            Values::Full => self.write()?.values.assign(values),
            Values::Coded | Values::One => self.replace(&values.to_vec()?),
        }
    }

    /// Replaces the values by as many others in host memory: in place, so that recorded graphs see them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there are more distinct ones than the matrix has room for.
    pub(super) fn replace(&self, values: &[T]) -> Result<()> {
        let most = match self.stored {
            Values::Full => return self.write()?.values.copy_from(values),
            Values::Coded => TABLE as usize,
            Values::One => 1,
        };
        let table = distinct(values).filter(|table| table.len() <= most).ok_or_else(|| {
            let problem = format!("more than {most} distinct values in a matrix that is stored with so few");
            Error::Unsupported(format!("{problem}: upload it again, or with FormatChoice::Narrow"))
        })?;
        let codes = codes(values, &table)?;
        let mut arrays = self.write()?;
        match &mut arrays.codes {
            Some(stored) => {
                check_length("the vector of codes", stored.len(), codes.len())?;
                stored.copy_from(&codes)?;
                arrays.values.copy_from(&padded(&table))
            }
            None => arrays.values.copy_from(&[table.first().copied().unwrap_or_default()]),
        }
    }
}

/// The bits of a value.
fn bits<T: Scalar>(value: T) -> u64 {
    // SAFETY: scalars have 4 or 8 bytes without padding.
    unsafe {
        match size_of::<T>() {
            4 => std::mem::transmute_copy::<T, u32>(&value).into(),
            _ => std::mem::transmute_copy::<T, u64>(&value),
        }
    }
}

/// The distinct values, by ascending bits: -0.0 is not 0.0, and NaNs of other bits are other values. `None` if there are more than 256.
pub(crate) fn distinct<T: Scalar>(values: &[T]) -> Option<Vec<T>> {
    /// Large enough to amortise the cost of a task.
    const PIECE: usize = 1 << 16;
    let insert = |mut table: Vec<T>, value: T| match table.binary_search_by_key(&bits(value), |&other| bits(other)) {
        Ok(_) => Some(table),
        Err(_) if table.len() == TABLE as usize => None,
        Err(place) => {
            table.insert(place, value);
            Some(table)
        }
    };
    let of_piece = |places: Range<usize>| values[places].iter().copied().try_fold(vec![], insert);
    merged(PIECE, 0..values.len(), &of_piece, &|table: Option<Vec<T>>, later: Option<Vec<T>>| {
        later?.into_iter().try_fold(table?, insert)
    })
}

/// The place of each value in the table of all of them, packed into words.
fn codes<T: Scalar>(values: &[T], table: &[T]) -> Result<Vec<u32>> {
    let mut packed = words::room_for::<u8>(values.len())?;
    let codes = &mut words::narrow_mut::<u8>(&mut packed)[..values.len()];
    for_blocks(0..values.len(), codes, &|entries, codes: &mut [u8]| {
        for (entry, code) in entries.zip(codes) {
            let place = table.binary_search_by_key(&bits(values[entry]), |&other| bits(other));
            *code = place.expect("the table has every value") as u8;
        }
    });
    Ok(packed)
}

/// The table as long as the kernels take it.
fn padded<T: Scalar>(table: &[T]) -> [T; TABLE as usize] {
    let mut whole = [T::default(); TABLE as usize];
    whole[..table.len()].copy_from_slice(table);
    whole
}
