//! The crates of kernels whose PTX is checked in.

use std::path::Path;

use cuda_builder::{Arch, Prebuilt};
use kernels_gpu::Family;

#[path = "../../ladders/ptx/prebuilt.rs"]
mod ladders;
#[path = "../../ptx/prebuilt.rs"]
mod library;

pub(crate) use library::ARCHS;

/// The PTX of a crate of kernels.
pub(crate) struct Kept {
    pub(crate) prebuilt: Prebuilt,
    pub(crate) families: &'static [Family],
    /// The architectures whose machine code is kept.
    pub(crate) cubins: &'static [Arch],
}

/// The library's PTX, with machine code for the GPUs of compute capability 9.x that it is measured on, and that of the ladders. Drivers compile the rest.
pub(crate) fn kept(root: &Path) -> [Kept; 2] {
    let library = library::prebuilt(root);
    let ladders = ladders::prebuilt(&root.join("ladders"));
    [
        Kept { prebuilt: library, families: kernels_gpu::FAMILIES, cubins: &[Arch::Sm90, Arch::Sm90a] },
        Kept { prebuilt: ladders, families: ladder_kernels::FAMILIES, cubins: &[] },
    ]
}
