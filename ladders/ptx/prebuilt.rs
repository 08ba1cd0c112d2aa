//! What the PTX in this directory is made of: for the build script, `cargo xtask ptx` and the tests, which include it.

use std::path::Path;

use cuda_builder::{Arch, Prebuilt, SourceTree};

/// The architectures that PTX is checked in for: the oldest, and the first that copies asynchronously.
pub(crate) const ARCHS: &[Arch] = &[Arch::Sm75, Arch::Sm80];

/// The prebuilt PTX of the `warpsparse-ladders` package in `root`.
pub(crate) fn prebuilt(root: &Path) -> Prebuilt {
    let kernels = Path::new(ladder_kernels::SOURCE_DIR);
    // What the kernels share with those of the library, but not the library's families.
    let families = kernels_gpu::FAMILIES.iter().map(|family| family.name);
    Prebuilt::new(root.join("ptx"), kernels.parent().unwrap_or(kernels))
        .families(ladder_kernels::FAMILIES.iter().map(|family| family.name))
        .archs(ARCHS)
        .shared_sources(SourceTree::new("kernels-gpu", kernels_gpu::SOURCE_DIR).except_modules(families))
        .shared_sources(SourceTree::new("cuda-std", cuda_std::SOURCE_DIR).except(cuda_std::HOST_ONLY_SOURCES))
        .shared_sources(SourceTree::new("cuda-std-macros", cuda_std::MACROS_SOURCE_DIR))
}
