//! `plugsock:plugin/outbox`: early commit.

use wasmtime::component::Linker;

use super::{Context, ask};
use crate::plugin::bindings::OUTBOX;
use crate::plugin::host::Host;
use crate::plugin::store::Data;

pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    linker.instance(OUTBOX)?.func_wrap("flush", flush::<H>)
}

fn flush<H: Host>(mut context: Context<'_, H>, (): ()) -> wasmtime::Result<()> {
    // Outside a handler nothing can have been asked for.
    ask(&mut context, |host, _| host.flush()).unwrap_or(());
    Ok(())
}
