//! The generator of random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).

use crate::unroll::unroll;

/// The 16 bytes of a counter, with the seed as the key: random numbers that depend on nothing else.
#[inline(always)]
#[must_use]
pub fn philox([low, high]: [u64; 2], seed: u64) -> [u32; 4] {
    let mut counter = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    let mut key = [seed as u32, (seed >> 32) as u32];
    unroll!(ROUND in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
        if ROUND != 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let third = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (third >> 32) as u32 ^ counter[1] ^ key[0],
            third as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    });
    counter
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::philox;

    /// The known answers of Random123.
    #[test]
    fn philox_gives_the_published_numbers() {
        assert_eq!(philox([0, 0], 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u64::MAX, u64::MAX], u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e], 0x299f_31d0_a409_3822),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
