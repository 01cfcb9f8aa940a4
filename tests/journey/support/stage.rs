//! Byte strings against a running host, however TCP cuts them, and what must be so afterwards.

use std::collections::HashSet;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use super::{Answer, Client, Got, Process, Random, Site, answer, connect, eventually, frame};

/// A host in a process of its own with two clients that must not notice the others.
#[derive(Debug)]
pub(crate) struct Stage {
    process: Process,
    bystander: Client,
    /// Of the guest that tells it of every connection's beginning and end.
    watcher: Client,
    /// What is open while there are only these two.
    descriptors: usize,
    random: Random,
}

/// Bytes that follow the upgrade, and what comes of them.
pub(crate) struct Case {
    what: String,
    bytes: Box<dyn Fn([u8; 4]) -> Vec<u8>>,
    offer: Option<String>,
    got: Vec<Got>,
    code: Option<u16>,
}

/// A request and the answer to it.
pub(crate) struct Request<'a> {
    pub(crate) what: &'a str,
    /// For the path `/echo`, if it is granted.
    pub(crate) head: String,
    pub(crate) status: u16,
    /// Fields of the answer, and those that it must not have.
    pub(crate) fields: &'a [(&'a str, Option<&'a str>)],
}

/// A socket, or what has one.
pub(crate) trait Conn {
    /// Sends bytes, though the host may have gone.
    fn give(&mut self, bytes: &[u8]);
}

/// Each is one of the host's ways to serve a connection. The last one's is watched.
const PATHS: [&str; 3] = ["/builtin", "/echo", "/ledger"];

/// Longer ones are cut at so many places, spread over them.
const CUT_EVERYWHERE: usize = 600;

impl Case {
    /// The host answers with these and the connection stays open. The bytes are made for the
    /// masking key that they are given.
    pub(crate) fn answers(
        what: impl Into<String>,
        got: &[Got],
        bytes: impl Fn([u8; 4]) -> Vec<u8> + 'static,
    ) -> Self {
        let (what, bytes) = (what.into(), Box::new(bytes));
        Self { what, bytes, offer: None, got: got.to_vec(), code: None }
    }

    /// The host answers with nothing but a close frame of this code.
    pub(crate) fn closes(
        what: impl Into<String>,
        code: u16,
        bytes: impl Fn([u8; 4]) -> Vec<u8> + 'static,
    ) -> Self {
        Self { code: Some(code), ..Self::answers(what, &[], bytes) }
    }

    /// It answers with these first.
    pub(crate) fn after(self, got: &[Got]) -> Self {
        Self { got: got.to_vec(), ..self }
    }

    /// The request offers extensions in these words.
    pub(crate) fn offering(self, offer: &str) -> Self {
        Self { offer: Some(offer.to_owned()), ..self }
    }

    /// What it sends must bring what it should, and the right end.
    fn judge(&self, mut client: Client, before: &[Got], how: &str) {
        let what = &self.what;
        for expected in before.iter().chain(&self.got) {
            let got = client.next();
            assert!(got == *expected, "{what}, {how}: {got:?} instead of {expected:?}");
        }
        if self.code.is_none() {
            client.close(1000, "");
        }
        let got = client.next();
        let is_right = matches!(got, Got::Close(code, _) if code == self.ends_with());
        assert!(is_right, "{what}, {how}: {got:?} instead of {}", self.ends_with());
        // Where the host's close frame is no answer, it waits for one.
        let _ = client.socket.write_all(&frame(0x88, b"\x03\xe8"));
        client.expect_end();
    }

    fn ends_with(&self) -> u16 {
        self.code.unwrap_or(1000)
    }
}

impl Stage {
    /// A host of these settings that also has the paths `/echo` and `/ledger`.
    pub(crate) fn new(site: Site) -> Self {
        // With one shard, what came before the bystander's message was read before its answer.
        let site = site.plugin("echo").set("server.shards", "1");
        // With one instance, the notes on the last connection come last.
        let site = site.plugin_as("ledger", "ledger", "instances = \"single\"");
        // A watcher that waits in vain must not be kept waiting by pings.
        let site = site.set("heartbeat.enabled", "false");
        let process = site.spawn();
        let mut bystander = Client::open(process.address(), "/echo");
        bystander.echo("first");
        let mut warm = Client::open(process.address(), "/builtin");
        warm.close(1000, "");
        assert_eq!(warm.expect_close().0, 1000);
        let mut watcher = Client::open(process.address(), "/ledger");
        watcher.text("watch");
        watcher.expect("watching");
        let mut descriptors = usize::MAX;
        eventually("the warm-up's end", || {
            let now = process.descriptors();
            std::mem::replace(&mut descriptors, now) == now
        });
        Self { process, bystander, watcher, descriptors, random: Random::new(1) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address()
    }

    pub(crate) fn bystander(&mut self) -> &mut Client {
        &mut self.bystander
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Plays a case every way: on every path, with the masking key 0 and another, in one write, a
    /// byte at a time and cut in two everywhere; and behind a message, if it has no answer but a
    /// close frame.
    pub(crate) fn check(&mut self, case: &Case) {
        for path in PATHS {
            let mut count = 0;
            for key in [[0; 4], self.random.key()] {
                let bytes = (case.bytes)(key);
                let address = self.address();
                let open = || match &case.offer {
                    Some(offer) => Client::open_offering(address, path, offer),
                    None => Client::open(address, path),
                };
                let judge = |client, how: &str| case.judge(client, &[], &format!("{path}, {how}"));
                count += self.play(&bytes, open, judge);
                if case.got.is_empty() {
                    let mut client = open();
                    client.raw(&[frame(0x81, b"good"), bytes].concat());
                    let good = [Got::Text("good".to_owned())];
                    case.judge(client, &good, &format!("{path}, behind a message"));
                    count += 1;
                }
            }
            let count = if path == "/ledger" { count } else { 0 };
            self.expect_told(count, case.ends_with(), &case.what);
        }
        self.expect_calm(&case.what);
    }

    /// Sends a request in one write, a byte at a time and cut in two everywhere. If it is granted,
    /// a close frame follows it.
    pub(crate) fn request(&mut self, request: &Request<'_>) {
        let movable = request.status == 101 && request.head.starts_with("GET /echo ");
        let paths: &[&str] = if movable { &["/echo", "/ledger"] } else { &["/echo"] };
        for path in paths {
            let bytes = request.on(path);
            let address = self.address();
            let judge = |socket, how: &str| request.judge(&answer(socket), how);
            let count = self.play(&bytes, || connect(address), judge);
            let watched = request.status == 101 && bytes.starts_with(b"GET /ledger ");
            self.expect_told(if watched { count } else { 0 }, 1000, request.what);
        }
        self.expect_calm(request.what);
    }

    /// One write, a byte at a time, and cut in two everywhere. Returns the number of connections.
    pub(crate) fn play<C: Conn>(
        &mut self,
        bytes: &[u8],
        open: impl Fn() -> C,
        judge: impl Fn(C, &str),
    ) -> usize {
        let mut conn = open();
        conn.give(bytes);
        judge(conn, "one write");
        let mut conn = open();
        let (slow, rest) = bytes.split_at(bytes.len().min(DRIPPED));
        slow.chunks(1).for_each(|byte| conn.give(byte));
        conn.give(rest);
        judge(conn, "a byte at a time");
        let step = if bytes.len() <= CUT_EVERYWHERE { 1 } else { bytes.len().div_ceil(40) };
        let begin = |cut| {
            let mut conn = open();
            conn.give(&bytes[..cut]);
            (cut, conn)
        };
        let begun: Vec<(usize, C)> = (1..bytes.len()).step_by(step).map(begin).collect();
        self.bystander.echo("the first parts have come");
        let count = begun.len() + 2;
        for (cut, mut conn) in begun {
            conn.give(&bytes[cut..]);
            judge(conn, &format!("cut at {cut}"));
        }
        count
    }

    /// The watched plugin has seen so many connections since the last time, each begin once and
    /// then end once, with this code.
    pub(crate) fn expect_told(&mut self, count: usize, code: u16, what: &str) {
        let mut open = HashSet::new();
        let mut ended = 0;
        while ended < count {
            let note = self.watcher.next_text();
            match note.split(' ').collect::<Vec<_>>()[..] {
                ["opened", id] => assert!(open.insert(id.to_owned()), "{what}: {note} again"),
                ["closed", id, with] => {
                    assert!(open.remove(id), "{what}: {note} is no end of its own");
                    assert_eq!(with, code.to_string(), "{what}: on-close");
                    ended += 1;
                }
                _ => panic!("{what}: {note}"),
            }
        }
        assert!(open.is_empty(), "{what}: {open:?} are open");
    }

    /// Nobody else has noticed, and nothing is left open.
    pub(crate) fn expect_calm(&mut self, what: &str) {
        self.bystander.echo(what);
        eventually(&format!("the base line after {what}"), || {
            self.process.descriptors() <= self.descriptors
        });
    }

    /// The same, where it is not known how many connections the watched plugin has seen. Returns
    /// how they ended.
    pub(crate) fn expect_balance(&mut self, what: &str) -> Vec<u16> {
        self.expect_calm(what);
        let mut last = Client::open(self.address(), "/ledger");
        last.close(4000, "");
        assert_eq!(last.expect_close().0, 4000);
        let (mut open, mut codes) = (HashSet::new(), Vec::new());
        while !open.is_empty() || !codes.contains(&4000) {
            let note = self.watcher.next_text();
            match note.split(' ').collect::<Vec<_>>()[..] {
                ["opened", id] => assert!(open.insert(id.to_owned()), "{what}: {note} again"),
                ["closed", id, code] => {
                    assert!(open.remove(id), "{what}: {note} is no end of its own");
                    codes.push(code.parse().unwrap());
                }
                _ => panic!("{what}: {note}"),
            }
        }
        codes.retain(|code| *code != 4000);
        codes
    }

    /// The host stops as it should and has logged nothing.
    pub(crate) fn end(mut self) {
        let unexpected = self.expect_balance("all");
        assert!(unexpected.is_empty(), "{unexpected:?}");
        self.process.signal("TERM");
        assert_eq!(self.bystander.expect_close().0, 1001);
        assert_eq!(self.watcher.expect_close().0, 1001);
        let (status, log) = self.process.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert_eq!(log, "");
    }
}

/// So many bytes go one at a time: more than a request head may have.
const DRIPPED: usize = 20 << 10;

impl Request<'_> {
    /// The bytes for another path, and behind them the end of the connection that they open.
    fn on(&self, path: &str) -> Vec<u8> {
        if self.status != 101 {
            return self.head.clone().into_bytes();
        }
        let head = self.head.replacen("/echo", path, 1).into_bytes();
        [head, frame(0x88, b"\x03\xe8")].concat()
    }

    fn judge(&self, answer: &Answer, how: &str) {
        let what = self.what;
        assert_eq!(answer.status, self.status, "{what}, {how}: {answer:?}");
        for (name, value) in self.fields {
            assert_eq!(answer.field(name), *value, "{what}, {how}: {name}");
        }
        if self.status == 101 {
            let accept = answer.field("Sec-WebSocket-Accept");
            assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{what}, {how}");
            assert_eq!(answer.body, b"\x88\x02\x03\xe8", "{what}, {how}");
        } else {
            assert_eq!(answer.field("Connection"), Some(self.farewell()), "{what}, {how}");
        }
    }

    /// A refusal that names an upgrade must say so among its connection options.
    fn farewell(&self) -> &'static str {
        if self.status == 426 { "Upgrade, close" } else { "close" }
    }
}

impl Conn for Client {
    fn give(&mut self, bytes: &[u8]) {
        self.socket.give(bytes);
    }
}

impl Conn for TcpStream {
    fn give(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
    }
}
