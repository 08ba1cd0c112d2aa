//! `warpsparse launch`: starts a command several times, as the ranks of one computation.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use measure::Outcome;

#[derive(Args)]
pub(crate) struct Options {
    /// The number of processes.
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    n: u32,
    /// The command of `warpsparse` that each process runs, with its options: `solve MATRIX --devices ranks`.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How long the other processes may take to end after one has failed.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &Options) -> Outcome {
    let program = env::current_exe()?;
    // A port that is free now, and most likely still when rank 0 listens there.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let start = |rank: u32| {
        let mut command = Command::new(&program);
        command.args(&options.command).env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        let variables = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", options.n)];
        variables.iter().for_each(|(name, number)| {
            command.env(name, number.to_string());
        });
        command.spawn()
    };
    let mut processes = Processes(vec![]);
    for rank in 0..options.n {
        processes.0.push(start(rank)?);
    }
    let mut failures: Vec<(usize, String)> = vec![];
    let mut deadline = None;
    let mut running: Vec<usize> = (0..processes.0.len()).collect();
    while !running.is_empty() {
        let mut left = vec![];
        for rank in running {
            match processes.0[rank].try_wait()? {
                None => left.push(rank),
                Some(status) if status.success() => {}
                Some(status) => failures.push((rank, status.to_string())),
            }
        }
        running = left;
        if !failures.is_empty() && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + PATIENCE) {
            failures.extend(running.iter().map(|&rank| (rank, "stopped, since another has failed".into())));
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    match failures.first() {
        None => Ok(()),
        Some((rank, status)) => {
            Err(format!("{} of {} processes failed; rank {rank}: {status}", failures.len(), options.n).into())
        }
    }
}

/// Processes that do not outlive this one.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            if let Ok(None) = process.try_wait() {
                // One that has just ended is no problem.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
