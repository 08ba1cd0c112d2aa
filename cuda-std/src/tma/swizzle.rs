//! Permutations of 16-byte pieces, which spread the rows of a tile over the banks of shared memory.

/// How 16-byte pieces of a tile are permuted in shared memory: within a row of as many bytes, by the number of the row.
///
/// With rows of 128 bytes, piece `p` of row `r` lies where piece `p ^ (r % 8)` would. So eight rows have their pieces of one column in eight places of 16 bytes, and
/// can be read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Pieces stay where they are.
    None,
    /// Rows of 32 bytes: two pieces change places in every other group of four rows.
    Bytes32,
    /// Rows of 64 bytes: four pieces, permuted by the number of the pair of rows.
    Bytes64,
    /// Rows of 128 bytes: eight pieces, permuted by the number of the row.
    Bytes128,
}

impl Swizzle {
    /// All, by the length of their rows.
    pub const ALL: [Self; 4] = [Self::None, Self::Bytes32, Self::Bytes64, Self::Bytes128];

    /// Bytes of a row; 16 without a swizzle.
    #[inline(always)]
    #[must_use]
    pub const fn row_bytes(self) -> u32 {
        match self {
            Self::None => 16,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }

    /// Bytes after which the permutation repeats: eight rows. Tiles begin at multiples of it.
    #[inline(always)]
    #[must_use]
    pub const fn repeat_bytes(self) -> u32 {
        8 * self.row_bytes()
    }

    /// Where a byte of a tile lies, if it would lie at `byte` without the swizzle; both counted from the beginning of the tile.
    #[inline(always)]
    #[must_use]
    pub const fn place(self, byte: u32) -> u32 {
        byte ^ byte >> 3 & (self.row_bytes() - 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_rows_spread_one_column() {
        let places = |swizzle: Swizzle| -> Vec<u32> {
            (0..8).map(|row| swizzle.place(row * swizzle.row_bytes()) % swizzle.row_bytes() / 16).collect()
        };
        assert_eq!(places(Swizzle::None), [0; 8]);
        assert_eq!(places(Swizzle::Bytes32), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(places(Swizzle::Bytes64), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(places(Swizzle::Bytes128), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_swizzle_is_its_own_inverse_and_keeps_rows_and_pieces() {
        for swizzle in Swizzle::ALL {
            for byte in 0..4096 {
                let place = swizzle.place(byte);
                assert_eq!(swizzle.place(place), byte);
                assert_eq!((place / swizzle.row_bytes(), place % 16), (byte / swizzle.row_bytes(), byte % 16));
            }
        }
    }
}
