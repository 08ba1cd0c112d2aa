//! Which rank has which rows.

use std::{ops::Range, sync::Arc};

use super::Communicator;
use crate::{CsrMatrix, Error, Offset, Result, Scalar};

/// Contiguous blocks of rows, or of other elements, one for each rank; blocks may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Where the block of each rank begins, and finally the number of rows.
    starts: Arc<[usize]>,
}

impl Partition {
    /// Divides `len` rows into blocks that differ by at most one row.
    #[must_use]
    pub fn even(communicator: &Communicator, len: usize) -> Self {
        let size = communicator.size();
        let (least, longer) = (len / size, len % size);
        Self { starts: (0..=size).map(|rank| rank * least + rank.min(longer)).collect() }
    }

    /// Divides the rows of a matrix, which every rank has, such that entries plus rows are balanced: a product reads
    /// the entries, and the operations of a solver read the rows. A row is never divided.
    #[must_use]
    pub fn balanced<T: Scalar, O: Offset>(communicator: &Communicator, matrix: &CsrMatrix<T, O>) -> Self {
        let (size, offsets) = (communicator.size() as u128, matrix.row_offsets());
        let work = |row: usize| (offsets[row].index() + row) as u128;
        let total = work(matrix.nrows());
        let start = |rank| {
            let (mut low, mut high) = (0, matrix.nrows());
            while low < high {
                let middle = low.midpoint(high);
                if work(middle) * size < total * rank { low = middle + 1 } else { high = middle }
            }
            low
        };
        Self { starts: (0..=size).map(start).collect() }
    }

    /// Makes the partition in which this rank has a block of `len` rows. Collective: every rank says how many it has.
    ///
    /// # Errors
    /// [`Error::Rank`]; [`Error::InvalidOption`] if the number of all rows overflows.
    pub fn from_local(communicator: &Communicator, len: usize) -> Result<Self> {
        let lengths = communicator.call("a partition from local lengths").numbers(&[len as u64])?;
        Self::of_lengths(lengths.iter().map(|length| length[0]))
    }

    pub(super) fn of_lengths(lengths: impl Iterator<Item = u64>) -> Result<Self> {
        let mut starts = vec![0usize];
        for length in lengths {
            let start = usize::try_from(length).ok().and_then(|length| starts[starts.len() - 1].checked_add(length));
            starts.push(start.ok_or_else(|| Error::InvalidOption("the rows of all ranks are too many".into()))?);
        }
        Ok(Self { starts: starts.into() })
    }

    /// Returns the number of all rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts[self.ranks()]
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the rows of a rank.
    ///
    /// # Panics
    /// If there is no rank `rank`.
    #[must_use]
    pub fn rows(&self, rank: usize) -> Range<usize> {
        self.starts[rank]..self.starts[rank + 1]
    }

    /// Returns a number that differs, most likely, between two partitions: ranks compare it in place of all blocks.
    pub(super) fn fingerprint(&self) -> u64 {
        // FNV-1a (Fowler, Noll & Vo), by words.
        let mix = |hash: u64, &start: &usize| (hash ^ start as u64).wrapping_mul(0x0000_0100_0000_01b3);
        self.starts.iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// Fails unless there is a block for each rank.
    pub(super) fn check(&self, communicator: &Communicator) -> Result<()> {
        match self.ranks() == communicator.size() {
            true => Ok(()),
            false => {
                let (blocks, ranks) = (self.ranks(), communicator.size());
                Err(Error::InvalidOption(format!("a partition into {blocks} blocks for {ranks} ranks")))
            }
        }
    }

    /// Fails unless the argument `what` is divided in the same way.
    pub(super) fn check_same(&self, what: &str, found: &Self) -> Result<()> {
        match self == found {
            true => Ok(()),
            false => {
                let (expected, found) = (&self.starts, &found.starts);
                let problem = format!("{what} is divided at {found:?}, where the operation needs {expected:?}");
                Err(Error::InvalidOption(problem))
            }
        }
    }
}
