//! Sums over neighbours of features in `f32` and in 16 bits, with the same values of edges.

use measure::random_elements;
use warpsparse::{CsrMatrix, Device, DeviceMatrix, Half, Reduce, Result, bf16, f16};

use super::{examples::data::Data, report::Operation};
use crate::session::Session;

/// Columns, and the names of the sums over neighbours of them: in `f32`, `bf16` and `f16`.
const SUMS: [(usize, [&str; 3]); 3] = [
    (64, ["SpMM, 64 columns, f32", "SpMM, 64 columns, bf16", "SpMM, 64 columns, f16"]),
    (128, ["SpMM, 128 columns, f32", "SpMM, 128 columns, bf16", "SpMM, 128 columns, f16"]),
    (256, ["SpMM, 256 columns, f32", "SpMM, 256 columns, bf16", "SpMM, 256 columns, f16"]),
];

/// Measures products of the graph's matrix with features, which `bf16` has exactly: in `f32` by `DeviceMatrix::spmm`, in 16 bits by `Adjacency::spmm_half`.
pub(super) fn sums(session: &Session<'_>, data: &Data, graph: &str) -> Result<Vec<Operation>> {
    let matrix = session.device.upload(&data.graph)?;
    let mut measured = Vec::new();
    for (cols, [in_f32, in_bf16, in_f16]) in SUMS {
        let features: Vec<f32> = random_elements(data.graph.ncols() * cols, 70)?;
        let features: Vec<_> = features.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect();
        let expected = expected(&data.graph, &features, cols)?;
        let size = (data.graph.nrows(), cols);
        let b = session.device.upload_dense((data.graph.ncols(), cols), &features)?;
        let mut c = session.device.zeros_dense(size)?;
        let operation = Operation::new(session, (in_f32, graph, data), |_| matrix.spmm(1.0, &b, 0.0, &mut c))?;
        measured.push(Operation { error: Some(error(&c.to_vec()?, &expected)), ..operation });
        let problem = (graph, data, &*features, &*expected);
        // Results have 8 and 11 binary digits: no element is off by more than half a unit of the last.
        measured.push(Operation { most_error: 0.5f64.powi(8), ..sum::<bf16>(session, &matrix, in_bf16, problem)? });
        measured.push(Operation { most_error: 0.5f64.powi(11), ..sum::<f16>(session, &matrix, in_f16, problem)? });
    }
    Ok(measured)
}

fn sum<H: Half>(
    session: &Session<'_>,
    matrix: &DeviceMatrix<f32>,
    name: &'static str,
    (graph, data, features, expected): (&str, &Data, &[f32], &[f64]),
) -> Result<Operation> {
    let (device, edges, cols) = (session.device, matrix.adjacency()?, features.len() / matrix.ncols());
    let values = device.upload_dense((edges.nnz(), 1), data.graph.values())?;
    let (mut b, mut c) =
        (device.zeros_half::<H>((edges.ncols(), cols))?, device.zeros_half::<H>((edges.nrows(), cols))?);
    b.cast_from(&device.upload_dense((edges.ncols(), cols), features)?)?;
    let operation = Operation::new(session, (name, graph, data), |_| {
        edges.spmm_half(Reduce::Sum, Some(values.view()), &b, &mut c)
    })?;
    let mut found = device.zeros_dense((edges.nrows(), cols))?;
    c.cast_to(&mut found)?;
    Ok(Operation { error: Some(error(&found.to_vec()?, expected)), ..operation })
}

/// The product on the CPU, in `f64`.
fn expected(graph: &CsrMatrix<f32>, features: &[f32], cols: usize) -> Result<Vec<f64>> {
    let (cpu, features) = (Device::cpu(), features.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let (offsets, columns) = (graph.row_offsets().to_vec(), graph.col_indices().to_vec());
    let values = graph.values().iter().map(|&value| f64::from(value)).collect();
    let graph = CsrMatrix::try_from_csr_data(graph.nrows(), graph.ncols(), offsets, columns, values)?;
    let mut c = cpu.zeros_dense((graph.nrows(), cols))?;
    cpu.upload(&graph)?.spmm(1.0, &cpu.upload_dense((graph.ncols(), cols), &features)?, 0.0, &mut c)?;
    c.to_vec()
}

/// Relative, in the 2-norm.
fn error(found: &[f32], expected: &[f64]) -> f64 {
    let squares = found.iter().zip(expected).map(|(&x, y)| (f64::from(x) - y).powi(2)).sum::<f64>();
    (squares / expected.iter().map(|y| y * y).sum::<f64>()).sqrt()
}
