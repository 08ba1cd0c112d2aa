//! PTX that a crate ships, so that its users need no kernel toolchain, and the machine code made of it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Arch, CubinRecord, CudaBuilder, CudaBuilderError, FileRecord, KernelToolchain, Manifest, PtxInfo, faults,
    sources::{SourceTree, hash_bytes, hash_sources, hash_text, read_text},
};

/// A directory of prebuilt PTX: one file a kernel family and architecture, and a manifest that says what each was
/// built from.
///
/// A family `foo` is a feature of the kernel crate that compiles `src/foo.rs` and `src/foo/`; the crate's other files
/// belong to all families. A file is stale when its family's sources, or the flags it is built with, are not the ones
/// in the manifest; neither the compiler's version nor where the sources lie plays a part in that.
///
/// Beside `foo.sm_80.ptx` may lie `foo.sm_80.cubin`, what an assembler made of it: it is used as long as the PTX is the
/// one that it was made of, and never rebuilt here.
#[derive(Clone, Debug)]
#[must_use]
pub struct Prebuilt {
    dir: PathBuf,
    kernel_crate: PathBuf,
    families: Vec<String>,
    archs: Vec<Arch>,
    shared: Vec<SourceTree>,
    target_dir: Option<PathBuf>,
}

/// One PTX file: a family, for an architecture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxFile {
    /// The kernel family.
    pub family: String,
    /// The architecture.
    pub arch: Arch,
}

impl PtxFile {
    /// The name in the directory and in the manifest: `foo.sm_80.ptx`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}.ptx", self.family, self.arch)
    }

    /// The name of its machine code: `foo.sm_80.cubin`.
    #[must_use]
    pub fn cubin_name(&self) -> String {
        format!("{}.{}.cubin", self.family, self.arch)
    }
}

/// A PTX file to embed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyFile {
    /// Which one.
    pub file: PtxFile,
    /// Where it lies.
    pub ptx: PathBuf,
    /// Where its machine code lies, if there is some.
    pub cubin: Option<PathBuf>,
}

/// A file that must be built again, and why.
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
    /// The manifest does not know the file.
    NotRecorded,
    /// The kernel sources or the flags have changed since.
    SourcesChanged,
    /// The file is not there.
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

impl Prebuilt {
    /// The PTX of a kernel crate, kept in `dir`.
    pub fn new(dir: impl AsRef<Path>, kernel_crate: impl AsRef<Path>) -> Self {
        Self {
            dir: dir.as_ref().to_owned(),
            kernel_crate: kernel_crate.as_ref().to_owned(),
            families: Vec::new(),
            archs: Vec::new(),
            shared: Vec::new(),
            target_dir: None,
        }
    }

    /// All the families of the crate.
    pub fn families(mut self, families: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.families = families.into_iter().map(Into::into).collect();
        self
    }

    /// The architectures to keep PTX for.
    pub fn archs(mut self, archs: &[Arch]) -> Self {
        self.archs = archs.to_vec();
        self
    }

    /// Sources besides the kernel crate's own that every family depends on.
    pub fn shared_sources(mut self, sources: SourceTree) -> Self {
        self.shared.push(sources);
        self
    }

    /// As [`CudaBuilder::target_dir`].
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every directory whose files decide what the PTX looks like.
    pub fn source_dirs(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let shared = self.shared.iter().map(|tree| tree.dir().to_owned());
        std::iter::once(self.kernel_crate.join("src")).chain(shared)
    }

    /// The files that belong in the directory.
    #[must_use]
    pub fn files(&self) -> Vec<PtxFile> {
        let of_arch = |&arch| self.families.iter().map(move |family| PtxFile { family: family.clone(), arch });
        self.archs.iter().flat_map(of_arch).collect()
    }

    /// The manifest; an empty one where there is no file yet.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn manifest(&self) -> Result<Manifest, CudaBuilderError> {
        Manifest::read(&self.manifest_path())
    }

    /// The files that must be built again.
    ///
    /// # Errors
    /// Where the manifest or the sources cannot be read.
    pub fn stale(&self) -> Result<Vec<Stale>, CudaBuilderError> {
        let manifest = self.manifest()?;
        let mut stale = Vec::new();
        for family in &self.families {
            let source_hash = self.source_hash(family)?;
            for &arch in &self.archs {
                let file = PtxFile { family: family.clone(), arch };
                let path = self.dir.join(file.name());
                let reason = match manifest.files.get(&file.name()) {
                    None => StaleReason::NotRecorded,
                    Some(record) if record.source_hash != source_hash => StaleReason::SourcesChanged,
                    Some(_) if !path.is_file() => StaleReason::Missing,
                    Some(record) if record.ptx_hash != hash_text(&read_text(&path)?) => StaleReason::FileChanged,
                    Some(_) => continue,
                };
                stale.push(Stale { file, reason });
            }
        }
        Ok(stale)
    }

    /// What is wrong with the directory, as far as that can be told without building: stale files, facts in the
    /// manifest that are not the file's, [divergent barriers](crate::Fault::DivergentBarrier), files that belong to no family.
    ///
    /// Barriers only: the marks that tell of duplicated shared arrays are gone from prebuilt PTX. [`build`](Self::build) refuses
    /// those.
    ///
    /// # Errors
    /// Where something cannot be read at all.
    pub fn verify(&self) -> Result<Vec<String>, CudaBuilderError> {
        let mut problems: Vec<_> = self.stale()?.iter().map(Stale::to_string).collect();
        let manifest = self.manifest()?;
        for file in self.files() {
            let (name, path, cubin) = (file.name(), self.dir.join(file.name()), file.cubin_name());
            let Some(record) = manifest.files.get(&name).filter(|_| path.is_file()) else {
                continue;
            };
            let info = PtxInfo::read(&path)?;
            if info.target != file.arch.as_str() {
                problems.push(format!("{name}: its .target is {}", info.target));
            }
            if info != record.info {
                problems.push(format!("{name}: .version, .target or entries differ from the manifest's"));
            }
            let faults = faults::faults(&read_text(&path)?).map_err(CudaBuilderError::in_ptx(&path))?;
            problems.extend(faults.iter().map(|fault| format!("{name}: {fault}")));
            if record.cubin.is_some() && self.cubin(&file, record)?.is_none() {
                problems.push(format!("{cubin}: missing, or not the one that was assembled"));
            }
            if record.cubin.is_none() && self.dir.join(&cubin).is_file() {
                problems.push(format!("{cubin}: not in the manifest"));
            }
        }
        let known = self.names();
        let on_disk = self.on_disk()?;
        let strangers = manifest.files.keys().chain(&on_disk).filter(|name| !known.contains(name));
        problems.extend(strangers.map(|name| format!("{name}: belongs to no kernel family and architecture")));
        problems.dedup();
        Ok(problems)
    }

    /// Builds one file to `destination`, and returns what the manifest should say of it.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`].
    pub fn build(
        &self,
        file: &PtxFile,
        toolchain: &KernelToolchain,
        destination: &Path,
    ) -> Result<FileRecord, CudaBuilderError> {
        let mut builder = self.builder(&file.family).arch(file.arch).copy_to(destination);
        if let Some(target_dir) = &self.target_dir {
            builder = builder.target_dir(target_dir);
        }
        let ptx = builder.build_with(toolchain)?;
        Ok(FileRecord {
            source_hash: self.source_hash(&file.family)?,
            ptx_hash: hash_text(&read_text(&ptx)?),
            rustc: toolchain.version.clone(),
            info: PtxInfo::read(&ptx)?,
            cubin: None,
        })
    }

    /// Builds these files anew in the directory, brings the manifest up to date, and removes files and records that
    /// belong to no family. Machine code of what has changed is removed.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`]; files built before the failure are written, and stay stale in the manifest.
    pub fn refresh(&self, files: &[PtxFile], toolchain: &KernelToolchain) -> Result<(), CudaBuilderError> {
        let mut manifest = self.manifest()?;
        for file in files {
            let mut record = self.build(file, toolchain, &self.dir.join(file.name()))?;
            let old = manifest.files.remove(&file.name()).filter(|old| old.ptx_hash == record.ptx_hash);
            record.cubin = old.and_then(|old| old.cubin);
            if record.cubin.is_none() {
                self.remove(&file.cubin_name())?;
            }
            manifest.files.insert(file.name(), record);
        }
        let known = self.names();
        manifest.files.retain(|name, _| known.contains(name));
        for name in self.on_disk()?.iter().filter(|name| !known.contains(name)) {
            self.remove(name)?;
        }
        manifest.write(&self.manifest_path())
    }

    /// Keeps what an assembler of this version made of PTX files of the directory.
    ///
    /// # Errors
    /// Where something cannot be read or written.
    pub fn keep_cubins(&self, cubins: &[(PtxFile, Vec<u8>)], ptxas: &str) -> Result<(), CudaBuilderError> {
        let mut manifest = self.manifest()?;
        for (file, bytes) in cubins {
            let path = self.dir.join(file.cubin_name());
            fs::write(&path, bytes).map_err(CudaBuilderError::io("write", &path))?;
            if let Some(record) = manifest.files.get_mut(&file.name()) {
                record.cubin = Some(CubinRecord { hash: hash_bytes(bytes), ptxas: ptxas.to_owned() });
            }
        }
        manifest.write(&self.manifest_path())
    }

    /// Every file, for a build script to embed: from the directory where it is fresh, otherwise built in `out_dir`.
    ///
    /// # Errors
    /// As [`CudaBuilder::build`], where anything is stale.
    pub fn load_or_build(&self, out_dir: &Path) -> Result<Vec<ReadyFile>, CudaBuilderError> {
        let (stale, manifest) = (self.stale()?, self.manifest()?);
        let find = || {
            KernelToolchain::find()
                .map_err(|source| CudaBuilderError::StalePrebuilt { stale: stale.clone(), source: Box::new(source) })
        };
        let toolchain = (!stale.is_empty()).then(find).transpose()?;
        let mut ready = Vec::new();
        for file in self.files() {
            let ready_file = match (&toolchain, manifest.files.get(&file.name())) {
                (Some(toolchain), _) if stale.iter().any(|stale| stale.file == file) => {
                    let ptx = out_dir.join(file.name());
                    self.build(&file, toolchain, &ptx)?;
                    ReadyFile { file, ptx, cubin: None }
                }
                (_, record) => {
                    let cubin = record.map(|record| self.cubin(&file, record)).transpose()?.flatten();
                    ReadyFile { ptx: self.dir.join(file.name()), cubin, file }
                }
            };
            ready.push(ready_file);
        }
        Ok(ready)
    }

    /// The machine code of a file, if it is the one of the record.
    fn cubin(&self, file: &PtxFile, record: &FileRecord) -> Result<Option<PathBuf>, CudaBuilderError> {
        let path = self.dir.join(file.cubin_name());
        let Some(recorded) = record.cubin.as_ref().filter(|_| path.is_file()) else {
            return Ok(None);
        };
        let bytes = fs::read(&path).map_err(CudaBuilderError::io("read", &path))?;
        Ok((hash_bytes(&bytes) == recorded.hash).then_some(path))
    }

    fn builder(&self, family: &str) -> CudaBuilder {
        CudaBuilder::new(&self.kernel_crate).build_args(&["--no-default-features", "--features", family])
    }

    fn source_hash(&self, family: &str) -> Result<String, CudaBuilderError> {
        let others = self.families.iter().filter(|other| *other != family);
        let of_others: Vec<_> = others.flat_map(|other| [format!("{other}.rs"), other.clone()]).collect();
        let kernels = SourceTree::new("kernels", self.kernel_crate.join("src")).except(&of_others);
        let trees: Vec<_> = std::iter::once(kernels).chain(self.shared.iter().cloned()).collect();
        hash_sources(&trees, &self.builder(family).recipe())
    }

    fn manifest_path(&self) -> PathBuf {
        self.dir.join("manifest.json")
    }

    /// The names that files of the directory may have.
    fn names(&self) -> Vec<String> {
        self.files().iter().flat_map(|file| [file.name(), file.cubin_name()]).collect()
    }

    /// The PTX and the machine code that lie in the directory.
    fn on_disk(&self) -> Result<Vec<String>, CudaBuilderError> {
        let read = fs::read_dir(&self.dir).map_err(CudaBuilderError::io("read", &self.dir))?;
        let names = read.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| name.ends_with(".ptx") || name.ends_with(".cubin")).collect())
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A kernel crate with families `one` and `two`, a shared crate, and prebuilt files that match them.
    fn project() -> (TempDir, Prebuilt) {
        let root = TempDir::new().unwrap();
        for (name, text) in [
            ("kernels/src/lib.rs", "mod one; mod two;"),
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
        for file in prebuilt.files() {
            let text = format!(".version 7.0\n.target {}\n.visible .entry e(\n\t.param .u64 a\n)\n", file.arch);
            write(&root, &format!("ptx/{}", file.name()), &text);
            let record = FileRecord {
                source_hash: prebuilt.source_hash(&file.family).unwrap(),
                ptx_hash: hash_text(&text),
                rustc: "rustc 1.96.0".to_owned(),
                info: PtxInfo::parse(&text).unwrap(),
                cubin: None,
            };
            manifest.files.insert(file.name(), record);
        }
        manifest.write(&prebuilt.manifest_path()).unwrap();
        (root, prebuilt)
    }

    fn write(root: &TempDir, name: &str, text: &str) {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
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
        assert_eq!(cubins(), [(file, prebuilt.dir().join("one.sm_90.cubin"))]);
        write(&root, "ptx/one.sm_90.cubin", "other");
        assert_eq!(cubins(), []);
        write(&root, "ptx/two.sm_75.cubin", "stranger");
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
        fs::remove_file(root.path().join("ptx/one.sm_75.ptx")).unwrap();
        write(&root, "ptx/two.sm_90.ptx", ".version 7.0\n.target sm_80\n");
        write(&root, "ptx/three.sm_90.ptx", "");
        let problems = prebuilt.verify().unwrap().join("\n");
        for expected in [
            "one.sm_75.ptx: the file is missing",
            "two.sm_90.ptx: the file differs",
            "two.sm_90.ptx: its .target is sm_80",
            "two.sm_90.ptx: .version, .target or entries differ",
            "three.sm_90.ptx: belongs to no",
        ] {
            assert!(problems.contains(expected), "no {expected:?} in:\n{problems}");
        }
    }

    #[test]
    fn kernels_with_faults_are_problems() {
        let (root, prebuilt) = project();
        let body = ".reg .pred %p<2>;\n.reg .b32 %r<2>;\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bar.sync 0;\nret;\n";
        let text = format!(".version 7.0\n.target sm_75\n.visible .entry e(\n\t.param .u64 a\n)\n{{\n{body}}}\n");
        write(&root, "ptx/one.sm_75.ptx", &text);
        let problems = prebuilt.verify().unwrap().join("\n");
        assert!(problems.contains("one.sm_75.ptx: e: not all threads of a block execute the barrier"), "{problems}");
    }

    #[test]
    fn a_file_that_is_not_readable_is_named() {
        let (root, prebuilt) = project();
        let text = ".version 7.0\n.target sm_75\n.visible .entry e(\n\t.param .u64 a\n)\n{\nbra $nowhere;\nret;\n}\n";
        write(&root, "ptx/one.sm_75.ptx", text);
        let message = prebuilt.verify().unwrap_err().to_string();
        assert!(message.contains("one.sm_75.ptx: not readable as PTX: e has no label $nowhere"), "{message}");
    }

    #[test]
    fn without_a_manifest_everything_is_to_be_built() {
        let (_root, prebuilt) = project();
        fs::remove_file(prebuilt.manifest_path()).unwrap();
        assert!(prebuilt.stale().unwrap().iter().all(|stale| stale.reason == StaleReason::NotRecorded));
    }
}
