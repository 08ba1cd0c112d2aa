//! The tall matrices of a group of systems, and what is computed of them: launches of the kernel family `block_cg`.

use kernels_gpu::block_cg::{
    DirectionArgs, GramArgs, InvertArgs, Key, Operation, ResidualArgs, SumArgs, grid_size, padded, pivots,
    sum_grid_size, width,
};

use super::{cpu, small::Small};
use crate::{
    DenseLayout, DenseMut, DenseRef, Device, DeviceMatrix, DeviceVec, Error, Map, Result, Scalar,
    device::{Backend, launch},
};

/// Matrices of `rows * width` elements, filled up with zeros. The true columns are the first ones.
pub(super) struct Blocks<T> {
    device: Device,
    columns: usize,
    layout: DenseLayout,
    rows: u32,
    width: u32,
    /// Solutions.
    x: DeviceVec<T>,
    /// The residuals are `Q` times a small matrix.
    q: DeviceVec<T>,
    /// Directions.
    s: DeviceVec<T>,
    /// `A S`.
    v: DeviceVec<T>,
    ones: DeviceVec<T>,
    /// The roots of the preconditioner's elements: ones without one.
    roots: DeviceVec<T>,
    factors: DeviceVec<T>,
    partials: DeviceVec<f64>,
    sums: DeviceVec<f64>,
    inverse: DeviceVec<f64>,
}

/// A Gram matrix of [`Blocks`].
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// `Q^T Q`.
    Residuals,
    /// `Q^T M Q`.
    Preconditioned,
    /// `S^T A S`.
    Directions,
}

impl Of {
    /// The matrices and the roots of the weights, from `Q`, `S`, `V`, ones and the roots of the preconditioner.
    fn operands<T>(self, [q, s, v, ones, roots]: [&DeviceVec<T>; 5]) -> [&DeviceVec<T>; 3] {
        match self {
            Self::Residuals => [q, q, ones],
            Self::Preconditioned => [q, q, roots],
            Self::Directions => [s, v, ones],
        }
    }
}

impl<T: Scalar> Blocks<T> {
    /// Allocates memory for so many systems of `n` equations, at least one, with this preconditioner.
    pub(super) fn new(device: &Device, n: usize, columns: usize, diagonal: Option<&DeviceVec<T>>) -> Result<Self> {
        let width = width(columns as u32);
        let rows = u32::try_from(padded(n)).map_err(|_| Error::Unsupported(format!("{n} equations: 2^32 and more")))?;
        let tall = || device.zeros::<T>(rows as usize * width as usize);
        let ones = device.filled(rows as usize, T::from_f64(1.0))?;
        let mut roots = ones.try_clone()?;
        if let Some(diagonal) = diagonal {
            roots.slice_mut(..n)?.map_from(Map::Sqrt, diagonal)?;
        }
        let square = (width * width) as usize;
        Ok(Self {
            device: device.clone(),
            columns,
            layout: DenseLayout::row_major(n, columns).leading_dimension(width as usize),
            rows,
            width,
            x: tall()?,
            q: tall()?,
            s: tall()?,
            v: tall()?,
            ones,
            roots,
            factors: device.zeros(3 * square)?,
            partials: device.zeros(grid_size(rows) as usize * square)?,
            sums: device.zeros(square)?,
            inverse: device.zeros(square)?,
        })
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The solutions.
    pub(super) fn x(&mut self) -> DenseMut<'_, T> {
        self.x.matrix_mut(self.layout).expect("there is room")
    }

    /// `Q = B`.
    pub(super) fn set_residuals(&mut self, b: DenseRef<'_, T>) -> Result<()> {
        self.q.matrix_mut(self.layout)?.assign(b)
    }

    /// `Q = Q - A X`.
    pub(super) fn subtract_products(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        let (x, q) = (self.x.matrix(self.layout)?, self.q.matrix_mut(self.layout)?);
        a.spmm(T::from_f64(-1.0), x, T::from_f64(1.0), q)
    }

    /// Computes a Gram matrix. Waits for it.
    pub(super) fn gram(&mut self, of: Of) -> Result<Small> {
        if let Backend::Cpu { .. } = self.device.backend() {
            let Self { width, q, s, v, ones, roots, .. } = self;
            let [y, z, scale] = of.operands([q, s, v, ones, roots]).map(|array| array.as_slice().on_cpu());
            let gram = cpu::gram(*width as usize, y, z, scale);
            return Ok(self.small(gram));
        }
        self.launch_gram(of)?;
        self.sum()
    }

    fn launch_gram(&mut self, of: Of) -> Result<()> {
        let Self { device, rows, width, q, s, v, ones, roots, partials, .. } = self;
        let [y, z, scale] = of.operands([q, s, v, ones, roots]).map(DeviceVec::readable);
        let args = GramArgs { rows: *rows, width: *width, y, z, scale, partials: partials.writable() };
        let entry = Key { operation: Operation::Gram(T::DTYPE) }.entry();
        // SAFETY: tall matrices of padded rows and this width, the root of a weight a row, and room for the sums of each block.
        unsafe { launch(device, entry, grid_size(*rows), args) }
    }

    /// `V = A S`, `N = -(S^T V)^-1`, `Q = Q + V N` for the first `rank` columns of `S`. Returns `N`, and the Gram matrix of the new `Q` with the preconditioner.
    /// `None` if `S^T V` is not positive definite; `Q` is lost then. Waits for the result.
    pub(super) fn project(&mut self, a: &DeviceMatrix<T>, rank: usize) -> Result<Option<(Small, Small)>> {
        let (s, v) = (self.s.matrix(self.layout)?, self.v.matrix_mut(self.layout)?);
        a.spmm(T::from_f64(1.0), s, T::default(), v)?;
        if let Backend::Cpu { .. } = self.device.backend() {
            let energies = self.gram(Of::Directions)?.leading(rank);
            let Some(n) = energies.minus_inverse(pivots(T::DTYPE)) else { return Ok(None) };
            let factor = self.filled_up(&[&n]);
            let [v, scale] = [&self.v, &self.roots].map(|array| array.as_slice().on_cpu());
            let gram = cpu::residual(self.width as usize, self.q.as_slice_mut().on_cpu_mut(), v, &factor, scale);
            return Ok(Some((n, self.small(gram).leading(rank))));
        }
        self.launch_gram(Of::Directions)?;
        self.launch_sum()?;
        let Self { device, rows, width, q, v, roots, factors, partials, sums, inverse, .. } = self;
        let (factor, n) = (factors.writable(), inverse.writable());
        let args = InvertArgs { size: rank as u32, width: *width, gram: sums.readable(), factor, inverse: n };
        let entry = Key { operation: Operation::Invert(T::DTYPE) }.entry();
        // SAFETY: squares of this width, of which the first columns count; what is written is borrowed mutably.
        unsafe { launch(device, entry, 1, args) }?;
        let args = ResidualArgs {
            rows: *rows,
            width: *width,
            v: v.readable(),
            factor: factors.readable(),
            scale: roots.readable(),
            q: q.writable(),
            partials: partials.writable(),
        };
        let entry = Key { operation: Operation::Residual(T::DTYPE) }.entry();
        // SAFETY: as in `launch_gram`; what is written is borrowed mutably.
        unsafe { launch(device, entry, grid_size(*rows), args) }?;
        let gram = self.sum()?.leading(rank);
        let n = self.small(self.inverse.to_vec()?).leading(rank);
        Ok(n.values.iter().all(|value| !value.is_nan()).then_some((n, gram)))
    }

    /// `Q = Q R`, `S = M Q + S Z`, `X = X + S D`.
    pub(super) fn direction(&mut self, r: &Small, z: &Small, d: &Small) -> Result<()> {
        self.step([r, z, d], false)
    }

    /// `Q = Q R`, and nothing else that counts.
    pub(super) fn orthonormalize(&mut self, r: &Small) -> Result<()> {
        let none = Small::zeros(0, 0);
        self.step([r, &none, &none], true)
    }

    /// With `V` in place of `S` if that is to stay.
    fn step(&mut self, factors: [&Small; 3], keeps_s: bool) -> Result<()> {
        let factors = self.filled_up(&factors);
        self.factors.copy_from(&factors)?;
        let Self { device, rows, width, x, q, s, v, roots, factors: on_device, .. } = self;
        let s = if keeps_s { v } else { s };
        if let Backend::Cpu { .. } = device.backend() {
            let tall = [q, s, x].map(|tall| tall.as_slice_mut().on_cpu_mut());
            cpu::direction(*width as usize, tall, &factors, roots.as_slice().on_cpu());
            return Ok(());
        }
        let args = DirectionArgs {
            rows: *rows,
            width: *width,
            factors: on_device.readable(),
            scale: roots.readable(),
            q: q.writable(),
            s: s.writable(),
            x: x.writable(),
        };
        let entry = Key { operation: Operation::Direction(T::DTYPE) }.entry();
        // SAFETY: as in `gram`; what is written is borrowed mutably.
        unsafe { launch(device, entry, grid_size(*rows), args) }
    }

    /// Adds up what the blocks have stored.
    fn launch_sum(&mut self) -> Result<()> {
        let Self { device, rows, width, partials, sums, .. } = self;
        let blocks = grid_size(*rows);
        let entry = Key { operation: Operation::Sum }.entry();
        let args = SumArgs { width: *width, blocks, partials: partials.readable(), gram: sums.writable() };
        // SAFETY: each block has stored a square of sums, and there is room for one.
        unsafe { launch(device, entry, sum_grid_size(*width), args) }
    }

    /// [`launch_sum`](Self::launch_sum), and the result.
    fn sum(&mut self) -> Result<Small> {
        self.launch_sum()?;
        Ok(self.small(self.sums.to_vec()?))
    }

    /// The part for the true columns.
    fn small(&self, square: Vec<f64>) -> Small {
        let width = self.width as usize;
        Small { rows: width, cols: width, values: square }.leading(self.columns())
    }

    /// Matrices one after the other, filled up with zeros.
    fn filled_up(&self, matrices: &[&Small]) -> Vec<T> {
        let width = self.width as usize;
        let mut values = vec![T::default(); matrices.len() * width * width];
        for (matrix, square) in matrices.iter().zip(values.chunks_mut(width * width)) {
            for (i, row) in square.chunks_mut(width).enumerate().take(matrix.rows) {
                (0..matrix.cols).for_each(|j| row[j] = T::from_f64(matrix.at(i, j)));
            }
        }
        values
    }
}
