//! The crate oxicuda-sparse: kernels in PTX that it writes while the program runs.
//!
//! It works in the primary context of the device, as our products do, on a stream of its own, on sets of the same arrays
//! that are gone round. Each call writes, loads and unloads its kernel, and there is no way to call it that does not: so it
//! cannot be captured, and the device's clock would tell the time of compilation. What is measured is its host call time.

use std::{fmt::Display, sync::Arc};

use cudarc::driver::CudaStream;
use measure::{
    DenseProblem, Measurement, Problem, Times,
    stream::{device_index, driver, library_error, primary_context},
};
use oxicuda_blas::{
    GpuFloat,
    types::{Layout, MatrixDesc, MatrixDescMut},
};
use oxicuda_driver::Context;
use oxicuda_memory::DeviceBuffer;
use oxicuda_sparse::{
    SparseHandle,
    format::CsrMatrix,
    ops::{SpMVAlgo, spmm, spmv},
};
use warpsparse::{Device, Scalar};

use super::{Run, cusparse::check_size};

/// What the crate asks of an element type.
pub(crate) use oxicuda_blas::GpuFloat as Number;

pub(super) fn describe(device: &Device) -> Result<String, String> {
    Library::new(device)?;
    let kernels = "it compiles and loads its kernel at every product: its times are host call times, of which that is nearly all, and are \
        compared with ours of that kind";
    let sets = format!("on at most {MAX_SETS} sets of buffers");
    Ok(format!("oxicuda-sparse 0.5.5, on a stream of its own in the context of our products, {sets}; {kernels}"))
}

/// Sets that its products go round: all are touched before any is timed, and with its calls thousands take too long.
/// The L2 cache may hold so few, which is to its advantage.
const MAX_SETS: usize = 64;

/// A kernel for a row a thread, and one for a row a warp.
const ALGORITHMS: [(&str, SpMVAlgo); 2] = [("scalar", SpMVAlgo::Scalar), ("vector", SpMVAlgo::Vector)];

/// Both kernels, measured.
pub(super) fn runs<T: Scalar + GpuFloat>(measurement: &Measurement<'_, Problem<T>>) -> Result<Vec<Run>, String> {
    let Problem { matrix, x, bytes, reference } = measurement.problem;
    check_size(matrix)?;
    let library = Library::new(measurement.device)?;
    let set = |_| Ok((upload(matrix)?, buffer(x)?, zeros::<T>(matrix.nrows())?));
    let mut sets = (0..measurement.rotation(*bytes).min(MAX_SETS)).map(set).collect::<Result<Vec<_>, String>>()?;
    let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
    let mut runs = Vec::new();
    for (name, algorithm) in ALGORITHMS {
        // So that the result below is this algorithm's.
        sets[0].2 = zeros(matrix.nrows())?;
        let times = library.times(measurement, sets.len(), |place| {
            let (a, x, y) = &sets[place];
            let done = spmv(&library.handle, algorithm, one, a, x.as_device_ptr(), zero, y.as_device_ptr());
            done.map_err(failed("multiplying"))
        })?;
        let figures = measurement.figures(&times, *bytes, &reference.errors(&to_host(&sets[0].2)?));
        runs.push(Run { variant: name.into(), format: None, figures });
    }
    Ok(runs)
}

/// Its one kernel for dense matrices, measured.
pub(super) fn dense_runs<T: Scalar + GpuFloat>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
) -> Result<Vec<Run>, String> {
    let &DenseProblem { matrix, cols, b, bytes, ref reference, .. } = measurement.problem;
    check_size(matrix)?;
    let library = Library::new(measurement.device)?;
    let narrow = |size: usize| u32::try_from(size).map_err(|_| "the matrix takes more than 32-bit indices".to_owned());
    let (nrows, ncols, cols) = (narrow(matrix.nrows())?, narrow(matrix.ncols())?, narrow(cols)?);
    // It counts elements of B and C, and threads, in 32 bits.
    narrow(nrows.max(ncols) as usize * cols as usize)?;
    let set = |_| Ok((upload(matrix)?, buffer(b)?, zeros::<T>(matrix.nrows() * cols as usize)?));
    let mut sets = (0..measurement.rotation(bytes).min(MAX_SETS)).map(set).collect::<Result<Vec<_>, String>>()?;
    let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
    let times = library.times(measurement, sets.len(), |place| {
        let (a, b, c) = &mut sets[place];
        let b = MatrixDesc::from_buffer(b, ncols, cols, Layout::RowMajor).map_err(failed("describing B"))?;
        let mut c = MatrixDescMut::from_buffer(c, nrows, cols, Layout::RowMajor).map_err(failed("describing C"))?;
        spmm(&library.handle, one, a, &b, zero, &mut c).map_err(failed("multiplying"))
    })?;
    let known = reference.pick(&to_host(&sets[0].2)?);
    Ok(vec![Run {
        variant: "spmm".into(),
        format: None,
        figures: measurement.figures(&times, bytes, &reference.errors(&known)),
    }])
}

/// Its handle, and the handle's stream to wait for.
struct Library {
    stream: Arc<CudaStream>,
    handle: SparseHandle,
}

impl Library {
    fn new(device: &Device) -> Result<Self, String> {
        let context = primary_context(device)?;
        context.bind_to_thread().map_err(driver("making a context current"))?;
        let current = Context::current_raw().map_err(failed("finding the context"))?.ok_or("no context is current")?;
        let gpu = oxicuda_driver::Device::get(device_index(device)?).map_err(failed("finding the device"))?;
        // SAFETY: the device's primary context, which its stream below retains, and our own products too.
        let borrowed = Arc::new(unsafe { Context::from_raw_borrowed(current, gpu) });
        let handle = SparseHandle::new(&borrowed).map_err(failed("creating a handle"))?;
        // SAFETY: a stream of the context, which the handle keeps for as long as this one is there: nobody else has it.
        let stream = unsafe { context.wrap_borrowed_stream(handle.stream().raw().0.cast()) };
        Ok(Self { stream, handle })
    }

    /// Of products that go round so many sets, `multiply` being told which.
    fn times<P>(
        &self,
        measurement: &Measurement<'_, P>,
        sets: usize,
        mut multiply: impl FnMut(usize) -> Result<(), String>,
    ) -> Result<Times, String> {
        let wait = || self.stream.synchronize().map_err(driver("waiting for products")).map_err(library_error);
        let times = measurement.host_times(sets, wait, |set| multiply(set).map_err(library_error));
        times.map_err(|error| error.to_string())
    }
}

fn upload<T: Scalar + GpuFloat>(matrix: &warpsparse::CsrMatrix<T>) -> Result<CsrMatrix<T>, String> {
    // Below 2^31, as `check_size` found.
    let signed = |indices: &[u32]| indices.iter().map(|&index| index as i32).collect::<Vec<_>>();
    let (offsets, columns) = (signed(matrix.row_offsets()), signed(matrix.col_indices()));
    CsrMatrix::from_host(matrix.nrows() as u32, matrix.ncols() as u32, &offsets, &columns, matrix.values())
        .map_err(failed("copying the matrix to the device"))
}

fn buffer<T: Copy>(elements: &[T]) -> Result<DeviceBuffer<T>, String> {
    DeviceBuffer::from_host(elements).map_err(failed("copying to the device"))
}

/// It reads results even where it multiplies them by zero.
fn zeros<T: Copy>(len: usize) -> Result<DeviceBuffer<T>, String> {
    DeviceBuffer::zeroed(len).map_err(failed("allocating a result"))
}

fn to_host<T: Copy + Default>(elements: &DeviceBuffer<T>) -> Result<Vec<T>, String> {
    let mut host = vec![T::default(); elements.len()];
    elements.copy_to_host(&mut host).map_err(failed("copying from the device"))?;
    Ok(host)
}

/// An error of the crate, with what was being done.
fn failed<E: Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}
