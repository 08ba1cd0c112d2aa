//! The processes of a run, seen from outside: how they start, die and end.

use std::{
    env, fmt,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::{Child as Process, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use measure::{Outcome, TransportName};

use super::{
    Child,
    plan::{Kill, Plan, name},
    rank::{MET, SOLVED, TIME_LIMIT, WRONG},
};

/// How long processes may take to start and to meet: the library's limit, and what a busy machine adds.
const MEETING: Duration = Duration::from_secs(45);

/// How long a run may take that nobody disturbs.
const SOLUTION: Duration = Duration::from_secs(300);

/// Where runs take place.
pub(super) struct Places {
    pub(super) devices: Vec<String>,
    pub(super) seed: u64,
    pub(super) max_rows: u32,
}

/// What has become of a run.
pub(super) enum End {
    /// After this time: since the kill, if there was one.
    AsItShould(Duration),
    Failed(String),
}

/// A process and what it has said.
struct Watched {
    process: Process,
    lines: Vec<String>,
    /// Reads what the process says on stderr, until it has ended.
    errors: Option<JoinHandle<String>>,
    status: Option<ExitStatus>,
}

/// Processes that are killed when this is dropped. If a signal ends this process before, they end with their stdin, which it holds open.
struct Group {
    watched: Vec<Watched>,
    /// What they say, with the number of the process.
    said: Receiver<(usize, String)>,
}

impl Places {
    /// Carries out a run; one without a kill also with threads, which must find the same bits. After a kill, they must find the devices in order.
    pub(super) fn try_out(&self, plan: &Plan) -> Outcome<End> {
        let start = Instant::now();
        let mut group = Group::start(self.ranks(plan)?)?;
        let killed = plan.kill.as_ref().map(|kill| group.kill(kill)).transpose()?;
        let limit = if killed.is_some() { TIME_LIMIT + MEETING } else { SOLUTION };
        let is_over = group.wait(Instant::now() + limit);
        let time = killed.unwrap_or(start).elapsed();
        if let Err(problem) = is_over.and_then(|()| group.judge(plan.kill.as_ref())) {
            return Ok(End::Failed(problem));
        }
        let mut threads = Group::start(vec![self.threads(plan)?])?;
        let judged = threads.wait(Instant::now() + SOLUTION).and_then(|()| threads.judge(None));
        if let Err(problem) = judged {
            return Ok(End::Failed(format!("with threads afterwards: {problem}")));
        }
        let mut solutions = group.solutions().chain(threads.solutions());
        let first = solutions.next();
        Ok(match solutions.find(|solution| Some(solution) != first.as_ref()) {
            Some(other) => {
                End::Failed(format!("solutions with different bits: {}, {other}", first.unwrap_or_default()))
            }
            None => End::AsItShould(time),
        })
    }

    /// Why processes on the devices cannot use a transport, if so.
    pub(super) fn why_not(&self, transport: TransportName) -> Outcome<Option<String>> {
        let plan = Plan::new(self.seed, 0, &[transport], self.devices.len(), self.max_rows);
        let plan = Plan { ranks: self.devices.len().min(2), kill: None, ..plan };
        let mut group = Group::start(self.ranks(&plan)?)?;
        let judged = group.wait(Instant::now() + SOLUTION).and_then(|()| group.judge(None));
        // What else goes wrong, runs will tell.
        Ok(judged.err().filter(|problem| problem.contains("not supported: no ")))
    }

    /// A process for each rank.
    fn ranks(&self, plan: &Plan) -> Outcome<Vec<Command>> {
        // A port that is free now, and most likely still when rank 0 listens there.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let of_rank = |rank: usize| {
            let child = if plan.kill.is_some() { Child::UntilKilled } else { Child::Solve };
            let mut command = self.command(plan, child, &format!("ranks:{}", self.devices[rank]))?;
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            for (variable, number) in [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", plan.ranks)] {
                command.env(variable, number.to_string());
            }
            Ok(command)
        };
        (0..plan.ranks).map(of_rank).collect()
    }

    /// One process with a thread for each rank.
    fn threads(&self, plan: &Plan) -> Outcome<Command> {
        let devices = &self.devices[..plan.ranks];
        let numbers: Vec<_> = devices.iter().filter_map(|device| device.strip_prefix("cuda:")).collect();
        let devices = if numbers.is_empty() { format!("{}:{}", devices[0], plan.ranks) } else { numbers.join(",") };
        let mut command = self.command(plan, Child::Solve, &devices)?;
        command.env_remove("RANK").env_remove("WORLD_SIZE");
        Ok(command)
    }

    fn command(&self, plan: &Plan, child: Child, devices: &str) -> Outcome<Command> {
        let mut command = Command::new(env::current_exe()?);
        let (child, transport) = (name(&child), name(&plan.transport));
        command.args(["faults", "--child", &child, "--devices", devices, "--transport", &transport]);
        let numbers = [("--seed", self.seed), ("--first", plan.number as u64), ("--max-rows", self.max_rows.into())];
        for (option, number) in numbers {
            command.args([option, &number.to_string()]);
        }
        Ok(command)
    }
}

impl Group {
    fn start(commands: Vec<Command>) -> Outcome<Self> {
        let (sender, said) = mpsc::channel();
        let mut group = Self { watched: Vec::new(), said };
        for (number, mut command) in commands.into_iter().enumerate() {
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            let (stdout, mut stderr) = (process.stdout.take(), process.stderr.take());
            let errors = thread::spawn(move || {
                let mut text = String::new();
                // What is no text ends it.
                let _ = stderr.as_mut().map(|stderr| stderr.read_to_string(&mut text));
                text
            });
            group.watched.push(Watched { process, lines: Vec::new(), errors: Some(errors), status: None });
            let sender = sender.clone();
            thread::spawn(move || listen(number, stdout, &sender));
        }
        Ok(group)
    }

    /// Kills a rank at its time. Returns when that was.
    fn kill(&mut self, kill: &Kill) -> Outcome<Instant> {
        if !kill.is_early {
            let deadline = Instant::now() + MEETING;
            while !self.watched[kill.rank].lines.iter().any(|line| line == MET) {
                if !self.hear(deadline) {
                    break;
                }
            }
        }
        thread::sleep(kill.after);
        self.watched[kill.rank].process.kill()?;
        Ok(Instant::now())
    }

    /// Hears one line, before the deadline.
    fn hear(&mut self, deadline: Instant) -> bool {
        let said = self.said.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        said.map(|(number, line)| self.watched[number].lines.push(line)).is_ok()
    }

    /// Waits until all have ended.
    fn wait(&mut self, deadline: Instant) -> Result<(), String> {
        loop {
            let mut running = Vec::new();
            for (number, watched) in self.watched.iter_mut().enumerate() {
                watched.status = watched.process.try_wait().map_err(|error| error.to_string())?;
                if watched.status.is_none() {
                    running.push(number);
                }
            }
            if running.is_empty() {
                // Until the threads that listen have ended.
                while self.hear(Instant::now() + TIME_LIMIT) {}
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("processes that have not ended: {running:?}"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether all have ended as they should: a killed one by that, and the others with an error that names it, or with a solution.
    fn judge(&mut self, kill: Option<&Kill>) -> Result<(), String> {
        for (number, watched) in self.watched.iter_mut().enumerate() {
            let errors = watched.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
            let error = errors.lines().rfind(|line| line.starts_with("error: ")).unwrap_or(errors.trim());
            let status = watched.status.ok_or("a process is still there")?;
            let is_right = match kill {
                None => status.success() && watched.solutions().next().is_some(),
                Some(kill) if kill.rank == number => status.code().is_none(),
                Some(kill) => {
                    let names_it = error.starts_with(&format!("error: rank {}: ", kill.rank));
                    status.code() == Some(1) && names_it && !error.contains(WRONG)
                }
            };
            if !is_right {
                return Err(format!("process {number}: {status}: {error}"));
            }
        }
        Ok(())
    }

    fn solutions(&self) -> impl Iterator<Item = &str> {
        self.watched.iter().flat_map(Watched::solutions)
    }
}

impl Watched {
    /// The fingerprints of its solutions.
    fn solutions(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| line.strip_prefix(SOLVED))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for Watched { process, .. } in &mut self.watched {
            if let Ok(None) = process.try_wait() {
                // One that has just ended is no problem.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

/// Passes on what a process says.
fn listen(number: usize, stdout: Option<ChildStdout>, sender: &Sender<(usize, String)>) {
    let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
    // Who has gone away need not hear it.
    lines.for_each(|line| drop(sender.send((number, line))));
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsItShould(time) => write!(f, "ended as it should after {:.3} s", time.as_secs_f64()),
            Self::Failed(problem) => write!(f, "FAILED: {problem}"),
        }
    }
}
