//! Shadow memory: for every 4 bytes that a kernel can write, who touched them last.
//!
//! A word remembers its last write and two of its reads. Two reads are enough to find every race that whole-block
//! barriers, whole-warp barriers and grid barriers leave, because the two kept are those farthest apart in the
//! grid: a write that is ordered after both is ordered after all. Between partial barriers a race with a third
//! reader can escape under one schedule; other seeds keep other readers.

use core::{
    cell::UnsafeCell,
    panic::Location,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    proxy::{Actor, Kind},
    thread::Thread,
};

/// Bytes that share one shadow word.
pub(super) const WORD_BYTES: usize = 4;

/// How an access touches a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Load,
    /// `ld.global.nc`.
    ReadOnlyLoad,
    Store,
    /// Lets a copy begin that goes on meanwhile: a store at some time between this and the end of the copy.
    StartOfCopy,
    EndOfCopy,
    /// Reads and writes, or only reads.
    Atomic,
    /// Only writes.
    AtomicStore,
    /// By a bulk copy or a product, which the thread has started.
    AsyncLoad(Actor),
    AsyncStore(Actor),
}

impl Touch {
    fn reads(self) -> bool {
        matches!(self, Self::Load | Self::ReadOnlyLoad | Self::Atomic | Self::AsyncLoad(_))
    }
    fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::AtomicStore)
    }
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Load | Self::ReadOnlyLoad | Self::AsyncLoad(_))
    }
    fn actor(self) -> Option<Actor> {
        match self {
            Self::AsyncLoad(actor) | Self::AsyncStore(actor) => Some(actor),
            _ => None,
        }
    }
}

/// One access of the past: which thread, when by its own clock, from which line. No location: no access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) location: Option<&'static Location<'static>>,
    pub(super) block: u32,
    /// From the high bits: 10 for the thread, 1 for whether it was atomic, 21 for the clock.
    stamp: u32,
}

/// Clocks stay below this: more barriers than that in one block are refused.
pub(super) const CLOCK_LIMIT: u32 = 1 << 21;

impl Access {
    /// No access: everything comes after it.
    pub(super) const NONE: Self = Self { location: None, block: 0, stamp: 0 };

    pub(super) fn of(thread: &Thread, location: &'static Location<'static>, touch: Touch) -> Self {
        let block = thread.block().linear.get();
        let (block, thread, clock) = match touch.actor() {
            Some(actor) => (actor.kind.of_block(block), actor.thread, actor.clock),
            None => (block, thread.linear, thread.clock.get()),
        };
        let stamp = thread << 22 | u32::from(touch.is_atomic()) << 21 | clock;
        Self { location: Some(location), block, stamp }
    }
    /// The same, as of another block.
    pub(super) fn of_block(self, block: u32) -> Self {
        Self { block, ..self }
    }
    pub(super) fn thread(self) -> u32 {
        self.stamp >> 22
    }
    fn is_atomic(self) -> bool {
        self.stamp & 1 << 21 != 0
    }
    pub(super) fn clock(self) -> u32 {
        self.stamp & (CLOCK_LIMIT - 1)
    }
    /// Whether both are of one thread between two advances of its clock.
    pub(super) fn is_of_same_time(self, other: Self) -> bool {
        (self.block, self.thread(), self.clock()) == (other.block, other.thread(), other.clock())
    }
    /// Whether by a thread itself, and not known to `thread` as visible to the asynchronous proxy.
    pub(super) fn lacks_fence(self, thread: &Thread) -> bool {
        self.location.is_some() && Kind::of(self.block).is_none() && !thread.knows_fenced(self)
    }
    /// Whether nothing, or something that `thread` surely comes after.
    pub(super) fn is_before(self, thread: &Thread) -> bool {
        self.location.is_none() || thread.comes_after(self)
    }
    /// 0: one thread, 1: one warp, 2: one block, 3: two blocks.
    fn distance(self, other: Self) -> u32 {
        if self.block != other.block {
            3
        } else if self.thread() / 32 != other.thread() / 32 {
            2
        } else {
            u32::from(self.thread() != other.thread())
        }
    }
}

/// What is wrong with an access, before it is known where.
#[derive(Clone, Copy)]
pub(super) enum Problem {
    Uninitialised,
    ReadOnlyLoadOfWritten(Access),
    /// A copy to the word is under way, which that access started.
    CopyUnderWay(Access),
    /// No proxy fence is between that store and the asynchronous access.
    MissingProxyFence(Access),
    Race {
        other: Access,
        other_wrote: bool,
    },
}

/// To which launch and to which stretch between grid barriers an access belongs.
#[derive(Clone, Copy)]
pub(super) struct Now {
    /// Accesses of other epochs are ordered before this one.
    pub(super) epoch: u32,
    /// For what holds throughout a launch.
    pub(super) launch: u32,
    /// Whether the memory was initialised from the start.
    pub(super) initialised: bool,
    /// Whether the memory outlives the launch: its initialised state does too.
    pub(super) outlives: bool,
    /// Whether other CPU threads may touch the same word now.
    pub(super) contended: bool,
}

const INITIALISED: u32 = 1;
const WRITTEN: u32 = 2;
const LOADED_READ_ONLY: u32 = 4;
const COPY_UNDER_WAY: u32 = 8;
const FLAGS: u32 = 15;

struct Word {
    write: Access,
    reads: [Access; 2],
    epoch: u32,
    /// The launch, and below it the flags; in one number, so that a slot fills one cache line.
    launch_and_flags: u32,
}

impl Word {
    fn has(&self, flag: u32) -> bool {
        self.launch_and_flags & flag != 0
    }

    fn touch(
        &mut self,
        thread: &Thread,
        location: &'static Location<'static>,
        touch: Touch,
        now: Now,
    ) -> Option<Problem> {
        if self.epoch != now.epoch {
            self.epoch = now.epoch;
            self.write = Access::NONE;
            self.reads = [Access::NONE; 2];
        }
        if self.launch_and_flags & !FLAGS != now.launch.wrapping_mul(FLAGS + 1) {
            let kept = if now.outlives { self.launch_and_flags & INITIALISED } else { 0 };
            self.launch_and_flags = now.launch.wrapping_mul(FLAGS + 1) | kept;
        }
        if self.has(COPY_UNDER_WAY) && touch != Touch::EndOfCopy {
            return Some(Problem::CopyUnderWay(self.write));
        }
        if touch.reads() && !self.has(INITIALISED) && !now.initialised {
            return Some(Problem::Uninitialised);
        }
        if let Some(race) = self.race(thread, touch) {
            return Some(race);
        }
        if touch.actor().is_some() && self.write.lacks_fence(thread) {
            return Some(Problem::MissingProxyFence(self.write));
        }
        if touch == Touch::ReadOnlyLoad && self.has(WRITTEN) {
            return Some(Problem::ReadOnlyLoadOfWritten(self.write));
        }
        if touch.writes() && self.has(LOADED_READ_ONLY) {
            return Some(Problem::ReadOnlyLoadOfWritten(self.reads[0]));
        }
        self.record(Access::of(thread, location, touch), thread, touch);
        None
    }

    fn race(&self, thread: &Thread, touch: Touch) -> Option<Problem> {
        let conflicts = |past: Access| !(past.is_before(thread) || past.is_atomic() && touch.is_atomic());
        if conflicts(self.write) {
            return Some(Problem::Race { other: self.write, other_wrote: true });
        }
        let read = self.reads.into_iter().find(|&read| (touch.writes() || read.is_atomic()) && conflicts(read))?;
        Some(Problem::Race { other: read, other_wrote: read.is_atomic() })
    }

    fn record(&mut self, access: Access, thread: &Thread, touch: Touch) {
        match touch {
            Touch::ReadOnlyLoad => self.launch_and_flags |= LOADED_READ_ONLY,
            Touch::Load | Touch::AsyncLoad(_) => {}
            _ => {
                self.write = access;
                self.launch_and_flags |= INITIALISED | WRITTEN;
            }
        }
        match touch {
            Touch::StartOfCopy => self.launch_and_flags |= COPY_UNDER_WAY,
            Touch::EndOfCopy => self.launch_and_flags &= !COPY_UNDER_WAY,
            _ => {}
        }
        if matches!(touch, Touch::Store | Touch::StartOfCopy | Touch::EndOfCopy | Touch::AsyncStore(_)) {
            // Every read before it is ordered before it: what is ordered after the store is ordered after them.
            self.reads = [Access::NONE; 2];
            return;
        }
        // Atomics are kept among the reads too, so that a plain access meets two of them.
        let [first, second] = self.reads;
        if first.is_before(thread) {
            self.reads[0] = access;
        } else if second.is_before(thread) || access.distance(first) > second.distance(first) {
            self.reads[1] = access;
        }
    }
}

/// A word that several CPU threads may touch.
#[repr(C)]
struct Slot {
    word: UnsafeCell<Word>,
    locked: AtomicBool,
}

const _: () = assert!(size_of::<Slot>() <= 64, "a slot fills one cache line");

/// The shadow of one allocation.
pub(super) struct Shadow {
    slots: Box<[Slot]>,
}

// SAFETY: a word is touched under its lock, or by the one CPU thread that runs the launch.
unsafe impl Sync for Shadow {}

impl Shadow {
    /// The shadow of `bytes` bytes, nothing touched. Pages that no access touches cost no memory.
    pub(super) fn new(bytes: usize) -> Self {
        let slots = Box::<[Slot]>::new_zeroed_slice(bytes.div_ceil(WORD_BYTES));
        // SAFETY: zero bytes are a slot: unlocked, no accesses, no flags.
        let slots = unsafe { slots.assume_init() };
        Self { slots }
    }

    /// Notes an access to `words`, unless something is wrong with it: then the word and the problem.
    pub(super) fn touch(
        &self,
        words: core::ops::Range<usize>,
        thread: &Thread,
        location: &'static Location<'static>,
        touch: Touch,
        now: Now,
    ) -> Option<(usize, Problem)> {
        for index in words {
            let slot = &self.slots[index];
            if now.contended {
                while slot.locked.swap(true, Ordering::Acquire) {
                    core::hint::spin_loop();
                }
            }
            // SAFETY: under the lock, or this is the only CPU thread; nothing in `touch` comes back here.
            let problem = unsafe { (*slot.word.get()).touch(thread, location, touch, now) };
            if now.contended {
                slot.locked.store(false, Ordering::Release);
            }
            if let Some(problem) = problem {
                return Some((index, problem));
            }
        }
        None
    }

    /// The last write of a word. Only of memory that one CPU thread uses.
    pub(super) fn last_write(&self, index: usize) -> Access {
        // SAFETY: no other CPU thread touches the word.
        unsafe { (*self.slots[index].word.get()).write }
    }

    /// Marks everything as never written, or as written. Only between launches.
    pub(super) fn set_initialised(&self, initialised: impl Fn(usize) -> bool) {
        for (index, slot) in self.slots.iter().enumerate() {
            // SAFETY: no launch is running on this memory.
            let word = unsafe { &mut *slot.word.get() };
            word.launch_and_flags = if initialised(index) { INITIALISED } else { 0 };
        }
    }

    /// Whether the word has been written. Only between launches.
    pub(super) fn is_initialised(&self, index: usize) -> bool {
        // SAFETY: no launch is running on this memory.
        unsafe { (*self.slots[index].word.get()).has(INITIALISED) }
    }
}
