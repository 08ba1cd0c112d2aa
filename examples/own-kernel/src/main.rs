//! A kernel of one's own, on a GPU or in the emulator: `cargo run --release [DEVICE]`, and `cargo test`.

use kernels::{Args, BLOCK_SIZE, jacobi_sweep};
use warpsparse::{CsrMatrix, Device, DeviceVec, Kernel, Result, io::generate};

const JACOBI_SWEEP: Kernel<Args> = Kernel::new("jacobi_sweep", jacobi_sweep, BLOCK_SIZE)
    .with_ptx(include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx")));
const OMEGA: f64 = 0.8;

fn main() -> Result<()> {
    // The CPU runs no kernels: without a GPU they are emulated there.
    let device = match std::env::args().nth(1).as_deref() {
        None | Some("auto") => Device::cuda(0).unwrap_or(Device::emulated(0)),
        Some(name) => Device::from_name(name)?,
    };
    println!("10 damped Jacobi sweeps on {}", device.describe());
    let off = difference(&device, &generate::poisson2d(if device.is_cuda() { 1000 } else { 20 })?)?;
    println!("off by {off:.1e} at most from the same on the host");
    assert!(off < 1e-12, "the kernel does what it should");
    Ok(())
}

/// The most that an element of `x` is off from that of the host, after ten sweeps for `A x = b` with ones in `b`.
fn difference(device: &Device, a: &CsrMatrix<f64>) -> Result<f64> {
    let (n, mut expected) = (a.nrows(), vec![0.0; a.nrows()]);
    let a_on_device = [device.upload_vec(a.row_offsets())?, device.upload_vec(a.col_indices())?];
    let (values, b) = (device.upload_vec(a.values())?, device.upload_vec(&vec![1.0; n])?);
    let (mut x, mut x_new) = (device.zeros(n)?, device.zeros(n)?);
    for _ in 0..10 {
        sweep(&a_on_device, &values, &b, &x, &mut x_new)?;
        std::mem::swap(&mut x, &mut x_new);
        let residual = a.rows().map(|(columns, values)| {
            1.0 - columns.iter().zip(values).map(|(&j, value)| value * expected[j as usize]).sum::<f64>()
        });
        let corrections = residual.zip(a.diagonal()).map(|(residual, diagonal)| OMEGA * residual / diagonal);
        expected = corrections.zip(&expected).map(|(correction, x)| x + correction).collect();
    }
    let off = x.to_vec()?.iter().zip(expected).map(|(x, expected)| (x - expected).abs()).max_by(f64::total_cmp);
    Ok(off.unwrap_or(0.0))
}

/// Launches the kernel, on the device of the vectors.
fn sweep(
    [row_offsets, col_indices]: &[DeviceVec<u32>; 2],
    values: &DeviceVec<f64>,
    b: &DeviceVec<f64>,
    x: &DeviceVec<f64>,
    x_new: &mut DeviceVec<f64>,
) -> Result<()> {
    let (device, n) = (x.device(), x.len() as u32);
    let mut launch = device.launch(&JACOBI_SWEEP, n.div_ceil(BLOCK_SIZE))?;
    let args = Args {
        n,
        omega: OMEGA,
        row_offsets: launch.read("row_offsets", row_offsets)?,
        col_indices: launch.read("col_indices", col_indices)?,
        values: launch.read("values", values)?,
        b: launch.read("b", b)?,
        x: launch.read("x", x)?,
        x_new: launch.write("x_new", x_new)?,
    };
    // SAFETY: the arrays of a valid matrix, and vectors of as many elements as it has rows and columns.
    unsafe { launch.run(args) }
}

#[test]
fn sweeps_are_those_of_the_host() {
    for seed in 0..3 {
        let off = difference(&Device::emulated(seed), &generate::fem3(30, seed).unwrap()).unwrap();
        assert!(off < 1e-12, "{off}");
    }
}
