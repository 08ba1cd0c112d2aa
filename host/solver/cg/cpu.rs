//! The vector operations on the CPU: the same steps, on all cores with the feature `rayon`.
//!
//! Sums are computed over blocks of elements and added pairwise: the same input gives the same bits for any number of
//! threads.

use std::ops::Range;

use kernels_gpu::{
    cg_state::{counter, end_word, mail, scalar, status, step_length, verdict},
    sums::Sum,
};

use super::workspace::{StateArrays, Step, Workspace, Z};
use crate::{
    CsrMatrix, Scalar,
    parallel::{BLOCK, for_blocks, join},
};

pub(super) fn step<T: Scalar>(workspace: &mut Workspace<T>, step: Step<'_, T>) {
    if workspace.compensated { compute::<T, true>(workspace, step) } else { compute::<T, false>(workspace, step) }
}

fn compute<T: Scalar, const COMPENSATED: bool>(workspace: &mut Workspace<T>, step: Step<'_, T>) {
    let Workspace { x, r, p, q, z, state, .. } = workspace;
    let (n, r) = (r.len(), r.as_slice_mut().on_cpu_mut());
    let stopped = state.counters.on_cpu_mut()[counter::STOPPED] != 0;
    let z = match z {
        Z::Residual => Preconditioned::Residual,
        Z::Diagonal(diagonal) => Preconditioned::Diagonal(diagonal.as_slice().on_cpu()),
        Z::Stored(z) => Preconditioned::Stored(z.as_slice().on_cpu()),
    };
    let add_dots = |i: usize, r: T, sums: &mut [Sum<COMPENSATED>; 2]| {
        add(&mut sums[0], r, z.of(i, r));
        add(&mut sums[1], r, r);
    };
    match step {
        Step::Residual { b } => {
            let (b, q) = (b.as_slice().on_cpu(), q.as_slice().on_cpu());
            let sums = sum_blocks::<T, COMPENSATED>(0..n, r, &|i, r, sums| {
                *r = b[i] + T::from_f64(-1.0) * q[i];
                add(&mut sums[0], *r, *r);
                add(&mut sums[1], b[i], b[i]);
            });
            let partials = state.partials.on_cpu_mut();
            partials[..2].copy_from_slice(&sums.map(Sum::total));
        }
        Step::Alpha => {
            if state.counters.on_cpu_mut()[counter::STATUS] != status::RUNNING {
                state.counters.on_cpu_mut()[counter::STOPPED] = 1;
                return;
            }
            let p = p.as_slice().on_cpu();
            let sums = sum_blocks::<T, COMPENSATED>(0..n, q.as_slice_mut().on_cpu_mut(), &|i, q, sums| {
                add(&mut sums[0], p[i], *q)
            });
            after_product(state, sums[0].total());
        }
        _ if stopped => {}
        Step::Begin { begins } => {
            let [rz, rr] = sum_blocks(0..n, r, &|i, r, sums| add_dots(i, *r, sums)).map(Sum::total);
            after_update::<T>(state, rz, rr, begins);
        }
        Step::Update => {
            let minus_alpha = T::from_f64(-state.scalars.on_cpu_mut()[scalar::ALPHA]);
            let q = q.as_slice().on_cpu();
            let [rz, rr] = sum_blocks(0..n, r, &|i, r, sums| {
                *r += minus_alpha * q[i];
                if !matches!(z, Preconditioned::Stored(_)) {
                    add_dots(i, *r, sums);
                }
            })
            .map(Sum::total);
            if !matches!(z, Preconditioned::Stored(_)) {
                after_update::<T>(state, rz, rr, false);
            }
        }
        Step::Direction => {
            let [alpha, beta] =
                [scalar::ALPHA, scalar::BETA].map(|place| T::from_f64(state.scalars.on_cpu_mut()[place]));
            let reads_old = alpha != T::default() || beta != T::default();
            let p = p.as_slice_mut().on_cpu_mut();
            if reads_old {
                for_blocks(0..n, x.as_slice_mut().on_cpu_mut(), &|block, x| {
                    x.iter_mut().zip(&p[block]).for_each(|(x, &p)| *x += alpha * p);
                });
            }
            for_blocks(0..n, p, &|block, p| {
                for (i, p) in block.zip(p) {
                    *p = if reads_old { z.of(i, r[i]) + beta * *p } else { z.of(i, r[i]) };
                }
            });
        }
    }
}

/// `r = b - A x` and its sums in `f64`, after `x = x + dx` and `dx = 0`: see the kernel family `cg_mixed`.
pub(super) fn replace_residual(workspace: &mut Workspace<f32>, matrix: &CsrMatrix<f32>, b: &[f64], x: &mut [f64]) {
    let dx = workspace.x.as_slice_mut().on_cpu_mut();
    for_blocks(0..x.len(), x, &|block, x| x.iter_mut().zip(&dx[block]).for_each(|(x, &dx)| *x += f64::from(dx)));
    dx.fill(0.0);
    let x = &*x;
    let row_sum = |row: usize| {
        let entries = matrix.row_offsets()[row] as usize..matrix.row_offsets()[row + 1] as usize;
        let product = |entry: usize| f64::from(matrix.values()[entry]) * x[matrix.col_indices()[entry] as usize];
        entries.map(product).sum::<f64>()
    };
    let sums = sum_blocks::<f32, false>(0..b.len(), workspace.r.as_slice_mut().on_cpu_mut(), &|row, r, sums| {
        let residual = b[row] - row_sum(row);
        *r = residual as f32;
        add(&mut sums[0], residual, residual);
        add(&mut sums[1], b[row], b[row]);
    });
    workspace.state.partials.on_cpu_mut()[..2].copy_from_slice(&sums.map(Sum::total));
}

/// The source of the preconditioned residual.
enum Preconditioned<'a, T> {
    Residual,
    Diagonal(&'a [T]),
    Stored(&'a [T]),
}

impl<T: Scalar> Preconditioned<'_, T> {
    fn of(&self, i: usize, r: T) -> T {
        match self {
            Self::Residual => r,
            Self::Diagonal(diagonal) => diagonal[i] * r,
            Self::Stored(z) => z[i],
        }
    }
}

fn add<T: Scalar, const COMPENSATED: bool>(sum: &mut Sum<COMPENSATED>, a: T, b: T) {
    let (a, b) = (a.to_f64(), b.to_f64());
    if COMPENSATED {
        sum.add_product(a, b);
    } else {
        // Without the instruction on the target, a fused multiply-add is a function call.
        *sum = sum.merge(Sum::of(a * b));
    }
}

/// Adds up the sums that `work` computes over all elements.
fn sum_blocks<T: Send, const COMPENSATED: bool>(
    range: Range<usize>,
    elements: &mut [T],
    work: &(impl Fn(usize, &mut T, &mut [Sum<COMPENSATED>; 2]) + Sync),
) -> [Sum<COMPENSATED>; 2] {
    if range.len() <= BLOCK {
        let mut sums = [Sum::ZERO; 2];
        range.zip(elements).for_each(|(i, element)| work(i, element, &mut sums));
        return sums;
    }
    let middle = range.start + range.len() / 2;
    let (below, above) = elements.split_at_mut(range.len() / 2);
    let (below, above) =
        join(|| sum_blocks(range.start..middle, below, work), || sum_blocks(middle..range.end, above, work));
    [below[0].merge(above[0]), below[1].merge(above[1])]
}

fn after_product(state: &mut StateArrays, pq: f64) {
    match step_length(state.scalars.on_cpu_mut()[scalar::RZ], pq) {
        Ok(alpha) => state.scalars.on_cpu_mut()[scalar::ALPHA] = alpha,
        Err(status) => end(state, status, true),
    }
}

fn after_update<T>(state: &mut StateArrays, rz: f64, rr: f64, begins: bool) {
    let (scalars, counters) = (state.scalars.on_cpu_mut(), state.counters.on_cpu_mut());
    let iteration = counters[counter::ITERATION] + u32::from(!begins);
    let status = verdict(rr, rz, scalars[scalar::TARGET], iteration, counters[counter::LIMIT], size_of::<T>());
    if status == status::NOT_FINITE {
        return end(state, status, true);
    }
    (scalars[scalar::ALPHA], scalars[scalar::BETA]) =
        if begins { (0.0, 0.0) } else { (scalars[scalar::ALPHA], rz / scalars[scalar::RZ]) };
    scalars[scalar::RZ] = rz;
    counters[counter::ITERATION] = iteration;
    if !begins {
        state.mailbox.set(mail::FIRST_NORM + iteration as usize % mail::NORMS, rr.to_bits());
    }
    if status != status::RUNNING {
        end(state, status, false);
    }
}

fn end(state: &mut StateArrays, status: u32, at_once: bool) {
    let counters = state.counters.on_cpu_mut();
    counters[counter::STATUS] = status;
    counters[counter::STOPPED] = u32::from(at_once);
    state.mailbox.set(mail::END, end_word(status, counters[counter::ITERATION]));
}
