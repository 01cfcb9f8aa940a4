//! One running copy of a plugin, and the way into it.

use std::fmt;
use std::mem;
use std::str;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{InstancePre, TypedFunc};

use super::bindings::{CloseFrame, Message};
use super::deadline::within;
use super::engine::Engine;
use super::failure::Failure;
use super::host::Host;
use super::load::Exports;
use super::output::Output;
use super::store::{self, Data};
use crate::types::{ConnectionId, Kind};

/// Calls after which an instance is replaced: some guests leak a little on every call.
const CALLS: u64 = 1_000_000;

/// What `lifecycle.init` returns.
type Init = (Result<(), String>,);

/// One event for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `handler.on-open`.
    Open {
        /// The connection that opened.
        conn: ConnectionId,
    },
    /// `handler.on-message`.
    Message {
        /// Where it came from.
        conn: ConnectionId,
        /// Text or binary.
        kind: Kind,
        /// Goes into the guest's memory in one copy. Text must be UTF-8.
        payload: &'a [u8],
    },
    /// `handler.on-close`.
    Close {
        /// The connection that is gone.
        conn: ConnectionId,
        /// RFC 6455 §7.1.5.
        code: u16,
        /// RFC 6455 §7.1.6.
        reason: &'a str,
    },
}

/// A guest with its own memory. It serves one call at a time.
pub struct Instance<H: Host> {
    store: Store<Data<H>>,
    on_open: TypedFunc<(u64,), ()>,
    on_message: TypedFunc<(u64, Message<'static>), ()>,
    on_close: TypedFunc<(u64, CloseFrame<'static>), ()>,
    output: Output,
    deadline: Duration,
    memory_limit: u64,
    calls: u64,
    dead: bool,
    serial: u64,
}

/// See [`Version::instantiate`](super::Version::instantiate).
pub(super) async fn new<H: Host>(
    engine: &Engine,
    pre: &InstancePre<Data<H>>,
    exports: &Exports,
    output: Output,
    serial: u64,
) -> Result<Instance<H>, Failure> {
    let _busy = engine.busy();
    let config = engine.config();
    let (deadline, memory_limit) = (config.call_deadline, config.memory_limit);
    let mut store = store::new(engine, &output);
    let made = within(deadline, pre.instantiate_async(&mut store)).await;
    let refused = store.data().limits.refused();
    let guest = match made {
        Some(Ok(guest)) => guest,
        Some(Err(_)) if refused => return Err(Failure::Memory { limit: memory_limit }),
        Some(Err(error)) => return Err(Failure::instantiate(&error, &output.last_words())),
        None => return Err(Failure::Deadline { after: deadline }),
    };
    let missing = |error| Failure::instantiate(&error, "");
    let init: Option<TypedFunc<(), Init>> = exports
        .init
        .map(|init| guest.get_typed_func(&mut store, init))
        .transpose()
        .map_err(missing)?;
    let mut instance = Instance {
        on_open: guest.get_typed_func(&mut store, exports.on_open).map_err(missing)?,
        on_message: guest.get_typed_func(&mut store, exports.on_message).map_err(missing)?,
        on_close: guest.get_typed_func(&mut store, exports.on_close).map_err(missing)?,
        store,
        output,
        deadline,
        memory_limit,
        calls: 0,
        dead: false,
        serial,
    };
    if let Some(init) = init {
        instance.init(init).await?;
    }
    instance.store.data_mut().limits.settle();
    Ok(instance)
}

impl<H: Host> Instance<H> {
    /// Gives the guest's imports somebody to ask. One host for many calls is cheapest.
    pub fn lend(&mut self, host: Box<H>) {
        self.store.data_mut().host = Some(host);
    }

    /// Takes the host back, also from a dead instance.
    pub fn reclaim(&mut self) -> Option<Box<H>> {
        self.store.data_mut().host.take()
    }

    /// The host that was lent.
    pub fn host_mut(&mut self) -> Option<&mut H> {
        self.store.data_mut().host.as_deref_mut()
    }

    /// Runs one handler.
    ///
    /// A guest that computes gives way at each tick, so calls into other instances go on beside
    /// it; one that waits costs no thread. Whoever polls this holds a [`Busy`](super::Busy) of
    /// the engine meanwhile and runs a tokio runtime with time enabled. A call that is dropped
    /// before it ends leaves the instance dead.
    ///
    /// # Errors
    /// The instance is [`dead`](Self::dead) after any.
    pub async fn call(&mut self, call: Call<'_>) -> Result<(), Failure> {
        self.begin()?;
        let deadline = self.deadline;
        let store = &mut self.store;
        let outcome = match call {
            Call::Open { conn } => {
                within(deadline, self.on_open.call_async(store, (conn.to_u64(),))).await
            }
            Call::Message { conn, kind, payload } => {
                let message = message(kind, payload)?;
                let on_message: TypedFunc<(u64, Message<'_>), ()> = self.on_message;
                within(deadline, on_message.call_async(store, (conn.to_u64(), message))).await
            }
            Call::Close { conn, code, reason } => {
                let on_close: TypedFunc<(u64, CloseFrame<'_>), ()> = self.on_close;
                let close = CloseFrame { code, reason };
                within(deadline, on_close.call_async(store, (conn.to_u64(), close))).await
            }
        };
        self.end(outcome)
    }

    /// Whether a call failed or was dropped. A dead instance must be dropped.
    #[must_use]
    pub fn dead(&self) -> bool {
        self.dead
    }

    /// Whether the owner should drop it between two calls: it served a million, or a large
    /// message left it with memory that it does not need at rest.
    #[must_use]
    pub fn worn_out(&self) -> bool {
        self.calls >= CALLS || self.store.data().limits.passed_high_water()
    }

    /// The [`serial`](super::Version::serial) of its version.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    async fn init(&mut self, init: TypedFunc<(), Init>) -> Result<(), Failure> {
        self.begin()?;
        let outcome = within(self.deadline, init.call_async(&mut self.store, ())).await;
        let (answer,) = self.end(outcome)?;
        answer.map_err(|text| Failure::init(&text))
    }

    fn begin(&mut self) -> Result<(), Failure> {
        if mem::replace(&mut self.dead, true) {
            return Err(Failure::Trap { message: "the instance is dead already".to_owned() });
        }
        self.calls += 1;
        self.output.begin_call();
        self.store.data_mut().limits.begin_call();
        self.store.set_epoch_deadline(1);
        Ok(())
    }

    fn end<T>(&mut self, outcome: Option<wasmtime::Result<T>>) -> Result<T, Failure> {
        match outcome {
            Some(Ok(value)) => {
                self.dead = false;
                Ok(value)
            }
            Some(Err(_)) if self.store.data().limits.refused() => {
                Err(Failure::Memory { limit: self.memory_limit })
            }
            Some(Err(error)) => Err(Failure::trap(&error, &self.output.last_words())),
            None => Err(Failure::Deadline { after: self.deadline }),
        }
    }
}

impl<H: Host> Drop for Instance<H> {
    fn drop(&mut self) {
        self.output.flush();
    }
}

impl<H: Host> fmt::Debug for Instance<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("serial", &self.serial)
            .field("calls", &self.calls)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

fn message(kind: Kind, payload: &[u8]) -> Result<Message<'_>, Failure> {
    match kind {
        Kind::Binary => Ok(Message::Binary(payload)),
        // Checked by the protocol already; once more costs 8 ns per 100 bytes and no unsafe code.
        Kind::Text => str::from_utf8(payload).map(Message::Text).map_err(|_| Failure::Trap {
            message: "the host gave the plugin text that is not UTF-8".to_owned(),
        }),
    }
}
