//! Echoes, and panics on the text "boom" and on every text that ends with "0".

use plugsock_guests::echo;
use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct TrapTenth;

impl Plugin for TrapTenth {
    fn on_message(&mut self, conn: Connection, message: Message) {
        // The echo comes first: a trap must take it back.
        echo(conn, &message);
        let text = message.as_text().unwrap_or_default();
        assert!(text != "boom" && !text.ends_with('0'), "trapped on {text:?}");
    }
}

register!(TrapTenth);
