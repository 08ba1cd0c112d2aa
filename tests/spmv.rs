//! The product of a sparse matrix and a vector, on every device, against a reference in f64.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_exact, assert_within, integers, matrices, on_cpu_and_gpu, on_emulator_and_gpu, on_every_device,
    on_gpu, sums::reference_spmv,
};
use warpsparse::{CsrKernel, CsrMatrix, Device, DeviceMatrix, Error, Lanes, Scalar, SpmvOptions};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_matrix_f32", every_matrix::<f32>));
    trials.extend(on_every_device("every_matrix_f64", every_matrix::<f64>));
    trials.extend(on_every_device("every_kernel_f32", every_kernel::<f32>));
    trials.extend(on_every_device("every_kernel_f64", every_kernel::<f64>));
    trials.extend(on_every_device("beta_zero_does_not_read_y", beta_zero_does_not_read_y));
    trials.extend(on_every_device("nan_and_infinity_pass_through", nan_and_infinity_pass_through));
    trials.extend(on_every_device("same_input_same_bits", same_input_same_bits));
    trials.extend(on_every_device("offsets_of_either_width_give_the_same_bits", offsets_of_either_width));
    trials.extend(on_cpu_and_gpu("more_rows_than_2_to_the_27", more_rows_than_2_to_the_27));
    trials.extend(on_every_device("wrong_lengths_are_errors", wrong_lengths_are_errors));
    trials.extend(on_every_device("wrong_lane_counts_are_errors", wrong_lane_counts_are_errors));
    trials.extend(on_every_device("timing_chooses_among_what_is_allowed", timing_chooses_among_what_is_allowed));
    trials.push(on_gpu("timing_chooses_for_every_matrix", timing_chooses_for_every_matrix));
    trials.extend(on_every_device("queues_are_ordered", queues_are_ordered));
    trials.extend(on_every_device("graphs_repeat_the_product", graphs_repeat_the_product));
    trials.extend(on_every_device("graphs_check_their_arguments", graphs_check_their_arguments));
    trials.extend(on_every_device("captured_products_are_repeated", captured_products_are_repeated));
    trials.push(on_gpu("graphs_give_the_bits_of_the_product", graphs_give_the_bits_of_the_product));
    trials.push(on_gpu("graphs_of_several_queues_are_errors", graphs_of_several_queues_are_errors));
    trials.push(on_gpu("capture_fails_on_what_cannot_be_recorded", capture_fails_on_what_cannot_be_recorded));
    trials.push(on_gpu("arguments_on_another_device_are_errors", arguments_on_another_device_are_errors));
    trials.extend(on_emulator_and_gpu("the_kernel_follows_the_structure", the_kernel_follows_the_structure));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

const FACTORS: [(f64, f64); 5] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75), (0.0, 2.0), (0.0, 0.0)];

fn every_matrix<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let uploaded = device.upload(&matrix).unwrap();
        for (alpha, beta) in FACTORS {
            let case = format!("{name}, alpha {alpha}, beta {beta}");
            check_product(&case, &matrix, &uploaded, T::from_f64(alpha), T::from_f64(beta));
        }
    }
}

/// Every kernel, and rows cut as finely as can be, so that all of them are in many pieces.
fn kernels() -> Vec<SpmvOptions> {
    let adaptive = SpmvOptions::default().kernel(CsrKernel::Adaptive);
    let finely = [adaptive.clone().split_threshold(1), adaptive.split_threshold(37)];
    SpmvOptions::candidates().into_iter().chain(finely).collect()
}

/// Not one entry is lost, or taken twice: see [`integers`].
fn every_kernel<T: Scalar>(device: &Device) {
    // The emulator is slow: kernels of a few lane counts stand for the others there. The properties try all.
    let few = |options: &SpmvOptions| matches!(options.lanes, Lanes::Auto | Lanes::Fixed(1 | 8));
    let kernels: Vec<_> = kernels().into_iter().filter(|options| device.is_cuda() || few(options)).collect();
    let (alpha, beta) = (T::from_f64(-1.0), T::from_f64(3.0));
    for (name, matrix) in matrices::all::<T>() {
        let matrix = integers::matrix(&matrix);
        let wide = CsrMatrix::<T, u64>::from(&matrix);
        let (x, y) = (integers::vector(1, matrix.ncols()), integers::vector(2, matrix.nrows()));
        let expected = reference_spmv(&matrix, alpha, &x, beta, &y);
        let check = |case: &str, uploaded: &DeviceMatrix<T>| {
            let mut product = device.upload_vec(&y).unwrap();
            uploaded.spmv(alpha, &device.upload_vec(&x).unwrap(), beta, &mut product).unwrap();
            assert_exact(case, &product.to_vec().unwrap(), &expected);
        };
        // The largest ones would take most of the time there: rows in longer pieces and narrow offsets stand for both.
        let is_large = !device.is_cuda() && matrix.nnz() > 10_000;
        for options in kernels.iter().filter(|options| !is_large || options.split_threshold != Some(1)) {
            check(&format!("{name}, {options:?}"), &device.upload_with(&matrix, options).unwrap());
            if !is_large {
                let uploaded = device.upload_with(&wide, options).unwrap();
                check(&format!("{name}, {options:?}, 64-bit offsets"), &uploaded);
            }
        }
    }
}

fn check_product<T: Scalar>(case: &str, matrix: &CsrMatrix<T>, uploaded: &DeviceMatrix<T>, alpha: T, beta: T) {
    let device = uploaded.device();
    let mut random = Random(7);
    let x = random.vector::<T>(matrix.ncols());
    // With beta = 0 the old y may be anything.
    let y = match beta.to_f64() {
        0.0 => vec![T::from_f64(f64::NAN); matrix.nrows()],
        _ => random.vector::<T>(matrix.nrows()),
    };
    let mut product = device.upload_vec(&y).unwrap();
    uploaded.spmv(alpha, &device.upload_vec(&x).unwrap(), beta, &mut product).unwrap();
    assert_within(case, &product.to_vec().unwrap(), &reference_spmv(matrix, alpha, &x, beta, &y));
}

fn beta_zero_does_not_read_y(device: &Device) {
    let matrix = matrices::from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![], vec![(1, -4.0)]]);
    let uploaded = device.upload(&matrix).unwrap();
    let x = device.upload_vec(&[3.0, 5.0]).unwrap();
    let mut y = device.upload_vec(&[f64::NAN, f64::INFINITY, f64::NAN]).unwrap();
    uploaded.spmv(2.0, &x, 0.0, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [26.0, 0.0, -40.0]);
    uploaded.spmv(1.0, &x, 10.0, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [273.0, 0.0, -420.0]);
}

/// Lanes without an entry must not touch x, or an infinity there would spread to rows that do not use it.
fn nan_and_infinity_pass_through(device: &Device) {
    let rows = vec![vec![(1, 1.0)], vec![(0, 1.0), (1, 1.0)], vec![], vec![(2, 0.0)], vec![(3, 2.0), (1, 1.0)]];
    let uploaded = device.upload(&matrices::from_rows::<f32>(4, rows)).unwrap();
    let x = device.upload_vec(&[f32::NAN, 7.0, f32::INFINITY, f32::NEG_INFINITY]).unwrap();
    let mut y = device.zeros(5).unwrap();
    uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
    let y = y.to_vec().unwrap();
    assert_eq!((y[0], y[2], y[4]), (7.0, 0.0, f32::NEG_INFINITY));
    assert!(y[1].is_nan() && y[3].is_nan(), "{y:?}");
}

/// A hundred times, while another stream of the device works on something else.
fn same_input_same_bits(device: &Device) {
    // The emulator runs its threads in the same order each time.
    let (others, runs) = match device.to_string().as_str() {
        "emulated" => (0, 2),
        "cpu" => (0, 10),
        _ => (3, 100),
    };
    let other_queue = device.new_stream().unwrap();
    let other = other_queue.upload(&matrices::from_rows::<f32>(1, vec![vec![(0, 0.5)]; 1 << 20])).unwrap();
    let (other_x, mut other_y) = (other_queue.zeros(1).unwrap(), other_queue.zeros(1 << 20).unwrap());
    for (name, matrix) in matrices::all::<f32>() {
        for options in [SpmvOptions::default(), SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(37)]
        {
            let uploaded = device.upload_with(&matrix, &options).unwrap();
            let x = device.upload_vec(&Random(8).vector::<f32>(matrix.ncols())).unwrap();
            let mut product = || {
                for _ in 0..others {
                    other.spmv(1.0, &other_x, 1.0, &mut other_y).unwrap();
                }
                let mut y = device.zeros(matrix.nrows()).unwrap();
                uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
                y.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let first = product();
            for _ in 1..runs {
                assert_eq!(product(), first, "{name}, {options:?}");
            }
        }
    }
}

fn offsets_of_either_width(device: &Device) {
    for (name, matrix) in matrices::all::<f64>() {
        let (narrow, wide) =
            (device.upload(&matrix).unwrap(), device.upload(&CsrMatrix::<_, u64>::from(&matrix)).unwrap());
        assert_eq!(wide.structure(), narrow.structure(), "{name}");
        assert_eq!(wide.spmv_bytes(), narrow.spmv_bytes() + 4 * (matrix.nrows() + 1), "{name}");
        let x = device.upload_vec(&Random(8).vector::<f64>(matrix.ncols())).unwrap();
        let product = |matrix: &DeviceMatrix<f64>| {
            let mut y = device.zeros(matrix.nrows()).unwrap();
            matrix.spmv(1.0, &x, 0.0, &mut y).unwrap();
            y.to_vec().unwrap().into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(product(&wide), product(&narrow), "{name}");
    }
}

/// 32 lanes per row make 2^32 threads and more: no index may wrap.
fn more_rows_than_2_to_the_27(device: &Device) {
    let nrows = (1 << 27) + 3;
    let mut row_offsets = vec![0u32; nrows + 1];
    row_offsets[nrows - 1] = 1;
    row_offsets[nrows] = 3;
    let matrix = CsrMatrix::try_from_csr_data(nrows, 2, row_offsets, vec![0, 0, 1], vec![1.0f32, 2.0, 3.0]).unwrap();
    let x = device.upload_vec(&[10.0, 100.0]).unwrap();
    for (kernel, lanes) in [(CsrKernel::Vector, 32), (CsrKernel::Adaptive, 16)] {
        let options = SpmvOptions::default().kernel(kernel).lanes(Lanes::Fixed(lanes)).split_threshold(1);
        let uploaded = device.upload_with(&matrix, &options).unwrap();
        let mut y = device.zeros(nrows).unwrap();
        uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
        let y = y.to_vec().unwrap();
        assert!(y[..nrows - 2].iter().all(|&value| value == 0.0));
        assert_eq!(y[nrows - 2..], [10.0, 320.0]);
    }
}

fn wrong_lengths_are_errors(device: &Device) {
    let uploaded = device.upload(&matrices::from_rows::<f32>(3, vec![vec![(0, 1.0)]; 2])).unwrap();
    let vector = |len| device.zeros::<f32>(len).unwrap();
    let error = uploaded.spmv(1.0, &vector(2), 0.0, &mut vector(2)).unwrap_err();
    assert_eq!(error.to_string(), "x has 2 elements where the operation needs 3");
    let error = uploaded.spmv(1.0, &vector(3), 0.0, &mut vector(3)).unwrap_err();
    assert_eq!(error.to_string(), "y has 3 elements where the operation needs 2");
}

fn wrong_lane_counts_are_errors(device: &Device) {
    let matrix = matrices::from_rows::<f32>(1, vec![vec![(0, 1.0)]]);
    for lanes in [0, 3, 5, 64, u32::MAX] {
        let error = device.upload_with(&matrix, &SpmvOptions::default().lanes(Lanes::Fixed(lanes))).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains(&lanes.to_string())), "{error}");
    }
    let adaptive = SpmvOptions::default().kernel(CsrKernel::Adaptive);
    assert!(device.upload_with(&matrix, &adaptive.clone().lanes(Lanes::Fixed(32))).is_err());
    for split_threshold in [0, (1 << 30) + 1] {
        let error = device.upload_with(&matrix, &adaptive.clone().split_threshold(split_threshold)).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains(&split_threshold.to_string())), "{error}");
    }
}

fn timing_chooses_among_what_is_allowed(device: &Device) {
    let matrix = ones::<f32>();
    let on_cpu = *device.to_string() == *"cpu";
    let chosen = |options: SpmvOptions| {
        let uploaded = device.upload_with(&matrix, &options.autotune()).unwrap();
        check_product("autotuned", &matrix, &uploaded, 1.0, -0.5);
        let again = device.upload_with(&matrix, uploaded.options()).unwrap();
        assert!(!uploaded.options().autotune);
        assert_eq!(again.describe().kernel, uploaded.describe().kernel);
        uploaded.describe()
    };
    let any = chosen(SpmvOptions::default());
    assert_eq!(any.reason.starts_with("the fastest of 11 candidates, "), !on_cpu, "{any}");
    let adaptive = chosen(SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(2));
    assert_eq!(adaptive.reason.starts_with("the fastest of 5 candidates, "), !on_cpu, "{adaptive}");
    assert_eq!(adaptive.kernel.starts_with("spmv_csr_adaptive_f32_t"), !on_cpu, "{adaptive}");
    let of_8_lanes = chosen(SpmvOptions::default().lanes(Lanes::Fixed(8)));
    assert_eq!(of_8_lanes.reason.starts_with("the fastest of 2 candidates, "), !on_cpu, "{of_8_lanes}");
    assert_eq!(of_8_lanes.kernel.ends_with("_f32_t8"), !on_cpu, "{of_8_lanes}");
    let wrong = SpmvOptions::default().lanes(Lanes::Fixed(3)).autotune();
    assert!(matches!(device.upload_with(&matrix, &wrong), Err(Error::InvalidOption(_))));
}

fn timing_chooses_for_every_matrix(gpu: &Device) {
    for (name, matrix) in matrices::all::<f64>() {
        let uploaded = gpu.upload_with(&matrix, &SpmvOptions::default().autotune()).unwrap();
        let again = gpu.upload_with(&matrix, uploaded.options()).unwrap();
        assert_eq!(again.describe().kernel, uploaded.describe().kernel, "{name}");
        check_product(name, &matrix, &uploaded, 1.5, -0.5);
    }
}

/// A product on one stream uses what other streams have just written, and the other way round.
fn queues_are_ordered(device: &Device) {
    let n = 200_000;
    let shift = |by: usize| matrices::from_rows::<f64>(n, (0..n).map(|i| vec![((i + by) % n, 1.0)]).collect());
    let queues = [device.clone(), device.new_stream().unwrap(), device.new_stream().unwrap()];
    let matrices = queues.each_ref().map(|queue| queue.upload(&shift(1)).unwrap());
    let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let mut vectors = queues.each_ref().map(|queue| queue.upload_vec(&x).unwrap());
    for step in 0..60 {
        let (from, to) = (step % 3, (step + 1) % 3);
        let [x, y] = vectors.get_disjoint_mut([from, to]).unwrap();
        matrices[(step + 2) % 3].spmv(1.0, x, 0.0, y).unwrap();
    }
    let expected: Vec<f64> = (0..n).map(|i| ((i + 60) % n) as f64).collect();
    assert!(vectors[0].to_vec().unwrap() == expected);
}

/// 300 rows with 1 to 3 ones, by rows.
fn ones<T: Scalar>() -> CsrMatrix<T> {
    matrices::from_rows(300, (0..300).map(|i| (0..=i % 3).map(|k| ((i + k) % 300, 1.0)).collect()).collect())
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_the_product(device: &Device) {
    let narrow = ones::<f64>();
    let wide = CsrMatrix::<f64, u64>::from(&narrow);
    let empty = matrices::from_rows::<f64>(300, vec![]);
    for matrix in [device.upload(&narrow), device.upload(&wide), device.upload(&empty)] {
        let matrix = matrix.unwrap();
        let x = device.upload_vec(&[2.0; 300]).unwrap();
        for times in [0, 1, 5] {
            let mut y = device.upload_vec(&vec![100.0; matrix.nrows()]).unwrap();
            let mut graph = device.record(|| matrix.spmv(3.0, &x, 1.0, &mut y)).unwrap();
            graph.launch(times).unwrap();
            graph.launch(1).unwrap();
            drop(graph);
            let row = |i: usize| 100.0 + (times + 1) as f64 * 6.0 * (i % 3 + 1) as f64;
            assert_eq!(y.to_vec().unwrap(), (0..matrix.nrows()).map(row).collect::<Vec<_>>(), "{times} times");
        }
    }
}

fn graphs_check_their_arguments(device: &Device) {
    let matrix = device.upload(&ones::<f32>()).unwrap();
    let (x, mut y) = (device.zeros(300).unwrap(), device.zeros(299).unwrap());
    let graph = device.record(|| matrix.spmv(1.0, &x, 0.0, &mut y));
    let error = graph.and_then(|mut graph| graph.launch(1)).unwrap_err();
    assert_eq!(error.to_string(), "y has 299 elements where the operation needs 300");
}

/// Two products a launch, on a stream of its own, for no other test may use it meanwhile.
fn captured_products_are_repeated(device: &Device) {
    let queue = device.new_stream().unwrap();
    let matrix = queue.upload(&ones::<f64>()).unwrap();
    let (x, mut y) = (queue.upload_vec(&[1.0; 300]).unwrap(), queue.zeros(300).unwrap());
    let mut z = queue.zeros(300).unwrap();
    matrix.spmv(1.0, &x, 0.0, &mut y).unwrap(); // loads the kernel
    let two_products = || {
        matrix.spmv(1.0, &x, 1.0, &mut y)?;
        matrix.spmv(1.0, &x, 2.0, &mut z)
    };
    // SAFETY: the closure borrows what it touches, and nobody else knows the stream.
    let mut graph = unsafe { queue.capture(two_products) }.unwrap();
    graph.launch(3).unwrap();
    drop(graph);
    let row = |factor: usize| (0..300).map(|i| (factor * (i % 3 + 1)) as f64).collect::<Vec<_>>();
    assert_eq!(y.to_vec().unwrap(), row(4));
    assert_eq!(z.to_vec().unwrap(), row(7)); // 1, then 2 * 1 + 1, then 2 * 3 + 1
}

fn graphs_give_the_bits_of_the_product(gpu: &Device) {
    for (name, matrix) in matrices::all::<f32>() {
        let uploaded = gpu.upload(&matrix).unwrap();
        let x = gpu.upload_vec(&Random(8).vector::<f32>(matrix.ncols())).unwrap();
        let start = Random(9).vector::<f32>(matrix.nrows());
        let bits =
            |y: warpsparse::DeviceVec<f32>| y.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();

        let mut direct = gpu.upload_vec(&start).unwrap();
        for _ in 0..4 {
            uploaded.spmv(1.25, &x, -0.3, &mut direct).unwrap();
        }
        let mut repeated = gpu.upload_vec(&start).unwrap();
        gpu.record(|| uploaded.spmv(1.25, &x, -0.3, &mut repeated)).unwrap().launch(4).unwrap();
        assert!(bits(repeated) == bits(direct), "{name}");
    }
}

fn graphs_of_several_queues_are_errors(gpu: &Device) {
    let other = gpu.new_stream().unwrap();
    let matrix = gpu.upload(&ones::<f32>()).unwrap();
    let (x, x_other) = (gpu.zeros(300).unwrap(), other.zeros(300).unwrap());
    let (mut y, mut y_other) = (gpu.zeros(300).unwrap(), other.zeros(300).unwrap());
    for (x, y) in [(&x_other, &mut y), (&x, &mut y_other)] {
        let error = gpu.record(|| matrix.spmv(1.0, x, 0.0, &mut *y)).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains("another queue")), "{error}");
    }
}

/// And the stream is as good as before.
fn capture_fails_on_what_cannot_be_recorded(gpu: &Device) {
    let queue = gpu.new_stream().unwrap();
    let x = queue.upload_vec(&[1.0f32; 300]).unwrap();
    // SAFETY: the closure borrows what it touches, and nobody else knows the stream.
    assert!(unsafe { queue.capture(|| x.to_vec().map(|_| ())) }.is_err());
    let stop = || Err(Error::InvalidOption("stop".into()));
    // SAFETY: as above.
    assert_eq!(unsafe { queue.capture(stop) }.unwrap_err().to_string(), "invalid option: stop");
    assert_eq!(x.to_vec().unwrap(), [1.0; 300]);
}

fn arguments_on_another_device_are_errors(gpu: &Device) {
    let cpu = Device::cpu();
    let matrix = matrices::from_rows::<f32>(1, vec![vec![(0, 1.0)]]);
    let (on_gpu, on_cpu) = (gpu.upload(&matrix).unwrap(), cpu.upload(&matrix).unwrap());
    let (x_gpu, x_cpu) = (gpu.zeros(1).unwrap(), cpu.zeros(1).unwrap());
    let (mut y_gpu, mut y_cpu) = (gpu.zeros(1).unwrap(), cpu.zeros(1).unwrap());
    let message = |result: warpsparse::Result<()>| result.unwrap_err().to_string();
    let expected = "x is on cpu, but the operation runs on cuda:0: move it there first";
    assert_eq!(message(on_gpu.spmv(1.0, &x_cpu, 0.0, &mut y_gpu)), expected);
    let expected = "y is on cpu, but the operation runs on cuda:0: move it there first";
    assert_eq!(message(on_gpu.spmv(1.0, &x_gpu, 0.0, &mut y_cpu)), expected);
    let expected = "x is on cuda:0, but the operation runs on cpu: move it there first";
    assert_eq!(message(on_cpu.spmv(1.0, &x_gpu, 0.0, &mut y_cpu)), expected);
}

fn the_kernel_follows_the_structure(device: &Device) {
    // Rows of entries `apart` from each other.
    let even = |per_row: usize, apart: usize| vec![(0..per_row).map(|j| (j * apart, 1.0)).collect(); 10];
    let kernel_of = |rows: Vec<Vec<(usize, f64)>>, options: SpmvOptions| {
        device.upload_with(&matrices::from_rows::<f64>(1 << 16, rows), &options).unwrap().describe().kernel
    };
    let kernel = |per_row, options| kernel_of(even(per_row, 1), options);
    // So few rows that more lanes cost nothing.
    assert_eq!(kernel(5, SpmvOptions::default()), "spmv_csr_vector_f64_t2");
    assert_eq!(kernel(27, SpmvOptions::default()), "spmv_csr_vector_f64_t8");
    assert_eq!(kernel_of(even(27, 100), SpmvOptions::default()), "spmv_csr_adaptive_f64_t8");
    let skewed = [even(5, 1), even(65, 1)[..1].to_vec()].concat();
    assert_eq!(kernel_of(skewed, SpmvOptions::default()), "spmv_csr_adaptive_f64_t4");
    assert_eq!(kernel(500, SpmvOptions::default()), "spmv_csr_adaptive_f64_t1");
    assert_eq!(kernel(500, SpmvOptions::default().lanes(Lanes::Fixed(2))), "spmv_csr_vector_f64_t2");
    let wide = CsrMatrix::<f32, u64>::from(&matrices::from_rows(1, vec![vec![(0, 1.0)]]));
    assert_eq!(device.upload(&wide).unwrap().describe().kernel, "spmv_csr_vector_f32_o64_t1");
}

/// The emulator does the same operations in the same order: every bit is the GPU's.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let product = |device: &Device, matrix: &CsrMatrix<T>, options: &SpmvOptions, seed| {
        let mut random = Random(seed);
        let (x, y) = (random.vector::<T>(matrix.ncols()), random.vector::<T>(matrix.nrows()));
        let uploaded = device.upload_with(matrix, options).unwrap();
        let mut y = device.upload_vec(&y).unwrap();
        uploaded.spmv(T::from_f64(1.25), &device.upload_vec(&x).unwrap(), T::from_f64(-0.3), &mut y).unwrap();
        y.to_vec().unwrap().into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>()
    };
    for (name, matrix) in matrices::all::<T>() {
        for (options, seed) in kernels().iter().zip(1..) {
            let emulated = product(&Device::emulated(seed), &matrix, options, 9);
            assert!(product(gpu, &matrix, options, 9) == emulated, "{name}, {options:?}");
        }
    }
}
