use std::time::Instant;
use warpsparse::{Cg, CgMethod, Device, Jacobi, Scalar, Tolerance, io::generate::poisson2d};
fn run<T: Scalar>(device: &Device, n: usize, method: CgMethod, short: usize, long: usize) -> Option<Vec<f64>> {
    let a = device.upload(&poisson2d::<T>(n).unwrap()).unwrap();
    let values: Vec<T> = (0..n * n).map(|i| T::from_f64(((i * 7919) % 1000) as f64 / 500.0 - 1.0)).collect();
    let b = device.upload_vec(&values).unwrap();
    let jacobi = Jacobi::new(&a).unwrap();
    let mut cg = Cg::new(&a).method(method).assume_symmetric().preconditioner(jacobi);
    let mut solve = |k: usize| {
        let old = std::mem::replace(&mut cg, Cg::new(&a));
        cg = old.max_iterations(k).tolerance(Tolerance::relative(0.0));
        let mut x = device.zeros(n * n).unwrap();
        device.synchronize().unwrap();
        let t = Instant::now();
        let info = cg.solve(&b, &mut x).ok()?;
        Some((t.elapsed().as_secs_f64() * 1e6, info.iterations, x.to_vec().unwrap()))
    };
    solve(short)?;
    solve(long)?;
    let mut times = vec![];
    for _ in 0..15 {
        let (t0, i0, _) = solve(short)?;
        let (t1, i1, _) = solve(long)?;
        times.push((t1 - t0) / (i1 - i0) as f64);
    }
    times.sort_by(f64::total_cmp);
    Some(times)
}
fn main() {
    let device = Device::cuda(0).unwrap();
    for (n, long) in [(48, 100), (256, 700), (512, 1200), (1024, 1200), (2048, 400)] {
        for method in [CgMethod::Auto, CgMethod::InStep, CgMethod::Launches, CgMethod::Graph, CgMethod::Persistent] {
            if let Some(t) = run::<f64>(&device, n, method, long / 6, long) {
                println!("{n} f64 {method:?}: {:.3} us ({:.3} {:.3})", t[7], t[3], t[11]);
            }
            if let Some(t) = run::<f32>(&device, n, method, long / 6, long) {
                println!("{n} f32 {method:?}: {:.3} us ({:.3} {:.3})", t[7], t[3], t[11]);
            }
        }
    }
}
