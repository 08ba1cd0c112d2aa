//! Linear elasticity by finite elements.

use super::checked_product;
use crate::{CsrMatrix, Error, Result, Scalar, formats::rows::from_rows};

/// Poisson's ratio.
const RATIO: f64 = 0.3;

/// The unknowns of an element: 3 for each of its 8 nodes.
const SIZE: usize = 24;

/// Generates the stiffness matrix of an elastic body on `n` x `n` x `n` nodes with a displacement of 3 components each, by trilinear hexahedra: `3 n³` rows,
/// `9 (3 n - 2)³` entries. Node `x + n y + n² z` has the rows `3 node` to `3 node + 2`.
///
/// Elements are cubes of side 1 with Young's modulus 1 and Poisson's ratio 0.3, integrated by 2 x 2 x 2 points. Below the nodes with `z` = 0 a layer of elements
/// connects them to nodes that do not move, which makes the matrix symmetric positive definite. Nothing else holds the body.
///
/// # Errors
/// [`Error::InvalidOption`] for `n` = 1, which has no element, and if the number of rows or entries exceeds 32 bits; [`Error::OutOfMemory`].
pub fn elasticity3d<T: Scalar>(n: usize) -> Result<CsrMatrix<T>> {
    if n == 1 {
        return Err(Error::InvalidOption("elasticity on 1 x 1 x 1 nodes: there is no element".into()));
    }
    let rows = checked_product("unknowns", &[3, n, n, n])?;
    let pairs = (3 * n).saturating_sub(2);
    checked_product("entries", &[9, pairs, pairs, pairs])?;
    let element = stiffness();
    let around = |at: usize| at.saturating_sub(1)..(at + 2).min(n);
    let place = |row: usize| [row / 3 % n, row / (3 * n) % n, row / (3 * n * n)];
    let row_length = |row: usize| 3 * place(row).map(|at| around(at).len()).iter().product::<usize>();
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        let here = place(row);
        let [x, y, z] = here.map(around);
        let lines = z.flat_map(|z| y.clone().map(move |y| (y, z)));
        let neighbours = lines.flat_map(|(y, z)| x.clone().map(move |x| [x, y, z]));
        for (block, there) in neighbours.enumerate() {
            let node = there[0] + n * (there[1] + n * there[2]);
            for component in 0..3 {
                columns[3 * block + component] = (3 * node + component) as u32;
                values[3 * block + component] =
                    T::from_f64(sum_of_elements(&element, n, here, there, row % 3, component));
            }
        }
    };
    from_rows(rows, rows, row_length, fill)
}

/// Returns where the nodes of [`elasticity3d`] are, in their order: for [`NearNullSpace::rigid_body_modes`](crate::NearNullSpace::rigid_body_modes).
#[must_use]
pub fn elasticity3d_nodes(n: usize) -> Vec<[f64; 3]> {
    (0..n * n * n).map(|node| [node % n, node / n % n, node / (n * n)].map(|at| at as f64)).collect()
}

/// Over the elements that two nodes have in common, in the same order for both.
fn sum_of_elements(
    element: &[[f64; SIZE]; SIZE],
    n: usize,
    here: [usize; 3],
    there: [usize; 3],
    component: usize,
    other: usize,
) -> f64 {
    let mut sum = 0.0;
    // An element is named by its last corner: from 1 on along x and y, and from 0 along z, where the first layer is below the nodes.
    for corner in 0..8 {
        let last = [0, 1, 2].map(|axis| here[axis] + (corner >> axis & 1));
        let exists = (0..3).all(|axis| last[axis] < n && (axis == 2 || last[axis] > 0));
        let corner_of = |node: [usize; 3]| {
            (0..3).try_fold(0, |corner, axis| match last[axis].checked_sub(node[axis]) {
                Some(0) => Some(corner | 1 << axis),
                Some(1) => Some(corner),
                _ => None,
            })
        };
        if let (true, Some(a), Some(b)) = (exists, corner_of(here), corner_of(there)) {
            sum += element[3 * a + component][3 * b + other];
        }
    }
    sum
}

/// The stiffness of one element; corner `x + 2 y + 4 z` has the unknowns from 3 times that on.
fn stiffness() -> [[f64; SIZE]; SIZE] {
    let (lambda, mu) = (RATIO / ((1.0 + RATIO) * (1.0 - 2.0 * RATIO)), 0.5 / (1.0 + RATIO));
    let mut element = [[0.0; SIZE]; SIZE];
    for point in 0..8 {
        // Gauss's points of [0, 1].
        let at = [0, 1, 2].map(|axis| 0.5 + [-0.5, 0.5][point >> axis & 1] / 3f64.sqrt());
        let gradients: [[f64; 3]; 8] = std::array::from_fn(|corner| {
            let factor = |axis: usize| if corner >> axis & 1 == 1 { at[axis] } else { 1.0 - at[axis] };
            let slope = |axis: usize| if corner >> axis & 1 == 1 { 1.0 } else { -1.0 };
            [slope(0) * factor(1) * factor(2), factor(0) * slope(1) * factor(2), factor(0) * factor(1) * slope(2)]
        });
        for (row, of_row) in element.iter_mut().enumerate() {
            for (column, value) in of_row.iter_mut().enumerate() {
                let (a, b) = (gradients[row / 3], gradients[column / 3]);
                let (i, j) = (row % 3, column % 3);
                let dot: f64 = if i == j { a.iter().zip(b).map(|(a, b)| a * b).sum() } else { 0.0 };
                // lambda div(u) div(v) + 2 mu e(u) : e(v), by an eighth of the volume.
                *value += 0.125 * (lambda * (a[i] * b[j]) + mu * (a[j] * b[i]) + mu * dot);
            }
        }
    }
    element
}
