//! A guide to the library.
//!
//! 1. [`formats`]: choosing a matrix format
//! 2. [`kernels`]: the kernels, their names, and how to override the choice
//! 3. [`streams`]: streams, graphs, and which calls wait
//! 4. [`precision`]: element types, error bounds and reproducibility
//! 5. [`solvers`]: solving systems, and writing operators and solvers
//! 6. [`programs`]: a preconditioner, a graph network's layer, PageRank and power iteration, each in less than 30 lines
//! 7. [`without_a_gpu`]: the CPU, the emulator, and tests
//! 8. [`cheat_sheet`]: for users of nalgebra-sparse, sprs, faer and SciPy

#[doc = include_str!("../docs/guide/formats.md")]
pub mod formats {}
#[doc = include_str!("../docs/guide/kernels.md")]
pub mod kernels {}
#[doc = include_str!("../docs/guide/streams.md")]
pub mod streams {}
#[doc = include_str!("../docs/guide/precision.md")]
pub mod precision {}
#[doc = include_str!("../docs/guide/solvers.md")]
pub mod solvers {}
#[doc = include_str!("../docs/guide/programs.md")]
pub mod programs {}
#[doc = include_str!("../docs/guide/without_a_gpu.md")]
pub mod without_a_gpu {}
#[doc = include_str!("../docs/guide/cheat_sheet.md")]
pub mod cheat_sheet {}
