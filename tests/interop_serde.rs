//! Matrices as documents, by the example of JSON: what is written, that it is read bit for bit, and that what is no
//! matrix is refused.

#[path = "common/properties.rs"]
mod properties;

use std::fmt::Debug;

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use warpsparse::{
    BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, DiaMatrix, EllMatrix, HybMatrix, Scalar, strategies::csr_matrix,
};

const PADDING: u32 = EllMatrix::<f64>::PADDING;

/// A document, which is read as this matrix and written again.
fn is_document<M: Serialize + DeserializeOwned + PartialEq + Debug>(matrix: &M, document: &Value) {
    assert_eq!(&serde_json::to_value(matrix).unwrap(), document);
    assert_eq!(&serde_json::from_value::<M>(document.clone()).unwrap(), matrix);
}

#[test]
fn documents_have_the_arguments_of_constructors() {
    // 2 0 1
    // 0 3 0
    let csr = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![2, 0, 1], vec![1.0f32, 2.0, 3.0]).unwrap();
    let document = json!({
        "nrows": 2, "ncols": 3, "row_offsets": [0, 2, 3], "col_indices": [2, 0, 1], "values": [1.0, 2.0, 3.0],
    });
    is_document(&csr, &document);
    is_document(&CsrMatrix::<f32, u64>::from(&csr), &document);
    is_document(
        &CscMatrix::from_transposed(csr.clone()),
        &json!({
            "nrows": 3, "ncols": 2, "col_offsets": [0, 2, 3], "row_indices": [2, 0, 1], "values": [1.0, 2.0, 3.0],
        }),
    );
    is_document(
        &CooMatrix::from(&csr),
        &json!({
            "nrows": 2, "ncols": 3, "row_indices": [0, 0, 1], "col_indices": [2, 0, 1], "values": [1.0, 2.0, 3.0],
        }),
    );
    is_document(
        &DiaMatrix::try_from_dia_data(2, 3, 4, vec![0, 2], vec![2.0f64, 3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]).unwrap(),
        &json!({
            "nrows": 2, "ncols": 3, "leading_dimension": 4, "offsets": [0, 2],
            "values": [2.0, 3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        }),
    );
    is_document(
        &BsrMatrix::try_from_bsr_data(2, 3, 2, vec![0, 2], vec![1, 0], vec![1.0f64, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0])
            .unwrap(),
        &json!({
            "nrows": 2, "ncols": 3, "block_size": 2, "block_row_offsets": [0, 2], "block_col_indices": [1, 0],
            "values": [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0],
        }),
    );
    let ell = EllMatrix::try_from_ell_data(2, 3, 1, 4, vec![2, 1, PADDING, PADDING], vec![1.0f64, 3.0, 0.0, 0.0]);
    let ell_document = json!({
        "nrows": 2, "ncols": 3, "width": 1, "leading_dimension": 4, "col_indices": [2, 1, PADDING, PADDING],
        "values": [1.0, 3.0, 0.0, 0.0],
    });
    is_document(ell.as_ref().unwrap(), &ell_document);
    let coo = CooMatrix::try_from_triplets(2, 3, vec![0], vec![0], vec![2.0]).unwrap();
    let coo_document = json!({ "nrows": 2, "ncols": 3, "row_indices": [0], "col_indices": [0], "values": [2.0] });
    is_document(
        &HybMatrix::try_from_parts(ell.unwrap(), coo).unwrap(),
        &json!({ "ell": ell_document, "coo": coo_document }),
    );
}

#[test]
fn extreme_numbers_are_read_bit_for_bit() {
    let values = [-0.0, 0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, -0.1, 1.0 / 3.0];
    let columns = vec![u32::MAX - 1; values.len()];
    let matrix = CsrMatrix::try_from_csr_data(1, u32::MAX as usize, vec![0, 7u64], columns, values.to_vec()).unwrap();
    let back: CsrMatrix<f64, u64> = serde_json::from_str(&serde_json::to_string(&matrix).unwrap()).unwrap();
    assert_eq!((back.ncols(), back.col_indices()), (matrix.ncols(), matrix.col_indices()));
    assert_eq!(back.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), values.map(f64::to_bits));
    // What JSON does not hold.
    let nan = CooMatrix::try_from_triplets(1, 1, vec![0], vec![0], vec![f32::NAN]).unwrap();
    let error = serde_json::from_str::<CooMatrix<f32>>(&serde_json::to_string(&nan).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "invalid type: null, expected f32 at line 1 column 71");
}

#[test]
fn matrices_without_entries_keep_their_shape() {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (3, 2)] {
        let csr = CsrMatrix::<f32>::try_from_csr_data(nrows, ncols, vec![0; nrows + 1], vec![], vec![]).unwrap();
        let back: CsrMatrix<f32> = serde_json::from_str(&serde_json::to_string(&csr).unwrap()).unwrap();
        assert_eq!((back.nrows(), back.ncols(), back.nnz()), (nrows, ncols, 0));
        every_format_is_read_as_it_was(&csr).unwrap();
    }
}

/// Why this is no document of such a matrix.
fn refused<M: DeserializeOwned + Debug>(document: Value) -> String {
    serde_json::from_value::<M>(document).unwrap_err().to_string()
}

/// `document` with another value of a field.
fn with(document: &Value, field: &str, value: Value) -> Value {
    let mut document = document.clone();
    document[field] = value;
    document
}

#[test]
fn broken_documents_are_refused() {
    let csr = json!({ "nrows": 2, "ncols": 3, "row_offsets": [0, 1, 2], "col_indices": [0, 2], "values": [1.0, 2.0] });
    serde_json::from_value::<CsrMatrix<f32>>(csr.clone()).unwrap();
    let problem = |field, value| refused::<CsrMatrix<f32>>(with(&csr, field, value));
    assert_eq!(problem("col_indices", json!([0, 3])), "invalid CSR matrix: entry 1, in row 1, is in column 3 of 3");
    assert_eq!(problem("row_offsets", json!([0, 3, 2])), "invalid CSR matrix: row 1 begins at 3 and ends at 2");
    let expected = "invalid CSR matrix: 0 row offsets for 2 rows, where there must be one more than rows";
    assert_eq!(problem("row_offsets", json!([])), expected);
    let expected = "invalid CSR matrix: 18446744073709551615 rows, and 32-bit indices reach 4294967295";
    assert_eq!(problem("nrows", json!(u64::MAX)), expected);
    assert_eq!(problem("ncols", json!(-1)), "invalid value: integer `-1`, expected usize");
    let expected = "invalid value: integer `4294967296`, expected u32";
    assert_eq!(problem("col_indices", json!([0, 1u64 << 32])), expected);
    assert_eq!(problem("row_offsets", json!([0, 1, 1u64 << 32])), expected);
    let wide = with(&csr, "row_offsets", json!([0, 1, 1u64 << 32]));
    let expected = "invalid CSR matrix: the last row offset is 4294967296, and there are 2 entries";
    assert_eq!(refused::<CsrMatrix<f32, u64>>(wide), expected);
    assert_eq!(refused::<CscMatrix<f32>>(csr), "missing field `col_offsets`");

    let csc = json!({ "nrows": 3, "ncols": 2, "col_offsets": [0, 1, 2], "row_indices": [0, 3], "values": [1.0, 2.0] });
    let expected = "invalid CSC matrix: entry 1, in column 1, is in row 3 of 3";
    assert_eq!(refused::<CscMatrix<f64>>(csc), expected);

    let coo = json!({ "nrows": 2, "ncols": 3, "row_indices": [0, 1], "col_indices": [0, 2], "values": [1.0, 2.0] });
    let problem = |field, value| refused::<CooMatrix<f64>>(with(&coo, field, value));
    assert_eq!(problem("row_indices", json!([2, 0])), "invalid COO matrix: entry 0 is in row 2 of 2");
    let expected = "invalid COO matrix: 2 row indices, 2 column indices and 1 values";
    assert_eq!(problem("values", json!([1.0])), expected);

    let dia = json!({ "nrows": 1, "ncols": 1, "leading_dimension": 4, "offsets": [0], "values": [1.0, 2.0, 0.0, 0.0] });
    let expected = "invalid DIA matrix: diagonal 0, row 1: 2 outside of a 1 x 1 matrix";
    assert_eq!(refused::<DiaMatrix<f64>>(dia.clone()), expected);
    let expected = "invalid DIA matrix: diagonal 0 has the offset -9223372036854775808, which a 1 x 1 matrix has not";
    assert_eq!(refused::<DiaMatrix<f64>>(with(&dia, "offsets", json!([i64::MIN]))), expected);

    let ell = json!({
        "nrows": 1, "ncols": 1, "width": 1, "leading_dimension": 4, "col_indices": [0, PADDING, PADDING, PADDING],
        "values": [1.0, 0.0, 0.0, 0.0],
    });
    serde_json::from_value::<EllMatrix<f64>>(ell.clone()).unwrap();
    let problem = |field, value| refused::<EllMatrix<f64>>(with(&ell, field, value));
    assert_eq!(problem("ncols", json!(0)), "invalid ELL matrix: row 0, slot 0: column 0 of 0");
    let expected = "invalid ELL matrix: 4 values for 18446744073709551615 columns of 4 slots";
    assert_eq!(problem("width", json!(u64::MAX)), expected);

    // A part that is no matrix, and parts that do not fit together.
    let hyb = |coo: &Value| refused::<HybMatrix<f64>>(json!({ "ell": ell, "coo": coo }));
    assert_eq!(hyb(&coo), "invalid HYB matrix: an ELL part of 1 x 1 and a COO part of 2 x 3");
    let broken = with(&coo, "ncols", json!(2));
    assert_eq!(hyb(&broken), "invalid COO matrix: entry 1 is in column 2 of 2");
}

fn is_read_as_it_was<M: Serialize + DeserializeOwned + PartialEq + Debug>(matrix: &M) -> Result<(), TestCaseError> {
    let document = serde_json::to_string(matrix).unwrap();
    let back: M = serde_json::from_str(&document).unwrap();
    prop_assert_eq!(&back, matrix);
    // Equal numbers may still be +0 and -0.
    prop_assert_eq!(serde_json::to_string(&back).unwrap(), document);
    Ok(())
}

fn every_format_is_read_as_it_was<T>(csr: &CsrMatrix<T>) -> Result<(), TestCaseError>
where
    T: Scalar + Serialize + DeserializeOwned,
{
    is_read_as_it_was(csr)?;
    is_read_as_it_was(&CsrMatrix::<T, u64>::from(csr))?;
    is_read_as_it_was(&CscMatrix::try_from(csr).unwrap())?;
    is_read_as_it_was(&CooMatrix::from(csr))?;
    is_read_as_it_was(&HybMatrix::from_csr_with_width(csr, 1).unwrap())?;
    // Those that would be padded beyond the limit are not made.
    if let Ok(dia) = DiaMatrix::try_from(csr) {
        is_read_as_it_was(&dia)?;
    }
    if let Ok(ell) = EllMatrix::try_from(csr) {
        is_read_as_it_was(&ell)?;
    }
    Ok(())
}

#[test]
fn random_matrices_are_read_as_they_were() {
    let cases = (csr_matrix::<f32>(), csr_matrix::<f64>());
    properties::check("interop_serde", 64, cases, |(single, double)| {
        every_format_is_read_as_it_was(&single)?;
        every_format_is_read_as_it_was(&double)
    });
}
