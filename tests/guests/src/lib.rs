//! What the guests in `examples/` share. Each of them is a plugin that does one thing wrong when
//! a message asks for it and echoes every other message.

use plugsock_plugin::{Connection, Message};

/// Sends a message back. A failure becomes a log line, for a test to find.
pub fn echo(conn: Connection, message: &Message) {
    if let Err(error) = conn.send(message) {
        eprintln!("guest cannot send: {error}");
    }
}

/// Sends text. A failure becomes a log line, for a test to find.
pub fn reply(conn: Connection, text: &str) {
    if let Err(error) = conn.send_text(text) {
        eprintln!("guest cannot send: {error}");
    }
}

/// The message's first word and the rest, without the space between them; empty for a binary
/// message.
#[must_use]
pub fn command(message: &Message) -> (&str, &str) {
    let text = message.as_text().unwrap_or_default();
    text.split_once(' ').unwrap_or((text, ""))
}
