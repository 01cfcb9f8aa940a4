//! Which connections are open, for everybody to look up without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use plugsock_ws::extension::WindowBits;

use crate::types::{ConnectionId, PluginId};

const CHUNK: usize = 4096;
const CHUNKS: usize = ConnectionId::MAX_SLOTS / CHUNK;
const OPEN: u64 = 1;
const BY_SHARD: u8 = 0x80;

/// 16 bytes per connection, in chunks that are made when first needed and kept.
#[derive(Debug)]
pub struct Directory {
    shelves: Box<[Shelf]>,
    /// By plugin: its open connections that can inflate.
    inflating: Box<[AtomicUsize]>,
}

/// How messages for a connection are to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As they are.
    Plain,
    /// Compressed on their own, by whoever sends, with at most this window.
    Alone(WindowBits),
    /// Compressed with what was sent before, which only its shard can do, in this window.
    ByShard(WindowBits),
}

#[derive(Debug)]
struct Shelf(Box<[OnceLock<Box<[Place]>>]>);

#[derive(Debug, Default)]
struct Place {
    /// Generation, plugin and whether it is open; 0 where nobody was yet.
    tenant: AtomicU64,
    buffered: AtomicU32,
    /// 0 is plain, else the window bits, and [`BY_SHARD`].
    coding: AtomicU8,
}

impl Directory {
    pub(super) fn new(shards: usize, plugins: usize) -> Self {
        let shelf = || Shelf((0..CHUNKS).map(|_| OnceLock::new()).collect());
        Self {
            shelves: (0..shards).map(|_| shelf()).collect(),
            inflating: (0..plugins).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// The connection is open and the plugin's. Only its shard says so, and [closes](Self::close)
    /// it before the slot's next.
    pub fn open(&self, conn: ConnectionId, plugin: PluginId, coding: Coding) {
        let Some(shelf) = self.shelves.get(conn.shard()) else { return };
        let chunk = shelf.0[conn.slot() as usize / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| Place::default()).collect());
        let place = &chunk[conn.slot() as usize % CHUNK];
        place.buffered.store(0, Ordering::Relaxed);
        place.coding.store(coding.to_byte(), Ordering::Relaxed);
        place.tenant.store(tenant(conn, plugin), Ordering::Release);
        if coding != Coding::Plain
            && let Some(count) = self.inflating.get(usize::from(plugin.0))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The connection is closed or closing. Only its shard says so; once is enough.
    pub fn close(&self, conn: ConnectionId) {
        let Some(place) = self.place(conn) else { return };
        let tenant = place.tenant.swap(0, Ordering::Release);
        place.buffered.store(0, Ordering::Relaxed);
        let coding = Coding::from_byte(place.coding.swap(0, Ordering::Relaxed));
        if tenant & OPEN != 0
            && coding != Coding::Plain
            && let Some(count) = self.inflating.get(plugin_of(tenant))
        {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How messages for the connection are to be encoded, if it is open and the plugin's.
    #[must_use]
    pub fn coding(&self, conn: ConnectionId, plugin: PluginId) -> Option<Coding> {
        let place = self.place(conn)?;
        let open = place.tenant.load(Ordering::Acquire) == tenant(conn, plugin);
        open.then(|| Coding::from_byte(place.coding.load(Ordering::Relaxed)))
    }

    /// Whether any open connection of the plugin can inflate.
    #[must_use]
    pub fn anyone_inflates(&self, plugin: PluginId) -> bool {
        let count = self.inflating.get(usize::from(plugin.0));
        count.is_some_and(|count| count.load(Ordering::Relaxed) > 0)
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
        let chunk = self.shelves.get(conn.shard())?.0[conn.slot() as usize / CHUNK].get()?;
        Some(&chunk[conn.slot() as usize % CHUNK])
    }
}

impl Coding {
    fn to_byte(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Alone(bits) => bits.get(),
            Self::ByShard(bits) => bits.get() | BY_SHARD,
        }
    }

    fn from_byte(byte: u8) -> Self {
        match WindowBits::new(byte & !BY_SHARD) {
            None => Self::Plain,
            Some(bits) if byte & BY_SHARD != 0 => Self::ByShard(bits),
            Some(bits) => Self::Alone(bits),
        }
    }
}

const fn plugin_of(tenant: u64) -> usize {
    ((tenant >> 1) & 0xffff) as usize
}

fn tenant(conn: ConnectionId, plugin: PluginId) -> u64 {
    (u64::from(conn.generation()) << 32) | (u64::from(plugin.0) << 1) | OPEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_tenant_of_the_right_plugin_is_open() {
        let directory = Directory::new(1, 3);
        let conn = ConnectionId::new(0, 5_000, 7);
        assert!(!directory.is_open(conn, PluginId(1)));
        directory.open(conn, PluginId(1), Coding::Plain);
        assert!(directory.is_open(conn, PluginId(1)));
        assert!(!directory.is_open(conn, PluginId(2)));
        assert!(!directory.is_open(ConnectionId::new(0, 5_000, 8), PluginId(1)));
        assert!(!directory.is_open(ConnectionId::new(9, 5_000, 7), PluginId(1)), "no such shard");
        directory.close(conn);
        assert!(!directory.is_open(conn, PluginId(1)));
    }

    #[test]
    fn any_number_that_a_guest_names_is_harmless() {
        let directory = Directory::new(2, 1);
        for number in [0, 1, u64::MAX, 1 << 56, 0x00ff_ffff << 32] {
            assert!(!directory.is_open(ConnectionId::from_u64(number), PluginId(0)));
            assert_eq!(directory.buffered(ConnectionId::from_u64(number)), 0);
        }
    }

    #[test]
    fn those_who_can_inflate_are_counted_and_leave_the_count_once() {
        let directory = Directory::new(1, 3);
        let conns = [1, 2, 3].map(|slot| ConnectionId::new(0, slot, 1));
        let bits = WindowBits::new(12).unwrap();
        let codings = [Coding::Plain, Coding::Alone(bits), Coding::ByShard(bits)];
        for (conn, coding) in conns.into_iter().zip(codings) {
            directory.open(conn, PluginId(2), coding);
            assert_eq!(directory.coding(conn, PluginId(2)), Some(coding));
            assert_eq!(directory.coding(conn, PluginId(1)), None);
        }
        for conn in conns {
            assert!(directory.anyone_inflates(PluginId(2)));
            directory.close(conn);
            directory.close(conn);
        }
        assert!(!directory.anyone_inflates(PluginId(2)));
        assert!(!directory.anyone_inflates(PluginId(1)));
    }
}
