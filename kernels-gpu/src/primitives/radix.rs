//! Keys and their digits, for sorts by digits.

use cuda_std::mem::DeviceValue;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Digits that there are.
pub const RADIX: u32 = 1 << DIGIT_BITS;

/// A key that can be sorted: an unsigned integer.
pub trait SortKey: DeviceValue {
    /// Its bits.
    const BITS: u32;
    /// The greatest.
    const MAX: Self;
    /// The bits from number `shift` on that are in `mask`.
    #[must_use]
    fn digit(self, shift: u32, mask: u32) -> u32;
}

macro_rules! keys {
    ($($type:ident)*) => {$(
        impl SortKey for $type {
            const BITS: u32 = $type::BITS;
            const MAX: Self = $type::MAX;

            #[inline(always)]
            fn digit(self, shift: u32, mask: u32) -> u32 {
                (self >> shift) as u32 & mask
            }
        }
    )*};
}
keys!(u32 u64);

/// The mask of the digit that begins at bit `shift`, of a key of which the bits from `end` on do not count.
#[inline(always)]
#[must_use]
pub const fn digit_mask(shift: u32, end: u32) -> u32 {
    let bits = if end - shift < DIGIT_BITS { end - shift } else { DIGIT_BITS };
    (1 << bits) - 1
}
