//! Divergence analysis: which values differ between the threads of a block, and which blocks of code only some of them execute.

use std::collections::HashMap;

use super::{
    Fault, Place,
    code::{Function, Kind, Register},
    graph::Graph,
};

/// The instruction that a divergent value originates from: its line and text.
type Origin<'a> = (usize, &'a str);

/// For each function that is called, the origin of every parameter that is divergent in some call.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Arguments<'a>(HashMap<&'a str, Vec<Option<Origin<'a>>>>);

impl<'a> Arguments<'a> {
    /// Adds the calls that a function makes.
    pub(super) fn extend(&mut self, caller: &Divergence<'_, 'a>, all: &[Function<'a>]) {
        for instruction in &caller.function.instructions {
            let Kind::Call { callee, arguments } = &instruction.kind else {
                continue;
            };
            let origins: Vec<_> = arguments.iter().map(|&argument| caller.origins[argument]).collect();
            // An indirect call may be of any function.
            let may_be_callee =
                |function: &&Function| !function.is_entry && callee.is_none_or(|callee| callee == function.name);
            for function in all.iter().filter(may_be_callee) {
                let known = self.0.entry(function.name).or_insert_with(|| vec![None; function.parameters.len()]);
                known.iter_mut().zip(&origins).for_each(|(known, origin)| *known = known.or(*origin));
            }
        }
    }
}

/// The divergence of a function.
pub(super) struct Divergence<'f, 'a> {
    function: &'f Function<'a>,
    graph: Graph,
    /// For each register that is divergent anywhere, the origin.
    origins: Vec<Option<Origin<'a>>>,
    /// Numbers the registers that several instructions write: they may be divergent in one place and uniform in another.
    variables: Vec<Option<usize>>,
    /// For each block, which of those are divergent at its start.
    inputs: Vec<Bits>,
    /// For each block, whether it ends with a divergent branch.
    diverges: Vec<bool>,
    /// For each block in the influence region of a divergent branch, the branch and the origin of its condition.
    region_of: Vec<Option<(usize, Origin<'a>)>>,
    /// The instructions with a divergent guard, and its origin.
    guarded: HashMap<usize, Origin<'a>>,
}

impl<'f, 'a> Divergence<'f, 'a> {
    pub(super) fn of(function: &'f Function<'a>, arguments: &Arguments<'a>) -> Self {
        let graph = Graph::new(function);
        let variables = variables(function);
        let inputs = vec![Bits::new(variables.iter().flatten().count()); graph.blocks.len()];
        let (diverges, region_of) = (vec![false; graph.blocks.len()], vec![None; graph.blocks.len()]);
        let origins = vec![None; function.registers];
        let guarded = HashMap::new();
        let mut this = Self { function, graph, origins, variables, inputs, diverges, region_of, guarded };
        let of_arguments = arguments.0.get(function.name).into_iter().flatten();
        for (&parameter, origin) in function.parameters.iter().zip(of_arguments) {
            this.origins[parameter] = *origin;
        }
        while (0..this.inputs.len()).fold(false, |has_changed, block| this.propagate(block) | has_changed) {}
        this
    }

    /// Propagates what is divergent through a block, and to its successors. Returns whether anything was added.
    fn propagate(&mut self, block: usize) -> bool {
        let (first, last) = (self.graph.blocks[block].first, self.graph.blocks[block].last);
        let of_region = self.region_of[block].map(|(_, origin)| origin);
        let mut variables = self.inputs[block].clone();
        let mut has_changed = false;
        for at in first..=last {
            let instruction = &self.function.instructions[at];
            let of_itself = instruction.is_source.then_some((instruction.line, instruction.text));
            let origin = of_region.or(of_itself).or_else(|| self.origin(&instruction.sources, &variables));
            for &result in &instruction.results {
                if let Some(origin) = origin {
                    has_changed |= self.origins[result].is_none();
                    self.origins[result].get_or_insert(origin);
                }
                if let Some(variable) = self.variables[result]
                    && (origin.is_some() || instruction.overwrites)
                {
                    variables.set(variable, origin.is_some());
                }
            }
            if let Some(origin) = self.origin(instruction.guard.as_slice(), &variables) {
                self.guarded.entry(at).or_insert(origin);
            }
        }
        if self.graph.is_branch(block)
            && !self.diverges[block]
            && let Some(origin) = self.origin(&self.function.instructions[last].sources, &variables)
        {
            self.diverges[block] = true;
            for influenced in self.graph.influence_region(block) {
                has_changed |= self.region_of[influenced].is_none();
                self.region_of[influenced].get_or_insert((last, origin));
            }
        }
        let successors = &self.graph.blocks[block].successors;
        successors.iter().fold(has_changed, |has_changed, &next| self.inputs[next].add(&variables) | has_changed)
    }

    /// The origin of the first of these registers that is divergent.
    fn origin(&self, registers: &[Register], variables: &Bits) -> Option<Origin<'a>> {
        let may_diverge =
            |&&register: &&Register| self.variables[register].is_none_or(|variable| variables.get(variable));
        registers.iter().filter(may_diverge).find_map(|&register| self.origins[register])
    }

    /// The barriers in divergent control flow, including calls of functions that have a barrier.
    pub(super) fn faults(&self, has_barrier: impl Fn(Option<&'a str>) -> bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (block, region_of) in self.graph.blocks.iter().zip(&self.region_of) {
            for at in block.first..=block.last {
                let instruction = &self.function.instructions[at];
                let is_barrier = match instruction.kind {
                    Kind::Barrier => true,
                    Kind::Call { callee, .. } => has_barrier(callee),
                    _ => false,
                };
                let by_guard = self.guarded.get(&at).map(|origin| (at, *origin));
                if let Some((branch, origin)) = region_of.or(by_guard).filter(|_| is_barrier) {
                    let branch = &self.function.instructions[branch];
                    faults.push(Fault::DivergentBarrier {
                        function: self.function.name.to_owned(),
                        barrier: place((instruction.line, instruction.text)),
                        branch: place((branch.line, branch.text)),
                        origin: place(origin),
                    });
                }
            }
        }
        faults
    }
}

fn place((line, text): Origin) -> Place {
    Place { line, instruction: text.split_whitespace().collect::<Vec<_>>().join(" ") }
}

fn variables(function: &Function) -> Vec<Option<usize>> {
    let mut writes = vec![0; function.registers];
    let results = function.instructions.iter().flat_map(|instruction| &instruction.results);
    results.for_each(|&result| writes[result] += 1);
    let mut variables = 0..;
    writes.into_iter().map(|writes| if writes > 1 { variables.next() } else { None }).collect()
}

/// A set of small numbers.
#[derive(Clone)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn get(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    fn set(&mut self, number: usize, value: bool) {
        self.0[number / 64] &= !(1 << (number % 64));
        self.0[number / 64] |= u64::from(value) << (number % 64);
    }

    /// Adds the members of another set. Returns whether any was new.
    fn add(&mut self, other: &Self) -> bool {
        let mut has_changed = false;
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            has_changed |= other & !*word != 0;
            *word |= other;
        }
        has_changed
    }
}
