//! A function of every element of a vector, or of two: `z[i] = f(x[i])`, `z[i] = f(x[i], y[i])`, or a number for all.
//!
//! # Functions
//! Those of [`function`], with up to two numbers of the host or the device. Elementary functions are those of
//! [`math`](super::math), which give the same bits on every device.
//!
//! # Threads
//! A chunk of 16 bytes each.
//!
//! # Bytes moved
//! `n * sizeof T` for the result and for each vector that is read.
//!
//! # Safety
//! Every entry:
//! 1. `x`, `y` and `z`, where they are not null, are live global memory of `n` elements; `x` and `y` may be `z`. Nothing else accesses `z`
//!    during the launch, and nothing writes `x`, `y` and what the factors point to. Those that the function takes are not null.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::GpuFloat;

pub use super::chunk::{BLOCK_SIZE, grid_size};
use super::{
    chunk::{are_aligned, first, load, store},
    factor::Factor,
    math::Math,
};
use crate::{DType, args::args, family::family, unroll::unroll};

/// The functions: of `x`, `y` and the numbers `a` and `b`.
pub mod function {
    /// `a`.
    pub const FILL: u32 = 0;
    /// `|x|`.
    pub const ABS: u32 = 2;
    /// The root of `x`.
    pub const SQRT: u32 = 3;
    /// `1 / x`.
    pub const RECIP: u32 = 4;
    /// `e^x`.
    pub const EXP: u32 = 5;
    /// The natural logarithm of `x`.
    pub const LN: u32 = 6;
    /// The hyperbolic tangent of `x`.
    pub const TANH: u32 = 7;
    /// `1 / (1 + e^-x)`.
    pub const SIGMOID: u32 = 8;
    /// `x` where it is greater than 0 or a NaN, elsewhere `a * x`.
    pub const LEAKY_RELU: u32 = 9;
    /// `x + a`.
    pub const ADD_NUMBER: u32 = 10;
    /// `x * a`.
    pub const MUL_NUMBER: u32 = 11;
    /// `x`, at least `a` and at most `b`; a NaN stays one.
    pub const CLAMP: u32 = 12;
    /// 0 where `x` is less than 0, elsewhere `x`; a NaN stays one.
    pub const RELU: u32 = 13;
    /// The first function of two vectors.
    pub const OF_TWO: u32 = 16;
    /// `x + y`.
    pub const ADD: u32 = 16;
    /// `x - y`.
    pub const SUB: u32 = 17;
    /// `x * y`.
    pub const MUL: u32 = 18;
    /// `x / y`.
    pub const DIV: u32 = 19;
    /// The lesser of `x` and `y`; a NaN if either is one.
    pub const MIN: u32 = 20;
    /// The greater of `x` and `y`; a NaN if either is one.
    pub const MAX: u32 = 21;
}

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// One of [`function`].
        value function: u32,
        /// `n` elements, but for [`function::FILL`].
        read x: T [null or n as usize],
        /// `n` elements, for functions of two vectors.
        read y: T [null or n as usize],
        /// `n` elements.
        write z: T [n as usize],
        /// A number of the function.
        part a: Factor<T, A>,
        /// Another number of the function.
        part b: Factor<T, A>,
    }
}

family! {
    "vector_map", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    vector_map_f32(DType::F32): Args<f32> => map::<f32, 4>;
    vector_map_f64(DType::F64): Args<f64> => map::<f64, 2>;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn map<T: Math, const W: usize>(args: Args<T>) {
    let Args { n, function, x, y, z, .. } = args;
    // SAFETY: the chunks of all threads make up the vectors; the caller keeps the other rules.
    unsafe {
        let numbers = (args.a.load(), args.b.load());
        if are_aligned([x as usize, y as usize, z as usize]) {
            let at = first::<W>(1, 0);
            if at < n {
                let (of_x, of_y) = operands::<T, W>(function, x, y, at, n);
                store(z, at, n, values(function, of_x, of_y, numbers));
            }
        } else {
            // The same elements, one at a time.
            let mut k = 0;
            while k < W as u32 {
                let at = first::<1>(W as u32, k);
                if at < n {
                    let (of_x, of_y) = operands::<T, 1>(function, x, y, at, n);
                    store(z, at, n, values(function, of_x, of_y, numbers));
                }
                k += 1;
            }
        }
    }
}

/// The chunks of what the function takes.
///
/// # Safety
/// The rules at the head of this module, and those of [`load`].
#[inline(always)]
unsafe fn operands<T: Math, const W: usize>(
    function: u32,
    x: *const T,
    y: *const T,
    at: u64,
    n: u64,
) -> ([T; W], [T; W]) {
    // SAFETY: the caller's promise.
    unsafe {
        let of_x = if function == function::FILL { [T::ZERO; W] } else { load(x, at, n) };
        let of_y = if function >= function::OF_TWO { load(y, at, n) } else { [T::ZERO; W] };
        (of_x, of_y)
    }
}

/// The function's values. What it is is decided once for all elements.
#[inline(always)]
fn values<T: Math, const W: usize>(function: u32, x: [T; W], y: [T; W], (a, b): (T, T)) -> [T; W] {
    match function {
        function::FILL => each(x, y, |_, _| a),
        function::ABS => each(x, y, |x, _| absolute(x)),
        function::SQRT => each(x, y, |x, _| GpuFloat::sqrt(x)),
        function::RECIP => each(x, y, |x, _| T::ONE / x),
        function::EXP => each(x, y, |x, _| x.exp()),
        function::LN => each(x, y, |x, _| x.ln()),
        function::TANH => each(x, y, |x, _| x.tanh()),
        function::SIGMOID => each(x, y, |x, _| x.sigmoid()),
        function::LEAKY_RELU => each(x, y, |x, _| if x <= T::ZERO { a * x } else { x }),
        function::ADD_NUMBER => each(x, y, |x, _| x + a),
        function::MUL_NUMBER => each(x, y, |x, _| x * a),
        function::CLAMP => each(x, y, |x, _| clamp(x, a, b)),
        function::RELU => each(x, y, |x, _| if x < T::ZERO { T::ZERO } else { x }),
        function::ADD => each(x, y, |x, y| x + y),
        function::SUB => each(x, y, |x, y| x - y),
        function::MUL => each(x, y, |x, y| x * y),
        function::DIV => each(x, y, |x, y| x / y),
        function::MIN => each(x, y, |x, y| if x < y || is_nan(x) { x } else { y }),
        function::MAX => each(x, y, |x, y| if x > y || is_nan(x) { x } else { y }),
        _ => x,
    }
}

#[inline(always)]
fn each<T: Math, const W: usize>(x: [T; W], y: [T; W], function: impl Fn(T, T) -> T) -> [T; W] {
    let mut values = x;
    unroll!(E in [0, 1, 2, 3] {
        if (E as usize) < W {
            values[E as usize % W] = function(x[E as usize % W], y[E as usize % W]);
        }
    });
    values
}

#[inline(always)]
fn clamp<T: Math>(x: T, least: T, most: T) -> T {
    if x < least {
        least
    } else if x > most {
        most
    } else {
        x
    }
}

#[inline(always)]
fn absolute<T: Math>(x: T) -> T {
    // Also of -0, which is not less than 0.
    if x < T::ZERO { -x } else { x + T::ZERO }
}

#[inline(always)]
#[expect(clippy::eq_op, reason = "only a NaN is not itself")]
fn is_nan<T: Math>(x: T) -> bool {
    x != x
}
