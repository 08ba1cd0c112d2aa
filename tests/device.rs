//! Devices: how they are found, what they hold, and what goes wrong.

mod common;

use std::{process::ExitCode, time::Duration};

use common::{Random, on_every_device, on_gpu};
use libtest_mimic::Trial;
use warpsparse::{CsrMatrix, Device, Error, ErrorKind};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("vectors_come_back", vectors_come_back));
    trials.extend(on_every_device("debug_output_is_short", debug_output_is_short));
    trials.extend(on_every_device("pinned_memory_holds_what_is_written", pinned_memory_holds_what_is_written));
    trials.extend(on_every_device("out_of_memory_is_an_error", out_of_memory_is_an_error));
    trials.extend(on_every_device("memory_can_be_returned", memory_can_be_returned));
    trials.extend(on_every_device("lengths_are_checked", lengths_are_checked));
    trials.extend(on_every_device("operations_are_timed", operations_are_timed));
    trials.push(on_gpu("times_have_no_host_in_them", times_have_no_host_in_them));
    trials.push(on_gpu("captures_are_not_timed", captures_are_not_timed));
    trials.push(on_gpu("operations_that_wait_are_timed", operations_that_wait_are_timed));
    trials.push(on_gpu("a_gpu_describes_itself", a_gpu_describes_itself));
    trials.extend(on_every_device("queues_of_gpus_have_a_handle", queues_of_gpus_have_a_handle));
    trials.push(on_gpu("auto_is_the_gpu", |_| assert!(Device::auto().is_cuda())));
    trials.push(on_gpu("gpus_are_counted", gpus_are_counted));
    trials.push(test("device_names", device_names));
    trials.push(test("a_missing_device_is_an_error", a_missing_device_is_an_error));
    trials.push(test("the_emulator_describes_its_seed", the_emulator_describes_its_seed));
    trials.push(test("auto_says_why_it_is_the_cpu", auto_says_why_it_is_the_cpu));
    common::run(trials)
}

fn test(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

fn debug_output_is_short(device: &Device) {
    let x = device.zeros::<f64>(1000).unwrap();
    assert_eq!(format!("{x:?}"), format!("DeviceVec {{ device: {device}, len: 1000 }}"));
    let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 1, 2], vec![2, 0], vec![1.0f32, 2.0]).unwrap();
    let a = device.upload(&a).unwrap();
    let sizes = "nrows: 2, ncols: 3, nnz: 2";
    assert_eq!(format!("{a:?}"), format!("DeviceMatrix {{ device: {device}, {sizes}, .. }}"));
}

fn vectors_come_back(device: &Device) {
    for len in [0, 1, 2, 1000, 1 << 20] {
        let values = Random(len as u64).vector::<f64>(len);
        let mut vector = device.upload_vec(&values).unwrap();
        assert_eq!((vector.len(), vector.is_empty()), (len, len == 0));
        assert_eq!(vector.to_vec().unwrap(), values);
        assert_eq!(device.zeros::<f32>(len).unwrap().to_vec().unwrap(), vec![0.0; len]);
        let mut middle = vec![0.0; len / 3];
        vector.copy_range_to(len / 2, &mut middle).unwrap();
        assert_eq!(middle, values[len / 2..len / 2 + len / 3]);
        let others = Random(99).vector::<f64>(len);
        vector.copy_from(&others).unwrap();
        assert_eq!(vector.to_vec().unwrap(), others);
    }
}

fn pinned_memory_holds_what_is_written(device: &Device) {
    assert!(device.pinned_zeros::<f32>(0).unwrap().is_empty());
    let mut pinned = device.pinned_zeros::<f32>(5000).unwrap();
    assert!(pinned.len() == 5000 && pinned.iter().all(|&value| value == 0.0));
    let values = Random(1).vector::<f32>(5000);
    pinned.copy_from_slice(&values);
    let vector = device.upload_vec(&pinned).unwrap();
    pinned.fill(0.0);
    vector.copy_to(&mut pinned).unwrap();
    assert_eq!(pinned[..], values[..]);
}

fn out_of_memory_is_an_error(device: &Device) {
    let error = device.zeros::<f64>(1 << 50).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let start = format!("out of memory on {device}: {} bytes asked for", 1u64 << 53);
    assert!(error.to_string().starts_with(&start), "{error}");
    if device.is_cuda() {
        let Error::OutOfMemory { available: Some((free, total)), .. } = error else { panic!("{error}") };
        assert!(free <= total && total > 1 << 30, "{free} of {total}");
    }
    for len in [usize::MAX, (1 << 61) + 1] {
        assert_eq!(device.zeros::<f64>(len).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(device.pinned_zeros::<f64>(len).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    // The device is as good as before.
    assert_eq!(device.upload_vec(&[1.0f32]).unwrap().to_vec().unwrap(), [1.0]);
}

/// What is in use stays; what was freed can be allocated again.
fn memory_can_be_returned(device: &Device) {
    let kept = device.upload_vec(&[1.0f32, 2.0, 3.0]).unwrap();
    drop(device.zeros::<f64>(1 << 20).unwrap());
    device.trim_memory().unwrap();
    assert_eq!(kept.to_vec().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(device.zeros::<f64>(1 << 20).unwrap().to_vec().unwrap(), vec![0.0; 1 << 20]);
}

fn lengths_are_checked(device: &Device) {
    let mut vector = device.zeros::<f32>(3).unwrap();
    assert!(matches!(vector.copy_from(&[1.0]), Err(Error::LengthMismatch { expected: 3, found: 1, .. })));
    assert!(matches!(vector.copy_to(&mut [1.0; 4]), Err(Error::LengthMismatch { expected: 3, found: 4, .. })));
    let beyond = [vector.copy_range_to(2, &mut [1.0; 2]), vector.copy_range_to(4, &mut [])];
    assert!(beyond.iter().all(|it| matches!(it, Err(Error::LengthMismatch { expected: 4, found: 3, .. }))));
    assert!(vector.copy_range_to(usize::MAX, &mut [1.0]).is_err());
}

fn operations_are_timed(device: &Device) {
    let mut order = Vec::new();
    let times = device.time_each(5, |repeat| {
        order.push(repeat);
        Ok(())
    });
    assert_eq!((times.unwrap().len(), order), (5, vec![0, 1, 2, 3, 4]));
    assert!(device.time_each(3, |_| Err(Error::InvalidOption("stop".into()))).is_err());
    let bandwidth = device.measure_copy_bandwidth().unwrap();
    assert!(bandwidth > 1e8 && bandwidth < 1e14, "{bandwidth} bytes a second");
}

/// Each call takes the host far longer than the device. More than one chunk of them. What other tests do can wait for the whole
/// device, and then ends the hold: one try of several is enough.
fn times_have_no_host_in_them(gpu: &Device) {
    let a = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![2.0f32]).unwrap();
    let queue = gpu.new_stream().unwrap();
    let (a, x, mut y) = (queue.upload(&a).unwrap(), queue.upload_vec(&[3.0]).unwrap(), queue.zeros(1).unwrap());
    a.spmv(1.0, &x, 0.0, &mut y).unwrap();
    let mut median = || {
        let times = queue.time_each(80, |_| {
            std::thread::sleep(Duration::from_micros(200));
            a.spmv(1.0, &x, 0.0, &mut y)
        });
        let mut times = times.unwrap();
        times.sort();
        assert_eq!(times.len(), 80);
        times[40]
    };
    assert!((0..20).any(|_| median() < Duration::from_micros(100)));
}

/// What waits for a stream that is held back is let go on.
fn operations_that_wait_are_timed(gpu: &Device) {
    let queue = gpu.new_stream().unwrap();
    let x = queue.upload_vec(&[3.0f32]).unwrap();
    let times = queue.time_each(3, |_| x.to_vec().map(drop)).unwrap();
    assert!(times.len() == 3 && times.iter().all(|time| *time < Duration::from_secs(1)), "{times:?}");
}

/// What is captured has no time.
fn captures_are_not_timed(gpu: &Device) {
    let queue = gpu.new_stream().unwrap();
    let mut refusal = None;
    let operations = || {
        refusal = queue.time_each(1, |_| Ok(())).err();
        Ok(())
    };
    // SAFETY: nothing is touched, and no other thread has this stream.
    drop(unsafe { queue.capture(operations) });
    assert!(refusal.unwrap().to_string().contains("timing cannot be recorded"));
}

fn a_gpu_describes_itself(gpu: &Device) {
    let info = gpu.info().unwrap();
    let cuda = info.cuda.clone().unwrap();
    let (major, minor) = cuda.compute_capability;
    assert!(cuda.kernel_arch >= 75 && cuda.kernel_arch <= 10 * major + minor, "{info:?}");
    assert!(info.memory_bytes.unwrap() > 1 << 30 && info.l2_bytes.unwrap() > 0 && info.parallel_units > 0);
    assert!(cuda.driver_cuda >= (12, 0));
    assert!(gpu.describe().starts_with(&format!("cuda:0, {}", info.name)), "{}", gpu.describe());
}

/// One for each stream, the same for each handle of it.
fn queues_of_gpus_have_a_handle(device: &Device) {
    let handle = device.cuda_stream();
    assert_eq!(handle.is_some(), device.is_cuda());
    assert_eq!(device.clone().cuda_stream(), handle);
    let other = device.new_stream().unwrap();
    assert_eq!(other.cuda_stream() == handle, !device.is_cuda());
}

fn gpus_are_counted(_: &Device) {
    let count = Device::cuda_count().unwrap();
    assert!((0..count).all(|index| Device::cuda(index).is_ok()));
    assert_eq!(Device::cuda(count).unwrap_err().kind(), ErrorKind::NoDevice);
}

fn device_names() {
    assert_eq!(Device::from_name("cpu").unwrap().to_string(), "cpu");
    for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
        let error = Device::from_name(name).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains(&format!("`{name}`"))), "{error}");
    }
}

fn a_missing_device_is_an_error() {
    let error = Device::from_name("cuda:97").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
    assert!(error.to_string().starts_with("no CUDA device 97: "), "{error}");
}

fn the_emulator_describes_its_seed() {
    assert_eq!(Device::emulated(7).describe(), "emulated, seed 7");
}

fn auto_says_why_it_is_the_cpu() {
    let auto = Device::auto();
    assert_eq!(auto.is_cuda(), Device::cuda(0).is_ok());
    assert_eq!(auto.is_cuda(), Device::cuda_count().is_ok_and(|count| count > 0));
    if !auto.is_cuda() {
        assert!(auto.describe().contains("; no GPU: "), "{}", auto.describe());
    }
}
