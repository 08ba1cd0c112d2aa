//! Hashes source files so that the result is the same in a checkout and in a packaged crate, on every system.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{CudaBuilderError, builder::hex};

/// A directory of source files, and the name that represents it in hashes.
#[derive(Clone, Debug)]
pub struct SourceTree {
    name: String,
    dir: PathBuf,
    excluded: Vec<String>,
    modules: Vec<String>,
}

impl SourceTree {
    /// Selects the `.rs` files below a directory, at any depth.
    pub fn new(name: impl Into<String>, dir: impl AsRef<Path>) -> Self {
        Self { name: name.into(), dir: dir.as_ref().to_owned(), excluded: Vec::new(), modules: Vec::new() }
    }

    /// Excludes files and folders with these names, at any depth: those that the GPU build does not compile.
    #[must_use]
    pub fn except(mut self, names: &[impl AsRef<str>]) -> Self {
        self.excluded.extend(names.iter().map(|name| name.as_ref().to_owned()));
        self
    }

    /// Excludes modules of the crate: their files and folders, at any depth, and the lines of `lib.rs` that contain their names.
    ///
    /// A module is added, renamed or deleted without a change to the hash, as long as each line of `lib.rs` names one module.
    #[must_use]
    pub fn except_modules(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for name in names {
            let name = name.into();
            self.excluded.extend([format!("{name}.rs"), name.clone()]);
            self.modules.push(name);
        }
        self
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads what counts of a file.
    fn text(&self, path: &Path) -> Result<String, CudaBuilderError> {
        let text = read_text(path)?;
        if path != self.dir.join("lib.rs") {
            return Ok(text);
        }
        let is_part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let names_a_module =
            |line: &str| line.split(|c| !is_part_of_name(c)).any(|word| self.modules.iter().any(|name| name == word));
        Ok(text.split_inclusive('\n').filter(|line| !names_a_module(line)).collect())
    }

    /// Returns the files as (hashed name, path), sorted by name.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, CudaBuilderError> {
        let mut files = Vec::new();
        self.walk(&self.dir, "", &mut files)?;
        files.sort();
        Ok(files)
    }

    fn walk(&self, dir: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), CudaBuilderError> {
        for entry in fs::read_dir(dir).map_err(CudaBuilderError::io("read", dir))? {
            let path = entry.map_err(CudaBuilderError::io("read", dir))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let relative = format!("{prefix}{name}");
            if self.excluded.iter().any(|excluded| excluded.as_str() == name) {
                continue;
            }
            if path.is_dir() {
                self.walk(&path, &format!("{relative}/"), files)?;
            } else if relative.ends_with(".rs") {
                files.push((format!("{}/{relative}", self.name), path));
            }
        }
        Ok(())
    }
}

/// Hashes these files and the recipe of their build.
pub(crate) fn hash_sources(trees: &[SourceTree], recipe: &[String]) -> Result<String, CudaBuilderError> {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    recipe.iter().for_each(|flag| part(flag));
    for tree in trees {
        for (name, path) in tree.files()? {
            part(&name);
            part(&tree.text(&path)?);
        }
    }
    Ok(short(&hash.finalize()))
}

/// Hashes a text whose lines end in `\n`.
pub(crate) fn hash_text(text: &str) -> String {
    short(&Sha256::digest(text))
}

/// Hashes the bytes of a file.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    short(&Sha256::digest(bytes))
}

/// The first 128 bits of a SHA-256, in hexadecimal: enough to tell files apart.
fn short(hash: &[u8]) -> String {
    hex(&hash[..16])
}

/// Reads a file's text, with lines ending in `\n` whatever the checkout did to them.
pub(crate) fn read_text(path: &Path) -> Result<String, CudaBuilderError> {
    let text = fs::read_to_string(path).map_err(CudaBuilderError::io("read", path))?;
    Ok(text.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let dir = TempDir::new().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn hash(files: &[(&str, &str)]) -> String {
        let dir = tree(files);
        hash_sources(&[SourceTree::new("crate/src", dir.path()).except(&["host.rs", "emulator"])], &[]).unwrap()
    }

    #[test]
    fn the_hash_depends_on_names_and_text_only() {
        let base = hash(&[("lib.rs", "a\nb\n"), ("sub/one.rs", "c")]);
        assert_eq!(base, hash(&[("sub/one.rs", "c"), ("lib.rs", "a\r\nb\r\n")]));
        assert_ne!(base, hash(&[("lib.rs", "a\nb\n"), ("sub/two.rs", "c")]));
        assert_ne!(base, hash(&[("lib.rs", "a\nc\n"), ("sub/one.rs", "c")]));
    }

    #[test]
    fn excluded_files_and_folders_do_not_count() {
        let base = hash(&[("lib.rs", "a")]);
        assert_eq!(base, hash(&[("lib.rs", "a"), ("host.rs", "x"), ("emulator/grid.rs", "y"), ("notes.txt", "z")]));
        assert_eq!(base, hash(&[("lib.rs", "a"), ("sub/host.rs", "x"), ("sub/emulator/grid.rs", "y")]));
        assert_ne!(base, hash(&[("lib.rs", "a"), ("sub/hosts.rs", "x")]));
    }

    #[test]
    fn excluded_modules_count_neither_by_their_files_nor_by_their_lines_in_the_root() {
        let hash = |files: &[(&str, &str)]| {
            let dir = tree(files);
            hash_sources(&[SourceTree::new("s", dir.path()).except_modules(["one", "two"])], &[]).unwrap()
        };
        let base = hash(&[("lib.rs", "mod one_more;\n"), ("sub/user.rs", "c")]);
        let with_module = "#[path = \"sub/one.rs\"]\npub mod one;\nmod one_more;\n";
        assert_eq!(
            base,
            hash(&[("lib.rs", with_module), ("sub/one.rs", "x"), ("two/tile.rs", "y"), ("sub/user.rs", "c")])
        );
        assert_ne!(base, hash(&[("lib.rs", "mod one_more;\nmod three;\n"), ("sub/user.rs", "c")]));
        assert_ne!(base, hash(&[("lib.rs", "mod one_more;\n"), ("sub/user.rs", "c\none")]));
    }

    #[test]
    fn the_recipe_counts() {
        let dir = tree(&[("lib.rs", "a")]);
        let trees = [SourceTree::new("s", dir.path())];
        let with =
            |recipe: &[&str]| hash_sources(&trees, &recipe.iter().map(|flag| flag.to_string()).collect::<Vec<_>>());
        assert_ne!(with(&["a", "b"]).unwrap(), with(&["ab"]).unwrap());
    }
}
