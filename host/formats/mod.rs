//! The sparse formats on the host: each a type that is valid by construction.

mod compressed;
mod convert;
mod coo;
mod csc;
mod csr;
mod dense;
mod norms;
mod operations;
mod view;

pub use coo::CooMatrix;
pub use csc::CscMatrix;
pub use csr::CsrMatrix;
pub use view::{CooView, CscView, CsrView};
