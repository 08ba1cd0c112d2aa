//! Kernels of the user's own, by the public interface, on the emulated device and on the GPU.

mod common;

use std::{io::Read, process::ExitCode, sync::LazyLock};

use common::{Random, on_device, on_gpu};
use cuda_std::{kernel, mem, shared::dynamic_shared_mem, thread};
use kernels_gpu::{Entry, gemm_block, spmv_csr_vector, vector_scale};
use lzma_rust2::LzmaReader;
use warpsparse::{DType, Device, Error, ErrorKind, Kernel};

fn main() -> ExitCode {
    common::run(vec![
        on_device("a_kernel_runs_from_its_ptx::emulated".into(), a_kernel_runs_from_its_ptx, || Device::emulated(3)),
        on_gpu("a_kernel_runs_from_its_ptx", a_kernel_runs_from_its_ptx),
        on_device("a_bug_is_found_with_its_line::emulated".into(), a_bug_is_found, || Device::emulated(0)),
        on_device("vectors_of_other_devices_are_errors::emulated".into(), other_devices, || Device::emulated(0)),
        on_device("impossible_launches_are_errors::emulated".into(), impossible_launches_are_errors, || {
            Device::emulated(0)
        }),
        on_device("a_block_has_the_shared_memory_asked_for::emulated".into(), shared_memory, || Device::emulated(7)),
        on_device("a_kernel_runs_from_its_entry::emulated".into(), a_kernel_runs_from_its_entry, || {
            Device::emulated(2)
        }),
        on_gpu("a_kernel_runs_from_its_entry", a_kernel_runs_from_its_entry),
        on_device("what_is_not_embedded::cpu".into(), what_is_not_embedded, Device::cpu),
        on_device("the_cpu_runs_no_kernels::cpu".into(), the_cpu_runs_no_kernels, Device::cpu),
        on_gpu("a_gpu_needs_ptx", a_gpu_needs_ptx),
        on_gpu("ptx_that_cannot_be_loaded_is_an_error", ptx_that_cannot_be_loaded),
    ])
}

/// The PTX that a file keeps.
fn ptx(compressed: &[u8]) -> String {
    let mut kept = String::new();
    LzmaReader::new_mem_limit(compressed, u32::MAX, None).unwrap().read_to_string(&mut kept).unwrap();
    cuda_builder::kept_text(&kept)
}

/// A kernel of this library, launched as if it were the user's: its PTX from the file, for the oldest GPU.
static SPMV: LazyLock<Kernel<spmv_csr_vector::Args<f32, u32>>> = LazyLock::new(|| {
    let ptx = ptx(include_bytes!("../ptx/spmv_csr_vector.sm_75.ptx.lzma"));
    Kernel::new("spmv_csr_vector_f32_t2", spmv_csr_vector::spmv_csr_vector_f32_t2, spmv_csr_vector::BLOCK_SIZE)
        .with_ptx(ptx.leak())
});

/// `A` is the n x n matrix with ones on the diagonal and left of it; the vectors belong to two streams.
fn a_kernel_runs_from_its_ptx(device: &Device) {
    let n = 1000u32;
    let offsets: Vec<u32> = (0..=n).map(|i| if i == 0 { 0 } else { 2 * i - 1 }).collect();
    let columns: Vec<u32> = (0..n).flat_map(|i| i.saturating_sub(1)..=i).collect();
    let x = Random(1).vector::<f32>(n as usize);
    let other_queue = device.new_stream().unwrap();
    let row_offsets = other_queue.upload_vec(&offsets).unwrap();
    let col_indices = device.upload_vec(&columns).unwrap();
    let values = device.upload_vec(&vec![1.0f32; columns.len()]).unwrap();
    let x_on_device = other_queue.upload_vec(&x).unwrap();
    let mut y = other_queue.upload_vec(&vec![f32::NAN; n as usize]).unwrap();

    let mut launch = device.launch(&SPMV, spmv_csr_vector::grid_size(n, 2)).unwrap();
    let args = spmv_csr_vector::Args {
        rows: n,
        alpha: 2.0,
        beta: 0.0,
        row_offsets: launch.read("row_offsets", &row_offsets).unwrap(),
        col_indices: launch.read("col_indices", &col_indices).unwrap(),
        values: launch.read("values", &values).unwrap(),
        x: launch.read("x", &x_on_device).unwrap(),
        y: launch.write("y", &mut y).unwrap(),
    };
    // SAFETY: a valid matrix and vectors that fit it.
    unsafe { launch.run(args) }.unwrap();

    let expected = |i: usize| 2.0 * if i == 0 { x[0] } else { x[i - 1] + x[i] };
    let y = y.to_vec().unwrap();
    assert!((0..n as usize).all(|i| y[i] == expected(i)), "{y:?}");
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Shift {
    n: u32,
    x: *const f32,
    y: *mut f32,
}

/// `y[i] = x[i + 1]`, with a mistake: the last element has no successor.
#[kernel]
unsafe fn shift(args: Shift) {
    let i = thread::index_1d() as usize;
    if i < args.n as usize {
        // SAFETY: broken, for the emulator to find.
        unsafe {
            let next = mem::load(args.x.add(i + 1)); // THE BUG
            mem::store(args.y.add(i), next);
        }
    }
}

const SHIFT: Kernel<Shift> = Kernel::new("shift", shift, 32);

fn a_bug_is_found(device: &Device) {
    let (x, mut y) = (device.upload_vec(&[1.0, 2.0, 3.0]).unwrap(), device.zeros(3).unwrap());
    let mut launch = device.launch(&SHIFT, 1).unwrap();
    let args = Shift { n: 3, x: launch.read("x", &x).unwrap(), y: launch.write("y", &mut y).unwrap() };
    // SAFETY: the emulator checks every access before it makes it.
    let error = unsafe { launch.run(args) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KernelCheck);
    let line = 1 + include_str!("own_kernel.rs").lines().position(|line| line.ends_with("// THE BUG")).unwrap();
    let text = error.to_string();
    for part in ["shift", "thread", &format!("own_kernel.rs:{line}")] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

fn other_devices(device: &Device) {
    let x = Device::cpu().zeros::<f32>(3).unwrap();
    let mut launch = device.launch(&SHIFT, 1).unwrap();
    let error = launch.read("x", &x).unwrap_err();
    assert_eq!(error.to_string(), "x is on cpu, but the operation runs on emulated: move it there first");
}

fn impossible_launches_are_errors(device: &Device) {
    const NO_THREADS: Kernel<Shift> = Kernel::new("shift", shift, 0);
    const TOO_MANY: Kernel<Shift> = Kernel::new("shift", shift, 1025);
    const NUL: Kernel<Shift> = Kernel::new("shift", shift, 32).with_ptx("\0");
    for (kernel, blocks, part) in
        [(&SHIFT, 0, "0 blocks"), (&NO_THREADS, 1, "0 threads"), (&TOO_MANY, 1, "1025"), (&NUL, 1, "NUL")]
    {
        let error = device.launch(kernel, blocks).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains(part)), "{error}");
    }
}

/// Each block of 4 threads reverses its part of `x`, by way of dynamic shared memory.
#[kernel]
unsafe fn reverse(args: Shift) {
    let (staged, t) = (dynamic_shared_mem::<f32>(), thread::thread_idx_x());
    let i = thread::index_1d() as usize;
    // SAFETY: there are as many threads as elements, and as much shared memory as threads.
    unsafe {
        staged.store(t, mem::load(args.x.add(i)));
        thread::sync_threads();
        mem::store(args.y.add(i), staged.load(3 - t));
    }
}

fn shared_memory(device: &Device) {
    let reverse: Kernel<Shift> = Kernel::new("reverse", reverse, 4);
    let x = device.upload_vec(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
    let mut y = device.zeros(8).unwrap();
    let mut run = |kernel: &Kernel<Shift>| {
        let mut launch = device.launch(kernel, 2)?;
        let args = Shift { n: 8, x: launch.read("x", &x)?, y: launch.write("y", &mut y)? };
        // SAFETY: eight elements for eight threads; the emulator checks accesses to shared memory.
        unsafe { launch.run(args) }
    };
    assert_eq!(run(&reverse).unwrap_err().kind(), ErrorKind::KernelCheck);
    run(&reverse.with_dynamic_shared(16)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [4.0, 3.0, 2.0, 1.0, 8.0, 7.0, 6.0, 5.0]);
}

/// An entry of this library as if it were one of the user's: with its PTX from the file, and with what is embedded.
fn a_kernel_runs_from_its_entry(device: &Device) {
    let ptx = ptx(include_bytes!("../ptx/vector_scale.sm_75.ptx.lzma"));
    let entry = vector_scale::Key { dtype: DType::F64 }.entry();
    let of_file = Kernel::<vector_scale::Args<f64>>::from_entry(entry).unwrap().with_ptx(ptx.leak());
    for scale in [of_file, Kernel::embedded(entry).unwrap()] {
        let mut y = device.upload_vec(&[1.0, 2.0, 3.0]).unwrap();
        let mut launch = device.launch(&scale, vector_scale::grid_size(3)).unwrap();
        let args = vector_scale::Args { n: 3, beta: -2.0, y: launch.write("y", &mut y).unwrap() };
        // SAFETY: three elements, and the grid for three.
        unsafe { launch.run(args) }.unwrap();
        assert_eq!(y.to_vec().unwrap(), [-2.0, -4.0, -6.0]);
    }
}

fn what_is_not_embedded(_: &Device) {
    // The arguments of another kernel.
    let entry = vector_scale::Key { dtype: DType::F64 }.entry();
    let text = Kernel::<gemm_block::BlockArgs<f64>>::embedded(entry).unwrap_err().to_string();
    assert!(text.contains("vector_scale_f64") && text.contains("its arguments have 24 bytes, not "), "{text}");
    // A family of another crate.
    const ELSEWHERE: Entry = Entry { family: "elsewhere", ..vector_scale::FAMILY.entries[0] };
    let text = Kernel::<vector_scale::Args<f32>>::embedded(&ELSEWHERE).unwrap_err().to_string();
    assert!(text.contains("no family of `kernels_gpu` has it"), "{text}");
}

fn the_cpu_runs_no_kernels(cpu: &Device) {
    let error = cpu.launch(&SHIFT, 1).unwrap_err();
    assert!(matches!(&error, Error::InvalidOption(text) if text.contains("shift")), "{error}");
}

fn a_gpu_needs_ptx(gpu: &Device) {
    let error = gpu.launch(&SHIFT, 1).unwrap_err();
    assert!(matches!(&error, Error::InvalidOption(text) if text.contains("with_ptx")), "{error}");
}

fn ptx_that_cannot_be_loaded(gpu: &Device) {
    let launch = |entry, ptx: String| {
        let kernel = Kernel::new(entry, shift, 32).with_ptx(ptx.leak());
        let args = Shift { n: 0, x: std::ptr::null(), y: std::ptr::null_mut() };
        // SAFETY: the launch fails; if it did not, the kernel would touch no element.
        unsafe { gpu.launch(&kernel, 1).unwrap().run(args) }.unwrap_err()
    };
    let empty_kernel = |version| {
        format!(
            ".version {version}\n.target sm_75\n.address_size 64\n.visible .entry empty(.param .b64 args[3]) {{ ret; }}\n"
        )
    };
    let error = launch("empty", empty_kernel("99.0"));
    assert!(matches!(&error, Error::DriverTooOld { .. }), "{error}");
    assert!(error.to_string().contains("PTX ISA 99.0"), "{error}");
    assert_eq!(error.kind(), ErrorKind::NoDevice);

    let error = launch("empty", "no PTX at all".into());
    assert!(matches!(&error, Error::Driver { call, .. } if call.starts_with("loading")), "{error}");
    let error = launch("absent", empty_kernel("6.3"));
    assert!(matches!(&error, Error::Driver { call, .. } if call == "absent"), "{error}");
}
