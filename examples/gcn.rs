//! Two layers of a graph convolutional network: `cargo run --release --example gcn [DEVICE] [GRAPH] [PICTURE]`.
//!
//! `Y = S relu(S X W1) W2`, `S = D^-1/2 (A + I) D^-1/2` (Kipf & Welling, 2017). The file is `A + I`, who cites whom
//! and no more. Features and weights are random here, nothing is learnt. All layers stay on the device.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{env, error::Error};

use plotters::prelude::*;
use rand::{RngExt, SeedableRng};
use warpsparse::{CsrMatrix, Device, Map, io::MatrixSource};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let source: MatrixSource = env::args().nth(2).unwrap_or("tests/data/cora.mtx.gz".into()).parse()?;
    let graph: CsrMatrix<f32> = source.load()?;
    let n = Some(graph.nrows()).filter(|&n| n > 0 && n == graph.ncols()).ok_or("GRAPH: a square matrix with rows")?;
    let (f, h, c) = (64, 16, 7); // features, hidden units, classes
    println!("{source}: {n} papers, {} entries, on {}", graph.nnz(), device.describe());
    let mut generator = rand_pcg::Pcg64::seed_from_u64(1);
    let mut random = |len| (0..len).map(|_| generator.random_range(-1.0..1.0)).collect::<Vec<f32>>();
    let (x, w1, w2) = (random(n * f), random(f * h), random(h * c));
    let degree: Vec<f32> = graph.rows().map(|(columns, _)| columns.len().max(1) as f32).collect();
    let values = graph.triplets().map(|(i, j, _)| (degree[i] * degree[j]).sqrt().recip()).collect();
    let (offsets, columns, _) = graph.into_csr_data();
    let s_host = CsrMatrix::try_from_csr_data(n, n, offsets, columns, values)?;
    let hidden = layer(&s_host, x.iter().map(|&x| x.into()).collect(), &w1, h);
    let expected = layer(&s_host, hidden.iter().map(|x| x.max(0.0)).collect(), &w2, c);

    let s = device.upload(&s_host)?;
    let (x, w1) = (device.upload_dense((n, f), &x)?, device.upload_dense((f, h), &w1)?);
    let (w2, mut y) = (device.upload_dense((h, c), &w2)?, device.zeros_dense((n, c))?);
    let (mut wide, mut narrow) = (device.zeros_dense((n, h))?, device.zeros_dense((n, c))?);
    let mut hidden = device.zeros_dense((n, h))?;
    x.gemm(1.0, &w1, 0.0, &mut wide)?;
    s.spmm(1.0, &wide, 0.0, &mut hidden)?;
    hidden.elements_mut().map(Map::Relu)?;
    hidden.gemm(1.0, &w2, 0.0, &mut narrow)?;
    s.spmm(1.0, &narrow, 0.0, &mut y)?;
    let y = y.to_vec()?;
    let error = y.iter().zip(expected).map(|(&y, e)| (f64::from(y) - e).abs()).max_by(f64::total_cmp).unwrap();
    println!("outputs are off by {error:.1e} at most from those in f64 on the host");
    assert!(error < 1e-4, "the outputs are what the definition says");
    let dot = |i: usize, j: usize| (0..c).map(|k| y[i * c + k] * y[j * c + k]).sum::<f32>();
    let cosine = |i: usize, j: usize| dot(i, j) / (dot(i, i) * dot(j, j)).sqrt();
    let linked = s_host.triplets().filter(|(i, j, _)| i < j).map(|(i, j, _)| cosine(i, j)).collect();
    let any = (0..20_000).map(|_| cosine(generator.random_range(0..n), generator.random_range(0..n))).collect();
    draw([linked, any], &env::args().nth(3).unwrap_or("target/gcn.svg".into()))
}

/// `S X W` in f64, by the definition.
fn layer(s: &CsrMatrix<f32>, x: Vec<f64>, w: &[f32], m: usize) -> Vec<f64> {
    let (mut y, inner) = (vec![0.0; s.nrows() * m], w.len() / m);
    for ((i, j, s), k) in s.triplets().flat_map(|entry| (0..inner).map(move |k| (entry, k))) {
        (0..m).for_each(|l| y[i * m + l] += f64::from(s) * x[j * inner + k] * f64::from(w[k * m + l]));
    }
    y
}

/// How often two papers' outputs are how similar.
fn draw(cosines: [Vec<f32>; 2], path: &str) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (640, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area);
    chart.caption("Outputs of papers that cite one another (blue), and of any two (red)", ("sans-serif", 16));
    chart.margin(20).x_label_area_size(44).y_label_area_size(60);
    let mut chart = chart.build_cartesian_2d(-1.0..1.0, 0.0..0.7)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("cosine").y_desc("share of the pairs").draw()?;
    for (cosines, colour) in cosines.iter().zip([BLUE, RED]) {
        let mut share = [0.0; 20];
        cosines.iter().for_each(|x| share[(10.0 * x + 10.0).clamp(0.0, 19.0) as usize] += 1.0 / cosines.len() as f64);
        let curve = (0..20).map(|k| (k as f64 / 10.0 - 0.95, share[k]));
        chart.draw_series(LineSeries::new(curve, colour.stroke_width(2)))?;
    }
    area.present().map_err(|error| format!("{path}: {error}"))?;
    println!("picture: {path}");
    Ok(())
}
