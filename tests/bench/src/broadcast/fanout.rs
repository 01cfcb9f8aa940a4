//! From messages to the sockets of all.

use std::io::{Read, Write};

use plugsock_ws::deflate::{Compressor, Settings};
use plugsock_ws::extension::WindowBits;
use plugsock_ws::{Kind, frame};

use super::conn::{Conn, Stage};

/// How messages get to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Encoded once; all that one read brought leaves in one write per connection.
    Shared,
    /// Encoded and written for each message and each connection.
    Naive,
}

/// What one read brought and is still to be sent.
pub(super) struct Fanout {
    way: Way,
    deflate: Option<Settings>,
    /// The shared way, where compression is on; the naive way each connection has its own.
    compressor: Option<Compressor>,
    /// The naive way, messages.
    messages: Vec<(Kind, Vec<u8>)>,
    /// Frames: the shared way of all messages, the naive way of the one that is being sent.
    plain: Vec<u8>,
    deflated: Vec<u8>,
}

impl Fanout {
    pub(super) fn new(way: Way, deflate: Option<Settings>) -> Self {
        Self {
            way,
            deflate,
            compressor: deflate.filter(|_| way == Way::Shared).map(compressor),
            messages: Vec::new(),
            plain: Vec::new(),
            deflated: Vec::new(),
        }
    }

    /// Whether compression may be agreed on.
    pub(super) fn deflates(&self) -> bool {
        self.deflate.is_some()
    }

    /// What a connection is to have for itself.
    pub(super) fn own_compressor(&self) -> Option<Compressor> {
        self.deflate.filter(|_| self.way == Way::Naive).map(compressor)
    }

    /// One more message for all.
    pub(super) fn add(&mut self, kind: Kind, payload: &[u8]) {
        match self.way {
            Way::Naive => self.messages.push((kind, payload.to_vec())),
            Way::Shared => {
                frame::encode(kind, payload, &mut self.plain);
                if let Some(compressor) = &mut self.compressor {
                    frame::encode_compressed(kind, payload, compressor, &mut self.deflated);
                }
            }
        }
    }

    /// Sends what was added to all connections that are open. Whoever cannot be written to ends.
    pub(super) fn send<S: Read + Write>(&mut self, conns: &mut [Option<Conn<S>>]) {
        match self.way {
            Way::Shared => self.send_once(conns),
            Way::Naive => self.send_each(conns),
        }
    }

    fn send_once<S: Read + Write>(&mut self, conns: &mut [Option<Conn<S>>]) {
        if self.plain.is_empty() {
            return;
        }
        for slot in conns {
            let Some(conn) = slot else { continue };
            let sent = match conn.stage {
                Stage::Upgrading => continue,
                Stage::Plain => conn.send(&self.plain),
                Stage::Deflating => conn.send(&self.deflated),
            };
            if sent.is_err() {
                *slot = None;
            }
        }
        self.plain.clear();
        self.deflated.clear();
    }

    fn send_each<S: Read + Write>(&mut self, conns: &mut [Option<Conn<S>>]) {
        let out = &mut self.plain;
        for (kind, payload) in self.messages.drain(..) {
            for slot in &mut *conns {
                let Some(conn) = slot else { continue };
                out.clear();
                match (conn.stage, &mut conn.compressor) {
                    (Stage::Upgrading, _) => continue,
                    (Stage::Deflating, Some(compressor)) => {
                        frame::encode_compressed(kind, &payload, compressor, out);
                    }
                    (Stage::Deflating | Stage::Plain, _) => frame::encode(kind, &payload, out),
                }
                if conn.send(out).is_err() {
                    *slot = None;
                }
            }
        }
    }
}

fn compressor(settings: Settings) -> Compressor {
    Compressor::new(settings, WindowBits::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use plugsock_ws::deflate::Codec;
    use plugsock_ws::extension::Policy;
    use plugsock_ws::{Event, Input, Limits, Machine, Role, Step};

    use super::*;

    const LIMITS: Limits = Limits { max_frame_size: 1 << 20, max_message_size: 1 << 20 };

    /// A socket that takes so many bytes and shows what it took, write by write.
    struct Socket {
        room: usize,
        writes: Vec<Vec<u8>>,
    }

    impl Read for Socket {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room);
            if len == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= len;
            self.writes.push(bytes[..len].to_vec());
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn conn(stage: Stage, room: usize) -> Option<Conn<Socket>> {
        let mut conn = Conn::new(Socket { room, writes: Vec::new() });
        conn.stage = stage;
        // The shared way does without.
        conn.compressor = (stage == Stage::Deflating).then(|| compressor(Settings::default()));
        Some(conn)
    }

    fn messages() -> Vec<(Kind, Vec<u8>)> {
        let message = |fill: u8| (Kind::Text, vec![fill; 700]);
        (b'a'..=b'c').map(message).chain([(Kind::Binary, b"short".to_vec())]).collect()
    }

    fn received(bytes: &[u8]) -> Vec<(Kind, Vec<u8>)> {
        let agreement = Policy::default().negotiate([&b"permessage-deflate"[..]]).unwrap();
        let mut machine = Machine::with_agreement(Role::Client, agreement);
        let mut codec = Codec::new(Settings::default());
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        let mut found = Vec::new();
        while let Step::Event(event) = machine.next_with(&LIMITS, &mut input, &mut codec).unwrap() {
            let Event::Message { kind, payload } = event else { panic!("{event:?}") };
            found.push((kind, payload.to_vec()));
        }
        found
    }

    fn sent(way: Way, stage: Stage) -> Vec<Vec<u8>> {
        let deflate = (stage == Stage::Deflating).then(Settings::default);
        let mut fanout = Fanout::new(way, deflate);
        let mut conns = [conn(stage, 1 << 20), None, conn(stage, 1 << 20)];
        for (kind, payload) in messages() {
            fanout.add(kind, &payload);
        }
        fanout.send(&mut conns);
        // Nothing is sent twice.
        fanout.send(&mut conns);
        let [first, _, last] = conns.map(|conn| conn.map(|conn| conn.into_stream().writes));
        assert_eq!(first, last);
        first.unwrap()
    }

    #[test]
    fn all_that_came_at_once_leaves_in_one_write_or_the_naive_way_in_one_each() {
        for stage in [Stage::Plain, Stage::Deflating] {
            let shared = sent(Way::Shared, stage);
            let naive = sent(Way::Naive, stage);
            assert_eq!((shared.len(), naive.len()), (1, messages().len()));
            assert_eq!(shared.concat(), naive.concat());
            assert_eq!(received(&shared.concat()), messages());
            let compressed = shared.concat().len() < 700;
            assert_eq!(compressed, stage == Stage::Deflating);
        }
    }

    #[test]
    fn whoever_did_not_agree_gets_it_plain() {
        for way in [Way::Shared, Way::Naive] {
            let mut fanout = Fanout::new(way, Some(Settings::default()));
            let mut conns = [Stage::Plain, Stage::Deflating].map(|stage| conn(stage, 1 << 20));
            fanout.add(Kind::Text, &[b'a'; 700]);
            fanout.send(&mut conns);
            let [plain, deflated] = conns.map(|conn| conn.unwrap().into_stream().writes.concat());
            assert!(plain.len() > 700 && deflated.len() < 100);
            assert_eq!(received(&plain), received(&deflated));
        }
    }

    #[test]
    fn what_a_socket_does_not_take_follows_in_order() {
        for way in [Way::Shared, Way::Naive] {
            let mut fanout = Fanout::new(way, None);
            let mut conns = [conn(Stage::Plain, 900), conn(Stage::Upgrading, 1 << 20)];
            for (kind, payload) in messages() {
                fanout.add(kind, &payload);
            }
            fanout.send(&mut conns);
            let [slow, upgrading] = conns.map(Option::unwrap);
            assert!(upgrading.into_stream().writes.is_empty());
            let mut slow = slow;
            slow.stream_mut().room = 1000;
            slow.flush().unwrap();
            slow.stream_mut().room = 1000;
            slow.flush().unwrap();
            assert_eq!(received(&slow.into_stream().writes.concat()), messages());
        }
    }
}
