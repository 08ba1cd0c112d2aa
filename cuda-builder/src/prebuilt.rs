//! PTX that a crate ships, so that its users need no kernel toolchain, and machine code made from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    slice, thread,
};

use crate::{
    Arch, CubinRecord, CudaBuilder, CudaBuilderError, FileRecord, KernelToolchain, Manifest, PtxInfo, faults, kept,
    sources::{SourceTree, hash_bytes, hash_sources, hash_text, read_text},
    text::with_registers,
};

/// A directory of prebuilt PTX: one compressed file per kernel family and architecture, and a manifest that records the
/// sources of each.
///
/// The texts of a family differ little between architectures, so each is compressed with the stored form of the next older one as its dictionary.
/// In that form, registers may be distances. [`text`](Self::text) returns the text.
///
/// A family `foo` is `foo.rs` and the folder `foo`, anywhere below `src`; the crate's other files belong to all
/// families. It is built with `cfg(kernel_family = "foo")`, and files of other families must not affect its PTX then. A
/// file is stale if its family's sources, or its build flags, differ from those in the manifest; the compiler's version
/// and the location of the sources do not matter.
///
/// `foo.sm_80.ptx.lzma` may be accompanied by `foo.sm_80.cubin.lzma`, the output of an assembler. It is used as
/// long as it was made from this PTX, and never rebuilt here.
#[derive(Clone, Debug)]
#[must_use]
pub struct Prebuilt {
    dir: PathBuf,
    kernel_crate: PathBuf,
    families: Vec<String>,
    archs: Vec<Arch>,
    of_one_arch: BTreeMap<String, Arch>,
    shared: Vec<SourceTree>,
    target_dir: Option<PathBuf>,
}

/// One PTX file: a family for an architecture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxFile {
    /// The kernel family.
    pub family: String,
    /// The architecture.
    pub arch: Arch,
}

impl PtxFile {
    /// Returns the name in the manifest: `foo.sm_80.ptx`. In the directory, `.lzma` is appended.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}.ptx", self.family, self.arch)
    }

    /// Returns the name of its machine code: `foo.sm_80.cubin`. In the directory, `.lzma` is appended.
    #[must_use]
    pub fn cubin_name(&self) -> String {
        format!("{}.{}.cubin", self.family, self.arch)
    }

    fn ptx_in(&self, dir: &Path) -> PathBuf {
        dir.join(compressed(&self.name()))
    }

    fn cubin_in(&self, dir: &Path) -> PathBuf {
        dir.join(compressed(&self.cubin_name()))
    }
}

/// A PTX file to embed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyFile {
    /// The family and architecture.
    pub file: PtxFile,
    /// Its text.
    pub text: String,
    /// The path of the compressed text, whose dictionary is the [stored form](Prebuilt) of that for the next older architecture.
    pub ptx: PathBuf,
    /// The path of the compressed machine code, if there is any.
    pub cubin: Option<PathBuf>,
}

/// The texts of a directory that can be read.
type Texts = BTreeMap<PtxFile, String>;

fn compressed(name: &str) -> String {
    format!("{name}.lzma")
}

/// A file that must be rebuilt, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The file.
    pub file: PtxFile,
    /// Why.
    pub reason: StaleReason,
}

/// Why prebuilt PTX cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleReason {
    /// The manifest does not contain the file.
    NotRecorded,
    /// The kernel sources or the flags have changed since.
    SourcesChanged,
    /// The file is missing.
    Missing,
    /// The file is not the one that was built.
    FileChanged,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            StaleReason::NotRecorded => "not in the manifest",
            StaleReason::SourcesChanged => "the kernel sources or flags have changed since it was built",
            StaleReason::Missing => "the file is missing",
            StaleReason::FileChanged => "the file differs from the one that was built",
        };
        write!(f, "{}: {reason}", self.file.name())
    }
}

/// Rust source of what reads the text of PTX from what [`Prebuilt`] keeps, for programs that embed it: a build script writes it to a file, and a
/// module includes that. It depends on the standard library alone.
pub const TEXT_SOURCE: &str = include_str!("text.rs");

/// Returns the PTX that a file of [`Prebuilt`] holds, from what decompressing it gives.
#[must_use]
pub fn kept_text(decompressed: &str) -> String {
    with_registers(decompressed)
}

impl Prebuilt {
    /// Describes the PTX of a kernel crate, stored in `dir`.
    pub fn new(dir: impl AsRef<Path>, kernel_crate: impl AsRef<Path>) -> Self {
        Self {
            dir: dir.as_ref().to_owned(),
            kernel_crate: kernel_crate.as_ref().to_owned(),
            families: Vec::new(),
            archs: Vec::new(),
            of_one_arch: BTreeMap::new(),
            shared: Vec::new(),
            target_dir: None,
        }
    }

    /// Sets all families of the crate.
    pub fn families(mut self, families: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.families = families.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the architectures.
    pub fn archs(mut self, archs: &[Arch]) -> Self {
        self.archs = archs.to_vec();
        self.archs.sort_unstable();
        self
    }

    /// Sets the only architecture of a family, such as [`Arch::Sm90a`] for one that uses instructions which no other architecture has.
    pub fn family_for(mut self, family: &str, arch: Arch) -> Self {
        self.of_one_arch.insert(family.to_owned(), arch);
        self
    }

    /// Adds sources outside of the kernel crate on which every family depends.
    pub fn shared_sources(mut self, sources: SourceTree) -> Self {
        self.shared.push(sources);
        self
    }

    /// As [`CudaBuilder::target_dir`].
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Has cargo run the build script again when a source or a prebuilt file changes, or another toolchain is chosen.
    #[expect(clippy::print_stdout, reason = "build scripts talk to cargo on stdout")]
    pub fn watch(&self) {
        let sources = self.kernel_crate.join("src");
        for watched in [sources.as_path(), self.dir()].into_iter().chain(self.shared.iter().map(SourceTree::dir)) {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
        for variable in crate::VARIABLES {
            println!("cargo::rerun-if-env-changed={variable}");
        }
    }

    /// Returns the files that belong in the directory.
    #[must_use]
    pub fn files(&self) -> Vec<PtxFile> {
        let mut files: Vec<_> = self.families.iter().flat_map(|family| self.files_of(family)).collect();
        files.sort_by_key(|file| file.arch); // stable: families stay in order
        files
    }

    /// Returns the manifest, which is empty if there is no file yet.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn manifest(&self) -> Result<Manifest, CudaBuilderError> {
        Manifest::read(&self.manifest_path())
    }

    /// Returns the PTX of a file of the directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text(&self, file: &PtxFile) -> Result<String, CudaBuilderError> {
        let text = self.texts_of(&file.family)?.remove(file);
        text.ok_or_else(|| unreadable(&file.ptx_in(&self.dir)))
    }

    /// Returns the machine code of a file of the directory, whether or not it is the one in the manifest.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn machine_code(&self, file: &PtxFile) -> Result<Vec<u8>, CudaBuilderError> {
        let path = file.cubin_in(&self.dir);
        kept::read(&path)?.ok_or_else(|| unreadable(&path))
    }

    /// Returns the files that must be rebuilt.
    ///
    /// # Errors
    /// If the manifest or the sources cannot be read.
    pub fn stale(&self) -> Result<Vec<Stale>, CudaBuilderError> {
        self.stale_of(&self.manifest()?, &self.texts()?)
    }

    fn stale_of(&self, manifest: &Manifest, texts: &Texts) -> Result<Vec<Stale>, CudaBuilderError> {
        let mut stale = Vec::new();
        for family in &self.families {
            let source_hash = self.source_hash(family)?;
            for file in self.files_of(family) {
                let reason = match (manifest.files.get(&file.name()), texts.get(&file)) {
                    (None, _) => StaleReason::NotRecorded,
                    (Some(record), _) if record.source_hash != source_hash => StaleReason::SourcesChanged,
                    (Some(record), Some(text)) if record.is_of(text) => continue,
                    _ if file.ptx_in(&self.dir).is_file() => StaleReason::FileChanged,
                    _ => StaleReason::Missing,
                };
                stale.push(Stale { file, reason });
            }
        }
        Ok(stale)
    }

    /// Returns the problems of the directory that can be found without building: stale files, facts in the manifest
    /// that differ from the file, [divergent barriers](crate::Fault::DivergentBarrier), files that belong to no family.
    ///
    /// Prebuilt PTX no longer has the marks of shared arrays, so duplicated ones are not found here;
    /// [`build`](Self::build) rejects them.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn verify(&self) -> Result<Vec<String>, CudaBuilderError> {
        let (manifest, texts) = (self.manifest()?, self.texts()?);
        let mut problems: Vec<_> = self.stale_of(&manifest, &texts)?.iter().map(Stale::to_string).collect();
        for file in self.files() {
            let (name, path, cubin) = (file.name(), file.ptx_in(&self.dir), file.cubin_name());
            let (Some(record), Some(text)) = (manifest.files.get(&name), texts.get(&file)) else {
                continue;
            };
            let info = PtxInfo::parse(text).map_err(CudaBuilderError::in_ptx(&path))?;
            if info.target != file.arch.as_str() {
                problems.push(format!("{name}: its .target is {}", info.target));
            }
            if info != record.info {
                problems.push(format!("{name}: .version, .target or entries differ from the manifest's"));
            }
            let faults = faults::faults(text).map_err(CudaBuilderError::in_ptx(&path))?;
            problems.extend(faults.iter().map(|fault| format!("{name}: {fault}")));
            if record.cubin.is_some() && self.cubin(&file, record)?.is_none() {
                problems.push(format!("{cubin}: missing, or not the one that was assembled"));
            }
            if record.cubin.is_none() && file.cubin_in(&self.dir).is_file() {
                problems.push(format!("{cubin}: not in the manifest"));
            }
        }
        let known = self.names();
        let unrecorded = self.strangers()?;
        let strangers = manifest.files.keys().filter(|name| !known.contains(name)).chain(&unrecorded);
        problems.extend(strangers.map(|name| format!("{name}: belongs to no kernel family and architecture")));
        problems.dedup();
        Ok(problems)
    }

    /// Builds files, all architectures at the same time; returns the text of each and its record for the manifest.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`].
    pub fn build(
        &self,
        files: &[PtxFile],
        toolchain: &KernelToolchain,
    ) -> Result<BTreeMap<PtxFile, (String, FileRecord)>, CudaBuilderError> {
        // Each architecture has a target directory of its own.
        let of_arch = |arch| {
            let files = files.iter().filter(|file| file.arch == arch);
            files.map(|file| Ok((file.clone(), self.build_one(file, toolchain)?))).collect()
        };
        let archs: BTreeSet<_> = files.iter().map(|file| file.arch).collect();
        let built: Vec<Result<Vec<_>, _>> = thread::scope(|scope| {
            let threads: Vec<_> = archs.into_iter().map(|arch| scope.spawn(move || of_arch(arch))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        Ok(built.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn build_one(&self, file: &PtxFile, toolchain: &KernelToolchain) -> Result<(String, FileRecord), CudaBuilderError> {
        let mut builder = self.builder(&file.family).arch(file.arch);
        if let Some(target_dir) = &self.target_dir {
            builder = builder.target_dir(target_dir);
        }
        let text = read_text(&builder.build_with(toolchain)?)?;
        let record = FileRecord {
            source_hash: self.source_hash(&file.family)?,
            ptx_hash: hash_text(&text),
            rustc: toolchain.version.clone(),
            info: PtxInfo::parse(&text)?,
            cubin: None,
        };
        Ok((text, record))
    }

    /// Rebuilds these files in the directory, updates the manifest, and removes files and records that belong to no
    /// family, and machine code of changed PTX.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`]: nothing is written if a file fails to build.
    pub fn refresh(&self, files: &[PtxFile], toolchain: &KernelToolchain) -> Result<(), CudaBuilderError> {
        let mut manifest = self.manifest()?;
        let mut built = self.build(files, toolchain)?;
        for family in &self.families {
            let files: Vec<_> = files.iter().filter(|file| file.family == *family).collect();
            if files.is_empty() {
                continue;
            }
            let mut texts = self.texts_of(family)?;
            for file in files {
                let Some((text, mut record)) = built.remove(file) else { continue };
                let old = manifest.files.remove(&file.name()).filter(|old| old.ptx_hash == record.ptx_hash);
                record.cubin = old.and_then(|old| old.cubin);
                if record.cubin.is_none() {
                    self.remove(&compressed(&file.cubin_name()))?;
                }
                manifest.files.insert(file.name(), record);
                texts.insert(file.clone(), text);
            }
            self.keep(family, &texts, &self.dir)?;
        }
        let known = self.names();
        manifest.files.retain(|name, _| known.contains(name));
        for name in self.strangers()? {
            self.remove(&name)?;
        }
        manifest.write(&self.manifest_path())
    }

    /// Stores the machine code that an assembler of this version made from PTX files of the directory.
    ///
    /// # Errors
    /// If something cannot be read or written.
    pub fn keep_cubins(&self, cubins: &[(PtxFile, Vec<u8>)], ptxas: &str) -> Result<(), CudaBuilderError> {
        let mut manifest = self.manifest()?;
        for (file, bytes) in cubins {
            kept::write(&file.cubin_in(&self.dir), bytes)?;
            if let Some(record) = manifest.files.get_mut(&file.name()) {
                record.cubin = Some(CubinRecord { hash: hash_bytes(bytes), ptxas: ptxas.to_owned() });
            }
        }
        manifest.write(&self.manifest_path())
    }

    /// Returns every file, for a build script to embed: from the directory if its family is fresh, otherwise from
    /// `out_dir`, after rebuilding what is stale.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`], if anything is stale.
    pub fn load_or_build(&self, out_dir: &Path) -> Result<Vec<ReadyFile>, CudaBuilderError> {
        let (manifest, mut texts) = (self.manifest()?, self.texts()?);
        let stale = self.stale_of(&manifest, &texts)?;
        if !stale.is_empty() {
            let toolchain = KernelToolchain::find()
                .map_err(|source| CudaBuilderError::StalePrebuilt { stale: stale.clone(), source: Box::new(source) })?;
            let files: Vec<_> = stale.iter().map(|stale| stale.file.clone()).collect();
            texts.extend(self.build(&files, &toolchain)?.into_iter().map(|(file, (text, _))| (file, text)));
        }
        let is_stale = |file: &PtxFile| stale.iter().any(|stale| stale.file == *file);
        let mut ready = Vec::new();
        for family in &self.families {
            let fresh = !self.files_of(family).any(|file| is_stale(&file));
            let dir = if fresh { &self.dir } else { out_dir };
            if !fresh {
                self.keep(family, &texts, dir)?;
            }
            for file in self.files_of(family) {
                let record = manifest.files.get(&file.name()).filter(|_| !is_stale(&file));
                let cubin = record.map(|record| self.cubin(&file, record)).transpose()?.flatten();
                let Some(text) = texts.remove(&file) else { continue };
                ready.push(ReadyFile { ptx: file.ptx_in(dir), text, cubin, file });
            }
        }
        Ok(ready)
    }

    /// Returns the machine code of a file, if it is the one of the record.
    fn cubin(&self, file: &PtxFile, record: &FileRecord) -> Result<Option<PathBuf>, CudaBuilderError> {
        let path = file.cubin_in(&self.dir);
        let (Some(recorded), Some(bytes)) = (&record.cubin, kept::read(&path)?) else {
            return Ok(None);
        };
        Ok((hash_bytes(&bytes) == recorded.hash).then_some(path))
    }

    /// Returns a family's files, oldest architecture first.
    fn files_of(&self, family: &str) -> impl Iterator<Item = PtxFile> {
        let archs = self.of_one_arch.get(family).map_or(&*self.archs, slice::from_ref);
        archs.iter().map(move |&arch| PtxFile { family: family.to_owned(), arch })
    }

    fn texts(&self) -> Result<Texts, CudaBuilderError> {
        let mut texts = Texts::new();
        for family in &self.families {
            texts.append(&mut self.texts_of(family)?);
        }
        Ok(texts)
    }

    fn texts_of(&self, family: &str) -> Result<Texts, CudaBuilderError> {
        let mut texts = Texts::new();
        let mut older = None;
        for file in self.files_of(family) {
            let kept = kept::read_text(&file.ptx_in(&self.dir), older.as_deref())?;
            texts.extend(kept.as_deref().map(|kept| (file, with_registers(kept))));
            older = kept;
        }
        Ok(texts)
    }

    /// Writes a family's texts to a directory.
    fn keep(&self, family: &str, texts: &Texts, dir: &Path) -> Result<(), CudaBuilderError> {
        fs::create_dir_all(dir).map_err(CudaBuilderError::io("create", dir))?;
        let mut older = None;
        for file in self.files_of(family) {
            let kept = texts.get(&file).map(|text| kept::kept_form(text));
            if let Some(kept) = &kept {
                kept::write_text(&file.ptx_in(dir), kept, older.as_deref())?;
            }
            older = kept;
        }
        Ok(())
    }

    fn builder(&self, family: &str) -> CudaBuilder {
        CudaBuilder::new(&self.kernel_crate).cfg("kernel_family", family)
    }

    fn source_hash(&self, family: &str) -> Result<String, CudaBuilderError> {
        let others = self.families.iter().filter(|other| *other != family);
        let kernels = SourceTree::new("kernels", self.kernel_crate.join("src")).except_modules(others);
        let trees: Vec<_> = std::iter::once(kernels).chain(self.shared.iter().cloned()).collect();
        hash_sources(&trees, &self.builder(family).recipe())
    }

    fn manifest_path(&self) -> PathBuf {
        self.dir.join("manifest.json")
    }

    /// The names in the manifest.
    fn names(&self) -> Vec<String> {
        self.files().iter().map(PtxFile::name).collect()
    }

    /// Finds PTX and machine code in the directory that does not belong to these families and architectures, or is not
    /// compressed.
    fn strangers(&self) -> Result<Vec<String>, CudaBuilderError> {
        let known: Vec<_> = self.files().iter().flat_map(|file| [file.name(), file.cubin_name()]).collect();
        let read = fs::read_dir(&self.dir).map_err(CudaBuilderError::io("read", &self.dir))?;
        let names = read.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_stranger = |name: &String| match name.strip_suffix(".lzma") {
            Some(name) => !known.iter().any(|known| known == name),
            None => name.ends_with(".ptx") || name.ends_with(".cubin"),
        };
        Ok(names.filter(is_stranger).collect())
    }

    fn remove(&self, name: &str) -> Result<(), CudaBuilderError> {
        match fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CudaBuilderError::io("remove", &self.dir.join(name))(error))
            }
            _ => Ok(()),
        }
    }
}

fn unreadable(path: &Path) -> CudaBuilderError {
    CudaBuilderError::io("read", path)(io::Error::new(io::ErrorKind::InvalidData, "missing, or not compressed text"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A kernel crate with families `one` and `two`, a shared crate, and prebuilt files that match them.
    fn project() -> (TempDir, Prebuilt) {
        let root = TempDir::new().unwrap();
        for (name, text) in [
            ("kernels/src/lib.rs", "mod one;\nmod two;\n"),
            ("kernels/src/one.rs", "1"),
            ("kernels/src/two.rs", "2"),
            ("kernels/src/two/tile.rs", "2"),
            ("std/src/lib.rs", "std"),
            ("std/src/host.rs", "host"),
        ] {
            write(&root, name, text);
        }
        let prebuilt = Prebuilt::new(root.path().join("ptx"), root.path().join("kernels"))
            .families(["one", "two"])
            .archs(&[Arch::Sm75, Arch::Sm90])
            .shared_sources(SourceTree::new("std", root.path().join("std/src")).except(&["host.rs"]));
        let mut manifest = Manifest::default();
        let mut texts = Texts::new();
        for file in prebuilt.files() {
            let text = format!(".version 7.0\n.target {}\n.visible .entry e(\n\t.param .u64 a\n)\n", file.arch);
            let record = FileRecord {
                source_hash: prebuilt.source_hash(&file.family).unwrap(),
                ptx_hash: hash_text(&text),
                rustc: "rustc 1.96.0".to_owned(),
                info: PtxInfo::parse(&text).unwrap(),
                cubin: None,
            };
            manifest.files.insert(file.name(), record);
            texts.insert(file, text);
        }
        for family in ["one", "two"] {
            prebuilt.keep(family, &texts, prebuilt.dir()).unwrap();
        }
        manifest.write(&prebuilt.manifest_path()).unwrap();
        (root, prebuilt)
    }

    fn write(root: &TempDir, name: &str, text: &str) {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Keeps a text of a family's oldest architecture, or machine code.
    fn keep(root: &TempDir, name: &str, text: &str) {
        kept::write(&root.path().join("ptx").join(compressed(name)), text.as_bytes()).unwrap();
    }

    fn same_for_both(prebuilt: &Prebuilt, family: &str, text: &str) -> Texts {
        prebuilt.files_of(family).map(|file| (file, text.to_owned())).collect()
    }

    fn stale(prebuilt: &Prebuilt) -> Vec<String> {
        prebuilt.stale().unwrap().iter().map(Stale::to_string).collect()
    }

    #[test]
    fn a_fresh_directory_is_used_as_it_is() {
        let (root, prebuilt) = project();
        assert_eq!(prebuilt.verify().unwrap(), [""; 0]);
        let loaded = prebuilt.load_or_build(&root.path().join("out")).unwrap();
        assert_eq!(loaded.len(), 4);
        assert!(loaded.iter().all(|ready| ready.ptx.starts_with(prebuilt.dir()) && ready.cubin.is_none()));
        assert!(loaded.iter().all(|ready| ready.text == prebuilt.text(&ready.file).unwrap()));
    }

    #[test]
    fn a_family_may_be_for_one_architecture_only() {
        let (_root, prebuilt) = project();
        let prebuilt = prebuilt.family_for("two", Arch::Sm90a);
        let names: Vec<_> = prebuilt.files().iter().map(PtxFile::name).collect();
        assert_eq!(names, ["one.sm_75.ptx", "one.sm_90.ptx", "two.sm_90a.ptx"]);
        assert_eq!(stale(&prebuilt), ["two.sm_90a.ptx: not in the manifest"]);
        // Those of its former architectures are no longer known.
        let problems = prebuilt.verify().unwrap();
        assert!(problems.iter().any(|problem| problem.starts_with("two.sm_75.ptx: belongs to no")), "{problems:?}");
    }

    #[test]
    fn a_text_is_kept_with_that_for_an_older_architecture_as_its_dictionary() {
        let (root, prebuilt) = project();
        let file = |arch| PtxFile { family: "one".to_owned(), arch };
        let text = |target: Arch| format!("//\n.version 7.0\n.target {target}\nmov.u32 %r1, %r2;\nret;\n");
        let mut texts = Texts::from([Arch::Sm75, Arch::Sm90].map(|arch| (file(arch), text(arch))));
        prebuilt.keep("one", &texts, prebuilt.dir()).unwrap();
        assert_eq!(prebuilt.texts_of("one").unwrap(), texts);
        // Without the older text, it is lost.
        fs::remove_file(file(Arch::Sm75).ptx_in(prebuilt.dir())).unwrap();
        assert_ne!(prebuilt.texts_of("one").unwrap().get(&file(Arch::Sm90)), texts.get(&file(Arch::Sm90)));
        assert!(stale(&prebuilt).contains(&"one.sm_90.ptx: the file differs from the one that was built".to_owned()));
        // Another older text, and none.
        texts.insert(file(Arch::Sm75), "// other\n".to_owned());
        prebuilt.keep("one", &texts, prebuilt.dir()).unwrap();
        assert_eq!(prebuilt.texts_of("one").unwrap(), texts);
        texts.remove(&file(Arch::Sm75));
        let elsewhere = root.path().join("out");
        prebuilt.keep("one", &texts, &elsewhere).unwrap();
        let kept = kept::read_text(&file(Arch::Sm90).ptx_in(&elsewhere), None).unwrap();
        assert_eq!(kept.as_deref().map(with_registers).as_ref(), texts.get(&file(Arch::Sm90)));
    }

    #[test]
    fn machine_code_is_used_as_long_as_it_is_what_was_assembled() {
        let (root, prebuilt) = project();
        let file = PtxFile { family: "one".to_owned(), arch: Arch::Sm90 };
        prebuilt.keep_cubins(&[(file.clone(), vec![1, 2, 3])], "ptxas 13.0").unwrap();
        assert_eq!(prebuilt.verify().unwrap(), [""; 0]);
        let cubins = || {
            let ready = prebuilt.load_or_build(&root.path().join("out")).unwrap();
            ready.into_iter().filter_map(|ready| Some((ready.file, ready.cubin?))).collect::<Vec<_>>()
        };
        assert_eq!(cubins(), [(file.clone(), prebuilt.dir().join("one.sm_90.cubin.lzma"))]);
        assert_eq!(prebuilt.machine_code(&file).unwrap(), [1, 2, 3]);
        keep(&root, "one.sm_90.cubin", "other");
        assert_eq!(cubins(), []);
        keep(&root, "two.sm_75.cubin", "stranger");
        let problems = prebuilt.verify().unwrap().join("\n");
        assert!(problems.contains("one.sm_90.cubin: missing, or not the one"), "{problems}");
        assert!(problems.contains("two.sm_75.cubin: not in the manifest"), "{problems}");
    }

    #[test]
    fn a_changed_kernel_makes_only_its_family_stale() {
        let (root, prebuilt) = project();
        write(&root, "kernels/src/two/tile.rs", "changed");
        let stale = stale(&prebuilt);
        assert_eq!(stale.len(), 2);
        assert!(stale.iter().all(|message| message.starts_with("two.") && message.contains("sources")), "{stale:?}");
    }

    #[test]
    fn a_new_family_makes_no_other_stale() {
        let (root, prebuilt) = project();
        write(&root, "kernels/src/lib.rs", "mod one;\nmod three;\nmod two;\n");
        write(&root, "kernels/src/three.rs", "3");
        let prebuilt = prebuilt.families(["one", "three", "two"]);
        let stale = stale(&prebuilt);
        assert_eq!(stale.len(), 2, "{stale:?}");
        assert!(stale.iter().all(|message| message.starts_with("three.")), "{stale:?}");
    }

    #[test]
    fn a_changed_shared_file_makes_every_family_stale_and_a_host_file_none() {
        let (root, prebuilt) = project();
        write(&root, "std/src/host.rs", "changed");
        assert!(stale(&prebuilt).is_empty());
        write(&root, "std/src/lib.rs", "changed");
        assert_eq!(stale(&prebuilt).len(), 4);
    }

    #[test]
    fn missing_edited_and_foreign_files_are_told_apart() {
        let (root, prebuilt) = project();
        fs::remove_file(root.path().join("ptx/one.sm_75.ptx.lzma")).unwrap();
        write(&root, "ptx/one.sm_90.ptx.lzma", "not compressed");
        let other = same_for_both(&prebuilt, "two", ".version 7.0\n.target sm_80\n");
        prebuilt.keep("two", &other, prebuilt.dir()).unwrap();
        keep(&root, "three.sm_90.ptx", "");
        write(&root, "ptx/two.sm_75.ptx", "");
        let problems = prebuilt.verify().unwrap().join("\n");
        for expected in [
            "one.sm_75.ptx: the file is missing",
            "one.sm_90.ptx: the file differs",
            "two.sm_90.ptx: the file differs",
            "two.sm_90.ptx: its .target is sm_80",
            "two.sm_90.ptx: .version, .target or entries differ",
            "three.sm_90.ptx.lzma: belongs to no",
            "two.sm_75.ptx: belongs to no",
        ] {
            assert!(problems.contains(expected), "no {expected:?} in:\n{problems}");
        }
    }

    #[test]
    fn kernels_with_faults_are_problems() {
        let (_root, prebuilt) = project();
        let body = ".reg .pred %p<2>;\n.reg .b32 %r<2>;\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bar.sync 0;\nret;\n";
        let text = format!(".version 7.0\n.target sm_75\n.visible .entry e(\n\t.param .u64 a\n)\n{{\n{body}}}\n");
        prebuilt.keep("one", &same_for_both(&prebuilt, "one", &text), prebuilt.dir()).unwrap();
        let problems = prebuilt.verify().unwrap().join("\n");
        assert!(problems.contains("one.sm_75.ptx: e: not all threads of a block execute the barrier"), "{problems}");
    }

    #[test]
    fn a_file_that_is_not_readable_is_named() {
        let (root, prebuilt) = project();
        let text = ".version 7.0\n.target sm_75\n.visible .entry e(\n\t.param .u64 a\n)\n{\nbra $nowhere;\nret;\n}\n";
        keep(&root, "one.sm_75.ptx", text);
        let message = prebuilt.verify().unwrap_err().to_string();
        assert!(message.contains("one.sm_75.ptx.lzma: not readable as PTX: e has no label $nowhere"), "{message}");
    }

    #[test]
    fn without_a_manifest_everything_is_to_be_built() {
        let (_root, prebuilt) = project();
        fs::remove_file(prebuilt.manifest_path()).unwrap();
        assert!(prebuilt.stale().unwrap().iter().all(|stale| stale.reason == StaleReason::NotRecorded));
    }
}
