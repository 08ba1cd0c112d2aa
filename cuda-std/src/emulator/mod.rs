//! The grid emulator: kernels run on the CPU, under checks.
//!
//! Compiled for anything but a GPU, the functions of this crate do their work on an emulated one. A [`Launch`] calls a
//! kernel once for each thread of a grid, each on a stack of its own. Threads of a block take turns at barriers and
//! warp operations, in an order that a seed decides. What the kernel does wrong comes back as a [`Finding`], with the
//! thread, the memory and the source line:
//!
//! - accesses out of bounds, misaligned, to freed, to never written memory; a `shared_array!` that a thread visits twice;
//! - data races: two threads touch the same 4 bytes, one of them writes, and no barrier is between. Across blocks
//!   only grid barriers order, and releases that are acquired. Atomics do not race with each other, but with plain
//!   accesses;
//! - `ld.global.nc` of what the launch writes;
//! - accesses to shared memory where an asynchronous copy is under way, which its thread has not waited for;
//! - tiles that a bulk copy brings, read before the end of its barrier's phase; proxy fences that are missing before bulk copies and
//!   products by warpgroups; tiles read by another swizzle than they were written by;
//! - threads that miss each other: barriers that some do not reach, warp operations with lanes that are elsewhere, have
//!   exited or are outside the mask;
//! - deadlocks, and panics.
//!
//! The kernel must unwind: a finding, like a panic, ends every thread of the launch by unwinding its stack, so a build
//! with `panic = "abort"` cannot report any.
//!
//! Values are those of a GPU, bit for bit, as long as the order of floating-point atomics does not matter, except for the bits
//! of a NaN. That includes denormal numbers: atomic additions of `f32` to global memory take them for zeros, and nothing else
//! does. Under seeds other than 0 atomic loads also return older values than the newest, where the memory model permits them: what a kernel does
//! wrong by that shows in its results, or where it fails.
//!
//! # Speed
//! A step is one memory access, atomic, warp operation or barrier arrival of one GPU thread ([`Stats::steps`]). The
//! emulator makes many million steps a second on one core in optimised builds: `cargo bench -p warpsparse-cuda-std`
//! measures it. Checks cannot be switched off.

mod access;
mod atomics;
pub(crate) mod backend;
mod barrier;
mod block;
mod copies;
mod coroutine;
mod history;
mod hopper;
mod launch;
mod mbarrier;
mod memory;
mod mma;
mod panics;
#[cfg(feature = "rayon")]
mod parallel;
mod proxy;
mod release;
mod report;
mod shadow;
mod shared;
mod state;
mod system;
mod thread;
mod tma;
mod warp;
mod warpgroup;
mod wgmma;

pub use launch::{Dim3, Launch};
pub use memory::{GlobalBuffer, SystemBuffer};
pub use report::{Finding, FindingKind, MemoryPlace, Stats, ThreadPlace};

/// Runs a kernel once, in the natural order: the short form of [`Launch::run`].
///
/// # Errors
/// The first finding.
///
/// # Panics
/// As [`Launch::run`].
pub fn emulate(
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    dynamic_shared_bytes: u32,
    kernel: impl Fn(),
) -> Result<Stats, Box<Finding>> {
    Launch::new(grid, block).dynamic_shared_bytes(dynamic_shared_bytes).run(kernel)
}
