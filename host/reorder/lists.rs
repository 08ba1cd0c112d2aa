//! Adjacency lists.

use std::{borrow::Cow, ops::Range};

use crate::{CsrMatrix, Offset, Scalar};

/// Lists of indices in one array.
pub(super) struct Lists<'a> {
    offsets: Vec<usize>,
    items: Cow<'a, [u32]>,
}

impl<'a> Lists<'a> {
    /// Returns the column indices of each row.
    pub(super) fn rows<T: Scalar, O: Offset>(matrix: &'a CsrMatrix<T, O>) -> Self {
        let offsets = matrix.row_offsets().iter().map(|offset| offset.index()).collect();
        Self { offsets, items: Cow::Borrowed(matrix.col_indices()) }
    }

    /// Renumbers the items, of `ncols` possible ones, in the same order, so that each is in a list; returns the lists and the number of items now.
    pub(super) fn without_empty_columns(self, ncols: usize) -> (Self, usize) {
        if ncols <= 2 * self.items.len() {
            let mut numbers = vec![0; ncols];
            self.items.iter().for_each(|&item| numbers[item as usize] = 1);
            let mut count = 0;
            for number in &mut numbers {
                count += std::mem::replace(number, count);
            }
            return (self.renumbered(|item| numbers[item as usize]), count as usize);
        }
        let mut distinct = self.items.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        (self.renumbered(|item| distinct.binary_search(&item).expect("one of them") as u32), distinct.len())
    }

    fn renumbered(self, number: impl Fn(u32) -> u32) -> Self {
        Self { items: self.items.iter().map(|&item| number(item)).collect(), offsets: self.offsets }
    }

    /// Creates `count` lists from `(list, item)` pairs, keeping their order. Traverses the pairs twice.
    ///
    /// A counting sort: `O(pairs + count)`.
    pub(super) fn sorted(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut offsets = vec![0; count + 1];
        for (list, _) in pairs.clone() {
            offsets[list as usize + 1] += 1;
        }
        for list in 0..count {
            offsets[list + 1] += offsets[list];
        }
        let mut next = offsets.clone();
        let mut items = vec![0; offsets[count]];
        for (list, item) in pairs {
            let place = &mut next[list as usize];
            items[*place] = item;
            *place += 1;
        }
        Self { offsets, items: items.into() }
    }

    /// Creates `count` lists, to each of which `append(list, items)` adds items.
    pub(super) fn appended(count: usize, mut append: impl FnMut(usize, &mut Vec<u32>)) -> Self {
        let (mut offsets, mut items) = (vec![0], Vec::new());
        for list in 0..count {
            append(list, &mut items);
            offsets.push(items.len());
        }
        Self { offsets, items: items.into() }
    }

    /// Returns, for each item below `count`, the lists that contain it.
    pub(super) fn transpose(&self, count: usize) -> Lists<'static> {
        Lists::sorted(count, self.pairs().map(|(list, item)| (item, list)))
    }

    /// Returns the number of lists.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of items in all lists.
    pub(super) fn total(&self) -> usize {
        self.items.len()
    }

    /// Returns the items of all lists in order.
    pub(super) fn into_items(self) -> Vec<u32> {
        self.items.into_owned()
    }

    /// Returns the range of a list among all items.
    pub(super) fn range(&self, list: usize) -> Range<usize> {
        self.offsets[list]..self.offsets[list + 1]
    }

    pub(super) fn get(&self, list: usize) -> &[u32] {
        &self.items[self.range(list)]
    }

    /// Returns the positions of items below `count` among all items, which are distinct and at most 2^32; 0 for others.
    pub(super) fn positions(&self, count: usize) -> Vec<u32> {
        let mut positions = vec![0; count];
        for (position, &item) in (0..).zip(self.items.iter()) {
            positions[item as usize] = position;
        }
        positions
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> + Clone {
        (0..self.len()).map(|list| self.get(list))
    }

    /// Iterates over all `(list, item)` pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.iter().enumerate().flat_map(|(list, items)| items.iter().map(move |&item| (list as u32, item)))
    }
}
