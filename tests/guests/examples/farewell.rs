//! Tells the channel "watch" how every connection ended: "left CODE".
//!
//! "watch" subscribes, "close CODE REASON" closes itself, "members" is answered with the number
//! of subscribers; everything else is echoed.

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Channel, Close, Connection, Message, Plugin, register};

const WATCH: Channel<'static> = Channel::new("watch");

#[derive(Default)]
struct Farewell;

impl Plugin for Farewell {
    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("watch", _) => match conn.subscribe(WATCH.name()) {
                Ok(()) => reply(conn, "watching"),
                Err(error) => reply(conn, &error.to_string()),
            },
            ("members", _) => reply(conn, &WATCH.subscribers().to_string()),
            ("close", rest) => {
                let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                let Ok(code) = code.parse::<u16>() else { return reply(conn, "not a number") };
                if let Err(error) = conn.close(code, reason) {
                    reply(conn, &error.to_string());
                }
            }
            _ => echo(conn, &message),
        }
    }

    fn on_close(&mut self, _conn: Connection, close: Close) {
        if let Err(error) = WATCH.publish(format!("left {}", close.code.get())) {
            eprintln!("guest cannot publish: {error}");
        }
    }
}

register!(Farewell);
