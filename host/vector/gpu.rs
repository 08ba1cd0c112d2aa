//! Launches of the kernel families `vector_*`, on a GPU or in the emulator.

use kernels_gpu::{
    args::Arguments,
    vector_axpby,
    vector_map::{self, function},
    vector_move::{self, Move},
    vector_random,
    vector_reduce::{self, ARRIVALS, PARTIALS, Workspace},
};

use super::{CastFrom, DeviceIndices, DeviceScalar, Factor, Map, Random, Reduction, Zip};
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Result, Scalar,
    device::{Found, KernelLaunch, Writable, launch},
};

pub(super) fn fill<T: Scalar>(y: DeviceSliceMut<'_, T>, value: Factor<'_, T>) -> Result<()> {
    run_map(y, function::FILL, Operand::None, Operand::None, value, Factor::of(T::default()))
}

pub(super) fn map<T: Scalar>(y: DeviceSliceMut<'_, T>, map: &Map<T>, x: Option<DeviceSlice<'_, T>>) -> Result<()> {
    let none = T::default();
    let (function, a, b) = match *map {
        Map::Abs => (function::ABS, none, none),
        Map::Sqrt => (function::SQRT, none, none),
        Map::Recip => (function::RECIP, none, none),
        Map::Exp => (function::EXP, none, none),
        Map::Ln => (function::LN, none, none),
        Map::Tanh => (function::TANH, none, none),
        Map::Sigmoid => (function::SIGMOID, none, none),
        Map::Relu => (function::RELU, none, none),
        Map::LeakyRelu(slope) => (function::LEAKY_RELU, slope, none),
        Map::Add(number) => (function::ADD_NUMBER, number, none),
        Map::Mul(number) => (function::MUL_NUMBER, number, none),
        Map::Clamp(least, most) => (function::CLAMP, least, most),
    };
    run_map(y, function, x.map_or(Operand::Itself, Operand::Vector), Operand::None, Factor::of(a), Factor::of(b))
}

pub(super) fn zip<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    zip: Zip,
    a: Option<DeviceSlice<'_, T>>,
    b: DeviceSlice<'_, T>,
) -> Result<()> {
    let function = match zip {
        Zip::Add => function::ADD,
        Zip::Sub => function::SUB,
        Zip::Mul => function::MUL,
        Zip::Div => function::DIV,
        Zip::Min => function::MIN,
        Zip::Max => function::MAX,
    };
    let none = Factor::of(T::default());
    run_map(y, function, a.map_or(Operand::Itself, Operand::Vector), Operand::Vector(b), none, none)
}

/// The operand of a function.
enum Operand<'a, T> {
    None,
    /// The elements that the result overwrites.
    Itself,
    Vector(DeviceSlice<'a, T>),
}

fn run_map<T: Scalar>(
    z: DeviceSliceMut<'_, T>,
    function: u32,
    x: Operand<'_, T>,
    y: Operand<'_, T>,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
) -> Result<()> {
    let n = z.len() as u64;
    let entry = vector_map::Key { dtype: T::DTYPE }.entry();
    let (queue, z) = z.into_writable();
    let is_z = matches!(x, Operand::Itself);
    let vector = |operand| match operand {
        Operand::None | Operand::Itself => Default::default(),
        Operand::Vector(slice) => slice.readable(),
    };
    let args = vector_map::Args { n, function, x: vector(x), y: vector(y), z, a: a.readable(), b: b.readable() };
    let mut launch = KernelLaunch::of_entry(queue, entry, blocks(vector_map::grid_size::<T>(n)));
    let mut args = args.bind(&mut launch);
    if is_z {
        args.x = args.z;
    }
    // SAFETY: all slices have n elements on this GPU, z is borrowed mutably, and every function has its operands.
    unsafe { launch.run_entry(entry, &args) }
}

pub(super) fn axpby<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: Option<DeviceSlice<'_, T>>,
    beta: Factor<'_, T>,
) -> Result<()> {
    let n = y.len() as u64;
    let entry = vector_axpby::Key { dtype: T::DTYPE, dot: false }.entry();
    let (queue, y) = y.into_writable();
    let args = axpby_args(n, alpha, x, beta, y);
    // SAFETY: both slices have n elements on this GPU, and y is borrowed mutably; without x, alpha is 0.
    unsafe { launch(queue, entry, blocks(vector_axpby::grid_size::<T>(n)), args) }
}

fn axpby_args<'a, T: Scalar>(
    n: u64,
    alpha: Factor<'a, T>,
    x: Option<DeviceSlice<'a, T>>,
    beta: Factor<'a, T>,
    y: Writable<'a, T>,
) -> vector_axpby::Args<T, KernelLaunch<'a>> {
    let x = x.map(DeviceSlice::readable).unwrap_or_default();
    vector_axpby::Args { n, alpha: alpha.readable(), x, beta: beta.readable(), y }
}

pub(super) fn axpby_dot<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: DeviceSlice<'_, T>,
    beta: Factor<'_, T>,
    z: Option<DeviceSlice<'_, T>>,
    result: &mut DeviceScalar<T>,
) -> Result<()> {
    let n = y.len() as u64;
    let entry = vector_axpby::Key { dtype: T::DTYPE, dot: true }.entry();
    let (queue, y) = y.into_writable();
    let mut workspace = SumWorkspace::of(queue)?;
    let args = vector_axpby::DotArgs {
        axpby: axpby_args(n, alpha, Some(x), beta, y),
        z: z.map(DeviceSlice::readable).unwrap_or_default(),
        result: result.vector_mut().writable(),
        workspace: workspace.writable(),
    };
    // SAFETY: all slices have n elements on this GPU, and what is written is borrowed mutably.
    unsafe { launch(queue, entry, blocks(vector_axpby::dot_grid_size::<T>(n, 2)), args) }
}

pub(super) fn dot<T: Scalar>(x: DeviceSlice<'_, T>, y: DeviceSlice<'_, T>, result: &mut DeviceScalar<T>) -> Result<()> {
    run_reduction(vector_reduce::Reduction::Dot, x, Some(y), result, None)
}

pub(super) fn reduce<T: Scalar>(
    x: DeviceSlice<'_, T>,
    reduction: Reduction,
    result: &mut DeviceScalar<T>,
) -> Result<()> {
    let reduction = match reduction {
        Reduction::Sum => vector_reduce::Reduction::Sum,
        Reduction::Norm1 => vector_reduce::Reduction::Norm1,
        Reduction::Norm2 => vector_reduce::Reduction::Norm2,
        Reduction::NormInf => vector_reduce::Reduction::NormInf,
    };
    run_reduction(reduction, x, None, result, None)
}

pub(super) fn extremum<T: Scalar>(
    x: DeviceSlice<'_, T>,
    is_max: bool,
    value: &mut DeviceScalar<T>,
    index: &mut DeviceScalar<u64>,
) -> Result<()> {
    let reduction = if is_max { vector_reduce::Reduction::Max } else { vector_reduce::Reduction::Min };
    run_reduction(reduction, x, None, value, Some(index))
}

fn run_reduction<T: Scalar>(
    reduction: vector_reduce::Reduction,
    x: DeviceSlice<'_, T>,
    y: Option<DeviceSlice<'_, T>>,
    result: &mut DeviceScalar<T>,
    index: Option<&mut DeviceScalar<u64>>,
) -> Result<()> {
    let (n, vectors) = (x.len() as u64, 1 + u32::from(y.is_some()));
    let entry = vector_reduce::Key { reduction, dtype: T::DTYPE }.entry();
    let (queue, result) = result.vector_mut().as_slice_mut().into_writable();
    let mut workspace = SumWorkspace::of(queue)?;
    let args = vector_reduce::Args {
        n,
        x: x.readable(),
        y: y.map(DeviceSlice::readable).unwrap_or_default(),
        result,
        index: index.map(|index| index.vector_mut().writable()).unwrap_or_default(),
        workspace: workspace.writable(),
    };
    // SAFETY: both slices have n elements on this GPU, and what is written is borrowed mutably.
    unsafe { launch(queue, entry, blocks(vector_reduce::grid_size::<T>(n, vectors)), args) }
}

pub(super) fn random<T: Scalar>(y: DeviceSliceMut<'_, T>, random: Random<T>) -> Result<()> {
    let n = y.len() as u64;
    let Random { seed, shift, factor, normal } = random;
    let entry = vector_random::Key { dtype: T::DTYPE, normal }.entry();
    let (queue, y) = y.into_writable();
    let args = vector_random::Args { n, seed, shift, factor, y };
    // SAFETY: the slice has n elements, and is borrowed mutably.
    unsafe { launch(queue, entry, blocks(vector_random::grid_size::<T>(n)), args) }
}

pub(super) fn assign<T: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, T>) -> Result<()> {
    let blocks = vector_move::copy_grid_size(y.len() as u64, size_of::<T>());
    run_cast(Move::Copy { bytes: size_of::<T>() }, blocks, y, x)
}

pub(super) fn cast<T: CastFrom<U>, U: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, U>) -> Result<()> {
    run_cast(T::CAST, vector_move::grid_size(y.len() as u64), y, x)
}

/// Launches an operation that converts a `U` to a `T`, or copies elements of the same size.
fn run_cast<T: Element, U: Element>(
    operation: Move,
    grid_size: u64,
    y: DeviceSliceMut<'_, T>,
    x: DeviceSlice<'_, U>,
) -> Result<()> {
    let entry = vector_move::Key { operation }.entry();
    let n = y.len() as u64;
    let (queue, y) = y.into_writable();
    let args = vector_move::CastArgs { n, x: x.readable(), y };
    // SAFETY: both slices have n elements on this GPU, and y is borrowed mutably. The entry is that for these types; what it copies may be of
    // any bits.
    unsafe { launch(queue, entry, blocks(grid_size), args) }
}

pub(super) fn gather<T: Element>(
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    run_move(Move::Gather { bytes: size_of::<T>() }, y, indices, x)
}

pub(super) fn scatter<T: Element>(
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    run_move(Move::Scatter { bytes: size_of::<T>() }, y, indices, x)
}

fn run_move<T: Element>(
    operation: Move,
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    let entry = vector_move::Key { operation }.entry();
    let n = indices.len() as u64;
    let (queue, y) = y.into_writable();
    let args = vector_move::Args { n, indices: indices.vector().readable(), x: x.readable(), y };
    // SAFETY: every index is within the vector that it is for, y is borrowed mutably, and where indices say what is written they
    // are distinct. The entry is that for elements of as many bytes, of which any bits are valid.
    unsafe { launch(queue, entry, blocks(vector_move::grid_size(n)), args) }
}

/// Where blocks leave their partial results: the stream's workspace.
pub(crate) struct SumWorkspace {
    partials: DeviceVec<f64>,
    arrivals: DeviceVec<u32>,
}

impl SumWorkspace {
    pub(crate) fn of(queue: &Device) -> Result<Self> {
        let partials = queue.workspace(Found::Anything, PARTIALS)?;
        Ok(Self { partials, arrivals: queue.workspace(Found::Zeros, ARRIVALS)? })
    }

    pub(crate) fn writable(&mut self) -> Workspace<KernelLaunch<'_>> {
        Workspace { partials: self.partials.writable(), arrivals: self.arrivals.writable() }
    }
}

/// Returns the grid size. No memory holds enough elements for 2^31 blocks.
fn blocks(grid_size: u64) -> u32 {
    grid_size as u32
}
