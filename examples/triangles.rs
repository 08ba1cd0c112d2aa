//! The triangles of a graph: `cargo run --release --example triangles [DEVICE] [GRAPH]`.
//!
//! `L` has an entry for each edge, from the vertex of more neighbours to that of fewer. The entries of `L * L` count paths of two edges; under
//! the mask `L` those that an edge closes, and so each triangle once (Azad, Buluc & Gilbert, 2015).
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{env, error::Error, time::Instant};

use warpsparse::{CooMatrix, CsrMatrix, Device, SpgemmOptions, io::MatrixSource};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let source: MatrixSource = env::args().nth(2).unwrap_or("tests/data/cora.mtx.gz".into()).parse()?;
    let graph: CsrMatrix<f64> = source.load()?;
    let n = Some(graph.nrows()).filter(|&n| n == graph.ncols()).ok_or("GRAPH: a square matrix")?;
    println!("{source}: {n} vertices, {} entries, on {}", graph.nnz(), device.describe());

    let l = edges(&graph)?;
    let on_device = device.upload(&l)?;
    let start = Instant::now();
    let closed = on_device.multiply_with(&on_device, &SpgemmOptions::default().mask(&on_device))?;
    device.synchronize()?;
    let time = start.elapsed();
    let closed = closed.download()?.into_csr()?;
    let triangles = closed.values().iter().sum::<f64>() as u64;
    println!("{triangles} triangles on {} of {} edges, in {time:.1?}", closed.nnz(), l.nnz());

    let expected = count(&l);
    assert_eq!(triangles, expected, "the triangles that the host counts");
    println!("as many as the host counts, edge by edge");
    Ok(())
}

/// An entry of 1 for each edge of the graph without its directions, from the vertex that comes later in the order of degrees.
fn edges(graph: &CsrMatrix<f64>) -> Result<CsrMatrix<f64>, warpsparse::Error> {
    let mut degrees = vec![0u64; graph.nrows()];
    for (i, j, _) in graph.triplets() {
        degrees[i] += 1;
        degrees[j] += 1;
    }
    let later = |i: usize, j: usize| (degrees[i], i) > (degrees[j], j);
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for (i, j, _) in graph.triplets().filter(|(i, j, _)| i != j) {
        let (from, to) = if later(i, j) { (i, j) } else { (j, i) };
        rows.push(from as u32);
        columns.push(to as u32);
    }
    let ones = vec![1.0; rows.len()];
    let (offsets, columns, values) =
        CsrMatrix::try_from(&CooMatrix::try_from_triplets(graph.nrows(), graph.nrows(), rows, columns, ones)?)?
            .canonical()
            .into_csr_data();
    // An edge that the file has in both directions is one.
    CsrMatrix::try_from_csr_data(graph.nrows(), graph.nrows(), offsets, columns, vec![1.0; values.len()])
}

/// For each edge, the neighbours that both of its ends have an edge to: the third vertex of a triangle comes before both.
fn count(l: &CsrMatrix<f64>) -> u64 {
    let common = |i: usize, j: usize| l.row(i).0.iter().filter(|k| l.row(j).0.binary_search(k).is_ok()).count();
    l.triplets().map(|(i, j, _)| common(i, j) as u64).sum()
}
