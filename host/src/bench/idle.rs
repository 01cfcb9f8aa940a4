//! Connections that do nothing, so that the server can be weighed.

use std::io::{Read, Write};

use super::client::End;
use super::clients::Clients;
use super::thread::{Next, Task};
use super::time::{Time, Window};

/// Holds connections. Pings are answered; what else comes is dropped.
#[derive(Debug, Default)]
pub(super) struct Idle {
    end: u64,
    received: u64,
}

impl<S: Read + Write> Task<S> for Idle {
    fn start(&mut self, window: Window, _: &mut Clients<S>, _: &impl Time) {
        self.end = window.end;
    }

    fn advance(&mut self, _: &mut Clients<S>, time: &impl Time) -> Next {
        if time.now() >= self.end { Next::Done } else { Next::Until(self.end) }
    }

    fn receive(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        _: &impl Time,
    ) -> Result<(), End> {
        let Some((client, wire)) = clients.get(index) else {
            return Ok(());
        };
        client.receive(wire, |_, _| self.received += 1)
    }

    fn lost(&mut self, _: usize) {}

    fn received(&self) -> u64 {
        self.received
    }
}
