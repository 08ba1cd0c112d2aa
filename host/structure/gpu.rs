//! The analysis on a GPU or in the emulator: launches of the kernel family `csr_structure`.

use kernels_gpu::csr_structure::{Args, FIGURES, Key, LENGTH_CLASSES, figure, grid_size};

use super::Structure;
use crate::{DeviceVec, Offset, Result, device, stored::CsrArrays};

/// Analyses a matrix with `ncols` columns on a GPU or in the emulator. Waits for the result.
pub(crate) fn analyse<T, O: Offset>(csr: &CsrArrays<T, O>, ncols: usize) -> Result<Structure> {
    let (nrows, nnz) = (csr.nrows as usize, csr.nnz.index());
    let mut figures = csr.device.zeros::<u64>(FIGURES)?;
    let blocks = grid_size(csr.nrows, nnz as u64);
    if blocks > 0 {
        let blocks = u32::try_from(blocks).expect("2^32 blocks take 2^45 entries, more than any memory holds");
        let mut diagonals = csr.device.zeros::<u32>((nrows + ncols).div_ceil(32))?;
        launch(csr, blocks, &mut figures, &mut diagonals)?;
    }
    Ok(structure((nrows, ncols, nnz), &figures.to_vec()?))
}

fn launch<T, O: Offset>(
    csr: &CsrArrays<T, O>,
    blocks: u32,
    figures: &mut DeviceVec<u64>,
    diagonals: &mut DeviceVec<u32>,
) -> Result<()> {
    let queue = &csr.device;
    let entry = Key { offset_bytes: size_of::<O>() }.entry();
    let args = Args {
        rows: csr.nrows,
        entries: csr.nnz.index() as u64,
        row_offsets: csr.row_offsets.readable(queue),
        col_indices: csr.col_indices.readable(queue),
        figures: figures.writable(),
        diagonals: diagonals.writable(),
    };
    // SAFETY: the arrays are those of a valid CSR matrix; the other two are zeros of their own, as many as the kernel
    // wants; `Args<O>` is what the entry for `O` takes.
    unsafe { device::launch(queue, entry, blocks, args) }
}

/// Converts the kernel's figures.
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
    use crate::{CsrMatrix, Device};

    #[test]
    fn offsets_of_64_bits_give_the_same_structure() {
        // Rows of 0 to 6 entries, over several blocks: more than 8192 entries.
        let nrows = 4001;
        let lengths = (0..nrows).map(|i| i % 7);
        let offsets: Vec<u32> =
            std::iter::once(0).chain(lengths.scan(0, |sum, len| (*sum += len, Some(*sum)).1)).collect();
        let nnz = offsets[nrows as usize];
        let columns: Vec<u32> = (0..nnz).map(|k| k.wrapping_mul(2_654_435_761) % 700).collect();
        let values = vec![1.0f32; nnz as usize];
        let matrix = CsrMatrix::try_from_csr_data(nrows as usize, 700, offsets, columns, values).unwrap();
        let wide = CsrMatrix::<f32, u64>::from(&matrix);
        let found = analyse(&CsrArrays::upload(&Device::emulated(0), &wide).unwrap(), 700).unwrap();
        assert_eq!(found, matrix.structure());
        assert_eq!(found.diagonals, None);
    }
}
