//! The entry points of a family, and the table of them.

/// `entries! { name(Args): T, O, LANES lanes, block_size, "doc" => body; ... }` makes of each line an entry point that
/// calls `body` with its arguments, and the table `VARIANTS` of all of them. `block_size; bytes` is for kernels with dynamic shared
/// memory.
///
/// # Safety
/// The body takes `Args` by value, and its rules are those at the head of the module.
macro_rules! entries {
    ($($entry:ident($Args:ty): $dtype:expr, $offset:ty, $lanes:literal lanes, $block_size:expr $(; $shared_bytes:expr)?, $doc:literal => $body:expr;)*) => {
        /// One row an entry point.
        pub const VARIANTS: &[$crate::Variant] = &[$($crate::Variant {
            entry: stringify!($entry),
            dtype: $dtype,
            offset_bytes: size_of::<$offset>(),
            block_size: $block_size,
            dynamic_shared_bytes: 0 $(+ $shared_bytes)?,
            lanes: $lanes,
            args_bytes: size_of::<$Args>(),
            // SAFETY: whoever calls it passes a pointer to these arguments, and keeps the kernel's rules.
            #[cfg(not(target_arch = "nvptx64"))]
            call: |args| unsafe { $entry(*args.cast::<$Args>()) },
        }),*];
        $(
            #[doc = $doc]
            ///
            /// # Safety
            /// The rules at the head of this module.
            #[cuda_std::kernel]
            pub unsafe fn $entry(args: $Args) {
                // SAFETY: the caller keeps the same rules.
                unsafe { $body(args) }
            }
        )*
    };
}
pub(crate) use entries;
