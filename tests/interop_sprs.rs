//! Matrices from and to sprs: the same entries, bit for bit and in the same order; arrays of the types of ours are not
//! copied.

#[path = "common/interop.rs"]
mod interop;
#[path = "common/properties.rs"]
mod properties;

use interop::{Entries, VALUES, bits, text, value_bits};
use proptest::prelude::*;
use sprs::{CsMat, CsMatI, CsMatViewI, SpIndex, TriMat, TriMatI};
use warpsparse::{CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, Offset, Scalar, strategies::csr_matrix};

fn their_bits<'a, T: Scalar, I: SpIndex>(entries: impl Iterator<Item = (&'a T, (I, I))>) -> Entries {
    bits(entries.map(|(&value, (i, j))| (i.index(), j.index(), value)))
}

const OFFSETS: [u32; 5] = [0, 2, 2, 3, 5];
const COLUMNS: [u32; 5] = [3, 4, 0, 2, 4];
const ROWS: [usize; 5] = [0, 0, 2, 3, 3];

/// The 4 x 5 matrix of these arrays.
fn csr<O: Offset>() -> CsrMatrix<f64, O> {
    CsrMatrix::try_from_csr_data(4, 5, OFFSETS.map(O::from).to_vec(), COLUMNS.to_vec(), VALUES.to_vec()).unwrap()
}

/// What sprs finds in the matrix of [`csr`], and what it finds in its transpose.
fn expected() -> (Entries, Entries) {
    let entries = || ROWS.into_iter().zip(COLUMNS).zip(VALUES).map(|((i, j), value)| (i, j as usize, value));
    (bits(entries()), bits(entries().map(|(i, j, value)| (j, i, value))))
}

fn goes_there_and_back<O: Offset, I: SpIndex + 'static, P: SpIndex + 'static>() {
    let (by_rows, by_columns) = expected();
    let values = |ours: &CsrMatrix<f64, O>| ours.values().as_ptr();

    let ours = csr::<O>();
    let pointer = values(&ours);
    let matrix = CsMatI::<f64, I, P>::try_from(ours).unwrap();
    assert!(matrix.is_csr());
    assert_eq!((matrix.shape(), matrix.nnz()), ((4, 5), 5));
    assert_eq!(their_bits(matrix.iter()), by_rows);
    assert_eq!(matrix.data().as_ptr(), pointer);
    let csc = CscMatrix::<f64, O>::try_from(matrix.clone()).unwrap();
    assert_eq!((csc.nrows(), csc.ncols()), (4, 5));
    assert_eq!((csc.col_offsets(), csc.row_indices()), (&[0, 1, 1, 2, 3, 5].map(O::from)[..], &[2, 3, 0, 0, 3][..]));
    let ours = CsrMatrix::<f64, O>::try_from(matrix).unwrap();
    assert_eq!((ours.row_offsets(), ours.col_indices()), (&OFFSETS.map(O::from)[..], &COLUMNS[..]));
    assert_eq!((ours.nrows(), ours.ncols(), value_bits(ours.values())), (4, 5, value_bits(&VALUES)));
    assert_eq!(values(&ours), pointer);

    let matrix = CsMatI::<f64, I, P>::try_from(CscMatrix::from_transposed(ours)).unwrap();
    assert!(matrix.is_csc());
    assert_eq!((matrix.shape(), matrix.nnz()), ((5, 4), 5));
    assert_eq!(their_bits(matrix.iter()), by_columns);
    assert_eq!(matrix.data().as_ptr(), pointer);
    let csr = CsrMatrix::<f64, O>::try_from(matrix.clone()).unwrap();
    assert_eq!((csr.nrows(), csr.ncols()), (5, 4));
    assert_eq!((csr.row_offsets(), csr.col_indices()), (&[0, 1, 1, 2, 3, 5].map(O::from)[..], &[2, 3, 0, 0, 3][..]));
    let ours = CscMatrix::<f64, O>::try_from(matrix).unwrap();
    assert_eq!((ours.col_offsets(), ours.row_indices()), (&OFFSETS.map(O::from)[..], &COLUMNS[..]));
    assert_eq!((ours.nrows(), ours.ncols(), value_bits(ours.values())), (5, 4, value_bits(&VALUES)));
    assert_eq!(ours.values().as_ptr(), pointer);
}

#[test]
fn indices_of_any_type_go_there_and_back() {
    goes_there_and_back::<u32, usize, usize>();
    goes_there_and_back::<u32, u32, u32>();
    goes_there_and_back::<u64, u32, u64>();
    goes_there_and_back::<u32, i16, i64>();
}

#[test]
fn arrays_of_our_types_are_not_copied() {
    let ours = csr::<u32>();
    let pointers = (ours.row_offsets().as_ptr(), ours.col_indices().as_ptr());
    let shared = CsMatI::<f64, u32>::try_from(ours.clone()).unwrap();
    assert_ne!((shared.indptr().raw_storage().as_ptr(), shared.indices().as_ptr()), pointers);
    assert_eq!(their_bits(shared.iter()), bits(ours.triplets()));

    let matrix = CsMatI::<f64, u32>::try_from(ours).unwrap();
    assert_eq!((matrix.indptr().raw_storage().as_ptr(), matrix.indices().as_ptr()), pointers);
    let ours = CsrMatrix::<f64>::try_from(matrix).unwrap();
    assert_eq!((ours.row_offsets().as_ptr(), ours.col_indices().as_ptr()), pointers);
}

#[test]
fn triplets_keep_order_and_duplicates() {
    let (rows, columns) = (vec![2, 0, 2, 0, 3], vec![1, 4, 1, 0, 4]);
    let entries = || rows.iter().zip(&columns).zip(VALUES).map(|((&i, &j), value)| (i as usize, j as usize, value));
    let ours = || CooMatrix::try_from_triplets(4, 5, rows.clone(), columns.clone(), VALUES.to_vec()).unwrap();

    let matrix = TriMat::from(ours());
    assert_eq!((matrix.shape(), their_bits(matrix.triplet_iter())), ((4, 5), bits(entries())));
    let back = CooMatrix::try_from(&matrix).unwrap();
    assert_eq!((back.nrows(), back.ncols(), bits(back.triplets())), (4, 5, bits(entries())));

    let coo = ours();
    let pointers = (coo.row_indices().as_ptr(), coo.col_indices().as_ptr(), coo.values().as_ptr());
    let matrix = TriMatI::<f64, u32>::from(coo);
    assert_eq!((matrix.row_inds().as_ptr(), matrix.col_inds().as_ptr(), matrix.data().as_ptr()), pointers);
    assert_eq!((matrix.shape(), their_bits(matrix.triplet_iter())), ((4, 5), bits(entries())));
    let view = CooView::try_from(&matrix).unwrap();
    assert_eq!((view.row_indices().as_ptr(), view.col_indices().as_ptr(), view.values().as_ptr()), pointers);
    assert_eq!((view.nrows(), view.ncols(), bits(view.triplets())), (4, 5, bits(entries())));
    let back = CooMatrix::try_from(&matrix.view()).unwrap();
    assert_eq!((back.nrows(), back.ncols(), bits(back.triplets())), (4, 5, bits(entries())));
}

#[test]
fn triplets_out_of_range_are_refused() {
    // sprs checks them when it makes the matrix, but not when it sets them.
    let broken = |row, column| {
        let mut matrix = TriMat::from_triplets((2, 3), vec![0, 1], vec![2, 2], vec![1.0f32, 2.0]);
        let first = matrix.find_locations(0, 2)[0];
        matrix.set_triplet(first, row, column, 1.0);
        text(CooMatrix::try_from(&matrix))
    };
    assert_eq!(broken(2, 0), "invalid COO matrix: entry 0 is in row 2 of 2");
    assert_eq!(broken(1, 3), "invalid COO matrix: entry 0 is in column 3 of 3");
    let mut narrow = TriMatI::<f32, u32>::from_triplets((2, 3), vec![1], vec![2], vec![1.0]);
    let first = narrow.find_locations(1, 2)[0];
    narrow.set_triplet(first, 1, 5, 1.0);
    assert_eq!(text(CooView::try_from(&narrow)), "invalid COO matrix: entry 0 is in column 5 of 3");
    assert_eq!(text(CooMatrix::try_from(&narrow)), "invalid COO matrix: entry 0 is in column 5 of 3");
    // One that 32 bits would make 1.
    #[cfg(target_pointer_width = "64")]
    {
        let problem = |what| format!("invalid COO matrix: {what} index 0 is 4294967297, out of the range of u32");
        assert_eq!(broken((1 << 32) + 1, 0), problem("row"));
        assert_eq!(broken(0, (1 << 32) + 1), problem("column"));
    }
}

#[test]
fn matrices_without_entries_keep_their_shape() {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (3, 2)] {
        let theirs = CsMat::<f32>::zero((nrows, ncols));
        let csr = CsrMatrix::<f32>::try_from(theirs.clone()).unwrap();
        assert_eq!((csr.nrows(), csr.ncols(), csr.nnz()), (nrows, ncols, 0));
        assert_eq!(CsMat::try_from(csr).unwrap(), theirs);

        let theirs = theirs.into_csc();
        let csc = CscMatrix::<f32>::try_from(theirs.clone()).unwrap();
        assert_eq!((csc.nrows(), csc.ncols(), csc.nnz()), (nrows, ncols, 0));
        assert_eq!(CsMat::try_from(csc).unwrap(), theirs);

        let coo = CooMatrix::try_from(&TriMat::<f32>::new((nrows, ncols))).unwrap();
        assert_eq!((coo.nrows(), coo.ncols(), coo.nnz()), (nrows, ncols, 0));
        assert_eq!(TriMat::from(coo), TriMat::new((nrows, ncols)));
    }
}

#[test]
fn parts_of_larger_matrices_begin_at_0() {
    let matrix = CsMatI::<f64, u32>::try_from(csr::<u32>()).unwrap();
    // Rows 1 to 3: no entries, one and two.
    let part = matrix.slice_outer(1..4);
    let ours = CsrMatrix::<f64>::try_from(part.to_owned()).unwrap();
    assert_eq!((ours.nrows(), ours.ncols(), ours.row_offsets()), (3, 5, &[0, 0, 1, 3][..]));
    assert_eq!((ours.col_indices(), value_bits(ours.values())), (&COLUMNS[2..], value_bits(&VALUES[2..])));
    assert_eq!(text(CsrView::try_from(part)), "invalid CSR matrix: the first row offset is 2, not 0");
}

#[test]
fn views_borrow() {
    let matrix = CsMatI::<f64, u32>::try_from(csr::<u32>()).unwrap();
    let view = CsrView::try_from(matrix.view()).unwrap();
    assert_eq!(view.col_indices().as_ptr(), matrix.indices().as_ptr());
    assert_eq!((view.nrows(), view.ncols(), bits(view.triplets())), (4, 5, expected().0));
    assert_eq!(text(CscView::try_from(matrix.view())), "invalid CSC matrix: the matrix of sprs is by rows");
    let theirs = CsMatViewI::try_from(view).unwrap();
    assert_eq!((theirs.shape(), theirs.is_csr(), their_bits(theirs.iter())), ((4, 5), true, expected().0));
    assert_eq!(theirs.data().as_ptr(), matrix.data().as_ptr());

    let matrix = CsMatI::<f64, u32, u64>::try_from(CscMatrix::from_transposed(csr::<u64>())).unwrap();
    let view = CscView::try_from(matrix.view()).unwrap();
    assert_eq!(view.row_indices().as_ptr(), matrix.indices().as_ptr());
    assert_eq!((view.nrows(), view.ncols(), bits(view.triplets())), (5, 4, expected().1));
    assert_eq!(text(CsrView::try_from(matrix.view())), "invalid CSR matrix: the matrix of sprs is by columns");
    let theirs = CsMatViewI::try_from(view).unwrap();
    assert_eq!((theirs.shape(), theirs.is_csc(), their_bits(theirs.iter())), ((5, 4), true, expected().1));
    assert_eq!(theirs.data().as_ptr(), matrix.data().as_ptr());
}

#[test]
fn columns_that_do_not_rise_are_refused() {
    let csr = |columns: [u32; 4]| {
        CsrMatrix::try_from_csr_data(3, 4, vec![0u32, 2, 2, 4], columns.to_vec(), vec![1.0f32; 4]).unwrap()
    };
    let csr_text = |columns| {
        let found = text(CsMat::try_from(csr(columns)));
        assert_eq!(text(CsMatViewI::try_from(csr(columns).as_view())), found);
        found
    };
    let problem = "invalid sprs CSR matrix: row 2 has column";
    assert_eq!(csr_text([0, 3, 2, 1]), format!("{problem} 1 after column 2, where columns must rise"));
    assert_eq!(csr_text([0, 3, 2, 2]), format!("{problem} 2 after column 2, where columns must rise"));
    let canonical = CsMat::try_from(csr([0, 3, 2, 2]).canonical()).unwrap();
    assert_eq!((canonical.indices(), canonical.data()), (&[0, 3, 2][..], &[1.0, 1.0, 2.0][..]));

    let csc = CscMatrix::from_transposed(csr([2, 0, 0, 1]));
    let expected = "invalid sprs CSC matrix: column 0 has row 0 after row 2, where rows must rise";
    assert_eq!(text(CsMatViewI::try_from(csc.as_view())), expected);
    assert_eq!(text(CsMat::try_from(csc)), expected);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_beyond_indices_are_refused() {
    const HUGE: usize = 1 << 32;
    let problem = |what| format!("4294967296 {what}, and 32-bit indices reach 4294967295");
    let csr = CsMat::new((1, HUGE), vec![0, 1], vec![HUGE - 1], vec![1.0f64]);
    assert_eq!(text(CsrMatrix::<f64>::try_from(csr)), format!("invalid CSR matrix: {}", problem("columns")));
    let csc = CsMat::new_csc((HUGE, 1), vec![0, 1], vec![HUGE - 1], vec![1.0f64]);
    assert_eq!(text(CscMatrix::<f64>::try_from(csc)), format!("invalid CSC matrix: {}", problem("rows")));
    let coo = TriMat::from_triplets((HUGE, 1), vec![HUGE - 1], vec![0], vec![1.0f64]);
    assert_eq!(text(CooMatrix::try_from(&coo)), format!("invalid COO matrix: {}", problem("rows")));

    let ours = |ncols, column| CsrMatrix::try_from_csr_data(1, ncols, vec![0u32, 1], vec![column], vec![1.0f32]);
    let too_large = |ours| text(CsMatI::<f32, u16, usize>::try_from(ours));
    let expected = "invalid sprs CSR matrix: column index 0 is 65536, out of the range of u16";
    assert_eq!(too_large(ours(65537, 65536).unwrap()), expected);
    // The index fits, but sprs wants the number of columns to do so as well.
    let expected = "invalid sprs CSR matrix: 1 x 65536, indices of u16, offsets of usize: \
                    Structure Error (out of range): Index type not large enough for this matrix";
    assert_eq!(too_large(ours(65536, 65535).unwrap()), expected);
    let row = (vec![0u32, 40_000], (0..40_000).collect(), vec![1.0f32; 40_000]);
    let long = CsrMatrix::try_from_csr_data(1, 40_000, row.0, row.1, row.2).unwrap();
    let expected = "invalid sprs CSR matrix: row offset 1 is 40000, out of the range of i16";
    assert_eq!(text(CsMatI::<f32, u32, i16>::try_from(long)), expected);
}

/// Their entries are the given ones, and ours made of theirs too.
fn random_goes_there_and_back<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> std::result::Result<(), TestCaseError> {
    let shape = (csr.nrows(), csr.ncols());
    let expected = bits(csr.triplets());
    let there = CsMat::try_from(csr.clone());
    prop_assert_eq!(there.is_ok(), csr.is_canonical());
    if let Ok(there) = there {
        prop_assert_eq!((there.shape(), &their_bits(there.iter())), (shape, &expected));
        prop_assert_eq!(&CsrMatrix::<T, O>::try_from(there).unwrap(), csr);

        let csc = CscMatrix::try_from(csr).unwrap();
        let there = CsMatI::<T, u32, usize>::try_from(csc.clone()).unwrap();
        let mut by_rows = their_bits(there.iter());
        by_rows.sort_by_key(|&(i, j, _)| (i, j));
        prop_assert_eq!((there.shape(), &by_rows), (shape, &expected));
        prop_assert_eq!(&CsrMatrix::<T, O>::try_from(there.clone()).unwrap(), csr);
        prop_assert_eq!(CscMatrix::<T, O>::try_from(there).unwrap(), csc);
    }
    let coo = CooMatrix::try_from_triplets(
        shape.0,
        shape.1,
        expected.iter().map(|&(i, _, _)| i as u32).collect(),
        csr.col_indices().to_vec(),
        csr.values().to_vec(),
    );
    let there = TriMat::from(coo.unwrap());
    prop_assert_eq!((there.shape(), &their_bits(there.triplet_iter())), (shape, &expected));
    prop_assert_eq!(bits(CooMatrix::try_from(&there).unwrap().triplets()), expected);
    Ok(())
}

#[test]
fn random_matrices_go_there_and_back() {
    let cases = (csr_matrix::<f32>(), csr_matrix::<f64>());
    properties::check("interop_sprs", 256, cases, |(single, double)| {
        random_goes_there_and_back(&single)?;
        random_goes_there_and_back(&single.canonical())?;
        let double = CsrMatrix::<f64, u64>::from(&double);
        random_goes_there_and_back(&double)?;
        random_goes_there_and_back(&double.canonical())
    });
}
