//! Shared arrays that were duplicated, found by the mark that `cuda_std::shared_array!` leaves with each.

use std::collections::BTreeMap;

use super::{
    Fault,
    code::{Function, Kind},
    text::Head,
};

/// The start of a mark, which is a line of its own. It goes on with the place in the source, whose lower half is the line, and the
/// size in bytes.
const MARK: &str = "// cuda_std::shared_array ";

/// The arrays that a kernel has several copies of, in its own text and in those of the functions that it may call.
pub(super) fn duplicated(ptx: &str, functions: &[Function]) -> Vec<Fault> {
    let mut name = "";
    let mut arrays = Vec::new();
    for line in ptx.lines() {
        if let Some(array) = mark(line) {
            arrays.push((name, array));
        } else if let Some(head) = Head::parse(line) {
            name = head.name;
        }
    }
    let of_kernel = |kernel: &Function| {
        let names: Vec<_> = reachable(kernel, functions).iter().map(|function| function.name).collect();
        let mut copies = BTreeMap::new();
        for (_, array) in arrays.iter().filter(|(name, _)| names.contains(name)) {
            *copies.entry(*array).or_insert(0) += 1;
        }
        let fault = |((place, bytes), copies)| Fault::DuplicatedArray {
            function: kernel.name.to_owned(),
            line: place as u32,
            bytes,
            copies,
        };
        copies.into_iter().filter(|(_, copies)| *copies > 1).map(fault).collect::<Vec<_>>()
    };
    functions.iter().filter(|function| function.is_entry).flat_map(of_kernel).collect()
}

/// A kernel and the functions that it may call, directly or not. An indirect call may be of any.
fn reachable<'a, 'p>(kernel: &'a Function<'p>, functions: &'a [Function<'p>]) -> Vec<&'a Function<'p>> {
    let mut found = vec![kernel];
    let mut next = 0;
    while let Some(caller) = found.get(next).copied() {
        next += 1;
        for instruction in &caller.instructions {
            let Kind::Call { callee, .. } = instruction.kind else { continue };
            let is_called =
                |function: &&Function| !function.is_entry && callee.is_none_or(|name| name == function.name);
            for called in functions.iter().filter(is_called) {
                if !found.iter().any(|function| function.name == called.name) {
                    found.push(called);
                }
            }
        }
    }
    found
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
    use super::{super::faults, *};

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
        assert_eq!(faults(&ptx).unwrap(), [fault]);
        let plain = without_marks(&ptx);
        assert_eq!((plain.matches("cuda_std").count(), plain.matches(".shared").count()), (0, 5));
        assert_eq!(faults(&plain).unwrap(), []);
    }

    #[test]
    fn copies_in_called_functions_count() {
        let array = format!(
            "// cuda_std::shared_array {} 64\n{{ .shared .b8 array[64]; mov.u32 %r1, array; }}\n",
            5u64 << 32 | 7
        );
        let calls = |name: &str| format!("call.uni {name}, ();\n");
        let faults_with = |kernel: &str| {
            let function = |name: &str, body: &str| format!(".func {name}()\n{{\n.reg .b32 %r<2>;\n{body}ret;\n}}\n");
            let functions = [
                function("one", &array),
                function("two", &array),
                function("outer", &calls("two")),
                function("not_called", &array),
            ];
            let kernel = format!(".visible .entry a()\n{{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n{kernel}ret;\n}}\n");
            let other = format!(".visible .entry b()\n{{\n.reg .b32 %r<2>;\n{array}ret;\n}}\n");
            faults(&[functions.concat(), kernel, other].concat()).unwrap()
        };
        let copies = |copies| [Fault::DuplicatedArray { function: "a".to_owned(), line: 7, bytes: 64, copies }];
        // A function that is called twice has one array.
        assert_eq!(faults_with(&[calls("one"), calls("one")].concat()), []);
        assert_eq!(faults_with(&calls("outer")), []);
        assert_eq!(faults_with(&[array.clone(), calls("one")].concat()), copies(2));
        assert_eq!(faults_with(&[array.clone(), calls("outer")].concat()), copies(2));
        assert_eq!(faults_with(&[calls("one"), calls("outer")].concat()), copies(2));
        assert_eq!(faults_with(&[array.clone(), calls("one"), calls("outer")].concat()), copies(3));
        assert_eq!(faults_with("call %rd1, (), prototype;\n"), copies(3));
    }
}
