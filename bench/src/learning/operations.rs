//! Operations on edges, a layer of graph attention, and steps of training.

use measure::random_elements;
use warpsparse::{Adjacency, Attention, AttentionGradients, Device, DeviceDense, Result, Scalar, Zip, gemm, learning};

use super::{
    examples::{
        data::Data,
        model::Gcn,
        network::{Network, Task},
    },
    gat::{
        layer::{Layer, inputs},
        model::Gat,
    },
    power_law::FEATURES,
    report::{Operation, error},
};
use crate::{pool::peak_bytes, session::Session};

const HEADS: usize = 8;
const WIDTH: usize = 32;
const UNITS: usize = HEADS * WIDTH;

/// Everything on one device.
struct Arrays<T: Scalar> {
    graph: Adjacency,
    /// Of the edges.
    scores: DeviceDense<T>,
    softmax: DeviceDense<T>,
    d_scores: DeviceDense<T>,
    x: DeviceDense<T>,
    weights: DeviceDense<T>,
    gradient: DeviceDense<T>,
    layer: Layer<T>,
    d_out: DeviceDense<T>,
}

/// A name, what is called, and its result. Each finds what those before it have computed, and computes the same every time.
type Case<T> = (&'static str, fn(&mut Arrays<T>) -> Result<()>, fn(&Arrays<T>) -> &DeviceDense<T>);

fn cases<T: Scalar>() -> [Case<T>; 6] {
    let backward = |it: &mut Arrays<T>| it.graph.edge_softmax_backward(&it.softmax, &it.scores, &mut it.d_scores);
    [
        ("edge softmax", |it| it.graph.edge_softmax(&it.scores, &mut it.softmax), |it| &it.softmax),
        ("edge softmax, backward", backward, |it| &it.d_scores),
        ("GATConv", Arrays::convolve, |it| &it.layer.out),
        ("its attention", Arrays::attend, |it| &it.layer.out),
        ("its attention, backward", Arrays::attend_backward, |it| &it.layer.d_scores[1]),
        ("GATConv, backward", Arrays::convolve_backward, |it| &it.gradient),
    ]
}

/// Measures operations of 8 heads of 32 features, and compares the results with those of the CPU in `f64`.
pub(super) fn operations<T: Scalar>(session: &Session<'_>, data: &Data, graph: &str) -> Result<Vec<Operation>> {
    let mut arrays = Arrays::<T>::new(session.device, data)?;
    let measured =
        |(operation, call, _): Case<T>| Operation::new(session, (operation, graph, data), |_| call(&mut arrays));
    let mut measured = cases().into_iter().map(measured).collect::<Result<Vec<_>>>()?;
    let mut reference = Arrays::<f64>::new(&Device::cpu(), data)?;
    for ((found, expected), measured) in cases().into_iter().zip(cases()).zip(&mut measured) {
        expected.1(&mut reference)?;
        let (found, expected) = (found.2(&arrays).to_vec()?, expected.2(&reference).to_vec()?);
        measured.error = Some(error(&found, &expected));
    }
    Ok(measured)
}

/// Measures steps of training of two networks.
pub(super) fn networks<T: Scalar>(
    session: &Session<'_>,
    data: &Data,
    graph: &str,
    (gcn, hidden): (&'static str, &[usize]),
    (gat, heads): (&'static str, (usize, usize)),
) -> Result<Vec<Operation>> {
    let device = session.device;
    Ok(vec![
        steps::<T, _>(session, (gcn, graph, data), || Gcn::new(device, data, hidden, 1))?,
        steps::<T, _>(session, (gat, graph, data), || Gat::new(device, data, heads, 1))?,
    ])
}

fn steps<T: Scalar, N: Network<T>>(
    session: &Session<'_>,
    what: (&'static str, &str, &Data),
    new: impl FnOnce() -> Result<N>,
) -> Result<Operation> {
    let start = || {
        let mut network = new()?;
        let loss = loss(&mut network)?;
        network.take_step()?;
        Ok((network, loss))
    };
    let ((mut network, first), peak_bytes) = peak_bytes(session.device, start)?;
    let measured = Operation::new(session, what, |_| network.take_step())?;
    Ok(Operation { peak_bytes, losses: Some([first, loss(&mut network)?]), ..measured })
}

/// That of training, without dropout.
fn loss<T: Scalar>(network: &mut impl Network<T>) -> Result<f64> {
    network.forward(false)?;
    let (_, Task { labels, progress: [loss, ..], .. }, logits) = network.parts();
    learning::cross_entropy(logits, &labels[0], loss)?;
    Ok(loss.get()?.to_f64())
}

impl<T: Scalar> Arrays<T> {
    fn new(device: &Device, data: &Data) -> Result<Self> {
        let (n, nnz) = (data.graph.nrows(), data.graph.nnz());
        let random = |rows: usize, cols: usize, stream: u64| {
            device.upload_dense((rows, cols), &random_elements::<T>(rows * cols, stream)?)
        };
        let mut layer = Layer::new(device, n, (HEADS, WIDTH), [0, 0])?;
        for (vectors, stream) in layer.vectors.iter_mut().zip(5..) {
            vectors.weights = random(UNITS, HEADS, stream)?;
            vectors.weights.elements_mut().zip(Zip::Mul, layer.mask.elements())?;
        }
        Ok(Self {
            graph: device.upload(&data.graph)?.adjacency()?,
            scores: random(nnz, HEADS, 1)?,
            softmax: device.zeros_dense((nnz, HEADS))?,
            d_scores: device.zeros_dense((nnz, HEADS))?,
            x: random(n, FEATURES, 2)?,
            weights: random(FEATURES, UNITS, 3)?,
            gradient: device.zeros_dense((FEATURES, UNITS))?,
            layer,
            d_out: random(n, UNITS, 4)?,
        })
    }

    /// Projection, scores and attention.
    fn convolve(&mut self) -> Result<()> {
        self.x.gemm(T::from_f64(1.0), &self.weights, T::default(), &mut self.layer.features)?;
        self.layer.forward(&self.graph, &Attention::default())
    }

    fn attend(&mut self) -> Result<()> {
        let Layer { scores, features, out, log_sums, .. } = &mut self.layer;
        self.graph.attention(&Attention::default(), inputs(scores, features), out, log_sums)
    }

    fn attend_backward(&mut self) -> Result<()> {
        let Layer { scores, features, out, log_sums, d_scores, d_features, .. } = &mut self.layer;
        let [row_scores, col_scores] = d_scores.each_mut().map(DeviceDense::view_mut);
        let gradients = AttentionGradients { row_scores, col_scores, features: d_features.view_mut() };
        let inputs = inputs(scores, features);
        self.graph.attention_backward(&Attention::default(), inputs, &*out, &*log_sums, &self.d_out, gradients)
    }

    /// The gradients of all weights, not that of `x`.
    fn convolve_backward(&mut self) -> Result<()> {
        self.layer.backward(&self.graph, &Attention::default(), &self.d_out)?;
        gemm(T::from_f64(1.0), self.x.transpose(), &self.layer.d_features, T::default(), &mut self.gradient)
    }
}
