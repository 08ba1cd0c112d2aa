//! Generators of the model problems on which sparse kernels are measured.
//!
//! The same arguments give the same matrix, bit for bit, on every machine and for any number of threads.

mod communities;
mod elasticity;
mod graph;
mod random;
mod stand_ins;

pub use communities::communities;
pub use elasticity::{elasticity3d, elasticity3d_nodes};
pub use graph::graph_laplacian;
pub use random::{fem3, rmat, uniform};
pub use stand_ins::{STAND_INS, StandIn};

use crate::{CsrMatrix, Error, Result, Scalar, formats::rows::from_rows};

/// The default seed of the random matrices.
pub const DEFAULT_SEED: u64 = 42;

/// Generates the 5-point Laplacian on an `n` x `n` grid: `n²` rows, `5 n² - 4 n` entries, 4 on the diagonal and -1
/// elsewhere. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] if the number of rows or entries exceeds 32 bits, and [`Error::OutOfMemory`].
pub fn poisson2d<T: Scalar>(n: usize) -> Result<CsrMatrix<T>> {
    stencil([1, n, n], Neighbours::Faces, 4.0)
}

/// Generates the 7-point Laplacian on an `n` x `n` x `n` grid: `n³` rows, `7 n³ - 6 n²` entries, 6 on the diagonal and
/// -1 elsewhere. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] if the number of rows or entries exceeds 32 bits, and [`Error::OutOfMemory`].
pub fn poisson3d<T: Scalar>(n: usize) -> Result<CsrMatrix<T>> {
    stencil([n, n, n], Neighbours::Faces, 6.0)
}

/// Generates the 27-point stencil on an `n` x `n` x `n` grid: `n³` rows, `(3 n - 2)³` entries, 26 on the diagonal and
/// -1 elsewhere, as in the HPCG benchmark. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] if the number of rows or entries exceeds 32 bits, and [`Error::OutOfMemory`].
pub fn stencil27<T: Scalar>(n: usize) -> Result<CsrMatrix<T>> {
    stencil([n, n, n], Neighbours::Box, 26.0)
}

/// Generates the 5-point stencil of an anisotropic diffusion on an `n` x `n` grid: -1 between neighbours along a row of the grid, `-eps` between neighbours in different
/// rows, and `2 + 2 eps` on the diagonal. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] unless `eps` is positive and finite, and so are the elements of type `T`; otherwise as [`poisson2d`].
pub fn aniso2d<T: Scalar>(n: usize, eps: f64) -> Result<CsrMatrix<T>> {
    check_positive::<T>("eps", eps)?;
    weighted([1, n, n], |axis, _, _, _| [1.0, eps, 0.0][axis])
}

/// Generates the 7-point stencil of a diffusion with jumps on an `n` x `n` x `n` grid: a checkerboard of 8 x 8 x 8 boxes, or fewer on small grids, with the
/// conductivities 1 and `contrast`; between two points their harmonic mean counts. Symmetric positive definite.
///
/// # Errors
/// [`Error::InvalidOption`] unless `contrast` is positive and finite, and so are the elements of type `T`; otherwise as [`poisson3d`].
pub fn jump3d<T: Scalar>(n: usize, contrast: f64) -> Result<CsrMatrix<T>> {
    check_positive::<T>("contrast", contrast)?;
    let side = (n / 8).max(1);
    let conductivity = move |row: usize| {
        let boxes = row / (n * n) / side + row / n % n / side + row % n / side;
        if boxes.is_multiple_of(2) { 1.0 } else { contrast }
    };
    let mean = move |_, a: usize, b: usize, _| {
        let (a, b) = (conductivity(a), conductivity(b));
        // Neither overflows nor underflows where the mean does not, and is the same for both points.
        2.0 * a.min(b) * (a.max(b) / (a + b))
    };
    weighted([n, n, n], mean)
}

/// Generates convection and diffusion on an `n` x `n` grid, with 0 on the boundary: `-Δu + w . ∇u` by the 5-point stencil and upwind differences, times the square of
/// the mesh width. The wind blows along the diagonal of the grid, and `peclet` is its strength times the mesh width along either axis: a row has `4 + 2 peclet` on the
/// diagonal, `-1 - peclet` for the neighbours upstream, which come before it, and -1 for those downstream. Not symmetric, and diagonally dominant.
///
/// # Errors
/// [`Error::InvalidOption`] if `peclet` is not positive and finite, or if `T` cannot represent the elements; the errors of [`poisson2d`].
pub fn convdiff2d<T: Scalar>(n: usize, peclet: f64) -> Result<CsrMatrix<T>> {
    upwind([1, n, n], peclet)
}

/// Generates convection and diffusion on an `n` x `n` x `n` grid: as [`convdiff2d`], with the 7-point stencil.
///
/// # Errors
/// As [`convdiff2d`], and [`poisson3d`].
pub fn convdiff3d<T: Scalar>(n: usize, peclet: f64) -> Result<CsrMatrix<T>> {
    upwind([n, n, n], peclet)
}

fn upwind<T: Scalar>(shape: [usize; 3], peclet: f64) -> Result<CsrMatrix<T>> {
    check_positive::<T>("peclet", peclet)?;
    weighted(shape, |_, _, _, is_before| if is_before { 1.0 + peclet } else { 1.0 })
}

/// Generates the Helmholtz equation `-Δu - k² u` on an `n` x `n` grid of the unit square, with 0 on the boundary, by the 5-point stencil, times the square of
/// the mesh width `h = 1 / (n + 1)`: `4 - (k h)²` on the diagonal and -1 elsewhere. Symmetric, and indefinite if `k²` exceeds about `2 π²`.
///
/// # Errors
/// [`Error::InvalidOption`] if `k` or its square is not positive and finite, or if `T` cannot represent the elements; the errors of [`poisson2d`].
pub fn helmholtz2d<T: Scalar>(n: usize, k: f64) -> Result<CsrMatrix<T>> {
    check_positive::<T>("k", k)?;
    check_positive::<T>("the square of k", k * k)?;
    let kh = k / (n as f64 + 1.0);
    stencil([1, n, n], Neighbours::Faces, 4.0 - kh * kh)
}

/// Generates the Stokes equations `-Δv + ∇p` and `∇ . v` of a flow in a square box, on a staggered grid of `n` x `n` cells (Harlow & Welch, 1965), times the square of
/// the mesh width, with the pressure in units of one over it. The unknowns are the velocities across the faces inside the box, `n (n - 1)` along the lines of the grid and as many
/// across them, and then the pressures of all cells but the last, which is 0: `3 n² - 2 n - 1` rows. The velocity is 0 at the walls.
///
/// ```text
/// L   G       L: 4 on the diagonal, or 5 next to a wall parallel to the flow; -1 between neighbours
/// G'  0       G: 1 for the cell ahead of a face, -1 for the cell behind it
/// ```
/// Symmetric and indefinite, with a zero block on the diagonal that is not stored.
///
/// # Errors
/// As [`poisson2d`].
pub fn stokes2d<T: Scalar>(n: usize) -> Result<CsrMatrix<T>> {
    let cells = checked_product("cells", &[n, n])?;
    checked_product("entries", &[15, cells])?;
    let faces = n * n.saturating_sub(1);
    let rows = (2 * faces + cells).saturating_sub(1);
    // The face between the cells (i, j) and the next along an axis, i along the lines and j across them; the cell.
    let along = move |i: usize, j: usize| j * (n - 1) + i;
    let across = move |i: usize, j: usize| faces + j * n + i;
    let cell = move |i: usize, j: usize| Some(2 * faces + j * n + i).filter(|&cell| cell < rows);
    let entries = move |row: usize| {
        let mut entries = [None; 7];
        let mut push = |place: usize, column: Option<usize>, value: f64| {
            entries[place] = column.map(|column| (column as u32, value));
        };
        if row < 2 * faces {
            let is_along = row < faces;
            let (width, height) = if is_along { (n - 1, n) } else { (n, n - 1) };
            let (i, j) = (row % faces % width, row % faces / width);
            let walls = if is_along { [j == 0, j + 1 == n] } else { [i == 0, i + 1 == n] };
            push(0, (j > 0).then(|| row - width), -1.0);
            push(1, (i > 0).then(|| row - 1), -1.0);
            push(2, Some(row), 4.0 + f64::from(u8::from(walls[0]) + u8::from(walls[1])));
            push(3, (i + 1 < width).then_some(row + 1), -1.0);
            push(4, (j + 1 < height).then_some(row + width), -1.0);
            let ahead = if is_along { cell(i + 1, j) } else { cell(i, j + 1) };
            push(5, cell(i, j), -1.0);
            push(6, ahead, 1.0);
        } else {
            let (i, j) = ((row - 2 * faces) % n, (row - 2 * faces) / n);
            push(0, (i > 0).then(|| along(i - 1, j)), 1.0);
            push(1, (i + 1 < n).then(|| along(i, j)), -1.0);
            push(2, (j > 0).then(|| across(i, j - 1)), 1.0);
            push(3, (j + 1 < n).then(|| across(i, j)), -1.0);
        }
        entries.into_iter().flatten()
    };
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        for ((place, value), (column, number)) in columns.iter_mut().zip(values).zip(entries(row)) {
            (*place, *value) = (column, T::from_f64(number));
        }
    };
    from_rows(rows, rows, |row| entries(row).count(), fill)
}

/// The elements are at most 6 times the number, and at least a tenth of it.
fn check_positive<T: Scalar>(what: &str, number: f64) -> Result<()> {
    let is_held = |number: f64| T::from_f64(number).to_f64() > 0.0 && T::from_f64(number).to_f64().is_finite();
    match number > 0.0 && is_held(0.1 * number) && is_held(6.0 * number) {
        true => Ok(()),
        false => {
            Err(Error::InvalidOption(format!("{what} = {number}: it is positive and finite, in the matrix's type too")))
        }
    }
}

/// Couples every point of a grid (planes, lines, points) to its neighbours along each axis, counted from the points of a line on, by
/// `-between(axis, row, neighbour, whether the neighbour comes before)`; on the diagonal these weights add up, with the row itself in place of a neighbour beyond the boundary.
fn weighted<T: Scalar>(
    shape: [usize; 3],
    between: impl Fn(usize, usize, usize, bool) -> f64 + Sync,
) -> Result<CsrMatrix<T>> {
    let points = checked_product("grid points", &shape)?;
    checked_product("entries", &[7, points])?;
    let [_, lines, length] = shape;
    let strides = [1, length, lines * length];
    let at = move |row: usize| [row % length, row / length % lines, row / (lines * length)];
    let sizes = [length, lines, shape[0]];
    // Below and above along an axis, if the point has them.
    let pair = move |row: usize, axis: usize| {
        let place = at(row)[axis];
        let below = (place > 0).then(|| row - strides[axis]);
        (below, (place + 1 < sizes[axis]).then(|| row + strides[axis]))
    };
    let axes = if shape[0] == 1 { 2 } else { 3 };
    let row_length = |row: usize| {
        1 + (0..axes)
            .map(|axis| pair(row, axis))
            .map(|(a, b)| usize::from(a.is_some()) + usize::from(b.is_some()))
            .sum::<usize>()
    };
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        let below = (0..axes).rev().map(|axis| (axis, pair(row, axis).0));
        let above = (0..axes).map(|axis| (axis, pair(row, axis).1));
        let (mut entry, mut diagonal, mut middle) = (0, 0.0, 0);
        for (order, (axis, neighbour)) in below.chain(above).enumerate() {
            if order == axes {
                middle = entry;
                entry += 1;
            }
            let Some(neighbour) = neighbour else {
                diagonal += between(axis, row, row, order < axes);
                continue;
            };
            let weight = between(axis, row, neighbour, order < axes);
            diagonal += weight;
            columns[entry] = neighbour as u32;
            values[entry] = T::from_f64(-weight);
            entry += 1;
        }
        (columns[middle], values[middle]) = (row as u32, T::from_f64(diagonal));
    };
    from_rows(points, points, row_length, fill)
}

#[derive(Clone, Copy, PartialEq)]
enum Neighbours {
    /// Points that differ by one in one coordinate.
    Faces,
    /// Points that differ by at most one in every coordinate.
    Box,
}

/// Couples every point of a grid (planes, lines, points) to itself by `diagonal` and to its neighbours by -1.
fn stencil<T: Scalar>(shape: [usize; 3], neighbours: Neighbours, diagonal: f64) -> Result<CsrMatrix<T>> {
    let points = checked_product("grid points", &shape)?;
    // Counted before anything is allocated: pairs of neighbours along each axis, or in all of them.
    let entries = match neighbours {
        Neighbours::Faces => {
            let pairs = shape.iter().map(|&size| points.checked_div(size).map_or(0, |lines| points - lines));
            points + 2 * pairs.sum::<usize>()
        }
        Neighbours::Box => checked_product("entries", &shape.map(|size| (3 * size).saturating_sub(2)))?,
    };
    checked_product("entries", &[entries])?;
    let [_, lines, length] = shape;
    let around = |at: usize, size: usize| at.saturating_sub(1)..(at + 2).min(size);
    let boxes = |row: usize| {
        let at = [row / (lines * length), row / length % lines, row % length];
        (at, [0, 1, 2].map(|axis| around(at[axis], shape[axis])))
    };
    let row_length = |row: usize| {
        let sizes = boxes(row).1.map(|range| range.len());
        match neighbours {
            Neighbours::Faces => sizes.iter().sum::<usize>() - 2,
            Neighbours::Box => sizes.iter().product(),
        }
    };
    let (diagonal, beside) = (T::from_f64(diagonal), T::from_f64(-1.0));
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        let ([z, y, x], [planes, rows, points]) = boxes(row);
        let mut entry = 0;
        for k in planes {
            for j in rows.clone() {
                let line = (k * lines + j) * length;
                let points = match neighbours {
                    Neighbours::Box => points.clone(),
                    Neighbours::Faces if (k, j) == (z, y) => points.clone(),
                    Neighbours::Faces if k == z || j == y => x..x + 1,
                    Neighbours::Faces => continue,
                };
                for i in points {
                    columns[entry] = (line + i) as u32;
                    values[entry] = if line + i == row { diagonal } else { beside };
                    entry += 1;
                }
            }
        }
    };
    from_rows(points, points, row_length, fill)
}

/// The product of sizes, if 32-bit indices reach it.
fn checked_product(what: &str, sizes: &[usize]) -> Result<usize> {
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let fits = product.filter(|&product| u32::try_from(product).is_ok());
    fits.ok_or_else(|| {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let limit = u32::MAX;
        Error::InvalidOption(format!("{} {what}, and 32-bit indices reach {limit}", sizes.join(" x ")))
    })
}
