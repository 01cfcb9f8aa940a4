//! The servers under `plugsock bench`, over real sockets.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plugsock::bench::{self, Mode, Outcome, Plan};

const SERVERS: [&str; 3] = [
    env!("CARGO_BIN_EXE_epoll-echo"),
    env!("CARGO_BIN_EXE_mio-echo"),
    env!("CARGO_BIN_EXE_tokio-echo"),
];

/// A server on a free port, killed at the end of the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    /// Measures it; nothing may go wrong.
    fn measure(&self, mode: Mode, clients: usize, size: usize, text: bool) -> Outcome {
        let plan = Plan {
            url: format!("ws://{}/", self.address).parse().unwrap(),
            clients,
            mode,
            size,
            text,
            deflate: false,
            warmup: Duration::from_millis(50),
            window: Duration::from_millis(200),
            connect_rate: 5_000.0,
            source_addresses: Some(2),
            threads: 1,
            pin: false,
            pid: Some(self.child.id()),
            poke: None,
            series: false,
        };
        let outcome = bench::run(&plan, &mut |_| {}).unwrap();
        assert!(outcome.is_fine(), "{plan:?}: {:?}", outcome.problems());
        outcome
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn every_server_echoes_small_and_large_messages() {
    for program in SERVERS {
        let server = Server::start(program);
        let closed = |in_flight| Mode::Closed { in_flight };
        assert!(server.measure(closed(1), 20, 100, false).messages > 0);
        assert!(server.measure(closed(16), 5, 3, true).messages > 0);
        assert!(server.measure(closed(2), 2, 0, false).messages > 0);
        // Longer than a socket's buffers: replies have to wait for room.
        assert!(server.measure(closed(2), 2, 9_000_000, false).messages > 0);
        assert!(server.measure(Mode::Open { rate: 200.0 }, 5, 100, false).messages > 0);
    }
}

#[test]
fn every_server_holds_idle_connections() {
    for program in SERVERS {
        let server = Server::start(program);
        let outcome = server.measure(Mode::Idle, 300, 0, false);
        assert_eq!((outcome.clients, outcome.lost), (300, 0));
        assert!(outcome.server.unwrap().rss > 0);
    }
}

#[test]
fn wrong_arguments_are_refused_with_2() {
    for args in ["--listen nowhere", "--colour red", "--event-interval many"] {
        let status = Command::new(SERVERS[0]).args(args.split(' ')).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args}");
    }
}
