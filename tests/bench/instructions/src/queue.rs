//! From a shard to a worker: the host's inbound queue.

use std::hint::black_box;

use crate::inbound::{Batch, Config, Inbound, Sequence};
use crate::types::{ConnectionId, Kind, PluginId};

/// One batch each time: gathered, handed over, taken run by run, and its connections released.
pub(crate) fn turns(connections: u32, messages: u32, times: usize) {
    let inbound = Inbound::new(&Config::default(), 1, 1);
    let payload = [b'x'; 100];
    let mut batch = Batch::default();
    let mut tickets = Vec::new();
    for _ in 0..times {
        for slot in 0..connections {
            let (conn, plugin) = (ConnectionId::new(0, slot, 1), PluginId(0));
            for _ in 0..messages {
                let payload = black_box(&payload);
                batch.message(conn, plugin, Sequence::Connection, Kind::Binary, payload);
            }
        }
        batch = inbound.submit(0, batch);
        let (mut events, mut bytes) = (0, 0);
        while let Some(work) = inbound.take(0, messages) {
            for (_, payload) in work.events() {
                events += 1;
                bytes += black_box(payload).len();
            }
            tickets.push(work.ticket());
        }
        inbound.release(&mut tickets);
        assert_eq!(events, connections as usize * messages as usize);
        black_box(inbound.room().give(events, bytes));
    }
}
