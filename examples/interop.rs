//! Matrices of nalgebra and ndarray, in and out: `cargo run --release --example interop [DEVICE] [SIZE]`.
//!
//! In a package of your own, `warpsparse` needs the feature `nalgebra-sparse` for this.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{env, error::Error};

use nalgebra_sparse::{CooMatrix, na};
use ndarray::{Array2, ArrayView2, ShapeBuilder, s};
use warpsparse::{Cg, CsrMatrix, DenseLayout, Device, Jacobi, Tolerance, gemm};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let n =
        env::args().nth(2).map_or(Some(200), |text| text.parse().ok()).filter(|&n| n > 1).ok_or("SIZE: 2 or more")?;
    println!("size {n}, on {}", device.describe());

    // A matrix of nalgebra-sparse: a system with it is solved, and the solution is a vector of nalgebra.
    let mut entries = CooMatrix::new(n, n);
    (0..n).for_each(|i| entries.push(i, i, 2.01));
    (1..n).flat_map(|i| [(i, i - 1), (i - 1, i)]).for_each(|(i, j)| entries.push(i, j, -1.0));
    let theirs = nalgebra_sparse::CsrMatrix::<f64>::from(&entries);
    let a = device.upload(&CsrMatrix::<f64>::try_from(theirs.clone())?)?;
    let b = na::DVector::from_fn(n, |i, _| (i as f64).sin());
    let mut x = device.zeros(n)?;
    let mut cg = Cg::new(&a).preconditioner(Jacobi::new(&a)?).tolerance(Tolerance::relative(1e-12));
    let info = cg.solve(&device.upload_vec(b.as_slice())?, &mut x)?;
    let x = na::DVector::from_vec(x.to_vec()?);
    println!("{} iterations of conjugate gradients", info.iterations);
    check("b - A x, where nalgebra multiplies", (b - &theirs * x).iter().copied());

    // An array of ndarray, row by row as they are by default.
    let b = Array2::from_shape_fn((n, 8), |(i, j)| ((3 * i + 5 * j) as f64).cos());
    let elements = b.as_slice().expect("the array is in one piece");
    let b_on_device = device.upload_vec(elements)?;
    let mut c = device.zeros(n * 8)?;
    a.spmm(1.0, b_on_device.matrix((n, 8))?, 0.0, c.matrix_mut((n, 8))?)?;
    let c = Array2::from_shape_vec((n, 8), c.to_vec()?)?;
    let expected = &theirs * na::DMatrix::from_row_slice(n, 8, elements);
    check("A B, beside that of nalgebra", c.indexed_iter().map(|(place, c)| c - expected[place]));

    // Views of it, which share its memory here and on the device: some of the columns, and the transpose.
    let (some, transpose) = (b.slice(s![.., 2..5]), b.t());
    let (left, right) = (b_on_device.matrix(layout(transpose, &b)?)?, b_on_device.matrix(layout(some, &b)?)?);
    let mut d = device.zeros(8 * 3)?;
    gemm(1.0, left, right, 0.0, d.matrix_mut(DenseLayout::column_major(8, 3))?)?;
    let d = Array2::from_shape_vec((8, 3).f(), d.to_vec()?)?; // f as in Fortran: column by column
    check("transpose of B times B[.., 2..5], beside that of ndarray", d - transpose.dot(&some));
    Ok(())
}

/// Where the elements of a view lie among those of the array that it is of.
fn layout(view: ArrayView2<'_, f64>, of: &Array2<f64>) -> Result<DenseLayout, &'static str> {
    let (rows, columns) = view.dim();
    let layout = match *view.strides() {
        [row, 1] if row > 0 => DenseLayout::row_major(rows, columns).leading_dimension(row as usize),
        [1, column] if column > 0 => DenseLayout::column_major(rows, columns).leading_dimension(column as usize),
        _ => return Err("neither rows nor columns are in one piece: copy the view, by as_standard_layout"),
    };
    Ok(layout.offset((view.as_ptr() as usize - of.as_ptr() as usize) / size_of::<f64>()))
}

fn check(what: &str, differences: impl IntoIterator<Item = f64>) {
    let worst = differences.into_iter().map(f64::abs).max_by(f64::total_cmp).unwrap_or(0.0);
    println!("{what}: off by {worst:.1e} at most");
    assert!(worst < 1e-9, "{what}");
}
