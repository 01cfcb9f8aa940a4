//! `plugsock:plugin/connections`: single connections.

use wasmtime::component::{Linker, WasmList, WasmStr};

use super::{Answer, Context, ask, effect};
use crate::plugin::bindings::{CONNECTIONS, CloseError, Payload, Request};
use crate::plugin::host::{EffectError, Host};
use crate::plugin::store::Data;
use crate::types::ConnectionId;

/// Bytes of an attachment.
const ATTACHMENT: usize = 16 << 10;
/// Bytes of a close reason (RFC 6455 §5.5: 125 with the code).
const REASON: usize = 123;

pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(CONNECTIONS)?;
    interface.func_wrap("send", send::<H>)?;
    interface.func_wrap("close", close::<H>)?;
    interface.func_wrap("upgrade-request", upgrade_request::<H>)?;
    interface.func_wrap("attachment", attachment::<H>)?;
    interface.func_wrap("set-attachment", set_attachment::<H>)?;
    interface.func_wrap("buffered", buffered::<H>)
}

fn send<H: Host>(
    mut context: Context<'_, H>,
    (conn, message): (u64, Payload),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        let (kind, payload) = message.read(memory)?;
        Ok(host.send(ConnectionId::from_u64(conn), kind, &payload))
    })
}

fn close<H: Host>(
    mut context: Context<'_, H>,
    (conn, code, reason): (u64, u16, WasmStr),
) -> wasmtime::Result<(Result<(), CloseError>,)> {
    let answer = ask(&mut context, |host, memory| {
        let reason = reason.to_str(memory)?;
        Ok::<_, wasmtime::Error>(if reason.len() > REASON {
            Err(CloseError::ReasonTooLong)
        } else {
            host.close(ConnectionId::from_u64(conn), code, &reason).map_err(CloseError::from)
        })
    });
    Ok((match answer {
        Some(answer) => answer?,
        None => Err(CloseError::Other("only a handler may close a connection".to_owned())),
    },))
}

fn upgrade_request<H: Host>(
    mut context: Context<'_, H>,
    (conn,): (u64,),
) -> wasmtime::Result<(Option<Request>,)> {
    let request =
        ask(&mut context, |host, _| host.upgrade_request(ConnectionId::from_u64(conn))).flatten();
    Ok((request.as_deref().map(Request::from),))
}

fn attachment<H: Host>(
    mut context: Context<'_, H>,
    (conn,): (u64,),
) -> wasmtime::Result<(Option<Vec<u8>>,)> {
    Ok((ask(&mut context, |host, _| host.attachment(ConnectionId::from_u64(conn))).flatten(),))
}

fn set_attachment<H: Host>(
    mut context: Context<'_, H>,
    (conn, bytes): (u64, WasmList<u8>),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        Ok(if bytes.len() > ATTACHMENT {
            Err(EffectError::TooLarge)
        } else {
            host.set_attachment(ConnectionId::from_u64(conn), bytes.as_le_slice(memory))
        })
    })
}

fn buffered<H: Host>(mut context: Context<'_, H>, (conn,): (u64,)) -> wasmtime::Result<(u64,)> {
    let bytes = ask(&mut context, |host, _| host.buffered(ConnectionId::from_u64(conn)));
    Ok((bytes.unwrap_or(0),))
}
