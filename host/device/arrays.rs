//! The arrays of an argument struct, as a launch receives them.

use std::ptr;

use cuda_std::mem::DeviceValue;
use kernels_gpu::args::{Arrays, Bind, Need};

use super::{Array, Buffer, Device, DeviceSlice, DeviceSliceMut, DeviceVec, KernelLaunch, Mailbox};
use crate::Element;

/// Elements that a kernel only reads. The default is a null pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readable<'a, T> {
    /// With the device where it lives.
    array: Option<(Array<'a, T>, &'a Device)>,
    first: usize,
    len: usize,
}

/// Elements that a kernel writes. The default is a null pointer.
#[derive(Debug)]
pub(crate) struct Writable<'a, T> {
    array: Target<'a, T>,
    first: usize,
    len: usize,
}

/// The target of a kernel's writes.
#[derive(Debug)]
enum Target<'a, T> {
    None,
    /// On the device where it lives.
    Buffer(&'a mut Buffer<T>, &'a Device),
    /// Words, so `T` is `u64`.
    Mailbox(&'a mut Mailbox),
}

impl<T> Default for Readable<'_, T> {
    fn default() -> Self {
        Self { array: None, first: 0, len: 0 }
    }
}

impl<T> Default for Writable<'_, T> {
    fn default() -> Self {
        Self { array: Target::None, first: 0, len: 0 }
    }
}

impl<T> Readable<'_, T> {
    /// Drops the first `elements` elements.
    pub(crate) fn skip(self, elements: usize) -> Self {
        Self { first: self.first + elements, len: self.len.saturating_sub(elements), ..self }
    }
}

impl<T> Writable<'_, T> {
    /// Drops the first `elements` elements.
    pub(crate) fn skip(self, elements: usize) -> Self {
        Self { first: self.first + elements, len: self.len.saturating_sub(elements), ..self }
    }
}

impl<T: Element> Buffer<T> {
    /// For a kernel to read; `device` is where the buffer lives.
    pub(crate) fn readable<'a>(&'a self, device: &'a Device) -> Readable<'a, T> {
        Readable { array: Some((self.array(), device)), first: 0, len: self.len() }
    }

    /// For a kernel to write; `device` is where the buffer lives.
    pub(crate) fn writable<'a>(&'a mut self, device: &'a Device) -> Writable<'a, T> {
        let len = self.len();
        Writable { array: Target::Buffer(self, device), first: 0, len }
    }
}

impl Mailbox {
    /// For a kernel to write, while the host reads.
    pub(crate) fn writable(&mut self) -> Writable<'_, u64> {
        let len = self.words_mut().len();
        Writable { array: Target::Mailbox(self), first: 0, len }
    }
}

impl<T: Element> DeviceVec<T> {
    /// For a kernel to read.
    pub(crate) fn readable(&self) -> Readable<'_, T> {
        self.buffer().readable(self.device())
    }

    /// For a kernel to write.
    pub(crate) fn writable(&mut self) -> Writable<'_, T> {
        let (device, buffer) = self.parts_mut();
        buffer.writable(device)
    }
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    /// For a kernel to read.
    pub(crate) fn readable(self) -> Readable<'a, T> {
        let (vector, first) = self.parts();
        Readable { first, len: self.len(), ..vector.readable() }
    }
}

impl<'a, T: Element> DeviceSliceMut<'a, T> {
    /// The stream, and the elements for a kernel to write.
    pub(crate) fn into_writable(self) -> (&'a Device, Writable<'a, T>) {
        let len = self.len();
        let (queue, buffer, first) = self.into_parts();
        (queue, Writable { first, len, ..buffer.writable(queue) })
    }
}

impl<'a> Arrays for KernelLaunch<'a> {
    type Read<T: DeviceValue> = Readable<'a, T>;
    type Write<T: DeviceValue> = Writable<'a, T>;
}

impl<'a> Bind for KernelLaunch<'a> {
    fn read<T: DeviceValue>(&mut self, name: &'static str, array: Readable<'a, T>, need: Need) -> *const T {
        let Readable { array, first, len } = array;
        self.check(name, array.is_some(), len, need);
        array.map_or(ptr::null(), |(array, device)| self.read(name, array, device).wrapping_add(first))
    }

    fn write<T: DeviceValue>(&mut self, name: &'static str, array: Writable<'a, T>, need: Need) -> *mut T {
        let Writable { array, first, len } = array;
        self.check(name, !matches!(array, Target::None), len, need);
        match array {
            Target::None => ptr::null_mut(),
            Target::Buffer(buffer, device) => self.write(name, buffer, device).wrapping_add(first),
            Target::Mailbox(mailbox) => self.mailbox(mailbox).cast(),
        }
    }
}

impl KernelLaunch<'_> {
    /// Panics if an array is shorter than its kernel's argument struct declares: always in the emulator, on a GPU in
    /// debug builds.
    fn check(&self, name: &str, is_there: bool, len: usize, Need { elements, or_null }: Need) {
        if matches!(self, Self::Emulated(_)) || cfg!(debug_assertions) {
            let is_enough = len >= elements || !is_there && or_null;
            assert!(is_enough, "{name} has {len} elements, and the kernel takes {elements}");
        }
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::vector_axpby::{Args, Key, grid_size};

    use super::*;
    use crate::{DType, device::launch};

    /// `y = x + y` of so many elements, by the kernel alone.
    fn add(n: u64, x: Readable<'_, f32>, y: Writable<'_, f32>, device: &Device) -> crate::Result<()> {
        let one = || kernels_gpu::factor::Factor {
            value: 1.0,
            numerator: Readable::default(),
            denominator: Readable::default(),
        };
        let args = Args { n, alpha: one(), x, beta: one(), y };
        let entry = Key { dtype: DType::F32, dot: false }.entry();
        // SAFETY: the emulator checks every access, and the lengths before.
        unsafe { launch(device, entry, grid_size::<f32>(n) as u32, args) }
    }

    #[test]
    fn arrays_may_be_longer_than_the_kernel_says_and_begin_later() {
        let device = Device::emulated(0);
        let (x, mut y) = (device.upload_vec(&[0.0, 1.0, 2.0, 3.0]).unwrap(), device.upload_vec(&[10.0; 3]).unwrap());
        add(2, x.readable().skip(1), y.writable(), &device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [11.0, 12.0, 10.0]);
    }

    #[test]
    #[should_panic(expected = "x has 2 elements, and the kernel takes 3")]
    fn an_array_that_is_too_short_is_found_before_the_launch() {
        let device = Device::emulated(0);
        let (x, mut y) = (device.zeros::<f32>(3).unwrap(), device.zeros::<f32>(3).unwrap());
        let _ = add(3, x.readable().skip(1), y.writable(), &device);
    }

    #[test]
    #[should_panic(expected = "y has 0 elements, and the kernel takes 3")]
    fn an_array_that_is_not_there_is_found_before_the_launch() {
        let device = Device::emulated(0);
        let x = device.zeros::<f32>(3).unwrap();
        let _ = add(3, x.readable(), Writable::default(), &device);
    }
}
