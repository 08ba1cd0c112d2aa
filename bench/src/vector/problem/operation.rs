//! What is measured, as programs call it.

use clap::ValueEnum;
use warpsparse::{DeviceScalar, DeviceVec, Map, Reduction, Result, Scalar, Zip};

use super::Set;

/// In the order of a table. Names are those of the library's methods, and of what these are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Operation {
    Axpy,
    Axpby,
    Scale,
    Assign,
    ZipMul,
    MapRelu,
    MapExp,
    Fill,
    Dot,
    Sum,
    Norm2,
    Max,
    AxpyDot,
    AxpbyNorm,
    FillUniform,
    FillNormal,
}

/// An operation that is repeated on its own result must neither overflow nor come to 0, be it as often as a clock repeats it: `y` grows slowly by the
/// first, and comes to a multiple of `x` with both.
pub(crate) const ALPHA: f64 = 0.75;
pub(super) const BETA: f64 = -0.5;
/// What `scale` multiplies by, for the same reason.
pub(crate) const SCALE: f64 = -1.0;
/// What `fill` sets elements to.
pub(super) const VALUE: f64 = 0.375;

impl Operation {
    /// As on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }

    /// As in a program.
    pub(super) fn call(self) -> &'static str {
        self.described().0
    }

    /// How many vectors' elements it must read and write.
    pub(super) fn vectors(self) -> usize {
        self.described().1
    }

    fn described(self) -> (&'static str, usize) {
        match self {
            Self::Axpy => ("y.axpy(alpha, &x)", 3),
            Self::Axpby => ("y.axpby(alpha, &x, beta)", 3),
            Self::Scale => ("y.scale(-1)", 2),
            Self::Assign => ("y.assign(&x)", 2),
            Self::ZipMul => ("y.zip_from(Zip::Mul, &x, &z)", 3),
            Self::MapRelu => ("y.map_from(Map::Relu, &x)", 2),
            Self::MapExp => ("y.map_from(Map::Exp, &x)", 2),
            Self::Fill => ("y.fill(value)", 1),
            Self::Dot => ("x.dot_into(&z, &mut dot)", 2),
            Self::Sum => ("x.reduce_into(Reduction::Sum, &mut sum)", 1),
            Self::Norm2 => ("x.reduce_into(Reduction::Norm2, &mut norm)", 1),
            Self::Max => ("x.max_into(&mut value, &mut index)", 1),
            Self::AxpyDot => ("y.axpy_dot(alpha, &x, &z, &mut dot)", 4),
            Self::AxpbyNorm => ("y.axpby_norm(alpha, &x, beta, &mut norm)", 3),
            Self::FillUniform => ("y.fill_uniform(seed, -1, 1)", 1),
            Self::FillNormal => ("y.fill_normal(seed, 0, 1)", 1),
        }
    }

    /// Queues it.
    pub(super) fn run<T: Scalar>(
        self,
        Set { x, y, z }: &mut Set<T>,
        number: &mut DeviceScalar<T>,
        index: &mut DeviceScalar<u64>,
    ) -> Result<()> {
        let (x, z) = (&*x, &*z);
        let [alpha, beta, scale, value] = [ALPHA, BETA, SCALE, VALUE].map(T::from_f64);
        match self {
            Self::Axpy => y.axpy(alpha, x),
            Self::Axpby => y.axpby(alpha, x, beta),
            Self::Scale => y.scale(scale),
            Self::Assign => y.assign(x),
            Self::ZipMul => y.zip_from(Zip::Mul, x, z),
            Self::MapRelu => y.map_from(Map::Relu, x),
            Self::MapExp => y.map_from(Map::Exp, x),
            Self::Fill => y.fill(value),
            Self::Dot => x.dot_into(z, number),
            Self::Sum => x.reduce_into(Reduction::Sum, number),
            Self::Norm2 => x.reduce_into(Reduction::Norm2, number),
            Self::Max => x.max_into(number, index),
            Self::AxpyDot => y.axpy_dot(alpha, x, z, number),
            Self::AxpbyNorm => y.axpby_norm(alpha, x, beta, number),
            Self::FillUniform => fill_uniform(y),
            Self::FillNormal => fill_normal(y),
        }
    }
}

/// The seed of both.
const SEED: u64 = 7;

pub(super) fn fill_uniform<T: Scalar>(y: &mut DeviceVec<T>) -> Result<()> {
    y.fill_uniform(SEED, T::from_f64(-1.0), T::from_f64(1.0))
}

pub(super) fn fill_normal<T: Scalar>(y: &mut DeviceVec<T>) -> Result<()> {
    y.fill_normal(SEED, T::from_f64(0.0), T::from_f64(1.0))
}
