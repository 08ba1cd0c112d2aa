//! Prolongators for nodes with several unknowns.

use kernels_gpu::amg_tentative::{Args, DEPENDENT, Key, LANES, grid_size};

use super::{
    NearNullSpace,
    aggregates::Aggregates,
    strength::{Strength, csr},
};
use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Result, Scalar, device::launch, parallel::for_blocks,
    solver::scaled::to_exponent, stored::Csr,
};

/// Aggregates of the nodes of a matrix with so many unknowns each, the entries of strong blocks, and a matrix with an entry for each block. A block is as strong as its
/// Frobenius norm.
pub(super) fn aggregates<T: Scalar>(
    a: &DeviceMatrix<T>,
    unknowns: usize,
    theta: f64,
    is_finest: bool,
) -> Result<(Aggregates, usize, DeviceMatrix<T>)> {
    let (n, device) = (a.nrows(), a.device());
    let offsets = (0..=n as u32).collect();
    let nodes = (0..n as u32).map(|row| row / unknowns as u32).collect();
    let rows_of_nodes = CsrMatrix::try_from_csr_data(n, n / unknowns, offsets, nodes, vec![T::from_f64(1.0); n])?;
    let rows_of_nodes = device.upload(&rows_of_nodes)?;
    // Squares of the norms; where they would be out of range, those of a multiple, which is as strong.
    let large = if size_of::<T>() == size_of::<f32>() { 50.0 } else { 500.0 };
    let largest = match csr(a) {
        Csr::Host(matrix) => matrix.norm_max(),
        Csr::Device(arrays) => arrays.values.read().norm_inf()?.get()?.to_f64(),
    };
    let multiple = if largest.is_normal() && largest.log2().abs() > large {
        Some(a.add(T::from_f64(to_exponent::<T>(largest, large)), T::default(), a)?)
    } else {
        None
    };
    let a = multiple.as_ref().unwrap_or(a);
    let blocks = a.hadamard(a)?.triple_product(&rows_of_nodes.transpose()?, &rows_of_nodes)?;
    let (_, strength) = Strength::of(&blocks, theta * theta)?;
    let strong = strength.smoothing_matrix(&blocks, strength.pattern()?, 1.0)?;
    Ok((Aggregates::of(&strong, is_finest)?, strong.nnz() * unknowns * unknowns, blocks))
}

/// Vectors near the null space of a level.
pub(super) struct Space {
    pub(super) unknowns: usize,
    pub(super) columns: usize,
    /// Row by row.
    values: DeviceVec<f64>,
}

impl Space {
    pub(super) fn upload(device: &Device, space: &NearNullSpace) -> Result<Self> {
        let NearNullSpace { unknowns, columns, values } = space;
        Ok(Self { unknowns: *unknowns, columns: *columns, values: device.upload_vec(values)? })
    }

    /// On a coarse level: the unknowns that are always 0, since vectors depended on others in an aggregate.
    pub(super) fn dependent(&self) -> Result<usize> {
        let values = self.values.to_vec()?;
        Ok(values
            .chunks_exact(self.columns)
            .enumerate()
            .filter(|(row, values)| values[row % self.columns] == 0.0)
            .count())
    }
}

/// The nodes of a level. Blocks of prolongators are full, so the patterns of products are found from the nodes, at a fraction of the work.
pub(super) struct Nodes<T> {
    /// An entry for each block of the matrix.
    blocks: DeviceMatrix<T>,
    /// One for each block of the tentative prolongator.
    tentative: DeviceMatrix<T>,
    /// One for each block of the smoothed prolongator.
    smoothed: DeviceMatrix<T>,
    unknowns: usize,
    columns: usize,
}

impl<T: Scalar> Nodes<T> {
    fn new(blocks: DeviceMatrix<T>, tentative: DeviceMatrix<T>, space: &Space) -> Result<Self> {
        let smoothed = blocks.multiply(&tentative)?;
        Ok(Self { blocks, tentative, smoothed, unknowns: space.unknowns, columns: space.columns })
    }

    /// `T - omega D^-1 A T`.
    pub(super) fn smoothed(
        &self,
        a: &DeviceMatrix<T>,
        inverse: &DeviceVec<T>,
        tentative: &DeviceMatrix<T>,
        omega: f64,
    ) -> Result<DeviceMatrix<T>> {
        let mut product = a.multiply_on(tentative, &full(&self.smoothed, self.unknowns, self.columns)?)?;
        product.scale_rows(inverse)?;
        tentative.add(T::from_f64(1.0), T::from_f64(-omega), &product)
    }

    /// `R A P`, for either prolongator.
    pub(super) fn triple_product(
        &self,
        a: &DeviceMatrix<T>,
        (r, p): (&DeviceMatrix<T>, &DeviceMatrix<T>),
        is_smoothed: bool,
    ) -> Result<DeviceMatrix<T>> {
        let of_p = if is_smoothed { &self.smoothed } else { &self.tentative };
        let product = self.blocks.multiply(of_p)?;
        let coarse = of_p.transpose_multiply(&product)?;
        let product = a.multiply_on(p, &full(&product, self.unknowns, self.columns)?)?;
        r.multiply_on(&product, &full(&coarse, self.columns, self.columns)?)
    }
}

/// A matrix with a full block for each entry.
fn full<T: Scalar>(nodes: &DeviceMatrix<T>, nrows: usize, ncols: usize) -> Result<DeviceMatrix<T>> {
    nodes.kronecker(&ones(nodes.device(), nrows, ncols)?)
}

/// The tentative prolongator, with orthonormal columns that span the vectors of the space on each aggregate, and the space on the coarse level, of which it makes this
/// one: a QR decomposition for each aggregate, see the kernels. `O(n k²)` work for `k` vectors.
pub(super) fn tentative<T: Scalar>(
    (aggregates, blocks): (Aggregates, DeviceMatrix<T>),
    space: &Space,
) -> Result<(DeviceMatrix<T>, Space, Nodes<T>)> {
    let &Space { unknowns, columns, ref values } = space;
    let device = values.device();
    let of_nodes = aggregates.tentative::<T>(device)?;
    let of_aggregates = of_nodes.transpose()?;
    // Refused if it is too large for 32 bits.
    let mut matrix = full(&of_nodes, unknowns, columns)?;
    let (count, size) = (of_nodes.ncols(), unknowns * columns);
    let mut q = device.zeros::<T>(of_nodes.nnz() * size)?;
    let mut coarse = device.zeros::<f64>(count * columns * columns)?;
    match (csr(&of_nodes), csr(&of_aggregates)) {
        (Csr::Device(nodes), Csr::Device(members)) => {
            let mut work = device.scratch::<f64>(q.len())?;
            let args = Args {
                aggregates: members.nrows,
                nodes: nodes.nrows,
                placed: nodes.nnz,
                unknowns: unknowns as u32,
                columns: columns as u32,
                member_offsets: members.row_offsets.readable(device),
                members: members.col_indices.readable(device),
                places: nodes.row_offsets.readable(device),
                space: values.readable(),
                work: work.writable(),
                values: q.writable(),
                coarse: coarse.writable(),
            };
            let entry = Key { dtype: T::DTYPE }.entry();
            // SAFETY: a matrix with an entry for each node that is in an aggregate, its transpose, and the vectors of its nodes; the entry is for `T`.
            unsafe { launch(device, entry, grid_size(members.nrows), args) }?;
        }
        (Csr::Host(nodes), Csr::Host(members)) => {
            let (values, places) = (values.as_slice().on_cpu(), nodes.row_offsets());
            let mut parts = vec![Part::default(); count];
            for_blocks(0..count, &mut parts, &|aggregates, parts: &mut [Part]| {
                for (aggregate, part) in aggregates.zip(parts) {
                    let nodes = members.row(aggregate).0;
                    part.q = nodes.iter().flat_map(|&node| &values[node as usize * size..][..size]).copied().collect();
                    part.r = orthonormalise(&mut part.q, columns);
                }
            });
            let (q, coarse) = (q.as_slice_mut().on_cpu_mut(), coarse.as_slice_mut().on_cpu_mut());
            for (aggregate, part) in parts.iter().enumerate() {
                for (&node, of_node) in members.row(aggregate).0.iter().zip(part.q.chunks_exact(size)) {
                    let new = &mut q[places[node as usize] as usize * size..][..size];
                    new.iter_mut().zip(of_node).for_each(|(new, &value)| *new = T::from_f64(value));
                }
                coarse[aggregate * columns * columns..][..columns * columns].copy_from_slice(&part.r);
            }
        }
        _ => unreachable!("both are on one device"),
    }
    matrix.update_values(&q)?;
    let nodes = Nodes::new(blocks, of_nodes, space)?;
    Ok((matrix, Space { unknowns: columns, columns, values: coarse }, nodes))
}

fn ones<T: Scalar>(device: &Device, nrows: usize, ncols: usize) -> Result<DeviceMatrix<T>> {
    let offsets = (0..=nrows).map(|row| (row * ncols) as u32).collect();
    let columns = (0..nrows).flat_map(|_| 0..ncols as u32).collect();
    device.upload(&CsrMatrix::try_from_csr_data(nrows, ncols, offsets, columns, vec![T::from_f64(1.0); nrows * ncols])?)
}

/// What an aggregate has of the vectors.
#[derive(Clone, Default)]
struct Part {
    /// Its rows.
    q: Vec<f64>,
    /// The square upper triangle by which they are multiplied.
    r: Vec<f64>,
}

/// Makes columns orthonormal, row by row in memory, in the order of the kernels; returns the triangle that makes the old ones of them.
fn orthonormalise(q: &mut [f64], columns: usize) -> Vec<f64> {
    let mut r = vec![0.0; columns * columns];
    let dot = |q: &[f64], a: usize, b: usize| {
        let mut sums = [0.0; LANES as usize];
        q.chunks_exact(columns).enumerate().for_each(|(row, values)| sums[row % sums.len()] += values[a] * values[b]);
        let mut distance = sums.len() / 2;
        while distance > 0 {
            (0..distance).for_each(|lane| sums[lane] += sums[lane + distance]);
            distance /= 2;
        }
        sums[0]
    };
    for column in 0..columns {
        let before = dot(q, column, column).sqrt();
        // Twice, for what rounding leaves.
        for earlier in (0..column).chain(0..column) {
            let share = dot(q, earlier, column);
            r[earlier * columns + column] += share;
            q.chunks_exact_mut(columns).for_each(|row| row[column] -= share * row[earlier]);
        }
        let norm = dot(q, column, column).sqrt();
        let is_new = norm > DEPENDENT * before;
        r[column * columns + column] = if is_new { norm } else { 0.0 };
        q.chunks_exact_mut(columns).for_each(|row| row[column] = if is_new { row[column] / norm } else { 0.0 });
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_orthonormal_and_dependent_ones_are_0() {
        // The third is the sum of the first two, the fourth is 0.
        let rows = 7;
        let of = |row: usize| [1.0, row as f64, 1.0 + row as f64, 0.0, (row * row) as f64];
        let old: Vec<f64> = (0..rows).flat_map(of).collect();
        let mut q = old.clone();
        let r = orthonormalise(&mut q, 5);
        for a in 0..5 {
            for b in 0..5 {
                let dot: f64 = (0..rows).map(|row| q[5 * row + a] * q[5 * row + b]).sum();
                let expected = f64::from(u8::from(a == b && ![2, 3].contains(&a)));
                assert!((dot - expected).abs() < 1e-14, "{a}, {b}: {dot}");
                assert!(b >= a || r[5 * a + b] == 0.0);
            }
            for row in 0..rows {
                let product: f64 = (0..5).map(|k| q[5 * row + k] * r[5 * k + a]).sum();
                assert!((product - old[5 * row + a]).abs() < 1e-13, "{row}, {a}");
            }
        }
        // Fewer rows than columns.
        let mut q = vec![3.0, 1.0, 2.0];
        assert_eq!(
            (orthonormalise(&mut q, 3), q),
            (vec![3.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], vec![1.0, 0.0, 0.0])
        );
    }
}
