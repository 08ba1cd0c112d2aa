//! The GPU kernels of warpsparse, one file a family, and the facts that the host needs to launch them.
//!
//! A family is one PTX module, built with the one feature that names it. The host builds with all of them: it reads
//! the tables of facts, and can call the kernels as plain functions.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

// What families share. Each of them uses a part.
#[allow(dead_code)]
mod atomic_add;
#[allow(dead_code)]
pub mod cg_state;
#[allow(dead_code)]
mod dense;
#[allow(unused_imports, unused_macros)]
mod entries;
#[cfg(any(feature = "gemm_tiles", feature = "sgemm_ladder"))]
pub mod gemm_args;
#[allow(dead_code)]
mod output;
#[allow(dead_code, unreachable_pub)]
mod row_sum;
#[allow(dead_code)]
pub mod sums;
#[allow(unused_imports, unused_macros)]
mod unroll;
mod variant;
pub mod vector;

#[cfg(feature = "cg_csr")]
pub mod cg_csr;
#[cfg(feature = "cg_ladder")]
pub mod cg_ladder;
#[cfg(feature = "cg_mixed")]
pub mod cg_mixed;
#[cfg(feature = "cg_persistent")]
pub mod cg_persistent;
#[cfg(feature = "cg_steps")]
pub mod cg_steps;
#[cfg(feature = "csr_diagonal")]
pub mod csr_diagonal;
#[cfg(feature = "csr_structure")]
pub mod csr_structure;
#[cfg(feature = "dense_copy")]
pub mod dense_copy;
#[cfg(feature = "gemm_tiles")]
pub mod gemm_tiles;
#[cfg(feature = "sgemm_ladder")]
pub mod sgemm_ladder;
#[cfg(feature = "spmm_atomic")]
pub mod spmm_atomic;
#[cfg(feature = "spmm_csr")]
pub mod spmm_csr;
#[cfg(feature = "spmm_csr_reduce")]
pub mod spmm_csr_reduce;
#[cfg(feature = "spmm_ladder")]
pub mod spmm_ladder;
#[cfg(any(feature = "spmm_csr", feature = "spmm_csr_reduce"))]
pub mod spmm_rows;
#[cfg(feature = "spmv_coo")]
pub mod spmv_coo;
#[cfg(feature = "spmv_csr_adaptive")]
pub mod spmv_csr_adaptive;
#[cfg(feature = "spmv_csr_scatter")]
pub mod spmv_csr_scatter;
#[cfg(feature = "spmv_csr_vector")]
pub mod spmv_csr_vector;
#[cfg(feature = "spmv_dia")]
pub mod spmv_dia;
#[cfg(feature = "spmv_ell")]
pub mod spmv_ell;
#[cfg(feature = "vector_scale")]
pub mod vector_scale;

pub use variant::{DType, Family, Offset, Scalar, Variant};

/// Every family that this build holds, in the order of the file names.
pub const FAMILIES: &[Family] = &[
    #[cfg(feature = "cg_csr")]
    Family { name: "cg_csr", variants: cg_csr::VARIANTS },
    #[cfg(feature = "cg_ladder")]
    Family { name: "cg_ladder", variants: cg_ladder::VARIANTS },
    #[cfg(feature = "cg_mixed")]
    Family { name: "cg_mixed", variants: cg_mixed::VARIANTS },
    #[cfg(feature = "cg_persistent")]
    Family { name: "cg_persistent", variants: cg_persistent::VARIANTS },
    #[cfg(feature = "cg_steps")]
    Family { name: "cg_steps", variants: cg_steps::VARIANTS },
    #[cfg(feature = "csr_diagonal")]
    Family { name: "csr_diagonal", variants: csr_diagonal::VARIANTS },
    #[cfg(feature = "csr_structure")]
    Family { name: "csr_structure", variants: csr_structure::VARIANTS },
    #[cfg(feature = "dense_copy")]
    Family { name: "dense_copy", variants: dense_copy::VARIANTS },
    #[cfg(feature = "gemm_tiles")]
    Family { name: "gemm_tiles", variants: gemm_tiles::VARIANTS },
    #[cfg(feature = "sgemm_ladder")]
    Family { name: "sgemm_ladder", variants: sgemm_ladder::VARIANTS },
    #[cfg(feature = "spmm_atomic")]
    Family { name: "spmm_atomic", variants: spmm_atomic::VARIANTS },
    #[cfg(feature = "spmm_csr")]
    Family { name: "spmm_csr", variants: spmm_csr::VARIANTS },
    #[cfg(feature = "spmm_csr_reduce")]
    Family { name: "spmm_csr_reduce", variants: spmm_csr_reduce::VARIANTS },
    #[cfg(feature = "spmm_ladder")]
    Family { name: "spmm_ladder", variants: spmm_ladder::VARIANTS },
    #[cfg(feature = "spmv_coo")]
    Family { name: "spmv_coo", variants: spmv_coo::VARIANTS },
    #[cfg(feature = "spmv_csr_adaptive")]
    Family { name: "spmv_csr_adaptive", variants: spmv_csr_adaptive::VARIANTS },
    #[cfg(feature = "spmv_csr_scatter")]
    Family { name: "spmv_csr_scatter", variants: spmv_csr_scatter::VARIANTS },
    #[cfg(feature = "spmv_csr_vector")]
    Family { name: "spmv_csr_vector", variants: spmv_csr_vector::VARIANTS },
    #[cfg(feature = "spmv_dia")]
    Family { name: "spmv_dia", variants: spmv_dia::VARIANTS },
    #[cfg(feature = "spmv_ell")]
    Family { name: "spmv_ell", variants: spmv_ell::VARIANTS },
    #[cfg(feature = "vector_axpby")]
    Family { name: "vector_axpby", variants: vector::vector_axpby::VARIANTS },
    #[cfg(feature = "vector_map")]
    Family { name: "vector_map", variants: vector::vector_map::VARIANTS },
    #[cfg(feature = "vector_move")]
    Family { name: "vector_move", variants: vector::vector_move::VARIANTS },
    #[cfg(feature = "vector_random")]
    Family { name: "vector_random", variants: vector::vector_random::VARIANTS },
    #[cfg(feature = "vector_reduce")]
    Family { name: "vector_reduce", variants: vector::vector_reduce::VARIANTS },
    #[cfg(feature = "vector_scale")]
    Family { name: "vector_scale", variants: vector_scale::VARIANTS },
];

/// The directory of this crate's sources, for tools that hash or rebuild kernels.
pub const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
