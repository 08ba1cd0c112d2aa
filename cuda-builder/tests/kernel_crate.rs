//! Builds a small kernel crate from end to end. It takes a kernel toolchain and most of a minute, so it is ignored unless
//! asked for: `cargo test -p warpsparse-cuda-builder -- --include-ignored`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cuda_builder::{Arch, CudaBuilder, CudaBuilderError, PtxInfo};
use tempfile::TempDir;

const MANIFEST: &str = r#"
[package]
name = "tiny-kernels"
version = "0.1.0"
edition = "2024"

[features]
scale = []
pick = []
default = []

# None of this may reach the PTX.
[profile.release]
opt-level = 0
lto = "off"
debug = 2
overflow-checks = true

[profile.release.package.tiny-kernels]
opt-level = 0
codegen-units = 4
debug = 2
debug-assertions = true
overflow-checks = true

[workspace]
"#;

const SOURCE: &str = r#"
#![no_std]
#![feature(abi_ptx)]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[cfg(feature = "scale")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scale(factor: u32, data: *mut u32) {
    unsafe { *data = *data * factor + 1 }
}

static TABLE: [u32; 4] = [2, 3, 5, 7];

#[cfg(feature = "pick")]
#[inline(never)]
fn look_up(index: usize) -> u32 {
    TABLE[index]
}

#[cfg(feature = "pick")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn pick(index: usize, out: *mut u32) {
    unsafe { *out = look_up(index) + core::panic::Location::caller().file().len() as u32 }
}
"#;

fn kernel_crate(dir: &Path, source: &str) -> PathBuf {
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(dir.join("src/lib.rs"), source).unwrap();
    dir.to_owned()
}

/// One target directory for all tests and runs: `core` is compiled once.
fn builder(krate: &Path, features: &str) -> CudaBuilder {
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-builder");
    CudaBuilder::new(krate).arch(Arch::Sm80).target_dir(target_dir).build_args(&["--features", features])
}

fn entries(ptx: &Path) -> Vec<(String, u32)> {
    PtxInfo::read(ptx).unwrap().entries.into_iter().collect()
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn each_set_of_features_gives_its_own_ptx() {
    let dir = TempDir::new().unwrap();
    let krate = kernel_crate(dir.path(), SOURCE);
    let copy = dir.path().join("out/kernels.ptx");
    for (feature, bytes) in [("scale", 16), ("pick", 16), ("scale", 16)] {
        let ptx = builder(&krate, feature).copy_to(&copy).emit_llvm_ir(true).build().unwrap();
        assert_eq!(ptx, copy);
        assert_eq!(entries(&ptx), [(feature.to_owned(), bytes)]);
        assert_eq!(PtxInfo::read(&ptx).unwrap().target, "sm_80");
        assert!(fs::read_to_string(copy.with_extension("ll")).unwrap().contains("nvptx64"));
    }
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn the_ptx_does_not_depend_on_where_the_crate_lies() {
    let dir = TempDir::new().unwrap();
    let build = |path: &str| {
        let krate = kernel_crate(&dir.path().join(path), SOURCE);
        fs::read_to_string(builder(&krate, "scale,pick").build().unwrap()).unwrap()
    };
    let ptx = build("here");
    assert_eq!(ptx, build("some/where/else"));
    assert!(!ptx.contains(&*dir.path().to_string_lossy()) && !ptx.contains(".rs"), "{ptx}");
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn checks_are_compiled_in_only_where_release_is_off() {
    let dir = TempDir::new().unwrap();
    let krate = kernel_crate(dir.path(), SOURCE);
    let overflow = |release| {
        let ptx = builder(&krate, "scale").release(release).build().unwrap();
        fs::read_to_string(ptx).unwrap().contains("panic_const")
    };
    assert!(!overflow(true));
    assert!(overflow(false));
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn a_compile_error_is_shown_as_rustc_reports_it() {
    let dir = TempDir::new().unwrap();
    let krate = kernel_crate(dir.path(), &SOURCE.replace("*data * factor", "*data * missing"));
    let message = builder(&krate, "scale").build().unwrap_err().to_string();
    assert!(message.contains("does not compile for sm_80"), "{message}");
    assert!(message.contains("cannot find value `missing`") && message.contains("src/lib.rs"), "{message}");
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn a_crate_without_kernels_is_an_error() {
    let dir = TempDir::new().unwrap();
    let krate = kernel_crate(dir.path(), SOURCE);
    let error = builder(&krate, "default").build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::NoEntries(_)), "{error}");
}
