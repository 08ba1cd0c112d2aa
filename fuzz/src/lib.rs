//! The bodies of the fuzz targets, which `tests/corpus.rs` runs as well, and what they share.

pub mod allocations;
pub mod arrays;
pub mod bsr;
pub mod constructors;
pub mod matrix_market;
pub mod survival;

use warpsparse::Scalar;

/// An entry: row, column, value.
pub type Entry<T> = (usize, usize, T);

/// Entries with their values as bits, to be compared: all NaNs are one, 0 and -0 differ.
pub fn bits<T: Scalar>(entries: impl IntoIterator<Item = Entry<T>>) -> Vec<Entry<u64>> {
    let of_value = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    entries.into_iter().map(|(i, j, value)| (i, j, of_value(value.to_f64()))).collect()
}

/// The sums of duplicates, in the order of `entries`, by row and column.
pub fn sums<T: Scalar>(entries: &[Entry<T>]) -> Vec<Entry<T>> {
    let mut sums = std::collections::BTreeMap::new();
    for &(i, j, value) in entries {
        sums.entry((i, j)).and_modify(|sum: &mut T| *sum += value).or_insert(value);
    }
    sums.into_iter().map(|((i, j), sum)| (i, j, sum)).collect()
}

/// The entries with rows and columns exchanged.
pub fn transposed<T: Scalar>(entries: &[Entry<T>]) -> Vec<Entry<T>> {
    entries.iter().map(|&(i, j, value)| (j, i, value)).collect()
}

/// The entries in order of their rows; those of a row keep their order.
pub fn by_row<T: Scalar>(mut entries: Vec<Entry<T>>) -> Vec<Entry<T>> {
    entries.sort_by_key(|&(i, _, _)| i);
    entries
}

/// The entries in order of rows and columns; duplicates keep their order.
pub fn by_row_and_column<T: Scalar>(mut entries: Vec<Entry<T>>) -> Vec<Entry<T>> {
    entries.sort_by_key(|&(i, j, _)| (i, j));
    entries
}
