//! One kernel of a PTX module, for the library and for `cargo xtask ptx --show`.

/// The module with no entry point but this one: the driver compiles what it loads, which takes tens of milliseconds an
/// entry, and families have many.
pub(crate) fn only(text: &str, entry: &str) -> String {
    let begins = |line: &str| line.strip_prefix(".visible .entry ").map(|rest| rest.split('(').next() == Some(entry));
    let mut keep = true;
    let mut module = String::with_capacity(text.len() / 4);
    for line in text.lines() {
        if let Some(wanted) = begins(line) {
            keep = wanted;
        }
        if keep {
            module.push_str(line);
            module.push('\n');
        }
        // The end of a function.
        keep |= line == "}";
    }
    module
}
