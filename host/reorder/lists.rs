//! Adjacency lists.

use std::{borrow::Cow, ops::Range};

use crate::{CsrMatrix, Offset, Scalar};

/// Lists of indices, one after the other in one array.
pub(super) struct Lists<'a> {
    offsets: Vec<usize>,
    items: Cow<'a, [u32]>,
}

impl<'a> Lists<'a> {
    /// The columns of each row, as they stand there.
    pub(super) fn rows<T: Scalar, O: Offset>(matrix: &'a CsrMatrix<T, O>) -> Self {
        let offsets = matrix.row_offsets().iter().map(|offset| offset.index()).collect();
        Self { offsets, items: Cow::Borrowed(matrix.col_indices()) }
    }

    /// The same lists, where more than half of the `ncols` possible items may be in none with items numbered anew, in the
    /// same order; and how many there can be now.
    pub(super) fn without_empty_columns(self, ncols: usize) -> (Self, usize) {
        if ncols <= 2 * self.items.len() {
            return (self, ncols);
        }
        let mut distinct = self.items.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let number = |item: &u32| distinct.binary_search(item).expect("one of them") as u32;
        let items: Vec<u32> = self.items.iter().map(number).collect();
        (Self { offsets: self.offsets, items: items.into() }, distinct.len())
    }

    /// `count` lists: the items that `pairs` of `(list, item)` put into each, in their order. Goes through the pairs
    /// twice.
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

    /// `count` lists, to each of which `append(list, items)` adds its own.
    pub(super) fn appended(count: usize, mut append: impl FnMut(usize, &mut Vec<u32>)) -> Self {
        let (mut offsets, mut items) = (vec![0], Vec::new());
        for list in 0..count {
            append(list, &mut items);
            offsets.push(items.len());
        }
        Self { offsets, items: items.into() }
    }

    /// For each item below `count` the lists that it is in.
    pub(super) fn transpose(&self, count: usize) -> Lists<'static> {
        Lists::sorted(count, self.pairs().map(|(list, item)| (item, list)))
    }

    /// Number of lists.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Items in all lists.
    pub(super) fn total(&self) -> usize {
        self.items.len()
    }

    /// All lists, one after the other.
    pub(super) fn into_items(self) -> Vec<u32> {
        self.items.into_owned()
    }

    /// Where a list stands among all items.
    pub(super) fn range(&self, list: usize) -> Range<usize> {
        self.offsets[list]..self.offsets[list + 1]
    }

    pub(super) fn get(&self, list: usize) -> &[u32] {
        &self.items[self.range(list)]
    }

    /// Of items below `count`, none of them twice and no more than 2^32, the places among all items; of others, 0.
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

    /// Every `(list, item)`.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.iter().enumerate().flat_map(|(list, items)| items.iter().map(move |&item| (list as u32, item)))
    }
}
