//! Answers every message with the number of messages that this instance has handled, this one
//! included. The number goes up by one per message only with `instances = "single"`. "healthy"
//! is told by `lifecycle`: the instance is fit until it has handled a hundred messages.

use plugsock_guests::reply;
use plugsock_plugin::{BoxError, Connection, Lifecycle, Message, Plugin, register};

#[derive(Default)]
struct Counter {
    initialised: bool,
    handled: u64,
}

impl Plugin for Counter {
    fn on_message(&mut self, conn: Connection, _message: Message) {
        assert!(self.initialised, "a message before init");
        self.handled += 1;
        reply(conn, &self.handled.to_string());
    }
}

impl Lifecycle for Counter {
    fn init(&mut self) -> Result<(), BoxError> {
        assert!(!self.initialised, "init comes once per instance");
        self.initialised = true;
        Ok(())
    }

    fn healthy(&mut self) -> Result<(), BoxError> {
        if self.handled < 100 { Ok(()) } else { Err("a hundred messages are enough".into()) }
    }
}

register!(Counter: Lifecycle);
