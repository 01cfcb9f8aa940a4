//! Step 6: what handlers asked for, on its way back to the sockets.
//!
//! A handler's wishes are collected in [`Effects`]. When it returns, [`Outgoing`] sorts them by the
//! shard that they concern into [`Commit`]s; those travel through the [`Hub`]'s mailboxes, with one
//! wake per batch, and the shard that owns the connections carries them out.

mod commit;
mod directory;
mod effects;
mod encoder;
mod hub;
mod notes;
mod outbox;
mod outgoing;
mod topics;

use std::sync::Arc;

pub use commit::{Commit, Entry, Forms, Name};
pub use directory::{Coding, Directory};
pub use effects::{Effects, MAX_BY_SHARD, Refused};
pub use encoder::{Compression, Encoding};
pub use hub::Hub;
pub use notes::{Note, Notes, Wishes};
pub use outbox::{Outbox, Verdict};
pub use outgoing::Outgoing;
pub use topics::{Members, Topics};

/// What shards and workers share about the connections.
#[derive(Debug)]
pub struct Shared {
    /// The shards' mailboxes.
    pub hub: Hub,
    /// Which connections are open, and whose they are.
    pub directory: Directory,
    /// Requests and attachments, of those connections that have any.
    pub notes: Notes,
    /// What is to be remembered of a connection.
    pub wishes: Wishes,
    /// Subscribers per channel over all shards.
    pub members: Members,
}

impl Shared {
    /// For so many shards, at least 1, and so many plugins.
    #[must_use]
    pub fn new(shards: usize, plugins: usize) -> Arc<Self> {
        Arc::new(Self {
            hub: Hub::new(shards),
            directory: Directory::new(shards, plugins),
            notes: Notes::new(shards),
            wishes: Wishes::new(plugins),
            members: Members::default(),
        })
    }
}
