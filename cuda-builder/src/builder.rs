//! Builds a kernel crate by cargo and rustc.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::{Arch, CudaBuilderError, KernelToolchain, PtxInfo, faults, launch_bounds};

const TARGET: &str = "nvptx64-nvidia-cuda";

/// Builds a kernel crate to PTX.
///
/// ```no_run
/// # fn main() -> Result<(), cuda_builder::CudaBuilderError> {
/// use cuda_builder::{Arch, CudaBuilder};
///
/// let ptx = CudaBuilder::new("kernels").arch(Arch::Sm80).copy_to("kernels.ptx").build()?;
/// # Ok(())
/// # }
/// ```
///
/// The crate needs only a `[lib]`. Whatever its manifest or workspace says about crate types and profiles, it is built
/// as one optimised module. The build uses its own target directory, so it can run inside a build script.
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
pub struct CudaBuilder {
    krate: PathBuf,
    arch: Arch,
    release: bool,
    emit_llvm_ir: bool,
    allow_faults: bool,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    build_args: Vec<String>,
    cfgs: Vec<String>,
}

impl CudaBuilder {
    /// Creates a builder for the crate in this directory. A relative path is resolved against the working directory,
    /// which for a build script is its own crate.
    pub fn new(path_to_crate_root: impl AsRef<Path>) -> Self {
        Self {
            krate: path_to_crate_root.as_ref().to_owned(),
            arch: Arch::Sm75,
            release: true,
            emit_llvm_ir: false,
            allow_faults: false,
            copy_to: None,
            target_dir: None,
            build_args: Vec::new(),
            cfgs: Vec::new(),
        }
    }

    /// Sets the target architecture. The default is `sm_75`, the oldest.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Sets whether to optimise fully and drop debug assertions and overflow checks. The default is `true`.
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Adds arguments to cargo, such as `--features`.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets `cfg(name = "value")` in the crate, but not in its dependencies. Unlike a feature, it is declared in no
    /// manifest.
    pub fn cfg(mut self, name: &str, value: &str) -> Self {
        self.cfgs.push(format!("--cfg={name}=\"{value}\""));
        self
    }

    /// Sets whether to write the LLVM IR too, next to the PTX with the extension `.ll`.
    pub fn emit_llvm_ir(mut self, emit_llvm_ir: bool) -> Self {
        self.emit_llvm_ir = emit_llvm_ir;
        self
    }

    /// Sets whether to accept PTX with [`faults`](fn@crate::faults), for kernels that are wrong on purpose. The default
    /// is `false`.
    pub fn allow_faults(mut self, allow_faults: bool) -> Self {
        self.allow_faults = allow_faults;
        self
    }

    /// Copies the PTX to this file; creates missing directories.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().to_owned());
        self
    }

    /// Sets where cargo keeps the compiled `core` and dependencies, so that the next build takes a second or two.
    ///
    /// The default is `CUDA_BUILDER_TARGET_DIR`, or else `cuda-builder` in the target directory in which this program,
    /// such as a build script, was built, or else `target/cuda-builder` in the kernel crate.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Builds the crate, and returns the path of the PTX: that of [`copy_to`](Self::copy_to) if set.
    ///
    /// # Errors
    /// If no toolchain is found, the crate does not compile, it has no kernel, or a kernel has a
    /// [`Fault`](crate::Fault).
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        self.build_with(&KernelToolchain::find()?)
    }

    /// Calls [`build`](Self::build) with this toolchain.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_with(self, toolchain: &KernelToolchain) -> Result<PathBuf, CudaBuilderError> {
        let krate = self.krate.canonicalize().map_err(CudaBuilderError::io("find the kernel crate", &self.krate))?;
        // One directory per architecture: the flags differ, and cargo would rebuild `core` at every change.
        let target_dir = std::path::absolute(self.target_dir_or_default(&krate).join(self.arch.as_str()))
            .map_err(CudaBuilderError::io("find", &self.krate))?;
        let out_dir = target_dir.join("ptx");
        fs::create_dir_all(&out_dir).map_err(CudaBuilderError::io("create", &out_dir))?;
        let ptx = out_dir.join(self.file_name(&krate));

        self.run_cargo(toolchain, &krate, &target_dir, &ptx)?;
        if !ptx.is_file() {
            return Err(CudaBuilderError::NoPtx { krate, ptx, target_dir });
        }
        self.finish(&ptx)?;
        let info = PtxInfo::read(&ptx)?;
        if info.entries.is_empty() {
            return Err(CudaBuilderError::NoEntries(krate));
        }
        match &self.copy_to {
            Some(destination) => self.copy(&ptx, destination),
            None => Ok(ptx),
        }
    }

    /// Everything that determines the PTX of a given source, except the architecture and the compiler.
    pub(crate) fn recipe(&self) -> Vec<String> {
        let mut recipe = vec![TARGET.to_owned()];
        recipe.extend(self.profile());
        recipe.extend(self.build_args.iter().chain(&self.cfgs).cloned());
        recipe.extend(self.rustflags());
        recipe.extend(RUSTC_ARGS.iter().map(|&flag| flag.to_owned()));
        recipe
    }

    /// For every crate of the build.
    fn rustflags(&self) -> Vec<String> {
        RUSTFLAGS.into_iter().chain((!self.release).then_some(DEBUG_RUSTFLAG)).map(str::to_owned).collect()
    }

    fn level_and_checks(&self) -> (u8, bool) {
        if self.release { (3, false) } else { (1, true) }
    }

    fn profile(&self) -> [String; 9] {
        let (opt_level, checks) = self.level_and_checks();
        [
            "lto=\"fat\"".to_owned(),
            "codegen-units=1".to_owned(),
            "panic=\"abort\"".to_owned(),
            "strip=false".to_owned(),
            "incremental=false".to_owned(),
            "debug=0".to_owned(),
            format!("opt-level={opt_level}"),
            format!("debug-assertions={checks}"),
            format!("overflow-checks={checks}"),
        ]
    }

    /// That part of the profile which a workspace may set for this package alone, as for its build on the host: such settings are stronger than the
    /// profile's.
    fn codegen(&self) -> [String; 5] {
        let (opt_level, checks) = self.level_and_checks();
        [
            format!("-Copt-level={opt_level}"),
            "-Ccodegen-units=1".to_owned(),
            "-Cdebuginfo=0".to_owned(),
            format!("-Cdebug-assertions={checks}"),
            format!("-Coverflow-checks={checks}"),
        ]
    }

    /// Cargo does not rewrite the output of a fresh build, so each crate and set of arguments has its own file.
    fn file_name(&self, krate: &Path) -> String {
        let mut hash = Sha256::new();
        hash.update(krate.as_os_str().as_encoded_bytes());
        for part in self.recipe() {
            hash.update(part);
            hash.update([0]);
        }
        hash.update([u8::from(self.allow_faults)]);
        let name = krate.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}-{}.ptx", hex(&hash.finalize()[..8]))
    }

    fn target_dir_or_default(&self, krate: &Path) -> PathBuf {
        let of_caller = || self.target_dir.clone();
        let of_environment = || env::var_os("CUDA_BUILDER_TARGET_DIR").map(PathBuf::from);
        let of_program = || {
            let inside = env::var_os("OUT_DIR").map(PathBuf::from).or_else(|| env::current_exe().ok())?;
            // Cargo keeps its facts about rustc at the root of its target directory, and only there.
            let target = inside.ancestors().find(|dir| dir.join(".rustc_info.json").is_file())?;
            Some(target.join("cuda-builder"))
        };
        of_caller()
            .or_else(of_environment)
            .or_else(of_program)
            .unwrap_or_else(|| krate.join("target").join("cuda-builder"))
    }

    fn run_cargo(
        &self,
        toolchain: &KernelToolchain,
        krate: &Path,
        target_dir: &Path,
        ptx: &Path,
    ) -> Result<(), CudaBuilderError> {
        let mut cargo = Command::new(&toolchain.cargo);
        for (name, _) in env::vars_os().filter(|(name, _)| is_of_outer_build(&name.to_string_lossy())) {
            cargo.env_remove(name);
        }
        let of_arch = [
            format!("-Ctarget-cpu={}", self.arch),
            // Like C++'s `__CUDA_ARCH__`, for features that older architectures lack: "80", and "90a" for those of `sm_90a`.
            format!("--cfg=cuda_arch=\"{}\"", self.arch.as_str().trim_start_matches("sm_")),
        ];
        let rustflags = [of_arch.as_slice(), self.rustflags().as_slice()].concat();
        cargo
            .env("RUSTC", &toolchain.rustc)
            // Enables the GPU target's unstable features in a stable compiler.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\u{1f}"))
            .env("CARGO_BUILD_BUILD_DIR", target_dir)
            .current_dir(krate)
            .args(["rustc", "--lib", "--release", "--crate-type", "cdylib", "--target", TARGET, "-Zbuild-std=core"])
            .arg("--target-dir")
            .arg(target_dir);
        for setting in self.profile() {
            cargo.arg("--config").arg(format!("profile.release.{setting}"));
        }
        cargo
            .args(&self.build_args)
            .arg("--")
            .args(self.codegen())
            .args(RUSTC_ARGS)
            .args(&self.cfgs)
            .arg(emit("asm", ptx));
        if self.emit_llvm_ir {
            cargo.arg(emit("llvm-ir", &ptx.with_extension("ll")));
        }
        let run = cargo.output().map_err(CudaBuilderError::io("run", &toolchain.cargo))?;
        if run.status.success() {
            return Ok(());
        }
        Err(CudaBuilderError::BuildFailed {
            krate: krate.to_owned(),
            arch: self.arch,
            rustc: toolchain.version.clone(),
            diagnostics: String::from_utf8_lossy(&run.stderr).into_owned(),
        })
    }

    /// Rejects PTX with faults, and replaces the marks of `cuda_std`. A rejected file keeps its marks: cargo does not
    /// rewrite it, and the next build must find the same faults.
    fn finish(&self, ptx: &Path) -> Result<(), CudaBuilderError> {
        let text = fs::read_to_string(ptx).map_err(CudaBuilderError::io("read", ptx))?;
        if !self.allow_faults {
            let faults = faults::faults(&text).map_err(CudaBuilderError::in_ptx(ptx))?;
            if !faults.is_empty() {
                return Err(CudaBuilderError::Faults { ptx: ptx.to_owned(), faults });
            }
        }
        let text = launch_bounds::apply(&faults::without_marks(&text));
        fs::write(ptx, text).map_err(CudaBuilderError::io("write", ptx))
    }

    fn copy(&self, ptx: &Path, destination: &Path) -> Result<PathBuf, CudaBuilderError> {
        if let Some(parent) = destination.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(CudaBuilderError::io("create", parent))?;
        }
        fs::copy(ptx, destination).map_err(CudaBuilderError::io("write", destination))?;
        if self.emit_llvm_ir {
            let ir = destination.with_extension("ll");
            fs::copy(ptx.with_extension("ll"), &ir).map_err(CudaBuilderError::io("write", &ir))?;
        }
        Ok(destination.to_owned())
    }
}

/// For every crate of any build.
const RUSTFLAGS: [&str; 2] = [
    // Panic locations would carry the paths of this machine into the PTX.
    "-Zlocation-detail=none",
    // Unlike LLVM's, this pass does not know which calls are convergent: it duplicates barriers into divergent branches.
    "-Zmir-enable-passes=-JumpThreading",
];

/// For every crate of a debug build: rustc 1.95 does not mark functions as convergent, as 1.96 does, so LLVM may duplicate calls of a function that
/// waits at a barrier. Inlined early enough, the barrier itself is left alone.
const DEBUG_RUSTFLAG: &str = "-Zinline-mir=yes";

/// For the kernel crate alone: there is nothing to link, the assembly is the product.
const RUSTC_ARGS: &[&str] = &["-Clinker=true"];

fn emit(kind: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(format!("--emit={kind}="));
    argument.push(path);
    argument
}

/// Returns whether a variable controls the cargo around a build script and must not reach the inner one.
fn is_of_outer_build(name: &str) -> bool {
    const KEPT: [&str; 6] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_"];
    const DROPPED: [&str; 8] =
        ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "MAKEFLAGS", "MFLAGS", "CLIPPY_"];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    starts(&DROPPED) && !starts(&KEPT)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_builds_variables_are_told_from_the_users() {
        for name in [
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_MAKEFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_PKG_NAME",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(is_of_outer_build(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_PROXY",
            "CARGO_REGISTRIES_MINE_INDEX",
            "RUSTUP_HOME",
            "PATH",
        ] {
            assert!(!is_of_outer_build(name), "{name}");
        }
    }

    #[test]
    fn the_recipe_tells_release_and_features_apart() {
        let builder = || CudaBuilder::new(".");
        assert_ne!(builder().recipe(), builder().release(false).recipe());
        assert_ne!(builder().recipe(), builder().build_args(&["--features", "a"]).recipe());
        assert_ne!(builder().recipe(), builder().cfg("a", "b").recipe());
        assert_eq!(builder().recipe(), builder().arch(Arch::Sm90).recipe());
    }
}
