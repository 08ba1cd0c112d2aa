//! Operations whose results are sparse matrices on a device.

mod kronecker;
mod merge;
mod select;
pub(crate) mod spgemm;
pub(crate) mod symmetric;
mod transpose;
mod triple;
mod triplets;
