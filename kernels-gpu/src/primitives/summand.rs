//! Elements that are added up: numbers of 4 and 8 bytes.

use cuda_std::{mem::DeviceValue, warp::WarpShuffleValue};

/// The types of elements that scans, sorts and their relatives exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

/// A number that is added to others of its type.
pub trait Summand: DeviceValue + WarpShuffleValue {
    /// Its name in the keys of entries.
    const ELEMENT: ElementType;

    /// The sum: integers wrap, floating-point numbers are rounded.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

macro_rules! summands {
    ($($type:ty, $name:ident, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Summand for $type {
            const ELEMENT: ElementType = ElementType::$name;

            #[inline(always)]
            fn plus(self, $b: Self) -> Self {
                let $a = self;
                $sum
            }
        }
    )*};
}
summands! {
    u32, U32, |a, b| a.wrapping_add(b);
    u64, U64, |a, b| a.wrapping_add(b);
    f32, F32, |a, b| a + b;
    f64, F64, |a, b| a + b;
}

/// The same number in another type: `u32` as `u64` exactly, `u64` as `u32` modulo 2^32, and every type as itself.
#[inline(always)]
#[must_use]
pub fn convert<A: WarpShuffleValue, B: WarpShuffleValue>(value: A) -> B {
    B::from_words(value.to_words())
}
