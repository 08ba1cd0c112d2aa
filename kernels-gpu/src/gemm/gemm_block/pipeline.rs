//! The loop over the sums: steps of both operands go through shared memory, one that is multiplied, the others on their way.

use cuda_std::{
    shared::{self, Shared, dynamic_shared_mem},
    thread,
};

use super::ThreadSums;
use crate::{Scalar, unroll::unroll};

/// Sums of products of what lies in shared memory.
pub(crate) trait StagedProduct<T: Scalar>: ThreadSums<T> {
    /// Steps in shared memory, 3 to 5.
    const STAGES: u32;
    /// Columns of `A` and rows of `B` of a step.
    const STEP: u32;
    /// Parts of a step that a thread loads one after the other, at most 16.
    const PARTS: u32;
    /// Elements of a step of `A`, and of one of `B`.
    const STAGED: (u32, u32);
    /// What a thread multiplies of a part.
    type Factors;
    /// What it takes of them before copies start: all, or nothing yet.
    type Taken;

    /// Loads what the thread multiplies of a part of a step.
    ///
    /// # Safety
    /// The step is there, and no copy or store is under way to it.
    unsafe fn load(&self, part: StagedPart<T>) -> Self::Factors;

    /// Takes factors, in whose place those of the next part are loaded.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn take(&self, factors: &mut Self::Factors, next: StagedPart<T>) -> Self::Taken;

    /// Adds the products of a part, and loads the factors of the next one, unless they are there.
    ///
    /// # Safety
    /// As for [`load`](Self::load); all threads of the warp come here.
    unsafe fn add(&mut self, taken: Self::Taken, factors: &mut Self::Factors, next: StagedPart<T>);
}

/// A part of a step in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct StagedPart<T> {
    /// The step of each operand.
    pub(crate) a: Shared<T>,
    pub(crate) b: Shared<T>,
    pub(crate) part: u32,
}

/// An operand on its way to shared memory.
pub(crate) trait CopiedOperand<T: Scalar> {
    /// Starts the copies of the next step.
    ///
    /// # Safety
    /// `staged` has room for a step, and nobody touches it; the matrix is there.
    unsafe fn copy_step(&mut self, staged: Shared<T>);
}

/// Adds all products of `k` places to the sums. What is multiplied next is loaded from shared memory before, across the barrier too.
///
/// # Safety
/// All threads of the block come here; the dynamic shared memory has room for all stages of both operands, which are there.
#[inline(always)]
pub(crate) unsafe fn multiply<T: Scalar, P: StagedProduct<T>>(
    sums: &mut P,
    mut a: impl CopiedOperand<T>,
    mut b: impl CopiedOperand<T>,
    k: u32,
) {
    let staged = dynamic_shared_mem::<T>();
    let (size_a, size_b) = P::STAGED;
    let stage_of_a = |stage: u32| staged.offset(stage * size_a);
    let stage_of_b = |stage: u32| staged.offset(P::STAGES * size_a + stage * size_b);
    let staged_part = |stage: u32, part: u32| StagedPart { a: stage_of_a(stage), b: stage_of_b(stage), part };
    let next = |stage: u32| if stage == P::STAGES - 1 { 0 } else { stage + 1 };
    // SAFETY: a stage is loaded after its copies have been waited for and a barrier has been passed, and copied to after a
    // barrier that everybody came to with all of it loaded.
    unsafe {
        let mut stage = 0;
        while stage < P::STAGES - 1 {
            a.copy_step(stage_of_a(stage));
            b.copy_step(stage_of_b(stage));
            shared::commit_copies();
            stage += 1;
        }
        wait_for_next_step::<T, P>();
        thread::sync_threads();
        let (mut free, mut here) = (P::STAGES - 1, 0);
        let mut factors = sums.load(staged_part(here, 0));
        let mut steps = k.div_ceil(P::STEP);
        while steps > 0 {
            unroll!(PART in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                if PART < P::PARTS {
                    if PART == P::PARTS - 1 {
                        wait_for_next_step::<T, P>();
                        thread::sync_threads();
                        here = next(here);
                    }
                    let part = staged_part(here, (PART + 1) % P::PARTS);
                    let taken = sums.take(&mut factors, part);
                    if PART == 0 {
                        // A block of its own between the products, or else the compiler mixes their order.
                        // What is loaded at the end, though not multiplied, is the step after the last one.
                        if steps > 1 {
                            a.copy_step(stage_of_a(free));
                            b.copy_step(stage_of_b(free));
                        }
                        shared::commit_copies();
                        free = next(free);
                    }
                    sums.add(taken, &mut factors, part);
                }
            });
            steps -= 1;
        }
        // None of what was copied beyond the end is on its way when the shared memory is used again, or the block ends.
        shared::wait_copies::<0>();
    }
}

/// Waits for the thread's copies of the step after the one that is multiplied.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn wait_for_next_step<T: Scalar, P: StagedProduct<T>>() {
    const { assert!(matches!(P::STAGES, 3..=5)) }
    match P::STAGES {
        3 => shared::wait_copies::<1>(),
        4 => shared::wait_copies::<2>(),
        _ => shared::wait_copies::<3>(),
    }
}
