//! The programs against one another, over real sockets.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

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
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn load(address: &str, args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["--url", &format!("ws://{address}/echo")])
        .args(args.split(' '))
        .output()
        .unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn every_server_echoes_small_and_large_messages() {
    for program in SERVERS {
        let server = Server::start(program);
        for args in [
            "--clients 20 --in-flight 1 --size 100",
            "--clients 5 --in-flight 16 --size 3 --text",
            "--clients 2 --in-flight 2 --size 0",
            // Longer than a socket's buffers: replies have to wait for room.
            "--clients 2 --in-flight 2 --size 9000000",
            "--clients 5 --rate 200",
        ] {
            let args = format!("{args} --seconds 0.2 --warmup 0.05 --json");
            let output = load(&server.address, &args);
            assert!(output.status.success(), "{program} {args}: {output:?}");
            assert!(json(&output)["messages"].as_u64().unwrap() > 0);
        }
    }
}

#[test]
fn idle_connections_are_opened_and_held() {
    for program in SERVERS {
        let server = Server::start(program);
        let output = load(&server.address, "--idle 300 --hold 0.1 --json");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(json(&output)["connections"], 300);
        assert_eq!(json(&output)["lost"], 0);
    }
}

#[test]
fn a_poke_is_answered() {
    let server = Server::start(SERVERS[0]);
    let output = load(&server.address, "--clients 1 --seconds 0.2 --poke loop --json");
    assert_eq!(json(&output)["poke"]["outcome"], "answered", "{output:?}");
}

/// A server that upgrades one connection and then sends `answer` for ever or hangs up.
fn faulty(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        upgrade(&mut stream);
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|len| len > 0) {
            if answer.is_empty() || stream.write_all(answer).is_err() {
                return;
            }
        }
    };
    // Ends with the connection: the generator closes it as it exits.
    #[expect(clippy::disallowed_methods, reason = "a helper of one test")]
    thread::Builder::new().name("faulty server".into()).spawn(serve).unwrap();
    address
}

fn upgrade(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        let len = stream.read(&mut buffer).unwrap();
        request.extend_from_slice(&buffer[..len]);
    }
    let request = String::from_utf8(request).unwrap();
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    write!(stream, "{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").unwrap();
}

#[test]
fn wrong_answers_fail_the_run() {
    let cases: [(&[u8], &str); 3] = [
        // Right size, but always the first message.
        (b"\x82\x050000x", "out_of_order"),
        (b"\x82\x040000", "wrong_shape"),
        (b"", "lost"),
    ];
    for (answer, failure) in cases {
        let address = faulty(answer);
        let output = load(&address, "--clients 1 --size 5 --seconds 0.2 --warmup 0 --json");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(json(&output)[failure].as_u64().unwrap() > 0, "{output:?}");
    }
}

#[test]
fn wrong_arguments_are_refused_with_2() {
    for args in [
        "--in-flight 0",
        "--in-flight 65537",
        "--in-flight 2 --size 536870913",
        "--clients many",
        "--source-addresses 256",
        "--seconds 0",
        "--colour",
    ] {
        assert_eq!(load("127.0.0.1:1", args).status.code(), Some(2), "{args}");
    }
}
