//! `plugsock:plugin/channels`: groups of connections.

use wasmtime::AsContext;
use wasmtime::component::{Linker, Resource, ResourceType, WasmStr};

use super::{Answer, Context, ask, effect, is_name};
use crate::plugin::bindings::{CHANNELS, Payload};
use crate::plugin::host::{EffectError, Host};
use crate::plugin::store::Data;
use crate::types::{ConnectionId, Kept, Kind, Message};

/// Frames that one instance may hold at a time. Their bytes count against its memory limit.
const FRAMES: usize = 1024;

/// A message that a guest keeps in the host, to be sent many times.
pub(super) struct Frame {
    kind: Kind,
    payload: Box<[u8]>,
    kept: Kept,
    /// Bytes that count against the instance's memory limit.
    counted: usize,
}

impl Frame {
    fn message(&self) -> Message<'_> {
        Message { kind: self.kind, payload: &self.payload, kept: Some(&self.kept) }
    }
}

pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(CHANNELS)?;
    interface.resource("frame", ResourceType::host::<Frame>(), drop_frame::<H>)?;
    interface.func_wrap("[constructor]frame", new_frame::<H>)?;
    interface.func_wrap("subscribe", subscribe::<H>)?;
    interface.func_wrap("unsubscribe", unsubscribe::<H>)?;
    interface.func_wrap("publish", publish::<H>)?;
    interface.func_wrap("publish-frame", publish_frame::<H>)?;
    interface.func_wrap("broadcast", broadcast::<H>)?;
    interface.func_wrap("broadcast-frame", broadcast_frame::<H>)?;
    interface.func_wrap("subscribers", subscribers::<H>)
}

fn new_frame<H: Host>(
    mut context: Context<'_, H>,
    (message,): (Payload,),
) -> wasmtime::Result<(Resource<Frame>,)> {
    let length = message.read(context.as_context())?.1.len();
    let data = context.data_mut();
    // A constructor has no way to refuse, so passing a limit traps.
    if data.frames == FRAMES {
        return Err(wasmtime::Error::msg(format!("one instance may hold {FRAMES} frames")));
    }
    if !data.limits.take(length) {
        return Err(wasmtime::Error::msg("this frame does not fit in the memory limit"));
    }
    data.frames += 1;
    let (kind, payload) = message.read(context.as_context())?;
    let frame = Frame { kind, payload: payload.into(), kept: Kept::default(), counted: length };
    Ok((context.data_mut().table.push(frame)?,))
}

fn drop_frame<H: Host>(mut context: Context<'_, H>, handle: u32) -> wasmtime::Result<()> {
    let data = context.data_mut();
    let frame = data.table.delete(Resource::<Frame>::new_own(handle))?;
    data.frames = data.frames.saturating_sub(1);
    data.limits.give_back(frame.counted);
    Ok(())
}

/// Counts what sending a frame has left in it, or gives that up where the memory limit has no room.
fn count_kept<H: Host>(context: &mut Context<'_, H>, frame: &Resource<Frame>) {
    let Data { table, limits, .. } = context.data_mut();
    let Ok(frame) = table.get_mut(frame) else { return };
    let more = (frame.payload.len() + frame.kept.len()).saturating_sub(frame.counted);
    if more > 0 && limits.has_room(more) {
        limits.take(more);
        frame.counted += more;
    } else if more > 0 {
        frame.kept = Kept::default();
    }
}

fn subscribe<H: Host>(
    mut context: Context<'_, H>,
    (conn, channel): (u64, WasmStr),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        let channel = channel.to_str(memory)?;
        Ok(if is_name(&channel) {
            host.subscribe(ConnectionId::from_u64(conn), &channel)
        } else {
            Err(EffectError::TooLarge)
        })
    })
}

fn unsubscribe<H: Host>(
    mut context: Context<'_, H>,
    (conn, channel): (u64, WasmStr),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        let channel = channel.to_str(memory)?;
        Ok(if is_name(&channel) {
            host.unsubscribe(ConnectionId::from_u64(conn), &channel)
        } else {
            Err(EffectError::TooLarge)
        })
    })
}

fn publish<H: Host>(
    mut context: Context<'_, H>,
    (channel, message, except): (WasmStr, Payload, Option<u64>),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        let channel = channel.to_str(&memory)?;
        let (kind, payload) = message.read(&memory)?;
        Ok(if is_name(&channel) {
            let message = Message::new(kind, &payload);
            host.publish(&channel, message, except.map(ConnectionId::from_u64))
        } else {
            Err(EffectError::TooLarge)
        })
    })
}

fn publish_frame<H: Host>(
    mut context: Context<'_, H>,
    (channel, frame, except): (WasmStr, Resource<Frame>, Option<u64>),
) -> wasmtime::Result<(Answer,)> {
    let answer = effect(&mut context, |host, memory| {
        let channel = channel.to_str(&memory)?;
        let frame = memory.data().table.get(&frame)?;
        Ok(if is_name(&channel) {
            host.publish(&channel, frame.message(), except.map(ConnectionId::from_u64))
        } else {
            Err(EffectError::TooLarge)
        })
    })?;
    count_kept(&mut context, &frame);
    Ok(answer)
}

fn broadcast<H: Host>(
    mut context: Context<'_, H>,
    (message,): (Payload,),
) -> wasmtime::Result<(Answer,)> {
    effect(&mut context, |host, memory| {
        let (kind, payload) = message.read(memory)?;
        Ok(host.broadcast(Message::new(kind, &payload)))
    })
}

fn broadcast_frame<H: Host>(
    mut context: Context<'_, H>,
    (frame,): (Resource<Frame>,),
) -> wasmtime::Result<(Answer,)> {
    let answer = effect(&mut context, |host, memory| {
        let frame = memory.data().table.get(&frame)?;
        Ok(host.broadcast(frame.message()))
    })?;
    count_kept(&mut context, &frame);
    Ok(answer)
}

fn subscribers<H: Host>(
    mut context: Context<'_, H>,
    (channel,): (WasmStr,),
) -> wasmtime::Result<(u64,)> {
    let count = ask(&mut context, |host, memory| {
        let channel = channel.to_str(memory)?;
        Ok::<_, wasmtime::Error>(if is_name(&channel) { host.subscribers(&channel) } else { 0 })
    });
    Ok((count.transpose()?.unwrap_or(0),))
}
