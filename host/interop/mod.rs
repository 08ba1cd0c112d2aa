//! Conversions from and to the matrices of other libraries. Each is a feature.

#[cfg(feature = "nalgebra-sparse")]
mod arrays;
#[cfg(feature = "nalgebra-sparse")]
mod nalgebra_sparse;
