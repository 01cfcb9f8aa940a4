//! For measuring many channels: `?member` joins 100 of 100,000, each connection the next ones, so
//! that 10,000 members are 10 in every channel. A message is published to the channel whose number
//! its first four bytes are, six bits each, and sent back. For `instances = "single"`.

use std::collections::HashSet;

use plugsock_guests::echo;
use plugsock_plugin::{Channel, Close, Connection, Message, Plugin, register};

const CHANNELS: u32 = 100_000;
const EACH: u32 = 100;
const EVERYBODY: Channel<'static> = Channel::new("everybody");

#[derive(Default)]
struct Channels {
    next: u32,
    everybody: HashSet<u64>,
}

impl Plugin for Channels {
    fn on_open(&mut self, conn: Connection) {
        let request = conn.upgrade_request();
        let asks = |name| request.as_ref().is_some_and(|one| one.query_param(name).is_some());
        if asks("everybody") {
            self.everybody.insert(conn.id());
            if let Err(error) = conn.subscribe(EVERYBODY.name()) {
                eprintln!("guest cannot subscribe: {error}");
            }
        }
        if !asks("member") {
            return;
        }
        for _ in 0..EACH {
            if let Err(error) = conn.subscribe(&name(self.next.into())) {
                eprintln!("guest cannot subscribe: {error}");
            }
            self.next = (self.next + 1) % CHANNELS;
        }
    }

    fn on_message(&mut self, conn: Connection, message: Message) {
        if self.everybody.contains(&conn.id()) {
            if let Err(error) = EVERYBODY.publish(&message) {
                eprintln!("guest cannot publish: {error}");
            }
            return;
        }
        let bytes = message.as_bytes();
        let digits = bytes.iter().take(4).rev().map(|digit| u32::from(digit.wrapping_sub(b'0')));
        let number = digits.fold(0, |number, digit| number << 6 | digit & 0x3f);
        let spread = u64::from(number) * 7_919 + conn.id() % 1_000_003 * 104_729;
        let name = name(spread % u64::from(CHANNELS));
        if let Err(error) = Channel::new(&name).publish(&message) {
            eprintln!("guest cannot publish: {error}");
        }
        echo(conn, &message);
    }

    fn on_close(&mut self, conn: Connection, _: Close) {
        self.everybody.remove(&conn.id());
    }
}

fn name(number: u64) -> String {
    format!("channel-{number}")
}

register!(Channels);
