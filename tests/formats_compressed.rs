//! COO, CSR and CSC on the host: what is refused, views, and conversions from one format to another.

use std::fmt::Debug;

use warpsparse::{CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, ErrorKind, Offset, Result};

/// As offsets of either width.
fn offsets<O: Offset>(offsets: &[u32]) -> Vec<O> {
    offsets.iter().map(|&offset| O::from(offset)).collect()
}

/// The text of an error, after its beginning.
fn problem<M: Debug>(format: &str, refused: Result<M>) -> String {
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let prefix = format!("invalid {format} matrix: ");
    error.to_string().strip_prefix(&prefix).expect("the prefix").to_owned()
}

/// What is wrong with a 3 x 2 matrix by columns; the same whether the arrays are owned or borrowed.
fn csc_problem<O: Offset>(col_offsets: &[O], rows: &[u32]) -> String {
    let values = vec![1.0f32; rows.len()];
    let found = problem("CSC", CscView::try_from_csc_data(3, 2, col_offsets, rows, &values));
    let owned = CscMatrix::try_from_csc_data(3, 2, col_offsets.to_vec(), rows.to_vec(), values);
    assert_eq!(problem("CSC", owned), found);
    found
}

fn broken_csc_is_refused<O: Offset>() {
    let refused = |offset: &[u32], rows: &[u32]| csc_problem(&offsets::<O>(offset), rows);
    assert_eq!(refused(&[0, 1], &[0]), "2 column offsets for 2 columns, where there must be one more than columns");
    assert_eq!(refused(&[], &[]), "0 column offsets for 2 columns, where there must be one more than columns");
    assert_eq!(refused(&[1, 1, 1], &[0]), "the first column offset is 1, not 0");
    assert_eq!(refused(&[0, 2, 1], &[0]), "column 1 begins at 2 and ends at 1");
    assert_eq!(refused(&[0, 1, 3], &[0, 0]), "the last column offset is 3, and there are 2 entries");
    assert_eq!(refused(&[0, 1, 3], &[0, 2, 3]), "entry 2, in column 1, is in row 3 of 3");
    // Entries of column 1 stand behind the empty column 0.
    assert_eq!(refused(&[0, 0, 2], &[7, 8]), "entry 0, in column 1, is in row 7 of 3");
    let lengths = CscMatrix::<f32, O>::try_from_csc_data(3, 2, offsets(&[0, 1, 1]), vec![0], vec![1.0, 2.0]);
    assert_eq!(problem("CSC", lengths), "1 row indices and 2 values");
}

#[test]
fn broken_csc_is_refused_32() {
    broken_csc_is_refused::<u32>();
}

#[test]
fn broken_csc_is_refused_64() {
    broken_csc_is_refused::<u64>();
    // One entry, in the low 32 bits.
    let expected = "the last column offset is 4294967297, and there are 1 entries";
    assert_eq!(csc_problem(&[0u64, 1, (1 << 32) + 1], &[0]), expected);
    assert_eq!(csc_problem(&[0, u64::MAX, 1], &[0]), format!("column 1 begins at {} and ends at 1", u64::MAX));
}

#[test]
fn broken_csr_views_are_refused() {
    let view = |row_offsets: &[u32], columns: &[u32]| {
        problem("CSR", CsrView::try_from_csr_data(2, 3, row_offsets, columns, &vec![1.0f64; columns.len()]))
    };
    assert_eq!(view(&[], &[]), "0 row offsets for 2 rows, where there must be one more than rows");
    assert_eq!(view(&[0, 2, 1], &[0]), "row 1 begins at 2 and ends at 1");
    assert_eq!(view(&[0, 0, 2], &[2, 3]), "entry 1, in row 1, is in column 3 of 3");
    let lengths = CsrView::try_from_csr_data(1, 1, &[0u64, 1], &[0, 0], &[1.0f32]);
    assert_eq!(problem("CSR", lengths), "2 column indices and 1 values");
}

#[test]
fn broken_triplets_are_refused() {
    let refused = |rows: &[u32], columns: &[u32], values: &[f32]| {
        let found = problem("COO", CooView::try_from_triplets(2, 3, rows, columns, values));
        let owned = CooMatrix::try_from_triplets(2, 3, rows.to_vec(), columns.to_vec(), values.to_vec());
        assert_eq!(problem("COO", owned), found);
        found
    };
    assert_eq!(refused(&[0], &[0, 1], &[1.0, 2.0]), "1 row indices, 2 column indices and 2 values");
    assert_eq!(refused(&[0, 1], &[0], &[1.0, 2.0]), "2 row indices, 1 column indices and 2 values");
    assert_eq!(refused(&[0, 2, 3], &[0, 9, 0], &[1.0; 3]), "entry 1 is in row 2 of 2");
    assert_eq!(refused(&[0, 1, 1], &[0, 2, 3], &[1.0; 3]), "entry 2 is in column 3 of 3");
}

#[test]
#[cfg(target_pointer_width = "64")]
fn dimensions_beyond_32_bits_are_refused() {
    for (nrows, ncols, what) in
        [(1 << 32, 1, "rows"), (usize::MAX, 1, "rows"), (0, 1 << 32, "columns"), (0, usize::MAX, "columns")]
    {
        let expected = format!("{} {what}, and 32-bit indices reach 4294967295", nrows.max(ncols));
        let csc = CscMatrix::<f64, u64>::try_from_csc_data(nrows, ncols, vec![0], vec![], vec![]);
        assert_eq!(problem("CSC", csc), expected);
        assert_eq!(problem("CSR", CsrView::<f64, u64>::try_from_csr_data(nrows, ncols, &[0], &[], &[])), expected);
        assert_eq!(problem("COO", CooView::<f64>::try_from_triplets(nrows, ncols, &[], &[], &[])), expected);
    }
}

/// By rows: duplicates at (1, 3), columns out of order in row 1, row 2 empty, an explicit zero at (3, 0).
///
/// ```text
/// 1 . 2 .
/// . 3 . 9    9 = 4 + 5
/// . . . .
/// 0 . . .
/// ```
fn example<O: Offset>() -> CsrMatrix<f32, O> {
    let values = vec![1.0, 2.0, 4.0, 3.0, 5.0, 0.0];
    CsrMatrix::try_from_csr_data(4, 4, offsets(&[0, 2, 5, 5, 6]), vec![0, 2, 3, 1, 3, 0], values).unwrap()
}

fn csr_and_csc_lead_to_one_another<O: Offset>() {
    let csc = CscMatrix::try_from(&example::<O>()).unwrap();
    assert_eq!((csc.nrows(), csc.ncols(), csc.nnz()), (4, 4, 6));
    assert_eq!(csc.col_offsets(), offsets::<O>(&[0, 2, 3, 4, 6]));
    assert_eq!(csc.row_indices(), [0, 3, 1, 0, 1, 1]);
    assert_eq!(csc.values(), [1.0, 0.0, 3.0, 2.0, 4.0, 5.0]);
    assert_eq!(csc.col_range(0), 0..2);
    assert_eq!(csc.col(3), (&[1, 1][..], &[4.0, 5.0][..]));
    assert_eq!(csc.cols().map(|(rows, _)| rows.len()).collect::<Vec<_>>(), [2, 1, 1, 2]);
    let triplets = [(0, 0, 1.0), (3, 0, 0.0), (1, 1, 3.0), (0, 2, 2.0), (1, 3, 4.0), (1, 3, 5.0)];
    assert!(csc.triplets().eq(triplets));

    let csr = CsrMatrix::try_from(&csc).unwrap();
    assert_eq!(csr.row_offsets(), offsets::<O>(&[0, 2, 5, 5, 6]));
    assert_eq!(csr.col_indices(), [0, 2, 1, 3, 3, 0]);
    assert_eq!(csr.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]);
    assert_eq!(csc.cast::<f64>().values(), [1.0, 0.0, 3.0, 2.0, 4.0, 5.0]);
}

#[test]
fn csr_and_csc_lead_to_one_another_32() {
    csr_and_csc_lead_to_one_another::<u32>();
}

#[test]
fn csr_and_csc_lead_to_one_another_64() {
    csr_and_csc_lead_to_one_another::<u64>();
}

#[test]
fn csc_shares_the_arrays_of_the_transpose() {
    let values = vec![1.0, 2.0, 3.0];
    let csr = CsrMatrix::try_from_csr_data(2, 3, vec![0u64, 2, 3], vec![0, 2, 1], values).unwrap();
    let csc = CscMatrix::from_transposed(csr.clone());
    assert_eq!((csc.nrows(), csc.ncols()), (3, 2));
    assert!(csc.triplets().eq([(0, 0, 1.0f32), (2, 0, 2.0), (1, 1, 3.0)]));
    assert_eq!(csc.values().as_ptr(), csr.values().as_ptr());
    assert_eq!(csc.as_transposed(), &csr);
    let narrow = CscMatrix::<f32>::try_from(&csc).unwrap();
    assert_eq!(narrow.col_offsets(), [0u32, 2, 3]);
    assert_eq!(narrow.row_indices().as_ptr(), csr.col_indices().as_ptr());
    assert_eq!(CscMatrix::<f32, u64>::from(&narrow), csc);
}

#[test]
fn triplets_lead_to_rows_and_columns_and_back() {
    let (rows, columns) = (vec![3, 1, 0, 1, 0, 1], vec![0, 3, 2, 1, 0, 3]);
    let coo = CooMatrix::try_from_triplets(4, 4, rows, columns, vec![0.0f32, 4.0, 2.0, 3.0, 1.0, 5.0]).unwrap();
    let csr = CsrMatrix::try_from(&coo).unwrap();
    assert!(csr.triplets().eq([(0, 0, 1.0), (0, 2, 2.0), (1, 1, 3.0), (1, 3, 9.0), (3, 0, 0.0)]));
    let csc = CscMatrix::try_from(&coo).unwrap();
    let by_column = [(0, 0, 1.0), (3, 0, 0.0), (1, 1, 3.0), (0, 2, 2.0), (1, 3, 9.0)];
    assert!(csc.triplets().eq(by_column));

    assert!(CooMatrix::from(&csc).triplets().eq(by_column));
    assert!(CooMatrix::from(&csr).triplets().eq(csr.triplets()));
    let (wide_csr, wide_csc) = (CsrMatrix::<f32, u64>::from(&csr), CscMatrix::<f32, u64>::from(&csc));
    assert_eq!(CooMatrix::try_from(&wide_csr).unwrap(), CooMatrix::from(&csr));
    assert_eq!(CooMatrix::try_from(&wide_csc).unwrap(), CooMatrix::from(&csc));
}

#[test]
fn triplets_sort_by_row() {
    let coo =
        CooMatrix::try_from_triplets(3, 2, vec![2, 0, 2, 0, 2], vec![1, 1, 0, 0, 1], vec![1.0, 2.0, 3.0, 4.0, 5.0]);
    let coo = coo.unwrap();
    assert!(!coo.is_row_sorted());
    let sorted = coo.sorted_by_row().unwrap();
    assert!(sorted.is_row_sorted() && sorted.as_view().is_row_sorted());
    // The entries of a row in their old order, duplicates too.
    assert!(sorted.triplets().eq([(0, 1, 2.0), (0, 0, 4.0), (2, 1, 1.0), (2, 0, 3.0), (2, 1, 5.0)]));
    let transpose = coo.transpose();
    assert_eq!((transpose.nrows(), transpose.ncols()), (2, 3));
    assert!(transpose.triplets().eq([(1, 2, 1.0), (1, 0, 2.0), (0, 2, 3.0), (0, 0, 4.0), (1, 2, 5.0)]));
}

#[test]
fn views_read_what_they_borrow() {
    let (row_offsets, columns, values) = ([0u64, 2, 2, 3], [2, 0, 1], [1.0f64, 2.0, 3.0]);
    // What they give outlives them.
    let (row, triplets) = {
        let view = CsrView::try_from_csr_data(3, 3, &row_offsets, &columns, &values).unwrap();
        assert_eq!((view.nrows(), view.ncols(), view.nnz(), view.row_range(2)), (3, 3, 3, 2..3));
        assert_eq!(view.rows().map(|(columns, _)| columns.len()).collect::<Vec<_>>(), [2, 0, 1]);
        (view.row(0), view.triplets())
    };
    assert_eq!(row, (&[2, 0][..], &[1.0, 2.0][..]));
    assert!(triplets.eq([(0, 2, 1.0), (0, 0, 2.0), (2, 1, 3.0)]));

    let csr = CsrView::try_from_csr_data(3, 3, &row_offsets, &columns, &values).unwrap();
    assert_eq!(csr.values().as_ptr(), values.as_ptr());
    assert_eq!(csr.to_matrix().as_view(), csr);
    let csc = CscView::try_from_csc_data(3, 3, &row_offsets, &columns, &values).unwrap();
    assert_eq!(csc.as_transposed(), csr);
    assert_eq!(CscView::from_transposed(csr), csc);
    assert_eq!(csc.col(0), (&[2, 0][..], &[1.0, 2.0][..]));
    assert_eq!(csc.to_matrix().as_view(), csc);
    assert!(csc.triplets().eq([(2, 0, 1.0), (0, 0, 2.0), (1, 2, 3.0)]));

    let coo = CooView::try_from_triplets(3, 4, &[2, 0, 0], &columns, &values).unwrap();
    assert_eq!(coo.to_matrix().as_view(), coo);
    assert!(coo.triplets().eq([(2, 2, 1.0), (0, 0, 2.0), (0, 1, 3.0)]));
    assert!(coo.transpose().triplets().eq([(2, 2, 1.0), (0, 0, 2.0), (1, 0, 3.0)]));
    assert_eq!((coo.transpose().nrows(), coo.transpose().ncols()), (4, 3));
    assert!(CsrMatrix::try_from(coo).unwrap().triplets().eq([(0, 0, 2.0), (0, 1, 3.0), (2, 2, 1.0)]));
    assert!(CscMatrix::try_from(coo).unwrap().triplets().eq([(0, 0, 2.0), (0, 1, 3.0), (2, 2, 1.0)]));
}

#[test]
fn arrays_come_back() {
    let arrays = (vec![2, 0, 0], vec![1, 1, 0], vec![1.0f32, 2.0, 3.0]);
    let (rows, columns, values) = arrays.clone();
    let place = values.as_ptr();
    let coo = CooMatrix::try_from_triplets(3, 2, rows, columns, values).unwrap();
    assert_eq!(coo.clone().into_triplets(), arrays);
    // What nobody shares is not copied.
    assert_eq!(coo.into_triplets().2.as_ptr(), place);

    let transposed = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0]).unwrap();
    let csc = CscMatrix::from_transposed(transposed.clone());
    assert_eq!((csc.nrows(), csc.ncols()), (3, 2));
    assert_eq!(csc.into_transposed(), transposed);
}

#[test]
fn matrices_without_rows_or_columns() {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (3, 3)] {
        let coo = CooMatrix::<f32>::try_from_triplets(nrows, ncols, vec![], vec![], vec![]).unwrap();
        let (csr, csc) = (CsrMatrix::try_from(&coo).unwrap(), CscMatrix::try_from(&coo).unwrap());
        assert_eq!((csr.nrows(), csr.ncols(), csr.row_offsets().len()), (nrows, ncols, nrows + 1));
        assert_eq!((csc.nrows(), csc.ncols(), csc.col_offsets().len()), (nrows, ncols, ncols + 1));
        assert_eq!(
            (CscMatrix::try_from(&csr).unwrap(), CsrMatrix::try_from(&csc).unwrap()),
            (csc.clone(), csr.clone())
        );
        assert_eq!((CooMatrix::from(&csr), CooMatrix::from(&csc)), (coo.clone(), coo.clone()));
        assert!(coo.is_row_sorted());
        assert_eq!(coo.sorted_by_row().unwrap(), coo);
        assert_eq!((csr.rows().len(), csc.cols().len()), (nrows, ncols));
    }
}

#[test]
fn unchecked_matrices_are_the_checked_ones() {
    let (offsets, indices, values) = (vec![0u64, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0]);
    let csr = CsrMatrix::try_from_csr_data(2, 3, offsets.clone(), indices.clone(), values.clone()).unwrap();
    // SAFETY: just accepted.
    let unchecked =
        unsafe { CsrMatrix::from_csr_data_unchecked(2, 3, offsets.clone(), indices.clone(), values.clone()) };
    assert_eq!(unchecked, csr);
    // SAFETY: the arrays of the transpose.
    let unchecked =
        unsafe { CscMatrix::from_csc_data_unchecked(3, 2, offsets.clone(), indices.clone(), values.clone()) };
    assert_eq!(unchecked, CscMatrix::try_from_csc_data(3, 2, offsets, indices.clone(), values.clone()).unwrap());
    // SAFETY: every row is below 2, every column below 3.
    let unchecked = unsafe { CooMatrix::from_triplets_unchecked(2, 3, vec![0, 0, 1], indices, values) };
    assert_eq!(unchecked, CooMatrix::from(&CsrMatrix::<f32>::try_from(&csr).unwrap()));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "entry 1, in column 1, is in row 3 of 3")]
fn debug_builds_check_what_is_unchecked() {
    // SAFETY: breaks rule 4, and so panics before there is a matrix.
    let _ = unsafe { CscMatrix::from_csc_data_unchecked(3, 2, vec![0u32, 1, 2], vec![0, 3], vec![1.0f32, 2.0]) };
}

#[test]
fn entries_are_pushed() {
    let mut coo = CooMatrix::<f64>::new(2, 3).unwrap();
    assert_eq!((coo.nrows(), coo.ncols(), coo.nnz()), (2, 3, 0));
    for (row, col, value) in [(1, 2, 4.0), (0, 0, 1.0), (1, 2, -1.5)] {
        coo.push(row, col, value).unwrap();
    }
    let before = coo.clone();
    coo.push(0, 1, 8.0).unwrap();
    assert!(before.triplets().eq([(1, 2, 4.0), (0, 0, 1.0), (1, 2, -1.5)]), "a clone stays as it was");
    assert!(coo.triplets().eq([(1, 2, 4.0), (0, 0, 1.0), (1, 2, -1.5), (0, 1, 8.0)]));
    let csr = CsrMatrix::<f64>::try_from(&coo).unwrap();
    assert!(csr.triplets().eq([(0, 0, 1.0), (0, 1, 8.0), (1, 2, 2.5)]), "duplicates are summed");

    assert_eq!(problem("COO", coo.push(2, 0, 1.0)), "entry 4 is in row 2 of 2");
    assert_eq!(problem("COO", coo.push(0, 3, 1.0)), "entry 4 is in column 3 of 3");
    assert_eq!(problem("COO", coo.push(usize::MAX, usize::MAX, 1.0)), format!("entry 4 is in row {} of 2", usize::MAX));
    assert_eq!(coo.nnz(), 4);
    if usize::BITS == 64 {
        let beyond = problem("COO", CooMatrix::<f64>::new(1 << 32, 1));
        assert_eq!(beyond, "4294967296 rows, and 32-bit indices reach 4294967295");
    }
}
