//! Names of connections, plugins and routes.

use std::fmt;

/// Names one connection: unique for the life of the process and never used again.
///
/// The number carries its own address, so that no map is needed to find the connection: 8 bits of
/// shard, 24 bits of slot in that shard, 32 bits of generation. A slot whose generations are used
/// up is retired.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Shards that the numbering has room for.
    pub const MAX_SHARDS: usize = 1 << 8;
    /// Connections that one shard can hold at a time.
    pub const MAX_SLOTS: usize = 1 << 24;

    /// Names no connection.
    pub const NOBODY: Self = Self(0);

    /// Puts an id together. `slot` must be below [`Self::MAX_SLOTS`].
    #[must_use]
    pub const fn new(shard: u8, slot: u32, generation: u32) -> Self {
        debug_assert!((slot as usize) < Self::MAX_SLOTS);
        Self(((shard as u64) << 56) | ((slot as u64) << 32) | generation as u64)
    }

    /// The id that a guest named; it may be any number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The number that guests see.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// The shard that owns the connection.
    #[must_use]
    pub const fn shard(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// The slot in the shard.
    #[must_use]
    pub const fn slot(self) -> u32 {
        ((self.0 >> 32) & 0x00ff_ffff) as u32
    }

    /// Tells the tenants of one slot apart. Never 0.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A plugin by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginId(pub u16);

/// A route by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_address() {
        let id = ConnectionId::new(255, 0x00ff_ffff, u32::MAX);
        assert_eq!((id.shard(), id.slot(), id.generation()), (255, 0x00ff_ffff, u32::MAX));
        let id = ConnectionId::new(1, 2, 3);
        assert_eq!(ConnectionId::from_u64(id.to_u64()), id);
        assert_eq!((id.shard(), id.slot(), id.generation()), (1, 2, 3));
    }
}
