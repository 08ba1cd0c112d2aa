//! What BiCGSTAB computes between its products: a kernel for each step, on the CPU vector operations.

use kernels_gpu::bicgstab::{DirectionArgs, DotsArgs, Key, Step, UpdateArgs, grid_size};

use crate::{
    DeviceScalar, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::{Backend, launch},
    vector::SumWorkspace,
};

/// `r^ . r` before an iteration, `r^ . v`, `t . s`, `t . t`, and `r^ . r` after the iteration.
pub(super) struct Scalars<T> {
    pub(super) rho: DeviceScalar<T>,
    pub(super) rv: DeviceScalar<T>,
    pub(super) ts: DeviceScalar<T>,
    pub(super) tt: DeviceScalar<T>,
    pub(super) newest: DeviceScalar<T>,
}

/// What an iteration has computed before its update.
pub(super) struct Halves<'v, T> {
    /// `M p`.
    pub(super) mp: &'v DeviceVec<T>,
    /// `M s`, or None for `s` itself.
    pub(super) ms: Option<&'v DeviceVec<T>>,
    pub(super) t: &'v DeviceVec<T>,
    pub(super) shadow: &'v DeviceVec<T>,
    /// The norm of `s`.
    pub(super) norm: &'v DeviceScalar<T>,
}

impl<T: Scalar> Scalars<T> {
    /// `ts = t . s`, `tt = t . t`.
    pub(super) fn dots(&mut self, s: &DeviceVec<T>, t: &DeviceVec<T>) -> Result<()> {
        let Self { ts, tt, .. } = self;
        let queue = s.device();
        if let Backend::Cpu { .. } = queue.backend() {
            t.dot_into(s, ts)?;
            return t.dot_into(t, tt);
        }
        let n = s.len() as u64;
        let mut workspace = SumWorkspace::of(queue)?;
        let args = DotsArgs {
            n,
            s: s.readable(),
            t: t.readable(),
            ts: ts.vector_mut().writable(),
            tt: tt.vector_mut().writable(),
            workspace: workspace.writable(),
        };
        // SAFETY: all vectors have n elements, and what is written is borrowed mutably.
        unsafe { launch(queue, entry::<T>(Step::Dots), blocks::<T>(n), args) }
    }

    /// `y = y + alpha M p + omega M s`, `r = s - omega t`, and `newest`. `r` holds `s` before; the norms of `s` and `r` and `newest` are logged.
    pub(super) fn update(
        &mut self,
        halves: &Halves<'_, T>,
        y: &mut DeviceVec<T>,
        r: &mut DeviceVec<T>,
        mut log: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let Self { rho, rv, ts, tt, newest } = self;
        let Halves { mp, ms, t, shadow, norm } = *halves;
        let (alpha, omega) = (&*rho / &*rv, &*ts / &*tt);
        let n = r.len() as u64;
        if let Backend::Cpu { .. } = r.device().backend() {
            y.axpy(alpha, mp)?;
            y.axpy(omega, ms.unwrap_or(r))?;
            log.slice_mut(..1)?.fill(norm)?;
            r.axpy(-omega, t)?;
            log.slice_mut(1..2)?.fill(&r.norm2()?)?;
            shadow.dot_into(&*r, newest)?;
            return log.slice_mut(2..3)?.fill(&*newest);
        }
        let (queue, r) = r.as_slice_mut().into_writable();
        let mut workspace = SumWorkspace::of(queue)?;
        let args = UpdateArgs {
            n,
            alpha: alpha.readable(),
            omega: omega.readable(),
            mp: mp.readable(),
            ms: ms.map(DeviceVec::readable).unwrap_or_default(),
            t: t.readable(),
            shadow: shadow.readable(),
            y: y.writable(),
            r,
            rho: newest.vector_mut().writable(),
            half: norm.vector().readable(),
            log: log.into_writable().1,
            workspace: workspace.writable(),
        };
        // SAFETY: all vectors have n elements, and what is written is borrowed mutably.
        unsafe { launch(queue, entry::<T>(Step::Update), blocks::<T>(n), args) }
    }

    /// `p = r + beta (p - omega v)`, and `rho` becomes the newest.
    pub(super) fn direction(&mut self, r: &DeviceVec<T>, v: &DeviceVec<T>, p: &mut DeviceVec<T>) -> Result<()> {
        let Self { rho, rv, ts, tt, newest } = self;
        let (by_rv, by_ts, omega) = (&*newest / &*rv, &*tt / &*ts, &*ts / &*tt);
        let n = p.len() as u64;
        if let Backend::Cpu { .. } = p.device().backend() {
            p.axpy(-omega, v)?;
            let beta = T::from_f64(1.0) * by_rv.on_cpu() * by_ts.on_cpu();
            p.axpby(T::from_f64(1.0), r, beta)?;
            return rho.set(&*newest);
        }
        let (queue, p) = p.as_slice_mut().into_writable();
        let args = DirectionArgs {
            n,
            by_rv: by_rv.readable(),
            by_ts: by_ts.readable(),
            omega: omega.readable(),
            r: r.readable(),
            v: v.readable(),
            p,
            newest: newest.vector().readable(),
            rho: rho.vector_mut().writable(),
        };
        // SAFETY: all vectors have n elements, and what is written is borrowed mutably.
        unsafe { launch(queue, entry::<T>(Step::Direction), blocks::<T>(n), args) }
    }
}

fn entry<T: Scalar>(step: Step) -> &'static kernels_gpu::Entry {
    Key { step, dtype: T::DTYPE }.entry()
}

/// The grid size. No memory holds enough elements for 2^31 blocks.
fn blocks<T>(n: u64) -> u32 {
    grid_size::<T>(n) as u32
}
