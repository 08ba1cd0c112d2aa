//! Floating-point numbers of 16 bits, and `f32` of them.

/// A format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The upper half of an `f32`: its exponents, and 8 digits.
    Bf16,
    /// 16-bit IEEE 754: 11 digits, up to 65504.
    F16,
}

/// A format of 16 bits, as kernels that are generic over it see it.
pub trait Half: Copy + 'static {
    /// Its name in the keys of entries.
    const FORMAT: Format;

    /// The number with these bits, exactly. Of a NaN some NaN.
    fn widen(bits: u16) -> f32;

    /// The bits of the nearest number, of two the even one. What is too large becomes infinite, and any NaN `0x7fff`, as by the instructions `cvt` of a GPU.
    fn narrow(number: f32) -> u16;
}

/// The bits of every NaN that is rounded.
const NAN: u16 = 0x7fff;

/// The bits of infinity in `f32`.
const INFINITY: u32 = 0x7f80_0000;

/// [`Format::Bf16`].
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

impl Half for Bf16 {
    const FORMAT: Format = Format::Bf16;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u16 {
        let bits = number.to_bits();
        if bits << 1 > INFINITY << 1 {
            return NAN;
        }
        // Half of the last place that stays, less 1 where that place is 0: a tie goes to the even number. A carry is the next exponent.
        ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
    }
}

/// [`Format::F16`].
#[derive(Clone, Copy, Debug)]
pub struct F16;

impl Half for F16 {
    const FORMAT: Format = Format::F16;

    /// One instruction, `cvt.f32.f16`.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f16::from_bits(bits) as f32
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        // The exponent is off by 127 - 15, also of numbers without a leading 1, which the multiplication normalises.
        const SCALE: f32 = f32::from_bits((127 + 127 - 15) << 23);
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff) << 13;
        let number = (f32::from_bits(magnitude) * SCALE).to_bits();
        // The largest exponent is that of infinity and NaN.
        let special = if bits & 0x7c00 == 0x7c00 { INFINITY } else { 0 };
        f32::from_bits(sign | number | special)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u16 {
        // 2^-14, the least with a leading 1.
        const NORMAL: u32 = (127 - 14) << 23;
        // One half, whose last place is 2^-24, the least number of this format.
        const HALF: f32 = 0.5;
        let sign = (number.to_bits() >> 16) as u16 & 0x8000;
        let magnitude = number.to_bits() & 0x7fff_ffff;
        if magnitude > INFINITY {
            return NAN;
        }
        let rounded = if magnitude < NORMAL {
            // The addition rounds to that last place, and to even. A carry is 2^-14.
            (f32::from_bits(magnitude) + HALF).to_bits() - HALF.to_bits()
        } else {
            let rebased = magnitude - ((127 - 15) << 23);
            // As in `Bf16`. Beyond the largest number is infinity.
            ((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13).min(0x7c00)
        };
        sign | rounded as u16
    }
}

/// The two numbers of a word, the lower half first.
#[inline(always)]
pub(super) fn widen<H: Half>(word: u32) -> [f32; 2] {
    [H::widen(word as u16), H::widen((word >> 16) as u16)]
}

/// A word of two numbers.
#[inline(always)]
pub(super) fn narrow<H: Half>(low: f32, high: f32) -> u32 {
    u32::from(H::narrow(low)) | u32::from(H::narrow(high)) << 16
}

/// A vector of numbers.
#[inline(always)]
pub(super) fn narrow_all<H: Half>(numbers: [f32; super::VECTOR]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = numbers;
    [narrow::<H>(a, b), narrow::<H>(c, d), narrow::<H>(e, f), narrow::<H>(g, h)]
}
