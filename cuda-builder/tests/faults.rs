//! Builds kernels with faults. It takes a kernel toolchain, so it is ignored unless asked for:
//! `cargo test -p warpsparse-cuda-builder -- --include-ignored`.

use std::{fs, path::Path};

use cuda_builder::{Arch, CudaBuilder, CudaBuilderError, Fault};
use tempfile::TempDir;

const MANIFEST: &str = r#"
[package]
name = "faulty-kernels"
version = "0.1.0"
edition = "2024"

[features]
parts = []
exchanges = []
declares = []

[workspace]
"#;

const SOURCE: &str = r#"
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, stdarch_nvptx)]

use core::arch::{asm, nvptx::{_syncthreads, _thread_idx_x, trap}};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { trap() }
}

/// Wrong: threads from `n` on do not wait.
#[cfg(feature = "parts")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn parts(n: usize, x: *mut u32) {
    unsafe {
        let i = _thread_idx_x() as usize;
        if i < n {
            x.add(i).write_volatile(1);
            _syncthreads();
            x.add(i).write_volatile(x.read_volatile());
        }
    }
}

/// Right, but rustc's jump threading makes two barriers of it: one where the condition is true, one where it is false.
#[cfg(feature = "exchanges")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn exchanges(n: usize, x: *mut u32) {
    unsafe {
        let i = _thread_idx_x() as usize;
        let has_element = i < n;
        if has_element {
            x.add(i).write_volatile(1);
        }
        _syncthreads();
        if has_element {
            x.add(i).write_volatile(x.read_volatile());
        }
    }
}

#[cfg(feature = "declares")]
#[inline(always)]
fn array() -> u32 {
    let address;
    unsafe {
        asm!("// cuda_std::shared_array {1} 64", "{{ .shared .b8 array[64]; mov.u32 {0}, array; }}", out(reg32) address, const 7u64 << 32 | 66);
    }
    address
}

/// Wrong: the array is inlined twice.
#[cfg(feature = "declares")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn declares(x: *mut u32) {
    unsafe {
        *x = array();
        *x.add(1) = array();
    }
}
"#;

/// One target directory for all tests and runs: `core` is compiled once.
fn builder(krate: &Path, feature: &str) -> CudaBuilder {
    fs::create_dir_all(krate.join("src")).unwrap();
    fs::write(krate.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(krate.join("src/lib.rs"), SOURCE).unwrap();
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-builder");
    CudaBuilder::new(krate).arch(Arch::Sm80).target_dir(target_dir).build_args(&["--features", feature])
}

fn faults(builder: CudaBuilder) -> Vec<Fault> {
    match builder.build().unwrap_err() {
        CudaBuilderError::Faults { faults, .. } => faults,
        other => panic!("{other}"),
    }
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn a_divergent_barrier_is_refused() {
    let krate = TempDir::new().unwrap();
    let builder = builder(krate.path(), "parts");
    for _ in 0..2 {
        let found = faults(builder.clone());
        let [fault @ Fault::DivergentBarrier { function, barrier, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((function.as_str(), barrier.instruction.as_str()), ("parts", "bar.sync 0"));
        let message = fault.to_string();
        assert!(message.contains("%tid.x"), "{message}");
    }
    let ptx = builder.allow_faults(true).build().unwrap();
    assert!(fs::read_to_string(ptx).unwrap().contains("bar.sync"));
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn barriers_are_not_duplicated() {
    let krate = TempDir::new().unwrap();
    for release in [true, false] {
        let ptx = builder(krate.path(), "exchanges").release(release).build().unwrap();
        assert_eq!(fs::read_to_string(ptx).unwrap().matches("bar.sync").count(), 1);
    }
}

#[test]
#[ignore = "needs a kernel toolchain"]
fn a_duplicated_array_is_refused() {
    let krate = TempDir::new().unwrap();
    let builder = builder(krate.path(), "declares");
    let expected = [Fault::DuplicatedArray { function: "declares".to_owned(), line: 66, bytes: 64, copies: 2 }];
    for _ in 0..2 {
        assert_eq!(faults(builder.clone()), expected);
    }
    let ptx = fs::read_to_string(builder.allow_faults(true).build().unwrap()).unwrap();
    assert!(!ptx.contains("cuda_std"), "{ptx}");
}
