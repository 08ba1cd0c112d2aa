//! Runs one kernel with a planted bug on the GPU, to see what the driver or compute-sanitizer says of it.
//!
//! `planted list` prints the kernels' names, `planted NAME` runs one. Those with Hopper's instructions run in the emulator only: `planted emulate NAME` prints
//! what it finds in any of them. The exit status tells how that ended:
//! 0 without an error, 2 wrong usage or no PTX, 3 with an error of the driver, 4 no GPU, 5 still running after 5 seconds
//! (or killed by SIGABRT, if the driver does not let the process exit then).
#![allow(clippy::print_stdout, reason = "a command's results go to stdout")]

use std::{
    process::{ExitCode, abort, exit},
    thread,
    time::Duration,
};

use test_kernels::{
    cases::{Case, hopper_bugs, planted_bugs},
    gpu::{Gpu, first_device},
};

const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, on_gpu) = match arguments.as_slice() {
        ["list"] => {
            planted_bugs().iter().for_each(|case| println!("{}", case.name));
            return ExitCode::SUCCESS;
        }
        ["emulate", name] => (*name, false),
        [name] => (*name, true),
        _ => return fail(2, "usage: planted list | planted NAME | planted emulate NAME"),
    };
    let named = |cases: Vec<Case>| cases.into_iter().find(|case| case.name == name);
    match (named(planted_bugs()), named(hopper_bugs())) {
        (Some(case), _) if on_gpu => run(&case),
        (Some(case), _) | (None, Some(case)) if !on_gpu => emulate(&case),
        (None, Some(_)) => fail(2, &format!("{name} has run in the emulator only: `planted emulate {name}`")),
        _ => fail(2, &format!("no kernel is named {name}: see `planted list`")),
    }
}

fn emulate(case: &Case) -> ExitCode {
    match case.emulate(0, 20) {
        Ok(_) => fail(5, "20 schedules without a finding"),
        Err(finding) => {
            println!("{finding}");
            ExitCode::SUCCESS
        }
    }
}

fn run(case: &Case) -> ExitCode {
    let context = match first_device() {
        Ok(context) => context,
        Err(reason) => return fail(4, &reason),
    };
    let gpu = match Gpu::new(context) {
        Ok(gpu) => gpu,
        Err(reason) => return fail(2, &reason),
    };
    if case.may_hang {
        watch();
    }
    match gpu.run(case) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(3, &error.to_string()),
    }
}

/// Ends the process when the time is up: the main thread waits in the driver, and would wait for ever.
fn watch() {
    thread::spawn(|| {
        thread::sleep(PATIENCE);
        eprintln!("the kernel is still running after {PATIENCE:?}");
        exit(5);
    });
    thread::spawn(|| {
        // The driver's part of that exit may wait for the kernel too.
        thread::sleep(2 * PATIENCE);
        abort();
    });
}

fn fail(status: u8, message: &str) -> ExitCode {
    eprintln!("{message}");
    status.into()
}
