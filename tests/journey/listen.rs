//! Step 1: who is let in, and that every place is given back.

use std::io::{Read, Write};
#[cfg(target_os = "linux")]
use std::net::SocketAddr;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use plugsock::metrics::Counter;
use socket2::SockRef;
use tempfile::TempDir;

use crate::support::{
    Client, Got, HEAD, Process, Site, connect, eventually, exchange, frame, program,
};

#[test]
fn every_address_is_served() {
    let served = Site::new().set("server.listen", "127.0.0.1:0,127.0.0.2:0").start();
    let [one, other] = served.host().addresses() else { panic!("two addresses") };
    assert_ne!(one, other);
    for address in [one, other] {
        Client::open(*address, "/builtin").echo("here");
    }
}

/// A host on a port that is taken does not start; returns what it says.
#[cfg(target_os = "linux")]
fn refused(address: SocketAddr, reuse_port: &str) -> String {
    let site = Site::new().set("server.listen", &address.to_string());
    let site = site.set("server.reuse_port", reuse_port);
    // Where it starts all the same, it must not stay.
    let mut command = Command::new("timeout");
    let output = command.arg("10").arg(program()).args(site.arguments()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn hosts_that_reuse_a_port_all_serve_it_and_go_one_by_one() {
    let site = || Site::new().set("server.reuse_port", "true");
    let mut one = site().spawn();
    let address = one.address();
    let other = site().set("server.listen", &address.to_string()).spawn();
    let idle = [one.settled_descriptors(), other.settled_descriptors()];
    // The kernel deals them by a hash of their addresses.
    let mut clients = Vec::new();
    let has_some = |process: &Process, before: usize| process.descriptors() > before;
    eventually("clients of both hosts", || {
        let mut client = Client::open(address, "/builtin");
        client.echo("here");
        clients.push(client);
        has_some(&one, idle[0]) && has_some(&other, idle[1])
    });

    // Where one ends, the other serves on.
    one.signal("TERM");
    eventually("the end of its clients", || {
        clients.retain_mut(|client| {
            client.ping(b"");
            match client.next() {
                Got::Pong(_) => true,
                Got::Close(code, _) => {
                    assert_eq!(code, 1001);
                    false
                }
                got => panic!("{got:?}"),
            }
        });
        !one.is_running()
    });
    let (status, log) = one.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!clients.is_empty());
    for client in &mut clients {
        client.echo("still here");
    }
    for _ in 0..20 {
        Client::open(address, "/builtin").echo("let in");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_port_is_reused_only_if_all_its_hosts_want_to() {
    for (first, second) in [("false", "false"), ("false", "true"), ("true", "false")] {
        let holder = Site::new().set("server.reuse_port", first).spawn();
        let sentence = refused(holder.address(), second);
        assert!(sentence.contains("the port is in use"), "{first} {second}: {sentence}");
        assert!(sentence.contains("`server.reuse_port = true`"), "{sentence}");
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
        Client::open(holder.address(), "/builtin").echo("not disturbed");
    }
}

#[test]
fn a_full_host_says_so_and_a_place_is_free_when_its_client_goes() {
    let served = Site::new().set("server.max_connections", "2").start();
    let mut first = Client::open(served.address(), "/builtin");
    let second = Client::open(served.address(), "/builtin");
    let answer = exchange(served.address(), format!("{HEAD}\r\n").as_bytes());
    assert_eq!(answer.status, 503);
    assert!(answer.field("Retry-After").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(answer.field("Connection"), Some("close"));
    first.echo("not disturbed");
    second.reset();
    let mut third = None;
    eventually("a free place", || {
        third = Client::try_open(served.address(), "/builtin").ok();
        third.is_some()
    });
    third.unwrap().echo("let in");
    first.echo("still not disturbed");
}

#[test]
fn one_address_has_its_own_limit() {
    let served = Site::new().set("server.max_connections_per_ip", "1").start();
    let first = Client::open(served.address(), "/builtin");
    let answer = exchange(served.address(), format!("{HEAD}\r\n").as_bytes());
    assert_eq!(answer.status, 429);
    assert!(answer.field("Retry-After").is_some());
    drop(first);
    eventually("a free place", || Client::try_open(served.address(), "/builtin").is_ok());
}

#[test]
fn an_unfinished_handshake_holds_its_place_until_the_deadline_and_no_longer() {
    // One shard accepts in the order in which they come.
    let site = Site::new().set("server.max_connections", "1").set("server.shards", "1");
    let served = site.set("server.handshake_timeout", "2s").start();
    let mut silent = connect(served.address());
    silent.write_all(b"GET /builtin HTTP/1.1\r\nHost: t\r\n").unwrap();
    assert_eq!(Client::try_open(served.address(), "/builtin").err(), Some(503));
    // A byte now and then does not put the deadline off.
    let mut slow = silent.try_clone().unwrap();
    let dripping = crate::support::spawn(move || {
        while slow.write_all(b"X").is_ok() {
            plugsock::task::sleep(Duration::from_millis(50));
        }
    });
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert_eq!(rest, b"", "no 101");
    dripping.join().unwrap();
    eventually("a free place", || Client::try_open(served.address(), "/builtin").is_ok());
}

/// Whatever way a client goes, nothing of it is left.
#[test]
#[cfg(target_os = "linux")]
fn clients_that_vanish_leave_no_descriptor_behind() {
    let process = Site::new().plugin("echo").set("server.handshake_timeout", "500ms").spawn();
    let address = process.address();
    Client::open(address, "/echo").echo("warm");
    let mut base = usize::MAX;
    eventually("the warm-up's end", || {
        let now = process.descriptors();
        std::mem::replace(&mut base, now) == now
    });

    let ways: [(&str, Vec<u8>); 6] = [
        ("nothing", Vec::new()),
        ("half a head", HEAD.as_bytes().to_vec()),
        ("a head", format!("{HEAD}\r\n").into_bytes()),
        ("a head and a bad frame", [format!("{HEAD}\r\n").as_bytes(), &frame(0xB1, b"")].concat()),
        (
            "a head and half a frame",
            [format!("{HEAD}\r\n").as_bytes(), &frame(0x82, &[7; 300])[..200]].concat(),
        ),
        (
            "a head and messages",
            [format!("{HEAD}\r\n").as_bytes(), &frame(0x81, b"one"), &frame(0x81, b"two")].concat(),
        ),
    ];
    for (what, bytes) in &ways {
        let mut finished: Vec<TcpStream> = Vec::new();
        for i in 0..300 {
            let mut socket = connect(address);
            socket.write_all(bytes).unwrap();
            if i % 2 == 0 {
                SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
            } else if i % 10 == 1 {
                // Sends no more, but stays.
                socket.shutdown(Shutdown::Write).unwrap();
                finished.push(socket);
            }
        }
        eventually(&format!("the base line after {what}"), || process.descriptors() <= base);
        for mut socket in finished {
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest);
        }
        Client::open(address, "/echo").echo(what);
    }
}

/// A second at the limit, not the minute of the report. ENFILE and ECONNABORTED are not injected,
/// and there is no second listener for administration.
#[test]
#[cfg(target_os = "linux")]
fn bl_35_a_host_out_of_descriptors_serves_on_and_recovers() {
    let mut command = Command::new("sh");
    let site = Site::new().set("log.level", "error").set("server.handshake_timeout", "1h");
    let arguments = site.arguments();
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(program()).args(arguments);
    let process = Process::start(&mut command, TempDir::new().unwrap());
    let mut inside = Client::open(process.address(), "/builtin");
    let mut crowd: Vec<TcpStream> = (0..200).map(|_| connect(process.address())).collect();
    // Not all of them need be below the limit: one may have been inherited.
    eventually("the limit", || process.descriptors() >= 64);
    let before = process.computed();
    plugsock::task::sleep(Duration::from_secs(1));
    let computed = process.computed() - before;
    assert!(computed < 50, "{computed} of 100 ticks: it spins");
    for i in 0..50 {
        inside.echo(&format!("{i} in spite of the crowd"));
    }
    // The last of the crowd has waited in the queue until descriptors are free.
    crowd.drain(..150);
    for socket in crowd {
        Client::over(socket, "/builtin", &[]).unwrap().echo("let in");
    }
    Client::open(process.address(), "/builtin").echo("let in again");
    inside.echo("still here");
    let (status, log) = {
        process.signal("TERM");
        assert_eq!(inside.expect_close().0, 1001);
        process.wait()
    };
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("raise the open-file limit"), "{log}");
    assert!(log.lines().count() <= 2, "one line per shard and minute: {log}");
}

#[test]
fn what_is_refused_is_counted() {
    let served = Site::new().set("server.max_connections", "20").start();
    for _ in 0..100 {
        assert_eq!(exchange(served.address(), b"nonsense\r\n\r\n").status, 400, "no place left");
    }
    drop(Client::open(served.address(), "/builtin"));
    eventually("the end of the good one", || served.count(Counter::Closed) == 1);
    assert_eq!(served.count(Counter::Opened), 1);
    assert_eq!(served.count(Counter::Refused), 100);
}

#[test]
fn a_client_that_only_sends_is_served_until_it_goes() {
    let served = Site::new().plugin("echo").start();
    let mut client = Client::open(served.address(), "/echo");
    client.text("last words");
    client.expect("last words");
    client.finish();
    assert_eq!(client.next(), Got::End);
}
