//! A whole connection in simulated time, and the judgement of how it went.

use plugsock_ws::deflate::Codec;
use plugsock_ws::{Role, State};

use crate::choices::Choices;
use crate::endpoint::{Cause, Endpoint, Ports};
use crate::pipe::{Damage, End, Fault, Pipe};
use crate::reference::{Unit, Verdict, decode};
use crate::terms::Terms;
use crate::traffic;

/// What may go wrong in a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// The network loses the rest of a direction.
    Lost,
    /// The network changes a byte.
    Changed,
    /// One end breaks a rule.
    Breach,
}

/// What happened in a run, or in many.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) connections: usize,
    pub(crate) messages: usize,
    /// Messages that left compressed.
    pub(crate) compressed: usize,
    /// Messages that were not inflated in one step, and were not done when we closed.
    pub(crate) abandoned: usize,
    /// Connections that both ends closed at once.
    pub(crate) crossings: usize,
    pub(crate) closed: usize,
    pub(crate) failed: usize,
    pub(crate) gone: usize,
    pub(crate) deadlines: usize,
}

struct World<'c> {
    choices: Choices<'c>,
    trouble: Trouble,
    terms: Terms,
    codec: Codec,
    now: u64,
    /// Client and server.
    ends: [Endpoint; 2],
    /// What each of them sends.
    pipes: [Pipe; 2],
    /// Which of the two is in trouble by what it sends.
    troubled: usize,
}

#[derive(Copy, Clone)]
enum Happening {
    Arrival,
    Wake,
    Resume,
    Deadline,
}

/// Runs one connection from the handshake to its end on both sides.
pub(crate) fn run(choices: Choices<'_>, trouble: Trouble) -> Tally {
    let mut world = World::new(choices, trouble);
    // Each step sends a frame, reads a byte or ends something.
    for _ in 0..1_000_000 {
        if !world.step() {
            return world.judge();
        }
    }
    unreachable!("the run has no end");
}

impl<'c> World<'c> {
    fn new(mut choices: Choices<'c>, trouble: Trouble) -> Self {
        let terms = Terms::new(&mut choices);
        let limits = traffic::limits(&mut choices);
        let troubled = choices.below(2);
        let fault = fault(&mut choices, trouble);
        let faults = if troubled == 0 { [fault, None] } else { [None, fault] };
        let pipes = faults.map(|fault| Pipe::new(&mut choices, fault));
        let mut ends =
            [Role::Client, Role::Server].map(|role| Endpoint::new(&mut choices, role, limits));
        if trouble == Trouble::Breach {
            ends[troubled].sender.break_a_rule(&mut choices);
        }
        if !ends.iter().any(|end| end.sender.closes()) {
            ends[choices.below(2)].sender.close_at_the_end();
        }
        let codec = Codec::new(terms.settings);
        Self { choices, trouble, terms, codec, now: 0, ends, pipes, troubled }
    }

    /// Lets the next thing happen. False if nothing will any more.
    fn step(&mut self) -> bool {
        let mut next: Option<(u64, usize, Happening)> = None;
        for (at, end) in self.ends.iter().enumerate() {
            let arrival = self.pipes[1 - at].next_arrival().filter(|_| end.resume.is_none());
            for (time, what) in [
                (arrival, Happening::Arrival),
                (end.wake, Happening::Wake),
                (end.resume, Happening::Resume),
                (end.deadline, Happening::Deadline),
            ] {
                let Some(time) = time else { continue };
                if next.is_none_or(|(first, ..)| time < first) {
                    next = Some((time, at, what));
                }
            }
        }
        let Some((time, at, what)) = next else { return false };
        self.now = self.now.max(time);
        self.happen(at, what);
        true
    }

    fn happen(&mut self, at: usize, what: Happening) {
        let trusts_incoming = self.is_honest(1 - at);
        let end = &mut self.ends[at];
        let [first, second] = &mut self.pipes;
        let (outgoing, incoming) = if at == 0 { (first, second) } else { (second, first) };
        let (now, choices) = (self.now, &mut self.choices);
        let (terms, codec) = (&self.terms, &mut self.codec);
        let mut ports = Ports { now, choices, terms, codec, incoming, trusts_incoming, outgoing };
        match what {
            Happening::Arrival => end.read(&mut ports),
            Happening::Wake => end.act(&mut ports),
            Happening::Resume => end.parse(&mut ports),
            Happening::Deadline => end.give_up(),
        }
        if end.leaves {
            (end.wake, end.resume, end.deadline) = (None, None, None);
            ports.outgoing.end(now, End::Eof);
            ports.incoming.abandon();
        }
    }

    /// Whether what an end sends is right and arrives unchanged; it need not arrive whole.
    fn is_honest(&self, at: usize) -> bool {
        at != self.troubled || matches!(self.trouble, Trouble::None | Trouble::Lost)
    }

    fn judge(&self) -> Tally {
        let mut tally = Tally { connections: 1, ..Tally::default() };
        for (at, end) in self.ends.iter().enumerate() {
            self.judge_by_reference(at);
            if self.is_honest(1 - at) {
                self.judge_by_record(at);
            }
            self.judge_breach(at);
            tally.add(end);
        }
        let [client, server] = &self.ends;
        tally.crossings += usize::from(client.closing.is_some() && server.closing.is_some());
        if self.trouble == Trouble::None {
            self.judge_clean_end();
        }
        tally
    }

    /// What was seen is what the received bytes say, and the cause of the end follows from them.
    fn judge_by_reference(&self, at: usize) {
        let end = &self.ends[at];
        let agreed = end.agreed.as_ref();
        let decoded = decode(end.role, &end.limits, agreed, end.parsed(), end.closing);
        assert_eq!(end.seen, decoded.units, "{:?}", end.role);
        let fits = match (decoded.verdict, end.cause) {
            (Verdict::Close(code), cause) => cause == Some(Cause::Closed(code)),
            (verdict, Some(Cause::Failed(code))) => verdict.admits(Verdict::Error(code)),
            (Verdict::Error(_) | Verdict::Overflow, _) => false,
            (Verdict::Open, Some(Cause::Gone(_) | Cause::Deadline)) => true,
            (Verdict::Open, _) => false,
        };
        assert!(fits, "{:?} ended by {:?}, not {:?}", end.role, end.cause, decoded.verdict);
        if decoded.verdict != Verdict::Open || decoded.idle {
            assert_eq!(end.held(), 0, "{:?}", end.role);
        }
    }

    /// What was seen is what the peer said, as far as it came: once, in order, unchanged.
    fn judge_by_record(&self, at: usize) {
        let (end, peer) = (&self.ends[at], &self.ends[1 - at]);
        let received = end.parsed().len();
        let open_until = end.closing.map_or(received, |closing| closing.at);
        let unread = end.closing.filter(|closing| closing.amid_message).map(|closing| closing.at);
        let expected = peer.sender.sent.iter().filter(|(until, unit)| {
            let open = *until <= open_until && unread != Some(*until);
            open || (*until <= received && matches!(unit, Unit::Close(_)))
        });
        let expected: Vec<_> = expected.map(|(_, unit)| unit).collect();
        assert_eq!(end.seen.iter().collect::<Vec<_>>(), expected, "{:?}", end.role);
    }

    /// A broken rule is noticed and named, unless the receiver did not care any more.
    fn judge_breach(&self, at: usize) {
        let (end, peer) = (&self.ends[at], &self.ends[1 - at]);
        let Some(breach) = peer.sender.breach else { return };
        if end.closing.is_some() {
            return;
        }
        let before = peer.sender.sent.iter().filter(|(until, _)| *until <= breach.end);
        let before: Vec<_> = before.map(|(_, unit)| unit).collect();
        assert_eq!(end.seen.iter().collect::<Vec<_>>(), before, "{:?}", end.role);
        assert_eq!(end.cause, Some(Cause::Failed(breach.code)), "{:?}", end.role);
    }

    /// Both ends closed, and agree on the code if only one of them began.
    fn judge_clean_end(&self) {
        for end in &self.ends {
            assert_eq!(end.state, State::Closed, "{:?}", end.role);
            assert!(matches!(end.cause, Some(Cause::Closed(_))), "{:?}", end.role);
        }
        let [client, server] = &self.ends;
        if client.closing.is_none() || server.closing.is_none() {
            assert_eq!(client.cause, server.cause);
        }
        assert!(client.closing.is_some() || server.closing.is_some());
    }
}

fn fault(choices: &mut Choices<'_>, trouble: Trouble) -> Option<Fault> {
    let frame = choices.below(5);
    let byte = match choices.below(4) {
        0 | 1 => choices.below(16),
        2 => choices.below(200),
        _ => choices.below(70_000),
    };
    let end = choices.pick(&[End::Eof, End::Reset]);
    let bits = if choices.once_in(2) { 1 << choices.below(8) } else { 1 + choices.below(255) };
    let damage = match trouble {
        Trouble::Lost => Damage::Lost(end),
        Trouble::Changed => Damage::Changed(u8::try_from(bits).unwrap_or(1)),
        Trouble::None | Trouble::Breach => return None,
    };
    Some(Fault { frame, byte, damage })
}

impl Tally {
    /// Adds what one end has seen.
    fn add(&mut self, end: &Endpoint) {
        let is_message = |unit: &&Unit| matches!(unit, Unit::Text(_) | Unit::Binary(_));
        self.messages += end.seen.iter().filter(is_message).count();
        self.compressed += end.sender.compressed;
        self.abandoned += usize::from(end.closing.is_some_and(|closing| closing.amid_message));
        match end.cause {
            Some(Cause::Closed(_)) => self.closed += 1,
            Some(Cause::Failed(_)) => self.failed += 1,
            Some(Cause::Gone(_)) => self.gone += 1,
            Some(Cause::Deadline) => self.deadlines += 1,
            None => {}
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.compressed += other.compressed;
        self.abandoned += other.abandoned;
        self.connections += other.connections;
        self.crossings += other.crossings;
        self.closed += other.closed;
        self.failed += other.failed;
        self.gone += other.gone;
        self.deadlines += other.deadlines;
    }
}
