//! Diffusion with jumps, solved with multigrid and with Jacobi's preconditioner: `cargo run --release --example multigrid [DEVICE] [MATRIX]`.
//!
//! With Jacobi the iterations grow with the grid and with the jumps, with multigrid far more slowly. Then time steps: the matrix gets new values, and
//! multigrid keeps its aggregates.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{env, error::Error, time::Instant};

use warpsparse::{
    Amg, Cg, Device, DeviceMatrix, DeviceVec, Jacobi, Map, Preconditioner, StopReason, Tolerance, io::MatrixSource,
};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let source: MatrixSource = env::args().nth(2).unwrap_or("gen:jump3d:64:10000".into()).parse()?;
    let matrix = source.load::<f64>()?;
    let n = matrix.nrows();
    println!("{source}: {n} rows, on {}", device.describe());

    let mut a = device.upload(&matrix)?;
    let b = device.upload_vec(&vec![1.0; n])?;
    let start = Instant::now();
    let mut amg = Amg::new(&a)?;
    println!("{}\nset up in {:.1?}", amg.describe(), start.elapsed());
    let multigrid = solve("multigrid", &a, &b, &amg)?;
    let jacobi = solve("Jacobi", &a, &b, Jacobi::new(&a)?)?;
    assert!(multigrid < jacobi, "multigrid takes fewer iterations");

    // Implicit steps of diffusion, I / dt + A: everything but the diagonal of the matrix stays.
    let values = device.upload_vec(matrix.values())?;
    let on_diagonal: Vec<f64> = matrix.triplets().map(|(i, j, _)| f64::from(u8::from(i == j))).collect();
    let on_diagonal = device.upload_vec(&on_diagonal)?;
    for step in [10.0, 1.0, 0.1] {
        let (mut new, mut shift) = (device.zeros(values.len())?, device.zeros(values.len())?);
        shift.map_from(Map::Mul(1.0 / step), &on_diagonal)?;
        new.assign(&values)?;
        new.axpy(1.0, &shift)?;
        a.update_values(&new)?;
        amg.update_values(&a)?;
        solve(&format!("a step of {step}"), &a, &b, &amg)?;
    }
    Ok(())
}

/// Returns the number of iterations.
fn solve(
    name: &str,
    a: &DeviceMatrix<f64>,
    b: &DeviceVec<f64>,
    m: impl Preconditioner<f64>,
) -> warpsparse::Result<usize> {
    let mut x = a.device().zeros(b.len())?;
    let mut cg = Cg::new(a).preconditioner(m).tolerance(Tolerance::relative(1e-8));
    let start = Instant::now();
    let info = cg.solve(b, &mut x)?;
    assert_eq!(info.reason, StopReason::Converged);
    println!(
        "{name}: {} iterations, {:.1?}, residual {:.1e}",
        info.iterations,
        start.elapsed(),
        info.relative_residual
    );
    Ok(info.iterations)
}
