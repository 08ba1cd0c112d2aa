//! Reductions on a GPU: launches of the kernel family `spmm_csr_reduce`.

use kernels_gpu::{
    args::Arguments,
    spmm_csr_reduce::{Args, KEYS, Key},
};

use super::{
    Reduce, Reduction, Weights, choice,
    shares::{Shares, alignment, row_bytes, row_offsets},
};
use crate::{
    Offset, Result, Scalar, Structure,
    device::{self, Buffer, KernelLaunch},
    stored::CsrArrays,
};

/// A kernel, and the memory through which the groups of a launch communicate.
#[derive(Debug)]
pub(super) struct Plan<T> {
    extremum: bool,
    shares: Shares,
    /// 1: the value of every entry of an unweighted graph.
    one: Buffer<T>,
    partials: Buffer<T>,
    partial_entries: Buffer<u32>,
}

/// Neither `cols` nor the number of rows is 0. The caller keeps launches of these plans apart.
pub(super) fn reduce<T: Scalar, O: Offset>(
    csr: &CsrArrays<T, O>,
    structure: &Structure,
    plans: &mut Vec<Plan<T>>,
    cols: u32,
    reduction: Reduction<'_, T>,
) -> Result<()> {
    let extremum = reduction.reduce.is_extremum();
    let Reduction { b, c, entries, .. } = &reduction;
    let mut distances = vec![b.ncols(), b.leading_dimension(), b.offset(), c.leading_dimension(), c.offset()];
    if let Some(entries) = entries {
        distances.extend([entries.leading_dimension(), entries.offset()]);
    }
    // These kernels exist for the widest vector and for single elements.
    let widest = choice::widest_vector(T::DTYPE, 4);
    let vector = if choice::widest_vector(T::DTYPE, alignment(&distances)) == widest { widest } else { 1 };

    let same = |plan: &Plan<T>| (plan.extremum, plan.shares.cols, plan.shares.tile.vector) == (extremum, cols, vector);
    let index = match plans.iter().position(same) {
        Some(index) => index,
        None => {
            plans.push(device::paused(|| {
                let keys = KEYS.iter().filter(|key| key.dtype == T::DTYPE && key.extremum == extremum);
                let tile = choice::tile(keys.map(|key| key.tile), vector, cols, u32::MAX, None)?;
                let entry = Key { dtype: T::DTYPE, extremum, tile }.entry();
                let shares = Shares::new(csr, structure, (tile, entry), cols, None, None)?;
                Ok(Plan {
                    extremum,
                    one: Buffer::upload(&csr.device, &[T::from_f64(1.0)])?,
                    partials: Buffer::zeros(&csr.device, shares.room())?,
                    partial_entries: Buffer::zeros(&csr.device, if extremum { shares.room() } else { 0 })?,
                    shares,
                })
            })?);
            plans.len() - 1
        }
    };
    launch(csr, &mut plans[index], reduction)
}

fn launch<T: Scalar, O: Offset>(csr: &CsrArrays<T, O>, plan: &mut Plan<T>, reduction: Reduction<'_, T>) -> Result<()> {
    let Reduction { reduce, weights, b, c, entries } = reduction;
    let Plan { shares, one, partials, partial_entries, .. } = plan;
    let (entry, blocks) = (shares.entry, shares.blocks(csr.nrows)?);
    let distances = (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
    let entries_row_bytes = entries.as_ref().map_or(Ok(0), |entries| row_bytes::<u32>(entries.leading_dimension()))?;
    let values = csr.values.read();
    let (queue, c) = c.into_writable();
    let args = Args {
        rows: shares.rows(csr, distances),
        value_step: u32::from(weights == Weights::Values),
        mean: u32::from(reduce == Reduce::Mean),
        entries_row_bytes,
        sign: T::from_f64(if reduce == Reduce::Min { -1.0 } else { 1.0 }),
        values: match weights {
            Weights::Values => values.readable(),
            Weights::Ones => one.readable(&csr.device),
        },
        b: b.readable(),
        c,
        entries: entries.map(|entries| entries.into_writable().1).unwrap_or_default(),
        partials: partials.writable(&csr.device),
        partial_entries: partial_entries.writable(&csr.device),
    };
    let mut launch = KernelLaunch::of_entry(queue, entry, blocks);
    let mut args = args.bind(&mut launch);
    args.rows.row_offsets = row_offsets(&mut launch, csr);
    // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for, none
    // a part of another; `c`, `entries` and what the plan has are borrowed mutably, so they are none of the others.
    // The plan's vector divides all distances and offsets, and allocations are aligned to more. Launches follow one another,
    // as the caller sees to. Whoever asks for entries has seen that 32 bits count them.
    unsafe { launch.run_entry(entry, &args) }
}
