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

const BROADCAST: &str = env!("CARGO_BIN_EXE_epoll-broadcast");

/// A server on a free port, killed at the end of the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &str, options: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
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
        self.measure_with(false, mode, clients, size, text)
    }

    /// So many messages at once from one for all; nothing may go wrong.
    fn broadcast(&self, deflate: bool, in_flight: u32, clients: usize, size: usize) -> Outcome {
        let mode = Mode::Broadcast { in_flight, publish_url: self.url().parse().unwrap() };
        self.measure_with(deflate, mode, clients, size, true)
    }

    fn url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    fn measure_with(
        &self,
        deflate: bool,
        mode: Mode,
        clients: usize,
        size: usize,
        text: bool,
    ) -> Outcome {
        // A round may take longer than the window: the first one begins with it.
        let broadcasts = matches!(mode, Mode::Broadcast { .. });
        let (warmup, window) = if broadcasts { (0, 400) } else { (50, 200) };
        let plan = Plan {
            url: self.url().parse().unwrap(),
            clients,
            mode,
            size,
            text,
            deflate,
            warmup: Duration::from_millis(warmup),
            window: Duration::from_millis(window),
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
        let server = Server::start(program, &[]);
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
        let server = Server::start(program, &[]);
        let outcome = server.measure(Mode::Idle, 300, 0, false);
        assert_eq!((outcome.clients, outcome.lost), (300, 0));
        assert!(outcome.server.unwrap().rss > 0);
    }
}

#[test]
fn both_ways_of_broadcast_reach_everybody() {
    for options in [&[][..], &["--naive"], &["--deflate"], &["--naive", "--deflate"]] {
        let server = Server::start(BROADCAST, options);
        // Who can compress also takes those who do not.
        let kinds = if options.contains(&"--deflate") { &[false, true][..] } else { &[false] };
        for deflate in kinds {
            for in_flight in [1, 16] {
                let outcome = server.broadcast(*deflate, in_flight, 30, 1_000);
                assert!(outcome.messages > 0 && outcome.broadcasts.unwrap().rounds > 0);
            }
            // Longer than a socket's buffers, so that it has to wait for room; compressed, longer
            // than what is inflated at once.
            let large = if *deflate { 200_000 } else { 9_000_000 };
            assert!(server.broadcast(*deflate, 2, 3, large).messages > 0);
        }
    }
}

#[test]
fn wrong_arguments_are_refused_with_2() {
    for args in ["--listen nowhere", "--colour red", "--event-interval many"] {
        let status = Command::new(SERVERS[0]).args(args.split(' ')).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args}");
    }
    for args in ["--level fast", "--level", "--naive yes"] {
        let status = Command::new(BROADCAST).args(args.split(' ')).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args}");
    }
}
