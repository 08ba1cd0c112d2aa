//! Blocks on several CPU threads.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use super::{
    block::BlockRunner,
    launch::run_block,
    report::{Finding, Stats},
    state::LaunchState,
};

/// More CPU threads would need more stacks than a process may map.
const MAX_CPU_THREADS: usize = 16;

/// What the CPU threads have found so far.
#[derive(Default)]
struct Outcome {
    stats: Stats,
    finding: Option<Box<Finding>>,
}

/// Runs the blocks, which `block` names by position, until all are done or one has a finding. A single one runs on the thread that calls: handing it over
/// took longer than a small one takes.
pub(super) fn run(launch: &Arc<LaunchState>, block: &(dyn Fn(u32) -> u32 + Sync)) -> Result<Stats, Box<Finding>> {
    let next = AtomicU32::new(0);
    let outcome = Mutex::new(Outcome::default());
    let work = || {
        let mut runner = BlockRunner::new(launch);
        loop {
            let position = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |position| {
                (position < launch.blocks).then_some(position + 1)
            });
            let Ok(position) = position else { break };
            if let Err(finding) = run_block(&mut runner, block(position)) {
                // Blocks that have begun go on to their ends: of their findings the first block's counts.
                next.store(launch.blocks, Ordering::Relaxed);
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                outcome.finding = Some(earlier(outcome.finding.take(), finding));
                return;
            }
        }
        outcome.lock().unwrap_or_else(PoisonError::into_inner).stats += *runner.block.stats.borrow();
    };
    match rayon::current_num_threads().min(MAX_CPU_THREADS).min(launch.blocks as usize) {
        1 => work(),
        threads => rayon::scope(|scope| (0..threads).for_each(|_| scope.spawn(|_| work()))),
    }
    let Outcome { stats, finding } = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    finding.map_or(Ok(stats), Err)
}

/// The finding that a launch reports of those that its CPU threads found: the one of the first block.
fn earlier(a: Option<Box<Finding>>, b: Box<Finding>) -> Box<Finding> {
    let key = |finding: &Finding| {
        let [x, y, z] = finding.place.block;
        (z, y, x)
    };
    match a {
        Some(a) if key(&a) <= key(&b) => a,
        _ => b,
    }
}
