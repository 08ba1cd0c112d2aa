//! The solution of one system over several devices.

mod pays;

use std::{cell::RefCell, ops::ControlFlow, time::Instant};

use measure::{Outcome, Ranks};
use warpsparse::{
    Error, Tolerance,
    distributed::{Communicator, DistributedAmg, DistributedCg, DistributedMatrix, DistributedVec},
};

use super::{
    Course, Element, Kind, MethodName, Options, Setup, Solved, System, Wanted, preconditioner::asked_for, report,
    write_files,
};

/// Solves over the devices that the option names, a rank on each; with `all`, on one GPU where that is faster.
pub(super) fn solve<T: Element>(options: &Options, names: &str) -> Outcome {
    if !matches!(options.method, MethodName::Auto | MethodName::Cg) {
        return Err("with --devices the method is conjugate gradients: --method auto or cg".into());
    }
    let (kind, why) = match options.precond {
        Wanted::BlockJacobi | Wanted::Ilu | Wanted::Chebyshev | Wanted::Fsai => {
            return Err(
                "--precond block-jacobi, ilu, chebyshev and fsai are for one device: with --devices there are amg, jacobi and none"
                    .into(),
            );
        }
        Wanted::Auto => (Kind::Jacobi, "over several devices, multigrid is on request".into()),
        Wanted::Amg => (Kind::Amg, asked_for()),
        Wanted::Jacobi => (Kind::Jacobi, asked_for()),
        Wanted::None => (Kind::None, asked_for()),
    };
    let ranks = Ranks::from_name(names, options.transport)?;
    let System { matrix, b } = System::<T>::load(options)?;
    if let Some((device, why)) = pays::one_of(&ranks, names, &matrix)? {
        return super::solve_on(options, device, System { matrix, b }, Some(&why));
    }
    let first_norm = b.iter().map(|b| b.to_f64() * b.to_f64()).sum::<f64>().sqrt();
    let limit = options.max_iters.unwrap_or(10 * b.len());
    let program = |communicator: &Communicator| {
        let course = RefCell::new(Course::new(first_norm));
        let a = DistributedMatrix::from_whole(communicator, &matrix)?;
        let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
        let mut x = DistributedVec::zeros(communicator, a.rows())?;
        let begin = |doing| {
            if communicator.rank() == 0 {
                course.borrow_mut().begin(doing);
            }
        };
        begin("setting up");
        let start = Instant::now();
        let amg = (kind == Kind::Amg).then(|| DistributedAmg::new(&a)).transpose()?;
        communicator.device().synchronize()?;
        let setup = amg.as_ref().map(|amg| Setup::new(&amg.describe(), options.dtype, start.elapsed()));
        course.borrow_mut().end();
        let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(options.tol)).max_iterations(limit);
        // Rank 0 shows the course.
        cg = cg.callback(|progress| match communicator.rank() {
            0 => course.borrow_mut().hear(progress),
            _ => ControlFlow::Continue(()),
        });
        if let Some(amg) = &amg {
            cg = cg.preconditioner(amg);
        } else if kind == Kind::Jacobi {
            cg = cg.preconditioner(a.jacobi()?);
        }
        begin("solving");
        let solved = cg.solve(&b, &mut x);
        course.borrow_mut().end();
        if let Err(error @ Error::Breakdown { iteration: 1.., .. }) = solved {
            let x = x.gather()?;
            if communicator.rank() == 0
                && let Err(problem) = write_files(options, first_norm, &course.borrow().norms, &x)
            {
                eprintln!("error: {problem}");
            }
            return Err(error);
        }
        solved?;
        // The first one may have waited for kernels, memory and connections.
        x.fill(T::default())?;
        communicator.barrier()?;
        begin("timing");
        let start = Instant::now();
        let info = cg.solve(&b, &mut x);
        let time = start.elapsed();
        course.borrow_mut().end();
        let (kernel, reason) = (a.describe(), communicator.describe());
        let preconditioner = (kind, why.clone(), setup);
        Ok(Solved { info: info?, time, x: x.gather()?, kernel, reason, preconditioner, tried: vec![] })
    };
    let Some(solved) = ranks.run(program)? else { return Ok(()) };
    let threads = report::threads(ranks.first())?;
    super::tell(options, &matrix, (ranks.describe(), threads), (first_norm, limit), solved)
}
