//! The sparse formats on the host: each a type that is valid by construction.

mod coo;
mod csr;
#[cfg(feature = "io")]
pub(crate) mod rows;

pub use coo::CooMatrix;
pub use csr::CsrMatrix;
