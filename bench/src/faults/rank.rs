//! The processes of a run: ranks, or one process with a thread for each.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io, process, thread,
    time::{Duration, Instant},
};

use measure::{DTypeName, Outcome, Ranks, TransportName, emit, random_elements};
use warpsparse::{
    CsrMatrix, Error, ErrorKind, Result, Scalar, StopReason, Tolerance,
    distributed::{Communicator, DistributedCg, DistributedMatrix, DistributedVec},
};

use super::{Child, Options, plan::Recipe};

/// How long ranks wait for each other in an operation.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long a rank waits to see another one die.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a rank prints when all ranks have met.
pub(super) const MET: &str = "met";

/// What it prints before the fingerprint of the solution.
pub(super) const SOLVED: &str = "solved ";

/// What an error begins with that no death explains.
pub(super) const WRONG: &str = "wrong: ";

pub(super) fn run(options: &Options, child: Child) -> Outcome {
    thread::spawn(end_with_parent);
    let seed = options.seed.ok_or("a process of a run has its seed")?;
    let transport = options.transport.first().copied().unwrap_or(TransportName::Auto);
    let ranks = Ranks::from_name(&options.devices, transport)?;
    let recipe = Recipe::new(seed, options.first, options.max_rows);
    let solved = ranks.run(|communicator| {
        communicator.set_time_limit(TIME_LIMIT);
        tell(MET);
        let fingerprint = match recipe.dtype {
            DTypeName::F32 => solve::<f32>(&recipe, communicator, child, 1e-3)?,
            DTypeName::F64 => solve::<f64>(&recipe, communicator, child, 1e-8)?,
        };
        tell(&format!("{SOLVED}{fingerprint:016x}"));
        Ok(())
    });
    if solved.is_err() {
        let device = ranks.first();
        let sum = device.upload_vec(&[1.0f64; 1000]).and_then(|ones| ones.sum()?.get());
        if !matches!(sum, Ok(1000.0)) {
            return Err(format!("afterwards 1000 ones add up to {sum:?} on {device}").into());
        }
    }
    solved?;
    Ok(())
}

/// Ends this process when its stdin ends, which the parent holds open: so it ends with the parent, however that dies. Aborts, because the driver may
/// make an orderly exit wait for other ranks.
fn end_with_parent() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    process::abort();
}

fn tell(text: &str) {
    // Who does not listen any more has a reason.
    let _ = emit(text);
}

/// Solves the system several times. Returns a fingerprint of the solution's bits.
fn solve<T: Scalar>(recipe: &Recipe, communicator: &Communicator, child: Child, tolerance: f64) -> Result<u64> {
    let start = Instant::now();
    let whole = recipe.matrix::<T>()?;
    let elements = random_elements::<T>(recipe.rows, 1)?;
    let a = DistributedMatrix::from_whole(communicator, &whole)?;
    let b = DistributedVec::from_whole(communicator, a.rows(), &elements)?;
    let mut x = DistributedVec::zeros(communicator, a.rows())?;
    let mut first = None;
    for count in 1.. {
        x.fill(T::default())?;
        let jacobi = a.jacobi()?;
        let info = DistributedCg::new(&a)
            .tolerance(Tolerance::relative(tolerance))
            .preconditioner(jacobi)
            .solve(&b, &mut x)?;
        let solution = x.gather()?;
        let fingerprint = fingerprint(&solution);
        let residual = relative_residual(&whole, &elements, &solution);
        if info.reason != StopReason::Converged || residual > 2.0 * tolerance || residual.is_nan() {
            return Err(wrong(communicator, format!("{:?}, a relative residual of {residual:.2e}", info.reason)));
        }
        if *first.get_or_insert(fingerprint) != fingerprint {
            return Err(wrong(communicator, format!("solution {count} has other bits than the first")));
        }
        match child {
            Child::Solve if count == 2 => return Ok(fingerprint),
            Child::UntilKilled if start.elapsed() > PATIENCE => {
                return Err(wrong(communicator, "no rank has died".into()));
            }
            _ => {}
        }
    }
    unreachable!("it is solved again until one of these returns")
}

fn wrong(communicator: &Communicator, problem: String) -> Error {
    Error::Rank { rank: communicator.rank(), problem: format!("{WRONG}{problem}"), kind: ErrorKind::Rank }
}

/// `|b - A x| / |b|`, in f64.
fn relative_residual<T: Scalar>(a: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
    let of_row = |((columns, values), b): ((&[u32], &[T]), &T)| {
        let products = columns.iter().zip(values).map(|(&column, value)| value.to_f64() * x[column as usize].to_f64());
        b.to_f64() - products.sum::<f64>()
    };
    norm(&mut a.rows().zip(b).map(of_row)) / norm(&mut b.iter().map(|b| b.to_f64()))
}

fn fingerprint<T: Scalar>(solution: &[T]) -> u64 {
    let mut hasher = DefaultHasher::new();
    solution.iter().for_each(|x| x.to_f64().to_bits().hash(&mut hasher));
    hasher.finish()
}
