//! Values that several products read, and the matrix's owner changes.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Device, DeviceVec, Result, Scalar};

/// The values of a matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct Values<T>(RwLock<DeviceVec<T>>);

impl<T: Scalar> Values<T> {
    /// On a GPU they are copied; in the emulator they are shared until they change.
    pub(super) fn upload(device: &Device, values: &Arc<Vec<T>>) -> Result<Self> {
        Ok(Self(RwLock::new(DeviceVec::share(device, values)?)))
    }

    /// Those that a device has computed.
    pub(super) fn of(values: DeviceVec<T>) -> Self {
        Self(RwLock::new(values))
    }

    /// To read while nothing writes.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, DeviceVec<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To write. The user's matrix keeps its own.
    pub(crate) fn write(&self) -> Result<RwLockWriteGuard<'_, DeviceVec<T>>> {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        values.own()?;
        Ok(values)
    }
}
