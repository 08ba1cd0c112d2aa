//! Turns the marks that `cuda_std::thread::launch_bounds` leaves in a kernel into directives: LLVM has them, but rustc has
//! no way to ask for them.

use std::fmt::Write;

/// What a mark begins with, in a line of its own.
const MARK: &str = "// cuda_std::launch_bounds ";

/// The module with the directives between the parameters and the body of each kernel that has a mark; without marks as it is.
pub(crate) fn apply(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut lines = ptx.split_inclusive('\n');
    while let Some(line) = lines.next() {
        out.push_str(line);
        if !line.starts_with(".visible .entry ") {
            continue;
        }
        // The parameters end with a line of their own, or with the first.
        if !line.trim_end().ends_with(')') {
            for line in lines.by_ref() {
                out.push_str(line);
                if line.trim_end() == ")" {
                    break;
                }
            }
        }
        let mut body = vec![];
        for line in lines.by_ref() {
            body.push(line);
            if line.trim_end() == "}" {
                break;
            }
        }
        if let Some((max_threads, min_blocks)) = body.iter().find_map(|line| bounds(line)) {
            write!(out, ".maxntid {max_threads}, 1, 1\n.minnctapersm {min_blocks}\n").expect("a string takes all");
        }
        out.extend(body.into_iter().filter(|line| bounds(line).is_none()));
    }
    out
}

/// The numbers of a mark.
fn bounds(line: &str) -> Option<(u32, u32)> {
    let (max_threads, min_blocks) = line.trim().strip_prefix(MARK)?.split_once(' ')?;
    Some((max_threads.parse().ok()?, min_blocks.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_directives_of_their_kernel() {
        let marked = ".version 7.0\n\n.visible .entry a(\n\t.param .u32 p\n)\n{\n\tmov;\n\t// cuda_std::launch_bounds 128 10\n\tret;\n}\n\
                      .visible .entry b()\n{\n\t// cuda_std::launch_bounds 64 2\n\tret;\n}\n.visible .entry c()\n{\n\tret;\n}\n";
        let applied = apply(marked);
        let expected = ".version 7.0\n\n.visible .entry a(\n\t.param .u32 p\n)\n.maxntid 128, 1, 1\n.minnctapersm 10\n{\n\tmov;\n\tret;\n}\n\
                        .visible .entry b()\n.maxntid 64, 1, 1\n.minnctapersm 2\n{\n\tret;\n}\n.visible .entry c()\n{\n\tret;\n}\n";
        assert_eq!(applied, expected);
        assert_eq!(apply(&applied), applied, "once is enough");
    }
}
