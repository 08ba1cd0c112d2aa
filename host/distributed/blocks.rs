//! This rank's block of a vector or a dense matrix, with room for the halo behind it.

use super::{Communicator, Partition, bytes::to_bytes, communicator::decode};
use crate::{DeviceSlice, DeviceSliceMut, DeviceVec, Element, Error, Result, device::check_length, memory};

/// Rows of equal width: this rank's own, then those of its halo.
#[derive(Debug)]
pub(super) struct Blocks<T> {
    communicator: Communicator,
    partition: Partition,
    width: usize,
    /// The own rows, then room for a halo, as much as any product has needed so far.
    storage: DeviceVec<T>,
}

impl<T: Element> Blocks<T> {
    pub(super) fn zeros(communicator: &Communicator, partition: &Partition, width: usize) -> Result<Self> {
        partition.check(communicator)?;
        let len = elements(partition.rows(communicator.rank()).len(), width)?;
        let storage = communicator.device().zeros(len)?;
        Ok(Self { communicator: communicator.clone(), partition: partition.clone(), width, storage })
    }

    pub(super) fn from_whole(
        communicator: &Communicator,
        partition: &Partition,
        width: usize,
        whole: &[T],
    ) -> Result<Self> {
        partition.check(communicator)?;
        check_length("the whole", elements(partition.len(), width)?, whole.len())?;
        let rows = partition.rows(communicator.rank());
        Self::from_local(communicator, partition, width, &whole[rows.start * width..rows.end * width])
    }

    pub(super) fn from_local(
        communicator: &Communicator,
        partition: &Partition,
        width: usize,
        local: &[T],
    ) -> Result<Self> {
        partition.check(communicator)?;
        check_length("the local part", elements(partition.rows(communicator.rank()).len(), width)?, local.len())?;
        let storage = communicator.device().upload_vec(local)?;
        Ok(Self { communicator: communicator.clone(), partition: partition.clone(), width, storage })
    }

    pub(super) fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    pub(super) fn partition(&self) -> &Partition {
        &self.partition
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The number of own rows.
    pub(super) fn own_rows(&self) -> usize {
        self.partition.rows(self.communicator.rank()).len()
    }

    /// The number of own elements.
    fn own_len(&self) -> usize {
        self.own_rows() * self.width
    }

    /// The own elements.
    pub(super) fn own(&self) -> DeviceSlice<'_, T> {
        self.storage.slice(..self.own_len()).expect("a vector begins with its own elements")
    }

    /// The own elements, to write them.
    pub(super) fn own_mut(&mut self) -> DeviceSliceMut<'_, T> {
        let len = self.own_len();
        self.storage.slice_mut(..len).expect("a vector begins with its own elements")
    }

    /// All elements, with room for the halo.
    pub(super) fn storage(&self) -> &DeviceVec<T> {
        &self.storage
    }

    pub(super) fn storage_mut(&mut self) -> &mut DeviceVec<T> {
        &mut self.storage
    }

    /// Makes room for so many rows behind the own ones.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<()> {
        let len = elements(self.own_rows() + rows, self.width)?;
        if self.storage.len() < len {
            let mut longer = self.communicator.device().zeros(len)?;
            longer.slice_mut(..self.own_len())?.assign(self.own())?;
            self.storage = longer;
        }
        Ok(())
    }

    /// Fails unless the argument `what` belongs to the same ranks, and is divided like the partition.
    pub(super) fn check(&self, what: &str, communicator: &Communicator, partition: &Partition) -> Result<()> {
        communicator.check_same(what, &self.communicator)?;
        partition.check_same(what, &self.partition)
    }

    /// Returns the elements of all ranks.
    pub(super) fn gather(&self, what: &str) -> Result<Vec<T>> {
        let call = self.communicator.call(self.label(&format!("a gather of {what}")));
        self.communicator.settle()?;
        let own = self.own().to_vec()?;
        let received = call.exchange(|_| to_bytes(&own))?;
        let mut whole = memory::room(elements(self.partition.len(), self.width)?)?;
        for (rank, bytes) in received.iter().enumerate() {
            whole.extend(decode::<T>(rank, self.partition.rows(rank).len() * self.width, bytes)?);
        }
        Ok(whole)
    }

    /// Names an operation on these elements such that it differs where the sizes or the partitions do.
    pub(super) fn label(&self, operation: &str) -> String {
        let (rows, width, partition) = (self.partition.len(), self.width, self.partition.fingerprint());
        let bits = 8 * size_of::<T>();
        format!("{operation} of {rows} x {width} elements of {bits} bits, divided as {partition:016x}")
    }
}

fn elements(rows: usize, width: usize) -> Result<usize> {
    let problem = || Error::Unsupported(format!("{rows} rows of {width} elements"));
    rows.checked_mul(width).ok_or_else(problem)
}
