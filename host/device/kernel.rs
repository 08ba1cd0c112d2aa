//! Launches of user-defined kernels, and of this crate's kernels with the user's arguments.

use std::fmt;

use kernels_gpu::{Entry, FAMILIES};

#[cfg(feature = "cuda")]
use super::cuda::ModuleSource;
use super::{Backend, Device, DeviceSlice, DeviceSliceMut, KernelLaunch, launch::Shape};
use crate::{Element, Error, Result};

/// A user-defined kernel, written with `cuda_std`, and what a launch needs to know about it.
///
/// The emulated device calls it as a Rust function, with all checks; a GPU runs its PTX. The kernel takes one
/// `#[repr(C)]` struct `Args` by value.
///
/// ```
/// use cuda_std::{kernel, mem, thread};
/// use warpsparse::{Device, Kernel};
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Args { n: u32, a: f32, x: *const f32, y: *mut f32 }
///
/// /// `y = a * x + y`. Safety: `x` and `y` have `n` elements.
/// #[kernel]
/// unsafe fn saxpy(args: Args) {
///     let i = thread::index_1d() as usize;
///     if i < args.n as usize {
///         unsafe { mem::store(args.y.add(i), args.a * mem::load(args.x.add(i)) + mem::load(args.y.add(i))) }
///     }
/// }
/// const SAXPY: Kernel<Args> = Kernel::new("saxpy", saxpy, 128); // .with_ptx(include_str!("saxpy.ptx"))
///
/// let device = Device::emulated(0);
/// let (x, mut y) = (device.upload_vec(&[1.0, 2.0, 3.0])?, device.upload_vec(&[0.5, 0.5, 0.5])?);
/// let mut launch = device.launch(&SAXPY, 1)?;
/// let args = Args { n: 3, a: 10.0, x: launch.read("x", &x)?, y: launch.write("y", &mut y)? };
/// unsafe { launch.run(args)? }
/// assert_eq!(y.to_vec()?, [10.5, 20.5, 30.5]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// This crate's kernels can be launched in the same way: see [`embedded`](Self::embedded).
pub struct Kernel<Args> {
    entry: &'static str,
    call: Call<Args>,
    block_size: u32,
    dynamic_shared_bytes: u32,
    ptx: Ptx,
}

/// The kernel as a host function, for the emulator.
#[derive(Clone, Copy)]
enum Call<Args> {
    ByValue(unsafe fn(Args)),
    /// Takes a pointer to the arguments.
    ByPointer(unsafe fn(*const ())),
}

/// The source of the PTX that a GPU runs.
#[derive(Clone, Copy)]
enum Ptx {
    None,
    Text(&'static str),
    /// The PTX of a family of this crate, for the current GPU.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU runs PTX"))]
    Family(&'static str),
}

impl<Args> Kernel<Args> {
    /// Creates a kernel from the function `call`, whose name in the PTX is `entry`, for blocks of `block_size` threads.
    #[must_use]
    pub const fn new(entry: &'static str, call: unsafe fn(Args), block_size: u32) -> Self {
        Self { entry, call: Call::ByValue(call), block_size, dynamic_shared_bytes: 0, ptx: Ptx::None }
    }

    /// A kernel that [`family!`](kernels_gpu::family) declares: its name, its function and its blocks, with their dynamic shared memory. A GPU
    /// needs its PTX too, which is up to you: [`with_ptx`](Self::with_ptx).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the entry's arguments have another size than `Args`.
    pub fn from_entry(entry: &'static Entry) -> Result<Self> {
        let Entry { name, block_size, dynamic_shared_bytes, args_bytes, call, .. } = *entry;
        if args_bytes != size_of::<Args>() {
            let problem = format!("its arguments have {args_bytes} bytes, not {}", size_of::<Args>());
            return Err(Error::InvalidOption(format!("kernel {name}: {problem}")));
        }
        Ok(Self { entry: name, call: Call::ByPointer(call), block_size, dynamic_shared_bytes, ptx: Ptx::None })
    }

    /// The same kernel with so many bytes of dynamic shared memory a block: none otherwise.
    #[must_use]
    pub const fn with_dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// Sets the PTX that a GPU runs, such as `cuda_builder` produces.
    #[must_use]
    pub const fn with_ptx(mut self, ptx: &'static str) -> Self {
        self.ptx = Ptx::Text(ptx);
        self
    }

    /// Returns a kernel of this crate, including its PTX: an entry point of a family of `kernels_gpu`. The family's
    /// module has the entry keys, `Args`, the grid size, and the safety rules.
    ///
    /// ```
    /// use kernels_gpu::vector_scale::{Args, Key, grid_size};
    /// use warpsparse::{DType, Device, Kernel};
    ///
    /// let scale = Kernel::<Args<f64>>::embedded(Key { dtype: DType::F64 }.entry())?;
    /// let device = Device::emulated(0); // or a GPU
    /// let mut y = device.upload_vec(&[1.0, 2.0, 3.0])?;
    /// let mut launch = device.launch(&scale, grid_size(3))?;
    /// let args = Args { n: 3, beta: 10.0, y: launch.write("y", &mut y)? };
    /// // SAFETY: the vector has 3 elements, and the grid is that for 3.
    /// unsafe { launch.run(args)? }
    /// assert_eq!(y.to_vec()?, [10.0, 20.0, 30.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the entry's arguments have another size than `Args`, or if the entry is of another crate.
    pub fn embedded(entry: &'static Entry) -> Result<Self> {
        let kernel = Self::from_entry(entry)?;
        match FAMILIES.iter().find(|family| family.name == entry.family) {
            Some(family) => Ok(Self { ptx: Ptx::Family(family.name), ..kernel }),
            None => Err(Error::InvalidOption(format!("kernel {}: no family of `kernels_gpu` has it", entry.name))),
        }
    }
}

impl<Args> fmt::Debug for Kernel<Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({}, blocks of {})", self.entry, self.block_size)
    }
}

impl Device {
    /// Prepares a launch of `kernel` with a one-dimensional grid of `blocks` blocks, on this stream.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] on the CPU, which runs no kernels; for zero blocks, zero threads per block, or more
    /// than 1024; for a NUL in the entry's name or the PTX; on a GPU for a kernel without PTX.
    pub fn launch<'a, Args: Copy>(&'a self, kernel: &'a Kernel<Args>, blocks: u32) -> Result<Launch<'a, Args>> {
        let Kernel { entry, block_size, dynamic_shared_bytes, .. } = *kernel;
        let invalid = |problem: &str| Err(Error::InvalidOption(format!("launch of {entry}: {problem}")));
        if blocks == 0 || blocks > i32::MAX as u32 {
            return invalid(&format!("{blocks} blocks, where a grid has 1 to {}", i32::MAX));
        }
        if block_size == 0 || block_size > 1024 {
            return invalid(&format!("blocks of {block_size} threads, where a block has 1 to 1024"));
        }
        if entry.contains('\0') || matches!(kernel.ptx, Ptx::Text(ptx) if ptx.contains('\0')) {
            return invalid("a NUL in the entry's name or the PTX");
        }
        let shape = Shape { blocks, block_size, dynamic_shared_bytes, cooperative: false };
        let launch = match self.backend() {
            Backend::Cpu { .. } => return invalid("the CPU runs no kernels: use the emulated device or a GPU"),
            Backend::Emulated { seed } => KernelLaunch::emulated(*seed, entry, shape),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                let module = match kernel.ptx {
                    Ptx::None => return invalid("it has no PTX for a GPU: see Kernel::with_ptx"),
                    Ptx::Text(ptx) => ModuleSource::Text(ptx),
                    Ptx::Family(family) => ModuleSource::Family(family),
                };
                KernelLaunch::on_gpu(stream, module, entry, shape)
            }
        };
        Ok(Launch { device: self, kernel, launch })
    }
}

/// A launch in preparation: [`read`](Self::read) and [`write`](Self::write) register the vectors that the kernel
/// accesses, [`run`](Self::run) queues it.
pub struct Launch<'a, Args> {
    device: &'a Device,
    kernel: &'a Kernel<Args>,
    launch: KernelLaunch<'a>,
}

impl<'a, Args: Copy> Launch<'a, Args> {
    /// Registers a vector, or a slice of one, that the kernel only reads, and returns its address. Reports call it
    /// `name`.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`].
    pub fn read<T: Element>(&mut self, name: &'static str, vector: impl Into<DeviceSlice<'a, T>>) -> Result<*const T> {
        let vector = vector.into();
        self.device.check_same(name, vector.device())?;
        let (vector, first) = vector.parts();
        Ok(self.launch.read(name, vector.buffer().array(), vector.device()).wrapping_add(first))
    }

    /// Registers a vector, or a slice of one, that the kernel writes, and returns its address. Reports call it `name`.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`].
    pub fn write<T: Element>(
        &mut self,
        name: &'static str,
        vector: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<*mut T> {
        let vector = vector.into();
        self.device.check_same(name, vector.device())?;
        let (owner, buffer, first) = vector.into_parts();
        Ok(self.launch.write(name, buffer, owner).wrapping_add(first))
    }

    /// Queues the launch; the emulated device runs it at once.
    ///
    /// # Errors
    /// [`Error::KernelCheck`] on the emulated device if the kernel breaks a rule; [`Error::Driver`] and
    /// [`Error::DriverTooOld`] on a GPU.
    ///
    /// # Safety
    /// `Args` is the struct that the kernel takes, in the PTX and in the Rust function, and `args` satisfies the
    /// kernel's safety rules. Its pointers come from this launch. On a GPU they may also point to other memory of this
    /// GPU, if it stays allocated until the launch has run, and other accesses to it are ordered with the launch, for
    /// example by [`Device::cuda_stream`]. A recorded launch runs in every launch of the graph: its pointers are taken
    /// while recording, and other memory stays allocated as long as the graph exists.
    pub unsafe fn run(self, args: Args) -> Result<()> {
        let pointer = std::ptr::from_ref(&args).cast();
        let call = || match self.kernel.call {
            // SAFETY: the caller's promise.
            Call::ByValue(call) => unsafe { call(args) },
            // SAFETY: the caller's promise; it reads the one struct.
            Call::ByPointer(call) => unsafe { call(pointer) },
        };
        // SAFETY: the caller's promise.
        unsafe { self.launch.run(pointer, &call) }
    }
}

impl<Args> fmt::Debug for Launch<'_, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({:?} on {})", self.kernel, self.device)
    }
}
