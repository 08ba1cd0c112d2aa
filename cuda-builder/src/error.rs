//! The error type.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Arch, Fault, prebuilt::Stale, toolchain::Rejected};

/// Why PTX could not be built, read or checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// No rustc on this machine can build GPU code.
    #[error("{}", no_toolchain_message(.0))]
    NoToolchain(Vec<Rejected>),

    /// Prebuilt PTX does not match its sources, and cannot be built here.
    #[error("prebuilt PTX is out of date:\n{}and it cannot be rebuilt: {source}", list(.stale))]
    StalePrebuilt {
        /// The files.
        stale: Vec<Stale>,
        /// Why they cannot be rebuilt.
        source: Box<CudaBuilderError>,
    },

    /// The kernel crate does not compile.
    #[error("{krate} does not compile for {arch} with {rustc}:\n{diagnostics}", krate = .krate.display())]
    BuildFailed {
        /// The kernel crate's directory.
        krate: PathBuf,
        /// The architecture asked for.
        arch: Arch,
        /// The compiler's version.
        rustc: String,
        /// What cargo and rustc printed.
        diagnostics: String,
    },

    /// The build succeeded without writing PTX.
    #[error("cargo built {krate} but did not write {ptx}: remove {target_dir} and build again",
        krate = .krate.display(), ptx = .ptx.display(), target_dir = .target_dir.display())]
    NoPtx {
        /// The kernel crate's directory.
        krate: PathBuf,
        /// The expected file.
        ptx: PathBuf,
        /// The directory to remove.
        target_dir: PathBuf,
    },

    /// The PTX contains no kernel.
    #[error("{} compiles to PTX without an entry point: does it have a #[kernel] function, and its feature enabled?",
        .0.display())]
    NoEntries(PathBuf),

    /// The PTX has faults.
    #[error("{ptx} has faults:\n{}", list(.faults), ptx = .ptx.display())]
    Faults {
        /// The file.
        ptx: PathBuf,
        /// The faults.
        faults: Vec<Fault>,
    },

    /// The text is not PTX as rustc writes it.
    #[error("not readable as PTX: {0}")]
    BadPtx(String),

    /// A file's PTX is not readable.
    #[error("{file}: {source}", file = .file.display())]
    BadPtxFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: Box<CudaBuilderError>,
    },

    /// The manifest of prebuilt PTX is malformed.
    #[error("{file} is not a manifest of prebuilt PTX: {source}", file = .file.display())]
    BadManifest {
        /// The manifest.
        file: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },

    /// The manifest was written by another version of this crate.
    #[error("{file} has schema {found}, but this version reads schema {expected}", file = .file.display())]
    ManifestSchema {
        /// The manifest.
        file: PathBuf,
        /// Its schema.
        found: u32,
        /// The schema that this version reads.
        expected: u32,
    },

    /// The name is not that of an architecture.
    #[error("unknown GPU architecture {0:?}: known are {known}",
        known = Arch::ALL.iter().map(|arch| arch.as_str()).collect::<Vec<_>>().join(", "))]
    UnknownArch(String),

    /// A file or program could not be used.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl CudaBuilderError {
    /// An `Io` error, in the form that `map_err` takes.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// A `BadPtxFile` error, in the form that `map_err` takes.
    pub(crate) fn in_ptx(file: &Path) -> impl FnOnce(Self) -> Self {
        move |source| Self::BadPtxFile { file: file.to_owned(), source: Box::new(source) }
    }
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(|item| format!("  - {}\n", item.to_string())).collect()
}

fn no_toolchain_message(tried: &[Rejected]) -> String {
    let mut message = format!(
        "no Rust toolchain here can build GPU kernels: it takes a rustc together with its own library sources\n\
         tried:\n{}",
        list(tried)
    );
    let toolchain = tried.iter().find_map(|rejected| rejected.rustup_toolchain.as_deref());
    let of_toolchain = toolchain.map(|name| format!(" --toolchain {name}")).unwrap_or_default();
    message += &format!(
        "to get one, any of:\n  \
         - rustup component add rust-src{of_toolchain}\n  \
         - apt-get install -y --no-install-recommends rustc-web rust-web-src cargo-web   (Debian and its kin)\n  \
         - set CUDA_BUILDER_RUSTC to the path of a rustc that has them (and CUDA_BUILDER_CARGO to its cargo)"
    );
    message
}
