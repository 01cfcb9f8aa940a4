//! Between the sockets and back, without the guest: the inbound queue, a handler's effects and the
//! way of its commit to the shard.

use std::sync::Arc;

use plugsock::inbound::{Batch, Config, Inbound, Sequence, Ticket};
use plugsock::outbound::{Coding, Commit, Effects, Encoding, Outgoing, Shared};
use plugsock::types::{ConnectionId, Kind, PluginId};

use crate::counter::count;

const PLUGIN: PluginId = PluginId(0);
const PAYLOAD: [u8; 100] = [b'x'; 100];

/// A host with one shard, whose one plugin echoes.
struct Host {
    inbound: Inbound,
    shared: Arc<Shared>,
    effects: Effects,
    outgoing: Outgoing,
    batch: Batch,
    tickets: Vec<Ticket>,
    commits: Vec<Commit>,
}

impl Host {
    fn new(connections: u32) -> Self {
        let shared = Shared::new(1, 1);
        for slot in 0..connections {
            shared.directory.open(conn(slot), PLUGIN, Coding::Plain);
        }
        let encoding =
            Encoding { max_message_size: 1 << 20, fragment_size: 1 << 16, compression: None };
        let mut effects = Effects::new(Arc::clone(&shared), encoding);
        effects.begin(PLUGIN);
        Self {
            inbound: Inbound::new(&Config::default(), 1, 1),
            effects,
            outgoing: Outgoing::new(Arc::clone(&shared)),
            shared,
            batch: Batch::default(),
            tickets: Vec::new(),
            commits: Vec::new(),
        }
    }

    /// So many messages of each connection come in one turn and are echoed.
    fn turn(&mut self, connections: u32, messages: u32) {
        for slot in 0..connections {
            for _ in 0..messages {
                let sequence = Sequence::Connection;
                self.batch.message(conn(slot), PLUGIN, sequence, Kind::Binary, &PAYLOAD);
            }
        }
        self.batch = self.inbound.submit(0, std::mem::take(&mut self.batch));
        while let Some(work) = self.inbound.take(0, 16) {
            let mut bytes = 0;
            for (_, payload) in work.events() {
                self.effects.send(work.conn(), Kind::Binary, payload).unwrap();
                self.outgoing.absorb(&mut self.effects);
                bytes += payload.len();
            }
            self.outgoing.handled(work.conn(), messages, u32::try_from(bytes).unwrap());
            self.tickets.push(work.ticket());
            let _ = self.inbound.room().give(messages as usize, bytes);
        }
        self.outgoing.post();
        self.inbound.release(&mut self.tickets);

        self.shared.hub.collect(0, &mut self.commits);
        let echoed: usize = self.commits.iter().map(|commit| commit.bytes.len()).sum();
        let frames = connections as usize * messages as usize;
        assert_eq!(echoed, frames * (PAYLOAD.len() + 2));
        self.shared.hub.give_back(0, &mut self.commits);
    }
}

fn conn(slot: u32) -> ConnectionId {
    ConnectionId::new(0, slot, 1)
}

/// Allocations of so many turns, when warm.
fn allocations(connections: u32, messages: u32, turns: usize) -> usize {
    let mut host = Host::new(connections);
    // Each of the buffers that take turns is used several times.
    (0..1000).for_each(|_| host.turn(connections, messages));
    count(|| (0..turns).for_each(|_| host.turn(connections, messages)))
}

#[test]
fn a_message_through_the_queues_allocates_nothing() {
    assert_eq!(allocations(1, 1, 100), 0);
    assert_eq!(allocations(32, 1, 100), 0);
    assert_eq!(allocations(32, 4, 100), 0, "several of each");
}
