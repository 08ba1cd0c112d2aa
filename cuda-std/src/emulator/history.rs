//! What an atomic load may read: the last values of each address, and who has come by them.
//!
//! The values of an address have an order, here the one in which they are stored. A load may read any of them but those
//! older than one which its thread has come by: which the thread has read or written itself, or which was read or
//! written in what is ordered before the load. Whatever is forgotten here leaves loads only newer values to read.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use super::{release::Released, shadow::Access, thread::Thread};

/// Values of an address that are kept.
const MAX_VALUES: usize = 4;
/// Readers of an address that are kept.
const MAX_READERS: usize = 8;
/// Addresses with a past, at first.
const MAX_ADDRESSES: usize = 1 << 16;

/// A value of an address.
struct Value {
    bits: u64,
    /// Who stored it; nobody, if it was there before.
    by: Access,
    /// What those who read it acquire.
    released: Released,
}

/// The last values of an address since the last grid barrier.
#[derive(Default)]
pub(super) struct History {
    epoch: u32,
    /// From the oldest to the newest.
    values: Vec<Value>,
    /// How many values came before those.
    forgotten: usize,
    /// Who has read which value, counted from the first of all. The oldest that is kept needs no record.
    readers: Vec<(Access, usize)>,
}

impl History {
    pub(super) fn newest(&self) -> usize {
        self.values.len() - 1
    }

    /// The value that a load of this thread reads: half of the time the newest, or else any older one that it may read. And
    /// whether it is an older one.
    pub(super) fn choose(&self, thread: &Thread) -> (usize, bool) {
        let newest = self.newest();
        if newest == 0 {
            return (newest, false);
        }
        let random = thread.block().random();
        let older = if random & 1 == 0 { 0 } else { newest - self.oldest_for(thread) };
        if older == 0 { (newest, false) } else { (newest - 1 - (random >> 1) as usize % older, true) }
    }

    /// The oldest value that a load of this thread may read.
    fn oldest_for(&self, thread: &Thread) -> usize {
        let newest = self.newest();
        let stored = (1..=newest).rev().find(|&value| thread.comes_after(self.values[value].by)).unwrap_or(0);
        if stored == newest {
            return newest;
        }
        let read = self.readers.iter().filter(|(reader, _)| thread.comes_after(*reader)).map(|(_, value)| value);
        read.max().map_or(stored, |read| stored.max(read - self.forgotten))
    }

    /// What those who read a value acquire.
    pub(super) fn released(&self, value: usize) -> &Released {
        &self.values[value].released
    }

    /// What the newest value hands on to the one that a read-modify-write makes of it, and keeps itself if that matters.
    pub(super) fn hand_on(&mut self, keeps: bool) -> Released {
        let newest = self.newest();
        let released = &mut self.values[newest].released;
        if keeps { released.clone() } else { core::mem::take(released) }
    }

    /// Reads a value.
    pub(super) fn read(&mut self, value: usize, reader: Access) -> u64 {
        let bits = self.values[value].bits;
        let number = self.forgotten + value;
        if value == 0 {
            // Nobody can read an older one.
        } else if let Some((_, read)) = self.readers.iter_mut().find(|(other, _)| other.is_of_same_time(reader)) {
            *read = number.max(*read);
        } else if self.readers.len() < MAX_READERS {
            self.readers.push((reader, number));
        } else {
            self.forget();
        }
        bits
    }

    /// Adds a value, now the newest.
    pub(super) fn store(&mut self, bits: u64, by: Access, released: Released) {
        if self.values.len() == MAX_VALUES {
            self.values.remove(0);
            self.forgotten += 1;
            self.readers.retain(|&(_, value)| value > self.forgotten);
        }
        self.values.push(Value { bits, by, released });
    }

    /// Forgets all values but the newest.
    pub(super) fn forget(&mut self) {
        self.forgotten += self.newest();
        self.values.drain(..self.newest());
        self.readers.clear();
    }
}

/// The addresses that atomics have touched in a launch.
pub(super) struct Histories {
    by_address: HashMap<usize, History, BuildHasherDefault<AddressHasher>>,
    most: usize,
}

impl Default for Histories {
    fn default() -> Self {
        Self { by_address: HashMap::default(), most: MAX_ADDRESSES }
    }
}

impl Histories {
    /// The history of an address. `bits` reads what is there, if that was `initialised` before or stored since. If it is not
    /// the newest value known, plain stores have changed it: everybody comes after those, so only that is left to read.
    pub(super) fn of(&mut self, address: usize, epoch: u32, initialised: bool, bits: impl Fn() -> u64) -> &mut History {
        if self.by_address.len() >= self.most {
            self.forget();
        }
        let history = self.by_address.entry(address).or_default();
        let newest = history.values.last().filter(|_| history.epoch == epoch);
        if newest.is_none_or(|newest| newest.bits != bits()) {
            let value = || Value { bits: bits(), by: Access::NONE, released: Released::default() };
            let values = (initialised || newest.is_some()).then(value);
            *history = History { epoch, values: values.into_iter().collect(), ..History::default() };
        }
        history
    }

    /// Keeps the addresses through which something is released, without their past.
    #[cold]
    fn forget(&mut self) {
        self.by_address.retain(|_, history| {
            history.forget();
            !history.released(history.newest()).is_empty()
        });
        self.most = MAX_ADDRESSES.max(2 * self.by_address.len());
    }
}

/// Spreads addresses by a multiplication.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write_usize(&mut self, address: usize) {
        let product = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("addresses alone are hashed")
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
