//! What the host must know of a kernel to launch it.

use cuda_std::GpuFloat;

/// A PTX module: the kernels of one source file.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The file's name, the PTX module's name and the prefix of every entry.
    pub name: &'static str,
    /// One row an entry point.
    pub variants: &'static [Variant],
}

/// One entry point of a family.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The entry's name in the PTX.
    pub entry: &'static str,
    /// The element type of matrix and vectors; none where the kernel touches no elements.
    pub dtype: Option<DType>,
    /// Threads per block.
    pub block_size: u32,
    /// Threads that share a row, or the piece of work that takes a row's place.
    pub lanes: u32,
    /// Bytes of the one argument, a `#[repr(C)]` struct passed by value.
    pub args_bytes: usize,
    /// The kernel as a function of the host, for the grid emulator: takes a pointer to the argument struct.
    #[cfg(not(target_arch = "nvptx64"))]
    pub call: unsafe fn(*const ()),
}

/// The element types that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit IEEE 754.
    F32,
    /// 64-bit IEEE 754.
    F64,
}

/// A type with kernels of its own.
pub trait Scalar: GpuFloat {
    /// Its name in the variant tables.
    const DTYPE: DType;
}

impl Scalar for f32 {
    const DTYPE: DType = DType::F32;
}

impl Scalar for f64 {
    const DTYPE: DType = DType::F64;
}
