//! Wires a shard to the thread that turns it.

use std::io;

use crate::inbound::Batch;
use crate::shard::Shard;
use crate::worker::Io;

impl Io for Shard {
    fn gather(&mut self) -> io::Result<()> {
        Self::gather(self)
    }

    fn batch(&mut self) -> &mut Batch {
        Self::batch(self)
    }

    fn deliver(&mut self) -> bool {
        Self::deliver(self)
    }
}
