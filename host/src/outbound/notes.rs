//! What the host remembers about some connections: the request, and the plugin's attachment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::{ConnectionId, PluginId, Request};

/// Kept only for connections whose plugin asks for it, so that the others cost nothing.
#[derive(Debug)]
pub struct Notes(Box<[Mutex<Shelf>]>);

/// With the plugin that each connection belongs to: no other one may read its note.
type Shelf = HashMap<ConnectionId, (PluginId, Note)>;

/// See the fields.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Where the plugin imports `upgrade-request`.
    pub request: Option<Arc<Request>>,
    /// What the plugin attached.
    pub attachment: Option<Arc<[u8]>>,
}

impl Notes {
    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Mutex::default()).collect())
    }

    /// The note of a connection of this plugin's; empty if it has none.
    #[must_use]
    pub fn get(&self, conn: ConnectionId, plugin: PluginId) -> Note {
        let note = self.shelf(conn).and_then(|notes| notes.get(&conn).cloned());
        note.filter(|(owner, _)| *owner == plugin).map(|(_, note)| note).unwrap_or_default()
    }

    /// Begins the note of a connection that opens. Without one nothing is remembered.
    pub fn begin(&self, conn: ConnectionId, plugin: PluginId, request: Option<Arc<Request>>) {
        if let Some(mut notes) = self.shelf(conn) {
            notes.insert(conn, (plugin, Note { request, attachment: None }));
        }
    }

    /// Replaces the attachment; an empty one is an attachment too. Does nothing for a connection
    /// whose note has ended, so that a late call leaves none behind.
    pub fn set_attachment(&self, conn: ConnectionId, attachment: Arc<[u8]>) {
        if let Some((_, note)) = self.shelf(conn).as_mut().and_then(|notes| notes.get_mut(&conn)) {
            note.attachment = Some(attachment);
        }
    }

    /// The connection's `on-close` has been handled.
    pub fn end(&self, conn: ConnectionId) {
        if let Some(mut notes) = self.shelf(conn) {
            notes.remove(&conn);
        }
    }

    /// Connections with a note.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|notes| lock(notes).len()).sum()
    }

    /// Whether no connection has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shelf(&self, conn: ConnectionId) -> Option<MutexGuard<'_, Shelf>> {
        self.0.get(conn.shard()).map(lock)
    }
}

fn lock(notes: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What each plugin wants to be remembered of its connections. Set when a version goes live.
#[derive(Debug)]
pub struct Wishes(Box<[AtomicU8]>);

const REQUEST: u8 = 1;
const ATTACHMENT: u8 = 2;

impl Wishes {
    pub(super) fn new(plugins: usize) -> Self {
        Self((0..plugins).map(|_| AtomicU8::new(0)).collect())
    }

    /// What the plugin's active version imports.
    pub fn set(&self, plugin: PluginId, request: bool, attachment: bool) {
        if let Some(wish) = self.0.get(usize::from(plugin.0)) {
            let bits = if request { REQUEST } else { 0 } | if attachment { ATTACHMENT } else { 0 };
            wish.store(bits, Ordering::Relaxed);
        }
    }

    /// Whether it asks for `upgrade-request`.
    #[must_use]
    pub fn request(&self, plugin: PluginId) -> bool {
        self.bits(plugin) & REQUEST != 0
    }

    /// Whether anything is to be remembered.
    #[must_use]
    pub fn any(&self, plugin: PluginId) -> bool {
        self.bits(plugin) != 0
    }

    fn bits(&self, plugin: PluginId) -> u8 {
        self.0.get(usize::from(plugin.0)).map_or(0, |wish| wish.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_lives_as_long_as_its_connection_and_no_longer() {
        let notes = Notes::new(1);
        let conn = ConnectionId::new(0, 3, 1);
        notes.set_attachment(conn, Arc::from(*b"early"));
        assert!(notes.is_empty(), "no note was begun");
        notes.begin(conn, PluginId(1), None);
        notes.set_attachment(conn, Arc::from(*b"ada"));
        assert_eq!(notes.get(conn, PluginId(1)).attachment.as_deref(), Some(&b"ada"[..]));
        assert_eq!(notes.get(conn, PluginId(0)).attachment, None, "another plugin's");
        notes.end(conn);
        notes.set_attachment(conn, Arc::from(*b"late"));
        assert!(notes.is_empty());
    }
}
