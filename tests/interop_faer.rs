//! Matrices from and to faer: the same entries, bit for bit and in the same order; arrays of the types of ours are not
//! copied. Dense matrices, and products compared with those of faer, on every device.

mod common;
#[path = "common/interop.rs"]
mod interop;

use std::process::ExitCode;

use common::{Random, on_every_device, properties};
use faer::{
    ColRef, Index, Mat, MatRef,
    sparse::{
        SparseColMat, SparseColMatRef, SparseRowMat, SparseRowMatRef, SymbolicSparseColMat, SymbolicSparseRowMat,
        SymbolicSparseRowMatRef, Triplet,
    },
};
use interop::{Entries, VALUES, bits, text, value_bits};
use libtest_mimic::Trial;
use proptest::prelude::*;
use warpsparse::{
    CscMatrix, CscView, CsrMatrix, CsrView, DenseLayout, Device, Element, Error, Offset, Scalar, strategies::csr_matrix,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! on_the_host {
        ($($name:ident),* $(,)?) => {
            $(trials.push(Trial::test(stringify!($name), || {
                $name();
                Ok(())
            }));)*
        };
    }
    on_the_host!(
        indices_of_any_type_go_there_and_back,
        arrays_of_our_types_are_not_copied,
        views_borrow,
        unused_room_is_dropped,
        views_refuse_unused_room,
        order_and_duplicates_of_theirs_are_kept,
        columns_that_do_not_rise_are_refused,
        sizes_beyond_our_indices_are_refused,
        sizes_beyond_their_indices_are_refused,
        random_matrices_go_there_and_back,
    );
    trials.extend(on_every_device("dense_f32", |device| dense_goes_there_and_back(device, |k| k as f32)));
    trials.extend(on_every_device("dense_f64", |device| dense_goes_there_and_back(device, |k| k as f64)));
    trials.extend(on_every_device("dense_u32", |device| dense_goes_there_and_back(device, |k| k as u32)));
    trials.extend(on_every_device("dense_extremes", dense_extremes));
    trials.extend(on_every_device("products_are_those_of_faer", products_are_those_of_faer));
    common::run(trials)
}

fn their_bits<'a, T: Scalar>(triplets: impl Iterator<Item = Triplet<usize, usize, &'a T>>) -> Entries {
    bits(triplets.map(|Triplet { row, col, val }| (row, col, *val)))
}

const OFFSETS: [u32; 5] = [0, 2, 2, 3, 5];
const COLUMNS: [u32; 5] = [3, 4, 0, 2, 4];
const ROWS: [usize; 5] = [0, 0, 2, 3, 3];

/// The 4 x 5 matrix of these arrays.
fn csr<O: Offset>() -> CsrMatrix<f64, O> {
    CsrMatrix::try_from_csr_data(4, 5, OFFSETS.map(O::from).to_vec(), COLUMNS.to_vec(), VALUES.to_vec()).unwrap()
}

/// What faer finds in the matrix of [`csr`], and what it finds in its transpose.
fn expected() -> (Entries, Entries) {
    let entries = || ROWS.into_iter().zip(COLUMNS).zip(VALUES).map(|((i, j), value)| (i, j as usize, value));
    (bits(entries()), bits(entries().map(|(i, j, value)| (j, i, value))))
}

fn assert_is_csr<O: Offset>(ours: &CsrMatrix<f64, O>) {
    assert_eq!((ours.row_offsets(), ours.col_indices()), (&OFFSETS.map(O::from)[..], &COLUMNS[..]));
    assert_eq!((ours.nrows(), ours.ncols(), value_bits(ours.values())), (4, 5, value_bits(&VALUES)));
}

fn goes_there_and_back<O: Offset, I: Index>() {
    let (by_rows, by_columns) = expected();

    let ours = csr::<O>();
    let pointer = ours.values().as_ptr();
    let theirs = SparseRowMat::<I, f64>::try_from(ours).unwrap();
    assert_eq!((theirs.shape(), theirs.compute_nnz(), theirs.row_nnz().is_none()), ((4, 5), 5, true));
    assert_eq!(their_bits(theirs.triplet_iter()), by_rows);
    assert_eq!(theirs.val().as_ptr(), pointer);
    let copy = CsrMatrix::<f64, O>::try_from(theirs.as_ref()).unwrap();
    assert_is_csr(&copy);
    assert_ne!(copy.values().as_ptr(), pointer);
    let ours = CsrMatrix::<f64, O>::try_from(theirs).unwrap();
    assert_is_csr(&ours);
    assert_eq!(ours.values().as_ptr(), pointer);

    let theirs = SparseColMat::<I, f64>::try_from(CscMatrix::from_transposed(ours)).unwrap();
    assert_eq!((theirs.shape(), theirs.compute_nnz(), theirs.col_nnz().is_none()), ((5, 4), 5, true));
    assert_eq!(their_bits(theirs.triplet_iter()), by_columns);
    assert_eq!(theirs.val().as_ptr(), pointer);
    let copy = CscMatrix::<f64, O>::try_from(theirs.as_ref()).unwrap();
    assert_is_csr(copy.as_transposed());
    assert_ne!(copy.values().as_ptr(), pointer);
    let ours = CscMatrix::<f64, O>::try_from(theirs).unwrap();
    assert_is_csr(ours.as_transposed());
    assert_eq!(ours.values().as_ptr(), pointer);
}

fn indices_of_any_type_go_there_and_back() {
    goes_there_and_back::<u32, usize>();
    goes_there_and_back::<u32, u32>();
    goes_there_and_back::<u64, u32>();
    goes_there_and_back::<u64, usize>();
    #[cfg(target_pointer_width = "64")]
    goes_there_and_back::<u64, u64>();

    let empty = CsrMatrix::<f32>::try_from_csr_data(0, 3, vec![0], vec![], vec![]).unwrap();
    let theirs = SparseRowMat::<usize, f32>::try_from(empty.clone()).unwrap();
    assert_eq!((theirs.shape(), theirs.compute_nnz()), ((0, 3), 0));
    assert_eq!(CsrMatrix::try_from(theirs).unwrap(), empty);
}

fn arrays_of_our_types_are_not_copied() {
    let ours = csr::<u32>();
    let pointers = (ours.row_offsets().as_ptr(), ours.col_indices().as_ptr());
    let shared = SparseRowMat::<u32, f64>::try_from(ours.clone()).unwrap();
    assert_ne!((shared.row_ptr().as_ptr(), shared.col_idx().as_ptr()), pointers);
    assert_eq!(their_bits(shared.triplet_iter()), bits(ours.triplets()));

    let theirs = SparseRowMat::<u32, f64>::try_from(ours).unwrap();
    assert_eq!((theirs.row_ptr().as_ptr(), theirs.col_idx().as_ptr()), pointers);
    let ours = CsrMatrix::<f64>::try_from(theirs).unwrap();
    assert_eq!((ours.row_offsets().as_ptr(), ours.col_indices().as_ptr()), pointers);
}

fn views_borrow() {
    let ours = csr::<u32>();
    let pointers = (ours.row_offsets().as_ptr(), ours.col_indices().as_ptr(), ours.values().as_ptr());
    let theirs = SparseRowMatRef::try_from(ours.as_view()).unwrap();
    assert_eq!((theirs.row_ptr().as_ptr(), theirs.col_idx().as_ptr(), theirs.val().as_ptr()), pointers);
    assert_eq!((theirs.shape(), their_bits(theirs.triplet_iter())), ((4, 5), expected().0));
    let view = CsrView::try_from(theirs).unwrap();
    assert_eq!((view.row_offsets().as_ptr(), view.col_indices().as_ptr(), view.values().as_ptr()), pointers);
    assert_eq!((view.nrows(), view.ncols(), bits(view.triplets())), (4, 5, expected().0));

    let ours = CscMatrix::from_transposed(ours);
    let theirs = SparseColMatRef::try_from(ours.as_view()).unwrap();
    assert_eq!((theirs.col_ptr().as_ptr(), theirs.row_idx().as_ptr(), theirs.val().as_ptr()), pointers);
    assert_eq!((theirs.shape(), their_bits(theirs.triplet_iter())), ((5, 4), expected().1));
    let view = CscView::try_from(theirs).unwrap();
    assert_eq!((view.col_offsets().as_ptr(), view.row_indices().as_ptr(), view.values().as_ptr()), pointers);
    assert_eq!((view.nrows(), view.ncols(), bits(view.triplets())), (5, 4, expected().1));
}

/// The arrays of [`csr`] with unused room before, between and after the rows: offsets, lengths, columns and values. The
/// columns of the unused room are out of range.
fn with_room<I: Index>() -> (Vec<I>, Vec<I>, Vec<I>, Vec<f64>) {
    let indices = |indices: &[usize]| indices.iter().map(|&index| I::truncate(index)).collect::<Vec<_>>();
    let values = [9.0, VALUES[0], VALUES[1], 9.0, 9.0, VALUES[2], 9.0, VALUES[3], VALUES[4], 9.0, 9.0];
    (indices(&[1, 3, 5, 7, 10]), indices(&[2, 0, 1, 2]), indices(&[7, 3, 4, 7, 7, 0, 7, 2, 4, 7, 7]), values.to_vec())
}

/// The arrays of [`csr`], begun at the second place and with unused room after the last.
fn shifted<I: Index>() -> (Vec<I>, Vec<I>, Vec<f64>) {
    let indices = |indices: &[usize]| indices.iter().map(|&index| I::truncate(index)).collect::<Vec<_>>();
    let values = [9.0, VALUES[0], VALUES[1], VALUES[2], VALUES[3], VALUES[4], 9.0];
    (indices(&[1, 3, 3, 4, 6]), indices(&[7, 3, 4, 0, 2, 4, 7]), values.to_vec())
}

fn unused_room_is_dropped() {
    fn of_rows<I: Index>() {
        let (offsets, lengths, columns, values) = with_room::<I>();
        let pattern = SymbolicSparseRowMat::new_checked(4, 5, offsets, Some(lengths), columns);
        let theirs = SparseRowMat::new(pattern, values);
        assert_eq!(their_bits(theirs.triplet_iter()), expected().0);
        assert_is_csr(&CsrMatrix::<f64, u32>::try_from(theirs.as_ref()).unwrap());
        assert_is_csr(&CsrMatrix::<f64, u64>::try_from(theirs).unwrap());

        let (offsets, columns, values) = shifted::<I>();
        let theirs = SparseRowMat::new(SymbolicSparseRowMat::new_checked(4, 5, offsets, None, columns), values);
        assert_is_csr(&CsrMatrix::<f64, u32>::try_from(theirs.as_ref()).unwrap());
        assert_is_csr(&CsrMatrix::<f64, u64>::try_from(theirs).unwrap());
    }
    fn of_columns<I: Index>() {
        let (offsets, lengths, rows, values) = with_room::<I>();
        let pattern = SymbolicSparseColMat::new_checked(5, 4, offsets, Some(lengths), rows);
        let theirs = SparseColMat::new(pattern, values);
        assert_eq!(their_bits(theirs.triplet_iter()), expected().1);
        assert_is_csr(CscMatrix::<f64, u32>::try_from(theirs.as_ref()).unwrap().as_transposed());
        assert_is_csr(CscMatrix::<f64, u64>::try_from(theirs).unwrap().as_transposed());

        let (offsets, rows, values) = shifted::<I>();
        let theirs = SparseColMat::new(SymbolicSparseColMat::new_checked(5, 4, offsets, None, rows), values);
        assert_is_csr(CscMatrix::<f64, u32>::try_from(theirs.as_ref()).unwrap().as_transposed());
        assert_is_csr(CscMatrix::<f64, u64>::try_from(theirs).unwrap().as_transposed());
    }
    of_rows::<u32>();
    of_rows::<usize>();
    of_columns::<u32>();
    of_columns::<usize>();
}

fn views_refuse_unused_room() {
    let (offsets, lengths, indices, values) = with_room::<u32>();
    let pattern = SymbolicSparseRowMat::new_checked(4, 5, offsets.clone(), Some(lengths.clone()), indices.clone());
    let theirs = SparseRowMat::new(pattern, values.clone());
    let problem = "invalid CSR matrix: the matrix of faer is uncompressed: copy it instead of borrowing it";
    assert_eq!(text(CsrView::try_from(theirs.as_ref())), problem);
    let theirs = SparseColMat::new(SymbolicSparseColMat::new_checked(5, 4, offsets, Some(lengths), indices), values);
    let problem = "invalid CSC matrix: the matrix of faer is uncompressed: copy it instead of borrowing it";
    assert_eq!(text(CscView::try_from(theirs.as_ref())), problem);

    let (offsets, indices, values) = shifted::<u32>();
    let pattern = SymbolicSparseRowMat::new_checked(4, 5, offsets.clone(), None, indices.clone());
    let theirs = SparseRowMat::new(pattern, values.clone());
    assert_eq!(text(CsrView::try_from(theirs.as_ref())), "invalid CSR matrix: the first row offset is 1, not 0");
    let theirs = SparseColMat::new(SymbolicSparseColMat::new_checked(5, 4, offsets, None, indices), values);
    let problem = "invalid CSC matrix: the first column offset is 1, not 0";
    assert_eq!(text(CscView::try_from(theirs.as_ref())), problem);

    // Room at the end alone needs no copy.
    let columns = [&COLUMNS[..], &[7, 7]].concat();
    let values = [&VALUES[..], &[9.0, 9.0]].concat();
    let pattern = SymbolicSparseRowMatRef::new_checked(4, 5, &OFFSETS, None, &columns);
    let view = CsrView::try_from(SparseRowMatRef::new(pattern, &values)).unwrap();
    assert_eq!((view.nnz(), bits(view.triplets())), (5, expected().0));
    let view = CscView::try_from(SparseRowMatRef::new(pattern, &values).transpose()).unwrap();
    assert_eq!((view.nnz(), bits(view.triplets())), (5, expected().1));
}

fn order_and_duplicates_of_theirs_are_kept() {
    let pattern = SymbolicSparseRowMat::new_unsorted_checked(2, 4, vec![0usize, 3, 4], None, vec![2, 0, 2, 3]);
    let theirs = SparseRowMat::new(pattern, vec![1.0f32, 2.0, 3.0, 4.0]);
    let ours = CsrMatrix::<f32>::try_from(theirs).unwrap();
    assert_eq!((ours.col_indices(), ours.values()), (&[2, 0, 2, 3][..], &[1.0, 2.0, 3.0, 4.0][..]));
}

fn columns_that_do_not_rise_are_refused() {
    let csr = |columns: [u32; 4]| {
        CsrMatrix::try_from_csr_data(3, 4, vec![0u32, 2, 2, 4], columns.to_vec(), vec![1.0f32; 4]).unwrap()
    };
    let csr_text = |columns| {
        let found = text(SparseRowMat::<usize, _>::try_from(csr(columns)));
        assert_eq!(text(SparseRowMatRef::try_from(csr(columns).as_view())), found);
        found
    };
    let problem = "invalid faer CSR matrix: row 2 has column";
    assert_eq!(csr_text([0, 3, 2, 1]), format!("{problem} 1 after column 2, where columns must rise"));
    assert_eq!(csr_text([0, 3, 2, 2]), format!("{problem} 2 after column 2, where columns must rise"));
    let canonical = SparseRowMat::<usize, _>::try_from(csr([0, 3, 2, 2]).canonical()).unwrap();
    assert_eq!((canonical.col_idx(), canonical.val()), (&[0, 3, 2][..], &[1.0, 1.0, 2.0][..]));

    let csc = CscMatrix::from_transposed(csr([2, 0, 0, 1]));
    let problem = "invalid faer CSC matrix: column 0 has row 0 after row 2, where rows must rise";
    assert_eq!(text(SparseColMatRef::try_from(csc.as_view())), problem);
    assert_eq!(text(SparseColMat::<usize, _>::try_from(csc)), problem);
}

fn sizes_beyond_our_indices_are_refused() {
    #[cfg(target_pointer_width = "64")]
    {
        const HUGE: usize = 1 << 32;
        let problem = |what| format!("4294967296 {what}, and 32-bit indices reach 4294967295");
        let pattern = SymbolicSparseRowMat::new_checked(1, HUGE, vec![0, 1], None, vec![HUGE - 1]);
        let theirs = SparseRowMat::new(pattern, vec![1.0f64]);
        let expected = format!("invalid CSR matrix: {}", problem("columns"));
        assert_eq!(text(CsrMatrix::<f64>::try_from(theirs.as_ref())), expected);
        assert_eq!(text(CsrMatrix::<f64>::try_from(theirs)), expected);
        let pattern = SymbolicSparseColMat::new_checked(HUGE, 1, vec![0, 1], None, vec![HUGE - 1]);
        let theirs = SparseColMat::new(pattern, vec![1.0f64]);
        let expected = format!("invalid CSC matrix: {}", problem("rows"));
        assert_eq!(text(CscMatrix::<f64>::try_from(theirs.as_ref())), expected);
        assert_eq!(text(CscMatrix::<f64>::try_from(theirs)), expected);
    }
}

fn sizes_beyond_their_indices_are_refused() {
    let row = |ncols: usize| {
        CsrMatrix::try_from_csr_data(1, ncols, vec![0u32, 1], vec![ncols as u32 - 1], vec![1.0f32]).unwrap()
    };
    const MAX: usize = i32::MAX as usize;
    let theirs = SparseRowMat::<u32, f32>::try_from(row(MAX)).unwrap();
    assert_eq!((theirs.shape(), theirs.col_idx()), ((1, MAX), &[MAX as u32 - 1][..]));
    let problem = |what| format!("2147483648 {what}, and indices of u32 reach 2147483647");
    let expected = format!("invalid faer CSR matrix: {}", problem("columns"));
    assert_eq!(text(SparseRowMat::<u32, f32>::try_from(row(MAX + 1))), expected);
    assert_eq!(text(SparseRowMatRef::try_from(row(MAX + 1).as_view())), expected);
    let expected = format!("invalid faer CSC matrix: {}", problem("rows"));
    let column = CscMatrix::from_transposed(row(MAX + 1));
    assert_eq!(text(SparseColMatRef::try_from(column.as_view())), expected);
    assert_eq!(text(SparseColMat::<u32, f32>::try_from(column.clone())), expected);
    #[cfg(target_pointer_width = "64")]
    {
        let theirs = SparseColMat::<usize, f32>::try_from(column.clone()).unwrap();
        assert_eq!((theirs.shape(), theirs.row_idx()), ((MAX + 1, 1), &[MAX][..]));
        assert_eq!(CscMatrix::<f32>::try_from(theirs).unwrap(), column);
    }
}

/// Their entries are the given ones, and ours made of theirs too.
fn random_goes_there_and_back<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> std::result::Result<(), TestCaseError> {
    let shape = (csr.nrows(), csr.ncols());
    let expected = bits(csr.triplets());
    let there = SparseRowMat::<usize, T>::try_from(csr.clone());
    prop_assert_eq!(there.is_ok(), csr.is_canonical());
    if let Ok(there) = there {
        prop_assert_eq!((there.shape(), &their_bits(there.triplet_iter())), (shape, &expected));
        prop_assert_eq!(&CsrMatrix::<T, O>::try_from(there.as_ref()).unwrap(), csr);
        prop_assert_eq!(&CsrMatrix::<T, O>::try_from(there).unwrap(), csr);

        let csc = CscMatrix::try_from(csr).unwrap();
        let there = SparseColMat::<u32, T>::try_from(csc.clone()).unwrap();
        let mut by_rows = their_bits(there.triplet_iter());
        by_rows.sort_by_key(|&(i, j, _)| (i, j));
        prop_assert_eq!((there.shape(), &by_rows), (shape, &expected));
        prop_assert_eq!(&CscMatrix::<T, O>::try_from(there.as_ref()).unwrap(), &csc);
        prop_assert_eq!(CscMatrix::<T, O>::try_from(there).unwrap(), csc);
    }
    Ok(())
}

fn random_matrices_go_there_and_back() {
    let cases = (csr_matrix::<f32>(), csr_matrix::<f64>());
    properties::check("interop_faer", 256, cases, |(single, double)| {
        random_goes_there_and_back(&single)?;
        random_goes_there_and_back(&single.canonical())?;
        let double = CsrMatrix::<f64, u64>::from(&double);
        random_goes_there_and_back(&double)?;
        random_goes_there_and_back(&double.canonical())
    });
}

/// Matrices, parts of them and other views of them arrive as they are; what comes back is equal.
fn dense_goes_there_and_back<T: Element + PartialEq>(device: &Device, value: fn(usize) -> T) {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (1, 1), (3, 5), (7, 2), (1, 40), (40, 1), (33, 17)] {
        let whole = Mat::from_fn(nrows, ncols, |i, j| value(i * ncols + j));
        let mut views = vec![whole.as_ref(), whole.transpose(), whole.as_ref().reverse_rows()];
        if nrows > 2 && ncols > 1 {
            views.push(whole.as_ref().submatrix(1, 1, nrows - 2, ncols - 1));
            views.push(whole.as_ref().submatrix(1, 0, nrows - 1, ncols - 1).transpose().reverse_cols());
        }
        for theirs in views {
            let ours = device.upload_faer(theirs).unwrap();
            assert_eq!(ours.layout(), DenseLayout::column_major(theirs.nrows(), theirs.ncols()));
            let places = || (0..theirs.nrows()).flat_map(|i| (0..theirs.ncols()).map(move |j| (i, j)));
            let by_rows: Vec<T> = places().map(|place| theirs[place]).collect();
            assert_eq!(ours.to_vec().unwrap(), by_rows);
            let back = ours.to_faer().unwrap();
            assert_eq!(back.shape(), theirs.shape());
            assert!(places().all(|place| back[place] == theirs[place]));
            let back = ours.transpose().to_faer().unwrap();
            assert_eq!(back.shape(), (theirs.ncols(), theirs.nrows()));
            assert!(places().all(|(i, j)| back[(j, i)] == theirs[(i, j)]));
        }
    }

    // A part of a matrix by rows, which has gaps.
    let values: Vec<T> = (0..6 * 9).map(value).collect();
    let ours = device.upload_dense((6, 9), &values).unwrap();
    let back = ours.rows(2..5).unwrap().columns(1..).unwrap().to_faer().unwrap();
    assert_eq!(back.shape(), (3, 8));
    assert!((0..3).all(|i| (0..8).all(|j| back[(i, j)] == value((i + 2) * 9 + j + 1))));
}

fn dense_extremes(device: &Device) {
    let theirs = Mat::from_fn(5, 1, |i, _| VALUES[i]);
    let back = device.upload_faer(theirs.as_ref()).unwrap().to_faer().unwrap();
    assert_eq!(value_bits(back.col_as_slice(0)), value_bits(&VALUES));

    // One element in memory, and more of the matrix than any memory holds.
    #[cfg(target_pointer_width = "64")]
    for n in [1 << 25, 1 << 40] {
        let error = device.upload_faer(MatRef::from_repeated_ref(&1.0f64, n, n)).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
    let nothing = device.upload_faer(MatRef::from_repeated_ref(&1.0f32, 0, 1 << 20)).unwrap();
    assert_eq!((nothing.nrows(), nothing.ncols()), (0, 1 << 20));
    assert_eq!(nothing.to_faer().unwrap().shape(), (0, 1 << 20));
}

/// Of integers so small that every sum is exact, in whatever order.
fn products_are_those_of_faer(device: &Device) {
    let mut random = Random(24);
    let mut integer = || (random.next_unit() * 9.0).trunc();
    let (m, n, k) = (37, 29, 6);
    let dense = Mat::from_fn(m, n, |_, _| if integer() > 5.0 { integer() } else { 0.0 });
    let triplets: Vec<_> = (0..m)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .filter(|&place| dense[place] != 0.0)
        .map(|(i, j)| Triplet::new(i, j, dense[(i, j)]))
        .collect();
    assert!(triplets.len() > m, "{}", triplets.len());
    let by_columns = SparseColMat::<usize, f64>::try_new_from_triplets(m, n, &triplets).unwrap();
    let by_rows = SparseRowMat::<usize, f64>::try_new_from_triplets(m, n, &triplets).unwrap();
    let csc = CscMatrix::<f64>::try_from(by_columns.as_ref()).unwrap();
    let csr = CsrMatrix::<f64>::try_from(by_rows).unwrap();
    assert_eq!(CsrMatrix::try_from(&csc).unwrap(), csr);
    let a = device.upload(&csr).unwrap();

    let x: Vec<f64> = (0..n).map(|_| integer()).collect();
    let mut y = device.zeros(m).unwrap();
    a.spmv(1.0, &device.upload_vec(&x).unwrap(), 0.0, &mut y).unwrap();
    assert_eq!(ColRef::from_slice(&y.to_vec().unwrap()), &by_columns * ColRef::from_slice(&x));

    let b = Mat::from_fn(n, k, |_, _| integer());
    let mut c = device.zeros_dense(DenseLayout::column_major(m, k)).unwrap();
    let b_there = device.upload_faer(b.as_ref()).unwrap();
    a.spmm(1.0, &b_there, 0.0, &mut c).unwrap();
    assert_eq!(c.to_faer().unwrap(), &by_columns * &b);

    let mut d = device.zeros_dense((m, k)).unwrap();
    device.upload_faer(dense.as_ref()).unwrap().gemm(1.0, &b_there, 0.0, &mut d).unwrap();
    assert_eq!(d.to_faer().unwrap(), &dense * &b);
    assert_eq!(d.to_faer().unwrap(), c.to_faer().unwrap());

    let transposed = device.upload(&csc).unwrap();
    let z: Vec<f64> = (0..m).map(|_| integer()).collect();
    let mut y = device.zeros(n).unwrap();
    transposed.spmv_transposed(1.0, &device.upload_vec(&z).unwrap(), 0.0, &mut y).unwrap();
    assert_eq!(ColRef::from_slice(&y.to_vec().unwrap()), by_columns.transpose() * ColRef::from_slice(&z));
}
