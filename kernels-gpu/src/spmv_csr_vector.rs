use crate::{Scalar, Variant};
use cuda_std::{kernel, mem, thread, warp};

pub const BLOCK_SIZE: u32 = 256;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Args<T> {
    pub rows: u32,
    pub nnz: u32,
    pub alpha: T,
    pub beta: T,
    pub row_offsets: *const u32,
    pub col_indices: *const u32,
    pub values: *const T,
    pub x: *const T,
    pub y: *mut T,
}

macro_rules! variants {
    ($($entry:ident: $f:ident $T:ident $lanes:literal;)*) => {
        pub const VARIANTS: &[Variant] = &[$(Variant {
            entry: stringify!($entry), dtype: <$T as Scalar>::DTYPE, block_size: BLOCK_SIZE, lanes: $lanes,
            args_bytes: size_of::<Args<$T>>(),
        }),*];
        $(
            #[kernel]
            pub unsafe fn $entry(args: Args<$T>) { unsafe { $f::<$T, $lanes>(args) } }
        )*
    };
}
variants! {
    plain_f32_t1: plain f32 1; plain_f32_t2: plain f32 2; plain_f32_t4: plain f32 4; plain_f32_t8: plain f32 8; plain_f32_t16: plain f32 16; plain_f32_t32: plain f32 32;
    plain_f64_t1: plain f64 1; plain_f64_t2: plain f64 2; plain_f64_t4: plain f64 4; plain_f64_t8: plain f64 8; plain_f64_t16: plain f64 16; plain_f64_t32: plain f64 32;
    unroll_f32_t1: unroll f32 1; unroll_f32_t2: unroll f32 2; unroll_f32_t4: unroll f32 4; unroll_f32_t8: unroll f32 8; unroll_f32_t16: unroll f32 16; unroll_f32_t32: unroll f32 32;
    unroll_f64_t1: unroll f64 1; unroll_f64_t2: unroll f64 2; unroll_f64_t4: unroll f64 4; unroll_f64_t8: unroll f64 8; unroll_f64_t16: unroll f64 16; unroll_f64_t32: unroll f64 32;
    wide_f32_t1: wide f32 1; wide_f32_t2: wide f32 2; wide_f32_t4: wide f32 4; wide_f32_t8: wide f32 8; wide_f32_t16: wide f32 16; wide_f32_t32: wide f32 32;
    wide_f64_t1: wide f64 1; wide_f64_t2: wide f64 2; wide_f64_t4: wide f64 4; wide_f64_t8: wide f64 8; wide_f64_t16: wide f64 16; wide_f64_t32: wide f64 32;
    wide2_f32_t1: wide2 f32 1; wide2_f32_t2: wide2 f32 2; wide2_f32_t4: wide2 f32 4; wide2_f32_t8: wide2 f32 8; wide2_f32_t16: wide2 f32 16; wide2_f32_t32: wide2 f32 32;
    wide2_f64_t1: wide2 f64 1; wide2_f64_t2: wide2 f64 2; wide2_f64_t4: wide2 f64 4; wide2_f64_t8: wide2 f64 8; wide2_f64_t16: wide2 f64 16; wide2_f64_t32: wide2 f64 32;
}

#[inline(always)]
unsafe fn row<const L: u32>() -> u64 {
    u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / L) + u64::from(thread::thread_idx_x() / L)
}
#[inline(always)]
unsafe fn finish<T: Scalar, const L: u32>(a: Args<T>, row: u64, mut sum: T) {
    unsafe {
        let mut d = L / 2;
        while d > 0 {
            sum += warp::warp_shuffle_down(u32::MAX, sum, d, L).0;
            d /= 2;
        }
        if thread::thread_idx_x() % L == 0 && row < u64::from(a.rows) {
            let y = a.y.add(row as usize);
            let v = a.alpha * sum;
            let v = if a.beta == T::ZERO {
                v
            } else {
                a.beta.mul_add(mem::load(y), v)
            };
            mem::store(y, v);
        }
    }
}
#[inline(always)]
unsafe fn range<T: Scalar>(a: Args<T>, row: u64) -> (u32, u32) {
    unsafe {
        if row < u64::from(a.rows) {
            (
                mem::load_readonly(a.row_offsets.add(row as usize)),
                mem::load_readonly(a.row_offsets.add(row as usize + 1)),
            )
        } else {
            (0, 0)
        }
    }
}

#[inline(always)]
unsafe fn plain<T: Scalar, const L: u32>(a: Args<T>) {
    unsafe {
        let row = row::<L>();
        let (start, end) = range(a, row);
        let mut sum = T::ZERO;
        let mut j = start + thread::thread_idx_x() % L;
        while j < end {
            let c = mem::load_streaming(a.col_indices.add(j as usize));
            let v = mem::load_streaming(a.values.add(j as usize));
            sum = v.mul_add(mem::load_readonly(a.x.add(c as usize)), sum);
            j += L;
        }
        finish::<T, L>(a, row, sum);
    }
}

#[inline(always)]
unsafe fn unroll<T: Scalar, const L: u32>(a: Args<T>) {
    unsafe {
        let row = row::<L>();
        let (start, end) = range(a, row);
        let mut sum = T::ZERO;
        let mut j = start + thread::thread_idx_x() % L;
        while j < end {
            let mut c = [0u32; 4];
            let mut v = [T::ZERO; 4];
            macro_rules! each { ($b:expr; $($k:literal)*) => { $( $b($k); )* } }
            macro_rules! ld { ($($k:literal)*) => { $( if j + $k * L < end {
                c[$k] = mem::load_streaming(a.col_indices.add((j + $k * L) as usize));
                v[$k] = mem::load_streaming(a.values.add((j + $k * L) as usize)); } )* } }
            macro_rules! fm { ($($k:literal)*) => { $( if j + $k * L < end {
                sum = v[$k].mul_add(mem::load_readonly(a.x.add(c[$k] as usize)), sum); } )* } }
            ld!(0 1 2 3);
            fm!(0 1 2 3);
            j += 4 * L;
        }
        finish::<T, L>(a, row, sum);
    }
}

#[inline(always)]
unsafe fn wide<T: Scalar, const L: u32>(a: Args<T>) {
    unsafe {
        let row = row::<L>();
        let (start, end) = range(a, row);
        let mut sum = T::ZERO;
        let mut j = (start & !3) + 4 * (thread::thread_idx_x() % L);
        while j < end {
            let (mut c, mut v) = ([0u32; 4], [T::ZERO; 4]);
            if j + 4 <= a.nnz {
                c = mem::load_streaming_v4(a.col_indices.add(j as usize));
                v = mem::load_streaming_v4(a.values.add(j as usize));
            } else {
                macro_rules! ld { ($($k:literal)*) => { $( if j + $k < a.nnz {
                    c[$k] = mem::load_streaming(a.col_indices.add((j + $k) as usize));
                    v[$k] = mem::load_streaming(a.values.add((j + $k) as usize)); } )* } }
                ld!(0 1 2 3);
            }
            macro_rules! fm { ($($k:literal)*) => { $( if j + $k >= start && j + $k < end {
                sum = v[$k].mul_add(mem::load_readonly(a.x.add(c[$k] as usize)), sum); } )* } }
            fm!(0 1 2 3);
            j += 4 * L;
        }
        finish::<T, L>(a, row, sum);
    }
}
#[inline(always)]
unsafe fn wide2<T: Scalar, const L: u32>(a: Args<T>) {
    unsafe {
        let row = row::<L>();
        let (start, end) = range(a, row);
        let mut sum = T::ZERO;
        let mut j = (start & !1) + 2 * (thread::thread_idx_x() % L);
        while j < end {
            let (mut c, mut v) = ([0u32; 2], [T::ZERO; 2]);
            if j + 2 <= a.nnz {
                c = mem::load_streaming_v2(a.col_indices.add(j as usize));
                v = mem::load_streaming_v2(a.values.add(j as usize));
            } else {
                c[0] = mem::load_streaming(a.col_indices.add(j as usize));
                v[0] = mem::load_streaming(a.values.add(j as usize));
            }
            macro_rules! fm { ($($k:literal)*) => { $( if j + $k >= start && j + $k < end {
                sum = v[$k].mul_add(mem::load_readonly(a.x.add(c[$k] as usize)), sum); } )* } }
            fm!(0 1);
            j += 2 * L;
        }
        finish::<T, L>(a, row, sum);
    }
}
