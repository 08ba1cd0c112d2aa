//! What the PTX in this directory is made of: for the build script, `cargo xtask ptx` and the tests, which include it.

use std::path::Path;

use cuda_builder::{Arch, Prebuilt, SourceTree};

/// The architectures that PTX is checked in for.
pub(crate) const ARCHS: &[Arch] = &[Arch::Sm75, Arch::Sm80, Arch::Sm90];

/// The prebuilt PTX of the `warpsparse` package in `root`.
pub(crate) fn prebuilt(root: &Path) -> Prebuilt {
    let kernels = Path::new(kernels_gpu::SOURCE_DIR);
    Prebuilt::new(root.join("ptx"), kernels.parent().unwrap_or(kernels))
        .families(kernels_gpu::FAMILIES.iter().map(|family| family.name))
        .archs(ARCHS)
        .family_for(kernels_gpu::gemm_wgmma::FAMILY.name, Arch::Sm90a)
        .shared_sources(SourceTree::new("cuda-std", cuda_std::SOURCE_DIR).except(cuda_std::HOST_ONLY_SOURCES))
        .shared_sources(SourceTree::new("cuda-std-macros", cuda_std::MACROS_SOURCE_DIR))
}
