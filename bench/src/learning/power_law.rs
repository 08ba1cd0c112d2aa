//! A task on a power-law graph: features, classes and edges as many as those of ogbn-arxiv, all random.

use measure::random_elements;
use warpsparse::{CooMatrix, CsrMatrix};

use super::examples::data::{Data, normalised};

pub(super) const FEATURES: usize = 128;
const CLASSES: usize = 40;

/// Draws edges by R-MAT (Chakrabarti et al., 2004) in the smallest power of two that has `n` vertices, and takes those between the first `n`, in both
/// directions. As many are drawn as leave about 1.9 million entries of 169 343 vertices, loops not counted.
pub(super) fn power_law(n: usize) -> std::result::Result<Data, Box<dyn std::error::Error>> {
    let [a, b, c] = [0.57, 0.19, 0.19];
    let mut edges = vec![(0usize, 0usize); (n as f64 * 1_200_000.0 / 169_343.0).ceil() as usize];
    for level in 0..n.next_power_of_two().ilog2() {
        let random: Vec<f64> = random_elements(2 * edges.len(), u64::from(level))?;
        for (edge, random) in edges.iter_mut().zip(random.chunks(2)) {
            let [u, v] = [0, 1].map(|k| (random[k] + 1.0) / 2.0);
            let is_lower = u > a + b;
            let is_right = v > if is_lower { c / (1.0 - a - b) } else { a / (a + b) };
            *edge = (2 * edge.0 + usize::from(is_lower), 2 * edge.1 + usize::from(is_right));
        }
    }
    let mut graph = CooMatrix::new(n, n)?;
    for &(i, j) in edges.iter().filter(|&&(i, j)| i < n && j < n) {
        graph.push(i, j, 1.0)?;
        graph.push(j, i, 1.0)?;
    }
    let offsets = (0..=n as u32).map(|i| i * FEATURES as u32).collect();
    let columns = (0..FEATURES as u32).collect::<Vec<_>>().repeat(n);
    let features = CsrMatrix::try_from_csr_data(n, FEATURES, offsets, columns, random_elements(n * FEATURES, 64)?)?;
    let labels =
        random_elements::<f64>(n, 65)?.iter().map(|x| Some(((x + 1.0) * CLASSES as f64 / 2.0) as u32)).collect();
    let labels = [labels, vec![None; n], vec![None; n]];
    Ok(Data { graph: normalised(&CsrMatrix::try_from(&graph)?)?, features, labels, classes: CLASSES })
}
