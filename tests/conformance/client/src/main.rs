//! The client role of `plugsock-ws` under the Autobahn test suite.
//!
//! The suite is the server here. It tells how many cases it has, plays one per connection, and
//! then writes its report. The client echoes every message, one connection after the other.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use plugsock_ws::handshake::{HeadLimits, Key, Offer, Progress, ResponseHead};
use plugsock_ws::{Event, Input, Limits, Machine, Role, State, close, frame};

/// The suite's largest message has 16 MiB; a message costs up to twice that while it comes.
const LIMITS: Limits = Limits { max_frame_size: 16 << 20, max_message_size: 16 << 20 };
/// Bytes of one receive.
const BUFFER: usize = 64 * 1024;
/// For one receive or send. The suite ends a case that hangs after 100 s at most.
const PATIENCE: Duration = Duration::from_secs(120);

/// What becomes of a message.
#[derive(Copy, Clone)]
enum Answer {
    /// It is sent back.
    Echo,
    /// It is what the connection was opened for.
    Keep,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, agent] = arguments.as_slice() else {
        eprintln!("usage: plugsock-conformance ADDRESS AGENT");
        return ExitCode::from(2);
    };
    match run_cases(address, agent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plugsock-conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// All cases, then the report, in which the results stand under `agent`.
fn run_cases(address: &str, agent: &str) -> Result<(), Box<dyn Error>> {
    let count = converse(address, "/getCaseCount", Answer::Keep)?;
    let count: u32 = std::str::from_utf8(&count)?.parse()?;
    for case in 1..=count {
        let target = format!("/runCase?case={case}&agent={agent}");
        // How the connection ended is for the suite to judge.
        if let Err(error) = converse(address, &target, Answer::Echo) {
            eprintln!("case number {case}: {error}");
        }
    }
    converse(address, &format!("/updateReports?agent={agent}"), Answer::Keep)?;
    Ok(())
}

/// One connection, from its handshake to its end. Returns the last message if messages are kept.
fn converse(address: &str, target: &str, answer: Answer) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;

    let mut buffer = vec![0; BUFFER];
    let mut machine = Machine::new(Role::Client);
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    // Frames may stand behind the head already.
    let mut received = shake_hands(&mut socket, address, target, &mut buffer)?;
    loop {
        let bytes = buffer.get_mut(received).unwrap_or_default();
        receive(&mut machine, bytes, answer, &mut kept, &mut out);
        socket.write_all(&out)?;
        out.clear();
        // Also after the closing handshake: the server ends the TCP connection (RFC 6455 §7.1.1),
        // and the suite does so with a reset.
        received = match read(&mut socket, &mut buffer) {
            Ok(0) => break,
            Ok(n) => 0..n,
            Err(_) if machine.state() == State::Closed => break,
            Err(error) => return Err(error.into()),
        };
    }
    match machine.state() {
        State::Closed => Ok(kept),
        state => Err(format!("the TCP connection ended in state {state:?}").into()),
    }
}

/// Sends the request and verifies the answer. Returns where in `buffer` the first frames are.
fn shake_hands(
    socket: &mut TcpStream,
    address: &str,
    target: &str,
    buffer: &mut [u8],
) -> Result<Range<usize>, Box<dyn Error>> {
    let key = Key::from_nonce(random().to_ne_bytes());
    let offer = Offer { host: address, target, key, subprotocols: &[], fields: &[] };
    let mut request = Vec::new();
    offer.write(&mut request)?;
    socket.write_all(&request)?;

    let mut head = ResponseHead::new();
    loop {
        let n = read(socket, buffer)?;
        if n == 0 {
            return Err("the server hung up during the handshake".into());
        }
        let bytes = buffer.get(..n).unwrap_or_default();
        if let Progress::Complete { consumed } = head.push(&HeadLimits::default(), bytes)? {
            offer.verify(&head)?;
            return Ok(consumed..n);
        }
    }
}

/// Received bytes become answers in `out`.
fn receive(
    machine: &mut Machine,
    bytes: &mut [u8],
    answer: Answer,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let mut input = Input::new(bytes);
    loop {
        match machine.next(&LIMITS, &mut input) {
            Ok(Some(Event::Message { kind, payload })) => match answer {
                Answer::Echo => frame::encode_masked(kind.into(), true, payload, key(), out),
                Answer::Keep => payload.clone_into(kept),
            },
            Ok(Some(Event::Ping(payload))) => {
                frame::encode_masked(frame::Opcode::Pong, true, payload, key(), out);
            }
            Ok(Some(Event::Pong(_))) => {}
            Ok(Some(Event::Close(frame))) => _ = machine.close(frame, out, Some(key())),
            Ok(None) => break,
            Err(error) => {
                let reason = error.to_string();
                let frame = close::Frame::truncated(error.close_code(), &reason);
                machine.close(Some(frame), out, Some(key()));
            }
        }
    }
}

/// One receive; 0 at the end.
fn read(socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// A masking key, new for each frame (RFC 6455 §5.3).
fn key() -> [u8; 4] {
    let [a, b, c, d, ..] = random().to_ne_bytes();
    [a, b, c, d]
}

/// From the seeds of the standard library's hash maps: good enough for a test.
fn random() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}
