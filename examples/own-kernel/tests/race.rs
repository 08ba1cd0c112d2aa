//! What the emulator says of a mistake: a sweep in place, in which threads read elements that others write.

use kernels::{Args, BLOCK_SIZE, jacobi_sweep};
use warpsparse::{Device, ErrorKind, Kernel, Result, io::generate};

#[test]
fn a_sweep_in_place_is_a_race() -> Result<()> {
    let (device, a) = (Device::emulated(0), generate::poisson2d(3)?);
    let (row_offsets, col_indices) = (device.upload_vec(a.row_offsets())?, device.upload_vec(a.col_indices())?);
    let (values, b, mut x) = (device.upload_vec(a.values())?, device.upload_vec(&[1.0; 9])?, device.zeros(9)?);

    let kernel = Kernel::new("jacobi_sweep", jacobi_sweep, BLOCK_SIZE);
    let mut launch = device.launch(&kernel, 1)?;
    let x = launch.write("x", &mut x)?;
    let args = Args {
        n: 9,
        omega: 0.8,
        row_offsets: launch.read("row_offsets", &row_offsets)?,
        col_indices: launch.read("col_indices", &col_indices)?,
        values: launch.read("values", &values)?,
        b: launch.read("b", &b)?,
        x,
        x_new: x, // THE BUG
    };
    // SAFETY: broken, for the emulator to find, which checks every access before it is made.
    let error = unsafe { launch.run(args) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KernelCheck);
    for part in ["race", "`x`", "kernels/src/lib.rs"] {
        assert!(error.to_string().contains(part), "no `{part}` in: {error}");
    }
    Ok(())
}
