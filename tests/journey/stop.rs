//! How the program ends: signals, and a port that is taken.

use std::net::TcpStream;

use crate::support::{Client, Got, Process, Site, eventually};

#[test]
fn everybody_is_told_and_the_program_ends_well() {
    for signal in ["TERM", "INT"] {
        let process = Site::new().plugin("echo").spawn();
        let mut clients: Vec<Client> = (0..50)
            .map(|i| {
                let path = if i % 2 == 0 { "/echo" } else { "/builtin" };
                let mut client = Client::open(process.address(), path);
                client.echo("hello");
                client
            })
            .collect();
        process.signal(signal);
        for client in &mut clients {
            assert_eq!(client.expect_close().0, 1001);
        }
        let (status, log) = process.wait();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

#[test]
fn nobody_new_is_let_in_while_the_last_ones_go() {
    let process = Site::new().set("server.close_timeout", "1h").spawn();
    let mut last = Client::open(process.address(), "/builtin");
    last.echo("hello");
    process.signal("TERM");
    assert!(matches!(last.next(), Got::Close(1001, _)));
    eventually("a closed door", || TcpStream::connect(process.address()).is_err());
    last.close(1001, "");
    last.expect_end();
    assert_eq!(process.wait().0.code(), Some(0));
}

#[test]
fn a_peer_that_does_not_answer_holds_nothing_up_for_long() {
    let process = Site::new().set("server.close_timeout", "200ms").spawn();
    let mut silent = Client::open(process.address(), "/builtin");
    silent.echo("hello");
    let half_open = TcpStream::connect(process.address()).unwrap();
    process.signal("TERM");
    assert_eq!(process.wait().0.code(), Some(0));
    assert!(matches!(silent.next(), Got::Close(1001, _)));
    drop(half_open);
}

#[test]
fn a_running_handler_may_finish() {
    let process = Site::new().plugin("sleepy").spawn();
    let mut client = begin(&process, "sleepy", "sleep 300");
    process.signal("TERM");
    assert_eq!(client.expect_close().0, 1001);
    let (status, log) = process.wait();
    assert_eq!((status.code(), log.as_str()), (Some(0), ""), "no warning");
}

#[test]
fn a_handler_that_never_returns_cannot_hold_up_the_stop() {
    for (plugin, command) in [("sleepy", "loop"), ("sleepy", "sleep 3600000"), ("spinner", "loop")]
    {
        let site = Site::new().plugin(plugin).set("workers.call_deadline", "1h");
        let process = site.set("server.drain_timeout", "300ms").spawn();
        begin(&process, plugin, command);
        process.signal("TERM");
        let (status, log) = process.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("handlers are abandoned"), "{log}");
    }
}

#[test]
fn a_second_signal_hastens() {
    for (plugin, command) in [("sleepy", "loop"), ("sleepy", "sleep 3600000"), ("spinner", "loop")]
    {
        let site = Site::new().plugin(plugin).set("workers.call_deadline", "1h");
        let site = site.set("server.drain_timeout", "1h").set("server.close_timeout", "1h");
        let mut process = site.spawn();
        let mut client = begin(&process, plugin, command);
        process.signal("TERM");
        assert!(matches!(client.next(), Got::Close(1001, _)));
        assert!(process.is_running());
        process.signal("TERM");
        let (status, log) = process.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("SIGTERM again"), "{log}");
    }
}

#[test]
fn a_taken_port_is_one_sentence() {
    let first = Site::new().spawn();
    let site = Site::new().set("server.listen", &first.address().to_string());
    let output = std::process::Command::new(crate::support::program())
        .args(site.arguments())
        .output()
        .unwrap();
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    assert!(sentence.starts_with("error: cannot listen on 127.0.0.1:"), "{sentence}");
    assert!(sentence.contains("the port is in use"), "{sentence}");
    assert_eq!(output.stdout, b"");
}

/// A client whose handler is running when this returns.
fn begin(process: &Process, plugin: &str, command: &str) -> Client {
    let mut client = Client::open(process.address(), &format!("/{plugin}"));
    client.echo("hello");
    client.text(command);
    // Sent behind it and answered on the spot: the command has been received.
    client.ping(b"");
    assert_eq!(client.next(), Got::Pong(Vec::new()));
    client
}
