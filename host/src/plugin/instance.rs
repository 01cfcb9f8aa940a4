//! One running copy of a plugin, and the way into it.

use std::fmt;
use std::mem;
use std::str;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{self, InstancePre, TypedFunc};

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
/// What instantiation led to, if it came to an end.
type Made = Option<wasmtime::Result<component::Instance>>;
/// An instance whose `init`, if it has one, has not been called.
type Unprepared<H> = (Instance<H>, Option<TypedFunc<(), Init>>);

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

/// A new instance's parts before there is a guest in it.
pub(super) struct Blank<'a, H: Host> {
    engine: &'a Engine,
    pre: &'a InstancePre<Data<H>>,
    exports: &'a Exports,
    store: Store<Data<H>>,
    output: Output,
    serial: u64,
}

impl<'a, H: Host> Blank<'a, H> {
    pub(super) fn new(
        engine: &'a Engine,
        pre: &'a InstancePre<Data<H>>,
        exports: &'a Exports,
        output: Output,
        waits: bool,
        serial: u64,
    ) -> Self {
        Self { engine, pre, exports, store: store::new(engine, &output, waits), output, serial }
    }

    /// See [`Version::instantiate`](super::Version::instantiate).
    pub(super) async fn fill(mut self) -> Result<Instance<H>, Failure> {
        let _busy = self.engine.busy();
        let deadline = self.engine.config().call_deadline;
        let made = within(deadline, self.pre.instantiate_async(&mut self.store)).await;
        let (mut instance, init) = self.instance(made)?;
        if let Some(init) = init {
            instance.begin()?;
            let answer = within(deadline, init.call_async(&mut instance.store, ())).await;
            instance.end_init(answer)?;
        }
        Ok(instance.ready())
    }

    /// See [`Version::instantiate_now`](super::Version::instantiate_now).
    pub(super) fn fill_now(mut self, host: &mut Option<Box<H>>) -> Result<Instance<H>, Failure> {
        let _busy = self.engine.busy();
        self.store.data_mut().host = host.take();
        let made = self.pre.instantiate(&mut self.store);
        *host = self.store.data_mut().host.take();
        let made = (!self.store.data().expired()).then_some(made);
        let (mut instance, init) = self.instance(made)?;
        if let Some(init) = init {
            instance.begin()?;
            store::begin(&mut instance.store);
            instance.store.data_mut().host = host.take();
            let answer = init.call(&mut instance.store, ());
            *host = instance.store.data_mut().host.take();
            let answer = (!instance.store.data().expired()).then_some(answer);
            instance.end_init(answer)?;
        }
        Ok(instance.ready())
    }

    /// The instance, and its `init` if it has one.
    fn instance(self, made: Made) -> Result<Unprepared<H>, Failure> {
        let Self { engine, exports, mut store, output, serial, .. } = self;
        let config = engine.config();
        let (deadline, memory_limit) = (config.call_deadline, config.memory_limit);
        let refused = store.data().limits.refused();
        let guest = match made {
            Some(Ok(guest)) => guest,
            Some(Err(_)) if refused => return Err(Failure::Memory { limit: memory_limit }),
            Some(Err(error)) => return Err(Failure::instantiate(&error, &output.last_words())),
            None => return Err(Failure::Deadline { after: deadline }),
        };
        let missing = |error| Failure::instantiate(&error, "");
        let init = exports
            .init
            .map(|init| guest.get_typed_func(&mut store, init))
            .transpose()
            .map_err(missing)?;
        let instance = Instance {
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
        Ok((instance, init))
    }
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

    /// Runs one handler of a plugin that [waits](super::Facts::waits).
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
        self.store.data_mut().in_handler = true;
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

    /// Runs one handler of a plugin that does not wait, on this thread's stack: 2 MiB of it.
    ///
    /// The host that was lent is [told](Host::overdue) where it takes longer than a tick. The
    /// caller holds a [`Busy`](super::Busy) of the engine meanwhile.
    ///
    /// # Errors
    /// The instance is [`dead`](Self::dead) after any.
    pub fn call_now(&mut self, call: Call<'_>) -> Result<(), Failure> {
        self.begin()?;
        store::begin(&mut self.store);
        self.store.data_mut().in_handler = true;
        let store = &mut self.store;
        let outcome = match call {
            Call::Open { conn } => self.on_open.call(store, (conn.to_u64(),)),
            Call::Message { conn, kind, payload } => {
                let message = message(kind, payload)?;
                let on_message: TypedFunc<(u64, Message<'_>), ()> = self.on_message;
                on_message.call(store, (conn.to_u64(), message))
            }
            Call::Close { conn, code, reason } => {
                let on_close: TypedFunc<(u64, CloseFrame<'_>), ()> = self.on_close;
                on_close.call(store, (conn.to_u64(), CloseFrame { code, reason }))
            }
        };
        let outcome = (!self.store.data().expired()).then_some(outcome);
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

    fn end_init(&mut self, outcome: Option<wasmtime::Result<Init>>) -> Result<(), Failure> {
        let (answer,) = self.end(outcome)?;
        answer.map_err(|text| Failure::init(&text))
    }

    fn ready(mut self) -> Self {
        self.store.data_mut().limits.settle();
        self
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
        self.store.data_mut().in_handler = false;
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
