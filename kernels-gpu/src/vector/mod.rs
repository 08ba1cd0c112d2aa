//! Operations on dense vectors: the kernels behind `DeviceVec`.
//!
//! Most are bounded by the memory. A thread moves 16 bytes per access where every array is aligned to 16 bytes, and one element per access
//! where one is not, as in a slice. Gather, scatter and casts always move one element per access.

// What the families share. Each of them uses a part.
#[allow(dead_code)]
mod chunk;
#[allow(dead_code)]
pub mod factor;
#[allow(dead_code)]
pub mod math;
#[allow(dead_code)]
mod reduction;

#[cfg(feature = "vector_axpby")]
pub mod vector_axpby;
#[cfg(feature = "vector_map")]
pub mod vector_map;
#[cfg(feature = "vector_move")]
pub mod vector_move;
#[cfg(feature = "vector_random")]
pub mod vector_random;
#[cfg(feature = "vector_reduce")]
pub mod vector_reduce;
