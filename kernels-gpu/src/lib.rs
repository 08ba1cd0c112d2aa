//! The GPU kernels of warpsparse, one file a family, and the facts that the host needs to launch them.
//!
//! A family is one PTX module, built with the one feature that names it. The host builds with all of them: it reads
//! the tables of facts, and can call the kernels as plain functions.
//!
//! The folders are those of the library. A family's name is unique among all, so its module stands at the root.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

// What families share. Each of them uses a part.
#[allow(dead_code)]
#[path = "primitives/atomic_add.rs"]
mod atomic_add;
#[allow(dead_code)]
#[path = "cg/cg_state.rs"]
pub mod cg_state;
#[allow(dead_code)]
#[path = "primitives/dense.rs"]
mod dense;
#[allow(unused_imports, unused_macros)]
#[path = "primitives/entries.rs"]
mod entries;
#[cfg(any(feature = "gemm_tiles", feature = "sgemm_ladder"))]
#[path = "gemm/gemm_args.rs"]
pub mod gemm_args;
#[allow(dead_code)]
#[path = "primitives/output.rs"]
mod output;
#[allow(dead_code, unreachable_pub)]
#[path = "primitives/row_sum.rs"]
mod row_sum;
#[allow(dead_code)]
#[path = "primitives/sums.rs"]
pub mod sums;
#[allow(unused_imports, unused_macros)]
#[path = "primitives/unroll.rs"]
mod unroll;
#[path = "primitives/variant.rs"]
mod variant;
pub mod vector;

#[cfg(feature = "cg_csr")]
#[path = "cg/cg_csr.rs"]
pub mod cg_csr;
#[cfg(feature = "cg_ladder")]
#[path = "ladders/cg_ladder.rs"]
pub mod cg_ladder;
#[cfg(feature = "cg_mixed")]
#[path = "cg/cg_mixed.rs"]
pub mod cg_mixed;
#[cfg(feature = "cg_persistent")]
#[path = "cg/cg_persistent.rs"]
pub mod cg_persistent;
#[cfg(feature = "cg_steps")]
#[path = "cg/cg_steps.rs"]
pub mod cg_steps;
#[cfg(feature = "csr_diagonal")]
#[path = "structure/csr_diagonal.rs"]
pub mod csr_diagonal;
#[cfg(feature = "csr_structure")]
#[path = "structure/csr_structure.rs"]
pub mod csr_structure;
#[cfg(feature = "dense_copy")]
pub mod dense_copy;
#[cfg(feature = "gemm_tiles")]
#[path = "gemm/gemm_tiles/mod.rs"]
pub mod gemm_tiles;
#[cfg(feature = "sgemm_ladder")]
#[path = "ladders/sgemm_ladder/mod.rs"]
pub mod sgemm_ladder;
#[cfg(feature = "spmm_atomic")]
#[path = "ladders/spmm_atomic.rs"]
pub mod spmm_atomic;
#[cfg(feature = "spmm_csr")]
#[path = "spmm/spmm_csr.rs"]
pub mod spmm_csr;
#[cfg(feature = "spmm_csr_reduce")]
#[path = "spmm/spmm_csr_reduce.rs"]
pub mod spmm_csr_reduce;
#[cfg(feature = "spmm_ladder")]
#[path = "ladders/spmm_ladder.rs"]
pub mod spmm_ladder;
#[cfg(any(feature = "spmm_csr", feature = "spmm_csr_reduce"))]
#[path = "spmm/spmm_rows.rs"]
pub mod spmm_rows;
#[cfg(feature = "spmv_coo")]
#[path = "spmv/spmv_coo.rs"]
pub mod spmv_coo;
#[cfg(feature = "spmv_csr_adaptive")]
#[path = "spmv/spmv_csr_adaptive.rs"]
pub mod spmv_csr_adaptive;
#[cfg(feature = "spmv_csr_scatter")]
#[path = "spmv/spmv_csr_scatter.rs"]
pub mod spmv_csr_scatter;
#[cfg(feature = "spmv_csr_vector")]
#[path = "spmv/spmv_csr_vector.rs"]
pub mod spmv_csr_vector;
#[cfg(feature = "spmv_dia")]
#[path = "spmv/spmv_dia.rs"]
pub mod spmv_dia;
#[cfg(feature = "spmv_ell")]
#[path = "spmv/spmv_ell.rs"]
pub mod spmv_ell;
#[cfg(feature = "vector_scale")]
#[path = "vector/vector_scale.rs"]
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
