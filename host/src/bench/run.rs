//! From a plan to its result: threads are started, watched and added up.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::TcpStream;
use plugsock_ws::Kind;

use super::broadcast::{self, Broadcast, Round};
use super::echo::{Echo, Pace};
use super::idle::Idle;
use super::latencies::Latencies;
use super::messages::Messages;
use super::opener::{Opener, Route};
use super::plan::{Mode, Plan};
use super::poke::Poke;
use super::result::{Broadcasts, Outcome, Usage};
use super::sleeper::Sleeper;
use super::system::{self, Sample};
use super::tally::Tally;
use super::thread::{Ended, Shared, Task, Thread};
use super::time::{SECOND, Stopwatch, Time, Window, nanoseconds, seconds};
use crate::task;

/// How often the threads are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Between the decision to start and the start: until then every thread knows.
const NOTICE: u64 = 5_000_000;

/// Before a broadcast begins nothing may have come for this long, or for longer than that since all
/// are connected: a chat tells everybody of everybody who comes.
const QUIET: u64 = SECOND / 5;
const MAX_UNQUIET: u64 = 60 * SECOND;

/// What a run has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many of the connections are open.
    Opening {
        /// Open ones.
        open: usize,
        /// All.
        of: usize,
    },
    /// The connections are open, and there is still traffic because of that.
    Settling,
    /// The window has begun just now.
    Begun,
    /// The run is so far, from 0 to 1000 thousandths; messages received so far.
    Running {
        /// Of warm-up and window.
        thousandths: u16,
        /// By all clients.
        messages: u64,
    },
}

/// Does what the plan says, and tells `watch` how far it is, some twenty times a second.
///
/// # Errors
/// In one sentence: where a limit of the system is in the way, or a connection cannot be opened.
/// What goes wrong later stands in the outcome.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, String> {
    plan.check()?;
    let open_files = room_for(plan)?;
    let before = match plan.pid {
        Some(pid) => Some(system::sample(pid).ok_or_else(|| no_process(pid))?),
        None => None,
    };
    let crew = Crew::new(plan)?;
    let mut outcome = match &plan.mode {
        Mode::Closed { .. } | Mode::Open { .. } => echo(plan, crew, watch)?,
        Mode::Broadcast { in_flight, publish_url } => {
            broadcast(plan, *in_flight, publish_url, crew, watch)?
        }
        Mode::Idle => idle(plan, crew, watch)?,
    };
    outcome.open_files = open_files;
    if let (Some(before), Some(usage)) = (before, &mut outcome.server) {
        usage.rss_anon_grown = i64::try_from(usage.rss_anon).unwrap_or(i64::MAX)
            - i64::try_from(before.rss_anon).unwrap_or(i64::MAX);
    }
    Ok(outcome)
}

/// Raises the limit on open files; returns what it is now.
fn room_for(plan: &Plan) -> Result<u64, String> {
    let files = system::raise_open_files();
    let needed = plan.connections() as u64 + 3 * plan.threads as u64 + system::RESERVED_FILES;
    match needed <= files {
        true => Ok(files),
        false => Err(format!(
            "{} connections need {needed} open files, and the system allows this process {files}: \
             raise the hard limit (ulimit -Hn), or use fewer --clients",
            plan.connections()
        )),
    }
}

fn no_process(pid: u32) -> String {
    match cfg!(target_os = "linux") {
        true => format!("there is no process {pid} here, or it is not ours to look at: see --pid"),
        false => "--pid looks into /proc, which only Linux has: leave it out".to_owned(),
    }
}

/// What all threads need before they run.
struct Crew {
    sleepers: Vec<Sleeper>,
    shared: Arc<Shared>,
    cores: Vec<usize>,
}

impl Crew {
    fn new(plan: &Plan) -> Result<Self, String> {
        // A thread without a client would have nothing to do.
        let threads = plan.threads.min(plan.clients);
        let failed = |error| format!("cannot make a poll for each thread: {error}");
        let sleepers: Result<Vec<_>, _> = (0..threads).map(|_| Sleeper::new()).collect();
        let sleepers = sleepers.map_err(failed)?;
        let wakers: Result<Vec<_>, _> = sleepers.iter().map(Sleeper::waker).collect();
        let shared = Arc::new(Shared::new(Stopwatch::start(), wakers.map_err(failed)?));
        let cores = match plan.pin {
            true => system::cores(),
            false => Vec::new(),
        };
        if plan.pin && cores.is_empty() {
            return Err("--pin works on Linux only: leave it out".to_owned());
        }
        Ok(Self { sleepers, shared, cores })
    }

    /// Starts a thread for each share of the clients. `extras` are connections of the first one
    /// that do not count; `task` makes what it does from its number and how many clients it has.
    fn start<T: Task<TcpStream> + Send + 'static>(
        self,
        plan: &Plan,
        extras: Vec<Route>,
        mut task: impl FnMut(usize, usize) -> T,
    ) -> Result<Running<T>, String> {
        let route = Route::new(&plan.url, plan.clients, plan.source_addresses, plan.deflate)?;
        let threads = self.sleepers.len();
        let rate = plan.connect_rate / threads as f64;
        let connections = plan.clients + extras.len();
        let mut extras = Some(extras);
        let mut handles = Vec::new();
        for (number, sleeper) in self.sleepers.into_iter().enumerate() {
            let (first, next) =
                (plan.clients * number / threads, plan.clients * (number + 1) / threads);
            let counted = next - first;
            let extras = extras.take().unwrap_or_default();
            let thread = Thread {
                sleeper,
                opener: Opener::new(route.clone(), (first, counted), extras, rate, threads),
                counted,
                task: task(number, counted),
                shared: Arc::clone(&self.shared),
                core: self.cores.get(number % self.cores.len().max(1)).copied(),
            };
            let handle = task::spawn(&format!("bench-{number}"), move || thread.run());
            match handle {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    self.shared.stop();
                    return Err(format!("cannot start thread {number}: {error}"));
                }
            }
        }
        Ok(Running { shared: self.shared, handles, connections })
    }
}

/// Threads that run.
struct Running<T> {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<Result<Ended<T>, String>>>,
    connections: usize,
}

/// What became of them.
struct Finished<T> {
    ended: Vec<Ended<T>>,
    window: Window,
    server: Option<Usage>,
}

impl<T> Running<T> {
    /// Waits until all connections are open, starts the run and waits until it is over.
    fn conduct(
        self,
        plan: &Plan,
        settles: bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Finished<T>, String> {
        while self.shared.opened() < self.connections {
            if self.any_finished() {
                self.shared.stop();
                return Err(self.first_error());
            }
            watch(Progress::Opening { open: self.shared.opened(), of: self.connections });
            task::sleep(LOOK);
        }
        watch(Progress::Opening { open: self.connections, of: self.connections });
        if settles {
            self.settle(watch);
        }
        let start = self.shared.time().now() + NOTICE;
        let begin = start + nanoseconds(plan.warmup);
        let window = Window { start, begin, end: begin + nanoseconds(plan.window) };
        self.shared.start(window);

        self.sleep_until(window.begin, window, watch);
        let first = self.sample(plan);
        watch(Progress::Begun);
        self.sleep_until(window.end, window, watch);
        let server = first.and_then(|first| Usage::between(first, self.sample(plan)?));
        while !self.handles.iter().all(JoinHandle::is_finished) {
            self.look(window, watch);
            task::sleep(Duration::from_millis(5));
        }
        let ended: Result<Vec<_>, _> = self.handles.into_iter().map(join).collect();
        Ok(Finished { ended: ended?, window, server })
    }

    fn settle(&self, watch: &mut dyn FnMut(Progress)) {
        let begin = self.shared.time().now();
        let (mut since, mut received) = (begin, self.shared.received());
        loop {
            let now = self.shared.time().now();
            if self.shared.received() != received {
                (since, received) = (now, self.shared.received());
            }
            if now > since + QUIET || now > begin + MAX_UNQUIET || self.any_finished() {
                return;
            }
            watch(Progress::Settling);
            task::sleep(LOOK);
        }
    }

    /// Returns earlier if a thread has ended.
    fn sleep_until(&self, until: u64, window: Window, watch: &mut dyn FnMut(Progress)) {
        loop {
            let left = until.saturating_sub(self.shared.time().now());
            if left == 0 || self.any_finished() {
                return;
            }
            self.look(window, watch);
            task::sleep(LOOK.min(Duration::from_nanos(left)));
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    fn look(&self, window: Window, watch: &mut dyn FnMut(Progress)) {
        let now = self.shared.time().now().clamp(window.start, window.end);
        let share = seconds(now - window.start) / seconds(window.end - window.start);
        let messages = self.shared.received();
        watch(Progress::Running { thousandths: (share * 1000.0) as u16, messages });
    }

    fn sample(&self, plan: &Plan) -> Option<(u64, Sample)> {
        Some((self.shared.time().now(), system::sample(plan.pid?)?))
    }

    fn any_finished(&self) -> bool {
        self.handles.iter().any(JoinHandle::is_finished)
    }

    fn first_error(self) -> String {
        let results = self.handles.into_iter().map(join);
        results.filter_map(Result::err).next().unwrap_or_else(|| "a thread ended early".to_owned())
    }
}

fn join<T>(handle: JoinHandle<Result<T, String>>) -> Result<T, String> {
    handle.join().unwrap_or_else(|_| Err("a thread of the generator panicked".to_owned()))
}

fn echo(plan: &Plan, crew: Crew, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, String> {
    let threads = crew.sleepers.len();
    let extras = match &plan.poke {
        Some((url, _)) => vec![Route::new(url, 1, None, false)?],
        None => Vec::new(),
    };
    let running = crew.start(plan, extras, |number, clients| {
        let (pace, count) = match plan.mode {
            Mode::Open { rate } => (Pace::Open { rate, shift: number as f64 / threads as f64 }, 1),
            Mode::Closed { in_flight } | Mode::Broadcast { in_flight, .. } => {
                (Pace::Closed { in_flight }, in_flight)
            }
            Mode::Idle => (Pace::Closed { in_flight: 1 }, 1),
        };
        let messages = Messages::new(count, plan.size, kind(plan), b"");
        let poke = plan.poke.as_ref().filter(|_| number == 0);
        let poke = poke.map(|(_, text)| Poke::new(text.clone()));
        Echo::new(clients, pace, messages, plan.deflate, tally(plan), poke)
    })?;
    let finished = running.conduct(plan, false, watch)?;
    let (mut outcome, tasks) = Outcome::new(plan, finished);
    let mut late = Latencies::new();
    for task in tasks {
        let found = task.found();
        outcome.add(&found.tally);
        late.merge(&found.late);
        outcome.poke = outcome.poke.or(found.poke);
    }
    outcome.late = matches!(plan.mode, Mode::Open { .. }).then_some(late);
    Ok(outcome)
}

fn broadcast(
    plan: &Plan,
    in_flight: u32,
    publish_url: &super::url::Url,
    crew: Crew,
    watch: &mut dyn FnMut(Progress),
) -> Result<Outcome, String> {
    let extras = vec![Route::new(publish_url, 1, None, plan.deflate)?];
    let round = Arc::new(Round::new(plan.clients, Arc::clone(&crew.shared)));
    let tag = broadcast::tag();
    let running = crew.start(plan, extras, |number, receivers| {
        let messages = Messages::new(in_flight, plan.size, kind(plan), &tag);
        let (round, tally) = (Arc::clone(&round), tally(plan));
        let publishes = number == 0;
        Broadcast::new(receivers, round, messages, plan.deflate, in_flight, tally, publishes)
    })?;
    let finished = running.conduct(plan, true, watch)?;
    let (mut outcome, tasks) = Outcome::new(plan, finished);
    let mut broadcasts = Broadcasts { rounds: 0, deliveries: Latencies::new() };
    for task in tasks {
        let found = task.found();
        outcome.add(&found.tally);
        broadcasts.rounds += found.rounds;
        broadcasts.deliveries.merge(&found.deliveries);
        if let Some(end) = found.publisher_lost {
            outcome.lose(format!("the publisher: {end}"));
        }
    }
    outcome.broadcasts = Some(broadcasts);
    Ok(outcome)
}

fn idle(plan: &Plan, crew: Crew, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, String> {
    let running = crew.start(plan, Vec::new(), |_, _| Idle::default())?;
    let finished = running.conduct(plan, false, watch)?;
    Ok(Outcome::new(plan, finished).0)
}

impl Outcome {
    /// What is known without looking at the tasks, and the tasks.
    fn new<T>(plan: &Plan, finished: Finished<T>) -> (Self, Vec<T>) {
        let mut outcome = Self::empty(plan, finished.window.seconds(), finished.server);
        let mut tasks = Vec::new();
        let mut busiest: Option<f64> = None;
        for ended in finished.ended {
            outcome.lost += ended.losses.count;
            outcome.first_loss = outcome.first_loss.or(ended.losses.first);
            if let Some(cpu) = ended.cpu {
                let share = seconds(cpu) / finished.window.seconds();
                busiest = Some(busiest.unwrap_or(0.0).max(share));
            }
            tasks.push(ended.task);
        }
        outcome.busiest_thread = busiest;
        (outcome, tasks)
    }
}

fn kind(plan: &Plan) -> Kind {
    if plan.text { Kind::Text } else { Kind::Binary }
}

fn tally(plan: &Plan) -> Tally {
    Tally::new(plan.series.then_some(plan.window))
}
