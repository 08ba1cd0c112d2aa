//! The sparse formats on the host, each a type that is valid by construction.

mod blocks;
pub(crate) mod bsr;
pub(crate) mod compressed;
mod convert;
pub(crate) mod coo;
mod csc;
mod csr;
mod dense;
pub(crate) mod dia;
pub(crate) mod ell;
mod format;
pub(crate) mod hyb;
mod norms;
pub(crate) mod operations;
pub(crate) mod padded;
pub(crate) mod rows;
mod view;

pub use blocks::Blocks;
pub use bsr::BsrMatrix;
pub use coo::CooMatrix;
pub use csc::CscMatrix;
pub use csr::CsrMatrix;
pub use dia::DiaMatrix;
pub use ell::EllMatrix;
pub use format::{BlockSize, Format};
pub use hyb::HybMatrix;
pub(crate) use hyb::row_ends;
pub use view::{CooView, CscView, CsrView};
