//! Step 2: one I/O thread, and everything of the connections that live on it.
//!
//! A shard goes round in turns. One turn: wait for the sockets; read those that are ready, once
//! each, into the one buffer; have what came handled; carry out what handlers have asked for; write
//! to each socket that has something, once. Nothing in it waits or locks for longer than a list is
//! swapped. Whoever turns it, see [`crate::worker`], sees to the handlers in between.

mod accept;
mod slab;
mod turn;
mod wheel;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Poll, Token, Waker};

use crate::conn::Env;
use crate::listen::{Admission, Listener};

use accept::Door;
pub use turn::Shard;

/// Bytes of one receive, and of the buffer that all connections of a shard share.
const BUFFER: usize = 64 * 1024;
/// Sockets that one turn serves, at most.
const EVENTS: usize = 1024;
const WAKER: Token = Token(usize::MAX);

/// What the main thread says to the shards. It must ring their mailboxes after.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    abandon: AtomicBool,
}

impl Control {
    /// Nobody new comes in, everybody is closed with 1001, and the shard ends when all are gone.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// The shard ends now.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::SeqCst);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether [`Control::abandon`] was called.
    pub fn is_abandoned(&self) -> bool {
        self.abandon.load(Ordering::Relaxed)
    }
}

/// A shard with its own listening sockets.
///
/// # Errors
/// Where the system has no more descriptors or memory.
pub fn open(
    env: Env,
    listeners: Vec<Listener>,
    admission: Arc<Admission>,
    control: Arc<Control>,
) -> io::Result<Shard> {
    let poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKER)?;
    env.shared.hub.set_waker(env.shard, move || {
        // Fails only where the shard has ended; then nobody needs to be woken.
        let _ = waker.wake();
    });
    let door = Door::new(listeners, admission, &poll)?;
    Ok(Shard::new(env, poll, door, control))
}
