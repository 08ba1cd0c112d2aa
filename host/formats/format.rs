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
    /// Square blocks by rows: [`BsrMatrix`](crate::BsrMatrix), with blocks of this size.
    Bsr(BlockSize),
}

/// The number of rows and columns of the blocks of a [`BsrMatrix`](crate::BsrMatrix).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockSize {
    /// The size that [`CsrMatrix::blocks`](crate::CsrMatrix::blocks) reports; where it reports none, the one with which the matrix takes the fewest bytes.
    #[default]
    Auto,
    /// This number: 2 to 8.
    Fixed(usize),
}
