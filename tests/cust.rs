//! Streams, memory and modules of cust's: operations here on them, against references in f64, and kernels of this crate
//! launched by cust.

mod common;

use std::{process::ExitCode, sync::Arc};

use common::{
    Random, assert_within,
    dense::{Dense, gemm_reference, reference},
    matrices::{self, uneven},
    on_gpu,
    sums::reference_spmv,
};
use libtest_mimic::Trial;
use warpsparse::{
    Cg, CsrMatrix, Device, DeviceVec, DeviceVecMut, DeviceVecRef, Error, ErrorKind, KernelArgs, Scalar, StopReason,
    Tolerance,
    cust::{
        CudaFlags,
        context::{Context, legacy},
        device::Device as CustDevice,
        init, launch,
        memory::{CopyDestination, DeviceBuffer, DeviceCopy},
        stream::{Stream, StreamFlags},
    },
    cust_module, gemm,
    kernels_gpu::spmv_csr_vector,
};

fn main() -> ExitCode {
    common::run(vec![
        on_gpu("products_on_cust_buffers_f32", |_| products::<f32>()),
        on_gpu("products_on_cust_buffers_f64", |_| products::<f64>()),
        on_gpu("dense_products_f32", |_| dense_products::<f32>()),
        on_gpu("dense_products_f64", |_| dense_products::<f64>()),
        on_gpu("a_solution", |_| a_solution()),
        on_gpu("a_family_is_a_module", |_| kernel_in_a_module(None)),
        on_gpu("an_entry_is_a_module", |_| kernel_in_a_module(Some("spmv_csr_vector_f32_t2"))),
        on_gpu("modules_are_of_the_current_context", |_| module_in_a_context_of_its_own()),
        on_gpu("vectors_own_and_give_back_buffers", |_| vectors_own_buffers()),
        on_gpu("swapped_and_forgotten_borrows_are_harmless", |_| swapped_and_forgotten()),
        on_gpu("a_device_keeps_its_stream", |_| a_device_keeps_its_stream()),
        on_gpu("one_gpu_is_one_memory", one_memory),
        on_gpu("what_does_not_fit_is_an_error", what_does_not_fit),
        on_gpu("other_contexts_are_errors", |_| other_contexts()),
        Trial::test("unknown_kernels_are_errors", || {
            for (family, entry, part) in
                [("spmv_none", None, "no family `spmv_none`"), ("spmv_csr_vector", Some("f"), "no entry `f`")]
            {
                let error = cust_module(family, entry).unwrap_err();
                assert!(matches!(&error, Error::InvalidOption(text) if text.contains(part)), "{error}");
            }
            Ok(())
        }),
    ])
}

/// The primary context of the first GPU, current in this thread. It has to be held.
fn primary_context() -> Context {
    init(CudaFlags::empty()).unwrap();
    Context::new(CustDevice::get_device(0).unwrap()).unwrap()
}

fn on_a_stream() -> (Context, Arc<Stream>, Device) {
    let context = primary_context();
    let stream = Arc::new(Stream::new(StreamFlags::DEFAULT, None).unwrap());
    let device = Device::from_cust(stream.clone()).unwrap();
    (context, stream, device)
}

fn upload<T: Scalar + DeviceCopy>(values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(values).unwrap()
}

/// What the buffer holds, once everything queued on the stream is done.
fn download<T: Scalar + DeviceCopy>(stream: &Stream, buffer: &DeviceBuffer<T>) -> Vec<T> {
    stream.synchronize().unwrap();
    let mut values = vec![T::from_f64(f64::NAN); buffer.len()];
    buffer.copy_to(&mut values).unwrap();
    values
}

const FACTORS: [(f64, f64); 3] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75)];

fn products<T: Scalar + DeviceCopy>() {
    let (_context, stream, device) = on_a_stream();
    for (name, matrix) in matrices::all::<T>() {
        let uploaded = device.upload(&matrix).unwrap();
        let x = Random(1).vector::<T>(matrix.ncols());
        let x_buffer = upload(&x);
        for (alpha, beta) in FACTORS.map(|(alpha, beta)| (T::from_f64(alpha), T::from_f64(beta))) {
            let y = Random(2).vector::<T>(matrix.nrows());
            let mut y_buffer = upload(&y);
            let address = y_buffer.as_device_ptr().as_raw();
            {
                let x = DeviceVecRef::from_cust(&device, &x_buffer).unwrap();
                let mut y = DeviceVecMut::from_cust(&device, &mut y_buffer).unwrap();
                assert_eq!((x.len(), y.len()), (matrix.ncols(), matrix.nrows()));
                uploaded.spmv(alpha, &x, beta, &mut y).unwrap();
            }
            assert_eq!((y_buffer.len(), y_buffer.as_device_ptr().as_raw()), (matrix.nrows(), address));
            assert_within(name, &download(&stream, &y_buffer), &reference_spmv(&matrix, alpha, &x, beta, &y));
        }
    }
}

fn dense_products<T: Scalar + DeviceCopy>() {
    let (_context, stream, device) = on_a_stream();
    let (alpha, beta) = (T::from_f64(-2.5), T::from_f64(0.75));
    let matrix = uneven::<T>();
    let uploaded = device.upload(&matrix).unwrap();
    for ncols in [1, 5, 8, 70] {
        let (b, c) = (Dense::random(3, matrix.ncols(), ncols, 0, 0), Dense::random(4, matrix.nrows(), ncols, 0, 0));
        let (b_buffer, mut c_buffer) = (upload(&b.elements), upload(&c.elements));
        {
            let on_device = DeviceVecRef::from_cust(&device, &b_buffer).unwrap();
            let mut result = DeviceVecMut::from_cust(&device, &mut c_buffer).unwrap();
            let (b, c) = (on_device.matrix(b.layout()).unwrap(), result.matrix_mut(c.layout()).unwrap());
            uploaded.spmm(alpha, b, beta, c).unwrap();
        }
        let expected = reference(&matrix, -2.5, &b, 0.75, &c);
        assert_within(&format!("spmm, {ncols} columns"), &download(&stream, &c_buffer), &expected);
    }
    // Sums of the last may be split.
    for (m, n, k) in [(1, 1, 1), (65, 33, 17), (128, 128, 64), (16, 16, 5000)] {
        let (a, b) = (Dense::<T>::random(5, m, k, 0, 0), Dense::random(6, k, n, 0, 0));
        let c = Dense::random(7, m, n, 0, 0);
        let (a_buffer, b_buffer, mut c_buffer) = (upload(&a.elements), upload(&b.elements), upload(&c.elements));
        {
            let left = DeviceVecRef::from_cust(&device, &a_buffer).unwrap();
            let right = DeviceVecRef::from_cust(&device, &b_buffer).unwrap();
            let mut result = DeviceVecMut::from_cust(&device, &mut c_buffer).unwrap();
            let (left, right) = (left.matrix((m, k)).unwrap(), right.matrix((k, n)).unwrap());
            gemm(alpha, left, right, beta, result.matrix_mut((m, n)).unwrap()).unwrap();
        }
        let expected = gemm_reference(-2.5, &a, &b, 0.75, &c);
        assert_within(&format!("gemm {m} {n} {k}"), &download(&stream, &c_buffer), &expected);
    }
}

/// `-1 2 -1`, symmetric and positive definite.
fn poisson(n: usize) -> CsrMatrix<f64> {
    let row = |i: usize| {
        let neighbours = [(i.wrapping_sub(1), -1.0), (i, 2.0), (i + 1, -1.0)];
        neighbours.into_iter().filter(|&(j, _)| j < n).collect()
    };
    matrices::from_rows(n, (0..n).map(row).collect())
}

fn a_solution() {
    let (_context, stream, device) = on_a_stream();
    let matrix = poisson(300);
    let a = device.upload(&matrix).unwrap();
    let expected = Random(8).vector::<f64>(300);
    let b: Vec<f64> =
        reference_spmv(&matrix, 1.0, &expected, 0.0, &vec![0.0; 300]).into_iter().map(|(value, _)| value).collect();
    let (b_buffer, mut x_buffer) = (upload(&b), upload(&[0.0; 300]));
    let info = {
        let b = DeviceVecRef::from_cust(&device, &b_buffer).unwrap();
        let mut x = DeviceVecMut::from_cust(&device, &mut x_buffer).unwrap();
        Cg::new(&a).tolerance(Tolerance::relative(1e-12)).solve(&b, &mut x).unwrap()
    };
    assert_eq!(info.reason, StopReason::Converged, "{info:?}");
    // The condition number is below 4 * 301^2 / pi^2.
    for (found, expected) in download(&stream, &x_buffer).iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    }
}

/// A kernel of this crate, launched by cust on buffers of its own.
fn kernel_in_a_module(entry: Option<&str>) {
    let _context = primary_context();
    launch_and_check(entry);
}

fn launch_and_check(entry: Option<&str>) {
    let stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
    let module = cust_module("spmv_csr_vector", entry).unwrap();
    let matrix = uneven::<f32>();
    let (rows, x) = (matrix.nrows() as u32, Random(1).vector::<f32>(matrix.ncols()));
    let row_offsets = DeviceBuffer::from_slice(matrix.row_offsets()).unwrap();
    let col_indices = DeviceBuffer::from_slice(matrix.col_indices()).unwrap();
    let (values, x_buffer) = (upload(matrix.values()), upload(&x));
    let y = upload(&vec![f32::NAN; matrix.nrows()]);
    let args = spmv_csr_vector::Args::<f32, u32> {
        rows,
        alpha: 1.0,
        beta: 0.0,
        row_offsets: row_offsets.as_device_ptr().as_ptr(),
        col_indices: col_indices.as_device_ptr().as_ptr(),
        values: values.as_device_ptr().as_ptr(),
        x: x_buffer.as_device_ptr().as_ptr(),
        y: y.as_device_ptr().as_mut_ptr(),
    };
    let (blocks, threads) = (spmv_csr_vector::grid_size(rows, 2), spmv_csr_vector::BLOCK_SIZE);
    // SAFETY: the struct of this entry, a valid matrix, and vectors that fit it.
    unsafe {
        let args = KernelArgs::new(args);
        launch!(module.spmv_csr_vector_f32_t2<<<blocks, threads, 0, stream>>>(args)).unwrap();
    }
    let expected = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("launched by cust", &download(&stream, &y), &expected);
    assert_eq!(module.get_function("spmv_csr_vector_f64_t2").is_ok(), entry.is_none());
}

fn module_in_a_context_of_its_own() {
    init(CudaFlags::empty()).unwrap();
    let gpu = CustDevice::get_device(0).unwrap();
    let _context = legacy::Context::create_and_push(legacy::ContextFlags::SCHED_AUTO, gpu).unwrap();
    launch_and_check(None);
}

fn vectors_own_buffers() {
    let (_context, stream, device) = on_a_stream();
    let matrix = uneven::<f32>();
    let a = device.upload(&matrix).unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let x_vec = DeviceVec::from_cust(&device, upload(&x)).unwrap();
    let mut y_vec = DeviceVec::from_cust(&device, upload(&vec![f32::NAN; matrix.nrows()])).unwrap();
    a.spmv(1.0, &x_vec, 0.0, &mut y_vec).unwrap();
    let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("an own vector", &y_vec.to_vec().unwrap(), &product);
    assert_within("its buffer", &download(&stream, &y_vec.into_cust().unwrap()), &product);
    // Freed by another thread, which has no context yet.
    std::thread::spawn(move || drop(x_vec)).join().unwrap();
    assert!(DeviceVec::from_cust(&device, upload::<f32>(&[])).unwrap().into_cust().unwrap().is_empty());

    let refused = device.zeros::<f32>(3).unwrap().into_cust().unwrap_err();
    assert!(matches!(refused, Error::DeviceMismatch { what: "the vector", .. }), "{refused}");
}

fn swapped_and_forgotten() {
    let (_context, stream, device) = on_a_stream();
    let mut buffer = upload(&[1.0f32, 2.0, 3.0]);
    let mut other = DeviceVec::from_cust(&device, upload(&[4.0f32, 5.0])).unwrap();
    std::mem::swap(&mut *DeviceVecMut::from_cust(&device, &mut buffer).unwrap(), &mut other);
    assert_eq!((download(&stream, &buffer), other.to_vec().unwrap()), (vec![4.0, 5.0], vec![1.0, 2.0, 3.0]));

    let mut not_cust = device.upload_vec(&[6.0f32]).unwrap();
    std::mem::swap(&mut *DeviceVecMut::from_cust(&device, &mut buffer).unwrap(), &mut not_cust);
    assert_eq!((buffer.len(), not_cust.to_vec().unwrap()), (0, vec![4.0, 5.0]));

    let mut buffer = other.into_cust().unwrap();
    std::mem::forget(DeviceVecMut::from_cust(&device, &mut buffer).unwrap());
    assert!(buffer.is_empty());
}

/// The program's own handle goes first, then its context; what is on the stream still works and is freed.
fn a_device_keeps_its_stream() {
    let (context, stream, device) = on_a_stream();
    let a = device.upload(&uneven::<f64>()).unwrap();
    let (x, mut y) = (device.upload_vec(&vec![1.0; a.ncols()]).unwrap(), device.zeros::<f64>(a.nrows()).unwrap());
    drop(stream);
    drop(context);
    drop(device);
    a.spmv(1.0, &x, 0.0, &mut y).unwrap();
    let product = reference_spmv(&uneven::<f64>(), 1.0, &vec![1.0; a.ncols()], 0.0, &vec![0.0; a.nrows()]);
    assert_within("after the stream's owner", &y.to_vec().unwrap(), &product);
    drop(a);
    drop((x, y));
}

fn one_memory(gpu: &Device) {
    let (_context, stream, device) = on_a_stream();
    assert!(device.shares_memory_with(gpu) && gpu.shares_memory_with(&device));
    assert_eq!((device.to_string(), device.is_cuda()), ("cuda:0".into(), true));
    assert_eq!(device.cuda_stream(), Some(stream.as_inner().cast()));
    // The matrix is on another stream.
    let matrix = uneven::<f32>();
    let a = gpu.upload(&matrix).unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let (x_buffer, mut y_buffer) = (upload(&x), upload(&vec![f32::NAN; matrix.nrows()]));
    {
        let x = DeviceVecRef::from_cust(&device, &x_buffer).unwrap();
        a.spmv(1.0, &x, 0.0, &mut DeviceVecMut::from_cust(&device, &mut y_buffer).unwrap()).unwrap();
    }
    let expected = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("two queues", &download(&stream, &y_buffer), &expected);
}

fn what_does_not_fit(gpu: &Device) {
    let (_context, stream, device) = on_a_stream();
    let a = device.upload(&uneven::<f32>()).unwrap();
    let (short, mut y_buffer) = (upload(&[0.0f32; 3]), upload(&vec![5.0f32; a.nrows()]));
    {
        let short = DeviceVecRef::from_cust(&device, &short).unwrap();
        let mut y = DeviceVecMut::from_cust(&device, &mut y_buffer).unwrap();
        let refused = a.spmv(1.0, &short, 0.0, &mut y).unwrap_err();
        assert!(matches!(refused, Error::LengthMismatch { what: "x", found: 3, .. }), "{refused}");
        let refused = a.spmv(1.0, &Device::cpu().zeros(a.ncols()).unwrap(), 0.0, &mut y).unwrap_err();
        assert!(matches!(refused, Error::DeviceMismatch { what: "x", .. }), "{refused}");
    }
    // A stream that does not wait for cust's copies, and no GPU.
    let refused = DeviceVecRef::from_cust(gpu, &short).unwrap_err();
    assert!(matches!(&refused, Error::InvalidOption(text) if text.contains("from_cust")), "{refused}");
    let refused = DeviceVecMut::from_cust(&Device::cpu(), &mut y_buffer).unwrap_err();
    assert!(matches!(refused, Error::DeviceMismatch { what: "the buffer", .. }), "{refused}");
    assert_eq!(download(&stream, &y_buffer), vec![5.0; a.nrows()]);
}

fn other_contexts() {
    let (_context, _stream, device) = on_a_stream();
    let gpu = CustDevice::get_device(0).unwrap();
    let _other = legacy::Context::create_and_push(legacy::ContextFlags::SCHED_AUTO, gpu).unwrap();
    let stream = Arc::new(Stream::new(StreamFlags::DEFAULT, None).unwrap());
    let buffer = upload(&[1.0f32, 2.0]);
    let refused = Device::from_cust(stream.clone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("the primary context of cuda:0"), "{refused}");
    // The context of the program is the current one still.
    assert_eq!(download(&stream, &buffer), [1.0, 2.0]);
    let refused = DeviceVecRef::from_cust(&device, &buffer).unwrap_err();
    assert!(refused.to_string().contains("the primary context of cuda:0"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}
