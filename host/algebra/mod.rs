//! Operations whose results are sparse matrices.

pub(crate) mod spgemm;
