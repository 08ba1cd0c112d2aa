//! The control-flow graph of a function, and the influence regions of its branches.

use super::code::{Function, Kind};

/// The basic blocks of a function.
pub(super) struct Graph {
    pub(super) blocks: Vec<Block>,
    /// The immediate post-dominator of each block: the first block that every path from it to the exit passes. `None` if that is
    /// the exit itself, or if no path leads there.
    post_dominators: Vec<Option<usize>>,
}

/// Instructions that are executed one after the other.
pub(super) struct Block {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) successors: Vec<usize>,
    /// Whether a thread may exit at the end of the block.
    exits: bool,
}

impl Graph {
    pub(super) fn new(function: &Function) -> Self {
        let blocks = blocks(function);
        let post_dominators = post_dominators(&blocks);
        Self { blocks, post_dominators }
    }

    /// Whether threads may go different ways from the end of the block. A trap does not count, since it ends the launch.
    pub(super) fn is_branch(&self, block: usize) -> bool {
        let Block { successors, exits, .. } = &self.blocks[block];
        successors.len() + usize::from(*exits) > 1
    }

    /// The blocks on the paths from a branch to its post-dominator: the branch decides whether a thread executes them, and how often.
    pub(super) fn influence_region(&self, branch: usize) -> Vec<usize> {
        let end = self.post_dominators[branch];
        let mut found = vec![false; self.blocks.len()];
        let mut left = self.blocks[branch].successors.clone();
        while let Some(block) = left.pop() {
            if Some(block) != end && !std::mem::replace(&mut found[block], true) {
                left.extend(&self.blocks[block].successors);
            }
        }
        (0..found.len()).filter(|&block| found[block]).collect()
    }
}

fn blocks(function: &Function) -> Vec<Block> {
    let instructions = &function.instructions;
    let end = instructions.len();
    let mut starts = vec![false; end + 1];
    starts[0] = true;
    for (at, instruction) in instructions.iter().enumerate() {
        if let Kind::Jump(targets) = &instruction.kind {
            targets.iter().for_each(|&target| starts[target] = true);
        }
        starts[at + 1] |= matches!(instruction.kind, Kind::Jump(_) | Kind::Return | Kind::Abort);
    }
    let firsts: Vec<_> = (0..end).filter(|&at| starts[at]).collect();
    let block_of = |at: usize| firsts.partition_point(|&first| first <= at) - 1;
    let block = |(number, &first): (usize, &usize)| {
        let last = firsts.get(number + 1).copied().unwrap_or(end) - 1;
        let instruction = &instructions[last];
        let mut next = match &instruction.kind {
            Kind::Jump(targets) => targets.clone(),
            _ => Vec::new(),
        };
        let always_leaves =
            matches!(instruction.kind, Kind::Jump(_) | Kind::Return | Kind::Abort) && instruction.guard.is_none();
        next.extend((!always_leaves).then_some(last + 1));
        // What follows the last instruction is the exit.
        let exits = matches!(instruction.kind, Kind::Return) || next.contains(&end);
        let mut successors: Vec<_> = next.into_iter().filter(|&at| at < end).map(block_of).collect();
        successors.sort_unstable();
        successors.dedup();
        Block { first, last, successors, exits }
    };
    firsts.iter().enumerate().map(block).collect()
}

/// By the method of Cooper, Harvey and Kennedy ("A simple, fast dominance algorithm", 2001), over the blocks from which a path leads
/// to the exit.
fn post_dominators(blocks: &[Block]) -> Vec<Option<usize>> {
    let exit = blocks.len();
    let mut predecessors = vec![Vec::new(); blocks.len() + 1];
    for (number, block) in blocks.iter().enumerate() {
        block.successors.iter().for_each(|&successor| predecessors[successor].push(number));
        predecessors[exit].extend(block.exits.then_some(number));
    }
    let order = reverse_postorder(&predecessors, exit);
    let mut place = vec![usize::MAX; blocks.len() + 1];
    order.iter().enumerate().for_each(|(at, &number)| place[number] = at);

    let mut dominators = vec![None; blocks.len() + 1];
    dominators[exit] = Some(exit);
    let common = |dominators: &[Option<usize>], mut a: usize, mut b: usize| {
        while a != b {
            let later = if place[a] > place[b] { &mut a } else { &mut b };
            *later = dominators[*later].unwrap_or(exit);
        }
        a
    };
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for &number in &order[1..] {
            let successors = blocks[number].successors.iter().copied().chain(blocks[number].exits.then_some(exit));
            let known = successors.filter(|&successor| dominators[successor].is_some());
            let dominator = known.reduce(|a, b| common(&dominators, a, b));
            has_changed |= dominators[number] != dominator;
            dominators[number] = dominator;
        }
    }
    dominators.truncate(blocks.len());
    dominators.into_iter().map(|dominator| dominator.filter(|&dominator| dominator != exit)).collect()
}

/// The nodes that are reached from `root`, each before those that it leads to, loops aside.
fn reverse_postorder(edges: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    seen[root] = true;
    let mut path = vec![(root, 0)];
    while let Some((node, edge)) = path.last_mut() {
        if let Some(&next) = edges[*node].get(*edge) {
            *edge += 1;
            if !std::mem::replace(&mut seen[next], true) {
                path.push((next, 0));
            }
        } else {
            order.push(*node);
            path.pop();
        }
    }
    order.reverse();
    order
}
