//! Distributed dense matrices.

use super::{Communicator, Partition, blocks::Blocks};
use crate::{DenseMut, DenseRef, Element, Result};

/// A dense matrix of which each rank holds a block of rows on its device, row-major without gaps.
#[derive(Debug)]
pub struct DistributedDense<T> {
    blocks: Blocks<T>,
}

impl<T: Element> DistributedDense<T> {
    /// Creates a matrix of zeros with `ncols` columns.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the partition is one for another number of ranks;
    /// [`Unsupported`](crate::Error::Unsupported) if the number of elements overflows; [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Driver`](crate::Error::Driver).
    pub fn zeros(communicator: &Communicator, partition: &Partition, ncols: usize) -> Result<Self> {
        Ok(Self { blocks: Blocks::zeros(communicator, partition, ncols)? })
    }

    /// Creates a matrix from all its elements in row-major order, which every rank has: each uploads its own rows.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros); [`LengthMismatch`](crate::Error::LengthMismatch) unless there are as many elements as the matrix has.
    pub fn from_whole(communicator: &Communicator, partition: &Partition, ncols: usize, whole: &[T]) -> Result<Self> {
        Ok(Self { blocks: Blocks::from_whole(communicator, partition, ncols, whole)? })
    }

    /// Creates a matrix from the rows of this rank, in row-major order.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros); [`LengthMismatch`](crate::Error::LengthMismatch) unless there are as many elements as the rank's rows have.
    pub fn from_local(communicator: &Communicator, partition: &Partition, ncols: usize, local: &[T]) -> Result<Self> {
        Ok(Self { blocks: Blocks::from_local(communicator, partition, ncols, local)? })
    }

    /// Returns the number of rows of all ranks.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.partition().len()
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.blocks.width()
    }

    /// Returns which rank has which rows.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        self.blocks.partition()
    }

    /// Returns this rank's rows.
    #[must_use]
    pub fn local(&self) -> DenseRef<'_, T> {
        let layout = (self.blocks.own_rows(), self.blocks.width());
        self.blocks.storage().matrix(layout).expect("the storage begins with its own rows")
    }

    /// Returns this rank's rows, to write them.
    #[must_use]
    pub fn local_mut(&mut self) -> DenseMut<'_, T> {
        let layout = (self.blocks.own_rows(), self.blocks.width());
        self.blocks.storage_mut().matrix_mut(layout).expect("the storage begins with its own rows")
    }

    /// Copies the elements of all ranks to the host in row-major order, on every rank. Collective.
    ///
    /// # Errors
    /// [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn gather(&self) -> Result<Vec<T>> {
        self.blocks.gather("a dense matrix")
    }

    pub(super) fn blocks_mut(&mut self) -> &mut Blocks<T> {
        &mut self.blocks
    }
}
