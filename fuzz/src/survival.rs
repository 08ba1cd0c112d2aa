//! What every CSR matrix must survive: accessors, operations, conversions and products, each against plain code.

use warpsparse::{
    CooMatrix, CscMatrix, CsrMatrix, Device, DiaMatrix, EllMatrix, Error, HybMatrix, Offset, Result, Scalar, Upload,
};

use crate::{Entry, arrays::is_positive_zero, bits, by_row_and_column, sums, transposed};

/// Larger matrices are only built: what follows takes memory and time by their sizes.
pub const MAX_SIZE: usize = 6000;

/// Checks a matrix that has these entries, row by row.
pub fn survives<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, entries: &[Entry<T>]) {
    holds(csr, entries);
    operations(csr, entries);
    padded(csr, entries);
    products(csr, (csr.nrows(), csr.ncols()), entries);

    let offsets = csr.row_offsets().iter().map(|offset| offset.index() as u32).collect();
    let (columns, values) = (csr.col_indices().to_vec(), csr.values().to_vec());
    let narrow = CsrMatrix::try_from_csr_data(csr.nrows(), csr.ncols(), offsets, columns, values);
    conversions(&narrow.expect("there are few entries"), entries);
}

fn holds<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, entries: &[Entry<T>]) {
    assert_eq!(csr.nnz(), entries.len());
    assert_eq!((csr.row_offsets().len(), csr.rows().len()), (csr.nrows() + 1, csr.nrows()));
    assert_eq!(bits(csr.triplets()), bits(entries.iter().copied()));
    let view = csr.as_view();
    assert_eq!(bits(view.triplets()), bits(entries.iter().copied()));
    assert_eq!(bits(view.to_matrix().triplets()), bits(entries.iter().copied()));
    let mut lengths = vec![0; csr.nrows()];
    entries.iter().for_each(|&(i, _, _)| lengths[i] += 1);
    for (i, (columns, values)) in csr.rows().enumerate() {
        assert_eq!((columns.len(), values.len(), csr.row_range(i).len()), (lengths[i], lengths[i], lengths[i]));
    }
    let structure = csr.structure();
    assert_eq!((structure.nrows, structure.ncols, structure.nnz), (csr.nrows(), csr.ncols(), entries.len()));
    assert_eq!(structure.max_row, lengths.iter().copied().max().unwrap_or(0));
    assert_eq!(structure.min_row, lengths.iter().copied().min().unwrap_or(0));
    assert_eq!(structure.row_histogram.iter().sum::<usize>(), csr.nrows());
    assert_eq!(structure.lower_bandwidth, entries.iter().map(|&(i, j, _)| i.saturating_sub(j)).max().unwrap_or(0));
    assert_eq!(structure.upper_bandwidth, entries.iter().map(|&(i, j, _)| j.saturating_sub(i)).max().unwrap_or(0));
    assert!((0.0..=1.0).contains(&structure.locality()));
}

fn operations<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, entries: &[Entry<T>]) {
    let (nrows, ncols) = (csr.nrows(), csr.ncols());
    let transpose = csr.transpose().expect("it is small");
    assert_eq!((transpose.nrows(), transpose.ncols()), (ncols, nrows));
    let mut by_column = entries.to_vec();
    by_column.sort_by_key(|&(_, j, _)| j);
    assert_eq!(bits(transpose.triplets()), bits(transposed(&by_column)));
    assert_eq!(bits(transpose.transpose().expect("it is small").triplets()), bits(by_row_and_column(entries.to_vec())));

    let csc = CscMatrix::try_from(csr).expect("it is small");
    assert_eq!(bits(csc.triplets()), bits(by_column.iter().copied()));
    assert_eq!(
        bits(CsrMatrix::try_from(&csc).expect("it is small").triplets()),
        bits(by_row_and_column(entries.to_vec()))
    );

    let sums = sums(entries);
    let canonical = csr.canonical();
    assert!(canonical.is_canonical());
    assert_eq!(csr.is_canonical(), entries.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
    assert_eq!(bits(canonical.triplets()), bits(sums.iter().copied()));

    let nonzero = entries.iter().copied().filter(|&(_, _, value)| value != T::default());
    assert_eq!(bits(csr.drop_zeros().triplets()), bits(nonzero));
    assert_eq!(bits(csr.cast::<f64>().triplets()), bits(entries.iter().map(|&(i, j, value)| (i, j, value.to_f64()))));

    let mut diagonal = vec![T::default(); nrows.min(ncols)];
    entries.iter().filter(|&&(i, j, _)| i == j).for_each(|&(i, _, value)| diagonal[i] += value);
    assert_eq!(
        bits(csr.diagonal().into_iter().map(|value| (0, 0, value))),
        bits(diagonal.into_iter().map(|value| (0, 0, value)))
    );

    let largest = sums.iter().map(|&(_, _, value)| value.to_f64().abs());
    let largest = largest.fold(0.0, |a: f64, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) });
    let norms = [csr.norm_max(), csr.norm_one(), csr.norm_inf(), csr.norm_frobenius()];
    assert_eq!(norms[0].to_bits(), largest.to_bits());
    assert!(norms.iter().all(|&norm| norm >= largest || largest.is_nan() && norm.is_nan()), "{norms:?}");

    let reversed = |size: usize| (0..size as u32).rev().collect::<Vec<_>>();
    let permuted = csr.permute(&reversed(nrows), &reversed(ncols)).expect("permutations");
    let mut expected: Vec<_> = entries.iter().map(|&(i, j, value)| (nrows - 1 - i, ncols - 1 - j, value)).collect();
    expected.sort_by_key(|&(i, _, _)| i);
    assert_eq!(bits(permuted.triplets()), bits(expected));

    let lower_half = csr.slice_rows(nrows / 2..nrows).expect("rows of the matrix");
    let expected = entries.iter().filter(|&&(i, _, _)| i >= nrows / 2);
    assert_eq!(bits(lower_half.triplets()), bits(expected.map(|&(i, j, value)| (i - nrows / 2, j, value))));

    if nrows * ncols <= 1 << 12 {
        let mut dense = vec![T::default(); nrows * ncols];
        entries.iter().for_each(|&(i, j, value)| dense[i * ncols + j] += value);
        let found = csr.to_dense().expect("it is small");
        assert!(found.iter().zip(&dense).all(|(&a, &b)| equal(a, b)));
        let back = CsrMatrix::<T, O>::from_dense(nrows, ncols, &dense).expect("it is small");
        let nonzero = sums.iter().copied().filter(|&(_, _, value)| value != T::default());
        assert_eq!(bits(back.triplets()), bits(nonzero));
    }
}

fn conversions<T: Scalar>(csr: &CsrMatrix<T>, entries: &[Entry<T>]) {
    let sums = sums(entries);
    let coo = CooMatrix::from(csr);
    assert!(coo.is_row_sorted());
    assert_eq!(bits(coo.triplets()), bits(entries.iter().copied()));
    assert_eq!(bits(CsrMatrix::try_from(&coo).expect("it is small").triplets()), bits(sums.iter().copied()));
    let mut by_column = sums.clone();
    by_column.sort_by_key(|&(_, j, _)| j);
    assert_eq!(bits(CscMatrix::try_from(&coo).expect("it is small").triplets()), bits(by_column));
    assert_eq!(
        bits(
            CooMatrix::from(&CscMatrix::try_from(csr).expect("it is small"))
                .sorted_by_row()
                .expect("it is small")
                .triplets()
        ),
        bits(by_row_and_column(entries.to_vec()))
    );

    let wide = CsrMatrix::<T, u64>::from(csr);
    holds(&wide, entries);
    assert_eq!(CsrMatrix::<T>::try_from(&wide).expect("it was narrow").row_offsets(), csr.row_offsets());
}

fn padded<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, entries: &[Entry<T>]) {
    if let Some(dia) = if_padding_allows(DiaMatrix::try_from(csr)) {
        // Sums in the order of their columns, without +0.0.
        let expected = bits(sums(entries).into_iter().filter(|&(_, _, value)| !is_positive_zero(value)));
        assert_eq!(bits(dia.triplets()), expected);
        assert_eq!(dia.nnz(), expected.len());
        assert_eq!(bits(to_csr(&dia).triplets()), expected);
    }
    let expected = bits(entries.iter().copied());
    if let Some(ell) = if_padding_allows(EllMatrix::try_from(csr)) {
        assert_eq!((ell.nnz(), bits(ell.triplets())), (entries.len(), expected.clone()));
        assert_eq!(bits(to_csr(&ell).triplets()), expected);
    }
    let by_rule = HybMatrix::try_from(csr);
    for hyb in [by_rule, HybMatrix::from_csr_with_width(csr, 1)].into_iter().filter_map(if_padding_allows) {
        assert_eq!((hyb.nnz(), bits(hyb.triplets())), (entries.len(), expected.clone()));
        assert_eq!(bits(to_csr(&hyb).triplets()), expected);
    }
}

/// By way of both widths of offsets.
pub fn to_csr<'a, T: Scalar, M>(matrix: &'a M) -> CsrMatrix<T>
where
    CsrMatrix<T>: TryFrom<&'a M, Error = Error>,
    CsrMatrix<T, u64>: TryFrom<&'a M, Error = Error>,
{
    let wide = CsrMatrix::<T, u64>::try_from(matrix).expect("64-bit offsets count any entries");
    let narrow = CsrMatrix::<T>::try_from(matrix).expect("there are few entries");
    assert_eq!(bits(wide.triplets()), bits(narrow.triplets()));
    narrow
}

fn if_padding_allows<M>(converted: Result<M>) -> Option<M> {
    match converted {
        Ok(matrix) => Some(matrix),
        Err(Error::PaddingExceeded { slots, limit, .. }) => {
            assert!(slots > limit && limit >= 1 << 16);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Checks products with a matrix of this size that has these entries, row by row.
pub(crate) fn products<T: Scalar>(
    matrix: &impl Upload<Scalar = T>,
    (nrows, ncols): (usize, usize),
    entries: &[Entry<T>],
) {
    let device = Device::cpu();
    let matrix = device.upload(matrix).expect("the CPU takes any matrix");
    let x: Vec<T> = (0..ncols).map(|j| T::from_f64((j % 7) as f64 - 3.0)).collect();
    for (alpha, beta, old) in [(2.0, 0.0, f64::NAN), (-1.0, 0.5, 4.0)] {
        let [alpha, beta, old] = [alpha, beta, old].map(T::from_f64);
        let mut expected = vec![T::default(); nrows];
        entries.iter().for_each(|&(i, j, value)| expected[i] += value * x[j]);
        let keep = if beta == T::default() { T::default() } else { beta * old };
        expected.iter_mut().for_each(|sum| *sum = alpha * *sum + keep);

        let mut y = device.upload_vec(&vec![old; nrows]).expect("the CPU takes any vector");
        matrix.spmv(alpha, &device.upload_vec(&x).expect("the CPU takes any vector"), beta, &mut y).expect("they fit");
        let y = y.to_vec().expect("the CPU gives any vector");
        assert!(y.iter().zip(&expected).all(|(&a, &b)| equal(a, b)), "{y:?}, expected {expected:?}");
    }
}

/// Equal, or both NaN.
fn equal<T: Scalar>(a: T, b: T) -> bool {
    a == b || (a.to_f64().is_nan() && b.to_f64().is_nan())
}
