//! The hand-written types against `wit/`.
//!
//! The same guests that the module loads with its own types are loaded here with the types that
//! wasmtime generates from `wit/`. wasmtime compares structurally, so both are the same.

use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, Linker, Resource};

use super::super::EMBEDDED_ECHO;
use super::{PATIENT, engine, guest, run};

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "full-plugin",
        exports: { default: async },
    });
}

use generated::exports::plugsock::plugin::{handler, lifecycle};
use generated::plugsock::plugin::{channels, connections, outbox, types};
use types::{EffectError, Message, Request};

/// Satisfies the generated traits; no guest gets as far as calling it.
struct Nobody;

impl types::Host for Nobody {}

impl connections::Host for Nobody {
    fn send(&mut self, _: u64, _: Message) -> Result<(), EffectError> {
        unreachable!()
    }
    fn close(&mut self, _: u64, _: u16, _: String) -> Result<(), connections::CloseError> {
        unreachable!()
    }
    fn upgrade_request(&mut self, _: u64) -> Option<Request> {
        unreachable!()
    }
    fn attachment(&mut self, _: u64) -> Option<Vec<u8>> {
        unreachable!()
    }
    fn set_attachment(&mut self, _: u64, _: Vec<u8>) -> Result<(), EffectError> {
        unreachable!()
    }
    fn buffered(&mut self, _: u64) -> u64 {
        unreachable!()
    }
}

impl channels::HostFrame for Nobody {
    fn new(&mut self, _: Message) -> Resource<channels::Frame> {
        unreachable!()
    }
    fn drop(&mut self, _: Resource<channels::Frame>) -> wasmtime::Result<()> {
        unreachable!()
    }
}

impl channels::Host for Nobody {
    fn subscribe(&mut self, _: u64, _: String) -> Result<(), EffectError> {
        unreachable!()
    }
    fn unsubscribe(&mut self, _: u64, _: String) -> Result<(), EffectError> {
        unreachable!()
    }
    fn publish(&mut self, _: String, _: Message, _: Option<u64>) -> Result<(), EffectError> {
        unreachable!()
    }
    fn publish_frame(
        &mut self,
        _: String,
        _: Resource<channels::Frame>,
        _: Option<u64>,
    ) -> Result<(), EffectError> {
        unreachable!()
    }
    fn broadcast(&mut self, _: Message) -> Result<(), EffectError> {
        unreachable!()
    }
    fn broadcast_frame(&mut self, _: Resource<channels::Frame>) -> Result<(), EffectError> {
        unreachable!()
    }
    fn subscribers(&mut self, _: String) -> u64 {
        unreachable!()
    }
}

impl outbox::Host for Nobody {
    fn flush(&mut self) {
        unreachable!()
    }
}

#[test]
fn the_types_are_those_of_wit() {
    let engine = engine(PATIENT);
    let _busy = engine.busy();
    for (text, has_lifecycle) in [(EMBEDDED_ECHO, false), (&guest(&[]), true)] {
        let component = Component::new(engine.wasm(), text).unwrap();
        let mut linker = Linker::<Nobody>::new(engine.wasm());
        connections::add_to_linker::<_, HasSelf<_>>(&mut linker, |nobody| nobody).unwrap();
        channels::add_to_linker::<_, HasSelf<_>>(&mut linker, |nobody| nobody).unwrap();
        outbox::add_to_linker::<_, HasSelf<_>>(&mut linker, |nobody| nobody).unwrap();
        // WASI, which is not ours.
        linker.define_unknown_imports_as_traps(&component).unwrap();
        let pre = linker.instantiate_pre(&component).unwrap();
        let mut store = Store::new(engine.wasm(), Nobody);
        store.set_epoch_deadline(u64::from(u32::MAX));
        let instance = run(pre.instantiate_async(&mut store)).unwrap();
        let exports = handler::GuestIndices::new(&pre).unwrap();
        exports.load(&mut store, &instance).unwrap();
        if has_lifecycle {
            let exports = lifecycle::GuestIndices::new(&pre).unwrap();
            exports.load(&mut store, &instance).unwrap();
        }
    }
}
