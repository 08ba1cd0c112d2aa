//! Rows of matrices on the host: renumbered, put together, and sent from rank to rank.

use std::{iter, ops::Range, sync::Arc};

use super::{
    Communicator, Partition,
    bytes::{from_bytes, to_bytes},
    halo::{of_rank, requests},
};
use crate::{CsrMatrix, Error, ErrorKind, Offset, Result, Scalar, memory};

/// A matrix that grows row by row.
struct Rows<T> {
    offsets: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Rows<T> {
    fn new(rows: usize, entries: usize) -> Result<Self> {
        let (mut offsets, columns, values) = (memory::room(rows + 1)?, memory::room(entries)?, memory::room(entries)?);
        offsets.push(0);
        Ok(Self { offsets, columns, values })
    }

    /// Adds a row. Entries come out in ascending order of columns; those of the same column are added up in the order given.
    fn push(&mut self, entries: &mut Vec<(u32, T)>) -> Result<()> {
        entries.sort_by_key(|&(column, _)| column);
        for (column, value) in entries.drain(..) {
            match self.columns.last() {
                Some(&last) if last == column && self.columns.len() > self.offsets[self.offsets.len() - 1] as usize => {
                    let place = self.values.len() - 1;
                    self.values[place] += value;
                }
                _ => {
                    memory::reserve_one(&mut self.columns)?;
                    memory::reserve_one(&mut self.values)?;
                    self.columns.push(column);
                    self.values.push(value);
                }
            }
        }
        let end = u32::try_from(self.columns.len());
        self.offsets.push(end.map_err(|_| Error::Unsupported("2^32 entries of a rank and more".into()))?);
        Ok(())
    }

    fn into_matrix(self, ncols: usize) -> Result<CsrMatrix<T>> {
        CsrMatrix::try_from_csr_data(self.offsets.len() - 1, ncols, self.offsets, self.columns, self.values)
    }
}

/// Renumbers the columns of a matrix; those without a new number are left out. Columns ascend in each row, and occur once.
pub(super) fn renumbered<T: Scalar>(
    a: &CsrMatrix<T>,
    ncols: usize,
    new: impl Fn(u32) -> Option<u32>,
) -> Result<CsrMatrix<T>> {
    let mut rows = Rows::new(a.nrows(), a.nnz())?;
    let mut entries = Vec::new();
    for (columns, values) in a.rows() {
        entries.extend(columns.iter().zip(values).filter_map(|(&column, &value)| Some((new(column)?, value))));
        rows.push(&mut entries)?;
    }
    rows.into_matrix(ncols)
}

/// The rows of several matrices, one after the other.
pub(super) fn stacked<T: Scalar>(blocks: &[&CsrMatrix<T>], ncols: usize) -> Result<CsrMatrix<T>> {
    let total = |of: fn(&CsrMatrix<T>) -> usize| blocks.iter().map(|block| of(block)).sum::<usize>();
    let mut rows = Rows::new(total(CsrMatrix::nrows), total(CsrMatrix::nnz))?;
    for block in blocks {
        for (columns, values) in block.rows() {
            rows.columns.extend_from_slice(columns);
            rows.values.extend_from_slice(values);
            rows.push(&mut Vec::new())?;
        }
    }
    rows.into_matrix(ncols)
}

/// The columns of a matrix that are not in a range, in ascending order.
pub(super) fn outside<T: Scalar, O: Offset>(a: &CsrMatrix<T, O>, range: Range<usize>) -> Vec<u32> {
    let is_outside = |column: &u32| !range.contains(&(*column as usize));
    let mut columns: Vec<u32> = a.col_indices().iter().copied().filter(is_outside).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Fetches rows of a matrix of which each rank has a block, given in ascending order, from the ranks that have them. Collective.
pub(super) fn fetch<T: Scalar>(
    communicator: &Communicator,
    partition: &Partition,
    block: &CsrMatrix<T>,
    needed: &[u32],
) -> Result<CsrMatrix<T>> {
    let requests = requests(communicator.call("a request for rows of a matrix"), partition, needed)?;
    let answers = communicator.call("rows of a matrix").exchange(|rank| {
        let rows = requests[rank].iter().map(|&row| block.row(row as usize));
        encode(&requests[rank], rows)
    })?;
    let mut rows = Rows::new(needed.len(), 0)?;
    for (rank, bytes) in answers.iter().enumerate() {
        let answer = decode(rank, bytes)?;
        if answer.len() != of_rank(partition, rank, needed).len() {
            return Err(invalid(rank, &format!("{} rows, where others are asked for", answer.len())));
        }
        for (_, mut entries) in answer {
            rows.push(&mut entries)?;
        }
    }
    rows.into_matrix(block.ncols())
}

/// Adds up parts of rows on the ranks that have these rows: `parts` has this rank's parts of the rows `numbers`, which ascend. Returns this rank's rows. They are
/// added up in the order of ranks. Collective.
pub(super) fn added_up<T: Scalar>(
    communicator: &Communicator,
    partition: &Partition,
    numbers: &[u32],
    parts: &CsrMatrix<T>,
) -> Result<CsrMatrix<T>> {
    let own = partition.rows(communicator.rank());
    let received = communicator.call("parts of rows of a matrix").exchange(|rank| {
        let places = of_rank(partition, rank, numbers);
        encode(&numbers[places.clone()], places.map(|place| parts.row(place)))
    })?;
    let mut of_ranks = Vec::new();
    for (rank, bytes) in received.iter().enumerate() {
        let parts = decode::<T>(rank, bytes)?;
        if let Some((row, _)) = parts.iter().find(|(row, _)| !own.contains(&(*row as usize))) {
            return Err(invalid(rank, &format!("a part of row {row}, which others have")));
        }
        of_ranks.push(parts.into_iter().peekable());
    }
    let mut rows = Rows::new(own.len(), 0)?;
    let mut entries = Vec::new();
    for row in own {
        for parts in &mut of_ranks {
            if let Some((_, part)) = parts.next_if(|(of, _)| *of as usize == row) {
                entries.extend(part);
            }
        }
        rows.push(&mut entries)?;
    }
    rows.into_matrix(parts.ncols())
}

/// A message with rows: how many, their numbers, their lengths, and all their columns and values.
fn encode<'r, T: Scalar>(numbers: &[u32], rows: impl Iterator<Item = (&'r [u32], &'r [T])> + Clone) -> Arc<[u8]> {
    let lengths: Vec<u32> = rows.clone().map(|(columns, _)| columns.len() as u32).collect();
    let columns: Vec<u32> = rows.clone().flat_map(|(columns, _)| columns).copied().collect();
    let values: Vec<T> = rows.flat_map(|(_, values)| values).copied().collect();
    [to_bytes(&[numbers.len() as u64]), to_bytes(numbers), to_bytes(&lengths), to_bytes(&columns), to_bytes(&values)]
        .concat()
        .into()
}

/// The number of a row, and its entries.
type Numbered<T> = (u32, Vec<(u32, T)>);

/// The rows in a rank's message.
fn decode<T: Scalar>(rank: usize, mut bytes: &[u8]) -> Result<Vec<Numbered<T>>> {
    let mut take = |count: u64, size: usize| {
        let bytes_of = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
        let (taken, rest) = bytes_of
            .and_then(|len| bytes.split_at_checked(len))
            .ok_or_else(|| invalid(rank, "too few bytes of rows"))?;
        bytes = rest;
        Ok::<_, Error>(taken)
    };
    let count = from_bytes::<u64>(take(1, 8)?)?.unwrap_or_default()[0];
    let numbers = from_bytes::<u32>(take(count, 4)?)?.unwrap_or_default();
    let lengths = from_bytes::<u32>(take(count, 4)?)?.unwrap_or_default();
    let entries = lengths.iter().map(|&length| u64::from(length)).sum();
    let columns = from_bytes::<u32>(take(entries, 4)?)?.unwrap_or_default();
    let values = from_bytes::<T>(take(entries, size_of::<T>())?)?.unwrap_or_default();
    let mut entries = iter::zip(columns, values);
    let row = |(number, length): (u32, u32)| (number, entries.by_ref().take(length as usize).collect());
    Ok(iter::zip(numbers, lengths).map(row).collect())
}

fn invalid(rank: usize, what: &str) -> Error {
    Error::Rank { rank, problem: format!("has sent {what}"), kind: ErrorKind::InvalidInput }
}
