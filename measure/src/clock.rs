//! How long a call takes: on the device, and as the host meets it. One clock for all operations and all libraries.
//!
//! An event that is recorded after a short call is reached before the host has queued the next call. What lies between two such events
//! is then the host's time for a call, 5 to 20 us, and not the device's. So on a GPU calls are captured in a CUDA graph,
//! and what is timed is the graph. What cannot be captured is timed on a stream that is held back until it is
//! full of calls ([`Device::time_each`]).

use std::{
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use warpsparse::{Device, Error, Result};

use super::{
    statistics::Spread,
    stream::{stream_of, times_between_events},
};

/// What a time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Device time, of calls in a CUDA graph.
    Graph,
    /// Device time, between events on a stream that is held back until the calls are queued.
    Held,
    /// The host's: calls queued one after the other without a graph, until all are done.
    Calls,
    /// The host's, of each call by itself: on the CPU, where a call returns when it is done.
    #[default]
    Wall,
}

impl Clock {
    /// Whether it is the device's own time.
    #[must_use]
    pub fn is_of_device(self) -> bool {
        matches!(self, Self::Graph | Self::Held)
    }

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graph => "device time, in a CUDA graph",
            Self::Held => "device time, queue held back",
            Self::Calls => "host call time",
            Self::Wall => "wall time",
        }
    }
}

/// How long a call takes, by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The time of a call.
    pub time_us: Spread,
    /// What `time_us` is.
    #[serde(default)]
    pub clock: Clock,
    /// Host call time: of calls queued one after the other without a graph, until all are done. None where `time_us` is the host's.
    #[serde(default)]
    pub call_us: Option<Spread>,
}

impl Timing {
    /// In words, the host call time too.
    pub fn describe(&self, samples: usize) -> String {
        let Spread { median, min, max, .. } = self.time_us;
        let of = |us: f64| format!("{us:.digits$}", digits = if us < 9.995 { 2 } else { 1 });
        let calls = self.call_us.map_or_else(String::new, |calls| {
            format!("\n           {} µs host call time, without a graph", of(calls.median))
        });
        let clock = if self.clock == Clock::Wall { String::new() } else { format!("{}, ", self.clock.name()) };
        format!("{} µs, {clock}median of {samples} ({} to {}){calls}", of(median), of(min), of(max))
    }

    /// What a call takes the host.
    fn host_us(&self) -> f64 {
        self.call_us.unwrap_or(self.time_us).median
    }

    /// This time over another. Device times are compared with device times: if one of the two is the host's, so is the ratio.
    pub fn over(&self, other: &Self) -> f64 {
        match self.clock.is_of_device() == other.clock.is_of_device() {
            true => self.time_us.median / other.time_us.median,
            false => self.host_us() / other.host_us(),
        }
    }

    /// The host call times' ratio.
    pub fn calls_over(&self, other: &Self) -> f64 {
        self.host_us() / other.host_us()
    }
}

/// Samples of how long a call takes.
#[derive(Debug)]
pub struct Times {
    /// What they are.
    pub clock: Clock,
    /// Each the mean over the calls of a graph or a batch, where the clock has such.
    pub each: Vec<Duration>,
    /// Host call times, where `each` are the device's.
    host: Vec<Duration>,
}

impl Times {
    /// The host's alone.
    pub(super) fn of_host(clock: Clock, each: Vec<Duration>) -> Self {
        Self { clock, each, host: Vec::new() }
    }

    /// Their spread.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let call_us = (!self.host.is_empty()).then(|| Spread::of(&self.host));
        Timing { time_us: Spread::of(&self.each), clock: self.clock, call_us }
    }
}

/// How often a call is timed.
#[derive(Clone, Debug)]
pub(super) struct Repeats {
    /// Samples: fewer than the most if those take long.
    pub(super) samples: RangeInclusive<usize>,
    /// What all samples may take together, unless they are the fewest.
    pub(super) limit: Duration,
}

/// The limit unless another is set; that of warm-ups always.
pub(super) const LIMIT: Duration = Duration::from_millis(150);

/// What a graph takes, if one call does not take longer. Between two replays the device needs about 5 us, which 2 ms make a quarter of a
/// percent. It is 20 calls of 100 us, and a few thousand of the shortest.
const GRAPH: Duration = Duration::from_millis(2);
/// The most calls that a graph holds for the sake of its length, lest it take long to instantiate. A call is one to three nodes.
const MAX_CALLS: usize = 2048;
/// Replays before those that are timed: the first one uploads the graph.
const WARM_UPS: usize = 3;

/// What a batch of calls takes for a host call time, and how many there are. To wait for the device at the end takes some
/// 10 us, which 5 ms make 0.2 percent.
const BATCH: Duration = Duration::from_millis(5);
const BATCHES: usize = 3;

impl Repeats {
    /// Times calls that go round so many sets of buffers; `call` queues one on `queue`, on the set that it is told.
    pub(super) fn times(
        &self,
        queue: &Device,
        sets: usize,
        call: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Times> {
        if !queue.is_cuda() {
            let mut calls = |count| queue.time_each(count, |repeat| call(repeat % sets));
            return Ok(Times { clock: Clock::Wall, each: self.wall_times(sets, &mut calls)?, host: Vec::new() });
        }
        let wait = || queue.synchronize();
        call(0)?; // the first use of a kernel loads it
        let one = queue.time_each(1, |_| call(0))?[0].max(Duration::from_nanos(1));
        if *self.samples.start() == 1 && one >= self.limit {
            let host = batches(&wait, (1, 1), sets, call)?;
            return Ok(Times { clock: Clock::Held, each: vec![one], host });
        }
        // A second look, for the first call may have waited for what was queued before.
        let one = queue.time_each(2, |_| call(0))?.into_iter().fold(one, Duration::min).max(Duration::from_nanos(1));
        let (clock, each) = match self.graph_times(queue, sets, one, call) {
            Ok(each) => (Clock::Graph, each),
            Err(_) => (Clock::Held, self.held_times(queue, sets, one, call)?),
        };
        let calls = calls_in(BATCH, one).min(MAX_CALLS);
        Ok(Times { clock, each, host: batches(&wait, (BATCHES, calls), sets, call)? })
    }

    /// Host call times alone, of calls that no clock of the device can time, such as those that load their kernel anew. `wait` waits until
    /// all are done.
    pub(super) fn host_times(
        &self,
        sets: usize,
        wait: &dyn Fn() -> Result<()>,
        call: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Times> {
        (0..sets).try_for_each(&mut *call)?;
        let each = batches(wait, (*self.samples.end(), 3), sets, call)?;
        Ok(Times { clock: Clock::Calls, each, host: Vec::new() })
    }

    /// Of calls that take about so long: the times of replays over the calls of one.
    fn graph_times(
        &self,
        queue: &Device,
        sets: usize,
        one: Duration,
        call: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        // As often round the sets as it takes: the next replay goes on where this one ends.
        let calls = calls_in(GRAPH, one).min(MAX_CALLS).next_multiple_of(sets);
        // SAFETY: `call` has or borrows what it touches, and outlives the graph. No other thread has this stream.
        let mut graph = unsafe { queue.capture(|| (0..calls).try_for_each(|repeat| call(repeat % sets))) }?;
        let failed = |message| Error::Driver { call: "wrapping a queue".into(), message };
        // SAFETY: the stream is kept for as long as the stream.
        let stream = unsafe { stream_of(queue) }.map_err(failed)?;
        graph.launch(WARM_UPS)?;
        let samples = self.within_limit(one * calls as u32);
        let replays = times_between_events(&stream, samples, || graph.launch(1))?;
        Ok(replays.into_iter().map(|replay| replay / calls as u32).collect())
    }

    fn held_times(
        &self,
        queue: &Device,
        sets: usize,
        one: Duration,
        call: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        (0..sets).try_for_each(&mut *call)?;
        queue.time_each(self.within_limit(one), |repeat| call(repeat % sets))
    }

    /// As many samples as stay within the limit, by the time of one.
    fn within_limit(&self, one: Duration) -> usize {
        calls_in(self.limit, one).clamp(*self.samples.start(), *self.samples.end())
    }

    /// Wall times. `time_each` computes as many as it is asked for and gives the time of each; of those that it times in vain, some tell how
    /// long a product takes, and some touch every set and wake the device.
    fn wall_times<E>(
        &self,
        sets: usize,
        time_each: &mut impl FnMut(usize) -> std::result::Result<Vec<Duration>, E>,
    ) -> std::result::Result<Vec<Duration>, E> {
        let (least, most) = (*self.samples.start(), *self.samples.end());
        let (mut repeats, mut warm_up) = (most, most.min(10));
        if least < most {
            let first = time_each(1)?;
            if least == 1 && first[0] >= self.limit {
                return Ok(first);
            }
            let probe = time_each(1)?[0];
            repeats = self.within_limit(probe);
            warm_up = calls_in(LIMIT, probe).min(repeats).min(10);
        }
        let warm_up = warm_up.max(sets);
        Ok(time_each(warm_up + repeats)?.split_off(warm_up))
    }
}

/// How many calls, each of this time, take so long: one at least.
fn calls_in(time: Duration, one: Duration) -> usize {
    usize::try_from(time.as_nanos() / one.as_nanos().max(1)).unwrap_or(usize::MAX).max(1)
}

/// The wall times of batches of calls until all of a batch are done, over their number.
fn batches(
    wait: &dyn Fn() -> Result<()>,
    (batches, calls): (usize, usize),
    sets: usize,
    call: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<Duration>> {
    let mut batch = |_| {
        wait()?;
        let start = Instant::now();
        (0..calls).try_for_each(|repeat| call(repeat % sets))?;
        wait()?;
        Ok(start.elapsed() / calls as u32)
    };
    (0..batches).map(&mut batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a product that takes so long is run, in all and timed.
    fn runs_within(limit: Duration, samples: RangeInclusive<usize>, sets: usize, micros: u64) -> (usize, usize) {
        let mut runs = 0;
        let mut time_each = |count| {
            runs += count;
            Ok::<_, ()>(vec![Duration::from_micros(micros); count])
        };
        let times = Repeats { samples, limit }.wall_times(sets, &mut time_each).unwrap();
        (runs, times.len())
    }

    #[test]
    fn long_products_are_timed_less_often() {
        let runs = |samples, sets, micros| runs_within(LIMIT, samples, sets, micros);
        assert_eq!(runs(15..=50, 1, 1), (2 + 10 + 50, 50));
        assert_eq!(runs(15..=50, 1, 5_000), (2 + 10 + 30, 30));
        assert_eq!(runs(15..=50, 1, 20_000), (2 + 7 + 15, 15));
        assert_eq!(runs(3..=50, 1, 1_000_000), (2 + 1 + 3, 3));
        assert_eq!(runs(50..=50, 1, 1_000_000), (10 + 50, 50));
        // Every copy is touched, and a clock that shows nothing does no harm.
        assert_eq!(runs(15..=50, 70, 0), (2 + 70 + 50, 50));
    }

    #[test]
    fn products_as_long_as_the_limit_are_timed_once() {
        let within = |sets, micros| runs_within(Duration::from_secs(2), 1..=15, sets, micros);
        assert_eq!(within(1, 1), (2 + 10 + 15, 15));
        assert_eq!(within(1, 400_000), (2 + 1 + 5, 5));
        assert_eq!(within(1, 1_999_999), (2 + 1 + 1, 1));
        assert_eq!(within(7, 2_000_000), (1, 1));
    }

    #[test]
    fn calls_go_round_the_sets() {
        let device = Device::cpu();
        let repeats = Repeats { samples: 3..=3, limit: LIMIT };
        let mut order = Vec::new();
        let mut call = |set| {
            order.push(set);
            Ok(())
        };
        let times = repeats.times(&device, 2, &mut call).unwrap();
        assert_eq!((times.clock, times.each.len(), times.timing().call_us), (Clock::Wall, 3, None));
        // Three to warm up, and three that are timed.
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
        order.clear();
        let mut call = |set| {
            order.push(set);
            Ok(())
        };
        let times = repeats.host_times(2, &|| Ok(()), &mut call).unwrap();
        assert_eq!((times.clock, times.each.len()), (Clock::Calls, 3));
        assert_eq!(order, [0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn device_times_are_compared_with_device_times() {
        let spread = |median| Spread { median, min: median, q1: median, q3: median, max: median };
        let of = |clock, us, call_us: Option<f64>| Timing { time_us: spread(us), clock, call_us: call_us.map(spread) };
        let ours = of(Clock::Graph, 2.0, Some(5.0));
        let captured = of(Clock::Held, 6.0, Some(20.0));
        assert_eq!((captured.over(&ours), captured.calls_over(&ours)), (3.0, 4.0));
        let compiled = of(Clock::Calls, 1000.0, None);
        assert_eq!((compiled.over(&ours), compiled.calls_over(&ours)), (200.0, 200.0));
        let [sprs, cpu] = [9.0, 3.0].map(|us| of(Clock::Wall, us, None));
        assert_eq!((sprs.over(&cpu), sprs.calls_over(&cpu)), (3.0, 3.0));
    }

    #[test]
    fn graphs_have_enough_calls() {
        let calls = |us| calls_in(GRAPH, Duration::from_micros(us)).min(MAX_CALLS);
        assert_eq!([0, 2, 7, 100, 1999, 21_000].map(calls), [MAX_CALLS, 1000, 285, 20, 1, 1]);
    }
}
