//! PTX as code: instructions, with the registers that they read and write.

use std::collections::{HashMap, HashSet};

use super::text::{FunctionText, Head, Statement, names};
use crate::CudaBuilderError;

/// The number of a register. Parameters, of the function and of its calls, count as registers.
pub(super) type Register = usize;

/// A function with a body.
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) is_entry: bool,
    pub(super) parameters: Vec<Register>,
    pub(super) registers: usize,
    pub(super) instructions: Vec<Instruction<'a>>,
}

/// An instruction.
pub(super) struct Instruction<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
    pub(super) results: Vec<Register>,
    /// Including the guard.
    pub(super) sources: Vec<Register>,
    /// Whether the results are divergent even if the sources are uniform.
    pub(super) is_source: bool,
    /// Whether the old contents of the results are lost.
    pub(super) overwrites: bool,
    /// The predicate of `@%p`.
    pub(super) guard: Option<Register>,
    pub(super) kind: Kind<'a>,
}

/// What an instruction does besides computing its results.
pub(super) enum Kind<'a> {
    Plain,
    /// A barrier for all threads of the block.
    Barrier,
    /// To one of these instructions.
    Jump(Vec<usize>),
    /// From the function, or out of the kernel.
    Return,
    /// A trap, or a call of a function that does not return.
    Abort,
    /// Without a callee, an indirect call.
    Call {
        callee: Option<&'a str>,
        arguments: Vec<Register>,
    },
}

/// The opcodes, in order, whose results are uniform if their sources are. Not among them are atomics and warp operations, and nothing is
/// taken for granted of opcodes that are not known. The result of `st` is a parameter of a call.
#[rustfmt::skip]
const UNIFORM_OPCODES: &[&str] = &[
    "abs", "add", "addc", "and", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign",
    "cos", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "isspacep", "ld", "ldu", "lg2", "lop3", "mad", "mad24",
    "madc", "max", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad",
    "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "st", "sub", "subc", "szext", "tanh", "testp", "xor",
];

/// The special registers that are the same for all threads of a block.
const UNIFORM_SPECIAL_REGISTERS: &str = "%ntid %ctaid %nctaid %gridid %nwarpid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid \
    %cluster_ctarank %cluster_nctarank %is_explicit_cluster %total_smem_size %aggr_smem_size %dynamic_smem_size";

impl<'a> Function<'a> {
    pub(super) fn parse(function: &FunctionText<'a>, do_not_return: &[&str]) -> Result<Self, CudaBuilderError> {
        let Head { name, is_entry, result, parameters } = function.head;
        let mut parser = Parser::default();
        parser.open();
        parser.declare(result);
        parser.declare(parameters);
        let parameters = declared(parameters).filter_map(|(name, _)| parser.register(name)).collect();
        for statement in &function.body {
            match *statement {
                Statement::Open => parser.open(),
                Statement::Close => parser.close(),
                Statement::Label(label) => parser.label(label),
                Statement::Text { text, .. } if text.starts_with('.') => parser.directive(text),
                Statement::Text { line, text } => parser.instruction(line, text, do_not_return),
            }
        }
        parser.resolve_jumps().map_err(|label| CudaBuilderError::BadPtx(format!("{name} has no label {label}")))?;
        Ok(Self { name, is_entry, parameters, registers: parser.registers.len(), instructions: parser.instructions })
    }
}

#[derive(Default)]
struct Parser<'a> {
    /// The scopes that are open, the innermost last, and the number of all so far.
    open: Vec<usize>,
    scopes: usize,
    /// Names that are declared in a scope, and whether as the prefix of numbered registers, as in `%r<8>`.
    declared: HashSet<(usize, &'a str, bool)>,
    /// Variables in local memory.
    local: HashSet<&'a str>,
    registers: HashMap<(usize, &'a str), Register>,
    labels: HashMap<(usize, &'a str), usize>,
    /// The targets of each `.branchtargets`, by its label.
    tables: HashMap<&'a str, Vec<&'a str>>,
    last_label: &'a str,
    /// Instructions that jump, with the scopes that are open there and the label that they jump to.
    jumps: Vec<(usize, Vec<usize>, &'a str)>,
    instructions: Vec<Instruction<'a>>,
}

impl<'a> Parser<'a> {
    fn open(&mut self) {
        self.open.push(self.scopes);
        self.scopes += 1;
    }

    fn close(&mut self) {
        self.open.pop();
    }

    fn scope(&self) -> usize {
        self.open.last().copied().unwrap_or_default()
    }

    fn label(&mut self, label: &'a str) {
        self.labels.insert((self.scope(), label), self.instructions.len());
        self.last_label = label;
    }

    fn directive(&mut self, text: &'a str) {
        match text.split_whitespace().next() {
            Some(".reg" | ".param") => self.declare(text),
            Some(".local") => self.local.extend(declared(text).map(|(name, _)| name)),
            Some(".branchtargets") => drop(self.tables.insert(self.last_label, names(text).collect())),
            _ => {}
        }
    }

    fn declare(&mut self, declarations: &'a str) {
        let scope = self.scope();
        self.declared.extend(declared(declarations).map(|(name, is_prefix)| (scope, name, is_prefix)));
    }

    /// The register of this name, if there is one.
    fn register(&mut self, name: &'a str) -> Option<Register> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_declared = |&scope: &usize| {
            self.declared.contains(&(scope, name, false)) || self.declared.contains(&(scope, prefix, true))
        };
        let scope = self.open.iter().rev().copied().find(is_declared)?;
        let next = self.registers.len();
        Some(*self.registers.entry((scope, name)).or_insert(next))
    }

    fn registers(&mut self, operands: &[&'a str]) -> Vec<Register> {
        operands.iter().flat_map(|operand| names(operand)).filter_map(|name| self.register(name)).collect()
    }

    fn instruction(&mut self, line: usize, text: &'a str, do_not_return: &[&str]) {
        let (guard, unguarded) = match text.strip_prefix('@') {
            Some(rest) => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            None => ("", text),
        };
        let guard = names(guard).next().and_then(|name| self.register(name));
        let unguarded = unguarded.trim_start();
        let (opcode, operands) = unguarded.split_once(char::is_whitespace).unwrap_or((unguarded, ""));
        let operands = split_operands(operands);
        let mut parts = opcode.split('.');
        let (base, modifiers) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());

        let (result, rest) = split_result(base, &modifiers, &operands);
        let results = self.registers(result);
        // What a barrier reduces from divergent values is uniform.
        let is_barrier = matches!(base, "bar" | "barrier");
        let mut sources = if is_barrier { Vec::new() } else { self.registers(rest) };
        sources.extend(guard);
        let is_source = UNIFORM_OPCODES.binary_search(&base).is_err()
            || base.starts_with("ld") && modifiers.iter().any(|of| DIVERGENT_LOADS.contains(of))
            || rest.iter().flat_map(|operand| names(operand)).any(|name| self.is_divergent(name));
        let kind = match base {
            _ if is_barrier && is_for_all_threads(&modifiers, &operands) => Kind::Barrier,
            "bra" | "brx" => {
                let label = operands.last().copied().unwrap_or_default();
                self.jumps.push((self.instructions.len(), self.open.clone(), label));
                Kind::Jump(Vec::new())
            }
            "ret" | "exit" => Kind::Return,
            "trap" => Kind::Abort,
            "call" => {
                let (callee, arguments) = match rest {
                    [callee, arguments, ..] => (*callee, self.registers(&[arguments])),
                    _ => (rest.first().copied().unwrap_or_default(), Vec::new()),
                };
                if do_not_return.contains(&callee) {
                    Kind::Abort
                } else {
                    Kind::Call { callee: self.register(callee).is_none().then_some(callee), arguments }
                }
            }
            _ => Kind::Plain,
        };
        // A parameter of a call may be stored in several parts.
        let overwrites = guard.is_none() && base != "st";
        self.instructions.push(Instruction { line, text, results, sources, is_source, overwrites, guard, kind });
    }

    /// Whether the name is that of a divergent special register, or of a variable in local memory.
    fn is_divergent(&mut self, name: &'a str) -> bool {
        let is_special = name.starts_with('%') && self.register(name).is_none();
        let special = name.split('.').next().unwrap_or_default();
        is_special && !UNIFORM_SPECIAL_REGISTERS.split_whitespace().any(|uniform| uniform == special)
            || self.local.contains(name)
    }

    /// Replaces labels by instructions. The error is a label that does not exist.
    fn resolve_jumps(&mut self) -> Result<(), &'a str> {
        for (at, scopes, label) in std::mem::take(&mut self.jumps) {
            let alone = vec![label];
            let labels = self.tables.get(label).unwrap_or(&alone);
            let find = |label: &&'a str| {
                let targets = scopes.iter().rev().find_map(|&scope| self.labels.get(&(scope, *label)));
                targets.copied().ok_or(*label)
            };
            let targets = labels.iter().map(find).collect::<Result<_, _>>()?;
            self.instructions[at].kind = Kind::Jump(targets);
        }
        Ok(())
    }
}

/// Loads from memory that each thread has for itself, or that others may write at any time.
const DIVERGENT_LOADS: [&str; 5] = ["local", "volatile", "relaxed", "acquire", "mmio"];

/// The names in declarations, and whether each is a prefix: `a` and false of `.param .align 8 .b8 a[16]`, `%r` and true of `.reg .b32 %r<8>`.
fn declared(declarations: &str) -> impl Iterator<Item = (&str, bool)> {
    declarations.split(',').filter_map(|declaration| {
        let word = declaration.split_whitespace().last()?;
        let end = word.find(['<', '[']).unwrap_or(word.len());
        Some((&word[..end], word[end..].starts_with('<')))
    })
}

/// Splits at the commas outside of brackets.
fn split_operands(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let operands = text.split(move |c: char| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    operands.map(str::trim).filter(|operand| !operand.is_empty()).collect()
}

/// The operand for the result, if there is one, and the others.
fn split_result<'o, 'a>(base: &str, modifiers: &[&str], operands: &'o [&'a str]) -> (&'o [&'a str], &'o [&'a str]) {
    let first = operands.first().copied().unwrap_or_default();
    let has_result = match base {
        "bar" | "barrier" => modifiers.contains(&"red"),
        "bra" | "brx" => false,
        "call" => first.starts_with('('),
        // Stores an argument of a call.
        "st" if modifiers.contains(&"param") => true,
        _ => !first.starts_with('['),
    };
    operands.split_at(usize::from(has_result && !operands.is_empty()))
}

/// Whether a barrier is for all threads of the block or cluster: not for a warp, and without a thread count.
fn is_for_all_threads(modifiers: &[&str], operands: &[&str]) -> bool {
    if modifiers.contains(&"cluster") {
        return true;
    }
    match modifiers.iter().find(|of| matches!(**of, "warp" | "sync" | "red")) {
        Some(&"sync") => operands.len() == 1,
        // The result, the barrier's number, and the predicate.
        Some(&"red") => operands.len() == 3,
        _ => false,
    }
}
