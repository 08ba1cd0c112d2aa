//! Conversions and operations on random matrices, with offsets of both widths, against plain references: the same
//! entries, bit for bit and in the same order.

#[path = "common/properties.rs"]
mod properties;

use std::collections::BTreeMap;

use properties::check;
use proptest::prelude::*;
use warpsparse::{
    BlockSize, BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, DiaMatrix, EllMatrix, Error, HybMatrix, Offset, strategies,
};

/// Entries as `(row, column, bits of the value)`.
type Entries = Vec<(usize, usize, u64)>;

fn bits(triplets: impl Iterator<Item = (usize, usize, f64)>) -> Entries {
    triplets.map(|(i, j, value)| (i, j, value.to_bits())).collect()
}

/// The entries of a matrix, read off its arrays.
fn entries<O: Offset>(a: &CsrMatrix<f64, O>) -> Vec<(usize, usize, f64)> {
    let mut entries = Vec::new();
    for (i, ends) in a.row_offsets().windows(2).enumerate() {
        for k in ends[0].index()..ends[1].index() {
            entries.push((i, a.col_indices()[k] as usize, a.values()[k]));
        }
    }
    entries
}

/// The sums of duplicates, in storage order, by row and column.
fn sums<O: Offset>(a: &CsrMatrix<f64, O>) -> BTreeMap<(usize, usize), f64> {
    let mut sums = BTreeMap::new();
    for (i, j, value) in entries(a) {
        sums.entry((i, j)).and_modify(|sum| *sum += value).or_insert(value);
    }
    sums
}

/// Checks a property with offsets of both widths.
macro_rules! with_both_widths {
    ($property:ident, $cases:expr) => {
        check(concat!("formats_", stringify!($property)), 256, $cases, |(a, arguments)| {
            $property(&a, &arguments)?;
            $property(&CsrMatrix::<f64, u64>::from(&a), &arguments)
        });
    };
}

fn matrices() -> impl Strategy<Value = (CsrMatrix<f64>, ())> {
    (strategies::csr_matrix(), Just(()))
}

fn transposes<O: Offset>(a: &CsrMatrix<f64, O>, (): &()) -> Result<(), TestCaseError> {
    let mut by_column = entries(a);
    by_column.sort_by_key(|&(i, j, _)| (j, i)); // stable: duplicates keep their order
    let transpose = a.transpose().unwrap();
    prop_assert_eq!((transpose.nrows(), transpose.ncols()), (a.ncols(), a.nrows()));
    let expected = bits(by_column.iter().map(|&(i, j, value)| (j, i, value)));
    prop_assert_eq!(bits(entries(&transpose).into_iter()), expected);

    let mut sorted = entries(a);
    sorted.sort_by_key(|&(i, j, _)| (i, j));
    prop_assert_eq!(bits(entries(&transpose.transpose().unwrap()).into_iter()), bits(sorted.into_iter()));

    let csc = CscMatrix::try_from(a).unwrap();
    prop_assert_eq!(bits(csc.triplets()), bits(by_column.into_iter()));
    let csr = CsrMatrix::try_from(&csc).unwrap();
    prop_assert_eq!(&csr, &transpose.transpose().unwrap());
    prop_assert_eq!(CscMatrix::try_from(&csr).unwrap(), csc);
    Ok(())
}

#[test]
fn transposes_and_columns_hold_the_same_entries() {
    with_both_widths!(transposes, matrices());
}

fn sums_duplicates<O: Offset>(a: &CsrMatrix<f64, O>, (): &()) -> Result<(), TestCaseError> {
    let (canonical, sums) = (a.canonical(), sums(a));
    prop_assert_eq!(bits(entries(&canonical).into_iter()), bits(sums.iter().map(|(&(i, j), &sum)| (i, j, sum))));
    prop_assert!(canonical.is_canonical());
    prop_assert_eq!(a.is_canonical(), entries(a).is_sorted_by(|x, y| (x.0, x.1) < (y.0, y.1)));
    prop_assert_eq!(a.transpose().unwrap().transpose().unwrap().canonical(), canonical);

    let nonzero = entries(a).into_iter().filter(|&(_, _, value)| value != 0.0);
    prop_assert_eq!(bits(entries(&a.drop_zeros()).into_iter()), bits(nonzero));
    Ok(())
}

#[test]
fn canonical_matrices_hold_the_sums_of_duplicates() {
    with_both_widths!(sums_duplicates, matrices());
}

fn is_dense<O: Offset>(a: &CsrMatrix<f64, O>, (): &()) -> Result<(), TestCaseError> {
    let (nrows, ncols) = (a.nrows(), a.ncols());
    let mut expected = vec![0.0; nrows * ncols];
    for ((i, j), sum) in sums(a) {
        expected[i * ncols + j] = sum;
    }
    let dense = a.to_dense().unwrap();
    prop_assert_eq!(&dense, &expected);
    prop_assert_eq!(CsrMatrix::<f64, O>::from_dense(nrows, ncols, &dense).unwrap(), a.canonical().drop_zeros());
    let diagonal: Vec<f64> = (0..nrows.min(ncols)).map(|i| dense[i * ncols + i]).collect();
    prop_assert_eq!(a.diagonal(), diagonal);

    let at = |i: usize, j: usize| dense[i * ncols + j].abs();
    let row_sums = (0..nrows).map(|i| (0..ncols).map(|j| at(i, j)).sum::<f64>());
    let column_sums = (0..ncols).map(|j| (0..nrows).map(|i| at(i, j)).sum::<f64>());
    prop_assert_eq!(a.norm_inf(), row_sums.fold(0.0, f64::max));
    prop_assert_eq!(a.norm_one(), column_sums.fold(0.0, f64::max));
    prop_assert_eq!(a.norm_max(), dense.iter().fold(0.0, |largest: f64, value| largest.max(value.abs())));
    let frobenius = dense.iter().map(|value| value * value).sum::<f64>().sqrt();
    prop_assert!((a.norm_frobenius() - frobenius).abs() <= 1e-12 * frobenius);
    Ok(())
}

#[test]
fn dense_matrices_have_the_same_elements() {
    with_both_widths!(is_dense, matrices());
}

fn permutes<O: Offset>(a: &CsrMatrix<f64, O>, (rows, columns): &(Vec<u32>, Vec<u32>)) -> Result<(), TestCaseError> {
    let permuted = a.permute(rows, columns).unwrap();
    let (new_rows, new_columns) = (inverse(rows), inverse(columns));
    let mut expected: Vec<_> =
        entries(a).into_iter().map(|(i, j, value)| (new_rows[i] as usize, new_columns[j] as usize, value)).collect();
    expected.sort_by_key(|&(i, _, _)| i); // stable: the entries of a row keep their order
    prop_assert_eq!(bits(entries(&permuted).into_iter()), bits(expected.into_iter()));
    prop_assert_eq!(&permuted.permute(&new_rows, &new_columns).unwrap(), a);
    Ok(())
}

fn inverse(permutation: &[u32]) -> Vec<u32> {
    let position = |index| permutation.iter().position(|&other| other == index).unwrap() as u32;
    (0..permutation.len() as u32).map(position).collect()
}

#[test]
fn a_permutation_and_its_inverse_lead_back() {
    let permutation = |size: usize| Just((0..size as u32).collect::<Vec<_>>()).prop_shuffle();
    let cases = strategies::csr_matrix().prop_flat_map(move |a| {
        let permutations = (permutation(a.nrows()), permutation(a.ncols()));
        (Just(a), permutations)
    });
    with_both_widths!(permutes, cases);
}

fn slices<O: Offset>(a: &CsrMatrix<f64, O>, (begin, end): &(usize, usize)) -> Result<(), TestCaseError> {
    let slice = a.slice_rows(*begin..*end).unwrap();
    let inside = entries(a).into_iter().filter(|(i, _, _)| (begin..end).contains(&i));
    let expected = bits(inside.map(|(i, j, value)| (i - begin, j, value)));
    prop_assert_eq!(bits(entries(&slice).into_iter()), expected);
    prop_assert_eq!((slice.nrows(), slice.ncols()), (end - begin, a.ncols()));
    Ok(())
}

#[test]
fn slices_hold_the_rows_of_their_range() {
    let cases = strategies::csr_matrix::<f64>().prop_flat_map(|a| {
        let range = (0..=a.nrows(), 0..=a.nrows()).prop_map(|(x, y)| (x.min(y), x.max(y)));
        (Just(a), range)
    });
    with_both_widths!(slices, cases);
}

#[test]
fn triplets_in_any_order_lead_to_rows_and_columns() {
    let cases = strategies::csr_matrix::<f64>().prop_flat_map(|a| {
        let entries = Just(entries(&a)).prop_shuffle();
        ((Just(a.nrows()), Just(a.ncols())), entries)
    });
    check("formats_triplets", 256, cases, |((nrows, ncols), entries)| {
        let rows = entries.iter().map(|&(i, _, _)| i as u32).collect();
        let columns = entries.iter().map(|&(_, j, _)| j as u32).collect();
        let values = entries.iter().map(|&(_, _, value)| value).collect();
        let coo = CooMatrix::try_from_triplets(nrows, ncols, rows, columns, values).unwrap();
        let mut by_row = entries.clone();
        by_row.sort_by_key(|&(i, _, _)| i);
        prop_assert_eq!(bits(coo.sorted_by_row().unwrap().triplets()), bits(by_row.into_iter()));
        prop_assert_eq!(coo.is_row_sorted(), entries.is_sorted_by_key(|&(i, _, _)| i));

        let mut sums = BTreeMap::new();
        for &(i, j, value) in &entries {
            sums.entry((i, j)).and_modify(|sum| *sum += value).or_insert(value);
        }
        let mut expected = bits(sums.into_iter().map(|((i, j), sum)| (i, j, sum)));
        let csr = CsrMatrix::try_from(&coo).unwrap();
        prop_assert_eq!(bits(csr.triplets()), expected.clone());
        let csc = CscMatrix::try_from(&coo).unwrap();
        expected.sort_by_key(|&(i, j, _)| (j, i));
        prop_assert_eq!(bits(csc.triplets()), expected);
        prop_assert_eq!(CscMatrix::try_from(&csr).unwrap(), csc);
        Ok(())
    });
}

fn fills_blocks<O: Offset>(a: &CsrMatrix<f64, O>, &size: &usize) -> Result<(), TestCaseError> {
    let sums = sums(a);
    let blocks: std::collections::BTreeSet<_> = sums.keys().map(|&(i, j)| (i / size, j / size)).collect();
    // Every element of a block within the matrix, in the order of rows and columns.
    let mut expected = BTreeMap::new();
    for (block_row, block_column) in &blocks {
        for i in block_row * size..((block_row + 1) * size).min(a.nrows()) {
            for j in block_column * size..((block_column + 1) * size).min(a.ncols()) {
                expected.insert((i, j), sums.get(&(i, j)).copied().unwrap_or(0.0));
            }
        }
    }
    let expected = bits(expected.into_iter().map(|((i, j), value)| (i, j, value)));
    let bsr = BsrMatrix::from_csr_with_fill(a, BlockSize::Fixed(size), f64::INFINITY).unwrap();
    prop_assert_eq!((bsr.nrows(), bsr.ncols(), bsr.nnz()), (a.nrows(), a.ncols(), expected.len()));
    prop_assert_eq!(bsr.block_col_indices().len(), blocks.len());
    prop_assert_eq!(&bits(bsr.triplets()), &expected);
    prop_assert_eq!(&bits(entries(&CsrMatrix::<f64, O>::try_from(&bsr).unwrap()).into_iter()), &expected);
    prop_assert_eq!(bsr.transpose().unwrap().transpose().unwrap(), bsr.clone());
    prop_assert_eq!(bits(bsr.transpose().unwrap().triplets()), {
        let mut transposed: Vec<_> = expected.iter().map(|&(i, j, value)| (j, i, value)).collect();
        transposed.sort_unstable_by_key(|&(i, j, _)| (i, j));
        transposed
    });

    // What is reported, if this size is.
    if let Some(found) = a.blocks().filter(|found| found.size == size) {
        prop_assert_eq!((found.count, found.entries), (blocks.len(), sums.len()));
        prop_assert_eq!(found.added, expected.len() - sums.len());
        prop_assert!(found.fill() <= 1.25);
        prop_assert_eq!(BsrMatrix::try_from(a).unwrap(), bsr);
    }
    Ok(())
}

#[test]
fn blocks_hold_the_entries_and_zeros() {
    with_both_widths!(fills_blocks, (strategies::csr_matrix(), 2usize..=8));
}

/// From every format to several others and back. DIA has no explicit zeros, so the matrix has none.
fn around<O: Offset>(a: &CsrMatrix<f64, O>) -> warpsparse::Result<CsrMatrix<f64, O>> {
    let ell = EllMatrix::try_from(&CscMatrix::try_from(a).unwrap())?;
    let hyb = HybMatrix::try_from(&ell)?;
    let dia = DiaMatrix::try_from(&hyb)?;
    let dia = DiaMatrix::try_from(&EllMatrix::try_from(&dia)?)?;
    let ell = EllMatrix::try_from(&HybMatrix::try_from(&dia)?)?;
    let hyb = HybMatrix::try_from(&CooMatrix::try_from(&ell)?)?;
    let dia = DiaMatrix::try_from(&CscMatrix::<f64, O>::try_from(&hyb)?)?;
    let csc = CscMatrix::<f64, O>::try_from(&EllMatrix::try_from(&CooMatrix::try_from(&dia)?)?)?;
    let csc = CscMatrix::<f64, O>::try_from(&DiaMatrix::try_from(&csc)?)?;
    let bsr = BsrMatrix::try_from(&CooMatrix::try_from(&BsrMatrix::try_from(&csc)?)?)?;
    let bsr = BsrMatrix::try_from(&EllMatrix::try_from(&bsr)?)?;
    Ok(CsrMatrix::<f64, O>::try_from(&HybMatrix::try_from(&bsr)?)?.drop_zeros())
}

#[test]
fn a_canonical_matrix_survives_every_cycle() {
    let survived = std::cell::Cell::new(0);
    check("formats_cycles", 256, strategies::csr_matrix::<f64>(), |matrix| {
        let matrix = matrix.canonical().drop_zeros();
        let wide = CsrMatrix::<f64, u64>::from(&matrix);
        match (around(&matrix), around(&wide)) {
            (Ok(narrow), Ok(wide)) => {
                prop_assert_eq!(bits(narrow.triplets()), bits(matrix.triplets()));
                prop_assert_eq!(bits(wide.triplets()), bits(matrix.triplets()));
                survived.set(survived.get() + 1);
            }
            (Err(Error::PaddingExceeded { .. }), Err(Error::PaddingExceeded { .. })) => {}
            (narrow, wide) => panic!("{narrow:?}, {wide:?}"),
        }
        Ok(())
    });
    assert!(survived.get() > 0, "the padding ruled out every matrix");
}
