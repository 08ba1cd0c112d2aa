//! Published kernels, rung by rung, that those of warpsparse are compared with: a family a file, as in `kernels_gpu`.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod cg_ladder;
pub mod sgemm_ladder;
pub mod spmm_atomic;
pub mod spmm_ladder;

/// Every family, in the order of the names.
#[cfg(not(target_arch = "nvptx64"))]
pub const FAMILIES: &[kernels_gpu::Family] =
    &[cg_ladder::FAMILY, sgemm_ladder::FAMILY, spmm_atomic::FAMILY, spmm_ladder::FAMILY];

/// The directory of this crate's sources, for tools that hash or rebuild kernels.
pub const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
