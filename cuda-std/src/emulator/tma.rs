//! Bulk copies between global and shared memory.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::{
    access::{SharedAddress, read, write},
    memory::Allocation,
    proxy::Kind,
    report::FindingKind,
    shadow::Touch,
    thread::{Place, Thread},
};
use crate::tma::{Swizzle, TensorLayout, TensorMap};

/// Bytes that stay together under a swizzle.
pub(super) const PIECE: u32 = 16;

/// What a thread has started to copy to global memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Stores {
    /// Groups made so far. A copy that is in none yet will be in the group of this number.
    groups: u32,
    /// The group of the last copy, and where that was started.
    last: Option<(u32, Place)>,
    /// Groups whose reads have been waited for.
    read: u32,
}

impl Thread {
    pub(super) fn load_tile(
        &self,
        to: SharedAddress,
        map: *const TensorMap,
        corner: [i32; 2],
        barrier: SharedAddress,
        place: Place,
    ) {
        let layout = self.tensor_layout(map, place);
        self.check_tile(to, layout.swizzle, place);
        let actor = self.begin_copy(barrier, place);
        let mut stats = self.block().stats.borrow_mut();
        stats.shared_stores += 1;
        stats.global_loads += 1;
        stats.global_bytes_loaded += u64::from(layout.box_bytes());
        drop(stats);
        for row in 0..layout.box_rows {
            for column in (0..layout.box_row_bytes()).step_by(PIECE as usize) {
                let words =
                    core::array::from_fn(|i| self.word_of_matrix(&layout, corner, row, column + 4 * i as u32, place));
                let byte = layout.swizzle.place(row * layout.box_row_bytes() + column);
                self.store_piece(SharedAddress { byte: to.byte + byte, ..to }, words, Touch::AsyncStore(actor), place);
                self.block().shared.borrow().note_swizzle(to.array, to.byte + byte, layout.swizzle);
            }
        }
        self.end_copy(barrier, layout.box_bytes(), place);
    }

    pub(super) fn load_bytes(
        &self,
        to: SharedAddress,
        from: *const u8,
        bytes: u32,
        barrier: SharedAddress,
        place: Place,
    ) {
        if bytes == 0 || !bytes.is_multiple_of(PIECE) {
            let message = format!("a bulk copy of {bytes} bytes: it copies a positive multiple of 16");
            self.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        let actor = self.begin_copy(barrier, place);
        let mut stats = self.block().stats.borrow_mut();
        stats.shared_stores += 1;
        stats.global_loads += 1;
        stats.global_bytes_loaded += u64::from(bytes);
        drop(stats);
        for byte in (0..bytes).step_by(PIECE as usize) {
            let from = from.wrapping_add(byte as usize).cast::<u32>();
            self.check_global::<u32, 4>(from, Touch::ReadOnlyLoad, place);
            // SAFETY: the checks have passed.
            let words = core::array::from_fn(|i| unsafe { read(from.add(i)) });
            self.store_piece(SharedAddress { byte: to.byte + byte, ..to }, words, Touch::AsyncStore(actor), place);
        }
        self.end_copy(barrier, bytes, place);
    }

    pub(super) fn store_tile(&self, map: *const TensorMap, corner: [i32; 2], from: SharedAddress, place: Place) {
        let layout = self.tensor_layout(map, place);
        self.check_tile(from, layout.swizzle, place);
        let mut stores = self.stores.get();
        stores.last = Some((stores.groups, place));
        self.stores.set(stores);
        let of_reads = Touch::AsyncLoad(self.actor(Kind::ReadOfStore, self.linear, stores.groups, place));
        let of_writes = Touch::AsyncStore(self.actor(Kind::Store, self.linear, stores.groups, place));
        let mut stats = self.block().stats.borrow_mut();
        stats.shared_loads += 1;
        stats.global_stores += 1;
        stats.global_bytes_stored += u64::from(layout.box_bytes());
        drop(stats);
        let mut checked = 0;
        for row in 0..layout.box_rows {
            for column in (0..layout.box_row_bytes()).step_by(PIECE as usize) {
                let byte = layout.swizzle.place(row * layout.box_row_bytes() + column);
                let words =
                    self.load_piece(SharedAddress { byte: from.byte + byte, ..from }, layout.swizzle, of_reads, place);
                for (part, word) in words.into_iter().enumerate().flat_map(|(i, word)| {
                    parts_of_word(&layout).map(move |offset| (column + 4 * i as u32 + offset, word >> (8 * offset)))
                }) {
                    let Some(address) = address_in_matrix(&layout, corner, row, part) else { continue };
                    // Both halves of a word are one access.
                    if address & !3 != checked {
                        checked = address & !3;
                        self.check_global::<u32, 1>(checked as *const u32, of_writes, place);
                    }
                    // SAFETY: the checks have passed.
                    unsafe {
                        if layout.element.bytes() == 2 {
                            half(address).store(word as u16, Relaxed);
                        } else {
                            write(address as *mut u32, word);
                        }
                    }
                }
            }
        }
        self.block().progress();
    }

    /// Makes a group of the copies to global memory that are in none.
    pub(super) fn commit_stores(&self) {
        let stores = self.stores.get();
        self.stores.set(Stores { groups: stores.groups + 1, ..stores });
    }

    /// Ends the reads, or all, of all groups of copies to global memory but the last `pending`.
    pub(super) fn wait_stores(&self, pending: u32, reads_only: bool) {
        let stores = self.stores.get();
        let ended = stores.groups.saturating_sub(pending);
        self.stores.set(Stores { read: ended.max(stores.read), ..stores });
        self.learn_end(Kind::ReadOfStore, self.linear, ended);
        if !reads_only {
            self.learn_end(Kind::Store, self.linear, ended);
        }
    }

    /// Where a copy was started that may still read shared memory, if there is one.
    pub(super) fn unfinished_store(&self) -> Option<Place> {
        let Stores { last, read, .. } = self.stores.get();
        last.filter(|&(group, _)| group >= read).map(|(_, place)| place)
    }

    /// The words of a map, which must be one.
    fn tensor_layout(&self, map: *const TensorMap, place: Place) -> TensorLayout {
        let words = map.cast::<u64>();
        let is_aligned = |allocation: &Allocation| (words as usize - allocation.start).is_multiple_of(64);
        if !is_aligned(self.check_global::<u64, 1>(words, Touch::ReadOnlyLoad, place)) {
            let message = "a tensor map begins at a multiple of 64 bytes";
            self.fail(FindingKind::Misaligned, place, message, None, None);
        }
        let words = core::array::from_fn(|i| {
            let word = words.wrapping_add(i);
            self.check_global::<u64, 1>(word, Touch::ReadOnlyLoad, place);
            // SAFETY: the checks have passed.
            unsafe { read(word) }
        });
        TensorLayout::of_emulated(words).unwrap_or_else(|| {
            let message = "there is no tensor map for the emulator";
            self.fail(FindingKind::InvalidArgument, place, message, None, None)
        })
    }

    /// Tiles begin where the permutation does, and only the dynamic shared memory begins at so round an address.
    pub(super) fn check_tile(&self, tile: SharedAddress, swizzle: Swizzle, place: Place) {
        let align = swizzle.repeat_bytes().max(128);
        if tile.array != 0 || !tile.byte.is_multiple_of(align) {
            let message = format!(
                "the tile must begin at a multiple of {align} bytes in the dynamic shared memory: it begins at byte {} of {}",
                tile.byte,
                if tile.array == 0 { "it" } else { "another array, which is aligned to 16 bytes" }
            );
            self.fail(FindingKind::Misaligned, place, message, None, None);
        }
    }

    /// The word at a byte of a row of a box, with zeros for what is outside of the matrix.
    fn word_of_matrix(&self, layout: &TensorLayout, corner: [i32; 2], row: u32, byte: u32, place: Place) -> u32 {
        parts_of_word(layout).fold(0, |word, offset| {
            let Some(address) = address_in_matrix(layout, corner, row, byte + offset) else { return word };
            self.check_global::<u32, 1>((address & !3) as *const u32, Touch::ReadOnlyLoad, place);
            // SAFETY: the checks have passed.
            let part = unsafe {
                if layout.element.bytes() == 2 {
                    half(address).load(Relaxed).into()
                } else {
                    read(address as *const u32)
                }
            };
            word | part << (8 * offset)
        })
    }

    /// Lets a copy write 16 bytes of shared memory.
    fn store_piece(&self, to: SharedAddress, words: [u32; 4], touch: Touch, place: Place) {
        let to = self.check_shared::<u32, 4>(&self.block().shared.borrow(), to, 0, touch, place);
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: the checks have passed.
            unsafe { write(to.add(i), word) }
        }
    }

    /// Lets a copy or a product read 16 bytes of shared memory, which it takes for permuted by `swizzle`.
    pub(super) fn load_piece(&self, from: SharedAddress, swizzle: Swizzle, touch: Touch, place: Place) -> [u32; 4] {
        let shared = self.block().shared.borrow();
        let words = self.check_shared::<u32, 4>(&shared, from, 0, touch, place);
        if let Some(written) = shared.swizzle(from.array, from.byte).filter(|&written| written != swizzle) {
            let message =
                format!("a copy wrote the tile with {written:?} as its swizzle, and it is read with {swizzle:?}");
            self.fail(FindingKind::SwizzleMismatch, place, message, None, None);
        }
        // SAFETY: the checks have passed.
        core::array::from_fn(|i| unsafe { read(words.add(i)) })
    }
}

/// The bytes of a word at which an element or its half begins.
fn parts_of_word(layout: &TensorLayout) -> impl Iterator<Item = u32> {
    (0..4).step_by(layout.element.bytes().min(4) as usize)
}

/// Where a byte of a row of a box is in the matrix, unless outside. A corner is the column and the row of the first element of the box.
fn address_in_matrix(layout: &TensorLayout, [x, y]: [i32; 2], row: u32, byte: u32) -> Option<usize> {
    let element = i64::from(layout.element.bytes());
    let row = i64::from(y) + i64::from(row);
    let byte = i64::from(x) * element + i64::from(byte);
    let is_inside = (0..layout.rows as i64).contains(&row) && (0..layout.columns as i64 * element).contains(&byte);
    let offset = (row as u64).wrapping_mul(layout.row_stride_bytes).wrapping_add(byte as u64);
    is_inside.then_some(layout.address.wrapping_add(offset) as usize)
}

/// Half of a word of global memory.
///
/// # Safety
/// As for `read`.
unsafe fn half<'a>(address: usize) -> &'a AtomicU16 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU16::from_ptr(address as *mut u16) }
}
