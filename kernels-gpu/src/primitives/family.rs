//! What the host must know of a kernel to launch it: the macro [`family!`] declares it together with the kernels.

/// A PTX module: the kernels of one source file.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The file's name, the PTX module's name and the prefix of every entry.
    pub name: &'static str,
    /// Its entry points.
    pub entries: &'static [Entry],
}

/// An entry point of a family.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The family's name.
    pub family: &'static str,
    /// The entry's name in the PTX.
    pub name: &'static str,
    /// Threads per block.
    pub block_size: u32,
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
    /// Bytes of the one argument, a `#[repr(C)]` struct passed by value.
    pub args_bytes: usize,
    /// The kernel as a function of the host, for the grid emulator: takes a pointer to the argument struct.
    pub call: unsafe fn(*const ()),
}

/// Declares a family: the type of the keys that tell its entries apart, and an entry a line, with its key, its argument struct
/// and its body.
///
/// ```ignore
/// family! {
///     "vector_scale", blocks of BLOCK_SIZE;
///     /// The type of the elements.
///     pub struct Key { dtype: DType }
///
///     vector_scale_f32(DType::F32): Args<f32> => scale::<f32>;
///     vector_scale_f64(DType::F64): Args<f64> => scale::<f64>;
/// }
/// ```
///
/// A line makes the entry point `vector_scale_f32`, which calls `scale::<f32>(args)`. The host finds it by
/// `Key { dtype: DType::F32 }.entry()`, all keys in `KEYS`, and the family as `FAMILY`. For blocks of another size, or with
/// dynamic shared memory, a line goes on after the arguments: `Args<f32>, blocks of 32, shared bytes 1024 => ...`.
///
/// Only the build of this family makes entry points for a GPU: that with `--cfg kernel_family="vector_scale"`.
///
/// # Safety
/// The body takes the arguments by value, and its rules are those at the head of the module.
#[macro_export]
macro_rules! family {
    (@last $value:expr) => {
        $value
    };
    (@last $default:expr, $value:expr) => {
        $value
    };
    (
        $family:literal, blocks of $block_size:expr;
        $(#[$about:meta])*
        pub struct Key { $($(#[$doc:meta])* $part:ident: $Part:ty),* $(,)? }
        $(
            $entry:ident($($value:expr),*): $Args:ty
                $(, blocks of $own_size:expr)? $(, shared bytes $shared_bytes:expr)? => $body:expr;
        )*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Key {
            $($(#[$doc])* pub $part: $Part,)*
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl Key {
            const fn new($($part: $Part),*) -> Self {
                Self { $($part),* }
            }

            /// The entry of this key.
            ///
            /// # Panics
            /// If there is none.
            #[must_use]
            pub fn entry(self) -> &'static $crate::Entry {
                let place = KEYS.iter().position(|key| *key == self);
                &FAMILY.entries[place.unwrap_or_else(|| panic!("{} has no entry {self:?}", FAMILY.name))]
            }
        }

        /// The key of each entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const KEYS: &[Key] = &[$(Key::new($($value),*)),*];

        /// The family.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const FAMILY: $crate::Family = $crate::Family {
            name: $family,
            entries: &[$($crate::Entry {
                family: $family,
                name: stringify!($entry),
                block_size: $crate::family!(@last $block_size $(, $own_size)?),
                dynamic_shared_bytes: $crate::family!(@last 0 $(, $shared_bytes)?),
                args_bytes: size_of::<$Args>(),
                // SAFETY: whoever calls it passes a pointer to these arguments, and keeps the kernel's rules.
                call: |args| unsafe { $entry(*args.cast::<$Args>()) },
            }),*],
        };

        $(
            #[doc = concat!("`", stringify!($body), "`, as the head of this module says.")]
            ///
            /// # Safety
            /// The rules at the head of this module.
            #[cfg(any(not(target_arch = "nvptx64"), kernel_family = $family))]
            #[cuda_std::kernel]
            pub unsafe fn $entry(args: $Args) {
                let body = $body;
                // SAFETY: the caller keeps the same rules.
                unsafe { body(args) }
            }
        )*
    };
}
pub(crate) use family;
