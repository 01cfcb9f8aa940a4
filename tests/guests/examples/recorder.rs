//! Tells the channel "record" of every call, in order: "NAME open", "NAME begin", "NAME message
//! TEXT", "NAME close CODE ERROR ERROR", where NAME comes from the query (`?name=a`). The errors
//! are those of a last message and of a close from `on-close`, "none" where there is none.
//!
//! `?watch` subscribes to the channel and is told "watching"; that connection is not recorded.
//! `&open-ms=MS` has `on-open` wait, `&close=CODE` has it close. "close CODE" closes, "sleep MS
//! TEXT" says "begin" at once and waits, which needs the clocks of WASI, "send SIZE" sends so many
//! bytes; everything else is only recorded.

use std::thread;
use std::time::Duration;

use plugsock_guests::{command, reply};
use plugsock_plugin::{Channel, Close, Connection, Message, Plugin, flush, register};

const RECORD: Channel<'static> = Channel::new("record");

#[derive(Default)]
struct Recorder;

impl Plugin for Recorder {
    fn on_open(&mut self, conn: Connection) {
        if query(conn, "watch").is_some() {
            return match conn.subscribe(RECORD.name()) {
                Ok(()) => reply(conn, "watching"),
                Err(error) => reply(conn, &error.to_string()),
            };
        }
        sleep(query(conn, "open-ms").as_deref().unwrap_or_default());
        record(conn, "open");
        if let Some(code) = query(conn, "close") {
            close(conn, &code);
        }
    }

    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("close", code) => close(conn, code),
            ("send", size) => {
                let payload = vec![b'x'; size.parse().unwrap_or_default()];
                if let Err(error) = conn.send_binary(&payload) {
                    eprintln!("guest cannot send: {error}");
                }
            }
            ("sleep", rest) => {
                record(conn, "begin");
                flush();
                sleep(rest.split(' ').next().unwrap_or_default());
            }
            _ => {}
        }
        record(conn, &format!("message {}", message.as_text().unwrap_or_default()));
    }

    fn on_close(&mut self, conn: Connection, close: Close) {
        let sent = word(conn.send_text("too late"));
        let closed = word(conn.close(1000, "too late"));
        record(conn, &format!("close {} {sent} {closed}", close.code.get()));
    }
}

register!(Recorder);

fn record(conn: Connection, what: &str) {
    let Some(name) = query(conn, "name") else { return };
    if let Err(error) = RECORD.publish(format!("{name} {what}")) {
        eprintln!("guest cannot publish: {error}");
    }
}

fn query(conn: Connection, name: &str) -> Option<String> {
    conn.upgrade_request()?.query_param(name)
}

fn close(conn: Connection, code: &str) {
    let Ok(code) = code.parse::<u16>() else { return reply(conn, "not a number") };
    if let Err(error) = conn.close(code, "") {
        reply(conn, &error.to_string());
    }
}

/// An error as one word.
fn word<E: std::fmt::Debug>(result: Result<(), E>) -> String {
    result.err().map_or_else(|| "none".to_owned(), |error| format!("{error:?}"))
}

#[expect(clippy::disallowed_methods, reason = "a guest has no clock but WASI's")]
fn sleep(ms: &str) {
    if let Ok(ms @ 1..) = ms.parse() {
        thread::sleep(Duration::from_millis(ms));
    }
}
