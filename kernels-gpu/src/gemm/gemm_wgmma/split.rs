//! The images of an operand.

use cuda_std::{mem, thread, tma::Swizzle};

use super::{IMAGE, LINES, PART, SPLITTING, STEP, SplitArgs, slot_of};
use crate::unroll::unroll;

/// One image for each block. `ALONG` says whether the elements of a line lie side by side.
///
/// A thread has four places of a line at a time, which are 16 bytes of the image. If places lie side by side, a warp has 8 of these pieces of 4 lines, all that
/// the image has; otherwise 4 of 8 lines, so that it reads and writes whole sectors of 32 bytes.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn split<const ALONG: bool>(args: SplitArgs<f32>) {
    let steps = args.places.div_ceil(STEP).max(1);
    let (first_line, first_place) = (thread::block_idx_x() / steps * LINES, thread::block_idx_x() % steps * STEP);
    let image = args.images.wrapping_add(thread::block_idx_x() as usize * IMAGE as usize);
    let i = thread::thread_idx_x();
    let mut turn = 0;
    while turn < const { PART / 4 / SPLITTING } {
        let number = turn * SPLITTING + i;
        let (line, piece) = if ALONG {
            (number / 8, number % 8)
        } else {
            let (lane, patch) = (number % 32, number / 32);
            (patch / 2 * 8 + lane % 8, patch % 2 * 4 + lane / 8)
        };
        // SAFETY: what is loaded exists, and the image is the block's.
        unsafe {
            let numbers = load::<ALONG>(&args, first_line + line, first_place + 4 * piece);
            let large = numbers.map(tf32);
            let small = |n: usize| tf32(numbers[n] - large[n]);
            let row = line / 16 * 16 + slot_of(line % 16);
            let to = image.wrapping_add(Swizzle::Bytes128.place(128 * row + 16 * piece) as usize / 4);
            mem::store_v4(to, large);
            mem::store_v4(to.wrapping_add(PART as usize), [small(0), small(1), small(2), small(3)]);
        }
        turn += 1;
    }
}

/// Four places of a line from that place on, zeros where there are none.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<const ALONG: bool>(args: &SplitArgs<f32>, line: u32, place: u32) -> [f32; 4] {
    let mut numbers = [0.0; 4];
    if line >= args.lines {
        return numbers;
    }
    let leading_dimension = args.leading_dimension as usize;
    // SAFETY: the line exists, and so does each place that is loaded.
    unsafe {
        if ALONG {
            let from = args.operand.wrapping_add(line as usize * leading_dimension + place as usize);
            if (args.operand.addr() as u32).is_multiple_of(16)
                && (args.leading_dimension | args.places).is_multiple_of(4)
            {
                if place < args.places {
                    numbers = mem::load_v4(from);
                }
            } else {
                unroll!(N in [0, 1, 2, 3] {
                    if place + N < args.places {
                        numbers[N as usize] = mem::load(from.wrapping_add(N as usize));
                    }
                });
            }
        } else {
            let from = args.operand.wrapping_add(place as usize * leading_dimension + line as usize);
            unroll!(N in [0, 1, 2, 3] {
                if place + N < args.places {
                    numbers[N as usize] = mem::load(from.wrapping_add(N as usize * leading_dimension));
                }
            });
        }
    }
    numbers
}

/// The nearest TF32 number. What is added carries into the exponent where it must, and the largest numbers become infinite. NaN may become another
/// number, but then what is left of it is NaN, and stays so.
#[inline(always)]
fn tf32(number: f32) -> f32 {
    if number.is_nan() { number } else { f32::from_bits(number.to_bits().wrapping_add(0x1000) & 0xffff_e000) }
}
