//! Serialisation of matrices as maps from the names of the constructor's arguments to their values.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{Offset, Scalar};

/// A document is a map of the dimensions and then the arrays, by the names of the accessors, in the order of the
/// constructor's arguments.
macro_rules! documents {
    ($matrix:ident<T $(, $offset:ident)?>, $new:ident, $($dimension:ident)*, $($array:ident: $element:ty),*) => {
        /// Serialises the arguments of the checking constructor as a map. Copies no array. Values that the data format
        /// cannot represent are lost: JSON has no NaN and no infinities.
        impl<T: Scalar + Serialize $(, $offset: Offset + Serialize)?> Serialize for crate::$matrix<T $(, $offset)?> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct $matrix<'a, T $(, $offset)?> {
                    $($dimension: usize,)*
                    $($array: &'a [$element],)*
                }
                let document = $matrix { $($dimension: self.$dimension(),)* $($array: self.$array(),)* };
                document.serialize(serializer)
            }
        }

        /// Validates the matrix like its constructor; the error names the first violation.
        impl<'de, T, $($offset)?> Deserialize<'de> for crate::$matrix<T $(, $offset)?>
        where
            T: Scalar + Deserialize<'de>,
            $($offset: Offset + Deserialize<'de>,)?
        {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                struct $matrix<T $(, $offset)?> {
                    $($dimension: usize,)*
                    $($array: Vec<$element>,)*
                }
                let document = $matrix::deserialize(deserializer)?;
                Self::$new($(document.$dimension,)* $(document.$array,)*).map_err(D::Error::custom)
            }
        }
    };
}
documents!(CooMatrix<T>, try_from_triplets, nrows ncols, row_indices: u32, col_indices: u32, values: T);
documents!(CsrMatrix<T, O>, try_from_csr_data, nrows ncols, row_offsets: O, col_indices: u32, values: T);
documents!(CscMatrix<T, O>, try_from_csc_data, nrows ncols, col_offsets: O, row_indices: u32, values: T);
documents!(
    BsrMatrix<T>, try_from_bsr_data, nrows ncols block_size,
    block_row_offsets: u32, block_col_indices: u32, values: T
);
documents!(DiaMatrix<T>, try_from_dia_data, nrows ncols leading_dimension, offsets: i64, values: T);
documents!(EllMatrix<T>, try_from_ell_data, nrows ncols width leading_dimension, col_indices: u32, values: T);

/// Serialises the two parts as a map.
impl<T: Scalar + Serialize> Serialize for crate::HybMatrix<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(bound = "T: Scalar + Serialize")]
        struct HybMatrix<'a, T> {
            ell: &'a crate::EllMatrix<T>,
            coo: &'a crate::CooMatrix<T>,
        }
        HybMatrix { ell: self.ell(), coo: self.coo() }.serialize(serializer)
    }
}

/// Validates the parts, and the matrix like its constructor; the error names the first violation.
impl<'de, T: Scalar + Deserialize<'de>> Deserialize<'de> for crate::HybMatrix<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound = "T: Scalar + Deserialize<'de>")]
        struct HybMatrix<T> {
            ell: crate::EllMatrix<T>,
            coo: crate::CooMatrix<T>,
        }
        let document = HybMatrix::deserialize(deserializer)?;
        Self::try_from_parts(document.ell, document.coo).map_err(D::Error::custom)
    }
}
