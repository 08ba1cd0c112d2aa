//! Argument structs: one declaration for the kernel, which gets addresses, and for the host, which has arrays in their place.

use cuda_std::mem::DeviceValue;

/// What stands for the arrays in an argument struct.
pub trait Arrays {
    /// An array that the kernel only reads.
    type Read<T: DeviceValue>;
    /// An array that the kernel writes.
    type Write<T: DeviceValue>;
}

/// What a kernel gets.
#[derive(Clone, Copy, Debug)]
pub struct Addresses;

impl Arrays for Addresses {
    type Read<T: DeviceValue> = *const T;
    type Write<T: DeviceValue> = *mut T;
}

/// A launch that is told which arrays its kernel touches.
pub trait Bind: Arrays {
    /// The address of an array that the kernel only reads, known as `name` in reports, of at least `len` elements. May be null where
    /// `or_null` says so.
    fn read<T: DeviceValue>(&mut self, name: &'static str, array: Self::Read<T>, need: Need) -> *const T;

    /// As [`read`](Self::read), for an array that the kernel writes.
    fn write<T: DeviceValue>(&mut self, name: &'static str, array: Self::Write<T>, need: Need) -> *mut T;
}

/// An argument struct with what the launch `A` has for arrays.
pub trait Arguments<A> {
    /// The same with addresses: what the kernel gets.
    type Bound: Copy;

    /// Tells the launch of every array. It checks that each is long enough.
    fn bind(self, launch: &mut A) -> Self::Bound;
}

/// How long an array has to be.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Elements, at least.
    pub elements: usize,
    /// Whether there may be no array.
    pub or_null: bool,
}

/// Declares an argument struct, of fields of four kinds:
///
/// ```ignore
/// args! {
///     /// The arguments of every entry, passed by value.
///     pub struct Args<T> {
///         /// Elements.
///         value n: u32,
///         /// The factor.
///         part factor: Factor<T, A>,
///         /// `n` elements.
///         read x: T [n as usize],
///         /// `n` elements, or null for those of `x`.
///         read z: T [null or n as usize],
///         /// Of as many elements as the caller sees to.
///         write y: T,
///     }
/// }
/// ```
///
/// `Args<T>` is what the kernel gets: `#[repr(C)]`, with addresses (`x: *const T`, `y: *mut T`). `Args<T, A>` is the same with whatever
/// the launch `A` has for arrays, and [`bind`](Arguments::bind) turns it into the first: it names every array to the launch, which
/// checks its length. A part is another such struct.
#[macro_export]
macro_rules! args {
    (@field value $T:ty, $A:ident) => { $T };
    (@field part $T:ty, $A:ident) => { $T };
    (@field read $T:ty, $A:ident) => { $A::Read<$T> };
    (@field write $T:ty, $A:ident) => { $A::Write<$T> };

    (@bound $launch:ident, value $name:ident) => { $name };
    (@bound $launch:ident, part $name:ident) => { $crate::args::Arguments::bind($name, $launch) };
    (@bound $launch:ident, $access:ident $name:ident) => { $crate::args!(@bound $launch, $access $name [null or 0]) };
    (@bound $launch:ident, $access:ident $name:ident [null or $elements:expr]) => {
        $launch.$access(stringify!($name), $name, $crate::args::Need { elements: $elements, or_null: true })
    };
    (@bound $launch:ident, $access:ident $name:ident [$elements:expr]) => {
        $launch.$access(stringify!($name), $name, $crate::args::Need { elements: $elements, or_null: false })
    };

    (
        $(#[$about:meta])*
        pub struct $Args:ident$(<$($P:ident$(: $Bound:path)?),+>)? {
            $($(#[$doc:meta])* $kind:ident $name:ident: $T:ty $([$($need:tt)+])?),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[repr(C)]
        pub struct $Args<$($($P: cuda_std::mem::DeviceValue $(+ $Bound)?,)+)? A: $crate::args::Arrays = $crate::args::Addresses> {
            $($(#[$doc])* pub $name: $crate::args!(@field $kind $T, A),)*
        }

        impl$(<$($P: cuda_std::mem::DeviceValue $(+ $Bound)?),+>)? Clone for $Args$(<$($P),+>)? {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl$(<$($P: cuda_std::mem::DeviceValue $(+ $Bound)?),+>)? Copy for $Args$(<$($P),+>)? {}

        impl$(<$($P: cuda_std::mem::DeviceValue $(+ $Bound)?),+>)? core::fmt::Debug for $Args$(<$($P),+>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($Args))$(.field(stringify!($name), &self.$name))*.finish()
            }
        }

        impl<$($($P: cuda_std::mem::DeviceValue $(+ $Bound)?,)+)? A: $crate::args::Bind> $crate::args::Arguments<A>
            for $Args<$($($P,)+)? A>
        {
            type Bound = $Args$(<$($P),+>)?;

            #[allow(unused_variables, reason = "only the lengths of arrays need some of the fields")]
            fn bind(self, launch: &mut A) -> Self::Bound {
                let Self { $($name),* } = self;
                $Args { $($name: $crate::args!(@bound launch, $kind $name $([$($need)+])?)),* }
            }
        }
    };
}
pub(crate) use args;
