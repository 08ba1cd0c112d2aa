//! DIA, ELL and HYB on the host: what they store, what they refuse, and the way from and to CSR and COO.

#[path = "common/properties.rs"]
mod properties;

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};
use warpsparse::{CooMatrix, CsrMatrix, DiaMatrix, EllMatrix, HybMatrix, Offset, Scalar, strategies};

const PADDING: u32 = EllMatrix::<f64>::PADDING;

/// The entries of each row: what the references below work on.
type Rows = Vec<Vec<(usize, f64)>>;

fn csr(ncols: usize, rows: &[Vec<(usize, f64)>]) -> CsrMatrix<f64> {
    let mut offsets = vec![0];
    offsets.extend(rows.iter().scan(0, |end, row| {
        *end += row.len() as u32;
        Some(*end)
    }));
    let (columns, values) = rows.iter().flatten().map(|&(column, value)| (column as u32, value)).unzip();
    CsrMatrix::try_from_csr_data(rows.len(), ncols, offsets, columns, values).unwrap()
}

fn rows_of(csr: &CsrMatrix<f64>) -> Rows {
    (0..csr.nrows())
        .map(|i| csr.row_range(i).map(|k| (csr.col_indices()[k] as usize, csr.values()[k])).collect())
        .collect()
}

/// Entries with the bits of their values, so that NaN equals itself and -0.0 is not +0.0.
fn bits<T: Scalar>(triplets: impl Iterator<Item = (usize, usize, T)>) -> Vec<(usize, usize, u64)> {
    // Which NaN a sum of two gives is up to the compiler.
    let bits = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    triplets.map(|(i, j, value)| (i, j, bits(value.to_f64()))).collect()
}

fn value_bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Rows as triplets.
fn listed(rows: &Rows) -> impl Iterator<Item = (usize, usize, f64)> {
    rows.iter().enumerate().flat_map(|(i, row)| row.iter().map(move |&(column, value)| (i, column, value)))
}

/// Sorted columns, duplicates summed in storage order, no +0.0.
fn canonical(rows: &Rows) -> Rows {
    let sum = |row: &Vec<(usize, f64)>| {
        let mut sums = BTreeMap::new();
        for &(column, value) in row {
            sums.entry(column).and_modify(|sum| *sum += value).or_insert(value);
        }
        sums.into_iter().filter(|(_, sum)| sum.to_bits() != 0).collect()
    };
    rows.iter().map(sum).collect()
}

/// The arrays of the ELL format, slot by slot: leading dimension, columns and values.
fn ell_arrays(rows: &Rows, width: usize) -> (usize, Vec<u32>, Vec<f64>) {
    let leading_dimension = rows.len().div_ceil(32) * 32;
    let mut arrays = (leading_dimension, vec![], vec![]);
    for k in 0..width {
        for i in 0..leading_dimension {
            let slot = rows.get(i).and_then(|row| row.get(k));
            arrays.1.push(slot.map_or(u32::MAX, |&(column, _)| column as u32));
            arrays.2.push(slot.map_or(0.0, |&(_, value)| value));
        }
    }
    arrays
}

/// The width of the ELL part of HYB, by its definition.
fn hyb_width(rows: &Rows) -> usize {
    let pays = |width: usize| {
        let long = rows.iter().filter(|row| row.len() >= width).count();
        3 * long >= rows.len() && long >= 4096
    };
    (1..).take_while(|&width| pays(width)).count()
}

/// All conversions of this matrix, checked against the references.
fn check_conversions(ncols: usize, rows: &Rows) {
    let csr = csr(ncols, rows);
    let shape = (rows.len(), ncols);
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);

    let ell = EllMatrix::from_csr_with_fill(&csr, f64::INFINITY).unwrap();
    let (leading_dimension, columns, values) = ell_arrays(rows, longest);
    assert_eq!((ell.nrows(), ell.ncols(), ell.width(), ell.nnz()), (shape.0, shape.1, longest, csr.nnz()));
    assert_eq!((ell.leading_dimension(), ell.col_indices()), (leading_dimension, &columns[..]));
    assert_eq!(value_bits(ell.values()), value_bits(&values));
    assert_eq!(bits(ell.triplets()), bits(listed(rows)));
    let back = CsrMatrix::<f64>::try_from(&ell).unwrap();
    assert_eq!((back.row_offsets(), bits(back.triplets())), (csr.row_offsets(), bits(listed(rows))));

    let width = hyb_width(rows);
    for (hyb, width) in [
        (HybMatrix::try_from(&csr).unwrap(), width),
        (HybMatrix::from_csr_with_width(&csr, 2).unwrap(), longest.min(2)),
    ] {
        let (_, columns, values) = ell_arrays(rows, width);
        assert_eq!((hyb.nrows(), hyb.ncols(), hyb.nnz()), (shape.0, shape.1, csr.nnz()));
        assert_eq!((hyb.ell().width(), hyb.ell().col_indices()), (width, &columns[..]));
        assert_eq!(value_bits(hyb.ell().values()), value_bits(&values));
        let rest = |row: &Vec<(usize, f64)>| row.iter().copied().skip(width).collect();
        assert_eq!(bits(hyb.coo().triplets()), bits(listed(&rows.iter().map(rest).collect())));
        assert_eq!(bits(hyb.triplets()), bits(listed(rows)));
        let back = CsrMatrix::<f64>::try_from(&hyb).unwrap();
        assert_eq!((back.row_offsets(), bits(back.triplets())), (csr.row_offsets(), bits(listed(rows))));
    }

    let dia = DiaMatrix::from_csr_with_fill(&csr, f64::INFINITY).unwrap();
    let canonical = canonical(rows);
    let mut offsets: Vec<i64> = listed(rows).map(|(i, j, _)| j as i64 - i as i64).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let mut values = vec![0.0; leading_dimension * offsets.len()];
    for (i, j, value) in listed(&canonical) {
        let d = offsets.iter().position(|&offset| offset == j as i64 - i as i64).unwrap();
        values[d * leading_dimension + i] = value;
    }
    let nnz = listed(&canonical).count();
    assert_eq!((dia.nrows(), dia.ncols(), dia.leading_dimension()), (shape.0, shape.1, leading_dimension));
    assert_eq!((dia.offsets(), dia.nnz()), (&offsets[..], nnz));
    assert_eq!(value_bits(dia.values()), value_bits(&values));
    assert_eq!(bits(dia.triplets()), bits(listed(&canonical)));
    let back = CsrMatrix::<f64>::try_from(&dia).unwrap();
    assert_eq!((back.nrows(), back.ncols()), shape);
    assert_eq!(bits(back.triplets()), bits(listed(&canonical)));
}

#[test]
fn what_is_stored() {
    // 1 . 2 .
    // . . . .
    // . 3 . 4
    let csr = csr(4, &[vec![(2, 2.0), (0, 1.0)], vec![], vec![(1, 3.0), (3, 4.0)]]);
    let ell = EllMatrix::try_from(&csr).unwrap();
    assert_eq!((ell.width(), ell.leading_dimension(), ell.nnz()), (2, 32, 4));
    assert_eq!(ell.col_indices()[..4], [2, PADDING, 1, PADDING]);
    assert_eq!(ell.col_indices()[32..36], [0, PADDING, 3, PADDING]);
    assert_eq!((&ell.values()[..4], &ell.values()[32..36]), (&[2.0, 0.0, 3.0, 0.0][..], &[1.0, 0.0, 4.0, 0.0][..]));

    let dia = DiaMatrix::try_from(&csr).unwrap();
    assert_eq!((dia.offsets(), dia.leading_dimension(), dia.nnz()), (&[-1, 0, 1, 2][..], 32, 4));
    for (d, diagonal) in [[0.0, 0.0, 3.0], [1.0, 0.0, 0.0], [0.0, 0.0, 4.0], [2.0, 0.0, 0.0]].iter().enumerate() {
        assert_eq!(dia.values()[32 * d..32 * d + 3], *diagonal, "diagonal {d}");
    }

    let hyb = HybMatrix::from_csr_with_width(&csr, 1).unwrap();
    assert_eq!(hyb.ell().col_indices()[..4], [2, PADDING, 1, PADDING]);
    assert_eq!((hyb.coo().row_indices(), hyb.coo().col_indices()), (&[0, 2][..], &[0, 3][..]));
    assert_eq!(hyb.coo().values(), [1.0, 4.0]);
    assert_eq!((hyb.ell().nnz(), hyb.nnz()), (2, 4));
}

#[test]
fn degenerate_shapes_convert() {
    for (nrows, ncols) in [(0, 0), (0, 5), (5, 0), (5, 5), (33, 1)] {
        check_conversions(ncols, &vec![vec![]; nrows]);
    }
    let empty = csr(3, &vec![vec![]; 40]);
    assert_eq!(
        (EllMatrix::try_from(&empty).unwrap().width(), DiaMatrix::try_from(&empty).unwrap().offsets().len()),
        (0, 0)
    );
}

#[test]
fn one_huge_row_converts() {
    let mut rows = vec![vec![]; 40];
    rows[17] = (0..5000).map(|k| (k * 7919 % 5000, k as f64 + 1.0)).collect();
    check_conversions(5000, &rows);
    check_conversions(5000, &rows[17..18].to_vec());
    // A single column: all entries are duplicates.
    rows[17].iter_mut().for_each(|entry| entry.0 = 0);
    check_conversions(1, &rows);
}

#[test]
fn zeros_signs_and_nan_survive() {
    let nan = f64::NAN;
    check_conversions(
        6,
        &vec![vec![(0, 0.0), (1, -0.0), (2, nan), (3, f64::INFINITY)], vec![(5, 0.0)], vec![(0, -0.0)]],
    );
    let ell = EllMatrix::try_from(&csr(2, &[vec![(1, 0.0), (0, -0.0)]])).unwrap();
    assert_eq!(bits(ell.triplets()), bits([(0, 1, 0.0), (0, 0, -0.0)].into_iter()));
    assert_eq!(ell.nnz(), 2);
    let dia = DiaMatrix::try_from(&csr(3, &[vec![(0, 0.0), (1, -0.0), (2, nan)]])).unwrap();
    assert_eq!((dia.offsets(), dia.nnz()), (&[0, 1, 2][..], 2));
    assert_eq!(bits(dia.triplets()), bits([(0, 1, -0.0), (0, 2, nan)].into_iter()));
}

#[test]
fn duplicates_stay_in_ell_and_hyb_and_are_summed_in_dia() {
    let tiny = 1e-17;
    let rows: Rows = vec![
        // In storage order: (1 + tiny) - 1 = 0, where (1 - 1) + tiny would not be.
        vec![(1, 1.0), (0, 3.0), (1, tiny), (1, -1.0)],
        vec![(2, -0.0), (2, -0.0), (1, 0.0), (1, -0.0), (0, -0.0), (0, 0.0)],
        vec![(1, 1.0), (1, -1.0), (1, -0.0), (2, 5.0), (2, 0.5)],
    ];
    check_conversions(3, &rows);
    let dia = DiaMatrix::try_from(&csr(3, &rows)).unwrap();
    assert_eq!(bits(dia.triplets()), bits([(0, 0, 3.0), (1, 2, -0.0), (2, 2, 5.5)].into_iter()));
}

/// More rows than a block of work has, and no multiple of it.
#[test]
fn blocks_of_rows_fit_together() {
    let length = |i: usize| [3, 0, 7, 1, 2][i % 5] + if i == 9000 { 50 } else { 0 };
    let value = |i: usize, k: usize| (i * 64 + k) as f64 - 100.0;
    let sorted = |i: usize| (0..length(i)).map(|k| (i + k, value(i, k))).collect();
    check_conversions(10_100, &(0..10_001).map(sorted).collect());
    // In any order, and with duplicates in the longest row.
    let unsorted = |i: usize| (0..length(i)).map(|k| (i + k * 17 % 23, value(i, k))).collect();
    check_conversions(10_100, &(0..10_001).map(unsorted).collect());
}

#[test]
fn columns_of_32_bits_are_reached() {
    let (last, ncols) = (u32::MAX as usize - 1, u32::MAX as usize);
    let csr = csr(ncols, &[vec![(0, 1.0)], vec![(last, 2.0)]]);
    let expected = bits(csr.triplets());
    assert_eq!(bits(EllMatrix::try_from(&csr).unwrap().triplets()), expected);
    assert_eq!(bits(HybMatrix::try_from(&csr).unwrap().triplets()), expected);
    let dia = DiaMatrix::try_from(&csr).unwrap();
    assert_eq!((dia.offsets(), bits(dia.triplets())), (&[0, last as i64 - 1][..], expected));
}

#[test]
fn offsets_of_64_bits_convert() {
    let csr = csr(3, &[vec![(2, 2.0), (0, 1.0)], vec![(1, 3.0)]]);
    let wide = CsrMatrix::<f64, u64>::from(&csr);
    let ell = EllMatrix::try_from(&wide).unwrap();
    assert_eq!(ell, EllMatrix::try_from(&csr).unwrap());
    assert_eq!(CsrMatrix::<f64, u64>::try_from(&ell).unwrap(), wide);
    let hyb = HybMatrix::from_csr_with_width(&wide, 1).unwrap();
    assert_eq!(hyb, HybMatrix::from_csr_with_width(&csr, 1).unwrap());
    assert_eq!(CsrMatrix::<f64, u64>::try_from(&hyb).unwrap(), wide);
    let dia = DiaMatrix::try_from(&wide).unwrap();
    assert_eq!(dia, DiaMatrix::try_from(&csr).unwrap());
    assert_eq!(CsrMatrix::<f64, u64>::try_from(&dia).unwrap().row_offsets(), [0, 2, 3]);
}

#[test]
fn coo_converts_by_way_of_csr() {
    let coo =
        CooMatrix::try_from_triplets(2, 3, vec![1, 0, 1, 0], vec![2, 1, 0, 1], vec![1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let sorted = CooMatrix::try_from_triplets(2, 3, vec![0, 1, 1], vec![1, 0, 2], vec![6.0f32, 3.0, 1.0]).unwrap();
    assert_eq!(CooMatrix::try_from(&DiaMatrix::try_from(&coo).unwrap()).unwrap(), sorted);
    assert_eq!(CooMatrix::try_from(&EllMatrix::try_from(&coo).unwrap()).unwrap(), sorted);
    assert_eq!(CooMatrix::try_from(&HybMatrix::try_from(&coo).unwrap()).unwrap(), sorted);
}

#[test]
fn clones_share_the_arrays() {
    let csr = csr(2, &[vec![(1, 1.0)]]);
    let (ell, dia) = (EllMatrix::try_from(&csr).unwrap(), DiaMatrix::try_from(&csr).unwrap());
    assert_eq!(ell.clone().col_indices().as_ptr(), ell.col_indices().as_ptr());
    assert_eq!(ell.clone().values().as_ptr(), ell.values().as_ptr());
    assert_eq!(dia.clone().values().as_ptr(), dia.values().as_ptr());
}

/// The width that HYB chooses where `long` rows of `nrows` have 5 entries and the others 2.
fn chosen_width(nrows: usize, long: usize) -> usize {
    let row = |i: usize| (0..if i < long { 5 } else { 2 }).map(|k| (k, (i + k) as f64)).collect();
    let rows: Rows = (0..nrows).map(row).collect();
    let hyb = HybMatrix::try_from(&csr(5, &rows)).unwrap();
    assert_eq!(hyb.ell().width(), hyb_width(&rows));
    assert_eq!(bits(hyb.triplets()), bits(listed(&rows)));
    hyb.ell().width()
}

#[test]
fn columns_of_hyb_pay_off_for_a_third_of_the_rows_and_4096() {
    // Too few rows for any column.
    assert_eq!((chosen_width(4095, 4095), chosen_width(4095, 0)), (0, 0));
    assert_eq!((chosen_width(4096, 4096), chosen_width(4096, 4095), chosen_width(4096, 0)), (5, 2, 2));
    // A third of 12288 is 4096.
    assert_eq!((chosen_width(12_288, 4096), chosen_width(12_288, 4095)), (5, 2));
    // Beyond, a third decides: of 12289 rows it is not 4096 yet.
    assert_eq!((chosen_width(12_289, 4096), chosen_width(12_289, 4097)), (2, 5));
    assert_eq!((chosen_width(30_000, 9_999), chosen_width(30_000, 10_000)), (2, 5));
}

/// From CSR by a format and back, with the offsets `O`.
fn survives<T: Scalar, O: Offset>(csr: &CsrMatrix<T>) -> std::result::Result<(), TestCaseError> {
    let offsets: Vec<O> = csr.row_offsets().iter().map(|&offset| offset.into()).collect();
    let (columns, values) = (csr.col_indices().to_vec(), csr.values().to_vec());
    let wide = CsrMatrix::try_from_csr_data(csr.nrows(), csr.ncols(), offsets, columns, values).unwrap();
    let all = f64::INFINITY;
    let by_ell = CsrMatrix::<T, O>::try_from(&EllMatrix::from_csr_with_fill(&wide, all).unwrap()).unwrap();
    let by_hyb = CsrMatrix::<T, O>::try_from(&HybMatrix::try_from(&wide).unwrap()).unwrap();
    for back in [by_ell, by_hyb] {
        prop_assert_eq!((back.nrows(), back.ncols()), (csr.nrows(), csr.ncols()));
        prop_assert_eq!(back.row_offsets(), wide.row_offsets());
        prop_assert_eq!(bits(back.triplets()), bits(csr.triplets()));
    }

    let mut sums = BTreeMap::new();
    for (i, j, value) in csr.triplets() {
        sums.entry((i, j)).and_modify(|sum| *sum += value).or_insert(value);
    }
    let expected = sums.into_iter().map(|((i, j), sum)| (i, j, sum)).filter(|entry| entry.2.to_f64().to_bits() != 0);
    let dia = DiaMatrix::from_csr_with_fill(&wide, all).unwrap();
    let back = CsrMatrix::<T, O>::try_from(&dia).unwrap();
    prop_assert_eq!((back.nrows(), back.ncols()), (csr.nrows(), csr.ncols()));
    prop_assert_eq!(bits(back.triplets()), bits(expected));
    prop_assert_eq!(dia.nnz(), back.nnz());
    Ok(())
}

#[test]
fn random_matrices_survive_f32() {
    let cases = strategies::csr_matrix_with_extremes::<f32>();
    properties::check("formats_padded_f32", 256, cases, |csr| survives::<f32, u64>(&csr));
}

#[test]
fn random_matrices_survive_f64() {
    let cases = strategies::csr_matrix_with_extremes::<f64>();
    properties::check("formats_padded_f64", 256, cases, |csr| survives::<f64, u32>(&csr));
}

#[test]
fn random_matrices_are_stored_as_defined() {
    properties::check("formats_padded_stored", 256, (strategies::csr_matrix::<f64>(), 0usize..50), |(csr, width)| {
        check_conversions(csr.ncols(), &rows_of(&csr));
        let hyb = HybMatrix::from_csr_with_width(&csr, width).unwrap();
        prop_assert_eq!(bits(hyb.triplets()), bits(csr.triplets()));
        Ok(())
    });
}
