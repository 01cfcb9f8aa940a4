//! The tasks over streams and a time that the tests make up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use plugsock_ws::frame::{self, Opcode};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Role};

use super::broadcast::{self, Broadcast, Round};
use super::client::{Client, End};
use super::clients::Clients;
use super::echo::{Echo, Found, Pace};
use super::messages::Messages;
use super::poke::{Poke, PokeOutcome};
use super::tally::{Tally, Wrong};
use super::thread::{Next, Shared, Task};
use super::time::{SECOND, Stopwatch, Time, Window};

const MILLISECOND: u64 = SECOND / 1_000;

const WINDOW: Window = Window { start: 0, begin: SECOND, end: 11 * SECOND };

/// The time, which stands still until it is moved.
#[derive(Default)]
struct Fake(Cell<u64>);

impl Time for Fake {
    fn now(&self) -> u64 {
        self.0.get()
    }
}

/// The server's side of a connection: what came from the client, and what goes to it.
#[derive(Default)]
struct Pipe {
    machine: Option<Machine>,
    /// Frames of the server, one after another.
    to_client: VecDeque<u8>,
    ended: bool,
}

#[derive(Clone, Default)]
struct Stream(Rc<RefCell<Pipe>>);

/// What a server makes of a message: frames to send.
type Answer<'a> = &'a mut dyn FnMut(Kind, &[u8], &mut Vec<u8>);

impl Stream {
    fn push(&self, bytes: &[u8]) {
        self.0.borrow_mut().to_client.extend(bytes);
    }

    fn end(&self) {
        self.0.borrow_mut().ended = true;
    }
}

/// What the client has sent lies here until the server looks at it.
#[derive(Clone, Default)]
struct Sent(Rc<RefCell<Vec<u8>>>);

struct Socket {
    stream: Stream,
    sent: Sent,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.stream.0.borrow_mut();
        if pipe.to_client.is_empty() && !pipe.ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.to_client.read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server with a connection for each client.
struct Server {
    connections: Vec<(Stream, Sent)>,
}

impl Server {
    fn new(count: usize, counted: usize) -> (Self, Clients<Socket>) {
        let mut clients = Clients::new(counted);
        let mut connections = Vec::new();
        for index in 0..count {
            let (stream, sent) = (Stream::default(), Sent::default());
            stream.0.borrow_mut().machine = Some(Machine::new(Role::Server));
            let socket = Socket { stream: stream.clone(), sent: sent.clone() };
            clients.put(index, Client::new(socket, Machine::new(Role::Client), Vec::new()));
            connections.push((stream, sent));
        }
        (Self { connections }, clients)
    }

    /// Lets one connection handle all that came.
    fn serve(&self, index: usize, answer: Answer<'_>) {
        let (stream, sent) = &self.connections[index];
        let mut bytes = std::mem::take(&mut *sent.0.borrow_mut());
        let mut input = Input::new(&mut bytes);
        let mut out = Vec::new();
        let mut machine = stream.0.borrow_mut().machine.take().unwrap();
        while let Some(event) = machine.next(&Limits::default(), &mut input).unwrap() {
            if let Event::Message { kind, payload } = event {
                answer(kind, payload, &mut out);
            }
        }
        stream.0.borrow_mut().machine = Some(machine);
        stream.push(&out);
    }
}

fn echoed(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    frame::encode(kind, payload, out);
}

fn echo_task(clients: usize, pace: Pace, poke: Option<Poke>) -> Echo {
    let count = match pace {
        Pace::Closed { in_flight } => in_flight,
        Pace::Open { .. } => 1,
    };
    let messages = Messages::new(count, 32, Kind::Binary, b"");
    Echo::new(clients, pace, messages, false, Tally::new(None), poke)
}

/// Runs a task in steps of a millisecond against a server that echoes, except while it stalls.
fn echo(clients: usize, pace: Pace, stall: impl Fn(u64) -> bool) -> Found {
    let (server, mut connections) = Server::new(clients, clients);
    let (mut task, time) = (echo_task(clients, pace, None), Fake::default());
    task.start(WINDOW, &mut connections, &time);
    while task.advance(&mut connections, &time) != Next::Done {
        time.0.set(time.now() + MILLISECOND);
        for index in 0..clients {
            if !stall(time.now()) {
                server.serve(index, &mut echoed);
            }
            task.receive(index, &mut connections, &time).unwrap();
        }
    }
    task.found()
}

#[test]
fn an_open_loop_keeps_its_rate_and_answers_are_counted_once() {
    let found = echo(5, Pace::Open { rate: 20.0, shift: 0.0 }, |_| false);
    // Ten seconds of 5 clients with 20 messages/s each.
    assert_eq!(found.tally.latency.count(), 1_000);
    assert_eq!(found.tally.unanswered, 0);
    assert_eq!(found.tally.wrong, Wrong::default());
    assert!(found.tally.latency.max() <= 2 * MILLISECOND);
    assert_eq!(found.late.count(), 1_000);
}

#[test]
fn a_stall_shows_in_all_messages_that_were_due_meanwhile() {
    let stall = |now| (5 * SECOND..7 * SECOND).contains(&now);
    let found = echo(5, Pace::Open { rate: 20.0, shift: 0.0 }, stall);
    let latency = &found.tally.latency;
    assert_eq!(latency.count(), 1_000, "what was due was sent");
    // 200 messages were due within the two seconds: a fifth is late, by one second on average.
    assert!(latency.quantile(0.79) <= 2 * MILLISECOND);
    assert!(latency.quantile(0.91) >= SECOND * 9 / 10, "{}", latency.quantile(0.91));
    assert!(latency.max() >= SECOND * 199 / 100);
    assert_eq!(found.tally.unanswered, 0);

    // A closed loop sends nothing while it waits: only one message of each client is late.
    let found = echo(5, Pace::Closed { in_flight: 1 }, stall);
    let late = found.tally.latency.count() as f64 * (1.0 - 0.9995);
    assert!(late >= 4.0, "{late}");
    assert!(found.tally.latency.quantile(0.999) <= 2 * MILLISECOND);
    assert!(found.tally.latency.max() >= SECOND * 199 / 100);
}

#[test]
fn a_generator_that_is_late_says_so() {
    let (_, mut connections) = Server::new(1, 1);
    let mut task = echo_task(1, Pace::Open { rate: 100.0, shift: 0.0 }, None);
    let time = Fake::default();
    task.start(WINDOW, &mut connections, &time);
    time.0.set(WINDOW.begin);
    task.advance(&mut connections, &time);
    // It comes back a second later.
    time.0.set(WINDOW.begin + SECOND);
    task.advance(&mut connections, &time);
    let found = task.found();
    assert_eq!(found.late.count(), 101);
    assert!(found.late.max() >= SECOND * 98 / 100);
}

#[test]
fn a_closed_loop_has_so_many_in_flight_and_not_more() {
    let (server, mut connections) = Server::new(1, 1);
    let mut task = echo_task(1, Pace::Closed { in_flight: 3 }, None);
    let time = Fake::default();
    task.start(WINDOW, &mut connections, &time);
    for turn in 1..100 {
        time.0.set(turn * MILLISECOND);
        let mut came = 0;
        server.serve(0, &mut |kind, payload, out| {
            came += 1;
            echoed(kind, payload, out);
        });
        assert_eq!(came, 3);
        task.receive(0, &mut connections, &time).unwrap();
        task.advance(&mut connections, &time);
    }
    assert_eq!(Task::<Socket>::received(&task), 3 * 99);
}

/// One message of one client is answered so.
fn lied_to(answer: Answer<'_>) -> Wrong {
    let (server, mut connections) = Server::new(1, 1);
    let mut task = echo_task(1, Pace::Closed { in_flight: 2 }, None);
    let time = Fake::default();
    task.start(WINDOW, &mut connections, &time);
    server.serve(0, answer);
    task.receive(0, &mut connections, &time).unwrap();
    task.found().tally.wrong
}

#[test]
fn every_lie_is_found() {
    assert_eq!(lied_to(&mut echoed), Wrong::default());
    let swapped = &mut Vec::new();
    let wrong = lied_to(&mut |kind, payload, out| {
        swapped.push(payload.to_vec());
        if let [first, second] = &swapped[..] {
            echoed(kind, second, out);
            echoed(kind, first, out);
        }
    });
    assert_eq!(wrong, Wrong { order: 2, ..Wrong::default() });
    let wrong = lied_to(&mut |_, payload, out| echoed(Kind::Binary, &payload[1..], out));
    assert_eq!(wrong, Wrong { shape: 2, ..Wrong::default() });
    let wrong = lied_to(&mut |_, payload, out| {
        if payload.is_ascii() {
            echoed(Kind::Text, payload, out);
        }
    });
    assert_eq!(wrong, Wrong { shape: 2, ..Wrong::default() });
    let wrong = lied_to(&mut |kind, payload, out| {
        let mut altered = payload.to_vec();
        altered[31] ^= 1;
        echoed(kind, &altered, out);
    });
    assert_eq!(wrong, Wrong { altered: 2, ..Wrong::default() });
    let wrong = lied_to(&mut |kind, payload, out| {
        echoed(kind, payload, out);
        echoed(kind, payload, out);
    });
    // 0 0 1 1: the second and the third are not the next ones, and nobody asked for the fourth.
    assert_eq!(wrong.order, 3 + 2, "repeated, and two more than were under way: {wrong:?}");
}

#[test]
fn fragments_pings_and_cuts_make_no_difference() {
    let (server, mut connections) = Server::new(1, 1);
    let mut task = echo_task(1, Pace::Closed { in_flight: 1 }, None);
    let time = Fake::default();
    task.start(WINDOW, &mut connections, &time);
    let mut frames = Vec::new();
    server.serve(0, &mut |kind, payload, _| {
        frame::encode_header(kind.into(), false, 3, &mut frames);
        frames.extend_from_slice(&payload[..3]);
        frame::ping(b"there?", &mut frames).unwrap();
        frame::encode_header(Opcode::Continuation, true, 29, &mut frames);
        frames.extend_from_slice(&payload[3..]);
    });
    let (stream, sent) = &server.connections[0];
    let mut pong = Vec::new();
    for byte in frames {
        stream.push(&[byte]);
        task.receive(0, &mut connections, &time).unwrap();
        let bytes = std::mem::take(&mut *sent.0.borrow_mut());
        if pong.is_empty() {
            pong = bytes;
        }
    }
    assert_eq!(pong[..2], [0x8a, 0x86], "the ping is answered with six masked bytes");
    assert_eq!(Task::<Socket>::received(&task), 1);
    assert_eq!(task.found().tally.wrong, Wrong::default());
}

#[test]
fn ends_say_why() {
    let ended = |bytes: &[u8]| {
        let (server, mut connections) = Server::new(1, 1);
        let mut task = echo_task(1, Pace::Closed { in_flight: 1 }, None);
        server.connections[0].0.push(bytes);
        server.connections[0].0.end();
        let end = task.receive(0, &mut connections, &Fake::default()).unwrap_err();
        connections.lose(0, &end);
        assert_eq!(connections.losses().count, 1);
        assert!(connections.all_lost());
        connections.losses().first.clone().unwrap()
    };
    assert_eq!(ended(b"\x88\x06\x03\xf4slow"), "the server closed it with 1012, \"slow\"");
    assert_eq!(ended(b"\x88\x02\x03\xe8"), "the server closed it with 1000");
    assert_eq!(ended(b"\x88\x00"), "the server closed it without a code");
    assert_eq!(ended(b""), "the server hung up without a close frame");
    assert!(ended(b"\x83\x00").starts_with("the server broke the protocol: "));
}

#[test]
fn what_a_lost_connection_had_under_way_is_not_answered() {
    let (server, mut connections) = Server::new(2, 2);
    let mut task = echo_task(2, Pace::Closed { in_flight: 4 }, None);
    let time = Fake::default();
    task.start(WINDOW, &mut connections, &time);
    server.connections[0].0.end();
    let end = task.receive(0, &mut connections, &time).unwrap_err();
    assert!(matches!(end, End::Socket(_)));
    connections.lose(0, &end);
    Task::<Socket>::lost(&mut task, 0);
    assert!(!connections.all_lost());
    time.0.set(WINDOW.end);
    server.serve(1, &mut echoed);
    task.receive(1, &mut connections, &time).unwrap();
    assert_eq!(task.advance(&mut connections, &time), Next::Done, "nothing else is under way");
    assert_eq!(task.found().tally.unanswered, 4);
}

#[test]
fn a_poke_is_sent_once_and_its_end_is_told() {
    let outcome = |frames: &[u8], ends: bool| {
        let (server, mut connections) = Server::new(2, 1);
        let poke = Some(Poke::new("loop".to_owned()));
        let mut task = echo_task(1, Pace::Closed { in_flight: 1 }, poke);
        let time = Fake::default();
        task.start(WINDOW, &mut connections, &time);
        for at in [WINDOW.begin - 1, WINDOW.begin, WINDOW.begin + 1] {
            time.0.set(at);
            task.advance(&mut connections, &time);
        }
        let mut texts = Vec::new();
        server.serve(1, &mut |_, payload, _| texts.push(payload.to_vec()));
        assert_eq!(texts, [b"loop"]);
        time.0.set(WINDOW.begin + 7);
        server.connections[1].0.push(frames);
        if ends {
            server.connections[1].0.end();
        }
        let ended = task.receive(1, &mut connections, &time).map_err(|end| {
            connections.lose(1, &end);
            assert_eq!(connections.losses().count, 0, "it does not count");
        });
        assert_eq!(ended.is_err(), ends || frames.starts_with(b"\x88"));
        task.found().poke
    };
    assert_eq!(outcome(b"", false), Some(PokeOutcome::NoAnswer));
    assert_eq!(outcome(b"\x81\x01x", false), Some(PokeOutcome::Answered { after: 7 }));
    let closed = |code| Some(PokeOutcome::Closed { after: 7, code });
    assert_eq!(outcome(b"\x88\x02\x03\xf3", false), closed(Some(1011)));
    assert_eq!(outcome(b"", true), closed(None));
}

/// A round of two messages to three receivers, of which the last one is a millisecond later, by a
/// server that names the sender; `spoil` may change what a receiver is sent.
fn broadcast(spoil: impl Fn(usize, &mut Vec<u8>)) -> broadcast::Found {
    const RECEIVERS: usize = 3;
    let (server, mut connections) = Server::new(RECEIVERS + 1, RECEIVERS);
    let time = Fake::default();
    let shared = Arc::new(Shared::new(Stopwatch::start(), Vec::new()));
    let round = Arc::new(Round::new(RECEIVERS, shared));
    let messages = Messages::new(2, 64, Kind::Text, &broadcast::tag());
    let mut task = Broadcast::new(RECEIVERS, round, messages, false, 2, Tally::new(None), true);
    task.start(WINDOW, &mut connections, &time);
    while task.advance(&mut connections, &time) != Next::Done {
        let mut frames = Vec::new();
        server.serve(RECEIVERS, &mut |_, payload, out| {
            frame::encode(Kind::Text, b"* somebody joined", &mut frames);
            let named = [b"guest-1: ", payload].concat();
            frame::encode(Kind::Text, &named, &mut frames);
            // The publisher hears itself.
            frame::encode(Kind::Text, &named, out);
        });
        time.0.set(time.now() + 50 * MILLISECOND);
        for index in 0..=RECEIVERS {
            if index == RECEIVERS - 1 {
                time.0.set(time.now() + MILLISECOND);
            }
            if index < RECEIVERS {
                let mut frames = frames.clone();
                spoil(index, &mut frames);
                server.connections[index].0.push(&frames);
            }
            if let Err(end) = task.receive(index, &mut connections, &time) {
                connections.lose(index, &end);
                Task::<Socket>::lost(&mut task, index);
            }
        }
        if frames.is_empty() {
            time.0.set(time.now() + SECOND);
        }
    }
    task.found()
}

#[test]
fn a_round_lasts_until_the_last_receiver_has_all_of_it() {
    let found = broadcast(|_, _| {});
    // Rounds of 51 ms in ten seconds.
    assert!((195..=197).contains(&found.rounds), "{}", found.rounds);
    assert_eq!(found.tally.latency.count(), found.rounds);
    assert_eq!(found.deliveries.count(), found.rounds * 2 * 3);
    let close = |found: u64, expected: u64| found.abs_diff(expected) * 1_000 <= expected;
    assert!(close(found.tally.latency.quantile(0.5), 51 * MILLISECOND));
    assert!(close(found.deliveries.quantile(0.5), 50 * MILLISECOND));
    assert!(close(found.deliveries.quantile(1.0), 51 * MILLISECOND));
    assert_eq!(found.tally.wrong, Wrong::default());
    assert_eq!((found.tally.unanswered, found.publisher_lost), (0, None));
}

#[test]
fn what_does_not_reach_all_is_found() {
    let missing = broadcast(|index, frames| {
        if index == 1 {
            frames.clear();
        }
    });
    assert_eq!((missing.rounds, missing.tally.unanswered), (0, 2));

    let altered = broadcast(|index, frames| {
        if index == 1 && !frames.is_empty() {
            let last = frames.len() - 1;
            frames[last] ^= 1;
        }
    });
    assert_eq!(altered.tally.unanswered, 0);
    assert!(altered.tally.wrong.altered >= altered.rounds && altered.rounds > 100);

    let repeated = broadcast(|_, frames| frames.extend_from_within(..));
    assert!(repeated.tally.wrong.order >= repeated.rounds * 2 * 3);

    let closed = broadcast(|index, frames| {
        if index == 2 {
            frames.splice(.., *b"\x88\x02\x03\xf0");
        }
    });
    assert_eq!(closed.rounds, 0);
}
