//! Streams and memory of cudarc's, used by operations here: against references in f64.

mod common;

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use common::{
    Random, assert_within,
    dense::{Dense, gemm_reference, reference},
    matrices::{self, uneven},
    on_gpu,
    sums::reference_spmv,
};
use libtest_mimic::Trial;
use warpsparse::{
    Cg, CsrMatrix, DenseLayout, Device, DeviceVec, DeviceVecMut, DeviceVecRef, Error, ErrorKind, FormatChoice,
    GemmOptions, Scalar, SpmvOptions, StopReason, Tolerance,
    cudarc::{
        driver::{
            CudaContext, CudaFunction, CudaGraph, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg,
            sys::{CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode},
        },
        nvrtc::Ptx,
    },
    gemm, gemm_with,
};

fn main() -> ExitCode {
    common::run(vec![
        on_gpu("products_on_a_callers_stream_f32", |_| products::<f32>()),
        on_gpu("products_on_a_callers_stream_f64", |_| products::<f64>()),
        on_gpu("dense_products_f32", |_| dense_products::<f32>()),
        on_gpu("dense_products_f64", |_| dense_products::<f64>()),
        on_gpu("a_solution", |_| a_solution()),
        on_gpu("default_streams_are_streams", |_| default_streams()),
        on_gpu("a_graph_of_the_callers_own", |_| a_graph(false)),
        on_gpu("a_kernel_is_loaded_during_capture", |_| a_graph(true)),
        on_gpu("dense_products_in_a_graph_of_the_callers_own", |_| a_dense_graph()),
        on_gpu("captured_sums_of_a_callers_graph_stay", |_| captured_sums_stay()),
        on_gpu("an_empty_vector_is_given_back_despite_an_error", |_| an_empty_vector_despite_an_error()),
        on_gpu("tracking_orders_two_streams", |_| tracking_orders_two_streams()),
        on_gpu("slices_are_the_callers_again", |_| slices_are_the_callers_again()),
        on_gpu("vectors_own_and_give_back_slices", |_| vectors_own_slices()),
        on_gpu("swapped_and_forgotten_borrows_are_harmless", |_| swapped_and_forgotten()),
        on_gpu("parts_of_slices", |_| parts_of_slices()),
        on_gpu("one_gpu_is_one_memory", one_memory),
        on_gpu("queues_are_wrapped_by_their_handle", wrapped_queues),
        on_gpu("what_does_not_fit_is_an_error", |_| what_does_not_fit()),
        on_gpu("other_contexts_are_errors", |_| other_contexts()),
        on_gpu("addresses_are_checked", addresses_are_checked),
        on_gpu("memory_is_freed_in_its_own_context", |_| freed_in_its_own_context()),
        on_gpu("errors_that_cudarc_keeps_skip_no_wait", |_| errors_skip_no_wait()),
        on_gpu("unified_memory_is_lent_until_it_has_been_read", |_| unified_memory()),
        Trial::test("no_gpu_lends_no_memory", || {
            // SAFETY: refused.
            let refused = unsafe { DeviceVecMut::<f32>::from_raw(&Device::cpu(), std::ptr::null_mut(), 0) };
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
            Ok(())
        }),
    ])
}

/// Held while one captures, and while another makes the first stream of its context: there cudarc waits for all that is in
/// the context, which breaks off any capture.
static CAPTURING: Mutex<()> = Mutex::new(());

/// A context of the caller's own, with event tracking on as it is in new ones, and a stream of it.
fn stream() -> Arc<CudaStream> {
    let _nobody_captures = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    assert!(context.is_managing_stream_synchronization());
    stream
}

const FACTORS: [(f64, f64); 3] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75)];

fn products<T: Scalar>() {
    let stream = stream();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    for (name, matrix) in matrices::all::<T>() {
        let uploaded = device.upload(&matrix).unwrap();
        let x = Random(1).vector::<T>(matrix.ncols());
        let x_slice = upload(&stream, &x);
        for (alpha, beta) in FACTORS.map(|(alpha, beta)| (T::from_f64(alpha), T::from_f64(beta))) {
            let y = Random(2).vector::<T>(matrix.nrows());
            let mut y_slice = upload(&stream, &y);
            {
                let x = DeviceVecRef::from_cudarc(&x_slice).unwrap();
                let mut y = DeviceVecMut::from_cudarc(&mut y_slice).unwrap();
                assert_eq!((x.len(), y.len()), (matrix.ncols(), matrix.nrows()));
                assert_eq!(y.device().cuda_stream(), device.cuda_stream());
                uploaded.spmv(alpha, &x, beta, &mut y).unwrap();
            }
            assert_eq!(y_slice.len(), matrix.nrows());
            let found = download(&stream, &y_slice);
            assert_within(name, &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
        }
    }
}

fn dense_products<T: Scalar>() {
    let stream = stream();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let matrix = uneven::<T>();
    let uploaded = device.upload(&matrix).unwrap();
    for ncols in [1, 5, 8, 70] {
        let (b, c) = (Dense::random(3, matrix.ncols(), ncols, 0, 0), Dense::random(4, matrix.nrows(), ncols, 0, 0));
        let (b_slice, mut c_slice) = (upload(&stream, &b.elements), upload(&stream, &c.elements));
        {
            let on_device = DeviceVecRef::from_cudarc(&b_slice).unwrap();
            let mut result = DeviceVecMut::from_cudarc(&mut c_slice).unwrap();
            let (alpha, beta) = (T::from_f64(-2.5), T::from_f64(0.75));
            uploaded
                .spmm(alpha, on_device.matrix(b.layout()).unwrap(), beta, result.matrix_mut(c.layout()).unwrap())
                .unwrap();
        }
        let found = download(&stream, &c_slice);
        assert_within("spmm", &found, &reference(&matrix, -2.5, &b, 0.75, &c));
    }
    // Sums of the last may be split.
    for (m, n, k) in [(1, 1, 1), (65, 33, 17), (128, 128, 64), (16, 16, 5000)] {
        let (a, b) = (Dense::<T>::random(5, m, k, 0, 0), Dense::random(6, k, n, 0, 0));
        let c = Dense::random(7, m, n, 0, 0);
        let (a_slice, b_slice) = (upload(&stream, &a.elements), upload(&stream, &b.elements));
        let mut c_slice = upload(&stream, &c.elements);
        {
            let (left, right) =
                (DeviceVecRef::from_cudarc(&a_slice).unwrap(), DeviceVecRef::from_cudarc(&b_slice).unwrap());
            let mut result = DeviceVecMut::from_cudarc(&mut c_slice).unwrap();
            let (alpha, beta) = (T::from_f64(1.0), T::from_f64(0.5));
            let (left, right) = (left.matrix((m, k)).unwrap(), right.matrix((k, n)).unwrap());
            gemm(alpha, left, right, beta, result.matrix_mut((m, n)).unwrap()).unwrap();
        }
        let found = download(&stream, &c_slice);
        assert_within(&format!("gemm {m} {n} {k}"), &found, &gemm_reference(1.0, &a, &b, 0.5, &c));
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
    let stream = stream();
    let matrix = poisson(300);
    let a = Device::from_cudarc(stream.clone()).unwrap().upload(&matrix).unwrap();
    let expected = Random(8).vector::<f64>(300);
    let b: Vec<f64> =
        reference_spmv(&matrix, 1.0, &expected, 0.0, &vec![0.0; 300]).into_iter().map(|(value, _)| value).collect();
    let b_slice = upload(&stream, &b);
    let mut x_slice = stream.alloc_zeros::<f64>(300).unwrap();
    let info = {
        let b = DeviceVecRef::from_cudarc(&b_slice).unwrap();
        let mut x = DeviceVecMut::from_cudarc(&mut x_slice).unwrap();
        Cg::new(&a).tolerance(Tolerance::relative(1e-12)).solve(&b, &mut x).unwrap()
    };
    assert_eq!(info.reason, StopReason::Converged, "{info:?}");
    // The condition number is below 4 * 301^2 / pi^2.
    for (found, expected) in download(&stream, &x_slice).iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    }
}

fn default_streams() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    check_product(&stream);
    let refused = Device::from_cudarc(context.per_thread_stream()).unwrap_err();
    assert!(matches!(&refused, Error::InvalidOption(text) if text.contains("per-thread")), "{refused}");
}

/// One product on this stream.
fn check_product(stream: &Arc<CudaStream>) {
    let matrix = uneven::<f32>();
    let a = Device::from_cudarc(stream.clone()).unwrap().upload(&matrix).unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let x_slice = upload(stream, &x);
    let mut y_slice = upload(stream, &vec![f32::NAN; matrix.nrows()]);
    multiply(&a, &x_slice, &mut y_slice);
    let y = vec![0.0; matrix.nrows()];
    assert_within("a product", &download(stream, &y_slice), &reference_spmv(&matrix, 1.0, &x, 0.0, &y));
}

fn multiply<T: Scalar>(a: &warpsparse::DeviceMatrix<T>, x: &CudaSlice<T>, y: &mut CudaSlice<T>) {
    let (x, mut y) = (DeviceVecRef::from_cudarc(x).unwrap(), DeviceVecMut::from_cudarc(y).unwrap());
    a.spmv(T::from_f64(1.0), &x, T::from_f64(0.0), &mut y).unwrap();
}

/// What the caller captures.
fn capture(stream: &Arc<CudaStream>, queue_work: impl FnOnce() -> warpsparse::Result<()>) -> CudaGraph {
    let _capturing = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
    // Other tests allocate in other threads meanwhile: the mode that forbids this concerns this thread alone.
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let queued = queue_work();
    let graph = stream.end_capture(CUgraphInstantiate_flags(0));
    queued.unwrap();
    graph.unwrap().expect("a graph")
}

/// A product captured by the caller and replayed with other values of `x`. With `first_use` by kernels of a family that no
/// other test here asks for, so that the capture loads them.
fn a_graph(first_use: bool) {
    let stream = stream();
    let matrix = uneven::<f64>();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let format = if first_use { FormatChoice::Coo } else { FormatChoice::Csr };
    let options = SpmvOptions::default().format(format);
    let a = device.upload_with(&matrix, &options).unwrap();
    let mut x_slice = stream.alloc_zeros::<f64>(matrix.ncols()).unwrap();
    let mut y_slice = stream.alloc_zeros::<f64>(matrix.nrows()).unwrap();
    if !first_use {
        multiply(&a, &x_slice, &mut y_slice);
    }
    let graph = {
        let x = DeviceVecRef::from_cudarc(&x_slice).unwrap();
        let mut y = DeviceVecMut::from_cudarc(&mut y_slice).unwrap();
        capture(&stream, || a.spmv(1.0, &x, 0.0, &mut y))
    };
    for seed in 1..4 {
        let x = Random(seed).vector::<f64>(matrix.ncols());
        stream.memcpy_htod(&x, &mut x_slice).unwrap();
        stream.memset_zeros(&mut y_slice).unwrap();
        graph.launch().unwrap();
        let found = download(&stream, &y_slice);
        let y = vec![0.0; matrix.nrows()];
        assert_within(&format!("replay {seed}"), &found, &reference_spmv(&matrix, 1.0, &x, 0.0, &y));
    }
}

/// A prepared sparse product, and a dense one whose sums are not split.
fn a_dense_graph() {
    let stream = stream();
    let matrix = uneven::<f32>();
    let a = Device::from_cudarc(stream.clone()).unwrap().upload(&matrix).unwrap();
    let (rows, cols, width) = (matrix.nrows(), matrix.ncols(), 8);
    let mut b = stream.alloc_zeros::<f32>(cols * width).unwrap();
    let mut c = stream.alloc_zeros::<f32>(rows * width).unwrap();
    let mut d = stream.alloc_zeros::<f32>(width * width).unwrap();
    let options = GemmOptions::default().split_k(1);
    let graph = {
        let b = DeviceVecRef::from_cudarc(&b).unwrap();
        let mut c = DeviceVecMut::from_cudarc(&mut c).unwrap();
        let mut d = DeviceVecMut::from_cudarc(&mut d).unwrap();
        // C = A * B, D = B^T * B
        let mut products = || {
            let b = b.matrix((cols, width)).unwrap();
            a.spmm(1.0, b, 0.0, c.matrix_mut((rows, width)).unwrap())?;
            gemm_with(&options, 1.0, b.transpose(), b, 0.0, d.matrix_mut((width, width)).unwrap())
        };
        products().unwrap();
        capture(&stream, products)
    };
    for seed in 1..4 {
        let values = Dense::<f32>::random(seed, cols, width, 0, 0);
        stream.memcpy_htod(&values.elements, &mut b).unwrap();
        graph.launch().unwrap();
        let nothing = Dense::new(rows, width, 0, 0, || 0.0);
        assert_within("C", &download(&stream, &c), &reference(&matrix, 1.0, &values, 0.0, &nothing));
        let mut transposed = Dense::new(width, cols, 0, 0, || 0.0);
        for i in 0..cols {
            for j in 0..width {
                transposed.elements[j * cols + i] = values.row(i)[j];
            }
        }
        let nothing = Dense::new(width, width, 0, 0, || 0.0);
        assert_within("D", &download(&stream, &d), &gemm_reference(1.0, &transposed, &values, 0.0, &nothing));
    }
}

/// The memory in which blocks add up their sums outlives the borrow that a product was captured with.
fn captured_sums_stay() {
    let stream = stream();
    let _device = Device::from_cudarc(stream.clone()).unwrap();
    let (width, inner) = (24, 700);
    let left = Dense::<f32>::random(1, width, inner, 0, 0);
    let right = Dense::<f32>::random(2, inner, width, 0, 0);
    let [a, b] = [&left, &right].map(|matrix| upload(&stream, &matrix.elements));
    let mut c = stream.alloc_zeros::<f32>(width * width).unwrap();
    let options = GemmOptions::default().split_k(8);
    let graph = {
        let (a, b) = (DeviceVecRef::from_cudarc(&a).unwrap(), DeviceVecRef::from_cudarc(&b).unwrap());
        let mut c = DeviceVecMut::from_cudarc(&mut c).unwrap();
        let mut product = || {
            let (a, b) = (a.matrix((width, inner)).unwrap(), b.matrix((inner, width)).unwrap());
            gemm_with(&options, 1.0, a, b, 0.0, c.matrix_mut((width, width)).unwrap())
        };
        product().unwrap();
        capture(&stream, product)
    };
    // Whoever gets freed memory now fills it with what is neither a sum nor a count.
    let filled: Vec<_> = (0..64).map(|_| upload(&stream, &vec![f32::NAN; 1 << 14])).collect();
    let nothing = Dense::new(width, width, 0, 0, || 0.0);
    for _ in 0..3 {
        graph.launch().unwrap();
        assert_within("C", &download(&stream, &c), &gemm_reference(1.0, &left, &right, 0.0, &nothing));
    }
    for slice in &filled {
        assert!(download(&stream, slice).iter().all(|value| value.is_nan()));
    }
}

/// cudarc keeps an error in the caller's context, where it makes events for the slice.
fn an_empty_vector_despite_an_error() {
    let stream = stream();
    let vector = Device::from_cudarc(stream.clone()).unwrap().zeros::<f32>(0).unwrap();
    stream.context().record_err(Err::<(), _>(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE)));
    let slice = vector.into_cudarc().unwrap();
    assert!(slice.is_empty());
    let kept = stream.context().check_err().unwrap_err();
    assert_eq!(kept, DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
}

/// A kernel of the caller's own: waits, then adds to each element. So slow that whoever does not wait reads old values.
const SLOW_ADD: &str = "
.version 6.3
.target sm_75
.address_size 64
.visible .entry slow_add(.param .u64 address, .param .u32 len, .param .f32 term)
{
    .reg .pred %p; .reg .u32 %i, %n, %j; .reg .u64 %a, %o, %start, %now; .reg .f32 %v, %t;
    ld.param.u64 %a, [address];
    ld.param.u32 %n, [len];
    ld.param.f32 %t, [term];
    cvta.to.global.u64 %a, %a;
    mov.u64 %start, %clock64;
wait:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %p, %now, 100000000;
    @%p bra wait;
    mov.u32 %i, %tid.x;
add:
    setp.ge.u32 %p, %i, %n;
    @%p bra end;
    mul.wide.u32 %o, %i, 4;
    add.u64 %o, %a, %o;
    ld.global.f32 %v, [%o];
    add.f32 %v, %v, %t;
    st.global.f32 [%o], %v;
    mov.u32 %j, %ntid.x;
    add.u32 %i, %i, %j;
    bra add;
end:
    ret;
}
";

fn slow_add(function: &CudaFunction, stream: &Arc<CudaStream>, values: &mut CudaSlice<f32>, term: f32) {
    let len = values.len() as u32;
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(function);
    launch.arg(values).arg(&len).arg(&term);
    // SAFETY: the kernel takes these, and touches no element beyond `len`.
    unsafe { launch.launch(config) }.unwrap();
}

/// `x` and `y` belong to one stream, and are written on another, before and after: cudarc's events have to order all of
/// it.
fn tracking_orders_two_streams() {
    let (home, matrix) = (stream(), uneven::<f32>());
    let away = home.context().new_stream().unwrap();
    let function = home.context().load_module(Ptx::from_src(SLOW_ADD)).unwrap().load_function("slow_add").unwrap();
    let a = Device::from_cudarc(home.clone()).unwrap().upload(&matrix).unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let mut x_slice = upload(&home, &x);
    let mut y_slice = home.alloc_zeros::<f32>(matrix.nrows()).unwrap();
    multiply(&a, &x_slice, &mut y_slice); // loads the kernel

    slow_add(&function, &away, &mut x_slice, 1.0);
    multiply(&a, &x_slice, &mut y_slice); // reads what the other stream has written,
    slow_add(&function, &away, &mut x_slice, 1.0); // before that overwrites it,
    slow_add(&function, &away, &mut y_slice, 0.5); // and writes before that adds.
    let x: Vec<f32> = x.iter().map(|value| value + 1.0).collect();
    let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    let moved: Vec<_> =
        product.iter().map(|&(value, bound)| (value + 0.5, bound + 1e-6 * (value.abs() + 0.5))).collect();
    assert_within("y on two streams", &download(&away, &y_slice), &moved);
    let x: Vec<f32> = x.iter().map(|value| value + 1.0).collect();
    assert_eq!(download(&home, &x_slice), x);

    // Vectors on different streams: the product is on that of y, in order with that of x.
    let (mut x_slice, mut y_slice) = (upload(&home, &x), away.alloc_zeros::<f32>(matrix.nrows()).unwrap());
    slow_add(&function, &home, &mut x_slice, -2.0);
    multiply(&a, &x_slice, &mut y_slice);
    let x: Vec<f32> = x.iter().map(|value| value - 2.0).collect();
    let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("x and y on two streams", &download(&away, &y_slice), &product);
}

fn slices_are_the_callers_again() {
    let (stream, matrix) = (stream(), uneven::<f32>());
    let a = Device::from_cudarc(stream.clone()).unwrap().upload(&matrix).unwrap();
    let mut x = Random(1).vector::<f32>(matrix.ncols());
    let mut x_slice = upload(&stream, &x);
    let mut y_slice = stream.alloc_zeros::<f32>(matrix.nrows()).unwrap();
    for round in 0..5 {
        multiply(&a, &x_slice, &mut y_slice);
        let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
        assert_within(&format!("round {round}"), &download(&stream, &y_slice), &product);
        let copy = y_slice.try_clone().unwrap();
        assert_eq!(download(&stream, &copy), download(&stream, &y_slice));
        x = Random(round + 2).vector::<f32>(matrix.ncols());
        stream.memcpy_htod(&x, &mut x_slice).unwrap();
    }
}

fn vectors_own_slices() {
    let (stream, matrix) = (stream(), uneven::<f32>());
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let a = device.upload(&matrix).unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let x_vec = DeviceVec::from_cudarc(upload(&stream, &x)).unwrap();
    let mut y_vec = DeviceVec::from_cudarc(stream.alloc_zeros::<f32>(matrix.nrows()).unwrap()).unwrap();
    a.spmv(1.0, &x_vec, 0.0, &mut y_vec).unwrap();
    let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("an own vector", &y_vec.to_vec().unwrap(), &product);
    assert_within("its slice", &download(&stream, &y_vec.into_cudarc().unwrap()), &product);
    assert_eq!(x_vec.into_cudarc().unwrap().len(), matrix.ncols());

    // Vectors made here, of no elements too.
    for len in [0, 1, 5] {
        let values = Random(len as u64).vector::<f64>(len);
        let slice = device.upload_vec(&values).unwrap().into_cudarc().unwrap();
        assert_eq!((slice.len(), slice.stream() == &stream), (len, true));
        assert_eq!(download(&stream, &slice), values);
    }
    for other in [Device::cpu(), Device::cuda(0).unwrap(), device.new_stream().unwrap()] {
        let refused = other.zeros::<f32>(3).unwrap().into_cudarc().unwrap_err();
        assert!(matches!(refused, Error::DeviceMismatch { what: "the vector", .. }), "{refused}");
    }
}

fn swapped_and_forgotten() {
    let stream = stream();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let mut slice = upload(&stream, &[1.0f32, 2.0, 3.0]);
    let mut other = device.upload_vec(&[4.0f32, 5.0]).unwrap();
    std::mem::swap(&mut *DeviceVecMut::from_cudarc(&mut slice).unwrap(), &mut other);
    assert_eq!((download(&stream, &slice), other.to_vec().unwrap()), (vec![4.0, 5.0], vec![1.0, 2.0, 3.0]));

    let mut on_cpu = Device::cpu().upload_vec(&[6.0f32]).unwrap();
    std::mem::swap(&mut *DeviceVecMut::from_cudarc(&mut slice).unwrap(), &mut on_cpu);
    assert_eq!((slice.len(), on_cpu.to_vec().unwrap()), (0, vec![4.0, 5.0]));

    let mut slice = other.into_cudarc().unwrap();
    std::mem::forget(DeviceVecMut::from_cudarc(&mut slice).unwrap());
    assert_eq!(slice.len(), 0);
    drop(slice);
    // No error is left behind.
    stream.context().check_err().unwrap();
    check_product(&stream);
}

fn parts_of_slices() {
    let stream = stream();
    let slice = upload(&stream, &(0..64).map(|i| i as f32).collect::<Vec<_>>());
    let view = slice.slice(16..20);
    assert_eq!(DeviceVecRef::from_cudarc(&view).unwrap().to_vec().unwrap(), [16.0, 17.0, 18.0, 19.0]);
    let odd = slice.slice(1..20);
    let refused = DeviceVecRef::from_cudarc(&odd).unwrap_err();
    assert!(matches!(&refused, Error::InvalidOption(text) if text.contains("multiple of 16")), "{refused}");
}

fn one_memory(gpu: &Device) {
    let (first, second) = (stream(), stream());
    let devices = [&first, &second].map(|stream| Device::from_cudarc(stream.clone()).unwrap());
    assert!(devices.iter().all(|device| device.shares_memory_with(gpu) && gpu.shares_memory_with(device)));
    assert!(devices[0].shares_memory_with(&devices[1]) && !devices[0].shares_memory_with(&Device::cpu()));
    assert_eq!(devices[0].to_string(), "cuda:0");
    assert_eq!(devices[0].cuda_stream(), Some(first.cu_stream().cast()));
    // Matrix, x and y on three queues.
    let matrix = uneven::<f64>();
    let a = gpu.upload(&matrix).unwrap();
    let x = Random(1).vector::<f64>(matrix.ncols());
    let (x_slice, mut y_slice) = (upload(&first, &x), second.alloc_zeros::<f64>(matrix.nrows()).unwrap());
    multiply(&a, &x_slice, &mut y_slice);
    let product = reference_spmv(&matrix, 1.0, &x, 0.0, &vec![0.0; matrix.nrows()]);
    assert_within("three queues", &download(&second, &y_slice), &product);
}

fn wrapped_queues(gpu: &Device) {
    let queue = gpu.new_stream().unwrap();
    // SAFETY: `queue` outlives it.
    let wrapped = unsafe { Device::from_raw_stream(queue.cuda_stream().unwrap()) }.unwrap();
    assert_eq!((wrapped.cuda_stream(), wrapped.to_string()), (queue.cuda_stream(), "cuda:0".into()));
    let vector = wrapped.upload_vec(&[1.0f64, 2.0]).unwrap();
    assert_eq!(vector.to_vec().unwrap(), [1.0, 2.0]);
    drop((vector, wrapped));
    queue.synchronize().unwrap();
    assert_eq!(queue.upload_vec(&[3.0f64]).unwrap().to_vec().unwrap(), [3.0]);
}

fn what_does_not_fit() {
    let stream = stream();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let a = device.upload(&uneven::<f32>()).unwrap();
    let short = stream.alloc_zeros::<f32>(3).unwrap();
    let mut y_slice = stream.alloc_zeros::<f32>(a.nrows()).unwrap();
    let mut y = DeviceVecMut::from_cudarc(&mut y_slice).unwrap();
    let refused = a.spmv(1.0, &DeviceVecRef::from_cudarc(&short).unwrap(), 0.0, &mut y).unwrap_err();
    assert!(matches!(refused, Error::LengthMismatch { what: "x", found: 3, .. }), "{refused}");
    let refused = a.spmv(1.0, &Device::cpu().zeros(a.ncols()).unwrap(), 0.0, &mut y).unwrap_err();
    assert!(matches!(refused, Error::DeviceMismatch { what: "x", .. }), "{refused}");
    assert!(y.matrix(DenseLayout::row_major(a.nrows(), 2)).is_err());
}

fn other_contexts() {
    let context = CudaContext::new_non_primary(0, 0).unwrap();
    let stream = context.new_stream().unwrap();
    let slice = stream.alloc_zeros::<f32>(4).unwrap();
    let refused = [
        Device::from_cudarc(stream.clone()).unwrap_err(),
        DeviceVecRef::from_cudarc(&slice).unwrap_err(),
        DeviceVec::from_cudarc(slice).unwrap_err(),
        // SAFETY: refused.
        unsafe { Device::from_raw_stream(stream.cu_stream().cast()) }.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("the primary context of cuda:0"), "{error}");
    }
    stream.synchronize().unwrap();
}

fn addresses_are_checked(gpu: &Device) {
    let stream = stream();
    let slice = upload(&stream, &[1.0f32; 64]);
    let address = warpsparse::cudarc::driver::DevicePtr::device_ptr(&slice, &stream).0 as *mut f32;
    stream.synchronize().unwrap();
    // SAFETY: the slice outlives it, and nothing is queued on it elsewhere.
    let mut part = unsafe { DeviceVecMut::from_raw(gpu, address.wrapping_add(8), 8) }.unwrap();
    part.copy_from(&[2.0; 8]).unwrap();
    drop(part);
    let found = download(&stream, &slice);
    assert!((0..64).all(|i| found[i] == if (8..16).contains(&i) { 2.0 } else { 1.0 }), "{found:?}");
    let mut on_host = [0.0f32; 64];
    for refused in [address.wrapping_byte_add(4), address.wrapping_byte_add(1), std::ptr::null_mut()] {
        // SAFETY: refused.
        let error = unsafe { DeviceVecMut::from_raw(gpu, refused, 8) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let in_host_memory = on_host.as_mut_ptr().map_addr(|address| address.next_multiple_of(16));
    // SAFETY: refused.
    assert!(unsafe { DeviceVecMut::from_raw(gpu, in_host_memory, 8) }.is_err());
}

/// The default stream has the same handle in every context.
fn freed_in_its_own_context() {
    let context = CudaContext::new(0).unwrap();
    let device = Device::from_cudarc(context.default_stream()).unwrap();
    let mut vectors = (0..2).map(|_| device.upload_vec(&[1.0f64; 1000]).unwrap()).collect::<Vec<_>>();
    let (here, there) = (vectors.pop().unwrap(), vectors.pop().unwrap());
    // A thread without a context.
    thread::spawn(move || drop(there)).join().unwrap();
    context.check_err().unwrap();
    // And one with another context.
    let other = CudaContext::new_non_primary(0, 0).unwrap();
    other.bind_to_thread().unwrap();
    drop(here);
    context.check_err().unwrap();
    other.synchronize().unwrap();
}

/// While another thread makes cudarc keep errors in the context that operations here use.
fn errors_skip_no_wait() {
    let stream = stream();
    let device = Device::from_cudarc(stream.clone()).unwrap();
    let elsewhere = device.new_stream().unwrap();
    let ones = vec![1.0f64; 1 << 20];
    let (mut source, mut target) = (device.upload_vec(&ones).unwrap(), vec![0.0; 1 << 20]);
    let a = device.upload(&poisson(1000)).unwrap();
    let (x, mut y) = (elsewhere.upload_vec(&ones[..1000]).unwrap(), device.zeros(1000).unwrap());
    let mut cg = Cg::new(&a).tolerance(Tolerance::relative(1e-8));
    a.spmv(1.0, &x, 0.0, &mut y).unwrap();
    let (b, mut solution) = (device.upload_vec(&y.to_vec().unwrap()).unwrap(), device.zeros(1000).unwrap());
    cg.solve(&b, &mut solution).unwrap();

    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                stream.context().record_err(Err::<(), _>(DriverError(CUresult::CUDA_ERROR_UNKNOWN)));
            }
        });
        // Whatever fails, the other thread ends.
        let results = (1..100).map(|round| {
            let value = f64::from(round);
            source.copy_from(&vec![value; 1 << 20])?;
            source.copy_to(&mut target)?;
            assert!(target.iter().all(|&found| found == value));
            a.spmv(1.0, &x, 0.0, &mut y)?;
            elsewhere.synchronize()?;
            assert_eq!(y.to_vec()?[1..999], vec![0.0; 998]);
            solution.copy_from(&[0.0; 1000])?;
            cg.solve(&b, &mut solution).map(|info| assert_eq!(info.reason, StopReason::Converged))
        });
        let results: Vec<warpsparse::Result<()>> = results.collect();
        drop(cg);
        is_done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let _ = stream.context().check_err();
}

/// In a context with one stream cudarc does not track uses: the host must not write what a product is still to read.
fn unified_memory() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    assert!(!context.is_managing_stream_synchronization());
    let matrix = uneven::<f32>();
    let a = Device::from_cudarc(stream.clone()).unwrap().upload(&matrix).unwrap();
    let function = context.load_module(Ptx::from_src(SLOW_ADD)).unwrap().load_function("slow_add").unwrap();
    // SAFETY: any bits are a number.
    let mut x_slice = unsafe { context.alloc_unified::<f32>(matrix.ncols(), true) }.unwrap();
    let x = Random(1).vector::<f32>(matrix.ncols());
    let (mut y_slice, mut other) = (stream.alloc_zeros(matrix.nrows()).unwrap(), stream.alloc_zeros(10).unwrap());
    for _ in 0..2 {
        x_slice.as_mut_slice().unwrap().copy_from_slice(&x);
        slow_add(&function, &stream, &mut other, 1.0);
        {
            let x = DeviceVecRef::from_cudarc(&x_slice).unwrap();
            let mut y = DeviceVecMut::from_cudarc(&mut y_slice).unwrap();
            a.spmv(1.0, &x, 0.0, &mut y).unwrap();
        }
        x_slice.as_mut_slice().unwrap().fill(f32::NAN);
        let y = vec![0.0; matrix.nrows()];
        assert_within("unified", &download(&stream, &y_slice), &reference_spmv(&matrix, 1.0, &x, 0.0, &y));
    }
}

/// A slice with a copy. cudarc itself allocates none without elements.
fn upload<T: Scalar>(stream: &Arc<CudaStream>, values: &[T]) -> CudaSlice<T> {
    if values.is_empty() {
        return Device::from_cudarc(stream.clone()).unwrap().upload_vec(values).unwrap().into_cudarc().unwrap();
    }
    stream.clone_htod(values).unwrap()
}

fn download<T: Scalar>(stream: &Arc<CudaStream>, slice: &CudaSlice<T>) -> Vec<T> {
    let values = if slice.is_empty() { vec![] } else { stream.clone_dtoh(slice).unwrap() };
    stream.synchronize().unwrap();
    values
}
