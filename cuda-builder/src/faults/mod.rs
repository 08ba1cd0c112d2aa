//! Checks of PTX: barriers in divergent control flow, and shared arrays that were duplicated.

mod arrays;
mod code;
mod divergence;
mod graph;
#[cfg(test)]
mod tests;
mod text;

use std::{collections::HashSet, fmt};

pub(crate) use self::arrays::without_marks;
use self::{
    code::{Function, Kind},
    divergence::{Arguments, Divergence},
};
use crate::CudaBuilderError;

/// What is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A barrier for all threads of a block is in divergent control flow.
    DivergentBarrier {
        /// The kernel, or the function that it calls.
        function: String,
        /// The barrier, or the call of a function that has one.
        barrier: Place,
        /// The branch that decides which threads execute the barrier.
        branch: Place,
        /// The instruction that makes the condition of the branch divergent.
        origin: Place,
    },
    /// A shared array is in a kernel more than once.
    DuplicatedArray {
        /// The kernel.
        function: String,
        /// The line of the `shared_array!` in its source file.
        line: u32,
        /// The size of one copy.
        bytes: u64,
        /// The number of copies.
        copies: usize,
    },
}

/// An instruction in the PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, counted from 1.
    pub line: usize,
    /// The text.
    pub instruction: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (line {})", self.instruction, self.line)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivergentBarrier { function, barrier, branch, origin } => write!(
                f,
                "{function}: not all threads of a block execute the barrier {barrier}: the branch {branch} depends on {origin}, \
                 which differs between them"
            ),
            Self::DuplicatedArray { function, line, bytes, copies } => write!(
                f,
                "{function}: there are {copies} copies of the `shared_array!` of {bytes} bytes in line {line} of its source: it must \
                 not be in a loop, nor in a function that the kernel calls more than once"
            ),
        }
    }
}

/// Checks a PTX module for barriers in divergent control flow and for duplicated shared arrays, as
/// [`CudaBuilder`](crate::CudaBuilder) does with all that it builds.
///
/// # Barriers
/// Every thread of a block must execute a barrier such as `bar.sync 0`, or the GPU waits forever. The check works on the PTX, because that is
/// what runs: compilers may copy or merge code. For each function it builds the control-flow graph and finds the values that are
/// *divergent*, that is, may differ between the threads of a block. These are
/// - thread and lane indices, clocks, the results of atomics, of warp operations (a ballot is uniform for its warp only) and of calls, local
///   memory, and the results of instructions that the check does not know;
/// - what is computed from divergent values;
/// - values assigned in the influence region of a divergent branch: between the branch and its post-dominator. If threads leave a loop at
///   different times, its body is such a region; if some return early, so is the rest of the function.
///
/// Kernel parameters, block indices and block sizes are *uniform*. So is a plain load from a uniform address, because without a data race
/// all threads read the same value. A barrier is a fault if it lies in the influence region of a divergent branch or has a divergent guard
/// predicate. A call to a function that contains a barrier counts as a barrier.
///
/// An early return before a barrier is a fault although current hardware does not count threads that have exited: PTX does not promise that
/// for `bar.sync`. Paths that end in a trap, as panics do, are no exits, since a trap ends the launch. Barriers with a thread count, such
/// as `cuda_std::thread::sync_threads_named`, are not checked: they are meant for some of the warps.
///
/// # Shared arrays
/// A `cuda_std::shared_array!` that is compiled into a kernel twice, because its function was inlined twice or code was duplicated, would be
/// two arrays. Each leaves a mark in the PTX with its place in the source, and a kernel must have no two of the same place, those in
/// the functions that it may call included.
/// [`CudaBuilder`](crate::CudaBuilder) removes the marks from the PTX that it hands out.
///
/// # Errors
/// [`BadPtx`](CudaBuilderError::BadPtx) where the text is not understood.
pub fn faults(ptx: &str) -> Result<Vec<Fault>, CudaBuilderError> {
    let text = text::without_comments(ptx);
    let (texts, do_not_return) = text::functions(&text);
    let functions = texts.iter().map(|text| Function::parse(text, &do_not_return)).collect::<Result<Vec<_>, _>>()?;
    let duplicated = arrays::duplicated(ptx, &functions);
    let with_barriers = with_barriers(&functions);
    let has_barrier = |callee: Option<&str>| match callee {
        Some(callee) => with_barriers.contains(callee),
        // An indirect call may be of any function.
        None => functions.iter().any(|function| !function.is_entry && with_barriers.contains(function.name)),
    };
    // Functions are checked anew until the arguments that they pass each other are known.
    let mut arguments = Arguments::default();
    loop {
        let (before, mut faults) = (arguments.clone(), duplicated.clone());
        for function in functions.iter().filter(|function| with_barriers.contains(function.name)) {
            let divergence = Divergence::of(function, &arguments);
            arguments.extend(&divergence, &functions);
            faults.extend(divergence.faults(has_barrier));
        }
        if arguments == before {
            return Ok(faults);
        }
    }
}

/// The names of the functions that have a barrier, or call one that has.
fn with_barriers<'a>(functions: &[Function<'a>]) -> HashSet<&'a str> {
    let mut found = HashSet::new();
    loop {
        let has_barrier = |kind: &Kind| match kind {
            Kind::Barrier => true,
            Kind::Call { callee: Some(callee), .. } => found.contains(callee),
            Kind::Call { callee: None, .. } => !found.is_empty(),
            _ => false,
        };
        let has_barriers = |function: &&Function| function.instructions.iter().any(|of| has_barrier(&of.kind));
        let now: HashSet<_> = functions.iter().filter(has_barriers).map(|function| function.name).collect();
        if now.len() == found.len() {
            return found;
        }
        found = now;
    }
}
