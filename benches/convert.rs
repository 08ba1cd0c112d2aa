//! How long conversions between formats take: `cargo bench --bench convert`.
//!
//! The best of five conversions is printed, on all cores with the feature `rayon`; the result's memory is new each time.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use warpsparse::{CsrMatrix, DiaMatrix, EllMatrix, HybMatrix, Result, io::generate};

fn main() {
    convert("5-point 2048^2", &generate::poisson2d::<f64>(2048).expect("the arguments fit"));
    convert("27-point 100^3", &generate::stencil27::<f64>(100).expect("the arguments fit"));
}

fn convert(name: &str, csr: &CsrMatrix<f64>) {
    println!("{name}, f64: {} rows, {} entries", csr.nrows(), csr.nnz());
    let dia = report("CSR to DIA", || DiaMatrix::try_from(csr));
    report("DIA to CSR", || CsrMatrix::<f64>::try_from(&dia));
    let ell = report("CSR to ELL", || EllMatrix::try_from(csr));
    report("ELL to CSR", || CsrMatrix::<f64>::try_from(&ell));
    let hyb = report("CSR to HYB", || HybMatrix::try_from(csr));
    report("HYB to CSR", || CsrMatrix::<f64>::try_from(&hyb));
    report("CSR to HYB, one column", || HybMatrix::from_csr_with_width(csr, 1));
}

fn report<M>(what: &str, convert: impl Fn() -> Result<M>) -> M {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let converted = convert().expect("the formats fit the matrix");
        (start.elapsed().as_secs_f64(), converted)
    });
    let (best, converted) = times.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there were five");
    println!("{what:24} {:7.1} ms", best * 1e3);
    converted
}
