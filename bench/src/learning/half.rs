//! Sums over neighbours of features in `f32` and in 16 bits, with the same values of edges.

use measure::random_elements;
use warpsparse::{Adjacency, CsrMatrix, DenseRef, Device, DeviceDense, Half, Reduce, Result, bf16, f16};

use super::{
    examples::data::Data,
    report::{Operation, error},
};
use crate::session::Session;

/// Columns, and the names of the sums over neighbours of them: in `f32`, `bf16` and `f16`.
const SUMS: [(usize, [&str; 3]); 3] = [
    (64, ["SpMM, 64 columns, f32", "SpMM, 64 columns, bf16", "SpMM, 64 columns, f16"]),
    (128, ["SpMM, 128 columns, f32", "SpMM, 128 columns, bf16", "SpMM, 128 columns, f16"]),
    (256, ["SpMM, 256 columns, f32", "SpMM, 256 columns, bf16", "SpMM, 256 columns, f16"]),
];

/// Measures products of the graph's matrix with features, which `bf16` has exactly: in `f32` by `DeviceMatrix::spmm`, in 16 bits by `Adjacency::spmm_half`.
pub(super) fn sums(session: &Session<'_>, data: &Data, graph: &str) -> Result<Vec<Operation>> {
    let device = session.device;
    let matrix = device.upload(&data.graph)?;
    let edges = matrix.adjacency()?;
    let values = device.upload_dense((edges.nnz(), 1), data.graph.values())?;
    let in_f64 = data.graph.cast();
    let mut measured = Vec::new();
    for (cols, [in_f32, in_bf16, in_f16]) in SUMS {
        let features: Vec<f32> = random_elements(edges.ncols() * cols, 70)?;
        let features: Vec<_> = features.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect();
        let expected = expected(&in_f64, &features, cols)?;
        let b = device.upload_dense((edges.ncols(), cols), &features)?;
        let mut c = device.zeros_dense((edges.nrows(), cols))?;
        let operation = Operation::new(session, (in_f32, graph, data), |_| matrix.spmm(1.0, &b, 0.0, &mut c))?;
        measured.push(Operation { error: Some(error(&c.to_vec()?, &expected)), ..operation });
        let problem = (&edges, values.view(), &b, &*expected);
        // Results have 8 and 11 binary digits: no element is off by more than half a unit of the last.
        let operation = sum::<bf16>(session, (in_bf16, graph, data), problem)?;
        measured.push(Operation { most_error: 0.5f64.powi(8), ..operation });
        let operation = sum::<f16>(session, (in_f16, graph, data), problem)?;
        measured.push(Operation { most_error: 0.5f64.powi(11), ..operation });
    }
    Ok(measured)
}

fn sum<H: Half>(
    session: &Session<'_>,
    name: (&'static str, &str, &Data),
    (edges, values, features, expected): (&Adjacency, DenseRef<'_, f32>, &DeviceDense<f32>, &[f64]),
) -> Result<Operation> {
    let (device, cols) = (session.device, features.ncols());
    let mut b = device.zeros_half::<H>((edges.ncols(), cols))?;
    let mut c = device.zeros_half::<H>((edges.nrows(), cols))?;
    b.cast_from(features)?;
    let operation = Operation::new(session, name, |_| edges.spmm_half(Reduce::Sum, Some(values), &b, &mut c))?;
    let mut found = device.zeros_dense((edges.nrows(), cols))?;
    c.cast_to(&mut found)?;
    Ok(Operation { error: Some(error(&found.to_vec()?, expected)), ..operation })
}

/// The product on the CPU, in `f64`.
fn expected(graph: &CsrMatrix<f64>, features: &[f32], cols: usize) -> Result<Vec<f64>> {
    let (cpu, features) = (Device::cpu(), features.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let mut c = cpu.zeros_dense((graph.nrows(), cols))?;
    cpu.upload(graph)?.spmm(1.0, &cpu.upload_dense((graph.ncols(), cols), &features)?, 0.0, &mut c)?;
    c.to_vec()
}
