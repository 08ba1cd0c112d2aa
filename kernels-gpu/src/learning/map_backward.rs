//! The chain rule for a function of every element: `g[i] = f'(x[i]) * g[i]`.
//!
//! # The mathematics
//! The derivatives of the functions of [`function`]. Where the derivative is 0, so is the result, even if `g[i]` is not finite. Those of the hyperbolic tangent and of the
//! sigmoid function are computed from `e^-|x|`, so that nothing cancels or overflows. Elementary functions are those of [`math`](crate::math).
//!
//! # Threads
//! An element each.
//!
//! # Bytes moved
//! `3 * n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses `g` during the launch, and nothing writes `x`.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{GpuFloat, mem};

use crate::{DType, args::args, family::family, grid::thread_index, math::Math};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// The functions, of `x` and the numbers `a` and `b`.
pub mod function {
    /// `|x|`, with derivative 0 at 0.
    pub const ABS: u32 = 0;
    /// The root of `x`.
    pub const SQRT: u32 = 1;
    /// `1 / x`.
    pub const RECIP: u32 = 2;
    /// `e^x`.
    pub const EXP: u32 = 3;
    /// The natural logarithm of `x`.
    pub const LN: u32 = 4;
    /// The hyperbolic tangent of `x`.
    pub const TANH: u32 = 5;
    /// `1 / (1 + e^-x)`.
    pub const SIGMOID: u32 = 6;
    /// `a * x` for `x` of at most 0, elsewhere `x`; with derivative `a` at 0.
    pub const LEAKY_RELU: u32 = 7;
    /// `a * x` plus any number.
    pub const LINEAR: u32 = 8;
    /// `x`, at least `a` and at most `b`; with derivative 1 at both.
    pub const CLAMP: u32 = 9;
}

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// One of [`function`].
        value function: u32,
        /// A number of the function.
        value a: T,
        /// Another number of the function.
        value b: T,
        /// `n` elements.
        read x: T [n as usize],
        /// `n` elements: the gradients for the values of the function, which become those for its arguments.
        write g: T [n as usize],
    }
}

family! {
    "map_backward", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    map_backward_f32(DType::F32): Args<f32> => map_backward::<f32>;
    map_backward_f64(DType::F64): Args<f64> => map_backward::<f64>;
}

/// Blocks for `n` elements.
#[must_use]
pub const fn grid_size(n: u64) -> u64 {
    n.div_ceil(BLOCK_SIZE as u64)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn map_backward<T: Math>(args: Args<T>) {
    let Args { n, function, a, b, x, g } = args;
    let i = thread_index::<BLOCK_SIZE>();
    if i < n {
        let i = i as usize;
        // SAFETY: i < n, and no other thread has this element.
        unsafe {
            let slope = derivative(function, mem::load(x.add(i)), a, b);
            let gradient = if slope == T::ZERO { T::ZERO } else { slope * mem::load(g.add(i)) };
            mem::store(g.add(i), gradient);
        }
    }
}

/// The function's derivative at `x`.
#[inline(always)]
fn derivative<T: Math>(function: u32, x: T, a: T, b: T) -> T {
    let magnitude = if x < T::ZERO { -x } else { x };
    let two = T::ONE + T::ONE;
    // The slope of the sigmoid function; that of the hyperbolic tangent is 4 times it, at 2 x.
    let bell = |magnitude: T| {
        let t = (-magnitude).exp();
        t / ((T::ONE + t) * (T::ONE + t))
    };
    match function {
        function::ABS => {
            if x > T::ZERO {
                T::ONE
            } else if x < T::ZERO {
                -T::ONE
            } else {
                // A NaN stays one.
                x * T::ZERO
            }
        }
        function::SQRT => T::ONE / (two * GpuFloat::sqrt(x)),
        function::RECIP => -(T::ONE / x) / x,
        function::EXP => x.exp(),
        function::LN => T::ONE / x,
        function::TANH => two * two * bell(two * magnitude),
        function::SIGMOID => bell(magnitude),
        function::LEAKY_RELU => {
            if x <= T::ZERO {
                a
            } else {
                T::ONE
            }
        }
        function::CLAMP => {
            if x < a || x > b {
                T::ZERO
            } else {
                T::ONE
            }
        }
        _ => a,
    }
}
