//! `BsrMatrix::try_from_bsr_data`, on the arrays of valid matrices and on damaged ones; and the conversions between BSR and CSR.
//!
//! As in `constructors`: intact arrays are accepted, and what is accepted holds the entries that plain code finds in the arrays.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use warpsparse::{BlockSize, BsrMatrix, CsrMatrix, Scalar};

use crate::{
    Entry,
    arrays::{Element, Matrix, is_positive_zero, offsets},
    bits, by_row_and_column,
    constructors::construct,
    sums,
    survival::{MAX_SIZE, products, survives},
    transposed,
};

/// A matrix, and the size of the blocks that hold its entries.
#[derive(Arbitrary, Debug)]
pub struct Input {
    size: u8,
    single: bool,
    matrix: Matrix,
}

/// Panics unless the constructor and the conversions do what they promise.
pub fn check(input: &Input) {
    let size = 2 + usize::from(input.size % 7);
    if input.single { run::<f32>(&input.matrix, size) } else { run::<f64>(&input.matrix, size) }
}

fn run<T: Scalar + Element>(input: &Matrix, size: usize) {
    let arrays = damaged::<T>(input, size);
    let (i, j, v) = (arrays.offsets.clone(), arrays.columns.clone(), arrays.values.clone());
    let made = || BsrMatrix::try_from_bsr_data(arrays.nrows, arrays.ncols, arrays.size, i, j, v);
    let Some(bsr) = construct(input, made) else { return };
    assert_eq!((bsr.nrows(), bsr.ncols(), bsr.block_size()), (arrays.nrows, arrays.ncols, arrays.size));
    assert_eq!(bsr.block_row_offsets().len(), arrays.nrows.div_ceil(arrays.size) + 1);
    if arrays.nrows.max(arrays.ncols) > MAX_SIZE {
        return;
    }
    let entries = arrays.entries();
    assert_eq!(bsr.nnz(), entries.len());
    assert_eq!(bits(bsr.triplets()), bits(entries.iter().copied()));
    let numbers = |values: &[T]| values.iter().filter(|&&value| !is_positive_zero(value)).count();
    let of_entries: Vec<T> = entries.iter().map(|entry| entry.2).collect();
    assert_eq!(numbers(&arrays.values), numbers(&of_entries), "a number beyond the matrix");
    products(&bsr, (arrays.nrows, arrays.ncols), &entries);
    let transpose = bsr.transpose().expect("it is small");
    let expected = by_row_and_column(transposed(&entries));
    assert_eq!(bits(by_row_and_column(transpose.triplets().collect())), bits(expected));

    let csr = CsrMatrix::try_from(&bsr).expect("it is small");
    survives(&csr, &entries);
    in_blocks(&csr, &sums(&entries), arrays.size);
}

/// The arrays of a matrix in BSR.
struct Bsr<T> {
    nrows: usize,
    ncols: usize,
    size: usize,
    offsets: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

/// A block for each run of entries in it: in any order, and some of them twice.
fn damaged<T: Scalar + Element>(input: &Matrix, size: usize) -> Bsr<T> {
    let (nrows, ncols, mut entries) = input.entries::<T>();
    entries.sort_by_key(|&(i, _, _)| i / size);
    let (mut rows, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (i, j, value) in entries {
        let block = ((i / size) as u32, (j / size) as u32);
        if (rows.last(), columns.last()) != (Some(&block.0), Some(&block.1)) {
            rows.push(block.0);
            columns.push(block.1);
            values.resize(values.len() + size * size, T::default());
        }
        let of_block = values.len() - size * size;
        values[of_block + i % size * size + j % size] = value;
    }
    let offsets = offsets(nrows.div_ceil(size), &rows);
    let mut arrays = Bsr { nrows, ncols, size, offsets, columns, values };
    let Bsr { nrows, ncols, size, offsets, columns, values } = &mut arrays;
    input.damage(&mut [nrows, ncols, size, offsets, columns, values]);
    arrays
}

impl<T: Scalar> Bsr<T> {
    /// The entries of arrays that were accepted, row by row.
    fn entries(&self) -> Vec<Entry<T>> {
        let (size, mut entries) = (self.size, Vec::new());
        for i in 0..self.nrows {
            for block in self.offsets[i / size] as usize..self.offsets[i / size + 1] as usize {
                let first = self.columns[block] as usize * size;
                for j in first..(first + size).min(self.ncols) {
                    entries.push((i, j, self.values[(block * size + i % size) * size + j - first]));
                }
            }
        }
        entries
    }
}

/// A matrix with these sums of duplicates, converted to blocks: each that holds an entry, whole within the matrix.
fn in_blocks<T: Scalar>(csr: &CsrMatrix<T>, sums: &[Entry<T>], size: usize) {
    let bsr = BsrMatrix::from_csr_with_fill(csr, BlockSize::Fixed(size), f64::INFINITY).expect("it is small");
    let places: BTreeSet<_> = sums.iter().map(|&(i, j, _)| (i / size, j / size)).collect();
    assert_eq!(bsr.block_col_indices().len(), places.len());
    let mut expected: Vec<Entry<T>> = Vec::new();
    for (block_row, block_column) in places {
        for i in block_row * size..((block_row + 1) * size).min(csr.nrows()) {
            let columns = block_column * size..((block_column + 1) * size).min(csr.ncols());
            expected.extend(columns.map(|j| match sums.binary_search_by_key(&(i, j), |&(i, j, _)| (i, j)) {
                Ok(place) => sums[place],
                Err(_) => (i, j, T::default()),
            }));
        }
    }
    assert_eq!(bits(bsr.triplets()), bits(by_row_and_column(expected)));
    if let Some(blocks) = csr.blocks() {
        let bsr = BsrMatrix::from_csr(csr, BlockSize::Fixed(blocks.size)).expect("blocks were found");
        assert_eq!((bsr.block_col_indices().len(), bsr.nnz()), (blocks.count, blocks.entries + blocks.added));
        assert_eq!(blocks.entries, sums.len());
    }
}
