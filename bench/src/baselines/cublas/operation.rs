//! Operations on vectors by cuBLAS, measured.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use measure::{
    Measurement,
    stream::{LibraryQueue, driver, library_error},
};
use warpsparse::Scalar;

use super::{Handle, Number, Run, Scalars};
use crate::vector::{ALPHA, Operation, SCALE, VectorProblem, Vectors};

/// The functions of cuBLAS that correspond to operations of ours.
#[derive(Clone, Copy, Debug)]
enum Function {
    Axpy,
    Scal,
    Copy,
    Dot,
    Nrm2,
}

impl Function {
    fn of(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Axpy => Some(Self::Axpy),
            Operation::Scale => Some(Self::Scal),
            Operation::Assign => Some(Self::Copy),
            Operation::Dot => Some(Self::Dot),
            Operation::Norm2 => Some(Self::Nrm2),
            _ => None,
        }
    }

    fn name<T>(self) -> String {
        let letter = if size_of::<T>() == 4 { 'S' } else { 'D' };
        format!("cublas{letter}{}", format!("{self:?}").to_lowercase())
    }

    /// Results stay on the device, so that nothing waits; factors are the host's, as ours are.
    fn scalars(self) -> Scalars {
        match self {
            Self::Dot | Self::Nrm2 => Scalars::OnDevice,
            Self::Axpy | Self::Scal | Self::Copy => Scalars::OnHost,
        }
    }
}

/// Whether the library has such an operation.
pub(in super::super) fn has(operation: Operation) -> bool {
    Function::of(operation).is_some()
}

/// The vectors on the device.
struct Set<T> {
    x: CudaSlice<T>,
    y: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    fn new(stream: &Arc<CudaStream>, Vectors { x, y }: &Vectors<T>) -> Result<Self, String> {
        let failed = driver("copying to the device");
        Ok(Self { x: stream.clone_htod(x).map_err(&failed)?, y: stream.clone_htod(y).map_err(&failed)? })
    }

    /// Queues the function, of a handle that takes scalars where the function wants them.
    fn call(&mut self, handle: &Handle, function: Function, result: &mut CudaSlice<T>) -> Result<(), String> {
        let stream = &handle.stream;
        let n = i32::try_from(self.x.len()).map_err(|_| "the vectors are too long for it")?;
        let x = self.x.device_ptr(stream).0 as *const T;
        let y = self.y.device_ptr_mut(stream).0 as *mut T;
        let result = result.device_ptr_mut(stream).0 as *mut T;
        let [alpha, scale] = [ALPHA, SCALE].map(T::from_f64);
        // SAFETY: both vectors have n elements and do not overlap, the result has one; they are freed in the order of the handle's stream, thus after
        // the call, and those that are written are borrowed mutably. Factors are in host memory and read during the call, results in the device's,
        // as `Function::scalars` tells the handle.
        unsafe {
            match function {
                Function::Axpy => handle.axpy(n, &alpha, x, y),
                Function::Scal => handle.scal(n, &scale, y),
                Function::Copy => handle.copy(n, x, y),
                Function::Dot => handle.dot(n, x, y, result),
                Function::Nrm2 => handle.nrm2(n, x, result),
            }
        }
    }
}

/// The operation by the library's function for it.
pub(in super::super) fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, VectorProblem<'_, T>>,
) -> Result<Run, String> {
    let &VectorProblem { operation, vectors, bytes, ref reference } = measurement.problem;
    let function = Function::of(operation).ok_or("it has no such function")?;
    let queue = LibraryQueue::new(measurement.device)?;
    let stream = &queue.stream;
    let handle = Handle::new(stream)?;
    handle.expect_scalars(function.scalars())?;
    let rotation = measurement.rotation(bytes);
    let sets = (0..rotation).map(|_| Set::new(stream, vectors));
    let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
    let mut result = stream.alloc_zeros::<T>(1).map_err(driver("allocating a result"))?;

    // What is checked is the result of the first call: others find what it has left.
    sets[0].call(&handle, function, &mut result)?;
    let failed = driver("copying from the device");
    let elements = reference.places().map(|place| stream.clone_dtoh(&sets[0].y.slice(place)));
    let elements = elements.collect::<Result<Vec<_>, _>>().map_err(&failed)?.concat();
    let number = stream.clone_dtoh(&result).map_err(&failed)?[0].to_f64();
    // It adds up in the type of the elements.
    let errors = reference.errors::<T, T>(&elements, &[number][..reference.numbers()]);
    let call = |set: usize| sets[set].call(&handle, function, &mut result).map_err(library_error);
    let times = measurement.times(&queue.device, rotation, call).map_err(|error| error.to_string())?;
    let figures = measurement.figures(&times, bytes, &errors);
    Ok(Run { variant: function.name::<T>(), format: None, figures })
}
