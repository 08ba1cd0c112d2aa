//! What the emulator tells: a finding, or the counts of a launch without one.

use core::{fmt, panic::Location};

/// What a kernel did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// An access outside every live allocation, or past the end of the one that it starts in.
    OutOfBounds,
    /// An access to a buffer that has been dropped.
    UseAfterFree,
    /// An address that is not a multiple of the access's width (at most 16 bytes).
    Misaligned,
    /// A load or atomic of memory that nothing has written.
    Uninitialised,
    /// A store or atomic to memory that was given to the launch read-only.
    WriteToReadOnly,
    /// Two threads touch the same word, at least one of them writes, and nothing orders the two.
    DataRace,
    /// An access to memory where a copy is under way: no thread has waited for it, or not ordered before the access.
    CopyUnderWay,
    /// A bulk copy or a product touches shared memory that a thread has stored to, and no proxy fence is between.
    MissingProxyFence,
    /// A bulk copy or a product takes a tile for permuted by another swizzle than that by which it was written.
    SwizzleMismatch,
    /// An operation on a barrier in shared memory that there is not, or that its phase has no room for.
    InvalidMbarrier,
    /// A thread comes by one `shared_array!` twice. On a GPU the two can be one array or two.
    RepeatedSharedArray,
    /// Memory that this launch writes is loaded with `ld.global.nc`, or copied to shared memory by `cp.async`.
    ReadOnlyLoadOfWritten,
    /// Threads of a block wait for each other at different barriers, or at barriers that others never reach.
    BarrierDivergence,
    /// The calling lane is not in the mask of its warp operation.
    CallerNotInMask,
    /// A shuffle reads a lane that is not in its mask.
    ShuffleFromInactiveLane,
    /// Lanes that wait for each other are at different warp operations, or name different masks.
    WarpDivergence,
    /// A lane in the mask has left the kernel, or does not exist.
    LaneExited,
    /// An argument outside what the instruction allows, such as a shuffle width of 3.
    InvalidArgument,
    /// A grid barrier in a launch that is not cooperative.
    NotCooperative,
    /// No thread can go on, or all that can spin on atomics which nobody changes.
    Deadlock,
    /// The kernel panicked.
    Panic,
}

impl FindingKind {
    fn headline(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds access",
            Self::UseAfterFree => "use after free",
            Self::Misaligned => "misaligned access",
            Self::Uninitialised => "read of uninitialised memory",
            Self::WriteToReadOnly => "write to read-only memory",
            Self::DataRace => "data race",
            Self::CopyUnderWay => "access during a copy",
            Self::MissingProxyFence => "missing proxy fence",
            Self::SwizzleMismatch => "swizzles differ",
            Self::InvalidMbarrier => "invalid operation on an mbarrier",
            Self::RepeatedSharedArray => "shared array declared again",
            Self::ReadOnlyLoadOfWritten => "ld.global.nc of memory written in the same launch",
            Self::BarrierDivergence => "divergent barrier",
            Self::CallerNotInMask => "calling lane not in the mask",
            Self::ShuffleFromInactiveLane => "shuffle from a lane outside the mask",
            Self::WarpDivergence => "divergent warp operation",
            Self::LaneExited => "mask names a lane that is not there",
            Self::InvalidArgument => "invalid argument",
            Self::NotCooperative => "grid barrier without a cooperative launch",
            Self::Deadlock => "deadlock",
            Self::Panic => "panic",
        }
    }
}

/// Where in memory a finding is.
#[derive(Clone, Debug)]
pub struct MemoryPlace {
    /// `global` or `shared`.
    pub space: &'static str,
    /// The allocation's label, or for shared memory the line that declares the array. `None` if no allocation is near.
    pub allocation: Option<String>,
    /// Elements in the allocation.
    pub length: usize,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// The first byte accessed, counted from the start of the allocation; negative or past the end if out of bounds.
    pub byte_offset: isize,
    /// The first byte's address (in shared memory: its offset).
    pub address: usize,
    /// Bytes accessed.
    pub access_bytes: usize,
}

impl MemoryPlace {
    /// The element that the access starts in, counted from the start of the allocation.
    #[must_use]
    pub fn element(&self) -> isize {
        self.byte_offset.div_euclid(self.element_bytes.max(1) as isize)
    }
}

/// A thread of the grid, and the source line that it is at.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPlace {
    /// The block's index.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The call in the kernel's source, if known.
    pub location: Option<&'static Location<'static>>,
}

impl fmt::Display for ThreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [x, y, z]) = (self.block, self.thread);
        write!(f, "block ({bx}, {by}, {bz}) thread ({x}, {y}, {z})")?;
        match self.location {
            Some(location) => write!(f, " at {}:{}", location.file(), location.line()),
            None => write!(f, " at an unknown line"),
        }
    }
}

/// One defect of a kernel, with everything needed to find it in the source. The launch stops at its first.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The kernel, as the launch names it.
    pub kernel: String,
    /// The thread that the finding is about.
    pub place: ThreadPlace,
    /// The memory accessed, for the kinds that are about memory.
    pub memory: Option<MemoryPlace>,
    /// The thread on the other side of a race, a divergence or a deadlock.
    pub other: Option<ThreadPlace>,
    /// One sentence of detail.
    pub message: String,
    /// The seed of the schedule that showed it: run with the same seed to see it again.
    pub seed: u64,
}

impl Finding {
    /// The source line of the finding, if known.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        self.place.location.map(Location::line)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in kernel `{}`: {}: {}", self.kind.headline(), self.kernel, self.place, self.message)?;
        if let Some(memory) = &self.memory {
            write!(f, "; {} bytes", memory.access_bytes)?;
            match &memory.allocation {
                Some(name) => write!(
                    f,
                    " at element {} (byte {}) of {} memory `{name}`, which has {} elements of {} bytes",
                    memory.element(),
                    memory.byte_offset,
                    memory.space,
                    memory.length,
                    memory.element_bytes
                )?,
                None => write!(f, " at {} address {:#x}", memory.space, memory.address)?,
            }
        }
        if let Some(other) = &self.other {
            write!(f, "; the other thread: {other}")?;
        }
        write!(f, " (schedule seed {})", self.seed)
    }
}

impl std::error::Error for Finding {}

/// What a launch did, summed over its threads (and schedules). A `_v2` or `_v4` access counts once. A copy to shared
/// memory counts where it starts, as a store and, if its source exists, a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks run.
    pub blocks: u64,
    /// Threads run.
    pub threads: u64,
    /// Loads from global memory.
    pub global_loads: u64,
    /// Stores to global memory.
    pub global_stores: u64,
    /// Bytes loaded from global memory.
    pub global_bytes_loaded: u64,
    /// Bytes stored to global memory.
    pub global_bytes_stored: u64,
    /// Loads from shared memory.
    pub shared_loads: u64,
    /// Stores to shared memory.
    pub shared_stores: u64,
    /// Atomic operations, on either memory.
    pub atomics: u64,
    /// Those of the atomics that read an older value than the newest.
    pub older_values: u64,
    /// Shuffles, votes, matches, products and warp barriers, and what warpgroups do together, counted in every lane that takes part.
    pub warp_operations: u64,
    /// Arrivals of threads at block and grid barriers.
    pub barriers: u64,
}

impl Stats {
    /// Steps of single GPU threads: one memory access, atomic, warp operation or barrier arrival each.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.global_loads
            + self.global_stores
            + self.shared_loads
            + self.shared_stores
            + self.atomics
            + self.warp_operations
            + self.barriers
    }
}

impl core::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.threads += other.threads;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_bytes_loaded += other.global_bytes_loaded;
        self.global_bytes_stored += other.global_bytes_stored;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.atomics += other.atomics;
        self.older_values += other.older_values;
        self.warp_operations += other.warp_operations;
        self.barriers += other.barriers;
    }
}
