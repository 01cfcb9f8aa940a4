//! Instances between two runs.

use std::sync::{Arc, Mutex, PoisonError};

use super::desk::Desk;
use crate::plugin::{Instance, Version};
use crate::types::PluginId;

/// The instances of `instances = "single"` plugins, by plugin. The queue lets only one run of them
/// be out at a time.
pub(super) type Singles = [Mutex<Option<Instance<Desk>>>];

/// A worker's own instances, by plugin, and everybody's single ones.
#[derive(Debug)]
pub(super) struct Instances {
    own: Vec<Option<Instance<Desk>>>,
    singles: Arc<Singles>,
}

impl Instances {
    pub(super) fn new(singles: &Arc<Singles>) -> Self {
        let own = (0..singles.len()).map(|_| None).collect();
        Self { own, singles: Arc::clone(singles) }
    }

    /// One that is ready, if there is one.
    pub(super) fn take(&mut self, version: &Version<Desk>, single: bool) -> Option<Instance<Desk>> {
        let plugin = usize::from(version.id().0);
        let instance = if single {
            self.singles.get(plugin)?.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            self.own.get_mut(plugin)?.take()
        };
        instance.filter(|instance| instance.serial() == version.serial())
    }

    /// Keeps it for the next run, unless it has failed or is worn out.
    pub(super) fn put(&mut self, plugin: PluginId, instance: Instance<Desk>, single: bool) {
        // A single instance's memory is the plugin's state: it is not thrown away for its age.
        if instance.dead() || (!single && instance.worn_out()) {
            return;
        }
        let plugin = usize::from(plugin.0);
        if single {
            if let Some(place) = self.singles.get(plugin) {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
            }
        } else if let Some(place) = self.own.get_mut(plugin) {
            *place = Some(instance);
        }
    }
}
