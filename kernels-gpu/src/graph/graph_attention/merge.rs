//! What goes out of the pieces of long lists, put together.

use cuda_std::mem;

use super::{BLOCK_SIZE, MergeArgs};
use crate::{
    graph_lists::{larger, negative_infinity, part_of, place, shift},
    grid::thread_index,
    math::Math,
};

/// The body of the entries that merge what went out of pieces: a thread for each column of a long list.
///
/// # Safety
/// The rules at the head of the module.
#[inline(always)]
pub(super) unsafe fn merge<T: Math>(args: MergeArgs<T>) {
    let MergeArgs { pieces, heads, width, .. } = args;
    let (long_list, column) = part_of(thread_index::<BLOCK_SIZE>(), heads * width);
    if long_list >= u64::from(pieces.long_lists) {
        return;
    }
    let (head, column_of_head) = part_of(column.into(), width);
    let head = head as u32;
    // SAFETY: the long list exists, and its pieces.
    unsafe {
        let (list, first, end) = pieces.of_long_list(long_list as u32);
        let pair = |piece| args.sums_of_pieces.add(2 * place(piece, heads.into(), head));
        let (mut max, mut piece) = (negative_infinity::<T>(), first);
        while piece < end {
            max = larger(max, mem::load_readonly(pair(piece)));
            piece += 1;
        }
        let shift = shift(max);
        let (mut sum, mut out, mut piece) = (T::ZERO, T::ZERO, first);
        while piece < end {
            let rescale = (mem::load_readonly(pair(piece)) - shift).exp();
            let of_piece = args.out_of_pieces.add(place(piece, u64::from(heads) * u64::from(width), column));
            sum = mem::load_readonly(pair(piece).add(1)).mul_add(rescale, sum);
            out = mem::load_readonly(of_piece).mul_add(rescale, out);
            piece += 1;
        }
        mem::store(args.out.add(place(list, args.out_stride, column)), out / sum);
        if column_of_head == 0 {
            mem::store(args.log_sums.add(place(list, args.log_sums_stride, head)), max + sum.ln());
        }
    }
}
