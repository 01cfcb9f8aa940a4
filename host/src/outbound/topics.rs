//! Who is subscribed to what: per shard the connections, over all shards their number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Shared;
use crate::types::PluginId;

/// One shard's channels. Everything costs constant time, but a connection's end, which costs its
/// subscriptions.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: HashMap<PluginId, HashMap<Box<str>, u32>>,
    topics: Vec<Topic>,
    free: Vec<u32>,
    /// By the connection's slot: its topics, and where it stands in each one's list.
    subscriptions: HashMap<u32, HashMap<u32, u32>>,
}

#[derive(Debug)]
struct Topic {
    plugin: PluginId,
    name: Box<str>,
    /// Slots.
    members: Vec<u32>,
}

impl Topics {
    /// Channels that one connection can be in; further subscriptions are not made. About 40 bytes
    /// each.
    pub const MAX_PER_CONNECTION: usize = 65_536;

    /// Adds the connection in `slot` to a channel; once is enough. False if it is in too many.
    pub fn subscribe(&mut self, shared: &Shared, slot: u32, plugin: PluginId, name: &str) -> bool {
        let count = self.subscriptions.get(&slot).map_or(0, HashMap::len);
        if count >= Self::MAX_PER_CONNECTION {
            return false;
        }
        let index = self.find_or_make(plugin, name);
        let members = &mut self.topics[index as usize].members;
        if let Entry::Vacant(place) = self.subscriptions.entry(slot).or_default().entry(index) {
            place.insert(len(members));
            members.push(slot);
            shared.members.change(plugin, name, 1);
        }
        true
    }

    /// Takes the connection in `slot` out of a channel, if it is there.
    pub fn unsubscribe(&mut self, shared: &Shared, slot: u32, plugin: PluginId, name: &str) {
        let Some(&index) = self.by_name.get(&plugin).and_then(|names| names.get(name)) else {
            return;
        };
        let Some(subscriptions) = self.subscriptions.get_mut(&slot) else { return };
        let Some(member) = subscriptions.remove(&index) else { return };
        if subscriptions.is_empty() {
            self.subscriptions.remove(&slot);
        }
        self.remove_member(shared, index, member);
    }

    /// Takes the connection out of all channels: it is gone.
    pub fn leave_all(&mut self, shared: &Shared, slot: u32) {
        for (topic, member) in self.subscriptions.remove(&slot).unwrap_or_default() {
            self.remove_member(shared, topic, member);
        }
    }

    /// The slots of a channel's subscribers.
    pub fn subscribers(&self, plugin: PluginId, name: &str) -> impl Iterator<Item = u32> {
        let index = self.by_name.get(&plugin).and_then(|names| names.get(name)).copied();
        let members = index.map(|index| &self.topics[index as usize].members);
        members.into_iter().flatten().copied()
    }

    /// Channels that have subscribers here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.topics.len() - self.free.len()
    }

    /// Whether nobody here is subscribed to anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find_or_make(&mut self, plugin: PluginId, name: &str) -> u32 {
        let names = self.by_name.entry(plugin).or_default();
        if let Some(&index) = names.get(name) {
            return index;
        }
        let topic = Topic { plugin, name: name.into(), members: Vec::new() };
        let index = match self.free.pop() {
            Some(index) => {
                self.topics[index as usize] = topic;
                index
            }
            None => {
                self.topics.push(topic);
                len(&self.topics) - 1
            }
        };
        names.insert(name.into(), index);
        index
    }

    fn remove_member(&mut self, shared: &Shared, index: u32, member: u32) {
        let topic = &mut self.topics[index as usize];
        topic.members.swap_remove(member as usize);
        if let Some(moved) = topic.members.get(member as usize)
            && let Some(subscriptions) = self.subscriptions.get_mut(moved)
        {
            subscriptions.insert(index, member);
        }
        shared.members.change(topic.plugin, &topic.name, -1);
        if topic.members.is_empty() {
            let name = std::mem::take(&mut topic.name);
            topic.members = Vec::new();
            if let Some(names) = self.by_name.get_mut(&topic.plugin) {
                names.remove(&name);
            }
            self.free.push(index);
        }
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

const STRIPES: usize = 16;

/// Subscribers per channel over all shards. A channel without any is forgotten.
#[derive(Debug, Default)]
pub struct Members {
    stripes: [Mutex<Counts>; STRIPES],
    hasher: RandomState,
}

type Counts = HashMap<(PluginId, Box<str>), u64>;

impl Members {
    /// How many there are now.
    #[must_use]
    pub fn count(&self, plugin: PluginId, name: &str) -> u64 {
        self.stripe(plugin, name).get(&(plugin, name.into())).copied().unwrap_or(0)
    }

    /// Channels with subscribers.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).len()).sum()
    }

    fn change(&self, plugin: PluginId, name: &str, by: i64) {
        let mut stripe = self.stripe(plugin, name);
        let key = (plugin, Box::from(name));
        let count = stripe.get(&key).copied().unwrap_or(0).saturating_add_signed(by);
        if count == 0 {
            stripe.remove(&key);
        } else {
            stripe.insert(key, count);
        }
    }

    fn stripe(&self, plugin: PluginId, name: &str) -> MutexGuard<'_, Counts> {
        let hash = self.hasher.hash_one((plugin, name));
        #[expect(clippy::cast_possible_truncation, reason = "below STRIPES")]
        lock(&self.stripes[(hash % STRIPES as u64) as usize])
    }
}

fn lock<T>(stripe: &Mutex<T>) -> MutexGuard<'_, T> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PluginId = PluginId(0);
    const B: PluginId = PluginId(1);

    fn slots(topics: &Topics, plugin: PluginId, name: &str) -> Vec<u32> {
        let mut slots: Vec<u32> = topics.subscribers(plugin, name).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn subscribing_twice_is_once_and_plugins_do_not_share_names() {
        let (shared, mut topics) = (Shared::new(1, 2), Topics::default());
        topics.subscribe(&shared, 1, A, "room");
        topics.subscribe(&shared, 1, A, "room");
        topics.subscribe(&shared, 2, B, "room");
        assert_eq!(slots(&topics, A, "room"), [1]);
        assert_eq!(slots(&topics, B, "room"), [2]);
        assert_eq!(shared.members.count(A, "room"), 1);
        topics.unsubscribe(&shared, 1, A, "other");
        topics.unsubscribe(&shared, 9, A, "room");
        assert_eq!(slots(&topics, A, "room"), [1]);
    }

    #[test]
    fn whoever_leaves_leaves_nothing_behind() {
        let (shared, mut topics) = (Shared::new(1, 2), Topics::default());
        let names = ["a", "b", "c"];
        for slot in 0..10 {
            for name in names {
                topics.subscribe(&shared, slot, A, name);
            }
        }
        topics.unsubscribe(&shared, 3, A, "a");
        topics.unsubscribe(&shared, 0, A, "b");
        for slot in [5, 3, 9] {
            topics.leave_all(&shared, slot);
        }
        assert_eq!(slots(&topics, A, "a"), [0, 1, 2, 4, 6, 7, 8]);
        assert_eq!(slots(&topics, A, "b"), [1, 2, 4, 6, 7, 8]);
        assert_eq!(shared.members.count(A, "c"), 7);
        for slot in 0..10 {
            topics.leave_all(&shared, slot);
        }
        assert!(topics.is_empty());
        assert_eq!(shared.members.channels(), 0);
        assert!(topics.subscriptions.is_empty());
        assert!(topics.by_name[&A].is_empty());
    }

    #[test]
    fn one_connection_can_be_in_so_many_channels_and_no_more() {
        let (shared, mut topics) = (Shared::new(1, 1), Topics::default());
        for i in 0..Topics::MAX_PER_CONNECTION {
            assert!(topics.subscribe(&shared, 1, A, &i.to_string()));
        }
        assert!(!topics.subscribe(&shared, 1, A, "one more"));
        assert!(topics.subscribe(&shared, 2, A, "one more"), "another connection's");
        topics.unsubscribe(&shared, 1, A, "7");
        assert!(topics.subscribe(&shared, 1, A, "one more"));
    }

    #[test]
    fn a_random_walk_keeps_both_lists_in_step() {
        let (shared, mut topics) = (Shared::new(1, 1), Topics::default());
        let mut model = std::collections::BTreeSet::new();
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (slot, name) = ((state >> 8) % 8, ["x", "y", "z"][(state >> 16) as usize % 3]);
            match state >> 30 {
                0 | 1 => {
                    topics.subscribe(&shared, slot, A, name);
                    model.insert((slot, name));
                }
                2 => {
                    topics.unsubscribe(&shared, slot, A, name);
                    model.remove(&(slot, name));
                }
                _ if state & 15 == 0 => {
                    topics.leave_all(&shared, slot);
                    model.retain(|(of, _)| *of != slot);
                }
                _ => {}
            }
            let expected: Vec<u32> =
                model.iter().filter(|(_, of)| *of == name).map(|(slot, _)| *slot).collect();
            assert_eq!(slots(&topics, A, name), expected);
        }
    }
}
