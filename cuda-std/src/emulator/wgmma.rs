//! Products by a warpgroup, from matrices in shared memory.

use super::{
    access::SharedAddress,
    proxy::Kind,
    report::FindingKind,
    shadow::{Access, Touch},
    thread::{Place, Thread},
    tma::PIECE,
    warpgroup::WARPGROUP,
};
use crate::tma::Swizzle;

/// Rows of `A`, columns of `B`, and the bytes of a row or a column that a product takes.
const ROWS: usize = 64;
const COLUMNS: usize = 128;
const BYTES: u32 = 32;

/// The numbers of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Tf32,
    Bf16,
    F16,
}

/// Where an operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(super) start: SharedAddress,
    pub(super) leading: u32,
    pub(super) stride: u32,
    pub(super) swizzle: Swizzle,
}

impl Descriptor {
    /// Where 16 bytes of a row of `A`, or of a column of `B`, lie: the first or the second.
    fn piece(self, row: u32, piece: u32) -> SharedAddress {
        let group = self.start.byte + row / 8 * self.stride;
        let byte = match self.swizzle {
            Swizzle::None => group + row % 8 * PIECE + piece * self.leading,
            swizzle => swizzle.place(group + row % 8 * swizzle.row_bytes() + piece * PIECE),
        };
        SharedAddress { byte, ..self.start }
    }

    /// What is wrong with it, whatever lies there.
    fn problem(self) -> Option<(FindingKind, String)> {
        let (row, repeat) = (self.swizzle.row_bytes(), self.swizzle.repeat_bytes());
        let start = self.start.byte;
        if [self.leading, self.stride].iter().any(|&bytes| !bytes.is_multiple_of(PIECE) || bytes >= 1 << 18) {
            let message =
                format!("distances of {} and {} bytes: they are multiples of 16 below 2^18", self.leading, self.stride);
            return Some((FindingKind::InvalidArgument, message));
        }
        let message = match self.swizzle {
            _ if !start.is_multiple_of(PIECE) => format!("an operand begins at byte {start}, which is not a multiple of 16"),
            Swizzle::None => return None,
            _ if self.start.array != 0 => {
                "a swizzled operand is in an array that is aligned to 16 bytes only: it must be in the dynamic shared memory".into()
            }
            _ if start % repeat >= row || !self.stride.is_multiple_of(repeat) => format!(
                "an operand begins at byte {start}, with {} bytes between groups of rows: with a swizzle of {row} bytes it begins in the \
                 first row of {repeat} bytes, and the distance is a multiple of them",
                self.stride
            ),
            _ if start % row + BYTES > row => format!("an operand begins at byte {} of rows of {row} bytes, and takes {BYTES}", start % row),
            _ => return None,
        };
        Some((FindingKind::Misaligned, message))
    }
}

impl Numbers {
    /// The numbers in a word.
    fn of_word(self, word: u32) -> impl Iterator<Item = f32> {
        let (first, second) = match self {
            Self::Tf32 => (f32::from_bits(word & !0x1fff), None),
            Self::Bf16 => (f32::from_bits(word << 16), Some(f32::from_bits(word & 0xffff_0000))),
            Self::F16 => (of_f16(word as u16), Some(of_f16((word >> 16) as u16))),
        };
        core::iter::once(first).chain(second)
    }
}

/// The number of half precision with these bits.
fn of_f16(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), u32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction as f32 * 2f32.powi(-24),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(((exponent + 112) as u32) << 23 | fraction << 13),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

impl Thread {
    /// Adds the products to the sums of the threads of the warpgroup, all of which have come.
    pub(super) fn multiply(&self, numbers: Numbers, products: &[(Descriptor, Descriptor)], region: u32, place: Place) {
        let number = self.linear / WARPGROUP;
        let touch = Touch::AsyncLoad(self.actor(Kind::Product, number, region - 1, place));
        let first = (number * WARPGROUP) as usize;
        let threads = &self.block().threads[first..first + WARPGROUP as usize];
        let mut sums = vec![[0f32; COLUMNS]; ROWS];
        each_element(|thread, i, row, column| sums[row][column] = threads[thread].sums.get()[i]);
        let mut writes = Vec::new();
        for &(a, b) in products {
            let a = self.operand(numbers, a, ROWS, touch, &mut writes, place);
            let b = self.operand(numbers, b, COLUMNS, touch, &mut writes, place);
            for (sums, a) in sums.iter_mut().zip(&a) {
                for (sum, b) in sums.iter_mut().zip(&b) {
                    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
                    *sum = (f64::from(*sum) + products.sum::<f64>()) as f32;
                }
            }
        }
        // The operands were there for this thread. The others read them too.
        for thread in threads {
            for &write in &writes {
                if !write.is_before(thread) {
                    let message = "an operand of the product is not known to be there by this thread of the warpgroup";
                    let kind =
                        if Kind::of(write.block).is_some() { FindingKind::CopyUnderWay } else { FindingKind::DataRace };
                    thread.fail(kind, place, message, None, self.thread_of(write));
                }
                if write.lacks_fence(thread) {
                    let message =
                        "an operand was stored, and for this thread of the warpgroup no `fence_proxy_async` is between";
                    thread.fail(FindingKind::MissingProxyFence, place, message, None, self.thread_of(write));
                }
            }
            thread.learn_end(Kind::Product, number, region);
        }
        let mut results = vec![[0f32; 64]; threads.len()];
        each_element(|thread, i, row, column| results[thread][i] = sums[row][column]);
        threads.iter().zip(results).for_each(|(thread, results)| thread.sums.set(results));
    }

    /// The numbers of an operand, by rows of `A` or columns of `B`. Adds who last wrote them to `writes`.
    fn operand(
        &self,
        numbers: Numbers,
        descriptor: Descriptor,
        rows: usize,
        touch: Touch,
        writes: &mut Vec<Access>,
        place: Place,
    ) -> Vec<Vec<f32>> {
        if let Some((kind, message)) = descriptor.problem() {
            self.fail(kind, place, message, None, None);
        }
        let row = |row| {
            let pieces = (0..BYTES / PIECE).map(|piece| descriptor.piece(row, piece));
            let words = pieces.flat_map(|piece| {
                let words = self.load_piece(piece, descriptor.swizzle, touch, place);
                let shared = self.block().shared.borrow();
                for word in 0..4 {
                    let write = shared.last_write(piece, word);
                    if !writes.iter().rev().any(|other| other.is_of_same_time(write)) {
                        writes.push(write);
                    }
                }
                words
            });
            words.flat_map(|word| numbers.of_word(word)).collect()
        };
        (0..rows as u32).map(row).collect()
    }
}

/// Calls `f` with the number of each thread of a warpgroup, of each of its sums, and its row and column.
fn each_element(mut f: impl FnMut(usize, usize, usize, usize)) {
    for thread in 0..WARPGROUP as usize {
        let (warp, lane) = (thread / 32, thread % 32);
        for i in 0..64 {
            f(thread, i, 16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_half_precision() {
        for (bits, number) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3c00, 1.0),
            (0x3555, 0.333_251_95),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(of_f16(bits), number, "{bits:#06x}");
        }
        assert!(of_f16(0x7e00).is_nan());
    }

    #[test]
    fn every_element_has_one_thread() {
        let mut places = vec![0; ROWS * COLUMNS];
        each_element(|_, _, row, column| places[row * COLUMNS + column] += 1);
        assert!(places.iter().all(|&count| count == 1));
    }
}
