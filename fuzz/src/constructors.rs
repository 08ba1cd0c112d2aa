//! Every `try_from_*` constructor, on the arrays of valid matrices and on damaged ones.
//!
//! Intact arrays are accepted. What is accepted holds the entries that plain code finds in the arrays, and survives
//! every operation. A constructor allocates nothing of the matrix's size, whatever sizes it is told, and a view of
//! borrowed arrays gives the same answer.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use warpsparse::{
    CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, DiaMatrix, EllMatrix, Error, HybMatrix, Offset, Result,
    Scalar,
};

use crate::{
    Entry, allocations,
    arrays::{Element, Matrix, is_positive_zero, of_compressed, offsets},
    bits, by_row, by_row_and_column, sums,
    survival::{MAX_SIZE, survives, to_csr},
    transposed,
};

/// The arrays of larger formats are not made.
const MAX_SLOTS: usize = 1 << 16;

/// A matrix, and the constructor that is given its arrays.
#[derive(Arbitrary, Debug)]
pub struct Input {
    format: Format,
    single: bool,
    matrix: Matrix,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Format {
    Coo,
    Csr,
    CsrWide,
    Csc,
    CscWide,
    Dia,
    Ell,
    Hyb,
}

/// Panics unless the constructor does what it promises.
pub fn check(input: &Input) {
    if input.single { run::<f32>(input.format, &input.matrix) } else { run::<f64>(input.format, &input.matrix) }
}

fn run<T: Scalar + Element>(format: Format, input: &Matrix) {
    match format {
        Format::Coo => coo::<T>(input),
        Format::Csr => csr::<T, u32>(input),
        Format::CsrWide => csr::<T, u64>(input),
        Format::Csc => csc::<T, u32>(input),
        Format::CscWide => csc::<T, u64>(input),
        Format::Dia => dia::<T>(input),
        Format::Ell => ell::<T>(input),
        Format::Hyb => hyb::<T>(input),
    }
}

/// The constructor's answer: intact arrays must be accepted, and the error for others names a problem.
pub(crate) fn construct<M>(input: &Matrix, constructor: impl FnOnce() -> Result<M>) -> Option<M> {
    /// An error's text, and what shares the arrays.
    const SMALL: usize = 1 << 10;
    match allocations::at_most(SMALL, constructor) {
        Ok(made) => Some(made),
        Err(Error::InvalidMatrix { problem, .. }) if !problem.is_empty() => {
            assert!(!input.is_intact(), "valid arrays are refused: {problem}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same answer for owned and for borrowed arrays: two matrices, unless both were refused.
fn construct_both<M>(input: &Matrix, owned: impl FnOnce() -> Result<M>, borrowed: Result<M>) -> Option<[M; 2]> {
    let mut refused = None;
    let owned = construct(input, || owned().inspect_err(|error| refused = Some(error.to_string())));
    match borrowed {
        Ok(borrowed) => Some([owned.expect("what is valid borrowed is valid owned"), borrowed]),
        Err(error) => {
            assert_eq!(refused, Some(error.to_string()));
            None
        }
    }
}

fn coo<T: Scalar + Element>(input: &Matrix) {
    let (mut nrows, mut ncols, entries) = input.entries::<T>();
    let [mut rows, mut columns] = indices(&entries);
    let mut values: Vec<T> = entries.iter().map(|entry| entry.2).collect();
    input.damage(&mut [&mut nrows, &mut ncols, &mut rows, &mut columns, &mut values]);

    let borrowed = CooView::try_from_triplets(nrows, ncols, &rows, &columns, &values).map(CooView::to_matrix);
    let (i, j, v) = (rows.clone(), columns.clone(), values.clone());
    let owned = || CooMatrix::try_from_triplets(nrows, ncols, i, j, v);
    let Some([owned, borrowed]) = construct_both(input, owned, borrowed) else { return };
    let entries = zip(&rows, &columns, &values);
    for coo in [&owned, &borrowed] {
        assert_eq!((coo.nrows(), coo.ncols(), coo.nnz()), (nrows, ncols, values.len()));
        assert_eq!(bits(coo.triplets()), bits(entries.iter().copied()));
        assert_eq!(coo.is_row_sorted(), rows.is_sorted());
    }
    assert_eq!(bits(borrowed.transpose().triplets()), bits(transposed(&entries)));
    if nrows.max(ncols) <= MAX_SIZE {
        assert_eq!(bits(owned.sorted_by_row().expect("it is small").triplets()), bits(by_row(entries.clone())));
        survives(&CsrMatrix::try_from(&owned).expect("it is small"), &sums(&entries));
    }
}

fn csr<T: Scalar + Element, O: Offset + Element>(input: &Matrix) {
    let (mut nrows, mut ncols, entries) = input.entries::<T>();
    let entries = by_row(entries);
    let [rows, mut columns] = indices(&entries);
    let mut offsets: Vec<O> = offsets(nrows, &rows);
    let mut values: Vec<T> = entries.iter().map(|entry| entry.2).collect();
    input.damage(&mut [&mut nrows, &mut ncols, &mut offsets, &mut columns, &mut values]);

    let borrowed = CsrView::try_from_csr_data(nrows, ncols, &offsets, &columns, &values).map(CsrView::to_matrix);
    let (o, j, v) = (offsets.clone(), columns.clone(), values.clone());
    let owned = || CsrMatrix::try_from_csr_data(nrows, ncols, o, j, v);
    let Some([owned, borrowed]) = construct_both(input, owned, borrowed) else { return };
    let entries = of_compressed(&offsets, &columns, &values);
    assert_eq!((owned.nrows(), owned.ncols(), owned.nnz()), (nrows, ncols, values.len()));
    assert_eq!(bits(borrowed.triplets()), bits(entries.iter().copied()));
    if ncols <= MAX_SIZE {
        survives(&owned, &entries);
    }
}

fn csc<T: Scalar + Element, O: Offset + Element>(input: &Matrix) {
    let (mut nrows, mut ncols, entries) = input.entries::<T>();
    let entries = by_row(transposed(&entries));
    let [columns, mut rows] = indices(&entries);
    let mut offsets: Vec<O> = offsets(ncols, &columns);
    let mut values: Vec<T> = entries.iter().map(|entry| entry.2).collect();
    input.damage(&mut [&mut nrows, &mut ncols, &mut offsets, &mut rows, &mut values]);

    let borrowed = CscView::try_from_csc_data(nrows, ncols, &offsets, &rows, &values).map(CscView::to_matrix);
    let (o, i, v) = (offsets.clone(), rows.clone(), values.clone());
    let owned = || CscMatrix::try_from_csc_data(nrows, ncols, o, i, v);
    let Some([owned, borrowed]) = construct_both(input, owned, borrowed) else { return };
    let by_column = of_compressed(&offsets, &rows, &values);
    let entries = transposed(&by_column);
    assert_eq!((owned.nrows(), owned.ncols(), owned.nnz()), (nrows, ncols, values.len()));
    assert_eq!(bits(owned.triplets()), bits(entries.iter().copied()));
    assert_eq!(bits(borrowed.as_view().triplets()), bits(entries.iter().copied()));
    assert_eq!(owned.cols().map(|(rows, _)| rows.len()).sum::<usize>(), values.len());
    if nrows <= MAX_SIZE {
        survives(owned.as_transposed(), &by_column);
        survives(&CsrMatrix::try_from(&owned).expect("it is small"), &by_row_and_column(entries));
    }
}

fn dia<T: Scalar + Element>(input: &Matrix) {
    let (mut nrows, mut ncols, entries) = input.entries::<T>();
    let entries = sums(&entries);
    let diagonals: BTreeSet<i64> = entries.iter().map(|&(i, j, _)| j as i64 - i as i64).collect();
    let mut offsets: Vec<i64> = diagonals.into_iter().collect();
    let mut leading_dimension = (nrows + usize::from(input.spare)).next_multiple_of(4);
    if leading_dimension * offsets.len() > MAX_SLOTS {
        return;
    }
    let mut values = vec![T::default(); leading_dimension * offsets.len()];
    for (i, j, value) in entries {
        let diagonal = offsets.iter().position(|&offset| offset == j as i64 - i as i64).expect("it was put there");
        values[diagonal * leading_dimension + i] = value;
    }
    input.damage(&mut [&mut nrows, &mut ncols, &mut leading_dimension, &mut offsets, &mut values]);

    let (o, v) = (offsets.clone(), values.clone());
    let made = || DiaMatrix::try_from_dia_data(nrows, ncols, leading_dimension, o, v);
    let Some(dia) = construct(input, made) else { return };
    assert_eq!((dia.nrows(), dia.ncols(), dia.leading_dimension()), (nrows, ncols, leading_dimension));
    assert_eq!(dia.nnz(), values.iter().filter(|&&value| !is_positive_zero(value)).count());
    if nrows.max(ncols) <= MAX_SIZE {
        let places = (0..nrows).flat_map(|i| offsets.iter().enumerate().map(move |(d, &offset)| (i, d, offset)));
        let slots = places.map(|(i, d, offset)| (i, (i as i64 + offset) as usize, values[d * leading_dimension + i]));
        let entries: Vec<_> = slots.filter(|&(_, _, value)| !is_positive_zero(value)).collect();
        assert_eq!(bits(dia.triplets()), bits(entries.iter().copied()));
        assert_eq!(entries.len(), dia.nnz(), "an entry outside of the matrix");
        assert!(entries.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)), "a diagonal twice");
        survives(&to_csr(&dia), &entries);
    }
}

/// The arrays of a matrix in ELL format.
struct Ell<T> {
    nrows: usize,
    ncols: usize,
    width: usize,
    leading_dimension: usize,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar + Element> Ell<T> {
    /// The first `width` entries of each row, and the other entries.
    fn new(input: &Matrix, width: usize) -> Option<(Self, Vec<Entry<T>>)> {
        let (nrows, ncols, entries) = input.entries::<T>();
        let mut lengths = vec![0; nrows];
        entries.iter().for_each(|&(i, _, _)| lengths[i] += 1);
        let width = lengths.into_iter().max().unwrap_or(0).min(width);
        let leading_dimension = (nrows + usize::from(input.spare)).next_multiple_of(4);
        let slots = leading_dimension * width;
        if slots > MAX_SLOTS {
            return None;
        }
        let (mut columns, mut values) = (vec![u32::MAX; slots], vec![T::default(); slots]);
        let (mut filled, mut others) = (vec![0; nrows], Vec::new());
        for (i, j, value) in by_row(entries) {
            if filled[i] == width {
                others.push((i, j, value));
                continue;
            }
            let slot = filled[i] * leading_dimension + i;
            (columns[slot], values[slot]) = (j as u32, value);
            filled[i] += 1;
        }
        Some((Self { nrows, ncols, width, leading_dimension, columns, values }, others))
    }

    fn construct(&self, input: &Matrix) -> Option<EllMatrix<T>> {
        let (j, v) = (self.columns.clone(), self.values.clone());
        let &Self { nrows, ncols, width, leading_dimension, .. } = self;
        construct(input, || EllMatrix::try_from_ell_data(nrows, ncols, width, leading_dimension, j, v))
    }

    fn is_small(&self) -> bool {
        self.nrows.max(self.ncols) <= MAX_SIZE
    }

    /// The entries of arrays that were accepted.
    fn entries(&self) -> Vec<Entry<T>> {
        let mut entries = Vec::new();
        for i in 0..self.nrows {
            for slot in (0..self.width).map(|k| k * self.leading_dimension + i) {
                if self.columns[slot] != u32::MAX {
                    entries.push((i, self.columns[slot] as usize, self.values[slot]));
                }
            }
        }
        entries
    }
}

fn ell<T: Scalar + Element>(input: &Matrix) {
    let Some((mut arrays, _)) = Ell::<T>::new(input, usize::MAX) else { return };
    let Ell { nrows, ncols, width, leading_dimension, columns, values } = &mut arrays;
    input.damage(&mut [nrows, ncols, width, leading_dimension, columns, values]);
    let Some(ell) = arrays.construct(input) else { return };
    assert_eq!((ell.nrows(), ell.ncols(), ell.width()), (arrays.nrows, arrays.ncols, arrays.width));
    assert_eq!(ell.nnz(), arrays.columns.iter().filter(|&&column| column != u32::MAX).count());
    if arrays.is_small() {
        let entries = arrays.entries();
        assert_eq!(bits(ell.triplets()), bits(entries.iter().copied()));
        assert_eq!(entries.len(), ell.nnz(), "an entry below the last row");
        survives(&to_csr(&ell), &entries);
    }
}

fn hyb<T: Scalar + Element>(input: &Matrix) {
    let Some((mut arrays, others)) = Ell::<T>::new(input, usize::from(input.spare % 4)) else { return };
    let (mut nrows, mut ncols) = (arrays.nrows, arrays.ncols);
    let [mut rows, mut columns] = indices(&others);
    let mut values: Vec<T> = others.iter().map(|entry| entry.2).collect();
    input.damage(&mut [
        &mut nrows,
        &mut ncols,
        &mut rows,
        &mut columns,
        &mut values,
        &mut arrays.ncols,
        &mut arrays.nrows,
    ]);
    let Some(ell) = arrays.construct(input) else { return };
    let (i, j, v) = (rows.clone(), columns.clone(), values.clone());
    let Some(coo) = construct(input, || CooMatrix::try_from_triplets(nrows, ncols, i, j, v)) else { return };
    let nnz = ell.nnz() + coo.nnz();
    let Some(hyb) = construct(input, || HybMatrix::try_from_parts(ell, coo)) else { return };
    assert_eq!((hyb.nrows(), hyb.ncols(), hyb.nnz()), (nrows, ncols, nnz));
    if arrays.is_small() {
        let mut entries = arrays.entries();
        entries.extend(zip(&rows, &columns, &values));
        let entries = by_row(entries);
        assert_eq!(bits(hyb.triplets()), bits(entries.iter().copied()));
        survives(&to_csr(&hyb), &entries);
    }
}

/// The rows and the columns of entries.
fn indices<T>(entries: &[Entry<T>]) -> [Vec<u32>; 2] {
    [entries.iter().map(|entry| entry.0 as u32).collect(), entries.iter().map(|entry| entry.1 as u32).collect()]
}

fn zip<T: Scalar>(rows: &[u32], columns: &[u32], values: &[T]) -> Vec<Entry<T>> {
    rows.iter().zip(columns).zip(values).map(|((&i, &j), &value)| (i as usize, j as usize, value)).collect()
}
