//! Loops that must be unrolled in the source.

/// `unroll!(k in [0, 1, 2] { body })` is the body once for each number, in order, with `k` a constant.
///
/// LLVM does not unroll a loop that holds inline PTX, and an array indexed by a loop variable would go to local memory.
#[macro_export]
macro_rules! unroll {
    ($k:ident in [$($number:literal),*] $body:block) => {
        $({
            const $k: u32 = $number;
            $body
        })*
    };
}
pub(crate) use unroll;
