//! What guests may import, a file per WIT interface.

mod at_once;
mod channels;
mod connections;
mod outbox;
pub(super) mod wasi;

use wasmtime::component::Linker;
use wasmtime::{AsContext, StoreContext, StoreContextMut};

use super::bindings::EffectError;
use super::host::{self, Host};
use super::store::Data;

type Context<'a, H> = StoreContextMut<'a, Data<H>>;
type Answer = Result<(), EffectError>;

/// Bytes of a channel's name; at least 1.
const NAME: usize = 255;

/// Serves everything that a plugin may import. One that does not [wait](waits) gets plain functions
/// only, so that its calls need no stack to be suspended on.
pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>, waits: bool) -> wasmtime::Result<()> {
    connections::link(linker)?;
    channels::link(linker)?;
    outbox::link(linker)?;
    wasi::link(linker)?;
    if waits { wasi::link_waiting(linker) } else { at_once::link(linker) }
}

/// Whether a function of an interface, named without its version, is there to wait with or may
/// wait itself. Output and the end of input are always ready.
pub(super) fn waits(interface: &str, function: &str) -> bool {
    match interface {
        "wasi:clocks/monotonic-clock" => function.starts_with("subscribe"),
        _ => wasi::WAITING.contains(&interface),
    }
}

/// Whether the host serves an interface, named without its version.
pub(super) fn serves(interface: &str) -> bool {
    interface
        .strip_prefix("plugsock:plugin/")
        .is_some_and(|name| ["types", "connections", "channels", "outbox"].contains(&name))
        || wasi::SERVED.contains(&interface)
}

/// Lets the host that was lent for this call read the guest's memory and answer. None outside a
/// handler.
fn ask<H: Host, R>(
    context: &mut Context<'_, H>,
    answer: impl FnOnce(&mut H, StoreContext<'_, Data<H>>) -> R,
) -> Option<R> {
    if !context.data().in_handler {
        return None;
    }
    // Taken out for the moment: the guest's memory is borrowed from the same store.
    let mut host = context.data_mut().host.take()?;
    let answer = answer(&mut host, context.as_context());
    context.data_mut().host = Some(host);
    Some(answer)
}

/// As [`ask`], for what may be refused.
fn effect<H: Host>(
    context: &mut Context<'_, H>,
    effect: impl FnOnce(
        &mut H,
        StoreContext<'_, Data<H>>,
    ) -> wasmtime::Result<Result<(), host::EffectError>>,
) -> wasmtime::Result<(Answer,)> {
    Ok((match ask(context, effect) {
        Some(answer) => answer?.map_err(EffectError::from),
        None => Err(EffectError::Other("only a handler may ask for this".to_owned())),
    },))
}

fn is_name(channel: &str) -> bool {
    (1..=NAME).contains(&channel.len())
}
