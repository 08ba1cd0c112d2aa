//! Nodes with several unknowns, and vectors near the null space, for multigrid.

use std::{error, path::Path};

use warpsparse::{
    NearNullSpace,
    io::{Generator, MatrixMarketReader, MatrixSource, generate},
};

use super::Options;

/// What multigrid knows of the nodes of a matrix.
pub(super) struct Nodes {
    pub(super) space: NearNullSpace,
    /// Whether the options say so, not the generator.
    pub(super) is_given: bool,
}

impl Nodes {
    /// Of a matrix with so many rows.
    pub(super) fn of(options: &Options, rows: usize) -> Result<Option<Self>, Box<dyn error::Error>> {
        let space = match (&options.near_null, options.unknowns.map(usize::from), &options.matrix) {
            (None, None, MatrixSource::Generator(Generator::Elasticity3d { n })) => {
                return Ok(Some(Self {
                    space: NearNullSpace::rigid_body_modes(&generate::elasticity3d_nodes(*n))?,
                    is_given: false,
                }));
            }
            (None, None, _) => return Ok(None),
            (_, Some(unknowns), _) if !rows.is_multiple_of(unknowns) => {
                return Err(format!("--unknowns {unknowns}: the matrix has {rows} rows, which is no multiple").into());
            }
            (Some(path), unknowns, _) => read(path, rows, unknowns.unwrap_or(1))?,
            (None, Some(unknowns), _) => NearNullSpace::constants(rows / unknowns, unknowns)?,
        };
        Ok(Some(Self { space, is_given: true }))
    }
}

/// The columns of a file.
fn read(path: &Path, rows: usize, unknowns: usize) -> Result<NearNullSpace, Box<dyn error::Error>> {
    let matrix = MatrixMarketReader::open(path)?.read_coo::<f64>()?;
    let (found, columns) = (matrix.nrows(), matrix.ncols());
    if found != rows || !(1..=6).contains(&columns) {
        let path = path.display();
        return Err(format!("{path}: {found} x {columns}, and vectors near the null space are {rows} x 1 to 6").into());
    }
    let mut values = vec![0.0; rows * columns];
    matrix.triplets().for_each(|(row, column, value)| values[columns * row + column] += value);
    NearNullSpace::new(unknowns, columns, values).map_err(|error| format!("{}: {error}", path.display()).into())
}
