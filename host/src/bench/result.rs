//! What a run has come to.

use super::latencies::{Latencies, Series};
use super::plan::{Mode, Plan};
use super::poke::PokeOutcome;
use super::system::Sample;
use super::tally::{Tally, Wrong};
use super::time::seconds;

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Connections that counted.
    pub clients: usize,
    /// Length of the window.
    pub seconds: f64,
    /// Messages received since the window began, those that came after its end included.
    pub messages: u64,
    /// Messages received within the window, by all clients, in a second.
    pub messages_per_second: f64,
    /// From sending a message, or from when it was due, until its answer; with
    /// [`Mode::Broadcast`](super::Mode::Broadcast) from publishing until the last receiver had it.
    /// Of the messages sent, or due, within the window.
    pub latency: Latencies,
    /// The same by time, where the plan asked for it.
    pub series: Option<Series>,
    /// Of broadcasts.
    pub broadcasts: Option<Broadcasts>,
    /// In an open loop, how much later than due messages were sent: the generator's own fault.
    pub late: Option<Latencies>,
    /// Messages that were not what they should have been.
    pub wrong: Wrong,
    /// Messages that were not answered, or not delivered, in time.
    pub unanswered: u64,
    /// Connections that ended early.
    pub lost: u64,
    /// Why the first of them did.
    pub first_loss: Option<String>,
    /// What became of the poke.
    pub poke: Option<PokeOutcome>,
    /// The server, if its process was named.
    pub server: Option<Usage>,
    /// CPU time of the busiest thread of the generator, as a share of one core, where it is known.
    /// Near 1 a closed loop's generator was the limit, or would soon be.
    pub busiest_thread: Option<f64>,
    /// Open files that the system allowed.
    pub open_files: u64,
    /// Whether nothing was to be sent.
    is_idle: bool,
}

/// What a broadcast is about besides [`Outcome::latency`].
#[derive(Clone, Debug)]
pub struct Broadcasts {
    /// Rounds that began within the window.
    pub rounds: u64,
    /// From publishing a message until a receiver had it: one for each message and receiver.
    pub deliveries: Latencies,
}

/// A process within the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Cores in use on average.
    pub cores: f64,
    /// Bytes resident at the window's end.
    pub rss: u64,
    /// Bytes of it that are the process's own, without files.
    pub rss_anon: u64,
    /// How much those have grown since before the clients connected.
    pub rss_anon_grown: i64,
}

/// Above this share of a core a thread of the generator counts as busy.
const BUSY: f64 = 0.95;

/// Above this 99th percentile, in nanoseconds, an open loop was not kept.
const MAX_LATE: u64 = 1_000_000;

impl Outcome {
    pub(super) fn empty(plan: &Plan, seconds: f64, server: Option<Usage>) -> Self {
        Self {
            clients: plan.clients,
            seconds,
            messages: 0,
            messages_per_second: 0.0,
            latency: Latencies::new(),
            series: plan.series.then(|| Series::new(plan.window)),
            broadcasts: None,
            late: None,
            wrong: Wrong::default(),
            unanswered: 0,
            lost: 0,
            first_loss: None,
            poke: None,
            server,
            busiest_thread: None,
            open_files: 0,
            is_idle: matches!(plan.mode, Mode::Idle),
        }
    }

    pub(super) fn add(&mut self, tally: &Tally) {
        self.messages += tally.messages;
        self.messages_per_second += tally.in_window as f64 / self.seconds;
        self.latency.merge(&tally.latency);
        if let (Some(series), Some(more)) = (&mut self.series, &tally.series) {
            series.merge(more);
        }
        self.wrong.merge(tally.wrong);
        self.unanswered += tally.unanswered;
    }

    pub(super) fn lose(&mut self, why: String) {
        self.lost += 1;
        self.first_loss.get_or_insert(why);
    }

    /// Whether nothing was to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Whether everything was as it should be.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.problems().is_empty()
    }

    /// What was not as it should be, in sentences.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let clients = self.clients;
        let mut problems = Vec::new();
        if self.lost > 0 {
            let first = self.first_loss.as_deref().unwrap_or("unknown");
            problems.push(format!(
                "{} of {clients} connections ended early; the first: {first}",
                self.lost
            ));
        }
        let wrongs = [
            (self.wrong.shape, "of another length or kind than what was sent"),
            (self.wrong.order, "out of order, repeated or never sent"),
            (self.wrong.altered, "altered on the way"),
        ];
        for (count, what) in wrongs {
            if count > 0 {
                let noun = if count == 1 { "message was" } else { "messages were" };
                problems.push(format!("{count} {noun} {what}"));
            }
        }
        if self.unanswered > 0 {
            problems.push(match self.broadcasts {
                Some(_) => format!(
                    "{} deliveries of the last round did not come: does the server pass on what \
                     it gets, and does it take this kind (--text)?",
                    self.unanswered
                ),
                None => format!("{} messages were not answered in time", self.unanswered),
            });
        }
        if !self.is_idle && self.latency.count() == 0 && problems.is_empty() {
            problems.push("no message came back within the window: make --seconds longer".into());
        }
        problems
    }

    /// What to bear in mind when reading the figures, in sentences.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        // An open loop waits awake for what is due soon; whether it was late is what counts.
        if let Some(share) = self.busiest_thread.filter(|share| *share >= BUSY)
            && self.late.is_none()
        {
            notes.push(format!(
                "a thread of the generator used {:.0} % of a core: if the server's cores were not \
                 as busy, the generator was the limit (--threads)",
                share * 100.0
            ));
        }
        if let Some(late) = self.late.as_ref().map(|late| late.quantile(0.99))
            && late > MAX_LATE
        {
            notes.push(format!(
                "1 % of the messages left more than {:.1} ms late, because the generator could \
                 not keep the rate: the latencies contain that",
                late as f64 / 1e6
            ));
        }
        notes
    }
}

impl Usage {
    /// From two looks at a process, each with its time; `rss_anon_grown` is not known from them.
    pub(super) fn between(first: (u64, Sample), last: (u64, Sample)) -> Option<Self> {
        let elapsed = last.0.checked_sub(first.0).filter(|elapsed| *elapsed > 0)?;
        let cpu = last.1.cpu.saturating_sub(first.1.cpu);
        Some(Self {
            cores: seconds(cpu) / seconds(elapsed),
            rss: last.1.rss,
            rss_anon: last.1.rss_anon,
            rss_anon_grown: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::super::time::SECOND;
    use super::*;

    /// A run in which one message came back, and something that the test does to it.
    fn problems(mode: Mode, spoil: impl FnOnce(&mut Outcome)) -> Vec<String> {
        let mut outcome = Outcome::empty(&plan(mode), 1.0, None);
        outcome.latency.record(1);
        spoil(&mut outcome);
        assert_eq!(outcome.is_fine(), outcome.problems().is_empty());
        outcome.problems()
    }

    #[test]
    fn each_thing_that_went_wrong_is_a_sentence() {
        let closed = || Mode::Closed { in_flight: 1 };
        let none: [String; 0] = [];
        assert_eq!(problems(closed(), |_| {}), none);
        assert_eq!(
            problems(closed(), |outcome| {
                outcome.lose("it was tired".to_owned());
                outcome.lose("so was this".to_owned());
                outcome.wrong = Wrong { shape: 1, order: 2, altered: 3 };
                outcome.unanswered = 4;
            }),
            [
                "2 of 10 connections ended early; the first: it was tired",
                "1 message was of another length or kind than what was sent",
                "2 messages were out of order, repeated or never sent",
                "3 messages were altered on the way",
                "4 messages were not answered in time",
            ]
        );
        let silent = |outcome: &mut Outcome| outcome.latency = Latencies::new();
        assert_eq!(problems(closed(), silent).len(), 1);
        assert_eq!(problems(Mode::Idle, silent), none);
    }

    #[test]
    fn a_generator_that_was_the_limit_is_noted() {
        let mut outcome = Outcome::empty(&plan(Mode::Open { rate: 1.0 }), 1.0, None);
        let mut late = Latencies::new();
        // Three digits are kept: nearer to the limit is at the limit.
        late.record(MAX_LATE / 1_000 * 998);
        (outcome.late, outcome.busiest_thread) = (Some(late.clone()), Some(BUSY));
        assert_eq!(outcome.notes().len(), 0);
        late.record(2 * MAX_LATE);
        outcome.late = Some(late);
        assert_eq!(outcome.notes().len(), 1);
        (outcome.late, outcome.busiest_thread) = (None, Some(BUSY - 0.01));
        assert_eq!(outcome.notes().len(), 0);
        outcome.busiest_thread = Some(BUSY);
        assert_eq!(outcome.notes().len(), 1);
    }

    #[test]
    fn usage_is_what_was_used_in_between() {
        let sample = |cpu, rss| Sample { cpu, rss, rss_anon: rss / 2 };
        let first = (SECOND, sample(5 * SECOND, 10));
        let usage = Usage::between(first, (3 * SECOND, sample(6 * SECOND, 20))).unwrap();
        assert_eq!((usage.cores, usage.rss, usage.rss_anon), (0.5, 20, 10));
        assert_eq!(Usage::between(first, first), None);
    }
}
