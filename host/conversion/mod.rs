//! The arrays of a matrix on a device, computed from those of another: conversions between the formats, transposes, canonical matrices, some of the entries.

pub(crate) mod from_csr;
mod operand;
mod selection;
mod to_csr;
mod transposed;

pub(crate) use operand::{Operand, copy_of, offsets_of};
pub(crate) use selection::{Rows, Selection, select, select_on_cpu};
pub(crate) use to_csr::{cast, copied, to_csr};
pub(crate) use transposed::{mirrored, placed, row_indices, transposed};
