//! What a tensor map describes, checked on the host.

use core::fmt;

use super::{Swizzle, TensorMap};

/// The type of a matrix's elements, as bulk copies know it: they only move the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 2 bytes.
    F16,
    /// 2 bytes.
    Bf16,
    /// 4 bytes. Products take them as TF32.
    F32,
    /// 8 bytes.
    F64,
}

impl ElementType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// A matrix in global memory, and the boxes that are copied of it: what `cuTensorMapEncodeTiled` is to be given for two dimensions, with steps of 1 between elements and
/// zeros outside of the matrix.
///
/// A matrix of columns is described as its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    /// The address of the first element on the device, a multiple of 16.
    pub address: u64,
    /// The type of the elements.
    pub element: ElementType,
    /// Rows of the matrix, 1 to 2^32.
    pub rows: u64,
    /// Elements of a row, 1 to 2^32.
    pub columns: u64,
    /// Bytes from a row to the next: a multiple of 16 below 2^40, no less than the bytes of a row.
    pub row_stride_bytes: u64,
    /// Rows of a box, 1 to 256.
    pub box_rows: u32,
    /// Columns of a box, 1 to 256. Their bytes are a multiple of 16, and with a swizzle as many as a row of it has.
    pub box_columns: u32,
    /// The swizzle of boxes in shared memory.
    pub swizzle: Swizzle,
}

/// What of a [`TensorLayout`] no tensor map can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorMapError {
    /// The address is not a multiple of 16 bytes.
    Address(u64),
    /// The matrix has no or more than 2^32 rows or columns.
    Size {
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
    },
    /// The stride is no multiple of 16 bytes, 2^40 or more, or less than a row.
    Stride {
        /// The stride, in bytes.
        stride: u64,
        /// The bytes of a row.
        row: u64,
    },
    /// A box has no or more than 256 rows or columns.
    BoxSize {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// The bytes of a box's row are no multiple of 16, or not as many as a row of the swizzle.
    BoxWidth {
        /// The bytes of a box's row.
        bytes: u32,
        /// The swizzle.
        swizzle: Swizzle,
    },
}

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "the address {address:#x} is not a multiple of 16 bytes"),
            Self::Size { rows, columns } => {
                write!(f, "a matrix of {rows} x {columns}, where a tensor map takes 1 to 2^32 rows and columns")
            }
            Self::Stride { stride, row } => write!(
                f,
                "{stride} bytes from a row to the next, where a tensor map takes multiples of 16 below 2^40, and a row has {row}"
            ),
            Self::BoxSize { rows, columns } => {
                write!(f, "boxes of {rows} x {columns}, where a tensor map takes 1 to 256 rows and columns")
            }
            Self::BoxWidth { bytes, swizzle: Swizzle::None } => {
                write!(f, "rows of a box have {bytes} bytes, which is not a multiple of 16")
            }
            Self::BoxWidth { bytes, swizzle } => {
                write!(f, "rows of a box have {bytes} bytes, where the swizzle needs {}", swizzle.row_bytes())
            }
        }
    }
}

impl core::error::Error for TensorMapError {}

/// The first word of a map for the emulator, so that others are told from it.
const MARK: u64 = 0x7465_6e73_6f72_3264;

impl TensorLayout {
    /// Checks what tensor maps demand.
    ///
    /// # Errors
    /// The first demand that is not met.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let &Self { address, rows, columns, row_stride_bytes: stride, box_rows, box_columns, swizzle, .. } = self;
        let sizes = 1..=1 << 32;
        if !address.is_multiple_of(16) {
            return Err(TensorMapError::Address(address));
        }
        if !sizes.contains(&rows) || !sizes.contains(&columns) {
            return Err(TensorMapError::Size { rows, columns });
        }
        let row = columns * u64::from(self.element.bytes());
        if !stride.is_multiple_of(16) || stride >= 1 << 40 || stride < row {
            return Err(TensorMapError::Stride { stride, row });
        }
        let sizes = 1..=256;
        if !sizes.contains(&box_rows) || !sizes.contains(&box_columns) {
            return Err(TensorMapError::BoxSize { rows: box_rows, columns: box_columns });
        }
        let bytes = self.box_row_bytes();
        if !bytes.is_multiple_of(16) || swizzle != Swizzle::None && bytes != swizzle.row_bytes() {
            return Err(TensorMapError::BoxWidth { bytes, swizzle });
        }
        Ok(())
    }

    /// Bytes of a row of a box.
    #[must_use]
    pub const fn box_row_bytes(&self) -> u32 {
        self.box_columns * self.element.bytes()
    }

    /// Bytes of a box: what a copy of one brings, also where parts of it are outside of the matrix.
    #[must_use]
    pub const fn box_bytes(&self) -> u32 {
        self.box_rows * self.box_row_bytes()
    }

    /// The map for kernels in the emulator. Those for a GPU are made by its driver, which the library does not call yet.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn emulated(&self) -> Result<TensorMap, TensorMapError> {
        self.check()?;
        let mut words = [0; 16];
        words[..9].copy_from_slice(&[
            MARK,
            self.address,
            self.element as u64,
            self.rows,
            self.columns,
            self.row_stride_bytes,
            u64::from(self.box_rows),
            u64::from(self.box_columns),
            self.swizzle as u64,
        ]);
        Ok(TensorMap::from_words(words))
    }

    /// What an emulated map describes; None for other words.
    pub(crate) fn of_emulated(words: [u64; 16]) -> Option<Self> {
        let [mark, address, element, rows, columns, row_stride_bytes, box_rows, box_columns, swizzle, ..] = words;
        let element = [ElementType::F16, ElementType::Bf16, ElementType::F32, ElementType::F64].get(element as usize);
        let swizzle = Swizzle::ALL.get(swizzle as usize);
        let layout = Self {
            address,
            element: *element?,
            rows,
            columns,
            row_stride_bytes,
            box_rows: box_rows as u32,
            box_columns: box_columns as u32,
            swizzle: *swizzle?,
        };
        (mark == MARK && layout.check().is_ok()).then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: TensorLayout = TensorLayout {
        address: 4096,
        element: ElementType::F32,
        rows: 100,
        columns: 50,
        row_stride_bytes: 208,
        box_rows: 64,
        box_columns: 32,
        swizzle: Swizzle::Bytes128,
    };

    #[test]
    fn maps_round_trip() {
        for swizzle in Swizzle::ALL {
            for element in [ElementType::F16, ElementType::Bf16, ElementType::F32, ElementType::F64] {
                let (box_columns, row_stride_bytes) = (swizzle.row_bytes() / element.bytes(), 400);
                let layout = TensorLayout { element, swizzle, box_columns, row_stride_bytes, ..LAYOUT };
                let words = *layout.emulated().unwrap().words();
                assert_eq!(TensorLayout::of_emulated(words), Some(layout));
            }
        }
        assert_eq!(TensorLayout::of_emulated([0; 16]), None);
        assert_eq!((LAYOUT.box_row_bytes(), LAYOUT.box_bytes()), (128, 8192));
    }

    #[test]
    fn each_demand_has_its_error() {
        let error = |layout: TensorLayout| layout.emulated().expect_err("no map has this");
        let check = |layout: TensorLayout, expected: TensorMapError, text: &str| {
            assert_eq!(error(layout), expected);
            assert!(expected.to_string().contains(text), "{expected}");
        };
        check(TensorLayout { address: 4104, ..LAYOUT }, TensorMapError::Address(4104), "0x1008");
        for (rows, columns) in [(0, 50), (100, 0), ((1 << 32) + 1, 50), (100, (1 << 32) + 1)] {
            check(TensorLayout { rows, columns, ..LAYOUT }, TensorMapError::Size { rows, columns }, "2^32");
        }
        for stride in [200, 192, 1 << 40] {
            let layout = TensorLayout { row_stride_bytes: stride, ..LAYOUT };
            check(layout, TensorMapError::Stride { stride, row: 200 }, "a row has 200");
        }
        for (rows, columns) in [(0, 32), (257, 32), (64, 0), (64, 257)] {
            let layout = TensorLayout { box_rows: rows, box_columns: columns, ..LAYOUT };
            check(layout, TensorMapError::BoxSize { rows, columns }, "1 to 256");
        }
        let layout = TensorLayout { box_columns: 16, ..LAYOUT };
        let expected = TensorMapError::BoxWidth { bytes: 64, swizzle: Swizzle::Bytes128 };
        check(layout, expected, "the swizzle needs 128");
        let layout = TensorLayout { box_columns: 5, swizzle: Swizzle::None, ..LAYOUT };
        check(layout, TensorMapError::BoxWidth { bytes: 20, swizzle: Swizzle::None }, "multiple of 16");
    }
}
