//! Conversions from and to the matrices of other libraries, and documents of matrices. Each is a feature.

#[cfg(any(feature = "nalgebra-sparse", feature = "sprs"))]
mod arrays;
#[cfg(feature = "nalgebra-sparse")]
mod nalgebra_sparse;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "sprs")]
mod sprs;
