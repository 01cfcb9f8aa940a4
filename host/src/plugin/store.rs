//! What one instance's store carries beside the guest itself.

use std::thread;
use std::time::{Duration, Instant};

use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::engine::Engine;
use super::host::Host;
use super::imports;
use super::limits::Limits;
use super::output::Output;
use crate::clock;

/// Resources that one guest may hold: frames, streams, pollables. An entry costs the host up to
/// about 200 bytes.
const RESOURCES: usize = 8192;

/// The host's side of one instance.
pub(super) struct Data<H> {
    /// Lent for the time of a call.
    pub(super) host: Option<Box<H>>,
    /// Whether that call is of a handler, which may ask the host for something.
    pub(super) in_handler: bool,
    pub(super) pace: Pace,
    pub(super) limits: Limits,
    pub(super) table: ResourceTable,
    /// Frames in `table`.
    pub(super) frames: usize,
    wasi: WasiCtx,
}

/// How long the current call has been computing, where it cannot be suspended.
#[derive(Debug)]
pub(super) struct Pace {
    limit: Duration,
    /// When it was first seen to be overdue.
    since: Option<Instant>,
    /// It was stopped for it.
    expired: bool,
}

/// A store with its limits set and nothing in it. `waits` says that its calls run on stacks of
/// their own, and may be suspended.
pub(super) fn new<H: Host>(engine: &Engine, output: &Output, waits: bool) -> Store<Data<H>> {
    let memory_limit = engine.config().memory_limit;
    let mut table = ResourceTable::new();
    table.set_max_capacity(RESOURCES);
    let data = Data {
        host: None,
        in_handler: false,
        pace: Pace { limit: engine.config().call_deadline, since: None, expired: false },
        limits: Limits::new(memory_limit),
        table,
        frames: 0,
        wasi: imports::wasi::context(output),
    };
    let mut store = Store::new(engine.wasm(), data);
    store.limiter(|data| &mut data.limits);
    // A guest can pass one value through many aliased lists; so it never makes the host copy more
    // than it may hold itself.
    store.set_hostcall_fuel(usize::try_from(memory_limit).unwrap_or(usize::MAX));
    store.set_max_component_handles(RESOURCES);
    if waits {
        // tokio's own way to yield lets its timers run before the guest goes on.
        store.epoch_deadline_callback(|_| {
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store.set_epoch_deadline(1);
    } else {
        store.epoch_deadline_callback(|mut store| store.data_mut().tick());
        begin(&mut store);
    }
    store
}

/// A call that cannot be suspended begins. The tick that is under way does not count: it may be
/// over in no time.
pub(super) fn begin<H: Host>(store: &mut Store<Data<H>>) {
    store.set_epoch_deadline(2);
    let pace = &mut store.data_mut().pace;
    (pace.since, pace.expired) = (None, false);
}

impl<H: Host> Data<H> {
    /// A call that cannot be suspended computes for longer than a tick. The limit counts from the
    /// first time that this is seen.
    fn tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let now = clock::now();
        let since = *self.pace.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= self.pace.limit {
            self.pace.expired = true;
            return Err(wasmtime::Error::msg("out of time"));
        }
        if let Some(host) = &mut self.host {
            host.overdue();
        }
        // Threads that wait for a core go first.
        thread::yield_now();
        Ok(UpdateDeadline::Continue(1))
    }

    /// Whether the call that failed was stopped for the time it took.
    pub(super) fn expired(&self) -> bool {
        self.pace.expired
    }
}

impl<H: Host> WasiView for Data<H> {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
