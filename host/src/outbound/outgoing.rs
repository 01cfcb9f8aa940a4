//! Completed effects of a worker, sorted by shard, until they are posted.

use std::sync::Arc;

use super::{Commit, Effects, Entry, Hub, Shared};
use crate::types::ConnectionId;

/// Effects of so many calls are posted together, at most.
const FULL_ENTRIES: usize = 1024;
/// Bytes of effects that are posted together, unless one call has more.
const FULL_BYTES: usize = 1024 * 1024;

/// One open commit per shard.
#[derive(Debug)]
pub struct Outgoing {
    shared: Arc<Shared>,
    commits: Vec<Commit>,
    full: bool,
}

impl Outgoing {
    /// Empty.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        let commits = (0..shared.hub.shards()).map(|_| Commit::default()).collect();
        Self { shared, commits, full: false }
    }

    /// Takes over what a call asked for: it has returned.
    pub fn absorb(&mut self, effects: &mut Effects) {
        for (conn, attachment) in effects.attachments.drain(..) {
            self.shared.notes.set_attachment(conn, attachment);
        }
        let done = &effects.commit;
        for entry in &done.entries {
            match entry.shard() {
                Some(shard) => self.push_from(shard, done, *entry),
                None => (0..self.commits.len()).for_each(|i| self.push_from(i, done, *entry)),
            }
        }
        effects.clear();
    }

    /// The connection's events have been handled.
    pub fn handled(&mut self, conn: ConnectionId, events: u32, bytes: u32) {
        self.push(Entry::Handled { conn, events, bytes });
    }

    /// The connection's end, its last event, has been handled.
    pub fn finished(&mut self, conn: ConnectionId) {
        self.push(Entry::Finished { conn });
    }

    /// The host itself closes the connection.
    pub fn close(&mut self, conn: ConnectionId, code: u16, reason: &'static str) {
        let Some(commit) = self.commits.get_mut(conn.shard()) else { return };
        if let Some(reason) = commit.put_name(reason) {
            self.push(Entry::Close { conn, code, reason });
        }
    }

    /// Whether it should be posted before more is done.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Posts everything; waits where a mailbox is full.
    pub fn post(&mut self) {
        self.post_by(Hub::post);
    }

    /// Posts everything and never waits, for a shard's own thread.
    pub fn post_now(&mut self) {
        self.post_by(Hub::post_now);
    }

    fn post_by(&mut self, post: impl Fn(&Hub, usize, Commit) -> Commit) {
        for (shard, commit) in self.commits.iter_mut().enumerate() {
            if !commit.is_empty() {
                *commit = post(&self.shared.hub, shard, std::mem::take(commit));
            }
        }
        self.full = false;
    }

    fn push(&mut self, entry: Entry) {
        let shard = entry.shard().unwrap_or(0);
        if let Some(commit) = self.commits.get_mut(shard) {
            commit.entries.push(entry);
            self.full |= commit.entries.len() >= FULL_ENTRIES;
        }
    }

    fn push_from(&mut self, shard: usize, done: &Commit, entry: Entry) {
        if let Some(commit) = self.commits.get_mut(shard) {
            commit.push_from(done, entry);
            self.full |= commit.entries.len() >= FULL_ENTRIES || commit.size() >= FULL_BYTES;
        }
    }
}
