//! Reductions on a GPU: launches of the kernel family `spmm_csr_reduce`.

use kernels_gpu::spmm_csr_reduce::{Args, tiles};

use super::{
    Reduce, Reduction, Weights, choice,
    shares::{Shares, alignment, row_bytes},
};
use crate::{
    Error, Offset, Result, Scalar, Structure,
    device::{self, Buffer, KernelLaunch},
    spmv::CsrArrays,
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmm_csr_reduce";

/// A kernel, and what the groups of one launch tell one another.
#[derive(Debug)]
pub(super) struct Plan<T> {
    extremum: bool,
    shares: Shares,
    /// 1: the value of every entry of a graph without weights.
    one: Buffer<T>,
    partials: Buffer<T>,
    partial_entries: Buffer<u32>,
}

/// `cols` and the rows are not 0. The caller keeps launches of these plans apart.
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
    // These kernels are for the widest vector, or for single elements.
    let widest = choice::widest_vector(T::DTYPE, 4);
    let vector = if choice::widest_vector(T::DTYPE, alignment(&distances)) == widest { widest } else { 1 };

    let same = |plan: &Plan<T>| (plan.extremum, plan.shares.cols, plan.shares.tile.vector) == (extremum, cols, vector);
    let index = match plans.iter().position(same) {
        Some(index) => index,
        None => {
            plans.push(device::paused(|| {
                let tile = choice::tile(tiles(T::DTYPE, extremum), vector, cols, u32::MAX, None)?;
                let shares = Shares::new(csr, structure, tile, cols, None, None)?;
                Ok::<_, Error>(Plan {
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
    let (variant, blocks) = (shares.variant, shares.blocks(csr.nrows)?);
    let distances = (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
    let entries_row_bytes = entries.as_ref().map_or(Ok(0), |entries| row_bytes::<u32>(entries.leading_dimension()))?;
    let (b_offset, c_offset) = (b.offset(), c.offset());
    let (queue, c) = c.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, blocks);
    let args = Args {
        rows: shares.rows(csr, &mut launch, distances),
        value_step: u32::from(weights == Weights::Values),
        mean: u32::from(reduce == Reduce::Mean),
        entries_row_bytes,
        sign: T::from_f64(if reduce == Reduce::Min { -1.0 } else { 1.0 }),
        values: match weights {
            Weights::Values => launch.read("values", csr.values.array(), &csr.device),
            Weights::Ones => launch.read("one", one.array(), &csr.device),
        },
        b: launch.read("b", b.vec().buffer().array(), b.device()).wrapping_add(b_offset),
        c: launch.write("c", c, queue).wrapping_add(c_offset),
        entries: match entries {
            Some(entries) => {
                let offset = entries.offset();
                let (owner, buffer) = entries.into_vec().parts_mut();
                launch.write("entries", buffer, owner).wrapping_add(offset)
            }
            None => std::ptr::null_mut(),
        },
        partials: launch.write("partials", partials, &csr.device),
        partial_entries: launch.write("partial_entries", partial_entries, &csr.device),
    };
    // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for, none
    // a part of another; `c`, `entries` and what the plan has are borrowed mutably, so they are none of the others.
    // The plan's vector divides all distances and offsets, and allocations are aligned to more. Launches follow one another,
    // as the caller sees to. Whoever asks for entries has seen that 32 bits count them.
    unsafe { launch.run_variant(variant, &args) }
}
