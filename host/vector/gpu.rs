//! Launches of the kernel families `vector_*`, on a GPU or in the emulator.

use std::ptr;

use kernels_gpu::{
    Variant,
    vector::{
        factor::Factor as KernelFactor,
        vector_axpby, vector_map,
        vector_map::function,
        vector_move, vector_random, vector_reduce,
        vector_reduce::{ARRIVALS, PARTIALS, Workspace},
    },
};

use super::{CastFrom, DeviceIndices, DeviceScalar, Factor, Map, Random, Reduction, Zip};
use crate::{
    DType, Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Result, Scalar,
    device::{Found, KernelLaunch},
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

/// What a function takes.
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
    let variant = variant_of(vector_map::VARIANTS, "vector_map", T::DTYPE);
    let (queue, buffer, first) = z.into_parts();
    let mut launch = launch_of(queue, "vector_map", variant, vector_map::grid_size::<T>(n));
    let z = launch.write("z", buffer, queue).wrapping_add(first);
    let mut address = |name, operand| match operand {
        Operand::None => ptr::null(),
        Operand::Itself => z.cast_const(),
        Operand::Vector(slice) => launch.read_slice(name, slice),
    };
    let (x, y) = (address("x", x), address("y", y));
    let args =
        vector_map::Args { n, function, x, y, z, a: factor(&mut launch, "a", a), b: factor(&mut launch, "b", b) };
    // SAFETY: all slices have n elements on this GPU, z is borrowed mutably, and every function has got what it takes.
    unsafe { launch.run_variant(variant, &args) }
}

pub(super) fn axpby<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: Option<DeviceSlice<'_, T>>,
    beta: Factor<'_, T>,
) -> Result<()> {
    let n = y.len() as u64;
    let variant = variant_of(vector_axpby::VARIANTS, "vector_axpby", T::DTYPE);
    let (queue, buffer, first) = y.into_parts();
    let mut launch = launch_of(queue, "vector_axpby", variant, vector_axpby::grid_size::<T>(n));
    let y = launch.write("y", buffer, queue).wrapping_add(first);
    let args = axpby_args(&mut launch, n, alpha, x, beta, y);
    // SAFETY: both slices have n elements on this GPU, and y is borrowed mutably; without x, alpha is 0.
    unsafe { launch.run_variant(variant, &args) }
}

fn axpby_args<'a, T: Scalar>(
    launch: &mut KernelLaunch<'a>,
    n: u64,
    alpha: Factor<'a, T>,
    x: Option<DeviceSlice<'a, T>>,
    beta: Factor<'a, T>,
    y: *mut T,
) -> vector_axpby::Args<T> {
    let x = x.map_or(ptr::null(), |x| launch.read_slice("x", x));
    vector_axpby::Args { n, alpha: factor(launch, "alpha", alpha), x, beta: factor(launch, "beta", beta), y }
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
    let variant = variant_of(vector_axpby::VARIANTS, "vector_axpby_dot", T::DTYPE);
    let (queue, buffer, first) = y.into_parts();
    let mut workspace = Borrowed::of(queue)?;
    let (result_queue, result) = result.vector_mut().parts_mut();
    let mut launch = launch_of(queue, "vector_axpby", variant, vector_axpby::dot_grid_size::<T>(n, 2));
    let y = launch.write("y", buffer, queue).wrapping_add(first);
    let axpby = axpby_args(&mut launch, n, alpha, Some(x), beta, y);
    let z = z.map_or(ptr::null(), |z| launch.read_slice("z", z));
    let result = launch.write("result", result, result_queue);
    let args = vector_axpby::DotArgs { axpby, z, result, workspace: workspace.addresses(&mut launch) };
    // SAFETY: all slices have n elements on this GPU, and what is written is borrowed mutably.
    unsafe { launch.run_variant(variant, &args) }
}

pub(super) fn dot<T: Scalar>(x: DeviceSlice<'_, T>, y: DeviceSlice<'_, T>, result: &mut DeviceScalar<T>) -> Result<()> {
    run_reduction("vector_reduce_dot", x, Some(y), result, None)
}

pub(super) fn reduce<T: Scalar>(
    x: DeviceSlice<'_, T>,
    reduction: Reduction,
    result: &mut DeviceScalar<T>,
) -> Result<()> {
    let entry = match reduction {
        Reduction::Sum => "vector_reduce_sum",
        Reduction::Norm1 => "vector_reduce_norm1",
        Reduction::Norm2 => "vector_reduce_norm2",
        Reduction::NormInf => "vector_reduce_norm_inf",
    };
    run_reduction(entry, x, None, result, None)
}

pub(super) fn extremum<T: Scalar>(
    x: DeviceSlice<'_, T>,
    is_max: bool,
    value: &mut DeviceScalar<T>,
    index: &mut DeviceScalar<u64>,
) -> Result<()> {
    let entry = if is_max { "vector_reduce_max" } else { "vector_reduce_min" };
    run_reduction(entry, x, None, value, Some(index))
}

fn run_reduction<T: Scalar>(
    entry: &str,
    x: DeviceSlice<'_, T>,
    y: Option<DeviceSlice<'_, T>>,
    result: &mut DeviceScalar<T>,
    index: Option<&mut DeviceScalar<u64>>,
) -> Result<()> {
    let n = x.len() as u64;
    let variant = variant_of(vector_reduce::VARIANTS, entry, T::DTYPE);
    let (queue, result) = result.vector_mut().parts_mut();
    let mut workspace = Borrowed::of(queue)?;
    let index = index.map(|index| index.vector_mut().parts_mut());
    let vectors = 1 + u32::from(y.is_some());
    let mut launch = launch_of(queue, "vector_reduce", variant, vector_reduce::grid_size::<T>(n, vectors));
    let args = vector_reduce::Args {
        n,
        x: launch.read_slice("x", x),
        y: y.map_or(ptr::null(), |y| launch.read_slice("y", y)),
        result: launch.write("result", result, queue),
        index: index.map_or(ptr::null_mut(), |(queue, index)| launch.write("index", index, queue)),
        workspace: workspace.addresses(&mut launch),
    };
    // SAFETY: both slices have n elements on this GPU, and what is written is borrowed mutably.
    unsafe { launch.run_variant(variant, &args) }
}

pub(super) fn random<T: Scalar>(y: DeviceSliceMut<'_, T>, random: Random<T>) -> Result<()> {
    let n = y.len() as u64;
    let entry = if random.normal { "vector_random_normal" } else { "vector_random_uniform" };
    let variant = variant_of(vector_random::VARIANTS, entry, T::DTYPE);
    let (queue, buffer, first) = y.into_parts();
    let mut launch = launch_of(queue, "vector_random", variant, vector_random::grid_size::<T>(n));
    let Random { seed, shift, factor, .. } = random;
    let y = launch.write("y", buffer, queue).wrapping_add(first);
    // SAFETY: the slice has n elements, and is borrowed mutably.
    unsafe { launch.run_variant(variant, &vector_random::Args { n, seed, shift, factor, y }) }
}

pub(super) fn assign<T: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, T>) -> Result<()> {
    let blocks = vector_move::copy_grid_size(y.len() as u64, size_of::<T>());
    run_cast(&format!("vector_move_copy_{}", size_of::<T>()), blocks, y, x)
}

pub(super) fn cast<T: CastFrom<U>, U: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, U>) -> Result<()> {
    run_cast(T::ENTRY, vector_move::grid_size(y.len() as u64), y, x)
}

/// An entry that takes a `U` and gives a `T`, or copies elements of as many bytes.
fn run_cast<T: Element, U: Element>(
    entry: &str,
    blocks: u64,
    y: DeviceSliceMut<'_, T>,
    x: DeviceSlice<'_, U>,
) -> Result<()> {
    let variant = entry_of(vector_move::VARIANTS, entry);
    let n = y.len() as u64;
    let (queue, buffer, first) = y.into_parts();
    let mut launch = launch_of(queue, "vector_move", variant, blocks);
    let y = launch.write("y", buffer, queue).wrapping_add(first);
    let args = vector_move::CastArgs { n, x: launch.read_slice("x", x), y };
    // SAFETY: both slices have n elements on this GPU, and y is borrowed mutably. The entry is that for these types; what it copies may be of
    // any bits.
    unsafe { launch.run_variant(variant, &args) }
}

pub(super) fn gather<T: Element>(
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    run_move("vector_move_gather", y, indices, x)
}

pub(super) fn scatter<T: Element>(
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    run_move("vector_move_scatter", y, indices, x)
}

fn run_move<T: Element>(
    entry: &str,
    y: DeviceSliceMut<'_, T>,
    indices: &DeviceIndices,
    x: DeviceSlice<'_, T>,
) -> Result<()> {
    let variant = entry_of(vector_move::VARIANTS, &format!("{entry}_{}", size_of::<T>()));
    let n = indices.len() as u64;
    let (queue, buffer, first) = y.into_parts();
    let mut launch = launch_of(queue, "vector_move", variant, vector_move::grid_size(n));
    let y = launch.write("y", buffer, queue).wrapping_add(first);
    let indices = launch.read_slice("indices", indices.vector().into());
    let args = vector_move::Args { n, indices, x: launch.read_slice("x", x), y };
    // SAFETY: every index is within the vector that it is for, y is borrowed mutably, and where indices say what is written they
    // are distinct. The entry is that for elements of as many bytes, of which any bits are valid.
    unsafe { launch.run_variant(variant, &args) }
}

/// Where blocks leave what they have found: the queue's own memory.
struct Borrowed {
    partials: DeviceVec<f64>,
    arrivals: DeviceVec<u32>,
}

impl Borrowed {
    fn of(queue: &Device) -> Result<Self> {
        let partials = queue.workspace(Found::Anything, PARTIALS)?;
        Ok(Self { partials, arrivals: queue.workspace(Found::Zeros, ARRIVALS)? })
    }

    fn addresses<'a>(&'a mut self, launch: &mut KernelLaunch<'a>) -> Workspace {
        let (queue, partials) = self.partials.parts_mut();
        let partials = launch.write("partials", partials, queue);
        let (queue, arrivals) = self.arrivals.parts_mut();
        Workspace { partials, arrivals: launch.write("arrivals", arrivals, queue) }
    }
}

/// A launch; no memory holds as many elements as would take 2^31 blocks.
fn launch_of<'a>(queue: &'a Device, family: &'static str, variant: &'static Variant, blocks: u64) -> KernelLaunch<'a> {
    KernelLaunch::of_family(queue, family, variant, blocks as u32)
}

fn factor<'a, T: Scalar>(launch: &mut KernelLaunch<'a>, name: &str, factor: Factor<'a, T>) -> KernelFactor<T> {
    let (value, numerator, denominator) = factor.parts();
    let mut address = |scalar: Option<&'a DeviceScalar<T>>| {
        scalar.map_or(ptr::null(), |scalar| launch.read_slice(name, scalar.vector().into()))
    };
    KernelFactor { value, numerator: address(numerator), denominator: address(denominator) }
}

fn variant_of(variants: &'static [Variant], entry: &str, dtype: DType) -> &'static Variant {
    let suffix = match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
    };
    entry_of(variants, &format!("{entry}_{suffix}"))
}

fn entry_of(variants: &'static [Variant], entry: &str) -> &'static Variant {
    variants.iter().find(|variant| variant.entry == entry).expect("the family has this entry")
}
