//! The names of the formats.

/// A sparse format, for [`DeviceMatrix::convert`](crate::DeviceMatrix::convert).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Compressed rows: [`CsrMatrix`](crate::CsrMatrix).
    Csr,
    /// Compressed columns: [`CscMatrix`](crate::CscMatrix).
    Csc,
    /// Triplets sorted by row: [`CooMatrix`](crate::CooMatrix).
    Coo,
    /// Diagonals: [`DiaMatrix`](crate::DiaMatrix).
    Dia,
    /// As many slots in every row: [`EllMatrix`](crate::EllMatrix).
    Ell,
    /// ELL for the length of most rows, COO for the remaining entries: [`HybMatrix`](crate::HybMatrix).
    Hyb,
}
