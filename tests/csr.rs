//! CSR matrices on the host: what is refused, and offsets of 32 and 64 bits.

use warpsparse::{CsrMatrix, ErrorKind, Offset};

/// What is wrong with the 2 x 3 matrix of these arrays.
fn problem<O: Offset>(row_offsets: Vec<O>, columns: Vec<u32>) -> String {
    let values = vec![1.0f32; columns.len()];
    let error = CsrMatrix::try_from_csr_data(2, 3, row_offsets, columns, values).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.to_string().strip_prefix("invalid CSR matrix: ").expect("the prefix").to_owned()
}

fn broken_structure_is_refused<O: Offset>() {
    let offsets = |offsets: &[u32]| offsets.iter().map(|&offset| O::from(offset)).collect::<Vec<_>>();
    let expected = "2 row offsets for 2 rows, where there must be one more than rows";
    assert_eq!(problem(offsets(&[0, 1]), vec![0]), expected);
    assert_eq!(problem(offsets(&[1, 1, 1]), vec![0]), "the first row offset is 1, not 0");
    assert_eq!(problem(offsets(&[0, 2, 1]), vec![0]), "row 1 begins at 2 and ends at 1");
    assert_eq!(
        problem(offsets(&[0, 1, u32::MAX]), vec![0]),
        "the last row offset is 4294967295, and there are 1 entries"
    );
    assert_eq!(problem(offsets(&[0, 1, 2]), vec![0, 3]), "entry 1, in row 1, is in column 3 of 3");
}

#[test]
fn broken_structure_is_refused_32() {
    broken_structure_is_refused::<u32>();
}

#[test]
fn broken_structure_is_refused_64() {
    broken_structure_is_refused::<u64>();
    let last = |offset: u64| format!("the last row offset is {offset}, and there are 1 entries");
    assert_eq!(problem(vec![0, 1, u64::MAX], vec![0]), last(u64::MAX));
    // One entry, in the low 32 bits.
    assert_eq!(problem(vec![0u64, 1, (1 << 32) + 1], vec![0]), last((1 << 32) + 1));
    assert_eq!(problem(vec![0, u64::MAX, 1], vec![0]), format!("row 1 begins at {} and ends at 1", u64::MAX));
}

#[test]
#[cfg(target_pointer_width = "64")]
fn dimensions_beyond_32_bits_are_refused() {
    for (nrows, ncols, what) in [(1 << 32, 1, "rows"), (usize::MAX, 1, "rows"), (0, 1 << 32, "columns")] {
        let error = CsrMatrix::<f64, u64>::try_from_csr_data(nrows, ncols, vec![0], vec![], vec![]).unwrap_err();
        let size = nrows.max(ncols);
        let expected = format!("invalid CSR matrix: {size} {what}, and 32-bit indices reach 4294967295");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn offsets_widen_and_narrow() {
    let matrix = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0]).unwrap();
    let wide = CsrMatrix::<f32, u64>::from(&matrix);
    assert_eq!(wide.row_offsets(), [0u64, 2, 3]);
    assert!(wide.triplets().eq(matrix.triplets()));
    assert_eq!(wide.structure(), matrix.structure());
    // Columns and values are shared, not copied.
    assert_eq!(wide.col_indices().as_ptr(), matrix.col_indices().as_ptr());
    assert_eq!(wide.values().as_ptr(), matrix.values().as_ptr());
    let narrow = CsrMatrix::<f32>::try_from(&wide).unwrap();
    assert_eq!(narrow, matrix);
    assert_eq!(narrow.values().as_ptr(), matrix.values().as_ptr());
}

#[test]
fn arrays_come_back() {
    let arrays = (vec![0u64, 2, 3], vec![0u32, 2, 1], vec![1.0f64, 2.0, 3.0]);
    let (offsets, columns, values) = arrays.clone();
    let place = values.as_ptr();
    let matrix = CsrMatrix::try_from_csr_data(2, 3, offsets, columns, values).unwrap();
    assert_eq!(matrix.clone().into_csr_data(), arrays);
    // What nobody shares is not copied.
    let (_, _, values) = matrix.into_csr_data();
    assert_eq!(values.as_ptr(), place);
}
