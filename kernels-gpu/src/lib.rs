//! The GPU kernels of warpsparse, one file a family, and the facts that the host needs to launch them.
//!
//! A family is one PTX module, built with `--cfg kernel_family="NAME"`, which leaves out the modules of all others. The host
//! has all of them: it reads the tables of facts, and can call the kernels as plain functions.
//!
//! The folders are those of the library. A family's name is unique among all, so its module stands at the root, wherever its
//! file lies. Symbols contain module paths, and LLVM orders functions by symbol: a module that moves may get other registers in its PTX.
//!
//! The macros [`args!`], [`family!`] and [`unroll!`] and the modules that families share serve other crates of kernels too, which depend on
//! this one and on `cuda_std`.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![cfg_attr(kernel_family = "half_precision", feature(f16))]
// No family uses all that families share.
#![cfg_attr(target_arch = "nvptx64", allow(dead_code, unreachable_pub))]

// What families share.
#[path = "primitives/args.rs"]
pub mod args;
#[path = "primitives/arrival.rs"]
mod arrival;
#[path = "primitives/atomic_add.rs"]
pub mod atomic_add;
#[path = "cg/cg_elements.rs"]
pub mod cg_elements;
#[path = "cg/cg_rows.rs"]
pub mod cg_rows;
#[path = "cg/cg_state.rs"]
pub mod cg_state;
#[path = "primitives/csr_rows.rs"]
pub mod csr_rows;
#[path = "primitives/dense.rs"]
pub mod dense;
#[path = "primitives/epilogue.rs"]
mod epilogue;
#[path = "primitives/family.rs"]
mod family;
#[path = "gemm/gemm_args.rs"]
pub mod gemm_args;
#[path = "gemm/gemm_block/mod.rs"]
pub mod gemm_block;
#[path = "primitives/grid.rs"]
mod grid;
#[path = "primitives/lanes.rs"]
mod lanes;
#[path = "primitives/philox.rs"]
pub mod philox;
#[path = "primitives/radix.rs"]
pub mod radix;
#[path = "primitives/row_sum.rs"]
mod row_sum;
#[path = "algebra/spgemm_common.rs"]
pub mod spgemm_common;
#[path = "algebra/spgemm_sorted.rs"]
pub mod spgemm_sorted;
#[path = "spmm/spmm_rows.rs"]
pub mod spmm_rows;
#[path = "primitives/summand.rs"]
pub mod summand;
#[path = "primitives/sums.rs"]
pub mod sums;
#[path = "primitives/tile_prefix.rs"]
mod tile_prefix;
#[path = "primitives/types.rs"]
mod types;
#[path = "primitives/unroll.rs"]
mod unroll;
mod vector {
    //! Operations on dense vectors: the kernels behind `DeviceVec`.
    //!
    //! Most are bounded by the memory. A thread moves 16 bytes per access where every array is aligned to 16 bytes, and one element
    //! per access where one is not, as in a slice. Gather, scatter and casts always move one element per access.
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "bicgstab"))]
    #[path = "../krylov/bicgstab.rs"]
    pub mod bicgstab;
    pub(crate) mod chunk;
    pub mod factor;
    pub mod math;
    mod reduction;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_axpby"))]
    pub mod vector_axpby;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_basis"))]
    pub mod vector_basis;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_compare"))]
    pub mod vector_compare;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_map"))]
    pub mod vector_map;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_move"))]
    pub mod vector_move;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_random"))]
    pub mod vector_random;
    #[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_reduce"))]
    pub mod vector_reduce;
}

#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "adam"))]
#[path = "learning/adam.rs"]
pub mod adam;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "aggregation"))]
#[path = "reorder/aggregation.rs"]
pub mod aggregation;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "amg_aggregates"))]
#[path = "amg/amg_aggregates.rs"]
pub mod amg_aggregates;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "amg_diagonals"))]
#[path = "amg/amg_diagonals.rs"]
pub mod amg_diagonals;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "amg_strength"))]
#[path = "amg/amg_strength.rs"]
pub mod amg_strength;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "amg_sweep"))]
#[path = "amg/amg_sweep.rs"]
pub mod amg_sweep;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "amg_tentative"))]
#[path = "amg/amg_tentative.rs"]
pub mod amg_tentative;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "block_cg"))]
#[path = "cg/block_cg/mod.rs"]
pub mod block_cg;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "block_jacobi"))]
#[path = "preconditioner/block_jacobi.rs"]
pub mod block_jacobi;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "breadth_first"))]
#[path = "reorder/breadth_first.rs"]
pub mod breadth_first;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "bsr_to_csr"))]
#[path = "algebra/bsr_to_csr.rs"]
pub mod bsr_to_csr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "bsr_values"))]
#[path = "stored/bsr_values.rs"]
pub mod bsr_values;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cg_csr"))]
#[path = "cg/cg_csr.rs"]
pub mod cg_csr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cg_mixed"))]
#[path = "cg/cg_mixed.rs"]
pub mod cg_mixed;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cg_persistent"))]
#[path = "cg/cg_persistent.rs"]
pub mod cg_persistent;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cg_ranks"))]
#[path = "cg/cg_ranks.rs"]
pub mod cg_ranks;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cg_steps"))]
#[path = "cg/cg_steps.rs"]
pub mod cg_steps;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "clustering"))]
#[path = "reorder/clustering.rs"]
pub mod clustering;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "compact"))]
#[path = "primitives/compact.rs"]
pub mod compact;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "components"))]
#[path = "reorder/components.rs"]
pub mod components;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cross_entropy"))]
#[path = "learning/cross_entropy.rs"]
pub mod cross_entropy;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_canonical"))]
#[path = "stored/csr_canonical.rs"]
pub mod csr_canonical;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_kronecker"))]
#[path = "algebra/csr_kronecker.rs"]
pub mod csr_kronecker;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_merge"))]
#[path = "algebra/csr_merge.rs"]
pub mod csr_merge;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_select"))]
#[path = "algebra/csr_select.rs"]
pub mod csr_select;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_sort_rows"))]
#[path = "algebra/csr_sort_rows.rs"]
pub mod csr_sort_rows;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_structure"))]
#[path = "structure/csr_structure.rs"]
pub mod csr_structure;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_to_bsr"))]
#[path = "algebra/csr_to_bsr.rs"]
pub mod csr_to_bsr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_to_coo"))]
#[path = "algebra/csr_to_coo.rs"]
pub mod csr_to_coo;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_to_dia"))]
#[path = "algebra/csr_to_dia.rs"]
pub mod csr_to_dia;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_to_ell"))]
#[path = "algebra/csr_to_ell.rs"]
pub mod csr_to_ell;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "csr_transpose"))]
#[path = "algebra/csr_transpose.rs"]
pub mod csr_transpose;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "cuthill_mckee"))]
#[path = "reorder/cuthill_mckee.rs"]
pub mod cuthill_mckee;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "dense_copy"))]
#[path = "dense/dense_copy.rs"]
pub mod dense_copy;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "dropout"))]
#[path = "learning/dropout.rs"]
pub mod dropout;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "edge_softmax"))]
#[path = "graph/edge_softmax.rs"]
pub mod edge_softmax;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "gemm_dmma"))]
#[path = "gemm/gemm_dmma/mod.rs"]
pub mod gemm_dmma;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "gemm_tf32"))]
#[path = "gemm/gemm_tf32/mod.rs"]
pub mod gemm_tf32;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "gemm_tiles"))]
#[path = "gemm/gemm_tiles/mod.rs"]
pub mod gemm_tiles;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "gemm_wgmma"))]
#[path = "gemm/gemm_wgmma/mod.rs"]
pub mod gemm_wgmma;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "gmres"))]
#[path = "krylov/gmres.rs"]
pub mod gmres;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "graph_attention"))]
#[path = "graph/graph_attention/mod.rs"]
pub mod graph_attention;
#[cfg(any(
    not(target_arch = "nvptx64"),
    kernel_family = "edge_softmax",
    kernel_family = "graph_attention",
    kernel_family = "graph_pieces",
    kernel_family = "half_precision",
    kernel_family = "sddmm",
    kernel_family = "spmm_heads"
))]
#[path = "graph/graph_lists.rs"]
pub mod graph_lists;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "graph_pieces"))]
#[path = "graph/graph_pieces.rs"]
pub mod graph_pieces;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "half_precision"))]
#[path = "graph/half_precision/mod.rs"]
pub mod half_precision;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "histogram"))]
#[path = "primitives/histogram.rs"]
pub mod histogram;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "ilu"))]
#[path = "triangular/ilu.rs"]
pub mod ilu;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "map_backward"))]
#[path = "learning/map_backward.rs"]
pub mod map_backward;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "matrix_diagonal"))]
#[path = "stored/matrix_diagonal.rs"]
pub mod matrix_diagonal;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "matrix_scale"))]
#[path = "stored/matrix_scale.rs"]
pub mod matrix_scale;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "padded_to_csr"))]
#[path = "algebra/padded_to_csr.rs"]
pub mod padded_to_csr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "prefix_sum"))]
#[path = "primitives/prefix_sum.rs"]
pub mod prefix_sum;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "radix_count"))]
#[path = "primitives/radix_count.rs"]
pub mod radix_count;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "radix_sort"))]
#[path = "primitives/radix_sort.rs"]
pub mod radix_sort;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "row_levels"))]
#[path = "triangular/row_levels.rs"]
pub mod row_levels;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "run_sums"))]
#[path = "primitives/run_sums.rs"]
pub mod run_sums;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "sddmm"))]
#[path = "graph/sddmm.rs"]
pub mod sddmm;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_bitmap"))]
#[path = "algebra/spgemm_bitmap.rs"]
pub mod spgemm_bitmap;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_gather"))]
#[path = "algebra/spgemm_gather.rs"]
pub mod spgemm_gather;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_hash"))]
#[path = "algebra/spgemm_hash.rs"]
pub mod spgemm_hash;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_rows"))]
#[path = "algebra/spgemm_rows.rs"]
pub mod spgemm_rows;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_short"))]
#[path = "algebra/spgemm_short.rs"]
pub mod spgemm_short;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_triple"))]
#[path = "algebra/spgemm_triple.rs"]
pub mod spgemm_triple;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spgemm_values"))]
#[path = "algebra/spgemm_values.rs"]
pub mod spgemm_values;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmm_bsr"))]
#[path = "spmm/spmm_bsr.rs"]
pub mod spmm_bsr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmm_csr"))]
#[path = "spmm/spmm_csr.rs"]
pub mod spmm_csr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmm_csr_reduce"))]
#[path = "spmm/spmm_csr_reduce.rs"]
pub mod spmm_csr_reduce;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmm_heads"))]
#[path = "graph/spmm_heads.rs"]
pub mod spmm_heads;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_bsr"))]
#[path = "spmv/spmv_bsr.rs"]
pub mod spmv_bsr;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_coo"))]
#[path = "spmv/spmv_coo.rs"]
pub mod spmv_coo;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_csr_adaptive"))]
#[path = "spmv/spmv_csr_adaptive.rs"]
pub mod spmv_csr_adaptive;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_csr_packed"))]
#[path = "spmv/spmv_csr_packed.rs"]
pub mod spmv_csr_packed;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_csr_scatter"))]
#[path = "spmv/spmv_csr_scatter.rs"]
pub mod spmv_csr_scatter;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_csr_vector"))]
#[path = "spmv/spmv_csr_vector.rs"]
pub mod spmv_csr_vector;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_dia"))]
#[path = "spmv/spmv_dia.rs"]
pub mod spmv_dia;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "spmv_ell"))]
#[path = "spmv/spmv_ell.rs"]
pub mod spmv_ell;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "triplets"))]
#[path = "algebra/triplets.rs"]
pub mod triplets;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "trsv"))]
#[path = "triangular/trsv.rs"]
pub mod trsv;
#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "vector_scale"))]
#[path = "vector/vector_scale.rs"]
pub mod vector_scale;

#[cfg(not(target_arch = "nvptx64"))]
pub use family::{Entry, Family};
pub use summand::{ElementType, Summand};
pub use types::{DType, ELL_PADDING, Offset, Scalar};
pub use vector::*;

/// Every family, in the order of the names.
#[cfg(not(target_arch = "nvptx64"))]
pub const FAMILIES: &[Family] = &[
    adam::FAMILY,
    aggregation::FAMILY,
    amg_aggregates::FAMILY,
    amg_diagonals::FAMILY,
    amg_strength::FAMILY,
    amg_sweep::FAMILY,
    amg_tentative::FAMILY,
    bicgstab::FAMILY,
    block_cg::FAMILY,
    block_jacobi::FAMILY,
    breadth_first::FAMILY,
    bsr_to_csr::FAMILY,
    bsr_values::FAMILY,
    cg_csr::FAMILY,
    cg_mixed::FAMILY,
    cg_persistent::FAMILY,
    cg_ranks::FAMILY,
    cg_steps::FAMILY,
    clustering::FAMILY,
    compact::FAMILY,
    components::FAMILY,
    cross_entropy::FAMILY,
    csr_canonical::FAMILY,
    csr_kronecker::FAMILY,
    csr_merge::FAMILY,
    csr_select::FAMILY,
    csr_sort_rows::FAMILY,
    csr_structure::FAMILY,
    csr_to_bsr::FAMILY,
    csr_to_coo::FAMILY,
    csr_to_dia::FAMILY,
    csr_to_ell::FAMILY,
    csr_transpose::FAMILY,
    cuthill_mckee::FAMILY,
    dense_copy::FAMILY,
    dropout::FAMILY,
    edge_softmax::FAMILY,
    gemm_dmma::FAMILY,
    gemm_tf32::FAMILY,
    gemm_tiles::FAMILY,
    gemm_wgmma::FAMILY,
    gmres::FAMILY,
    graph_attention::FAMILY,
    graph_pieces::FAMILY,
    half_precision::FAMILY,
    histogram::FAMILY,
    ilu::FAMILY,
    map_backward::FAMILY,
    matrix_diagonal::FAMILY,
    matrix_scale::FAMILY,
    padded_to_csr::FAMILY,
    prefix_sum::FAMILY,
    radix_count::FAMILY,
    radix_sort::FAMILY,
    row_levels::FAMILY,
    run_sums::FAMILY,
    sddmm::FAMILY,
    spgemm_bitmap::FAMILY,
    spgemm_gather::FAMILY,
    spgemm_hash::FAMILY,
    spgemm_rows::FAMILY,
    spgemm_short::FAMILY,
    spgemm_triple::FAMILY,
    spgemm_values::FAMILY,
    spmm_bsr::FAMILY,
    spmm_csr::FAMILY,
    spmm_csr_reduce::FAMILY,
    spmm_heads::FAMILY,
    spmv_bsr::FAMILY,
    spmv_coo::FAMILY,
    spmv_csr_adaptive::FAMILY,
    spmv_csr_packed::FAMILY,
    spmv_csr_scatter::FAMILY,
    spmv_csr_vector::FAMILY,
    spmv_dia::FAMILY,
    spmv_ell::FAMILY,
    triplets::FAMILY,
    trsv::FAMILY,
    vector_axpby::FAMILY,
    vector_basis::FAMILY,
    vector_compare::FAMILY,
    vector_map::FAMILY,
    vector_move::FAMILY,
    vector_random::FAMILY,
    vector_reduce::FAMILY,
    vector_scale::FAMILY,
];

/// The directory of this crate's sources, for tools that hash or rebuild kernels.
pub const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
