//! Step 4: from the I/O threads to the workers, in bounded queues.
//!
//! A shard gathers what its sockets brought during one turn in a [`Batch`]: one buffer, and a list
//! of *runs*, each the consecutive events of one connection. It hands the batch over once per turn
//! under one lock. Per connection the order is kept and never two runs are out at once; different
//! connections go to whichever worker is free.

mod batch;
mod bell;
mod config;
mod queue;
mod room;

pub use batch::{Batch, Event, Happening, Run, Sequence};
pub use bell::Bell;
pub use config::Config;
pub use queue::Work;
pub use room::Room;

use queue::Queue;

/// The queues between all shards and all workers.
#[derive(Debug)]
pub struct Inbound {
    /// One per shard, keyed by the connection's slot; last, the one of the plugins with a single
    /// instance, keyed by plugin.
    queues: Box<[Queue]>,
    bells: Box<[Bell]>,
    room: Room,
}

/// Work that is done but whose connection still has to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    queue: u16,
    key: u32,
}

impl Inbound {
    /// Queues for so many shards and worker threads, both at least 1.
    #[must_use]
    pub fn new(config: &Config, shards: usize, workers: usize) -> Self {
        Self {
            queues: (0..=shards).map(|_| Queue::default()).collect(),
            bells: (0..workers).map(|_| Bell::default()).collect(),
            room: Room::new(config),
        }
    }

    /// How full the host is.
    #[must_use]
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// The bell of one worker thread.
    #[must_use]
    pub fn bell(&self, worker: usize) -> &Bell {
        &self.bells[worker % self.bells.len()]
    }

    /// Hands over what a shard gathered, and [tells](Self::tell) a worker.
    ///
    /// Returns an empty batch to go on with: where it can, one whose messages are all handled, so
    /// that its buffers serve again.
    pub fn submit(&self, shard: usize, batch: Batch) -> Batch {
        let spare = self.put(shard, batch);
        self.tell(shard);
        spare
    }

    /// Hands over what a shard gathered as [`submit`](Self::submit) does, without a word to a
    /// worker that sleeps: the shard's thread handles it itself, or tells one later.
    pub fn put(&self, shard: usize, batch: Batch) -> Batch {
        self.room.take(batch.messages(), batch.bytes());
        let single = self.queues.len() - 1;
        let (batch, spare) = self.queues[shard].push_new(batch);
        if batch.has_single() {
            self.queues[single].push_single(&batch);
        }
        spare
    }

    /// Wakes the shard's worker if it sleeps, and another one if that has more to do than it can.
    pub fn tell(&self, shard: usize) {
        self.bell(shard).ring();
        if self.bell(shard).is_crowded() {
            self.ring_another(shard);
        }
    }

    /// The next run for a worker, its home shard's first. At most `quantum` events.
    #[must_use]
    pub fn take(&self, worker: usize, quantum: u32) -> Option<Work> {
        let queues = self.queues.len();
        (0..queues).find_map(|i| {
            let queue = (worker + i) % queues;
            let (work, more) = self.queues[queue].take(quantum)?;
            if more {
                self.ring_another(worker);
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most 257 queues")]
            Some(work.of_queue(queue as u16))
        })
    }

    /// The next run of a shard's own queue, or of a plugin with a single instance, for the shard's
    /// thread. At most `quantum` events.
    #[must_use]
    pub fn take_near(&self, shard: usize, quantum: u32) -> Option<Work> {
        let single = self.queues.len() - 1;
        [shard, single].into_iter().find_map(|queue| {
            let (work, _) = self.queues[queue].take(quantum)?;
            Some(work.of_queue(u16::try_from(queue).ok()?))
        })
    }

    /// Gives back what is left of a run after its first `handled` events: they come first when the
    /// connection has its next turn. To be called before the run is released.
    pub fn put_back(&self, work: &Work, handled: u32) {
        self.queues[usize::from(work.ticket().queue)].put_back(work, handled);
    }

    /// Lets the connections of finished work be taken again. What their handlers caused must
    /// have left before, else the next run could overtake it.
    pub fn release(&self, tickets: &mut Vec<Ticket>) {
        tickets.sort_unstable_by_key(|ticket| ticket.queue);
        for of_queue in tickets.chunk_by(|a, b| a.queue == b.queue) {
            self.queues[usize::from(of_queue[0].queue)].release(of_queue.iter().map(|t| t.key));
        }
        tickets.clear();
    }

    /// True when nothing waits in any queue. Work that is out may still come back to them.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(Queue::is_idle)
    }

    /// One sleeping worker besides `worker`, if there is one, is woken.
    pub fn ring_another(&self, worker: usize) {
        for i in 1..self.bells.len() {
            if self.bell(worker + i).ring() {
                return;
            }
        }
    }

    /// Wakes some worker if any queue has work: what was released may have more behind it.
    pub fn ring_if_needed(&self) {
        if !self.is_idle() {
            let _ = self.bells.iter().any(Bell::ring);
        }
    }

    /// Wakes every worker.
    pub fn ring_all(&self) {
        for bell in &self.bells {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ConnectionId, Kind, PluginId};

    fn inbound() -> Inbound {
        Inbound::new(&Config::default(), 2, 2)
    }

    fn conn(slot: u32) -> ConnectionId {
        ConnectionId::new(0, slot, 1)
    }

    fn message(batch: &mut Batch, slot: u32, text: &str, sequence: Sequence) {
        batch.message(conn(slot), PluginId(0), sequence, Kind::Text, text.as_bytes());
    }

    fn texts(work: &Work) -> Vec<String> {
        work.events().map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_connection_is_out_at_most_once_and_in_order() {
        let inbound = inbound();
        let mut batch = Batch::default();
        message(&mut batch, 1, "a", Sequence::Connection);
        message(&mut batch, 1, "b", Sequence::Connection);
        message(&mut batch, 2, "c", Sequence::Connection);
        let mut batch = inbound.submit(0, batch);
        message(&mut batch, 1, "d", Sequence::Connection);
        inbound.submit(0, batch);

        let first = inbound.take(0, 16).unwrap();
        assert_eq!(texts(&first), ["a", "b"]);
        let second = inbound.take(1, 16).unwrap();
        assert_eq!(texts(&second), ["c"]);
        assert!(inbound.take(0, 16).is_none(), "connection 1 is out");
        inbound.release(&mut vec![first.ticket()]);
        assert_eq!(texts(&inbound.take(1, 16).unwrap()), ["d"]);
    }

    #[test]
    fn a_long_run_gives_way_after_its_quantum() {
        let inbound = inbound();
        let mut batch = Batch::default();
        for text in ["a", "b", "c"] {
            message(&mut batch, 1, text, Sequence::Connection);
        }
        message(&mut batch, 2, "z", Sequence::Connection);
        inbound.submit(0, batch);
        let first = inbound.take(0, 2).unwrap();
        assert_eq!(texts(&first), ["a", "b"]);
        inbound.release(&mut vec![first.ticket()]);
        assert_eq!(texts(&inbound.take(0, 2).unwrap()), ["z"], "the other one's turn");
        assert_eq!(texts(&inbound.take(0, 2).unwrap()), ["c"]);
    }

    #[test]
    fn what_is_put_back_comes_first_at_the_next_turn() {
        let inbound = inbound();
        let mut batch = Batch::default();
        for text in ["a", "b", "c"] {
            message(&mut batch, 1, text, Sequence::Connection);
        }
        let mut batch = inbound.submit(0, batch);
        message(&mut batch, 1, "d", Sequence::Connection);
        inbound.submit(0, batch);
        let first = inbound.take(0, 16).unwrap();
        inbound.put_back(&first, 1);
        inbound.release(&mut vec![first.ticket()]);
        let second = inbound.take(0, 16).unwrap();
        assert_eq!(texts(&second), ["b", "c"]);
        inbound.put_back(&second, 2);
        inbound.release(&mut vec![second.ticket()]);
        assert_eq!(texts(&inbound.take(0, 16).unwrap()), ["d"]);
    }

    #[test]
    fn a_single_instance_serves_all_connections_in_sequence() {
        let inbound = inbound();
        let mut batch = Batch::default();
        message(&mut batch, 1, "a", Sequence::Plugin);
        message(&mut batch, 2, "b", Sequence::Plugin);
        message(&mut batch, 3, "c", Sequence::Connection);
        inbound.submit(1, batch);
        let mut taken = Vec::new();
        while let Some(work) = inbound.take(0, 16) {
            taken.push(work);
        }
        taken.sort_by_key(texts);
        assert_eq!(taken.iter().flat_map(texts).collect::<Vec<_>>(), ["a", "c"], "b must wait");
        inbound.release(&mut vec![taken[0].ticket()]);
        assert_eq!(texts(&inbound.take(0, 16).unwrap()), ["b"]);
    }

    #[test]
    fn a_handled_batch_serves_again() {
        let inbound = inbound();
        let mut batch = Batch::default();
        message(&mut batch, 1, &"x".repeat(5_000), Sequence::Connection);
        let second = inbound.submit(0, batch);
        assert_eq!(second.capacity(), 0, "the first is still out");
        let work = inbound.take(0, 16).unwrap();
        let ticket = work.ticket();
        drop(work);
        inbound.release(&mut vec![ticket]);
        let third = inbound.submit(0, second);
        assert!(third.capacity() >= 5_000);
        assert_eq!((third.messages(), third.bytes()), (0, 0));
    }

    #[test]
    fn a_buffer_that_a_large_message_needed_is_not_kept() {
        let inbound = inbound();
        let mut batch = Batch::default();
        message(&mut batch, 1, &"x".repeat(1 << 20), Sequence::Connection);
        let mut batch = inbound.submit(0, batch);
        let work = inbound.take(0, 16).unwrap();
        inbound.release(&mut vec![work.ticket()]);
        drop(work);
        for _ in 0..3 {
            message(&mut batch, 1, "small", Sequence::Connection);
            batch = inbound.submit(0, batch);
            assert!(batch.capacity() < 1 << 20, "{}", batch.capacity());
        }
    }
}
