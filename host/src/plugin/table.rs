//! Which version serves each plugin.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::host::Host;
use super::version::Version;
use crate::types::PluginId;

/// The active version of every plugin. Workers look here before each run of messages; deploys
/// replace entries.
pub struct Table<H: Host>(Box<[Slot<H>]>);

struct Slot<H: Host> {
    active: RwLock<Arc<Version<H>>>,
    generation: AtomicU64,
}

impl<H: Host> Table<H> {
    /// `versions` in the order of the configuration: a plugin's id is its place.
    #[must_use]
    pub fn new(versions: impl IntoIterator<Item = Version<H>>) -> Self {
        Self(versions.into_iter().map(Slot::new).collect())
    }

    /// The version that serves new calls; none for an id that is not in the configuration.
    #[must_use]
    pub fn active(&self, id: PluginId) -> Option<Arc<Version<H>>> {
        let slot = self.0.get(usize::from(id.0))?;
        Some(Arc::clone(&slot.active.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Changes whenever [`active`](Self::active) does; costs one load, so that a worker asks for
    /// the version itself only then. Read it first: the version may be newer than it says, never
    /// older.
    #[must_use]
    pub fn generation(&self, id: PluginId) -> Option<u64> {
        Some(self.0.get(usize::from(id.0))?.generation.load(Ordering::Acquire))
    }

    /// Lets `version` serve the plugin of its id; calls under way end where they began. Returns
    /// the version that served before; none, and nothing changed, for an unknown id.
    pub fn replace(&self, version: Arc<Version<H>>) -> Option<Arc<Version<H>>> {
        let slot = self.0.get(usize::from(version.id().0))?;
        let mut active = slot.active.write().unwrap_or_else(PoisonError::into_inner);
        let before = mem::replace(&mut *active, version);
        slot.generation.fetch_add(1, Ordering::Release);
        Some(before)
    }
}

impl<H: Host> Slot<H> {
    fn new(version: Version<H>) -> Self {
        Self { active: RwLock::new(Arc::new(version)), generation: AtomicU64::new(0) }
    }
}

impl<H: Host> fmt::Debug for Table<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.0.iter().map(|slot| slot.active.read().map(|v| v.serial()).ok());
        f.debug_list().entries(versions).finish()
    }
}
