//! A sweep of the damped Jacobi method, `x_new = x + omega D^-1 (b - A x)`: the smoother of many multigrid solvers.
//!
//! The same source is compiled for the GPU, and for the host, where the emulator runs it.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use cuda_std::{kernel, mem, thread};

pub const BLOCK_SIZE: u32 = 128;

/// What the kernel takes: a CSR matrix of `n` rows with its diagonal, and vectors of `n` elements.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Args {
    pub n: u32,
    pub omega: f64,
    pub row_offsets: *const u32,
    pub col_indices: *const u32,
    pub values: *const f64,
    pub b: *const f64,
    pub x: *const f64,
    pub x_new: *mut f64,
}

/// One thread a row.
///
/// # Safety
/// The arrays are as [`Args`] says, a valid matrix, and `x_new` is no part of the others.
#[kernel]
pub unsafe fn jacobi_sweep(args: Args) {
    let i = thread::index_1d();
    if i >= args.n {
        return;
    }
    let i = i as usize;
    // SAFETY: i < n, and the matrix is valid.
    unsafe {
        let (mut residual, mut diagonal) = (mem::load_readonly(args.b.add(i)), 0.0);
        let begin = mem::load_readonly(args.row_offsets.add(i)) as usize;
        let end = mem::load_readonly(args.row_offsets.add(i + 1)) as usize;
        for k in begin..end {
            let j = mem::load_readonly(args.col_indices.add(k)) as usize;
            let value = mem::load_readonly(args.values.add(k));
            residual -= value * mem::load(args.x.add(j));
            if j == i {
                diagonal = value;
            }
        }
        mem::store(args.x_new.add(i), mem::load(args.x.add(i)) + args.omega * residual / diagonal);
    }
}
