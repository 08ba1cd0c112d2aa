//! The sparse formats on the host: each a type that is valid by construction.

mod coo;
mod csr;
mod dia;
mod ell;
mod hyb;
mod padded;
pub(crate) mod rows;

pub use coo::CooMatrix;
pub use csr::CsrMatrix;
pub use dia::DiaMatrix;
pub use ell::EllMatrix;
pub use hyb::HybMatrix;
