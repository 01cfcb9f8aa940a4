//! What one instance's store carries beside the guest itself.

use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::engine::Engine;
use super::host::Host;
use super::imports;
use super::limits::Limits;
use super::output::Output;

/// Resources that one guest may hold: frames, streams, pollables. An entry costs the host up to
/// about 200 bytes.
const RESOURCES: usize = 8192;

/// The host's side of one instance.
pub(super) struct Data<H> {
    /// Lent for the time of a call.
    pub(super) host: Option<Box<H>>,
    pub(super) limits: Limits,
    pub(super) table: ResourceTable,
    /// Frames in `table`.
    pub(super) frames: usize,
    wasi: WasiCtx,
}

/// A store with its limits set and nothing in it.
pub(super) fn new<H: Host>(engine: &Engine, output: &Output) -> Store<Data<H>> {
    let memory_limit = engine.config().memory_limit;
    let mut table = ResourceTable::new();
    table.set_max_capacity(RESOURCES);
    let data = Data {
        host: None,
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
    // tokio's own way to yield lets its timers run before the guest goes on.
    store.epoch_deadline_callback(|_| {
        Ok(wasmtime::UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store.set_epoch_deadline(1);
    store
}

impl<H: Host> WasiView for Data<H> {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
