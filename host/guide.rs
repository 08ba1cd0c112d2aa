//! A guide to the library: what to choose, what to expect, and what other libraries call it.
//!
//! 1. [`formats`]: which format a matrix should be in
//! 2. [`kernels`]: which kernel multiplies it, and what `describe()` says of that
//! 3. [`queues`]: queues, graphs, and what waits for what
//! 4. [`precision`]: element types, errors, and when results are the same to the last bit
//! 5. [`solvers`]: systems of equations, your own operators and methods
//! 6. [`without_a_gpu`]: the CPU, the emulator, and tests
//! 7. [`cheat_sheet`]: from nalgebra-sparse, sprs, faer and SciPy

#[doc = include_str!("../docs/guide/formats.md")]
pub mod formats {}
#[doc = include_str!("../docs/guide/kernels.md")]
pub mod kernels {}
#[doc = include_str!("../docs/guide/queues.md")]
pub mod queues {}
#[doc = include_str!("../docs/guide/precision.md")]
pub mod precision {}
#[doc = include_str!("../docs/guide/solvers.md")]
pub mod solvers {}
#[doc = include_str!("../docs/guide/without_a_gpu.md")]
pub mod without_a_gpu {}
#[doc = include_str!("../docs/guide/cheat_sheet.md")]
pub mod cheat_sheet {}
