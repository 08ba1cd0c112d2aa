//! docs/emulator.md says what the emulator finds in each kernel with a planted bug: it must be so.

use test_kernels::cases::{Case, hopper_bugs, planted_bugs};

const DOCUMENT: &str = include_str!("../../../docs/emulator.md");

#[test]
fn the_document_lists_what_the_emulator_finds() {
    let row = |case: &Case| {
        let finding = case.emulate(0, 20).expect_err(case.name);
        let line = finding.line().expect("a line of the kernel");
        format!("| `{}` | {} | `{:?}` | {line} |", case.name, finding.seed, finding.kind)
    };
    for bugs in [planted_bugs(), hopper_bugs()] {
        let rows: Vec<String> = bugs.iter().map(row).collect();
        let rows = rows.join("\n");
        assert!(DOCUMENT.contains(&rows), "docs/emulator.md must have these rows:\n{rows}");
    }
}
