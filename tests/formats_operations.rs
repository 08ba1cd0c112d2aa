//! Operations on CSR matrices: what they give, on degenerate matrices too, and what they refuse.

use warpsparse::{CsrMatrix, Device, ErrorKind, Offset, Result};

/// The matrix with these rows.
fn from_rows<O: Offset>(ncols: usize, rows: &[&[(u32, f64)]]) -> CsrMatrix<f64, O> {
    let mut nnz = 0;
    let ends = rows.iter().map(|row| {
        nnz += row.len() as u32;
        O::from(nnz)
    });
    let offsets = std::iter::once(O::from(0)).chain(ends).collect();
    let (columns, values) = rows.concat().into_iter().unzip();
    CsrMatrix::try_from_csr_data(rows.len(), ncols, offsets, columns, values).unwrap()
}

/// Duplicates at (1, 3) apart from one another, columns out of order, row 2 empty, an explicit zero at (3, 0).
///
/// ```text
/// 1 . 2  .  .
/// . 3 . -9  .    -9 = 4 - 13
/// . . .  .  .
/// 0 . .  .  5
/// ```
fn example<O: Offset>() -> CsrMatrix<f64, O> {
    from_rows(5, &[&[(0, 1.0), (2, 2.0)], &[(3, 4.0), (1, 3.0), (3, -13.0)], &[], &[(4, 5.0), (0, 0.0)]])
}

/// Runs a test with offsets of both widths.
macro_rules! both_widths {
    ($($test:ident: $name32:ident, $name64:ident;)*) => {$(
        #[test]
        fn $name32() {
            $test::<u32>();
        }
        #[test]
        fn $name64() {
            $test::<u64>();
        }
    )*};
}
both_widths! {
    rows_move: rows_move_32, rows_move_64;
    entries_are_put_in_order: entries_are_put_in_order_32, entries_are_put_in_order_64;
    dense_and_back: dense_and_back_32, dense_and_back_64;
    products_without_a_device: products_without_a_device_32, products_without_a_device_64;
    norms_are_the_matrix_s: norms_are_the_matrix_s_32, norms_are_the_matrix_s_64;
    degenerate_matrices: degenerate_matrices_32, degenerate_matrices_64;
}

fn products_without_a_device<O: Offset>() {
    let a = example::<O>();
    let product = &a * &[1.0, 10.0, 100.0, 1000.0, 10_000.0][..];
    assert_eq!(product.unwrap(), [201.0, 30.0 - 9000.0, 0.0, 50_000.0]);
    let (device, x) = (Device::cpu(), [0.1, 0.2, 0.3, 0.4, 0.5]);
    let mut y = device.zeros(4).unwrap();
    device.upload(&a).unwrap().spmv(1.0, &device.upload_vec(&x).unwrap(), 0.0, &mut y).unwrap();
    let bits = |y: Vec<f64>| y.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    assert_eq!(bits((&a * &x[..]).unwrap()), bits(y.to_vec().unwrap()), "the device's bits");
    for (rows, cols) in [(0, 3), (3, 0), (0, 0)] {
        let nothing = from_rows::<O>(cols, &vec![&[][..]; rows]);
        assert_eq!((&nothing * &vec![f64::NAN; cols][..]).unwrap(), vec![0.0; rows]);
    }
    for wrong in [0, 4, 6] {
        let error = (&a * &vec![1.0; wrong][..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), format!("x has {wrong} elements where the operation needs 5"));
    }
}

fn rows_move<O: Offset>() {
    let a = example::<O>();
    let transpose: [&[(u32, f64)]; 5] =
        [&[(0, 1.0), (3, 0.0)], &[(1, 3.0)], &[(0, 2.0)], &[(1, 4.0), (1, -13.0)], &[(3, 5.0)]];
    assert_eq!(a.transpose().unwrap(), from_rows(4, &transpose));

    // New row 0 is old row 3, new column 0 is old column 4.
    let permuted = a.permute(&[3, 0, 1, 2], &[4, 0, 1, 2, 3]).unwrap();
    let expected: [&[(u32, f64)]; 4] =
        [&[(0, 5.0), (1, 0.0)], &[(1, 1.0), (3, 2.0)], &[(4, 4.0), (2, 3.0), (4, -13.0)], &[]];
    assert_eq!(permuted, from_rows(5, &expected));

    assert_eq!(a.slice_rows(1..3).unwrap(), from_rows(5, &[&[(3, 4.0), (1, 3.0), (3, -13.0)], &[]]));
    assert_eq!(a.slice_rows(0..4).unwrap(), a);
    assert_eq!(a.slice_rows(4..4).unwrap(), from_rows(5, &[]));
}

fn entries_are_put_in_order<O: Offset>() {
    let a = example::<O>();
    assert!(!a.is_canonical());
    let canonical = a.canonical();
    let rows: [&[(u32, f64)]; 4] = [&[(0, 1.0), (2, 2.0)], &[(1, 3.0), (3, -9.0)], &[], &[(0, 0.0), (4, 5.0)]];
    assert_eq!(canonical, from_rows(5, &rows));
    assert!(canonical.is_canonical());
    // Nothing is copied where there is nothing to do.
    assert_eq!(canonical.canonical().values().as_ptr(), canonical.values().as_ptr());
    // Sorted, but with a duplicate.
    assert!(!from_rows::<O>(2, &[&[(1, 1.0), (1, 2.0)]]).is_canonical());

    // In storage order: in the reverse, 1e17 swallows the 1.
    let order = from_rows::<O>(2, &[&[(1, 1e17), (0, 7.0), (1, -1e17), (1, 1.0)]]).canonical();
    assert_eq!(order, from_rows(2, &[&[(0, 7.0), (1, 1.0)]]));

    let zeros = from_rows::<O>(3, &[&[(2, 0.0), (1, 1.0), (1, -1.0)], &[(0, -0.0)], &[(1, f64::MIN_POSITIVE)]]);
    let dropped = from_rows(3, &[&[(1, 1.0), (1, -1.0)], &[], &[(1, f64::MIN_POSITIVE)]]);
    assert_eq!(zeros.drop_zeros(), dropped);
    let sums_dropped = from_rows(3, &[&[], &[], &[(1, f64::MIN_POSITIVE)]]);
    assert_eq!(zeros.canonical().drop_zeros(), sums_dropped);
    assert_eq!(from_rows::<O>(1, &[&[(0, f64::NAN)]]).drop_zeros().nnz(), 1);
    // The sign of a zero stays where there is nothing to add.
    assert!(zeros.canonical().row(1).1[0].is_sign_negative());
}

fn dense_and_back<O: Offset>() {
    let a = example::<O>();
    #[rustfmt::skip]
    let dense = [
        1.0, 0.0, 2.0, 0.0, 0.0,
        0.0, 3.0, 0.0, -9.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 5.0,
    ];
    assert_eq!(a.to_dense().unwrap(), dense);
    let back = CsrMatrix::<f64, O>::from_dense(4, 5, &dense).unwrap();
    assert_eq!(back, from_rows(5, &[&[(0, 1.0), (2, 2.0)], &[(1, 3.0), (3, -9.0)], &[], &[(4, 5.0)]]));
    assert_eq!(a.diagonal(), [1.0, 3.0, 0.0, 0.0]);
    assert_eq!(a.transpose().unwrap().diagonal(), [1.0, 3.0, 0.0, 0.0]);
    let duplicates = from_rows::<O>(1, &[&[(0, 1.5), (0, 2.0)], &[(0, 9.0)]]);
    assert_eq!(duplicates.diagonal(), [3.5]);
    // Where there is no entry, the 0 has no sign.
    assert!(from_rows::<O>(1, &[&[]]).diagonal()[0].is_sign_positive());
}

fn norms_are_the_matrix_s<O: Offset>() {
    let a = example::<O>();
    assert_eq!(a.norm_max(), 9.0);
    assert_eq!(a.norm_inf(), 12.0); // row 1
    assert_eq!(a.norm_one(), 9.0); // column 3
    assert_eq!(a.transpose().unwrap().norm_one(), 12.0);
    assert!((a.norm_frobenius() - 120f64.sqrt()).abs() < 1e-14);
    // Squares beyond the range of f64, and below.
    for scale in [1e200, 1e-200] {
        let norm = from_rows::<O>(2, &[&[(0, 3.0 * scale), (1, 4.0 * scale)]]).norm_frobenius();
        assert!((norm / (5.0 * scale) - 1.0).abs() < 1e-15);
    }

    let all = |a: &CsrMatrix<f64, O>| [a.norm_one(), a.norm_inf(), a.norm_max(), a.norm_frobenius()];
    // Neither first nor last, so that no comparison hides it.
    let nan = from_rows::<O>(3, &[&[(0, 1.0)], &[(1, f64::NAN)], &[(2, 2.0)]]);
    assert!(all(&nan).iter().all(|norm| norm.is_nan()));
    assert_eq!(all(&from_rows(1, &[&[(0, 1.0)], &[(0, f64::NEG_INFINITY)]])), [f64::INFINITY; 4]);
    assert_eq!(all(&from_rows(1, &[&[(0, 5.0), (0, -5.0)]])), [0.0; 4]);
}

fn degenerate_matrices<O: Offset>() {
    for (nrows, ncols) in [(0, 0), (0, 3), (3, 0), (3, 2)] {
        let empty: CsrMatrix<f64, O> = from_rows(ncols, &vec![&[][..]; nrows]);
        assert_eq!(empty.transpose().unwrap(), from_rows(nrows, &vec![&[][..]; ncols]));
        assert!(empty.is_canonical());
        assert_eq!((empty.canonical(), empty.drop_zeros()), (empty.clone(), empty.clone()));
        assert_eq!(empty.diagonal(), vec![0.0; nrows.min(ncols)]);
        let reversed = |size: usize| (0..size as u32).rev().collect::<Vec<_>>();
        assert_eq!(empty.permute(&reversed(nrows), &reversed(ncols)).unwrap(), empty);
        assert_eq!(empty.slice_rows(0..nrows).unwrap(), empty);
        let dense = empty.to_dense().unwrap();
        assert_eq!(dense, vec![0.0; nrows * ncols]);
        assert_eq!(CsrMatrix::<f64, O>::from_dense(nrows, ncols, &dense).unwrap(), empty);
        let norms = [empty.norm_one(), empty.norm_inf(), empty.norm_max(), empty.norm_frobenius()];
        assert!(norms.iter().all(|norm| norm.to_bits() == 0), "{norms:?}");
    }

    // One huge row, its columns backwards and each twice, between empty ones.
    let huge: Vec<(u32, f64)> = (0..5000u32).rev().flat_map(|j| [(j, 1.0), (j, f64::from(j))]).collect();
    let a: CsrMatrix<f64, O> = from_rows(5000, &[&[], &huge, &[]]);
    let sums: Vec<(u32, f64)> = (0..5000).map(|j| (j, f64::from(j) + 1.0)).collect();
    assert_eq!(a.canonical(), from_rows(5000, &[&[], &sums, &[]]));
    let transpose: Vec<_> = (0..5000u32).map(|j| [(1, 1.0), (1, f64::from(j))]).collect();
    assert_eq!(a.transpose().unwrap(), from_rows(3, &transpose.iter().map(|row| &row[..]).collect::<Vec<_>>()));
    assert_eq!((a.norm_inf(), a.norm_one(), a.norm_max()), (5000.0 * 5001.0 / 2.0, 5000.0, 5000.0));
    assert_eq!(a.diagonal(), [0.0, 2.0, 0.0]);
}

/// Memory grows with the entries, not with the columns that there might be.
#[test]
#[cfg(target_pointer_width = "64")]
fn as_many_columns_as_there_can_be() {
    let last = u32::MAX - 1;
    let a = from_rows::<u64>(u32::MAX as usize, &[&[(last, 1.0), (0, 2.0)], &[(last, -4.0)]]);
    assert_eq!(a.norm_one(), 5.0);
    assert_eq!(a.canonical().row(0), (&[0, last][..], &[2.0, 1.0][..]));
    assert_eq!(a.drop_zeros().nnz(), 3);
    assert_eq!(a.diagonal(), [2.0, 0.0]);
    assert_eq!(a.slice_rows(1..2).unwrap().row(0), (&[last][..], &[-4.0][..]));
    refused(a.to_dense(), "invalid dense matrix: 2 x 4294967295 elements, and at most 67108864 are made");
    refused(a.permute(&[1, 0], &[0]), "col_permutation has 1 elements where the operation needs 4294967295");
    // No elements, whatever the other dimension.
    assert_eq!(from_rows::<u64>(u32::MAX as usize, &[]).to_dense().unwrap(), []);
}

fn refused<M: std::fmt::Debug>(result: Result<M>, expected: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn bad_arguments_are_refused() {
    let a = example::<u32>();
    let columns = [0, 1, 2, 3, 4];
    refused(a.permute(&[0, 1, 2], &columns), "row_permutation has 3 elements where the operation needs 4");
    refused(a.permute(&[0, 1, 4, 9], &columns), "invalid option: row_permutation[2] is row 4 of 4");
    refused(a.permute(&[1, 2, 3, 2], &columns), "invalid option: row_permutation[3] is row 2, and so is [1]");
    refused(a.permute(&[1, 2, 3, 0], &[0; 5]), "invalid option: col_permutation[1] is column 0, and so is [0]");
    refused(a.permute(&[1, 2, 3, 0], &[u32::MAX; 5]), "invalid option: col_permutation[0] is column 4294967295 of 5");

    refused(a.slice_rows(3..5), "invalid option: rows 3..5 of a matrix with 4 rows");
    refused(a.slice_rows(5..5), "invalid option: rows 5..5 of a matrix with 4 rows");
    #[expect(clippy::reversed_empty_ranges)] // what is refused
    refused(a.slice_rows(3..2), "invalid option: rows 3..2 of a matrix with 4 rows");
    refused(a.slice_rows(0..usize::MAX), &format!("invalid option: rows 0..{} of a matrix with 4 rows", usize::MAX));

    let dense = |nrows, ncols, values: &[f64]| CsrMatrix::<f64>::from_dense(nrows, ncols, values);
    refused(dense(2, 3, &[0.0; 5]), "invalid dense matrix: 5 values for 2 x 3 elements");
    refused(dense(0, 3, &[0.0; 3]), "invalid dense matrix: 3 values for 0 x 3 elements");
    let half = 1 << (usize::BITS / 2);
    refused(dense(half, half, &[]), &format!("invalid dense matrix: 0 values for {half} x {half} elements"));
    if usize::BITS == 64 {
        let beyond = "and 32-bit indices reach 4294967295";
        refused(dense(half, 0, &[]), &format!("invalid dense matrix: {half} rows, {beyond}"));
        refused(dense(0, half, &[]), &format!("invalid dense matrix: {half} columns, {beyond}"));
    }
    // One element more than the limit allows.
    let wide = from_rows::<u32>(CsrMatrix::<f64>::MAX_DENSE + 1, &[&[]]);
    refused(wide.to_dense(), "invalid dense matrix: 1 x 67108865 elements, and at most 67108864 are made");
}
