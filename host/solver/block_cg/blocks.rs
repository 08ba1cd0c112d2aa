//! The tall matrices of a group of systems, and what is computed of them: launches of the kernel family `block_cg`.

use kernels_gpu::block_cg::{
    DirectionArgs, FactorArgs, GramArgs, InvertArgs, Key, Operation, ResidualArgs, SumArgs, TWICE, grid_size, padded,
    pivots, progress, sum_grid_size, width,
};

use super::{
    cpu,
    small::{Factors, Small},
};
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
    /// `C` and `N` on the CPU: the residuals are `Q C`.
    c: Small,
    n: Small,
    /// `C` and `N` on other devices.
    c_on_device: DeviceVec<f64>,
    inverse: DeviceVec<f64>,
    /// The rows of `C`.
    rank: usize,
    /// See [`FactorArgs`].
    state: DeviceVec<u32>,
    limits: DeviceVec<f64>,
    log: DeviceVec<f64>,
}

/// The most iterations that are queued at a time.
pub(super) const AT_A_TIME: usize = 8;

/// How the iterations of [`Blocks::run`] end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There have been as many as asked for.
    Count,
    /// After one in which a column has reached its limit.
    Limit,
    /// Within one: the columns of `Q` have to be made orthonormal twice.
    Twice,
    /// Within one: `S^T A S` is not positive definite, or not finite. `Q` is lost.
    NoInverse,
    /// Within one: `Q^T M Q` is not finite.
    NotFinite,
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
            n: Small::zeros(0, 0),
            c: Small::zeros(0, 0),
            rank: 0,
            c_on_device: device.zeros(square)?,
            state: device.zeros(3)?,
            limits: device.zeros(width as usize)?,
            log: device.zeros(AT_A_TIME * (width as usize + 2))?,
        })
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

    /// Sets `C`, which has a row for each column of `Q` that counts.
    pub(super) fn set_c(&mut self, c: Small) -> Result<()> {
        self.rank = c.rows;
        if self.is_on_cpu() {
            self.c = c;
            return Ok(());
        }
        let values = self.filled_up::<f64>(&[&c]);
        self.c_on_device.copy_from(&values)
    }

    /// `C`, and `N` of the last iteration. Waits for them.
    pub(super) fn c_and_n(&self) -> Result<(Small, Small)> {
        if self.is_on_cpu() {
            return Ok((self.c.clone(), self.n.clone()));
        }
        let c = self.small(self.c_on_device.to_vec()?).part(self.rank, self.columns);
        let n = self.small(self.inverse.to_vec()?).part(self.rank, self.rank);
        Ok((c, n))
    }

    /// Iterates up to `count` times, at most [`AT_A_TIME`]: `V = A S`, `N = -(S^T V)^-1`, `Q = Q + V N`, and then what the kernel `factor` says. Columns whose limit is less than 0 take no
    /// part, and if the norm of a column of `C` comes to its limit, that iteration is the last. Returns these norms for each iteration that is complete, and how it ends. Waits for them.
    pub(super) fn run(&mut self, a: &DeviceMatrix<T>, limits: &[f64], count: usize) -> Result<(Vec<Vec<f64>>, End)> {
        if self.is_on_cpu() {
            return self.run_on_cpu(a, limits, count);
        }
        let mut of_all = vec![-1.0; self.width as usize];
        of_all[..limits.len()].copy_from_slice(limits);
        self.limits.copy_from(&of_all)?;
        self.set_state(false)?;
        (0..count).try_for_each(|i| self.queue(a, i))?;
        let row = self.width as usize + 2;
        let log = self.log.slice(..count * row)?.to_vec()?;
        self.rank = log[log.len() - 1] as usize;
        let mut norms = vec![];
        for log in log.chunks(row) {
            let progress = log[row - 2] as u32;
            if let progress::RUNS | progress::ENDED = progress {
                norms.push(log[..limits.len()].to_vec());
            }
            match progress {
                progress::RUNS => {}
                progress::ENDED => return Ok((norms, End::Limit)),
                progress::TWICE => return Ok((norms, End::Twice)),
                progress::NO_INVERSE => return Ok((norms, End::NoInverse)),
                _ => return Ok((norms, End::NotFinite)),
            }
        }
        Ok((norms, End::Count))
    }

    fn run_on_cpu(&mut self, a: &DeviceMatrix<T>, limits: &[f64], count: usize) -> Result<(Vec<Vec<f64>>, End)> {
        let mut norms = vec![];
        for _ in 0..count {
            self.multiply(a)?;
            let energies = self.gram(Of::Directions)?.part(self.rank, self.rank);
            let Some(n) = energies.minus_inverse(pivots(T::DTYPE)) else { return Ok((norms, End::NoInverse)) };
            let factor = self.filled_up(&[&n]);
            let [v, scale] = [&self.v, &self.roots].map(|array| array.as_slice().on_cpu());
            let gram = cpu::residual(self.width as usize, self.q.as_slice_mut().on_cpu_mut(), v, &factor, scale);
            self.n = n;
            let Some(factors) = Factors::of(&self.small(gram).part(self.rank, self.rank)) else {
                return Ok((norms, End::NotFinite));
            };
            if factors.rank() > 0 && factors.least < TWICE {
                return Ok((norms, End::Twice));
            }
            let steps = steps(&self.n.times(&self.c), |j| limits[j] >= 0.0);
            self.direction(&factors.inverse, &factors.z.transposed(), &steps)?;
            self.set_c(factors.z.times(&self.c))?;
            let of_c: Vec<f64> = (0..limits.len()).map(|j| self.c.norm_of_column(j)).collect();
            let is_end = of_c.iter().zip(limits).any(|(norm, limit)| norm <= limit);
            norms.push(of_c);
            if is_end {
                return Ok((norms, End::Limit));
            }
        }
        Ok((norms, End::Count))
    }

    /// Queues iteration `i` of a run.
    fn queue(&mut self, a: &DeviceMatrix<T>, i: usize) -> Result<()> {
        self.multiply(a)?;
        self.launch_gram(Of::Directions)?;
        self.launch_sum()?;
        let Self { device, rows, width, q, v, roots, factors, partials, sums, inverse, state, .. } = self;
        let args = InvertArgs {
            width: *width,
            state: state.readable(),
            gram: sums.readable(),
            factor: factors.writable(),
            inverse: inverse.writable(),
        };
        let entry = Key { operation: Operation::Invert(T::DTYPE) }.entry();
        // SAFETY: squares of this width, of which the first columns count; what is written is borrowed mutably.
        unsafe { launch(device, entry, 1, args) }?;
        let args = ResidualArgs {
            rows: *rows,
            width: *width,
            v: v.readable(),
            factor: factors.readable(),
            scale: roots.readable(),
            state: state.readable(),
            q: q.writable(),
            partials: partials.writable(),
        };
        let entry = Key { operation: Operation::Residual(T::DTYPE) }.entry();
        // SAFETY: as in `launch_gram`; what is written is borrowed mutably.
        unsafe { launch(device, entry, grid_size(*rows), args) }?;
        self.launch_sum()?;
        let Self { device, width, sums, inverse, factors, c_on_device, limits, state, log, .. } = self;
        let row = *width as usize + 2;
        let args = FactorArgs {
            width: *width,
            gram: sums.readable(),
            inverse: inverse.readable(),
            limits: limits.readable(),
            factors: factors.writable(),
            c: c_on_device.writable(),
            state: state.writable(),
            log: log.slice_mut(i * row..(i + 1) * row)?.into_writable().1,
        };
        let entry = Key { operation: Operation::Factor(T::DTYPE) }.entry();
        // SAFETY: squares of this width; what is written is borrowed mutably.
        unsafe { launch(device, entry, 1, args) }?;
        self.launch_direction(false)
    }

    /// `V = A S`.
    fn multiply(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        let (s, v) = (self.s.matrix(self.layout)?, self.v.matrix_mut(self.layout)?);
        a.spmm(T::from_f64(1.0), s, T::default(), v)
    }

    /// The state from which iterations go on, or `direction` is queued alone.
    fn set_state(&mut self, moves: bool) -> Result<()> {
        self.state.copy_from(&[progress::RUNS, self.rank as u32, u32::from(moves)])
    }

    fn is_on_cpu(&self) -> bool {
        matches!(self.device.backend(), Backend::Cpu { .. })
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
        if !self.is_on_cpu() {
            self.set_state(true)?;
            return self.launch_direction(keeps_s);
        }
        let Self { width, x, q, s, v, roots, .. } = self;
        let tall = [q, if keeps_s { v } else { s }, x].map(|tall| tall.as_slice_mut().on_cpu_mut());
        cpu::direction(*width as usize, tall, &factors, roots.as_slice().on_cpu());
        Ok(())
    }

    fn launch_direction(&mut self, keeps_s: bool) -> Result<()> {
        let Self { device, rows, width, x, q, s, v, roots, factors, state, .. } = self;
        let s = if keeps_s { v } else { s };
        let args = DirectionArgs {
            rows: *rows,
            width: *width,
            factors: factors.readable(),
            scale: roots.readable(),
            state: state.readable(),
            q: q.writable(),
            s: s.writable(),
            x: x.writable(),
        };
        let entry = Key { operation: Operation::Direction(T::DTYPE) }.entry();
        // SAFETY: as in `launch_gram`; what is written is borrowed mutably.
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
        Small { rows: width, cols: width, values: square }.part(self.columns, self.columns)
    }

    /// Matrices one after the other, filled up with zeros.
    fn filled_up<E: Scalar>(&self, matrices: &[&Small]) -> Vec<E> {
        let width = self.width as usize;
        let mut values = vec![E::default(); matrices.len() * width * width];
        for (matrix, square) in matrices.iter().zip(values.chunks_mut(width * width)) {
            for (i, row) in square.chunks_mut(width).enumerate().take(matrix.rows) {
                (0..matrix.cols).for_each(|j| row[j] = E::from_f64(matrix.at(i, j)));
            }
        }
        values
    }
}

/// `-N C` for the columns that take part.
pub(super) fn steps(product: &Small, takes_part: impl Fn(usize) -> bool) -> Small {
    Small::from_fn(product.rows, product.cols, |i, j| if takes_part(j) { -product.at(i, j) } else { 0.0 })
}
