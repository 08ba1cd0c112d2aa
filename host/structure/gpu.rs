//! The analysis on a GPU or in the emulator: launches of the kernel family `csr_structure`.

use kernels_gpu::csr_structure::{Args, FIGURES, LENGTH_CLASSES, VARIANTS, figure, grid_size};

use super::Structure;
use crate::{
    Device, DeviceVec, Offset, Result,
    device::{Array, KernelLaunch},
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "csr_structure";

/// The structure of a valid matrix of `size` = (rows, columns, entries) whose arrays are on `device`, which is not the
/// CPU. Waits for the result.
pub(crate) fn analyse<O: Offset>(
    device: &Device,
    size: (usize, usize, usize),
    row_offsets: Array<'_, O>,
    col_indices: Array<'_, u32>,
) -> Result<Structure> {
    let (nrows, ncols, nnz) = size;
    let rows = u32::try_from(nrows).expect("a CSR matrix has at most u32::MAX rows");
    let mut figures = device.zeros::<u64>(FIGURES)?;
    let blocks = grid_size(rows, nnz as u64);
    if blocks > 0 {
        let blocks = u32::try_from(blocks).expect("2^32 blocks take 2^45 entries, more than any memory holds");
        let mut diagonals = device.zeros::<u32>((nrows + ncols).div_ceil(32))?;
        launch(device, blocks, (rows, nnz as u64), row_offsets, col_indices, &mut figures, &mut diagonals)?;
    }
    Ok(structure(size, &figures.to_vec()?))
}

fn launch<O: Offset>(
    device: &Device,
    blocks: u32,
    (rows, entries): (u32, u64),
    row_offsets: Array<'_, O>,
    col_indices: Array<'_, u32>,
    figures: &mut DeviceVec<u64>,
    diagonals: &mut DeviceVec<u32>,
) -> Result<()> {
    let variant = &VARIANTS[usize::from(size_of::<O>() == 8)];
    let mut launch = KernelLaunch::of_family(device, FAMILY, variant, blocks);
    let args = Args {
        rows,
        entries,
        row_offsets: launch.read("row_offsets", row_offsets, device),
        col_indices: launch.read("col_indices", col_indices, device),
        figures: launch.write("figures", figures.parts_mut().1, device),
        diagonals: launch.write("diagonals", diagonals.parts_mut().1, device),
    };
    assert_eq!(size_of_val(&args), variant.args_bytes, "the arguments of {}", variant.entry);
    // SAFETY: the arrays are those of a valid CSR matrix; the other two are zeros of their own, as many as the kernel
    // wants; the variants stand in the order of the offsets' widths, and `Args<O>` is what the one for `O` takes.
    unsafe { launch.run(&args, || (variant.call)(std::ptr::from_ref(&args).cast())) }
}

/// The kernel's figures as a structure.
fn structure((nrows, ncols, nnz): (usize, usize, usize), figures: &[u64]) -> Structure {
    let figure = |place: usize| figures[place] as usize;
    let mut row_histogram = [0; LENGTH_CLASSES];
    row_histogram.iter_mut().zip(figures).for_each(|(rows, &figure)| *rows = figure as usize);
    Structure {
        nrows,
        ncols,
        nnz,
        min_row: if nrows == 0 { 0 } else { !figures[figure::SHORTEST_COMPLEMENT] as usize },
        max_row: figure(figure::LONGEST),
        row_histogram,
        lower_bandwidth: figure(figure::LOWER),
        upper_bandwidth: figure(figure::UPPER),
        diagonals: Structure::counted(figure(figure::DIAGONALS)),
        near_entries: figure(figure::NEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrMatrix;

    #[test]
    fn offsets_of_64_bits_give_the_same_structure() {
        // Rows of 0 to 6 entries, over several blocks: more than 8192 entries.
        let nrows = 4001;
        let lengths = (0..nrows).map(|i| i % 7);
        let offsets: Vec<u32> =
            std::iter::once(0).chain(lengths.scan(0, |sum, len| (*sum += len, Some(*sum)).1)).collect();
        let nnz = offsets[nrows as usize];
        let columns: Vec<u32> = (0..nnz).map(|k| k.wrapping_mul(2_654_435_761) % 700).collect();
        let wide: Vec<u64> = offsets.iter().map(|&offset| offset.into()).collect();
        let size = (nrows as usize, 700, nnz as usize);
        let found = analyse(&Device::emulated(0), size, Array::Host(&wide), Array::Host(&columns)).unwrap();

        let values = vec![1.0f32; nnz as usize];
        let matrix = CsrMatrix::try_from_csr_data(size.0, size.1, offsets, columns, values).unwrap();
        assert_eq!(found, matrix.structure());
        assert_eq!(found.diagonals, None);
    }
}
