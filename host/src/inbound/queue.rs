//! One queue: first in, first out per key, and a key is out at most once.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Ticket;
use super::batch::{Batch, Happening, Run, Sequence};
use crate::types::{ConnectionId, PluginId};

/// Batches that may wait to be used again, at most.
const SPARES: usize = 64;
const NIL: u32 = u32::MAX;

/// Runs that wait for a worker. The host's [`Room`](super::Room) bounds them all together.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By key. 12 bytes for each slot that was ever used.
    mailboxes: Vec<Mailbox>,
    /// Keys that have runs and are not out.
    ready: VecDeque<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Handed-over batches, oldest first. One that nobody holds any more serves again.
    batches: VecDeque<Arc<Batch>>,
}

#[derive(Clone, Copy, Debug)]
struct Mailbox {
    head: u32,
    tail: u32,
    out: bool,
}

#[derive(Debug)]
struct Node {
    run: Run,
    batch: Option<Arc<Batch>>,
    next: u32,
}

/// A run that a worker has taken.
#[derive(Debug)]
pub struct Work {
    batch: Arc<Batch>,
    run: Run,
    ticket: Ticket,
}

impl Queue {
    /// Appends a new batch's runs of single connections. Returns it, and an empty one to go on
    /// with: where it can, with the buffers of one whose runs are all handled.
    pub(super) fn push_new(&self, batch: Batch) -> (Arc<Batch>, Batch) {
        let mut state = self.lock();
        let (batch, spare) = state.share(batch);
        state.append_all(&batch, Sequence::Connection);
        (batch, spare)
    }

    /// Appends a batch's runs of whole plugins.
    pub(super) fn push_single(&self, batch: &Arc<Batch>) {
        self.lock().append_all(batch, Sequence::Plugin);
    }

    /// The longest-waiting key's oldest run, and whether more keys are ready.
    pub(super) fn take(&self, quantum: u32) -> Option<(Work, bool)> {
        let mut state = self.lock();
        let key = state.ready.pop_front()?;
        let work = state.take_first(key, quantum)?;
        Some((work, !state.ready.is_empty()))
    }

    /// The events of a run after its first `handled` are the first of its key again.
    pub(super) fn put_back(&self, work: &Work, handled: u32) {
        let mut run = work.run;
        run.start += handled;
        if run.start < run.end {
            self.lock().prepend(work.ticket.key, run, Arc::clone(&work.batch));
        }
    }

    pub(super) fn release(&self, keys: impl Iterator<Item = u32>) {
        let mut state = self.lock();
        for key in keys {
            let mailbox = &mut state.mailboxes[key as usize];
            mailbox.out = false;
            if mailbox.head != NIL {
                state.ready.push_back(key);
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().ready.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append_all(&mut self, batch: &Arc<Batch>, sequence: Sequence) {
        for run in batch.runs().iter().filter(|run| run.sequence == sequence) {
            let key = match sequence {
                Sequence::Connection => run.conn.slot(),
                Sequence::Plugin => u32::from(run.plugin.0),
            };
            self.append(key, *run, Arc::clone(batch));
        }
    }

    fn append(&mut self, key: u32, run: Run, batch: Arc<Batch>) {
        let index = self.insert(Node { run, batch: Some(batch), next: NIL });
        if self.mailboxes.len() <= key as usize {
            self.mailboxes.resize(key as usize + 1, Mailbox { head: NIL, tail: NIL, out: false });
        }
        let mailbox = &mut self.mailboxes[key as usize];
        if mailbox.head == NIL {
            mailbox.head = index;
            if !mailbox.out {
                self.ready.push_back(key);
            }
        } else {
            self.nodes[mailbox.tail as usize].next = index;
        }
        mailbox.tail = index;
    }

    /// Of a key that is out.
    fn prepend(&mut self, key: u32, run: Run, batch: Arc<Batch>) {
        let next = self.mailboxes[key as usize].head;
        let index = self.insert(Node { run, batch: Some(batch), next });
        let mailbox = &mut self.mailboxes[key as usize];
        mailbox.head = index;
        if next == NIL {
            mailbox.tail = index;
        }
    }

    fn insert(&mut self, node: Node) -> u32 {
        if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).unwrap_or(NIL)
    }

    fn take_first(&mut self, key: u32, quantum: u32) -> Option<Work> {
        let mailbox = &mut self.mailboxes[key as usize];
        mailbox.out = true;
        let index = mailbox.head;
        let node = &mut self.nodes[index as usize];
        let ticket = Ticket { queue: 0, key };
        let mut run = node.run;
        if run.end - run.start > quantum {
            run.end = run.start + quantum;
            node.run.start = run.end;
            let batch = Arc::clone(node.batch.as_ref()?);
            return Some(Work { batch, run, ticket });
        }
        mailbox.head = node.next;
        self.free.push(index);
        Some(Work { batch: node.batch.take()?, run, ticket })
    }

    /// The batch for all to hold, in the place of the oldest one if nobody holds that any more, and
    /// that one, emptied.
    fn share(&mut self, batch: Batch) -> (Arc<Batch>, Batch) {
        if batch.is_oversized() {
            // It goes with the last of its runs.
            return (Arc::new(batch), Batch::default());
        }
        if let Some(mut oldest) = self.batches.pop_front() {
            if let Some(free) = Arc::get_mut(&mut oldest) {
                free.clear();
                let spare = mem::replace(free, batch);
                self.batches.push_back(Arc::clone(&oldest));
                return (oldest, spare);
            }
            // A slow handler may hold it for long: another one is looked at next time.
            self.batches.push_back(oldest);
        }
        let batch = Arc::new(batch);
        if self.batches.len() < SPARES {
            self.batches.push_back(Arc::clone(&batch));
        }
        (batch, Batch::default())
    }
}

impl Work {
    pub(super) fn of_queue(mut self, queue: u16) -> Self {
        self.ticket.queue = queue;
        self
    }

    /// Whose events these are.
    #[must_use]
    pub fn conn(&self) -> ConnectionId {
        self.run.conn
    }

    /// Whom they are for.
    #[must_use]
    pub fn plugin(&self) -> PluginId {
        self.run.plugin
    }

    /// Whether all events of the plugin come in sequence.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.run.sequence == Sequence::Plugin
    }

    /// The events with their bytes.
    pub fn events(&self) -> impl Iterator<Item = (Happening, &[u8])> {
        self.batch.events(&self.run)
    }

    /// To be given to [`Inbound::release`](super::Inbound::release) when all is done.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }
}
