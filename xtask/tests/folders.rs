//! The folders of the library are those of the table in `docs/architecture.md`, and import only what is below them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[test]
fn the_table_lists_every_folder() {
    let (host, kernels): (Vec<_>, Vec<_>) = table().into_iter().unzip();
    let names = |cells: Vec<Vec<String>>| cells.into_iter().flatten().collect::<BTreeSet<_>>();
    let not_listed = ["guide".to_owned(), "lib".to_owned()];
    let expected: BTreeSet<_> = modules("host").into_iter().filter(|name| !not_listed.contains(name)).collect();
    assert_eq!(names(host), expected);
    let expected: BTreeSet<_> = modules("kernels-gpu/src").into_iter().filter(|name| name != "lib").collect();
    assert_eq!(names(kernels), expected);
}

#[test]
fn imports_go_down() {
    let rows = table();
    let row = |module: &str| rows.iter().position(|(host, _)| host.iter().any(|name| name == module));
    let re_exports = re_exports(&read(&root().join("host/lib.rs")));
    let mut upwards = Vec::new();
    for file in files(&root().join("host")) {
        let path = file.strip_prefix(root().join("host")).unwrap();
        let own = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(from) = row(own).filter(|&from| from + 1 < rows.len()) else { continue };
        for imported in imports(&read(&file)) {
            let module = re_exports.get(&imported).map_or(&*imported, |module| module);
            if module != own && row(module).is_some_and(|to| to <= from) {
                upwards.push(format!("{} imports {module}", path.display()));
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn imports_are_found() {
    let text = "use crate::{\n    Device, // crate::Comment\n    algebra::{self, spgemm::Plan},\n    memory,\n};\nlet x = crate::stored::Csr;";
    assert_eq!(imports(text), ["Device", "algebra", "memory", "stored"]);
    let found =
        re_exports("pub use dense::{DenseMut, Order};\npub use algebra::spgemm::{Plan};\npub use error::Error;");
    let expected = [("DenseMut", "dense"), ("Error", "error"), ("Order", "dense"), ("Plan", "algebra")];
    assert_eq!(found, expected.map(|(name, module)| (name.to_owned(), module.to_owned())).into());
}

/// The names of modules in each row: those of the library, and those of the kernels.
fn table() -> Vec<(Vec<String>, Vec<String>)> {
    let text = read(&root().join("docs/architecture.md"));
    let rows = text.lines().skip_while(|line| !line.starts_with("| `host/` |")).skip(2);
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/').into()).collect();
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (names(cells[1]), names(cells[3]))
        })
        .collect()
}

/// What follows `crate::`, in the order of the text, without repetitions.
fn imports(text: &str) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let mut names: Vec<String> = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        for name in rest.strip_prefix('{').map_or_else(|| vec![first_name(rest)], outermost) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The first name of each item of a list in braces, of which the first is open.
fn outermost(list: &str) -> Vec<String> {
    let (mut depth, mut item, mut names) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            ',' | '}' if depth == 0 => {
                names.extend(Some(first_name(item.trim())).filter(|name| !name.is_empty()));
                item.clear();
                if c == '}' {
                    break;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => item.push(c),
        }
    }
    names
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect()
}

/// The module of each name at the root of the library.
fn re_exports(lib: &str) -> BTreeMap<String, String> {
    let statements = lib.split(';').filter_map(|text| text.split_once("pub use ").map(|(_, path)| path.trim()));
    let names = |path: &str| match path.split_once('{') {
        Some((_, list)) => outermost(list),
        None => vec![path.rsplit(':').next().unwrap().to_owned()],
    };
    statements.flat_map(|path| names(path).into_iter().map(|name| (name, first_name(path)))).collect()
}

/// Folders, and files without their folder.
fn modules(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
