//! Reading, writing and generating matrices.
//!
//! ```no_run
//! use warpsparse::{CsrMatrix, io::MatrixSource};
//!
//! let a = CsrMatrix::<f32>::read_matrix_market("bcsstk16.mtx.gz")?;
//! let laplacian = "gen:poisson2d:2048".parse::<MatrixSource>()?.load::<f64>()?;
//! laplacian.write_matrix_market("laplacian.mtx.gz")?;
//! # Ok::<(), warpsparse::Error>(())
//! ```

pub mod generate;
mod matrix_market;
mod source;

pub use matrix_market::MatrixMarketReader;
pub use source::{Generator, MatrixSource};
