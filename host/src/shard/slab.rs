//! The connections of a shard, by slot.

use crate::conn::{Conn, Tick};
use crate::types::ConnectionId;

/// Slots that are allocated together; they never move.
const CHUNK: usize = 256;

/// Finds a connection by its slot in constant time, and tells the tenants of a slot apart.
#[derive(Debug)]
pub(super) struct Slab {
    shard: u8,
    chunks: Vec<Box<[Slot]>>,
    /// Slots that have had no tenant yet begin here.
    fresh: u32,
    free: Vec<u32>,
    len: usize,
}

/// A connection and what its shard notes about it.
#[derive(Debug)]
pub(super) struct Slot {
    generation: u32,
    /// The workers still have events of the tenant, who may be gone: a new one's would wait behind
    /// them, because their queue knows slots only.
    pub(super) awaited: bool,
    pub(super) conn: Option<Conn>,
    /// When the wheel will show it; later than its deadline at most until the turn ends.
    pub(super) armed: Tick,
    pub(super) listed: Listed,
}

/// In which of the turn's lists a connection stands already.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four lists, each with its own mark")]
pub(super) struct Listed {
    pub(super) flush: bool,
    pub(super) again: bool,
    pub(super) stalled: bool,
    pub(super) gone: bool,
}

impl Slab {
    pub(super) fn new(shard: u8) -> Self {
        Self { shard, chunks: Vec::new(), fresh: 0, free: Vec::new(), len: 0 }
    }

    /// The id that the next connection will have; none if the shard is full.
    pub(super) fn vacant(&mut self) -> Option<ConnectionId> {
        if self.free.is_empty() {
            if self.fresh as usize >= ConnectionId::MAX_SLOTS {
                return None;
            }
            if self.fresh as usize >= self.chunks.len() * CHUNK {
                self.chunks.push((0..CHUNK).map(|_| Slot::default()).collect());
            }
            self.free.push(self.fresh);
            self.fresh += 1;
        }
        let slot = *self.free.last()?;
        Some(ConnectionId::new(self.shard, slot, self.slot(slot)?.generation))
    }

    /// Puts a connection where its id says, which must come from [`Slab::vacant`].
    pub(super) fn insert(&mut self, conn: Conn) {
        let number = conn.id().slot();
        debug_assert_eq!(self.free.last(), Some(&number));
        self.free.pop();
        if let Some(slot) = self.slot(number) {
            slot.conn = Some(conn);
            slot.armed = Tick::NEVER;
            slot.listed = Listed::default();
            slot.awaited = false;
            self.len += 1;
        }
    }

    /// Drops a connection. Its slot is free when the workers have handled its end.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(slot) = self.slot(number) else { return };
        if slot.conn.take().is_some() {
            self.len -= 1;
            self.free_if_done(number);
        }
    }

    /// The workers have handled the connection's end.
    pub(super) fn finish(&mut self, id: ConnectionId) {
        let Some(slot) = self.slot(id.slot()) else { return };
        if slot.generation == id.generation() && std::mem::take(&mut slot.awaited) {
            self.free_if_done(id.slot());
        }
    }

    /// A slot whose generations are used up is never free again.
    fn free_if_done(&mut self, number: u32) {
        let Some(slot) = self.slot(number) else { return };
        if slot.conn.is_none()
            && !slot.awaited
            && let Some(next) = slot.generation.checked_add(1)
        {
            slot.generation = next;
            self.free.push(number);
        }
    }

    pub(super) fn slot(&mut self, number: u32) -> Option<&mut Slot> {
        self.chunks.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)
    }

    /// The slot, if its tenant is still this one.
    pub(super) fn tenant(&mut self, id: ConnectionId) -> Option<&mut Slot> {
        self.slot(id.slot())
            .filter(|slot| slot.generation == id.generation() && slot.conn.is_some())
    }

    /// All slots with a tenant.
    pub(super) fn tenants(&mut self) -> impl Iterator<Item = (u32, &mut Slot)> {
        let slots = self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut());
        (0..).zip(slots).filter(|(_, slot)| slot.conn.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            generation: 1,
            awaited: false,
            conn: None,
            armed: Tick::NEVER,
            listed: Listed::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_costs_its_shard_little() {
        assert!(size_of::<Slot>() <= 192, "{}", size_of::<Slot>());
    }
}
