//! The GPU kernels of warpsparse, one file a family, and the facts that the host needs to launch them.
//!
//! A family is one PTX module, built with the one feature that names it. The host builds with all of them: it reads
//! the tables of facts, and can call the kernels as plain functions.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

#[cfg(any(feature = "spmv_csr_adaptive", feature = "spmv_csr_vector"))]
mod row_sum;
#[cfg(any(feature = "spmv_csr_adaptive", feature = "spmv_csr_vector"))]
mod unroll;
mod variant;

#[cfg(feature = "csr_structure")]
pub mod csr_structure;
#[cfg(feature = "spmv_csr_adaptive")]
pub mod spmv_csr_adaptive;
#[cfg(feature = "spmv_csr_vector")]
pub mod spmv_csr_vector;

pub use variant::{DType, Family, Offset, Scalar, Variant};

/// Every family that this build holds, in the order of the file names.
pub const FAMILIES: &[Family] = &[
    #[cfg(feature = "csr_structure")]
    Family { name: "csr_structure", variants: csr_structure::VARIANTS },
    #[cfg(feature = "spmv_csr_adaptive")]
    Family { name: "spmv_csr_adaptive", variants: spmv_csr_adaptive::VARIANTS },
    #[cfg(feature = "spmv_csr_vector")]
    Family { name: "spmv_csr_vector", variants: spmv_csr_vector::VARIANTS },
];

/// The directory of this crate's sources, for tools that hash or rebuild kernels.
pub const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
