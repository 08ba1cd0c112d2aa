//! Conversions from and to the matrices of other libraries. Each is a feature.

#[cfg(any(feature = "nalgebra-sparse", feature = "sprs"))]
mod arrays;
#[cfg(feature = "nalgebra-sparse")]
mod nalgebra_sparse;
#[cfg(feature = "sprs")]
mod sprs;
