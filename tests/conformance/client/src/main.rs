//! The client role of `plugsock-ws` under the Autobahn test suite.
//!
//! The suite is the server here. It tells how many cases it has, plays one per connection, and
//! then writes its report. The client echoes every message, one connection after the other. It
//! offers permessage-deflate on each; the suite agrees where compression is what the case is about.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy, WindowBits};
use plugsock_ws::handshake::{HeadLimits, Key, Offer, Progress, ResponseHead};
use plugsock_ws::{Event, Input, Limits, Machine, Role, State, Step, close, frame};

/// The suite's largest message has 16 MiB; a message costs up to twice that while it comes.
const LIMITS: Limits = Limits { max_frame_size: 16 << 20, max_message_size: 16 << 20 };
/// Bytes of one receive.
const BUFFER: usize = 64 * 1024;
/// For one receive or send. The suite ends a case that hangs after 100 s at most, and one with
/// compression after 480 s.
const PATIENCE: Duration = Duration::from_secs(500);

/// Who talks to the suite.
struct Client<'a> {
    /// Host and port of the suite.
    address: &'a str,
    /// Under which name the suite reports the results.
    agent: &'a str,
    /// For all connections, as in a server.
    codec: Codec,
}

/// What becomes of a message.
#[derive(Copy, Clone)]
enum Answer {
    /// It is sent back.
    Echo,
    /// It is what the connection was opened for.
    Keep,
}

/// What the received bytes led to.
#[derive(Default)]
struct Outcome {
    /// The last message, if messages are kept.
    kept: Vec<u8>,
    /// Bytes to send.
    out: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, agent] = arguments.as_slice() else {
        eprintln!("usage: plugsock-conformance ADDRESS AGENT");
        return ExitCode::from(2);
    };
    match (Client { address, agent, codec: Codec::default() }).run_cases() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plugsock-conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Client<'_> {
    /// All cases, then the report.
    fn run_cases(&mut self) -> Result<(), Box<dyn Error>> {
        let agent = self.agent;
        let count = self.ask("/getCaseCount")?;
        let count: u32 = count.parse()?;
        for case in 1..=count {
            let info = self.ask(&format!("/getCaseInfo?case={case}"))?;
            let id = case_id(&info).ok_or("the suite does not tell a case's id")?;
            let target = format!("/runCase?case={case}&agent={agent}");
            // How the connection ended is for the suite to judge.
            if let Err(error) = self.converse(&target, &policy(id), Answer::Echo) {
                eprintln!("case {id}: {error}");
            }
        }
        self.ask(&format!("/updateReports?agent={agent}"))?;
        Ok(())
    }

    /// One connection for what the suite answers.
    fn ask(&mut self, target: &str) -> Result<String, Box<dyn Error>> {
        let answer = self.converse(target, &Policy::default(), Answer::Keep)?;
        Ok(String::from_utf8(answer)?)
    }

    /// One connection, from its handshake to its end. Returns the last message if messages are
    /// kept.
    fn converse(
        &mut self,
        target: &str,
        policy: &Policy,
        answer: Answer,
    ) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;

        let mut buffer = vec![0; BUFFER];
        // Frames may stand behind the head already.
        let (agreement, mut received) =
            self.shake_hands(&mut socket, target, policy, &mut buffer)?;
        let mut machine = match agreement {
            Some(agreement) => Machine::with_agreement(Role::Client, agreement),
            None => Machine::new(Role::Client),
        };
        let mut outcome = Outcome::default();
        loop {
            let bytes = buffer.get_mut(received).unwrap_or_default();
            self.receive(&mut machine, bytes, answer, &mut outcome);
            socket.write_all(&outcome.out)?;
            outcome.out.clear();
            // Also after the closing handshake: the server ends the TCP connection (RFC 6455
            // §7.1.1), and the suite does so with a reset.
            received = match read(&mut socket, &mut buffer) {
                Ok(0) => break,
                Ok(n) => 0..n,
                Err(_) if machine.state() == State::Closed => break,
                Err(error) => return Err(error.into()),
            };
        }
        match machine.state() {
            State::Closed => Ok(outcome.kept),
            state => Err(format!("the TCP connection ended in state {state:?}").into()),
        }
    }

    /// Sends the request and verifies the answer. Returns what was agreed on, and where in
    /// `buffer` the first frames are.
    fn shake_hands(
        &self,
        socket: &mut TcpStream,
        target: &str,
        policy: &Policy,
        buffer: &mut [u8],
    ) -> Result<(Option<Agreement>, Range<usize>), Box<dyn Error>> {
        let key = Key::from_nonce(random().to_ne_bytes());
        let offer = Offer { host: self.address, target, key, subprotocols: &[], fields: &[] };
        let mut request = Vec::new();
        offer.write_with(Some(policy), &mut request)?;
        socket.write_all(&request)?;

        let mut head = ResponseHead::new();
        loop {
            let n = read(socket, buffer)?;
            if n == 0 {
                return Err("the server hung up during the handshake".into());
            }
            let bytes = buffer.get(..n).unwrap_or_default();
            if let Progress::Complete { consumed } = head.push(&HeadLimits::default(), bytes)? {
                let (_, agreement) = offer.verify_with(Some(policy), &head)?;
                return Ok((agreement, consumed..n));
            }
        }
    }

    /// Received bytes become answers in the outcome.
    fn receive(
        &mut self,
        machine: &mut Machine,
        bytes: &mut [u8],
        answer: Answer,
        Outcome { kept, out }: &mut Outcome,
    ) {
        let mut input = Input::new(bytes);
        loop {
            match machine.next_with(&LIMITS, &mut input, &mut self.codec) {
                Ok(Step::Event(Event::Message { kind, payload })) => match answer {
                    Answer::Echo => {
                        // The payload may lie in the codec that is to compress it.
                        let message = payload.to_vec();
                        machine.encode(kind, &message, &mut self.codec, out, Some(key()));
                    }
                    Answer::Keep => payload.clone_into(kept),
                },
                Ok(Step::Event(Event::Ping(payload))) => {
                    frame::encode_masked(frame::Opcode::Pong, true, payload, key(), out);
                }
                Ok(Step::Event(Event::Pong(_))) | Ok(Step::Working) => {}
                Ok(Step::Event(Event::Close(frame))) => _ = machine.close(frame, out, Some(key())),
                Ok(Step::Waiting) => break,
                Err(error) => {
                    let reason = error.to_string();
                    let frame = close::Frame::truncated(error.close_code(), &reason);
                    machine.close(Some(frame), out, Some(key()));
                }
            }
        }
    }
}

/// The id in a case's description, which is JSON such as `{"id": "13.1.2", "description": "…"}`.
fn case_id(info: &str) -> Option<&str> {
    let (_, rest) = info.split_once("\"id\"")?;
    rest.split('"').nth(1)
}

/// What is offered in a case: in 13.1 to 13.6 what the suite's own client offers there. In 13.7
/// that one leaves the choice among three offers. Here it is the last of them, which asks for
/// nothing: the suite then denies takeover, and a window over 9 bits, to the client alone.
fn policy(case_id: &str) -> Policy {
    let mut numbers = case_id.split('.');
    let part = match numbers.next() {
        Some("13") => numbers.next().unwrap_or_default(),
        _ => "",
    };
    let server_max_window_bits = match part {
        "3" | "5" => WindowBits::MIN_TO_COMPRESS,
        _ => WindowBits::MAX,
    };
    let context_takeover = !matches!(part, "2" | "5" | "6");
    Policy { server_max_window_bits, context_takeover, ..Policy::default() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_case_is_found_in_its_description() {
        assert_eq!(case_id(r#"{"id": "13.1.2", "description": "Send"}"#), Some("13.1.2"));
        assert_eq!(case_id(r#"{"description": "the \"id\"", "id":"1.1.1"}"#), Some("1.1.1"));
        assert_eq!(case_id(r#"{"description": "Send"}"#), None);
    }

    /// With a wrong offer most cases would still pass.
    #[test]
    fn each_part_of_section_13_has_its_offer() {
        const ANY: &str = "permessage-deflate; client_max_window_bits";
        const SMALL: &str = "permessage-deflate; server_max_window_bits=9; client_max_window_bits";
        const FORGETFUL: &str = "permessage-deflate; server_no_context_takeover; \
            client_no_context_takeover; client_max_window_bits";
        const BOTH: &str = "permessage-deflate; server_no_context_takeover; \
            client_no_context_takeover; server_max_window_bits=9; client_max_window_bits";
        let offers = [ANY, FORGETFUL, SMALL, ANY, BOTH, FORGETFUL, ANY];
        for (part, offer) in (1..).zip(offers) {
            assert_eq!(policy(&format!("13.{part}.18")).offer(), offer, "13.{part}");
            assert_eq!(policy(&format!("12.{part}.18")).offer(), ANY, "12.{part}");
        }
        assert_eq!(policy("3.5").offer(), ANY);
    }
}
