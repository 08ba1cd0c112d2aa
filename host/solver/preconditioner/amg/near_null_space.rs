//! Vectors that a matrix hardly changes.

use std::sync::Arc;

use crate::{Error, Result, memory};

/// Vectors that a matrix with several unknowns a node maps to almost 0, for [`AmgOptions::near_null_space`](super::AmgOptions::near_null_space): coarse levels
/// represent them exactly. For elasticity they are the displacements of a rigid body.
///
/// The unknowns of a node follow one another: node `i` of nodes with `b` unknowns has the rows from `b i` on.
#[derive(Clone, Debug, PartialEq)]
pub struct NearNullSpace {
    pub(super) unknowns: usize,
    pub(super) columns: usize,
    /// Row by row.
    pub(super) values: Arc<[f64]>,
}

impl NearNullSpace {
    /// Takes 1 to 6 vectors, row by row: `values[columns * row + column]`, for 1 to 6 unknowns a node.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for other numbers of unknowns or columns, for values that do not fill the rows of all nodes, that are 2³² or more,
    /// or that are not finite.
    pub fn new(unknowns: usize, columns: usize, values: impl Into<Arc<[f64]>>) -> Result<Self> {
        let values = values.into();
        let problem = if !(1..=6).contains(&unknowns) {
            format!("{unknowns} unknowns a node: they are 1 to 6")
        } else if !(1..=6).contains(&columns) {
            format!("{columns} vectors near the null space: they are 1 to 6")
        } else if !values.len().is_multiple_of(unknowns * columns) {
            format!("{} values of {columns} vectors for nodes of {unknowns} unknowns: some are missing", values.len())
        } else if u32::try_from(values.len()).is_err() {
            format!("{} values of vectors near the null space, and 32-bit indices reach {}", values.len(), u32::MAX)
        } else if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            format!("a vector near the null space is {} in row {}", values[place], place / columns)
        } else {
            return Ok(Self { unknowns, columns, values });
        };
        Err(Error::InvalidOption(problem))
    }

    /// For each unknown of a node the vector that is 1 there, and 0 for the others: for systems of equations of diffusion.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless there are 1 to 6 unknowns a node, and fewer than 2³² values; [`Error::OutOfMemory`].
    pub fn constants(nodes: usize, unknowns: usize) -> Result<Self> {
        if !(1..=6).contains(&unknowns) {
            return Self::new(unknowns, unknowns, Vec::new());
        }
        let identity = (0..unknowns * unknowns).map(|k| f64::from(u8::from(k / unknowns == k % unknowns)));
        let mut values = memory::room(nodes.saturating_mul(unknowns * unknowns))?;
        values.extend(std::iter::repeat_n(identity, nodes).flatten());
        Self::new(unknowns, unknowns, values)
    }

    /// The displacements of a rigid body with nodes at these coordinates, in 2 or 3 dimensions, for as many unknowns a node: translations along each axis, and
    /// rotations, 3 or 6 vectors.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for coordinates that are not finite.
    pub fn rigid_body_modes<const D: usize>(coordinates: &[[f64; D]]) -> Result<Self> {
        const { assert!(D == 2 || D == 3, "coordinates in 2 or 3 dimensions") }
        let planes: &[[usize; 2]] = if D == 2 { &[[0, 1]] } else { &[[0, 1], [1, 2], [2, 0]] };
        let middle: [f64; D] = std::array::from_fn(|axis| {
            coordinates.iter().map(|at| at[axis]).sum::<f64>() / coordinates.len().max(1) as f64
        });
        let mut values = Vec::with_capacity(coordinates.len() * D * (D + planes.len()));
        for at in coordinates {
            for axis in 0..D {
                values.extend((0..D).map(|other| f64::from(u8::from(axis == other))));
                values.extend(planes.iter().map(|&[a, b]| {
                    // In the plane of two axes: (x, y) moves by (-y, x).
                    if axis == a {
                        middle[b] - at[b]
                    } else if axis == b {
                        at[a] - middle[a]
                    } else {
                        0.0
                    }
                }));
            }
        }
        Self::new(D, D + planes.len(), values)
    }

    pub(super) fn rows(&self) -> usize {
        self.values.len() / self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motions_of_rigid_bodies() {
        // Around the point in the middle.
        let plane = NearNullSpace::rigid_body_modes(&[[0.0, 1.0], [2.0, 5.0]]).unwrap();
        assert_eq!((plane.unknowns, plane.columns, plane.rows()), (2, 3, 4));
        assert_eq!(&plane.values[..6], [1.0, 0.0, 2.0, 0.0, 1.0, -1.0]);
        assert_eq!(&plane.values[6..], [1.0, 0.0, -2.0, 0.0, 1.0, 1.0]);
        let space = NearNullSpace::rigid_body_modes(&[[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]).unwrap();
        assert_eq!((space.unknowns, space.columns, space.rows()), (3, 6, 6));
        // Along x, y and z; in the planes of x and y, y and z, z and x.
        assert_eq!(&space.values[..6], [1.0, 0.0, 0.0, -2.0, 0.0, 3.0]);
        assert_eq!(&space.values[6..12], [0.0, 1.0, 0.0, 1.0, -3.0, 0.0]);
        assert_eq!(&space.values[12..18], [0.0, 0.0, 1.0, 0.0, 2.0, -1.0]);
        assert_eq!(NearNullSpace::rigid_body_modes::<3>(&[]).unwrap().rows(), 0);
        let constants = NearNullSpace::constants(2, 2).unwrap();
        assert_eq!(&*constants.values, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    }
}
