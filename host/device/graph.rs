//! Operations that are recorded once and queued many times.

use std::{fmt, mem};

#[cfg(feature = "cuda")]
pub(crate) use super::cuda::Recording;
#[cfg(feature = "cuda")]
use super::recording::Borrowed;
use super::{Backend, Device, recording};
use crate::Result;

/// Without a GPU nothing is recorded.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
pub(crate) enum Recording {}

#[cfg(not(feature = "cuda"))]
impl Recording {
    pub(crate) fn launch(&self) -> Result<()> {
        match *self {}
    }
}

/// A recorded sequence of operations that can be queued many times, with the same arguments.
///
/// On a GPU this is a CUDA graph: the driver checks and prepares the operations once, and queues all of them in one
/// call. On the CPU and the emulated device every launch calls the operations again.
///
/// Created by [`Device::record`] and [`Device::record_swapping`].
pub struct Graph<'a> {
    /// Launched in turn; empty if every launch calls the operations. Dropped before what they access.
    recordings: Vec<Recording>,
    /// Hold the borrows of everything they access.
    operations: Box<dyn Operations + 'a>,
    /// The index of the next recording.
    turn: usize,
}

/// The operations of a graph.
trait Operations {
    /// Queues or records them.
    fn call(&mut self) -> Result<()>;

    /// Runs on the host after the operations.
    fn turn(&mut self) {}
}

impl<F: FnMut() -> Result<()>> Operations for F {
    fn call(&mut self) -> Result<()> {
        self()
    }
}

/// A step between two states that swap after it.
struct Swapping<'a, S, F> {
    current: &'a mut S,
    next: &'a mut S,
    step: F,
}

impl<S, F: FnMut(&mut S, &mut S) -> Result<()>> Operations for Swapping<'_, S, F> {
    fn call(&mut self) -> Result<()> {
        (self.step)(self.current, self.next)
    }

    fn turn(&mut self) {
        mem::swap(self.current, self.next);
    }
}

/// Operations after a swap, which is undone on drop.
struct Turned<'a, O: Operations>(&'a mut O);

impl<'a, O: Operations> Turned<'a, O> {
    fn new(operations: &'a mut O) -> Self {
        operations.turn();
        Self(operations)
    }
}

impl<O: Operations> Drop for Turned<'_, O> {
    fn drop(&mut self) {
        self.0.turn();
    }
}

impl Graph<'_> {
    /// Queues the operations `times` times in succession. On a GPU nothing is allocated, and nothing waits.
    ///
    /// # Errors
    /// [`Driver`](crate::Error::Driver); [`InvalidOption`](crate::Error::InvalidOption) while another graph is being
    /// recorded; on the CPU and the emulated device, the errors of the operations.
    pub fn launch(&mut self, times: usize) -> Result<()> {
        recording::refuse("the launch of a graph")?;
        for _ in 0..times {
            match self.recordings.get(self.turn) {
                None => recording::anew(|| self.operations.call())?,
                Some(recording) => {
                    recording.launch()?;
                    self.turn = (self.turn + 1) % self.recordings.len();
                }
            }
            self.operations.turn();
        }
        Ok(())
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.recordings.is_empty() { "Graph(called anew)" } else { "Graph(recorded)" })
    }
}

impl Device {
    /// Records what `operations` queues on this stream as a [`Graph`], which queues all of it in one call, any number of
    /// times. A GPU runs nothing while recording.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// // Ten steps of Richardson's iteration, x += (b - A x) / 4, for A = diag(2, 4), b = (2, 4).
    /// let device = Device::auto();
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 1, 2], vec![0, 1], vec![2.0f64, 4.0])?;
    /// let a = device.upload(&a)?;
    /// let (b, mut r, mut x) = (device.upload_vec(&[2.0, 4.0])?, device.zeros(2)?, device.zeros(2)?);
    /// let mut steps = device.record(|| {
    ///     r.assign(&b)?;
    ///     a.spmv(-1.0, &x, 1.0, &mut r)?;
    ///     x.axpy(0.25, &r)
    /// })?;
    /// steps.launch(10)?;
    /// drop(steps); // gives r and x back
    /// assert_eq!(x.to_vec()?, [1.0 - 0.5f64.powi(10), 1.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// `operations` may call anything that only queues work on this device: products, vector operations, reductions
    /// whose results stay there, your own kernels. New vectors of zeros and the results of reductions have the same
    /// memory in every launch. The graph keeps all memory that it accesses alive, even if `operations` drops it.
    ///
    /// `operations` keeps its borrows as long as the graph lives. To read something on the host between launches, such
    /// as a residual norm, put it into a [`RefCell`](std::cell::RefCell).
    ///
    /// A GPU calls `operations` once, while recording: what it does on the host, in other threads or on other devices
    /// is not repeated. So it must write to existing vectors and scalars, by `assign` and `set`; replacing them by new
    /// ones is an error on a GPU. The CPU and the emulated device keep `operations`, call it in every launch, and do not
    /// report such a replacement.
    ///
    /// # Errors
    /// Those of `operations`; [`InvalidOption`](crate::Error::InvalidOption) for what a graph cannot hold: copies to or
    /// from the host, waiting, another stream or its data, memory borrowed from another library, the launch of another graph.
    /// On the CPU and the emulated device [`launch`](Graph::launch) reports these. [`Driver`](crate::Error::Driver).
    pub fn record<'a>(&self, mut operations: impl FnMut() -> Result<()> + 'a) -> Result<Graph<'a>> {
        let recordings = self.recorded(&mut operations)?.into_iter().collect();
        Ok(Graph { operations: Box::new(operations), recordings, turn: 0 })
    }

    /// Records `step`, which computes its second argument from the first, as a [`Graph`] in which the two swap after
    /// every step: an iteration `x[k + 1] = f(x[k])` without copies. After the graph is dropped, `current` holds the
    /// last state computed.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// // The power iteration for [[2, 1], [1, 2]], whose largest eigenvalue is 3.
    /// let device = Device::auto();
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![2.0f64, 1.0, 1.0, 2.0])?;
    /// let a = device.upload(&a)?;
    /// let (mut x, mut y) = (device.upload_vec(&[1.0, 0.0])?, device.zeros(2)?);
    /// device
    ///     .record_swapping(&mut x, &mut y, |x, y| {
    ///         a.spmv(1.0, x, 0.0, &mut *y)?;
    ///         y.scale(1.0 / &y.norm2()?)
    ///     })?
    ///     .launch(41)?;
    /// a.spmv(1.0, &x, 0.0, &mut y)?;
    /// assert!((y.norm2()?.get()? - 3.0).abs() < 1e-12);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// The states may be vectors, or tuples or structs of vectors; `step` gets them as `&mut`: pass `&*x` and `&mut *y` to operations. To stop by a norm, write it
    /// into a scalar in a [`RefCell`](std::cell::RefCell). [`record`](Self::record) says what `step` may do.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_swapping<'a, S>(
        &self,
        current: &'a mut S,
        next: &'a mut S,
        step: impl FnMut(&mut S, &mut S) -> Result<()> + 'a,
    ) -> Result<Graph<'a>> {
        let mut operations = Swapping { current, next, step };
        let first = self.recorded(|| operations.call())?;
        let second = {
            let turned = Turned::new(&mut operations);
            self.recorded(|| turned.0.call())?
        };
        let recordings = first.into_iter().chain(second).collect();
        Ok(Graph { operations: Box::new(operations), recordings, turn: 0 })
    }

    /// Records like [`record`](Self::record), and also accepts memory borrowed from other libraries, and their work if they
    /// queue it on [this device's stream](Self::cuda_stream).
    ///
    /// # Errors
    /// As [`record`](Self::record); [`InvalidOption`](crate::Error::InvalidOption) also for the first sparse product
    /// with a given number of columns, which waits: compute such a product once beforehand.
    ///
    /// # Safety
    /// 1. Memory that another library lends or allocates is neither freed nor returned while the graph exists.
    /// 2. Until this returns, no other thread queues anything on this stream, or on data that lives on it.
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "only a GPU records"))]
    pub unsafe fn capture<'a>(&self, mut operations: impl FnMut() -> Result<()> + 'a) -> Result<Graph<'a>> {
        recording::refuse("another graph")?;
        let recordings = match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => vec![],
            #[cfg(feature = "cuda")]
            Backend::Cuda(queue) => vec![queue.capture(&mut operations)?],
        };
        Ok(Graph { operations: Box::new(operations), recordings, turn: 0 })
    }

    /// Records what `operations` queues on this stream. Returns nothing, and does not call `operations`, unless this is
    /// a GPU.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only a GPU records"))]
    pub(crate) fn recorded(&self, operations: impl FnOnce() -> Result<()>) -> Result<Option<Recording>> {
        recording::refuse("another graph")?;
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(None),
            #[cfg(feature = "cuda")]
            Backend::Cuda(queue) => queue.record(Borrowed::Refused, operations).map(Some),
        }
    }
}
