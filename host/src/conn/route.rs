//! What is served at which path.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::inbound::Sequence;
use crate::types::{ConnectionId, PluginId, RouteId};

/// The routes by exact path.
#[derive(Debug, Default)]
pub struct Routes {
    list: Vec<Route>,
    by_path: HashMap<String, RouteId>,
}

/// One path's service.
#[derive(Clone, Debug)]
pub struct Route {
    /// The exact path.
    pub path: String,
    /// Who answers.
    pub target: Target,
    /// Subprotocols that are known here.
    pub subprotocols: Vec<String>,
    /// Whether a client that offers none of them is refused.
    pub require_subprotocol: bool,
}

/// Who answers a route's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A plugin, on the worker pool.
    Plugin {
        /// Which one.
        plugin: PluginId,
        /// What of it must not overlap.
        sequence: Sequence,
    },
    /// The I/O thread itself sends every message back: what the host costs without a plugin.
    BuiltinEcho,
}

impl Routes {
    /// Of several with the same path the last counts.
    #[must_use]
    pub fn new(list: Vec<Route>) -> Self {
        let number = |i| RouteId(u16::try_from(i).unwrap_or(u16::MAX));
        let by_path =
            list.iter().enumerate().map(|(i, route)| (route.path.clone(), number(i))).collect();
        Self { list, by_path }
    }

    /// The route of a path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Route> {
        self.by_path.get(path).and_then(|id| self.list.get(usize::from(id.0)))
    }
}

/// Serves plain requests, off the I/O thread. Wired in above.
pub trait Pages: fmt::Debug + Send + Sync {
    /// Whether there may be something at the path.
    fn matches(&self, path: &str) -> bool;

    /// Asks for a response to be posted to the connection. None if too many are being worked on or
    /// sent; the connection keeps the permit until it ends.
    fn request(&self, conn: ConnectionId, method: &str, path: &str) -> Option<PagePermit>;
}

/// Bounds the responses in memory. Dropping it gives its place back.
#[derive(Debug)]
pub struct PagePermit(Arc<AtomicUsize>);

impl PagePermit {
    /// A place, if fewer than `most` are taken.
    #[must_use]
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        let done = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        done.then(|| Self(Arc::clone(taken)))
    }
}

impl Drop for PagePermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
