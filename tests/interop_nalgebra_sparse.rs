//! Matrices from and to nalgebra-sparse: the same entries, bit for bit and in the same order, the values not copied.

#[path = "common/interop.rs"]
mod interop;
#[path = "common/properties.rs"]
mod properties;

use interop::{Entries, VALUES, bits, text, value_bits};
use nalgebra_sparse as theirs;
use proptest::prelude::*;
use warpsparse::{CooMatrix, CscMatrix, CsrMatrix, Offset, Scalar, strategies::csr_matrix};

fn their_bits<'a, T: Scalar>(triplets: impl Iterator<Item = (usize, usize, &'a T)>) -> Entries {
    bits(triplets.map(|(i, j, &value)| (i, j, value)))
}

#[test]
fn coo_keeps_order_and_duplicates() {
    let (rows, columns) = (vec![2, 0, 2, 0, 3], vec![1, 4, 1, 0, 4]);
    let ours = CooMatrix::try_from_triplets(4, 5, rows.clone(), columns.clone(), VALUES.to_vec()).unwrap();
    let values = ours.values().as_ptr();
    let coo = theirs::CooMatrix::from(ours);
    assert_eq!((coo.nrows(), coo.ncols(), coo.row_indices(), coo.col_indices()), {
        (4, 5, &[2, 0, 2, 0, 3usize][..], &[1, 4, 1, 0, 4usize][..])
    });
    assert_eq!(coo.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), value_bits(&VALUES));
    assert_eq!(coo.values().as_ptr(), values);

    let ours = CooMatrix::try_from(coo).unwrap();
    assert_eq!((ours.nrows(), ours.ncols(), ours.row_indices(), ours.col_indices()), (4, 5, &rows[..], &columns[..]));
    assert_eq!(ours.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), value_bits(&VALUES));
    assert_eq!(ours.values().as_ptr(), values);
}

/// 4 x 5, the entries by rows: `- - - -0 0 | | NaN - - - - | - - -inf - 5e-324`.
fn csr<O: Offset>() -> CsrMatrix<f64, O> {
    let offsets = [0, 2, 2, 3, 5].map(O::from).to_vec();
    CsrMatrix::try_from_csr_data(4, 5, offsets, vec![3, 4, 0, 2, 4], VALUES.to_vec()).unwrap()
}

fn csr_keeps_its_entries<O: Offset>() {
    let ours = csr::<O>();
    let values = ours.values().as_ptr();
    let matrix = theirs::CsrMatrix::try_from(ours).unwrap();
    assert_eq!((matrix.nrows(), matrix.ncols()), (4, 5));
    assert_eq!(matrix.row_offsets(), [0, 2, 2, 3, 5]);
    assert_eq!(matrix.col_indices(), [3, 4, 0, 2, 4]);
    assert_eq!(matrix.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), value_bits(&VALUES));
    assert_eq!(matrix.values().as_ptr(), values);

    let ours = CsrMatrix::<f64, O>::try_from(matrix).unwrap();
    assert_eq!((ours.nrows(), ours.ncols()), (4, 5));
    assert_eq!(ours.row_offsets(), [0, 2, 2, 3, 5].map(O::from));
    assert_eq!(ours.col_indices(), [3, 4, 0, 2, 4]);
    assert_eq!(ours.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), value_bits(&VALUES));
    assert_eq!(ours.values().as_ptr(), values);
}

#[test]
fn csr_keeps_its_entries_32() {
    csr_keeps_its_entries::<u32>();
}

#[test]
fn csr_keeps_its_entries_64() {
    csr_keeps_its_entries::<u64>();
}

#[test]
fn csc_keeps_its_entries() {
    let ours = CscMatrix::from_transposed(csr::<u32>());
    let values = ours.values().as_ptr();
    let matrix = theirs::CscMatrix::try_from(ours).unwrap();
    assert_eq!((matrix.nrows(), matrix.ncols()), (5, 4));
    assert_eq!(matrix.col_offsets(), [0, 2, 2, 3, 5]);
    assert_eq!(matrix.row_indices(), [3, 4, 0, 2, 4]);
    assert_eq!(matrix.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), value_bits(&VALUES));
    assert_eq!(matrix.values().as_ptr(), values);

    let ours = CscMatrix::<f64>::try_from(matrix).unwrap();
    assert_eq!((ours.nrows(), ours.ncols()), (5, 4));
    assert_eq!(ours.col_offsets(), [0, 2, 2, 3, 5]);
    assert_eq!(ours.row_indices(), [3, 4, 0, 2, 4]);
    assert_eq!(ours.values().as_ptr(), values);
}

#[test]
fn a_shared_matrix_is_copied() {
    let ours = csr::<u32>();
    let matrix = theirs::CsrMatrix::try_from(ours.clone()).unwrap();
    assert_ne!(matrix.values().as_ptr(), ours.values().as_ptr());
    assert_eq!(their_bits(matrix.triplet_iter()), bits(ours.triplets()));
    assert_eq!(bits(ours.triplets()), bits(csr::<u32>().triplets()));
}

#[test]
fn matrices_without_entries_keep_their_shape() {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (3, 2)] {
        let coo = CooMatrix::<f32>::try_from(theirs::CooMatrix::<f32>::new(nrows, ncols)).unwrap();
        assert_eq!((coo.nrows(), coo.ncols(), coo.nnz()), (nrows, ncols, 0));
        let coo = theirs::CooMatrix::from(coo);
        assert_eq!(coo, theirs::CooMatrix::new(nrows, ncols));

        let csr = CsrMatrix::<f32>::try_from(theirs::CsrMatrix::zeros(nrows, ncols)).unwrap();
        assert_eq!((csr.nrows(), csr.ncols(), csr.nnz()), (nrows, ncols, 0));
        assert_eq!(theirs::CsrMatrix::try_from(csr).unwrap(), theirs::CsrMatrix::zeros(nrows, ncols));

        let csc = CscMatrix::<f32>::try_from(theirs::CscMatrix::zeros(nrows, ncols)).unwrap();
        assert_eq!((csc.nrows(), csc.ncols(), csc.nnz()), (nrows, ncols, 0));
        assert_eq!(theirs::CscMatrix::try_from(csc).unwrap(), theirs::CscMatrix::zeros(nrows, ncols));
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn dimensions_beyond_32_bits_are_refused() {
    const HUGE: usize = 1 << 32;
    let problem = |what| format!("4294967296 {what}, and 32-bit indices reach 4294967295");
    let coo = |nrows, ncols| {
        let last = (vec![nrows - 1], vec![ncols - 1], vec![1.0f64]);
        theirs::CooMatrix::try_from_triplets(nrows, ncols, last.0, last.1, last.2).unwrap()
    };
    assert_eq!(text(CooMatrix::try_from(coo(HUGE, 1))), format!("invalid COO matrix: {}", problem("rows")));
    assert_eq!(text(CooMatrix::try_from(coo(1, HUGE))), format!("invalid COO matrix: {}", problem("columns")));
    let (offsets, last) = (vec![0, 1], vec![HUGE - 1]);
    let csr = theirs::CsrMatrix::try_from_csr_data(1, HUGE, offsets.clone(), last.clone(), vec![1.0f32]).unwrap();
    assert_eq!(text(CsrMatrix::<f32>::try_from(csr)), format!("invalid CSR matrix: {}", problem("columns")));
    let csc = theirs::CscMatrix::try_from_csc_data(HUGE, 1, offsets, last, vec![1.0f32]).unwrap();
    assert_eq!(text(CscMatrix::<f32, u64>::try_from(csc)), format!("invalid CSC matrix: {}", problem("rows")));
}

#[test]
fn columns_that_do_not_rise_are_refused() {
    let csr = |columns: [u32; 4]| {
        CsrMatrix::try_from_csr_data(3, 4, vec![0u32, 2, 2, 4], columns.to_vec(), vec![1.0f32; 4]).unwrap()
    };
    let csr_text = |columns| text(theirs::CsrMatrix::try_from(csr(columns)));
    let problem = "invalid nalgebra-sparse CSR matrix: row 2 has column";
    assert_eq!(csr_text([0, 3, 2, 1]), format!("{problem} 1 after column 2, where columns must rise"));
    assert_eq!(csr_text([0, 3, 2, 2]), format!("{problem} 2 after column 2, where columns must rise"));
    let canonical = theirs::CsrMatrix::try_from(csr([0, 3, 2, 2]).canonical()).unwrap();
    assert_eq!((canonical.col_indices(), canonical.values()), (&[0, 3, 2][..], &[1.0, 1.0, 2.0][..]));

    let csc = CscMatrix::from_transposed(csr([2, 0, 0, 1]));
    let expected = "invalid nalgebra-sparse CSC matrix: column 0 has row 0 after row 2, where rows must rise";
    assert_eq!(text(theirs::CscMatrix::try_from(csc)), expected);
}

/// Their entries are the given ones, and ours made of theirs too.
fn goes_there_and_back<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> std::result::Result<(), TestCaseError> {
    let shape = (csr.nrows(), csr.ncols());
    let expected = bits(csr.triplets());
    let there = theirs::CsrMatrix::try_from(csr.clone());
    prop_assert_eq!(there.is_ok(), csr.is_canonical());
    if let Ok(there) = there {
        prop_assert_eq!((there.nrows(), there.ncols()), shape);
        prop_assert_eq!(&their_bits(there.triplet_iter()), &expected);
        prop_assert_eq!(&CsrMatrix::<T, O>::try_from(there).unwrap(), csr);

        let csc = CscMatrix::try_from(csr).unwrap();
        let there = theirs::CscMatrix::try_from(csc.clone()).unwrap();
        let mut by_rows = their_bits(there.triplet_iter());
        by_rows.sort_by_key(|&(i, j, _)| (i, j));
        prop_assert_eq!((there.nrows(), there.ncols()), shape);
        prop_assert_eq!(&by_rows, &expected);
        prop_assert_eq!(CscMatrix::<T, O>::try_from(there).unwrap(), csc);
    }
    let coo = CooMatrix::try_from_triplets(
        shape.0,
        shape.1,
        expected.iter().map(|&(i, _, _)| i as u32).collect(),
        csr.col_indices().to_vec(),
        csr.values().to_vec(),
    );
    let there = theirs::CooMatrix::from(coo.unwrap());
    prop_assert_eq!((there.nrows(), there.ncols()), shape);
    prop_assert_eq!(&their_bits(there.triplet_iter()), &expected);
    prop_assert_eq!(bits(CooMatrix::try_from(there).unwrap().triplets()), expected);
    Ok(())
}

#[test]
fn random_matrices_go_there_and_back() {
    let cases = (csr_matrix::<f32>(), csr_matrix::<f64>());
    properties::check("interop_nalgebra_sparse", 256, cases, |(single, double)| {
        goes_there_and_back(&single)?;
        goes_there_and_back(&single.canonical())?;
        let double = CsrMatrix::<f64, u64>::from(&double);
        goes_there_and_back(&double)?;
        goes_there_and_back(&double.canonical())
    });
}
