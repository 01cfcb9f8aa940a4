//! Peers that end the TCP connection, or vanish: FIN, reset, a cut cable.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use plugsock::metrics::Counter;
use tempfile::TempDir;

use crate::support::{
    Client, Got, HEAD, Network, Process, Records, Site, connect, eventually, frame, program,
};

fn open(address: SocketAddr, query: &str) -> Client {
    Client::open(address, &format!("/recorder?name={query}"))
}

/// Descriptors of a host that has had clients before, with the one that watches.
fn base(process: &Process, records: &mut Records) -> usize {
    open(process.address(), "warm").reset();
    records.until_ended(1);
    process.settled_descriptors()
}

/// A hundred clients, half of them with 256 KB on their way to them, of which more waits in the
/// host than their kernel takes. The report has 500 and 1 MB, and wss besides, which the host does
/// not speak. Without the right to lay a cable this test says so and shows nothing.
#[test]
#[cfg(target_os = "linux")]
fn bl_27_peers_behind_a_cut_cable_are_gone_after_the_timeout() {
    const CLIENTS: usize = 100;
    let network = match Network::new() {
        Ok(network) => network,
        Err(why) => return eprintln!("not tested, for want of a network to cut: {why}"),
    };
    let site = Site::new().plugin("recorder").set("server.listen", "0.0.0.0:8080");
    let site = site.set("server.close_timeout", "1h");
    let site = site.set("heartbeat.interval", "1s").set("heartbeat.timeout", "5s");
    let mut command = network.command(&program());
    let process = Process::start(command.args(site.arguments()), TempDir::new().unwrap());
    let [stays, goes] = network.addresses.map(|address| SocketAddr::new(address.into(), 8080));

    let mut records = Records::watch(stays);
    open(stays, "warm").reset();
    records.until_ended(1);
    let base = process.settled_descriptors();
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let name = format!("c{number}");
            let path = format!("/recorder?name={name}");
            if number % 2 == 0 {
                return Client::open(goes, &path);
            }
            let mut client = Client::open_narrow(goes, &path);
            client.text("send 262144");
            records.until(&name, "message send 262144");
            client
        })
        .collect();
    assert_eq!(records.ended, 1, "nobody has left yet");
    network.cut(1);
    records.until_ended(1 + CLIENTS);
    records.settle();
    assert!(records.close_codes().values().all(|code| *code == 1006));
    eventually("the base line", || process.descriptors() <= base);
    drop(clients);
}

/// Five times two hundred for each way, because a test has as many descriptors as its host.
#[test]
#[cfg(target_os = "linux")]
fn bl_29_whoever_has_said_all_is_answered_in_kind() {
    let process = Site::new().plugin("recorder").spawn();
    let address = process.address();
    let mut records = Records::watch(address);
    let base = base(&process, &mut records);
    let half_a_frame = &frame(0x82, &[7; 300])[..200];
    let mut ended = records.ended;
    for (way, last) in [("fin", &[][..]), ("middle", half_a_frame)] {
        for batch in 0..5 {
            let mut clients: Vec<Client> = (0..200)
                .map(|number| {
                    let mut client = open(address, &format!("{way}-{batch}-{number}"));
                    client.raw(last);
                    client.finish();
                    client
                })
                .collect();
            for client in &mut clients {
                assert_eq!(client.next(), Got::End);
            }
            eventually("no CLOSE_WAIT", || process.waiting_to_close(address.port()) == 0);
            eventually("the base line", || process.descriptors() <= base);
            ended += 200;
            records.until_ended(ended);
        }
    }
    for _ in 0..5 {
        let sockets: Vec<_> = (0..200)
            .map(|_| {
                let mut socket = connect(address);
                socket.write_all(HEAD.as_bytes()).unwrap();
                socket.shutdown(Shutdown::Write).unwrap();
                socket
            })
            .collect();
        for mut socket in &sockets {
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest);
            assert_eq!(rest, b"");
        }
        eventually("no CLOSE_WAIT", || process.waiting_to_close(address.port()) == 0);
        eventually("the base line", || process.descriptors() <= base);
    }
    records.settle();
    let codes = records.close_codes();
    assert_eq!(codes.len(), 2_001);
    assert!(codes.values().all(|code| *code == 1006));
}

/// Twenty times each.
#[test]
#[cfg(target_os = "linux")]
fn bl_30_however_it_ends_the_plugin_is_told_once_and_of_the_first_cause() {
    let site = Site::new().plugin("recorder").set("limits.outbox_size", "8MiB");
    let served = site.set("workers.threads", "4").start();
    let address = served.address();
    let mut records = Records::watch(address);
    for round in 0..20 {
        for (way, _) in ENDS {
            let name = format!("{way}-{round}");
            end(way, &name, address, &mut records);
        }
    }
    records.until_ended(20 * ENDS.len());
    records.settle();
    let codes = records.close_codes();
    assert_eq!(codes.len(), 20 * ENDS.len());
    for (name, code) in codes {
        let way = name.split_once('-').unwrap().0;
        let expected = ENDS.iter().find(|(known, _)| *known == way).unwrap().1;
        assert!(expected.contains(&code), "{name}: {code}");
    }
    let (opened, closed) = (served.count(Counter::Opened), served.count(Counter::Closed));
    assert_eq!(opened - closed, 1, "the one that watches");
}

/// Ways to end, and the codes that `on-close` may say then.
const ENDS: [(&str, &[u16]); 9] = [
    ("idle", &[1006]),
    ("write", &[1006]),
    ("frame", &[1006]),
    ("opening", &[1006]),
    ("onopen", &[4001]),
    ("onmessage", &[4002]),
    // Either close frame may be the first.
    ("both", &[1000, 4003]),
    ("killed", &[1006]),
    ("deaf", &[1006]),
];

/// Ends a connection in one of these ways. Each closes from `on-close` besides.
fn end(way: &str, name: &str, address: SocketAddr, records: &mut Records) {
    match way {
        "idle" => {
            let client = open(address, name);
            records.until(name, "open");
            client.reset();
        }
        "write" => {
            let mut client = Client::open_narrow(address, &format!("/recorder?name={name}"));
            client.text("send 3000000");
            records.until(name, "message send 3000000");
            client.reset();
        }
        "frame" => {
            let mut client = open(address, name);
            client.raw(&frame(0x82, &[7; 300])[..200]);
            client.reset();
        }
        "opening" => open(address, &format!("{name}&open-ms=20")).reset(),
        "onopen" => {
            let mut client = open(address, &format!("{name}&close=4001"));
            assert_eq!(client.expect_close().0, 4001);
        }
        "onmessage" => {
            let mut client = open(address, name);
            client.text("close 4002");
            assert_eq!(client.expect_close().0, 4002);
        }
        "both" => {
            let mut client = open(address, name);
            client.raw(&[frame(0x81, b"close 4003"), frame(0x88, b"\x03\xe8")].concat());
            let Got::Close(code, _) = client.next() else { panic!("not closed") };
            assert!([1000, 4003].contains(&code), "{code}");
            client.expect_end();
        }
        "killed" => killed(open(address, name)),
        // With what it has not read, its kernel sends a reset instead of a FIN.
        "deaf" => {
            let mut client = open(address, name);
            client.text("send 1000");
            records.until(name, "message send 1000");
            let mut byte = [0];
            assert_eq!(client.socket.peek(&mut byte).unwrap(), 1);
            killed(client);
        }
        _ => panic!("{way}"),
    }
}

/// Hands the client's socket to a process and kills that.
fn killed(client: Client) {
    let socket = Stdio::from(OwnedFd::from(client.socket));
    let mut process = Command::new("sleep").arg("1000").stdin(socket).spawn().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
}
