//! A native stand-in for the host, so that a plugin's logic can be tested with `cargo test`.
//!
//! ```
//! use plugsock_plugin::testing::Host;
//! use plugsock_plugin::{Connection, Message, Plugin};
//!
//! #[derive(Default)]
//! struct Echo;
//!
//! impl Plugin for Echo {
//!     fn on_message(&mut self, conn: Connection, message: Message) {
//!         conn.send(message).unwrap();
//!     }
//! }
//!
//! let mut host = Host::<Echo>::new();
//! let conn = host.open("/");
//! host.receive(conn, "hello");
//! assert_eq!(host.sent(conn), [Message::from("hello")]);
//! ```
//!
//! It keeps the contract: effects are collected and committed when a handler returns, a closed
//! connection leaves its channels before `on_close`, and the default limits hold (messages of
//! 4 MiB, attachments of 16 KiB, channel names of 1 to 255 bytes, close reasons of 123 bytes). It
//! has one instance, no deadline, no memory limit and no budget of effects, and a panic in the
//! plugin is a panic of the test.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem;

use crate::{Close, Connection, Message, Plugin, Request};

/// A host with one plugin. One per thread at a time: making another forgets the first one's
/// connections.
pub struct Host<P> {
    plugin: P,
}

impl<P: Plugin> Host<P> {
    /// A host with a fresh instance and no connections.
    #[must_use]
    pub fn new() -> Self {
        STATE.set(State::default());
        Self { plugin: P::default() }
    }

    /// Opens a connection with this path and query and calls `on_open`.
    pub fn open(&mut self, target: &str) -> Connection {
        self.open_with(Request::new(target))
    }

    /// Opens a connection with this request and calls `on_open`.
    pub fn open_with(&mut self, request: Request) -> Connection {
        let conn = STATE.with_borrow_mut(|state| {
            state.last_id += 1;
            state.peers.insert(state.last_id, Peer::new(request));
            Connection::from_id(state.last_id)
        });
        self.plugin.on_open(conn);
        self.settle();
        conn
    }

    /// Calls `on_message` with what the client sent. Does nothing once the connection is closed.
    pub fn receive(&mut self, conn: Connection, message: impl Into<Message>) {
        if STATE.with_borrow(|state| state.is_open(conn.id())) {
            self.plugin.on_message(conn, message.into());
            self.settle();
        }
    }

    /// Closes the connection as its client would and calls `on_close`. Does nothing once it is
    /// closed.
    pub fn close(&mut self, conn: Connection, code: u16, reason: &str) {
        STATE.with_borrow_mut(|state| state.hang_up(conn.id(), Close::new(code, reason.into())));
        self.settle();
    }

    /// What the connection was sent since the last time it was asked, oldest first.
    #[must_use]
    pub fn sent(&mut self, conn: Connection) -> Vec<Message> {
        STATE.with_borrow_mut(|state| match state.peers.get_mut(&conn.id()) {
            Some(peer) => mem::take(&mut peer.sent),
            None => Vec::new(),
        })
    }

    /// How the connection was closed, by either side; `None` while it is open.
    #[must_use]
    pub fn closed(&self, conn: Connection) -> Option<Close> {
        STATE.with_borrow(|state| state.peers.get(&conn.id())?.closed.clone())
    }

    /// The instance itself.
    pub fn plugin(&mut self) -> &mut P {
        &mut self.plugin
    }

    /// Commits, and tells the plugin of connections that have closed, until nothing is left.
    fn settle(&mut self) {
        loop {
            let ended = STATE.with_borrow_mut(|state| {
                state.commit();
                mem::take(&mut state.ended)
            });
            if ended.is_empty() {
                return;
            }
            for id in ended {
                let close = STATE.with_borrow(|state| state.peers.get(&id)?.closed.clone());
                if let Some(close) = close {
                    self.plugin.on_close(Connection::from_id(id), close);
                }
                STATE.with_borrow_mut(|state| {
                    state.commit();
                    if let Some(peer) = state.peers.get_mut(&id) {
                        peer.gone = true;
                    }
                });
            }
        }
    }
}

impl<P: Plugin> Default for Host<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> fmt::Debug for Host<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

#[derive(Default)]
struct State {
    last_id: u64,
    peers: BTreeMap<u64, Peer>,
    channels: BTreeMap<String, BTreeSet<u64>>,
    /// What the running handler asked for.
    pending: Vec<Effect>,
    /// Closed, and `on_close` is still to be called.
    ended: Vec<u64>,
}

struct Peer {
    request: Request,
    attachment: Option<Vec<u8>>,
    sent: Vec<Message>,
    closed: Option<Close>,
    /// `on_close` has returned.
    gone: bool,
}

enum Effect {
    Send(u64, Message),
    Close(u64, Close),
    Attach(u64, Vec<u8>),
    Subscribe(u64, String),
    Unsubscribe(u64, String),
    Publish { channel: String, message: Message, except: Option<u64> },
    Broadcast(Message),
}

impl Peer {
    fn new(request: Request) -> Self {
        Self { request, attachment: None, sent: Vec::new(), closed: None, gone: false }
    }
}

impl State {
    fn is_open(&self, id: u64) -> bool {
        let closing = |effect: &Effect| matches!(effect, Effect::Close(closed, _) if *closed == id);
        self.peers.get(&id).is_some_and(|peer| peer.closed.is_none())
            && !self.pending.iter().any(closing)
    }

    fn hang_up(&mut self, id: u64, close: Close) {
        if let Some(peer @ Peer { closed: None, .. }) = self.peers.get_mut(&id) {
            peer.closed = Some(close);
            self.channels.values_mut().for_each(|members| {
                members.remove(&id);
            });
            self.ended.push(id);
        }
    }

    fn commit(&mut self) {
        for effect in mem::take(&mut self.pending) {
            match effect {
                Effect::Send(id, message) => self.deliver([id], &message),
                Effect::Close(id, close) => self.hang_up(id, close),
                Effect::Attach(id, bytes) => {
                    if let Some(peer) = self.peers.get_mut(&id) {
                        peer.attachment = Some(bytes);
                    }
                }
                Effect::Subscribe(id, channel) => {
                    self.channels.entry(channel).or_default().insert(id);
                }
                Effect::Unsubscribe(id, channel) => {
                    self.channels.entry(channel).or_default().remove(&id);
                }
                Effect::Publish { channel, message, except } => {
                    let members = self.channels.get(&channel).cloned().unwrap_or_default();
                    let wanted = members.into_iter().filter(|id| Some(*id) != except);
                    self.deliver(wanted, &message);
                }
                Effect::Broadcast(message) => {
                    let everyone: Vec<u64> = self.peers.keys().copied().collect();
                    self.deliver(everyone, &message);
                }
            }
        }
    }

    fn deliver(&mut self, ids: impl IntoIterator<Item = u64>, message: &Message) {
        for id in ids {
            if let Some(peer @ Peer { closed: None, .. }) = self.peers.get_mut(&id) {
                peer.sent.push(message.clone());
            }
        }
    }
}

/// The twin of the WebAssembly module `host`: the same functions over [`State`].
pub(crate) mod host {
    use super::{Effect, STATE, State};
    use crate::{Close, CloseError, EffectError, Message, MessageRef, Request};

    const MESSAGE_LIMIT: usize = 4 << 20;
    const ATTACHMENT_LIMIT: usize = 16 << 10;
    const CHANNEL_NAME_LIMIT: usize = 255;
    const REASON_LIMIT: usize = 123;

    #[derive(Debug)]
    pub(crate) struct Frame(Message);

    pub(crate) fn send(conn: u64, message: MessageRef<'_>) -> Result<(), EffectError> {
        let message = accept(message)?;
        ask(conn, Effect::Send(conn, message))
    }

    pub(crate) fn close(conn: u64, code: u16, reason: &str) -> Result<(), CloseError> {
        if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
            return Err(CloseError::InvalidCode);
        }
        if reason.len() > REASON_LIMIT {
            return Err(CloseError::ReasonTooLong);
        }
        ask(conn, Effect::Close(conn, Close::new(code, reason.to_owned())))
            .map_err(|_| CloseError::NotOpen)
    }

    pub(crate) fn upgrade_request(conn: u64) -> Option<Request> {
        STATE.with_borrow(|state| {
            let peer = state.peers.get(&conn)?;
            (!peer.gone).then(|| peer.request.clone())
        })
    }

    pub(crate) fn attachment(conn: u64) -> Option<Vec<u8>> {
        STATE.with_borrow(|state| {
            let own = state.pending.iter().rev().find_map(|effect| match effect {
                Effect::Attach(id, bytes) if *id == conn => Some(bytes.clone()),
                _ => None,
            });
            let peer = state.peers.get(&conn).filter(|peer| !peer.gone)?;
            own.or_else(|| peer.attachment.clone())
        })
    }

    pub(crate) fn set_attachment(conn: u64, attachment: &[u8]) -> Result<(), EffectError> {
        if attachment.len() > ATTACHMENT_LIMIT {
            return Err(EffectError::TooLarge);
        }
        ask(conn, Effect::Attach(conn, attachment.to_vec()))
    }

    pub(crate) fn buffered(_conn: u64) -> u64 {
        0
    }

    pub(crate) fn subscribe(conn: u64, channel: &str) -> Result<(), EffectError> {
        let channel = name(channel)?;
        ask(conn, Effect::Subscribe(conn, channel))
    }

    pub(crate) fn unsubscribe(conn: u64, channel: &str) -> Result<(), EffectError> {
        let channel = name(channel)?;
        ask(conn, Effect::Unsubscribe(conn, channel))
    }

    pub(crate) fn publish(
        channel: &str,
        message: MessageRef<'_>,
        except: Option<u64>,
    ) -> Result<(), EffectError> {
        let (channel, message) = (name(channel)?, accept(message)?);
        push(Effect::Publish { channel, message, except });
        Ok(())
    }

    pub(crate) fn frame(message: MessageRef<'_>) -> Frame {
        Frame(message.into())
    }

    pub(crate) fn publish_frame(
        channel: &str,
        frame: &Frame,
        except: Option<u64>,
    ) -> Result<(), EffectError> {
        publish(channel, crate::AsMessage::as_message(&frame.0), except)
    }

    pub(crate) fn broadcast(message: MessageRef<'_>) -> Result<(), EffectError> {
        push(Effect::Broadcast(accept(message)?));
        Ok(())
    }

    pub(crate) fn broadcast_frame(frame: &Frame) -> Result<(), EffectError> {
        broadcast(crate::AsMessage::as_message(&frame.0))
    }

    pub(crate) fn subscribers(channel: &str) -> u64 {
        STATE.with_borrow(|state| state.channels.get(channel).map_or(0, |ids| ids.len() as u64))
    }

    pub(crate) fn flush() {
        STATE.with_borrow_mut(State::commit);
    }

    /// An effect on a connection that must be open.
    fn ask(conn: u64, effect: Effect) -> Result<(), EffectError> {
        if !STATE.with_borrow(|state| state.is_open(conn)) {
            return Err(EffectError::NotOpen);
        }
        push(effect);
        Ok(())
    }

    fn push(effect: Effect) {
        STATE.with_borrow_mut(|state| state.pending.push(effect));
    }

    fn accept(message: MessageRef<'_>) -> Result<Message, EffectError> {
        let length = match message {
            MessageRef::Text(text) => text.len(),
            MessageRef::Binary(bytes) => bytes.len(),
        };
        if length > MESSAGE_LIMIT {
            return Err(EffectError::TooLarge);
        }
        Ok(message.into())
    }

    fn name(channel: &str) -> Result<String, EffectError> {
        match channel.len() {
            1..=CHANNEL_NAME_LIMIT => Ok(channel.to_owned()),
            _ => Err(EffectError::TooLarge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Host;
    use crate::{Channel, Close, CloseError, Connection, EffectError, Frame, Message, Plugin};

    /// Does what its messages say.
    #[derive(Default)]
    struct Puppet {
        closed: Vec<(u64, u16)>,
    }

    const ALL: Channel<'static> = Channel::new("all");

    impl Plugin for Puppet {
        fn on_open(&mut self, conn: Connection) {
            assert_eq!(conn.subscribe(ALL.name()), Ok(()));
        }

        fn on_message(&mut self, conn: Connection, message: Message) {
            match message.as_text().unwrap() {
                "count" => {
                    conn.unsubscribe(ALL.name()).unwrap();
                    conn.send(ALL.subscribers().to_string()).unwrap();
                }
                "others" => ALL.publish_except("psst", conn).unwrap(),
                "frame" => {
                    let frame = Frame::new(b"once");
                    ALL.publish_frame(&frame).unwrap();
                    crate::broadcast_frame(&frame).unwrap();
                }
                "bye" => {
                    conn.send("last words").unwrap();
                    conn.close(4000, "bye").unwrap();
                    assert_eq!(conn.send("too late"), Err(EffectError::NotOpen));
                }
                "codes" => {
                    for code in [999, 1004, 1006, 1015, 2999, 5000] {
                        assert_eq!(conn.close(code, ""), Err(CloseError::InvalidCode));
                    }
                    let reason = "x".repeat(124);
                    assert_eq!(conn.close(1000, &reason), Err(CloseError::ReasonTooLong));
                    assert_eq!(conn.close(1000, &reason[1..]), Ok(()));
                }
                "note" => {
                    conn.set_attachment(b"mine").unwrap();
                    assert_eq!(conn.attachment().unwrap(), b"mine");
                    let large = vec![0; (16 << 10) + 1];
                    assert_eq!(conn.set_attachment(&large), Err(EffectError::TooLarge));
                    assert_eq!(conn.set_attachment(&large[1..]), Ok(()));
                }
                other => panic!("unknown message {other}"),
            }
        }

        fn on_close(&mut self, conn: Connection, close: Close) {
            assert_eq!(conn.send("hello?"), Err(EffectError::NotOpen));
            assert!(conn.upgrade_request().is_some());
            ALL.publish(format!("{} left", conn.id())).unwrap();
            self.closed.push((conn.id(), close.code.get()));
        }
    }

    #[test]
    fn a_handler_does_not_see_its_own_subscriptions_counted() {
        let mut host = Host::<Puppet>::new();
        let (one, two) = (host.open("/"), host.open("/"));
        host.receive(one, "count");
        assert_eq!(host.sent(one), [Message::from("2")]);
        host.receive(two, "count");
        assert_eq!(host.sent(two), [Message::from("1")]);
    }

    #[test]
    fn publishing_spares_the_excepted_connection() {
        let mut host = Host::<Puppet>::new();
        let (one, two) = (host.open("/"), host.open("/"));
        host.receive(one, "others");
        assert_eq!(host.sent(one), []);
        assert_eq!(host.sent(two), [Message::from("psst")]);
        host.receive(one, "frame");
        assert_eq!(host.sent(two), vec![Message::Binary(b"once".to_vec()); 2]);
    }

    #[test]
    fn closing_comes_once_after_what_was_sent() {
        let mut host = Host::<Puppet>::new();
        let (one, two) = (host.open("/"), host.open("/"));
        host.receive(one, "bye");
        host.close(one, 1000, "again");
        host.receive(one, "bye");
        assert_eq!(host.sent(one), [Message::from("last words")]);
        assert_eq!(host.sent(two), [Message::from("1 left")]);
        assert_eq!(host.closed(one).unwrap().code.get(), 4000);
        assert_eq!(host.closed(two), None);
        assert_eq!(host.plugin().closed, [(one.id(), 4000)]);
        assert_eq!(one.upgrade_request(), None);
    }

    #[test]
    fn limits_hold_at_their_edge() {
        let mut host = Host::<Puppet>::new();
        let (one, two) = (host.open("/"), host.open("/"));
        host.receive(two, "note");
        assert_eq!(two.attachment().unwrap().len(), 16 << 10);
        assert_eq!(two.subscribe(&"n".repeat(255)), Ok(()));
        assert_eq!(two.subscribe(&"n".repeat(256)), Err(EffectError::TooLarge));
        assert_eq!(two.subscribe(""), Err(EffectError::TooLarge));
        let large = vec![0; (4 << 20) + 1];
        assert_eq!(two.send(&large), Err(EffectError::TooLarge));
        assert_eq!(two.send(&large[1..]), Ok(()));
        host.receive(one, "codes");
        assert_eq!(host.closed(one).unwrap().reason.len(), 123);
    }
}
