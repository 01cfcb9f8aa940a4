//! Which connections are open, for everybody to look up without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::types::{ConnectionId, PluginId};

const CHUNK: usize = 4096;
const CHUNKS: usize = ConnectionId::MAX_SLOTS / CHUNK;
const OPEN: u64 = 1;

/// 16 bytes per connection, in chunks that are made when first needed and kept.
#[derive(Debug)]
pub struct Directory(Box<[Shelf]>);

#[derive(Debug)]
struct Shelf(Box<[OnceLock<Box<[Place]>>]>);

#[derive(Debug, Default)]
struct Place {
    /// Generation, plugin and whether it is open; 0 where nobody was yet.
    tenant: AtomicU64,
    buffered: AtomicU32,
}

impl Directory {
    pub(super) fn new(shards: usize) -> Self {
        let shelf = || Shelf((0..CHUNKS).map(|_| OnceLock::new()).collect());
        Self((0..shards).map(|_| shelf()).collect())
    }

    /// The connection is open and the plugin's. Only its shard says so.
    pub fn open(&self, conn: ConnectionId, plugin: PluginId) {
        let Some(shelf) = self.0.get(conn.shard()) else { return };
        let chunk = shelf.0[conn.slot() as usize / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| Place::default()).collect());
        let place = &chunk[conn.slot() as usize % CHUNK];
        place.buffered.store(0, Ordering::Relaxed);
        place.tenant.store(tenant(conn, plugin), Ordering::Release);
    }

    /// The connection is closed or closing. Only its shard says so.
    pub fn close(&self, conn: ConnectionId) {
        if let Some(place) = self.place(conn) {
            place.tenant.store(0, Ordering::Release);
            place.buffered.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the connection is open and belongs to the plugin. It may close at any moment.
    #[must_use]
    pub fn is_open(&self, conn: ConnectionId, plugin: PluginId) -> bool {
        self.place(conn)
            .is_some_and(|place| place.tenant.load(Ordering::Acquire) == tenant(conn, plugin))
    }

    /// Bytes that wait in the connection's outbox.
    #[must_use]
    pub fn buffered(&self, conn: ConnectionId) -> u32 {
        self.place(conn).map_or(0, |place| place.buffered.load(Ordering::Relaxed))
    }

    /// Only its shard says so.
    pub fn set_buffered(&self, conn: ConnectionId, bytes: usize) {
        if let Some(place) = self.place(conn) {
            place.buffered.store(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    fn place(&self, conn: ConnectionId) -> Option<&Place> {
        let chunk = self.0.get(conn.shard())?.0[conn.slot() as usize / CHUNK].get()?;
        Some(&chunk[conn.slot() as usize % CHUNK])
    }
}

fn tenant(conn: ConnectionId, plugin: PluginId) -> u64 {
    (u64::from(conn.generation()) << 32) | (u64::from(plugin.0) << 1) | OPEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_tenant_of_the_right_plugin_is_open() {
        let directory = Directory::new(1);
        let conn = ConnectionId::new(0, 5_000, 7);
        assert!(!directory.is_open(conn, PluginId(1)));
        directory.open(conn, PluginId(1));
        assert!(directory.is_open(conn, PluginId(1)));
        assert!(!directory.is_open(conn, PluginId(2)));
        assert!(!directory.is_open(ConnectionId::new(0, 5_000, 8), PluginId(1)));
        assert!(!directory.is_open(ConnectionId::new(9, 5_000, 7), PluginId(1)), "no such shard");
        directory.close(conn);
        assert!(!directory.is_open(conn, PluginId(1)));
    }

    #[test]
    fn any_number_that_a_guest_names_is_harmless() {
        let directory = Directory::new(2);
        for number in [0, 1, u64::MAX, 1 << 56, 0x00ff_ffff << 32] {
            assert!(!directory.is_open(ConnectionId::from_u64(number), PluginId(0)));
            assert_eq!(directory.buffered(ConnectionId::from_u64(number)), 0);
        }
    }
}
