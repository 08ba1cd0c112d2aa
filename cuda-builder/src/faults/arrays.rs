//! Shared arrays that were duplicated, found by the mark that `cuda_std::shared_array!` leaves with each.

use std::collections::BTreeMap;

use super::{Fault, text::Head};

/// The start of a mark, which is a line of its own. It goes on with the place in the source, whose lower half is the line, and the
/// size in bytes.
const MARK: &str = "// cuda_std::shared_array ";

/// The arrays that a function has several copies of.
pub(super) fn duplicated(ptx: &str) -> Vec<Fault> {
    let mut function = "";
    let mut copies = BTreeMap::new();
    for line in ptx.lines() {
        if let Some((place, bytes)) = mark(line) {
            *copies.entry((function, place, bytes)).or_insert(0) += 1;
        } else if let Some(head) = Head::parse(line) {
            function = head.name;
        }
    }
    let duplicated = copies.into_iter().filter(|(_, copies)| *copies > 1);
    let fault = |((function, place, bytes), copies)| {
        let line = place as u32;
        Fault::DuplicatedArray { function: str::to_owned(function), line, bytes, copies }
    };
    duplicated.map(fault).collect()
}

/// The text without the marks.
pub(crate) fn without_marks(ptx: &str) -> String {
    ptx.split_inclusive('\n').filter(|line| mark(line).is_none()).collect()
}

fn mark(line: &str) -> Option<(u64, u64)> {
    let (place, bytes) = line.trim().strip_prefix(MARK)?.split_once(' ')?;
    Some((place.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicated_arrays_are_found() {
        let array = |line: u64, bytes: u64| {
            let place = 5 << 32 | line;
            format!(
                "\t// cuda_std::shared_array {place} {bytes}\n\t{{ .shared .b8 array[{bytes}]; mov.u32 %r1, array; }}\n"
            )
        };
        let twice = [array(7, 64), array(8, 64), array(7, 128), array(7, 64)].concat();
        let ptx = format!(".visible .entry a()\n{{\n{}}}\n.visible .entry b()\n{{\n{twice}}}\n", array(7, 64));
        let fault = Fault::DuplicatedArray { function: "b".to_owned(), line: 7, bytes: 64, copies: 2 };
        assert_eq!(duplicated(&ptx), [fault]);
        let plain = without_marks(&ptx);
        assert_eq!((plain.matches("cuda_std").count(), plain.matches(".shared").count()), (0, 5));
        assert_eq!(duplicated(&plain), []);
    }
}
