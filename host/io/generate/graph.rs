//! Laplacians of graphs.

use crate::{CsrMatrix, Error, Result, Scalar, formats::rows::from_rows};

/// What is added to the diagonal of [`graph_laplacian`].
const SHIFT: f64 = 1e-3;

/// Generates the Laplacian of the graph that a square matrix has an entry for each edge of, plus 0.001 on the diagonal: -1 for two different vertices with an
/// entry in either direction, or in both, and the number of neighbours plus 0.001 on the diagonal. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] for a matrix that is not square, and [`Error::OutOfMemory`].
pub fn graph_laplacian<T: Scalar>(pattern: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let n = pattern.nrows();
    if pattern.ncols() != n {
        let problem = format!("the Laplacian of a graph of {n} rows and {} columns: they are as many", pattern.ncols());
        return Err(Error::InvalidOption(problem));
    }
    let mut neighbours = vec![Vec::new(); n];
    for (i, j, _) in pattern.triplets().filter(|(i, j, _)| i != j) {
        neighbours[i].push(j as u32);
        neighbours[j].push(i as u32);
    }
    for of_row in &mut neighbours {
        of_row.sort_unstable();
        of_row.dedup();
    }
    from_rows(
        n,
        n,
        |row| neighbours[row].len() + 1,
        |row, columns, values| {
            let (before, after) =
                neighbours[row].split_at(neighbours[row].partition_point(|&column| (column as usize) < row));
            columns[..before.len()].copy_from_slice(before);
            columns[before.len()] = row as u32;
            columns[before.len() + 1..].copy_from_slice(after);
            values.fill(T::from_f64(-1.0));
            values[before.len()] = T::from_f64(neighbours[row].len() as f64 + SHIFT);
        },
    )
}
