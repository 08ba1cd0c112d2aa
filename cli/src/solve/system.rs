//! The linear system given on the command line.

use std::{
    convert::Infallible,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use warpsparse::{CsrMatrix, DType, Result, Scalar, io::MatrixMarketReader};

use super::{MethodName, Options};

/// The source of the right-hand side.
#[derive(Clone)]
pub(super) enum Rhs {
    Ones,
    Random,
    Sums,
    File(PathBuf),
}

impl FromStr for Rhs {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(match text {
            "ones" => Self::Ones,
            "random" => Self::Random,
            "sums" => Self::Sums,
            path => Self::File(path.into()),
        })
    }
}

impl fmt::Display for Rhs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ones => f.write_str("ones"),
            Self::Random => f.write_str("random"),
            Self::Sums => f.write_str("sums"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// `A x = b`, with as many elements of `b` as `A` has rows.
pub(super) struct System<T> {
    pub(super) matrix: CsrMatrix<T>,
    pub(super) b: Vec<T>,
}

impl<T: Scalar> System<T> {
    /// Loads the system that the options name.
    pub(super) fn load(options: &Options) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let Options { matrix: source, rhs, method, devices, .. } = options;
        let matrix = measure::load::<T>(source)?;
        let (rows, columns) = (matrix.nrows(), matrix.ncols());
        let allows_any = devices.is_none() && matches!(method, MethodName::Auto | MethodName::Lsmr);
        if rows != columns && !allows_any {
            let problem = format!(
                "{source}: {rows} x {columns}, and of the methods only lsmr is for matrices that are not square"
            );
            return Err(problem.into());
        }
        let b = match rhs {
            Rhs::Ones => vec![T::from_f64(1.0); rows],
            Rhs::Random => {
                let mut random = Pcg64::seed_from_u64(1);
                (0..rows).map(|_| T::from_f64(random.random_range(-1.0..1.0))).collect()
            }
            Rhs::Sums => matrix.rows().map(|(_, values)| values.iter().copied().sum()).collect(),
            Rhs::File(path) => read_column(path, rows)?,
        };
        Ok(Self { matrix, b })
    }
}

/// Why no `x` has a residual of so small a part of `b`, where sums of rows and columns show it: rows of zeros, and columns that each add up to 0, so that every `A x` does.
pub(super) fn contradiction<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], tolerance: f64) -> Option<String> {
    let squares = |b: &mut dyn Iterator<Item = f64>| b.map(|b| b * b).sum::<f64>();
    let norm = squares(&mut b.iter().map(|b| b.to_f64())).sqrt();
    let is_contradiction = |least: f64| least > tolerance * norm;
    let (mut zero_rows, mut sums) = (Vec::new(), vec![(0.0, 0.0f64); b.len()]);
    for (row, (columns, values)) in matrix.rows().enumerate() {
        if values.iter().all(|value| value.to_f64() == 0.0) {
            zero_rows.push(row);
        }
        for (&column, value) in columns.iter().zip(values) {
            let (sum, magnitude) = &mut sums[column as usize];
            (*sum, *magnitude) = (*sum + value.to_f64(), *magnitude + value.to_f64().abs());
        }
    }
    let least = squares(&mut zero_rows.iter().map(|&row| b[row].to_f64())).sqrt();
    if is_contradiction(least) {
        let row = zero_rows.into_iter().find(|&row| b[row].to_f64() != 0.0)?;
        let least = least / norm;
        return Some(format!(
            "row {row} of the matrix is zero, and b is {} there: no x has a relative residual below {least:.2e}",
            b[row]
        ));
    }
    // Elements are rounded, too.
    let rounding = if T::DTYPE == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    let sum = b.iter().map(|b| b.to_f64()).sum::<f64>();
    let least = sum.abs() / (b.len() as f64).sqrt();
    let vanish = sums.iter().all(|(sum, magnitude)| sum.abs() <= 4.0 * rounding * magnitude);
    (vanish && is_contradiction(least)).then(|| {
        let least = least / norm;
        format!(
            "each column of the matrix adds up to 0, as in a problem with Neumann's boundary conditions, and b adds up to {sum}: no x has a relative residual \
             below {least:.2e}. There can be a solution only if b adds up to 0, such as with its mean subtracted"
        )
    })
}

/// Reads a matrix with one column, in either Matrix Market layout: missing elements are 0, duplicates are summed.
fn read_column<T: Scalar>(path: &Path, rows: usize) -> std::result::Result<Vec<T>, Box<dyn std::error::Error>> {
    let read = || -> Result<_> { MatrixMarketReader::open(path)?.read_coo::<T>() };
    let column = read()?;
    // The length is the matrix's: a size line that promises more gets no memory.
    if (column.nrows(), column.ncols()) != (rows, 1) {
        let (found_rows, found_columns) = (column.nrows(), column.ncols());
        let path = path.display();
        return Err(format!("{path}: {found_rows} x {found_columns}, and the right-hand side is {rows} x 1").into());
    }
    let mut elements = vec![T::default(); rows];
    column.triplets().for_each(|(row, _, value)| elements[row] += value);
    Ok(elements)
}
